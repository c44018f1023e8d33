//! PIE (RFC 8033): a proportional-integral controller converts the queueing delay into a drop probability
//! every 15 ms.
//!
//! The delay is the current sojourn time of the first queued packet, measured by timestamps (section 4.2 allows any
//! method). An update that is due runs at the next arrival or departure, with the delay at its due time: the inputs of
//! the update do not change between its due time and that event. The optional extensions of sections 5.2 to 5.5 are
//! omitted.

use narrows_units::{Nanos, Random, Rate};

use super::backlog::{Backlog, MTU, Room, Verdict};
use super::{Aqm, Configuration, Managed};
use crate::Frame;
use crate::limit::Limit;
use crate::stats::Tally;

const UPDATE_INTERVAL: Nanos = Nanos::from_millis(15);
const MAX_BURST: Nanos = Nanos::from_millis(150);
/// Integral and proportional gain per second of delay (section 4.2).
const ALPHA: f64 = 1.0 / 8.0;
const BETA: f64 = 5.0 / 4.0;
/// Probability below which ECN-capable packets are marked and above which they are dropped (section 5.1).
const MARK_LIMIT: f64 = 0.1;
/// Decay factor of the probability per update while the queue stays empty.
const IDLE_KEPT: f64 = 0.98;

/// The constants of PIE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pie {
    /// Reference delay.
    pub target: Nanos,
    /// Mark ECN-capable packets instead of dropping them, while the probability is small.
    pub ecn: bool,
}

impl Default for Pie {
    fn default() -> Self {
        Self { target: Nanos::from_millis(15), ecn: false }
    }
}

