//! CoDel (RFC 8289): drops packets at the head once their sojourn time has exceeded a target for an interval. It then
//! drops at a growing rate: the time from the k-th drop to the next is interval / sqrt(k).

use narrows_units::{Nanos, Random, Rate};

use super::backlog::{Backlog, MTU, mark};
use super::{Aqm, Configuration, Managed};
use crate::Frame;
use crate::limit::Limit;
use crate::stats::Tally;

/// The constants of CoDel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoDel {
    /// Acceptable standing delay.
    pub target: Nanos,
    /// Time for which the delay may exceed the target.
    pub interval: Nanos,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Default for CoDel {
    fn default() -> Self {
        Self { target: Nanos::from_millis(5), interval: Nanos::from_millis(100), ecn: false }
    }
}

/// CoDel state of one queue (RFC 8289 section 5).
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Time at which the sojourn time will have exceeded the target for an interval; `None` while the sojourn time is
    /// below the target.
    first_above: Option<Nanos>,
    /// While dropping, the time of the next drop; afterwards, the time at which the next drop would have been due.
    drop_next: Nanos,
    /// Drops since the start of the dropping state, plus the drops carried over from the previous dropping state.
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl CoDel {
    /// The control law: returns the time interval / sqrt(count) after `from` (section 5.4).
    fn after(&self, from: Nanos, count: u64) -> Nanos {
        from.saturating_add(Nanos::from_nanos((self.interval.as_nanos() as f64 / (count as f64).sqrt()) as u64))
    }
}

impl State {
    /// Removes the next packet; returns its arrival time, the packet, and whether the packet may be dropped (section
    /// 5.6).
    fn take<F: Frame>(&mut self, now: Nanos, params: &CoDel, backlog: &mut Backlog<F>) -> Option<(Nanos, F, bool)> {
        let Some((arrived, packet)) = backlog.pop() else {
            self.first_above = None;
            return None;
        };
        // With at most one packet left in the queue, there is no standing queue.
        if now - arrived < params.target || backlog.bytes() <= MTU {
            self.first_above = None;
            return Some((arrived, packet, false));
        }
        let first_above = *self.first_above.get_or_insert(now.saturating_add(params.interval));
        // If `first_above` was set just now, it is one interval ahead of `now`, so the packet may not be dropped.
        Some((arrived, packet, now >= first_above))
    }

