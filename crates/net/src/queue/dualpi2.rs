//! DualPI2 (RFC 9332, appendix A): two queues, a low-latency queue for L4S senders, which respond to the fraction of
//! marks, and a classic queue. A proportional-integral controller on the delay gives a base probability p'. Classic
//! packets are dropped or marked with probability p'^2 and L4S packets marked with k p', so that flows of both kinds
//! get about the same rate.
//!
//! A queue's delay is the current sojourn time of its first packet. An update that is due runs at the next arrival or
//! departure, with the delays at its due time. An accumulator spreads marks and drops evenly instead of at random, as
//! in the appendix. The scheduler is the time-shifted FIFO, one of the permitted schedulers. The last packet in the
//! queue is never dropped, because no queue would remain behind it.

use narrows_units::{Nanos, Random, Rate};

use super::backlog::{Backlog, MTU, Room, mark};
use super::{Configuration, Queueing};
use crate::limit::Limit;
use crate::stats::Tally;
use crate::{Ecn, Frame};

/// The constants of DualPI2. [`Default`] is RFC 9332, appendix A, for round-trip times up to 100 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2 {
    /// Reference delay of the classic queue (15 ms).
    pub target: Nanos,
    /// Time between updates of the base probability (15 ms).
    pub update: Nanos,
    /// Integral gain per second of delay and update (0.15).
    pub alpha: f64,
    /// Proportional gain per second of delay (3).
    pub beta: f64,
    /// Ratio of the low-latency queue's probability to the base probability (2).
    pub coupling: f64,
    /// Delay at which the low-latency queue begins to mark independently of the base probability (0.8 ms).
    pub ramp_min: Nanos,
    /// Width of the ramp: above `ramp_min` this marking probability rises from 0 to 1 over this additional delay (0.4
    /// ms); zero makes a step.
    pub ramp_range: Nanos,
    /// Time shift of the scheduler: the low-latency queue goes first unless the first classic packet has waited longer
    /// than the first low-latency packet by more than this time (50 ms).
    pub shift: Nanos,
}

impl DualPi2 {
    /// Returns the constants for a reference delay and the longest typical round-trip time.
    pub fn for_rtt(target: Nanos, rtt_max: Nanos) -> Self {
        let update = target.min(rtt_max / 3).max(Nanos::from_nanos(1));
        let rtt_max = rtt_max.as_secs_f64();
        Self {
            target,
            update,
            alpha: 0.1 * update.as_secs_f64() / (rtt_max * rtt_max),
            beta: 0.3 / rtt_max,
            coupling: 2.0,
            ramp_min: Nanos::from_micros(800),
            ramp_range: Nanos::from_micros(400),
            shift: Nanos::from_millis(50),
        }
    }
}

impl Default for DualPi2 {
    fn default() -> Self {
        Self::for_rtt(Nanos::from_millis(15), Nanos::from_millis(100))
    }
}

impl Configuration for DualPi2 {
    type Queue<F: Frame> = Queues<F>;
    fn queue<F: Frame>(&self, rate: Rate, _: Limit, _: Random) -> Queues<F> {
        Queues::new(*self, rate)
    }
    fn example() -> Self {
        Self::default()
    }
}

/// Evenly spaced events of a given probability (the appendix's `recur`).
#[derive(Clone, Copy, Debug, Default)]
struct Accumulator(f64);

