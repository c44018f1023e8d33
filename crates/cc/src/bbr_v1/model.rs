//! What BBR knows of the path and of itself.

use super::aggregation::{Aggregation, CAP};
use super::policer::Policer;
use super::settings::Settings;
use super::state::State;
use crate::{Bytes, Nanos, Phase, Random, Rate, RoundCounter, WindowedMax};

/// Below this pacing rate the send quantum may be a single segment.
const SLOW: Rate = Rate::from_bits_per_sec(1_200_000);
/// The send quantum is what is sent in 2^-10 s …
const QUANTUM_SHIFT: u64 = 1 << 10;
/// … up to what one offloaded packet holds, 64 kB.
const QUANTUM_BYTES: u64 = 65_535;

/// The state of a BBR flow. Policies read it; only [`BbrCore`](super::BbrCore) changes it.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) settings: Settings,
    pub(super) random: Random,
    pub(super) state: State,
    pub(super) bw: WindowedMax<Rate>,
    pub(super) round: RoundCounter,
    pub(super) round_start: bool,
    /// Least round-trip time, and when it was measured or last confirmed.
    pub(super) min_rtt: Option<(Nanos, Nanos)>,
    pub(super) latest_rtt: Option<Nanos>,
    pub(super) seen_srtt: bool,
    pub(super) full_bw: Rate,
    pub(super) full_bw_rounds: u8,
    pub(super) full_bw_reached: bool,
    pub(super) policer: Policer,
    pub(super) aggregation: Aggregation,
    pub(super) delivered: Bytes,
    pub(super) delivered_at: Nanos,
    pub(super) lost: Bytes,
    pub(super) inflight: Bytes,
    /// Bytes delivered when ProbeRTT was entered, and delivered plus inflight when it was last seen: packets
    /// sent in between tell nothing of the bandwidth.
    pub(super) probe_rtt_limited: Option<(Bytes, Bytes)>,
    pub(super) idle_restart: bool,
    pub(super) cwnd: Bytes,
    pub(super) prior_cwnd: Bytes,
    pub(super) pacing_rate: Rate,
    pub(super) quantum_segments: u64,
    /// The phase at the last acknowledgement that delivered data.
    pub(super) phase: Phase,
    /// The transport answers a mark, not a loss.
    pub(super) only_marked: bool,
    pub(super) conserving: bool,
}

impl Model {
    pub(super) fn new(settings: Settings, random: Random) -> Self {
        let cwnd = settings.initial_window;
        Self {
            settings,
            random,
            state: State::Startup,
            bw: WindowedMax::new(0, Rate::ZERO),
            round: RoundCounter::default(),
            round_start: false,
            min_rtt: None,
            latest_rtt: None,
            seen_srtt: false,
            full_bw: Rate::ZERO,
            full_bw_rounds: 0,
            full_bw_reached: false,
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            delivered: Bytes::ZERO,
            delivered_at: Nanos::ZERO,
            lost: Bytes::ZERO,
            inflight: Bytes::ZERO,
            probe_rtt_limited: None,
            idle_restart: false,
            cwnd,
            prior_cwnd: Bytes::ZERO,
            pacing_rate: Rate::ZERO,
            quantum_segments: 1,
            phase: Phase::Open,
            only_marked: false,
            conserving: false,
        }
    }

