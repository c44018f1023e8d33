//! The sent byte stream: sequence numbers, receive window, application.

use narrows_cc::{Bytes, Nanos, SendPosition};
use narrows_traffic::App;

/// Maximum data in one buffer of Linux's write queue (`sk_gso_max_size`: 64 KiB less the space for headers).
const BUFFER_BYTES: u64 = 65_536 - 321;

/// State of the byte stream. Sequence numbers count bytes. The SYN has number 0, and data begins at 1.
// The application comes last, with its rarely used fields at the end: see `Sender`.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct ByteStream {
    /// SND.UNA: lowest unacknowledged sequence number.
    pub(super) una: u64,
    /// SND.NXT: next sequence number to send for the first time.
    pub(super) nxt: u64,
    /// End of the data written by the application.
    pub(super) app_end: u64,
    /// Bytes of further data of a multipath connection that are not yet assigned to a subflow.
    pub(super) waiting: u64,
    /// Right edge of the receive window.
    pub(super) right_edge: u64,
    /// Largest window that the peer has offered.
    pub(super) largest_window: u64,
    /// End of the write-queue buffer that contains the next segment to send.
    head_end: u64,
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
            head_end: 1,
            fin_sent: false,
            app,
        }
    }

    /// Opens the stream: the receiver acknowledged the SYN with `ack` and offers `window`.
    pub(super) fn open(&mut self, ack: u64, window: u64) {
        (self.una, self.nxt) = (1, 1);
        self.largest_window = window;
        self.right_edge = ack + window;
    }

    /// Half of the largest window that the peer offered, in whole segments of `mss` (Linux `tcp_bound_to_half_wnd`).
    pub(super) fn half_window(&self, mss: u64) -> u64 {
        mss * (self.largest_window / mss / 2).max(1)
    }

    /// Moves to the next buffer of Linux's write queue (`tcp_xmit_size_goal`).
    #[cold]
    fn next_buffer(&mut self, mss: u64) {
        self.head_end += (mss * (BUFFER_BYTES / mss).max(1)).min(self.half_window(mss));
    }

    /// Advances SND.NXT by `len` payload bytes of segments of `mss`.
    #[inline]
    pub(super) fn sent(&mut self, len: u64, mss: u64) {
        self.nxt += len;
        while self.nxt >= self.head_end {
            self.next_buffer(mss);
        }
    }

    /// Whether the rest of the current write-queue buffer fits into `room` bytes, and further data follows this buffer.
    pub(super) fn head_fits(&self, room: u64) -> bool {
        self.head_end < self.app_end && self.head_end - self.nxt <= room
    }

    #[inline]
    pub(super) fn position(&self) -> SendPosition {
        SendPosition { acknowledged: self.una, next: self.nxt }
    }

    /// Payload bytes sent, each counted once.
    pub(super) fn data_sent(&self) -> Bytes {
        Bytes::new((self.nxt - u64::from(self.fin_sent)).saturating_sub(1))
    }

    /// Payload bytes acknowledged cumulatively.
    pub(super) fn acknowledged_payload(&self) -> Bytes {
        Bytes::new(self.una.min(self.nxt - u64::from(self.fin_sent)).saturating_sub(1))
    }

    /// Outstanding data, lost or not (FlightSize).
    pub(super) fn flight_size(&self) -> Bytes {
        let fin = u64::from(self.fin_sent && self.una < self.nxt);
        Bytes::new(self.nxt - fin - self.una.min(self.nxt - fin))
    }

    /// Whether everything, including the FIN, is acknowledged.
    pub(super) fn is_complete(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }

    /// Whether all data of a finite application is acknowledged.
    pub(super) fn is_delivered(&self) -> bool {
        self.una >= self.app_end && self.app.size().is_some_and(|size| self.una > size.as_u64())
    }

    /// Whether the application has data that was never sent.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.nxt < self.app_end
    }

    /// Payload bytes of the next packet with new data, at most `segment`; zero without data.
    #[inline]
    pub(super) fn next_len(&self, segment: u16) -> u64 {
        self.app_end.saturating_sub(self.nxt).min(u64::from(segment))
    }

    /// Whether the receive window allows `len` more bytes.
    #[inline]
    pub(super) fn admits(&self, len: u64) -> bool {
        self.nxt + len <= self.right_edge
    }

    /// Space in the receive window, if it is worth a packet while nothing is outstanding: at least half of the largest
    /// window that the peer has offered (RFC 9293 section 3.8.6.2.1).
    pub(super) fn worthwhile_room(&self) -> Option<u64> {
        let room = self.right_edge.saturating_sub(self.nxt);
        (room > 0 && room >= self.largest_window / 2).then_some(room)
    }

    /// Applies an acknowledgement number and a window; returns whether the right edge moved.
    #[inline]
    pub(super) fn offer(&mut self, ack: u64, window: u64) -> bool {
        let edge = ack + window;
        let changed = edge != self.right_edge;
        self.largest_window = self.largest_window.max(window);
        self.right_edge = edge;
        changed
    }

    /// Advances SND.UNA to `ack`; returns the newly acknowledged payload.
    #[inline]
    pub(super) fn advance(&mut self, ack: u64) -> Bytes {
        let fin = u64::from(self.fin_sent && ack == self.nxt);
        let payload = Bytes::new(ack - self.una - fin);
        self.una = ack;
        payload
    }

    /// Runs the application at its deadline.
    pub(super) fn on_time(&mut self, now: Nanos) {
        let sent = self.data_sent();
        self.app.on_time(now, sent);
        self.note_written();
    }

    /// Stops the application.
    pub(super) fn stop(&mut self) {
        self.app.stop(self.data_sent());
    }

    /// Updates the end of the written data.
    pub(super) fn note_written(&mut self) {
        self.app_end = 1 + self.app.limit().as_u64();
    }
}
