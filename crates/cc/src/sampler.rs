//! Delivery-rate sampling (draft-ietf-ccwg-bbr section 4.1; Linux `tcp_rate.c`).
//!
//! A sample is the rate at which data was delivered between the sending of a packet and its acknowledgement. Its interval
//! is the longer of the send and the acknowledgement phase, so that neither compressed acknowledgements nor a burst of
//! sends can overstate the rate.

use crate::{Bytes, Nanos, Rate};

/// What is remembered with every packet when it leaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentSnapshot {
    /// When it left.
    pub sent_at: Nanos,
    /// When the first packet of its flight left (`first_send_time`).
    pub first_sent_at: Nanos,
    /// When the newest delivery before it was acknowledged (`delivered_time`).
    pub delivered_at: Nanos,
    /// Bytes delivered before it left.
    pub delivered: Bytes,
    /// Bytes declared lost before it left.
    pub lost: Bytes,
    /// Data in flight when it left, itself included.
    pub tx_in_flight: Bytes,
    /// The sender was short of data.
    pub app_limited: bool,
}

/// One delivery-rate sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Delivered bytes per second.
    pub rate: Rate,
    /// Bytes delivered over the interval.
    pub delivered: Bytes,
    /// The interval.
    pub interval: Nanos,
    /// Bytes delivered before the newest acknowledged packet left.
    pub prior_delivered: Bytes,
    /// Data in flight when that packet left.
    pub tx_in_flight: Bytes,
    /// Bytes lost between the sending of that packet and now.
    pub lost: Bytes,
    /// The sender was short of data when that packet left: the rate may understate the path.
    pub app_limited: bool,
}

/// The connection's side of the sampler: one per sender.
#[derive(Clone, Debug, Default)]
pub struct RateSampler {
    delivered: Bytes,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    lost: Bytes,
    /// The delivered count up to which samples are application-limited; zero when they are not.
    app_limited_until: Bytes,
    newest: Option<Newest>,
}

/// The most recently sent packet among those the current acknowledgement delivers.
#[derive(Clone, Copy, Debug)]
struct Newest {
    order: u64,
    snapshot: SentSnapshot,
}

impl RateSampler {
    /// A packet of `bytes` leaves while `inflight` is outstanding before it.
    #[inline]
    pub fn on_sent(&mut self, now: Nanos, bytes: Bytes, inflight: Bytes) -> SentSnapshot {
        if inflight.is_zero() {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        SentSnapshot {
            sent_at: now,
            first_sent_at: self.first_sent_at,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            tx_in_flight: inflight + bytes,
            app_limited: !self.app_limited_until.is_zero(),
        }
    }

    /// A packet is newly delivered. `order` grows with sending and breaks ties between packets sent at one instant.
    #[inline]
    pub fn on_delivered(&mut self, now: Nanos, bytes: Bytes, snapshot: &SentSnapshot, order: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
        let newer = match &self.newest {
            None => true,
            Some(newest) => (snapshot.sent_at, order) > (newest.snapshot.sent_at, newest.order),
        };
        if newer {
            self.newest = Some(Newest { order, snapshot: *snapshot });
        }
    }

    /// A packet was declared lost.
    #[inline]
    pub fn on_lost(&mut self, bytes: Bytes) {
        self.lost += bytes;
    }

    /// The acknowledgement is fully processed: its sample, unless nothing was delivered or the interval is shorter than
    /// the connection's least round-trip time `min_rtt` (then the acknowledgement was of compressed or spurious origin).
    #[inline]
    pub fn sample(&mut self, min_rtt: Nanos) -> Option<RateSample> {
        if self.app_limited_until < self.delivered {
            self.app_limited_until = Bytes::ZERO;
        }
        let newest = self.newest.take()?.snapshot;
        self.first_sent_at = newest.sent_at;
        let send_elapsed = newest.sent_at - newest.first_sent_at;
        let ack_elapsed = self.delivered_at - newest.delivered_at;
        let interval = send_elapsed.max(ack_elapsed);
        if interval < min_rtt || interval.is_zero() {
            return None;
        }
        let delivered = self.delivered - newest.delivered;
        Some(RateSample {
            rate: delivered.per(interval),
            delivered,
            interval,
            prior_delivered: newest.delivered,
            tx_in_flight: newest.tx_in_flight,
            lost: self.lost - newest.lost,
            app_limited: newest.app_limited,
        })
    }

    /// The sender has run out of data with `inflight` outstanding and room in the window.
    #[inline]
    pub fn set_app_limited(&mut self, inflight: Bytes) {
        self.app_limited_until = (self.delivered + inflight).max(Bytes::new(1));
    }

    /// Samples are application-limited at the moment.
    pub fn is_app_limited(&self) -> bool {
        !self.app_limited_until.is_zero()
    }

    /// Bytes ever delivered.
    #[inline]
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// Bytes ever declared lost.
    pub fn lost(&self) -> Bytes {
        self.lost
    }
}
