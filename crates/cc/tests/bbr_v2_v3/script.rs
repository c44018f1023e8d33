//! Scripts of BBRv2 and BBRv3: a BDP of 500 segments of 1000 bytes.

use narrows_cc::bbr_v2_v3::{BbrCore, Policy, State};
use narrows_cc::{Bytes, CongestionCause, CongestionControl, Nanos, Phase, Random, Rate, Setup};

use crate::script::Core;
use crate::{flow, script};

pub type V3 = <narrows_cc::schemes::Bbr3 as Core>::Policy;
pub type V2 = <narrows_cc::schemes::Bbr2 as Core>::Policy;

pub const MSS: Bytes = Bytes::new(1_000);
pub const BDP: Bytes = Bytes::new(500_000);
pub const RTT: Nanos = Nanos::from_millis(40);
/// A short time within a round trip.
pub const MOMENT: Nanos = Nanos::from_micros(10);

pub const fn segments(n: u64) -> Bytes {
    Bytes::new(1_000 * n)
}

pub fn setup<P: Policy>(seed: u64, values: &[(&str, f64)]) -> Setup {
    let params = flow::setup(&P::INFO, seed, values).params;
    Setup::new(MSS, params, Random::stream(seed, "bbr3", 0))
}

pub type Script<P> = script::Script<BbrCore<P>>;

impl<P: Policy> Script<P> {
    /// A flow after its handshake.
    pub fn new(values: &[(&str, f64)]) -> Self {
        Self::with(&setup::<P>(1, values))
    }

    pub fn with(setup: &Setup) -> Self {
        Self::over(setup, BDP)
    }

    /// A flow in PROBE_CRUISE: see [`Self::reach_cruise`].
    pub fn in_cruise(values: &[(&str, f64)]) -> Self {
        let mut script = Self::new(values);
        script.reach_cruise();
        script
    }

    /// A flow in PROBE_UP: see [`Self::reach_up`].
    pub fn in_up(values: &[(&str, f64)]) -> Self {
        let mut script = Self::new(values);
        script.reach_up();
        script
    }

    /// Acknowledges `acked` segments one round trip later.
    pub fn round(&mut self, acked: u64) {
        let ack = self.next(self.rtt, acked, true);
        self.cc.on_ack(&ack);
    }

    /// Runs `n` rounds of `acked` segments each.
    pub fn rounds(&mut self, n: usize, acked: u64) {
        for _ in 0..n {
            self.round(acked);
        }
    }

    /// Acknowledges `acked` more segments `after` the last acknowledgement, within the current round trip.
    pub fn within(&mut self, after: Nanos, acked: u64) {
        let ack = self.next(after, acked, false);
        self.cc.on_ack(&ack);
    }

    /// Acknowledges one more segment within the current round trip; `inflight` remains in flight.
    pub fn within_at(&mut self, inflight: Bytes) {
        self.inflight = inflight;
        self.within(MOMENT, 1);
    }

    /// Declares enough consecutive segments lost that a probe with `tx` in flight counts as too high.
    pub fn lose_too_much(&mut self, tx: Bytes) {
        let enough = tx.as_u64() / MSS.as_u64() / 50 + 1;
        for n in 1..=enough {
            self.lose(n, tx, n);
        }
    }

    pub fn enter_recovery(&mut self, cause: CongestionCause) {
        self.report_recovery(cause, self.inflight, Bytes::ZERO);
    }

    pub fn prove_spurious(&mut self) {
        self.report_spurious_loss();
        self.phase = Phase::Open;
    }

    /// Runs four rounds at a constant rate, after which the pipe counts as full.
    pub fn reach_drain(&mut self) {
        let queue = self.rate.over(self.rtt) * 2 + MSS * 100;
        let inflight = std::mem::replace(&mut self.inflight, queue);
        self.rounds(4, 500);
        self.inflight = inflight;
        assert_eq!(self.state(), State::Drain);
    }

    /// Runs to DRAIN: STARTUP ends after a round of recovery with six separate losses, 4 % of the flight.
    pub fn drain_by_loss(&mut self) {
        for n in 0..6 {
            self.lose(10 * n, BDP, 1);
        }
        self.enter_recovery(CongestionCause::Loss);
        self.lost_since = segments(20);
        self.within_at(BDP * 2);
        self.round(500);
        assert_eq!(self.state(), State::Drain);
    }

    /// Runs through PROBE_DOWN, which ends with the acknowledgement that ends DRAIN: inflight is just below
    /// the BDP.
    pub fn reach_cruise(&mut self) {
        self.reach_drain();
        let model = self.cc.model();
        self.within_at(model.inflight_at(model.max_bw(), 1.0) - MSS);
        assert_eq!(self.state(), State::Cruise);
    }

    /// Runs to PROBE_REFILL after the longest wait, with cwnd at its target.
    pub fn reach_refill(&mut self) {
        self.reach_cruise();
        self.refill_from_cruise();
    }

    /// Runs rounds of `acked` segments each until `done` holds; returns their number.
    #[track_caller]
    pub fn rounds_until(&mut self, acked: u64, done: impl Fn(&Self) -> bool) -> usize {
        self.repeat_until(done, |script| script.round(acked))
    }

    /// Runs rounds in PROBE_CRUISE until the next probe begins with PROBE_REFILL.
    pub fn refill_from_cruise(&mut self) {
        self.rounds_until(500, |script| script.state() != State::Cruise);
        assert_eq!(self.state(), State::Refill);
    }

    /// Runs to PROBE_UP.
    pub fn reach_up(&mut self) {
        self.reach_refill();
        self.up_from_refill();
    }

    pub fn up_from_refill(&mut self) {
        self.round(500);
        assert_eq!(self.state(), State::Up);
    }

    pub fn state(&self) -> State {
        self.cc.model().state()
    }

    /// Asserts the state, its pacing gain and its cwnd gain.
    #[track_caller]
    pub fn assert_gains(&self, state: State, pacing: f64, window: f64) {
        assert_eq!(self.state(), state);
        assert_rate(self.cc.control().pacing_rate.unwrap(), paced(pacing));
        assert_eq!(self.cc.model().cwnd_gain(), window);
    }

    /// Runs from Startup to Drain and for `rounds` further rounds with twice the BDP in flight.
    pub fn drain_for(&mut self, rounds: usize) {
        self.reach_drain();
        self.inflight = BDP * 2;
        self.rounds(rounds, 10);
    }
}

/// The pacing rate at `gain`: gain times bandwidth, less the pacing margin.
pub fn paced(gain: f64) -> f64 {
    12.5e6 * gain * 0.99
}

/// Asserts that a rate equals `expected` up to rounding to bytes per second.
pub fn assert_rate(rate: Rate, expected: f64) {
    assert!((rate.as_bytes_per_sec() as f64 - expected).abs() <= 1.0, "{rate:?}, expected {expected} B/s");
}
