//! # FAST TCP
//!
//! FAST adapts Vegas to fast networks. Like Vegas, FAST infers the number of its packets in queues from the delay and
//! keeps that number constant, but its steps are proportional to the error. At any link rate, FAST corrects an error of
//! cwnd within a few round trips. In equilibrium each flow at a bottleneck has alpha packets queued: rates are
//! proportionally fair, and a buffer for the sum of these packets does not overflow.
//!
//! ## Control law
//! w: cwnd in segments; baseRTT: minimum RTT seen; RTT: mean of the samples, each with weight 1 / max(256,
//! w/3); w_old: cwnd when the packets of the latest samples were sent.
//!
//! ```text
//! multiplicative   while RTT - baseRTT < mi_threshold (0.75 ms):   w += segments acknowledged
//! equation         otherwise, once per `every` (2) round trips,
//!                  unless alpha <= w_old (1 - baseRTT / RTT) < alpha + band:
//!                  w = min(2 w, (1 - gamma) w + gamma (w_old baseRTT / RTT + alpha)),   gamma = 1/2, at least 2
//! loss, mark       w = w/2, at least 2                             timeout   w = 1
//! idle for longer than the RTO                                     w = min(w, initial window)
//! ```
//! alpha = 100 packets, band = 0. cwnd grows only while it limits the sender, and not during fast recovery.
//! In equilibrium w (1 - baseRTT / RTT) = alpha: with n flows at rate C the queueing delay is n alpha / C.
//!
//! ## States
//! ```text
//!   multiplicative <--- queueing delay across mi_threshold ---> equation
//!         |  ^                                                    |  ^
//!         |  |      all data outstanding then acknowledged        |  |
//!         +--+------------------> recovery <----------------------+--+     loss, mark
//! ```
//! After recovery, or an idle time longer than the RTO, the equation waits for `every` whole round trips.
//!
//! ## References
//! C. Jin, D. Wei, S. Low, FAST TCP: Motivation, Architecture, Algorithms, Performance, INFOCOM 2004 (the
//! equation); `tcp-fast.cc` and `tcp-fast.h` of the Melbourne module 1.1.3 in ns-2.35 (2007), read in full:
//! the source of the mean RTT, w_old, the band, the multiplicative phase and the halving on loss.
//!
//! ## Differences
//! 1. The equation runs once per two round trips, as in the paper. The module applies the equation every 10 ms during
//!    every other round trip, and not at all in between. The limit of 2 w is the paper's; the module has none.
//! 2. cwnd takes the whole step at once. If baseRTT is 4 ms or more, the module spreads the step over the ACKs until
//!    the next step.
//! 3. The multiplicative phase counts acknowledged bytes. The module adds a segment per ACK.
//! 4. A timeout leaves one segment, not two. A spurious reduction is undone.
//! 5. The upper end of the band, the module's beta, is alpha + band, so that a change of alpha alone creates no band.
//! 6. Rounds are the transport's packet-timed round trips. baseRTT survives idle periods, as in the module.
//!
//! ## Known weaknesses
//! FAST yields to loss-based flows. A flow that starts into a standing queue mistakes the queue for propagation delay
//! and keeps more than its share. A buffer of less than n alpha packets overflows in steady state, and all flows then
//! halve cwnd together. Below 1 Mbit/s, alpha packets cause more than a second of delay.

use crate::reno::Reno;
use crate::window_pacing::{PACED, WindowPacing};
use crate::{
    Ack, Bytes, CongestionControl, Control, IdleRestart, Info, Nanos, Param, Phase, Provenance, RecoveryEntered,
    RecoveryStyle, Scheme, Setup, SpuriousLoss, Telemetry, Timeout, Value,
};

/// Minimum number of samples that the mean RTT covers; it covers a third of cwnd, in packets, if that is more.
const MEAN_SAMPLES_MIN: f64 = 256.0;

