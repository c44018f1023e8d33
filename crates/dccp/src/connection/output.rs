//! What leaves beside data: packets of handshake and close, acknowledgements, Syncs and Resets.

use narrows_cc::{Nanos, SentState};

use super::records::{Fate, Record};
use super::state::{Sent, State};
use super::{Connection, rtt};
use crate::feature::{self, Side};
use crate::{Header, Kind, Opt, ResetCode, Seq};

/// The longest packet that is sent in reply to one whose numbers prove nothing: a Response that confirms every feature there is,
/// with long lists of preferences. Syncs, SyncAcks and Resets are 24 and 28 bytes long, and 8 more with an NDP count.
pub const REPLY_LIMIT: usize = 384;

/// The least time between two replies to packets that do not belong here: eight per second (RFC 4340 section 7.5.4).
pub(super) const REPLY_INTERVAL: Nanos = Nanos::from_millis(125);

/// Requests that are remembered: all that are sent before the connection is given up; and as many Responses.
const MOST_REPEATED: usize = 16;

/// The widest window of numbers with which short ones are still safe: a quarter of their circle (RFC 4340 section 7.6.1).
const WIDEST_SHORT: u64 = 1 << 22;

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
    fn any(&self) -> bool {
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

impl Connection {
    /// Appends the next packet to `out`, if one may leave now. To be called until `None` after every call that changes the
    /// connection.
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
                // Of the numbers here one end is known: the example of section 7.5.6.
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
        // With data at hand the acknowledgement rides on it.
        if std::mem::take(&mut pending.ack) && self.state.is_open() {
            self.reception.report_now();
            if self.may_send_data(now).is_none() {
                return Some(self.send_ack(now, out));
            }
        }
        None
    }

    /// A packet without options of its own.
    fn send_bare(
        &mut self,
        now: Nanos,
        kind: Kind,
        ack: Seq,
        reset: (ResetCode, [u8; 3]),
        out: &mut Vec<u8>,
    ) -> Sent {
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

    /// A Request or Response, with all features that are being negotiated.
    fn send_negotiating(&mut self, now: Nanos, kind: Kind, out: &mut Vec<u8>) -> Sent {
        let mut header = self.header(kind, self.gsr);
        header.service = self.config.service;
        let mut options = std::mem::take(&mut self.scratch);
        options.clear();
        self.features.write(now, self.gss.add(1), Nanos::from_secs(1), true, &mut options);
        if kind == Kind::Response {
            // Data of Requests is not taken (section 8.1.3).
            self.reception.write_drops(self.gss.add(1), self.gsr, REPLY_LIMIT - 28, &mut options);
        }
        self.note_sent(now, 0);
        // Request and Response count as packets with data (RFC 4340 section 7.7).
        self.half.ndp = 0;
        self.handshake.truncate(MOST_REPEATED - 1);
        self.handshake.push_front((self.gss, now));
        header.encode(&options, &[], out);
        self.scratch = options;
        Sent { kind, ecn: 0, data: 0, seq: self.gss }
    }

    /// An acknowledgement without data.
    pub(super) fn send_ack(&mut self, now: Nanos, out: &mut Vec<u8>) -> Sent {
        self.stats.acks_sent += 1;
        self.send_with_report(now, Kind::Ack, &[], out)
    }

    /// An Ack or DataAck: with what is to be told of features and of what was received.
    pub(super) fn send_with_report(
        &mut self,
        now: Nanos,
        kind: Kind,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Sent {
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
        if self.is_slow() {
            Opt::SlowReceiver.write(&mut options);
        }
        // Room in a packet with data is for data: a long vector then goes by itself.
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

    /// The checksum of the data that a packet carries, where checksums are sent.
    pub(super) fn write_checksum(&self, data: &[u8], options: &mut Vec<u8>) {
        if self.config.data_checksum && !data.is_empty() {
            Opt::DataChecksum(crate::wire::data_checksum(data)).write(options);
        }
    }

    /// How many packets without data came before this one, if the other side wants to know (RFC 4340 section 7.7).
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
        header.long = !self.short(kind);
        let width = if header.long { u64::MAX } else { 0xff_ffff };
        header.seq = self.gss.add(1).get() & width;
        header.ack = kind.acknowledges().then_some(ack.get() & width);
        header.ccval = self.half.counter.0;
        header
    }

    /// Whether a packet may have short numbers.
    fn short(&self, kind: Kind) -> bool {
        let value = |number, side| self.features.value(number, side);
        self.state == State::Open
            && kind.may_be_short()
            && value(feature::SHORT_NUMBERS, Side::Local) == 1
            && value(feature::SEQUENCE_WINDOW, Side::Local) <= WIDEST_SHORT
            && value(feature::SEQUENCE_WINDOW, Side::Remote) <= WIDEST_SHORT
    }

    /// Accounts for a packet that leaves, with `bytes` of data.
    #[inline]
    pub(super) fn note_sent(&mut self, now: Nanos, bytes: u32) {
        self.make_room(now);
        let snapshot = if bytes > 0 {
            self.half.driver.stamp(now, narrows_cc::Bytes::new(u64::from(bytes)), self.half.inflight)
        } else {
            SentState { sent_at: now, ..SentState::default() }
        };
        self.half.records.push(Record {
            bytes,
            fate: Fate::Outstanding,
            counter: self.half.counter.0,
            snapshot,
        });
        self.gss = self.gss.add(1);
        self.stats.packets_sent += 1;
        // Acknowledgements count as well: the end that only receives data has its numbers out too.
        if self.state.is_open() {
            let outstanding = self.gss.minus(self.gar).max(0) as u64;
            self.widen(now, outstanding);
        }
        if bytes == 0 {
            self.half.ndp += 1;
            self.half.forget();
        } else {
            self.half.ndp = 0;
        }
        if self.state == State::PartOpen {
            // RFC 4340 section 8.1.5: the timer is set by every packet in this state.
            self.backoff.push(now);
        }
        if let Some(iss) = self.iss
            && self.gss.minus(iss) > feature::SEQUENCE_WINDOWS.1 as i64
        {
            self.iss = None;
        }
    }

    /// Forgets the oldest packets where there are too many: what is not acknowledged among them is lost.
    #[inline]
    fn make_room(&mut self, now: Nanos) {
        let records = &self.half.records;
        if records.len() >= self.config.outstanding.max(16) {
            let until = records.first() + 1 + records.len() as u64 / 2;
            self.lose_until(now, until);
            self.half.records.forget(u64::MAX);
        }
    }

    /// The first interval of what is repeated after two round trips.
    pub(super) fn two_round_trips(&self) -> Nanos {
        (self.half.rtt.or_default() * 2).clamp(rtt::LEAST, rtt::LONGEST)
    }
}
