//! Parts shared by all queue disciplines: the backlog, its limit, and marks.

use narrows_units::Nanos;

use crate::timed_ring::TimedRing;
use crate::{Ecn, Frame};

/// MTU assumed by the disciplines, in bytes.
pub(super) const MTU: u64 = 1500;

/// Limit that applies to an arriving packet. The arriving packet itself counts towards the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// The link is idle: the packet need not wait.
    Idle,
    Packets(u64),
    Bytes(u64),
}

impl Room {
    /// Whether a queue of `packets` packets and `bytes` bytes is within the limit.
    pub(super) const fn admits(self, packets: u64, bytes: u64) -> bool {
        match self {
            Self::Idle => true,
            Self::Packets(most) => packets <= most,
            Self::Bytes(most) => bytes <= most,
        }
    }
}

/// Queued frames in arrival order, with their arrival times.
#[derive(Clone, Debug)]
pub(crate) struct Backlog<F> {
    waiting: TimedRing<F>,
    bytes: u64,
}

impl<F> Default for Backlog<F> {
    fn default() -> Self {
        Self { waiting: TimedRing::default(), bytes: 0 }
    }
}

impl<F: Frame> Backlog<F> {
    pub(crate) const fn packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Arrival time of the first frame.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.waiting.first_time()
    }

    pub(super) fn push(&mut self, now: Nanos, frame: &F) {
        self.bytes += frame.size().as_u64();
        self.waiting.push(now, frame);
    }

    pub(super) fn pop(&mut self) -> Option<(Nanos, F)> {
        let (arrived, frame) = self.waiting.pop()?;
        self.bytes -= frame.size().as_u64();
        Some((arrived, frame))
    }

    /// Whether one more frame fits.
    pub(super) fn fits(&self, frame: &F, room: Room) -> bool {
        room.admits(self.packets() + 1, self.bytes + frame.size().as_u64())
    }
}

/// Decision of an AQM on an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Mark the packet if it is ECN-capable, otherwise drop it.
    Mark,
    Drop,
}

/// Sets CE on an ECN-capable frame (RFC 3168); returns whether the frame is ECN-capable.
pub(super) fn mark<F: Frame>(frame: &mut F) -> bool {
    let capable = frame.ecn() != Ecn::NotEct;
    if capable {
        frame.set_ecn(Ecn::Ce);
    }
    capable
}
