//! Integration tests of this crate, one module per subject.

mod acks;
mod datagrams;
mod ports;
