//! Two DCCP endpoints in memory, to measure the protocol without system calls. Packets cross a path in virtual time
//! with a drop-tail bottleneck. This file reads no clock.

use std::collections::VecDeque;

use narrows_cc::schemes::{ALL, Entry};
use narrows_cc::{Bytes, Nanos, Params, Random, Rate};
use narrows_dccp::{Ccid, Config, Connection, Event, Role};

/// Payload of a datagram; with DCCP, UDP and IP headers a packet is below 1500 bytes.
pub const DATAGRAM: u16 = 1_400;
/// Maximum size of a packet: the payload, and the longest header with options.
const PACKET: usize = DATAGRAM as usize + 1_020;
/// Bottleneck rate towards the server.
const RATE: Rate = Rate::from_bytes_per_sec(125_000_000);
/// One-way delay.
const DELAY: Nanos = Nanos::from_micros(500);
/// Maximum queueing delay at the bottleneck: one bandwidth-delay product.
const LONGEST_WAIT: Nanos = Nanos::from_millis(1);
/// Bytes of the IP and UDP headers.
const BELOW: u64 = 28;

/// The schemes with a dedicated CCID.
pub fn schemes() -> impl Iterator<Item = &'static Entry> {
    ALL.iter().filter(|entry| Ccid::of(entry) != Ccid::Other)
}

#[derive(Debug)]
struct Flying {
    at: Nanos,
    bytes: Vec<u8>,
    ecn: u8,
}

/// Two DCCP endpoints: a backlogged client and a server.
#[derive(Debug)]
pub struct Pair {
    ends: [Connection; 2],
    /// Packets in flight to each endpoint.
    flying: [VecDeque<Flying>; 2],
    spare: Vec<Vec<u8>>,
    payload: Vec<u8>,
    now: Nanos,
    /// Time at which the bottleneck queue is empty.
    free_at: Nanos,
    received: u64,
    dropped: u64,
}

impl Pair {
    /// Creates two endpoints with this scheme and its default parameters, before the handshake.
    pub fn new(scheme: &'static Entry) -> Self {
        let end = |role, stream| {
            let params = Params::defaults(scheme.info.params);
            let config = Config { role, scheme, params, datagram: DATAGRAM, ..Config::default() };
            Connection::new(&config, Random::stream(1, "bench", stream), Nanos::ZERO)
        };
        let mut pair = Self {
            ends: [end(Role::Client, 0), end(Role::Server, 1)],
            flying: [VecDeque::new(), VecDeque::new()],
            spare: Vec::new(),
            payload: vec![0x5a; usize::from(DATAGRAM)],
            now: Nanos::ZERO,
            free_at: Nanos::ZERO,
            received: 0,
            dropped: 0,
        };
        pair.take(0);
        pair
    }

    /// Runs until the server has received `datagrams` more datagrams; returns `false` if the endpoints stall before.
    pub fn run(&mut self, datagrams: u64) -> bool {
        let target = self.received + datagrams;
        while self.received < target {
            if !self.step() {
                return false;
            }
        }
        true
    }

    /// Datagrams dropped by the bottleneck's queue.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The client.
    pub fn client(&self) -> &Connection {
        &self.ends[0]
    }

    /// Virtual time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Handles the next event; `false` if there is none.
    fn step(&mut self) -> bool {
        let mut due = [Nanos::MAX; 2];
        for (i, due) in due.iter_mut().enumerate() {
            let arrives = self.flying[i].front().map_or(Nanos::MAX, |first| first.at);
            *due = arrives.min(self.ends[i].deadline()).max(self.now);
        }
        let end = usize::from(due[1] < due[0]);
        if due[end] == Nanos::MAX {
            return false;
        }
        self.now = due[end];
        while self.flying[end].front().is_some_and(|first| first.at <= self.now) {
            let Some(first) = self.flying[end].pop_front() else { break };
            self.ends[end].on_packet(self.now, &first.bytes, first.ecn);
            self.spare.push(first.bytes);
        }
        if self.ends[end].deadline() <= self.now {
            self.ends[end].on_timer(self.now);
        }
        self.take(end);
        true
    }

    /// Sends all packets that an endpoint may transmit now, and reads its events.
    fn take(&mut self, end: usize) {
        let Self { ends, flying, spare, payload, now, .. } = self;
        let connection = &mut ends[end];
        loop {
            while end == 0 && connection.state().is_open() && connection.can_push() {
                let _ = connection.push(*now, payload);
            }
            // The capacity suffices for any packet, because buffers are reused in arbitrary order.
            let mut bytes = spare.pop().unwrap_or_else(|| Vec::with_capacity(PACKET));
            bytes.clear();
            let Some(sent) = connection.poll_transmit(*now, &mut bytes) else {
                spare.push(bytes);
                break;
            };
            let mut leaves = *now;
            if end == 0 {
                if self.free_at > *now && self.free_at - *now > LONGEST_WAIT {
                    self.dropped += 1;
                    spare.push(bytes);
                    continue;
                }
                leaves = self.free_at.max(*now) + RATE.time_for(Bytes::new(bytes.len() as u64 + BELOW));
                self.free_at = leaves;
            }
            flying[1 - end].push_back(Flying { at: leaves + DELAY, bytes, ecn: sent.ecn });
        }
        while let Some(event) = connection.poll_event() {
            if let Event::Datagram(data) = event {
                self.received += u64::from(data == *payload);
                connection.recycle(data);
            }
        }
    }
}
