//! Headers to bytes and back (RFC 4340 sections 5.1 to 5.6).

use thiserror::Error;

use super::{Header, Kind, ResetCode};
use crate::Seq;

/// The most that header and options may take: the data offset counts 32-bit words in one byte.
pub const MAX_HEADER: usize = 255 * 4;

/// The shortest header: Data with a short number.
pub const MIN_HEADER: usize = 12;

/// What follows the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Body<'a> {
    /// Options with their padding; [`super::options`] reads them.
    pub options: &'a [u8],
    /// Application data.
    pub data: &'a [u8],
}

/// Why bytes are not a packet. RFC 4340 section 8.5, step 1: such packets are dropped without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// The packet ends inside its fixed header.
    #[error("the packet ends at byte {have}, its header takes {needed}")]
    Truncated {
        /// Bytes that the header of this type takes.
        needed: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A reserved packet type.
    #[error("byte 8: packet type {0} is reserved; types are 0 to 9")]
    Kind(u8),
    /// Short numbers where there are none.
    #[error("byte 8: {0:?} has a short sequence number (X = 0); only Data, Ack and DataAck may")]
    Short(Kind),
    /// Data would start inside the header.
    #[error("byte 4: data starts at byte {offset}, inside the header of {needed} bytes")]
    OffsetInHeader {
        /// Where data starts, in bytes.
        offset: usize,
        /// Bytes that the header takes.
        needed: usize,
    },
    /// Data would start after the packet's end.
    #[error("byte 4: data starts at byte {offset}, after the packet's end at {have}")]
    OffsetBeyond {
        /// Where data starts, in bytes.
        offset: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// The checksum would cover more than there is.
    #[error("byte 5: the checksum covers {covered} bytes of data, there are {have}")]
    Coverage {
        /// Bytes of data that CsCov names.
        covered: usize,
        /// Bytes of data that are there.
        have: usize,
    },
}

impl Kind {
    /// The type with this number on the wire; none if the number is reserved.
    pub const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Request,
            1 => Self::Response,
            2 => Self::Data,
            3 => Self::Ack,
            4 => Self::DataAck,
            5 => Self::CloseReq,
            6 => Self::Close,
            7 => Self::Reset,
            8 => Self::Sync,
            9 => Self::SyncAck,
            _ => return None,
        })
    }

    /// Whether it carries an acknowledgement number.
    pub const fn acknowledges(self) -> bool {
        !matches!(self, Self::Request | Self::Data)
    }

    /// Whether its numbers may be short (X = 0).
    pub const fn may_be_short(self) -> bool {
        matches!(self, Self::Data | Self::Ack | Self::DataAck)
    }

    /// Whether it is a data packet in the sense of RFC 4340: what loss of data and the NDP count are about.
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Request | Self::Response | Self::Data | Self::DataAck)
    }

    /// Bytes of its header without options, with long or short numbers.
    pub const fn header_len(self, long: bool) -> usize {
        let generic = if long { 16 } else { MIN_HEADER };
        let acknowledgement = match (self.acknowledges(), long) {
            (false, _) => 0,
            (true, true) => 8,
            (true, false) => 4,
        };
        let own = if matches!(self, Self::Request | Self::Response | Self::Reset) { 4 } else { 0 };
        generic + acknowledgement + own
    }
}

impl ResetCode {
    /// The code with this number; none for numbers that are reserved or a CCID's (128 and above).
    pub const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unspecified,
            1 => Self::Closed,
            2 => Self::Aborted,
            3 => Self::NoConnection,
            4 => Self::PacketError,
            5 => Self::OptionError,
            6 => Self::MandatoryError,
            7 => Self::ConnectionRefused,
            8 => Self::BadServiceCode,
            9 => Self::TooBusy,
            10 => Self::BadInitCookie,
            11 => Self::AggressionPenalty,
            _ => return None,
        })
    }

    /// Its name in RFC 4340 section 5.6, in small letters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Closed => "closed",
            Self::Aborted => "aborted",
            Self::NoConnection => "no connection",
            Self::PacketError => "packet error",
            Self::OptionError => "option error",
            Self::MandatoryError => "mandatory error",
            Self::ConnectionRefused => "connection refused",
            Self::BadServiceCode => "bad service code",
            Self::TooBusy => "too busy",
            Self::BadInitCookie => "bad init cookie",
            Self::AggressionPenalty => "aggression penalty",
        }
    }
}

