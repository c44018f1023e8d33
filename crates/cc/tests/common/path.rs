//! What a flow runs over, and what it is set up with.

use narrows_cc::{Bytes, CongestionControl, Nanos, Params, Random, Rate, SentState, Setup};

pub const MSS: Bytes = Bytes::new(1448);
pub const INITIAL_WINDOW: Bytes = Bytes::new(14_480);
/// The retransmission timeout.
pub const RTO: Nanos = Nanos::from_secs(1);

/// The set-up of a scheme, with some of its parameters changed.
pub fn setup<C: CongestionControl>(seed: u64, values: &[(&str, f64)]) -> Setup {
    let mut params = Params::defaults(C::INFO.params);
    for (name, value) in values {
        params.set(name, *value).unwrap();
    }
    Setup {
        mss: MSS,
        initial_window: INITIAL_WINDOW,
        max_burst: Bytes::MAX,
        sack: true,
        // One stream for all, so that a variant can be compared with what it varies.
        random: Random::stream(seed, "bbr", 0),
        params,
    }
}

/// A path. Everything but rate and rtt is off by default.
#[derive(Clone, Debug)]
pub struct Path {
    /// Changed by [`Flow::set_rate`] once packets are on their way.
    pub rate: Rate,
    pub rtt: Nanos,
    pub buffer: Bytes,
    pub policer: Option<(Rate, Bytes)>,
    pub bunch: Nanos,
    /// The n-th, 2n-th … packet is lost.
    pub drop_every: Option<u64>,
    /// So many of the next packets arrive so much later: those behind them overtake them.
    pub delay: Option<(u64, Nanos)>,
    /// Recovery lasts until the repair of its last loss would be acknowledged.
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

    /// Round-trip time of a packet that meets no queue.
    pub fn min_rtt(&self) -> Nanos {
        self.rtt + self.rate.time_for(MSS)
    }

    /// When the acknowledgement of a packet that leaves the link at `left` comes back.
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
    /// When the link is done with it.
    pub(super) left_at: Nanos,
    pub(super) ack_at: Nanos,
    /// Declared lost, whether it was or not.
    pub(super) given_up: bool,
}
