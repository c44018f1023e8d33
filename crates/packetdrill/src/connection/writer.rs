//! Data that the application wrote, and its release to the sender.
//!
//! The sender builds segments as soon as it has data and the window is not full. Here, Nagle's rule, `TCP_CORK` or
//! `MSG_MORE` may withhold a last piece that is shorter than a full segment.

use std::collections::VecDeque;

use narrows_cc::Nanos;

use super::setup::Setup;

/// Written data.
#[derive(Debug)]
pub(super) struct Writer {
    /// Bytes written by the application.
    pub(super) written: u64,
    /// Bytes released to the sender.
    pushed: u64,
    /// Ends of records: no segment crosses them.
    records: VecDeque<u64>,
    /// Whether a FIN follows the data.
    pub(super) finished: bool,
    /// Whether the sender was stopped because the data ends.
    pub(super) stopped: bool,
    nodelay: bool,
    cork: bool,
    /// Whether the last write announced more data.
    more: bool,
    /// Whether to release a last piece that would otherwise be withheld.
    push: bool,
    /// End of the last segment that was sent and not full.
    pub(super) small_end: u64,
    /// Time at which a withheld piece is released if nothing is outstanding.
    pub(super) deadline: Nanos,
}

/// Progress of the sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Lowest sequence number not acknowledged.
    pub(super) una: u64,
    /// Lowest sequence number that was never sent.
    pub(super) next: u64,
    pub(super) segment: u64,
}

impl Writer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            written: 0,
            pushed: 0,
            records: VecDeque::new(),
            finished: false,
            stopped: false,
            nodelay: setup.nodelay,
            cork: setup.cork,
            more: false,
            push: false,
            small_end: 0,
            deadline: Nanos::MAX,
        }
    }

    pub(super) fn write(&mut self, bytes: u64, more: bool, record: bool) {
        self.written += bytes;
        self.more = more;
        if record {
            self.records.push_back(self.written);
        }
    }

    /// Linux: setting `TCP_NODELAY` or clearing `TCP_CORK` pushes withheld data.
    pub(super) fn set_delay(&mut self, nodelay: Option<bool>, cork: Option<bool>) {
        self.nodelay = nodelay.unwrap_or(self.nodelay);
        self.cork = cork.unwrap_or(self.cork);
        self.push |= nodelay == Some(true) || cork == Some(false);
    }

    /// Handles the expired timer of a withheld piece: releases the piece.
    pub(super) fn push_once(&mut self) {
        self.deadline = Nanos::MAX;
        self.push = true;
    }

    /// Handles an acknowledgement, which ends the effect of `MSG_MORE`.
    pub(super) fn on_ack(&mut self) {
        self.more = false;
    }

    /// Releases data to the sender; returns the number of bytes released.
    pub(super) fn release(&mut self, progress: Progress) -> u64 {
        let sent = progress.next.saturating_sub(1);
        while self.records.front().is_some_and(|&end| end <= sent) {
            self.records.pop_front();
        }
        let end = self.records.front().map_or(self.written, |&end| end.min(self.written));
        let unsent = end.saturating_sub(sent);
        let full = sent + unsent / progress.segment * progress.segment;
        // Only the very last piece can be withheld: Linux applies Nagle's rule to the last packet only.
        let last = end == self.written;
        let small_in_flight = self.small_end > progress.una;
        let held = self.cork || self.more || (!self.nodelay && small_in_flight);
        let limit = if !last || self.finished || self.push || !held { end } else { full };
        if limit >= self.written {
            self.push = false;
        }
        let released = limit.saturating_sub(self.pushed);
        self.pushed += released;
        released
    }

    /// Whether data is withheld here (data that waits for the window is at the sender).
    pub(super) fn is_holding(&self) -> bool {
        self.pushed < self.written
    }
}
