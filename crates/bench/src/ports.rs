//! Additional cost of a router algorithm on a link. Real endpoints open flows with the scheme of the algorithm. Then
//! data packets of all flows cross the link in turn, evenly spaced at nine tenths of the link's rate, and an ACK of
//! every second packet returns. Wakes (timers of the algorithm) are measured separately. The caller of [`Lane`]
//! supplies the clock.

use std::time::Instant;

use narrows_cc::{Bytes, Nanos, Params, Random, Rate, Setup, schemes};
use narrows_net::Offer;
use narrows_net::config::{Limit, LinkConfig};
use narrows_packet::{Flags, Packet, timestamp};
use narrows_routers::protocol::Explicit;
use narrows_routers::{
    self as routers, AnyRouter, FiveTuple, NegotiationConfig, Outgoing, RouterConfig, RouterEntry, RouterLink, endpoint,
};
use narrows_sim::Link;
use narrows_tcp::{Receiver, Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};
use serde_json::{Value, json};

use crate::{median, unknown};

/// Link rate.
const RATE: Rate = Rate::from_bytes_per_sec(1_250_000_000);
/// Round-trip time of all flows.
const RTT: Nanos = Nanos::from_millis(10);
/// Interval between data packets: nine tenths of the rate.
const GAP: Nanos = Nanos::from_nanos(1_333);
/// Number of packet intervals without packets before a wake, so that the link drains.
const CLEAR: u64 = 4;
/// Number of flows that open in the same round-trip time.
const CHUNK: usize = 5_000;
/// Number of round-trip times within which a flow must send data; otherwise it has failed to open.
const ROUNDS: u32 = 6;
/// Maximum number of packets between clock readings.
const BLOCK: usize = 4_096;

/// Measurements of one round, with times in units of the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Number of data packets that crossed the link.
    pub packets: u64,
    /// Total time of the packets, from arrival to departure.
    pub packets_took: f64,
    /// Number of wakes of the router algorithm.
    pub wakes: u64,
    /// Total time of the wakes.
    pub wakes_took: f64,
}

/// A link with open flows.
#[derive(Debug)]
pub struct Lane {
    link: Link,
    /// A data packet of each flow.
    data: Vec<Packet>,
    /// Number of flows whose sender sent data within [`ROUNDS`] round-trip times.
    opened: usize,
    now: Nanos,
    /// Number of packets stored in the link.
    kept: u64,
    turn: usize,
}

/// The scheme of a router algorithm; for a link without an algorithm, the first registered scheme without a rate
/// protocol.
fn scheme_of(router: Option<&RouterEntry>) -> &'static schemes::Entry {
    let matches = |entry: &&schemes::Entry| {
        let explicit = entry.rate_protocol.and_then(Explicit::named);
        explicit.map(Explicit::router) == router.map(|router| router.info.name)
    };
    schemes::ALL.iter().find(matches).unwrap_or(&schemes::ALL[0])
}

fn setup(entry: &schemes::Entry) -> Setup {
    let tcp = TcpConfig::default();
    let mss = Bytes::new(u64::from(tcp.segment));
    Setup::new(mss, Params::defaults(entry.info.params), Random::stream(1, "scheme", 0)).with_window(tcp.initial_window)
}

/// The 5-tuple of a flow: each thousand flows share a pair of hosts and differ in the source port.
fn tuple(flow: u32) -> FiveTuple {
    let host = flow / 1_000;
    FiveTuple {
        source: (10 << 24) | host,
        destination: (11 << 24) | host,
        source_port: 1_024 + (flow % 1_000) as u16,
        destination_port: 443,
        protocol: FiveTuple::TCP,
    }
}

/// The packet that carries a message of the router algorithm to a sender; `None` for other messages.
fn to_sender(out: &Outgoing) -> Option<Packet> {
    let Outgoing::ToSender { flow, path, message } = out else { return None };
    let mut packet = Packet::control(*flow, Flags::REVERSE, message.as_bytes());
    packet.set_path(*path);
    Some(packet)
}

