//! HyStart++ (RFC 9406): leaves slow start when the RTT grows, before packets are lost.
//!
//! ```text
//!                 min RTT of the round up by the threshold
//!   SlowStart  ------------------------------------------>  Conservative (growth / 4)
//!       ^                                                      |            |
//!       |            min RTT fell below the baseline           |            | five rounds
//!       +------------------------------------------------------+            v
//!   any state  -- loss, mark or timeout -->  Done  <------------------------+
//! ```
//! HyStart++ applies to the first slow start only: `Done` is final.

use super::HyStartState;
use crate::{Bytes, Nanos};

const MIN_RTT_THRESH: Nanos = Nanos::from_millis(4);
const MAX_RTT_THRESH: Nanos = Nanos::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
/// L: maximum growth of cwnd per ACK, in segments. The limit does not apply if pacing smooths the burst that the ACK
/// releases.
const BURST_LIMIT: u64 = 8;

/// HyStart++ of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyStartPlusPlus {
    state: HyStartState,
    paced: bool,
    last_round_min: Option<Nanos>,
    current_round_min: Option<Nanos>,
    samples: u32,
}

impl HyStartPlusPlus {
    /// Starts a connection; `paced` lifts the limit on growth per ACK.
    pub fn new(paced: bool) -> Self {
        Self { state: HyStartState::SlowStart, paced, last_round_min: None, current_round_min: None, samples: 0 }
    }

    /// The current state.
    pub fn state(&self) -> HyStartState {
        self.state
    }

    /// The first slow start ended for another reason: a loss, a mark or a timeout.
    pub fn finish(&mut self) {
        self.state = HyStartState::Done;
    }

    /// Growth of cwnd for an ACK of `acked` bytes in slow start (section 4.2).
    #[inline]
    pub fn growth(&self, acked: Bytes, mss: Bytes) -> Bytes {
        let limit = if self.paced { Bytes::MAX } else { mss * BURST_LIMIT };
        match self.state {
            HyStartState::SlowStart => acked.min(limit),
            HyStartState::Conservative { .. } => acked.min(limit) / CSS_GROWTH_DIVISOR,
            HyStartState::Done => acked,
        }
    }

