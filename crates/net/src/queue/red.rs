//! RED (Floyd and Jacobson 1993), gentle (Floyd 2000), optionally adaptive (Floyd, Gummadi and Shenker 2001): drops
//! packets with a probability that grows with a moving average of the queue length, and spaces the drops evenly by
//! counting packets.

use narrows_units::{Bytes, Nanos, Random, Rate};

use super::backlog::{Backlog, Room, Verdict};
use super::{Aqm, Configuration, Managed};
use crate::Frame;
use crate::limit::Limit;

/// Packet size for the conversion of idle time into a number of packets, as in ns-2.
const SMALL_PACKET: Bytes = Bytes::new(500);
const ADAPT_INTERVAL: Nanos = Nanos::from_millis(500);
/// Adaptive RED keeps the average in the middle fifth of the band between the thresholds.
const BAND_MARGIN: f64 = 0.4;
const MAX_P_KEPT: f64 = 0.9;
const MAX_P_STEP: f64 = 0.01;
const MAX_P_BOTTOM: f64 = 0.01;
const MAX_P_TOP: f64 = 0.5;

/// The constants of RED. `average` means the moving average of the queue length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Below this average, in packets, nothing is dropped.
    pub min: f64,
    /// At this average the probability is `max_p`.
    pub max: f64,
    /// Probability at the average `max`.
    pub max_p: f64,
    /// Weight of the newest sample in the average.
    pub weight: f64,
    /// Adapt `max_p` every half second.
    pub adaptive: bool,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

/// Floyd's recommendations (Floyd and Jacobson 1993; 'RED: discussions of setting parameters', 1997).
impl Default for Red {
    fn default() -> Self {
        Self { min: 5.0, max: 15.0, max_p: 0.1, weight: 0.002, adaptive: false, ecn: false }
    }
}

