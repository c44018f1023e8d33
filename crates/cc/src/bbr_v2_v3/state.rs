//! The states of BBR v3, the transitions between them, and the phase of acknowledgements relative to a probe.

use crate::bbr_common::ProbeRtt;

/// The state of BBR (section 5.1.1 of the draft).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Searching for the bandwidth: the sending rate doubles per round trip.
    Startup,
    /// Draining the queue that Startup built.
    Drain,
    /// After a probe: sending below the delivery rate.
    Down,
    /// Sending at the delivery rate, with headroom for other flows.
    Cruise,
    /// Before a probe: filling the pipe once without headroom.
    Refill,
    /// Probing for bandwidth and for buffer space.
    Up,
    /// Halving inflight to measure the propagation delay.
    ProbeRtt(ProbeRtt),
}

impl State {
    /// The name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::Down => "probe_bw_down",
            Self::Cruise => "probe_bw_cruise",
            Self::Refill => "probe_bw_refill",
            Self::Up => "probe_bw_up",
            Self::ProbeRtt { .. } => "probe_rtt",
        }
    }

    /// Whether this is one of the four states of ProbeBW.
    #[inline]
    pub const fn in_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Whether this state sends faster than the known bandwidth, or prepares to do so. Loss is expected in such a
    /// state.
    #[inline]
    pub const fn probes_bandwidth(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// Whether the transition to `next` is allowed.
    pub const fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Startup, Self::Drain) | (Self::Drain, Self::Down) => true,
            (Self::Down, Self::Cruise) | (Self::Refill, Self::Up) | (Self::Up, Self::Down) => true,
            // The scheduled probe, a second probe after a cautious probe, or a probe resumed after a spurious loss.
            (Self::Down | Self::Cruise | Self::Refill, Self::Refill) => true,
            // The loss that ended Startup was spurious.
            (Self::Drain | Self::Down | Self::Cruise | Self::Refill | Self::Up, Self::Startup) => true,
            (Self::ProbeRtt(clock), Self::ProbeRtt(next)) => clock.may_become(next),
            (Self::ProbeRtt { .. }, Self::Down | Self::Startup) => true,
            (Self::ProbeRtt { .. }, _) => false,
            (_, Self::ProbeRtt(ProbeRtt::ENTRY)) => true,
            _ => false,
        }
    }
}

/// Relation of the arriving acknowledgements to a probe (section 2.14 of the draft).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPhase {
    /// No probe is involved.
    Init,
    /// The pipe is being filled.
    Refilling,
    /// A probe has begun; arriving acknowledgements are still for data sent before the probe.
    Starting,
    /// Arriving acknowledgements are for data sent in the probe.
    Feedback,
    /// The probe is over; arriving acknowledgements are still for data sent in the probe.
    Stopping,
}

impl AckPhase {
    /// The name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Refilling => "refilling",
            Self::Starting => "probe_starting",
            Self::Feedback => "probe_feedback",
            Self::Stopping => "probe_stopping",
        }
    }
}

/// The state that a loss ended, resumed if the loss proves spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Loss ended Startup.
    Startup,
    /// Loss ended a probe.
    Up,
}
