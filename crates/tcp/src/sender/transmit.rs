//! What leaves next.

use narrows_cc::{Bytes, Nanos, Phase, SendPosition, Sent};
use narrows_packet::{Ecn, Flags, Packet, timestamp};

use super::rack::Probe;
use super::{Pending, Sender, State};
use crate::rates::RateEvent;

impl Sender {
    /// The next packet to send, if one may leave now. To be called until `None` after every call that changes the sender.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if self.pending != Pending::NONE || self.state != State::Established {
            if let Some(packet) = self.poll_pending(now) {
                return Some(packet);
            }
            if self.state != State::Established {
                return None;
            }
        }
        self.held = false;
        if self.waits_for_rate() {
            return None;
        }
        if self.board.has_lost() {
            return self.poll_lost(now);
        }
        self.poll_new(now)
    }

    /// What leaves whatever the window and the pacer say.
    #[cold]
    fn poll_pending(&mut self, now: Nanos) -> Option<Packet> {
        if self.pending.take(Pending::SYN) {
            return Some(self.syn(now));
        }
        if self.pending.take(Pending::MESSAGE)
            && let Some(packet) = self.poll_message(now)
        {
            return Some(packet);
        }
        if self.state != State::Established {
            return None;
        }
        if self.pending.take(Pending::ACK) && self.nxt >= self.app_end && !self.app.is_finished() {
            // With data at hand the first data packet ends the handshake.
            return Some(self.packet(now, self.nxt));
        }
        if self.pending.take(Pending::RETRANSMISSION)
            && let Some(id) = self.board.next_lost()
        {
            return Some(self.retransmit(now, id));
        }
        if self.pending.take(Pending::TAIL_PROBE) {
            return self.tail_probe(now);
        }
        if self.pending.take(Pending::WINDOW_PROBE) {
            // An old number makes the receiver answer with its window, as Linux probes.
            return Some(self.packet(now, self.una - 1));
        }
        None
    }

    fn syn(&mut self, now: Nanos) -> Packet {
        self.syns += 1;
        self.syn_sent_at = now;
        self.rto_at = now + self.rtt.rto();
        let mut packet = Packet::new(self.flow);
        packet.header = self.config.header;
        packet.flags = Flags::SYN;
        *packet.tcp_mut().ts_val = timestamp(now);
        *packet.tcp_mut().window = self.config.receive_window.as_u64().min(u64::from(u32::MAX)) as u32;
        // RFC 3168 section 6.1.1; a repeated SYN does not ask again.
        if self.config.ecn && self.syns == 1 {
            packet.flags = packet.flags.with(Flags::ECE).with(Flags::CWR);
        }
        packet.set_path(self.path);
        self.write_option(now, &mut packet);
        packet
    }

    /// RFC 8985 section 7.3: new data if there is any and the receiver takes it, otherwise the last packet again.
    fn tail_probe(&mut self, now: Nanos) -> Option<Packet> {
        let len = self.next_len();
        let packet = if len > 0 && self.nxt + len <= self.right_edge {
            self.send_new(now, len)
        } else {
            let last = self.board.last()?;
            self.retransmit(now, last)
        };
        self.probe = Some(Probe { end_seq: self.nxt, repeated: packet.flags.has(Flags::RETRANSMISSION) });
        self.stats.tlp_probes += 1;
        self.loss_timer_at = Nanos::MAX;
        Some(packet)
    }

    /// Payload of the next new packet; zero if there is no data.
    #[inline]
    fn next_len(&self) -> u64 {
        self.app_end.saturating_sub(self.nxt).min(u64::from(self.config.segment))
    }

    /// Whether the congestion window has room. One packet always may be in flight.
    #[inline]
    pub(super) fn has_room(&self, len: u64) -> bool {
        let inflight = self.board.inflight().as_u64();
        inflight + len <= self.cwnd || inflight == 0
    }

    /// Whether the pacer lets a packet go; otherwise the deadline becomes its time.
    #[inline]
    pub(super) fn is_due(&mut self, now: Nanos) -> bool {
        if now < self.pacer.next() {
            self.held = true;
            // The same packet may be asked for again and again while it waits; it counts once.
            if self.waited_for != self.pacer.next() {
                self.waited_for = self.pacer.next();
                self.stats.paced_waits += 1;
            }
            return false;
        }
        true
    }

    fn poll_lost(&mut self, now: Nanos) -> Option<Packet> {
        let id = self.board.next_lost()?;
        if !self.has_room(u64::from(self.board.get(id).len)) || !self.is_due(now) {
            return None;
        }
        Some(self.retransmit(now, id))
    }

    fn poll_doubtful(&mut self, now: Nanos) -> Option<Packet> {
        let (id, rescue) = self.next_doubtful()?;
        if !self.has_room(u64::from(self.board.get(id).len)) || !self.is_due(now) {
            return None;
        }
        if rescue {
            self.on_rescue();
        }
        Some(self.retransmit(now, id))
    }

    #[inline]
    fn poll_new(&mut self, now: Nanos) -> Option<Packet> {
        let mut len = self.next_len();
        if len == 0 {
            if self.app.is_finished() && !self.fin_sent {
                return Some(self.send_new(now, 0));
            }
            if self.waiting > 0 {
                // New data is about to be handed over; it goes before what is only doubtful.
                return None;
            }
            return self.poll_doubtful(now);
        }
        if self.nxt + len > self.right_edge {
            len = self.fitting_len(now);
            if len == 0 {
                return self.poll_doubtful(now);
            }
        }
        if !self.has_room(len) {
            self.note_usage(true);
            return None;
        }
        if self.quiet_since < now {
            self.restart(now);
            if self.waits_for_rate() {
                return self.poll_pending(now);
            }
        }
        if !self.is_due(now) {
            return None;
        }
        Some(self.send_new(now, len))
    }

    /// What the receiver's window leaves room for. Less than a segment leaves only if waiting may not help (RFC 9293
    /// section 3.8.6.2.1): nothing is outstanding, and it is half the largest window ever offered or more.
    fn fitting_len(&mut self, now: Nanos) -> u64 {
        if !self.board.is_empty() {
            return 0;
        }
        let room = self.right_edge.saturating_sub(self.nxt);
        if room > 0 && room >= self.largest_window / 2 {
            return room.min(self.next_len());
        }
        if self.rto_at == Nanos::MAX {
            self.persist = true;
            self.rto_at = now + self.rtt.rto();
        }
        0
    }

    /// Sending resumes after a time with nothing outstanding.
    #[cold]
    fn restart(&mut self, now: Nanos) {
        self.quiet_since = Nanos::MAX;
        let idle = now - self.last_sent_at;
        self.report_to_agent(now, RateEvent::Resumed { idle });
        self.driver.idle_restart(now, idle, Some(self.rtt.rto()));
        self.follow_window();
    }

    /// Sends `len` bytes of new data, or the FIN if `len` is zero.
    #[inline]
    fn send_new(&mut self, now: Nanos, len: u64) -> Packet {
        let mut packet = self.packet(now, self.nxt);
        packet.payload = len as u16;
        if self.ecn && len > 0 {
            packet.set_ecn(if self.config.ect1 { Ecn::Ect1 } else { Ecn::Ect0 });
            if self.cwr {
                self.cwr = false;
                packet.flags = packet.flags.with(Flags::CWR);
            }
        }
        let bytes = Bytes::new(len);
        let snapshot = self.driver.stamp(now, bytes, self.board.inflight());
        self.board.push(self.nxt, len as u16, snapshot);
        self.nxt += len;
        if len == 0 {
            packet.flags = packet.flags.with(Flags::FIN);
            self.fin_sent = true;
            self.nxt += 1;
        } else {
            if self.first_data_at.is_none() {
                self.first_data_at = Some(now);
            }
            if self.phase == Phase::Open && self.duplicate_acks > 0 {
                self.limited_transmit += len;
            }
            self.on_sent(now, bytes, false);
            let limited = self.board.inflight().as_u64() + u64::from(self.config.segment) > self.cwnd;
            self.note_usage(limited);
        }
        self.quiet_since = Nanos::MAX;
        if self.rto_at == Nanos::MAX {
            self.rto_at = now + self.rtt.rto();
        }
        if !self.is_repairing() && !self.rack.may_detect(&self.board) {
            self.arm_probe(now);
        }
        packet
    }

    fn retransmit(&mut self, now: Nanos, id: u32) -> Packet {
        let record = *self.board.get(id);
        let bytes = record.bytes();
        let mut packet = self.packet(now, record.seq);
        packet.payload = record.len;
        packet.flags = packet.flags.with(Flags::RETRANSMISSION);
        let snapshot = self.driver.stamp(now, bytes, self.board.inflight());
        self.board.resend(id, snapshot);
        if record.len == 0 {
            packet.flags = packet.flags.with(Flags::FIN);
        } else {
            self.stats.retransmits += 1;
            self.stats.bytes_retransmitted += bytes.as_u64();
            self.on_sent(now, bytes, true);
        }
        if self.is_repairing() {
            self.undo.on_retransmission(now);
            // RFC 6675 section 6: the timer starts anew with each retransmission. RFC 6582 has its own rule.
            if self.config.sack {
                self.rto_at = now + self.rtt.rto();
            }
        }
        packet
    }

    /// Accounts for a data packet that leaves.
    #[inline]
    fn on_sent(&mut self, now: Nanos, bytes: Bytes, retransmission: bool) {
        self.stats.data_packets_sent += 1;
        self.stats.bytes_sent += bytes.as_u64();
        self.last_sent_at = now;
        let control = self.driver.control();
        if let Some(rate) = control.pacing_rate {
            let burst = control.burst.min(self.config.max_burst);
            self.pacer.on_sent(now, bytes, rate, burst);
        }
        if self.reducing {
            self.prr.on_sent(bytes);
        }
        self.driver.sent(&Sent { now, bytes, inflight: self.board.inflight(), retransmission });
        self.follow_window();
    }

    /// An empty packet of this connection with this sequence number.
    #[inline]
    fn packet(&self, now: Nanos, seq: u64) -> Packet {
        let mut packet = Packet::new(self.flow);
        packet.header = self.config.header;
        packet.flags = Flags::ACK;
        let tcp = packet.tcp_mut();
        (*tcp.seq, *tcp.ack) = (seq, 1);
        (*tcp.ts_val, *tcp.ts_ecr) = (timestamp(now), self.peer_timestamp);
        *tcp.window = u32::from(u16::MAX);
        packet.set_path(self.path);
        self.write_option(now, &mut packet);
        packet
    }

    /// Follows how much of the window is used.
    #[inline]
    pub(super) fn note_usage(&mut self, limited: bool) {
        let position = SendPosition { acknowledged: self.una, next: self.nxt };
        self.driver.note_usage(limited, self.board.inflight(), position);
    }
}
