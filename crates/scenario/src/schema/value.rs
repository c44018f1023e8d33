//! Values of single keys that several tables share.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The transport of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// TCP that switches treat as datagrams, whatever its scheme.
    Udp,
    /// DCCP.
    Dccp,
}

/// The value of a scheme's parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "not a parameter value\n  accepted: a number, a string, true or false")]
pub enum ParamValue {
    /// On or off.
    Flag(bool),
    /// A number in the parameter's own unit.
    Number(f64),
    /// A number with its unit, or on or off.
    Text(String),
}

/// A number of things. Zero is refused where the number is used.
struct Count(u32);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor).map(Self)
    }
}

/// Reads a number of things whose messages list values from 1.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Count::deserialize(deserializer).map(|count| count.0)
}

/// Like [`count`], for a key that may be left out.
pub(super) fn optional_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Option::<Count>::deserialize(deserializer).map(|count| count.map(|count| count.0))
}

struct CountVisitor;

impl Visitor<'_> for CountVisitor {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {}", u32::MAX)
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<u32, E> {
        u32::try_from(value).map_err(|_| beyond(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u32, E> {
        u32::try_from(value).map_err(|_| beyond(value))
    }
}

fn beyond<E: de::Error>(found: impl fmt::Display) -> E {
    E::custom(format!("`{found}` is out of range\n  accepted: a whole number from 1 to {}", u32::MAX))
}
