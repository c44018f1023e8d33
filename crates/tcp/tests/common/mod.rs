//! Two endpoints with rate negotiation, and a simulated path between them. The tests of crate `routers` use this module
//! too.
#![allow(dead_code, missing_docs)] // each test uses a part of it

use std::collections::BTreeMap;

use narrows_cc::schemes::{self, Entry};
use narrows_cc::{AnyScheme, Bytes, Nanos, Params, Random, Setup};
use narrows_packet::{Flags, Kind, Packet};
use narrows_routers::{NegotiationConfig, endpoint};
use narrows_tcp::{Receiver, Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};

/// Fate of the n-th packet of a direction: the delays of all copies that arrive. An empty list means loss.
pub type Fate = Box<dyn FnMut(&Packet, u64) -> Vec<Nanos>>;

/// A change to a packet in transit.
pub type Mangle = Box<dyn FnMut(&mut Packet)>;

pub struct Pipe {
    pub now: Nanos,
    pub sender: Sender,
    pub receiver: Receiver,
    pub delivered: u64,
    /// Bytes that the sender counted as delivered.
    pub acked: u64,
    pub log: Vec<(Nanos, Packet)>,
    /// Changes packets in the forward direction.
    pub mangle: Option<Mangle>,
    /// Changes packets in the reverse direction.
    pub mangle_back: Option<Mangle>,
    forward: Fate,
    reverse: Fate,
    counts: [u64; 2],
    wire: BTreeMap<(Nanos, u64), Packet>,
    number: u64,
    pub steps: u64,
    /// Data packets sent beyond the congestion window.
    pub beyond_window: u64,
    /// Highest sequence number that the receiver's window has allowed, as known to the sender.
    pub right_edge: u64,
}

pub fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

pub fn scheme(name: &str, values: &[(&str, f64)], config: &TcpConfig) -> AnyScheme {
    build(schemes::find(name).unwrap(), values, config)
}

pub fn build(entry: &Entry, values: &[(&str, f64)], config: &TcpConfig) -> AnyScheme {
    let mut params = Params::defaults(entry.info.params);
    for &(key, value) in values {
        params.set(key, value).unwrap();
    }
    let mss = Bytes::new(u64::from(config.segment));
    entry.build(
        &Setup::new(mss, params, Random::stream(1, "scheme", 0))
            .with_window(config.initial_window)
            .with_sack(config.sack),
    )
}

pub fn sender(name: &str, values: &[(&str, f64)], config: &TcpConfig, app: AppConfig) -> Sender {
    let app = App::new(app, Random::stream(1, "app", 0), Nanos::ZERO);
    let mut sender = Sender::new(0, config.clone(), scheme(name, values, config), app, Nanos::ZERO);
    endpoint::attach_sender(&mut sender, &NegotiationConfig::default());
    sender
}

/// A fixed delay without loss.
pub fn delay(by: Nanos) -> Fate {
    Box::new(move |_, _| vec![by])
}

/// A path that drops the first transmissions of the data packets with these numbers, counted from 1, and delays all
/// other packets.
pub fn dropping(by: Nanos, segment: u64, lost: &'static [u64]) -> Fate {
    Box::new(move |packet, _| {
        let fresh = packet.payload > 0 && !packet.flags.has(Flags::RETRANSMISSION);
        if fresh && lost.contains(&((packet.tcp().seq - 1) / segment + 1)) { vec![] } else { vec![by] }
    })
}

impl Pipe {
    pub fn new(sender: Sender, config: &TcpConfig, forward: Fate, reverse: Fate) -> Self {
        let mut receiver = Receiver::new(0, config);
        endpoint::attach_receiver(&mut receiver, &NegotiationConfig::default());
        Self {
            now: Nanos::ZERO,
            sender,
            receiver,
            delivered: 0,
            acked: 0,
            log: Vec::new(),
            mangle: None,
            mangle_back: None,
            forward,
            reverse,
            counts: [0; 2],
            wire: BTreeMap::new(),
            number: 0,
            steps: 0,
            beyond_window: 0,
            right_edge: 0,
        }
    }

