//! The checksum (RFC 4340 section 9): the Internet checksum over a pseudo-header, the header with its
//! options, and the part of the data that CsCov selects.

use super::header::MIN_HEADER;

/// IPv4 addresses of the pseudo-header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// Sender address.
    pub source: [u8; 4],
    /// Receiver address.
    pub destination: [u8; 4],
}

/// DCCP's IP protocol number.
const PROTOCOL: u8 = 33;

/// Position of the checksum field in the header.
const FIELD: std::ops::Range<usize> = 6..8;

/// Checksum of a whole packet with coverage `coverage` (CsCov), taking the checksum field as zero. Without
/// addresses the pseudo-header is left out.
///
/// The pseudo-header carries the length of the whole packet even under partial coverage (section 9.1). A data
/// offset or coverage beyond the end of the packet covers the whole packet; [`super::Header::decode`] rejects
/// such packets.
pub fn checksum(addresses: Option<Addresses>, packet: &[u8], coverage: u8) -> u16 {
    let covered = covered(packet, coverage);
    let (before, after) = (&covered[..covered.len().min(FIELD.start)], &covered[covered.len().min(FIELD.end)..]);
    internet_checksum(pseudo_header(addresses, packet), &[before, after])
}

/// The bytes that the checksum covers.
fn covered(packet: &[u8], coverage: u8) -> &[u8] {
    let offset = packet.get(4).map_or(0, |&words| usize::from(words) * 4);
    match coverage & 15 {
        0 => packet,
        n => &packet[..(offset + usize::from(n - 1) * 4).min(packet.len())],
    }
}

fn pseudo_header(addresses: Option<Addresses>, packet: &[u8]) -> Option<(Addresses, u8, usize)> {
    addresses.map(|addresses| (addresses, PROTOCOL, packet.len()))
}

/// Internet checksum (RFC 1071) over a pseudo-header (addresses, protocol, length) and parts. Every part but
/// the last must have an even length.
pub(crate) fn internet_checksum(pseudo: Option<(Addresses, u8, usize)>, parts: &[&[u8]]) -> u16 {
    let mut sum: u64 = parts.iter().map(|part| sum_words(part)).sum();
    if let Some((Addresses { source, destination }, protocol, length)) = pseudo {
        // A 32-bit word counts as the sum of its halves, because 2^16 equals 1 in 16-bit one's complement arithmetic.
        sum += u64::from(u32::from_be_bytes(source)) + u64::from(u32::from_be_bytes(destination));
        sum += u64::from(protocol) + length as u64;
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Writes the checksum, for the coverage in the header. Packets shorter than a header stay unchanged.
pub fn seal(addresses: Option<Addresses>, packet: &mut [u8]) {
    if packet.len() < MIN_HEADER {
        return;
    }
    let value = checksum(addresses, packet, packet[5]);
    packet[FIELD].copy_from_slice(&value.to_be_bytes());
}

/// Whether the checksum matches header and addresses.
pub fn verify(addresses: Option<Addresses>, packet: &[u8]) -> bool {
    // For a valid packet the sum, including the checksum field, is all ones, so the checksum over all bytes is zero.
    packet.len() >= MIN_HEADER
        && internet_checksum(pseudo_header(addresses, packet), &[covered(packet, packet[5])]) == 0
}

/// Sum of the 16-bit words; an odd last byte is padded with zero.
fn sum_words(bytes: &[u8]) -> u64 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let sum: u64 = pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum();
    sum + odd.first().map_or(0, |&byte| u64::from(byte) << 8)
}
