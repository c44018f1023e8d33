//! The state of BBR: its model of the path, and its controls.

use super::aggregation::{Aggregation, CAP};
use super::policer::Policer;
use super::settings::Settings;
use super::state::State;
use crate::bbr_common::{FlowState, common_model};
use crate::{Bytes, Nanos, Random, Rate, WindowedMax};

/// Below this pacing rate the send quantum may be a single segment.
const SLOW: Rate = Rate::from_bits_per_sec(1_200_000);
/// The send quantum is the data sent in 2^-10 s …
const QUANTUM_SHIFT: u64 = 1 << 10;
/// … up to one offloaded packet, 64 kB.
const QUANTUM_BYTES: u64 = 65_535;

/// The state of a BBR flow. Policies read this state; only [`BbrCore`](super::BbrCore) changes it.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) flow: FlowState,
    pub(super) settings: Settings,
    pub(super) state: State,
    pub(super) bw: WindowedMax<Rate>,
    pub(super) full_bw: Rate,
    pub(super) full_bw_rounds: u8,
    pub(super) policer: Policer,
    pub(super) aggregation: Aggregation,
    pub(super) delivered_at: Nanos,
    pub(super) lost: Bytes,
    pub(super) quantum_segments: u64,
    pub(super) conserving: bool,
}

common_model!(Model, Settings, State);

impl Model {
    pub(super) fn new(settings: Settings, random: Random) -> Self {
        Self {
            flow: FlowState::new(settings.initial_window, random),
            settings,
            state: State::Startup,
            bw: WindowedMax::new(0, Rate::ZERO),
            full_bw: Rate::ZERO,
            full_bw_rounds: 0,
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            delivered_at: Nanos::ZERO,
            lost: Bytes::ZERO,
            quantum_segments: 1,
            conserving: false,
        }
    }

    /// Whether the state is ProbeBW.
    #[inline]
    pub fn in_probe_bw(&self) -> bool {
        matches!(self.state, State::ProbeBw { .. })
    }
    /// The maximum delivery rate of the last ten round trips.
    #[inline]
    pub fn max_bw(&self) -> Rate {
        self.bw.get()
    }
    /// The bandwidth estimate: the long-term rate behind a policer, otherwise [`Model::max_bw`].
    #[inline]
    pub fn bw(&self) -> Rate {
        match self.policer.rate() {
            Some(rate) => rate,
            None => self.bw.get(),
        }
    }
    /// The long-term rate, while BBR uses it.
    #[inline]
    pub fn policed(&self) -> Option<Rate> {
        self.policer.rate()
    }
    /// The plain bandwidth-delay product, [`Model::max_bw`] times min_rtt, without quanta or rounding.
    #[inline]
    pub fn bdp(&self) -> Option<Bytes> {
        self.min_rtt().map(|min_rtt| self.max_bw().over(min_rtt))
    }
    /// The rate against which growth is judged in Startup.
    #[inline]
    pub fn full_bw(&self) -> Rate {
        self.full_bw
    }
    /// When data was last delivered.
    #[inline]
    pub fn delivered_at(&self) -> Nanos {
        self.delivered_at
    }
    /// Whether a phase that began at `since` has lasted longer than min_rtt.
    #[inline]
    pub fn lasted_min_rtt(&self, since: Nanos) -> bool {
        self.min_rtt().is_some_and(|min_rtt| self.delivered_at - since > min_rtt)
    }
    /// All bytes ever declared lost.
    #[inline]
    pub fn lost(&self) -> Bytes {
        self.lost
    }
    /// Whether packet conservation, the rule of recovery's first round, is in force.
    #[inline]
    pub fn conserving(&self) -> bool {
        self.conserving
    }
    /// The term for ACK aggregation in cwnd: the maximum recent excess, up to 100 ms of bandwidth.
    #[inline]
    pub fn extra_acked(&self) -> Bytes {
        if self.settings.extra_acked && self.full_bw_reached {
            self.aggregation.max().min(self.bw().over(CAP))
        } else {
            Bytes::ZERO
        }
    }
    /// The send quantum: the data sent in 2^-10 s, or the fixed number of segments.
    #[inline]
    pub fn send_quantum(&self) -> Bytes {
        self.settings.mss * self.quantum_segments
    }
    /// The most data to send back to back: the send quantum if it is fixed, or one segment. Otherwise the transport's
    /// rule decides, which gives the same amount except at RTTs of a few milliseconds (Linux `tcp_tso_autosize`, whose
    /// minimum BBR sets).
    #[inline]
    pub fn burst(&self) -> Bytes {
        if self.settings.quantum.is_some() || self.quantum_segments == 1 {
            self.settings.mss * self.quantum_segments
        } else {
            Bytes::MAX
        }
    }

    pub(super) fn set_pacing_rate(&mut self, rate: Rate) {
        let Some(rate) = self.flow.change_pacing_rate(rate) else { return };
        self.quantum_segments = self.settings.quantum.unwrap_or_else(|| {
            let bytes = (rate.as_bytes_per_sec() / QUANTUM_SHIFT).min(QUANTUM_BYTES);
            (bytes / self.settings.mss.as_u64()).clamp(if rate < SLOW { 1 } else { 2 }, 127)
        });
    }
}
