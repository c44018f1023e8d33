//! # Prague
//!
//! DCTCP adapted to the Internet, and the sender for which L4S queues are designed. Prague sets ECT(1), so a dual queue
//! puts it into the queue with low delay. Like DCTCP it responds to the averaged share of marks, so a shallow queue
//! never runs empty. It paces, so that bursts build no queue. Its cwnd also grows right after a cut. Flows with short
//! RTTs behave as if their RTT were 25 ms, so they do not crowd out other flows. Prague responds to loss as Reno does.
//!
//! ## Control law
//! W: cwnd, A: bytes newly delivered, M: the marked bytes among them, S: segment size (all in bytes); R:
//! smoothed RTT, R0: the reference (`rtt_reference`, 25 ms), V = max(R, R0); alpha: the averaged share of
//! marks, g: its gain.
//!
//! ```text
//! start                          alpha = 1, unchanged until the first mark
//! once per V                     alpha = (1 - g) alpha + g  (sum of M) / (sum of A)      sums since the last update
//! marks, once per V              W = max(W (1 - alpha / 2), 2 S);  ssthresh = W
//! slow start   W < ssthresh      W += A - M
//! avoidance                      W += (A - M) S / W  min(R / R0, 1)^2       also right after a cut
//! loss                           ssthresh = max(F / 2, 2 S);  W = min(W, ssthresh)       F: as for NewReno
//! timeout                        same ssthresh, once per run of timeouts;  W = S
//! idle for longer than the RTO   W = min(W, initial window)
//! pacing                         W / R,  2 W / R while W < ssthresh / 2;  bursts of at most 1/4096 s
//! ```
//! In slow start, and until `rtt_transition` round trips of avoidance have passed, R0 is zero: a new flow converges as
//! fast as DCTCP. With a mark probability p the rate is about 2 S (1 - p) / (p V).
//!
//! ## States
//! ```text
//!                  mark, or W reaches ssthresh
//!   slow_start ----------------------------------> avoidance
//!     ^                                              |    ^
//!     | timeout: W = S                          loss |    | all outstanding at its start acknowledged
//!     |                                              v    |
//!     +------------------------------------------- recovery
//! ```
//! Marks do not change the state: cwnd is cut and keeps growing.
//!
//! ## References
//! K. De Schepper, O. Tilmans, B. Briscoe: Linux `tcp_prague.c`, version 0.6, of the L4S team's kernel: the source of
//! the control law. draft-briscoe-iccrg-prague-congestion-control-04 (2024) describes the scheme; the text of the draft
//! was not available. RFC 9331 (2023), section 4, for the duties of an L4S sender; RFC 8257 for the core.
//!
//! ## Differences
//! 1. Queues that also mark classic traffic are not detected; the reference code also disables this detection by
//!    default. In such a queue Prague takes most of the rate.
//! 2. Cuts are V apart in time. In the code a cut begins only when the kernel enters its window reduction (CWR) state,
//!    so with an RTT just below R0 a cut may wait for nearly 2 R.
//! 3. The share of marks comes from ACKs that report changes of marking at once (RFC 8257 section 3.2), not from the
//!    counters of Accurate ECN.
//! 4. Marks do not reduce cwnd below two segments, as in the code. RFC 9331 requires a smaller cwnd where two segments
//!    are too many.
//! 5. A timeout restarts from one segment, with the ssthresh of RFC 5681.
//! 6. Of the code's three forms of RTT independence, this is the default (rate).
//!
//! ## Known weaknesses
//! Prague depends on the queue: in a classic queue that marks, it starves other flows; in a drop-tail queue it is a
//! paced Reno. At the first marks alpha is 1, so slow start ends with half of cwnd, and the following growth by one
//! segment per round trip is slow. A retransmitted SYN no longer requests ECN: a flow whose first SYN is lost is a
//! paced Reno flow for its whole lifetime, in the classic queue of a DualPI2.

