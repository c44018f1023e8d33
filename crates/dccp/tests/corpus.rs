//! The packets of `corpus/`: decoding as documented, and mutation without panics or reads outside the packet.

use narrows_cc::{Bytes, Nanos, Rate};
use narrows_dccp::ack_vector::{AckVector, Mark, runs};
use narrows_dccp::data_dropped::drop_runs;
use narrows_dccp::loss::{Arrival, LossHistory, LossRate, PathEstimate, Separation, read_intervals};
use narrows_dccp::seq::Seq;
use narrows_dccp::wire::{Addresses, Body, Opt, checksum, options, verify};
use narrows_dccp::{Header, Kind, udp};

use crate::wire::encoded;

const ADDRESSES: Addresses = Addresses { source: [10, 0, 0, 1], destination: [10, 0, 0, 2] };
const VALID: &str = include_str!("corpus/valid.hex");
const MALFORMED: &str = include_str!("corpus/malformed.hex");
const OPTIONS: &str = include_str!("corpus/options.hex");

/// Expected description and packet.
fn read(text: &str) -> Vec<(&str, Vec<u8>)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (expected, hex) = line.rsplit_once(':').unwrap();
            let hex = hex.trim();
            let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
            (expected, bytes.collect())
        })
        .collect()
}

/// Describes a packet as in the corpus.
fn describe(header: &Header, body: &Body) -> String {
    let mut words = format!("{:?} {} seq={}", header.kind, if header.long { "long" } else { "short" }, header.seq);
    if let Some(ack) = header.ack {
        words += &format!(" ack={ack}");
    }
    if header.service != 0 {
        words += &format!(" service={}", header.service);
    }
    if header.kind == Kind::Reset {
        let (code, [a, b, c]) = header.reset;
        words += &format!(" reset={code},{a},{b},{c}");
    }
    if header.ccval != 0 {
        words += &format!(" ccval={}", header.ccval);
    }
    if header.coverage != 0 {
        words += &format!(" coverage={}", header.coverage);
    }
    let kinds: Vec<String> = options(body.options)
        .map(|option| option.unwrap().kind())
        .filter(|kind| *kind != 0)
        .map(|kind| kind.to_string())
        .collect();
    if !kinds.is_empty() {
        words += &format!(" options={}", kinds.join(","));
    }
    words + &format!(" data={}", body.data.len())
}

/// Valid packets decode as the corpus describes and encode to the same bytes.
#[test]
fn corpus_valid_packets_decode_and_encode_exactly() {
    let mut kinds = Vec::new();
    for (expected, bytes) in read(VALID) {
        let (header, body) = Header::decode(&bytes).unwrap_or_else(|error| panic!("{expected}: {error}"));
        assert_eq!(describe(&header, &body), expected);
        assert_eq!((header.source, header.destination), (5001, 5002));
        assert!(verify(Some(ADDRESSES), &bytes), "{expected}: checksum");
        assert!(!verify(None, &bytes), "{expected}: the pseudo-header is part of the checksum");
        let mut again = encoded(&header, body.options, body.data);
        let sum = checksum(Some(ADDRESSES), &again, header.coverage);
        again[6..8].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(again, bytes, "{expected}");
        // Writing the packet's options one by one gives the same bytes.
        let mut written = Vec::new();
        options(body.options).for_each(|option| option.unwrap().write(&mut written));
        assert_eq!(written, body.options, "{expected}");
        kinds.push((header.kind as u8, header.long));
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds.len(), 13, "ten kinds, three of them in both sizes");
}

/// Malformed packets give the error that the corpus documents.
#[test]
fn corpus_malformed_packets_give_documented_error() {
    for (expected, bytes) in read(MALFORMED) {
        assert_eq!(Header::decode(&bytes).unwrap_err().to_string(), expected);
    }
}

/// Malformed options give the error that the corpus documents.
#[test]
fn corpus_malformed_options_give_documented_error() {
    for (expected, bytes) in read(OPTIONS) {
        let (_, body) = Header::decode(&bytes).unwrap();
        let error = options(body.options).find_map(Result::err).unwrap();
        assert_eq!(error.to_string(), expected);
    }
}

