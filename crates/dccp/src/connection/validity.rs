//! Packet reception and validity checks (RFC 4340 sections 7.5 and 8.5).

use narrows_cc::Nanos;

use super::Connection;
use super::config::Role;
use super::receiving::ValidPacket;
use super::state::State;
use crate::ack_vector::{Mark, Recorded};
use crate::ccid::Ccid;
use crate::data_dropped::DropCode;
use crate::feature::{self, Side};
use crate::seq::Seq;
use crate::wire::{Body, Header, Kind, ResetCode, data_checksum};

/// ECN codepoint Congestion Experienced.
const CE: u8 = 3;

/// Full 48-bit sequence and acknowledgement numbers of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) seq: Seq,
    pub(super) ack: Option<Seq>,
}

impl Connection {
    /// Receives a packet with the ECN codepoint `ecn` (0 to 3) of its IP header. Call
    /// [`Connection::poll_transmit`] next.
    pub fn on_packet(&mut self, now: Nanos, bytes: &[u8], ecn: u8) {
        // Step 1: drop malformed packets.
        let Ok((header, body)) = Header::decode(bytes) else {
            self.stats.ignored += 1;
            return;
        };
        self.on_decoded(now, &header, &body, ecn);
    }

    /// Like [`Connection::on_packet`], for a packet decoded under the rules of its encapsulation
    /// ([`crate::udp::open`]).
    pub fn on_decoded(&mut self, now: Nanos, header: &Header, body: &Body<'_>, ecn: u8) {
        let wrong_source = self.remote_port != 0 && header.source != self.remote_port;
        if header.destination != self.config.local_port || wrong_source {
            self.stats.ignored += 1;
            return;
        }
        // Step 2: no connection exists for the packet.
        if self.state.is_over() {
            self.refuse(now, header, ResetCode::NoConnection);
            return;
        }
        let numbers = match self.state {
            State::Listen => match self.accept_request(now, header) {
                Some(numbers) => numbers,
                None => return,
            },
            State::Request => match self.accept_response(now, header) {
                Some(numbers) => numbers,
                None => return,
            },
            _ => match self.full_numbers(header) {
                Some(numbers) => numbers,
                None => {
                    self.stats.ignored += 1;
                    return;
                }
            },
        };
        if !self.is_in_window(now, header.kind, numbers) || !self.is_expected(now, header.kind, numbers) {
            return;
        }
        self.update_numbers(header.kind, numbers);
        self.stats.packets_received += 1;
        self.valid_at = now;
        self.process(now, header, numbers, body, ecn & 3 == CE);
        // The peer is alive. Data still in flight waits for feedback from now on.
        self.half.unanswered_since = (self.half.packets > 0).then_some(now);
    }

    /// Steps 8 to 16, for a valid packet.
    fn process(&mut self, now: Nanos, header: &Header, numbers: Numbers, body: &Body<'_>, marked: bool) {
        let received = match self.read_options(now, header, numbers, body.options) {
            Ok(received) => received,
            Err((code, data)) => {
                self.reset(now, code, data);
                return;
            }
        };
        if self.state.is_over() {
            return;
        }
        let mark = if marked && self.config.ecn { Mark::Marked } else { Mark::Received };
        let payload = if header.kind.is_data() { body.data.len() as u32 } else { 0 };
        let payload = if matches!(header.kind, Kind::Request | Kind::Response) { 0 } else { payload };
        let ratio = self.features.value(feature::ACK_RATIO, Side::Remote);
        let corrupt = received.checksum.is_some_and(|sum| sum != data_checksum(body.data));
        let arrived = ValidPacket { seq: numbers.seq, mark, payload, ccval: header.ccval, ndp: received.ndp, corrupt };
        let recorded = self.reception.on_packet(now, &arrived, ratio, self.half.rtt.srtt);
        let fresh = recorded == Recorded::New;
        let refused = self.drop_reason(header.kind, body.data, corrupt).filter(|_| fresh);
        if let Some(code) = refused {
            self.reception.drop_data(numbers.seq, code);
            self.stats.corrupt_packets += u64::from(corrupt);
        }
        if received.slow {
            self.stats.slow_reports += 1;
            self.half.on_slow_receiver(now);
        }
        if self.half.ccid == Ccid::TcpLike {
            self.half.ratio.on_packet(numbers.seq);
        }
        if header.kind == Kind::Reset {
            self.on_reset(now, header.reset.0);
            return;
        }
        self.advance_handshake(now, header.kind, numbers);
        if let Some(ack) = numbers.ack
            && matches!(header.kind, Kind::Ack | Kind::DataAck | Kind::SyncAck)
        {
            self.reception.acknowledged(ack);
            self.on_feedback(now, ack, body.options, &received);
        }
        match header.kind {
            Kind::CloseReq => self.on_close_request(now),
            Kind::Close => {
                self.on_close(now);
                return;
            }
            Kind::Sync => self.pending.sync_ack = Some(numbers.seq),
            _ => {}
        }
        if payload > 0 {
            if !fresh {
                let older = recorded == Recorded::Old;
                self.stats.too_late += u64::from(older);
                self.stats.duplicates += u64::from(!older);
                return;
            }
            self.stats.data_packets_received += 1;
            self.stats.bytes_received += u64::from(payload);
            if self.config.deliver && refused.is_none() {
                self.deliver(numbers.seq, body.data);
            }
        }
    }

    /// Reason for dropping the data of a packet.
    fn drop_reason(&self, kind: Kind, data: &[u8], corrupt: bool) -> Option<DropCode> {
        // Until the peer confirms ECN Incapable, data is dropped (section 12.1).
        let unconfirmed = || !self.config.ecn && self.features.is_changing(feature::ECN_INCAPABLE, Side::Local);
        match kind {
            _ if corrupt => Some(DropCode::Corrupt),
            _ if data.is_empty() => None,
            Kind::Request | Kind::Response => Some(DropCode::ProtocolConstraints),
            Kind::Data | Kind::DataAck if unconfirmed() => Some(DropCode::ProtocolConstraints),
            _ => None,
        }
    }

