//! Integration tests of this crate, one module per subject.

#[cfg(feature = "noq")]
mod pairs;
#[cfg(feature = "noq")]
mod properties;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "quinn")]
mod quinn_properties;
#[cfg(feature = "quinn")]
mod quinn_support;
#[cfg(feature = "noq")]
mod support;
#[cfg(feature = "noq")]
mod thousand;
#[cfg(any(feature = "noq", feature = "quinn"))]
mod tls;
#[cfg(feature = "noq")]
mod virtual_time;
