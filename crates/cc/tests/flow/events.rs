//! Events of a test transport, built from the values that every transport keeps.

use narrows_cc::{Ack, Bytes, Lost, Nanos, SentState, record};

/// The loss of a packet of `bytes` that was sent in the connection state `sent`.
pub fn lost(now: Nanos, bytes: Bytes, sent: &SentState, lost_total: Bytes, inflight: Bytes) -> Lost {
    record!(Lost {
        now,
        bytes,
        packet: sent.order,
        sent_at: sent.sent_at,
        tx_in_flight: sent.tx_in_flight,
        lost_at_send: sent.lost,
        delivered_at_send: sent.delivered,
        app_limited: sent.app_limited,
        lost_total,
        inflight,
    })
}

/// An acknowledgement that delivers nothing.
pub fn empty_ack(now: Nanos, inflight: Bytes, delivered: Bytes) -> Ack {
    record!(Ack { now, acked_cumulative: Some(Bytes::ZERO), inflight_before: inflight, inflight, delivered })
}
