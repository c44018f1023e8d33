//! HyStart as Linux runs it (`tcp_cubic.c`, 5.6 and later).
//!
//! Two detectors end slow start (ssthresh = cwnd), from a cwnd of 16 segments on:
//! * **ACK train**: since the beginning of the round, acknowledgements have arrived at most 2 ms apart, for longer than
//!   half of (minimum RTT + offload delay). With pacing, the limit is the whole sum.
//! * **Delay**: from the ninth sample of the round on, the minimum RTT of the round is compared with the minimum RTT of
//!   the connection. Slow start ends if the difference exceeds an eighth of the connection's minimum RTT; this limit is
//!   at least 4 ms and at most 16 ms.
//!
//! Rounds are counted from the first acknowledgement, also below 16 segments (`hystart_update`). Each later round
//! begins with the first acknowledgement of data sent after the previous round began, so rounds begin with bursts.
//!
//! A timeout restarts HyStart. Unlike HyStart++, Linux's HyStart never resumes a slow start that it has ended.

use super::{HyStartState, SlowStartAck};
use crate::{Bytes, Nanos};

/// cwnd in segments below which the detectors are off (`hystart_low_window`).
const LOW_WINDOW: f64 = 16.0;
/// Longest gap within a train of acknowledgements (`hystart_ack_delta_us`).
const ACK_DELTA: Nanos = Nanos::from_millis(2);
const MIN_SAMPLES: u32 = 8;
const DELAY_DIVISOR: u64 = 8;
const DELAY_MIN: Nanos = Nanos::from_millis(4);
const DELAY_MAX: Nanos = Nanos::from_millis(16);

/// HyStart of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyStartLinux {
    found: bool,
    paced: bool,
    /// Minimum RTT of the connection (`delay_min`).
    min_rtt: Option<Nanos>,
    round_start: Nanos,
    /// The round ends when more bytes than this are delivered (`end_seq`).
    round_end: Bytes,
    last_ack: Nanos,
    round_min: Nanos,
    samples: u32,
}

impl HyStartLinux {
    pub(super) fn new(paced: bool) -> Self {
        Self {
            found: false,
            paced,
            min_rtt: None,
            round_start: Nanos::ZERO,
            round_end: Bytes::ZERO,
            last_ack: Nanos::ZERO,
            round_min: Nanos::MAX,
            samples: 0,
        }
    }

    pub(super) fn state(&self) -> HyStartState {
        if self.found { HyStartState::Done } else { HyStartState::SlowStart }
    }

    pub(super) fn restart(&mut self) {
        self.found = false;
    }

    #[inline]
    pub(super) fn on_rtt(&mut self, rtt: Option<Nanos>) {
        if let Some(rtt) = rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
    }

