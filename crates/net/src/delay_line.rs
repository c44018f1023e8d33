//! The delay line: frames in flight over a propagation delay.

use narrows_units::{Nanos, Random};

use crate::Frame;
use crate::config::{Jitter, Reordering};
use crate::timed_ring::TimedRing;
use crate::timeline::DelayTrace;

/// Frames in flight over a propagation delay, in order of arrival.
#[derive(Clone, Debug)]
pub struct DelayLine<F> {
    in_flight: TimedRing<F>,
    delay: Nanos,
    disturbance: Option<Box<Disturbance>>,
}

#[derive(Clone, Debug)]
struct Disturbance {
    jitter: Option<Jitter>,
    reordering: Option<Reordering>,
    delays: Option<DelayTrace>,
    random: Random,
    /// Latest arrival time so far of a packet that keeps its order.
    latest: Nanos,
}

impl Disturbance {
    const fn new(jitter: Option<Jitter>, reordering: Option<Reordering>, random: Random) -> Self {
        Self { jitter, reordering, delays: None, random, latest: Nanos::ZERO }
    }

    /// Arrival time of a packet that departs at `departs` and would arrive at `undisturbed`.
    fn arrival(&mut self, departs: Nanos, undisturbed: Nanos) -> Nanos {
        let mut arrival = undisturbed;
        if let Some(delays) = &self.delays {
            arrival += delays.at(departs);
        }
        if let Some(jitter) = self.jitter {
            arrival += Nanos::from_nanos(self.random.below(jitter.max.as_nanos() + 1));
        }
        // A reordered packet does not delay other packets, so it does not update `latest`.
        if let Some(reordering) = self.reordering
            && self.random.chance(reordering.probability)
        {
            return arrival + reordering.delay;
        }
        // If the delay falls, later packets wait for earlier packets; only jitter may reorder packets.
        if self.jitter.map_or(self.delays.is_some(), |jitter| !jitter.reorder) {
            arrival = arrival.max(self.latest);
            self.latest = arrival;
        }
        arrival
    }
}

impl<F: Frame> DelayLine<F> {
    /// Creates a line of `delay`, with optional jitter and reordering; `random` is its random stream.
    pub fn new(delay: Nanos, jitter: Option<Jitter>, reordering: Option<Reordering>, random: Random) -> Self {
        let disturbed = jitter.is_some() || reordering.is_some();
        let disturbance = disturbed.then(|| Box::new(Disturbance::new(jitter, reordering, random)));
        Self { in_flight: TimedRing::default(), delay, disturbance }
    }

    /// Adds a delay that changes with time. A packet gets the delay in force at its departure, and packets keep their
    /// order: if the delay falls, packets wait for the last packet with the longer delay.
    #[must_use]
    pub fn following(mut self, delays: DelayTrace, random: Random) -> Self {
        let disturbance = self.disturbance.take();
        let mut disturbance = disturbance.unwrap_or_else(|| Box::new(Disturbance::new(None, None, random)));
        disturbance.delays = Some(delays);
        self.disturbance = Some(disturbance);
        self
    }

    /// Adds a frame that departs at `departs`; calls must be in time order. Returns whether this frame is now the first
    /// to arrive.
    #[inline]
    pub fn push(&mut self, departs: Nanos, frame: &F) -> bool {
        let arrival = departs + self.delay;
        match &mut self.disturbance {
            None => {
                let first = self.in_flight.is_empty();
                self.in_flight.push(arrival, frame);
                first
            }
            Some(disturbance) => self.in_flight.insert(disturbance.arrival(departs, arrival), frame) == 0,
        }
    }

    /// Time of the first arrival; [`Nanos::MAX`] if the line is empty.
    #[inline]
    pub fn next(&self) -> Nanos {
        self.in_flight.first_time().unwrap_or(Nanos::MAX)
    }

