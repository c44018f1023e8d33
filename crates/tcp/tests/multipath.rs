//! Multipath connections over paths with loss, reordering and outages.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{ms, scheme};
use narrows_cc::{Bytes, Nanos, Random};
use narrows_packet::{Flags, Packet};
use narrows_tcp::multipath::{MptcpOption, MultipathReceiver, MultipathSender};
use narrows_tcp::{ConnectionConfig, Receiver, Scheduler, Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};
use proptest::prelude::*;

/// Properties of a path, in both directions.
#[derive(Clone, Copy, Debug)]
struct Path {
    delay: Nanos,
    loss: f64,
    duplication: f64,
    /// Fraction of packets with up to 40 ms of additional delay.
    late: f64,
    /// Outage from `dies` to `alive`, in both directions or in `only`.
    dies: Nanos,
    alive: Nanos,
    only: Option<Direction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Data,
    Acknowledgements,
}

fn path(delay: u64) -> Path {
    Path { delay: ms(delay), loss: 0.0, duplication: 0.0, late: 0.0, dies: Nanos::MAX, alive: Nanos::MAX, only: None }
}

/// A connection over the given paths; it also records the data that the network carries.
struct Talk {
    now: Nanos,
    source: MultipathSender,
    sink: MultipathReceiver,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    paths: Vec<Path>,
    random: Random,
    wire: BTreeMap<(Nanos, u64), Packet>,
    number: u64,
    /// Data mapping of each subflow sequence number, from the first packet with this number.
    meaning: BTreeMap<(u32, u64), (u64, u16)>,
    /// Whether each data byte has arrived; `whole` is the length of the prefix without gaps.
    arrived: Vec<bool>,
    whole: usize,
    /// Data sent on each subflow.
    sent: Vec<BTreeSet<u64>>,
    /// Subflows of the data packets, in order of departure.
    order: Vec<u32>,
    /// Highest right edge of the receive window so far.
    allowed: u64,
}

impl Talk {
    fn new(scheduler: Scheduler, tcp: &TcpConfig, name: &str, app: AppConfig, paths: &[Path], seed: u64) -> Self {
        let config = ConnectionConfig {
            scheduler,
            subflows: paths.len(),
            coupled: narrows_cc::schemes::find(name).expect("a scheme").coupled,
            segment: tcp.segment,
            receive_window: tcp.receive_window,
        };
        let start = |i: usize| if i == 0 { Nanos::ZERO } else { Nanos::MAX };
        let random = |name, i: usize| Random::stream(seed, name, i as u64);
        let sender = |i| {
            let handed = App::new(AppConfig::Subflow, random("app", i), start(i));
            Sender::new(7 + i as u32, tcp.clone(), scheme(name, &[], tcp), handed, start(i))
        };
        let receiver = |i| Receiver::of_subflow(7 + i as u32, tcp);
        Self {
            now: Nanos::ZERO,
            sink: MultipathReceiver::new(7, &config),
            source: MultipathSender::new(7, config, App::new(app, random("app", 9), Nanos::ZERO)),
            senders: (0..paths.len()).map(sender).collect(),
            receivers: (0..paths.len()).map(receiver).collect(),
            paths: paths.to_vec(),
            random: random("paths", 0),
            wire: BTreeMap::new(),
            number: 0,
            meaning: BTreeMap::new(),
            arrived: Vec::new(),
            whole: 0,
            sent: vec![BTreeSet::new(); paths.len()],
            order: Vec::new(),
            allowed: 0,
        }
    }

    fn put(&mut self, packet: Packet) {
        let path = self.paths[(packet.flow - 7) as usize];
        let direction = if packet.flags.has(Flags::REVERSE) { Direction::Acknowledgements } else { Direction::Data };
        if (path.dies..path.alive).contains(&self.now) && path.only.is_none_or(|only| only == direction) {
            return;
        }
        for _ in 0..if self.random.chance(path.duplication) { 2 } else { 1 } {
            if !self.random.chance(path.loss) {
                let late = if self.random.chance(path.late) { self.random.below(40_000_000) } else { 0 };
                self.number += 1;
                self.wire.insert((self.now + path.delay + Nanos::from_nanos(late), self.number), packet);
            }
        }
    }

