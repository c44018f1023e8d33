//! Data transmission, within the scheme's congestion window and pacing rate.

use narrows_cc::{Bytes, EcnNeed, IdleRule, Nanos, record};

use super::Connection;
use super::half::ZEROS;
use super::state::{Sent, State};
use crate::feature::{self, Side};
use crate::{Ccid, Kind};

/// Greatest increment of CCID 3's window counter (RFC 4342 section 8.1).
const MAX_COUNTER_STEP: u64 = 5;

/// Sequence Window in packets per round trip (RFC 4340 section 7.5.2).
const SEQUENCE_WINDOW_RTTS: u64 = 5;

/// The data that the pacing rate sends in this time may leave back to back: at least two packets and at most 64 KiB.
const BURST: Nanos = Nanos::from_millis(1);
const MAX_BURST: Bytes = Bytes::new(65_536);

impl Connection {
    /// Size of the next datagram if it may leave now.
    pub(super) fn may_send_data(&mut self, now: Nanos) -> Option<u16> {
        let half = &mut self.half;
        let recent = now <= half.last_sent_at.saturating_add(half.rtt.srtt);
        let late = std::mem::take(&mut half.pacing_blocked) || (half.pacing_late && recent);
        let size = half.next_size()?;
        half.pacing_late = false;
        let len = Bytes::new(u64::from(size));
        if self.features.is_changing(feature::CCID, Side::Local) || !self.state.is_open() {
            return None;
        }
        // CCID 2 data waits for Send Ack Vector (RFC 4341 section 4).
        let vectors = half.ccid == Ccid::TcpLike;
        if vectors && self.features.is_changing(feature::SEND_ACK_VECTOR, Side::Remote) {
            return None;
        }
        // Stay inside the peer's sequence and acknowledgement windows; packets outside are invalid (section
        // 7.5).
        let width = self.features.value(feature::SEQUENCE_WINDOW, Side::Local) as i64;
        if self.gss.minus(self.gar) >= width * 3 / 4 - 1 {
            return None;
        }
        if !half.has_room(len) {
            half.not_limited.note(now);
            half.note_usage(true);
            return None;
        }
        if half.idle_since < now {
            let idle = now - half.last_sent_at;
            half.idle_since = Nanos::MAX;
            half.driver.idle_restart(now, idle, Some(half.rtt.rto()), IdleRule::Rfc5681);
        }
        if half.driver.control().pacing_rate.is_some() && now < half.pacer.next() {
            // The caller may poll repeatedly while the packet waits; count the wait once.
            self.stats.paced_waits += u64::from(half.counted_wait != half.pacer.next());
            half.counted_wait = half.pacer.next();
            half.pacing_blocked = true;
            half.not_limited.note(now);
            return None;
        }
        half.pacing_late = late && half.pacer.next() < now;
        Some(size)
    }

