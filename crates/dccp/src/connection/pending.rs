//! Packets to send at once, and the rate limit of replies.

use narrows_cc::Nanos;

use crate::seq::Seq;
use crate::wire::{Header, ResetCode};

/// The longest packet that is sent in reply to one whose numbers prove nothing: a Response that confirms every feature there is,
/// with long lists of preferences. Syncs, SyncAcks and Resets are 24 and 28 bytes long, and 8 more with an NDP count.
pub const REPLY_LIMIT: usize = 384;

/// The least time between two replies to packets that do not belong here: eight per second (RFC 4340 section 7.5.4).
const REPLY_INTERVAL: Nanos = Nanos::from_millis(125);

/// Packets to be sent as soon as asked for.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Pending {
    pub(super) request: bool,
    pub(super) response: bool,
    pub(super) ack: bool,
    pub(super) close: bool,
    pub(super) close_req: bool,
    /// A Sync or SyncAck, and which number it acknowledges.
    pub(super) sync: Option<Seq>,
    pub(super) sync_ack: Option<Seq>,
    pub(super) reset: Option<(ResetCode, [u8; 3])>,
    /// A Reset that belongs to no connection, complete.
    pub(super) refusal: Option<Header>,
    /// Replies to packets that do not belong here wait for this time.
    pub(super) next_reply: Nanos,
}

impl Pending {
    pub(super) fn any(&self) -> bool {
        let flags = self.request || self.response || self.ack || self.close || self.close_req;
        flags
            || self.sync.is_some()
            || self.sync_ack.is_some()
            || self.reset.is_some()
            || self.refusal.is_some()
    }

    /// Nothing is to be sent any more.
    pub(super) fn clear(&mut self) {
        *self = Self { next_reply: self.next_reply, ..Self::default() };
    }

    /// Whether one more reply to a packet that does not belong here may be sent.
    pub(super) fn may_reply(&mut self, now: Nanos) -> bool {
        let may = now >= self.next_reply;
        if may {
            self.next_reply = now.saturating_add(REPLY_INTERVAL);
        }
        may
    }
}
