//! Maps segments of a script to packets for the kernel, and packets of the kernel to segments.

use std::net::Ipv4Addr;

use narrows_packet::real;
use narrows_packet::real::kinds::{MSS, NOP, SACK, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE};
use narrows_packetdrill::script::{Options, Segment, TcpFlags};

/// Address of the kernel.
pub(super) const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
/// Address of the peer, which the script plays.
pub(super) const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Port that the kernel listens on, and port of the peer that it connects to.
pub(super) const PORT: u16 = 8080;
/// Sequence number of the peer's SYN. It is so large that sequence numbers wrap within a long script.
const REMOTE_ORIGIN: u32 = 0xfff0_0000;

const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
const TCP: u8 = 6;
const TTL: u8 = 64;
/// Bits of the flags, in the order of [`flags`].
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
const ECE: u8 = 64;
const CWR: u8 = 128;

/// Ports of the connection, and the kernel's initial sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Port of the kernel.
    pub(super) local: u16,
    /// Port of the peer.
    pub(super) remote: u16,
    /// Sequence number of the kernel's SYN; zero before the SYN.
    pub(super) origin: u32,
}

impl Mapping {
    /// Whether a packet of the kernel begins a new connection, as a SYN with other ports does. `None` if the packet
    /// belongs to no connection of the script.
    pub(super) fn adopt(&mut self, packet: &real::Segment<'_>) -> Option<bool> {
        if packet.ports == (self.local, self.remote) {
            return Some(false);
        }
        let begins = packet.bits & (SYN | ACK) == SYN;
        begins.then(|| *self = Self { local: packet.ports.0, remote: packet.ports.1, origin: packet.seq })?;
        Some(true)
    }

    /// The packet for a segment of the script. The segment's echoed timestamp is already the kernel's.
    pub(super) fn packet(&self, segment: &Segment) -> Vec<u8> {
        let local = |number: u64| (number as u32).wrapping_add(self.origin);
        let options = segment.options.as_ref().map(|options| written(options, &local)).unwrap_or_default();
        let header = TCP_HEADER + options.len();
        let whole = IP_HEADER + header + segment.len as usize;
        let mut out = Vec::with_capacity(whole);
        out.extend([0x45, segment.ecn.map_or(0, |ecn| ecn as u8)]);
        out.extend((whole as u16).to_be_bytes());
        out.extend([0, 0, 0, 0, TTL, TCP, 0, 0]);
        out.extend(REMOTE.octets());
        out.extend(LOCAL.octets());
        let checksum = !folded(sum(&out));
        out[10..12].copy_from_slice(&checksum.to_be_bytes());
        out.extend(self.remote.to_be_bytes());
        out.extend(self.local.to_be_bytes());
        out.extend((segment.seq as u32).wrapping_add(REMOTE_ORIGIN).to_be_bytes());
        let ack = if segment.flags.ack { local(segment.ack) } else { 0 };
        out.extend(ack.to_be_bytes());
        out.extend([(header / 4 * 16) as u8, bits(&segment.flags)]);
        out.extend((segment.window.unwrap_or(0) as u16).to_be_bytes());
        out.extend([0; 4]); // checksum, urgent pointer
        out.extend(options);
        out.resize(whole, 0);
        let pseudo = sum_of_addresses(whole - IP_HEADER);
        let checksum = !folded(pseudo + sum(&out[IP_HEADER..]));
        out[IP_HEADER + 16..IP_HEADER + 18].copy_from_slice(&checksum.to_be_bytes());
        out
    }

    /// The segment of the script for a packet of the kernel. A SYN sets the initial sequence number.
    pub(super) fn segment(&mut self, packet: &real::Segment<'_>) -> Segment {
        let flags = flags(packet.bits);
        if flags.syn {
            self.origin = packet.seq;
        }
        let remote = |number: u32| u64::from(number.wrapping_sub(REMOTE_ORIGIN));
        Segment {
            flags,
            seq: packet.seq.wrapping_sub(self.origin).into(),
            len: packet.payload.into(),
            ack: if flags.ack { remote(packet.ack) } else { 0 },
            window: Some(packet.window.into()),
            ecn: Some(packet.ecn),
            options: Some(Options {
                mss: packet.option(MSS).and_then(|body| body.first_chunk()).map(|mss| u16::from_be_bytes(*mss)),
                sack_ok: packet.option(SACK_PERMITTED).is_some(),
                window_scale: packet.option(WINDOW_SCALE).and_then(|body| body.first().copied()),
                timestamps: packet.timestamps(),
                sack: packet.sack().map(|(start, end)| (remote(start), remote(end))).collect(),
            }),
        }
    }
}

