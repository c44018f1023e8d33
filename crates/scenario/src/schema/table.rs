//! The macro that defines a table of a scenario, and the names of a table's keys.

use serde::de::value::Error;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, forward_to_deserialize_any};
use serde_json::{Map, Value};

/// Defines a table whose keys before the semicolon are required; all other keys are optional.
macro_rules! table {
    ($(#[$doc:meta])* $Name:ident {
        $($(#[$rdoc:meta])* $required:ident: $Required:ty,)*
        ; $($(#[$odoc:meta])* $optional:ident: $Optional:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $Name {
            $($(#[$rdoc])* pub $required: $Required,)*
            $($(#[$odoc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $optional: Option<$Optional>,)*
        }
    };
}
pub(crate) use table;

/// Names of the keys of a table, or of the values of an enumeration.
pub(crate) fn names<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut found: &'static [&'static str] = &[];
    // This call always fails, because the probe has no value.
    let _ = T::deserialize(Probe(&mut found));
    found
}

/// The keys that a table states, with their values.
pub(crate) fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(keys)) => keys,
        other => unreachable!("a table is an object: {other:?}"),
    }
}

/// The first of `keys` that a table states.
pub(crate) fn first_stated<'k>(table: &impl Serialize, keys: &[&'k str]) -> Option<&'k str> {
    let stated = object(table);
    keys.iter().copied().find(|key| stated.contains_key(*key))
}

/// A deserializer that records the names that a type requests.
struct Probe<'a>(&'a mut &'static [&'static str]);

impl Probe<'_> {
    fn record<T>(self, names: &'static [&'static str]) -> Result<T, Error> {
        *self.0 = names;
        Err(de::Error::custom("no value"))
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.record(&[])
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.record(keys)
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.record(names)
    }
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}