    /// Feeds one ACK of the first slow start. Returns whether slow start ends now (ssthresh = cwnd).
    #[inline]
    pub fn on_ack(&mut self, round_start: bool, rtt: Option<Nanos>) -> bool {
        if self.state == HyStartState::Done {
            return false;
        }
        if round_start && self.begin_round() {
            return true;
        }
        let Some(rtt) = rtt else {
            return false;
        };
        let current = self.current_round_min.map_or(rtt, |min| min.min(rtt));
        self.current_round_min = Some(current);
        self.samples += 1;
        if self.samples < N_RTT_SAMPLE {
            return false;
        }
        match (self.state, self.last_round_min) {
            (HyStartState::SlowStart, Some(last)) => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last + threshold {
                    self.state = HyStartState::Conservative { baseline: current, rounds: 0 };
                }
            }
            (HyStartState::Conservative { baseline, .. }, _) if current < baseline => {
                self.state = HyStartState::SlowStart;
            }
            _ => {}
        }
        false
    }

    /// Begins a round and returns whether the last round of conservative slow start is complete. The partial round in
    /// which conservative slow start began counts.
    fn begin_round(&mut self) -> bool {
        self.last_round_min = self.current_round_min.take();
        self.samples = 0;
        if let HyStartState::Conservative { rounds, .. } = &mut self.state {
            *rounds += 1;
            if *rounds >= CSS_ROUNDS {
                self.state = HyStartState::Done;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `n` RTT samples of `ms` milliseconds; the first sample begins a round. Returns whether slow start ended.
    fn round(hystart: &mut HyStartPlusPlus, n: u32, ms: u64) -> bool {
        let rtt = Some(Nanos::from_millis(ms));
        (0..n).filter(|&i| hystart.on_ack(i == 0, rtt)).count() > 0
    }

    fn conservative(baseline_ms: u64, rounds: u32) -> HyStartState {
        HyStartState::Conservative { baseline: Nanos::from_millis(baseline_ms), rounds }
    }

    /// If the delay has grown by an eighth, the eighth sample of the round begins conservative slow start.
    #[test]
    fn hystart_eighth_delayed_sample_enters_css() {
        // 80 ms / 8 = 10 ms, between the limits of 4 and 16 ms.
        let mut hystart = HyStartPlusPlus::new(false);
        round(&mut hystart, 8, 80);
        round(&mut hystart, 7, 90);
        assert_eq!(hystart.state(), HyStartState::SlowStart, "seven samples do not decide");
        hystart.on_ack(false, Some(Nanos::from_millis(90)));
        assert_eq!(hystart.state(), conservative(90, 0));
    }

    /// The threshold is an eighth of the last round's minimum RTT, limited to 4 to 16 ms.
    #[test]
    fn hystart_threshold_is_an_eighth_within_4_and_16_ms() {
        for (last, threshold) in [(8, 4), (32, 4), (80, 10), (128, 16), (400, 16)] {
            let mut below = HyStartPlusPlus::new(false);
            round(&mut below, 8, last);
            round(&mut below, 20, last + threshold - 1);
            assert_eq!(below.state(), HyStartState::SlowStart, "{last} ms");
            let mut at = HyStartPlusPlus::new(false);
            round(&mut at, 8, last);
            round(&mut at, 8, last + threshold);
            assert_eq!(at.state(), conservative(last + threshold, 0), "{last} ms");
        }
    }

    /// A round without samples is no baseline for the next round.
    #[test]
    fn hystart_round_without_samples_is_no_baseline() {
        let mut hystart = HyStartPlusPlus::new(false);
        round(&mut hystart, 8, 20);
        assert!(!hystart.on_ack(true, None));
        round(&mut hystart, 8, 100);
        assert_eq!(hystart.state(), HyStartState::SlowStart);
    }

    /// Slow start ends when the delay lasts for five rounds, the partial first round included.
    #[test]
    fn hystart_five_delayed_rounds_end_slow_start() {
        let mut hystart = HyStartPlusPlus::new(false);
        round(&mut hystart, 8, 40);
        round(&mut hystart, 8, 45); // conservative slow start begins within this round, the first of five
        for _ in 0..4 {
            assert!(!round(&mut hystart, 10, 46));
        }
        assert_eq!(hystart.state(), conservative(45, 4));
        assert!(hystart.on_ack(true, Some(Nanos::from_millis(46))), "the fifth round is complete");
        assert_eq!(hystart.state(), HyStartState::Done);
        assert!(!hystart.on_ack(true, None), "the end is reported once");
    }

    /// Delay falling below the baseline resumes slow start, and the count of rounds starts over.
    #[test]
    fn hystart_delay_below_baseline_resumes_slow_start() {
        let mut hystart = HyStartPlusPlus::new(false);
        round(&mut hystart, 8, 40);
        round(&mut hystart, 8, 45);
        round(&mut hystart, 8, 45);
        round(&mut hystart, 7, 44);
        assert_eq!(hystart.state(), conservative(45, 2));
        hystart.on_ack(false, Some(Nanos::from_millis(44)));
        assert_eq!(hystart.state(), HyStartState::SlowStart);
        round(&mut hystart, 8, 60); // 60 >= 44 + 5.5
        assert_eq!(hystart.state(), conservative(60, 0));
    }

    /// Growth per ACK is limited to eight segments unless the sender paces, and is quartered in conservative slow
    /// start.
    #[test]
    fn hystart_growth_is_limited_and_quartered_in_css() {
        let mss = Bytes::new(1000);
        let acked = Bytes::new(20_000);
        let mut unpaced = HyStartPlusPlus::new(false);
        assert_eq!(unpaced.growth(acked, mss), Bytes::new(8_000));
        let mut paced = HyStartPlusPlus::new(true);
        assert_eq!(paced.growth(acked, mss), acked);
        for hystart in [&mut unpaced, &mut paced] {
            round(hystart, 8, 40);
            round(hystart, 8, 45);
        }
        assert_eq!(unpaced.growth(acked, mss), Bytes::new(2_000));
        assert_eq!(paced.growth(acked, mss), Bytes::new(5_000));
    }

    /// A loss ends HyStart++ for good.
    #[test]
    fn hystart_loss_ends_it_for_good() {
        let mut hystart = HyStartPlusPlus::new(false);
        round(&mut hystart, 8, 40);
        hystart.finish();
        round(&mut hystart, 8, 90);
        assert_eq!(hystart.state(), HyStartState::Done);
        assert_eq!(hystart.growth(Bytes::new(50_000), Bytes::new(1000)), Bytes::new(50_000));
    }
}
