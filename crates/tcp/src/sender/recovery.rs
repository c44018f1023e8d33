//! State of loss recovery: phase, detection, repair and undo.

use narrows_cc::{Bytes, Phase, RecoveryStyle};

use super::rack::{DUP_THRESH, Probe, Rack};
use super::sack_loss::SackLoss;
use super::undo::Undo;

/// State of loss recovery.
// Rarely accessed fields come first: see `Sender`.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Recovery {
    pub(super) sack_loss: SackLoss,
    /// Duplicates that the receiver reported and that counted as delivered.
    pub(super) duplicates: u64,
    pub(super) undo: Undo,
    /// Every acknowledgement accesses the state from here on.
    pub(super) probe: Option<Probe>,
    pub(super) phase: Phase,
    /// The current phase is a reduction for an ECN mark, not for loss.
    pub(super) marked: bool,
    /// Without SACK: this recovery saw a partial acknowledgement.
    pub(super) partial_seen: bool,
    /// Window control during recovery: proportional rate reduction or the scheme.
    pub(super) style: RecoveryStyle,
    pub(super) duplicate_acks: u32,
    /// Recovery ends when this is acknowledged.
    pub(super) point: u64,
    /// New data sent by limited transmit, not outstanding for FlightSize (RFC 3042).
    pub(super) limited_transmit: u64,
    pub(super) rack: Rack,
    /// The lowest outstanding packet is SACKed: the receiver must have discarded it.
    pub(super) reneged: bool,
}

impl Recovery {
    pub(super) fn new(style: RecoveryStyle, mss: u64) -> Self {
        Self {
            phase: Phase::Open,
            marked: false,
            partial_seen: false,
            style,
            duplicate_acks: 0,
            point: 0,
            limited_transmit: 0,
            rack: Rack::new(mss),
            sack_loss: SackLoss::default(),
            undo: Undo::default(),
            probe: None,
            duplicates: 0,
            reneged: false,
        }
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Loss repair is in progress (fast recovery or after a timeout), not a reduction for a mark.
    #[inline]
    pub(super) fn is_repairing(&self) -> bool {
        !self.is_open() && !self.marked
    }

    /// Whether duplicate acknowledgements have reached DupThresh.
    #[inline]
    pub(super) fn has_enough_duplicates(&self) -> bool {
        self.duplicate_acks >= DUP_THRESH
    }

    /// Whether a cumulative acknowledgement of `una` ends the phase. A reduction for a mark ends one byte
    /// later, so that CWR has reached the receiver.
    #[inline]
    pub(super) fn is_over(&self, una: u64) -> bool {
        if self.marked { una > self.point } else { una >= self.point }
    }

    /// Starts repairs with data up to `una` acknowledged and up to `nxt` sent.
    pub(super) fn begin_repairs(&mut self, una: u64, nxt: u64, mss: Bytes) {
        self.point = nxt;
        self.partial_seen = false;
        self.sack_loss.on_recovery_entered(una, mss);
    }

    /// Handles a retransmission timeout with data up to `nxt` sent.
    pub(super) fn on_timeout(&mut self, nxt: u64) {
        self.phase = Phase::Loss;
        self.marked = false;
        self.point = nxt;
        self.duplicate_acks = 0;
        self.limited_transmit = 0;
        self.probe = None;
    }

    /// Leaves the phase, be it of repairs or of a reduction for a mark.
    pub(super) fn leave(&mut self) {
        if !self.marked {
            self.rack.on_recovery_left();
        }
        self.phase = Phase::Open;
        self.marked = false;
        self.duplicate_acks = 0;
    }

    /// Resets the duplicate counts on a cumulative advance.
    #[inline]
    pub(super) fn on_advance(&mut self) {
        self.limited_transmit = 0;
        self.duplicate_acks = 0;
    }
}
