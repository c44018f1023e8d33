//! Tokens of a code block → statements.

use super::lexer::{Token, tokens};

#[derive(Clone, Debug)]
pub(super) enum Statement {
    /// An assertion; `source` is the text of `test`.
    Assert { test: Expr, source: String },
    /// `name = value`, or `name += value`.
    Assign { name: String, operator: Option<Operator>, value: Expr },
    /// A `print` statement, which does nothing.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Floor,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Debug)]
pub(super) enum Expr {
    Number(f64),
    Text(String),
    Name(String),
    Tuple(Vec<Expr>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// `a < b <= c`.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    Call(String, Vec<Expr>),
}

impl Expr {
    /// Appends the names that the expression reads.
    pub(super) fn names(&self, all: &mut Vec<String>) {
        match self {
            Self::Number(_) | Self::Text(_) => {}
            Self::Name(name) => all.push(name.clone()),
            Self::Tuple(items) | Self::Call(_, items) => items.iter().for_each(|item| item.names(all)),
            Self::Not(inner) | Self::Negative(inner) => inner.names(all),
            Self::And(left, right) | Self::Or(left, right) | Self::Binary(_, left, right) => {
                left.names(all);
                right.names(all);
            }
            Self::Compare(first, rest) => {
                first.names(all);
                rest.iter().for_each(|(_, item)| item.names(all));
            }
        }
    }
}

/// Limits of a block, because expressions are parsed and evaluated by recursion.
const TOKENS_MAX: usize = 4_000;
const DEPTH_MAX: u32 = 50;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, usize)>,
    at: usize,
    /// Depth of nested expressions: signs, negations, parentheses, arguments.
    depth: u32,
}

type Parsed<T> = Result<T, String>;

/// The statements of a block.
pub(super) fn statements(text: &str) -> Parsed<Vec<Statement>> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    if parser.tokens.len() > TOKENS_MAX {
        return Err(format!("{} words and signs; accepted: at most {TOKENS_MAX}", parser.tokens.len()));
    }
    let mut all = Vec::new();
    while parser.at < parser.tokens.len() {
        if parser.take_end() {
            continue;
        }
        all.push(parser.statement()?);
        if !parser.take_end() {
            return Err(format!("'{}' is not understood", parser.rest()));
        }
    }
    Ok(all)
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |&(_, at)| at)
    }

    /// The rest of the current line, for messages.
    fn rest(&self) -> &str {
        self.text[self.offset()..].lines().next().unwrap_or("")
    }

    fn take_end(&mut self) -> bool {
        let found = *self.peek() == Token::End;
        self.at += usize::from(found);
        found
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(own) if *own == sign);
        self.at += usize::from(found);
        found
    }

    fn take_name(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(own) if own == name);
        self.at += usize::from(found);
        found
    }

    /// Parses an expression within another expression.
    fn nested(&mut self, read: fn(&mut Self) -> Parsed<Expr>) -> Parsed<Expr> {
        if self.depth == DEPTH_MAX {
            return Err(format!("expressions nested too deeply; accepted: at most {DEPTH_MAX} levels"));
        }
        self.depth += 1;
        let inner = read(self);
        self.depth -= 1;
        inner
    }

    fn statement(&mut self) -> Parsed<Statement> {
        if self.take_name("assert") {
            let start = self.offset();
            let test = self.either()?;
            let source = self.text[start..self.offset()].trim().to_owned();
            if self.take(",") {
                self.either()?;
            }
            return Ok(Statement::Assert { test, source });
        }
        if self.take_name("print") {
            while *self.peek() != Token::End {
                self.at += 1;
            }
            return Ok(Statement::Nothing);
        }
        let Token::Name(name) = self.peek().clone() else {
            return Err(format!("'{}' is no statement; accepted: assert, print, name = value", self.rest()));
        };
        self.at += 1;
        let operator = match self.peek() {
            Token::Sign("=") => None,
            Token::Sign("+=") => Some(Operator::Add),
            Token::Sign("-=") => Some(Operator::Subtract),
            Token::Sign("*=") => Some(Operator::Multiply),
            _ => return Err(format!("'{name} {}': accepted: assert, print, name = value", self.rest())),
        };
        self.at += 1;
        Ok(Statement::Assign { name, operator, value: self.either()? })
    }

    fn either(&mut self) -> Parsed<Expr> {
        let mut left = self.both()?;
        while self.take_name("or") {
            left = Expr::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Parsed<Expr> {
        let mut left = self.negation()?;
        while self.take_name("and") {
            left = Expr::And(Box::new(left), Box::new(self.negation()?));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Parsed<Expr> {
        if self.take_name("not") {
            return Ok(Expr::Not(Box::new(self.nested(Self::negation)?)));
        }
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let comparison = match self.peek() {
                Token::Sign("==") => Comparison::Equal,
                Token::Sign("!=") => Comparison::Unequal,
                Token::Sign("<") => Comparison::Less,
                Token::Sign("<=") => Comparison::LessEqual,
                Token::Sign(">") => Comparison::Greater,
                Token::Sign(">=") => Comparison::GreaterEqual,
                _ => break,
            };
            self.at += 1;
            rest.push((comparison, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    fn sum(&mut self) -> Parsed<Expr> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Token::Sign("+") => Operator::Add,
                Token::Sign("-") => Operator::Subtract,
                _ => return Ok(left),
            };
            self.at += 1;
            left = Expr::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Parsed<Expr> {
        let mut left = self.atom()?;
        loop {
            let operator = match self.peek() {
                Token::Sign("*") => Operator::Multiply,
                Token::Sign("/") => Operator::Divide,
                Token::Sign("//") => Operator::Floor,
                Token::Sign("%") => Operator::Remainder,
                _ => return Ok(left),
            };
            self.at += 1;
            left = Expr::Binary(operator, Box::new(left), Box::new(self.atom()?));
        }
    }

    fn atom(&mut self) -> Parsed<Expr> {
        let token = self.peek().clone();
        let rest = self.rest().to_owned();
        self.at += 1;
        match token {
            Token::Number(value) => Ok(Expr::Number(value)),
            Token::Text(text) => Ok(Expr::Text(text)),
            Token::Sign("-") => Ok(Expr::Negative(Box::new(self.nested(Self::atom)?))),
            Token::Sign("(") => {
                let mut items = self.arguments()?;
                match (items.len(), items.pop()) {
                    (1, Some(only)) => Ok(only),
                    (_, Some(last)) => {
                        items.push(last);
                        Ok(Expr::Tuple(items))
                    }
                    _ => Ok(Expr::Tuple(items)),
                }
            }
            Token::Name(name) if self.take("(") => Ok(Expr::Call(name, self.arguments()?)),
            Token::Name(name) => match name.as_str() {
                "True" => Ok(Expr::Number(1.0)),
                "False" | "None" => Ok(Expr::Number(0.0)),
                _ => Ok(Expr::Name(name)),
            },
            _ => Err(format!("a value is missing before '{rest}'")),
        }
    }

    /// Parses expressions separated by commas, up to and including `)`.
    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut all = Vec::new();
        while !self.take(")") {
            all.push(self.nested(Self::either)?);
            if !self.take(",") && !matches!(self.peek(), Token::Sign(")")) {
                return Err(format!("')' is missing before '{}'", self.rest()));
            }
        }
        Ok(all)
    }
}
