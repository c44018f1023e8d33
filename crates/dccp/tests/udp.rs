//! RFC 6773: what a receiver checks, what it drops.

use std::net::SocketAddr;

use narrows_cc::{Nanos, Random};
use narrows_dccp::udp::{Dropped, Flow, MAX_PACKET, PORT, open, receive, wrap};
use narrows_dccp::wire::{Addresses, DecodeError};
use narrows_dccp::{Config, Connection, Header, Kind, Role};
use proptest::prelude::*;

const HERE: Addresses = Addresses { source: [192, 0, 2, 1], destination: [192, 0, 2, 2] };

fn packet() -> (Header, Vec<u8>) {
    let header =
        Header { source: 40_000, destination: 5001, seq: 77, ack: Some(88), ..Header::new(Kind::DataAck) };
    let mut bytes = Vec::new();
    header.encode(&[2], b"hello", &mut bytes);
    (header, bytes)
}

fn datagram() -> Vec<u8> {
    let mut datagram = Vec::new();
    wrap(HERE, 33_333, PORT, &packet().1, &mut datagram);
    datagram
}

#[test]
fn a_packet_comes_out_as_it_went_in() {
    let (header, bytes) = packet();
    let datagram = datagram();
    assert_eq!(datagram[..6], [0x82, 0x35, 0x19, 0x6f, 0, 8 + bytes.len() as u8]);
    assert_eq!(datagram[8..], bytes);
    let (source, destination, read, body) = receive(Some(HERE), &datagram).unwrap();
    assert_eq!((source, destination, read, body.data), (33_333, 6511, header, &b"hello"[..]));
    assert_eq!(open(&bytes).unwrap().0, header);
    let mut trailed = datagram.clone();
    trailed.extend_from_slice(&[1, 2, 3]);
    assert_eq!(
        receive(Some(HERE), &trailed).unwrap().3.data,
        b"hello",
        "what follows the UDP length is not part of it"
    );
}

/// By hand: an empty Data packet with short numbers, all zero but its offset and type.
#[test]
fn the_udp_checksum_is_that_of_rfc_768() {
    let mut packet = Vec::new();
    Header { long: false, ..Header::new(Kind::Data) }.encode(&[], &[], &mut packet);
    let mut datagram = Vec::new();
    wrap(HERE, 1, 2, &packet, &mut datagram);
    // c000 + 0201 + c000 + 0202 + 17 + 20, then 1 + 2 + 20 of the header, then 0300 and 0400.
    let sum = 0xc000 + 0x0201 + 0xc000 + 0x0202 + 17 + 20 + 1 + 2 + 20 + 0x0300 + 0x0400;
    let expected = !((sum & 0xffff) + (sum >> 16)) as u16;
    assert_eq!(datagram[6..8], expected.to_be_bytes());
}

#[test]
fn a_checksum_of_zero_is_sent_as_ones() {
    let (header, _) = packet();
    // The data's last two bytes go through all values: one of them makes the sum zero.
    let mut ones = 0;
    for word in 0..=u16::MAX {
        let (mut packet, mut datagram) = (Vec::new(), Vec::new());
        header.encode(&[], &word.to_be_bytes(), &mut packet);
        wrap(HERE, 1, 2, &packet, &mut datagram);
        assert_ne!(datagram[6..8], [0, 0]);
        ones += u32::from(datagram[6..8] == [255, 255]);
        receive(Some(HERE), &datagram).unwrap();
    }
    assert!(ones >= 1);
}

