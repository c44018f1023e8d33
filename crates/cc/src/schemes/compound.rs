//! # Compound TCP
//!
//! Compound TCP is the scheme of Windows from Vista on: Reno plus a second window for the capacity that Reno leaves
//! idle. While the delay shows no queue, the second window grows by a power of the total, so a long fat path is full
//! within seconds. When a queue builds, the second window shrinks by the number of packets queued, down to zero, where
//! only Reno's window remains. Where Reno alone fills the path, Compound is Reno.
//!
//! ## Control law
//! cwnd: Reno's window, dwnd: the delay window, win = cwnd + dwnd the window in force, in segments; baseRTT:
//! minimum RTT seen; RTT: minimum of the last round, from at least three samples (rounds follow one another);
//! win_r: win when the packets acknowledged in this round were sent, at the start of the previous round.
//!
//! ```text
//! slow start   win < ssthresh:   cwnd as NewReno's by the bytes acknowledged, dwnd = 0
//! avoidance    cwnd += 1 for every win segments acknowledged
//!              once per round    diff = win_r (1 - baseRTT / RTT)      own packets queued
//!              diff < gamma      dwnd += max(alpha win_r^k - 1, 0)     alpha = 1/8, k = 3/4, gamma = 30
//!              diff >= gamma     dwnd = max(dwnd - zeta diff, 0),      zeta = 1
//!                                ssthresh = min(ssthresh, win)
//! loss, mark   dwnd = max((1 - beta) win - cwnd / 2, 0),  cwnd /= 2    beta = 1/2
//!              ssthresh = win = cwnd + dwnd, at least 2
//! timeout      dwnd = 0, cwnd = 1; ssthresh = F / 2 as for NewReno, once per run of timeouts
//! idle for longer than the RTO   dwnd = 0, cwnd = min(cwnd, initial window)
//! ```
//! win grows only while it limits the sender, and not during fast recovery. Without a queue, win grows by
//! alpha win^k per round trip. If every (1/p)th packet is lost, win therefore peaks at (alpha (2 - k) / (p
//! (1 - (1 - beta)^(2 - k))))^(1 / (2 - k)) = (0.27 / p)^0.8, and its mean is 0.73 of that.
//!
//! ## States
//! ```text
//!   slow_start --win = ssthresh--> rising (diff < gamma) <--> yielding (diff >= gamma) --dwnd = 0--> reno
//!       |   ^                         |        ^
//!       |   +---- timeout: cwnd = 1 --+        | all data outstanding then acknowledged
//!       +------- loss, mark -----> recovery ---+
//! ```
//! No round of recovery is judged; the first round judged afterwards is the first whole round.
//!
//! ## References
//! `tcp_compound.c` of ns-2.35 and L. Andrew's release 1.3 of the same Linux module (2008), both read in
//! full; K. Tan, J. Song, Q. Zhang, M. Sridharan, A Compound TCP Approach for High-Speed and Long Distance
//! Networks, INFOCOM 2006 (the control law and its constants, as generally cited);
//! draft-sridharan-tcpm-ctcp-02 (2008), as release 1.3 quotes it.
//!
//! ## Differences
//! 1. The loss rule is the paper's. The modules halve the sum. ns-2.35 then takes the whole cut from cwnd if possible;
//!    release 1.3 divides the cut in proportion, which at beta = 1/2 is the paper's rule.
//! 2. diff and the windows have fractions. The modules truncate diff and windows.
//! 3. dwnd grows in one step per round, as in the paper and ns-2.35. Release 1.3 spreads the step over the
//!    round's ACKs.
//! 4. gamma is fixed. The draft tunes it per connection between 5 and 30, and keeps dwnd inactive below a
//!    window of 38.
//! 5. baseRTT survives idle periods, as in the draft.
//! 6. When dwnd shrinks, ssthresh follows win down. In the modules Reno's window would return to slow start.
//! 7. Rounds are the transport's packet-timed round trips. A spurious reduction restores both windows.
//!    Halving leaves cwnd at least one segment.
//!
//! ## Known weaknesses
//! In buffers of less than gamma packets the queue is never detected, and only losses slow the flow. A flow that starts
//! into a standing queue mistakes the queue for propagation delay. Like Reno, Compound fills the buffer, and random
//! loss counts as congestion.

