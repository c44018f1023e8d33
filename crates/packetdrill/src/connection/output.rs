//! Output of a connection: which packets leave now, and how they appear on the wire.

use narrows_cc::Nanos;
use narrows_packet::{Ecn, Flags, Packet, timestamp};

use super::buffer::{SendBuffer, size_goal};
use super::marks::Activity;
use super::writer::Progress;
use super::{Connection, Stage};
use crate::script::{Options, Segment, TcpFlags};

/// Maximum number of packets per flush, a guard against an endpoint that never stops sending.
const MAX_BURST: u32 = 1_000_000;

impl Connection {
    /// Sends all packets that may leave now. Data is sent first, so that it carries the acknowledgement.
    pub(super) fn flush(&mut self, now: Nanos) {
        if self.stage == Stage::Gone {
            return;
        }
        let before = self.sent_end;
        let mut full = self.buffer.as_ref().is_some_and(SendBuffer::is_full);
        for _ in 0..MAX_BURST {
            if let Some(packet) = self.sender.poll_transmit(now) {
                self.send(now, &packet);
            } else if !self.feed(now) {
                if !self.fill() {
                    break;
                }
                full = false;
            }
        }
        if self.stage == Stage::Established {
            while let Some(packet) = self.receiver.poll_transmit(now) {
                let segment = self.acknowledgement(&packet);
                self.emit(now, segment);
            }
        }
        self.hold(now);
        self.patience.note(now, self.sender.timeouts_in_a_row(), self.sender.probes());
        full &= self.buffer.as_ref().is_some_and(SendBuffer::is_full);
        self.chronograph.set(now, self.activity(self.sent_end > before, full));
    }

    /// Moves at most one piece of the write in progress into the send buffer; returns whether it moved any data.
    fn fill(&mut self) -> bool {
        let stream = self.stream();
        if let Some(buffer) = &mut self.buffer {
            buffer.follow(stream);
        }
        let Some(writing) = self.writing.as_mut().filter(|own| own.left > 0) else { return false };
        let taken = match &mut self.buffer {
            Some(buffer) => {
                let goal = size_goal(self.largest_window, u64::from(self.agreed.segment));
                buffer.take(stream, writing.left, goal)
            }
            None => writing.left,
        };
        if taken == 0 {
            return false;
        }
        writing.left -= taken;
        let all = writing.left == 0;
        self.writer.write(taken, all && writing.more, all && writing.record);
        if all {
            self.stamps.on_write(self.writer.written + 1);
        }
        true
    }

    /// The current activity, as Linux determines it. The connection is limited by the peer's window if the next segment
    /// fits in the cwnd but not in the window (`tcp_write_xmit`). It is limited by the send buffer if all data was
    /// `sent`, the buffer was `full` and the cwnd is not; this lasts until the buffer has space (`tcp_cwnd_validate`).
    fn activity(&self, sent: bool, full: bool) -> Activity {
        if self.stage != Stage::Established || self.queued() == 0 {
            return Activity::Idle;
        }
        let unsent = (self.writer.written + 1).saturating_sub(self.sent_end);
        let next = unsent.min(u64::from(self.agreed.segment));
        let starves = || unsent == 0 && sent && self.has_cwnd();
        let inflight = self.sender.inflight().as_u64();
        let cwnd_admits = inflight == 0 || inflight + next <= self.sender.window().as_u64();
        if next > 0 && cwnd_admits && self.sent_end + next > self.right_edge {
            Activity::WindowLimited
        } else if full && (self.chronograph.now == Activity::BufferLimited || starves()) {
            Activity::BufferLimited
        } else {
            Activity::Busy
        }
    }

    /// Whether the cwnd does not limit the sender (Linux `tcp_is_cwnd_limited`): in slow start, if at most half of the
    /// cwnd is in use.
    fn has_cwnd(&self) -> bool {
        let info = self.sender.info();
        let slow_start = info.ssthresh.is_none_or(|bytes| info.cwnd * info.mss.as_u64() < bytes.as_u64());
        let sent = u64::from(info.unacked);
        if slow_start { info.cwnd >= 2 * sent } else { info.cwnd > sent }
    }

