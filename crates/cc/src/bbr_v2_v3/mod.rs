//! The common core of BBR v2 and v3, with hooks for their variants.
//!
//! [`BbrCore`] performs the steps of one ACK in the order of draft-ietf-ccwg-bbr-06, section 5.2.3. [`Model`] is the
//! core's state, read-only for other code. A [`Policy`] names the generation that a variant starts from and defines the
//! variant's differences.
//!
//! A variant is one file in `schemes/` with module documentation and code such as:
//!
//! ```
//! use narrows_cc::bbr_v2_v3::{BbrCore, Generation, Model, PARAMS, Policy};
//! use narrows_cc::{Provenance, Info, Param, RecoveryStyle, Setup, merged_params, record};
//!
//! /// BBR v3 that drains with a different gain.
//! pub type Gentle = BbrCore<GentleDrain>;
//!
//! /// Differences from BBR v3.
//! #[derive(Clone, Debug)]
//! pub struct GentleDrain {
//!     share: f64,
//! }
//!
//! impl Policy for GentleDrain {
//!     const INFO: Info = record!(Info {
//!         provenance: Provenance::Tool,
//!         recovery: RecoveryStyle::Own,
//!         params: merged_params![PARAMS; Param::ratio("share", 0.5, (0.0, 1.0), "share of the drain")],
//!         ..Info::new("gentle3", "BBR v3 with a smaller drain")
//!     });
//!     const GENERATION: Generation = Generation::V3;
//!
//!     fn new(setup: &Setup) -> Self {
//!         Self { share: setup.params.number("share") }
//!     }
//!
//!     fn down_gain(&self, model: &Model) -> f64 {
//!         1.0 - self.share * (1.0 - model.settings().down_gain)
//!     }
//! }
//! ```

mod congestion;
mod core;
mod cycle;
mod ecn;
mod max_bw;
mod model;
mod policy;
mod probe_rtt;
mod settings;
mod signals;
mod startup;
mod state;

pub use self::core::BbrCore;
pub use crate::bbr_common::ProbeRtt;
pub use ecn::Marks;
pub use max_bw::MaxBw;
pub use model::Model;
pub use policy::{Generation, Policy};
pub use settings::{PARAMS, PARAMS_V2, Settings};
pub use signals::FullBw;
pub use state::{AckPhase, State, Undo};