use crate::reno::Reno;
use crate::round::RoundSamples;
use crate::window_pacing::{PACED, WindowPacing};
use crate::{
    Ack, Bytes, CongestionControl, Control, IdleRestart, Info, Param, Phase, Provenance, RecoveryEntered,
    RecoveryStyle, Scheme, Setup, SpuriousLoss, Telemetry, Timeout, Value,
};

/// Compound TCP congestion control.
#[derive(Clone, Debug)]
pub struct Compound {
    /// Reno's state, whose `cwnd` field holds the window in force, cwnd + dwnd.
    reno: Reno,
    dwnd: Bytes,
    /// dwnd before the last reduction.
    prior_dwnd: Bytes,
    alpha: f64,
    k: f64,
    gamma: f64,
    zeta: f64,
    beta: f64,
    rtts: RoundSamples,
    /// The windows at the start of the current round and of the previous round. The packets acknowledged in the current
    /// round were sent in the previous round. `None` if the current round began outside the open phase.
    round_windows: Option<[Bytes; 2]>,
    phase: Phase,
    /// The flow's packets queued in the last judged round.
    diff: f64,
    pacing: WindowPacing,
}

impl Compound {
    /// Ends a round whose packets were sent under `window`: adjusts the delay window by the number of packets queued.
    fn judge(&mut self, window: Bytes, may_grow: bool) {
        let Some((base, rtt)) = self.rtts.of_round() else { return };
        if self.reno.in_slow_start() {
            return;
        }
        let mss = self.reno.mss;
        let win = window.in_segments(mss);
        self.diff = win * (1.0 - base.as_nanos() as f64 / rtt.as_nanos() as f64);
        if self.diff >= self.gamma {
            let less = mss.mul_f64(self.zeta * self.diff).min(self.dwnd);
            self.dwnd -= less;
            self.reno.cwnd -= less;
            self.reno.ssthresh = self.reno.ssthresh.min(self.reno.cwnd);
        } else if may_grow {
            // One step adds at most the window itself, so growth never exceeds that of slow start.
            let more = (self.alpha * libm::pow(win, self.k) - 1.0).clamp(0.0, win);
            self.dwnd += mss.mul_f64(more);
            self.reno.cwnd += mss.mul_f64(more);
        }
    }

    fn begin_round(&mut self, windows: Option<[Bytes; 2]>) {
        self.rtts.begin_round();
        self.round_windows = windows;
    }
}

impl Scheme for Compound {
    const INFO: Info = Info {
        name: "compound",
        aliases: &["ctcp"],
        summary: "Reno plus a delay window for the capacity that Reno leaves idle",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Prr,
        params: &[
            Param::ratio("alpha", 0.125, (0.0, 10.0), "factor of the delay window's growth"),
            Param::ratio("k", 0.75, (0.0, 1.0), "exponent of the window in its growth"),
            Param::number("gamma", 30.0, (0.0, 10_000.0), "pkt", "shrink from this number of own packets queued on"),
            Param::ratio("zeta", 1.0, (0.0, 100.0), "shrink by this multiple of the packets queued"),
            Param::ratio("beta", 0.5, (0.05, 0.95), "share of the whole window removed on loss"),
            PACED,
        ],
    };

    fn new(setup: &Setup) -> Self {
        let params = &setup.params;
        Self {
            reno: Reno::new(setup),
            dwnd: Bytes::ZERO,
            prior_dwnd: Bytes::ZERO,
            alpha: params.number("alpha"),
            k: params.number("k"),
            gamma: params.number("gamma"),
            zeta: params.number("zeta"),
            beta: params.number("beta"),
            rtts: RoundSamples::default(),
            round_windows: None,
            phase: Phase::Open,
            diff: 0.0,
            pacing: WindowPacing::new(setup),
        }
    }
}