    fn transmit(&mut self) {
        while let Some(packet) = self.source.poll_transmit(self.now, &mut self.senders) {
            if packet.payload > 0 {
                let Some(MptcpOption::Mapping { data, subflow, len, fin }) = MptcpOption::of(&packet) else {
                    panic!("data without a mapping: {packet:?}")
                };
                assert_eq!((subflow, len, fin), (packet.tcp().seq as u32, packet.payload, false));
                assert_eq!(packet.header, 52 + 20);
                let meaning = *self.meaning.entry((packet.flow, packet.tcp().seq)).or_insert((data, len));
                assert_eq!(meaning, (data, len), "a retransmission maps to the same data");
                assert!(data + u64::from(len) <= self.allowed, "beyond the window");
                let own = (packet.flow - 7) as usize;
                self.sent[own].extend((data..data + u64::from(len)).step_by(100));
                self.order.push(own as u32);
            }
            self.put(packet);
        }
        self.senders.iter().for_each(Sender::check);
    }

    fn acknowledge(&mut self, own: usize) {
        while let Some(mut packet) = self.receivers[own].poll_transmit(self.now) {
            self.sink.complete(&mut packet);
            self.put(packet);
        }
    }

    /// Runs until all subflows are closed or `until`. Returns whether they are closed.
    fn run(&mut self, until: Nanos) -> bool {
        loop {
            self.transmit();
            for own in 0..self.receivers.len() {
                self.acknowledge(own);
            }
            let arrival = self.wire.keys().next().map_or(Nanos::MAX, |key| key.0);
            let sender = self.senders.iter().map(Sender::deadline).min().expect("subflows");
            let receiver = self.receivers.iter().map(Receiver::deadline).min().expect("subflows");
            let next = arrival.min(sender).min(receiver).min(self.source.deadline());
            if next > until || next == Nanos::MAX {
                self.now = until;
                return self.senders.iter().all(Sender::is_closed);
            }
            self.now = self.now.max(next);
            if self.source.deadline() <= self.now {
                self.source.on_timer(self.now, &mut self.senders);
            }
            for own in 0..self.senders.len() {
                if self.senders[own].deadline() <= self.now {
                    self.source.on_subflow_timer(self.now, own, &mut self.senders);
                }
                if self.receivers[own].deadline() <= self.now {
                    self.receivers[own].on_timer(self.now);
                }
            }
            while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let packet = entry.remove();
                self.arrive(&packet);
            }
        }
    }

    fn arrive(&mut self, packet: &Packet) {
        let own = (packet.flow - 7) as usize;
        if packet.flags.has(Flags::REVERSE) {
            if let Some(MptcpOption::DataAck { ack }) = MptcpOption::of(packet) {
                // Less than 4 GB are sent here, so the 32 bits are the complete number.
                assert!(u64::from(ack) <= self.whole as u64, "acknowledged before it was whole");
                self.allowed = self.allowed.max(u64::from(ack) + u64::from(packet.tcp().window));
            } else {
                self.allowed = self.allowed.max(u64::from(packet.tcp().window));
            }
            self.source.on_packet(self.now, packet, &mut self.senders);
            return;
        }
        let refused = self.sink.stats().refused_packets;
        let arrival = self.sink.on_packet(self.now, packet, &mut self.receivers[own]);
        assert_eq!(self.sink.stats().refused_packets, refused, "the sender respects the window");
        if let Some(MptcpOption::Mapping { data, len, .. }) = MptcpOption::of(packet) {
            let (start, end) = (data as usize, data as usize + usize::from(len));
            self.arrived.resize(self.arrived.len().max(end), false);
            self.arrived[start..end].fill(true);
        }
        let before = self.whole;
        while self.arrived.get(self.whole) == Some(&true) {
            self.whole += 1;
        }
        assert_eq!(arrival.in_order.as_u64() as usize, self.whole - before, "data is delivered in order and once");
        assert_eq!(self.sink.stats().bytes_in_order as usize, self.whole);
    }
}

fn paths() -> impl Strategy<Value = Vec<Path>> {
    let one = (1u64..120, 0.0..0.2, 0.0..0.1, 0.0..0.3).prop_map(|(delay, loss, duplication, late)| Path {
        loss,
        duplication,
        late,
        ..path(delay)
    });
    prop::collection::vec(one, 1..=4)
}

