//! The endpoints of a flow as the relay observes them: from their packets and from their measurements. Packets
//! are encrypted, so the relay knows only their sizes and which packets carry data.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use narrows_cc::{Bytes, Nanos, Rate, Telemetry};
use narrows_packet::{Ecn, Packet};
use narrows_sim::external::{ExternalReceiver, ExternalSender, PacketReport, SenderView};
use narrows_tcp::{AckOutcome, ReceiverStats, SenderStats, TcpInfo};

use super::meter::Meter;

/// The sending endpoint.
#[derive(Debug)]
pub(super) struct SenderTap {
    meter: Arc<Meter>,
    first_data_at: Option<Nanos>,
    stats: SenderStats,
    /// The endpoint's reports from the last update, and the number of earlier reports.
    reports: Vec<PacketReport>,
    before: u64,
}

impl SenderTap {
    pub(super) fn new(meter: Arc<Meter>) -> Self {
        Self { meter, first_data_at: None, stats: SenderStats::default(), reports: Vec::new(), before: 0 }
    }

    /// Takes the endpoint's new reports. QUIC sends the data of a packet declared lost again in another packet,
    /// so losses count as retransmissions.
    fn update(&mut self) {
        self.before += self.reports.len() as u64;
        self.reports.clear();
        if let Some(mut packets) = self.meter.packets() {
            packets.swap_reports(&mut self.reports);
        }
        let lost = self.reports.iter().filter(|report| matches!(report, PacketReport::Lost(_)));
        self.stats.lost_packets += lost.count() as u64;
        self.stats.retransmits = self.stats.lost_packets;
    }
}

impl ExternalSender for SenderTap {
    fn on_sent(&mut self, now: Nanos, packet: &Packet, _: &[u8]) {
        self.update();
        if packet.payload > 0 {
            self.first_data_at.get_or_insert(now);
            self.stats.data_packets_sent += 1;
            self.stats.bytes_sent += u64::from(packet.payload);
        }
    }

    fn on_received(&mut self, _: Nanos, _: &Packet, _: &[u8]) -> AckOutcome {
        self.update();
        // The endpoint takes the RTT samples; the relay reports each sample with the next acknowledgement.
        let rtt = self.meter.take_rtt();
        self.stats.rtt_samples += u64::from(rtt.is_some());
        AckOutcome { rtt, ..AckOutcome::default() }
    }

    fn stop(&mut self, _: Nanos) {}

    fn view(&self) -> SenderView {
        SenderView {
            stats: self.stats,
            timeouts: None, // noq does not count its probe timeouts
            inflight: self.inflight(),
            cwnd: self.meter.window().map(Bytes::new),
            pacing_rate: self.meter.pacing().map(Rate::from_bytes_per_sec),
            srtt: self.meter.srtt(),
            first_data_at: self.first_data_at,
            completed_at: self.completed_at(),
            ..SenderView::default()
        }
    }

    fn inflight(&self) -> Bytes {
        Bytes::new(self.meter.inflight.load(Relaxed))
    }

    fn completed_at(&self) -> Option<Nanos> {
        self.meter.completed()
    }

    fn info(&self) -> Option<TcpInfo> {
        None
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        if let Ok(items) = self.meter.telemetry.lock() {
            for (name, value) in items.iter() {
                sink(name, *value);
            }
        }
    }

    fn reports(&self) -> Option<(u64, &[PacketReport])> {
        Some((self.before, &self.reports))
    }
}

/// The receiving endpoint.
#[derive(Debug)]
pub(super) struct ReceiverTap {
    meter: Arc<Meter>,
    stats: ReceiverStats,
}

impl ReceiverTap {
    pub(super) fn new(meter: Arc<Meter>) -> Self {
        Self { meter, stats: ReceiverStats::default() }
    }
}

impl ExternalReceiver for ReceiverTap {
    fn on_sent(&mut self, _: Nanos, _: &Packet, _: &[u8]) {
        self.stats.acks_sent += 1;
        self.stats.bytes_in_order = self.meter.read.load(Relaxed);
    }

    fn on_received(&mut self, _: Nanos, packet: &Packet, _: &[u8]) {
        let stats = &mut self.stats;
        stats.bytes_received += packet.size().as_u64();
        stats.ce_packets += u64::from(packet.ecn() == Ecn::Ce);
        stats.data_packets += u64::from(packet.payload > 0);
        stats.bytes_in_order = self.meter.read.load(Relaxed);
    }

    fn stats(&self) -> &ReceiverStats {
        &self.stats
    }
}