impl Accumulator {
    fn takes(&mut self, probability: f64) -> bool {
        self.0 += probability;
        let over = self.0 > 1.0;
        if over {
            self.0 -= 1.0;
        }
        over
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Queues<F> {
    config: DualPi2,
    /// Delay at which the ramp of the low-latency queue begins: the configured `ramp_min`, but at least one packet's
    /// transmission time.
    ramp_min: Nanos,
    low: Backlog<F>,
    classic: Backlog<F>,
    /// p', 0 to 1.
    base: f64,
    delay_before: Nanos,
    next_update: Nanos,
    low_count: Accumulator,
    /// Drops from the low-latency queue in overload.
    low_drops: Accumulator,
    classic_count: Accumulator,
}

fn sojourn<F: Frame>(backlog: &Backlog<F>, at: Nanos) -> Nanos {
    backlog.oldest().map_or(Nanos::ZERO, |arrived| at - arrived)
}

impl<F: Frame> Queues<F> {
    fn new(config: DualPi2, rate: Rate) -> Self {
        Self {
            ramp_min: config.ramp_min.max(rate.time_for(narrows_units::Bytes::new(MTU))),
            next_update: config.update,
            config,
            low: Backlog::default(),
            classic: Backlog::default(),
            base: 0.0,
            delay_before: Nanos::ZERO,
            low_count: Accumulator::default(),
            low_drops: Accumulator::default(),
            classic_count: Accumulator::default(),
        }
    }

    /// Runs the updates due by `now`; must be called before an arrival or departure changes the queues.
    fn update(&mut self, now: Nanos) {
        while self.next_update <= now {
            let delay = sojourn(&self.classic, self.next_update).max(sojourn(&self.low, self.next_update));
            self.step(delay);
            let calm = self.packets() == 0 && self.base == 0.0 && self.delay_before.is_zero();
            // The remaining updates of an idle time would change nothing: skip them.
            let steps = if calm { 1 + (now - self.next_update).as_nanos() / self.config.update.as_nanos() } else { 1 };
            self.next_update += self.config.update * steps;
        }
    }

    /// Performs one update of the base probability (figure 6). `delay` is the greater of the delays of the two queues:
    /// in overload the low-latency queue may have the greater delay (appendix A.2).
    fn step(&mut self, delay: Nanos) {
        let (q, before) = (delay.as_secs_f64(), self.delay_before.as_secs_f64());
        let change = self.config.alpha * (q - self.config.target.as_secs_f64()) + self.config.beta * (q - before);
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.delay_before = delay;
    }

    /// Drop or mark probability of classic packets.
    fn classic_probability(&self) -> f64 {
        self.base * self.base
    }

    /// Coupled mark probability of the low-latency queue; from 1 on it is saturated.
    fn coupled(&self) -> f64 {
        self.config.coupling * self.base
    }

    /// Native mark probability of the low-latency queue for a packet with this sojourn time.
    fn ramp(&self, waited: Nanos) -> f64 {
        if waited < self.ramp_min {
            return 0.0;
        }
        let beyond = waited - self.ramp_min;
        if beyond >= self.config.ramp_range {
            1.0
        } else {
            beyond.as_nanos() as f64 / self.config.ramp_range.as_nanos() as f64
        }
    }

    /// Whether the low-latency queue is next: `shift` is added to the wait of its first packet.
    fn low_is_next(&self) -> bool {
        match (self.low.oldest(), self.classic.oldest()) {
            (Some(low), Some(classic)) => low <= classic + self.config.shift,
            (low, _) => low.is_some(),
        }
    }
}

impl<F: Frame> Queueing<F> for Queues<F> {
    fn enqueue(&mut self, now: Nanos, frame: &F, _: Option<u8>, room: Room, stats: &mut Tally<F>) -> bool {
        self.update(now);
        if !room.admits(self.packets() + 1, self.bytes() + frame.size().as_u64()) {
            stats.dropped_queue += 1;
            return false;
        }
        // A packet that is already marked may have been an L4S packet, so it joins the low-latency queue (RFC 9331
        // section 5.1).
        let low = matches!(frame.ecn(), Ecn::Ect1 | Ecn::Ce);
        if low { &mut self.low } else { &mut self.classic }.push(now, frame);
        true
    }

    fn dequeue(&mut self, now: Nanos, stats: &mut Tally<F>) -> Option<(Nanos, F)> {
        self.update(now);
        let saturated = self.coupled() >= 1.0;
        loop {
            let low = self.low_is_next();
            let queue = if low { &mut self.low } else { &mut self.classic };
            let (arrived, mut packet) = queue.pop()?;
            let (dropped, marked) = if !low {
                let taken = self.classic_count.takes(self.classic_probability());
                (taken && (saturated || packet.ecn() == Ecn::NotEct), taken)
            } else if saturated {
                // Marks cannot become more frequent, so drop with the same probability in both queues (appendix A.2).
                let dropped = self.low_drops.takes(self.classic_probability());
                (dropped, !dropped && self.low_count.takes(self.coupled().min(1.0)))
            } else {
                let probability = self.ramp(now - arrived).max(self.coupled());
                (false, self.low_count.takes(probability))
            };
            if dropped && self.packets() > 0 {
                stats.dropped_aqm += 1;
                stats.evicted.push(packet);
                continue;
            }
            if marked && mark(&mut packet) {
                stats.marked += 1;
            }
            return Some((arrived, packet));
        }
    }

    fn packets(&self) -> u64 {
        self.low.packets() + self.classic.packets()
    }

    fn bytes(&self) -> u64 {
        self.low.bytes() + self.classic.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Packet};

    const MS: fn(u64) -> Nanos = Nanos::from_millis;
    const NO_LIMIT: Room = Room::Packets(u64::MAX);

    fn dualpi2() -> Queues<Packet> {
        Queues::new(DualPi2::default(), Rate::from_mbit_per_sec(40.0))
    }

    fn packet(seq: u64, ecn: Ecn) -> Packet {
        Packet { ecn, ..testing::packet(0, seq, 1500) }
    }

    fn fill(queue: &mut Queues<Packet>, at: Nanos, packets: u64, ecn: Ecn) {
        let mut stats = Tally::default();
        (0..packets).for_each(|seq| assert!(queue.enqueue(at, &packet(seq, ecn), None, NO_LIMIT, &mut stats)));
    }

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12, "{found} against {expected}");
    }

