//! Quantities with units, seeded random streams and histograms, shared by all crates.
#![no_std]

extern crate alloc;

mod histogram;
mod prefetch;
mod quantity;
mod random;

pub use histogram::Histogram;
pub use prefetch::prefetch;
pub use quantity::{Bytes, Nanos, Rate};
pub use random::Random;
