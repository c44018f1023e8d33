//! # BIC
//!
//! BIC is CUBIC's predecessor, and was Linux's default from 2.6.8 to 2.6.18. A loss shows that the path can carry less
//! than the current cwnd and at least the reduced cwnd. BIC performs a binary search between these two values: each
//! round trip it adds a quarter of the remaining distance, so growth is fast at first and slow near the old maximum. A
//! cap on the step prevents bursts. Beyond the maximum, growth follows the mirrored curve in search of a new maximum.
//!
//! ## Control law
//! W: cwnd in segments; W_max: cwnd at the last loss, 0 before the first one; S = `s_max` (16); B = 4; P =
//! `smooth_part` (20); floor(x): the integer part of x.
//!
//! ```text
//! slow start  W < ssthresh:     W += segments acknowledged
//! avoidance   W >= ssthresh:    W += inc per round trip, in whole segments, where inc is
//!   W <= low_window (14)                      1                          as Reno
//!   W < W_max, d = floor((W_max - W) / B)     S        if d > S          additive
//!                                             d        if 1 < d <= S     binary search
//!                                             B / P    if d <= 1         P round trips for the last B segments
//!   W >= W_max, e = W - W_max                 B / P    if e < B
//!                                             e / 3    if e < 3 S        max probing
//!                                             S        otherwise
//!   W_max = 0                                 at least W / 20, unless W <= low_window
//!   always                                    at most W
//! loss, mark  W_max = W, or W (1 + beta) / 2 if W < W_max (fast convergence)
//!             ssthresh = beta W (beta = 0.8), or W / 2 if W <= low_window; at least 2;  W = min(W, ssthresh)
//! timeout     the same ssthresh, once per run of timeouts;  W = 1, W_max = 0
//! idle for longer than the RTO                W = min(W, initial window)
//! ```
//! cwnd grows only while it limits the sender, and not during fast recovery. In the additive part, under
//! random loss with probability p, W is about sqrt(S (1 + beta) / (2 (1 - beta) p)).
//!
//! ## States
//! ```text
//!   slow_start --W = ssthresh--> reno | additive | binary_search | smooth | max_probing     one of them at each ACK
//!       |  ^                       |          ^
//!       |  +--- timeout: W = 1 ----+          | all data outstanding then acknowledged
//!       +------ loss, mark ------> recovery --+
//! ```
//!
//! ## References
//! L. Xu, K. Harfoush, I. Rhee, Binary Increase Congestion Control for Fast Long-Distance Networks, INFOCOM 2004; Linux
//! `tcp_bic.c`, read in the versions of 2.6.13 (the version in ns-2.35) and 5.0.1, and followed.
//!
//! ## Differences
//! 1. Growth counts acknowledged bytes, so Linux's division by the estimated segments per ACK is not needed.
//! 2. inc is exact. Linux truncates W / inc to whole segments. d is truncated as in Linux. beta is 0.8; in Linux beta
//!    is 819/1024.
//! 3. This scheme computes inc at every ACK. Linux recomputes inc only when W has changed or after 1/32 s.
//! 4. The undo of a spurious reduction also restores W_max. Linux restores only cwnd.
//! 5. A series of timeouts lowers ssthresh once (RFC 5681).
//! 6. ssthresh is initially unlimited: slow start continues to the first loss. Early versions began with a
//!    threshold of 100 segments.
//!
//! ## Known weaknesses
//! At short RTTs and low rates BIC is far more aggressive than Reno, because its growth counts round trips.
//! Flows with long RTTs starve beside flows with short ones. BIC fills the buffer. Random loss counts as
//! congestion.

use crate::reno::Reno;
use crate::window_pacing::{PACED, WindowPacing};
use crate::{
    Ack, Bytes, CongestionControl, Control, IdleRestart, Info, Param, Phase, Provenance, RecoveryEntered, RecoveryLeft,
    RecoveryStyle, Scheme, Setup, SpuriousLoss, Telemetry, Timeout, Value,
};

