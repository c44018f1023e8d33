//! Quantities with units, seeded random streams and histograms: what every other crate speaks in.
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