    /// Passes released data to the sender; returns whether data was released or the stream ended.
    fn feed(&mut self, now: Nanos) -> bool {
        if self.stage != Stage::Established {
            return false;
        }
        let progress =
            Progress { una: self.sender.acknowledged(), next: self.sent_end, segment: u64::from(self.agreed.segment) };
        let released = self.writer.release(progress);
        if released > 0 {
            self.sender.assign(released);
        }
        let ends = self.writer.finished && !self.writer.stopped && !self.writer.is_holding();
        if ends {
            self.writer.stopped = true;
            self.sender.stop(now);
        }
        released > 0 || ends
    }

    /// Sets the timer of a withheld piece. Linux sends such a piece after an RTO if nothing is outstanding (with the
    /// timer of window probes).
    fn hold(&mut self, now: Nanos) {
        let idle = self.sender.acknowledged() >= self.sent_end;
        if !self.writer.is_holding() || !idle || self.stage != Stage::Established {
            self.writer.deadline = Nanos::MAX;
        } else if self.writer.deadline == Nanos::MAX {
            self.writer.deadline = now + self.sender.info().rto;
        }
    }

    /// Puts a packet of the sender on the wire.
    fn send(&mut self, now: Nanos, packet: &Packet) {
        if packet.flags.has(Flags::SYN) {
            self.syns.push(now);
            let segment = self.syn(now, packet.flags);
            self.emit(now, segment);
            return;
        }
        let fin = packet.flags.has(Flags::FIN);
        if packet.payload == 0 && !fin && self.hide_ack {
            return;
        }
        let mut segment = self.bare(now, packet.tcp().seq);
        segment.flags.fin = fin;
        segment.flags.cwr = packet.flags.has(Flags::CWR);
        segment.len = u64::from(packet.payload);
        segment.ecn = Some(packet.ecn());
        let end = packet.seq_end();
        if end > self.sent_end {
            self.sent_end = end;
            if packet.payload > 0 && packet.payload < self.agreed.segment {
                self.writer.small_end = end;
            }
            self.stamps.on_sent(now, end);
        } else if end > packet.tcp().seq {
            self.patience.since.get_or_insert(now);
        }
        self.emit(now, segment);
    }

    /// Sends the SYN-ACK again, as the answer to a retransmitted SYN.
    pub(super) fn repeat_syn_ack(&mut self, now: Nanos) {
        let segment = self.syn(now, Flags::SYN);
        self.emit(now, segment);
    }

    /// The SYN of the sender as it appears on the wire: a SYN-ACK if the peer opened the connection.
    fn syn(&mut self, now: Nanos, flags: Flags) -> Segment {
        let ack = self.passive;
        let asks = flags.has(Flags::ECE) || (ack && self.setup.ecn);
        let wanted = &self.setup.settings;
        let scale = if ack { self.agreed.scales.is_some() } else { wanted.window_scaling };
        let (timestamps, sack) =
            if ack { (self.agreed.timestamps, self.agreed.sack) } else { (wanted.timestamps, wanted.sack) };
        let echo = if ack { self.peer_timestamp } else { 0 };
        Segment {
            flags: TcpFlags { syn: true, ack, ece: asks, cwr: asks && !ack, ..TcpFlags::default() },
            seq: 0,
            len: 0,
            ack: u64::from(ack),
            window: Some(self.setup.syn_window()),
            ecn: Some(Ecn::NotEct),
            options: Some(Options {
                mss: Some(self.setup.advertised()),
                sack_ok: sack,
                window_scale: scale.then(|| self.setup.own_scale()),
                timestamps: timestamps.then(|| (timestamp(now), echo)),
                sack: Vec::new(),
            }),
        }
    }
}
