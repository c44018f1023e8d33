//! Packets of real hosts: IPv4 and TCP headers as bytes.

use self::kinds::{END, EXPERIMENT, NOP, SACK, TIMESTAMPS};
use crate::{Ecn, ExternalSegment, Flags, Packet, Room};

/// Bytes of an IP header without options.
const IP_HEADER: usize = 20;
/// Offsets of the checksum in the headers of IP and TCP.
const IP_CHECKSUM: usize = 10;
const TCP_CHECKSUM: usize = 16;
const TCP_PROTOCOL: u8 = 6;
const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;
const ECE: u8 = 64;
const CWR: u8 = 128;
/// Kinds of TCP options (RFC 9293, RFC 7323, RFC 2018).
pub mod kinds {
    /// End of the list.
    pub const END: u8 = 0;
    /// No operation.
    pub const NOP: u8 = 1;
    /// Maximum segment size.
    pub const MSS: u8 = 2;
    /// Window scale.
    pub const WINDOW_SCALE: u8 = 3;
    /// SACK permitted.
    pub const SACK_PERMITTED: u8 = 4;
    /// SACK blocks.
    pub const SACK: u8 = 5;
    /// Timestamps.
    pub const TIMESTAMPS: u8 = 8;
    /// Experimental option; two bytes of its body identify the experiment (RFC 6994).
    pub const EXPERIMENT: u8 = 253;
}

/// Headers of a TCP segment over IPv4.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags.
    pub flags: Flags,
    /// The unmodified byte of flags.
    pub bits: u8,
    /// The window field, not scaled.
    pub window: u16,
    /// ECN field.
    pub ecn: Ecn,
    /// Payload bytes.
    pub payload: u16,
    /// Header bytes, including the IP header and options.
    pub header: u16,
    options: &'a [u8],
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> Segment<'a> {
    /// Reads the headers; `None` if the packet is not a complete TCP segment over IPv4.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let ip = usize::from(first & 15) * 4;
        let whole = usize::from(be16(bytes, 2)?);
        if first >> 4 != 4 || ip < IP_HEADER || whole > bytes.len() || *bytes.get(9)? != TCP_PROTOCOL {
            return None;
        }
        let tcp = bytes.get(ip..whole)?;
        let header = usize::from(tcp.get(12)? >> 4) * 4;
        let options = tcp.get(20..header)?;
        let bits = tcp[13];
        let mut flags = Flags::NONE;
        for (bit, flag) in
            [(FIN, Flags::FIN), (SYN, Flags::SYN), (ACK, Flags::ACK), (ECE, Flags::ECE), (CWR, Flags::CWR)]
        {
            if bits & bit != 0 {
                flags = flags.with(flag);
            }
        }
        Some(Self {
            ports: (be16(tcp, 0)?, be16(tcp, 2)?),
            seq: be32(tcp, 4)?,
            ack: be32(tcp, 8)?,
            flags,
            bits,
            window: be16(tcp, 14)?,
            ecn: Ecn::from_bits(bytes[1]),
            payload: (tcp.len() - header) as u16,
            header: (ip + header) as u16,
            options,
        })
    }

    /// The body of the first option of this kind.
    pub fn option(&self, wanted: u8) -> Option<&'a [u8]> {
        self.find(|kind, _| kind == wanted).map(|(_, body)| body)
    }

    /// The position and body of the first option for which `wanted` returns `true`.
    fn find(&self, wanted: impl Fn(u8, &[u8]) -> bool) -> Option<(usize, &'a [u8])> {
        let mut place = 0;
        loop {
            let rest = self.options.get(place..)?;
            match *rest.first()? {
                END => return None,
                NOP => place += 1,
                kind => {
                    let length = usize::from(*rest.get(1)?);
                    let body = rest.get(2..length)?;
                    if wanted(kind, body) {
                        return Some((place, body));
                    }
                    place += length;
                }
            }
        }
    }

    /// The 16-bit value of the experimental option with this ExID.
    pub fn experiment(&self, exid: u16) -> Option<u16> {
        self.experiment_at(exid).map(|(_, value)| value)
    }

    fn experiment_at(&self, exid: u16) -> Option<(usize, u16)> {
        let is_own = |kind, body: &[u8]| kind == EXPERIMENT && body.len() == 4 && be16(body, 0) == Some(exid);
        self.find(is_own).and_then(|(place, body)| Some((place, be16(body, 2)?)))
    }

    /// SACK blocks.
    pub fn sack(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        let blocks = self.option(SACK).unwrap_or_default().chunks_exact(8);
        blocks.filter_map(|block| Some((be32(block, 0)?, be32(block, 4)?)))
    }

    /// Whether the segment has enough SACK blocks for [`set_experiment`] to replace one.
    pub fn is_crowded(&self) -> bool {
        self.option(SACK).is_some_and(|body| body.len() + 2 >= THREE_BLOCKS)
    }

    /// Timestamp value and timestamp echo.
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        let body = self.option(TIMESTAMPS)?;
        Some((be32(body, 0)?, be32(body, 4)?))
    }

    /// The packet that represents this segment of `flow`. `origins` are the sequence numbers of the SYNs of the
    /// segment's sender and of its peer; `near` are the last known 64-bit numbers in the same order. Both are
    /// needed to extend 32-bit numbers to 64 bits.
    pub fn packet(&self, flow: u32, reverse: bool, origins: (u32, u32), near: (u64, u64)) -> Packet {
        let ack = if self.flags.has(Flags::ACK) { unfold(self.ack, origins.1, near.1) } else { 0 };
        let segment = ExternalSegment { seq: unfold(self.seq, origins.0, near.0), ack, handle: 0, room: Room::None };
        let mut packet = Packet::of_host(flow, segment);
        packet.payload = self.payload;
        packet.header = self.header;
        packet.flags = if reverse { self.flags.with(Flags::REVERSE) } else { self.flags };
        packet.set_ecn(self.ecn);
        packet
    }
}

