//! Explicit header fields: what senders and the network tell each other beside TCP's own header.

use narrows_cc::Explicit;

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
}

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
        }
    }

    /// Bytes on the wire.
    #[inline]
    pub const fn wire_bytes(&self) -> u16 {
        match self.explicit() {
            Some(explicit) => explicit.header_bytes(),
            None => 0,
        }
    }

    /// Slots of a packet that it takes.
    #[inline]
    pub(crate) const fn slots(&self) -> usize {
        match self {
            Self::None | Self::BrfOffer => 0,
            Self::XcpRequest { .. } => 2,
            Self::RcpRequest { .. }
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
            _ => Self::None,
        }
    }
}
