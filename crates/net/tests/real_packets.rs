//! Tests with real IPv4 and IPv6 packets in every queue discipline. The frame is a handle to a buffer: queues copy the
//! handle, and a mark modifies the buffer.

use std::cell::Cell;

use narrows_net::config::{FqCoDel, Limit, LinkConfig, Queue};
use narrows_net::{Direction, Ecn, Frame, Link, Offer};
use narrows_units::{Bytes, Nanos, Random, Rate};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A packet in memory.
#[derive(Clone, Copy, Debug)]
struct Buffer<'a>(&'a [Cell<u8>]);

/// A flow. `source` and `destination` each consist of the last byte of the address and the port.
#[derive(Clone, Copy)]
struct Flow {
    v6: bool,
    protocol: u8,
    source: (u8, u16),
    destination: (u8, u16),
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: impl IntoIterator<Item = u8>) -> u16 {
    let bytes: Vec<u8> = bytes.into_iter().collect();
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Builds a valid packet of `size` bytes in total with a payload that begins with `number`.
fn packet(flow: Flow, number: u32, size: usize, ecn: Ecn) -> Vec<Cell<u8>> {
    let header = if flow.protocol == TCP { 20 } else { 8 };
    let ip = if flow.v6 { 40 } else { 20 };
    let transport = size - ip;
    let address = |last: u8| match flow.v6 {
        true => [&[0x20, 0x01, 0x0d, 0xb8][..], &[0; 11], &[last]].concat(),
        false => vec![192, 0, 2, last],
    };
    let (source, destination) = (address(flow.source.0), address(flow.destination.0));
    let mut segment = vec![0; transport];
    segment[0..2].copy_from_slice(&flow.source.1.to_be_bytes());
    segment[2..4].copy_from_slice(&flow.destination.1.to_be_bytes());
    if flow.protocol == TCP {
        segment[4..8].copy_from_slice(&(number * 1_000).to_be_bytes());
        (segment[12], segment[13]) = (5 << 4, 0x10);
        segment[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    } else {
        segment[4..6].copy_from_slice(&(transport as u16).to_be_bytes());
    }
    segment[header..header + 4].copy_from_slice(&number.to_be_bytes());
    let pseudo = [source.clone(), destination.clone(), vec![0, flow.protocol]].concat();
    let length = (transport as u16).to_be_bytes();
    let sum = checksum(pseudo.into_iter().chain(length).chain(segment.iter().copied()));
    let at = if flow.protocol == TCP { 16 } else { 6 };
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = vec![0; ip];
    if flow.v6 {
        (bytes[0], bytes[1]) = (6 << 4, (ecn as u8) << 4);
        bytes[4..6].copy_from_slice(&length);
        (bytes[6], bytes[7]) = (flow.protocol, 64);
        bytes[8..24].copy_from_slice(&source);
        bytes[24..40].copy_from_slice(&destination);
    } else {
        (bytes[0], bytes[1]) = (4 << 4 | 5, ecn as u8);
        bytes[2..4].copy_from_slice(&(size as u16).to_be_bytes());
        (bytes[8], bytes[9]) = (64, flow.protocol);
        bytes[12..16].copy_from_slice(&source);
        bytes[16..20].copy_from_slice(&destination);
        let sum = checksum(bytes.iter().copied());
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    bytes.into_iter().chain(segment).map(Cell::new).collect()
}

impl Buffer<'_> {
    fn is_v6(self) -> bool {
        self.0[0].get() >> 4 == 6
    }

    fn word(self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at].get(), self.0[at + 1].get()])
    }

    fn set_word(self, at: usize, word: u16) {
        let [high, low] = word.to_be_bytes();
        self.0[at].set(high);
        self.0[at + 1].set(low);
    }

    /// The number at the start of the payload.
    fn number(self) -> usize {
        let (ip, protocol) = if self.is_v6() { (40, self.0[6].get()) } else { (20, self.0[9].get()) };
        let at = ip + if protocol == TCP { 20 } else { 8 };
        usize::from(self.word(at)) << 16 | usize::from(self.word(at + 2))
    }

    /// The bytes of the packet without the ECN field and the IPv4 header checksum. Asserts that this checksum is
    /// correct.
    fn rest(self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.0.iter().map(Cell::get).collect();
        if self.is_v6() {
            bytes[1] &= !(3 << 4);
        } else {
            assert_eq!(checksum(bytes[..20].iter().copied()), 0, "the header checksum");
            bytes[1] &= !3;
            bytes[10..12].fill(0);
        }
        bytes
    }
}

impl Frame for Buffer<'_> {
    fn size(&self) -> Bytes {
        let length = if self.is_v6() { self.word(4) + 40 } else { self.word(2) };
        Bytes::new(u64::from(length))
    }

    fn ecn(&self) -> Ecn {
        let class = self.0[1].get();
        Ecn::from_bits(if self.is_v6() { class >> 4 } else { class })
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        if self.is_v6() {
            self.0[1].set(self.0[1].get() & !(3 << 4) | (ecn as u8) << 4);
            return;
        }
        let before = self.word(0);
        self.0[1].set(self.0[1].get() & !3 | ecn as u8);
        // Update the header checksum incrementally (RFC 1624, equation 3).
        let mut sum = u32::from(!self.word(10)) + u32::from(!before) + u32::from(self.word(0));
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        self.set_word(10, !(sum as u16));
    }

    /// A hash of the 5-tuple (FNV-1a).
    fn flow(&self) -> u32 {
        let (protocol, addresses, ports) = if self.is_v6() { (6, 8..40, 40..44) } else { (9, 12..20, 20..24) };
        let tuple = self.0[addresses].iter().chain(&self.0[ports]).chain([&self.0[protocol]]);
        tuple.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte.get())).wrapping_mul(0x0100_0193))
    }

    /// Always `Forward`, because the hash of the 5-tuple already differs between the two directions.
    fn direction(&self) -> Direction {
        Direction::Forward
    }
}

