//! Captures of datagrams, multipath connections and explicit-rate protocols.

use std::collections::BTreeSet;

use crate::reader::{SYN, captured, ip, tcp};
use narrows_pcap::{Contents, Ends};

const BOTH: Contents = Contents { ends: Ends::Both, snap: None };

fn text(scheme: &str, more: &str) -> String {
    format!(
        "duration = \"3s\"\nwarmup = \"0s\"\n[network]\nrate = \"20mbit\"\nbuffer = \"20pkt\"\n\
         [[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n{more}\n"
    )
}

/// A DCCP packet has protocol 33, the ports of its flow, a valid checksum, and the bytes that the endpoints exchanged.
#[test]
fn datagrams_are_dccp_with_valid_checksums() {
    let (result, interfaces, frames) = captured("dccp", &text("ccid2", "stop = \"2s\""), BOTH);
    assert_eq!(interfaces.len(), 2);
    let sent: Vec<_> = frames.iter().filter(|frame| frame.interface == 0 && !frame.inbound).collect();
    let mut kinds = BTreeSet::new();
    let mut data = 0;
    for frame in &sent {
        let packet = ip(frame);
        assert_eq!((packet.protocol, &packet.body[..4]), (33, &[0xc0, 0x00, 0x13, 0x89][..]));
        let kind = packet.body[8] >> 1 & 15;
        kinds.insert(kind);
        let header = usize::from(packet.body[4]) * 4;
        data += u64::from([2, 4].contains(&kind) && packet.body.len() > header);
    }
    // The kinds are Request, Data or DataAck, and Close (RFC 4340 section 5.1).
    assert!(kinds.contains(&0) && kinds.contains(&6), "{kinds:?}");
    assert_eq!(data, result.counters().data_packets_sent);
    for frame in frames.iter().filter(|frame| frame.interface == 1 && !frame.inbound) {
        assert_eq!(ip(frame).body[..4], [0x13, 0x89, 0xc0, 0x00]);
    }
}

/// Subflows have different ports, and their packets carry an experimental option with the 20 bytes of the
/// mapping and the data sequence number. A full packet still has 1500 bytes.
#[test]
fn mapping_is_an_experimental_option_of_its_size() {
    let (_, _, frames) = captured("subflows", &text("lia", "subflows = 2\nsize = \"300kB\""), BOTH);
    let (mut ports, mut data) = (BTreeSet::new(), BTreeSet::new());
    for frame in frames.iter().filter(|frame| frame.interface == 0 && !frame.inbound) {
        let packet = ip(frame);
        let segment = tcp(&packet);
        ports.insert(segment.ports.0);
        if segment.payload > 0 {
            let option = segment.option(253).expect("a mapping");
            assert_eq!((option.len(), &option[..2]), (18, &b"NW"[..]));
            let at = u64::from_be_bytes(option[3..11].try_into().unwrap());
            data.insert((at, segment.payload as u64));
            assert!(segment.payload < 1428 || packet.length == 1500);
        }
    }
    assert_eq!(ports, BTreeSet::from([49_152, 49_153]));
    let mut next = 0;
    for (at, length) in data {
        assert!(at <= next, "data from {next} to {at} is missing");
        next = next.max(at + length);
    }
    assert_eq!(next, 300_000);
}

/// Rate headers appear as experimental options of their size. Control messages appear as UDP between the ports
/// of their flow, and arrive unchanged.
#[test]
fn rates_are_options_or_messages() {
    for (scheme, length) in [("rcp", 12), ("xcp", 20)] {
        let (_, _, frames) = captured(scheme, &text(scheme, "size = \"300kB\""), BOTH);
        let sent = frames.iter().filter(|frame| frame.interface == 0 && !frame.inbound);
        let mut options = 0;
        for segment in sent.map(|frame| tcp(&ip(frame))) {
            assert!(segment.has(SYN) == segment.option(2).is_some());
            options += usize::from(segment.option(253).is_some_and(|option| option.len() == length - 2));
        }
        assert!(options > 200, "{scheme}: {options}");
    }
    let (_, _, frames) = captured("messages", &text("nodectl", "size = \"300kB\""), BOTH);
    let packets: Vec<_> = frames.iter().map(|frame| (frame, ip(frame))).filter(|(_, ip)| ip.protocol == 17).collect();
    assert!(packets.len() >= 4);
    for (frame, packet) in &packets {
        let forward = packet.source == [10, 0, 0, 1];
        assert_eq!(forward, (frame.interface == 0) != frame.inbound);
        let ports: &[u8] = if forward { &[0xc0, 0x00, 0x13, 0x89] } else { &[0x13, 0x89, 0xc0, 0x00] };
        assert_eq!(&packet.body[..4], ports);
        assert_eq!(usize::from(u16::from_be_bytes([packet.body[4], packet.body[5]])), packet.body.len());
    }
}
