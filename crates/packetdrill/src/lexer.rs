//! Text of a script → tokens with line numbers.

use crate::script::Problem;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A whole number, decimal or hexadecimal.
    Int(i64),
    /// A decimal number, used for times.
    Float(f64),
    /// A word, used for flags, calls and constants.
    Word(String),
    /// Text between double quotes.
    Text(String),
    /// Text between backquotes: a shell command.
    Shell(String),
    /// Text between `%{` and `}%`.
    Code(String),
    /// `--name=value`; the value may be empty.
    Option(String, String),
    /// `...`.
    Ellipsis,
    /// Any other character.
    Sign(char),
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    /// Line of the token's first character, from 1.
    pub(crate) line: usize,
    /// Whether white space precedes the token.
    pub(crate) spaced: bool,
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    /// Removes `len` bytes and returns them.
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Removes text that begins with `open` and ends with `close`; returns the text between them.
    fn between(&mut self, open: &str, close: &str, what: &str) -> Result<&'a str, Problem> {
        let line = self.line;
        let inner = &self.rest[open.len()..];
        let end = inner
            .find(close)
            .ok_or_else(|| Problem::syntax(line, format!("{what} without its end; accepted: {open} … {close}")))?;
        let taken = self.take(open.len() + end + close.len());
        Ok(&taken[open.len()..open.len() + end])
    }

    /// Removes white space and comments; returns whether it removed anything.
    fn skip_blank(&mut self) -> Result<bool, Problem> {
        let before = self.rest.len();
        loop {
            if self.rest.starts_with("//") {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(end);
            } else if self.rest.starts_with("/*") {
                self.between("/*", "*/", "a comment")?;
            } else if let Some(c) = self.rest.chars().next().filter(|c| c.is_whitespace()) {
                self.take(c.len_utf8());
            } else {
                return Ok(self.rest.len() < before);
            }
        }
    }

    fn token(&mut self) -> Result<Token, Problem> {
        let rest = self.rest;
        if rest.starts_with('`') {
            return Ok(Token::Shell(self.between("`", "`", "a shell command")?.to_owned()));
        }
        if rest.starts_with("%{") {
            return Ok(Token::Code(self.between("%{", "}%", "a code block")?.to_owned()));
        }
        if rest.starts_with('"') {
            return Ok(Token::Text(self.between("\"", "\"", "a text")?.to_owned()));
        }
        if rest.starts_with("...") {
            self.take(3);
            return Ok(Token::Ellipsis);
        }
        let word = |text: &str| text.find(|c: char| !is_word(c)).unwrap_or(text.len());
        if let Some(name) = rest.strip_prefix("--")
            && word(name) > 0
        {
            let name = self.take(2 + word(name))[2..].to_owned();
            let value = match self.rest.strip_prefix('=') {
                Some(rest) => rest.find(char::is_whitespace).unwrap_or(rest.len()) + 1,
                None => 0,
            };
            let value = self.take(value).trim_start_matches('=').trim_matches('"').to_owned();
            return Ok(Token::Option(name, value));
        }
        if let Some(number) = self.number()? {
            return Ok(number);
        }
        match word(rest) {
            0 => {
                let first = rest.chars().next().map_or(0, char::len_utf8);
                Ok(Token::Sign(self.take(first).chars().next().unwrap_or(' ')))
            }
            len => Ok(Token::Word(self.take(len).to_owned())),
        }
    }

    /// Reads a number, if one begins here. Digits followed by letters are a word, not a number.
    fn number(&mut self) -> Result<Option<Token>, Problem> {
        let rest = self.rest;
        let line = self.line;
        let bad = |text: &str| Problem::syntax(line, format!("'{text}' is too large for a number"));
        if let Some(hex) = rest.strip_prefix("0x") {
            let len = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            let text = self.take(2 + len);
            let value = u64::from_str_radix(&text[2..], 16).map_err(|_| bad(text))?;
            return Ok(Some(Token::Int(value as i64)));
        }
        let sign = usize::from(rest.starts_with('-'));
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let whole = digits(&rest[sign..]);
        let after = &rest[sign + whole..];
        if after.starts_with('.') && digits(&after[1..]) > 0 {
            let text = self.take(sign + whole + 1 + digits(&after[1..]));
            return Ok(Some(Token::Float(text.parse().map_err(|_| bad(text))?)));
        }
        if whole == 0 || after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Ok(None);
        }
        let text = self.take(sign + whole);
        Ok(Some(Token::Int(text.parse().map_err(|_| bad(text))?)))
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The tokens of a script.
///
/// # Errors
/// A comment, string, command or code block that does not end; a number out of range.
pub(crate) fn tokens(text: &str) -> Result<Vec<Placed>, Problem> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let mut all = Vec::new();
    loop {
        let spaced = lexer.skip_blank()?;
        if lexer.rest.is_empty() {
            return Ok(all);
        }
        let line = lexer.line;
        all.push(Placed { token: lexer.token()?, line, spaced });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Token> {
        tokens(text).unwrap().into_iter().map(|placed| placed.token).collect()
    }

    /// Times, ranges and end times of blocking calls are numbers and signs.
    #[test]
    fn lexer_separates_times_from_ellipses() {
        use Token::{Ellipsis, Float, Int, Sign};
        assert_eq!(kinds("+.1...0.200"), [Sign('+'), Float(0.1), Ellipsis, Float(0.2)]);
        assert_eq!(kinds("+0...2"), [Sign('+'), Int(0), Ellipsis, Int(2)]);
        assert_eq!(kinds("+.3~+.310"), [Sign('+'), Float(0.3), Sign('~'), Sign('+'), Float(0.31)]);
        let option = |name: &str, value: &str| Token::Option(name.into(), value.into());
        assert_eq!(
            kinds("--mtu=1500 --ip=fd3d::1\n--dry"),
            [option("mtu", "1500"), option("ip", "fd3d::1"), option("dry", "")]
        );
        assert_eq!(kinds("1:1001(1000)"), [Int(1), Sign(':'), Int(1001), Sign('('), Int(1000), Sign(')')]);
    }

    /// Comments are skipped, and lines within multi-line tokens are counted.
    #[test]
    fn lexer_skips_comments_and_counts_lines() {
        let all = tokens("// one\n/* two\n three */ `a\nb` -1 0x10\n%{ x }%").unwrap();
        let found: Vec<_> = all.iter().map(|placed| (placed.line, placed.token.clone())).collect();
        assert_eq!(
            found,
            [
                (3, Token::Shell("a\nb".into())),
                (4, Token::Int(-1)),
                (4, Token::Int(16)),
                (5, Token::Code(" x ".into()))
            ]
        );
    }

    /// The error for a code block that does not end names the line where the block begins.
    #[test]
    fn lexer_open_code_block_names_its_line() {
        let problem = tokens("\n+0 %{ assert 1").unwrap_err();
        assert_eq!((problem.line, problem.skips), (2, false));
        assert!(problem.reason.contains("a code block without its end"), "{}", problem.reason);
    }
}
