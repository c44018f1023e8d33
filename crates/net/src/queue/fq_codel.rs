//! FQ-CoDel (RFC 8290): flows are hashed to queues that take turns by deficit round robin, queues that just became active
//! first; each is managed by CoDel; when all are too long together, the longest gives way.

use narrows_cc::{Nanos, Random};

use super::codel::{CoDel, CoDelParams};
use super::{Backlog, Room};
use crate::link::LinkStats;
use crate::{Flags, Packet};

const NONE: u32 = u32::MAX;

/// Most packets given up at once by the longest queue; one search for it then serves many drops (section 4.1).
const DROP_BATCH: u64 = 64;

#[derive(Clone, Debug)]
struct FlowQueue {
    backlog: Backlog,
    codel: CoDel,
    /// Bytes it may still send in this turn.
    credit: i64,
    /// The queue behind it in the list that it is in.
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

    fn push(&mut self, queues: &mut [FlowQueue], index: u32) {
        queues[index as usize].next = NONE;
        match self.tail {
            NONE => self.head = index,
            tail => queues[tail as usize].next = index,
        }
        self.tail = index;
    }

    fn pop(&mut self, queues: &[FlowQueue]) {
        self.head = queues[self.head as usize].next;
        if self.head == NONE {
            self.tail = NONE;
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FqCoDel {
    params: CoDelParams,
    quantum: i64,
    queues: Box<[FlowQueue]>,
    new: List,
    old: List,
    packets: u64,
    bytes: u64,
    salt: u64,
}

impl FqCoDel {
    pub(crate) fn new(params: CoDelParams, queues: u32, quantum: u32, mut random: Random) -> Self {
        let queue = FlowQueue {
            backlog: Backlog::default(),
            codel: CoDel::default(),
            credit: 0,
            next: NONE,
            active: false,
        };
        Self {
            params,
            quantum: i64::from(quantum.max(1)),
            queues: vec![queue; queues.max(1) as usize].into_boxed_slice(),
            new: List::EMPTY,
            old: List::EMPTY,
            packets: 0,
            bytes: 0,
            salt: random.bits(),
        }
    }

    pub(crate) const fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The queue of a packet: flow and direction stand for the 5-tuple, mixed with a salt (the finaliser of SplitMix64).
    fn queue_of(&self, packet: &Packet) -> u32 {
        let tuple = u64::from(packet.flow) << 1 | u64::from(packet.flags.has(Flags::REVERSE));
        let mut hash = tuple.wrapping_add(self.salt);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        (hash % self.queues.len() as u64) as u32
    }

    /// Section 4.1. Whether the packet itself is still there when the queues are short enough again.
    pub(crate) fn enqueue(&mut self, now: Nanos, packet: &Packet, room: Room, stats: &mut LinkStats) -> bool {
        let index = self.queue_of(packet);
        let queue = &mut self.queues[index as usize];
        queue.backlog.push(now, packet);
        self.packets += 1;
        self.bytes += packet.size().as_u64();
        if !queue.active {
            queue.active = true;
            queue.credit = self.quantum;
            self.new.push(&mut self.queues, index);
        }
        while !room.holds(self.packets, self.bytes) {
            self.drop_from_longest(stats);
        }
        self.queues[index as usize].backlog.packets() > 0
    }

    /// Drops half of the queue with most bytes, at its head, but at most 64 packets.
    fn drop_from_longest(&mut self, stats: &mut LinkStats) {
        let Some(longest) = self.queues.iter_mut().max_by_key(|queue| queue.backlog.bytes()) else { return };
        for _ in 0..longest.backlog.packets().div_ceil(2).min(DROP_BATCH) {
            let Some((_, packet)) = longest.backlog.pop() else { return };
            self.packets -= 1;
            self.bytes -= packet.size().as_u64();
            stats.dropped_queue += 1;
        }
    }

    /// Section 4.2.
    pub(crate) fn dequeue(&mut self, now: Nanos, stats: &mut LinkStats) -> Option<(Nanos, Packet)> {
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
                // Otherwise a flow that sends one packet at a time would always come first.
                self.old.push(&mut self.queues, index);
            } else {
                self.queues[index as usize].active = false;
            }
        }
    }
}
