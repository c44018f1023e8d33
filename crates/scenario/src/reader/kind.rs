//! Deserializes a table whose key `kind` decides which other keys the table has.

use serde::de::{self, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::Reader;
use crate::diagnostic::{Diagnostic, refuse, unknown};
use crate::tree::KeyValue;

/// A kind, and the entries of its table, including the entry `kind`.
#[derive(Clone, Copy)]
pub(super) struct Variant<'a> {
    pub(super) kind: &'a str,
    pub(super) entries: &'a [KeyValue],
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Diagnostic;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Diagnostic> {
        seed.deserialize(self.kind.into_deserializer()).map(|kind| (kind, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Diagnostic;

    fn unit_variant(self) -> Result<(), Diagnostic> {
        unreachable!("a kind has a table of keys")
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Diagnostic> {
        seed.deserialize(self)
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Diagnostic> {
        unreachable!("a kind has a table of keys")
    }
    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Diagnostic> {
        unreachable!("a kind has a table of keys")
    }
}

impl<'de> de::Deserializer<'de> for Variant<'_> {
    type Error = Diagnostic;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        self.deserialize_struct("", &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Diagnostic> {
        if let Some(entry) =
            self.entries.iter().find(|entry| entry.key != "kind" && !keys.contains(&entry.key.as_str()))
        {
            let message = format!("`{}` has no such parameter", self.kind);
            let refused = match keys {
                [] => Diagnostic::new("", message).accepted("no parameter"),
                keys => unknown(&message, &entry.key, keys.iter().copied()),
            };
            return Err(refused.at(entry.at).within(&entry.key));
        }
        visitor.visit_map(Keys { of: self, rest: keys.iter(), current: None })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// All keys of a kind, whether the table states them or not.
struct Keys<'a> {
    of: Variant<'a>,
    rest: std::slice::Iter<'static, &'static str>,
    current: Option<&'static str>,
}

impl<'de> MapAccess<'de> for Keys<'_> {
    type Error = Diagnostic;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Diagnostic> {
        self.current = self.rest.next().copied();
        self.current.map(|key| seed.deserialize(key.into_deserializer())).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Diagnostic> {
        let Some(key) = self.current.take() else { unreachable!("serde requests a value after its key") };
        match self.of.entries.iter().find(|entry| entry.key == key) {
            Some(entry) => seed.deserialize(Reader(&entry.value)).map_err(|diagnostic| diagnostic.at(entry.value.at)),
            None => seed.deserialize(Unstated(self.of.kind)),
        }
        .map_err(|diagnostic| diagnostic.within(key))
    }
}

/// A key of the kind that the table does not state.
struct Unstated<'a>(&'a str);

impl<'de> de::Deserializer<'de> for Unstated<'_> {
    type Error = Diagnostic;

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        visitor.visit_none()
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        let accepted = (&visitor as &dyn de::Expected).to_string();
        refuse("", format!("`{}` requires this key", self.0), accepted)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        let accepted = "a whole number".to_owned();
        self.deserialize_any(visitor).map_err(|diagnostic: Diagnostic| diagnostic.accepted(accepted))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
