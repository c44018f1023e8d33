//! Captures of TCP: the packets in the file agree with the run.

use std::collections::{BTreeMap, BTreeSet};

use crate::reader::{ACK, CWR, ECE, FIN, Frame, SYN, Segment, captured, ip, plan, tcp, u32_be};
use narrows_pcap::{Contents, Ends};
use narrows_units::Random;

const BOTH: Contents = Contents { ends: Ends::Both, snap: None };

/// Size in bytes of the file that the flows below send.
const FILE: u32 = 1_000_000;

fn scenario(seed: u64, more: &str) -> String {
    format!(
        "duration = \"10s\"\nwarmup = \"0s\"\nseed = {seed}\n[network]\nrate = \"20mbit\"\nbuffer = \"20pkt\"\n{more}\n\
         [[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"\nsize = \"{FILE}B\"\n\
         tcp = {{ receive_autotuning = false }}\n"
    )
}

/// All frames of an interface in one direction as segments.
fn segments(frames: &[Frame], interface: usize, inbound: bool) -> Vec<(u64, Segment)> {
    let own = frames.iter().filter(|frame| frame.interface == interface && frame.inbound == inbound);
    own.map(|frame| (frame.at, tcp(&ip(frame)))).collect()
}

/// A capture at both hosts has an interface per host, and its packets are those of the run: packets leave and
/// arrive at the nanosecond of the run, sequence numbers show data and retransmissions, and all checksums are
/// valid.
#[test]
fn capture_of_a_file_has_the_packets_of_the_run() {
    let (result, interfaces, frames) = captured("file", &scenario(1, ""), BOTH);
    let alone = narrows_sim::run(plan(&scenario(1, "")));
    assert_eq!(result.event_hash, alone.event_hash, "a capture changes no event");
    assert_eq!(
        interfaces,
        [("sender-1", [10, 0, 0, 1]), ("receiver-1", [10, 128, 0, 1])].map(|(name, address)| (
            name.to_owned(),
            "cubic".to_owned(),
            address
        ))
    );
    assert!(frames.is_sorted_by_key(|frame| frame.at), "packets come in order of time");
    let [sent, acks] = [false, true].map(|inbound| segments(&frames, 0, inbound));
    let [answers, arrived] = [false, true].map(|inbound| segments(&frames, 1, inbound));

    // The SYN takes the time of 52 simulated bytes at 20 Mbit/s plus half the base RTT; so does the SYN-ACK.
    let (syn, syn_ack) = (&sent[0], &answers[0]);
    assert_eq!((syn.0, arrived[0].0, acks[0].0), (0, 20_020_800, 40_041_600));
    assert!(syn.1.flags == SYN && syn_ack.1.flags == SYN | ACK);
    for (_, opening) in [syn, syn_ack] {
        assert_eq!(opening.options.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [2, 4, 8, 3]);
        // MSS: 1448 bytes of payload and 12 bytes of timestamps. Scale 11: with it, 16 bits can express a
        // window of 64 MiB.
        assert_eq!((opening.option(2), opening.option(3)), (Some(&1460u16.to_be_bytes()[..]), Some(&[11][..])));
    }
    let (isn, peer) = (syn.1.seq, syn_ack.1.seq);
    assert!(isn != peer && syn_ack.1.ack == isn.wrapping_add(1) && syn.1.ack == 0);

    let (mut seen, mut retransmitted, mut fin) = (BTreeMap::new(), 0, 0);
    for (at, segment) in &sent[1..] {
        let start = segment.seq.wrapping_sub(isn);
        assert_eq!((segment.ack, segment.flags & !FIN), (peer.wrapping_add(1), ACK));
        assert_eq!(u32_be(segment.option(8).expect("timestamps")), (at / 1_000) as u32);
        fin += u32::from(segment.has(FIN));
        if segment.payload > 0 && seen.insert(start, segment.payload).is_some() {
            retransmitted += 1;
        }
    }
    let data = |all: &[(u64, Segment)]| all.iter().filter(|(_, segment)| segment.payload > 0).count() as u64;
    assert_eq!(data(&sent), result.counters().data_packets_sent);
    assert!(retransmitted > 0 && retransmitted == result.counters().retransmits);
    let mut next = 1;
    for (start, length) in seen {
        assert_eq!(start, next, "data without gaps");
        next += length as u32;
    }
    assert_eq!((next, fin), (1 + FILE, 1));
    assert_eq!(sent.len() - arrived.len(), result.links[0].drops as usize);
    assert_eq!(answers.len(), acks.len());

    let sent_times: BTreeSet<_> = sent.iter().map(|(at, _)| (at / 1_000) as u32).collect();
    let mut blocks = 0;
    for (_, ack) in &acks[1..] {
        let covered = ack.ack.wrapping_sub(isn);
        assert!((2..=FILE + 2).contains(&covered) && ack.payload == 0);
        assert!(sent_times.contains(&u32_be(&ack.option(8).expect("timestamps")[4..])));
        // At most 60 kB of the 64 MiB window are occupied. The window field has units of 2 kB and is rounded up.
        assert!((32_738..=32_768).contains(&ack.window), "{}", ack.window);
        for edges in ack.option(5).unwrap_or_default().chunks(8) {
            let [left, right] = [&edges[..4], &edges[4..]].map(|edge| u32_be(edge).wrapping_sub(isn));
            assert!(0 < left && left < right && right <= FILE + 2, "{left}..{right}");
            blocks += 1;
        }
    }
    assert!(blocks > 10);
    let last = &acks.last().expect("acknowledgements").1;
    assert!(last.has(FIN) && last.ack.wrapping_sub(isn) == FILE + 2);
}

