//! # Vegas
//!
//! The first scheme to infer congestion from delay. Once per round trip Vegas compares the flow's rate with the rate
//! that the flow would have with empty queues. The difference times the minimum RTT is the number of the flow's packets
//! in the queues. Vegas keeps that number between two small bounds, so the bottleneck stays busy and its queue stays
//! short.
//!
//! ## Control law
//! W: cwnd in segments; baseRTT: minimum RTT seen; RTT: minimum of the last round, from at least three
//! samples. Rounds follow one another; each lasts as long as a window of data takes to be acknowledged.
//!
//! ```text
//! expected W = W baseRTT / RTT        the inflight without a queue
//! diff       = W - W baseRTT / RTT    own packets queued
//!
//! slow start   W grows as NewReno's, by the bytes acknowledged; once per round:
//!              diff > gamma (1):  W = min(W, expected W + 1), ssthresh = min(ssthresh, W - 1): avoidance begins
//! avoidance    once per round:
//!              diff < alpha (2):  W += 1
//!              diff > beta (4):   W -= 1, ssthresh = min(ssthresh, W - 1)
//!              otherwise          W stays
//! each round   W >= 2;  ssthresh = max(ssthresh, 3/4 W)
//! fewer than three samples in the round: one NewReno step
//! loss, mark, timeout: as NewReno; no round is judged until the data outstanding at that time is acknowledged
//! ```
//!
//! ## States
//! ```text
//!                 diff > gamma, or W reaches ssthresh
//!   slow_start ------------------------------------------> avoidance
//!      |   ^                                                |    ^
//!      |   +---- timeout: W = 1 ----------------------------+    |
//!      |                                                    |    | next round trip
//!      +------------- loss, mark --------------> suspended -+----+
//! ```
//!
//! ## References
//! L. Brakmo, L. Peterson, TCP Vegas, IEEE JSAC 13(8), 1995; Linux `tcp_vegas.c` (6.x, and the copy in ns-2.35).
//!
//! ## Differences
//! 1. diff is that of the paper, W (1 - baseRTT/RTT). Linux today computes W (RTT/baseRTT - 1), larger by the factor
//!    RTT/baseRTT.
//! 2. cwnd and diff have fractions. Linux truncates them to whole packets.
//! 3. cwnd grows only while it limits the sender. In Linux an application-limited Vegas keeps growing cwnd.
//! 4. Rounds are the transport's packet-timed round trips. The first full round after recovery is judged again.
//! 5. On loss, ssthresh is half of the data outstanding (RFC 5681), or with `reduction_from = "cwnd"` half of cwnd, as
//!    in Linux.
//! 6. The 1994 paper doubles cwnd every other round trip and retransmits earlier. Linux and this scheme do neither.
//!
//! ## Known weaknesses
//! Vegas yields to loss-based flows until almost no bandwidth is left. A flow that starts into a standing queue
//! mistakes the queue for propagation delay and keeps more than its share; a flow whose path becomes longer keeps too
//! few packets in flight. Vegas takes jitter and delayed ACKs for queues.

use crate::reno::Reno;
use crate::round::RoundSamples;
use crate::window_pacing::{PACED, WindowPacing};
use crate::{
    Ack, Bytes, CongestionControl, Control, IdleRestart, Info, Param, Phase, Provenance, RecoveryEntered,
    RecoveryStyle, Scheme, Setup, SpuriousLoss, Telemetry, Timeout, Value,
};

/// Vegas congestion control.
#[derive(Clone, Debug)]
pub struct Vegas {
    reno: Reno,
    alpha: f64,
    beta: f64,
    gamma: f64,
    rtts: RoundSamples,
    /// Whether the current round began in the open phase, so that Vegas may judge the round at its end.
    judging: bool,
    phase: Phase,
    /// The flow's packets queued in the last judged round.
    diff: Option<f64>,
    pacing: WindowPacing,
}

