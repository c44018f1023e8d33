//! Converts deserialization errors to diagnostics.

use std::fmt;

use narrows_cc::schemes;
use serde::de;

use crate::diagnostic::{Diagnostic, unknown};
use crate::schema::choice::Router;
use crate::schema::place_of;

impl de::Error for Diagnostic {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let text = message.to_string();
        match text.split_once("\n  accepted: ") {
            Some((message, accepted)) => Self::new("", message).accepted(accepted),
            None => Self::new("", text),
        }
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new("", format!("found {}", describe(&found))).accepted(expected.to_string())
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        unknown(&format!("unknown value `{found}`"), found, expected.iter().copied())
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        // The key `sweep` is removed before the scenario's keys are read, so add it to the accepted keys of the
        // top level.
        let sweep = expected.contains(&"warmup").then_some("sweep");
        let known = expected.iter().copied().chain(sweep);
        match sweep.and_then(|_| place_of(found)) {
            Some(place) => Self::new("", format!("unknown key; did you mean `{place}`?"))
                .accepted(known.collect::<Vec<_>>().join(", ")),
            None => unknown("unknown key", found, known),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        let diagnostic = Self::missing(field);
        match field {
            "scheme" => {
                diagnostic.accepted(schemes::ALL.iter().map(|entry| entry.info.name).collect::<Vec<_>>().join(", "))
            }
            // Only routers cause this error here, because the reader checks the kinds of other tables.
            "kind" => diagnostic.accepted(Router::names()),
            "from" | "to" => diagnostic.accepted("the name of a node"),
            _ => diagnostic,
        }
    }

    fn duplicate_field(_field: &'static str) -> Self {
        Self::new("", "this key appears twice")
    }
}

fn describe(found: &de::Unexpected<'_>) -> String {
    match found {
        de::Unexpected::Map => "a table".into(),
        de::Unexpected::Seq => "a list".into(),
        de::Unexpected::Str(text) => format!("the string `{text}`"),
        de::Unexpected::Bool(value) => format!("`{value}`"),
        de::Unexpected::Signed(value) => format!("`{value}`"),
        de::Unexpected::Unsigned(value) => format!("`{value}`"),
        de::Unexpected::Float(value) => format!("`{value}`"),
        other => other.to_string(),
    }
}
