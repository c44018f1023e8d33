//! The state of loss recovery: the phase, what detection and repair know, and what may be undone.

use narrows_cc::{Bytes, Phase, RecoveryStyle};

use super::rack::{DUP_THRESH, Probe, Rack};
use super::sack_loss::SackLoss;
use super::undo::Undo;

/// See the head of the file.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    pub(super) phase: Phase,
    /// Recovery was entered for a mark, not for loss.
    pub(super) marked: bool,
    /// Without SACK: this recovery saw a partial acknowledgement.
    pub(super) partial_seen: bool,
    /// The part that shapes the window meanwhile.
    pub(super) style: RecoveryStyle,
    pub(super) duplicate_acks: u32,
    /// Recovery or loss repair ends when this is acknowledged.
    pub(super) point: u64,
    /// New data sent on duplicate acknowledgements, which does not count as outstanding at congestion (RFC
    /// 3042).
    pub(super) limited_transmit: u64,
    pub(super) rack: Rack,
    pub(super) sack_loss: SackLoss,
    pub(super) undo: Undo,
    pub(super) probe: Option<Probe>,
}

impl Recovery {
    pub(super) fn new(style: RecoveryStyle) -> Self {
        Self {
            phase: Phase::Open,
            marked: false,
            partial_seen: false,
            style,
            duplicate_acks: 0,
            point: 0,
            limited_transmit: 0,
            rack: Rack::new(),
            sack_loss: SackLoss::default(),
            undo: Undo::default(),
            probe: None,
        }
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Losses are being repaired: fast recovery or what follows a timeout, not the reduction for a mark.
    #[inline]
    pub(super) fn is_repairing(&self) -> bool {
        !self.is_open() && !self.marked
    }

    /// As many duplicate acknowledgements as make a loss.
    #[inline]
    pub(super) fn has_enough_duplicates(&self) -> bool {
        self.duplicate_acks >= DUP_THRESH
    }

    /// Whether everything up to `una` being acknowledged ends the phase. A mark's reduction ends beyond the
    /// point, so that the word of it has reached the receiver.
    #[inline]
    pub(super) fn is_over(&self, una: u64) -> bool {
        if self.marked { una > self.point } else { una >= self.point }
    }

    /// Repairs begin with everything up to `una` acknowledged and up to `nxt` sent.
    pub(super) fn begin_repairs(&mut self, una: u64, nxt: u64, mss: Bytes) {
        self.point = nxt;
        self.partial_seen = false;
        self.sack_loss.on_recovery_entered(una, mss);
    }

    /// A retransmission timeout, with data up to `nxt` sent.
    pub(super) fn on_timeout(&mut self, nxt: u64) {
        self.phase = Phase::Loss;
        self.marked = false;
        self.point = nxt;
        self.duplicate_acks = 0;
        self.limited_transmit = 0;
        self.probe = None;
    }

    /// The phase is over, and it was one of repairs or a mark's reduction.
    pub(super) fn leave(&mut self) {
        if !self.marked {
            self.rack.on_recovery_left();
        }
        self.phase = Phase::Open;
        self.marked = false;
        self.duplicate_acks = 0;
    }

    /// The phase proved unnecessary.
    pub(super) fn abandon(&mut self) {
        self.marked = false;
        self.leave();
    }

    /// New data was acknowledged cumulatively.
    #[inline]
    pub(super) fn on_advance(&mut self) {
        self.limited_transmit = 0;
        self.duplicate_acks = 0;
    }
}