fn directions() -> impl Strategy<Value = Option<Direction>> {
    prop_oneof![Just(None), Just(Some(Direction::Data)), Just(Some(Direction::Acknowledgements))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// All data arrives once and in order over random paths with loss, duplication, reordering and outages.
    #[test]
    fn data_over_lossy_paths_arrives_once_in_order(
        paths in paths(),
        round_robin: bool,
        sack: bool,
        segments in 1u64..150,
        window in prop_oneof![Just(3_000u64), Just(30_000), Just(1 << 26)],
        dead in prop::option::of((1u64..2_000, 1u64..20_000, directions())),
        name in prop_oneof![
            Just("newreno"), Just("cubic"), Just("bbr"), Just("lia"), Just("olia"), Just("balia"), Just("mptcp-coupled")
        ],
        seed: u64,
    ) {
        let mut paths = paths;
        if let Some((at, for_ms, only)) = dead
            && let Some(last) = paths.last_mut()
        {
            (last.dies, last.alive, last.only) = (ms(at), ms(at + for_ms), only);
        }
        let tcp = TcpConfig { sack, rack: sack, tlp: sack, receive_window: Bytes::new(window), ..TcpConfig::default() };
        let size = segments * 1000 + 7;
        let scheduler = if round_robin { Scheduler::RoundRobin } else { Scheduler::LowestRtt };
        let mut talk = Talk::new(scheduler, &tcp, name, AppConfig::File(Bytes::new(size)), &paths, seed);
        // A SYN may be lost six times in a row, and its timeout doubles from 1 s.
        prop_assert!(talk.run(Nanos::from_secs(2_000)), "everything is closed");
        prop_assert_eq!(talk.sink.stats().bytes_in_order, size);
        prop_assert!(talk.sink.stats().ended && talk.source.completed_at().is_some());
    }
}

/// A NewReno connection that sends a file of `segments` segments.
fn file(scheduler: Scheduler, segments: u64, paths: &[Path]) -> Talk {
    let size = AppConfig::File(Bytes::new(segments * 1448));
    Talk::new(scheduler, &TcpConfig::default(), "newreno", size, paths, 1)
}

/// Round robin alternates between subflows; lowest RTT fills the fastest subflow first.
#[test]
fn scheduler_alternates_or_fills_the_fastest_first() {
    // The first handshake is over at 20 ms, the second at 40 ms; by then ACKs of the first ten segments arrive.
    let mut turns = file(Scheduler::RoundRobin, 200, &[path(10), path(10)]);
    turns.run(ms(400));
    let second = turns.order.iter().position(|&own| own == 1).expect("both are used");
    let pairs = turns.order[second - 1..second + 15].to_vec();
    assert_eq!(pairs, [0, 1].repeat(8), "{:?}", turns.order);
    let mut fastest = file(Scheduler::LowestRtt, 2000, &[path(10), path(40)]);
    fastest.run(ms(400));
    // The second handshake is over at 100 ms; by then the first path has sent four windows, each twice as large as the
    // previous window.
    let second = fastest.order.iter().position(|&own| own == 1).expect("both are used");
    assert!(fastest.order[..second].len() >= 10 + 20 + 40 + 80, "{:?}", fastest.order);
    // If all data fits into the window of the first path, only that path is used.
    let mut small = file(Scheduler::LowestRtt, 60, &[path(10), path(40)]);
    small.run(ms(400));
    assert_eq!(small.order, [0; 60]);
}

/// Data in flight on a dead path is reinjected on the other path after two timeouts.
#[test]
fn data_of_dead_path_is_reinjected_after_two_timeouts() {
    for only in [None, Some(Direction::Data), Some(Direction::Acknowledgements)] {
        let mut paths = [path(10), path(10)];
        (paths[1].dies, paths[1].only) = (ms(75), only);
        let mut talk = file(Scheduler::LowestRtt, 4_000, &paths);
        talk.run(Nanos::from_secs(20));
        assert_eq!(talk.sink.stats().bytes_in_order, 4_000 * 1448);
        let stats = *talk.source.stats();
        assert_eq!(stats.given_up, 1, "{only:?}");
        // At most the data assigned to the dead path is reinjected. If only its ACKs are lost, the data has
        // arrived, and the other path acknowledges it (DATA_ACK) before the second timeout.
        let held: u64 = talk.meaning.iter().filter(|(key, _)| key.0 == 8).map(|(_, value)| u64::from(value.1)).sum();
        println!("{only:?}: {} of {held} reinjected", stats.reinjected_bytes);
        let needed = only != Some(Direction::Acknowledgements);
        assert!((stats.reinjected_bytes > 0) == needed && stats.reinjected_bytes <= held);
        // The dead subflow does not close, because its FIN is never acknowledged; the connection still completes.
        assert!(talk.senders[0].is_closed() && !talk.senders[1].is_closed());
        assert!(talk.source.completed_at().is_some());
    }
}

/// A dead path is used again after it delivers an ACK.
#[test]
fn path_given_up_is_used_again_after_an_ack() {
    let mut paths = [path(10), path(10)];
    (paths[1].dies, paths[1].alive) = (ms(75), ms(3_000));
    // Every packet is acknowledged immediately: delayed acknowledgements of single retransmissions would give RTT
    // samples of 60 ms, and the path would be penalised for blocking the window.
    let tcp = TcpConfig { receive_window: Bytes::new(60 * 1448), ack_every: 1, ..TcpConfig::default() };
    let mut talk = Talk::new(Scheduler::RoundRobin, &tcp, "newreno", AppConfig::Bulk, &paths, 1);
    talk.run(ms(3_000));
    assert_eq!(talk.source.stats().given_up, 1);
    let before = talk.senders[1].stats().data_packets_sent;
    // Timeouts double from 220 ms, so one falls within the next 3 s.
    talk.run(ms(8_000));
    let after = talk.senders[1].stats().data_packets_sent;
    assert!(after > before + 100, "{before} then {after}");
}

/// When the receive window is full, the first data in the window is retransmitted on the faster path.
#[test]
fn full_window_retransmits_its_edge_on_faster_path() {
    // A window of four segments; the RTT is 400 ms on the second path and 20 ms on the first.
    let tcp = TcpConfig { receive_window: Bytes::new(4 * 1448), ..TcpConfig::default() };
    let run = |paths: &[Path]| {
        let mut talk = Talk::new(Scheduler::RoundRobin, &tcp, "newreno", AppConfig::Bulk, paths, 1);
        talk.run(Nanos::from_secs(10));
        (talk.sink.stats().bytes_in_order as f64, *talk.source.stats(), *talk.sink.stats())
    };
    let (alone, ..) = run(&[path(10)]);
    let (both, stats, sink) = run(&[path(10), path(200)]);
    assert!(stats.opportunistic_bytes > 0 && sink.duplicate_bytes > 0);
    // Without retransmission each segment on the slow path blocks the window for 400 ms: in the worst case, 4 segments
    // per 400 ms are sent, a twentieth of the fast path alone. With retransmission, the window is blocked for one round
    // trip of the fast path.
    println!("alone {alone}, both {both}, {stats:?}");
    assert!(both > 0.4 * alone, "{both} against {alone}");
}

/// A slow path that blocks the receive window is penalised: its cap is halved until it no longer blocks the window.
#[test]
fn slow_path_blocking_the_window_is_penalised() {
    // A window of 45 segments over round-trip times of 20 ms and 400 ms, without a bottleneck. Round robin would give
    // the slow path half of the window; a penalised path sends a segment or two per round trip.
    let small = TcpConfig { receive_window: Bytes::new(45 * 1448), ..TcpConfig::default() };
    let paths = [path(10), path(200)];
    let mut talk = Talk::new(Scheduler::RoundRobin, &small, "newreno", AppConfig::Bulk, &paths, 1);
    talk.run(Nanos::from_secs(5));
    let (before, penalties) = (talk.senders[1].stats().data_packets_sent, talk.source.stats().penalties);
    talk.run(Nanos::from_secs(25));
    let sent = (talk.senders[1].stats().data_packets_sent - before) as f64;
    let halved = (talk.source.stats().penalties - penalties) as f64;
    // The acknowledgement of a single segment is delayed by 40 ms, so a round trip takes 440 ms.
    let round_trips = 20.0 / 0.44;
    assert!((round_trips - 1.0..=3.0 * round_trips).contains(&sent), "{sent} packets");
    assert!(halved > 0.0 && halved <= round_trips + 1.0, "{halved} penalties");
    // The congestion window of the fast path covers the receive window, so lowest RTT leaves the slow path unused.
    let mut fastest = Talk::new(Scheduler::LowestRtt, &small, "newreno", AppConfig::Bulk, &paths, 1);
    fastest.run(Nanos::from_secs(5));
    let before = fastest.senders[1].stats().data_packets_sent;
    fastest.run(Nanos::from_secs(25));
    assert_eq!(fastest.senders[1].stats().data_packets_sent, before);
    // A window of 64 MiB is never full, so no path is penalised.
    let file = AppConfig::File(Bytes::new(1_448_000));
    let mut wide = Talk::new(Scheduler::RoundRobin, &TcpConfig::default(), "newreno", file, &paths, 1);
    assert!(wide.run(Nanos::from_secs(60)));
    assert_eq!((wide.source.stats().penalties, wide.source.stats().opportunistic_bytes), (0, 0));
}

/// The receiver of a connection over one subflow.
fn one_subflow(segment: u16, window: u64) -> MultipathReceiver {
    let (scheduler, receive_window) = (Scheduler::LowestRtt, Bytes::new(window));
    MultipathReceiver::new(0, &ConnectionConfig { scheduler, subflows: 1, coupled: false, segment, receive_window })
}

/// A packet without a mapping, or beyond the window, is dropped without an ACK.
#[test]
fn packet_unmapped_or_beyond_window_gets_no_ack() {
    let tcp = TcpConfig { receive_window: Bytes::new(3_000), ..TcpConfig::default() };
    let (mut sink, mut receiver) = (one_subflow(1448, 3_000), Receiver::of_subflow(0, &tcp));
    let mut syn = Packet::new(0);
    syn.flags = Flags::SYN;
    sink.on_packet(ms(1), &syn, &mut receiver);
    assert!(receiver.poll_transmit(ms(1)).is_some());
    let mut data = Packet::new(0);
    (*data.tcp_mut().seq, data.payload) = (1, 1448);
    let mapping = |data, len| MptcpOption::Mapping { data, subflow: 1, len, fin: false };
    for wrong in [None, Some(mapping(0, 7)), Some(mapping(1600, 1448)), Some(mapping(u64::MAX - 3, 1448))] {
        data.set_option(None);
        wrong.into_iter().for_each(|wrong: MptcpOption| wrong.write(&mut data));
        sink.on_packet(ms(2), &data, &mut receiver);
        assert!(receiver.poll_transmit(Nanos::from_secs(1)).is_none() && receiver.deadline() == Nanos::MAX);
    }
    assert_eq!(sink.stats().refused_packets, 4);
    mapping(1552, 1448).write(&mut data);
    let arrival = sink.on_packet(ms(3), &data, &mut receiver);
    assert!(arrival.distinct && arrival.in_order.is_zero());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// The multipath receiver accepts all data inside its window and no other data.
    #[test]
    fn receiver_accepts_exactly_the_data_in_its_window(
        window in 1u64..60,
        packets in prop::collection::vec((0u64..300, 1u16..20, any::<bool>()), 1..200),
    ) {
        let (mut sink, mut receiver) = (one_subflow(20, window), Receiver::of_subflow(0, &TcpConfig::default()));
        let mut held = [false; 5_000];
        let (mut next, mut refused, mut duplicate, mut seq) = (0, 0, 0, 1u64);
        for (at, len, near) in packets {
            // Half of the packets start near the next expected byte; otherwise hardly any would fit.
            let start = if near { (next as u64 + at / 8).saturating_sub(10) } else { at };
            let end = start + u64::from(len);
            let mut packet = Packet::new(0);
            (*packet.tcp_mut().seq, packet.payload) = (seq, len);
            MptcpOption::Mapping { data: start, subflow: seq as u32, len, fin: false }.write(&mut packet);
            let arrival = sink.on_packet(ms(1), &packet, &mut receiver);
            if end > next as u64 + window {
                refused += 1;
                prop_assert!(arrival.in_order.is_zero() && !arrival.distinct && !arrival.duplicate);
                prop_assert_eq!(sink.stats().refused_packets, refused);
                continue;
            }
            seq += u64::from(len);
            let bytes = &mut held[start as usize..end as usize];
            let fresh = bytes.iter().filter(|held| !**held).count() as u64;
            bytes.fill(true);
            duplicate += u64::from(len) - fresh;
            let before = next;
            next = held.iter().position(|held| !held).expect("some are not");
            prop_assert_eq!(arrival.in_order.as_u64() as usize, next - before);
            prop_assert_eq!((arrival.distinct, arrival.duplicate), (fresh > 0, fresh == 0));
            let stats = sink.stats();
            prop_assert_eq!((stats.bytes_in_order, stats.duplicate_bytes), (next as u64, duplicate));
            prop_assert!(stats.most_waiting < window);
        }
    }
}

/// A DATA_ACK of data that was never sent is ignored.
#[test]
fn data_ack_of_unsent_data_is_ignored() {
    let mut talk = file(Scheduler::LowestRtt, 100, &[path(10)]);
    talk.run(ms(25));
    let mut forged = Packet::new(7);
    forged.flags = Flags::ACK.with(Flags::REVERSE);
    (*forged.tcp_mut().ack, *forged.tcp_mut().window) = (1, u32::MAX);
    MptcpOption::DataAck { ack: 1 << 30 }.write(&mut forged);
    talk.source.on_packet(talk.now, &forged, &mut talk.senders);
    assert_eq!(talk.source.acknowledged(), Bytes::ZERO);
    assert!(talk.run(Nanos::from_secs(5)), "the transfer continues");
}