impl Vegas {
    /// Ends a round: adjusts cwnd by the number of packets that were queued in this round.
    fn judge(&mut self, event: &Ack) {
        let Some((base, rtt)) = self.rtts.of_round() else {
            return self.grow(event, Reno::grow);
        };
        let mss = self.reno.mss;
        let expected = self.reno.cwnd.mul_f64(base.as_nanos() as f64 / rtt.as_nanos() as f64);
        let diff = (self.reno.cwnd - expected).in_segments(mss);
        self.diff = Some(diff);
        if self.reno.in_slow_start() {
            if diff > self.gamma {
                self.reno.cwnd = self.reno.cwnd.min(expected + mss);
                self.leave_slow_start();
            } else {
                self.grow(event, Reno::grow);
            }
        } else if diff > self.beta {
            self.reno.cwnd -= mss;
            self.leave_slow_start();
        } else if diff < self.alpha {
            self.grow(event, |reno, _| reno.cwnd += reno.mss);
        }
        self.reno.cwnd = self.reno.cwnd.max(mss * 2);
        if self.reno.ssthresh < Bytes::MAX {
            self.reno.ssthresh = self.reno.ssthresh.max(self.reno.cwnd.mul_f64(0.75));
        }
    }

    /// Lowers ssthresh with cwnd, so that a reduced cwnd does not re-enter slow start.
    fn leave_slow_start(&mut self) {
        self.reno.ssthresh = self.reno.ssthresh.min((self.reno.cwnd - self.reno.mss).max(self.reno.mss));
    }

    #[inline]
    fn grow(&mut self, event: &Ack, how: impl FnOnce(&mut Reno, Bytes)) {
        if event.cwnd_limited && !event.creditable().is_zero() {
            how(&mut self.reno, event.creditable());
        }
    }
}

impl Scheme for Vegas {
    const INFO: Info = Info {
        name: "vegas",
        aliases: &[],
        summary: "keeps two to four of its packets queued, judged by delay once per round trip",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Prr,
        params: &[
            Param::number("alpha", 2.0, (0.0, 10_000.0), "pkt", "grow while fewer own packets are queued"),
            Param::number("beta", 4.0, (0.0, 10_000.0), "pkt", "shrink while more own packets are queued"),
            Param::number("gamma", 1.0, (0.0, 10_000.0), "pkt", "end slow start when more own packets are queued"),
            PACED,
        ],
    };

    fn new(setup: &Setup) -> Self {
        Self {
            reno: Reno::new(setup),
            alpha: setup.params.number("alpha"),
            beta: setup.params.number("beta"),
            gamma: setup.params.number("gamma"),
            rtts: RoundSamples::default(),
            judging: true,
            phase: Phase::Open,
            diff: None,
            pacing: WindowPacing::new(setup),
        }
    }
}