/// xorshift64*, for reproducible mutations.
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// One to four mutations: a bit, a byte, the length, a piece of another packet.
fn mutate(packet: &mut Vec<u8>, all: &[Vec<u8>], random: &mut Stream) {
    for _ in 0..=random.below(4) {
        let at = random.below(packet.len());
        match random.below(7) {
            0 if !packet.is_empty() => packet[at] ^= 1 << random.below(8),
            1 if !packet.is_empty() => packet[at] = [0, 1, 2, 127, 128, 254, 255][random.below(7)],
            // Header fields that determine lengths.
            2 if packet.len() > 9 => packet[[4, 5, 8][random.below(3)]] = random.next() as u8,
            3 => packet.truncate(at),
            4 => packet.extend((0..random.below(40)).map(|i| i as u8)),
            5 if !packet.is_empty() => packet[at] = random.next() as u8,
            _ => {
                let other = &all[random.below(all.len())];
                let from = random.below(other.len());
                packet.truncate(at);
                packet.extend_from_slice(&other[from..]);
            }
        }
    }
}

/// Mutated packets decode consistently or are rejected, and receivers stay within their memory limits.
#[test]
fn corpus_mutated_packets_cause_no_panic() {
    const LIMIT: usize = 500;
    let all: Vec<Vec<u8>> = [VALID, MALFORMED, OPTIONS].iter().flat_map(|text| read(text)).map(|(_, b)| b).collect();
    let mut random = Stream(0x005e_ed0f_dccb);
    let (mut taken, mut refused) = (0, 0);
    let mut vector = AckVector::new(LIMIT);
    let mut history = LossHistory::new(Separation::Counter, true);
    let mut rate = LossRate::new(Seq::new(0));
    for i in 0..200_000u64 {
        let mut packet = all[random.below(all.len())].clone();
        mutate(&mut packet, &all, &mut random);
        // In a buffer of exactly the packet's length, a read beyond the packet panics.
        let packet = packet.into_boxed_slice();
        let _ = (udp::open(&packet), udp::receive(Some(ADDRESSES), &packet), verify(Some(ADDRESSES), &packet));
        let Ok((header, body)) = Header::decode(&packet) else {
            refused += 1;
            continue;
        };
        taken += 1;
        assert_eq!(header.len() + body.options.len() + body.data.len(), packet.len());
        let again = encoded(&header, body.options, body.data);
        assert_eq!(Header::decode(&again), Ok((header, body)));

        let ack = Seq::new(header.ack.unwrap_or(0));
        let described: u64 = runs(ack, body.options).map(|run| run.count).sum();
        assert!(described <= 64 * body.options.len() as u64);
        let dropped: u64 = drop_runs(ack, body.options).map(|drops| drops.count).sum();
        assert!(dropped <= 16 * body.options.len() as u64);
        for option in options(body.options).flatten() {
            if let Opt::LossIntervals(value) = option {
                assert_eq!(read_intervals(value).unwrap().1.count(), value.len() / 9);
            }
        }

        // Receivers stay within their memory limits for all numbers.
        let (now, seq) = (Nanos::from_micros(i * 100), Seq::new(header.seq));
        vector.record(seq, if header.ccval & 1 == 1 { Mark::Marked } else { Mark::Received });
        if i % 3 == 0 {
            vector.sent_in(Seq::new(i));
        }
        if i % 50 == 0 {
            vector.acknowledged(Seq::new(i.saturating_sub(150)));
        }
        assert!(vector.covered() <= LIMIT as u64 && vector.len() <= LIMIT + 4);
        let data = header.kind.is_data();
        let arrival = Arrival { at: now, seq, data, ndp: None, marked: false, counter: header.ccval };
        let segment = Bytes::new(1000);
        history.arrive(
            &arrival,
            &PathEstimate { rtt: Nanos::from_millis(50), segment, target: Rate::from_bytes_per_sec(1_000_000) },
        );
        assert!(history.intervals().1.count() <= 9);
        assert!((0.0..=1.0).contains(&history.loss_event_rate()));
        rate.arrive(now, seq);
        assert!(rate.rate(now).is_none_or(|rate| (0.0..=1.0).contains(&rate)));
    }
    // Both outcomes must be frequent; otherwise the mutations are too small or too large to find errors.
    assert!(taken > 20_000 && refused > 20_000, "{taken} taken, {refused} refused");
}
