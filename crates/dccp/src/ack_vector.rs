//! Ack Vectors (RFC 4340 section 11.4, appendix A): which packets arrived, and how, run by run.
//!
//! A byte is a run of packets: two bits of state, six bits of length minus one. The first byte describes the packet in the
//! acknowledgement number, those after it older ones. For acknowledgement 100, the bytes 0, 192, 3, 64, 5 say: 100 came, 99 did
//! not, 98 to 95 came, 94 came marked, 93 to 88 came.
//!
//! The receiver keeps its memory in this form, as appendix A proposes. It tells about a packet until it knows that the sender
//! has seen it told: the sender acknowledges the packet that carried the vector.
//!
//! ## Differences
//! 1. The ECN nonce is historic (RFC 8311): vectors are written as nonce 0, and what comes is not checked.
//! 2. A duplicate changes nothing; of two copies, the first one's mark is told. So no vector contradicts an earlier one but by
//!    telling of a packet that was missing.
//! 3. A missing packet that arrives after it was told missing is told again, even if that vector has been acknowledged in the
//!    meantime; what lies beside it stays, too, for a vector has no holes. Only what the sender knows as it is now is dropped.
//! 4. The newest packet is never dropped: a vector describes at least one.

mod receiver;

pub use receiver::{AckVector, Mark, Recorded};

use crate::Seq;
use crate::wire::{Opt, options};

/// What a vector says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// It arrived.
    Received = 0,
    /// It arrived with a congestion mark (ECN).
    Marked = 1,
    /// It has not arrived.
    Missing = 3,
}

/// The most packets in one byte.
const MAX_RUN: u64 = 64;

impl State {
    /// The state in a byte of a vector; none for the reserved one.
    const fn of(byte: u8) -> Option<Self> {
        match byte >> 6 {
            0 => Some(Self::Received),
            1 => Some(Self::Marked),
            3 => Some(Self::Missing),
            _ => None,
        }
    }

    /// What a sender that knew this is to believe when a vector says `new` (section 11.4.1): arrived stays arrived, whatever
    /// order vectors come in; marked stays marked.
    #[must_use]
    pub const fn updated(self, new: Self) -> Self {
        match (self, new) {
            (Self::Missing, new) => new,
            (Self::Received, Self::Marked) => Self::Marked,
            (old, _) => old,
        }
    }
}

/// The byte for `count` packets, 1 to 64.
const fn byte(state: State, count: u64) -> u8 {
    (state as u8) << 6 | (count - 1) as u8
}

/// The packets that a byte describes.
const fn count(byte: u8) -> u64 {
    (byte & 63) as u64 + 1
}

/// Packets with neighbouring numbers in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The newest of them.
    pub first: Seq,
    /// How many there are, from `first` back; 1 to 64.
    pub count: u64,
    /// What is said of them.
    pub state: State,
}

impl Run {
    /// The oldest of them.
    pub const fn last(&self) -> Seq {
        self.first.add(1 - self.count as i64)
    }
}

/// What the Ack Vectors among a packet's options say, newest packets first; `ack` is the packet's acknowledgement number. Several
/// vectors continue each other. Of packets in the reserved state nothing is said. Numbers go down without regard to where the
/// connection began: runs before it are the caller's to refuse.
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
            State::of(byte).map(|state| Run { first, count, state })
        })
}