    /// Performs the due drops and returns the next packet to transmit (section 5.5).
    pub(crate) fn dequeue<F: Frame>(
        &mut self,
        now: Nanos,
        params: &CoDel,
        backlog: &mut Backlog<F>,
        stats: &mut Tally<F>,
    ) -> Option<(Nanos, F)> {
        let Some((mut arrived, mut packet, mut above)) = self.take(now, params, backlog) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.dropping = above;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if params.ecn && mark(&mut packet) {
                    stats.marked += 1;
                    self.drop_next = params.after(self.drop_next, self.count);
                    break;
                }
                stats.dropped_aqm += 1;
                stats.evicted.push(packet);
                match self.take(now, params, backlog) {
                    Some(next) => (arrived, packet, above) = next,
                    None => {
                        self.dropping = false;
                        return None;
                    }
                }
                if above {
                    self.drop_next = params.after(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if above {
            self.dropping = true;
            // If the previous dropping state ended recently, resume at its drop rate.
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now - self.drop_next < params.interval * 16;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = params.after(now, self.count);
            self.last_count = self.count;
            if params.ecn && mark(&mut packet) {
                stats.marked += 1;
            } else {
                stats.dropped_aqm += 1;
                stats.evicted.push(packet);
                // Send the next packet, regardless of its sojourn time.
                let Some(next) = self.take(now, params, backlog) else {
                    self.dropping = false;
                    return None;
                };
                (arrived, packet, _) = next;
            }
        }
        Some((arrived, packet))
    }
}

impl Configuration for CoDel {
    type Queue<F: Frame> = Managed<F, (Self, State)>;
    fn queue<F: Frame>(&self, _: Rate, _: Limit, _: Random) -> Managed<F, (Self, State)> {
        Managed::new((*self, State::default()))
    }
    fn example() -> Self {
        Self { ecn: true, ..Self::default() }
    }
}

impl Aqm for (CoDel, State) {
    fn next<F: Frame>(&mut self, now: Nanos, backlog: &mut Backlog<F>, stats: &mut Tally<F>) -> Option<(Nanos, F)> {
        self.1.dequeue(now, &self.0, backlog, stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::testing::{Packet, packet};

    const MS: u64 = 1_000_000;
    const PARAMS: CoDel = CoDel { target: Nanos::from_millis(5), interval: Nanos::from_millis(100), ecn: false };

    fn full_packets(count: u64, at: Nanos, ecn: Ecn) -> Backlog<Packet> {
        let mut backlog = Backlog::<Packet>::default();
        let packet = Packet { ecn, ..packet(0, 0, 1500) };
        (0..count).for_each(|_| backlog.push(at, &packet));
        backlog
    }

    /// Expected times of the first `drops` drops of one dropping state, in milliseconds. Without carried drops
    /// (`carried` = 1) the k-th drop is due at first + 100 ms (1 + 1/√2 + … + 1/√(k-1)). Departures are on whole
    /// milliseconds, so a drop occurs at the first departure at or after its due time.
    fn expected(first_ms: f64, carried: u64, drops: u64) -> Vec<u64> {
        let due = |k| first_ms + (carried..carried + k).map(|i| 100.0 / (i as f64).sqrt()).sum::<f64>();
        (0..drops).map(|k| due(k).ceil() as u64).collect()
    }

    /// Dequeues once per millisecond from `from` on; returns the times of the first `drops` drops.
    fn drop_times(
        codel: &mut State,
        params: &CoDel,
        backlog: &mut Backlog<Packet>,
        from: u64,
        drops: usize,
    ) -> (Vec<u64>, Tally<Packet>) {
        let (mut stats, mut times) = (Tally::default(), Vec::new());
        let mut now = from;
        while times.len() < drops {
            let before = stats.dropped_aqm + stats.marked;
            assert!(codel.dequeue(Nanos::from_millis(now), params, backlog, &mut stats).is_some());
            let new = stats.dropped_aqm + stats.marked - before;
            times.extend(std::iter::repeat_n(now, new as usize));
            now += 1;
        }
        (times, stats)
    }

    /// Drops begin after one interval above target, at gaps of interval / sqrt(count).
    #[test]
    fn drops_follow_inverse_square_root_after_one_interval() {
        // All packets arrived at 0, so the packet that departs at 5 ms is the first whose delay reaches the target. The
        // first drop is one interval later.
        let mut backlog = full_packets(5_000, Nanos::ZERO, Ecn::NotEct);
        let (times, stats) = drop_times(&mut State::default(), &PARAMS, &mut backlog, 1, 40);
        assert_eq!(times, expected(105.0, 1, 40));
        assert_eq!(times[..4], [105, 205, 276, 334]);
        assert_eq!((stats.dropped_aqm, stats.marked), (40, 0));
        // One packet departed per millisecond, and each of the 40 drops removed one more packet.
        assert_eq!(backlog.packets(), 5_000 - times[39] - 40);
    }

    /// With ECN, marks replace drops at the same times, and no packet is lost.
    #[test]
    fn marking_keeps_drop_times_and_loses_nothing() {
        let mut backlog = full_packets(5_000, Nanos::ZERO, Ecn::Ect0);
        let params = CoDel { ecn: true, ..PARAMS };
        let (times, stats) = drop_times(&mut State::default(), &params, &mut backlog, 1, 40);
        assert_eq!(times, expected(105.0, 1, 40));
        assert_eq!((stats.dropped_aqm, stats.marked), (0, 40));
        assert_eq!(backlog.packets(), 5_000 - times[39]);
    }

    /// With ECN, packets that are not ECN-capable are dropped.
    #[test]
    fn not_ect_packets_are_dropped_despite_ecn() {
        let mut backlog = full_packets(1_000, Nanos::ZERO, Ecn::NotEct);
        let params = CoDel { ecn: true, ..PARAMS };
        let (_, stats) = drop_times(&mut State::default(), &params, &mut backlog, 1, 5);
        assert_eq!((stats.dropped_aqm, stats.marked), (5, 0));
    }

    /// Runs a standing queue for ten drops, an empty queue for `pause_ms`, and a second standing queue. Returns the
    /// start of the second standing queue and the times of its drops.
    fn times_after_pause(pause_ms: u64) -> (u64, Vec<u64>) {
        let mut codel = State::default();
        let mut backlog = full_packets(2_000, Nanos::ZERO, Ecn::NotEct);
        let (times, mut stats) = drop_times(&mut codel, &PARAMS, &mut backlog, 1, 10);
        let end = Nanos::from_millis(times[9] + 1);
        let mut backlog = Backlog::<Packet>::default();
        assert!(codel.dequeue(end, &PARAMS, &mut backlog, &mut stats).is_none());
        let again = times[9] + pause_ms;
        let mut backlog = full_packets(2_000, Nanos::from_millis(again), Ecn::NotEct);
        (again, drop_times(&mut codel, &PARAMS, &mut backlog, again + 1, 5).0)
    }

    /// A standing queue that returns within about sixteen intervals resumes the earlier drop rate; a queue that returns
    /// after a longer pause starts at the initial drop rate.
    #[test]
    fn recent_dropping_state_resumes_its_drop_rate() {
        // `count` rose from 1 to 10 in the first queue, so 9 drops are carried over: in the second queue, the second
        // drop is 100/√9 ms after the first drop.
        let (again, times) = times_after_pause(200);
        assert_eq!(times, expected((again + 105) as f64, 9, 5));
        assert_eq!(times[1] - times[0], 34);
        // More than sixteen intervals after the time at which the next drop was due, the count restarts.
        let (again, times) = times_after_pause(1_700);
        assert_eq!(times, expected((again + 105) as f64, 1, 5));
    }

    /// No packet is dropped below the target delay or with at most one packet left in the queue.
    #[test]
    fn no_drops_below_target_or_with_one_packet_left() {
        let mut codel = State::default();
        let mut stats = Tally::default();
        for n in 0..10_000 {
            // A delay of 4.999 ms, with ten packets left in the queue.
            let now = Nanos::from_nanos((n + 5) * MS);
            let mut backlog = full_packets(11, now - Nanos::from_micros(4_999), Ecn::NotEct);
            assert!(codel.dequeue(now, &PARAMS, &mut backlog, &mut stats).is_some());
            // A delay of one second, but only one packet left in the queue.
            let mut backlog = full_packets(2, now - Nanos::from_secs(1), Ecn::NotEct);
            assert!(codel.dequeue(now, &PARAMS, &mut backlog, &mut stats).is_some());
        }
        assert_eq!(stats.dropped_aqm, 0);
    }
}
