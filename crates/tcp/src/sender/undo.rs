//! Detection of spurious reductions.

use narrows_cc::{Bytes, Nanos, Phase};
use narrows_packet::timestamp;

/// Retransmissions of one reduction, while it can be undone.
// The phase, which every acknowledgement reads, comes last: see `Sender`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Undo {
    /// ssthresh before this reduction.
    pub(super) ssthresh: Bytes,
    /// SND.UNA at the start of the episode.
    from: u64,
    /// SND.NXT at the start of the episode.
    to: u64,
    /// Timestamp of the first retransmission.
    first: Option<u32>,
    /// Retransmissions not yet reported as duplicates.
    unexplained: u32,
    /// No retransmission is known to have been needed (RFC 3522).
    eifel: bool,
    /// A timestamp echo proved a retransmitted packet merely late.
    late: bool,
    /// The phase entered, if it can be undone.
    phase: Option<Phase>,
}

impl Undo {
    pub(super) fn begin(phase: Phase, from: u64, to: u64, ssthresh: Bytes) -> Self {
        Self { phase: Some(phase), from, to, eifel: true, ssthresh, ..Self::default() }
    }

    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.phase.is_some()
    }

    #[inline]
    pub(super) fn first_stamp(&self) -> Option<u32> {
        if self.phase.is_some() { self.first } else { None }
    }

    pub(super) fn on_retransmission(&mut self, now: Nanos) {
        self.unexplained += 1;
        self.first.get_or_insert(timestamp(now));
    }

    /// Handles a DSACK of `range`.
    pub(super) fn on_duplicate(&mut self, range: (u64, u64), mss: Bytes) {
        if range.0 >= self.from && range.1 <= self.to {
            let packets = (range.1 - range.0).div_ceil(mss.as_u64()) as u32;
            self.unexplained = self.unexplained.saturating_sub(packets);
        }
    }

    /// Applies the verdict of an acknowledgement: some packet was merely `late`, or possibly `repaired` by its
    /// retransmission. `settled`: the verdicts so far suffice. Returns the phase to undo if every retransmission was
    /// reported as a duplicate (RFC 3708) or the timestamps prove all packets merely late (RFC 3522).
    pub(super) fn judge(&mut self, late: bool, repaired: bool, settled: bool) -> Option<Phase> {
        let phase = self.phase?;
        self.first?;
        self.late |= late;
        self.eifel &= !repaired;
        let in_vain = self.eifel && self.late && settled;
        (in_vain || self.unexplained == 0).then_some(phase)
    }
}
