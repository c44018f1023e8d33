//! Delivery-rate sampling (draft-ietf-ccwg-bbr section 4.1; Linux `tcp_rate.c`).
//!
//! A sample is the rate at which data was delivered between the sending of a packet and its acknowledgement. The
//! sample's interval is the longer of the send and the acknowledgement phase, so that neither compressed
//! acknowledgements nor a burst of sends can overstate the rate.

use crate::{Bytes, Nanos, Rate};

/// The state of the connection when a packet was sent. The transport stores it with the packet and returns it
/// when the packet is delivered or lost.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SentState {
    /// The number of the transmission, from 1: of two packets, the one with the larger number was sent later.
    pub order: u64,
    /// When the packet was sent.
    pub sent_at: Nanos,
    /// When the first packet of its flight was sent (`first_send_time`).
    pub first_sent_at: Nanos,
    /// When the latest delivery before this transmission was acknowledged (`delivered_time`).
    pub delivered_at: Nanos,
    /// Bytes delivered before the packet was sent.
    pub delivered: Bytes,
    /// Bytes declared lost before the packet was sent.
    pub lost: Bytes,
    /// Data in flight when the packet was sent, the packet included.
    pub tx_in_flight: Bytes,
    /// The sender was application-limited when the packet was sent.
    pub app_limited: bool,
}

/// One delivery-rate sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RateSample {
    /// Delivered bytes per second.
    pub rate: Rate,
    /// Bytes delivered over the interval.
    pub delivered: Bytes,
    /// Length of the interval.
    pub interval: Nanos,
    /// Bytes delivered before the newest acknowledged packet was sent.
    pub prior_delivered: Bytes,
    /// Data in flight when that packet was sent.
    pub tx_in_flight: Bytes,
    /// Bytes lost between the sending of that packet and now.
    pub lost: Bytes,
    /// The sender was application-limited when that packet was sent: the rate may be below the path's bandwidth.
    pub app_limited: bool,
}

/// The sampler's state, one per sender.
#[derive(Clone, Debug, Default)]
pub struct RateSampler {
    /// Number of the latest transmission.
    order: u64,
    delivered: Bytes,
    delivered_at: Nanos,
    first_sent_at: Nanos,
    lost: Bytes,
    /// Bytes counted as delivered on duplicate acknowledgements, not yet cumulatively acknowledged.
    anticipated: Bytes,
    /// The part of `anticipated` that the current acknowledgement covers.
    covered: Bytes,
    /// The delivered count up to which samples are application-limited; zero if samples are not application-limited.
    app_limited_until: Bytes,
}

