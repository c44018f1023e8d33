//! Header encoding and decoding (RFC 4340 sections 5.1 to 5.6).

use thiserror::Error;

use super::kind::{Kind, ResetCode};
use crate::seq::Seq;

/// Longest header with options: the data offset counts 32-bit words in one byte.
pub const MAX_HEADER: usize = 255 * 4;

/// Shortest header: Data with a short sequence number.
pub const MIN_HEADER: usize = Kind::Data.header_len(false);

/// Packet contents after the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Body<'a> {
    /// Options with padding; [`super::options`] parses them.
    pub options: &'a [u8],
    /// Application data.
    pub data: &'a [u8],
}

/// Reason for rejecting bytes as a packet. RFC 4340 section 8.5, step 1: such packets are dropped without a
/// reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// The packet ends inside its fixed header.
    #[error("the packet ends at byte {have}; its header has {needed} bytes")]
    Truncated {
        /// Header length of this type in bytes.
        needed: usize,
        /// Bytes present.
        have: usize,
    },
    /// A reserved packet type.
    #[error("byte 8: packet type {0} is reserved; types are 0 to 9")]
    Kind(u8),
    /// A short sequence number on a type that requires a long one.
    #[error("byte 8: {0:?} has a short sequence number (X = 0); only Data, Ack and DataAck may")]
    Short(Kind),
    /// The data offset points inside the header.
    #[error("byte 4: data starts at byte {offset}, inside the header of {needed} bytes")]
    OffsetInHeader {
        /// Data offset in bytes.
        offset: usize,
        /// Header length in bytes.
        needed: usize,
    },
    /// The data offset points beyond the end of the packet.
    #[error("byte 4: data starts at byte {offset}, after the packet's end at {have}")]
    OffsetBeyond {
        /// Data offset in bytes.
        offset: usize,
        /// Bytes present.
        have: usize,
    },
    /// The checksum coverage exceeds the data.
    #[error("byte 5: the checksum covers {covered} bytes of data; the packet has {have}")]
    Coverage {
        /// Bytes of data that CsCov selects.
        covered: usize,
        /// Bytes of data present.
        have: usize,
    },
}

/// A header without options. Fields that the type lacks are zero or `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// DCCP source port.
    pub source: u16,
    /// DCCP destination port.
    pub destination: u16,
    /// CCVal: four bits of the sender's CCID; CCID 3's window counter.
    pub ccval: u8,
    /// Checksum coverage (CsCov): 0 covers everything, n covers the header and 4(n − 1) bytes of data.
    pub coverage: u8,
    /// Packet type.
    pub kind: Kind,
    /// Long sequence numbers (X = 1).
    pub long: bool,
    /// Sequence number; the low 24 bits if `long` is not set.
    pub seq: u64,
    /// Acknowledgement number, of the same width as `seq`; `None` for Request and Data.
    pub ack: Option<u64>,
    /// Service code of Request and Response.
    pub service: u32,
    /// Fields of a Reset: the code as received and three bytes of data.
    pub reset: (u8, [u8; 3]),
}

impl Header {
    /// A header of `kind` with long sequence numbers and all other fields zero. Acknowledging types get
    /// acknowledgement number 0.
    pub const fn new(kind: Kind) -> Self {
        Self {
            source: 0,
            destination: 0,
            ccval: 0,
            coverage: 0,
            kind,
            long: true,
            seq: 0,
            ack: if kind.acknowledges() { Some(0) } else { None },
            service: 0,
            reset: (0, [0; 3]),
        }
    }

    /// The Reset for a packet without a connection. Its sequence number is the acknowledgement number plus one, or 0
    /// (RFC 4340 section 8.3.1). A Reset must not trigger another Reset.
    pub fn refusal(&self, code: ResetCode) -> Self {
        let mut reset = Self::new(Kind::Reset);
        (reset.source, reset.destination) = (self.destination, self.source);
        // The upper 24 bits of short numbers are zero.
        let width = if self.is_long() { u64::MAX } else { 0xff_ffff };
        reset.seq = self.ack.map_or(0, |ack| Seq::new(ack).add(1).get() & width);
        reset.ack = Some(self.seq);
        reset.reset = (code as u8, [0; 3]);
        reset
    }

    /// Header length in bytes without options.
    pub const fn len(&self) -> usize {
        self.kind.header_len(self.is_long())
    }

    /// Always `false`: a header has at least 12 bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Bytes available for options, padding included.
    pub const fn room(&self) -> usize {
        MAX_HEADER - self.len()
    }

    /// Packets of types without a short form have long numbers, regardless of the field `long`.
    const fn is_long(&self) -> bool {
        self.long || !self.kind.may_be_short()
    }

