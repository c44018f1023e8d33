//! Data leaves: as the scheme's window and pace allow.

use narrows_cc::{Bytes, EcnNeed, Nanos};

use super::Connection;
use super::half::ZEROS;
use super::state::{Sent, State};
use crate::feature::{self, Side};
use crate::{Ccid, Kind};

/// The window counter of CCID 3 jumps by five at most (RFC 4342 section 8.1).
const JUMP: u64 = 5;

/// The sequence window is five times the packets of a round trip (RFC 4340 section 7.5.2).
const WINDOWS: u64 = 5;

impl Connection {
    /// The size of the datagram that may leave now.
    pub(super) fn may_send_data(&mut self, now: Nanos) -> Option<u16> {
        let half = &mut self.half;
        let recent = now <= half.last_sent_at.saturating_add(half.rtt.srtt);
        let late = std::mem::take(&mut half.pacing_blocked) || (half.late && recent);
        let size = half.next_size()?;
        half.late = false;
        let len = Bytes::new(u64::from(size));
        if self.features.is_changing(feature::CCID, Side::Local) || !self.state.is_open() {
            return None;
        }
        // RFC 4341 section 4.
        let vectors = half.ccid == Ccid::TcpLike;
        if vectors && self.features.is_changing(feature::SEND_ACK_VECTOR, Side::Remote) {
            return None;
        }
        // What the other side could not tell from a stranger's packet, or acknowledge, is not sent (section 7.5).
        let width = self.features.value(feature::SEQUENCE_WINDOW, Side::Local) as i64;
        if self.gss.minus(self.gar) >= width * 3 / 4 - 1 {
            return None;
        }
        if !half.has_room(len) {
            half.not_limited.note(now);
            half.note_usage(true);
            return None;
        }
        if half.quiet_since < now {
            let idle = now - half.last_sent_at;
            half.quiet_since = Nanos::MAX;
            half.driver.idle_restart(now, idle, Some(half.rtt.rto()));
        }
        if half.driver.control().pacing_rate.is_some() && now < half.pacer.next() {
            // The same packet may be asked for again and again while it waits; it counts once.
            self.stats.paced_waits += u64::from(half.waited_for != half.pacer.next());
            half.waited_for = half.pacer.next();
            half.pacing_blocked = true;
            half.not_limited.note(now);
            return None;
        }
        half.late = late && half.pacer.next() < now;
        Some(size)
    }

    /// The next packet with data, if one may leave now.
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
            self.count_quarters(now);
        }
        let queued = self.half.queue.pop();
        let data = match &queued {
            Some(data) => data.as_slice(),
            None => &ZEROS[..usize::from(size)],
        };
        // Data alone where nothing else is to be said: an Ack at least once per round trip lets the other side forget what
        // its vectors told (section 11.4.2).
        let due = now >= self.half.acknowledged_at.saturating_add(self.half.rtt.or_default());
        let acknowledge = self.reception.unacknowledged > 0 && due;
        let tell = report || acknowledge || self.state == State::PartOpen || self.features.has_news(now);
        let mut sent = if tell {
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
        self.account(now, Bytes::new(u64::from(size)));
        Some(sent)
    }

    /// The codepoint of packets with data.
    fn codepoint(&self) -> u8 {
        let capable = self.config.ecn && self.features.value(feature::ECN_INCAPABLE, Side::Remote) == 0;
        match (capable, self.half.entry.ecn) {
            (false, _) => 0,
            (true, EcnNeed::L4s) => 1,
            (true, _) => 2,
        }
    }

    /// A datagram of `bytes` has left.
    fn account(&mut self, now: Nanos, bytes: Bytes) {
        self.stats.data_packets_sent += 1;
        self.stats.bytes_sent += bytes.as_u64();
        let datagram = self.config.datagram;
        let half = &mut self.half;
        half.inflight += bytes;
        half.packets += 1;
        half.offset += bytes.as_u64();
        half.last_sent_at = now;
        half.quiet_since = Nanos::MAX;
        half.waiting.get_or_insert(now);
        let control = half.driver.control();
        if let Some(rate) = control.pacing_rate {
            // A pace is kept where timers ring late: time lost since the packet was due is made up for, but no more than what
            // a round trip takes (RFC 5348 section 4.6).
            let late = if half.late { now - half.pacer.next() } else { Nanos::ZERO };
            let credit = bytes + rate.over(late.min(half.rtt.srtt));
            half.pacer.on_sent(now, bytes, rate, control.burst.max(credit));
        }
        let inflight = half.inflight;
        half.driver.sent(&narrows_cc::Sent { now, bytes, inflight, retransmission: false });
        let full = !half.has_room(Bytes::new(u64::from(datagram)));
        half.note_usage(full);
        if half.timer == Nanos::MAX {
            half.timer = now.saturating_add(half.timeout(datagram));
        }
    }

    /// Asks for a wider window of sequence numbers where `packets` are on their way.
    pub(super) fn widen(&mut self, now: Nanos, packets: u64) {
        let width = self.features.value(feature::SEQUENCE_WINDOW, Side::Local);
        if packets * WINDOWS > width && !self.features.is_changing(feature::SEQUENCE_WINDOW, Side::Local) {
            self.set_sequence_window(now, (2 * packets * WINDOWS).next_power_of_two());
        }
    }

    /// The window counter goes up by one each quarter of a round trip.
    fn count_quarters(&mut self, now: Nanos) {
        let half = &mut self.half;
        let (counter, at) = half.counter;
        let quarter = Nanos::from_nanos((half.rtt.or_default().as_nanos() / 4).max(1));
        let quarters = (now - at).as_nanos() / quarter.as_nanos();
        if quarters > 0 {
            half.counter = ((counter + quarters.min(JUMP) as u8) % 16, now);
        }
    }

    /// Data comes after a time in which the application had none: that was not the network's limit.
    pub(super) fn note_idle_end(&mut self, _now: Nanos) {
        if self.state.is_open() {
            self.half.check_app_limited();
        }
    }

    /// The scheme may ask for more than the window of numbers allows; nothing else limits it then.
    pub(super) fn follow_rate(&mut self, now: Nanos) {
        let datagram = u64::from(self.config.datagram.max(1));
        let window = self.half.driver.control().cwnd.as_u64() / datagram;
        let most = self.gss.minus(self.gar).max(0) as u64;
        if self.half.driver.is_cwnd_full() {
            self.widen(now, window.min(2 * most.max(1)));
        }
    }
}