impl Lane {
    /// Creates a link with this router algorithm (or without one) and opens `flows` flows.
    pub fn new(router: Option<&'static RouterEntry>, flows: usize) -> Self {
        let config = LinkConfig::drop_tail(RATE, Limit::Packets(1 << 20));
        let configured = router.map(|entry| {
            let mut params = Params::defaults(entry.info.params);
            // If the algorithm has a table of flows, make the table large enough for all flows.
            if let Some(room) = entry.info.params.iter().find(|param| param.name == "flows") {
                let value = room.default.max(flows as f64).min(room.max);
                params.set(room.name, value).expect("a value in range");
            }
            let tuples = (0..flows as u32).map(tuple).collect();
            RouterConfig { flows: tuples, ..RouterConfig::new(entry, params) }
        });
        let link = narrows_routers::link(&config, configured.as_ref(), Random::stream(1, "link", 0));
        let mut lane = Self { link, data: Vec::new(), opened: 0, now: Nanos::ZERO, kept: 0, turn: 0 };
        let scheme = scheme_of(router);
        let share = Rate::from_bytes_per_sec(RATE.as_bytes_per_sec() / flows as u64);
        for first in (0..flows).step_by(CHUNK) {
            lane.open(scheme, first as u32..flows.min(first + CHUNK) as u32, share);
        }
        lane
    }

    /// Number of flows that the network allowed to send data.
    pub fn opened(&self) -> usize {
        self.opened
    }

    /// Bytes of memory that the router algorithm has allocated.
    pub fn memory(&self) -> usize {
        self.link.router().map_or(0, AnyRouter::memory)
    }

    /// Opens flows in parallel, round trip by round trip, until each has sent data or failed to open. Where rates are
    /// negotiated, each flow requests its share.
    fn open(&mut self, scheme: &schemes::Entry, flows: std::ops::Range<u32>, share: Rate) {
        let first = flows.start;
        let mut ends: Vec<(Sender, Receiver, Option<Packet>)> = flows
            .map(|flow| {
                let destination = tuple(flow).destination;
                let negotiation =
                    NegotiationConfig { content: flow, destination, max: share, ..NegotiationConfig::default() };
                let config = TcpConfig::default();
                let app = App::new(AppConfig::Bulk, Random::stream(1, "app", u64::from(flow)), self.now);
                let scheme = scheme.build(&setup(scheme));
                let mut sender = Sender::new(flow, config.clone(), scheme, app, self.now);
                endpoint::attach_sender(&mut sender, &negotiation);
                let mut receiver = Receiver::new(flow, &config);
                endpoint::attach_receiver(&mut receiver, &negotiation);
                (sender, receiver, None)
            })
            .collect();
        for _ in 0..ROUNDS {
            let (start, mut arrived, mut back) = (self.now, Vec::new(), Vec::new());
            for (sender, _, data) in ends.iter_mut().filter(|(_, _, data)| data.is_none()) {
                self.now += GAP;
                if sender.deadline() <= self.now {
                    sender.on_timer(self.now);
                }
                while let Some(packet) = sender.poll_transmit(self.now) {
                    if packet.payload > 0 {
                        *data = Some(packet);
                        break;
                    }
                    self.offer(&packet, &mut arrived, &mut back);
                }
            }
            self.drain(&mut arrived, &mut back);
            for packet in arrived {
                let (_, receiver, _) = &mut ends[(packet.flow - first) as usize];
                receiver.on_packet(self.now, &packet);
                while let Some(mut answer) = receiver.poll_transmit(self.now) {
                    self.link.on_return(self.now, &mut answer);
                    back.push(answer);
                }
            }
            self.pass(start.saturating_add(RTT).max(self.now));
            for packet in back {
                self.now += Nanos::from_nanos(1);
                // Earlier flows send only data; their senders no longer exist.
                if let Some(of) = packet.flow.checked_sub(first) {
                    ends[of as usize].0.on_packet(self.now, &packet);
                }
            }
        }
        for (flow, (_, _, data)) in (first..).zip(ends) {
            self.opened += usize::from(data.is_some());
            self.data.push(data.unwrap_or_else(|| {
                let mut plain = Packet::new(flow);
                plain.payload = TcpConfig::default().segment;
                plain.flags = Flags::ACK;
                plain
            }));
        }
    }

