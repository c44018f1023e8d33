//! The byte stream that is sent: sequence numbers, the receiver's window, and the application that writes.

use narrows_cc::{Bytes, Nanos, SendPosition};
use narrows_traffic::App;

/// Sequence numbers count bytes; 0 is the SYN's, and data begins at 1.
#[derive(Clone, Debug)]
pub(super) struct ByteStream {
    /// The lowest sequence number not acknowledged.
    pub(super) una: u64,
    /// The next to be sent for the first time.
    pub(super) nxt: u64,
    /// The application has data up to here.
    pub(super) app_end: u64,
    /// Data that a connection of several subflows has beyond that and may hand over.
    pub(super) waiting: u64,
    /// The receiver takes data up to here.
    pub(super) right_edge: u64,
    largest_window: u64,
    pub(super) fin_sent: bool,
    pub(super) app: App,
}

impl ByteStream {
    pub(super) fn new(app: App) -> Self {
        Self {
            una: 0,
            nxt: 0,
            app_end: 1,
            waiting: 0,
            right_edge: 0,
            largest_window: 0,
            fin_sent: false,
            app,
        }
    }

    /// The handshake is complete: the receiver has acknowledged the SYN with `ack` and offers `window`.
    pub(super) fn open(&mut self, ack: u64, window: u64) {
        (self.una, self.nxt) = (1, 1);
        self.largest_window = window;
        self.right_edge = ack + window;
    }

    #[inline]
    pub(super) fn position(&self) -> SendPosition {
        SendPosition { acknowledged: self.una, next: self.nxt }
    }

    /// Payload sent so far, each byte counted once.
    pub(super) fn data_sent(&self) -> Bytes {
        Bytes::new((self.nxt - u64::from(self.fin_sent)).saturating_sub(1))
    }

    /// Data outstanding, lost or not (FlightSize).
    pub(super) fn flight_size(&self) -> Bytes {
        let fin = u64::from(self.fin_sent && self.una < self.nxt);
        Bytes::new(self.nxt - fin - self.una.min(self.nxt - fin))
    }

    /// Everything, the FIN included, is acknowledged.
    pub(super) fn is_complete(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }

    /// Data of a finite application is all acknowledged.
    pub(super) fn is_delivered(&self) -> bool {
        self.app.size().is_some_and(|size| self.una > size.as_u64())
    }

    /// The application has data that was never sent.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.nxt < self.app_end
    }

    /// Payload of the next new packet, of `segment` bytes at most; zero if there is no data.
    #[inline]
    pub(super) fn next_len(&self, segment: u16) -> u64 {
        self.app_end.saturating_sub(self.nxt).min(u64::from(segment))
    }

    /// Whether the receiver's window has room for `len` bytes more.
    #[inline]
    pub(super) fn admits(&self, len: u64) -> bool {
        self.nxt + len <= self.right_edge
    }

    /// The room in the receiver's window, if a packet of this size is worth sending while nothing is
    /// outstanding: half the largest window ever offered or more (RFC 9293 section 3.8.6.2.1).
    pub(super) fn worthwhile_room(&self) -> Option<u64> {
        let room = self.right_edge.saturating_sub(self.nxt);
        (room > 0 && room >= self.largest_window / 2).then_some(room)
    }

    /// The receiver acknowledges `ack` and offers `window`; whether that moves the right edge.
    #[inline]
    pub(super) fn offer(&mut self, ack: u64, window: u64) -> bool {
        let edge = ack + window;
        let changed = edge != self.right_edge;
        self.largest_window = self.largest_window.max(window);
        self.right_edge = edge;
        changed
    }

    /// Everything below `ack` is acknowledged. Returns the payload among it that was not before.
    #[inline]
    pub(super) fn advance(&mut self, ack: u64) -> Bytes {
        let fin = u64::from(self.fin_sent && ack == self.nxt);
        let payload = Bytes::new(ack - self.una - fin);
        self.una = ack;
        payload
    }

    /// The time of the application has come.
    pub(super) fn on_time(&mut self, now: Nanos) {
        let sent = self.data_sent();
        self.app.on_time(now, sent);
        self.note_written();
    }

    /// The application stops writing.
    pub(super) fn stop(&mut self) {
        self.app.stop(self.data_sent());
    }

    /// The application may have written.
    pub(super) fn note_written(&mut self) {
        self.app_end = 1 + self.app.limit().as_u64();
    }
}