/// FAST congestion control.
#[derive(Clone, Debug)]
pub struct Fast {
    /// The window. FAST uses its ssthresh only to undo reductions.
    reno: Reno,
    alpha: f64,
    band: f64,
    gamma: f64,
    mi_threshold_ns: f64,
    every: u64,
    /// Minimum and mean RTT in ns, once there is a sample.
    rtt: Option<(f64, f64)>,
    /// cwnd at the start of the current round and of the previous round.
    round_windows: [Bytes; 2],
    /// w_old: cwnd when the packets of the latest samples were sent. Packets acknowledged in one round were sent in the
    /// previous round.
    old_window: Bytes,
    /// Rounds since the equation was last applied, or since a multiplicative step or recovery.
    rounds: u64,
    phase: Phase,
    pacing: WindowPacing,
}

impl Fast {
    #[inline]
    fn measure(&mut self, rtt: Nanos) {
        let sample = rtt.max(Nanos::from_nanos(1)).as_nanos() as f64;
        self.rtt = Some(match self.rtt {
            None => (sample, sample),
            Some((base, mean)) => {
                let over = MEAN_SAMPLES_MIN.max(self.reno.cwnd.in_segments(self.reno.mss) / 3.0);
                (base.min(sample), mean + (sample - mean) / over)
            }
        });
    }

    /// Whether the queueing delay is so small that the path is underused.
    #[inline]
    fn is_idle_path(&self) -> bool {
        self.rtt.is_none_or(|(base, mean)| mean - base < self.mi_threshold_ns)
    }

    /// The flow's queued packets, from the mean RTT and the cwnd under which that RTT was measured.
    fn queued(&self) -> f64 {
        let (base, mean) = self.rtt.unwrap_or((1.0, 1.0));
        self.old_window.in_segments(self.reno.mss) * (1.0 - base / mean)
    }

    /// Applies the equation to cwnd. Without `may_grow` cwnd may only shrink.
    fn apply(&mut self, may_grow: bool) {
        let queued = self.queued();
        if self.alpha <= queued && queued < self.alpha + self.band {
            return;
        }
        let mss = self.reno.mss;
        let target = self.old_window.in_segments(mss) - queued + self.alpha;
        let w = self.reno.cwnd.in_segments(mss);
        let next = ((1.0 - self.gamma) * w + self.gamma * target).min(2.0 * w).max(2.0);
        if next <= w || may_grow {
            self.reno.cwnd = mss.mul_f64(next).max(mss * 2);
        }
    }

    fn halt(&mut self) {
        self.rounds = 0;
        self.old_window = self.reno.cwnd;
        self.round_windows = [self.reno.cwnd; 2];
    }
}

impl Scheme for Fast {
    const INFO: Info = Info {
        name: "fast",
        aliases: &[],
        summary: "keeps a fixed number of its packets queued, by an equation in the delay",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Prr,
        params: &[
            Param::number("alpha", 100.0, (0.0, 10_000.0), "pkt", "own packets queued in equilibrium"),
            Param::number(
                "band",
                0.0,
                (0.0, 10_000.0),
                "pkt",
                "hold cwnd while the queue is less than this above alpha",
            ),
            Param::ratio("gamma", 0.5, (0.01, 1.0), "share of the error corrected per step"),
            Param::number("mi_threshold", 0.75, (0.0, 10_000.0), "ms", "multiply below this queueing delay"),
            Param::count("every", 2.0, (1.0, 100.0), "round trips", "interval between uses of the equation"),
            PACED,
        ],
    };

    fn new(setup: &Setup) -> Self {
        let params = &setup.params;
        let reno = Reno::new(setup);
        Self {
            alpha: params.number("alpha"),
            band: params.number("band"),
            gamma: params.number("gamma"),
            mi_threshold_ns: params.number("mi_threshold") * 1e6,
            every: params.number("every") as u64,
            rtt: None,
            round_windows: [reno.cwnd; 2],
            old_window: reno.cwnd,
            rounds: 0,
            phase: Phase::Open,
            pacing: WindowPacing::new(setup),
            reno,
        }
    }
}