    fn put(&mut self, mut packet: Packet) {
        let back = usize::from(packet.flags.has(Flags::REVERSE));
        if let Some(mangle) = if back == 1 { &mut self.mangle_back } else { &mut self.mangle } {
            mangle(&mut packet);
        }
        let n = self.counts[back];
        self.counts[back] += 1;
        let fate = if back == 1 { &mut self.reverse } else { &mut self.forward };
        for delay in fate(&packet, n) {
            self.number += 1;
            self.wire.insert((self.now + delay, self.number), packet);
        }
    }

    /// Injects a forged packet, which reaches its endpoint at `at`.
    pub fn forge(&mut self, at: Nanos, packet: Packet) {
        self.number += 1;
        self.wire.insert((at, self.number), packet);
    }

    fn next_arrival(&self) -> Nanos {
        self.wire.first_key_value().map_or(Nanos::MAX, |(key, _)| key.0)
    }

    fn next_event(&self) -> Nanos {
        self.sender.deadline().min(self.receiver.deadline()).min(self.next_arrival())
    }

    /// Processes the next event; `false` if there is none.
    pub fn step(&mut self) -> bool {
        let arrival = self.next_arrival();
        let next = self.next_event();
        if next == Nanos::MAX {
            return false;
        }
        assert!(next >= self.now, "a deadline in the past: {next:?} at {:?}", self.now);
        self.now = next;
        self.steps += 1;
        if arrival == next {
            let (_, packet) = self.wire.pop_first().unwrap();
            if packet.flags.has(Flags::REVERSE) {
                if packet.kind() == Kind::Tcp {
                    let edge = packet.tcp().ack + u64::from(packet.tcp().window);
                    self.right_edge = self.right_edge.max(edge);
                }
                self.acked += self.sender.on_packet(self.now, &packet).acked.as_u64();
            } else {
                self.delivered += self.receiver.on_packet(self.now, &packet).in_order.as_u64();
            }
        } else {
            if self.sender.deadline() <= self.now {
                self.sender.on_timer(self.now);
            }
            if self.receiver.deadline() <= self.now {
                self.receiver.on_timer(self.now);
            }
        }
        self.transmit();
        true
    }

    /// Stops the sender's application.
    pub fn stop(&mut self) {
        self.sender.stop(self.now);
        self.transmit();
    }

    /// Runs until `at`, when the application writes `bytes` ([`AppConfig::Written`]).
    pub fn write(&mut self, at: Nanos, bytes: u64) {
        self.run_until(at);
        self.now = at;
        self.sender.assign(bytes);
        self.transmit();
    }

    fn transmit(&mut self) {
        let burst = self.log.len() + 10_000;
        let mut before = self.sender.inflight();
        while let Some(packet) = self.sender.poll_transmit(self.now) {
            assert!(self.log.len() < burst, "an endless burst: {packet:?}");
            let fits = self.sender.inflight() <= self.sender.window() || before.is_zero();
            self.beyond_window += u64::from(packet.payload > 0 && !fits);
            before = self.sender.inflight();
            let end = packet.numbers().0 + u64::from(packet.payload);
            assert!(packet.payload == 0 || end <= self.right_edge, "beyond the receive window: {packet:?}");
            self.log.push((self.now, packet));
            self.put(packet);
        }
        while let Some(packet) = self.receiver.poll_transmit(self.now) {
            self.put(packet);
        }
    }

    pub fn run_until(&mut self, end: Nanos) {
        while self.next_event() <= end && self.step() {}
    }

    /// Departure times of the data packet with this number, counted from 1.
    pub fn sent_at(&self, number: u64, segment: u64) -> Vec<Nanos> {
        let wanted = |p: &Packet| p.payload > 0 && (p.tcp().seq - 1) / segment + 1 == number;
        self.log.iter().filter(|(_, p)| wanted(p)).map(|&(at, _)| at).collect()
    }
}
