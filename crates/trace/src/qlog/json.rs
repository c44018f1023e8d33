//! Records as JSON text sequences. Events are formatted without a JSON library for speed, because each packet
//! causes several.

use std::fmt::{Display, Write as _};
use std::io::Write;

use narrows_cc::Nanos;
use serde_json::Value;

/// Begins a record (RFC 7464).
const SEPARATOR: u8 = 0x1e;

/// Appends a value as a record.
pub(super) fn record(out: &mut Vec<u8>, value: &Value) {
    out.push(SEPARATOR);
    // Writing to a vector cannot fail, nor can a value of strings and finite numbers.
    let _ = writeln!(out, "{value}");
}

/// The field that names the flow of an event.
pub(super) fn group(name: &str) -> String {
    format!(",\"group_id\":{}", Value::from(name))
}

/// Nanoseconds as exact decimal milliseconds.
pub(super) struct Millis(pub(super) Nanos);

impl Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{:06}", nanos / 1_000_000, nanos % 1_000_000)
    }
}

/// Output buffer for one flow's events at one time.
pub(super) struct Event<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) now: Nanos,
    pub(super) group: &'a str,
}

impl Event<'_> {
    /// Appends an event; `data` is the string of its JSON object.
    pub(super) fn write(&mut self, name: &str, data: impl Display) {
        self.out.push(SEPARATOR);
        let (time, group) = (Millis(self.now), self.group);
        let _ = writeln!(self.out, "{{\"time\":{time},\"name\":\"{name}\"{group},\"data\":{data}}}");
    }
}

/// The string of a JSON object whose members are numbers.
#[derive(Default)]
pub(super) struct Members(String);

impl Members {
    /// Appends a member to the object.
    pub(super) fn add(&mut self, name: &str, value: impl Display) {
        let comma = if self.0.is_empty() { "" } else { "," };
        let _ = write!(self.0, "{comma}\"{name}\":{value}");
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Display for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{}}}", self.0)
    }
}

/// Ranges of packet numbers, lowest first.
pub(super) struct Ranges<'a>(pub(super) &'a [(u64, u64)]);

impl Display for Ranges<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for (i, (first, last)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}[{first}]")?;
            } else {
                write!(f, "{comma}[{first},{last}]")?;
            }
        }
        f.write_str("]")
    }
}

/// A list of numbers.
pub(super) struct List<I>(pub(super) I);

impl<I: Iterator<Item = u64> + Clone> Display for List<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for (i, number) in self.0.clone().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{number}")?;
        }
        f.write_str("]")
    }
}
