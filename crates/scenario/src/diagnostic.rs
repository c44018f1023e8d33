//! Diagnostics: each has a location, the problem and the accepted values.

use std::fmt;

use narrows_cc::Nanos;
use serde::{Deserialize, Serialize};

/// The location of a value in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// The location is unknown, because JSON values have none.
    Unknown,
    /// The value begins at this byte of the text.
    Text(usize),
    /// The value was set on the command line.
    CommandLine,
}

/// The source name of values from the command line.
pub(crate) const COMMAND_LINE: &str = "command line";

/// Error of an invalid scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, or "command line".
    pub source: String,
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The column in characters, counted from 1.
    pub column: Option<usize>,
    /// The dotted key, such as `flows.0.rtt`.
    pub key: Option<String>,
    /// The problem.
    pub message: String,
    /// The values accepted.
    pub accepted: Option<String>,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.accepted {
            Some(accepted) => write!(f, "\n  accepted: {accepted}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// A warning about a scenario that is valid, but perhaps not as intended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The file, or "command line".
    pub source: String,
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The problem.
    pub message: String,
}

impl From<ScenarioError> for Warning {
    fn from(found: ScenarioError) -> Self {
        Self { source: found.source, line: found.line, message: found.message }
    }
}

/// A diagnostic under construction. Each caller adds its part in front of the key, and the first caller that
/// knows the location sets it.
#[derive(Clone, Debug)]
pub(crate) struct Diagnostic(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    at: Option<Location>,
    key: String,
    message: String,
    accepted: Option<String>,
}

impl Diagnostic {
    /// A problem with `key`.
    pub(crate) fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { at: None, key: key.into(), message: message.into(), accepted: None }))
    }

    /// A missing key.
    pub(crate) fn missing(key: &str) -> Self {
        Self::new(key, "this key is missing")
    }

    /// Adds a description of the accepted values.
    pub(crate) fn accepted(mut self, accepted: impl Into<String>) -> Self {
        self.0.accepted = Some(accepted.into());
        self
    }

    /// Sets the location, unless it is already set.
    pub(crate) fn at(mut self, location: Location) -> Self {
        self.0.at.get_or_insert(location);
        self
    }

    /// Prefixes the key with `segment` and a dot.
    pub(crate) fn within(mut self, segment: &str) -> Self {
        self.0.key = match self.0.key.as_str() {
            "" => segment.to_owned(),
            key => format!("{segment}.{key}"),
        };
        self
    }

    /// Converts the diagnostic to the public error. `locate` finds the location of a key if the diagnostic has none.
    pub(crate) fn report(self, name: &str, text: &str, locate: impl FnOnce(&str) -> Location) -> ScenarioError {
        let Inner { at, key, message, accepted } = *self.0;
        let location = at.unwrap_or_else(|| locate(&key));
        let (source, place) = match location {
            Location::Unknown => (name, None),
            Location::CommandLine => (COMMAND_LINE, None),
            Location::Text(offset) => (name, Some(place(text, offset))),
        };
        ScenarioError {
            source: source.to_owned(),
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            key: (!key.is_empty()).then_some(key),
            message,
            accepted,
        }
    }
}

/// Returns the error about `key`, with the problem and the accepted values.
pub(crate) fn refuse<T>(
    key: impl Into<String>,
    message: impl Into<String>,
    accepted: impl Into<String>,
) -> Result<T, Diagnostic> {
    Err(Diagnostic::new(key, message).accepted(accepted))
}

/// The dotted key of `name` in `table`; an empty `table` stands for the top level.
pub(crate) fn key_in(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// Formats a time in seconds if it is a multiple of one second, else in milliseconds.
pub(crate) fn show(time: Nanos) -> String {
    match time.as_nanos() % 1_000_000_000 {
        0 => format!("{}s", time.as_nanos() / 1_000_000_000),
        _ => format!("{}ms", time.as_millis_f64()),
    }
}

/// Line and column, both counted from 1, of the byte at `offset`.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Diagnostic {}

/// Creates the error for a name that is not among `known`; suggests the nearest known name and lists all known names.
pub(crate) fn unknown<'a>(message: &str, found: &str, known: impl Iterator<Item = &'a str> + Clone) -> Diagnostic {
    let message = match nearest(found, known.clone()) {
        Some(name) => format!("{message}; did you mean `{name}`?"),
        None => message.to_owned(),
    };
    Diagnostic::new("", message).accepted(known.collect::<Vec<_>>().join(", "))
}

/// The known name nearest to `found`, if the edit distance is small enough for a typing error.
fn nearest<'a>(found: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = found.chars().count();
    let allowed = (1 + length / 4).min(length.saturating_sub(1));
    known
        .map(|name| (edit_distance(found, name), name))
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// Number of insertions, deletions and replacements that turn `a` into `b` (Levenshtein 1966).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Edit distances equal those of the textbook examples.
    #[test]
    fn edit_distance_matches_the_textbook() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("bbr", "bbr"), 0);
    }

    /// For a misspelt name, the nearest known name is found; for an unrelated word, none is.
    #[test]
    fn nearest_finds_a_slip_but_not_another_word() {
        let known = ["buffer", "rate"];
        assert_eq!(nearest("bufer", known.into_iter()), Some("buffer"));
        assert_eq!(nearest("queue", known.into_iter()), None);
    }

    /// Lines and columns are numbered from one, and columns count characters, not bytes.
    #[test]
    fn place_counts_lines_and_characters_from_one() {
        assert_eq!(place("a\nbc", 0), (1, 1));
        assert_eq!(place("a\nbc", 3), (2, 2));
        assert_eq!(place("# é\né = 1", 7), (2, 2));
    }
}