/// The number nearest to `near` whose low 32 bits are `wire` minus `origin`.
pub const fn unfold(wire: u32, origin: u32, near: u64) -> u64 {
    let low = wire.wrapping_sub(origin);
    let moved = low.wrapping_sub(near as u32) as i32;
    match near.checked_add_signed(moved as i64) {
        Some(number) => number,
        None => low as u64,
    }
}

/// Sets the ECN field of an IPv4 header and corrects its checksum (RFC 1624).
pub fn set_ecn(bytes: &mut [u8], ecn: Ecn) {
    let Some(&service) = bytes.get(1) else { return };
    let marked = service & !3 | ecn as u8;
    if marked != service && bytes.len() >= IP_HEADER {
        replace(bytes, 0, IP_CHECKSUM, 1, &[marked]);
    }
}

/// Bytes of an experimental option with a value of 16 bits.
pub const EXPERIMENT_BYTES: usize = 6;
/// Bytes of a SACK block; bytes of an option with three blocks, kind and length included.
const SACK_BLOCK: usize = 8;
const THREE_BLOCKS: usize = 26;

/// Sets the value of an experimental option in a segment over IPv4, and corrects the checksum. If the segment
/// lacks the option but has at least three SACK blocks, the option replaces the last block, and the segment
/// keeps its length. Returns whether the segment now has the value.
pub fn set_experiment(bytes: &mut [u8], exid: u16, value: u16) -> bool {
    let Some(segment) = Segment::read(bytes) else { return false };
    let ip = usize::from(bytes[0] & 15) * 4;
    let options = ip + 20;
    let [high, low] = value.to_be_bytes();
    if let Some((place, _)) = segment.experiment_at(exid) {
        replace(bytes, ip, TCP_CHECKSUM, options + place + 4, &[high, low]);
        return true;
    }
    let Some((place, body)) = segment.find(|kind, body| kind == SACK && body.len() + 2 >= THREE_BLOCKS) else {
        return false;
    };
    let (start, length) = (options + place, body.len() + 2);
    let [first, second] = exid.to_be_bytes();
    let option = [NOP, NOP, EXPERIMENT, EXPERIMENT_BYTES as u8, first, second, high, low];
    replace(bytes, ip, TCP_CHECKSUM, start + 1, &[(length - SACK_BLOCK) as u8]);
    replace(bytes, ip, TCP_CHECKSUM, start + length - SACK_BLOCK, &option);
    true
}

