//! The hooks in which variants of BBR v3 and v2 differ.

use super::model::Model;
use super::state::State;
use crate::{Ack, Info, Setup, Telemetry};

/// The BBR generation that a variant is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// BBR v2 as in Linux v2alpha; the parameters are [`PARAMS_V2`](super::PARAMS_V2).
    V2,
    /// BBR v3 as in the IETF draft; the parameters are [`PARAMS`](super::PARAMS).
    V3,
}

/// A variant of BBR v3 or v2. The default methods implement the generation; each may be overridden separately.
///
/// At each acknowledgement the core calls [`Policy::observe`] once, after it has measured rates and rounds
/// and before any decision, and [`Policy::pacing_gain`] once, after all decisions.
pub trait Policy: Clone + core::fmt::Debug + Send + Sync + 'static {
    /// Static description of the scheme.
    const INFO: Info;
    /// The generation that the scheme is based on.
    const GENERATION: Generation;

    /// Creates the variant's state at the start of a connection.
    fn new(setup: &Setup) -> Self;

    /// An acknowledgement arrived. `Model::latest_rtt` and `Model::round_start` are current; min_rtt does
    /// not include this sample yet.
    #[inline]
    fn observe(&mut self, _ack: &Ack, _model: &Model) {}

    /// The state changes to `to`; [`Model::state`] still returns the old state.
    #[inline]
    fn on_transition(&mut self, _to: State, _model: &Model) {}

    /// The pacing gain of ProbeBW_UP, read at every acknowledgement.
    #[inline]
    fn up_gain(&self, model: &Model) -> f64 {
        model.settings().up_gain
    }

    /// The pacing gain of ProbeBW_DOWN, read at every acknowledgement.
    #[inline]
    fn down_gain(&self, model: &Model) -> f64 {
        model.settings().down_gain
    }

    /// The pacing gain.
    #[inline]
    fn pacing_gain(&self, model: &Model) -> f64 {
        match model.state() {
            State::Startup => model.settings().startup_gain,
            State::Drain => model.settings().drain_gain,
            State::Down => self.down_gain(model),
            State::Up => self.up_gain(model),
            State::Cruise | State::Refill | State::ProbeRtt { .. } => 1.0,
        }
    }

    /// Reports the variant's telemetry.
    fn telemetry(&self, _sink: Telemetry<'_>) {}
}