/// Each round trip closes 1/B of the distance to the maximum (`BICTCP_B`).
const B: f64 = 4.0;
/// Before the first loss, growth per round trip is at least cwnd divided by this number.
const FIRST_GROWTH: f64 = 20.0;

/// BIC congestion control.
#[derive(Clone, Debug)]
pub struct Bic {
    reno: Reno,
    s_max: f64,
    smooth_part: f64,
    low_window: f64,
    beta: f64,
    fast_convergence: bool,
    /// cwnd at the last loss in segments, zero while unknown.
    w_max: f64,
    /// W_max before the last reduction.
    prior_w_max: f64,
    /// Bytes acknowledged towards the next segment.
    credit: Bytes,
    state: &'static str,
    pacing: WindowPacing,
}

impl Bic {
    /// Returns the growth in segments per round trip at a cwnd of `w` segments, and the name of that part of the curve.
    #[inline]
    fn increment(&self, w: f64) -> (f64, &'static str) {
        if w <= self.low_window {
            return (1.0, "reno");
        }
        let smooth = B / self.smooth_part;
        let (inc, part) = if w < self.w_max {
            let distance = libm::floor((self.w_max - w) / B);
            if distance > self.s_max {
                (self.s_max, "additive")
            } else if distance <= 1.0 {
                (smooth, "smooth")
            } else {
                (distance, "binary_search")
            }
        } else {
            let excess = w - self.w_max;
            if excess < B {
                (smooth, "smooth")
            } else if excess < self.s_max * (B - 1.0) {
                (excess / (B - 1.0), "max_probing")
            } else {
                (self.s_max, "max_probing")
            }
        };
        if self.w_max == 0.0 { (inc.max(w / FIRST_GROWTH), part) } else { (inc, part) }
    }

    fn avoid(&mut self, acked: Bytes) {
        let mss = self.reno.mss;
        let (inc, part) = self.increment(self.reno.cwnd.in_segments(mss));
        self.state = part;
        // Acknowledged bytes per increase by a segment: at least one segment, so that growth never exceeds slow start.
        let step = Bytes::from_f64(self.reno.cwnd.as_f64() / inc).max(mss);
        if self.credit >= step {
            // Credit collected under an earlier, longer step adds one segment, not a burst.
            self.credit = Bytes::ZERO;
            self.reno.cwnd += mss;
        }
        self.credit += acked;
        let segments = self.credit.as_u64() / step.as_u64();
        self.credit -= step * segments;
        self.reno.cwnd += mss * segments;
    }

    /// The part of the curve at the current cwnd.
    fn part(&self) -> &'static str {
        if self.reno.in_slow_start() {
            "slow_start"
        } else {
            self.increment(self.reno.cwnd.in_segments(self.reno.mss)).1
        }
    }

    /// Processes a congestion event: saves W_max and lowers cwnd and ssthresh.
    fn reduce(&mut self) {
        let w = self.reno.cwnd.in_segments(self.reno.mss);
        self.prior_w_max = self.w_max;
        let shrinking = self.fast_convergence && w < self.w_max;
        self.w_max = if shrinking { w * (1.0 + self.beta) / 2.0 } else { w };
        self.reno.reduce(self.reno.cwnd.mul_f64(if w <= self.low_window { 0.5 } else { self.beta }));
        self.credit = Bytes::ZERO;
    }
}

impl Scheme for Bic {
    const INFO: Info = Info {
        name: "bic",
        aliases: &[],
        summary: "binary search between the cwnd of the last loss and the reduced one",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Prr,
        params: &[
            Param::number("s_max", 16.0, (1.0, 10_000.0), "pkt", "maximum growth per round trip"),
            Param::number(
                "smooth_part",
                20.0,
                (1.0, 10_000.0),
                "round trips",
                "duration of the last 4 segments of growth up to the maximum",
            ),
            Param::number("low_window", 14.0, (0.0, 10_000.0), "pkt", "behave as Reno up to this cwnd"),
            Param::ratio("beta", 0.8, (0.1, 0.95), "share of cwnd kept on loss"),
            Param::flag("fast_convergence", true, "yield further when the maximum shrinks"),
            PACED,
        ],
    };

