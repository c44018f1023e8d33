//! PIE (RFC 8033): a proportional-integral controller turns the queueing delay into a drop probability every 15 ms.
//!
//! The delay is the time the first waiting packet has spent so far, a timestamp measurement (section 4.2 allows any).
//! Updates that fell due since the last arrival or departure are run at the next one, as of their own times: nothing they
//! depend on changes in between. Left out are the optional extensions of sections 5.2 to 5.5.

use narrows_cc::{Nanos, Random};

use super::{Backlog, MTU, Verdict};

const UPDATE_INTERVAL: Nanos = Nanos::from_millis(15);
const MAX_BURST: Nanos = Nanos::from_millis(150);
/// Gains per second of delay (section 4.2).
const ALPHA: f64 = 1.0 / 8.0;
const BETA: f64 = 5.0 / 4.0;
/// Below this probability ECN-capable packets are marked, above they are dropped too (section 5.1).
const MARK_LIMIT: f64 = 0.1;
/// What remains of the probability at each update while the queue stays empty.
const IDLE_KEPT: f64 = 0.98;

#[derive(Clone, Debug)]
pub(crate) struct Pie {
    target: Nanos,
    ecn: bool,
    probability: f64,
    delay_before: Nanos,
    burst_allowance: Nanos,
    next_update: Nanos,
    random: Random,
}

/// Scales the step down where the probability is small, so that it takes as long to double as elsewhere (section 4.2).
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

impl Pie {
    pub(crate) const fn new(target: Nanos, ecn: bool, random: Random) -> Self {
        Self {
            target,
            ecn,
            probability: 0.0,
            delay_before: Nanos::ZERO,
            burst_allowance: MAX_BURST,
            next_update: UPDATE_INTERVAL,
            random,
        }
    }

    /// Runs the updates due by `now`, before an arrival or departure then changes the queue.
    pub(crate) fn update(&mut self, now: Nanos, backlog: &Backlog) {
        while self.next_update <= now {
            let delay = backlog.oldest().map_or(Nanos::ZERO, |arrived| self.next_update - arrived);
            if delay.is_zero()
                && self.probability == 0.0
                && backlog.packets() == 0
                && self.delay_before.is_zero()
            {
                // Nothing happens in the rest of an idle time.
                let skipped = (now - self.next_update).as_nanos() / UPDATE_INTERVAL.as_nanos();
                self.next_update += UPDATE_INTERVAL * skipped;
            }
            self.step(delay);
            self.next_update += UPDATE_INTERVAL;
        }
    }

    /// One update (section 4.2), and the burst allowance (section 4.4).
    fn step(&mut self, delay: Nanos) {
        let (q, before) = (delay.as_secs_f64(), self.delay_before.as_secs_f64());
        let step = ALPHA * (q - self.target.as_secs_f64()) + BETA * (q - before);
        self.probability += step * scale(self.probability);
        if delay.is_zero() && self.delay_before.is_zero() {
            self.probability *= IDLE_KEPT;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst_allowance -= UPDATE_INTERVAL;
        let calm = self.target / 2;
        if self.probability == 0.0 && delay < calm && self.delay_before < calm {
            self.burst_allowance = MAX_BURST;
        }
        self.delay_before = delay;
    }

    /// What to do with an arriving packet (section 4.1).
    pub(crate) fn judge(&mut self, backlog: &Backlog) -> Verdict {
        let harmless = self.delay_before < self.target / 2 && self.probability < 0.2;
        if !self.burst_allowance.is_zero() || harmless || backlog.bytes() <= 2 * MTU {
            return Verdict::Pass;
        }
        match self.random.chance(self.probability) {
            false => Verdict::Pass,
            true if self.ecn && self.probability < MARK_LIMIT => Verdict::Mark,
            true => Verdict::Drop,
        }
    }
}
