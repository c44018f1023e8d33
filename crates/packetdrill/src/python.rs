//! Code blocks: assertions over `TCP_INFO` in a small subset of Python.
//!
//! Statements are `assert`, `print(…)` (ignored) and assignments, separated by line ends or `;`. Expressions consist of
//! numbers, strings, names, `and`, `or`, `not`, chained comparisons, `+ - * / // %`, calls of `abs`, `min`, `max`,
//! `int`, `round`, and tuples.

mod lexer;
mod parser;

use std::collections::BTreeMap;

use parser::{Comparison, Expr, Operator, Statement};

/// A value.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Text(String),
    Tuple(Vec<Value>),
}

impl Value {
    fn is_true(&self) -> bool {
        match self {
            Self::Number(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Tuple(items) => !items.is_empty(),
        }
    }

    fn number(&self) -> Result<f64, String> {
        match self {
            Self::Number(value) => Ok(*value),
            _ => Err(format!("{self} is no number")),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
            Self::Tuple(items) => {
                let items: Vec<String> = items.iter().map(Self::to_string).collect();
                write!(f, "({})", items.join(", "))
            }
        }
    }
}

/// Failure of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An assertion is false: the source of the assertion, and its names with their values.
    Asserted(String),
    /// The block is not in the supported subset of Python, or an evaluation failed: the reason.
    Broken(String),
    /// An undefined name.
    Unknown(String),
}

/// Variables that blocks have assigned.
pub(crate) type Variables = BTreeMap<String, Number>;

/// The value of a variable.
pub(crate) type Number = f64;

/// A parsed code block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    statements: Vec<Statement>,
}

impl Block {
    /// Parses a block.
    ///
    /// # Errors
    /// The text is not in the supported subset of Python.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parser::statements(text).map(|statements| Self { statements })
    }

    /// Names that the block reads, functions excluded.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for statement in &self.statements {
            match statement {
                Statement::Assert { test, .. } => test.names(&mut names),
                Statement::Assign { value, .. } => value.names(&mut names),
                Statement::Nothing => {}
            }
        }
        names
    }

    /// Runs the block. `look_up` returns the values of names that no block has assigned.
    ///
    /// # Errors
    /// The first statement that fails.
    pub(crate) fn run(
        &self,
        variables: &mut Variables,
        look_up: &dyn Fn(&str) -> Option<Number>,
    ) -> Result<(), Failure> {
        for statement in &self.statements {
            match statement {
                Statement::Nothing => {}
                Statement::Assign { name, operator, value } => {
                    let scope = Scope { variables, look_up };
                    let mut value = scope.number(value)?;
                    if let Some(operator) = operator {
                        let old = scope.number(&Expr::Name(name.clone()))?;
                        value = arithmetic(*operator, old, value).map_err(Failure::Broken)?;
                    }
                    variables.insert(name.clone(), value);
                }
                Statement::Assert { test, source } => {
                    let scope = Scope { variables, look_up };
                    if !scope.value(test)?.is_true() {
                        return Err(Failure::Asserted(scope.explain(test, source)));
                    }
                }
            }
        }
        Ok(())
    }
}

struct Scope<'a> {
    variables: &'a Variables,
    look_up: &'a dyn Fn(&str) -> Option<Number>,
}

impl Scope<'_> {
    /// Describes a false assertion: its source, and the values of its names.
    fn explain(&self, test: &Expr, source: &str) -> String {
        let mut names = Vec::new();
        test.names(&mut names);
        names.dedup();
        let mut seen = Vec::new();
        for name in names {
            let constant = name.chars().any(|c| c.is_ascii_lowercase());
            if let Ok(value) = self.number(&Expr::Name(name.clone()))
                && (constant || !name.starts_with("TCP_CA_"))
            {
                seen.push(format!("{name} = {value}"));
            }
        }
        format!("expected {source}; seen {}", seen.join(", "))
    }

    fn number(&self, expr: &Expr) -> Result<f64, Failure> {
        self.value(expr)?.number().map_err(Failure::Broken)
    }

    fn value(&self, expr: &Expr) -> Result<Value, Failure> {
        Ok(match expr {
            Expr::Number(value) => Value::Number(*value),
            Expr::Text(text) => Value::Text(text.clone()),
            Expr::Name(name) => {
                let found = self.variables.get(name).copied().or_else(|| (self.look_up)(name));
                Value::Number(found.ok_or_else(|| Failure::Unknown(name.clone()))?)
            }
            Expr::Tuple(items) => Value::Tuple(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?),
            Expr::Not(inner) => truth(!self.value(inner)?.is_true()),
            Expr::Negative(inner) => Value::Number(-self.number(inner)?),
            Expr::And(left, right) => {
                let left = self.value(left)?;
                if left.is_true() { self.value(right)? } else { left }
            }
            Expr::Or(left, right) => {
                let left = self.value(left)?;
                if left.is_true() { left } else { self.value(right)? }
            }
            Expr::Binary(operator, left, right) => {
                let left = self.value(left)?;
                let right = self.value(right)?;
                if let (Value::Text(text), Operator::Remainder) = (&left, operator) {
                    // `'%d' % value` only formats a message, so the exact text does not matter.
                    return Ok(Value::Text(format!("{text} {right}")));
                }
                let (left, right) = (left.number().map_err(Failure::Broken)?, right.number().map_err(Failure::Broken)?);
                Value::Number(arithmetic(*operator, left, right).map_err(Failure::Broken)?)
            }
            Expr::Compare(first, rest) => {
                let mut left = self.value(first)?;
                for (comparison, right) in rest {
                    let right = self.value(right)?;
                    if !compare(*comparison, &left, &right).map_err(Failure::Broken)? {
                        return Ok(truth(false));
                    }
                    left = right;
                }
                truth(true)
            }
            Expr::Call(name, args) => {
                let args: Vec<f64> = args.iter().map(|arg| self.number(arg)).collect::<Result<_, _>>()?;
                Value::Number(call(name, &args).map_err(Failure::Broken)?)
            }
        })
    }
}