    fn new(setup: &Setup) -> Self {
        let params = &setup.params;
        Self {
            reno: Reno::new(setup),
            s_max: params.number("s_max"),
            smooth_part: params.number("smooth_part"),
            low_window: params.number("low_window"),
            beta: params.number("beta"),
            fast_convergence: params.flag("fast_convergence"),
            w_max: 0.0,
            prior_w_max: 0.0,
            credit: Bytes::ZERO,
            state: "slow_start",
            pacing: WindowPacing::new(setup),
        }
    }
}

impl CongestionControl for Bic {
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.pacing.on_ack(event.srtt);
        if event.phase == Phase::Recovery || !event.cwnd_limited || event.creditable().is_zero() {
            return;
        }
        let mut acked = event.creditable();
        if self.reno.in_slow_start() {
            self.state = "slow_start";
            acked = self.reno.slow_start(acked);
        }
        if !acked.is_zero() {
            self.avoid(acked);
        }
    }

    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {
        self.reduce();
        self.state = "recovery";
    }

    fn on_recovery_left(&mut self, _event: &RecoveryLeft) {
        self.state = self.part();
    }

    fn on_timeout(&mut self, event: &Timeout) {
        if event.consecutive <= 1 {
            self.reduce();
            self.w_max = 0.0;
        }
        self.reno.cwnd = event.restart_window(self.reno.mss);
        self.credit = Bytes::ZERO;
        self.state = "slow_start";
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        let reduced = self.reno.cwnd;
        self.reno.undo();
        if self.reno.cwnd > reduced {
            self.w_max = self.prior_w_max;
        }
        self.state = self.part();
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.reno.restart(event);
    }

    #[inline]
    fn control(&self) -> Control {
        self.reno.control(&self.pacing)
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("state", Value::State(self.state));
        self.reno.telemetry(sink);
        if self.w_max > 0.0 {
            sink("w_max", Value::Bytes(self.reno.mss.mul_f64(self.w_max)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CongestionCause;
    use crate::testing::{self, Build, MSS, ack, entered, state, timeout};

    /// A scheme in avoidance with a window of `segments`, after a loss at `w_max`.
    fn avoiding(segments: u64, w_max: f64, overrides: &[(&str, f64)]) -> Bic {
        let mut scheme = Bic::with(overrides);
        scheme.reno.cwnd = Bytes::new(segments * MSS);
        scheme.reno.ssthresh = scheme.reno.cwnd;
        scheme.w_max = w_max;
        scheme
    }

    fn lose(scheme: &mut Bic) {
        let flight = scheme.reno.cwnd.as_u64();
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, flight));
    }

    /// Acknowledges segments one by one until the window has grown by one segment; returns the number of acknowledged
    /// segments.
    fn acks_to_grow(scheme: &mut Bic) -> u64 {
        let before = scheme.reno.cwnd;
        let mut n = 0;
        while scheme.reno.cwnd == before {
            scheme.on_ack(&ack(MSS));
            n += 1;
            assert!(n < 1_000_000, "the window does not grow");
        }
        assert_eq!(scheme.reno.cwnd, before + Bytes::new(MSS));
        n
    }

    /// Increments match the table, below and above W_max.
    #[test]
    fn bic_increments_follow_table_around_the_maximum() {
        let scheme = avoiding(15, 1000.0, &[]);
        let smooth = 4.0 / 20.0;
        for (w, inc, part) in [
            (10.0, 1.0, "reno"),
            (14.0, 1.0, "reno"),
            (14.5, 16.0, "additive"), // floor(985.5 / 4) = 246
            (800.0, 16.0, "additive"),
            (932.0, 16.0, "additive"),      // floor(68 / 4) = 17, the last distance above 16
            (932.1, 16.0, "binary_search"), // floor(67.9 / 4) = 16
            (936.1, 15.0, "binary_search"), // floor(63.9 / 4) = 15
            (960.0, 10.0, "binary_search"),
            (992.0, 2.0, "binary_search"),
            (992.1, smooth, "smooth"), // floor(7.9 / 4) = 1
            (999.9, smooth, "smooth"),
            (1000.0, smooth, "smooth"),
            (1003.9, smooth, "smooth"),
            (1004.0, 4.0 / 3.0, "max_probing"),
            (1030.0, 10.0, "max_probing"),
            (1047.9, 47.9 / 3.0, "max_probing"),
            (1048.0, 16.0, "max_probing"),
            (5000.0, 16.0, "max_probing"),
        ] {
            let (got, in_part) = scheme.increment(w);
            assert!((got - inc).abs() < 1e-9, "{w}: {got} is not {inc}");
            assert_eq!(in_part, part, "{w}");
        }
    }

    /// Before the first loss the window grows by at least a twentieth of itself per round trip.
    #[test]
    fn bic_before_first_loss_grows_by_a_twentieth() {
        let scheme = avoiding(15, 0.0, &[]);
        // With W_max = 0, cwnd grows by W / 3 per round trip up to 48 segments, by 16 up to 320, and then by W / 20.
        for (w, inc) in [(14.0, 1.0), (30.0, 10.0), (60.0, 16.0), (320.0, 16.0), (400.0, 20.0), (2000.0, 100.0)] {
            assert!((scheme.increment(w).0 - inc).abs() < 1e-9, "{w}: {}", scheme.increment(w).0);
        }
        // The minimum of W / 20 also applies with S = 1, but only while W_max is unknown.
        assert_eq!(avoiding(15, 0.0, &[("s_max", 1.0)]).increment(100.0).0, 5.0);
        assert_eq!(avoiding(15, 1.0, &[("s_max", 1.0)]).increment(100.0).0, 1.0);
    }

    /// Growth by one segment takes window / increment acknowledged segments.
    #[test]
    fn bic_segment_takes_window_over_increment_acks() {
        // Segments acknowledged per increase: 800 / 16 = 50, 960 / 10 = 96, 996 / (4/20) = 4980.
        for (w, acks) in [(800, 50), (960, 96), (996, 4980)] {
            let mut scheme = avoiding(w, 1000.0, &[]);
            assert_eq!(acks_to_grow(&mut scheme), acks, "{w} segments");
        }
        // A delayed ACK counts all the segments it acknowledges.
        let mut scheme = avoiding(800, 1000.0, &[]);
        scheme.on_ack(&ack(125 * MSS)); // two and a half steps of 50 segments
        assert_eq!(scheme.reno.cwnd, Bytes::new(802 * MSS));
    }

    /// Growth is never faster than slow start.
    #[test]
    fn bic_growth_is_at_most_slow_start() {
        let mut scheme = avoiding(20, 100_000.0, &[("s_max", 10_000.0)]);
        scheme.on_ack(&ack(20 * MSS));
        assert_eq!(scheme.reno.cwnd, Bytes::new(40 * MSS));
    }

    /// Credit collected under a long step adds only one segment when a larger W_max shortens the step.
    #[test]
    fn bic_credit_of_long_step_is_one_segment_of_short_one() {
        let mut scheme = avoiding(996, 1000.0, &[]);
        scheme.on_ack(&ack(4000 * MSS)); // 4000 of the 4980 segments that an increase requires
        scheme.w_max = 5000.0; // an increase now requires 996 / 16 = 62.25 segments
        scheme.on_ack(&ack(MSS));
        assert_eq!(scheme.reno.cwnd, Bytes::new(997 * MSS));
    }

    /// A loss keeps four fifths of the window, or half of a window of at most 14 segments.
    #[test]
    fn bic_loss_keeps_four_fifths_or_half_of_small_window() {
        let mut scheme = avoiding(100, 0.0, &[]);
        lose(&mut scheme);
        assert_eq!((scheme.reno.cwnd, scheme.reno.ssthresh), (Bytes::new(80 * MSS), Bytes::new(80 * MSS)));
        assert_eq!((scheme.w_max, state(&scheme)), (100.0, "recovery"));
        let mut small = avoiding(14, 0.0, &[]);
        lose(&mut small);
        assert_eq!(small.reno.cwnd, Bytes::new(7 * MSS));
        let mut least = avoiding(3, 0.0, &[]);
        lose(&mut least);
        assert_eq!(least.reno.cwnd, Bytes::new(2 * MSS));
    }

    /// If the window at a loss is below the old W_max, fast convergence sets W_max to 0.9 of that window.
    #[test]
    fn bic_fast_convergence_lowers_maximum_of_shrunk_window() {
        for (overrides, expected) in [(&[][..], 81.0), (&[("fast_convergence", 0.0)][..], 90.0)] {
            let mut scheme = avoiding(90, 100.0, overrides);
            lose(&mut scheme);
            assert!((scheme.w_max - expected).abs() < 1e-9);
        }
        let mut grown = avoiding(100, 100.0, &[]);
        lose(&mut grown);
        assert_eq!(grown.w_max, 100.0);
    }

    /// A timeout resets the maximum; a series of timeouts lowers ssthresh once.
    #[test]
    fn bic_timeout_resets_maximum_and_lowers_ssthresh_once() {
        let mut scheme = avoiding(100, 100.0, &[]);
        scheme.on_timeout(&timeout(100 * MSS, 1));
        scheme.on_timeout(&timeout(MSS, 2));
        assert_eq!((scheme.reno.cwnd, scheme.reno.ssthresh), (Bytes::new(MSS), Bytes::new(80 * MSS)));
        assert_eq!(scheme.w_max, 0.0);
        scheme.on_ack(&Ack { phase: Phase::Loss, ..ack(79 * MSS) });
        assert_eq!(scheme.reno.cwnd, Bytes::new(80 * MSS));
        assert_eq!(acks_to_grow(&mut scheme), 5, "80 / 16: beyond an unknown maximum");
    }

    /// A spurious reduction is undone, W_max included.
    #[test]
    fn bic_spurious_reduction_is_undone() {
        let mut scheme = avoiding(90, 100.0, &[]);
        lose(&mut scheme);
        scheme.on_spurious_loss(&testing::spurious(Phase::Recovery));
        assert_eq!((scheme.reno.cwnd, scheme.w_max), (Bytes::new(90 * MSS), 100.0));
        assert_eq!(state(&scheme), "binary_search");
        scheme.on_spurious_loss(&testing::spurious(Phase::Recovery));
        assert_eq!(scheme.w_max, 100.0);
    }

    /// The window does not grow in recovery or while application-limited.
    #[test]
    fn bic_in_recovery_or_app_limited_does_not_grow() {
        let mut scheme = avoiding(15, 100.0, &[]);
        scheme.on_ack(&Ack { phase: Phase::Recovery, ..ack(15 * MSS) });
        scheme.on_ack(&Ack { cwnd_limited: false, ..ack(15 * MSS) });
        assert_eq!(scheme.reno.cwnd, Bytes::new(15 * MSS));
    }

    /// Idle time beyond the RTO restarts from the initial window.
    #[test]
    fn bic_idle_beyond_rto_restarts_from_initial_window() {
        let mut scheme = avoiding(40, 100.0, &[]);
        scheme.on_idle_restart(&testing::idle(201, 200));
        assert_eq!((scheme.reno.cwnd, scheme.w_max), (Bytes::new(10 * MSS), 100.0));
    }
}
