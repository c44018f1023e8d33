//! Whether a reduction was unnecessary: that nothing it repaired had been lost.

use narrows_cc::{Bytes, Nanos, Phase};
use narrows_packet::timestamp;

/// The repairs of one reduction, as far as it can be undone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// The phase that was entered, if undoing is possible.
    phase: Option<Phase>,
    /// The data the episode is about: acknowledged up to here when it began …
    from: u64,
    /// … and sent up to here.
    to: u64,
    /// Timestamp of the first retransmission.
    first: Option<u32>,
    /// Retransmissions not yet reported as duplicates.
    unexplained: u32,
    /// No retransmission is known to have been needed (RFC 3522).
    eifel: bool,
    /// A timestamp echo showed that a retransmitted packet had only been late.
    late: bool,
    /// The window at the reduction before this one.
    pub(super) ssthresh: Bytes,
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

    /// The receiver got `range` twice.
    pub(super) fn on_duplicate(&mut self, range: (u64, u64), mss: Bytes) {
        if range.0 >= self.from && range.1 <= self.to {
            let packets = (range.1 - range.0).div_ceil(mss.as_u64()) as u32;
            self.unexplained = self.unexplained.saturating_sub(packets);
        }
    }

    /// An acknowledgement showed a packet to have been `late`, or to have been `repaired`; once all that was
    /// sent again has `settled`, this counts. Returns the phase that was entered in vain: every
    /// retransmission was reported as a duplicate (RFC 3708), or the timestamps show that the packets had
    /// only been late (RFC 3522).
    pub(super) fn judge(&mut self, late: bool, repaired: bool, settled: bool) -> Option<Phase> {
        let phase = self.phase?;
        self.first?;
        self.late |= late;
        self.eifel &= !repaired;
        let in_vain = self.eifel && self.late && settled;
        (in_vain || self.unexplained == 0).then_some(phase)
    }
}
