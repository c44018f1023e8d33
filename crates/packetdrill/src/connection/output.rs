//! Packets that leave.

use narrows_cc::Nanos;
use narrows_packet::{Ecn, Flags, Packet, timestamp};

use super::marks::Activity;
use super::writer::Progress;
use super::{Connection, SYN_WINDOW, Stage};
use crate::script::{Options, Segment, TcpFlags};

/// Packets of one flush, a guard against an endpoint that never stops.
const MAX_BURST: u32 = 1_000_000;

impl Connection {
    /// Sends all that may leave now: data first, so that it carries the acknowledgement.
    pub(super) fn flush(&mut self, now: Nanos) {
        if self.stage == Stage::Gone {
            return;
        }
        for _ in 0..MAX_BURST {
            if let Some(packet) = self.sender.poll_transmit(now) {
                self.send(now, &packet);
            } else if !self.feed(now) {
                break;
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
        self.chronograph.set(now, self.activity());
    }

    /// Linux: the peer's window is the limit if it has no room for the next segment.
    fn activity(&self) -> Activity {
        if self.stage != Stage::Established || self.queued() == 0 {
            return Activity::Idle;
        }
        let unsent = (self.writer.written + 1).saturating_sub(self.sent_end);
        let next = unsent.min(u64::from(self.agreed.segment));
        if next > 0 && self.sent_end + next > self.right_edge { Activity::Limited } else { Activity::Busy }
    }

    /// Gives the sender what it may have; returns whether that was anything.
    fn feed(&mut self, now: Nanos) -> bool {
        if self.stage != Stage::Established {
            return false;
        }
        let progress = Progress {
            una: self.sender.acknowledged(),
            next: self.sent_end,
            segment: u64::from(self.agreed.segment),
        };
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

    /// Linux sends a held piece after an RTO if nothing is outstanding (the timer of window probes).
    fn hold(&mut self, now: Nanos) {
        let idle = self.sender.acknowledged() >= self.sent_end;
        if !self.writer.is_holding() || !idle || self.stage != Stage::Established {
            self.writer.deadline = Nanos::MAX;
        } else if self.writer.deadline == Nanos::MAX {
            self.writer.deadline = now + self.sender.info().rto;
        }
    }

    /// One packet of the sender.
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

    /// The SYN-ACK once more, for a repeated SYN.
    pub(super) fn repeat_syn_ack(&mut self, now: Nanos) {
        let segment = self.syn(now, Flags::SYN);
        self.emit(now, segment);
    }

    /// The SYN of the sender as it is on the wire: a SYN-ACK if the peer opened the connection.
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
            window: Some(SYN_WINDOW),
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
