//! System calls: `write(4, ..., 1000) = 1000`, `connect(3, ..., ...) = -1 EINPROGRESS (Operation …)`.

use super::{Parsed, Parser};
use crate::lexer::Token;
use crate::script::{Call, Value};

impl Parser {
    pub(super) fn call(&mut self) -> Parsed<Call> {
        let Some(Token::Word(name)) = self.next() else {
            self.at -= 1;
            return self.expected("the name of a system call");
        };
        self.demand('(')?;
        let args = self.values(')')?;
        self.demand('=')?;
        let result = if self.take('?') { None } else { Some(self.int()?) };
        let errno = if let Some(Token::Word(word)) = self.peek() { Some(word.clone()) } else { None };
        self.at += usize::from(errno.is_some());
        self.remark();
        Ok(Call { name, args, result, errno })
    }

    /// Skips the text of an error: `(Operation now in progress)`.
    fn remark(&mut self) {
        if !self.is_sign('(') {
            return;
        }
        let mut depth = 0;
        while let Some(token) = self.next() {
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Reads values separated by commas, up to and including `close`.
    fn values(&mut self, close: char) -> Parsed<Vec<Value>> {
        let mut all = Vec::new();
        while !self.take(close) {
            all.push(self.value()?);
            if !self.is_sign(close) {
                self.demand(',')?;
            }
        }
        Ok(all)
    }

    fn value(&mut self) -> Parsed<Value> {
        if self.take('[') {
            return Ok(Value::List(self.values(']')?));
        }
        if self.take('{') {
            return self.structure();
        }
        let value = match self.peek().cloned() {
            Some(Token::Ellipsis) => Value::Ellipsis,
            Some(Token::Int(value)) => Value::Int(value),
            Some(Token::Text(text)) => Value::Text(text),
            Some(Token::Word(_)) => return self.words(),
            _ => {
                return self.expected("an argument: ..., a number, a constant, a \"text\", [list] or {structure}");
            }
        };
        self.at += 1;
        Ok(value)
    }

    /// Reads constants joined with `|`. A call such as `htons(80)` counts as a constant with the name of the function.
    fn words(&mut self) -> Parsed<Value> {
        let mut words = Vec::new();
        loop {
            match self.next() {
                Some(Token::Word(word)) => words.push(word),
                Some(Token::Int(number)) => words.push(number.to_string()),
                _ => {
                    self.at -= 1;
                    return self.expected("a constant");
                }
            }
            if self.take('(') {
                self.values(')')?;
            }
            if !self.take('|') {
                return Ok(Value::Words(words));
            }
        }
    }

    /// Reads the fields of a structure, after `{`.
    fn structure(&mut self) -> Parsed<Value> {
        let mut fields = Vec::new();
        while !self.take('}') {
            let mut name = String::new();
            if let Some(Token::Word(word)) = self.peek().cloned() {
                let before = self.at;
                self.at += 1;
                if self.take('(') {
                    self.values(')')?;
                }
                if self.take('=') {
                    name = word;
                } else {
                    self.at = before;
                }
            }
            fields.push((name, self.value()?));
            if !self.is_sign('}') {
                self.demand(',')?;
            }
        }
        Ok(Value::Struct(fields))
    }
}
