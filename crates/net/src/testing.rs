//! A frame for the tests of this crate.

use narrows_units::Bytes;

use crate::{Direction, Ecn, Frame};

/// Header bytes of a packet.
pub(crate) const HEADER_BYTES: u16 = 52;

/// A packet with a sequence number, of the size of one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Packet {
    pub(crate) flow: u32,
    pub(crate) seq: u64,
    pub(crate) header: u16,
    pub(crate) payload: u16,
    pub(crate) ecn: Ecn,
    pub(crate) direction: Direction,
}

impl Packet {
    pub(crate) const fn new(flow: u32) -> Self {
        let (ecn, direction) = (Ecn::NotEct, Direction::Forward);
        Self { flow, seq: 0, header: HEADER_BYTES, payload: 0, ecn, direction }
    }
}

/// Packet `seq` of a flow, of `size` bytes in total.
pub(crate) fn packet(flow: u32, seq: u64, size: u16) -> Packet {
    Packet { seq, payload: size - HEADER_BYTES, ..Packet::new(flow) }
}

impl Frame for Packet {
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.header) + u64::from(self.payload))
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    fn flow(&self) -> u32 {
        self.flow
    }

    fn direction(&self) -> Direction {
        self.direction
    }
}