    /// Queues a datagram for the application. Records a drop on overflow.
    fn deliver(&mut self, seq: Seq, data: &[u8]) {
        let full = !self.inbox.has_room();
        let taken = self.inbox.push(data);
        if full {
            let lost = if taken { self.inbox_numbers.pop_front() } else { Some(seq) };
            self.reception.drop_data(lost.unwrap_or(seq), DropCode::ReceiveBuffer);
        }
        if taken {
            self.inbox_numbers.push_back(seq);
        }
        self.stats.receive_drops = self.inbox.dropped;
    }

    /// Extends short sequence numbers; `None` if they are not allowed (section 7.6.1).
    fn full_numbers(&self, header: &Header) -> Option<Numbers> {
        if header.long {
            return Some(Numbers { seq: Seq::new(header.seq), ack: header.ack.map(Seq::new) });
        }
        let allowed = self.features.value(feature::SHORT_NUMBERS, Side::Remote) == 1;
        allowed.then(|| Numbers {
            seq: Seq::extend(header.seq as u32, self.gsr),
            ack: header.ack.map(|ack| Seq::extend(ack as u32, self.gss)),
        })
    }

    /// The sequence number window: SWL and SWH (section 7.5.1).
    pub(super) fn sequence_window(&self) -> (Seq, Seq) {
        let width = self.features.value(feature::SEQUENCE_WINDOW, Side::Remote) as i64;
        let low = self.gsr.add(1 - width / 4);
        let low = self.isr.filter(|isr| isr.after(low)).unwrap_or(low);
        (low, self.gsr.add((3 * width + 3) / 4))
    }

    /// The acknowledgement number window: AWL and AWH (section 7.5.1).
    pub(super) fn acknowledgement_window(&self) -> (Seq, Seq) {
        let width = self.features.value(feature::SEQUENCE_WINDOW, Side::Local) as i64;
        let low = self.gss.add(1 - width);
        let low = self.iss.filter(|iss| iss.after(low)).unwrap_or(low);
        (low, self.gss)
    }

    /// Steps 5 and 6: sequence number validity.
    fn is_in_window(&mut self, now: Nanos, kind: Kind, Numbers { seq, ack }: Numbers) -> bool {
        let (swl, swh) = self.sequence_window();
        let (awl, awh) = self.acknowledgement_window();
        let valid = match kind {
            Kind::Sync | Kind::SyncAck => {
                // Syncs may carry any number from SWL on, so that endpoints can resynchronise. While valid
                // packets arrive, the endpoints are synchronised and the window applies (section 7.5.3).
                let active = now <= self.valid_at.saturating_add(self.half.rtt.or_default() * 3);
                let known = if active { seq.within(swl, swh) } else { !swl.after(seq) };
                let valid = known && ack.is_some_and(|ack| ack.within(awl, awh));
                if !valid {
                    self.stats.out_of_window += 1;
                    return false;
                }
                valid
            }
            Kind::CloseReq | Kind::Close | Kind::Reset => {
                let low = self.gsr.add(1);
                // The reply to a Request may have any sequence number: the client does not know the server's numbers
                // yet.
                let low = if self.state == State::Request { seq } else { low };
                seq.within(low, swh)
                    && ack.is_some_and(|ack| !self.gar.after(ack) && !ack.after(awh) && !awl.after(ack))
            }
            _ => seq.within(swl, swh) && ack.is_none_or(|ack| ack.within(awl, awh)),
        };
        if !valid {
            self.stats.out_of_window += 1;
            let ack = if kind == Kind::Reset { self.gsr } else { seq };
            self.send_sync(now, ack);
        }
        valid
    }

    /// Sends a Sync, within the reply limit.
    fn send_sync(&mut self, now: Nanos, ack: Seq) {
        if self.pending.may_reply(now) {
            self.pending.sync = Some(ack);
        }
    }

    /// Step 7: unexpected packet types.
    fn is_expected(&mut self, now: Nanos, kind: Kind, Numbers { seq, .. }: Numbers) -> bool {
        let server = self.config.role == Role::Server;
        let late = self.state >= State::Open && !self.osr.after(seq);
        let unexpected = match kind {
            Kind::CloseReq => server,
            Kind::Response => server || late,
            Kind::Request => !server || late,
            Kind::Data => self.state == State::Respond,
            _ => false,
        };
        if unexpected {
            self.stats.ignored += 1;
            self.send_sync(now, seq);
        }
        !unexpected
    }

    /// Updates GSR and GAR.
    fn update_numbers(&mut self, kind: Kind, Numbers { seq, ack }: Numbers) {
        if seq.after(self.gsr) {
            self.gsr = seq;
        }
        if let Some(ack) = ack
            && kind != Kind::Sync
            && ack.after(self.gar)
        {
            self.gar = ack;
        }
        if let Some(isr) = self.isr
            && self.gsr.minus(isr) > feature::SEQUENCE_WINDOWS.1 as i64
        {
            self.isr = None;
        }
        self.features.limit_lag(self.gsr, self.gss);
    }

    /// Sends a Reset for a packet without a connection (section 8.3.1), or for a packet that an endpoint in LISTEN or
    /// REQUEST cannot accept.
    pub(super) fn refuse(&mut self, now: Nanos, header: &Header, code: ResetCode) {
        self.stats.ignored += 1;
        if header.kind == Kind::Reset || !self.pending.may_reply(now) {
            return;
        }
        self.pending.refusal = Some(header.refusal(code));
    }
}
