//! Congestion control schemes as pure state machines.
//!
//! A scheme receives one measurement record per event ([`Ack`], [`Lost`], …), keeps its state between events and
//! returns one control record ([`Control`]); telemetry is a separate output. A scheme reads no clock and no entropy and
//! does no I/O: every event carries `now`, and the constructor receives a seeded random stream. So the same code runs
//! in the simulator, on the kernel's stack and in QUIC.
//!
//! To add a scheme, add one file to `schemes/` and one line to the registry at the top of `schemes/mod.rs`.
#![no_std]

extern crate alloc; // only for schemes outside the registry; registered schemes do not allocate

mod advised;
pub mod bbr_common;
pub mod bbr_v1;
pub mod bbr_v2_v3;
mod contract;
pub mod coupled;
mod driver;
mod episode;
mod events;
mod external;
mod filter;
pub mod gamma;
mod hystart;
mod idle;
mod pacer;
mod params;
mod paths;
mod prr;
mod reno;
mod round;
mod sampler;
pub mod schemes;
#[cfg(test)]
mod testing;
pub mod tfrc;
mod window_pacing;

pub use contract::*;
pub use driver::{AckEnd, AckProgress, AckResult, Driver, Flight, Limit, LostPacket, SendPosition};
pub use episode::Episode;
pub use events::*;
pub use external::DynScheme;
pub use filter::{WindowedMax, WindowedMin};
pub use idle::IdleRule;
pub use narrows_units::{Bytes, Nanos, Random, Rate};
pub use pacer::{BurstPacer, Pacer};
pub use params::{LITERAL, Param, ParamError, ParamKind, Params, merge, merged_len};
pub use paths::{MAX_PATHS_VIEW, PathView, Paths};
pub use prr::{Prr, PrrBound};
pub use round::{RoundCounter, RoundMin};
pub use sampler::{RateSample, RateSampler, SentState};
pub use schemes::AnyScheme;
