//! The test network: two endpoints and a link in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use narrows_cc::{Bytes, Nanos, Params, Random, Rate, schemes};

pub(super) use super::super::*;
use crate::wire::options;
use crate::{Header, Kind, Opt};

pub(super) const fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

/// Link properties, in both directions.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) delay: Nanos,
    pub(super) loss: f64,
    pub(super) duplicate: f64,
    /// Probability and maximum of an extra delay.
    pub(super) reorder: (f64, Nanos),
    /// Bottleneck from client to server: rate and buffer in bytes.
    pub(super) bottleneck: Option<(Rate, u64)>,
    /// Queueing delay from which ECN-capable packets are marked.
    pub(super) mark: Option<Nanos>,
}

impl Default for Link {
    fn default() -> Self {
        let (loss, duplicate, reorder) = (0.0, 0.0, (0.0, Nanos::ZERO));
        Self { delay: ms(20), loss, duplicate, reorder, bottleneck: None, mark: None }
    }
}

type Filter = Box<dyn FnMut(usize, &Header) -> bool>;

/// A packet in flight: arrival time, order, receiver, bytes, ECN codepoint.
type Flying = Reverse<(Nanos, u64, usize, Vec<u8>, u8)>;

pub(super) struct Net {
    pub(super) ends: [Connection; 2],
    pub(super) events: [Vec<Event>; 2],
    pub(super) now: Nanos,
    pub(super) link: Link,
    /// Packets sent: time, sender, header.
    pub(super) log: Vec<(Nanos, usize, Header)>,
    /// Size and NDP count of each packet in `log`.
    pub(super) sizes: Vec<(usize, Option<u64>)>,
    /// Last Ack that each endpoint sent.
    pub(super) last_ack: [Vec<u8>; 2],
    /// Selects the packets that the link loses.
    pub(super) lose: Filter,
    /// Delay of the client's timers.
    pub(super) timer_delay: Nanos,
    /// Endpoints whose application reads nothing.
    pub(super) not_reading: [bool; 2],
    flying: BinaryHeap<Flying>,
    count: u64,
    random: Random,
    free_at: Nanos,
}

/// Encodes a packet between the default ports, with long sequence numbers.
pub(super) fn packet(kind: Kind, seq: Seq, ack: Seq, options: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = Header::new(kind);
    (header.source, header.destination) = (5001, 5001);
    (header.seq, header.ack) = (seq.get(), kind.acknowledges().then_some(ack.get()));
    let mut bytes = vec![];
    header.encode(options, data, &mut bytes);
    bytes
}

/// The next packet of an endpoint.
pub(super) fn next_packet(end: &mut Connection, now: Nanos) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    end.poll_transmit(now, &mut bytes).map(|_| bytes)
}

/// Header and options of the next packet.
pub(super) fn next_header(end: &mut Connection, now: Nanos) -> (Header, Vec<u8>) {
    let bytes = next_packet(end, now).expect("a packet");
    let (header, body) = Header::decode(&bytes).expect("an endpoint sends valid packets");
    (header, body.options.to_vec())
}

/// The bytes of these options.
pub(super) fn encode(options: &[Opt]) -> Vec<u8> {
    let mut bytes = vec![];
    for option in options {
        option.write(&mut bytes);
    }
    bytes
}

/// The values of the Init Cookies among these options.
pub(super) fn init_cookies(bytes: &[u8]) -> Vec<Vec<u8>> {
    let cookies = options(bytes).filter_map(|option| match option {
        Ok(Opt::InitCookie(value)) => Some(value.to_vec()),
        _ => None,
    });
    cookies.collect()
}

/// The next packet of the peer of `end`, which acknowledges GSS.
pub(super) fn packet_for(end: &Connection, kind: Kind, options: &[u8]) -> Vec<u8> {
    packet(kind, end.gsr.add(1), end.gss, options, &[])
}

/// The default configuration with a scheme.
pub(super) fn config(role: Role, scheme: &str) -> Config {
    let scheme = schemes::find(scheme).expect("a scheme of the registry");
    let params = Params::defaults(scheme.info.params);
    Config { role, scheme, params, ..Config::default() }
}

impl Net {
    pub(super) fn new(client: &Config, server: &Config, link: Link, seed: u64) -> Self {
        let end = |config: &Config, i| Connection::new(config, Random::stream(seed, "end", i), Nanos::ZERO);
        Self {
            ends: [end(client, 0), end(server, 1)],
            events: [vec![], vec![]],
            now: Nanos::ZERO,
            link,
            log: vec![],
            sizes: vec![],
            last_ack: [vec![], vec![]],
            lose: Box::new(|_, _| false),
            timer_delay: Nanos::ZERO,
            not_reading: [false; 2],
            flying: BinaryHeap::new(),
            count: 0,
            random: Random::stream(seed, "net", 0),
            free_at: Nanos::ZERO,
        }
    }

    /// Two endpoints with one scheme and the default link.
    pub(super) fn with(scheme: &str) -> Self {
        Self::new(&config(Role::Client, scheme), &config(Role::Server, scheme), Link::default(), 1)
    }

