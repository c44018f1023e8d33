//! Values of single keys that several tables share.

use std::fmt;
use std::ops::RangeInclusive;

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

/// A count. The code that uses the count refuses zero.
struct Count(u32);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = WholeNumber { range: 0..=u32::MAX.into(), first: 1, prefix: "a whole number from " };
        deserializer.deserialize_any(whole).map(|count| Self(count as u32))
    }
}

/// Reads a count; error messages list the accepted values from 1 on.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Count::deserialize(deserializer).map(|count| count.0)
}

/// Like [`count`], for an optional key.
pub(super) fn optional_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Option::<Count>::deserialize(deserializer).map(|count| count.map(|count| count.0))
}

/// Reads a whole number within `range`. Error messages list the accepted numbers from `first` on; if the value
/// is out of range, `prefix` precedes the list.
pub(super) struct WholeNumber {
    pub(super) range: RangeInclusive<u64>,
    pub(super) first: u64,
    pub(super) prefix: &'static str,
}

impl WholeNumber {
    fn check<E: de::Error>(&self, value: i128) -> Result<u64, E> {
        u64::try_from(value).ok().filter(|value| self.range.contains(value)).ok_or_else(|| {
            let Self { range, first, prefix } = self;
            E::custom(format!("`{value}` is out of range\n  accepted: {prefix}{first} to {}", range.end()))
        })
    }
}

impl Visitor<'_> for WholeNumber {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.first, self.range.end())
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
        self.check(value.into())
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
        self.check(value.into())
    }
}
