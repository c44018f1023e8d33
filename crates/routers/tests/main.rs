//! Integration tests of this crate, one module per subject.

mod advice;
#[path = "../../tcp/tests/common/mod.rs"]
mod common;
mod headers;
mod link;
mod negotiation;
mod strategies;
mod talk;

// `strategies` names this type; the unit tests of the library share that module.
use narrows_routers::RateHeader;