impl CongestionControl for Compound {
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.pacing.on_ack(event.srtt);
        self.phase = event.phase;
        if let Some(rtt) = event.rtt {
            self.rtts.measure(rtt);
        }
        if event.phase == Phase::Recovery {
            return;
        }
        let may_grow = event.cwnd_limited && !event.creditable().is_zero();
        if may_grow {
            self.reno.grow(event.creditable());
        }
        if event.phase == Phase::Open && event.round_start {
            let sent_under = self.round_windows.map_or(self.reno.cwnd, |[now, _]| now);
            if let Some([_, window]) = self.round_windows {
                self.judge(window, may_grow);
            }
            self.begin_round(Some([self.reno.cwnd, sent_under]));
        }
    }

    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {
        self.phase = Phase::Recovery;
        self.prior_dwnd = self.dwnd;
        let half_cwnd = ((self.reno.cwnd - self.dwnd) / 2).max(self.reno.mss);
        let kept = self.reno.cwnd.mul_f64(1.0 - self.beta);
        self.dwnd = kept - half_cwnd;
        self.reno.reduce(half_cwnd + self.dwnd);
        self.begin_round(None);
    }

    fn on_timeout(&mut self, event: &Timeout) {
        self.phase = Phase::Loss;
        if event.consecutive <= 1 {
            self.prior_dwnd = self.dwnd;
        }
        self.dwnd = Bytes::ZERO;
        self.reno.collapse(event);
        self.begin_round(None);
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        let reduced = self.reno.cwnd;
        self.reno.undo();
        if self.reno.cwnd > reduced {
            self.dwnd = self.prior_dwnd;
        }
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if event.outlasts_rto() {
            self.reno.cwnd -= self.dwnd;
            self.dwnd = Bytes::ZERO;
        }
        self.reno.restart(event);
        self.begin_round(None);
    }

    #[inline]
    fn control(&self) -> Control {
        self.reno.control(&self.pacing)
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let state = match (self.phase, self.reno.in_slow_start()) {
            (Phase::Recovery, _) => "recovery",
            (_, true) => "slow_start",
            (_, false) if self.diff < self.gamma => "rising",
            (_, false) if self.dwnd.is_zero() => "reno",
            (_, false) => "yielding",
        };
        sink("state", Value::State(state));
        self.reno.telemetry(sink);
        sink("dwnd", Value::Bytes(self.dwnd));
        sink("diff", Value::Number(self.diff));
        if let Some(base) = self.rtts.base() {
            sink("base_rtt", Value::Time(base));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Build, MSS, ack, entered, sample, timeout};
    use crate::{CongestionCause, Nanos};

    /// A scheme in avoidance with windows of `cwnd` and `dwnd` segments and a baseRTT of 100 ms; a round has just
    /// begun.
    fn avoiding(cwnd: u64, dwnd: u64, overrides: &[(&str, f64)]) -> Compound {
        let mut scheme = Compound::with(overrides);
        scheme.reno.cwnd = Bytes::new((cwnd + dwnd) * MSS);
        scheme.reno.ssthresh = scheme.reno.cwnd;
        scheme.dwnd = Bytes::new(dwnd * MSS);
        scheme.rtts = RoundSamples::of_base(Nanos::from_millis(100));
        scheme.begin_round(Some([scheme.reno.cwnd; 2]));
        scheme
    }

    /// Feeds a round of three samples, whose last sample ends the round. Returns both windows in bytes.
    fn round(scheme: &mut Compound, micros: u64) -> (u64, u64) {
        testing::round(scheme, micros);
        windows(scheme)
    }

    /// Asserts both windows, within one byte of rounding.
    #[track_caller]
    fn near(windows: (u64, u64), cwnd: u64, dwnd: u64) {
        assert!(windows.0.abs_diff(cwnd) <= 1 && windows.1.abs_diff(dwnd) <= 1, "{windows:?} is not {cwnd}, {dwnd}");
    }

    /// cwnd and dwnd in bytes.
    fn windows(scheme: &Compound) -> (u64, u64) {
        let win = scheme.control().cwnd;
        ((win - scheme.dwnd).as_u64(), scheme.dwnd.as_u64())
    }

    /// Without a queue the delay window grows by an eighth of the window to the power of three quarters.
    #[test]
    fn compound_without_queue_grows_dwnd_by_binomial_law() {
        // dwnd grows by win^(3/4) / 8 - 1 segments: 16^(3/4) = 8 gives 0, 81^(3/4) = 27 gives 2.375, 256^(3/4) = 64
        // gives 7, and 10000^(3/4) = 1000 gives 124. At win = 10 the law would be negative, so dwnd stays 0.
        for (win, more) in [(10, 0), (16, 0), (81, 2_375), (256, 7_000), (10_000, 124_000)] {
            let mut scheme = avoiding(win, 0, &[]);
            near(round(&mut scheme, 100_000), win * MSS, more);
        }
        // Growth depends on the sum of both windows, not on how the sum is divided between them.
        near(round(&mut avoiding(56, 200, &[]), 100_000), 56 * MSS, 207 * MSS);
    }

    /// From gamma queued packets on, the delay window shrinks by the queue.
    #[test]
    fn compound_from_gamma_queued_reduces_dwnd_by_queue() {
        // At win = 256, diff = 256 (1 - 100 / RTT): an RTT of 113.2 ms means 29.85 packets queued, 113.3 ms means
        // 30.05, 125 ms means 51.2, and 200 ms means 128.
        for (micros, dwnd) in [(113_200, 107_000), (113_300, 69_949), (125_000, 48_800), (200_000, 0)] {
            let mut scheme = avoiding(156, 100, &[]);
            near(round(&mut scheme, micros), 156 * MSS, dwnd);
        }
        near(round(&mut avoiding(156, 100, &[("zeta", 0.5)]), 125_000), 156 * MSS, 74_400);
        // A window of 60 segments at twice baseRTT has exactly gamma = 30 packets queued.
        near(round(&mut avoiding(20, 40, &[]), 200_000), 20 * MSS, 10 * MSS);
    }

    /// A round acknowledges data that was sent under the window of the preceding round, so diff uses that window.
    #[test]
    fn compound_round_is_judged_by_window_of_round_before() {
        let mut scheme = avoiding(256, 0, &[]);
        near(round(&mut scheme, 100_000), 256 * MSS, 7 * MSS);
        near(round(&mut scheme, 100_000), 256 * MSS, 14 * MSS); // samples of packets sent under 256 segments
        scheme.gamma = 1.0;
        near(round(&mut scheme, 102_000), 256 * MSS, 8_843); // win_r = 263: diff = 263 (1 - 100 / 102) = 5.157
    }

    /// A shrinking delay window does not lead back into slow start.
    #[test]
    fn compound_shrinking_dwnd_does_not_enter_slow_start() {
        let mut scheme = avoiding(100, 156, &[]);
        round(&mut scheme, 200_000);
        assert!(!scheme.reno.in_slow_start());
        assert_eq!(scheme.reno.ssthresh, Bytes::new(128 * MSS));
    }

    /// Reno's window grows by one segment per whole window acknowledged.
    #[test]
    fn compound_reno_window_grows_by_one_per_whole_window() {
        let mut scheme = avoiding(40, 60, &[]);
        scheme.on_ack(&ack(99 * MSS));
        assert_eq!(windows(&scheme), (40 * MSS, 60 * MSS));
        scheme.on_ack(&ack(MSS));
        assert_eq!(windows(&scheme), (41 * MSS, 60 * MSS));
    }

    /// The delay window stays unchanged in slow start and after rounds with fewer than three samples.
    #[test]
    fn compound_dwnd_rests_in_slow_start_or_few_samples() {
        let mut starting = Compound::with(&[]);
        round(&mut starting, 100_000);
        round(&mut starting, 100_000);
        assert_eq!(windows(&starting), (16 * MSS, 0));
        let mut few = avoiding(256, 0, &[]);
        few.on_ack(&sample(100_000));
        few.on_ack(&Ack { round_start: true, ..sample(100_000) });
        assert_eq!(windows(&few), (256 * MSS, 0));
    }

    /// A loss halves both windows. With a beta other than 1/2, Reno's window is still halved, and the delay window
    /// makes up the difference to (1 - beta) win.
    #[test]
    fn compound_loss_halves_both_windows() {
        let lose = |overrides: &[(&str, f64)]| {
            let mut scheme = avoiding(40, 60, overrides);
            scheme.on_recovery_entered(&entered(CongestionCause::Loss, 100 * MSS));
            (windows(&scheme), scheme.reno.ssthresh.as_u64())
        };
        assert_eq!(lose(&[]), ((20 * MSS, 30 * MSS), 50 * MSS));
        assert_eq!(lose(&[("beta", 0.25)]), ((20 * MSS, 55 * MSS), 75 * MSS));
        // The total after the loss, (1 - 0.9) 100 = 10 segments, is less than the halved Reno window of 20 segments, so
        // dwnd becomes zero.
        assert_eq!(lose(&[("beta", 0.9)]), ((20 * MSS, 0), 20 * MSS));
        let mut reno = avoiding(40, 0, &[]);
        reno.on_recovery_entered(&entered(CongestionCause::Loss, 40 * MSS));
        assert_eq!(windows(&reno), (20 * MSS, 0));
    }

    /// The first round judged after a recovery is the first full round.
    #[test]
    fn compound_after_recovery_judges_first_full_round() {
        let mut scheme = avoiding(256, 256, &[]);
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, 512 * MSS));
        scheme.on_ack(&Ack { phase: Phase::Recovery, ..sample(100_000) });
        near(round(&mut scheme, 100_000), 128 * MSS, 128 * MSS); // not judged, because this round began in recovery
        near(round(&mut scheme, 100_000), 128 * MSS, 135 * MSS);
    }

    /// A timeout clears the delay window; if the timeout was spurious, the delay window is restored.
    #[test]
    fn compound_timeout_clears_dwnd_and_spurious_restores() {
        let mut scheme = avoiding(40, 60, &[]);
        scheme.on_timeout(&timeout(100 * MSS, 1));
        scheme.on_timeout(&timeout(MSS, 2));
        assert_eq!((windows(&scheme), scheme.reno.ssthresh), ((MSS, 0), Bytes::new(50 * MSS)));
        scheme.on_spurious_loss(&testing::spurious(Phase::Loss));
        assert_eq!(windows(&scheme), (40 * MSS, 60 * MSS));
    }

    /// After an idle time longer than the RTO, only the initial window remains: Reno's window, with dwnd = 0.
    #[test]
    fn compound_idle_beyond_rto_leaves_reno_initial_window() {
        let mut scheme = avoiding(40, 60, &[]);
        scheme.on_idle_restart(&testing::idle(199, 200));
        assert_eq!(windows(&scheme), (40 * MSS, 60 * MSS));
        scheme.on_idle_restart(&testing::idle(201, 200));
        assert_eq!((windows(&scheme), scheme.rtts.base()), ((10 * MSS, 0), Some(Nanos::from_millis(100))));
    }

    /// An application-limited window does not grow but may shrink.
    #[test]
    fn compound_app_limited_dwnd_shrinks_but_does_not_grow() {
        let mut scheme = avoiding(156, 100, &[]);
        let limited = |scheme: &mut Compound, micros| {
            for round_start in [false, false, true] {
                scheme.on_ack(&Ack { cwnd_limited: false, round_start, ..sample(micros) });
            }
            windows(scheme)
        };
        near(limited(&mut scheme, 100_000), 156 * MSS, 100 * MSS);
        near(limited(&mut scheme, 125_000), 156 * MSS, 48_800);
    }
}
