//! Output other than data: handshake and close packets, acknowledgements, Syncs and Resets.

use narrows_cc::{Nanos, SentState, record};

use super::pending::REPLY_LIMIT;
use super::records::{Fate, Record};
use super::state::{Sent, State};
use super::{Connection, rtt};
use crate::feature::{self, Side};
use crate::seq::Seq;
use crate::wire::{Header, Kind, Opt, ResetCode, data_checksum};

/// Maximum number of handshake packets remembered: all Requests before the abort, and an equal number of Responses.
const MAX_HANDSHAKE_PACKETS: usize = 16;

/// Greatest Sequence Window that permits short sequence numbers: a quarter of their space (RFC 4340 section
/// 7.6.1).
const MAX_SHORT_WINDOW: u64 = 1 << 22;

impl Connection {
    /// Appends the next packet to `out`, if one may leave now. Call this until it returns `None` after every call that
    /// changes the connection.
    pub fn poll_transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Sent> {
        if self.pending.any()
            && let Some(sent) = self.poll_pending(now, out)
        {
            return Some(sent);
        }
        if !self.state.is_open() {
            return None;
        }
        if let Some(sent) = self.poll_data(now, out) {
            return Some(sent);
        }
        if self.pending.close || self.pending.close_req {
            return self.poll_pending(now, out);
        }
        if self.reception.must_report() || self.features.has_news(now) {
            return Some(self.send_ack(now, out));
        }
        None
    }

