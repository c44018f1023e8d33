//! Exit from slow start on growing delay, before packets are lost: HyStart of Linux, or HyStart++ (RFC 9406).

mod linux;
mod rfc9406;

use crate::{Bytes, Nanos, Param};
use linux::HyStartLinux;
use rfc9406::HyStartPlusPlus;

/// The parameter that selects the algorithm; schemes include it in their parameter lists.
pub(crate) const HYSTART: Param = Param::choice(
    "hystart",
    &["linux", "rfc9406", "off"],
    "exit from slow start on growing delay: Linux's HyStart, or HyStart++ (RFC 9406)",
);

/// State of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HyStartState {
    /// Standard slow start.
    SlowStart,
    /// Conservative slow start (RFC 9406): the delay grew and may fall again.
    Conservative {
        /// Minimum RTT of the round in which the delay grew.
        baseline: Nanos,
        /// Rounds completed in this state.
        rounds: u32,
    },
    /// The algorithm has ended slow start, or is off.
    Done,
}

/// One acknowledgement in slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowStartAck {
    /// When the acknowledgement arrived.
    pub now: Nanos,
    /// The acknowledgement begins a round trip.
    pub round_start: bool,
    /// RTT of the newest packet that the acknowledgement delivers.
    pub rtt: Option<Nanos>,
    /// All bytes ever delivered.
    pub delivered: Bytes,
    /// Data in flight after this acknowledgement.
    pub inflight: Bytes,
    /// cwnd in segments.
    pub cwnd: f64,
    /// Extra time that pacing and segmentation offload may add to a train of acknowledgements.
    pub ack_delay: Nanos,
}

/// The slow-start exit algorithm of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HyStart {
    /// Slow start ends by loss, mark or ssthresh only.
    Off,
    /// Linux's HyStart.
    Linux(HyStartLinux),
    /// HyStart++.
    PlusPlus(HyStartPlusPlus),
}

impl HyStart {
    /// Creates the algorithm named `word`, a value of the parameter [`HYSTART`]. `paced`: the sender paces, which
    /// smooths the bursts that acknowledgements release.
    pub fn new(word: &str, paced: bool) -> Self {
        match word {
            "linux" => Self::Linux(HyStartLinux::new(paced)),
            "rfc9406" => Self::PlusPlus(HyStartPlusPlus::new(paced)),
            _ => Self::Off,
        }
    }

    /// The current state.
    pub fn state(&self) -> HyStartState {
        match self {
            Self::Off => HyStartState::Done,
            Self::Linux(linux) => linux.state(),
            Self::PlusPlus(plus) => plus.state(),
        }
    }

    /// Feeds an RTT sample from outside slow start, which still counts for the minimum RTT.
    #[inline]
    pub fn on_rtt(&mut self, rtt: Option<Nanos>) {
        if let Self::Linux(linux) = self {
            linux.on_rtt(rtt);
        }
    }

    /// Slow start ended by a loss or mark.
    pub fn finish(&mut self) {
        if let Self::PlusPlus(plus) = self {
            plus.finish();
        }
    }

    /// The retransmission timer expired. Linux's HyStart also monitors the next slow start; HyStart++ (RFC 9406) does
    /// not.
    pub fn on_timeout(&mut self) {
        match self {
            Self::Off => {}
            Self::Linux(linux) => linux.restart(),
            Self::PlusPlus(plus) => plus.finish(),
        }
    }

    /// Growth of cwnd for an ACK of `acked` bytes in slow start.
    #[inline]
    pub fn growth(&self, acked: Bytes, mss: Bytes) -> Bytes {
        match self {
            Self::PlusPlus(plus) => plus.growth(acked, mss),
            Self::Off | Self::Linux(_) => acked,
        }
    }

    /// Feeds one ACK of slow start. Returns whether slow start ends now (ssthresh = cwnd).
    #[inline]
    pub fn on_ack(&mut self, ack: &SlowStartAck) -> bool {
        match self {
            Self::Off => false,
            Self::Linux(linux) => linux.on_ack(ack),
            Self::PlusPlus(plus) => plus.on_ack(ack.round_start, ack.rtt),
        }
    }
}