fn truth(value: bool) -> Value {
    Value::Number(f64::from(u8::from(value)))
}

fn arithmetic(operator: Operator, left: f64, right: f64) -> Result<f64, String> {
    let divides = matches!(operator, Operator::Divide | Operator::Floor | Operator::Remainder);
    if divides && right == 0.0 {
        return Err("division by zero".to_owned());
    }
    Ok(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Floor => (left / right).floor(),
        Operator::Remainder => left - right * (left / right).floor(),
    })
}

fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool, String> {
    match comparison {
        Comparison::Equal => return Ok(left == right),
        Comparison::Unequal => return Ok(left != right),
        _ => {}
    }
    let (left, right) = (left.number()?, right.number()?);
    Ok(match comparison {
        Comparison::Less => left < right,
        Comparison::LessEqual => left <= right,
        Comparison::Greater => left > right,
        _ => left >= right,
    })
}

fn call(name: &str, args: &[f64]) -> Result<f64, String> {
    let all = args.iter().copied();
    match (name, args) {
        ("abs", [value]) => Ok(value.abs()),
        ("int", [value]) => Ok(value.trunc()),
        ("round", [value]) => Ok(value.round_ties_even()),
        ("min", [_, ..]) => Ok(all.fold(f64::INFINITY, f64::min)),
        ("max", [_, ..]) => Ok(all.fold(f64::NEG_INFINITY, f64::max)),
        _ => Err(format!("the call {name}(); accepted: abs, int, round, min, max")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<(), Failure> {
        let look_up = |name: &str| match name {
            "tcpi_snd_cwnd" => Some(10.0),
            "tcpi_lost" => Some(0.0),
            "TCP_CA_Open" => Some(0.0),
            _ => None,
        };
        let block = Block::parse(text).map_err(Failure::Broken)?;
        block.run(&mut Variables::new(), &look_up)
    }

    /// Nesting and length of a block are limited, because expressions are parsed and evaluated by recursion.
    #[test]
    fn python_bounds_nesting_and_length() {
        let (open, close) = ("(".repeat(50), ")".repeat(50));
        assert_eq!(run(&format!("assert {open}1{close}")), Ok(()));
        let nested = [format!("({open}1{close})"), "-".repeat(90_000) + "1", "not ".repeat(51) + "1"];
        for text in nested.iter().chain([&("1".to_owned() + &"+1".repeat(50_000))]) {
            let Err(Failure::Broken(reason)) = run(&format!("assert {text}")) else { panic!("accepted") };
            assert!(reason.contains("accepted: at most"), "{reason}");
        }
        assert_eq!(run(&format!("assert {}", "1+".repeat(1_900) + "1")), Ok(()));
    }

    /// All forms of statements that scripts use are supported.
    #[test]
    fn python_runs_the_forms_that_scripts_use() {
        for text in [
            "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd",
            "assert tcpi_snd_cwnd == 10, 'cwnd=%d' % tcpi_snd_cwnd",
            "\nassert 9 <= tcpi_snd_cwnd <= 11, 'a %d b %d' % (tcpi_lost, tcpi_snd_cwnd)\n# remark\n",
            "assert tcpi_lost == 0; assert tcpi_snd_cwnd == 10; \\\n   assert not tcpi_lost",
            "print(tcpi_snd_cwnd); cwnd = 5; cwnd += 5; assert tcpi_snd_cwnd == cwnd",
            "assert tcpi_lost == TCP_CA_Open or tcpi_missing == 1",
            "assert (tcpi_snd_cwnd - 1) * 2 // 4 % 3 == 1 and abs(-2) == 2",
            "X = 0x7fffffff\nassert X == 2147483647",
            "print tcpi_snd_cwnd",
        ] {
            assert_eq!(run(text), Ok(()), "{text}");
        }
    }

    /// The error of a false assertion shows the assertion's source and the observed values.
    #[test]
    fn python_false_assertion_shows_values() {
        let seen = run("assert tcpi_snd_cwnd == 12 and tcpi_lost == 0, tcpi_snd_cwnd");
        let text = "expected tcpi_snd_cwnd == 12 and tcpi_lost == 0; seen tcpi_snd_cwnd = 10, tcpi_lost = 0";
        assert_eq!(seen, Err(Failure::Asserted(text.to_owned())));
    }

    /// Undefined names and invalid Python are reported as different errors.
    #[test]
    fn python_reports_unknown_names_and_broken_text() {
        assert_eq!(run("assert tcpi_nothing == 1"), Err(Failure::Unknown("tcpi_nothing".to_owned())));
        assert!(matches!(run("assert 1 +"), Err(Failure::Broken(_))));
        assert!(matches!(run("for x in y: pass"), Err(Failure::Broken(_))));
        assert!(matches!(run("assert 1 / tcpi_lost"), Err(Failure::Broken(_))));
    }
}
