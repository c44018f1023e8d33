//! Packet selection.

use narrows_cc::{Bytes, Nanos, Sent, record};
use narrows_packet::{Flags, Packet, timestamp};

use super::rack::Probe;
use super::{Pending, Sender, State};
use crate::rates::RateEvent;

impl Sender {
    /// Next packet to send, if one may leave now. Call it until `None` after every call that changes the sender.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if self.pending != Pending::NONE || self.state != State::Established {
            if let Some(packet) = self.poll_pending(now) {
                return Some(packet);
            }
            if self.state != State::Established || self.pending.has(Pending::CONGESTED) {
                return None;
            }
        }
        self.pacing.clear();
        if self.waits_for_rate() {
            return None;
        }
        if self.board.has_lost() {
            return self.poll_lost(now);
        }
        self.poll_new(now)
    }

    /// Packets exempt from cwnd and pacing.
    #[cold]
    fn poll_pending(&mut self, now: Nanos) -> Option<Packet> {
        if self.pending.has(Pending::CONGESTED) {
            self.attempt(now);
            return None;
        }
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
        if self.pending.take(Pending::ACK) && !self.stream.has_unsent() && !self.stream.app.is_finished() {
            // With data available, the first data packet completes the handshake.
            return Some(self.packet(now, self.stream.nxt));
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
            // An old sequence number makes the receiver answer with its window, as in Linux.
            return Some(self.packet(now, self.stream.una - 1));
        }
        None
    }

    pub(super) fn syn(&mut self, now: Nanos) -> Packet {
        let first = self.handshake.on_syn(now);
        self.timers.rto_at = now + self.rtt.rto();
        let mut packet = Packet::new(self.flow);
        packet.header = self.config.header;
        packet.flags = Flags::SYN;
        *packet.tcp_mut().ts_val = timestamp(now);
        *packet.tcp_mut().window = self.config.receive_window.as_u64().min(u64::from(u32::MAX)) as u32;
        // RFC 3168 section 6.1.1; a repeated SYN does not request ECN.
        if self.config.ecn && first {
            packet.flags = packet.flags.with(Flags::ECE).with(Flags::CWR);
        }
        packet.set_path(self.path);
        self.write_option(now, &mut packet);
        packet
    }

    /// RFC 8985 section 7.3: new data if available and within the receive window, otherwise the last packet again.
    fn tail_probe(&mut self, now: Nanos) -> Option<Packet> {
        let len = self.stream.next_len(self.config.segment);
        let packet = if len > 0 && self.stream.admits(len) {
            self.send_new(now, len)
        } else {
            let last = self.board.last()?;
            self.retransmit(now, last)
        };
        self.recovery.probe =
            Some(Probe { end_seq: self.stream.nxt, repeated: packet.flags.has(Flags::RETRANSMISSION) });
        self.stats.tlp_probes += 1;
        self.timers.loss_timer_at = Nanos::MAX;
        Some(packet)
    }

    /// Whether the cwnd has room. One packet may always be in flight.
    #[inline]
    pub(super) fn has_room(&self, len: u64) -> bool {
        self.window.has_room(self.board.inflight(), len)
    }

    /// Whether the pacer permits a packet now; otherwise sets the deadline.
    #[inline]
    pub(super) fn is_due(&mut self, now: Nanos) -> bool {
        self.pacing.is_due(now, &mut self.stats.paced_waits)
    }

    fn poll_lost(&mut self, now: Nanos) -> Option<Packet> {
        let id = self.board.next_lost()?;
        if !self.has_room(u64::from(self.board.get(id).len)) {
            // Linux `tcp_write_xmit`: new data that waits for cwnd shows that cwnd is in use, whatever it waits behind.
            if self.stream.has_unsent() {
                self.note_usage(true);
            }
            return None;
        }
        if !self.is_due(now) {
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
            // At most one per recovery.
            self.recovery.sack_loss.rescue = self.recovery.point;
        }
        Some(self.retransmit(now, id))
    }

    #[inline]
    fn poll_new(&mut self, now: Nanos) -> Option<Packet> {
        let mut len = self.stream.next_len(self.config.segment);
        if len == 0 {
            if self.stream.app.is_finished() && !self.stream.fin_sent {
                return Some(self.send_new(now, 0));
            }
            if self.stream.waiting > 0 {
                // The connection is about to assign new data, which precedes doubtful packets.
                return None;
            }
            return self.poll_doubtful(now);
        }
        if !self.stream.admits(len) {
            len = self.fitting_len(now);
            if len == 0 {
                return self.poll_doubtful(now);
            }
        }
        if !self.has_room(len) || self.defers(now) {
            self.note_usage(true);
            return None;
        }
        if self.timers.quiet_since < now {
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

    /// Room in the receive window. Less than a segment leaves only if nothing is outstanding and the room is
    /// worth a packet.
    pub(super) fn fitting_len(&mut self, now: Nanos) -> u64 {
        if !self.board.is_empty() {
            return 0;
        }
        if let Some(room) = self.stream.worthwhile_room() {
            return room.min(self.stream.next_len(self.config.segment));
        }
        if self.timers.rto_at == Nanos::MAX {
            self.timers.persist = true;
            self.timers.probes = 0;
            self.timers.rto_at = now + self.rtt.rto();
        }
        0
    }

    /// Restarts after a time with nothing outstanding.
    #[cold]
    fn restart(&mut self, now: Nanos) {
        self.timers.quiet_since = Nanos::MAX;
        let idle = now - self.timers.last_sent_at;
        self.report_to_agent(now, RateEvent::Resumed { idle });
        self.window.driver.idle_restart(now, idle, Some(self.rtt.rto()), self.config.idle);
        self.window.follow(self.mss());
    }

    /// Sends `len` bytes of new data, or the FIN if `len` is zero.
    #[inline]
    fn send_new(&mut self, now: Nanos, len: u64) -> Packet {
        let mut packet = self.packet(now, self.stream.nxt);
        packet.payload = len as u16;
        if len > 0 {
            self.ecn.label(&mut packet, self.config.ect1);
        }
        let bytes = Bytes::new(len);
        let snapshot = self.window.driver.stamp(now, bytes, self.board.inflight());
        self.board.push(self.stream.nxt, len as u16, snapshot);
        self.stream.sent(len, u64::from(self.config.segment));
        if len == 0 {
            packet.flags = packet.flags.with(Flags::FIN);
            self.stream.fin_sent = true;
            self.stream.nxt += 1;
        } else {
            if packet.tcp().seq == 1 {
                self.milestones.first_data_at = Some(now);
            }
            if self.recovery.is_open() && self.recovery.duplicate_acks > 0 {
                self.recovery.limited_transmit += len;
            }
            self.on_sent(now, bytes, false);
            let limited = self.board.inflight().as_u64() + u64::from(self.config.segment) > self.window.cwnd;
            self.note_usage(limited);
        }
        self.timers.quiet_since = Nanos::MAX;
        self.timers.start_rto(now, self.rtt.rto());
        if !self.recovery.is_repairing() && !self.recovery.rack.may_detect(&self.board) {
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
        let snapshot = self.window.driver.stamp(now, bytes, self.board.inflight());
        self.board.resend(id, snapshot);
        if record.len == 0 {
            packet.flags = packet.flags.with(Flags::FIN);
        } else {
            self.stats.retransmits += 1;
            self.stats.bytes_retransmitted += bytes.as_u64();
            self.on_sent(now, bytes, true);
        }
        if self.recovery.is_repairing() {
            self.recovery.undo.on_retransmission(now);
            // RFC 6675 section 6: each retransmission restarts the timer. RFC 6582 has its own rule.
            if self.config.sack {
                self.timers.rto_at = now + self.rtt.rto();
            }
        }
        packet
    }

    /// Accounts for a departing data packet.
    #[inline]
    fn on_sent(&mut self, now: Nanos, bytes: Bytes, retransmission: bool) {
        self.stats.data_packets_sent += 1;
        self.stats.bytes_sent += bytes.as_u64();
        self.pace(now, bytes);
        self.timers.last_sent_at = now;
        self.window.on_sent(bytes);
        self.window.driver.sent(&record!(Sent { now, bytes, inflight: self.board.inflight(), retransmission }));
        self.window.follow(self.mss());
    }

    /// An empty packet with sequence number `seq`.
    #[inline]
    fn packet(&self, now: Nanos, seq: u64) -> Packet {
        let mut packet = Packet::new(self.flow);
        packet.header = self.config.header;
        packet.flags = Flags::ACK;
        let tcp = packet.tcp_mut();
        (*tcp.seq, *tcp.ack) = (seq, 1);
        (*tcp.ts_val, *tcp.ts_ecr) = (timestamp(now), self.handshake.peer_timestamp);
        *tcp.window = u32::from(u16::MAX);
        packet.set_path(self.path);
        self.write_option(now, &mut packet);
        packet
    }

    /// Updates the scheme's view of cwnd usage.
    #[inline]
    pub(super) fn note_usage(&mut self, limited: bool) {
        // Linux `tcp_cwnd_validate` counts all that is outstanding (`packets_out`), lost or not.
        self.window.driver.note_usage(limited, self.stream.flight_size(), self.stream.position());
    }
}