use super::dctcp::MarkShare;
use crate::window_pacing::LEAST_RTT;
use crate::{
    Ack, Bytes, CongestionCause, CongestionControl, Control, EcnNeed, IdleRestart, Info, Nanos, Param, Phase,
    Provenance, Rate, RecoveryEntered, RecoveryLeft, RecoveryStyle, Scheme, Setup, SpuriousLoss, Telemetry, Timeout,
    Value,
};

/// Bursts last at most 1 s divided by this number (2^12: the code's `prague_burst_shift` is 12).
const BURSTS_PER_SECOND: f64 = 4096.0;

/// Prague congestion control.
#[derive(Clone, Debug)]
pub struct Prague {
    mss: Bytes,
    initial_window: Bytes,
    reference: Nanos,
    /// Number of round trips of avoidance before the reference RTT applies.
    transition: u64,
    /// cwnd in bytes; it grows by fractions of a byte.
    cwnd: f64,
    ssthresh: f64,
    share: MarkShare,
    marked_before: bool,
    /// Whether a round trip has passed since the last update of alpha.
    round_over: bool,
    updated_at: Nanos,
    cut_at: Option<Nanos>,
    rounds: u64,
    repairing: bool,
    srtt: Option<Nanos>,
    /// The smoothed RTT, and the factor of the increase computed from it.
    scale: (Nanos, f64),
    prior: Option<(f64, f64)>,
}

impl Prague {
    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The reference RTT; zero in slow start and before the transition is over.
    fn reference(&self) -> Nanos {
        if self.in_slow_start() || self.rounds < self.transition { Nanos::ZERO } else { self.reference }
    }

    fn least(&self) -> f64 {
        2.0 * self.mss.as_f64()
    }

    /// Counts marks, and updates alpha once per V (the virtual RTT).
    fn observe(&mut self, event: &Ack) {
        self.share.count(event);
        self.marked_before |= !event.ce.is_zero();
        self.round_over |= event.round_start;
        self.rounds += u64::from(event.round_start && !self.in_slow_start());
        if self.round_over && event.now - self.updated_at >= self.reference() {
            self.round_over = false;
            self.updated_at = event.now;
            if self.marked_before {
                self.share.end_window();
            } else {
                self.share.reset();
            }
        }
    }

    fn grow(&mut self, bytes: Bytes) {
        let mut bytes = bytes.as_f64();
        if self.in_slow_start() {
            let part = bytes.min(self.ssthresh - self.cwnd);
            self.cwnd += part;
            bytes -= part;
        }
        let reference = self.reference();
        let srtt = self.srtt.unwrap_or_default();
        if srtt >= reference {
            self.scale = (Nanos::ZERO, 1.0);
        } else if self.scale.0 != srtt {
            let ratio = srtt.as_secs_f64() / reference.as_secs_f64();
            self.scale = (srtt, ratio * ratio);
        }
        self.cwnd += bytes * self.mss.as_f64() / self.cwnd * self.scale.1;
    }

    fn cut(&mut self, now: Nanos) {
        let apart = self.reference().max(self.srtt.unwrap_or_default());
        if self.cut_at.is_some_and(|at| now - at < apart) {
            return;
        }
        self.cut_at = Some(now);
        self.cwnd = (self.cwnd * (1.0 - self.share.alpha() / 2.0)).max(self.least()).min(self.cwnd);
        self.ssthresh = self.cwnd;
    }

    fn lower_threshold(&mut self, flight_size: Bytes) {
        self.prior = Some((self.cwnd, self.ssthresh));
        self.ssthresh = (flight_size / 2).as_f64().max(self.least());
    }
}

impl Scheme for Prague {
    const INFO: Info = Info {
        name: "prague",
        aliases: &[],
        summary: "DCTCP for the Internet: paced, ECT(1), less dependent on the RTT",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: &[
            MarkShare::GAIN,
            MarkShare::ALPHA_INIT,
            Param::number(
                "rtt_reference",
                25.0,
                (0.0, 100.0),
                "ms",
                "RTT that flows with shorter RTTs emulate; 0: off",
            ),
            Param::count(
                "rtt_transition",
                500.0,
                (0.0, 100_000.0),
                "",
                "round trips of avoidance before rtt_reference applies",
            ),
        ],
    };
    const ECN: EcnNeed = EcnNeed::L4s;

