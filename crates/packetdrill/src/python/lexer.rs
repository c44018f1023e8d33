//! Text of a code block → tokens.

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Text(String),
    Name(String),
    /// An operator or bracket.
    Sign(&'static str),
    /// A line end outside brackets, or `;`.
    End,
}

/// Operators and brackets, longest first.
const SIGNS: &[&str] =
    &["==", "!=", "<=", ">=", "//", "+=", "-=", "*=", "<", ">", "+", "-", "*", "/", "%", "=", "(", ")", ","];

/// The tokens of a code block, each with the byte offset of its start.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, String> {
    let mut all = Vec::new();
    let mut at = 0;
    let mut depth = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let word = |from: &str| {
            from.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(from.len())
        };
        if rest.starts_with("\\\n") {
            at += 2;
        } else if c == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if c == ';' || (c == '\n' && depth == 0) {
            all.push((Token::End, at));
            at += 1;
        } else if c.is_whitespace() {
            at += c.len_utf8();
        } else if c == '\'' || c == '"' {
            let end = rest[1..].find(c).ok_or_else(|| format!("a text without its end: {rest}"))?;
            all.push((Token::Text(rest[1..=end].to_owned()), at));
            at += end + 2;
        } else if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|d: char| d.is_ascii_digit())) {
            let digits = &rest[..word(rest)];
            let value = match digits.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok().map(|value| value as f64),
                None => digits.parse().ok(),
            };
            all.push((Token::Number(value.ok_or_else(|| format!("'{digits}' is no number"))?), at));
            at += digits.len();
        } else if c.is_ascii_alphabetic() || c == '_' {
            all.push((Token::Name(rest[..word(rest)].to_owned()), at));
            at += word(rest);
        } else {
            let found = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = *found.ok_or_else(|| format!("'{c}' has no meaning here"))?;
            depth += i32::from(sign == "(") - i32::from(sign == ")");
            all.push((Token::Sign(sign), at));
            at += sign.len();
        }
    }
    all.push((Token::End, text.len()));
    Ok(all)
}
