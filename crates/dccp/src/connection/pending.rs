//! Packets to send immediately, and the rate limit of replies.

use narrows_cc::Nanos;

use crate::seq::Seq;
use crate::wire::{Header, ResetCode};

/// Longest reply to a packet with unproven sequence numbers: a Response that confirms every feature, with long
/// preference lists. Syncs and SyncAcks have 24 bytes and Resets have 28; an NDP count adds 8 bytes.
pub const REPLY_LIMIT: usize = 384;

/// Least interval between replies to invalid packets: eight per second (RFC 4340 section 7.5.4).
const REPLY_INTERVAL: Nanos = Nanos::from_millis(125);

/// Packets to send immediately.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Pending {
    pub(super) request: bool,
    pub(super) response: bool,
    pub(super) ack: bool,
    pub(super) close: bool,
    pub(super) close_req: bool,
    /// Acknowledgement number of a pending Sync or SyncAck.
    pub(super) sync: Option<Seq>,
    pub(super) sync_ack: Option<Seq>,
    pub(super) reset: Option<(ResetCode, [u8; 3])>,
    /// Header of a Reset outside any connection.
    pub(super) refusal: Option<Header>,
    /// Earliest time of the next reply to an invalid packet.
    pub(super) next_reply: Nanos,
}

impl Pending {
    pub(super) fn any(&self) -> bool {
        let flags = self.request || self.response || self.ack || self.close || self.close_req;
        flags || self.sync.is_some() || self.sync_ack.is_some() || self.reset.is_some() || self.refusal.is_some()
    }

    /// Cancels all pending packets; the reply limit stays.
    pub(super) fn clear(&mut self) {
        *self = Self { next_reply: self.next_reply, ..Self::default() };
    }

    /// Whether a reply to an invalid packet may be sent now.
    pub(super) fn may_reply(&mut self, now: Nanos) -> bool {
        let may = now >= self.next_reply;
        if may {
            self.next_reply = now.saturating_add(REPLY_INTERVAL);
        }
        may
    }
}