    fn new(setup: &Setup) -> Self {
        Self {
            mss: setup.mss,
            initial_window: setup.initial_window.max(setup.mss),
            reference: Nanos::from_secs_f64(setup.params.number("rtt_reference") / 1e3),
            transition: setup.params.number("rtt_transition") as u64,
            cwnd: setup.initial_window.max(setup.mss).as_f64(),
            ssthresh: f64::INFINITY,
            share: MarkShare::new(setup),
            marked_before: false,
            round_over: false,
            updated_at: Nanos::ZERO,
            cut_at: None,
            rounds: 0,
            repairing: false,
            srtt: None,
            scale: (Nanos::ZERO, 1.0),
            prior: None,
        }
    }
}

impl CongestionControl for Prague {
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.srtt = event.srtt;
        self.observe(event);
        if self.repairing {
            return;
        }
        let unmarked = event.creditable() - event.ce.min(event.creditable());
        if event.cwnd_limited && !unmarked.is_zero() {
            self.grow(unmarked);
        }
        if !event.ce.is_zero() && event.phase != Phase::Loss {
            self.cut(event.now);
        }
    }

    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        if event.cause == CongestionCause::Loss {
            self.repairing = true;
            self.lower_threshold(event.flight_size);
            self.cwnd = self.cwnd.min(self.ssthresh);
        }
    }

    fn on_recovery_left(&mut self, _event: &RecoveryLeft) {
        self.repairing = false;
    }

    fn on_timeout(&mut self, event: &Timeout) {
        self.repairing = false;
        if event.consecutive <= 1 {
            self.lower_threshold(event.flight_size);
        }
        self.cwnd = event.restart_window(self.mss).as_f64();
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        self.repairing = false;
        if let Some((window, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(window);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if event.outlasts_rto() {
            let cwnd = Bytes::from_f64(self.cwnd);
            self.ssthresh = self.ssthresh.max(event.threshold(cwnd, Bytes::ZERO).as_f64());
            self.cwnd = event.window(cwnd, self.initial_window).as_f64();
        }
    }

    #[inline]
    fn control(&self) -> Control {
        let window = Bytes::from_f64(self.cwnd).max(self.mss);
        let pacing_rate = self.srtt.map(|srtt| {
            let doubled = self.cwnd < self.ssthresh / 2.0;
            let window = if doubled { window * 2 } else { window };
            window.per(srtt.max(LEAST_RTT)).max(Rate::from_bytes_per_sec(1))
        });
        let burst = pacing_rate
            .map_or(self.mss, |rate| Bytes::from_f64(rate.as_bytes_per_sec() as f64 / BURSTS_PER_SECOND).max(self.mss));
        Control { cwnd: window, pacing_rate, burst }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let state = match (self.repairing, self.in_slow_start()) {
            (true, _) => "recovery",
            (false, true) => "slow_start",
            (false, false) => "avoidance",
        };
        sink("state", Value::State(state));
        sink("alpha", Value::Number(self.share.alpha()));
        if self.ssthresh.is_finite() {
            sink("ssthresh", Value::Bytes(Bytes::from_f64(self.ssthresh)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Build, MSS, ack, entered, timeout};

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// A scheme in avoidance with a cwnd of forty segments, at a round-trip time of 10 ms.
    fn avoiding(overrides: &[(&str, f64)]) -> Prague {
        let mut scheme = Prague::with(overrides);
        (scheme.cwnd, scheme.ssthresh, scheme.srtt) = (40_000.0, 40_000.0, Some(MS(10)));
        scheme
    }

    /// An ACK at `ms` that delivers `n` segments, `marked` of them with a mark.
    fn delivered(ms: u64, n: u64, marked: u64) -> Ack {
        Ack { now: MS(ms), srtt: Some(MS(10)), ce: Bytes::new(marked * MSS), ..ack(n * MSS) }
    }

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} against {expected}");
    }

    /// Growth is a segment per window of unmarked bytes, multiplied by the square of RTT / reference RTT.
    #[test]
    fn prague_growth_is_scaled_by_square_of_rtt() {
        let mut plain = avoiding(&[("rtt_reference", 0.0)]);
        plain.on_ack(&delivered(1, 4, 0));
        close(plain.cwnd, 40_000.0 + 4.0 * 1000.0 / 40.0);
        // During the transition the reference RTT does not apply; afterwards the factor is (10/25)^2 = 0.16.
        let mut early = avoiding(&[]);
        early.on_ack(&delivered(1, 4, 0));
        close(early.cwnd, 40_100.0);
        let mut scaled = avoiding(&[("rtt_transition", 0.0)]);
        scaled.on_ack(&delivered(1, 4, 0));
        close(scaled.cwnd, 40_016.0);
    }

    /// The window is cut at most once per virtual round trip and grows between cuts.
    #[test]
    fn prague_window_is_cut_once_per_virtual_rtt() {
        let mut scheme = avoiding(&[("rtt_transition", 0.0), ("alpha_init", 0.5)]);
        scheme.on_ack(&delivered(100, 1, 1));
        close(scheme.cwnd, 30_000.0);
        scheme.on_ack(&delivered(124, 1, 1));
        close(scheme.cwnd, 30_000.0);
        scheme.on_ack(&Ack { phase: Phase::Recovery, ..delivered(124, 3, 0) });
        close(scheme.cwnd, 30_000.0 + 3.0 * 1000.0 / 30.0 * 0.16);
        let before = scheme.cwnd;
        scheme.on_ack(&delivered(125, 1, 1));
        close(scheme.cwnd, 0.75 * before);
    }

    /// Alpha stays at one until the first mark, and is then updated once per virtual round trip.
    #[test]
    fn prague_alpha_follows_marks_once_per_virtual_rtt() {
        let mut scheme = avoiding(&[("rtt_transition", 0.0)]);
        let at = |ms, n, marked| Ack { round_start: true, ..delivered(ms, n, marked) };
        scheme.on_ack(&at(30, 8, 0));
        close(scheme.share.alpha(), 1.0);
        scheme.on_ack(&at(40, 8, 2));
        close(scheme.share.alpha(), 1.0);
        // 2 of the 16 segments since 30 ms are marked; the update happens at the first acknowledgement 25 ms later.
        scheme.on_ack(&Ack { round_start: false, ..delivered(55, 8, 0) });
        close(scheme.share.alpha(), 15.0 / 16.0 + 2.0 / 16.0 / 16.0);
    }

    /// Slow start ends with the first mark.
    #[test]
    fn prague_slow_start_ends_with_first_mark() {
        let mut scheme = Prague::with(&[]);
        scheme.on_ack(&delivered(10, 4, 0));
        close(scheme.cwnd, 14_000.0);
        assert_eq!(scheme.control().pacing_rate, Some(Rate::from_bytes_per_sec(2 * 1_400_000)));
        scheme.on_ack(&delivered(12, 2, 2));
        close(scheme.cwnd, 7_000.0);
        assert!(!scheme.in_slow_start());
        assert_eq!(scheme.control().pacing_rate, Some(Rate::from_bytes_per_sec(700_000)));
    }

    /// A loss reduces cwnd to half of the flight, and a timeout reduces cwnd to one segment.
    #[test]
    fn prague_loss_halves_flight_timeout_leaves_one_segment() {
        let mut scheme = avoiding(&[]);
        scheme.on_recovery_entered(&entered(CongestionCause::Ecn, 36 * MSS));
        close(scheme.cwnd, 40_000.0);
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, 36 * MSS));
        close(scheme.cwnd, 18_000.0);
        scheme.on_ack(&delivered(10, 2, 1));
        close(scheme.cwnd, 18_000.0);
        scheme.on_spurious_loss(&testing::spurious(Phase::Recovery));
        close(scheme.cwnd, 40_000.0);
        scheme.on_timeout(&timeout(40 * MSS, 1));
        assert_eq!((scheme.cwnd, scheme.ssthresh), (1_000.0, 20_000.0));
    }
}