    #[inline]
    pub(super) fn on_ack(&mut self, ack: &SlowStartAck) -> bool {
        self.on_rtt(ack.rtt);
        let (Some(rtt), Some(min_rtt), false) = (ack.rtt, self.min_rtt, self.found) else { return false };
        if ack.delivered > self.round_end {
            self.round_start = ack.now;
            self.round_end = ack.delivered + ack.inflight;
            self.last_ack = ack.now;
            self.round_min = Nanos::MAX;
            self.samples = 0;
        }
        if ack.cwnd < LOW_WINDOW {
            return false;
        }
        if ack.now - self.last_ack <= ACK_DELTA {
            self.last_ack = ack.now;
            let longest = min_rtt + ack.ack_delay;
            self.found = ack.now - self.round_start > if self.paced { longest } else { longest / 2 };
        }
        self.round_min = self.round_min.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            let threshold = (min_rtt / DELAY_DIVISOR).clamp(DELAY_MIN, DELAY_MAX);
            self.found |= self.round_min > min_rtt + threshold;
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    /// An acknowledgement at `now`. One byte is delivered per nanosecond, and the bytes of the duration `flight` are
    /// outstanding.
    fn at(now: Nanos, flight: Nanos, rtt: Nanos, cwnd: f64) -> SlowStartAck {
        let (delivered, inflight) = (Bytes::new(now.as_nanos()), Bytes::new(flight.as_nanos()));
        SlowStartAck { now, round_start: false, rtt: Some(rtt), delivered, inflight, cwnd, ack_delay: MS }
    }

    /// Feeds the acknowledgements of one round, `gap` apart, from `start` on. Returns the time at which slow start
    /// ends.
    fn round(hystart: &mut HyStartLinux, start: Nanos, gap: Nanos, n: u64, rtt: Nanos) -> Option<Nanos> {
        let mut times = (0..n).map(|i| start + gap * i);
        times.find(|&now| hystart.on_ack(&at(now, gap * n, rtt, 100.0)))
    }

    /// A train of acknowledgements that lasts longer than half of (minimum RTT + 1 ms of offload delay) ends slow
    /// start.
    #[test]
    fn hystart_linux_train_of_half_an_rtt_ends_slow_start() {
        let mut hystart = HyStartLinux::new(false);
        // (40 + 1) / 2 = 20.5 ms: the first acknowledgement after that arrives 21 ms after the round's start.
        assert_eq!(round(&mut hystart, MS * 100, MS, 40, MS * 40), Some(MS * 121));
        assert_eq!(hystart.state(), HyStartState::Done);
    }

    /// With pacing the train may last a whole minimum RTT.
    #[test]
    fn hystart_linux_paced_train_may_last_an_rtt() {
        let mut hystart = HyStartLinux::new(true);
        assert_eq!(round(&mut hystart, MS * 100, MS, 41, MS * 40), None);
        assert_eq!(round(&mut hystart, MS * 200, MS, 60, MS * 40), Some(MS * 242));
    }

    /// A gap above 2 ms breaks the train for the rest of the round.
    #[test]
    fn hystart_linux_gap_breaks_the_train() {
        let mut hystart = HyStartLinux::new(false);
        assert_eq!(round(&mut hystart, MS * 100, Nanos::from_micros(2_001), 30, MS * 40), None);
    }

    /// The ninth sample of a round ends slow start if the delay exceeds the minimum RTT by more than an eighth (at
    /// least 4 ms, at most 16 ms).
    #[test]
    fn hystart_linux_ninth_delayed_sample_ends_slow_start() {
        let gap = MS * 3; // no train
        for (min, threshold) in [(8, 4), (80, 10), (400, 16)] {
            let mut hystart = HyStartLinux::new(false);
            round(&mut hystart, MS, gap, 10, MS * min);
            assert_eq!(round(&mut hystart, MS * 1000, gap, 20, MS * (min + threshold)), None, "{min} ms");
            let above = MS * (min + threshold) + Nanos::from_micros(1);
            assert_eq!(round(&mut hystart, MS * 2000, gap, 20, above), Some(MS * 2024), "{min} ms");
        }
    }

    /// While cwnd is below 16 segments, neither detector ends slow start.
    #[test]
    fn hystart_linux_is_off_below_16_segments() {
        let mut hystart = HyStartLinux::new(false);
        for i in 0..100 {
            assert!(!hystart.on_ack(&at(MS * (i + 1), MS * 20, MS * (10 + i), 15.9)));
        }
    }

    /// Rounds begin with the first acknowledgement, not when cwnd reaches 16 segments: the delays that the second half
    /// of a burst sees behind the first half do not end slow start.
    #[test]
    fn hystart_linux_rounds_begin_below_16_segments() {
        let mut hystart = HyStartLinux::new(false);
        // A burst of 10 acknowledgements; cwnd reaches 16 with the seventh.
        for i in 0..10 {
            assert!(!hystart.on_ack(&at(MS * (10 + i), MS * (44 + i), MS * 40, (10 + i) as f64)));
        }
        // The acknowledgements of the next burst arrive within half an RTT, with delays that grow as the burst queues.
        for i in 0..40 {
            let ack = at(MS * 60 + MS * i / 2, MS * 60, MS * (40 + i), (20 + i) as f64);
            assert!(!hystart.on_ack(&ack), "{i}");
        }
    }

    /// After a timeout HyStart monitors the next slow start again.
    #[test]
    fn hystart_linux_timeout_starts_it_again() {
        let mut hystart = HyStartLinux::new(false);
        round(&mut hystart, MS * 100, MS, 40, MS * 40);
        assert_eq!(round(&mut hystart, MS * 300, MS, 40, MS * 40), None);
        hystart.restart();
        assert_eq!(round(&mut hystart, MS * 500, MS, 40, MS * 40), Some(MS * 521));
    }
}