impl RateSampler {
    /// A packet of `bytes` is sent while `inflight` is outstanding.
    #[inline]
    pub fn on_sent(&mut self, now: Nanos, bytes: Bytes, inflight: Bytes) -> SentState {
        if inflight.is_zero() {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        self.order += 1;
        SentState {
            order: self.order,
            sent_at: now,
            first_sent_at: self.first_sent_at,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            tx_in_flight: inflight + bytes,
            app_limited: !self.app_limited_until.is_zero(),
        }
    }

    /// A packet is newly delivered. Updates `newest`, the most recently sent packet that the acknowledgement
    /// delivers.
    #[inline]
    pub fn on_delivered(&mut self, now: Nanos, bytes: Bytes, sent: &SentState, newest: &mut Option<SentState>) {
        let known = bytes.min(self.covered);
        self.covered -= known;
        self.delivered += bytes - known;
        self.delivered_at = now;
        if newest.as_ref().is_none_or(|newest| sent.order > newest.order) {
            *newest = Some(*sent);
        }
    }

    /// A duplicate acknowledgement without SACK arrived: an unknown packet of `bytes` was delivered. The packet counts
    /// immediately, as in Linux's SACK emulation. Otherwise all packets behind a hole would seem to be delivered
    /// together when the hole is filled.
    #[inline]
    pub fn on_duplicate(&mut self, now: Nanos, bytes: Bytes) {
        self.delivered += bytes;
        self.anticipated += bytes;
        self.delivered_at = now;
    }

    /// Already delivered data arrived a second time.
    pub fn on_delivered_again(&mut self, now: Nanos, bytes: Bytes) {
        self.delivered += bytes;
        self.delivered_at = now;
    }

    /// A cumulative acknowledgement of `acked` bytes is about to be processed. Duplicate acknowledgements may have
    /// reported all of these bytes but one segment `mss`, which the cumulative acknowledgement itself delivers.
    #[inline]
    pub fn on_cumulative(&mut self, acked: Bytes, mss: Bytes) {
        self.covered = self.anticipated.min(acked - mss);
        self.anticipated -= self.covered;
    }

    /// Resets the bytes reported by duplicate acknowledgements: all data outstanding when these arrived is
    /// acknowledged.
    pub fn forget_duplicates(&mut self) {
        self.anticipated = Bytes::ZERO;
    }

    /// A packet was declared lost.
    #[inline]
    pub fn on_lost(&mut self, bytes: Bytes) {
        self.lost += bytes;
    }

    /// Ends an acknowledgement and returns the sample of the `newest` packet that was delivered. `None` if nothing was
    /// delivered, or if the interval is shorter than the connection's `min_rtt`: such an acknowledgement is compressed
    /// or spurious.
    #[inline]
    pub fn sample(&mut self, newest: Option<&SentState>, min_rtt: Option<Nanos>) -> Option<RateSample> {
        if self.app_limited_until < self.delivered {
            self.app_limited_until = Bytes::ZERO;
        }
        let newest = newest?;
        self.first_sent_at = newest.sent_at;
        let send_elapsed = newest.sent_at - newest.first_sent_at;
        let ack_elapsed = self.delivered_at - newest.delivered_at;
        let interval = send_elapsed.max(ack_elapsed);
        if min_rtt.is_some_and(|least| interval < least) || interval.is_zero() {
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

    /// The sender has run out of data with `inflight` outstanding and cwnd not full.
    #[inline]
    pub fn set_app_limited(&mut self, inflight: Bytes) {
        self.app_limited_until = (self.delivered + inflight).max(Bytes::new(1));
    }

    /// Whether samples are application-limited now.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;
    extern crate std;
    use std::collections::VecDeque;

    const PACKET: Bytes = Bytes::new(1_000);

    /// A sender and its packets in flight.
    #[derive(Default)]
    struct Pipe {
        sampler: RateSampler,
        sent: VecDeque<SentState>,
    }

    impl Pipe {
        fn send(&mut self, now: Nanos) {
            let state = self.sampler.on_sent(now, PACKET, PACKET * self.sent.len() as u64);
            self.sent.push_back(state);
        }

        /// Acknowledges the oldest `n` packets together.
        fn ack(&mut self, now: Nanos, n: usize, min_rtt: Nanos) -> Option<RateSample> {
            self.sampler.on_cumulative(PACKET * n as u64, PACKET);
            let mut newest = None;
            for state in self.sent.drain(..n) {
                self.sampler.on_delivered(now, PACKET, &state, &mut newest);
            }
            self.sampler.sample(newest.as_ref(), Some(min_rtt))
        }
    }

    /// Packets behind a hole count when their duplicate acknowledgements arrive, and not again when the hole is filled.
    #[test]
    fn sampler_duplicates_count_once() {
        // One packet per ms is sent for 40 ms, with an RTT of 10 ms; the packet sent at 20 ms is lost. Duplicate
        // acknowledgements report the packets behind it from 31 ms on. Its retransmission, sent at 33 ms, is
        // acknowledged at 43 ms together with all packets sent up to 33 ms.
        let mut pipe = Pipe::default();
        let mut after = None;
        for t in 0..50 {
            match t {
                10..=29 | 44.. => {
                    pipe.ack(ms(t), 1, ms(10));
                }
                31..=42 => pipe.sampler.on_duplicate(ms(t), PACKET),
                43 => after = pipe.ack(ms(t), 14, ms(10)),
                _ => {}
            }
            if t < 40 {
                pipe.send(ms(t));
            }
        }
        // The newest of these packets was sent at 33 ms, when 20 packets had been acknowledged and duplicates had
        // reported three packets. Duplicates have since reported nine more packets, and the acknowledgement adds the
        // two packets that no duplicate reported. The send phase lasts from 19 ms, when the last packet before the hole
        // was sent, to 33 ms.
        let sample = after.unwrap();
        assert_eq!((sample.delivered, sample.interval), (PACKET * 11, ms(14)));
        assert_eq!(pipe.sampler.delivered(), PACKET * 40);
    }

    /// A steady stream of packets gives the exact rate.
    #[test]
    fn sampler_steady_pipe_gives_exact_rate() {
        // One packet per ms, each acknowledged after 10 ms: 1000 B/ms.
        let mut pipe = Pipe::default();
        for t in 0..100 {
            if t >= 10 {
                let sample = pipe.ack(ms(t), 1, ms(10)).unwrap();
                // No acknowledgement precedes the first flight, so the samples of this flight start from its first
                // packet.
                let delivered = if t < 20 { t - 9 } else { 10 };
                assert_eq!(sample.delivered, PACKET * delivered, "at {t} ms");
                assert_eq!(sample.tx_in_flight, PACKET * (t - 9).min(10));
                if t >= 20 {
                    assert_eq!(sample.interval, ms(10));
                    assert_eq!(sample.rate, Rate::from_bytes_per_sec(1_000_000));
                } else {
                    assert!(sample.rate <= Rate::from_bytes_per_sec(1_000_000));
                }
                assert!(!sample.app_limited);
            }
            pipe.send(ms(t));
        }
        assert_eq!(pipe.sampler.delivered(), PACKET * 90);
    }

    /// Compressed acknowledgements do not overstate the rate.
    #[test]
    fn sampler_compressed_acks_do_not_overstate_rate() {
        // One packet per ms is sent, except from 20 to 30 ms. Ten packets are acknowledged within 0.1 ms, and the next
        // twenty within 0.2 ms, 12 ms later. The acknowledgement phase alone would give 20 packets in 12 ms.
        let line = Rate::from_bytes_per_sec(1_000_000);
        let mut pipe = Pipe::default();
        for t in 0..20 {
            pipe.send(ms(t));
        }
        for n in 0..10 {
            let sample = pipe.ack(ms(30) + Nanos::from_micros(10 * n), 1, ms(2)).unwrap();
            assert!(sample.rate <= line);
        }
        for t in 31..41 {
            pipe.send(ms(t));
        }
        for n in 0..20 {
            let sample = pipe.ack(ms(42) + Nanos::from_micros(10 * n), 1, ms(2)).unwrap();
            assert!(sample.rate <= line, "{n}: {:?} over {:?}", sample.delivered, sample.interval);
            if n == 19 {
                // The newest packet was sent at 40 ms. The last packet acknowledged before that was packet 9, sent at 9
                // ms.
                assert_eq!((sample.delivered, sample.interval), (PACKET * 20, ms(31)));
            }
        }
    }

    /// A burst of sends does not overstate the rate.
    #[test]
    fn sampler_send_burst_does_not_overstate_rate() {
        // Ten packets are sent back to back and acknowledged one per ms from 10 ms on, so the acknowledgement phase is
        // the longer one.
        let mut pipe = Pipe::default();
        for _ in 0..10 {
            pipe.send(ms(0));
        }
        for n in 0..10 {
            let sample = pipe.ack(ms(10 + n), 1, ms(10)).unwrap();
            assert_eq!((sample.delivered, sample.interval), (PACKET * (n + 1), ms(10 + n)));
        }
    }

    /// One acknowledgement of many packets gives the sample of the newest packet.
    #[test]
    fn sampler_ack_of_many_packets_samples_the_newest() {
        let mut pipe = Pipe::default();
        for t in 0..4 {
            pipe.send(ms(t));
        }
        let sample = pipe.ack(ms(20), 3, ms(10)).unwrap();
        assert_eq!((sample.delivered, sample.interval), (PACKET * 3, ms(20)));
        assert_eq!(sample.tx_in_flight, PACKET * 3, "as when the third packet left");
        assert_eq!(sample.rate, Rate::from_bytes_per_sec(150_000));
    }

    /// The application-limited mark lasts until the data in flight when it was set is delivered.
    #[test]
    fn sampler_app_limited_lasts_until_flight_is_delivered() {
        let mut pipe = Pipe::default();
        pipe.send(ms(0));
        pipe.send(ms(1));
        pipe.sampler.set_app_limited(PACKET * 2);
        assert!(pipe.sampler.is_app_limited());
        pipe.send(ms(5)); // the only packet sent while the mark is on
        assert!(!pipe.ack(ms(10), 1, ms(10)).unwrap().app_limited);
        assert!(!pipe.ack(ms(11), 1, ms(10)).unwrap().app_limited);
        assert!(pipe.sampler.is_app_limited(), "exactly the marked amount is delivered, not more");
        assert!(pipe.ack(ms(15), 1, ms(10)).unwrap().app_limited);
        assert!(!pipe.sampler.is_app_limited());
        pipe.send(ms(16));
        assert!(!pipe.ack(ms(26), 1, ms(10)).unwrap().app_limited);
    }

    /// An interval below the minimum RTT gives no sample.
    #[test]
    fn sampler_interval_below_min_rtt_gives_no_sample() {
        let mut pipe = Pipe::default();
        pipe.send(ms(0));
        assert_eq!(pipe.ack(ms(9), 1, ms(10)), None);
        pipe.send(ms(20));
        assert!(pipe.ack(ms(30), 1, ms(10)).is_some());
        pipe.send(ms(40));
        assert_eq!(pipe.ack(ms(40), 1, Nanos::ZERO), None, "an empty interval has no rate");
    }

    /// An acknowledgement that delivers nothing gives no sample.
    #[test]
    fn sampler_empty_ack_gives_no_sample() {
        let mut pipe = Pipe::default();
        pipe.send(ms(0));
        assert_eq!(pipe.ack(ms(10), 0, ms(1)), None);
        assert!(pipe.ack(ms(11), 1, ms(1)).is_some());
        assert_eq!(pipe.ack(ms(12), 0, ms(1)), None, "a sample is given once");
    }

    /// No sample's interval includes idle time.
    #[test]
    fn sampler_idle_time_belongs_to_no_interval() {
        let mut pipe = Pipe::default();
        pipe.send(ms(0));
        pipe.ack(ms(10), 1, ms(10));
        pipe.send(ms(5_000));
        let sample = pipe.ack(ms(5_010), 1, ms(10)).unwrap();
        assert_eq!((sample.delivered, sample.interval), (PACKET, ms(10)));
    }

    /// A sample counts the bytes lost since the sampled packet was sent.
    #[test]
    fn sampler_reports_losses_since_the_packet_left() {
        let mut pipe = Pipe::default();
        pipe.send(ms(0));
        pipe.sampler.on_lost(PACKET * 3);
        pipe.send(ms(1));
        pipe.sampler.on_lost(PACKET);
        assert_eq!(pipe.ack(ms(10), 1, ms(5)).unwrap().lost, PACKET * 4);
        assert_eq!(pipe.ack(ms(11), 1, ms(5)).unwrap().lost, PACKET);
        assert_eq!(pipe.sampler.lost(), PACKET * 4);
    }
}
