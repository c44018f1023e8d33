//! The states of BBR and the transitions between them.

use crate::Nanos;
use crate::bbr_common::ProbeRtt;

/// Phases in a gain cycle of ProbeBW.
pub const CYCLE_PHASES: u8 = 8;
/// The phase that probes for more bandwidth.
pub const PHASE_UP: u8 = 0;
/// The phase that drains the queue built by the probe.
pub const PHASE_DOWN: u8 = 1;

/// The state of BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Searching for the bandwidth: the sending rate doubles per round trip.
    Startup,
    /// Draining the queue that Startup built.
    Drain,
    /// Cycling the pacing rate around the bandwidth.
    ProbeBw {
        /// 0: up, 1: down, 2 to 7: cruise.
        phase: u8,
        /// When this phase began.
        since: Nanos,
    },
    /// Emptying the pipe to measure the propagation delay.
    ProbeRtt(ProbeRtt),
}

impl State {
    /// The name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::ProbeBw { phase: PHASE_UP, .. } => "probe_bw_up",
            Self::ProbeBw { phase: PHASE_DOWN, .. } => "probe_bw_down",
            Self::ProbeBw { .. } => "probe_bw_cruise",
            Self::ProbeRtt { .. } => "probe_rtt",
        }
    }

    /// Whether the transition to `next` is allowed. ProbeBW never starts in its draining phase, because there
    /// is no probe to drain.
    pub const fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Startup, Self::Drain) => true,
            (Self::Drain | Self::ProbeRtt { .. }, Self::ProbeBw { phase, .. }) => {
                phase != PHASE_DOWN && phase < CYCLE_PHASES
            }
            // The cycle advances to the next phase, or restarts when the use of the long-term rate ends.
            (Self::ProbeBw { phase, .. }, Self::ProbeBw { phase: next, .. }) => {
                next == (phase + 1) % CYCLE_PHASES || (next != PHASE_DOWN && next < CYCLE_PHASES)
            }
            (Self::Startup | Self::Drain | Self::ProbeBw { .. }, Self::ProbeRtt(clock)) => clock.until.is_none(),
            (Self::ProbeRtt { .. }, Self::Startup) => true,
            (Self::ProbeRtt(clock), Self::ProbeRtt(next)) => clock.may_become(next),
            _ => false,
        }
    }
}
