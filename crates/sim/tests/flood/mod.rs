//! One port with a router algorithm, flows between real endpoints through this port, and a flood of flows that open and
//! never send.

use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_cc::{Bytes, Nanos, Params, Random, Rate, Setup, schemes};
use narrows_net::config::{Limit, LinkConfig};
use narrows_packet::{Flags, Kind, Packet};
use narrows_routers::protocol::Explicit;
use narrows_routers::{
    AnyRouter, FiveTuple, NegotiationConfig, Outgoing, RouterConfig, RouterEntry, RouterLink, endpoint,
};
use narrows_sim::Link;
use narrows_tcp::{Receiver, Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};

/// Rate of the link.
pub const RATE: Rate = Rate::from_bytes_per_sec(12_500_000);
/// Table size, in flows, of routers with a table.
const ROOM: f64 = 1_000.0;
/// Delay from the link to the receivers, from the receivers back to the port, and from the port to the senders.
const DELAY: Nanos = Nanos::from_millis(10);

#[derive(Clone, Copy)]
enum Place {
    Link,
    Receiver,
    /// The node before the link; packets come from the receiver.
    Node,
    /// The sender; packets come from the node before the link.
    Sender,
}

pub struct Port {
    pub now: Nanos,
    pub link: Link,
    scheme: &'static schemes::Entry,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    wire: BTreeMap<(Nanos, u64), (Place, Packet)>,
    number: u64,
    /// Bytes that the flood sent.
    pub flood: u64,
}

/// The scheme that uses the router's protocol.
fn scheme_of(entry: &RouterEntry) -> &'static schemes::Entry {
    let matches = |scheme: &&schemes::Entry| {
        scheme.rate_protocol.and_then(Explicit::named).map(Explicit::router) == Some(entry.info.name)
    };
    schemes::ALL.iter().find(matches).unwrap_or_else(|| panic!("no scheme has the protocol of {}", entry.info.name))
}

fn setup(scheme: &schemes::Entry) -> Setup {
    let mss = Bytes::new(1448);
    Setup::new(mss, Params::defaults(scheme.info.params), Random::stream(1, "scheme", 0))
}

fn sender(scheme: &'static schemes::Entry, flow: u32, start: Nanos) -> (Sender, Receiver) {
    let config = TcpConfig::default();
    let app = App::new(AppConfig::Bulk, Random::stream(1, "app", u64::from(flow)), start);
    let mut sender = Sender::new(flow, config.clone(), scheme.build(&setup(scheme)), app, start);
    endpoint::attach_sender(&mut sender, &negotiation(flow));
    let mut receiver = Receiver::new(flow, &config);
    endpoint::attach_receiver(&mut receiver, &negotiation(flow));
    (sender, receiver)
}

fn negotiation(flow: u32) -> NegotiationConfig {
    NegotiationConfig { content: flow, destination: flow, ..NegotiationConfig::default() }
}

impl Port {
    /// Builds a port with `flows` backlogged flows that start one after the other, and reserves numbers for `flooders`
    /// more flows.
    pub fn new(entry: &'static RouterEntry, flows: u32, flooders: u32) -> Self {
        let config = LinkConfig::drop_tail(RATE, Limit::Packets(2_000));
        let tuple = |flow: u32| FiveTuple {
            source: (10 << 24) | (flow >> 8),
            destination: 11 << 24,
            source_port: 1_024 + (flow & 255) as u16,
            destination_port: 443,
            protocol: FiveTuple::TCP,
        };
        let mut params = Params::defaults(entry.info.params);
        if entry.info.params.iter().any(|param| param.name == "flows") {
            params.set("flows", ROOM).expect("in range");
        }
        let tuples = (0..flows + flooders).map(tuple).collect::<Arc<[_]>>();
        let router = RouterConfig { flows: tuples, ..RouterConfig::new(entry, params) };
        let scheme = scheme_of(entry);
        let ends = (0..flows).map(|flow| sender(scheme, flow, Nanos::from_millis(50) * u64::from(flow)));
        let (senders, receivers) = ends.unzip();
        Self {
            now: Nanos::ZERO,
            link: narrows_routers::link(&config, Some(&router), Random::stream(1, "link", 0)),
            scheme,
            senders,
            receivers,
            wire: BTreeMap::new(),
            number: 0,
            flood: 0,
        }
    }

