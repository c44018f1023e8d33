//! State and steps that every generation of BBR shares: `bbr_v1` (the core of BBR v1) and `bbr_v2_v3` (the core of BBR
//! v2 and v3).

use crate::{Ack, Bytes, Nanos, Phase, Random, Rate, RoundCounter, Timeout};

/// Minimum cwnd in segments (MinPipeCwnd): two packets in flight and two that are acknowledged together.
pub(crate) const MIN_WINDOW_SEGMENTS: u64 = 4;

/// The clock of ProbeRTT: it waits until inflight has fallen, and then until both a minimum duration and a round trip
/// have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRtt {
    /// When the minimum duration ends; `None` until inflight has fallen.
    pub until: Option<Nanos>,
    /// A round trip has passed with inflight at its floor.
    pub round_done: bool,
}

impl ProbeRtt {
    /// The clock on entry, before inflight has fallen.
    pub const ENTRY: Self = Self { until: None, round_done: false };

    /// Whether the transition to `next` is allowed: `until` is set once, and `round_done` becomes true after that.
    pub const fn may_become(self, next: Self) -> bool {
        match (self.until, next.until) {
            (None, Some(_)) => !next.round_done,
            (Some(_), Some(_)) => !self.round_done && next.round_done,
            (_, None) => false,
        }
    }

    /// The earliest end of ProbeRTT; `None` until a round trip has passed.
    #[inline]
    pub fn end(self) -> Option<Nanos> {
        self.until.filter(|_| self.round_done)
    }
}

/// Measurements and controls that a BBR flow of any generation keeps. The model of each generation dereferences to this
/// type.
#[derive(Clone, Debug)]
pub struct FlowState {
    pub(crate) random: Random,
    pub(crate) round: RoundCounter,
    pub(crate) round_start: bool,
    /// Minimum RTT, and when it was measured or last confirmed.
    pub(crate) min_rtt: Option<(Nanos, Nanos)>,
    pub(crate) latest_rtt: Option<Nanos>,
    seen_srtt: bool,
    pub(crate) full_bw_reached: bool,
    pub(crate) delivered: Bytes,
    pub(crate) inflight: Bytes,
    pub(crate) cwnd: Bytes,
    pub(crate) pacing_rate: Rate,
    /// Bytes delivered at entry to ProbeRTT, and bytes delivered plus inflight at the last ACK in ProbeRTT. Packets
    /// sent while the delivered count is between these values count as application-limited.
    pub(crate) probe_rtt_limited: Option<(Bytes, Bytes)>,
    pub(crate) idle_restart: bool,
    /// cwnd before recovery or ProbeRTT.
    pub(crate) prior_cwnd: Bytes,
    /// The transport's recovery phase, except that a response to marks alone counts as open.
    pub(crate) phase: Phase,
    /// The current recovery responds to a mark, not to a loss.
    pub(crate) only_marked: bool,
}

impl FlowState {
    pub(crate) fn new(cwnd: Bytes, random: Random) -> Self {
        Self {
            random,
            round: RoundCounter::default(),
            round_start: false,
            min_rtt: None,
            latest_rtt: None,
            seen_srtt: false,
            full_bw_reached: false,
            delivered: Bytes::ZERO,
            inflight: Bytes::ZERO,
            probe_rtt_limited: None,
            idle_restart: false,
            cwnd,
            prior_cwnd: Bytes::ZERO,
            pacing_rate: Rate::ZERO,
            phase: Phase::Open,
            only_marked: false,
        }
    }

