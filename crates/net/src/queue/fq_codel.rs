//! FQ-CoDel (RFC 8290): hashes flows to queues and serves the queues by deficit round robin, newly active queues first.
//! CoDel manages each queue. When the total backlog exceeds the limit, the discipline drops packets of the longest
//! queue.

use narrows_units::{Nanos, Random, Rate};

use super::backlog::{Backlog, Room};
use super::codel::{CoDel, State};
use super::{Configuration, Queueing};
use crate::limit::Limit;
use crate::stats::Tally;
use crate::{Direction, Frame};

const NONE: u32 = u32::MAX;

/// Maximum number of packets dropped per search for the longest queue, so that one search serves many drops (section
/// 4.1).
const DROP_BATCH: u64 = 64;

#[derive(Clone, Debug)]
struct FlowQueue<F> {
    backlog: Backlog<F>,
    codel: State,
    /// Number of bytes that the queue may still send in this round.
    credit: i64,
    /// Next queue in the same list.
    next: u32,
    active: bool,
}

/// A list of queues, linked through [`FlowQueue::next`].
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl List {
    const EMPTY: Self = Self { head: NONE, tail: NONE };

    fn push<F>(&mut self, queues: &mut [FlowQueue<F>], index: u32) {
        queues[index as usize].next = NONE;
        match self.tail {
            NONE => self.head = index,
            tail => queues[tail as usize].next = index,
        }
        self.tail = index;
    }

    fn pop<F>(&mut self, queues: &[FlowQueue<F>]) {
        self.head = queues[self.head as usize].next;
        if self.head == NONE {
            self.tail = NONE;
        }
    }
}

/// The constants of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FqCoDel {
    /// Constants of the CoDel of each flow queue.
    pub codel: CoDel,
    /// Number of flow queues.
    pub queues: u32,
    /// Bytes that a queue may send per turn.
    pub quantum: u32,
}

impl Default for FqCoDel {
    fn default() -> Self {
        Self { codel: CoDel::default(), queues: 1024, quantum: 1514 }
    }
}

