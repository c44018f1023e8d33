//! Runs of packets: the encoding of vectors.

use crate::seq::Seq;
use crate::wire::{Opt, options};

/// Reception state of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PacketState {
    /// Received.
    Received = 0,
    /// Received with an ECN congestion mark.
    Marked = 1,
    /// Not yet received.
    Missing = 3,
}

/// Longest run in one byte.
pub(super) const MAX_RUN: u64 = 64;

impl PacketState {
    /// Decodes the state bits of a byte; `None` for the reserved state.
    pub(super) const fn of(byte: u8) -> Option<Self> {
        match byte >> 6 {
            0 => Some(Self::Received),
            1 => Some(Self::Marked),
            3 => Some(Self::Missing),
            _ => None,
        }
    }

    /// The sender's state after a vector reports `new` (section 11.4.1). Received and marked packets keep
    /// that state, so the order of vectors does not matter.
    #[must_use]
    pub const fn updated(self, new: Self) -> Self {
        match (self, new) {
            (Self::Missing, new) => new,
            (Self::Received, Self::Marked) => Self::Marked,
            (old, _) => old,
        }
    }
}

/// Encodes a run of `count` packets, 1 to 64.
pub(super) const fn byte(state: PacketState, count: u64) -> u8 {
    (state as u8) << 6 | (count - 1) as u8
}

/// Run length in a byte.
pub(super) const fn count(byte: u8) -> u64 {
    (byte & 63) as u64 + 1
}

/// Consecutive packets in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Newest packet.
    pub first: Seq,
    /// Number of packets, from `first` back; 1 to 64.
    pub count: u64,
    /// State of these packets.
    pub state: PacketState,
}

impl Run {
    /// Oldest packet.
    pub const fn last(&self) -> Seq {
        self.first.add(1 - self.count as i64)
    }
}

/// Decodes the Ack Vectors in a packet's options, newest packet first; `ack` is the packet's acknowledgement
/// number. Consecutive vectors continue each other. Packets in the reserved state are skipped. Numbers may
/// precede the first packet of the connection; the caller must reject such runs.
pub fn runs(ack: Seq, bytes: &[u8]) -> impl Iterator<Item = Run> + '_ {
    let mut next = ack;
    options(bytes)
        .filter_map(|option| match option {
            Ok(Opt::AckVector { runs, .. }) => Some(runs),
            _ => None,
        })
        .flatten()
        .filter_map(move |&byte| {
            let (first, count) = (next, count(byte));
            next = next.add(-(count as i64));
            PacketState::of(byte).map(|state| Run { first, count, state })
        })
}