    /// Sends the next data packet, if one may leave now.
    pub(super) fn poll_data(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Sent> {
        let report = self.reception.must_report();
        let vector = self.features.value(feature::SEND_ACK_VECTOR, Side::Local) == 1;
        if report && vector && self.reception.is_long() {
            return Some(self.send_ack(now, out));
        }
        let Some(size) = self.may_send_data(now) else {
            if self.closing {
                self.close_when_empty(now);
            }
            return None;
        };
        if self.half.ccid == Ccid::Tfrc {
            self.step_counter(now);
        }
        let queued = self.half.queue.pop();
        let data = match &queued {
            Some(data) => data.as_slice(),
            None => &ZEROS[..usize::from(size)],
        };
        // Send a Data packet if there is nothing to acknowledge or negotiate. At least one acknowledgement
        // per round trip lets the peer drop state that its vectors reported (section 11.4.2).
        let due = now >= self.half.acknowledged_at.saturating_add(self.half.rtt.or_default());
        let acknowledge = self.reception.unacknowledged > 0 && due;
        let with_report = report || acknowledge || self.state == State::PartOpen || self.features.has_news(now);
        let mut sent = if with_report {
            self.send_with_report(now, Kind::DataAck, data, out)
        } else {
            let header = self.header(Kind::Data, self.gsr);
            let mut options = std::mem::take(&mut self.scratch);
            options.clear();
            self.write_ndp(&mut options);
            self.write_checksum(data, &mut options);
            self.note_sent(now, u32::from(size));
            header.encode(&options, data, out);
            self.scratch = options;
            Sent { kind: Kind::Data, ecn: 0, data: size, seq: self.gss }
        };
        sent.ecn = self.codepoint();
        if let Some(buffer) = queued {
            self.half.queue.recycle(buffer);
        }
        self.note_data_sent(now, Bytes::new(u64::from(size)));
        Some(sent)
    }

    /// ECN codepoint of data packets.
    fn codepoint(&self) -> u8 {
        let capable = self.config.ecn && self.features.value(feature::ECN_INCAPABLE, Side::Remote) == 0;
        match (capable, self.half.entry.ecn) {
            (false, _) => 0,
            (true, EcnNeed::L4s) => 1,
            (true, _) => 2,
        }
    }

    /// Updates congestion control after the departure of a datagram of `bytes`.
    fn note_data_sent(&mut self, now: Nanos, bytes: Bytes) {
        self.stats.data_packets_sent += 1;
        self.stats.bytes_sent += bytes.as_u64();
        let datagram = self.config.datagram;
        let half = &mut self.half;
        half.inflight += bytes;
        half.packets += 1;
        half.offset += bytes.as_u64();
        half.last_sent_at = now;
        half.idle_since = Nanos::MAX;
        half.unanswered_since.get_or_insert(now);
        let control = half.driver.control();
        if let Some(rate) = control.pacing_rate {
            // Keep the pacing rate when timers fire late: credit the delay since the scheduled departure, up to one
            // round trip (RFC 5348 section 4.6).
            let late = if half.pacing_late { now - half.pacer.next() } else { Nanos::ZERO };
            let credit = bytes + rate.over(late.min(half.rtt.srtt));
            // Schemes that leave the burst size to the transport get the burst size that Linux gives TCP
            // (`tcp_tso_autosize`).
            let burst = match control.burst {
                Bytes::MAX => rate.over(BURST).min(MAX_BURST).max(bytes * 2),
                burst => burst,
            };
            half.pacer.on_sent(now, bytes, rate, burst.max(credit));
        }
        let inflight = half.inflight;
        half.driver.sent(&record!(narrows_cc::Sent { now, bytes, inflight }));
        let full = !half.has_room(Bytes::new(u64::from(datagram)));
        half.note_usage(full);
        if half.timer == Nanos::MAX {
            half.timer = now.saturating_add(half.timeout(datagram));
        }
    }

    /// Requests a wider Sequence Window if it is too narrow for `packets` in flight.
    pub(super) fn widen_sequence_window(&mut self, now: Nanos, packets: u64) {
        let width = self.features.value(feature::SEQUENCE_WINDOW, Side::Local);
        if packets * SEQUENCE_WINDOW_RTTS > width && !self.features.is_changing(feature::SEQUENCE_WINDOW, Side::Local) {
            self.set_sequence_window(now, (2 * packets * SEQUENCE_WINDOW_RTTS).next_power_of_two());
        }
    }

    /// Increments the window counter every quarter of a round trip.
    fn step_counter(&mut self, now: Nanos) {
        let half = &mut self.half;
        let (counter, at) = half.counter;
        let quarter = Nanos::from_nanos((half.rtt.or_default().as_nanos() / 4).max(1));
        let quarters = (now - at).as_nanos() / quarter.as_nanos();
        if quarters > 0 {
            half.counter = ((counter + quarters.min(MAX_COUNTER_STEP) as u8) % 16, now);
        }
    }

    /// Marks samples as application-limited, before new data ends an idle time.
    pub(super) fn note_idle_end(&mut self, _now: Nanos) {
        if self.state.is_open() {
            self.half.check_app_limited();
        }
    }

    /// Widens the Sequence Window while the congestion window is fully used, so that it does not limit the congestion
    /// window.
    pub(super) fn widen_to_cwnd(&mut self, now: Nanos) {
        let datagram = u64::from(self.config.datagram.max(1));
        let window = self.half.driver.control().cwnd.as_u64() / datagram;
        let most = self.gss.minus(self.gar).max(0) as u64;
        if self.half.driver.is_cwnd_full() {
            self.widen_sequence_window(now, window.min(2 * most.max(1)));
        }
    }
}