impl Configuration for FqCoDel {
    type Queue<F: Frame> = FlowQueues<F>;
    fn queue<F: Frame>(&self, _: Rate, _: Limit, random: Random) -> FlowQueues<F> {
        FlowQueues::new(self, random)
    }
    fn example() -> Self {
        Self { codel: CoDel::example(), ..Self::default() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FlowQueues<F> {
    params: CoDel,
    quantum: i64,
    queues: Box<[FlowQueue<F>]>,
    new: List,
    old: List,
    packets: u64,
    bytes: u64,
    salt: u64,
}

impl<F: Frame> FlowQueues<F> {
    fn new(config: &FqCoDel, mut random: Random) -> Self {
        let queue =
            FlowQueue { backlog: Backlog::default(), codel: State::default(), credit: 0, next: NONE, active: false };
        Self {
            params: config.codel,
            quantum: i64::from(config.quantum.max(1)),
            queues: vec![queue; config.queues.max(1) as usize].into_boxed_slice(),
            new: List::EMPTY,
            old: List::EMPTY,
            packets: 0,
            bytes: 0,
            salt: random.bits(),
        }
    }

    /// Returns the queue of a frame: a hash (the finaliser of SplitMix64) of a salt, and of flow key and direction in
    /// place of the 5-tuple.
    fn queue_of(&self, frame: &F) -> u32 {
        let tuple = u64::from(frame.flow()) << 1 | u64::from(frame.direction() == Direction::Reverse);
        let mut hash = tuple.wrapping_add(self.salt);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        (hash % self.queues.len() as u64) as u32
    }

    /// Drops half of the queue with the most bytes, but at most 64 packets, starting at its head.
    fn drop_from_longest(&mut self, stats: &mut Tally<F>) {
        let Some(longest) = self.queues.iter_mut().max_by_key(|queue| queue.backlog.bytes()) else { return };
        for _ in 0..longest.backlog.packets().div_ceil(2).min(DROP_BATCH) {
            let Some((_, packet)) = longest.backlog.pop() else { return };
            self.packets -= 1;
            self.bytes -= packet.size().as_u64();
            stats.dropped_queue += 1;
            stats.evicted.push(packet);
        }
    }
}

impl<F: Frame> Queueing<F> for FlowQueues<F> {
    /// Enqueues as in section 4.1. Returns whether the frame itself is still queued once the backlog is within the
    /// limit again.
    fn enqueue(&mut self, now: Nanos, frame: &F, _: Option<u8>, room: Room, stats: &mut Tally<F>) -> bool {
        let index = self.queue_of(frame);
        let queue = &mut self.queues[index as usize];
        queue.backlog.push(now, frame);
        self.packets += 1;
        self.bytes += frame.size().as_u64();
        if !queue.active {
            queue.active = true;
            queue.credit = self.quantum;
            self.new.push(&mut self.queues, index);
        }
        while !room.admits(self.packets, self.bytes) {
            self.drop_from_longest(stats);
        }
        let kept = self.queues[index as usize].backlog.packets() > 0;
        if !kept {
            // The arriving frame itself was dropped last; the return value reports this drop.
            stats.evicted.pop();
        }
        kept
    }

    /// Dequeues as in section 4.2.
    fn dequeue(&mut self, now: Nanos, stats: &mut Tally<F>) -> Option<(Nanos, F)> {
        loop {
            let from_new = self.new.head != NONE;
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = list.head;
            if index == NONE {
                return None;
            }
            let queue = &mut self.queues[index as usize];
            if queue.credit <= 0 {
                queue.credit += self.quantum;
                list.pop(&self.queues);
                self.old.push(&mut self.queues, index);
                continue;
            }
            let before = (queue.backlog.packets(), queue.backlog.bytes());
            let taken = queue.codel.dequeue(now, &self.params, &mut queue.backlog, stats);
            self.packets -= before.0 - queue.backlog.packets();
            self.bytes -= before.1 - queue.backlog.bytes();
            if let Some((arrived, packet)) = taken {
                queue.credit -= packet.size().as_u64() as i64;
                return Some((arrived, packet));
            }
            list.pop(&self.queues);
            if from_new {
                // A new queue that empties becomes an old queue, not inactive: otherwise a flow of single packets would
                // always go first.
                self.old.push(&mut self.queues, index);
            } else {
                self.queues[index as usize].active = false;
            }
        }
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Packet, packet};

    const NO_LIMIT: Room = Room::Packets(u64::MAX);

    fn fq(queues: u32) -> FlowQueues<Packet> {
        FlowQueues::new(&FqCoDel { queues, ..FqCoDel::default() }, Random::stream(1, "aqm", 0))
    }

    /// Flows and sequence numbers of the next `n` departures, at time zero.
    fn leave(fq: &mut FlowQueues<Packet>, n: usize) -> Vec<(u32, u64)> {
        let mut stats = Tally::default();
        let next = || fq.dequeue(Nanos::ZERO, &mut stats).map(|(_, packet)| (packet.flow, packet.seq));
        std::iter::from_fn(next).take(n).collect()
    }

    fn fill(fq: &mut FlowQueues<Packet>, flow: u32, packets: u64, size: u16) {
        let mut stats = Tally::default();
        for seq in 0..packets {
            assert!(fq.enqueue(Nanos::ZERO, &packet(flow, seq, size), None, NO_LIMIT, &mut stats));
        }
    }

    /// A sparse flow goes before a standing queue.
    #[test]
    fn sparse_flow_goes_before_a_standing_queue() {
        let mut fq = fq(1024);
        fill(&mut fq, 1, 100, 1500);
        assert_eq!(leave(&mut fq, 3), [(1, 0), (1, 1), (1, 2)]);
        fill(&mut fq, 2, 1, 100);
        // The first turn of flow 1 ended after two packets: 14 bytes of credit remained after the first packet. Flow 2
        // is new, so it goes before the next packet of flow 1.
        assert_eq!(leave(&mut fq, 3), [(2, 0), (1, 3), (1, 4)]);
    }

    /// A new flow sends exactly its first quantum before all standing queues, regardless of their turns (sections 4.1
    /// and 4.2).
    #[test]
    fn new_flow_sends_a_quantum_before_standing_queues() {
        // After four departures both standing queues have had their first quantum.
        for departed in 4..16 {
            let mut fq = fq(1024);
            fill(&mut fq, 1, 100, 1500);
            fill(&mut fq, 2, 100, 1500);
            leave(&mut fq, departed);
            fill(&mut fq, 3, 40, 100);
            // After fifteen packets of 100 bytes, 14 of the 1514 bytes of credit remain, so flow 3 may send a sixteenth
            // packet.
            let flows: Vec<u32> = leave(&mut fq, 17).into_iter().map(|(flow, _)| flow).collect();
            assert_eq!(flows[..16], [3; 16], "after {departed} departures");
            assert_ne!(flows[16], 3, "after {departed} departures");
        }
    }

    /// A flow of single packets cannot starve a standing queue.
    #[test]
    fn flow_of_single_packets_cannot_starve_others() {
        let mut fq = fq(1024);
        fill(&mut fq, 1, 1_000, 1500);
        leave(&mut fq, 2);
        let mut from_standing = 0;
        for seq in 0..200 {
            if !fq.queues.iter().any(|queue| queue.backlog.packets() == 1) {
                fq.enqueue(Nanos::ZERO, &packet(2, seq, 1500), None, NO_LIMIT, &mut Tally::default());
            }
            from_standing += leave(&mut fq, 1).iter().filter(|&&(flow, _)| flow == 1).count();
        }
        // Each of the two queues gets a quantum of 1514 bytes per round, in either order.
        assert!((95..=105).contains(&from_standing), "{from_standing}");
    }

    /// Standing queues get equal shares of the link in bytes, at any packet size.
    #[test]
    fn standing_queues_share_by_bytes() {
        let mut fq = fq(1024);
        fill(&mut fq, 1, 1_000, 1500);
        fill(&mut fq, 2, 5_000, 300);
        fill(&mut fq, 3, 1_000, 1500);
        let mut bytes = [0u64; 4];
        for (flow, _) in leave(&mut fq, 2_000) {
            bytes[flow as usize] += if flow == 2 { 300 } else { 1500 };
        }
        let share = bytes.iter().sum::<u64>() as f64 / 3.0;
        for &sent in &bytes[1..] {
            // Deficit round robin is fair to within a quantum and a packet.
            assert!((sent as f64 - share).abs() <= 1514.0 + 1500.0, "{bytes:?}");
        }
    }

    /// The two directions of a connection are two flows.
    #[test]
    fn connection_directions_are_separate_flows() {
        let mut fq = fq(1024);
        fill(&mut fq, 1, 10, 1500);
        leave(&mut fq, 2);
        let mut ack = packet(1, 77, 52);
        ack.direction = Direction::Reverse;
        fq.enqueue(Nanos::ZERO, &ack, None, NO_LIMIT, &mut Tally::default());
        assert_eq!(leave(&mut fq, 1), [(1, 77)]);
    }

    /// At the limit, the queue with the most bytes loses half of its packets, at most 64, from its head.
    #[test]
    fn full_queue_drops_half_of_the_longest_at_its_head() {
        let mut fq = fq(1024);
        fill(&mut fq, 1, 20, 1500);
        fill(&mut fq, 2, 25, 100);
        let mut stats = Tally::default();
        assert!(fq.enqueue(Nanos::ZERO, &packet(2, 25, 100), None, Room::Packets(45), &mut stats));
        // Flow 2 has more packets, but flow 1 has more bytes, so ten of the twenty packets of flow 1 are dropped.
        assert_eq!((stats.dropped_queue, fq.packets(), fq.bytes()), (10, 36, 10 * 1500 + 26 * 100));
        assert_eq!(leave(&mut fq, 1), [(1, 10)]);
        fill(&mut fq, 3, 200, 1500);
        let before = stats.dropped_queue;
        assert!(fq.enqueue(Nanos::ZERO, &packet(2, 26, 100), None, Room::Bytes(fq.bytes()), &mut stats));
        assert_eq!(stats.dropped_queue - before, 64);
    }

    /// An arriving packet that the queue drops itself counts as not accepted.
    #[test]
    fn arrival_dropped_itself_is_not_accepted() {
        let mut fq = fq(1);
        let mut stats = Tally::default();
        assert!(!fq.enqueue(Nanos::ZERO, &packet(1, 0, 1500), None, Room::Packets(0), &mut stats));
        assert_eq!((stats.dropped_queue, fq.packets(), fq.bytes()), (1, 0, 0));
        assert_eq!(leave(&mut fq, 1), []);
    }
}
