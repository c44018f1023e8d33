//! Deserializes Rust values from a [`Tree`]; every error states key and location.

mod error;
mod kind;

use serde::de::{self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use self::kind::Variant;
use crate::diagnostic::{Diagnostic, refuse};
use crate::schema::short::TEXT_OR;
use crate::tree::{KeyValue, Node, Tree};

/// Serde deserializer of a [`Tree`].
pub(crate) struct Reader<'a>(pub(crate) &'a Tree);

impl Reader<'_> {
    /// The error for a value whose type is not `accepted`.
    fn not(&self, accepted: &str) -> Diagnostic {
        let found = match &self.0.node {
            Node::Text(text) => format!("found the string `{text}`"),
            Node::Integer(_) | Node::Float(_) | Node::Bool(_) => format!("found `{}`", self.0),
            _ => format!("found {}", self.0.kind()),
        };
        Diagnostic::new("", found).accepted(accepted).at(self.0.at)
    }

    fn whole_number(&self, min: i128, max: i128) -> Result<i128, Diagnostic> {
        let found = match &self.0.node {
            Node::Integer(value) if (min..=max).contains(value) => return Ok(*value),
            Node::Integer(_) => format!("`{}` is out of range", self.0),
            _ => return Err(self.not(&format!("a whole number from {min} to {max}"))),
        };
        Err(Diagnostic::new("", found).accepted(format!("a whole number from {min} to {max}")).at(self.0.at))
    }
}

impl<'a> Reader<'a> {
    /// The value of the key `kind` of a table; it must be one of `names`.
    fn kind(&self, names: &'static [&'static str]) -> Result<&'a str, Diagnostic> {
        let Some(kind) = self.0.get("kind") else {
            return Err(Diagnostic::missing("kind").accepted(names.join(", ")));
        };
        match &kind.value.node {
            Node::Text(text) if names.contains(&text.as_str()) => Ok(text.as_str()),
            Node::Text(text) => Err(de::Error::unknown_variant(text, names)),
            _ => Err(Reader(&kind.value).not(&names.join(", "))),
        }
        .map_err(|diagnostic: Diagnostic| diagnostic.at(kind.value.at).within("kind"))
    }
}

macro_rules! whole_numbers {
    ($($method:ident $visit:ident $type:ty,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
            visitor.$visit(self.whole_number(<$type>::MIN.into(), <$type>::MAX.into())? as $type)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Reader<'_> {
    type Error = Diagnostic;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        let at = self.0.at;
        match &self.0.node {
            Node::Null => visitor.visit_unit(),
            Node::Text(text) => visitor.visit_str(text),
            Node::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => visitor.visit_u64(value),
                (_, Ok(value)) => visitor.visit_i64(value),
                _ => refuse("", format!("`{value}` is out of range"), "a smaller number"),
            },
            Node::Float(value) => visitor.visit_f64(*value),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::List(items) => visitor.visit_seq(Items { items: items.iter().enumerate() }),
            Node::Table(entries) => visitor.visit_map(Entries { entries: entries.iter(), current: None }),
        }
        .map_err(|diagnostic| diagnostic.at(at))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        match self.0.node {
            Node::Integer(value) => visitor.visit_f64(value as f64),
            Node::Float(value) => visitor.visit_f64(value),
            _ => Err(self.not("a number without a unit")),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        match self.0.node {
            Node::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.not("true or false")),
        }
    }

    whole_numbers! {
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        match self.0.node {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Diagnostic> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Diagnostic> {
        let at = self.0.at;
        match &self.0.node {
            Node::Text(kind) if name == TEXT_OR && names.contains(&kind.as_str()) => {
                visitor.visit_enum(Variant { kind, entries: &[] })
            }
            Node::Table(entries) if name == TEXT_OR && !names.is_empty() => {
                self.kind(names).and_then(|kind| visitor.visit_enum(Variant { kind, entries }))
            }
            _ if name == TEXT_OR => self.deserialize_any(visitor),
            Node::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            _ => Err(self.not(&names.join(", "))),
        }
        .map_err(|diagnostic: Diagnostic| diagnostic.at(at))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        match self.0.node {
            Node::List(_) => self.deserialize_any(visitor),
            _ => Err(self.not("a list; tables are listed as [[flows]]")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        match self.0.node {
            Node::Table(_) => self.deserialize_any(visitor),
            _ => Err(self.not("a table of keys")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Diagnostic> {
        self.deserialize_map(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Diagnostic> {
        match self.0.node {
            Node::Text(_) => self.deserialize_any(visitor),
            _ => Err(self.not("a string in quotes")),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 char str bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

struct Items<'a> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Tree>>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Diagnostic;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Diagnostic> {
        let Some((index, item)) = self.items.next() else { return Ok(None) };
        seed.deserialize(Reader(item)).map(Some).map_err(|diagnostic| diagnostic.at(item.at).within(&index.to_string()))
    }
}

struct Entries<'a> {
    entries: std::slice::Iter<'a, KeyValue>,
    current: Option<&'a KeyValue>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Diagnostic;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Diagnostic> {
        self.current = self.entries.next();
        let Some(entry) = self.current else { return Ok(None) };
        let key = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|diagnostic: Diagnostic| diagnostic.at(entry.at).within(&entry.key))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Diagnostic> {
        let Some(entry) = self.current.take() else { unreachable!("serde requests a value after its key") };
        seed.deserialize(Reader(&entry.value)).map_err(|diagnostic| diagnostic.at(entry.value.at).within(&entry.key))
    }
}