    /// Parameter values.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// The state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }
    /// Whether the state is ProbeBW.
    #[inline]
    pub fn in_probe_bw(&self) -> bool {
        matches!(self.state, State::ProbeBw { .. })
    }
    /// The greatest delivery rate of the last ten round trips.
    #[inline]
    pub fn max_bw(&self) -> Rate {
        self.bw.get()
    }
    /// The bandwidth estimate: the long-term rate where a policer was found, else [`Model::max_bw`].
    #[inline]
    pub fn bw(&self) -> Rate {
        match self.policer.rate() {
            Some(rate) => rate,
            None => self.bw.get(),
        }
    }
    /// The long-term rate, while it is used.
    #[inline]
    pub fn policed(&self) -> Option<Rate> {
        self.policer.rate()
    }
    /// The propagation delay as far as known.
    #[inline]
    pub fn min_rtt(&self) -> Option<Nanos> {
        self.min_rtt.map(|(rtt, _)| rtt)
    }
    /// The newest round-trip sample.
    #[inline]
    pub fn latest_rtt(&self) -> Option<Nanos> {
        self.latest_rtt
    }
    /// The plain bandwidth-delay product of [`Model::max_bw`] and the least round-trip time, without quanta
    /// or rounding.
    #[inline]
    pub fn bdp(&self) -> Option<Bytes> {
        self.min_rtt().map(|min_rtt| self.max_bw().over(min_rtt))
    }
    /// The rate against which growth is judged in Startup.
    #[inline]
    pub fn full_bw(&self) -> Rate {
        self.full_bw
    }
    /// Startup has once found the bandwidth.
    #[inline]
    pub fn full_bw_reached(&self) -> bool {
        self.full_bw_reached
    }
    /// Round trips since the start, by this flow's own count: recovery and ProbeRTT begin new ones.
    #[inline]
    pub fn round(&self) -> u64 {
        self.round.count()
    }
    /// The current acknowledgement begins a round trip.
    #[inline]
    pub fn round_start(&self) -> bool {
        self.round_start
    }
    /// Data in flight after the last acknowledgement.
    #[inline]
    pub fn inflight(&self) -> Bytes {
        self.inflight
    }
    /// When data was last delivered.
    #[inline]
    pub fn delivered_at(&self) -> Nanos {
        self.delivered_at
    }
    /// A phase that began at `since` has lasted longer than the least round-trip time.
    #[inline]
    pub fn lasted_min_rtt(&self, since: Nanos) -> bool {
        self.min_rtt().is_some_and(|min_rtt| self.delivered_at - since > min_rtt)
    }
    /// All bytes ever delivered.
    #[inline]
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }
    /// All bytes ever declared lost.
    #[inline]
    pub fn lost(&self) -> Bytes {
        self.lost
    }
    /// The congestion window.
    #[inline]
    pub fn cwnd(&self) -> Bytes {
        self.cwnd
    }
    /// The window before recovery or ProbeRTT.
    #[inline]
    pub fn prior_cwnd(&self) -> Bytes {
        self.prior_cwnd
    }
    /// The pacing rate.
    #[inline]
    pub fn pacing_rate(&self) -> Rate {
        self.pacing_rate
    }
    /// The recovery phase at the last acknowledgement that delivered data.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }
    /// The rules of the first round of recovery are in force.
    #[inline]
    pub fn conserving(&self) -> bool {
        self.conserving
    }
    /// What aggregation adds to the window: the greatest recent excess, up to 100 ms of bandwidth.
    #[inline]
    pub fn extra_acked(&self) -> Bytes {
        if self.settings.extra_acked && self.full_bw_reached {
            self.aggregation.max().min(self.bw().over(CAP))
        } else {
            Bytes::ZERO
        }
    }
    /// The send quantum.
    #[inline]
    pub fn send_quantum(&self) -> Bytes {
        self.settings.mss * self.quantum_segments
    }

    pub(super) fn set_pacing_rate(&mut self, rate: Rate) {
        // An estimate below a byte per second rounds to nothing, and pacing at nothing would never send again.
        let rate = rate.max(Rate::from_bytes_per_sec(1));
        if rate == self.pacing_rate {
            return;
        }
        self.pacing_rate = rate;
        self.quantum_segments = self.settings.quantum.unwrap_or_else(|| {
            let bytes = (rate.as_bytes_per_sec() / QUANTUM_SHIFT).min(QUANTUM_BYTES);
            (bytes / self.settings.mss.as_u64())
                .clamp(if rate < SLOW { 1 } else { 2 }, 127)
                .min(self.settings.max_quantum)
        });
    }

    /// Remembers the window for the end of recovery or of ProbeRTT.
    pub(super) fn save_window(&mut self) {
        let undisturbed = self.phase == Phase::Open && !matches!(self.state, State::ProbeRtt { .. });
        self.prior_cwnd = if undisturbed { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }
}
