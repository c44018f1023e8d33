//! Packets of the peer.

use narrows_cc::Nanos;
use narrows_packet::{Ecn, Flags};

use super::{Connection, Stage, value_of};
use crate::script::{Options, Segment, TcpFlags};

/// Least time between answers to invalid segments without data.
const CHALLENGE_INTERVAL: Nanos = Nanos::from_millis(500);

impl Connection {
    /// Processes a packet of the peer, with timestamp echoes as this end sent them.
    pub(crate) fn on_packet(&mut self, now: Nanos, segment: &Segment) {
        match self.stage {
            Stage::Gone => return self.refuse(now, segment),
            Stage::SynSent if segment.flags.rst => {
                // RFC 9293 section 3.10.7.3: only a reset that acknowledges the SYN counts.
                if segment.flags.ack && segment.ack == 1 {
                    self.stage = Stage::Gone;
                }
                return;
            }
            Stage::SynReceived | Stage::Established => {
                if !self.is_acceptable(now, segment) {
                    return;
                }
            }
            Stage::SynSent => {}
        }
        self.peer_timestamp = value_of(segment).unwrap_or(self.peer_timestamp);
        if segment.flags.ack && segment.ack >= self.sender.acknowledged() {
            let scale = if segment.flags.syn { 0 } else { self.agreed.scales.map_or(0, |(peer, _)| peer) };
            let window = u64::from(segment.window.unwrap_or(0)) << scale;
            self.right_edge = segment.ack + window;
            self.largest_window = self.largest_window.max(window);
        }
        match self.stage {
            Stage::Gone => {}
            Stage::SynSent => self.on_syn_ack(now, segment),
            Stage::SynReceived => self.on_last_of_handshake(now, segment),
            Stage::Established => self.on_segment(now, segment),
        }
    }

    /// Answers with a reset.
    fn refuse(&mut self, now: Nanos, segment: &Segment) {
        if let Some(reset) = reset_for(segment) {
            self.emit(now, reset);
        }
    }

    /// Whether to process a segment (Linux `tcp_validate_incoming`, `tcp_ack`); answers one that is not to be.
    fn is_acceptable(&mut self, now: Nanos, segment: &Segment) -> bool {
        let next = self.receiver.next();
        if segment.flags.rst {
            self.on_reset(now, segment, next);
            return false;
        }
        let una = self.sender.acknowledged();
        let value = value_of(segment).filter(|_| self.agreed.timestamps);
        if value.is_some_and(|value| (value.wrapping_sub(self.receiver.peer_timestamp()) as i32) < 0) {
            // PAWS (RFC 7323 section 5.3). A pure acknowledgement may overtake another one (`tcp_disordered_ack`).
            let repeats = segment.len == 0 && segment.seq == next && segment.ack == una && !segment.flags.syn;
            if !repeats {
                self.challenge(now, segment.len > 0);
            }
            return repeats;
        }
        // RFC 5961 section 5.2: data never sent, or older than the largest window.
        let unsent = segment.ack > self.sent_end;
        let ancient = segment.ack + self.largest_window.min(una.saturating_sub(1)) < una;
        if self.stage == Stage::Established && segment.flags.ack && !segment.flags.syn && (unsent || ancient) {
            self.challenge(now, false);
            return false;
        }
        true
    }

    /// A reset ends the connection only at the left edge of the window, or of all data received; elsewhere in the window
    /// it is challenged (RFC 5961 section 3.2, Linux `tcp_reset_check`).
    fn on_reset(&mut self, now: Nanos, segment: &Segment, next: u64) {
        let exact = segment.seq == next || (self.agreed.sack && self.receiver.stored_end() == Some(segment.seq));
        if exact {
            self.stage = Stage::Gone;
        } else if segment.seq > next && segment.seq < self.receiver.right_edge() {
            self.challenge(now, false);
        }
    }

    /// Answers an invalid segment; one without `data` at most every half a second (`tcp_invalid_ratelimit`).
    fn challenge(&mut self, now: Nanos, data: bool) {
        let recent = self.challenged_at.is_some_and(|at| now - at < CHALLENGE_INTERVAL);
        if data || !recent {
            self.challenged_at = Some(now);
            self.receiver.acknowledge_now();
            self.flush(now);
        }
    }

