//! Tokens → script. Here is the grammar of scripts and events; `packet` and `call` parse packets and calls.

mod call;
mod packet;
#[cfg(test)]
mod tests;

use crate::lexer::{Placed, Token, tokens};
use crate::script::{Action, Event, Problem, Script, Setting, Time};

/// A parser over the tokens of a script; `at` is the next token.
struct Parser {
    tokens: Vec<Placed>,
    at: usize,
}

type Parsed<T> = Result<T, Problem>;

/// Parses a script.
///
/// # Errors
/// A syntax error, or an unsupported kind of packet or option.
pub(crate) fn parse(text: &str) -> Parsed<Script> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut script = Script::default();
    while let Some(Token::Option(name, value)) = parser.peek().cloned() {
        script.options.push(Setting { line: parser.line(), name, value });
        parser.at += 1;
    }
    if let Some(Token::Shell(text)) = parser.peek() {
        script.setup = Some((parser.line(), text.clone()));
        parser.at += 1;
    }
    while let Some(token) = parser.peek() {
        if let Token::Shell(text) = token {
            let line = parser.line();
            script.cleanup = Some((line, text.clone()));
            parser.at += 1;
            if parser.peek().is_some() {
                let reason = "a command without a time; accepted: before the first event and after the last";
                return Err(Problem::syntax(line, reason));
            }
        } else {
            script.events.push(parser.event()?);
        }
    }
    if script.events.is_empty() {
        return Err(Problem::syntax(parser.line(), "no events; accepted: lines such as '+0 write(4, ..., 10) = 10'"));
    }
    Ok(script)
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    fn peek_after(&self) -> Option<&Token> {
        self.tokens.get(self.at + 1).map(|placed| &placed.token)
    }

    /// Line of the next token; at the end, line of the last token.
    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |placed| placed.line)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    /// Returns an error at the next token.
    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::Int(value)) => value.to_string(),
            Some(Token::Float(value)) => value.to_string(),
            Some(Token::Word(word)) => format!("'{word}'"),
            Some(Token::Sign(sign)) => format!("'{sign}'"),
            Some(Token::Ellipsis) => "'...'".to_owned(),
            Some(Token::Option(name, _)) => format!("'--{name}'"),
            Some(Token::Text(_)) => "a text".to_owned(),
            Some(Token::Shell(_)) => "a shell command".to_owned(),
            Some(Token::Code(_)) => "a code block".to_owned(),
        };
        Err(Problem::syntax(self.line(), format!("{found} found; accepted: {what}")))
    }

    fn is_sign(&self, sign: char) -> bool {
        self.peek() == Some(&Token::Sign(sign))
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(own)) if own == word)
    }

    /// Skips the sign if it is the next token; returns whether it was.
    fn take(&mut self, sign: char) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn demand(&mut self, sign: char) -> Parsed<()> {
        if self.take(sign) { Ok(()) } else { self.expected(&format!("'{sign}'")) }
    }

    fn int(&mut self) -> Parsed<i64> {
        let Some(&Token::Int(value)) = self.peek() else { return self.expected("a whole number") };
        self.at += 1;
        Ok(value)
    }

    /// Reads a whole number that fits an unsigned type.
    fn unsigned<T: TryFrom<i64>>(&mut self) -> Parsed<T> {
        let line = self.line();
        let value = self.int()?;
        T::try_from(value).map_err(|_| Problem::syntax(line, format!("{value} is out of range here")))
    }

    fn event(&mut self) -> Parsed<Event> {
        let line = self.line();
        let time = self.time()?;
        let end = self.end_of_call(time)?;
        let action = match self.peek().cloned() {
            Some(Token::Sign('<')) => Action::Inbound(self.packet(true)?),
            Some(Token::Sign('>')) => Action::Outbound(self.packet(false)?),
            Some(Token::Word(_)) => Action::Call { call: self.call()?, end },
            Some(Token::Shell(text)) => Action::Shell(text),
            Some(Token::Code(text)) => Action::Code(text),
            _ => return self.expected("a packet (< or >), a system call, `command` or %{ code }%"),
        };
        self.at += usize::from(matches!(action, Action::Shell(_) | Action::Code(_)));
        let flexible = matches!(time, Time::Any | Time::At { range: true, .. });
        if flexible && !matches!(action, Action::Outbound(_)) {
            return Err(Problem::syntax(line, "only a packet sent (>) may have '*' or a range as its time"));
        }
        if end.is_some() && !matches!(action, Action::Call { .. }) {
            return Err(Problem::syntax(line, "only a system call may have a duration (...)"));
        }
        Ok(Event { line, time, action })
    }

    fn seconds(&mut self) -> Parsed<u64> {
        let line = self.line();
        let value = match self.peek() {
            Some(&Token::Int(value)) => value as f64,
            Some(&Token::Float(value)) => value,
            _ => return self.expected("a time in seconds, such as 0.1, +.1, .1~.2 or *"),
        };
        self.at += 1;
        if !(0.0..1e9).contains(&value) {
            return Err(Problem::syntax(line, format!("the time {value} is out of range; accepted: 0 or more")));
        }
        Ok((value * 1e9).round() as u64)
    }

    fn time(&mut self) -> Parsed<Time> {
        if self.take('*') {
            return Ok(Time::Any);
        }
        let line = self.line();
        let relative = self.take('+');
        let first = self.seconds()?;
        let range = self.take('~');
        let mut last = first;
        if range {
            if self.take('+') != relative {
                return Err(Problem::syntax(line, "one end of the time range is relative and the other is not"));
            }
            last = self.seconds()?;
        }
        if last < first {
            return Err(Problem::syntax(line, "the time range is backwards"));
        }
        Ok(Time::At { first, last, relative, range })
    }

    /// Reads the return time of a blocking call: `...0.2` after the start time.
    fn end_of_call(&mut self, time: Time) -> Parsed<Option<u64>> {
        if self.peek() != Some(&Token::Ellipsis) {
            return Ok(None);
        }
        let line = self.line();
        self.at += 1;
        let end = self.seconds()?;
        match time {
            Time::At { first, .. } if first <= end => Ok(Some(end)),
            _ => Err(Problem::syntax(line, "the call would end before it begins")),
        }
    }
}
