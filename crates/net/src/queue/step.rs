//! Step marking (RFC 8257 section 3.1; Alizadeh et al. 2010, section 3.1): an arrival with more than K
//! packets queued is marked, or dropped if not ECN-capable. There is no averaging, so senders receive the
//! mark within a round trip.

use super::backlog::Verdict;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    above: f64,
}

impl Step {
    pub(crate) const fn new(above: f64) -> Self {
        Self { above }
    }

    /// Decides on an arriving packet with `queued` packets ahead.
    pub(crate) const fn judge(&self, queued: u64) -> Verdict {
        if queued as f64 > self.above { Verdict::Mark } else { Verdict::Pass }
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::{Nanos, Random, Rate};

    use crate::Ecn;
    use crate::config::{Limit, Queue};
    use crate::queue::{Discipline, Room};
    use crate::stats::Tally;
    use crate::testing::Packet;

    /// Only arrivals above the threshold are marked, or dropped if not ECN-capable.
    #[test]
    fn only_arrivals_above_threshold_are_marked_or_dropped() {
        let rate = Rate::from_mbit_per_sec(10.0);
        let mut queue = Discipline::new(
            &Queue::Step { above: 3.0 },
            rate,
            Limit::Packets(100),
            Random::stream(1, "aqm", 0),
        );
        let mut stats = Tally::default();
        let mut offer = |ecn| {
            let mut packet = Packet::new(0);
            (packet.payload, packet.ecn) = (1448, ecn);
            queue.enqueue(Nanos::ZERO, &packet, None, Room::Packets(100), &mut stats)
        };
        // The fifth has four packets ahead.
        let accepted: Vec<bool> = (0..6).map(|_| offer(Ecn::Ect0)).collect();
        assert_eq!(accepted, [true; 6]);
        assert!(!offer(Ecn::NotEct));
        assert_eq!((stats.marked, stats.dropped_aqm, stats.dropped_queue), (2, 1, 0));
        let leave = || queue.dequeue(Nanos::ZERO, &mut stats).map(|(_, packet)| packet.ecn == Ecn::Ce);
        let marks: Vec<bool> = std::iter::from_fn(leave).collect();
        assert_eq!(marks, [false, false, false, false, true, true]);
    }
}
