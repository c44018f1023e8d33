//! RFC 6773: checks and drops of the receiver.

use std::net::SocketAddr;

use narrows_cc::{Nanos, Random};
use narrows_dccp::udp::{Dropped, Flow, MAX_PACKET, PORT, open, receive, wrap};
use narrows_dccp::wire::{Addresses, DecodeError};
use narrows_dccp::{Config, Connection, Header, Kind, Role};
use proptest::prelude::*;

use crate::wire::encoded;

const HERE: Addresses = Addresses { source: [192, 0, 2, 1], destination: [192, 0, 2, 2] };

fn packet() -> (Header, Vec<u8>) {
    let header = Header { source: 40_000, destination: 5001, seq: 77, ack: Some(88), ..Header::new(Kind::DataAck) };
    (header, encoded(&header, &[2], b"hello"))
}

fn datagram() -> Vec<u8> {
    let mut datagram = Vec::new();
    wrap(HERE, 33_333, PORT, &packet().1, &mut datagram);
    datagram
}

/// A wrapped packet decodes to itself, and bytes after the UDP length are ignored.
#[test]
fn udp_wrap_and_receive_round_trip() {
    let (header, bytes) = packet();
    let datagram = datagram();
    assert_eq!(datagram[..6], [0x82, 0x35, 0x19, 0x6f, 0, 8 + bytes.len() as u8]);
    assert_eq!(datagram[8..], bytes);
    let (source, destination, read, body) = receive(Some(HERE), &datagram).unwrap();
    assert_eq!((source, destination, read, body.data), (33_333, 6511, header, &b"hello"[..]));
    assert_eq!(open(&bytes).unwrap().0, header);
    let mut trailed = datagram.clone();
    trailed.extend_from_slice(&[1, 2, 3]);
    assert_eq!(receive(Some(HERE), &trailed).unwrap().3.data, b"hello", "bytes after the UDP length are ignored");
}

/// The UDP checksum follows RFC 768, computed by hand for an empty Data packet with short numbers, whose fields are all
/// zero except offset and type.
#[test]
fn udp_checksum_matches_rfc_768() {
    let packet = encoded(&Header { long: false, ..Header::new(Kind::Data) }, &[], &[]);
    let mut datagram = Vec::new();
    wrap(HERE, 1, 2, &packet, &mut datagram);
    // Pseudo-header: c000 + 0201 + c000 + 0202 + 17 + 20. UDP header: 1 + 2 + 20. DCCP header: 0300 + 0400.
    let sum = 0xc000 + 0x0201 + 0xc000 + 0x0202 + 17 + 20 + 1 + 2 + 20 + 0x0300 + 0x0400;
    let expected = !((sum & 0xffff) + (sum >> 16)) as u16;
    assert_eq!(datagram[6..8], expected.to_be_bytes());
}

/// A computed checksum of zero is sent as all ones.
#[test]
fn udp_zero_checksum_is_sent_as_ones() {
    let (header, _) = packet();
    // The last two bytes take all values; for one of these values the computed checksum is zero.
    let mut ones = 0;
    for word in 0..=u16::MAX {
        let mut datagram = Vec::new();
        wrap(HERE, 1, 2, &encoded(&header, &[], &word.to_be_bytes()), &mut datagram);
        assert_ne!(datagram[6..8], [0, 0]);
        ones += u32::from(datagram[6..8] == [255, 255]);
        receive(Some(HERE), &datagram).unwrap();
    }
    assert!(ones >= 1);
}

/// Datagrams that RFC 6773 drops are dropped with the reason.
#[test]
fn udp_invalid_datagram_is_dropped_with_reason() {
    let good = datagram();
    let dropped = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut datagram = good.clone();
        change(&mut datagram);
        let reason = receive(Some(HERE), &datagram).unwrap_err();
        assert!(!reason.to_string().is_empty());
        reason
    };
    assert_eq!(dropped(&|d| d.truncate(7)), Dropped::NoHeader { have: 7 });
    assert_eq!(dropped(&|d| d[5] = 19), Dropped::Short { length: 19 });
    assert_eq!(dropped(&|d| d[4] = 1), Dropped::Cut { length: 256 + 41, have: 41 });
    assert_eq!(dropped(&|d| d[6..8].fill(0)), Dropped::NoChecksum);
    assert_eq!(dropped(&|d| d[40] ^= 1), Dropped::Checksum);
    // With a valid UDP checksum, the error is that of the DCCP packet inside.
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

/// The receiver ignores the DCCP checksum and its coverage.
#[test]
fn udp_ignores_dccp_checksum_and_coverage() {
    let (header, mut bytes) = packet();
    bytes[6..8].copy_from_slice(&[0x12, 0x34]);
    bytes[5] |= 15;
    assert_eq!(Header::decode(&bytes).unwrap_err(), DecodeError::Coverage { covered: 56, have: 5 });
    assert_eq!(open(&bytes).unwrap().0, Header { coverage: 15, ..header });
}

/// Flows differ by remote address, UDP port and DCCP ports.
#[test]
fn udp_flow_differs_by_address_and_both_ports() {
    let (header, _) = packet();
    let remote: SocketAddr = "192.0.2.1:33333".parse().unwrap();
    let flow = Flow::of(remote, &header);
    assert_eq!(flow, Flow { remote, remote_port: 40_000, local_port: 5001 });
    let other: SocketAddr = "192.0.2.1:33334".parse().unwrap();
    assert_ne!(flow, Flow::of(other, &header));
    assert_ne!(flow, Flow::of(remote, &Header { source: 40_001, ..header }));
    assert_ne!(flow, Flow::of(remote, &Header { destination: 5002, ..header }));
}

/// Wrapping a packet longer than a UDP datagram panics.
#[test]
#[should_panic(expected = "packet of 65528 bytes; UDP carries at most 65527")]
fn udp_wrap_of_too_long_packet_panics() {
    wrap(HERE, 1, 2, &[0; MAX_PACKET + 1], &mut Vec::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Random datagrams decode completely or are dropped.
    #[test]
    fn udp_random_datagrams_decode_or_are_dropped(bytes in prop::collection::vec(any::<u8>(), 0..100), length in 0..120u8) {
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

    /// A flip of any one bit makes the datagram invalid.
    #[test]
    fn udp_flipped_bit_is_detected(place in any::<prop::sample::Index>(), bit in 0..8u32) {
        let mut datagram = datagram();
        let at = place.index(datagram.len());
        datagram[at] ^= 1u8 << bit;
        prop_assert!(receive(Some(HERE), &datagram).is_err());
    }
}

/// Coverage beyond the data has no effect in UDP (RFC 6773 section 3.3.2). A native packet with such coverage is
/// dropped.
#[test]
fn udp_coverage_beyond_data_allows_handshake() {
    // A Request without data has a coverage of 56 bytes.
    let request = Header { source: 40_000, destination: 5001, seq: 77, ..Header::new(Kind::Request) };
    let mut packet = encoded(&request, &[], &[]);
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
