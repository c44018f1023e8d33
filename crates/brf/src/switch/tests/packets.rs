//! TCP packets with and without the option, as Ethernet frames.

use std::net::Ipv4Addr;

pub(super) const SYN: u8 = 2;
pub(super) const FIN: u8 = 1;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;
/// The code of receivers without a limit.
pub(super) const NO_LIMIT: u16 = super::super::super::NO_LIMIT;

/// A TCP packet.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) from: (Ipv4Addr, u16),
    pub(super) to: (Ipv4Addr, u16),
    pub(super) flags: u8,
    pub(super) payload: usize,
    /// The code in the option; `None` without the option.
    pub(super) code: Option<u16>,
    /// Number of no-operations before the option, which may put it at an odd offset.
    pub(super) padding: usize,
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [a, b] => u32::from(u16::from_be_bytes([*a, *b])),
        [a] => u32::from(*a) << 8,
        _ => 0,
    });
    words.sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Checksum over TCP header, payload and pseudo-header of a frame; zero if it is right.
fn checksum(frame: &[u8]) -> u16 {
    let segment = &frame[34..];
    fold(sum(&frame[26..34]) + 6 + segment.len() as u32 + sum(segment))
}

/// The hardware address of a host.
fn mac(host: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = host.octets();
    [2, 0, a, b, c, d]
}

impl Packet {
    /// The packet as a frame.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut options = vec![1; self.padding];
        if let Some(code) = self.code {
            options.extend_from_slice(&[253, 6, 0x42, 0x72]);
            options.extend_from_slice(&code.to_be_bytes());
        }
        self.frame_with(&options)
    }

    /// The packet as a frame with these options.
    pub(super) fn frame_with(&self, options: &[u8]) -> Vec<u8> {
        let mut options = options.to_vec();
        // End of the list, and padding.
        options.resize(options.len().next_multiple_of(4), 0);
        let header = 20 + options.len();
        let mut out = [mac(self.to.0), mac(self.from.0)].concat();
        out.extend_from_slice(&[8, 0]);
        out.extend_from_slice(&[0x45, 0]);
        out.extend_from_slice(&((20 + header + self.payload) as u16).to_be_bytes());
        out.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
        out.extend_from_slice(&self.from.0.octets());
        out.extend_from_slice(&self.to.0.octets());
        let check = fold(sum(&out[14..34]));
        out[24..26].copy_from_slice(&check.to_be_bytes());
        out.extend_from_slice(&self.from.1.to_be_bytes());
        out.extend_from_slice(&self.to.1.to_be_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&[(header as u8 / 4) << 4, self.flags, 255, 255, 0, 0, 0, 0]);
        out.extend_from_slice(&options);
        out.resize(out.len() + self.payload, 7);
        let check = checksum(&out);
        out[50..52].copy_from_slice(&check.to_be_bytes());
        out
    }

    /// Reads a frame, and whether its checksum is right; `None`: it is not TCP over IPv4.
    pub(super) fn read(frame: &[u8]) -> Option<(Self, bool)> {
        if frame.len() < 54 || frame[12..14] != [8, 0] || frame[14] != 0x45 || frame[23] != 6 {
            return None;
        }
        let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
        let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let total = 14 + usize::from(port(16));
        let frame = frame.get(..total)?;
        let header = usize::from(frame[46] >> 4) * 4;
        let mut options = frame.get(54..34 + header)?;
        let (mut code, mut padding) = (None, 0);
        while let [kind, rest @ ..] = options {
            match kind {
                0 => break,
                1 => {
                    padding += 1;
                    options = rest;
                }
                253 => {
                    code = options.get(4..6).map(|own| u16::from_be_bytes([own[0], own[1]]));
                    break;
                }
                _ => options = options.get(usize::from(*rest.first()?).max(2)..)?,
            }
        }
        let own = Self {
            from: (address(26), port(34)),
            to: (address(30), port(36)),
            flags: frame[47],
            payload: total - 34 - header,
            code,
            padding,
        };
        Some((own, checksum(frame) == 0))
    }

    /// A packet in the other direction, without payload.
    pub(super) fn back(&self, flags: u8, code: Option<u16>) -> Self {
        Self { from: self.to, to: self.from, flags, payload: 0, code, padding: self.padding }
    }
}