    #[cold]
    fn poll_pending(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Sent> {
        if let Some(mut header) = self.pending.refusal.take() {
            if self.state == State::Request {
                // In REQUEST this endpoint's sequence numbers are known, so the Reset uses them, as in the example of
                // section 7.5.6.
                header.seq = self.gss.add(1).get();
                self.note_sent(now, 0);
            }
            header.encode(&[], &[], out);
            return Some(Sent { kind: Kind::Reset, ecn: 0, data: 0, seq: Seq::new(header.seq) });
        }
        if let Some(reset) = self.pending.reset.take() {
            self.pending.clear();
            return Some(self.send_bare(now, Kind::Reset, self.gsr, reset, out));
        }
        let none = (ResetCode::Unspecified, [0; 3]);
        if let Some(seq) = self.pending.sync.take() {
            return Some(self.send_bare(now, Kind::Sync, seq, none, out));
        }
        if let Some(seq) = self.pending.sync_ack.take() {
            return Some(self.send_bare(now, Kind::SyncAck, seq, none, out));
        }
        let pending = &mut self.pending;
        if std::mem::take(&mut pending.request) {
            return Some(self.send_negotiating(now, Kind::Request, out));
        }
        if std::mem::take(&mut pending.response) {
            return Some(self.send_negotiating(now, Kind::Response, out));
        }
        if std::mem::take(&mut pending.close_req) {
            return Some(self.send_bare(now, Kind::CloseReq, self.gsr, none, out));
        }
        if std::mem::take(&mut pending.close) {
            return Some(self.send_bare(now, Kind::Close, self.gsr, none, out));
        }
        // If a data packet can leave, it carries the acknowledgement.
        if std::mem::take(&mut pending.ack) && self.state.is_open() {
            self.reception.report_now();
            if self.may_send_data(now).is_none() {
                return Some(self.send_ack(now, out));
            }
        }
        None
    }

    /// Sends a packet without feedback or feature options.
    fn send_bare(&mut self, now: Nanos, kind: Kind, ack: Seq, reset: (ResetCode, [u8; 3]), out: &mut Vec<u8>) -> Sent {
        let mut header = self.header(kind, ack);
        header.reset = (reset.0 as u8, reset.1);
        let mut options = std::mem::take(&mut self.scratch);
        options.clear();
        self.write_ndp(&mut options);
        self.note_sent(now, 0);
        self.stats.syncs_sent += u64::from(kind == Kind::Sync);
        if self.state == State::PartOpen {
            // Every packet in PARTOPEN returns the cookies (section 8.1.5).
            options.extend_from_slice(&self.cookies);
        }
        header.encode(&options, &[], out);
        self.scratch = options;
        Sent { kind, ecn: 0, data: 0, seq: self.gss }
    }

    /// Sends a Request or Response, with all pending feature options.
    fn send_negotiating(&mut self, now: Nanos, kind: Kind, out: &mut Vec<u8>) -> Sent {
        let mut header = self.header(kind, self.gsr);
        header.service = self.config.service;
        let mut options = std::mem::take(&mut self.scratch);
        options.clear();
        self.features.write(now, self.gss.add(1), Nanos::from_secs(1), true, &mut options);
        if kind == Kind::Response {
            // Data in Requests is dropped (section 8.1.3).
            self.reception.write_drops(self.gss.add(1), self.gsr, REPLY_LIMIT - 28, &mut options);
            options.extend_from_slice(&self.cookies);
        }
        self.note_sent(now, 0);
        // Requests and Responses count as data packets (RFC 4340 section 7.7).
        self.half.ndp = 0;
        self.handshake.truncate(MAX_HANDSHAKE_PACKETS - 1);
        self.handshake.push_front((self.gss, now));
        header.encode(&options, &[], out);
        self.scratch = options;
        Sent { kind, ecn: 0, data: 0, seq: self.gss }
    }

    /// Sends an acknowledgement without data.
    pub(super) fn send_ack(&mut self, now: Nanos, out: &mut Vec<u8>) -> Sent {
        self.stats.acks_sent += 1;
        self.send_with_report(now, Kind::Ack, &[], out)
    }

    /// Sends an Ack or DataAck with pending feature options and feedback.
    pub(super) fn send_with_report(&mut self, now: Nanos, kind: Kind, data: &[u8], out: &mut Vec<u8>) -> Sent {
        let mut header = self.header(kind, self.gsr);
        let seq = self.gss.add(1);
        let mut options = std::mem::take(&mut self.scratch);
        options.clear();
        if self.features.has_news(now) {
            let interval = self.half.rtt.or_default() * 2;
            self.features.write(now, seq, interval, false, &mut options);
        }
        self.write_ndp(&mut options);
        self.write_checksum(data, &mut options);
        if self.state == State::PartOpen {
            options.extend_from_slice(&self.cookies);
        }
        if self.must_send_slow_receiver() {
            Opt::SlowReceiver.write(&mut options);
        }
        // A data packet reserves its space for data, so a long vector is sent in an Ack.
        let room = if data.is_empty() { header.room() - 3 } else { 128 };
        let vector = self.features.value(feature::SEND_ACK_VECTOR, Side::Local) == 1;
        let event_rate = self.features.value(feature::SEND_LOSS_EVENT_RATE, Side::Local) == 1;
        let ack = self.reception.write_report(now, seq, vector, event_rate, room, &mut options);
        let ack = ack.unwrap_or(self.gsr);
        self.reception.write_drops(seq, ack, room, &mut options);
        header.ack = Some(if header.long { ack.get() } else { ack.get() & 0xff_ffff });
        self.half.acknowledged_at = now;
        self.note_sent(now, data.len() as u32);
        header.encode(&options, data, out);
        self.scratch = options;
        Sent { kind, ecn: 0, data: data.len() as u16, seq: self.gss }
    }

    /// Writes the Data Checksum option, if enabled.
    pub(super) fn write_checksum(&self, data: &[u8], options: &mut Vec<u8>) {
        if self.config.data_checksum && !data.is_empty() {
            Opt::DataChecksum(data_checksum(data)).write(options);
        }
    }

    /// Writes the NDP count, if the peer requested it (RFC 4340 section 7.7).
    pub(super) fn write_ndp(&self, options: &mut Vec<u8>) {
        let count = self.half.ndp;
        if count > 0 && self.features.value(feature::SEND_NDP_COUNT, Side::Local) == 1 {
            Opt::NdpCount(count).write(options);
        }
    }

    /// The header of the next packet.
    pub(super) fn header(&self, kind: Kind, ack: Seq) -> Header {
        let mut header = Header::new(kind);
        header.source = self.config.local_port;
        header.destination = self.remote_port;
        header.long = !self.uses_short(kind);
        let width = if header.long { u64::MAX } else { 0xff_ffff };
        header.seq = self.gss.add(1).get() & width;
        header.ack = kind.acknowledges().then_some(ack.get() & width);
        header.ccval = self.half.counter.0;
        header
    }

    /// Whether the packet uses short sequence numbers.
    fn uses_short(&self, kind: Kind) -> bool {
        let value = |number, side| self.features.value(number, side);
        self.state == State::Open
            && kind.may_be_short()
            && value(feature::SHORT_NUMBERS, Side::Local) == 1
            && value(feature::SEQUENCE_WINDOW, Side::Local) <= MAX_SHORT_WINDOW
            && value(feature::SEQUENCE_WINDOW, Side::Remote) <= MAX_SHORT_WINDOW
    }

    /// Records the departure of a packet with `bytes` of data.
    #[inline]
    pub(super) fn note_sent(&mut self, now: Nanos, bytes: u32) {
        self.evict_records(now);
        let snapshot = if bytes > 0 {
            self.half.driver.stamp(now, narrows_cc::Bytes::new(u64::from(bytes)), self.half.inflight)
        } else {
            record!(SentState { sent_at: now })
        };
        self.half.records.push(Record { bytes, fate: Fate::Outstanding, counter: self.half.counter.0, snapshot });
        self.gss = self.gss.add(1);
        self.stats.packets_sent += 1;
        // Acknowledgements count too: a pure data receiver also has numbers in flight.
        if self.state.is_open() {
            let outstanding = self.gss.minus(self.gar).max(0) as u64;
            self.widen_sequence_window(now, outstanding);
        }
        if bytes == 0 {
            self.half.ndp += 1;
            self.half.drop_settled();
        } else {
            self.half.ndp = 0;
        }
        if self.state == State::PartOpen {
            // Every packet sent in PARTOPEN restarts the timer (RFC 4340 section 8.1.5).
            self.backoff.restart(now);
        }
        if let Some(iss) = self.iss
            && self.gss.minus(iss) > feature::SEQUENCE_WINDOWS.1 as i64
        {
            self.iss = None;
        }
    }

    /// Drops the oldest half of a full record ring; unacknowledged packets in this half are declared lost.
    #[inline]
    fn evict_records(&mut self, now: Nanos) {
        let records = &self.half.records;
        if records.len() >= self.config.outstanding.max(16) {
            let until = records.first() + 1 + records.len() as u64 / 2;
            self.declare_lost_until(now, until);
            self.half.records.drop_settled(u64::MAX);
        }
    }

    /// First interval of retransmissions that begin after two round trips, within the bounds of the timeout.
    pub(super) fn two_round_trips(&self) -> Nanos {
        (self.half.rtt.or_default() * 2).clamp(rtt::GRANULARITY, rtt::LONGEST)
    }
}