impl Configuration for Red {
    type Queue<F: Frame> = Managed<F, State>;
    fn queue<F: Frame>(&self, rate: Rate, _: Limit, random: Random) -> Managed<F, State> {
        Managed::new(State::new(*self, rate, random))
    }
    fn example() -> Self {
        Self { ecn: true, ..Self::default() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The constants; `max_p` changes if RED is adaptive.
    config: Red,
    /// Moving average of the queue length in packets.
    average: f64,
    /// Number of packets since the last drop or mark; `None` while the average is below `min`.
    count: Option<u64>,
    idle_since: Option<Nanos>,
    small_packet_time: Nanos,
    /// Time of the next adaptation of `max_p`; [`Nanos::MAX`] if `max_p` is fixed.
    next_adaptation: Nanos,
    random: Random,
}

/// `base` to the power of `exponent` by squaring, identical on every machine.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

impl State {
    fn new(config: Red, rate: Rate, random: Random) -> Self {
        Self {
            config,
            average: 0.0,
            count: None,
            idle_since: Some(Nanos::ZERO),
            small_packet_time: rate.time_for(SMALL_PACKET).max(Nanos::from_nanos(1)),
            next_adaptation: if config.adaptive { ADAPT_INTERVAL } else { Nanos::MAX },
            random,
        }
    }

    /// Updates the average for an arrival at a queue of `queued` packets. Idle time counts as the small
    /// packets that could have arrived at the empty queue.
    fn average_in(&mut self, now: Nanos, queued: u64) {
        if let Some(since) = self.idle_since {
            let missed = (now - since).as_nanos() / self.small_packet_time.as_nanos();
            self.average *= power(1.0 - self.config.weight, missed);
            self.idle_since = Some(now);
        }
        self.average += self.config.weight * (queued as f64 - self.average);
    }

    /// Drop or mark probability at the current average, before the correction by the number of packets since the last
    /// drop.
    fn base_probability(&self) -> f64 {
        if self.average < self.config.min {
            0.0
        } else if self.average < self.config.max {
            self.config.max_p * (self.average - self.config.min) / (self.config.max - self.config.min)
        } else if self.average < 2.0 * self.config.max {
            self.config.max_p + (1.0 - self.config.max_p) * (self.average - self.config.max) / self.config.max
        } else {
            1.0
        }
    }

    /// Decides on an arriving packet with `queued` packets ahead.
    fn decide(&mut self, now: Nanos, queued: u64) -> Verdict {
        self.adapt(now);
        self.average_in(now, queued);
        let base = self.base_probability();
        if self.average < self.config.min {
            self.count = None;
            return Verdict::Pass;
        }
        // The drop probability p / (1 - count p) makes the gap between two drops uniform instead of geometric. The
        // packet after a drop has count one, as in the published algorithm and ns-2, so the gap is between 1 and 1/p -
        // 1 packets.
        let count = self.count.map_or(0, |count| count + 1);
        let rest = 1.0 - count as f64 * base;
        let probability = if rest > 0.0 { base / rest } else { 1.0 };
        if !self.random.chance(probability) {
            self.count = Some(count);
            return Verdict::Pass;
        }
        self.count = Some(0);
        if self.config.ecn && self.average < 2.0 * self.config.max { Verdict::Mark } else { Verdict::Drop }
    }

    /// Runs the due adaptations of `max_p`. The average has not changed since the first of them became due.
    fn adapt(&mut self, now: Nanos) {
        while self.next_adaptation <= now {
            let margin = BAND_MARGIN * (self.config.max - self.config.min);
            if self.average < self.config.min + margin && self.config.max_p >= MAX_P_BOTTOM {
                self.config.max_p *= MAX_P_KEPT;
            } else if self.average > self.config.max - margin && self.config.max_p <= MAX_P_TOP {
                self.config.max_p += MAX_P_STEP.min(self.config.max_p / 4.0);
            } else {
                // No later adaptation up to `now` would change `max_p`.
                let skipped = (now - self.next_adaptation).as_nanos() / ADAPT_INTERVAL.as_nanos();
                self.next_adaptation += ADAPT_INTERVAL * skipped;
            }
            self.next_adaptation += ADAPT_INTERVAL;
        }
    }
}

impl Aqm for State {
    fn judge<F: Frame>(&mut self, now: Nanos, _: &F, backlog: &Backlog<F>, _: Room) -> Verdict {
        self.decide(now, backlog.packets())
    }

    fn accepted(&mut self) {
        self.idle_since = None;
    }

    fn idle(&mut self, now: Nanos) {
        self.idle_since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RED with thresholds of 5 and 15 packets and `max_p` of 10 %, on a link that transmits 500 bytes in 1 ms.
    fn red(weight: f64, adaptive: bool, ecn: bool) -> State {
        let rate = Rate::from_bytes_per_sec(500_000);
        let config = Red { weight, adaptive, ecn, ..Red::default() };
        let mut red = State::new(config, rate, Random::stream(1, "aqm", 0));
        red.accepted();
        red
    }

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} against {expected}");
    }

    /// The average approaches a constant queue exponentially.
    #[test]
    fn average_approaches_constant_queue_exponentially() {
        let mut red = red(0.002, false, false);
        (0..1_000).for_each(|_| red.average_in(Nanos::ZERO, 4));
        close(red.average, 4.0 * (1.0 - 0.998f64.powi(1_000)));
    }

    /// Idle time counts as small packets at an empty queue.
    #[test]
    fn idle_time_counts_as_small_packets_on_empty_queue() {
        let mut red = red(0.002, false, false);
        red.average = 10.0;
        red.idle(Nanos::from_millis(100));
        // 250.5 ms count as 250 packets of 500 bytes; the arriving packet is one more.
        red.average_in(Nanos::from_micros(350_500), 0);
        close(red.average, 10.0 * 0.998f64.powi(251));
        // The same idle time does not count again for the next packet, whether or not the first packet was dropped.
        red.average_in(Nanos::from_micros(350_500), 0);
        close(red.average, 10.0 * 0.998f64.powi(252));
    }

    /// The probability is piecewise linear up to twice the maximum threshold.
    #[test]
    fn probability_is_piecewise_linear_to_twice_the_max() {
        let mut red = red(0.002, false, false);
        for (average, expected) in
            [(0.0, 0.0), (4.99, 0.0), (5.0, 0.0), (10.0, 0.05), (15.0, 0.1), (22.5, 0.55), (30.0, 1.0), (99.0, 1.0)]
        {
            red.average = average;
            close(red.base_probability(), expected);
        }
    }

    /// The gaps between drops are uniformly distributed.
    #[test]
    fn gaps_between_drops_are_uniform() {
        // Weight 0 keeps the average at 15, where p = 1/10. Each gap from 1 to 9 packets has the probability 1/9.
        let mut red = red(0.0, false, false);
        red.average = 15.0;
        let mut gaps = [0u32; 10];
        let (mut gap, mut drops) = (0, 0);
        while drops < 90_001 {
            gap += 1;
            if red.decide(Nanos::ZERO, 15) == Verdict::Drop {
                // The first gap does not count, because no drop precedes it.
                gaps[gap] += u32::from(drops > 0);
                drops += 1;
                gap = 0;
            }
        }
        let tolerance = 4.0 * (90_000.0f64 * (1.0 / 9.0) * (8.0 / 9.0)).sqrt();
        assert!(gaps[1..].iter().all(|&n| (f64::from(n) - 10_000.0).abs() < tolerance), "{gaps:?}");
    }

    /// Below the minimum threshold no packet is dropped; above twice the maximum threshold every packet is dropped,
    /// even with ECN.
    #[test]
    fn passes_all_below_min_and_drops_all_above_twice_max() {
        let mut red = red(0.0, false, true);
        red.average = 4.9;
        assert!((0..1_000).all(|_| red.decide(Nanos::ZERO, 0) == Verdict::Pass));
        red.average = 29.0;
        let verdicts: Vec<_> = (0..1_000).map(|_| red.decide(Nanos::ZERO, 0)).collect();
        assert!(verdicts.contains(&Verdict::Mark) && !verdicts.contains(&Verdict::Drop));
        red.average = 30.0;
        assert!((0..1_000).all(|_| red.decide(Nanos::ZERO, 0) == Verdict::Drop));
    }

    /// Adaptive RED adjusts the maximum probability every half second.
    #[test]
    fn adaptive_red_moves_max_p_every_half_second() {
        let adapted = |average: f64, max_p: f64, ms: u64| {
            let mut red = red(0.0, true, false);
            (red.average, red.config.max_p) = (average, max_p);
            red.adapt(Nanos::from_millis(ms));
            red.config.max_p
        };
        // The thresholds are 5 and 15 packets. Below an average of 9, each adaptation lowers `max_p` by a tenth. Above
        // an average of 11, each adaptation raises `max_p` by 0.01, or by a quarter of `max_p` if that is less.
        assert_eq!(adapted(8.9, 0.1, 499), 0.1);
        close(adapted(8.9, 0.1, 500), 0.09);
        close(adapted(8.9, 0.1, 1_999), 0.1 * 0.9 * 0.9 * 0.9);
        assert_eq!(adapted(10.0, 0.1, 5_000), 0.1);
        close(adapted(11.1, 0.1, 1_000), 0.12);
        close(adapted(11.1, 0.02, 500), 0.025);
        // The adaptation stops at the first `max_p` below 0.01 or above 0.5.
        assert!((0.009..0.01).contains(&adapted(0.0, 0.1, 100_000)));
        assert!((0.5..=0.51).contains(&adapted(14.0, 0.1, 100_000)));
    }
}