impl CongestionControl for Fast {
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.pacing.on_ack(event.srtt);
        self.phase = event.phase;
        if let Some(rtt) = event.rtt {
            self.measure(rtt);
        }
        if event.phase == Phase::Recovery {
            self.rounds = 0;
            return;
        }
        let may_grow = event.cwnd_limited && !event.creditable().is_zero();
        if event.round_start {
            self.old_window = self.round_windows[1];
            self.rounds += 1;
        }
        if self.is_idle_path() {
            self.rounds = 0;
            if may_grow {
                self.reno.cwnd += event.creditable();
            }
        } else if self.rounds > self.every {
            // `>`, not `>=`: the round that was in progress when the count began is not a whole round.
            self.apply(may_grow);
            self.rounds = 1;
        }
        if event.round_start {
            self.round_windows = [self.reno.cwnd, self.round_windows[0]];
        }
    }

    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {
        self.phase = Phase::Recovery;
        self.reno.reduce(self.reno.cwnd / 2);
        self.halt();
    }

    fn on_timeout(&mut self, event: &Timeout) {
        self.phase = Phase::Loss;
        self.reno.collapse(event);
        self.halt();
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        self.reno.undo();
        self.halt();
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.reno.restart(event);
        // A small window empties before every acknowledgement, which must not delay the equation. After a long pause,
        // even with an unchanged cwnd, the equation waits for whole rounds.
        if event.is_long() {
            self.halt();
        }
    }

    #[inline]
    fn control(&self) -> Control {
        // FAST has no ssthresh: pace as in slow start in the multiplicative phase, and as in avoidance
        // otherwise.
        let threshold = if self.is_idle_path() { Bytes::MAX } else { Bytes::ZERO };
        Control { cwnd: self.reno.cwnd, pacing_rate: self.pacing.rate(self.reno.cwnd, threshold), burst: Bytes::MAX }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let state = match (self.phase, self.is_idle_path()) {
            (Phase::Recovery, _) => "recovery",
            (_, true) => "multiplicative",
            (_, false) => "equation",
        };
        sink("state", Value::State(state));
        if let Some((base, mean)) = self.rtt {
            sink("base_rtt", Value::Time(Nanos::from_nanos(base as u64)));
            sink("mean_rtt", Value::Time(Nanos::from_nanos(mean as u64)));
            sink("queued", Value::Number(self.queued()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CongestionCause;
    use crate::testing::{self, Build, MSS, ack, entered, timeout};

    /// A scheme with a steady cwnd of `segments`, a baseRTT of 100 ms and a mean RTT of `mean_ms`.
    fn steady(segments: u64, mean_ms: f64, overrides: &[(&str, f64)]) -> Fast {
        let mut scheme = Fast::with(overrides);
        scheme.reno.cwnd = Bytes::new(segments * MSS);
        scheme.halt();
        scheme.rtt = Some((100e6, mean_ms * 1e6));
        scheme
    }

    /// Runs the rounds for which the equation waits, up to the ACK that ends the last of them. Returns cwnd in
    /// segments.
    fn period(scheme: &mut Fast) -> f64 {
        for _ in 0..=scheme.every {
            scheme.on_ack(&Ack { round_start: true, ..ack(MSS) });
        }
        scheme.reno.cwnd.in_segments(scheme.reno.mss)
    }

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 0.002, "{value} is not {expected}");
    }

    /// One step of the window law matches the value computed by hand.
    #[test]
    fn fast_window_step_matches_by_hand() {
        for (w, mean_ms, next) in [
            (200, 125.0, 230.0),  // 40 packets queued: (200 + 160 + 100) / 2
            (1000, 200.0, 800.0), // 500 packets queued: (1000 + 500 + 100) / 2
            (500, 125.0, 500.0),  // 100 packets queued: equilibrium
            (20, 101.0, 40.0),    // 0.2 packets queued: (20 + 19.8 + 100) / 2 exceeds 2 w = 40
        ] {
            near(period(&mut steady(w, mean_ms, &[])), next);
        }
        near(period(&mut steady(200, 125.0, &[("gamma", 1.0)])), 260.0);
        near(period(&mut steady(200, 125.0, &[("alpha", 10.0)])), 185.0);
        near(period(&mut steady(2, 1000.0, &[("alpha", 0.0)])), 2.0);
    }

    /// The window stays unchanged while at least alpha and fewer than alpha + band packets are queued.
    #[test]
    fn fast_window_holds_within_band_above_alpha() {
        for (w, next) in [(495, 495.5), (505, 505.0), (750, 750.0), (995, 995.0), (1005, 954.5)] {
            near(period(&mut steady(w, 125.0, &[("band", 100.0)])), next); // a fifth of w is queued
        }
    }

    /// The window law applies every other round.
    #[test]
    fn fast_window_law_applies_every_other_round() {
        let mut scheme = steady(200, 125.0, &[]);
        // At a constant mean RTT of 125 ms a window of 230 segments has 46 packets queued: (230 + 184 + 100) / 2 = 257.
        // The next step gives (257 + 205.6 + 100) / 2 = 281.3.
        for expected in [200.0, 200.0, 230.0, 230.0, 257.0, 257.0, 281.3] {
            scheme.on_ack(&Ack { round_start: true, ..ack(MSS) });
            scheme.on_ack(&ack(MSS));
            near(scheme.reno.cwnd.in_segments(scheme.reno.mss), expected);
        }
    }

    /// A round acknowledges data that was sent under the window of the preceding round, so the equation uses that
    /// window.
    #[test]
    fn fast_round_is_judged_by_window_of_round_before() {
        let mut scheme = steady(200, 125.0, &[("every", 1.0)]);
        let mut next = |expected| {
            scheme.on_ack(&Ack { round_start: true, ..ack(MSS) });
            near(scheme.reno.cwnd.in_segments(scheme.reno.mss), expected);
        };
        next(200.0);
        next(230.0);
        next(245.0); // samples of packets sent under 200: (230 + 160 + 100) / 2
        next(264.5); // samples of packets sent under 230: (245 + 184 + 100) / 2
    }

    /// Without a queue every acknowledged segment adds one segment.
    #[test]
    fn fast_without_queue_grows_one_segment_per_ack() {
        let mut scheme = steady(200, 100.7, &[]);
        scheme.on_ack(&ack(50 * MSS));
        assert_eq!(scheme.reno.cwnd, Bytes::new(250 * MSS));
        let mut queued = steady(200, 100.75, &[]);
        queued.on_ack(&ack(50 * MSS));
        assert_eq!(queued.reno.cwnd, Bytes::new(200 * MSS));
    }

    /// The mean RTT covers 256 samples, or a third of the window if that is more.
    #[test]
    fn fast_mean_covers_256_samples_or_third_of_window() {
        for (w, mean_ms) in [(20, 100.1), (768, 100.1), (3000, 100.0256)] {
            let mut scheme = steady(w, 100.0, &[]);
            scheme.measure(Nanos::from_micros(125_600));
            let (base, mean) = scheme.rtt.unwrap();
            assert!((mean - mean_ms * 1e6).abs() < 1.0 && base == 100e6, "{w} segments: {mean} ns");
        }
        let mut lower = steady(20, 110.0, &[]);
        lower.measure(Nanos::from_millis(90));
        assert_eq!(lower.rtt.unwrap().0, 90e6);
    }

    /// With n flows, each flow settles with alpha packets queued.
    ///
    /// The n flows share a pipe of 400 packets: the queueing delay follows from the sum of their windows.
    #[test]
    fn fast_n_flows_settle_with_alpha_packets_each() {
        let mut all = [50, 350, 650, 950].map(|window| steady(window, 100.0, &[]));
        for n in 1..=all.len() {
            let flows = &mut all[..n];
            for _ in 0..60 {
                let sum: f64 = flows.iter().map(|flow| flow.reno.cwnd.as_f64() / MSS as f64).sum();
                for flow in flows.iter_mut() {
                    flow.rtt = Some((100e6, 100e6 * (sum / 400.0).max(1.01)));
                    flow.old_window = flow.reno.cwnd;
                    flow.apply(true);
                }
            }
            for flow in flows.iter() {
                // In equilibrium sum (1 - 400 / sum) = n alpha, so the windows add up to 400 + 100 n packets, shared
                // equally by the n flows.
                let (window, expected) = (flow.reno.cwnd.as_f64() / MSS as f64, 400.0 / n as f64 + 100.0);
                assert!((window - expected).abs() < 0.5, "{n} flows: {window} is not {expected}");
            }
        }
    }

    /// A loss halves the window, and the window law pauses for two whole rounds.
    #[test]
    fn fast_loss_halves_window_and_pauses_law_two_rounds() {
        let mut scheme = steady(200, 125.0, &[]);
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, 200 * MSS));
        assert_eq!(scheme.reno.cwnd, Bytes::new(100 * MSS));
        for _ in 0..5 {
            scheme.on_ack(&Ack { phase: Phase::Recovery, round_start: true, ..ack(MSS) });
        }
        assert_eq!(scheme.reno.cwnd, Bytes::new(100 * MSS));
        near(period(&mut scheme), 140.0); // 20 packets queued: (100 + 80 + 100) / 2
        let mut small = steady(3, 125.0, &[]);
        small.on_recovery_entered(&entered(CongestionCause::Loss, 3 * MSS));
        assert_eq!(small.reno.cwnd, Bytes::new(2 * MSS));
    }

    /// A timeout leaves a cwnd of one segment; if the timeout proves spurious, the previous cwnd is restored.
    #[test]
    fn fast_timeout_leaves_one_segment_unless_spurious() {
        let mut scheme = steady(200, 125.0, &[]);
        scheme.on_timeout(&timeout(200 * MSS, 1));
        assert_eq!(scheme.reno.cwnd, Bytes::new(MSS));
        scheme.on_spurious_loss(&testing::spurious(Phase::Loss));
        near(period(&mut scheme), 230.0);
    }

    /// An application-limited window does not grow but may shrink.
    #[test]
    fn fast_app_limited_window_shrinks_but_does_not_grow() {
        let limited = |mut scheme: Fast| {
            for _ in 0..=2 {
                scheme.on_ack(&Ack { cwnd_limited: false, round_start: true, ..ack(MSS) });
            }
            scheme.reno.cwnd.in_segments(scheme.reno.mss)
        };
        near(limited(steady(200, 125.0, &[])), 200.0);
        near(limited(steady(200, 100.0, &[])), 200.0);
        near(limited(steady(1000, 200.0, &[])), 800.0);
    }

    /// After a pause the equation waits for whole rounds again, even under idle rules that keep cwnd.
    #[test]
    fn fast_pause_begins_the_count_anew_under_every_rule() {
        for rule in [crate::IdleRule::Linux, crate::IdleRule::Rfc5681, crate::IdleRule::Off] {
            let mut scheme = steady(200, 125.0, &[]);
            scheme.rounds = 2;
            scheme.on_idle_restart(&IdleRestart { rule, ..testing::idle(201, 200) });
            assert_eq!(scheme.rounds, 0, "{rule:?}");
        }
    }

    /// The equation also applies to a window of two packets that every acknowledgement empties.
    #[test]
    fn fast_window_that_empties_every_round_is_judged() {
        let mut scheme = steady(2, 110.0, &[]);
        for _ in 0..=scheme.every {
            scheme.on_idle_restart(&testing::idle(100, 200));
            scheme.on_ack(&Ack { round_start: true, ..ack(2 * MSS) });
        }
        near(scheme.reno.cwnd.in_segments(scheme.reno.mss), 4.0);
    }

    /// Idle time beyond the RTO restarts from the initial window.
    #[test]
    fn fast_idle_beyond_rto_restarts_from_initial_window() {
        let mut scheme = steady(40, 100.0, &[]);
        scheme.on_idle_restart(&testing::idle(201, 200));
        assert_eq!((scheme.reno.cwnd, scheme.rtt), (Bytes::new(10 * MSS), Some((100e6, 100e6))));
    }
}