    /// Round trips so far, by this flow's counter: recovery and ProbeRTT restart the current round.
    #[inline]
    pub fn round(&self) -> u64 {
        self.round.count()
    }
    /// Whether the current acknowledgement begins a round trip.
    #[inline]
    pub fn round_start(&self) -> bool {
        self.round_start
    }
    /// The estimated propagation delay.
    #[inline]
    pub fn min_rtt(&self) -> Option<Nanos> {
        self.min_rtt.map(|(rtt, _)| rtt)
    }
    /// The newest RTT sample.
    #[inline]
    pub fn latest_rtt(&self) -> Option<Nanos> {
        self.latest_rtt
    }
    /// Whether Startup has found the bandwidth at least once.
    #[inline]
    pub fn full_bw_reached(&self) -> bool {
        self.full_bw_reached
    }
    /// All bytes ever delivered.
    #[inline]
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }
    /// Data in flight after the last acknowledgement.
    #[inline]
    pub fn inflight(&self) -> Bytes {
        self.inflight
    }
    /// The congestion window.
    #[inline]
    pub fn cwnd(&self) -> Bytes {
        self.cwnd
    }
    /// cwnd before recovery or ProbeRTT.
    #[inline]
    pub fn prior_cwnd(&self) -> Bytes {
        self.prior_cwnd
    }
    /// The pacing rate.
    #[inline]
    pub fn pacing_rate(&self) -> Rate {
        self.pacing_rate
    }
    /// The recovery phase. BBR v1 updates it only at acknowledgements that deliver data, and at timeouts.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Copies the totals of an acknowledgement.
    #[inline]
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        self.inflight = ack.inflight;
        self.delivered = ack.delivered;
        if ack.rtt.is_some() {
            self.latest_rtt = ack.rtt;
        }
    }

    /// Returns the first smoothed RTT of the connection once, and `None` afterwards.
    #[inline]
    pub(crate) fn first_srtt(&mut self, srtt: Option<Nanos>) -> Option<Nanos> {
        let first = srtt.filter(|_| !self.seen_srtt);
        self.seen_srtt |= first.is_some();
        first
    }

    /// Restarts the round trip now: it ends when data sent from now on is acknowledged.
    pub(crate) fn restart_round(&mut self) {
        self.round.restart(self.delivered);
    }

    /// Responds to a retransmission timeout: cwnd becomes inflight plus one segment.
    pub(crate) fn collapse(&mut self, event: &Timeout, mss: Bytes) {
        self.cwnd = event.inflight + mss;
        self.inflight = event.inflight;
        self.phase = Phase::Loss;
        self.only_marked = false;
    }

    /// Saves cwnd for the end of recovery or ProbeRTT.
    pub(crate) fn save_cwnd(&mut self, in_probe_rtt: bool) {
        let undisturbed = self.phase == Phase::Open && !in_probe_rtt;
        self.prior_cwnd = if undisturbed { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    /// Restores cwnd from before recovery or ProbeRTT unless the current cwnd is larger.
    pub(crate) fn restore_window(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// Sets the pacing rate. Returns the new rate if it differs from the previous rate.
    #[inline]
    pub(crate) fn change_pacing_rate(&mut self, rate: Rate) -> Option<Rate> {
        // An estimate below 1 byte/s rounds to zero, and a pacing rate of zero would stop the sender for good.
        let rate = rate.max(Rate::from_bytes_per_sec(1));
        let changed = rate != self.pacing_rate;
        self.pacing_rate = rate;
        changed.then_some(rate)
    }

    /// Whether a packet sent at this delivered count was sent during ProbeRTT and so counts as application-limited.
    #[inline]
    pub(crate) fn is_probe_rtt_limited(&self, delivered_at_send: Bytes) -> bool {
        self.probe_rtt_limited.is_some_and(|(from, until)| (from..=until).contains(&delivered_at_send))
    }

    /// Advances the clock of ProbeRTT. The clock starts when inflight has fallen to `window` and runs for `duration`.
    pub(crate) fn advance(&mut self, clock: ProbeRtt, ack: &Ack, window: Bytes, duration: Nanos) -> ProbeRtt {
        if let Some((_, until)) = &mut self.probe_rtt_limited {
            *until = ack.delivered + ack.inflight;
        }
        match clock.until {
            Some(_) => ProbeRtt { round_done: clock.round_done || self.round_start, ..clock },
            None if ack.inflight <= window => {
                self.round.restart(ack.delivered);
                ProbeRtt { until: Some(ack.now + duration), round_done: false }
            }
            None => clock,
        }
    }
}

/// Methods common to the models of all generations, which have the fields `flow` (a [`FlowState`]),
/// `settings` and `state`.
macro_rules! common_model {
    ($Model:ty, $Settings:ty, $State:ident) => {
        impl $Model {
            /// Parameter values.
            #[inline]
            pub fn settings(&self) -> &$Settings {
                &self.settings
            }
            /// The state.
            #[inline]
            pub fn state(&self) -> $State {
                self.state
            }
            /// Saves cwnd for the end of recovery or ProbeRTT (SaveCwnd).
            pub(super) fn save_cwnd(&mut self) {
                self.flow.save_cwnd(matches!(self.state, $State::ProbeRtt(_)));
            }
        }
        impl core::ops::Deref for $Model {
            type Target = $crate::bbr_common::FlowState;
            #[inline]
            fn deref(&self) -> &Self::Target {
                &self.flow
            }
        }
        impl core::ops::DerefMut for $Model {
            #[inline]
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.flow
            }
        }
    };
}
pub(crate) use common_model;

/// Methods common to the cores of all generations: access to `model` and `policy`, and the clock of ProbeRTT.
macro_rules! common_core {
    () => {
        /// The model.
        pub fn model(&self) -> &Model {
            &self.model
        }

        /// The variant's state.
        pub fn policy(&self) -> &P {
            &self.policy
        }

        /// Advances the clock of ProbeRTT, which starts when inflight has fallen to `window`. Leaves ProbeRTT when the
        /// clock ends.
        pub(super) fn continue_probe_rtt(&mut self, ack: &Ack, clock: ProbeRtt, window: Bytes) {
            let duration = self.model.settings.probe_rtt_duration;
            let next = self.model.advance(clock, ack, window, duration);
            if next != clock {
                self.transition(State::ProbeRtt(next));
            }
            if let Some(end) = next.end() {
                self.leave_probe_rtt(ack.now, end);
            }
        }
    };
}
pub(crate) use common_core;