    /// Removes the first frame to arrive; returns it with its arrival time.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, F)> {
        self.in_flight.pop()
    }

    /// Drops the first frame to arrive. With [`DelayLine::peek`] this is cheaper than [`DelayLine::pop`],
    /// because the frame is copied only once.
    #[inline]
    pub fn advance(&mut self) {
        self.in_flight.advance();
    }

    /// Prefetches the frame that arrives after `ahead` other frames.
    #[inline]
    pub fn prefetch(&self, ahead: usize) {
        self.in_flight.prefetch(ahead);
    }

    /// The frame that arrives after `ahead` other frames.
    #[inline]
    pub fn peek(&self, ahead: usize) -> Option<&F> {
        self.in_flight.peek(ahead)
    }

    /// Number of frames in flight.
    #[inline]
    pub const fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether the line is empty.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Undisturbed propagation delay.
    pub const fn delay(&self) -> Nanos {
        self.delay
    }

    /// Bytes of allocated memory.
    pub fn memory(&self) -> usize {
        self.in_flight.memory() + self.disturbance.as_ref().map_or(0, |_| size_of::<Disturbance>())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::Packet;

    fn random() -> Random {
        Random::stream(1, "wire", 0)
    }

    fn numbered(n: u64) -> Packet {
        Packet { seq: n, ..Packet::new(0) }
    }

    /// An undisturbed delay line adds its delay and reports the time of the first arrival.
    #[test]
    fn undisturbed_delay_line_adds_its_delay() {
        let ms = Nanos::from_millis;
        let mut line = DelayLine::new(ms(20), None, None, random());
        assert_eq!(line.next(), Nanos::MAX);
        assert!(line.push(ms(1), &numbered(1)));
        assert!(!line.push(ms(1), &numbered(2)));
        assert_eq!((line.next(), line.len()), (ms(21), 2));
        let arrived: Vec<_> = std::iter::from_fn(|| line.pop()).map(|(at, p)| (at, p.seq)).collect();
        assert_eq!(arrived, [(ms(21), 1), (ms(21), 2)]);
        assert!(line.is_empty());
    }

    /// A frame of one cache line takes 72 bytes in flight, including its arrival time.
    #[test]
    fn memory_cache_line_takes_72_bytes() {
        let mut line = DelayLine::new(Nanos::ZERO, None, None, random());
        (0..1024).for_each(|n| _ = line.push(Nanos::from_nanos(n), &numbered(n)));
        assert_eq!((size_of::<Packet>(), line.memory()), (64, 1024 * 72));
    }

    /// A frame gets the delay in force at its departure, and frames keep their order when the delay falls.
    #[test]
    fn falling_delay_keeps_order() {
        // The delay is 20 ms, 30 ms from time 5 ms on, and 24 ms from time 8 ms on. One packet departs per millisecond.
        let ms = Nanos::from_millis;
        let delays = DelayTrace::parse("5 10\n8 4\n").expect("valid");
        let mut line = DelayLine::new(ms(20), None, None, random()).following(delays, random());
        (0..20).for_each(|n| _ = line.push(ms(n), &numbered(n)));
        let arrived: Vec<_> =
            std::iter::from_fn(|| line.pop()).map(|(at, p)| (p.seq, at.as_nanos() / 1_000_000)).collect();
        let expected: Vec<_> = (0..20)
            .map(|n| match n {
                0..5 => (n, n + 20),
                5..8 => (n, n + 30),
                // The last frame with the delay of 30 ms left at 7 ms and arrives at 37 ms; later frames due before 37
                // ms wait for it.
                _ => (n, (n + 24).max(37)),
            })
            .collect();
        assert_eq!(arrived, expected);
    }

    /// Jitter is uniform from zero to its maximum.
    #[test]
    fn jitter_is_uniform_up_to_its_maximum() {
        // U(0, 10 ms) has the mean 5 ms and the standard deviation 10/sqrt(12) ms. The tolerance is four standard
        // errors of 10 000 draws.
        let jitter = Jitter { max: Nanos::from_millis(10), reorder: true };
        let mut line = DelayLine::new(Nanos::from_millis(3), Some(jitter), None, random());
        let n = 10_000;
        let mut sum = 0.0;
        for _ in 0..n {
            line.push(Nanos::ZERO, &numbered(0));
            let (at, _) = line.pop().expect("just sent");
            assert!(at >= Nanos::from_millis(3) && at <= Nanos::from_millis(13));
            sum += at.as_millis_f64() - 3.0;
        }
        let tolerance = 4.0 * 10.0 / 12f64.sqrt() / f64::from(n).sqrt();
        assert!((sum / f64::from(n) - 5.0).abs() < tolerance, "{}", sum / f64::from(n));
    }

    /// A frame delayed by reordering is overtaken by the frames that depart within its additional delay.
    #[test]
    fn reordered_frames_are_overtaken() {
        // One packet departs per millisecond. A tenth of the packets are delayed by 3.5 ms, so the three packets that
        // depart next overtake each delayed packet.
        let held = Reordering { probability: 0.1, delay: Nanos::from_micros(3_500) };
        let mut line = DelayLine::new(Nanos::from_millis(50), None, Some(held), random());
        let n = 20_000;
        (0..n).for_each(|i| _ = line.push(Nanos::from_millis(i), &numbered(i)));
        let mut late = 0u64;
        let mut last = Nanos::ZERO;
        while let Some((at, packet)) = line.pop() {
            assert!(at >= last, "arrivals are in order of time");
            last = at;
            let undisturbed = Nanos::from_millis(packet.seq + 50);
            assert!(at == undisturbed || at == undisturbed + held.delay);
            late += u64::from(at > undisturbed);
        }
        let tolerance = 4.0 * (n as f64 * 0.1 * 0.9).sqrt();
        assert!((late as f64 - 0.1 * n as f64).abs() < tolerance, "{late}");
    }

    proptest! {
        /// Every frame arrives once and within its delay bounds. Frames arrive in order unless reordering is allowed.
        #[test]
        fn frames_arrive_once_in_time_and_in_order(
            gaps in prop::collection::vec(0u64..3_000_000, 1..200),
            max in 0u64..20_000_000,
            reorder: bool,
            hold in prop::option::of(0.0..0.5f64),
            seed: u64,
        ) {
            let delay = Nanos::from_millis(5);
            let jitter = Jitter { max: Nanos::from_nanos(max), reorder };
            let held = hold.map(|probability| Reordering { probability, delay: Nanos::from_millis(7) });
            let mut line = DelayLine::new(delay, Some(jitter), held, Random::stream(seed, "wire", 0));
            let (mut now, mut sent, mut arrived) = (Nanos::ZERO, Vec::new(), Vec::new());
            for (n, gap) in gaps.into_iter().enumerate() {
                now += Nanos::from_nanos(gap);
                while line.next() <= now {
                    arrived.extend(line.pop());
                }
                let before = line.next();
                let first = line.push(now, &numbered(n as u64));
                prop_assert_eq!(first, line.next() < before);
                sent.push(now);
            }
            arrived.extend(std::iter::from_fn(|| line.pop()));
            prop_assert!(arrived.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            let latest = delay + jitter.max + held.map_or(Nanos::ZERO, |held| held.delay);
            for (at, packet) in &arrived {
                let left = sent[packet.seq as usize];
                prop_assert!(*at >= left + delay);
                // A packet waits only for earlier packets, whose latest arrival times are earlier.
                prop_assert!(*at <= left + latest);
            }
            let mut numbers: Vec<_> = arrived.iter().map(|(_, packet)| packet.seq).collect();
            if !reorder && held.is_none() {
                prop_assert!(numbers.is_sorted());
            }
            numbers.sort_unstable();
            prop_assert!(numbers.into_iter().eq(0..sent.len() as u64));
        }
    }
}