/// Options as bytes, padded to a multiple of four.
fn written(options: &Options, local: &dyn Fn(u64) -> u32) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(mss) = options.mss {
        out.extend([MSS, 4]);
        out.extend(mss.to_be_bytes());
    }
    if options.sack_ok {
        out.extend([SACK_PERMITTED, 2]);
    }
    if let Some((value, echo)) = options.timestamps {
        out.extend([TIMESTAMPS, 10]);
        out.extend(value.to_be_bytes());
        out.extend(echo.to_be_bytes());
    }
    if let Some(scale) = options.window_scale {
        out.extend([WINDOW_SCALE, 3, scale]);
    }
    if !options.sack.is_empty() {
        out.extend([SACK, (2 + 8 * options.sack.len()) as u8]);
        for (start, end) in &options.sack {
            out.extend(local(*start).to_be_bytes());
            out.extend(local(*end).to_be_bytes());
        }
    }
    out.resize(out.len().next_multiple_of(4), NOP);
    out
}

fn flags(bits: u8) -> TcpFlags {
    let has = |bit| bits & bit != 0;
    TcpFlags { syn: has(SYN), fin: has(FIN), rst: has(RST), psh: has(PSH), ack: has(ACK), ece: has(ECE), cwr: has(CWR) }
}

fn bits(flags: &TcpFlags) -> u8 {
    let all = [
        (flags.fin, FIN),
        (flags.syn, SYN),
        (flags.rst, RST),
        (flags.psh, PSH),
        (flags.ack, ACK),
        (flags.ece, ECE),
        (flags.cwr, CWR),
    ];
    all.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
}

/// Sum of 16-bit words (RFC 1071), not folded.
fn sum(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    bytes.chunks(2).map(word).sum()
}

/// Sum of the pseudo header's words for a segment of this length.
fn sum_of_addresses(length: usize) -> u64 {
    sum(&REMOTE.octets()) + sum(&LOCAL.octets()) + u64::from(TCP) + length as u64
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use narrows_packet::Ecn;

    use super::*;

    fn segment() -> Segment {
        Segment {
            flags: TcpFlags { ack: true, psh: true, ece: true, ..TcpFlags::default() },
            seq: 0x20_0000,
            len: 101,
            ack: 3,
            window: Some(257),
            ecn: Some(Ecn::Ect0),
            options: Some(Options {
                timestamps: Some((7, 9)),
                sack: vec![(1001, 2001), (3001, 4001)],
                ..Options::default()
            }),
        }
    }

    /// Sequence numbers of the script are relative to the SYN of their sender, also beyond the wrap; SACK blocks of the
    /// peer are relative to the kernel's SYN.
    #[test]
    fn packet_numbers_count_from_both_syns() {
        let mapping = Mapping { local: 8080, remote: 40_000, origin: u32::MAX - 1 };
        let bytes = mapping.packet(&segment());
        let read = real::Segment::read(&bytes).expect("a segment");
        assert_eq!((read.ports, read.payload, read.window), ((40_000, 8080), 101, 257));
        assert_eq!((read.seq, read.ack), (0x10_0000, 1));
        assert_eq!(read.sack().collect::<Vec<_>>(), [(999, 1999), (2999, 3999)]);
        assert_eq!((read.timestamps(), read.ecn), (Some((7, 9)), Ecn::Ect0));
        assert_eq!(flags(read.bits), segment().flags);
    }

    /// Both checksums of a packet of odd length are correct: the sums that include them are all ones.
    #[test]
    fn packet_has_correct_checksums() {
        let bytes = Mapping::default().packet(&segment());
        assert_eq!(folded(sum(&bytes[..IP_HEADER])), 0xffff);
        let tcp = sum_of_addresses(bytes.len() - IP_HEADER) + sum(&bytes[IP_HEADER..]);
        assert_eq!(folded(tcp), 0xffff);
    }

    /// A SYN-ACK sets the kernel's initial sequence number, and its options are read.
    #[test]
    fn segment_syn_fixes_numbers_and_shows_options() {
        let syn = Segment {
            flags: TcpFlags { syn: true, ack: true, ..TcpFlags::default() },
            seq: 0,
            len: 0,
            options: Some(Options {
                mss: Some(1460),
                sack_ok: true,
                window_scale: Some(7),
                timestamps: None,
                sack: Vec::new(),
            }),
            ..segment()
        };
        // A packet built for the peer serves as a packet of the kernel.
        let bytes = Mapping { origin: 5, ..Mapping::default() }.packet(&syn);
        let mut mapping = Mapping::default();
        let seen = mapping.segment(&real::Segment::read(&bytes).expect("a segment"));
        assert_eq!(mapping.origin, REMOTE_ORIGIN);
        assert_eq!((seen.seq, seen.options), (0, syn.options));
        assert_eq!(seen.ack, u64::from(8_u32.wrapping_sub(REMOTE_ORIGIN)));
    }
}
