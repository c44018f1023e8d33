//! The parts that all queue disciplines share: waiting frames, the room they have, and marks.

use narrows_units::Nanos;

use crate::timed_ring::TimedRing;
use crate::{Ecn, Frame};

/// The packet size that the disciplines assume as MTU, in bytes.
pub(super) const MTU: u64 = 1500;

/// The limit of a queue, the arriving packet included.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// The link is idle: the packet does not wait.
    Idle,
    Packets(u64),
    Bytes(u64),
}

impl Room {
    /// Whether `packets` with `bytes` in total may wait.
    pub(super) const fn holds(self, packets: u64, bytes: u64) -> bool {
        match self {
            Self::Idle => true,
            Self::Packets(most) => packets <= most,
            Self::Bytes(most) => bytes <= most,
        }
    }
}

/// Waiting frames in order of arrival, with their arrival times.
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

    /// The arrival time of the first frame.
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
        room.holds(self.packets() + 1, self.bytes + frame.size().as_u64())
    }
}

/// The decision of active queue management on an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Mark it if it is ECN-capable, else drop it.
    Mark,
    Drop,
}

/// Sets CE on a frame if it is ECN-capable (RFC 3168). Returns whether it is.
pub(super) fn mark<F: Frame>(frame: &mut F) -> bool {
    let capable = frame.ecn() != Ecn::NotEct;
    if capable {
        frame.set_ecn(Ecn::Ce);
    }
    capable
}
