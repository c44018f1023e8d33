//! Integration tests of this crate, one module per subject.

mod determinism;
mod flows;
mod qlog;
mod schema;
mod series;
mod texts;
