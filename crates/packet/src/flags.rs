//! Header flags.

/// Header flags of a packet, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Opens a connection; occupies one sequence number.
    pub const SYN: Self = Self(1);
    /// Ends one direction of a connection; occupies one sequence number after the payload.
    pub const FIN: Self = Self(2);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(4);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(8);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(16);
    /// Marks a retransmission. Not on the wire; for traces only.
    pub const RETRANSMISSION: Self = Self(32);
    /// Marks a packet from receiver to sender. Not on the wire; it represents the address pair.
    pub const REVERSE: Self = Self(64);

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// The union with `other`.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
