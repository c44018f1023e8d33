//! UDP datagrams with control messages, as hosts send and receive them.

use std::net::SocketAddrV4;
use std::ops::Range;

use narrows_packet::ControlMessage;

const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP_PROTOCOL: u8 = 17;
const TIME_TO_LIVE: u8 = 64;

/// Ports of a host's datagram, and the range of its payload.
pub(super) fn read_datagram(bytes: &[u8]) -> Option<((u16, u16), Range<usize>)> {
    let short = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let first = *bytes.first()?;
    let ip = usize::from(first & 15) * 4;
    if first >> 4 != 4 || ip < IP_HEADER || *bytes.get(9)? != UDP_PROTOCOL {
        return None;
    }
    let length = usize::from(short(ip + 4)?);
    let payload = ip + UDP_HEADER..ip.checked_add(length)?;
    let fits = payload.start <= payload.end && payload.end <= bytes.len();
    (fits && payload.len() <= ControlMessage::MAX_BYTES).then_some(((short(ip)?, short(ip + 2)?), payload))
}

/// The datagram of a message between two ports, without a UDP checksum.
pub(super) fn write_datagram(from: SocketAddrV4, to: SocketAddrV4, message: &[u8]) -> Vec<u8> {
    let length = (IP_HEADER + UDP_HEADER + message.len()) as u16;
    let mut out = vec![0; IP_HEADER];
    out[0] = 0x45;
    out[2..4].copy_from_slice(&length.to_be_bytes());
    out[8] = TIME_TO_LIVE;
    out[9] = UDP_PROTOCOL;
    out[12..16].copy_from_slice(&from.ip().octets());
    out[16..20].copy_from_slice(&to.ip().octets());
    let mut sum: u32 = out.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    out[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    for port in [from.port(), to.port(), length - IP_HEADER as u16, 0] {
        out.extend_from_slice(&port.to_be_bytes());
    }
    out.extend_from_slice(message);
    out
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use narrows_negotiation::PORT;

    use super::*;

    /// A written datagram reads back unchanged, and its IP header has a valid checksum.
    #[test]
    fn written_datagrams_are_read() {
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 10_003);
        let to = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), PORT);
        let bytes = write_datagram(from, to, &[7; 32]);
        let (ports, payload) = read_datagram(&bytes).expect("a datagram");
        assert_eq!((ports, &bytes[payload]), ((10_003, PORT), &[7; 32][..]));
        let sum: u32 =
            bytes[..IP_HEADER].chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    /// Truncated and overlong packets, and packets of other protocols, are refused.
    #[test]
    fn malformed_datagrams_are_refused() {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);
        let whole = write_datagram(address, address, &[7; 20]);
        for end in 0..whole.len() {
            assert!(read_datagram(&whole[..end]).is_none(), "{end}");
        }
        assert!(read_datagram(&write_datagram(address, address, &[7; 41])).is_none());
        let mut short = whole.clone();
        short[IP_HEADER + 5] = 3; // less than the UDP header
        assert!(read_datagram(&short).is_none());
        let mut other = whole;
        other[9] = 6;
        assert!(read_datagram(&other).is_none());
    }
}
