//! Values with a short form, which is a string, and a long form, which is a table: `queue = "codel"` or `queue
//! = { kind = "codel", target = "1ms" }`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, EnumAccess, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A table with a short form.
pub trait Short: Serialize + JsonSchema + Sized {
    /// Names of the table's kinds, if its key `kind` decides which other keys it has. The name of a kind is the
    /// short form of a table that states only `kind`.
    const KINDS: &'static [&'static str] = &[];
    /// Description of the accepted strings.
    fn accepted() -> String;
    /// Parses a short form that is not the name of a kind.
    ///
    /// # Errors
    /// If the string is not a short form.
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Err(E::unknown_variant(text, Self::KINDS))
    }
    /// The short form as a string, if it expresses the whole value.
    fn text(&self) -> Option<String> {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(keys)) if keys.len() == 1 => keys["kind"].as_str().map(str::to_owned),
            _ => None,
        }
    }
    /// Reads the long form of a table without kinds.
    ///
    /// # Errors
    /// If a key or value is invalid.
    fn from_table<'de, A: MapAccess<'de>>(_: A) -> Result<Self, A::Error> {
        Err(de::Error::invalid_type(de::Unexpected::Map, &Self::accepted().as_str()))
    }
    /// Reads the long form of a table with kinds.
    ///
    /// # Errors
    /// If a key or value is invalid.
    fn from_kind<'de, A: EnumAccess<'de>>(_: A) -> Result<Self, A::Error> {
        Err(de::Error::invalid_type(de::Unexpected::Enum, &Self::accepted().as_str()))
    }
}

/// A value stated as a string or as a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextOr<T>(pub T);

/// The name with which [`TextOr`] requests a value from the reader; the kinds of the value follow it.
pub(crate) const TEXT_OR: &str = "TextOr";

impl<T: Short> Serialize for TextOr<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.text() {
            Some(text) => serializer.serialize_str(&text),
            None => self.0.serialize(serializer),
        }
    }
}

impl<'de, T: Short> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum(TEXT_OR, T::KINDS, TextOrVisitor(PhantomData)).map(Self)
    }
}

struct TextOrVisitor<T>(PhantomData<T>);

impl<'de, T: Short> Visitor<'de> for TextOrVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&T::accepted())
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text)
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        T::from_text(&value.to_string())
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        T::from_text(&value.to_string())
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<T, E> {
        T::from_text(&value.to_string())
    }
    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        T::from_table(table)
    }
    fn visit_enum<A: EnumAccess<'de>>(self, kind: A) -> Result<T, A::Error> {
        T::from_kind(kind)
    }
}

impl<T: Short> JsonSchema for TextOr<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("TextOr{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [{ "type": "string", "description": T::accepted() }, table] })
    }
}

/// The schema of a table of one kind: the key `kind`, then the keys of the kind.
pub(crate) fn schema_of_kind(keys: &Schema, kind: &str, about: &[&str]) -> serde_json::Value {
    let keys = keys.as_value();
    let mut properties = serde_json::Map::new();
    properties.insert("kind".into(), serde_json::json!({ "type": "string", "const": kind }));
    properties.extend(keys["properties"].as_object().cloned().unwrap_or_default());
    let mut required = vec![serde_json::Value::from("kind")];
    required.extend(keys["required"].as_array().cloned().unwrap_or_default());
    serde_json::json!({
        "description": prose(about),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}

/// Joins the lines of a doc comment to one string.
pub(crate) fn prose(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

/// Defines a table whose `kind` decides its other keys: an enum with the keys of each kind, and the methods of
/// [`Short`].
macro_rules! tagged {
    ($(#[doc = $doc:literal])* $Name:ident {
        $($(#[doc = $about:literal])* $Kind:ident($Keys:ty) $name:literal,)*
    } $($short:tt)*) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        #[serde(tag = "kind")]
        pub enum $Name {
            $($(#[doc = $about])* #[serde(rename = $name)] $Kind($Keys),)*
        }

        impl $crate::schema::short::Short for $Name {
            const KINDS: &'static [&'static str] = &[$($name),*];
            fn from_kind<'de, A: serde::de::EnumAccess<'de>>(access: A) -> Result<Self, A::Error> {
                use serde::de::{Error, VariantAccess};
                let (kind, keys) = access.variant::<String>()?;
                match kind.as_str() {
                    $($name => keys.newtype_variant().map(Self::$Kind),)*
                    other => Err(A::Error::unknown_variant(other, Self::KINDS)),
                }
            }
            $($short)*
        }

        impl schemars::JsonSchema for $Name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Name).into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                use $crate::schema::short::{prose, schema_of_kind};
                let kinds = [$(schema_of_kind(&<$Keys>::json_schema(generator), $name, &[$($about),*])),*];
                schemars::json_schema!({ "description": prose(&[$($doc),*]), "oneOf": kinds })
            }
        }
    };
}
pub(crate) use tagged;