    /// The defaults are those of RFC 9332, appendix A.
    #[test]
    fn defaults_match_the_rfc() {
        let config = DualPi2::default();
        // Tupdate = min(15 ms, 100 ms / 3); alpha = 0.1 × 15 ms / (100 ms)²; beta = 0.3 / 100 ms.
        assert_eq!((config.target, config.update), (MS(15), MS(15)));
        close(config.alpha, 0.15);
        close(config.beta, 3.0);
        close(config.coupling, 2.0);
        assert_eq!((config.ramp_min, config.ramp_range), (Nanos::from_micros(800), Nanos::from_micros(400)));
    }

    /// The base probability follows the control law and stays between 0 and 1.
    #[test]
    fn base_probability_follows_control_law_within_bounds() {
        let mut queue = dualpi2();
        // The step is 0.15 × (35 - 15) ms + 3 × 35 ms = 0.003 + 0.105.
        queue.step(MS(35));
        close(queue.base, 0.108);
        close(queue.classic_probability(), 0.108 * 0.108);
        close(queue.coupled(), 0.216);
        // The delay falls from 35 ms to the target, so the step is 0.15 × 0 - 3 × 20 ms = -0.06.
        queue.step(MS(15));
        close(queue.base, 0.048);
        // The step is 0.15 × -15 ms - 3 × 15 ms = -0.04725. The next step would make the probability negative.
        queue.step(Nanos::ZERO);
        close(queue.base, 0.00075);
        queue.step(Nanos::ZERO);
        assert_eq!(queue.base, 0.0);
        queue.step(Nanos::from_secs(1));
        assert_eq!(queue.base, 1.0);
    }

    /// A late update uses the delays at its due time, and of these the greater.
    #[test]
    fn late_updates_use_their_own_times_and_longer_delay() {
        let mut queue = dualpi2();
        fill(&mut queue, MS(4), 1, Ecn::NotEct);
        fill(&mut queue, MS(2), 1, Ecn::Ect1);
        queue.update(MS(50));
        let mut expected = dualpi2();
        [13, 28, 43].into_iter().for_each(|delay| expected.step(MS(delay)));
        assert_eq!((queue.base, queue.next_update), (expected.base, MS(60)));
        // One late update after a long idle time has the same effect as updates throughout this time.
        let (mut idle, mut walked) = (dualpi2(), dualpi2());
        (0..10_000).for_each(|n| walked.update(MS(n)));
        idle.update(MS(9_999));
        assert_eq!((idle.next_update, idle.base), (walked.next_update, walked.base));
    }