/// Replaces an experimental option in a segment over IPv4 with no-operation options.
pub fn clear_experiment(bytes: &mut [u8], exid: u16) {
    let Some((place, _)) = Segment::read(bytes).and_then(|segment| segment.experiment_at(exid)) else {
        return;
    };
    let ip = usize::from(bytes[0] & 15) * 4;
    replace(bytes, ip, TCP_CHECKSUM, ip + 20 + place, &[NOP; EXPERIMENT_BYTES]);
}

/// Replaces bytes of the header that begins at `header`, and corrects the header's checksum (RFC 1624), which
/// is at offset `checksum` in the header.
fn replace(bytes: &mut [u8], header: usize, checksum: usize, at: usize, new: &[u8]) {
    // The checksum covers words of 16 bits, so extend the range to whole words; headers have an even length.
    let (from, to) = (header + (at - header) / 2 * 2, header + (at + new.len() - header).next_multiple_of(2));
    let sum = |bytes: &[u8]| -> u32 {
        bytes[from..to].chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
    };
    let words = ((to - from) / 2) as u32;
    let before = sum(bytes);
    bytes[at..at + new.len()].copy_from_slice(new);
    let after = sum(bytes);
    let Some(old) = be16(bytes, header + checksum) else { return };
    // RFC 1624 equation 3: HC' = ~(~HC + ~m + m').
    let mut total = u32::from(!old) + (words * 0xffff - before) + after;
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    bytes[header + checksum..header + checksum + 2].copy_from_slice(&(!(total as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment with 4 bytes of data, timestamps, one SACK block, ECT(0) and a correct header checksum.
    fn segment() -> Vec<u8> {
        let mut bytes = vec![0x45, 2, 0, 68, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1];
        let sum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend([0x9c, 0x40, 0x13, 0x88, 0, 0, 1, 0, 0, 0, 2, 0, 0xb0, 0x10, 1, 0, 0, 0, 0, 0]);
        bytes.extend([1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9]);
        bytes.extend([1, 1, 5, 10, 0, 0, 3, 0, 0, 0, 4, 0]);
        bytes.extend(*b"data");
        bytes
    }

    fn checksum(header: &[u8]) -> u16 {
        let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        !((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// Every field of a segment is read at its offset.
    #[test]
    fn fields_are_read_at_their_places() {
        let bytes = segment();
        let read = Segment::read(&bytes).expect("a segment");
        assert_eq!((read.ports, read.seq, read.ack), ((40_000, 5_000), 256, 512));
        assert_eq!((read.payload, read.header, read.ecn), (4, 64, Ecn::Ect0));
        assert_eq!(read.timestamps(), Some((7, 9)));
        assert_eq!(read.sack().collect::<Vec<_>>(), [(768, 1024)]);
        let packet = read.packet(3, false, (250, 500), (0, 0));
        assert_eq!((packet.external().seq, packet.external().ack, packet.flow), (6, 12, 3));
        assert_eq!(packet.size().as_u64(), 68);
    }

    /// Packets truncated at any length, and packets of other protocols, are refused.
    #[test]
    fn truncated_packets_are_refused() {
        let bytes = segment();
        for length in 0..bytes.len() {
            assert!(Segment::read(&bytes[..length]).is_none(), "{length} bytes");
        }
        assert!(Segment::read(&[0x45, 0, 0, 4]).is_none()); // the length is less than that of a header
        let mut datagram = bytes.clone();
        datagram[9] = 17;
        assert!(Segment::read(&datagram).is_none());
        let mut endless = bytes;
        endless[41] = 0; // an option with the length 0
        assert!(Segment::read(&endless).expect("whole").timestamps().is_none());
    }

    /// Sequence numbers extend to 64 bits across the 32-bit wrap in both directions.
    #[test]
    fn numbers_unfold_across_the_wrap() {
        let origin = u32::MAX - 9;
        assert_eq!(unfold(origin, origin, 0), 0);
        assert_eq!(unfold(5, origin, 0), 15);
        let near = (1 << 32) + 100;
        assert_eq!(unfold(origin.wrapping_add(50), origin, near), (1 << 32) + 50);
        assert_eq!(unfold(origin.wrapping_sub(50), origin, near), (1 << 32) - 50);
    }

    /// The TCP checksum of the segment, pseudo header included.
    fn tcp_checksum(bytes: &[u8]) -> u16 {
        let length = (bytes.len() - 20) as u16;
        let mut all = bytes[12..20].to_vec();
        all.extend([0, 6]);
        all.extend(length.to_be_bytes());
        all.extend_from_slice(&bytes[20..]);
        all.resize(all.len().next_multiple_of(2), 0);
        checksum(&all)
    }

    /// The test segment with these options and a correct checksum.
    fn with_options(options: &[u8]) -> Vec<u8> {
        assert!(options.len().is_multiple_of(4));
        let mut bytes = segment();
        let payload = bytes.split_off(64);
        bytes.truncate(40);
        bytes.extend_from_slice(options);
        bytes.extend(payload);
        bytes[32] = (((20 + options.len()) / 4) << 4) as u8;
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes[36..38].fill(0);
        let sum = tcp_checksum(&bytes);
        bytes[36..38].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Whether the checksum of the segment is correct.
    fn is_intact(bytes: &[u8]) -> bool {
        tcp_checksum(bytes) == 0
    }

    /// The value of an experimental option is read and replaced, at even and odd offsets, and the checksum
    /// stays correct.
    #[test]
    fn experiment_is_replaced_with_checksum() {
        for options in [
            &[1, 1, 253, 6, 0x42, 0x72, 1, 2][..],
            &[1, 253, 6, 0x42, 0x72, 1, 2, 1],
            &[253, 4, 1, 2, 253, 6, 0x42, 0x73, 9, 9, 253, 6, 0x42, 0x72, 1, 2],
        ] {
            let mut bytes = with_options(options);
            assert!(is_intact(&bytes));
            assert_eq!(Segment::read(&bytes).expect("whole").experiment(0x4272), Some(0x0102));
            for value in [0, 1, 0xfff9, 0xffff, 0x0102] {
                assert!(set_experiment(&mut bytes, 0x4272, value));
                assert_eq!(Segment::read(&bytes).expect("whole").experiment(0x4272), Some(value));
                assert!(is_intact(&bytes), "{value}");
            }
            clear_experiment(&mut bytes, 0x4272);
            assert_eq!(Segment::read(&bytes).expect("whole").experiment(0x4272), None);
            assert!(is_intact(&bytes));
        }
    }

    /// Setting an option that the segment lacks replaces the last of three SACK blocks, and fails if there are
    /// only two.
    #[test]
    fn experiment_replaces_the_third_sack_block() {
        let block = |n: u8| [0, 0, n, 0, 0, 0, n, 9];
        let mut options = vec![1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 1, 5, 26];
        (1..=3).for_each(|n| options.extend(block(n)));
        let mut bytes = with_options(&options);
        let length = bytes.len();
        assert!(set_experiment(&mut bytes, 0x4272, 12_005));
        let read = Segment::read(&bytes).expect("whole");
        assert_eq!((read.experiment(0x4272), bytes.len()), (Some(12_005), length));
        assert_eq!(read.sack().collect::<Vec<_>>(), [(0x100, 0x109), (0x200, 0x209)]);
        assert!(is_intact(&bytes));
        options.truncate(32);
        options[15] = 18;
        let mut bytes = with_options(&options);
        assert!(!set_experiment(&mut bytes, 0x4272, 12_005));
    }

    /// Setting the ECN field keeps the header checksum correct.
    #[test]
    fn mark_keeps_checksum() {
        for ecn in [Ecn::Ce, Ecn::Ect1, Ecn::NotEct, Ecn::Ect0] {
            let mut bytes = segment();
            set_ecn(&mut bytes, ecn);
            assert_eq!(Segment::read(&bytes).expect("whole").ecn, ecn);
            let mut header = bytes[..20].to_vec();
            header[10..12].fill(0);
            assert_eq!(checksum(&header).to_be_bytes(), bytes[10..12]);
        }
    }
}