fn link<'a>(queue: &Queue) -> Link<Buffer<'a>> {
    let plain = LinkConfig::drop_tail(Rate::from_mbit_per_sec(10.0), Limit::Packets(60));
    Link::new(&LinkConfig { queue: queue.clone(), ..plain }, Random::stream(1, "link", 0))
}

/// Packets of four flows, TCP and UDP in both directions. The test offers one packet every 677 us, 1.3 times the rate
/// of the link.
fn overload(v6: bool, ecn: Ecn) -> Vec<Vec<Cell<u8>>> {
    let flow = |n: u32| {
        let protocol = if n.is_multiple_of(2) { TCP } else { UDP };
        let (near, far) = ((1, 40_000), (2, 443));
        let (source, destination) = if n % 4 < 2 { (near, far) } else { (far, near) };
        Flow { v6, protocol, source, destination }
    };
    (0..5_000).map(|n| packet(flow(n), n, [1500, 1500, 900, 1500, 100][n as usize % 5], ecn)).collect()
}

const GAP: Nanos = Nanos::from_micros(677);

/// Every packet leaves the queue exactly once or counts as dropped. A mark appears in the buffer with a valid header
/// checksum, and no other byte of the packet changes.
#[test]
fn real_packets_survive_every_queue() {
    let kinds = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1];
    for queue in Queue::examples() {
        let marks = !matches!(queue, Queue::DropTail | Queue::Htb(_));
        for (v6, ecn) in [false, true].into_iter().flat_map(|v6| kinds.map(|ecn| (v6, ecn))) {
            let case = format!("{queue:?}, IPv{}, {ecn:?}", if v6 { 6 } else { 4 });
            let buffers = overload(v6, ecn);
            let sent: Vec<_> = buffers.iter().map(|buffer| Buffer(buffer).rest()).collect();
            let mut link = link(&queue);
            let (mut left, mut refused, mut evicted) = (Vec::new(), 0, Vec::new());
            for (n, buffer) in buffers.iter().enumerate() {
                let now = GAP * n as u64;
                while link.next_service() <= now {
                    left.extend(link.serve(now));
                }
                match link.offer(now, &Buffer(buffer)) {
                    Offer::Departs { lost: false, .. } => left.push(Buffer(buffer)),
                    Offer::Queued => {}
                    Offer::Dropped(_) => refused += 1,
                    other => panic!("{case}: {other:?}"),
                }
                evicted.extend(std::iter::from_fn(|| link.take_dropped()));
            }
            while link.next_service() < Nanos::MAX {
                left.extend(link.serve(link.next_service()));
            }
            evicted.extend(std::iter::from_fn(|| link.take_dropped()));
            link.settle(Nanos::MAX);
            let stats = link.stats();
            assert_eq!(left.len() + refused + evicted.len(), buffers.len(), "{case}");
            assert_eq!(stats.departed_packets, left.len() as u64, "{case}");
            assert_eq!(stats.dropped(), (refused + evicted.len()) as u64, "{case}");
            let mut numbers: Vec<_> = left.iter().chain(&evicted).map(|frame| frame.number()).collect();
            numbers.sort_unstable();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{case}: a packet came twice");
            for frame in &left {
                assert!(frame.rest() == sent[frame.number()], "{case}: packet {} changed", frame.number());
            }
            let marked = left.iter().filter(|frame| frame.ecn() == Ecn::Ce).count() as u64;
            assert_eq!(marked, stats.marked, "{case}");
            let expected = marks && ecn != Ecn::NotEct;
            assert_eq!(marked > 0, expected, "{case}: {marked} marks");
            let others = left.iter().filter(|frame| frame.ecn() == ecn).count() as u64;
            assert_eq!(others + marked, left.len() as u64, "{case}");
            assert!(stats.dropped() + marked > 0, "{case}: no overload");
        }
    }
}

/// FQ-CoDel separates flows by their 5-tuple: a single packet goes before the standing queue of another flow, and
/// before the standing queue of the other direction of the same connection.
#[test]
fn fq_codel_isolates_flows_by_five_tuple() {
    let queue = Queue::FqCoDel(FqCoDel::default());
    for v6 in [false, true] {
        let heavy = Flow { v6, protocol: TCP, source: (1, 40_000), destination: (2, 443) };
        let others = [
            Flow { protocol: UDP, ..heavy },
            Flow { source: (3, 40_000), ..heavy },
            Flow { source: (1, 40_001), ..heavy },
            Flow { destination: (3, 443), ..heavy },
            Flow { source: heavy.destination, destination: heavy.source, ..heavy },
        ];
        for other in others {
            let standing: Vec<_> = (0..20).map(|n| packet(heavy, n, 1500, Ecn::NotEct)).collect();
            let single = packet(other, 77, 100, Ecn::NotEct);
            let mut link = link(&queue);
            for buffer in &standing {
                assert_eq!(link.offer(Nanos::ZERO, &Buffer(buffer)), Offer::Queued);
            }
            let next = |link: &mut Link<Buffer>| link.serve(link.next_service()).map(Buffer::number);
            assert_eq!([next(&mut link), next(&mut link)], [Some(0), Some(1)]);
            // Packet 2 is in transmission. The single packet goes before the seventeen packets that remain in the
            // standing queue.
            link.offer(link.next_service() - Nanos::from_nanos(1), &Buffer(&single));
            let order = [next(&mut link), next(&mut link), next(&mut link)];
            assert_eq!(order, [Some(2), Some(77), Some(3)], "IPv{}", if v6 { 6 } else { 4 });
        }
    }
}
