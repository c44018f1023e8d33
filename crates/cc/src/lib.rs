//! Congestion control schemes as pure state machines.
//!
//! A scheme sees one measurement record per event ([`Ack`], [`Lost`], …), keeps whatever state it likes, and answers with
//! one control record ([`Control`]); telemetry leaves on a third path. It reads no clock, no entropy and does no I/O: every
//! event carries `now`, and a seeded random stream is handed over at creation. So the same code runs in the simulator, on
//! the kernel's stack and in QUIC.
//!
//! To add a scheme: one file in `schemes/`, one line in the registry at the head of `schemes/mod.rs`.
#![no_std]

mod advised;
pub mod bbr;
pub mod bbr3;
mod contract;
pub mod coupled;
mod filter;
pub mod gamma;
mod hystart;
mod pacer;
mod pacing;
mod params;
mod paths;
mod random;
mod round;
mod sampler;
pub mod schemes;
#[cfg(test)]
mod testing;
pub mod tfrc;
mod units;

pub use contract::*;
pub use filter::{WindowedMax, WindowedMin};
pub use pacer::Pacer;
pub use params::{Param, ParamError, ParamKind, Params, merge, merged_len};
pub use paths::{MAX_PATHS_VIEW, PathView, Paths};
pub use random::Random;
pub use round::{RoundCounter, RoundMin};
pub use sampler::{RateSample, RateSampler, SentSnapshot};
pub use schemes::AnyScheme;
pub use units::{Bytes, Nanos, Rate};
