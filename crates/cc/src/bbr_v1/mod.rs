//! The core of BBR v1, with hooks where its published variants differ.
//!
//! [`BbrCore`] performs the steps of one ACK in the order of Linux `tcp_bbr.c`. [`Model`] is the core's state,
//! read-only for other code. A [`Policy`] defines a variant's differences. The default methods of a policy implement
//! BBR v1; with neutral parameters a variant behaves as BBR v1, event for event.
//!
//! A variant is one file in `schemes/` with module documentation and code such as:
//!
//! ```
//! use narrows_cc::bbr_v1::{BbrCore, Model, Policy};
//! use narrows_cc::{Provenance, Info, Param, RecoveryStyle, Setup, bbr_params, record};
//!
//! /// BBR that probes with a different gain.
//! pub type Gentle = BbrCore<GentleProbe>;
//!
//! /// Differences from BBR v1.
//! #[derive(Clone, Debug)]
//! pub struct GentleProbe {
//!     gain: f64,
//! }
//!
//! impl Policy for GentleProbe {
//!     const INFO: Info = record!(Info {
//!         provenance: Provenance::Tool,
//!         recovery: RecoveryStyle::Own,
//!         // A parameter replaces the one of BBR v1 with the same name; here the aggregation term is off by default.
//!         params: bbr_params![
//!             Param::ratio("gentle_gain", 1.1, (1.0, 2.0), "pacing gain while probing"),
//!             Param::flag("extra_acked", false, "cwnd term for aggregated ACKs"),
//!         ],
//!         ..Info::new("gentle", "BBR with a smaller probing gain")
//!     });
//!
//!     fn new(setup: &Setup) -> Self {
//!         Self { gain: setup.params.number("gentle_gain") }
//!     }
//!
//!     fn probe_gain(&self, phase: u8, model: &Model) -> f64 {
//!         if phase == 0 { self.gain } else { model.settings().probe_gain(phase) }
//!     }
//! }
//! ```

mod aggregation;
mod core;
mod fill;
mod model;
mod policer;
mod policy;
mod settings;
mod state;

pub use self::core::BbrCore;
pub use crate::bbr_common::ProbeRtt;
pub use aggregation::{Aggregation, Epoch};
pub use fill::BufferFill;
pub use model::Model;
pub use policer::{Policer, PolicerSample};
pub use policy::{Policy, RecoveryEntry};
pub use settings::{PARAMS, Settings};
pub use state::{CYCLE_PHASES, PHASE_DOWN, PHASE_UP, State};