    /// The ramp rises over its range and starts no lower than one packet's transmission time.
    #[test]
    fn ramp_rises_over_its_range_above_one_packet() {
        let queue = dualpi2();
        for (waited, expected) in [(0, 0.0), (800, 0.0), (900, 0.25), (1_000, 0.5), (1_200, 1.0), (9_999, 1.0)] {
            close(queue.ramp(Nanos::from_micros(waited)), expected);
        }
        // At 4 Mbit/s the transmission of a packet takes 3 ms, so the ramp begins at 3 ms.
        let slow = Queues::<Packet>::new(DualPi2::default(), Rate::from_mbit_per_sec(4.0));
        close(slow.ramp(Nanos::from_micros(2_999)), 0.0);
        close(slow.ramp(Nanos::from_micros(3_200)), 0.5);
    }

    /// Numbers of drops and marks among `n` packets dequeued at time zero under a base probability.
    fn fate(base: f64, n: u64, ecn: Ecn) -> (u64, u64) {
        let mut queue = dualpi2();
        fill(&mut queue, Nanos::ZERO, n, ecn);
        queue.base = base;
        let mut stats = Tally::default();
        while queue.dequeue(Nanos::ZERO, &mut stats).is_some() {}
        assert_eq!(stats.evicted.len() as u64, stats.dropped_aqm);
        (stats.dropped_aqm, stats.marked)
    }

    /// Classic packets are dropped or marked with p'^2, L4S packets marked with k p'.
    #[test]
    fn classic_gets_squared_and_l4s_coupled_probability() {
        // Classic packets: 0.25² × 1600 = 100. L4S packets: 2 × 0.25 × 1600 = 800. An event occurs only when the
        // accumulator exceeds 1, so each count is one less.
        assert_eq!(fate(0.25, 1600, Ecn::NotEct), (99, 0));
        assert_eq!(fate(0.25, 1600, Ecn::Ect0), (0, 99));
        assert_eq!(fate(0.25, 1600, Ecn::Ect1), (0, 799));
    }

    /// In overload, packets of both queues have the same drop probability.
    #[test]
    fn overload_drops_both_queues_alike() {
        // At p' = 1/2 the coupled probability is 1 and the classic probability is 25 %.
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            assert_eq!(fate(0.5, 1600, ecn), (399, 0));
        }
        let (dropped, marked) = fate(0.5, 1600, Ecn::Ect1);
        assert_eq!(dropped, 399);
        assert_eq!(marked, 1600 - 399 - 1);
    }

    /// The last packet in the queue is never dropped.
    #[test]
    fn last_packet_is_never_dropped() {
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            let mut queue = dualpi2();
            queue.base = 1.0;
            let mut stats = Tally::default();
            for seq in 0..10 {
                assert!(queue.enqueue(Nanos::ZERO, &packet(seq, ecn), None, NO_LIMIT, &mut stats));
                assert!(queue.dequeue(Nanos::ZERO, &mut stats).is_some());
            }
            assert_eq!((stats.dropped_aqm, stats.evicted.len()), (0, 0));
        }
    }

    /// The low-latency queue goes first until the classic packet has waited longer by more than the time shift.
    #[test]
    fn low_latency_queue_goes_first_within_the_time_shift() {
        let mut queue = dualpi2();
        fill(&mut queue, Nanos::ZERO, 1, Ecn::Ect0);
        fill(&mut queue, MS(50), 1, Ecn::Ect1);
        fill(&mut queue, MS(51), 1, Ecn::Ce);
        queue.base = 0.0;
        let mut stats = Tally::default();
        let mut next = || queue.dequeue(MS(51), &mut stats).map(|(_, packet)| packet.ecn == Ecn::Ect0);
        assert_eq!([next(), next(), next(), next()], [Some(false), Some(true), Some(false), None]);
    }
}
