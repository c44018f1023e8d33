//! The ends of a flow as its packets show them, and as the kernel reports them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use narrows_cc::{Bytes, Nanos, Rate, Telemetry, Value};
use narrows_packet::real::{Segment, unfold};
use narrows_packet::{Flags, Packet};
use narrows_sim::foreign::{ForeignReceiver, ForeignSender};
use narrows_tcp::ranges::Ranges;
use narrows_tcp::{AckOutcome, ReceiverStats, SenderStats, TcpInfo};

use super::diagnostics::Reading;

/// The latest reading of a sender, if there is one.
pub(super) type Latest = Arc<Mutex<Option<Reading>>>;

/// A data packet that was sent and not acknowledged cumulatively.
#[derive(Clone, Copy, Debug)]
struct Record {
    end: u64,
    sent_at: Nanos,
    repeated: bool,
    sacked: bool,
}

/// The sending end.
#[derive(Debug)]
pub(super) struct SenderTap {
    latest: Latest,
    /// Payload bytes of a finite flow.
    size: Option<u64>,
    records: VecDeque<Record>,
    /// Next sequence number never acknowledged cumulatively, and never sent.
    una: u64,
    next: u64,
    sacked: Ranges,
    /// Departure of the only SYN so far.
    opened_at: Option<Nanos>,
    first_data_at: Option<Nanos>,
    completed_at: Option<Nanos>,
    stats: SenderStats,
}

impl SenderTap {
    pub(super) fn new(latest: Latest, size: Option<u64>) -> Self {
        Self {
            latest,
            size,
            records: VecDeque::new(),
            una: 0,
            next: 0,
            sacked: Ranges::default(),
            opened_at: None,
            first_data_at: None,
            completed_at: None,
            stats: SenderStats::default(),
        }
    }

    fn reported<T>(&self, field: impl FnOnce(&Reading) -> Option<T>) -> Option<T> {
        field(self.latest.lock().ok()?.as_ref()?)
    }

    /// Removes records up to `ack`. Returns the departure of the first one, unless one of them was repeated
    /// (`tcp_clean_rtx_queue`).
    fn acknowledge(&mut self, ack: u64) -> Option<Nanos> {
        let (mut first, mut repeated) = (None, false);
        while let Some(record) = self.records.front().filter(|record| record.end <= ack) {
            repeated |= record.repeated;
            if !record.sacked && !record.repeated {
                first = first.or(Some(record.sent_at));
            }
            self.records.pop_front();
        }
        self.una = self.una.max(ack);
        self.sacked.remove_below(self.una);
        first.filter(|_| !repeated)
    }

    /// Marks records in `start..end`; returns the departure of the first one that is new and was not repeated.
    fn sack(&mut self, start: u64, end: u64) -> Option<Nanos> {
        let (start, end) = (start.max(self.una), end.min(self.next));
        let mut first = None;
        if start < end {
            let (records, stats) = (&mut self.records, &mut self.stats);
            self.sacked.insert(start, end, |from, to| {
                stats.sack_blocks += 1;
                let at = records.partition_point(|record| record.end <= from);
                for record in records.range_mut(at..).take_while(|record| record.end <= to) {
                    if !record.repeated && !record.sacked {
                        first = first.or(Some(record.sent_at));
                    }
                    record.sacked = true;
                }
            });
        }
        first
    }
}

impl ForeignSender for SenderTap {
    fn on_sent(&mut self, now: Nanos, packet: &Packet, _: &[u8]) {
        let start = packet.foreign().seq;
        let end = start + u64::from(packet.payload);
        if packet.flags.has(Flags::SYN) {
            // A repeated SYN gives no sample.
            let repeated = self.next > 0;
            self.opened_at = (!repeated).then_some(now);
            (self.una, self.next) = (start, start + 1);
        }
        if packet.payload == 0 {
            return;
        }
        self.stats.data_packets_sent += 1;
        self.stats.bytes_sent += u64::from(packet.payload);
        self.first_data_at.get_or_insert(now);
        if packet.flags.has(Flags::RETRANSMISSION) {
            self.stats.retransmits += 1;
            self.stats.bytes_retransmitted += u64::from(packet.payload);
            let at = self.records.partition_point(|record| record.end <= start);
            for record in self.records.range_mut(at..).take_while(|record| record.end <= end) {
                record.repeated = true;
            }
        } else {
            self.records.push_back(Record { end, sent_at: now, repeated: false, sacked: false });
            self.next = end;
        }
    }