/// Sequence numbers wrap at 32 bits: with an initial number just below 2^32, the capture has the same data.
#[test]
fn sequence_numbers_wrap_at_32_bits() {
    let first = |seed: u64| Random::stream(seed, "isn", 0).bits() as u32;
    let seed = (1..).find(|&seed| first(seed) > u32::MAX - FILE / 2).expect("one in 8 600");
    let (_, _, frames) = captured("wrap", &scenario(seed, ""), Contents::default());
    let sent = segments(&frames, 0, false);
    let isn = sent[0].1.seq;
    assert!(isn == first(seed) && sent.iter().any(|(_, segment)| segment.seq < isn));
    let ends = sent.iter().map(|(_, own)| own.seq.wrapping_sub(isn) + own.payload as u32);
    assert_eq!(ends.max(), Some(1 + FILE));
    let acks = segments(&frames, 0, true);
    assert_eq!(acks.iter().map(|(_, own)| own.ack.wrapping_sub(isn)).max(), Some(FILE + 2));
}

/// The headers show ECN: the negotiation in the SYN, ECT(0) on data, CE on packets that the queue marked, the
/// echo, and CWR.
#[test]
fn marks_and_their_echo_are_in_the_headers() {
    let more = "queue = { kind = \"step\", above = \"5pkt\" }\n[tcp]\necn = true";
    let (result, _, frames) = captured("ecn", &scenario(1, more), BOTH);
    let [sent, acks] = [false, true].map(|inbound| segments(&frames, 0, inbound));
    assert_eq!((sent[0].1.flags, acks[0].1.flags), (SYN | ECE | CWR, SYN | ACK | ECE));
    let packets: Vec<_> = frames.iter().map(|frame| (frame, ip(frame))).collect();
    let count = |interface, inbound, ecn| {
        let own =
            packets.iter().filter(|(frame, ip)| (frame.interface, frame.inbound, ip.ecn) == (interface, inbound, ecn));
        own.count() as u64
    };
    // Retransmissions are not ECN-capable (RFC 3168 section 6.1.5).
    assert_eq!(count(0, false, 2), result.counters().data_packets_sent - result.counters().retransmits);
    let marked = count(1, true, 3);
    assert!(marked > 0 && marked <= result.links[0].marks, "{marked} of {}", result.links[0].marks);
    assert!(acks[1..].iter().any(|(_, ack)| ack.has(ECE)));
    assert!(sent[1..].iter().any(|(_, segment)| segment.has(CWR)));
}

/// With a snapshot length, frames are truncated and keep their original length. Only the chosen hosts record.
#[test]
fn snapshot_keeps_headers_and_original_lengths() {
    let contents = Contents { ends: Ends::Senders, snap: Some(94) };
    let (result, interfaces, frames) = captured("snap", &scenario(1, ""), contents);
    assert_eq!(interfaces.len(), 2);
    assert!(frames.iter().all(|frame| frame.interface == 0));
    assert!(frames.iter().all(|frame| frame.bytes.len() == frame.length.min(94)));
    let full = frames.iter().filter(|frame| frame.length == 14 + 1500).count() as u64;
    // The last packet of the file transfer is shorter than the others.
    assert!((result.counters().data_packets_sent - 2..result.counters().data_packets_sent).contains(&full));
    assert_eq!(segments(&frames, 0, false).len() as u64, result.counters().data_packets_sent + 2);
    let at_receiver = Contents { ends: Ends::Receivers, snap: None };
    let (result, _, frames) = captured("receivers", &scenario(1, ""), at_receiver);
    assert!(frames.iter().all(|frame| frame.interface == 1));
    let arrived = segments(&frames, 1, true).len() as u64;
    assert_eq!(arrived + result.links[0].drops, result.counters().data_packets_sent + 2);
}

/// If the header has no space for options and SACK is off, packets after the SYN carry no options.
#[test]
fn short_headers_have_no_options() {
    let more = "[tcp]\nsack = false\nheader_bytes = 40";
    let (_, _, frames) = captured("plain", &scenario(1, more), Contents::default());
    let sent = segments(&frames, 0, false);
    assert_eq!(sent[0].1.options.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [2, 3]);
    assert!(sent[1..].iter().all(|(_, segment)| segment.options.is_empty()));
    assert!(segments(&frames, 0, true)[1..].iter().all(|(_, ack)| ack.options.is_empty()));
}

/// Flows of one entry share hosts and have different ports, and so do flows of entries that state the same addresses.
#[test]
fn flows_between_the_same_hosts_differ_in_ports() {
    let flow = "[[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"\nsource = \"10.1.0.1\"\ndestination = \"10.1.0.2\"\n";
    let text = format!(
        "duration = \"1s\"\n[network]\nrate = \"20mbit\"\n{flow}count = 12\n{flow}label = \"last\"\nsize = \"9kB\"\n"
    );
    let (_, interfaces, frames) = captured("ports", &text, Contents::default());
    assert_eq!(interfaces.len(), 2);
    assert!(interfaces[0].1.starts_with("cubic-1, cubic-2,") && interfaces[0].1.ends_with("cubic-8 and 5 more"));
    let openings = segments(&frames, 0, false).into_iter().filter(|(_, segment)| segment.has(SYN));
    let ports: Vec<_> = openings.map(|(_, segment)| segment.ports).collect();
    assert_eq!(ports, (0..13).map(|n| (49_152 + n, 5001)).collect::<Vec<_>>());
}

/// A write to a full device is reported as an error.
#[test]
fn full_device_is_an_error() {
    let made =
        narrows_pcap::Capture::create(&plan(&scenario(1, "")), std::path::Path::new("/dev/full"), Contents::default());
    assert_eq!(made.map(|_| ()).map_err(|error| error.kind()), Err(std::io::ErrorKind::StorageFull));
}