    fn on_syn_ack(&mut self, now: Nanos, segment: &Segment) {
        if !(segment.flags.syn && segment.flags.ack) {
            return;
        }
        if segment.ack != 1 {
            self.refuse(now, segment);
            return;
        }
        self.setup.ecn &= segment.flags.ece;
        self.agreed = self.setup.agree(Some(segment));
        // The segment size is known only now: an equal sender with that size repeats the handshake so far.
        let syns = std::mem::take(&mut self.syns);
        let start = syns.first().copied().unwrap_or(now);
        self.sender = self.setup.sender(start, &self.agreed);
        for at in syns {
            self.sender.on_timer(at);
            while self.sender.poll_transmit(at).is_some() {}
        }
        self.receiver = self.setup.receiver(&self.agreed);
        let mut syn = self.forward(now, segment);
        if self.setup.ecn {
            syn.flags = syn.flags.with(Flags::CWR);
        }
        self.receiver.on_packet(now, &syn);
        while self.receiver.poll_transmit(now).is_some() {}
        self.stage = Stage::Established;
        self.data_at = now;
        self.sender.on_packet(now, &self.reverse(now, segment, true));
        self.flush(now);
    }

    fn on_last_of_handshake(&mut self, now: Nanos, segment: &Segment) {
        if segment.flags.syn && !segment.flags.ack {
            // The peer has not seen the SYN-ACK.
            self.repeat_syn_ack(now);
            return;
        }
        if !segment.flags.ack {
            return;
        }
        if segment.ack != 1 {
            self.refuse(now, segment);
            return;
        }
        self.stage = Stage::Established;
        self.data_at = now;
        self.hide_ack = true;
        self.sender.on_packet(now, &self.reverse(now, segment, true));
        self.flush(now);
        self.hide_ack = false;
        self.on_segment(now, segment);
    }

    fn on_segment(&mut self, now: Nanos, segment: &Segment) {
        if segment.flags.syn {
            // RFC 5961 section 4.2.
            self.challenge(now, false);
            return;
        }
        // RFC 9293 section 3.10.7.4: without an acknowledgement the segment is dropped.
        if !segment.flags.ack {
            return;
        }
        let arrival = self.receiver.on_packet(now, &self.forward(now, segment));
        self.readable += arrival.in_order.as_u64();
        if segment.len > 0 {
            self.data_at = now;
        }
        self.note_fin(segment);
        self.writer.on_ack();
        let before = self.sender.acknowledged();
        self.sender.on_packet(now, &self.reverse(now, segment, false));
        if self.sender.acknowledged() > before {
            self.patience.since = None;
        }
        self.stamps.on_ack(now, self.sender.acknowledged());
        if self.closed && arrival.in_order.as_u64() > 0 {
            // No application reads it any more (RFC 1122 section 4.2.2.13).
            self.readable = 0;
            self.refuse(now, segment);
            self.stage = Stage::Gone;
            return;
        }
        self.flush(now);
        if self.sender.is_closed() && self.peer_closed_first {
            self.stage = Stage::Gone;
        }
    }

    /// Records the peer's FIN once all data before it has arrived.
    fn note_fin(&mut self, segment: &Segment) {
        if segment.flags.fin {
            self.fin_at = Some(segment.seq + segment.len);
        }
        if !self.peer_finished && self.fin_at.is_some_and(|fin| self.received_end() >= fin) {
            self.peer_finished = true;
            self.peer_closed_first = !self.writer.finished;
        }
    }
}

/// The reset that answers a packet without a connection (RFC 9293 section 3.10.7.1).
pub(crate) fn reset_for(segment: &Segment) -> Option<Segment> {
    if segment.flags.rst {
        return None;
    }
    let mut flags = TcpFlags { rst: true, ..TcpFlags::default() };
    let marks = u64::from(segment.flags.syn) + u64::from(segment.flags.fin);
    let (seq, ack) = if segment.flags.ack {
        (segment.ack, 0)
    } else {
        flags.ack = true;
        (0, segment.seq + segment.len + marks)
    };
    let options = Some(Options::default());
    Some(Segment { flags, seq, len: 0, ack, window: Some(0), ecn: Some(Ecn::NotEct), options })
}