    /// Advances time to `until` and runs the wakes of the router algorithm; the link has no packets.
    fn pass(&mut self, until: Nanos) {
        while self.link.next_service() <= until {
            let at = self.link.next_service();
            self.link.serve(at);
        }
        self.now = until;
    }

    /// Offers a packet to the link. `arrived` collects packets that depart from the link, `back` messages of the router
    /// algorithm.
    fn offer(&mut self, packet: &Packet, arrived: &mut impl Extend<Packet>, back: &mut impl Extend<Packet>) {
        while self.link.next_service() <= self.now {
            self.serve(arrived);
        }
        match self.link.offer(self.now, packet) {
            Offer::Departs { .. } => arrived.extend([*packet]),
            Offer::Queued => self.kept += 1,
            Offer::Dropped(_) | Offer::Consumed => {}
        }
        while let Some(out) = self.link.take_outgoing() {
            back.extend(to_sender(&out));
        }
    }

    fn serve(&mut self, arrived: &mut impl Extend<Packet>) {
        let at = self.link.next_service();
        if let Some(packet) = self.link.serve(at) {
            self.kept -= 1;
            arrived.extend([packet]);
        }
    }

    /// Serves the link until it is empty.
    fn drain(&mut self, arrived: &mut impl Extend<Packet>, back: &mut impl Extend<Packet>) {
        while self.kept > 0 && self.link.next_service() < Nanos::MAX {
            self.now = self.now.max(self.link.next_service());
            self.serve(arrived);
        }
        while let Some(out) = self.link.take_outgoing() {
            back.extend(to_sender(&out));
        }
    }

    /// Sends at most `packets` data packets, of all flows in turn, and stops shortly before `until`. At the end the
    /// link is empty. Returns the number of packets sent.
    fn block(&mut self, packets: usize, until: Nanos) -> u64 {
        let (mut left, mut gone) = (Count::default(), Count::default());
        while left.0 < packets as u64 && self.now + GAP * CLEAR < until {
            self.now += GAP;
            let turn = self.turn;
            self.turn = if turn + 1 == self.data.len() { 0 } else { turn + 1 };
            let packet = self.data[turn];
            self.offer(&packet, &mut Count::default(), &mut gone);
            left.0 += 1;
            if left.0.is_multiple_of(2) {
                let mut ack = Packet::new(packet.flow);
                ack.flags = Flags::ACK.with(Flags::REVERSE);
                let tcp = ack.tcp_mut();
                *tcp.ack = packet.seq_end();
                (*tcp.ts_val, *tcp.ts_ecr) = (timestamp(self.now), timestamp(self.now - RTT));
                self.link.on_return(self.now, &mut ack);
            }
        }
        self.drain(&mut Count::default(), &mut gone);
        left.0
    }

    /// Sends at least `packets` packets, and reads the clock before and after each block of packets and each wake.
    pub fn round(&mut self, packets: usize, clock: &dyn Fn() -> f64) -> Round {
        let mut round = Round::default();
        // Duration of a clock reading, which is subtracted from all times.
        let reading = (0..16).map(|_| -(clock() - clock())).fold(f64::INFINITY, f64::min);
        while (round.packets as usize) < packets {
            let due = self.link.next_service();
            let started = clock();
            let sent = self.block(BLOCK.min(packets), due);
            let took = clock() - started - reading;
            if sent > 0 {
                round.packets += sent;
                round.packets_took += took.max(0.0);
            }
            // The link is empty, so a service that is still due is a wake, unless the algorithm has postponed it.
            let next = self.link.next_service();
            if due < Nanos::MAX && next <= due {
                let started = clock();
                self.link.serve(next);
                let took = clock() - started - reading;
                round.wakes += 1;
                round.wakes_took += took.max(0.0);
                self.now = self.now.max(next);
            }
        }
        round
    }
}

