//! The endpoints of a flow, as its packets and the kernel's reports show them.
//!
//! A tap follows sequence numbers and SACK blocks and keeps the counters of the simulator's endpoints. A test runs our
//! own endpoints as hosts in virtual time: taps and endpoints report the same figures.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use narrows_cc::{Bytes, Nanos, Telemetry, Value};
use narrows_packet::real::{Segment, unfold};
use narrows_packet::{Flags, Packet};
use narrows_sim::external::{ExternalReceiver, ExternalSender, SenderView};
use narrows_tcp::ranges::Ranges;
use narrows_tcp::{AckOutcome, ReceiverStats, SenderStats, TcpInfo};

use crate::reading::Reading;

/// The latest reading of a sender, if there is one.
pub(super) type Latest = Arc<Mutex<Option<Reading>>>;

/// A data packet that was sent and not acknowledged cumulatively.
#[derive(Clone, Copy, Debug)]
struct Record {
    end: u64,
    /// Time of the packet's last transmission. `order`: the number of that transmission among all.
    sent_at: Nanos,
    order: u64,
    repeated: bool,
    sacked: bool,
}

/// The packets that one acknowledgement delivers.
#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    /// The packet sent last.
    newest: Option<Record>,
    /// Departures of the first packet acknowledged cumulatively and of the first packet acknowledged selectively, among
    /// packets sent once.
    first: [Option<Nanos>; 2],
    /// A packet acknowledged cumulatively was sent more than once.
    repeated: bool,
}

impl Delivered {
    fn add(&mut self, record: &Record, selective: bool) {
        if self.newest.is_none_or(|newest| newest.order < record.order) {
            self.newest = Some(*record);
        }
        if !record.repeated {
            self.first[usize::from(selective)].get_or_insert(record.sent_at);
        }
        self.repeated |= record.repeated && !selective;
    }

    /// The RTT sample that our own sender would take: from the packet sent last, or else from the first packet, as in
    /// Linux's estimator (`tcp_clean_rtx_queue`). A packet sent twice gives no sample: a tap ignores echoed timestamps.
    fn rtt(&self, now: Nanos) -> Option<Nanos> {
        let [cumulative, selective] = self.first;
        let first = cumulative.filter(|_| !self.repeated).or(selective);
        let newest = self.newest.filter(|newest| !newest.repeated).map(|newest| newest.sent_at);
        newest.or(first).map(|sent_at| now - sent_at)
    }
}

/// The sending endpoint.
#[derive(Debug)]
pub(super) struct SenderTap {
    latest: Latest,
    /// Payload bytes of a finite flow.
    size: Option<u64>,
    records: VecDeque<Record>,
    /// Lowest sequence number not yet acknowledged cumulatively. `next`: lowest number not yet sent.
    una: u64,
    next: u64,
    sacked: Ranges,
    /// Departure of the SYN; `None` once the SYN is retransmitted.
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

    /// A field of the kernel's report, or of the last report before the connection ended.
    fn ever_reported<T>(&self, field: impl FnOnce(&Reading) -> Option<T>) -> Option<T> {
        field(self.latest.lock().ok()?.as_ref()?)
    }

    /// A field of the kernel's report on an open connection.
    fn reported<T>(&self, field: impl FnOnce(&Reading) -> Option<T>) -> Option<T> {
        self.ever_reported(|reading| field(reading).filter(|_| reading.open && self.completed_at.is_none()))
    }

    /// Removes records up to `ack`.
    fn acknowledge(&mut self, ack: u64, delivered: &mut Delivered) {
        while let Some(record) = self.records.front().filter(|record| record.end <= ack) {
            if !record.sacked {
                delivered.add(record, false);
            }
            self.records.pop_front();
        }
        self.una = self.una.max(ack);
        self.sacked.remove_below(self.una);
    }

    /// Marks records in `start..end` as acknowledged selectively.
    fn sack(&mut self, start: u64, end: u64, delivered: &mut Delivered) {
        let (start, end) = (start.max(self.una), end.min(self.next));
        if start >= end {
            return;
        }
        let (records, stats) = (&mut self.records, &mut self.stats);
        self.sacked.insert(start, end, |from, to| {
            stats.sack_blocks += 1;
            let at = records.partition_point(|record| record.end <= from);
            for record in records.range_mut(at..).take_while(|record| record.end <= to) {
                delivered.add(record, true);
                record.sacked = true;
            }
        });
    }
}