    fn poll(&mut self, end: usize) {
        loop {
            let mut bytes = vec![];
            let Some(sent) = self.ends[end].poll_transmit(self.now, &mut bytes) else { break };
            let (header, body) = Header::decode(&bytes).expect("an endpoint sends valid packets");
            assert_eq!(usize::from(sent.data), body.data.len());
            self.log.push((self.now, end, header));
            let ndp = options(body.options).find_map(|option| match option {
                Ok(Opt::NdpCount(count)) => Some(count),
                _ => None,
            });
            self.sizes.push((bytes.len(), ndp));
            if header.kind == Kind::Ack {
                self.last_ack[end].clone_from(&bytes);
            }
            if !(self.lose)(end, &header) {
                self.carry(end, bytes, sent.ecn);
            }
        }
        while !self.not_reading[end]
            && let Some(event) = self.ends[end].poll_event()
        {
            self.events[end].push(event);
        }
    }

    fn carry(&mut self, from: usize, bytes: Vec<u8>, mut ecn: u8) {
        if self.random.chance(self.link.loss) {
            return;
        }
        let mut leaves = self.now;
        if let Some((rate, buffer)) = self.link.bottleneck
            && from == CLIENT
        {
            let size = Bytes::new(bytes.len() as u64);
            if rate.over(self.free_at - self.now).as_u64() + size.as_u64() > buffer {
                return;
            }
            if ecn != 0 && self.link.mark.is_some_and(|mark| self.free_at - self.now >= mark) {
                ecn = 3;
            }
            leaves = self.free_at.max(self.now) + rate.time_for(size);
            self.free_at = leaves;
        }
        let copies = 1 + u64::from(self.random.chance(self.link.duplicate));
        for _ in 0..copies {
            let (chance, most) = self.link.reorder;
            let late = if self.random.chance(chance) {
                Nanos::from_nanos(self.random.below(most.as_nanos().max(1)))
            } else {
                Nanos::ZERO
            };
            self.inject(leaves + self.link.delay + late, 1 - from, bytes.clone(), ecn);
        }
    }

    /// Delivers a packet to an endpoint at `at`.
    pub(super) fn inject(&mut self, at: Nanos, to: usize, bytes: Vec<u8>, ecn: u8) {
        self.count += 1;
        self.flying.push(Reverse((at, self.count, to, bytes, ecn)));
    }

    /// Runs until `end`.
    pub(super) fn run(&mut self, end: Nanos) {
        self.poll(CLIENT);
        self.poll(SERVER);
        let mut steps = 0u64;
        loop {
            steps += 1;
            assert!(steps < 20_000_000, "time stands still at {:?}", self.now);
            let (late, now) = ([self.timer_delay, Nanos::ZERO], self.now);
            let timer = |i: usize| self.ends[i].deadline().saturating_add(late[i]).max(now);
            let packet = self.flying.peek().map_or(Nanos::MAX, |Reverse(packet)| packet.0);
            let next = packet.min(timer(0)).min(timer(1));
            if next > end {
                break;
            }
            assert!(next >= self.now, "a deadline in the past: {next:?} at {:?}", self.now);
            self.now = next;
            if packet == next {
                let Reverse((_, _, to, bytes, ecn)) = self.flying.pop().expect("a packet");
                self.ends[to].on_packet(next, &bytes, ecn);
                self.poll(to);
            } else {
                let i = usize::from(timer(0) != next);
                self.ends[i].on_timer(next);
                self.poll(i);
                assert!(
                    self.ends[i].deadline().saturating_add(late[i]) > next,
                    "a timer expires without end: {:?}",
                    self.ends[i]
                );
            }
        }
        self.now = end;
    }

    pub(super) fn run_for(&mut self, time: Nanos) {
        self.run(self.now + time);
    }

    pub(super) fn close(&mut self, end: usize) {
        self.ends[end].close(self.now);
        self.poll(end);
    }

    pub(super) fn push(&mut self, end: usize, data: &[u8]) {
        self.ends[end].push(self.now, data).expect("room");
        self.poll(end);
    }

    /// Pushes `count` datagrams of `size` bytes at each of `ends`, one per `gap`; all bytes of a datagram are its
    /// number.
    pub(super) fn push_every(&mut self, gap: Nanos, ends: &[usize], count: usize, size: usize) {
        for i in 0..count {
            for &end in ends {
                self.push(end, &vec![i as u8; size]);
            }
            self.run_for(gap);
        }
    }

    pub(super) fn states(&self) -> (State, State) {
        (self.ends[CLIENT].state(), self.ends[SERVER].state())
    }

    /// Types of the packets that an endpoint sent.
    pub(super) fn sent(&self, end: usize) -> Vec<Kind> {
        self.log.iter().filter(|packet| packet.1 == end).map(|packet| packet.2.kind).collect()
    }

    /// Times at which an endpoint sent packets of a type.
    pub(super) fn times(&self, end: usize, kind: Kind) -> Vec<Nanos> {
        let of = |packet: &&(Nanos, usize, Header)| packet.1 == end && packet.2.kind == kind;
        self.log.iter().filter(of).map(|packet| packet.0).collect()
    }

    pub(super) fn datagrams(&self, end: usize) -> Vec<&[u8]> {
        let events = self.events[end].iter();
        events.filter_map(|event| if let Event::Datagram(data) = event { Some(&data[..]) } else { None }).collect()
    }
}