/// Counts packets instead of collecting them.
#[derive(Default)]
struct Count(u64);

impl Extend<Packet> for Count {
    fn extend<T: IntoIterator<Item = Packet>>(&mut self, packets: T) {
        self.0 += packets.into_iter().count() as u64;
    }
}

/// Numbers of flows.
const LANES: [usize; 3] = [1, 1_000, 100_000];
/// Number of packets per turn of a router algorithm; a turn takes about a millisecond.
const LANE_PACKETS: usize = 20_000;

/// Returns one row for each router algorithm (all, or those in `names`) with each number of flows. In each of `repeats`
/// rounds, every algorithm and a link without an algorithm take a turn. A row has medians over the rounds, and the
/// median ratio to the link without an algorithm.
///
/// # Errors
/// If a name is unknown.
pub fn measure(repeats: usize, names: &[String]) -> Result<Value, String> {
    let known = || routers::ALL.iter().map(|entry| entry.info.name);
    let refused = |name: &String| unknown("router algorithm", name, known());
    let named = names.iter().map(|name| routers::find(name).ok_or_else(|| refused(name)));
    let named: Vec<_> = named.collect::<Result<_, _>>()?;
    let chosen: Vec<&RouterEntry> = if names.is_empty() { routers::ALL.iter().collect() } else { named };
    Ok(LANES.map(|flows| lanes(&chosen, flows, repeats.max(1))).concat().into())
}

/// The rows for one number of flows, starting with the link without an algorithm.
fn lanes(chosen: &[&'static RouterEntry], flows: usize, repeats: usize) -> Vec<Value> {
    let started = Instant::now();
    let clock = || started.elapsed().as_secs_f64() * 1e9;
    let kinds = || std::iter::once(None).chain(chosen.iter().map(|entry| Some(*entry)));
    let mut lanes: Vec<Lane> = kinds().map(|entry| Lane::new(entry, flows)).collect();
    let rounds: Vec<Vec<Round>> =
        (0..repeats).map(|_| lanes.iter_mut().map(|lane| lane.round(LANE_PACKETS, &clock)).collect()).collect();
    let per_packet = |round: &Round| round.packets_took / round.packets as f64;
    let row = |(i, entry): (usize, Option<&RouterEntry>)| {
        let mine = || rounds.iter().map(|round| &round[i]);
        let woken: Vec<_> = mine().filter(|round| round.wakes > 0).collect();
        let per_wake =
            (!woken.is_empty()).then(|| median(woken.iter().map(|round| round.wakes_took / round.wakes as f64)));
        json!({
            "router": entry.map_or("none", |entry| entry.info.name),
            "flows": flows,
            "opened": lanes[i].opened(),
            "ns_per_packet": median(mine().map(per_packet)),
            "ratio": median(rounds.iter().map(|round| per_packet(&round[i]) / per_packet(&round[0]))),
            "ns_per_wake": per_wake,
            "ns_per_wake_and_flow": per_wake.map(|wake| wake / flows as f64),
            "wakes": mine().map(|round| round.wakes).sum::<u64>(),
            "packets": mine().map(|round| round.packets).sum::<u64>(),
            "memory_bytes": lanes[i].memory(),
            "bytes_per_flow": lanes[i].memory() as f64 / flows as f64,
            "ns_all": mine().map(per_packet).collect::<Vec<_>>(),
        })
    };
    kinds().enumerate().map(row).collect()
}