    fn on_received(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let ack = packet.foreign().ack;
        if packet.flags.has(Flags::SYN) {
            self.una = ack;
            outcome.rtt = self.opened_at.map(|sent| now - sent);
            return outcome;
        }
        let before = self.una;
        let acked = self.acknowledge(ack);
        let mut selected = None;
        if let Some(segment) = Segment::read(bytes) {
            for (start, end) in segment.sack() {
                let wide = |wire: u32| unfold(wire, segment.ack.wrapping_sub(ack as u32), ack);
                selected = selected.or(self.sack(wide(start), wide(end)));
            }
        }
        outcome.rtt = acked.or(selected).map(|sent| now - sent);
        self.stats.rtt_samples += u64::from(outcome.rtt.is_some());
        outcome.acked = Bytes::new(self.una - before);
        // The SYN takes the number before the first byte.
        if self.size.is_some_and(|size| self.una > size) {
            self.completed_at.get_or_insert(now);
        }
        outcome
    }

    fn stop(&mut self, _: Nanos) {
        // A file that was stopped has no end.
        self.size = self.size.filter(|size| self.next > *size);
    }

    fn stats(&self) -> &SenderStats {
        &self.stats
    }

    fn timeouts(&self) -> Option<u64> {
        self.reported(|reading| reading.timeouts)
    }

    fn inflight(&self) -> Bytes {
        Bytes::new((self.next - self.una).saturating_sub(self.sacked.total()))
    }

    fn window(&self) -> Option<Bytes> {
        self.reported(|reading| Some(reading.cwnd))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.reported(|reading| reading.pacing_rate)
    }

    fn srtt(&self) -> Option<Nanos> {
        self.reported(|reading| reading.info.srtt)
    }

    fn first_data_at(&self) -> Option<Nanos> {
        self.first_data_at
    }

    fn completed_at(&self) -> Option<Nanos> {
        self.completed_at
    }

    fn info(&self) -> Option<TcpInfo> {
        self.reported(|reading| Some(reading.info))
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        if let Some(bbr) = self.reported(|reading| reading.bbr) {
            sink("bw_estimate", Value::Rate(bbr.bandwidth));
            sink("min_rtt", Value::Time(bbr.min_rtt));
            sink("pacing_gain", Value::Number(bbr.pacing_gain));
            sink("cwnd_gain", Value::Number(bbr.cwnd_gain));
        }
    }
}

/// The receiving end.
#[derive(Debug, Default)]
pub(super) struct ReceiverTap {
    /// Next sequence number in order.
    next: u64,
    /// Data beyond a gap.
    beyond: Ranges,
    stats: ReceiverStats,
}

impl ForeignReceiver for ReceiverTap {
    fn on_sent(&mut self, _: Nanos, _: &Packet, _: &[u8]) {
        self.stats.acks_sent += 1;
    }

    fn on_received(&mut self, _: Nanos, packet: &Packet, _: &[u8]) {
        let stats = &mut self.stats;
        stats.bytes_received += packet.size().as_u64();
        stats.ce_packets += u64::from(packet.ecn() == narrows_packet::Ecn::Ce);
        let start = packet.foreign().seq;
        if packet.flags.has(Flags::SYN) {
            self.next = self.next.max(start + 1);
        }
        let end = start + u64::from(packet.payload);
        if packet.payload == 0 {
            return;
        }
        let mut new = false;
        if start <= self.next {
            new = end > self.next;
            let before = self.next;
            self.next = self.next.max(end);
            while let Some(end) = self.beyond.pop_reached(self.next) {
                self.next = self.next.max(end);
            }
            stats.bytes_in_order += self.next - before;
        } else {
            self.beyond.insert(start, end, |_, _| new = true);
            stats.out_of_order += 1;
        }
        if new {
            stats.data_packets += 1;
        } else {
            stats.duplicate_packets += 1;
        }
    }

    fn stats(&self) -> &ReceiverStats {
        &self.stats
    }
}