    /// Decodes header, options and data of a whole packet. Does not check the checksum; [`super::verify`]
    /// does.
    ///
    /// # Errors
    /// If the lengths contradict each other or the type is reserved (RFC 4340 section 8.5, step 1).
    pub fn decode(bytes: &[u8]) -> Result<(Self, Body<'_>), DecodeError> {
        let (header, body) = Self::decode_any_coverage(bytes)?;
        let covered = usize::from(header.coverage.saturating_sub(1)) * 4;
        if covered > body.data.len() {
            return Err(DecodeError::Coverage { covered, have: body.data.len() });
        }
        Ok((header, body))
    }

    /// Like [`Header::decode`], for encapsulations without partial coverage.
    pub(crate) fn decode_any_coverage(bytes: &[u8]) -> Result<(Self, Body<'_>), DecodeError> {
        let have = bytes.len();
        if have < MIN_HEADER {
            return Err(DecodeError::Truncated { needed: MIN_HEADER, have });
        }
        let number = bytes[8] >> 1 & 15;
        let kind = Kind::from_wire(number).ok_or(DecodeError::Kind(number))?;
        let long = bytes[8] & 1 == 1;
        if !long && !kind.may_be_short() {
            return Err(DecodeError::Short(kind));
        }
        let needed = kind.header_len(long);
        if have < needed {
            return Err(DecodeError::Truncated { needed, have });
        }
        let offset = usize::from(bytes[4]) * 4;
        if offset < needed {
            return Err(DecodeError::OffsetInHeader { offset, needed });
        }
        if offset > have {
            return Err(DecodeError::OffsetBeyond { offset, have });
        }
        let (seq, mut at) = if long { (number48(&bytes[10..]), 16) } else { (number24(&bytes[9..]), 12) };
        let ack = kind.acknowledges().then(|| {
            let (ack, length) = if long { (number48(&bytes[at + 2..]), 8) } else { (number24(&bytes[at + 1..]), 4) };
            at += length;
            ack
        });
        let mut header = Self {
            source: u16::from_be_bytes([bytes[0], bytes[1]]),
            destination: u16::from_be_bytes([bytes[2], bytes[3]]),
            ccval: bytes[5] >> 4,
            coverage: bytes[5] & 15,
            kind,
            long,
            seq,
            ack,
            service: 0,
            reset: (0, [0; 3]),
        };
        match kind {
            Kind::Request | Kind::Response => {
                header.service = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            }
            Kind::Reset => header.reset = (bytes[at], [bytes[at + 1], bytes[at + 2], bytes[at + 3]]),
            _ => {}
        }
        Ok((header, Body { options: &bytes[needed..offset], data: &bytes[offset..] }))
    }

    /// Appends the packet to `out`: header, `options` padded to a multiple of 32 bits, `data`. The checksum
    /// is zero until [`super::seal`].
    ///
    /// Sequence numbers are truncated to the width of their fields. A coverage beyond the data becomes 0
    /// (everything). An acknowledging type without a number acknowledges 0; other types ignore `ack`.
    ///
    /// # Panics
    /// If the options exceed [`Header::room`].
    pub fn encode(&self, options: &[u8], data: &[u8], out: &mut Vec<u8>) {
        let long = self.is_long();
        let padded = options.len().next_multiple_of(4);
        assert!(padded <= self.room(), "{} bytes of options; the header has room for {}", options.len(), self.room());
        let offset = (self.len() + padded) / 4;
        let coverage = self.coverage & 15;
        let coverage = if usize::from(coverage.saturating_sub(1)) * 4 > data.len() { 0 } else { coverage };
        out.reserve(offset * 4 + data.len());
        out.extend_from_slice(&self.source.to_be_bytes());
        out.extend_from_slice(&self.destination.to_be_bytes());
        out.extend_from_slice(&[offset as u8, (self.ccval & 15) << 4 | coverage, 0, 0]);
        out.push((self.kind as u8) << 1 | u8::from(long));
        if long {
            out.push(0);
        }
        put_number(self.seq, long, out);
        if self.kind.acknowledges() {
            out.push(0);
            if long {
                out.push(0);
            }
            put_number(self.ack.unwrap_or(0), long, out);
        }
        match self.kind {
            Kind::Request | Kind::Response => out.extend_from_slice(&self.service.to_be_bytes()),
            Kind::Reset => {
                out.push(self.reset.0);
                out.extend_from_slice(&self.reset.1);
            }
            _ => {}
        }
        out.extend_from_slice(options);
        out.extend_from_slice(&[0; 3][..padded - options.len()]);
        out.extend_from_slice(data);
    }
}

/// The first 48 bits as a number.
fn number48(b: &[u8]) -> u64 {
    u64::from_be_bytes([0, 0, b[0], b[1], b[2], b[3], b[4], b[5]])
}

/// The first 24 bits as a number.
fn number24(b: &[u8]) -> u64 {
    u64::from_be_bytes([0, 0, 0, 0, 0, b[0], b[1], b[2]])
}

/// Appends the low 48 or 24 bits of `n`.
fn put_number(n: u64, long: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&n.to_be_bytes()[if long { 2 } else { 5 }..]);
}