impl CongestionControl for Vegas {
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.pacing.on_ack(event.srtt);
        self.phase = event.phase;
        if let Some(rtt) = event.rtt {
            self.rtts.measure(rtt);
        }
        match event.phase {
            Phase::Recovery => self.judging = false,
            Phase::Loss => {
                self.judging = false;
                self.grow(event, Reno::grow);
            }
            Phase::Open if event.round_start => {
                if self.judging {
                    self.judge(event);
                }
                self.judging = true;
                self.rtts.begin_round();
            }
            Phase::Open => {
                if self.reno.in_slow_start() {
                    self.grow(event, |reno, acked| {
                        reno.slow_start(acked);
                    });
                }
            }
        }
    }

    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        self.phase = Phase::Recovery;
        self.judging = false;
        self.reno.reduce(event.flight_size / 2);
    }

    fn on_timeout(&mut self, event: &Timeout) {
        self.phase = Phase::Loss;
        self.judging = false;
        self.reno.collapse(event);
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        self.reno.undo();
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        // The path may have changed meanwhile, so baseRTT is measured again. The current round may still be judged: a
        // small window that empties before every acknowledgement must grow.
        self.rtts = RoundSamples::default();
        self.judging = true;
        self.reno.restart(event);
    }

    #[inline]
    fn control(&self) -> Control {
        self.reno.control(&self.pacing)
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let state = match (self.phase, self.reno.in_slow_start()) {
            (Phase::Recovery, _) => "suspended",
            (_, true) => "slow_start",
            (Phase::Loss, false) => "suspended",
            (Phase::Open, false) => "avoidance",
        };
        sink("state", Value::State(state));
        self.reno.telemetry(sink);
        if let Some(base) = self.rtts.base() {
            sink("base_rtt", Value::Time(base));
        }
        if let Some(diff) = self.diff {
            sink("diff", Value::Number(diff));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Build, MSS, ack, entered, sample, timeout};
    use crate::{CongestionCause, Nanos};

    /// A scheme in avoidance with a window of `segments` and a base round-trip time of 100 ms; a round has just begun.
    fn avoiding(segments: u64, overrides: &[(&str, f64)]) -> Vegas {
        let mut scheme = Vegas::with(overrides);
        scheme.reno.cwnd = Bytes::new(segments * MSS);
        scheme.reno.ssthresh = Bytes::new(2 * MSS);
        scheme.rtts = RoundSamples::of_base(Nanos::from_millis(100));
        scheme
    }

    /// Feeds a round of three samples, whose last sample ends the round. Returns cwnd in bytes.
    fn round(scheme: &mut Vegas, micros: u64) -> u64 {
        testing::round(scheme, micros);
        scheme.control().cwnd.as_u64()
    }

    /// The window changes by one segment per round while the number of queued packets is outside the bounds, and stays
    /// unchanged within the bounds.
    #[test]
    fn vegas_window_moves_one_segment_per_round_to_bounds() {
        // At W = 40, diff = 40 (1 - 100 / RTT): an RTT of 105.263 ms means 2 packets queued, 111.111 ms means 4
        // packets.
        for (micros, change) in
            [(100_000, 1), (105_200, 1), (105_300, 0), (108_000, 0), (111_100, 0), (111_200, -1), (150_000, -1)]
        {
            let mut scheme = avoiding(40, &[]);
            let expected = 40 * MSS as i64 + change * MSS as i64;
            assert_eq!(round(&mut scheme, micros) as i64, expected, "{micros} us");
            let diff = 40.0 * (1.0 - 100_000.0 / micros as f64);
            assert!((scheme.diff.unwrap() - diff).abs() < 0.001);
        }
    }

    /// With exactly alpha or beta packets queued the window stays unchanged.
    #[test]
    fn vegas_at_alpha_or_beta_holds_the_window() {
        // The RTT is twice baseRTT, so diff is exactly half the window.
        for (segments, change) in [(3, 1), (4, 0), (8, 0), (9, -1)] {
            let mut scheme = avoiding(segments, &[]);
            let expected = (segments as i64 + change) * MSS as i64;
            assert_eq!(round(&mut scheme, 200_000) as i64, expected, "{segments} segments");
        }
    }

    /// The window changes once per round, for any number of acknowledgements.
    #[test]
    fn vegas_decides_once_per_round() {
        let mut scheme = avoiding(40, &[]);
        for _ in 0..30 {
            scheme.on_ack(&sample(100_000));
        }
        assert_eq!(scheme.control().cwnd, Bytes::new(40 * MSS));
        assert_eq!(round(&mut scheme, 100_000), 41 * MSS);
    }

    /// A round with fewer than three samples makes a Reno step.
    #[test]
    fn vegas_fewer_than_three_samples_make_a_reno_step() {
        let mut scheme = avoiding(40, &[]);
        scheme.on_ack(&sample(200_000));
        scheme.on_ack(&Ack { round_start: true, ..sample(200_000) });
        assert_eq!(scheme.control().cwnd, Bytes::new(40 * MSS), "the credit of one ACK is short of a window");
        scheme.on_ack(&Ack { round_start: true, ..Ack { rtt: Some(Nanos::from_millis(200)), ..ack(39 * MSS) } });
        assert_eq!(scheme.control().cwnd, Bytes::new(41 * MSS));
    }

    /// Slow start ends when more than gamma packets are queued.
    #[test]
    fn vegas_slow_start_ends_above_gamma_queued_packets() {
        // W has grown from 10 to 12 segments by the end of the round. diff = 12 (1 - 100/110) = 1.09 exceeds gamma = 1,
        // and expected W is 12 · 100/110 = 10.909 segments.
        let mut scheme = Vegas::with(&[]);
        scheme.rtts = RoundSamples::of_base(Nanos::from_millis(100));
        assert_eq!(round(&mut scheme, 110_000), 10_909 + MSS);
        assert!(!scheme.reno.in_slow_start());
        // diff = 12 (1 - 100/109) = 0.99 is below gamma, so the third ACK still grows W and slow start continues.
        let mut scheme = Vegas::with(&[]);
        scheme.rtts = RoundSamples::of_base(Nanos::from_millis(100));
        assert_eq!(round(&mut scheme, 109_000), 13 * MSS);
        assert!(scheme.reno.in_slow_start());
    }

    /// Shrinking never leads back into slow start, nor below two segments.
    #[test]
    fn vegas_shrinks_to_two_segments_without_slow_start() {
        let mut scheme = avoiding(40, &[]);
        scheme.reno.ssthresh = Bytes::new(39_500);
        for _ in 0..60 {
            round(&mut scheme, 400_000);
            assert!(!scheme.reno.in_slow_start());
        }
        // diff = 3/4 W, so W stops shrinking at 5 segments (3.75 packets queued). With alpha = beta = 0, W shrinks to
        // two segments.
        assert_eq!(scheme.control().cwnd, Bytes::new(5 * MSS));
        let mut eager = avoiding(10, &[("alpha", 0.0), ("beta", 0.0)]);
        for _ in 0..20 {
            round(&mut eager, 400_000);
        }
        assert_eq!(eager.control().cwnd, Bytes::new(2 * MSS));
    }

    /// The first round judged after a recovery is the first full round.
    #[test]
    fn vegas_after_recovery_judges_first_full_round() {
        let mut scheme = avoiding(40, &[]);
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, 40 * MSS));
        scheme.on_ack(&Ack { phase: Phase::Recovery, ..sample(150_000) });
        assert_eq!(round(&mut scheme, 150_000), 20 * MSS, "the round began in recovery");
        assert_eq!(round(&mut scheme, 150_000), 19 * MSS);
    }

    /// In loss repair the window grows as Reno's window does.
    #[test]
    fn vegas_in_loss_repair_grows_as_reno() {
        let mut scheme = avoiding(40, &[]);
        scheme.on_timeout(&timeout(40 * MSS, 1));
        scheme.on_ack(&Ack { phase: Phase::Loss, round_start: true, ..sample(400_000) });
        assert_eq!(scheme.control().cwnd, Bytes::new(2 * MSS));
    }

    /// After idle time baseRTT is measured again.
    #[test]
    fn vegas_after_idle_time_measures_base_rtt_again() {
        let mut scheme = avoiding(40, &[]);
        scheme.on_idle_restart(&testing::idle(100, 200));
        assert_eq!(round(&mut scheme, 150_000), 41 * MSS, "nothing queued on a path of 150 ms");
    }

    /// A window of two packets, emptied by one acknowledgement, grows by Reno's step, as in Linux.
    #[test]
    fn vegas_window_that_empties_every_round_grows() {
        let mut scheme = avoiding(2, &[]);
        for segments in 3..6 {
            scheme.on_idle_restart(&testing::idle(100, 200));
            let window = scheme.control().cwnd.as_u64();
            scheme.on_ack(&Ack { round_start: true, rtt: Some(Nanos::from_millis(100)), ..ack(window) });
            assert_eq!(scheme.control().cwnd, Bytes::new(segments * MSS));
        }
    }

    /// An application-limited window does not grow but may shrink.
    #[test]
    fn vegas_app_limited_window_shrinks_but_does_not_grow() {
        let mut scheme = avoiding(40, &[]);
        let limited = |scheme: &mut Vegas, micros| {
            for round_start in [false, false, true] {
                scheme.on_ack(&Ack { cwnd_limited: false, round_start, ..sample(micros) });
            }
            scheme.control().cwnd
        };
        assert_eq!(limited(&mut scheme, 100_000), Bytes::new(40 * MSS));
        assert_eq!(limited(&mut scheme, 150_000), Bytes::new(39 * MSS));
    }
}
