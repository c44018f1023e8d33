//! The TCP stream between client and server: a hello, and then pieces of the payload.

use std::net::Ipv4Addr;

use narrows_cc::Rate;
use narrows_routers::negotiation::{Id, MOST};

/// Length of a hello in bytes.
pub(super) const HELLO: usize = 40;
const MAGIC: &[u8; 6] = b"NRWCTL";
const VERSION: u8 = 1;
/// Maximum number of subflows of a transmission.
pub(super) const MOST_SUBFLOWS: u16 = 16;
/// Length of a piece's head in bytes: the offset and length of the piece.
pub(super) const HEAD: usize = 12;
/// Payload bytes of a full piece.
pub(super) const PIECE: usize = 16 << 10;

/// A client's request for a subflow.
///
/// ```text
/// 0..6 "NRWCTL"  6 version  7 zero  8..12 content  12..14 subflow  14..16 UDP port of the responder
/// 16..24 Max  24..32 Min (bytes per second)  32..40 payload bytes of the transmission; 0: until the client closes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) content: u32,
    pub(super) subflow: u16,
    pub(super) responder: u16,
    pub(super) max: Rate,
    pub(super) min: Rate,
    pub(super) size: u64,
}

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO] {
        let mut out = [0; HELLO];
        out[..6].copy_from_slice(MAGIC);
        out[6] = VERSION;
        out[8..12].copy_from_slice(&self.content.to_be_bytes());
        out[12..14].copy_from_slice(&self.subflow.to_be_bytes());
        out[14..16].copy_from_slice(&self.responder.to_be_bytes());
        let longs = [self.max.as_bytes_per_sec(), self.min.as_bytes_per_sec(), self.size];
        for (place, long) in out[16..].chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&long.to_be_bytes());
        }
        out
    }

    /// Decodes a hello; an error names the problem.
    pub(super) fn decode(bytes: &[u8; HELLO]) -> Result<Self, &'static str> {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        if &bytes[..6] != MAGIC {
            return Err("it is no client of this server");
        }
        if bytes[6] != VERSION {
            return Err("it speaks another version");
        }
        let rate = |at| Rate::from_bytes_per_sec(long(at));
        let hello = Self {
            content: word(8),
            subflow: short(12),
            responder: short(14),
            max: rate(16),
            min: rate(24),
            size: long(32),
        };
        if hello.subflow >= MOST_SUBFLOWS || hello.responder == 0 {
            return Err("it has too many subflows, or no responder");
        }
        if hello.max > MOST || hello.max.is_zero() || hello.min > hello.max {
            return Err("its rates contradict each other");
        }
        Ok(hello)
    }

    /// The ID of the subflow's messages, for a client with this address.
    pub(super) fn id(&self, client: Ipv4Addr) -> Id {
        Id { content: self.content, destination: client.to_bits(), subflow: self.subflow }
    }
}

/// Encodes the head of a piece.
pub(super) fn head(offset: u64, length: usize) -> [u8; HEAD] {
    let mut out = [0; HEAD];
    out[..8].copy_from_slice(&offset.to_be_bytes());
    out[8..].copy_from_slice(&(length as u32).to_be_bytes());
    out
}

/// Reads pieces from a stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    head: Vec<u8>,
    /// Bytes of the current piece that have not arrived yet.
    left: u64,
    /// Payload bytes so far, and the end of the furthest piece.
    pub(super) payload: u64,
    pub(super) end: u64,
}

impl Pieces {
    /// Processes the next bytes of the stream.
    ///
    /// # Errors
    /// If the bytes are not valid pieces.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let count = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= count as u64;
                self.payload += count as u64;
                bytes = &bytes[count..];
                continue;
            }
            let count = bytes.len().min(HEAD - self.head.len());
            self.head.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            if let Ok(head) = <[u8; HEAD]>::try_from(self.head.as_slice()) {
                let (offset, length) = head.split_at(8);
                let offset = u64::from_be_bytes(offset.try_into().unwrap_or_default());
                self.left = u32::from_be_bytes(length.try_into().unwrap_or_default()).into();
                if self.left == 0 || self.left > PIECE as u64 {
                    return Err("the server sent a piece of an invalid length");
                }
                self.end = self.end.max(offset.saturating_add(self.left));
                self.head.clear();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let rate = Rate::from_bytes_per_sec;
        Hello { content: 7, subflow: 1, responder: 9, max: rate(1_000), min: rate(10), size: 5 }
    }

    /// Decoding an encoded hello returns the same hello; invalid bytes are refused with a reason.
    #[test]
    fn hello_survives_encoding_and_others_are_refused() {
        let bytes = hello().encode();
        assert_eq!(Hello::decode(&bytes), Ok(hello()));
        for (at, value) in [(0, b'X'), (6, 2), (12, 1), (16, 255), (24, 1)] {
            let mut other = bytes;
            other[at] = value;
            assert!(Hello::decode(&other).is_err(), "{at}");
        }
    }

    /// Pieces are read correctly however the stream is split.
    #[test]
    fn pieces_are_read_at_any_cut() {
        let mut stream = Vec::new();
        for (offset, length) in [(0_u64, 5_usize), (5, 300), (305, 1)] {
            stream.extend_from_slice(&head(offset, length));
            stream.resize(stream.len() + length, 0);
        }
        for size in 1..stream.len() {
            let mut pieces = Pieces::default();
            for part in stream.chunks(size) {
                pieces.take(part).unwrap();
            }
            assert_eq!((pieces.payload, pieces.end, pieces.left), (306, 306, 0));
        }
        assert!(Pieces::default().take(&head(0, PIECE + 1)).is_err());
    }
}
