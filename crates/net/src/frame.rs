//! The frame: the fields of a packet that network elements use.
//!
//! Elements write only the ECN field. A frame is a value of at most one cache line: the simulator's packet, or a handle
//! to a buffer with a real packet (`tests/real_packets.rs`).

use std::fmt;

use narrows_units::Bytes;

/// ECN codepoint of the IP header (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECN-capable, ECT(1), for L4S (RFC 9331).
    Ect1 = 1,
    /// ECN-capable, ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Returns the codepoint in the two lowest bits of `bits`; ignores the other bits.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Direction of a frame between the endpoints of its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From sender to receiver.
    Forward,
    /// From receiver to sender.
    Reverse,
}

/// A packet, or a handle to its buffer. Links and queues store copies, so a frame should not exceed a cache line. Links
/// and queues read only the fields below, and change only the ECN field.
pub trait Frame: Copy + fmt::Debug {
    /// Length on the wire.
    fn size(&self) -> Bytes;
    /// ECN codepoint.
    fn ecn(&self) -> Ecn;
    /// Sets the ECN codepoint.
    fn set_ecn(&mut self, ecn: Ecn);
    /// Flow key, shared by all frames of a flow. For real packets the key is a hash of the 5-tuple.
    fn flow(&self) -> u32;
    /// Direction. Both directions of a connection may share a flow key.
    fn direction(&self) -> Direction;
}