impl Configuration for Pie {
    type Queue<F: Frame> = Managed<F, State>;
    fn queue<F: Frame>(&self, _: Rate, _: Limit, random: Random) -> Managed<F, State> {
        Managed::new(State::new(*self, random))
    }
    fn example() -> Self {
        Self { ecn: true, ..Self::default() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    config: Pie,
    probability: f64,
    delay_before: Nanos,
    burst_allowance: Nanos,
    next_update: Nanos,
    random: Random,
}

/// Scales the step down at small probabilities, so that a small probability takes as long to double as a large one
/// (section 4.2).
fn scale(probability: f64) -> f64 {
    match probability {
        p if p < 0.000_001 => 1.0 / 2048.0,
        p if p < 0.000_01 => 1.0 / 512.0,
        p if p < 0.000_1 => 1.0 / 128.0,
        p if p < 0.001 => 1.0 / 32.0,
        p if p < 0.01 => 1.0 / 8.0,
        p if p < 0.1 => 1.0 / 2.0,
        _ => 1.0,
    }
}

impl State {
    const fn new(config: Pie, random: Random) -> Self {
        Self {
            config,
            probability: 0.0,
            delay_before: Nanos::ZERO,
            burst_allowance: MAX_BURST,
            next_update: UPDATE_INTERVAL,
            random,
        }
    }

    /// Runs the updates due by `now`; must be called before an arrival or departure changes the queue.
    fn update<F: Frame>(&mut self, now: Nanos, backlog: &Backlog<F>) {
        while self.next_update <= now {
            let delay = backlog.oldest().map_or(Nanos::ZERO, |arrived| self.next_update - arrived);
            if delay.is_zero() && self.probability == 0.0 && backlog.packets() == 0 && self.delay_before.is_zero() {
                // The remaining updates of an idle time would change nothing: skip them.
                let skipped = (now - self.next_update).as_nanos() / UPDATE_INTERVAL.as_nanos();
                self.next_update += UPDATE_INTERVAL * skipped;
            }
            self.step(delay);
            self.next_update += UPDATE_INTERVAL;
        }
    }

    /// Performs one update of the probability (section 4.2) and of the burst allowance (section 4.4).
    fn step(&mut self, delay: Nanos) {
        let (q, before) = (delay.as_secs_f64(), self.delay_before.as_secs_f64());
        let step = ALPHA * (q - self.config.target.as_secs_f64()) + BETA * (q - before);
        self.probability += step * scale(self.probability);
        if delay.is_zero() && self.delay_before.is_zero() {
            self.probability *= IDLE_KEPT;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst_allowance -= UPDATE_INTERVAL;
        let calm = self.config.target / 2;
        if self.probability == 0.0 && delay < calm && self.delay_before < calm {
            self.burst_allowance = MAX_BURST;
        }
        self.delay_before = delay;
    }

    /// Decides on an arriving packet (section 4.1).
    fn decide<F: Frame>(&mut self, backlog: &Backlog<F>) -> Verdict {
        let harmless = self.delay_before < self.config.target / 2 && self.probability < 0.2;
        if !self.burst_allowance.is_zero() || harmless || backlog.bytes() <= 2 * MTU {
            return Verdict::Pass;
        }
        match self.random.chance(self.probability) {
            false => Verdict::Pass,
            true if self.config.ecn && self.probability < MARK_LIMIT => Verdict::Mark,
            true => Verdict::Drop,
        }
    }
}

impl Aqm for State {
    fn judge<F: Frame>(&mut self, now: Nanos, frame: &F, backlog: &Backlog<F>, room: Room) -> Verdict {
        self.update(now, backlog);
        // Drop arrivals at a full queue without a random draw.
        if backlog.fits(frame, room) { self.decide(backlog) } else { Verdict::Pass }
    }

    fn next<F: Frame>(&mut self, now: Nanos, backlog: &mut Backlog<F>, _: &mut Tally<F>) -> Option<(Nanos, F)> {
        self.update(now, backlog);
        backlog.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Packet, packet};

    fn pie(ecn: bool) -> State {
        State::new(Pie { ecn, ..Pie::default() }, Random::stream(1, "aqm", 0))
    }

    fn full_packet() -> Packet {
        packet(0, 0, 1500)
    }

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} against {expected}");
    }

    /// The probability follows the control law with its scaled steps.
    #[test]
    fn probability_follows_the_scaled_control_law() {
        let mut pie = pie(false);
        let ms = Nanos::from_millis;
        // The step is (5 ms / 8 + 20 ms · 5/4) / 2048.
        pie.step(ms(20));
        let mut expected = (0.005 / 8.0 + 0.020 * 1.25) / 2048.0;
        close(pie.probability, expected);
        // The probability is now 1.25e-5, so the divisor is 128 and the step is (15 ms / 8 + 10 ms · 5/4) / 128.
        pie.step(ms(30));
        expected += (0.015 / 8.0 + 0.010 * 1.25) / 128.0;
        close(pie.probability, expected);
        // At a probability of 1.2e-4 the divisor is 32, and at a constant delay the step is (15 ms / 8) / 32.
        pie.step(ms(30));
        expected += 0.015 / 8.0 / 32.0;
        close(pie.probability, expected);
        // A falling delay lowers the probability to zero: the step (-5 ms / 8 - 20 ms · 5/4) / 32 would make it
        // negative.
        pie.step(ms(10));
        assert_eq!(pie.probability, 0.0);
    }

    /// Each decade of the probability has its divisor (section 4.2).
    #[test]
    fn each_probability_decade_has_its_divisor() {
        let divisors = [(0.0, 2048.0), (9.9e-7, 2048.0), (1e-6, 512.0), (1e-5, 128.0), (1e-4, 32.0)];
        let more = [(1e-3, 8.0), (1e-2, 2.0), (0.099, 2.0), (0.1, 1.0), (0.9, 1.0)];
        for (probability, divisor) in divisors.into_iter().chain(more) {
            assert_eq!(scale(probability), 1.0 / divisor, "{probability}");
        }
    }

    /// The probability decays while the queue is empty.
    #[test]
    fn empty_queue_decays_the_probability() {
        let mut pie = pie(false);
        pie.probability = 0.05;
        pie.step(Nanos::ZERO);
        close(pie.probability, (0.05 - 0.015 / 8.0 / 2.0) * 0.98);
    }

    /// A late update uses the delay at its due time.
    #[test]
    fn late_updates_use_their_own_times() {
        // The first packet arrived at 4 ms and nothing happened until 100 ms, so updates at 15, 30, … 90 ms are due.
        let mut backlog = Backlog::default();
        backlog.push(Nanos::from_millis(4), &full_packet());
        let (mut lazy, mut eager) = (pie(false), pie(false));
        lazy.update(Nanos::from_millis(100), &backlog);
        (1..=6).for_each(|n| eager.step(Nanos::from_millis(n * 15 - 4)));
        assert_eq!(lazy.probability.to_bits(), eager.probability.to_bits());
        assert_eq!(lazy.burst_allowance, Nanos::from_millis(150 - 90));
        assert_eq!(lazy.next_update, Nanos::from_millis(105));
        // One late update after a long idle time has the same effect as updates throughout this time.
        let empty = Backlog::<Packet>::default();
        let mut walked = lazy.clone();
        (1..100_000).for_each(|n| walked.update(Nanos::from_millis(100 + n), &empty));
        lazy.update(Nanos::from_millis(100 + 99_999), &empty);
        assert_eq!((lazy.next_update, lazy.burst_allowance), (walked.next_update, walked.burst_allowance));
        assert_eq!((lazy.probability, walked.probability), (0.0, 0.0));
    }

    /// A burst passes without drops. Then packets are dropped with the current probability, unless the queue is short.
    #[test]
    fn drops_follow_the_probability_after_the_burst() {
        let mut pie = pie(false);
        let mut backlog = Backlog::default();
        (0..3).for_each(|_| backlog.push(Nanos::ZERO, &full_packet()));
        pie.probability = 0.3;
        pie.delay_before = Nanos::from_millis(20);
        let drops = |pie: &mut State, backlog: &Backlog<Packet>| {
            (0..10_000).filter(|_| pie.decide(backlog) == Verdict::Drop).count() as f64
        };
        assert_eq!(drops(&mut pie, &backlog), 0.0);
        pie.burst_allowance = Nanos::ZERO;
        let found = drops(&mut pie, &backlog);
        assert!((found - 3_000.0).abs() < 4.0 * (10_000.0f64 * 0.3 * 0.7).sqrt(), "{found}");
        // With only two full packets queued, an arriving packet is always accepted.
        backlog.pop();
        assert_eq!(drops(&mut pie, &backlog), 0.0);
        backlog.push(Nanos::ZERO, &full_packet());
        // Packets are also accepted at a delay below half the target, while the probability is below 0.2.
        pie.delay_before = Nanos::from_millis(7);
        assert!(drops(&mut pie, &backlog) > 0.0);
        pie.probability = 0.19;
        assert_eq!(drops(&mut pie, &backlog), 0.0);
    }

    /// ECN-capable packets are marked only while the probability is below 10 %.
    #[test]
    fn marks_only_below_the_mark_limit() {
        let mut pie = pie(true);
        let mut backlog = Backlog::default();
        (0..3).for_each(|_| backlog.push(Nanos::ZERO, &full_packet()));
        (pie.burst_allowance, pie.delay_before) = (Nanos::ZERO, Nanos::from_millis(20));
        for (probability, wanted) in [(0.099, Verdict::Mark), (0.1, Verdict::Drop)] {
            pie.probability = probability;
            let verdicts: Vec<_> = (0..1_000).map(|_| pie.decide(&backlog)).collect();
            assert!(verdicts.contains(&wanted));
            assert!(verdicts.iter().all(|&verdict| verdict == wanted || verdict == Verdict::Pass));
        }
    }
}
