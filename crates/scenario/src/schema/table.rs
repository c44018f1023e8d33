//! The macro that defines a table of a scenario.

/// Defines a table whose keys are optional, except those before the semicolon.
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