#[test]
fn datagrams_that_rfc_6773_drops_are_dropped_with_the_reason() {
    let good = datagram();
    let dropped = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut datagram = good.clone();
        change(&mut datagram);
        let why = receive(Some(HERE), &datagram).unwrap_err();
        assert!(!why.to_string().is_empty());
        why
    };
    assert_eq!(dropped(&|d| d.truncate(7)), Dropped::NoHeader { have: 7 });
    assert_eq!(dropped(&|d| d[5] = 19), Dropped::Short { length: 19 });
    assert_eq!(dropped(&|d| d[4] = 1), Dropped::Cut { length: 256 + 41, have: 41 });
    assert_eq!(dropped(&|d| d[6..8].fill(0)), Dropped::NoChecksum);
    assert_eq!(dropped(&|d| d[40] ^= 1), Dropped::Checksum);
    // With a checksum that fits, what is inside decides.
    let inside = |change: &dyn Fn(&mut Vec<u8>)| {
        let (mut bytes, mut datagram) = (packet().1, Vec::new());
        change(&mut bytes);
        wrap(HERE, 1, 2, &bytes, &mut datagram);
        receive(Some(HERE), &datagram).unwrap_err()
    };
    assert_eq!(inside(&|p| p.truncate(11)), Dropped::Short { length: 19 });
    assert_eq!(inside(&|p| p.truncate(23)), Dropped::Packet(DecodeError::Truncated { needed: 24, have: 23 }));
    assert_eq!(inside(&|p| p[8] = 0x1f), Dropped::Packet(DecodeError::Kind(15)));
    assert_eq!(open(&[0; 5]), Err(Dropped::Short { length: 13 }));
}

#[test]
fn neither_the_dccp_checksum_nor_its_coverage_is_looked_at() {
    let (header, mut bytes) = packet();
    bytes[6..8].copy_from_slice(&[0x12, 0x34]);
    bytes[5] |= 15;
    assert_eq!(Header::decode(&bytes).unwrap_err(), DecodeError::Coverage { covered: 56, have: 5 });
    assert_eq!(open(&bytes).unwrap().0, Header { coverage: 15, ..header });
}

#[test]
fn connections_differ_by_addresses_and_by_the_ports_of_both() {
    let (header, _) = packet();
    let remote: SocketAddr = "192.0.2.1:33333".parse().unwrap();
    let flow = Flow::of(remote, &header);
    assert_eq!(flow, Flow { remote, remote_port: 40_000, local_port: 5001 });
    let other: SocketAddr = "192.0.2.1:33334".parse().unwrap();
    assert_ne!(flow, Flow::of(other, &header));
    assert_ne!(flow, Flow::of(remote, &Header { source: 40_001, ..header }));
    assert_ne!(flow, Flow::of(remote, &Header { destination: 5002, ..header }));
}

#[test]
#[should_panic(expected = "65528 bytes in UDP; it carries 65527")]
fn packets_longer_than_udp_are_the_callers_mistake() {
    wrap(HERE, 1, 2, &[0; MAX_PACKET + 1], &mut Vec::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_datagrams_are_read_or_dropped(bytes in prop::collection::vec(any::<u8>(), 0..100), length in 0..120u8) {
        let mut bytes = bytes;
        if let Some(field) = bytes.get_mut(4..6) {
            field.copy_from_slice(&[0, length]);
        }
        for addresses in [None, Some(HERE)] {
            if let Ok((_, _, header, body)) = receive(addresses, &bytes) {
                prop_assert_eq!(8 + header.len() + body.options.len() + body.data.len(), usize::from(length));
            }
        }
    }

    #[test]
    fn a_changed_bit_is_always_found(place in any::<prop::sample::Index>(), bit in 0..8u32) {
        let mut datagram = datagram();
        let at = place.index(datagram.len());
        datagram[at] ^= 1u8 << bit;
        prop_assert!(receive(Some(HERE), &datagram).is_err());
    }
}

#[test]
fn a_coverage_beyond_the_data_stops_no_handshake() {
    // RFC 6773 section 3.3.2: partial coverage has no effect in UDP. Natively such a packet is dropped.
    let mut packet = Vec::new();
    let request = Header { source: 40_000, destination: 5001, seq: 77, ..Header::new(Kind::Request) };
    request.encode(&[], &[], &mut packet);
    packet[5] = 15;
    let config = Config { role: Role::Server, local_port: 5001, remote_port: 0, ..Config::default() };
    let answer = |take: &dyn Fn(&mut Connection)| {
        let mut server = Connection::new(&config, Random::stream(1, "server", 0), Nanos::ZERO);
        take(&mut server);
        server.poll_transmit(Nanos::ZERO, &mut Vec::new()).map(|sent| sent.kind)
    };
    assert_eq!(answer(&|server| server.on_packet(Nanos::ZERO, &packet, 0)), None);
    let (header, body) = open(&packet).unwrap();
    assert_eq!(answer(&|server| server.on_decoded(Nanos::ZERO, &header, &body, 0)), Some(Kind::Response));
}
