//! Report of a connection.

use narrows_cc::Nanos;
use narrows_dccp::Connection;
use narrows_units::Histogram;
use serde::Serialize;

/// One-way delays of datagrams, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Delay {
    /// Minimum.
    pub min_ms: f64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
}

impl Delay {
    pub(crate) fn of(delays: &Histogram) -> Option<Self> {
        let ms = |nanos: f64| nanos / 1e6;
        delays.min().map(|min| Self {
            min_ms: ms(min as f64),
            mean_ms: ms(delays.mean()),
            p50_ms: ms(delays.quantile(0.5)),
            p95_ms: ms(delays.quantile(0.95)),
            p99_ms: ms(delays.quantile(0.99)),
        })
    }
}

/// Progress of many connections of a receiver.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Overview {
    /// Connections that are open.
    pub connections: usize,
    /// Handshakes that are incomplete.
    pub half_open: usize,
    /// Datagrams received since the last report.
    pub datagrams: u64,
    /// Payload bytes of these datagrams.
    pub bytes: u64,
    /// Payload rate since the last report.
    pub throughput_mbit_s: f64,
}

impl Overview {
    pub(crate) fn set_interval(&mut self, interval: Nanos) {
        self.throughput_mbit_s = self.bytes as f64 * 8e-6 / interval.as_secs_f64();
    }
}

/// One connection, in progress or at its end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// `sender` or `receiver`.
    pub role: &'static str,
    /// The peer's address.
    pub remote: String,
    /// The sender's scheme; `None` at the receiver.
    pub scheme: Option<&'static str>,
    /// Number of the CCID that controls the data; both endpoints report the same number.
    pub ccid: u8,
    /// Seconds since the connection opened.
    pub duration_s: f64,
    /// End of the connection: `closed`, `peer gone`, `stalled`, `reset`, or `open` if in progress.
    pub end: &'static str,
    /// Code of the Reset that was received or sent.
    pub reset_code: Option<u8>,
    /// Name of a known Reset code.
    pub reset_name: Option<&'static str>,
    /// Datagrams written by the source.
    pub datagrams_written: u64,
    /// Datagrams sent or received, without duplicates.
    pub datagrams: u64,
    /// Payload bytes of these datagrams.
    pub bytes: u64,
    /// At the sender: datagrams acknowledged.
    pub datagrams_acknowledged: u64,
    /// At the sender: acknowledged payload bytes.
    pub bytes_acknowledged: u64,
    /// Packets of all types sent.
    pub packets_sent: u64,
    /// Packets of all types received.
    pub packets_received: u64,
    /// At the sender: datagrams that the receiver's reports show as lost, without those that arrived late.
    pub lost: Option<u64>,
    /// At the sender: datagrams whose fate no report shows. Sent = acknowledged + lost + unreported.
    pub unreported: u64,
    /// At the receiver: copies of datagrams, which no other counter includes.
    pub duplicates: u64,
    /// At the receiver: datagrams older than its history of arrivals. These count neither as received nor as copies.
    pub too_late: u64,
    /// At the sender: `lost` as a percentage of datagrams sent.
    pub loss_percent: Option<f64>,
    /// Datagrams with ECN marks.
    pub marked: u64,
    /// Datagrams dropped by the full queue of this endpoint.
    pub queue_drops: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Payload rate from the opening to the last datagram or the end of the source.
    pub throughput_mbit_s: f64,
    /// Smoothed round-trip time.
    pub rtt_ms: Option<f64>,
    /// At the receiver: one-way delays.
    pub delay: Option<Delay>,
}

impl Report {
    pub(crate) fn of(
        sender: bool,
        remote: String,
        connection: &Connection,
        (age, active): (Nanos, Nanos),
        written: u64,
        delays: &Histogram,
    ) -> Self {
        let stats = connection.stats();
        let (ours, theirs) = connection.ccids();
        let (datagrams, bytes) = if sender {
            (stats.data_packets_sent, stats.bytes_sent)
        } else {
            (stats.data_packets_received, stats.bytes_received)
        };
        let unreported = connection.unreported_losses();
        let declared = (stats.lost_packets.saturating_sub(stats.late_packets)).saturating_sub(unreported);
        let lost = sender.then_some(declared);
        let known = stats.delivered_packets + declared;
        Self {
            role: if sender { "sender" } else { "receiver" },
            remote,
            scheme: sender.then(|| connection.scheme().info.name),
            ccid: if sender { ours } else { theirs }.number(),
            duration_s: age.as_secs_f64(),
            end: "open",
            reset_code: None,
            reset_name: None,
            datagrams_written: written,
            datagrams,
            bytes,
            datagrams_acknowledged: stats.delivered_packets,
            bytes_acknowledged: stats.bytes_delivered,
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            lost,
            unreported: if sender { datagrams.saturating_sub(known) } else { 0 },
            duplicates: stats.duplicates,
            too_late: stats.too_late,
            loss_percent: lost.map(|lost| 100.0 * lost as f64 / datagrams.max(1) as f64),
            marked: stats.marked_packets,
            queue_drops: if sender { stats.send_drops } else { stats.receive_drops },
            timeouts: stats.timeouts,
            throughput_mbit_s: if active.is_zero() { 0.0 } else { bytes as f64 * 8e-6 / active.as_secs_f64() },
            rtt_ms: connection.srtt().map(|rtt| rtt.as_secs_f64() * 1e3),
            delay: Delay::of(delays),
        }
    }
}
