//! Congestion control schemes as pure state machines.
//!
//! A scheme sees one measurement record per event ([`Ack`], [`Lost`], …), keeps whatever state it likes, and answers with
//! one control record ([`Control`]); telemetry leaves on a third path. It reads no clock, no entropy and does no I/O: every
//! event carries `now`, and a seeded random stream is handed over at creation. So the same code runs in the simulator, on
//! the kernel's stack and in QUIC.
//!
//! To add a scheme: one file in `schemes/`, one line in the registry at the head of `schemes/mod.rs`.
#![no_std]

extern crate alloc; // for schemes outside the registry only: those inside allocate nothing

mod advised;
pub mod bbr_common;
pub mod bbr_v1;
pub mod bbr_v2_v3;
mod contract;
pub mod coupled;
mod driver;
mod external;
mod filter;
pub mod gamma;
mod hystart;
mod pacer;
mod pacing;
mod params;
mod paths;
mod reno;
mod round;
mod sampler;
pub mod schemes;
#[cfg(test)]
mod testing;
pub mod tfrc;

pub use contract::*;
pub use driver::{AckEnd, AckProgress, AckResult, Driver, Flight, Limit, LostPacket, SendPosition};
pub use external::DynCongestionControl;
pub use filter::{WindowedMax, WindowedMin};
pub use narrows_units::{Bytes, Nanos, Random, Rate};
pub use pacer::Pacer;
pub use params::{Param, ParamError, ParamKind, Params, merge, merged_len};
pub use paths::{MAX_PATHS_VIEW, PathView, Paths};
pub use round::{RoundCounter, RoundMin};
pub use sampler::{RateSample, RateSampler, SentState};
pub use schemes::AnyScheme;