impl Header {
    /// A header of `kind` with long numbers and everything else zero; acknowledging types acknowledge number 0.
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

    /// The Reset for a packet of no connection: its number follows the acknowledgement, if there is one (RFC 4340 section 8.3.1).
    /// A Reset is not to be answered so.
    pub fn refusal(&self, code: ResetCode) -> Self {
        let mut reset = Self::new(Kind::Reset);
        (reset.source, reset.destination) = (self.destination, self.source);
        // Of short numbers the upper half is zero.
        let width = if self.is_long() { u64::MAX } else { 0xff_ffff };
        reset.seq = self.ack.map_or(0, |ack| Seq::new(ack).add(1).get() & width);
        reset.ack = Some(self.seq);
        reset.reset = (code as u8, [0; 3]);
        reset
    }

    /// Bytes that the header takes without options.
    pub const fn len(&self) -> usize {
        self.kind.header_len(self.is_long())
    }

    /// Never: a header has at least 12 bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Bytes that options may take, padding included.
    pub const fn room(&self) -> usize {
        MAX_HEADER - self.len()
    }

    /// Types that have no short form are long whatever the field says.
    const fn is_long(&self) -> bool {
        self.long || !self.kind.may_be_short()
    }

    /// The header, options and data of a whole packet. The checksum is not looked at: [`super::verify`] does that.
    ///
    /// # Errors
    /// Where the packet's lengths contradict each other or its type is reserved (RFC 4340 section 8.5, step 1).
    pub fn decode(bytes: &[u8]) -> Result<(Self, Body<'_>), DecodeError> {
        let (header, body) = Self::decode_any_coverage(bytes)?;
        let covered = usize::from(header.coverage.saturating_sub(1)) * 4;
        if covered > body.data.len() {
            return Err(DecodeError::Coverage { covered, have: body.data.len() });
        }
        Ok((header, body))
    }

    /// As [`Header::decode`], for a carrier that makes the coverage meaningless.
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
            let (ack, length) =
                if long { (number48(&bytes[at + 2..]), 8) } else { (number24(&bytes[at + 1..]), 4) };
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

    /// Appends the packet to `out`: this header, `options` padded to a multiple of 32 bits, `data`. The checksum is zero;
    /// [`super::seal`] puts one in.
    ///
    /// Numbers keep as many low bits as their fields have. A coverage of more data than there is becomes 0, everything. A
    /// type that must acknowledge and has no number acknowledges 0; one that cannot, ignores it.
    ///
    /// # Panics
    /// If the options take more than [`Header::room`].
    pub fn encode(&self, options: &[u8], data: &[u8], out: &mut Vec<u8>) {
        let long = self.is_long();
        let padded = options.len().next_multiple_of(4);
        assert!(
            padded <= self.room(),
            "{} bytes of options, there is room for {}",
            options.len(),
            self.room()
        );
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

/// The first 48 bits.
fn number48(b: &[u8]) -> u64 {
    u64::from_be_bytes([0, 0, b[0], b[1], b[2], b[3], b[4], b[5]])
}

/// The first 24 bits.
fn number24(b: &[u8]) -> u64 {
    u64::from_be_bytes([0, 0, 0, 0, 0, b[0], b[1], b[2]])
}

/// The low 48 or 24 bits.
fn put_number(n: u64, long: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&n.to_be_bytes()[if long { 2 } else { 5 }..]);
}
