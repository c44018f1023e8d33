//! Integration tests of this crate, one module per subject.

mod others;
mod reader;
mod streams;