impl ExternalSender for SenderTap {
    fn on_sent(&mut self, now: Nanos, packet: &Packet, _: &[u8]) {
        let start = packet.external().seq;
        let end = start + u64::from(packet.payload);
        if packet.flags.has(Flags::SYN) {
            // A retransmitted SYN gives no RTT sample.
            let repeated = self.next > 0;
            self.opened_at = (!repeated).then_some(now);
            (self.una, self.next) = (start, start + 1);
        }
        if packet.payload == 0 {
            return;
        }
        self.stats.data_packets_sent += 1;
        let order = self.stats.data_packets_sent;
        self.stats.bytes_sent += u64::from(packet.payload);
        self.first_data_at.get_or_insert(now);
        if packet.flags.has(Flags::RETRANSMISSION) {
            self.stats.retransmits += 1;
            self.stats.bytes_retransmitted += u64::from(packet.payload);
            let at = self.records.partition_point(|record| record.end <= start);
            for record in self.records.range_mut(at..).take_while(|record| record.end <= end) {
                (record.sent_at, record.order, record.repeated) = (now, order, true);
            }
        } else {
            self.records.push_back(Record { end, sent_at: now, order, repeated: false, sacked: false });
            self.next = end;
        }
    }

    fn on_received(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let ack = packet.external().ack;
        if packet.flags.has(Flags::SYN) {
            self.una = ack;
            outcome.rtt = self.opened_at.map(|sent| now - sent);
            return outcome;
        }
        let before = self.una;
        let mut delivered = Delivered::default();
        if let Some(segment) = Segment::read(bytes) {
            for (start, end) in segment.sack() {
                let wide = |wire: u32| unfold(wire, segment.ack.wrapping_sub(ack as u32), ack);
                self.sack(wide(start), wide(end), &mut delivered);
            }
        }
        self.acknowledge(ack, &mut delivered);
        outcome.rtt = delivered.rtt(now);
        self.stats.rtt_samples += u64::from(outcome.rtt.is_some());
        outcome.acked = Bytes::new(self.una - before);
        // The SYN takes the sequence number before the first byte.
        if self.size.is_some_and(|size| self.una > size) {
            self.completed_at.get_or_insert(now);
        }
        outcome
    }

    fn stop(&mut self, _: Nanos) {
        // A file that stops before its end does not complete.
        self.size = self.size.filter(|size| self.next > *size);
    }

    fn view(&self) -> SenderView {
        let open = self.reported(|reading| Some((reading.cwnd, reading.pacing_rate, reading.info.srtt)));
        SenderView {
            stats: self.stats,
            timeouts: self.ever_reported(|reading| reading.timeouts),
            inflight: self.inflight(),
            cwnd: open.map(|(cwnd, ..)| cwnd),
            pacing_rate: open.and_then(|(_, rate, _)| rate),
            srtt: open.and_then(|(.., srtt)| srtt),
            first_data_at: self.first_data_at,
            completed_at: self.completed_at,
            ..SenderView::default()
        }
    }

    fn inflight(&self) -> Bytes {
        // The number that acknowledges a FIN is one beyond the data.
        Bytes::new(self.next.saturating_sub(self.una).saturating_sub(self.sacked.total()))
    }

    fn completed_at(&self) -> Option<Nanos> {
        self.completed_at
    }

    fn info(&self) -> Option<TcpInfo> {
        self.reported(|reading| Some(reading.info))
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        if let Some(model) = self.reported(|reading| reading.model) {
            sink("bw_estimate", Value::Rate(model.bandwidth));
            sink("min_rtt", Value::Time(model.min_rtt));
            sink("pacing_gain", Value::Number(model.pacing_gain));
            sink("cwnd_gain", Value::Number(model.cwnd_gain));
        }
    }
}

/// The receiving endpoint.
#[derive(Debug, Default)]
pub(super) struct ReceiverTap {
    /// Next sequence number that the receiver expects.
    next: u64,
    /// Data beyond a gap.
    beyond: Ranges,
    stats: ReceiverStats,
}

impl ExternalReceiver for ReceiverTap {
    fn on_sent(&mut self, _: Nanos, _: &Packet, _: &[u8]) {
        self.stats.acks_sent += 1;
    }

    fn on_received(&mut self, _: Nanos, packet: &Packet, _: &[u8]) {
        let stats = &mut self.stats;
        stats.bytes_received += packet.size().as_u64();
        stats.ce_packets += u64::from(packet.ecn() == narrows_packet::Ecn::Ce);
        let start = packet.external().seq;
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