    pub fn router(&self) -> &AnyRouter {
        self.link.router().expect("a router")
    }

    /// In-order payload of each flow.
    pub fn delivered(&self) -> Vec<u64> {
        self.receivers.iter().map(|receiver| receiver.stats().bytes_in_order).collect()
    }

    fn put(&mut self, at: Nanos, place: Place, packet: Packet) {
        self.number += 1;
        self.wire.insert((at, self.number), (place, packet));
    }

    /// Opens one flow per `gap` from `start` on. Each flow sends a SYN and, a round-trip time later, the control
    /// message that precedes the flow's data, if the scheme has such a message.
    pub fn open_flood(&mut self, numbers: std::ops::Range<u32>, start: Nanos, gap: Nanos) {
        for (n, flow) in numbers.enumerate() {
            let at = start + gap * n as u64;
            let (mut opener, mut peer) = sender(self.scheme, flow, at);
            opener.on_timer(at);
            let syn = opener.poll_transmit(at).expect("a SYN at the start");
            peer.on_packet(at, &syn);
            let answer = peer.poll_transmit(at).expect("a SYN-ACK");
            let later = at + DELAY * 2;
            opener.on_packet(later, &answer);
            let request = std::iter::from_fn(|| opener.poll_transmit(later))
                .take_while(|packet| packet.payload == 0)
                .find(|packet| packet.kind() == Kind::Message);
            for (at, packet) in std::iter::once((at, syn)).chain(request.map(|request| (later, request))) {
                self.flood += packet.size().as_u64();
                self.put(at, Place::Link, packet);
            }
        }
    }

    fn collect(&mut self) {
        while let Some(out) = self.link.take_outgoing() {
            if let Outgoing::ToSender { flow, path, message } = out {
                let mut packet = Packet::control(flow, Flags::REVERSE, message.as_bytes());
                packet.set_path(path);
                if (flow as usize) < self.senders.len() {
                    self.put(self.now, Place::Sender, packet);
                }
            }
        }
    }

    fn serve(&mut self) {
        if let Some(packet) = self.link.serve(self.now) {
            self.put(self.now + DELAY, Place::Receiver, packet);
        }
        self.collect();
    }

    fn arrive(&mut self, place: Place, mut packet: Packet) {
        let flow = packet.flow as usize;
        match place {
            Place::Link => {
                self.link.offer(self.now, &packet);
                self.collect();
            }
            Place::Receiver if flow < self.receivers.len() => {
                self.receivers[flow].on_packet(self.now, &packet);
                self.answer(flow);
            }
            Place::Node => {
                self.link.on_return(self.now, &mut packet);
                self.collect();
                self.put(self.now, Place::Sender, packet);
            }
            Place::Sender if flow < self.senders.len() => {
                self.senders[flow].on_packet(self.now, &packet);
                self.transmit(flow);
            }
            // Flows of the flood do not respond to packets.
            Place::Receiver | Place::Sender => {}
        }
    }

    fn answer(&mut self, flow: usize) {
        while let Some(packet) = self.receivers[flow].poll_transmit(self.now) {
            self.put(self.now + DELAY, Place::Node, packet);
        }
    }

    fn transmit(&mut self, flow: usize) {
        while let Some(packet) = self.senders[flow].poll_transmit(self.now) {
            self.put(self.now, Place::Link, packet);
        }
    }

    pub fn run_until(&mut self, end: Nanos) {
        loop {
            let arrival = self.wire.first_key_value().map_or(Nanos::MAX, |(key, _)| key.0);
            let service = self.link.next_service();
            let timers = self.senders.iter().map(Sender::deadline);
            let timer = timers.chain(self.receivers.iter().map(Receiver::deadline)).min().unwrap_or(Nanos::MAX);
            let next = arrival.min(service).min(timer);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if service == next {
                self.serve();
            } else if arrival == next {
                let (_, (place, packet)) = self.wire.pop_first().expect("just seen");
                self.arrive(place, packet);
            } else {
                for flow in 0..self.senders.len() {
                    if self.senders[flow].deadline() <= next {
                        self.senders[flow].on_timer(next);
                        self.transmit(flow);
                    }
                    if self.receivers[flow].deadline() <= next {
                        self.receivers[flow].on_timer(next);
                        self.answer(flow);
                    }
                }
            }
        }
    }
}
