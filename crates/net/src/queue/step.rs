//! Step marking (RFC 8257 section 3.1; Alizadeh et al. 2010, section 3.1): an arrival with more than K packets queued
//! is marked, or dropped if not ECN-capable. The queue length is not averaged, so senders receive the mark within a
//! round trip.

use narrows_units::{Nanos, Random, Rate};

use super::backlog::{Backlog, Room, Verdict};
use super::{Aqm, Configuration, Managed};
use crate::Frame;
use crate::limit::Limit;

/// The constant of step marking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The threshold, in packets.
    pub above: f64,
}

/// The recommendation of the paper for 10 Gbit/s (Alizadeh et al. 2010, section 3.5).
impl Default for Step {
    fn default() -> Self {
        Self { above: 65.0 }
    }
}

impl Configuration for Step {
    type Queue<F: Frame> = Managed<F, Self>;
    fn queue<F: Frame>(&self, _: Rate, _: Limit, _: Random) -> Managed<F, Self> {
        Managed::new(*self)
    }
    fn example() -> Self {
        Self { above: 20.0 }
    }
}

impl Aqm for Step {
    fn judge<F: Frame>(&mut self, _: Nanos, _: &F, backlog: &Backlog<F>, _: Room) -> Verdict {
        if backlog.packets() as f64 > self.above { Verdict::Mark } else { Verdict::Pass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::queue::{Discipline, Queue, Queueing};
    use crate::stats::Tally;
    use crate::testing::Packet;

    /// Only arrivals above the threshold are marked, or dropped if not ECN-capable.
    #[test]
    fn only_arrivals_above_threshold_are_marked_or_dropped() {
        let rate = Rate::from_mbit_per_sec(10.0);
        let mut queue =
            Discipline::new(&Queue::Step(Step { above: 3.0 }), rate, Limit::Packets(100), Random::stream(1, "aqm", 0));
        let mut stats = Tally::default();
        let mut offer = |ecn| {
            let mut packet = Packet::new(0);
            (packet.payload, packet.ecn) = (1448, ecn);
            queue.enqueue(Nanos::ZERO, &packet, None, Room::Packets(100), &mut stats)
        };
        // The fifth arrival finds four packets in the queue and is the first arrival above the threshold.
        let accepted: Vec<bool> = (0..6).map(|_| offer(Ecn::Ect0)).collect();
        assert_eq!(accepted, [true; 6]);
        assert!(!offer(Ecn::NotEct));
        assert_eq!((stats.marked, stats.dropped_aqm, stats.dropped_queue), (2, 1, 0));
        let leave = || queue.dequeue(Nanos::ZERO, &mut stats).map(|(_, packet)| packet.ecn == Ecn::Ce);
        let marks: Vec<bool> = std::iter::from_fn(leave).collect();
        assert_eq!(marks, [false, false, false, false, true, true]);
    }
}
