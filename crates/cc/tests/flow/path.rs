//! Path and setup of a flow.

use narrows_cc::{Bytes, Info, Nanos, Params, Random, Rate, SentState, Setup};

pub const MSS: Bytes = Bytes::new(1448);
pub const INITIAL_WINDOW: Bytes = Bytes::new(14_480);
/// Retransmission timeout.
pub const RTO: Nanos = Nanos::from_secs(1);

/// Setup of a scheme with some parameters changed.
pub fn setup(info: &Info, seed: u64, values: &[(&str, f64)]) -> Setup {
    let mut params = Params::defaults(info.params);
    for (name, value) in values {
        params.set(name, *value).unwrap();
    }
    // All schemes use the same random stream, so that variants are comparable.
    Setup::new(MSS, params, Random::stream(seed, "bbr", 0))
}

/// A path. All impairments are off by default; only `rate` and `rtt` are set.
#[derive(Clone, Debug)]
pub struct Path {
    /// Link rate; [`Flow::set_rate`] changes it while packets are in flight.
    pub rate: Rate,
    pub rtt: Nanos,
    pub buffer: Bytes,
    pub policer: Option<(Rate, Bytes)>,
    pub bunch: Nanos,
    /// Every n-th packet is lost.
    pub drop_every: Option<u64>,
    /// How many of the next packets are delayed, and by how much: packets sent after them overtake them.
    pub delay: Option<(u64, Nanos)>,
    /// Recovery lasts until a retransmission of the packet last declared lost would be acknowledged.
    pub repairs: bool,
}

impl Path {
    pub fn new(mbit_per_sec: f64, rtt_ms: u64) -> Self {
        Self {
            rate: Rate::from_mbit_per_sec(mbit_per_sec),
            rtt: Nanos::from_millis(rtt_ms),
            buffer: Bytes::new(1 << 40),
            policer: None,
            bunch: Nanos::ZERO,
            drop_every: None,
            delay: None,
            repairs: false,
        }
    }

    /// Round-trip time of a packet without queueing.
    pub fn min_rtt(&self) -> Nanos {
        self.rtt + self.rate.time_for(MSS)
    }

    /// Arrival time of the acknowledgement of a packet that leaves the link at `left`.
    pub(super) fn ack_at(&self, left: Nanos) -> Nanos {
        let at = left + self.rtt;
        if self.bunch.is_zero() {
            return at;
        }
        let bunch = self.bunch.as_nanos();
        Nanos::from_nanos(at.as_nanos().div_ceil(bunch) * bunch)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) seq: u64,
    pub(super) snapshot: SentState,
    /// When the link has transmitted the packet.
    pub(super) left_at: Nanos,
    pub(super) ack_at: Nanos,
    /// The packet is declared lost, whether or not it arrives.
    pub(super) given_up: bool,
}
