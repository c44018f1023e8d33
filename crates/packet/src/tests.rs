//! Tests of packets and of the views of their bodies.

use super::*;

/// An option with one slot and 12 bytes, and an option with two slots and 20 bytes.
const SHORT: RawOption = RawOption::new(1, 12, &[(7, 8)]);
const LONG: RawOption = RawOption::new(RawOption::MAX_TAG, 20, &[(1, 2), (3, u32::MAX)]);

/// A packet occupies one cache line, even inside an `Option`.
#[test]
fn packet_takes_one_cache_line() {
    assert_eq!((size_of::<Packet>(), align_of::<Packet>()), (64, 64));
    assert_eq!(size_of::<Option<Packet>>(), 64);
}

/// A packet in flight takes 72 bytes: its cache line and its arrival time.
#[test]
fn packet_in_flight_takes_72_bytes() {
    let random = narrows_units::Random::stream(1, "wire", 0);
    let mut line = narrows_net::DelayLine::new(Nanos::ZERO, None, None, random);
    (0..1024).for_each(|n| _ = line.push(Nanos::from_nanos(n), &Packet::new(0)));
    assert_eq!(line.memory(), 1024 * 72);
}

/// SACK blocks on both sides of the acknowledgement number survive the 32-bit wire format.
#[test]
fn sack_blocks_survive_32_bit_wire_format() {
    let mut packet = Packet::new(0);
    *packet.tcp_mut().ack = (1 << 32) - 10;
    packet.push_sack((1 << 32) - 2000, (1 << 32) - 552); // a DSACK below the acknowledgement number
    packet.push_sack((1 << 32) + 1448, (1 << 32) + 2896);
    let blocks: Vec<_> = packet.sack_blocks().collect();
    assert_eq!(blocks, [((1 << 32) - 2000, (1 << 32) - 552), ((1 << 32) + 1448, (1 << 32) + 2896)]);
    assert_eq!(packet.size(), Bytes::new(52 + 12 + 8));
}

/// An option occupies its wire size in the header and replaces the last SACK blocks.
#[test]
fn option_takes_place_of_last_sack_blocks() {
    let mut packet = Packet::new(0);
    packet.set_option(Some(LONG));
    assert_eq!((packet.option(), packet.size()), (Some(LONG), Bytes::new(52 + 20)));
    assert!(packet.has_option() && !packet.has_sack());
    *packet.tcp_mut().ack = 1;
    packet.set_option(Some(SHORT));
    for n in 0..3 {
        packet.push_sack(1000 * n + 1, 1000 * n + 501);
    }
    // Two blocks fit in a segment with one option slot.
    assert_eq!(packet.sack_blocks().collect::<Vec<_>>(), [(1, 501), (1001, 1501)]);
    let kept = packet.option().expect("the option remains");
    assert_eq!((kept.tag(), kept.wire_bytes(), kept.slots()[0]), (1, 12, (7, 8)));
    assert_eq!(packet.size(), Bytes::new(52 + 12 + 20));
    packet.set_option(Some(LONG));
    assert_eq!((packet.sack_blocks().count(), packet.option()), (1, Some(LONG)));
    assert_eq!(packet.size(), Bytes::new(52 + 20 + 12));
    packet.set_option(None);
    assert_eq!((packet.option(), packet.size()), (None, Bytes::new(52 + 12)));
    assert!(!packet.has_option());
}

/// An option without slots leaves space for all SACK blocks.
#[test]
fn option_without_slots_leaves_room_for_blocks() {
    let mut packet = Packet::new(0);
    packet.set_option(Some(RawOption::new(5, 0, &[])));
    (0..4).for_each(|n| packet.push_sack(1000 * n + 1, 1000 * n + 501));
    assert_eq!((packet.sack_blocks().count(), packet.option().map(|own| own.tag())), (3, Some(5)));
    assert_eq!(packet.header, 52 + 12 + 8 + 8);
}

/// A control message preserves its bytes, and any packet preserves its path.
#[test]
fn control_message_keeps_bytes_and_path() {
    let bytes: Vec<u8> = (1..=ControlMessage::MAX_BYTES as u8).collect();
    for len in 0..=ControlMessage::MAX_BYTES {
        let mut packet = Packet::control(7, Flags::REVERSE, &bytes[..len]);
        packet.set_path(3);
        assert_eq!((packet.message().as_bytes(), packet.path(), packet.flow), (&bytes[..len], 3, 7));
        assert_eq!(packet.size(), Bytes::new(28 + len as u64));
        assert!(packet.kind() == Kind::Message && packet.flags.has(Flags::REVERSE));
        packet.hop = 2;
        packet.set_message(&bytes[..5]);
        assert_eq!((packet.message().as_bytes(), packet.path()), (&bytes[..5], 3));
        assert_eq!((packet.hop, packet.flow), (2, 7));
        assert_eq!(packet.size(), Bytes::new(33));
    }
    let mut packet = Packet::new(0);
    packet.set_path(2);
    packet.push_sack(5, 6);
    packet.set_option(Some(SHORT));
    assert_eq!((packet.path(), packet.option().map(|own| own.slots()[0])), (2, Some((7, 8))));
    assert_eq!(packet.sack_blocks().count(), 1);
    packet.set_path(0);
    assert!(packet.path() == 0 && packet.has_option() && packet.has_sack());
}

/// ECN, path and content tag share a byte; setting one does not change the others.
#[test]
fn ecn_path_and_kind_are_independent() {
    let datagram = Packet::datagram(1, Dccp { seq: 9, handle: 5 });
    for (mut packet, kind) in
        [(Packet::new(1), Kind::Tcp), (datagram, Kind::Dccp), (Packet::control(1, Flags::NONE, &[1, 2]), Kind::Message)]
    {
        for path in 0..MAX_PATHS as u8 {
            for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
                packet.set_path(path);
                packet.set_ecn(ecn);
                assert_eq!((packet.ecn(), packet.path(), packet.kind()), (ecn, path, kind));
            }
        }
        assert_eq!(packet.option(), None);
    }
    assert_eq!(datagram.dccp(), Dccp { seq: 9, handle: 5 });
}

/// The digest combines the numbers of every kind of packet as in the recorded event hashes.
#[test]
fn digest_mixes_the_numbers_of_every_kind() {
    let mut segment = Packet::new(0);
    (*segment.tcp_mut().seq, *segment.tcp_mut().ack) = (3, 5);
    assert_eq!((segment.digest(), segment.numbers()), (3 ^ 5 << 32, (3, 5)));
    let datagram = Packet::datagram(0, Dccp { seq: 9, handle: 77 });
    assert_eq!((datagram.digest(), datagram.numbers()), (9, (9, 0)));
    let message = Packet::control(0, Flags::NONE, &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 5]);
    assert_eq!((message.digest(), message.numbers()), (3 ^ 5 << 32, (3, 5)));
}
