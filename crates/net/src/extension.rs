//! Explicit header fields: what senders and the network tell each other beside TCP's own header.

use crate::allocator::protocol::Explicit;

/// The explicit header of a packet. Rates are in bytes per second on the wire, headers included, and travel as 32-bit
/// IEEE floats; times in microseconds. Whoever reads a field must expect anything in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Extension {
    /// The packet has none.
    #[default]
    None,
    /// RCP, from sender to receiver.
    RcpRequest {
        /// The least rate of the routers passed; below zero: not set.
        rate: f32,
        /// The sender's round-trip time, zero if unknown.
        rtt_us: u32,
    },
    /// RCP, from receiver to sender.
    RcpReply {
        /// The rate of the packet that arrived last.
        rate: f32,
    },
    /// XCP, from sender to receiver.
    XcpRequest {
        /// The sender's round-trip time, zero if unknown.
        rtt_us: u32,
        /// Seconds between two packets (X).
        spacing: f32,
        /// The change of throughput desired by the sender, then that allotted by the routers passed.
        delta: f32,
    },
    /// XCP, from receiver to sender.
    XcpReply {
        /// The changes allotted to all packets that arrived since the last acknowledgement, added up.
        delta: f32,
    },
    /// BRF, from sender to receiver, in the SYN: this flow obeys.
    BrfOffer,
    /// BRF, from receiver to sender: written by switches.
    BrfRate {
        /// The rate, a decimal mantissa and exponent; see the allocator.
        code: u16,
    },
    /// Multipath TCP, in SYNs: this is the first subflow of a connection (RFC 8684 section 3.1). What keys do is not modelled.
    Capable {
        /// In the answer, which has a key.
        answer: bool,
    },
    /// Multipath TCP, in SYNs: this subflow joins a connection (RFC 8684 section 3.2).
    Join {
        /// Number of the subflow, which stands for its address.
        address: u8,
        /// In the answer, which has an authenticator.
        answer: bool,
    },
    /// Multipath TCP, with data: where in the connection's data it belongs (RFC 8684 section 3.3, eight-byte numbers, no
    /// checksum).
    Mapping {
        /// Data sequence number of the first payload byte.
        data: u64,
        /// Sequence number of the same byte on the subflow.
        subflow: u32,
        /// Payload bytes.
        len: u16,
        /// The connection's data ends after them (DATA_FIN).
        fin: bool,
    },
    /// Multipath TCP, from receiver to sender: the next data sequence number expected (RFC 8684 section 3.3.2).
    DataAck {
        /// Its low 32 bits: the short form, beside which two SACK blocks have room.
        ack: u32,
    },
}

/// Bytes that a mapping adds to a packet with data, padding included.
pub const MAPPING_BYTES: u16 = 20;

/// A piece of the packet that holds a SACK block or a part of an extension.
pub(crate) type Slot = (u32, u32);

impl Extension {
    /// Which header it belongs to.
    #[inline]
    pub const fn explicit(&self) -> Option<Explicit> {
        match self {
            Self::None => None,
            Self::RcpRequest { .. } | Self::RcpReply { .. } => Some(Explicit::Rcp),
            Self::XcpRequest { .. } | Self::XcpReply { .. } => Some(Explicit::Xcp),
            Self::BrfOffer | Self::BrfRate { .. } => Some(Explicit::Brf),
            Self::Capable { .. } | Self::Join { .. } | Self::Mapping { .. } | Self::DataAck { .. } => None,
        }
    }

    /// Bytes on the wire.
    #[inline]
    pub const fn wire_bytes(&self) -> u16 {
        match self {
            // RFC 8684: 4 and 12, 12 and 16 bytes; a mapping is 4 + 8 + 4 + 2 and two of padding; an acknowledgement 4 + 4.
            Self::Capable { answer: false } => 4,
            Self::Capable { answer: true } | Self::Join { answer: false, .. } => 12,
            Self::Join { answer: true, .. } => 16,
            Self::Mapping { .. } => MAPPING_BYTES,
            Self::DataAck { .. } => 8,
            _ => match self.explicit() {
                Some(explicit) => explicit.header_bytes(),
                None => 0,
            },
        }
    }

    /// Slots of a packet that it takes.
    #[inline]
    pub(crate) const fn slots(&self) -> usize {
        match self {
            Self::None | Self::BrfOffer => 0,
            Self::XcpRequest { .. } | Self::Mapping { .. } => 2,
            Self::Capable { .. }
            | Self::Join { .. }
            | Self::DataAck { .. }
            | Self::RcpRequest { .. }
            | Self::RcpReply { .. }
            | Self::XcpReply { .. }
            | Self::BrfRate { .. } => 1,
        }
    }

    /// Its tag, and its fields from the last slot backwards.
    #[inline]
    pub(crate) const fn encode(&self) -> (u8, [Slot; 2]) {
        match *self {
            Self::None => (0, [(0, 0); 2]),
            Self::RcpRequest { rate, rtt_us } => (1, [(rate.to_bits(), rtt_us), (0, 0)]),
            Self::RcpReply { rate } => (2, [(rate.to_bits(), 0), (0, 0)]),
            Self::XcpRequest { rtt_us, spacing, delta } => {
                (3, [(spacing.to_bits(), rtt_us), (delta.to_bits(), 0)])
            }
            Self::XcpReply { delta } => (4, [(delta.to_bits(), 0), (0, 0)]),
            Self::BrfOffer => (5, [(0, 0); 2]),
            Self::BrfRate { code } => (6, [(code as u32, 0), (0, 0)]),
            Self::Capable { answer } => (7, [(answer as u32, 0), (0, 0)]),
            Self::Join { address, answer } => (8, [(answer as u32, address as u32), (0, 0)]),
            Self::Mapping { data, subflow, len, fin } => {
                (9, [((data >> 32) as u32, data as u32), (subflow, (fin as u32) << 16 | len as u32)])
            }
            Self::DataAck { ack } => (10, [(ack, 0), (0, 0)]),
        }
    }

    /// The reverse of [`Extension::encode`]; an unknown tag is no extension.
    #[inline]
    pub const fn decode(tag: u8, [last, before]: [Slot; 2]) -> Self {
        match tag {
            1 => Self::RcpRequest { rate: f32::from_bits(last.0), rtt_us: last.1 },
            2 => Self::RcpReply { rate: f32::from_bits(last.0) },
            3 => Self::XcpRequest {
                rtt_us: last.1,
                spacing: f32::from_bits(last.0),
                delta: f32::from_bits(before.0),
            },
            4 => Self::XcpReply { delta: f32::from_bits(last.0) },
            5 => Self::BrfOffer,
            6 => Self::BrfRate { code: last.0 as u16 },
            7 => Self::Capable { answer: last.0 != 0 },
            8 => Self::Join { address: last.1 as u8, answer: last.0 != 0 },
            9 => Self::Mapping {
                data: (last.0 as u64) << 32 | last.1 as u64,
                subflow: before.0,
                len: before.1 as u16,
                fin: before.1 >> 16 & 1 != 0,
            },
            10 => Self::DataAck { ack: last.0 },
            _ => Self::None,
        }
    }
}
