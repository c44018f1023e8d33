//! The checksum (RFC 4340 section 9): the Internet checksum over a pseudo-header, the header with its options, and as much of
//! the data as CsCov says.

/// The IPv4 addresses of the pseudo-header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// Of the sender.
    pub source: [u8; 4],
    /// Of the receiver.
    pub destination: [u8; 4],
}

/// DCCP's number among the protocols of IP.
const PROTOCOL: u8 = 33;

/// Where the checksum stands in the header.
const FIELD: std::ops::Range<usize> = 6..8;

/// The checksum of a whole packet whose coverage is `coverage` (CsCov), its checksum field taken as zero. Without addresses
/// the pseudo-header is left out.
///
/// The pseudo-header's length is that of the whole packet, also where not all of it is covered (section 9.1). A data offset
/// or a coverage beyond the packet's end covers all there is: whether such a packet is one, [`super::Header::decode`] says.
pub fn checksum(addresses: Option<Addresses>, packet: &[u8], coverage: u8) -> u16 {
    let covered = covered(packet, coverage);
    let (before, after) =
        (&covered[..covered.len().min(FIELD.start)], &covered[covered.len().min(FIELD.end)..]);
    internet_checksum(pseudo_header(addresses, packet), &[before, after])
}

/// The bytes of a packet that its checksum covers.
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

/// The Internet checksum (RFC 1071) over a pseudo-header of addresses, protocol and length, and over parts that all but the last
/// have an even length.
pub(crate) fn internet_checksum(pseudo: Option<(Addresses, u8, usize)>, parts: &[&[u8]]) -> u16 {
    let mut sum: u64 = parts.iter().map(|part| sum_words(part)).sum();
    if let Some((Addresses { source, destination }, protocol, length)) = pseudo {
        // 32-bit words fold to the sum of their halves: 2^16 is 1 in one's complement.
        sum += u64::from(u32::from_be_bytes(source)) + u64::from(u32::from_be_bytes(destination));
        sum += u64::from(protocol) + length as u64;
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Puts the checksum into a packet whose header says its coverage. Packets shorter than a header are left alone.
pub fn seal(addresses: Option<Addresses>, packet: &mut [u8]) {
    if packet.len() < super::MIN_HEADER {
        return;
    }
    let value = checksum(addresses, packet, packet[5]);
    packet[FIELD].copy_from_slice(&value.to_be_bytes());
}

/// Whether the packet carries the checksum that its header and addresses ask for.
pub fn verify(addresses: Option<Addresses>, packet: &[u8]) -> bool {
    // With the field included the sum is all ones, whose complement is zero.
    packet.len() >= super::MIN_HEADER
        && internet_checksum(pseudo_header(addresses, packet), &[covered(packet, packet[5])]) == 0
}

/// The sum of the 16-bit words, a last odd byte padded with zero.
fn sum_words(bytes: &[u8]) -> u64 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let sum: u64 = pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum();
    sum + odd.first().map_or(0, |&byte| u64::from(byte) << 8)
}
