//! Integration tests of this crate, one module per subject.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests read the environment and start processes")]

mod granted;
mod native;
mod programs;
mod rates;
mod recording;
