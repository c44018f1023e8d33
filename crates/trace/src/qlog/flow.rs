//! The events of one flow.

use narrows_cc::{Bytes, Nanos, Value};
use narrows_packet::{Kind, Packet};
use narrows_scenario::FlowPlan;
use narrows_sim::external::{PacketReport, SenderView};
use narrows_sim::observer::{FlowState, RecoveryState};

use super::acks::Outstanding;
use super::json::{Event, List, Members, Millis, Ranges};
use super::packets;

/// Names of congestion states (RFC 9002 section 7.3), for schemes that report no state.
const SLOW_START: &str = "slow_start";
const AVOIDANCE: &str = "congestion_avoidance";
const RECOVERY: &str = "recovery";

/// Values of the event `quic:recovery_metrics_updated`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Metrics {
    min_rtt: Option<Nanos>,
    smoothed_rtt: Option<Nanos>,
    latest_rtt: Option<Nanos>,
    rtt_variance: Option<Nanos>,
    pto_count: Option<u64>,
    congestion_window: Option<u64>,
    bytes_in_flight: Option<u64>,
    ssthresh: Option<u64>,
    pacing_rate: Option<u64>,
}

impl Metrics {
    fn of(sender: &SenderView, rtt: Option<(Nanos, Nanos)>, recovery: &RecoveryState) -> Self {
        Self {
            min_rtt: recovery.min_rtt,
            smoothed_rtt: rtt.map(|(_, smoothed)| smoothed),
            latest_rtt: rtt.map(|(latest, _)| latest),
            rtt_variance: recovery.rtt_variation,
            pto_count: recovery.timeouts.map(u64::from),
            congestion_window: sender.cwnd.map(|cwnd| cwnd.as_u64()),
            bytes_in_flight: Some(sender.inflight.as_u64()),
            ssthresh: recovery.ssthresh.map(|bytes| bytes.as_u64()),
            pacing_rate: sender.pacing_rate.map(|rate| (rate.as_mbit_per_sec() * 1e6) as u64),
        }
    }

    /// The values that differ from those in `before`.
    fn changes(&self, before: &Self) -> Members {
        let mut members = Members::default();
        for (name, new, old) in [
            ("min_rtt", self.min_rtt, before.min_rtt),
            ("smoothed_rtt", self.smoothed_rtt, before.smoothed_rtt),
            ("latest_rtt", self.latest_rtt, before.latest_rtt),
            ("rtt_variance", self.rtt_variance, before.rtt_variance),
        ] {
            if let Some(new) = new.filter(|_| new != old) {
                members.add(name, Millis(new));
            }
        }
        for (name, new, old) in [
            ("pto_count", self.pto_count, before.pto_count),
            ("congestion_window", self.congestion_window, before.congestion_window),
            ("bytes_in_flight", self.bytes_in_flight, before.bytes_in_flight),
            ("ssthresh", self.ssthresh, before.ssthresh),
            ("pacing_rate", self.pacing_rate, before.pacing_rate),
        ] {
            if let Some(new) = new.filter(|_| new != old) {
                members.add(name, new);
            }
        }
        members
    }
}

/// The state from which a flow's events are derived.
#[derive(Debug, Default)]
pub(super) struct FlowLog {
    /// Size of a full packet in bytes.
    full: u32,
    sent: u64,
    received: u64,
    outstanding: Outstanding,
    metrics: Metrics,
    /// Whether the event with the parameters was written; only flows of our transports have this event.
    stated: bool,
    state: Option<&'static str>,
    lost: u64,
    /// Losses already reported by packet, but not yet contained in the sender's counter.
    reported: u64,
    /// Number of the sender's packet reports that are already written.
    heard: u64,
}

impl FlowLog {
    pub(super) fn new(plan: &FlowPlan) -> Self {
        Self { full: u32::from(plan.tcp.segment) + u32::from(plan.tcp.header), ..Self::default() }
    }

    /// Writes the events of a packet that leaves the sender's host; `bytes` are the packet's bytes.
    pub(super) fn on_sent(&mut self, event: &mut Event<'_>, packet: &Packet, bytes: &[u8]) {
        if packets::is_encrypted(packet, bytes) {
            return; // the sender reports this packet
        }
        let number = self.sent;
        self.sent += 1;
        let start = packet.numbers().0;
        let length = packets::occupied(packet);
        if length > 0 {
            let (declares, reported) = (packet.kind() == Kind::External, &mut self.reported);
            self.outstanding.send(start, start + length, number, |replaced| {
                if declares {
                    *reported += 1;
                    lost(event, replaced);
                }
            });
        }
        sent(event, number, packet.size().as_u64(), packet.payload.into());
    }

    /// Writes the events of a packet that reaches the sender's host.
    pub(super) fn on_received(&mut self, event: &mut Event<'_>, packet: &Packet, bytes: &[u8]) {
        let number = self.received;
        self.received += 1;
        packets::acknowledge(&mut self.outstanding, packet, bytes);
        let acked = self.outstanding.take_acked();
        let (size, payload) = (packet.size().as_u64(), packet.payload);
        let raw = format!("\"raw\":{{\"length\":{size},\"payload_length\":{payload}}}");
        let header = header(number);
        if acked.is_empty() {
            event.write("quic:packet_received", format_args!("{{{header},{raw}}}"));
        } else {
            let ranges = Ranges(&acked);
            event.write(
                "quic:packet_received",
                format_args!("{{{header},{raw},\"frames\":[{{\"frame_type\":\"ack\",\"acked_ranges\":{ranges}}}]}}"),
            );
        }
    }

    /// Writes the sender's reports about its packets. Returns whether the sender makes such reports.
    fn hear(&mut self, event: &mut Event<'_>, state: &FlowState<'_>) -> bool {
        let Some((before, reports)) = state.reports() else { return false };
        let new = reports.get(self.heard.saturating_sub(before) as usize..).unwrap_or_default();
        self.heard = self.heard.max(before + reports.len() as u64);
        let acked = |report: &PacketReport| match report {
            PacketReport::Acknowledged(number) => Some(*number),
            _ => None,
        };
        for group in new.chunk_by(|one, next| acked(one).is_some() && acked(next).is_some()) {
            match *group {
                [PacketReport::Sent { number, size, payload }, ..] => {
                    sent(event, number, size.as_u64(), payload.as_u64());
                }
                [PacketReport::Lost(number), ..] => lost(event, number),
                _ => {
                    let numbers = List(group.iter().filter_map(acked));
                    event.write("quic:packets_acked", format_args!("{{\"packet_numbers\":{numbers}}}"));
                }
            }
        }
        true
    }

    /// Writes the changes after the sender has processed an acknowledgement or a timer.
    pub(super) fn on_processed(&mut self, event: &mut Event<'_>, state: &FlowState<'_>) {
        if self.hear(event, state) {
            return;
        }
        let count = state.sender().stats.lost_packets;
        if count <= self.lost {
            return;
        }
        let mut unknown = count - self.lost;
        self.lost = count;
        for seq in state.lost() {
            if let Some(number) = self.outstanding.lose(seq) {
                lost(event, number);
                unknown = unknown.saturating_sub(1);
            }
        }
        let earlier = unknown.min(self.reported);
        self.reported -= earlier;
        for _ in earlier..unknown {
            event.write("quic:packet_lost", "{}");
        }
    }

    /// Writes the changes after the sender has sent all that it may send.
    pub(super) fn on_transmitted(&mut self, event: &mut Event<'_>, state: &FlowState<'_>) {
        self.hear(event, state);
        let (sender, external) = (state.sender(), state.is_external());
        let cwnd = sender.cwnd.map_or(0, Bytes::as_u64);
        // Before the connection opens, a flow has no cwnd.
        if cwnd == 0 && !external {
            return;
        }
        let recovery = state.recovery();
        if !self.stated && !external {
            self.stated = true;
            // The simulator's timers are exact, without granularity.
            let mut members = Members::default();
            members.add("timer_granularity", 0);
            members.add("max_datagram_size", self.full);
            members.add("initial_congestion_window", cwnd);
            event.write("quic:recovery_parameters_set", members);
        }
        let metrics = Metrics::of(&sender, state.rtt(&sender), &recovery);
        let changes = metrics.changes(&self.metrics);
        if !changes.is_empty() {
            event.write("quic:recovery_metrics_updated", changes);
            self.metrics = metrics;
        }
        let mut name = None;
        state.telemetry(&mut |item, value| {
            if let ("state", Value::State(text)) = (item, value) {
                name = Some(text);
            }
        });
        let below = recovery.ssthresh.is_none_or(|ssthresh| cwnd < ssthresh.as_u64());
        let phase = |recovering| match (recovering, below) {
            (true, _) => RECOVERY,
            (false, true) => SLOW_START,
            (false, false) => AVOIDANCE,
        };
        self.enter(event, name.or_else(|| recovery.recovering.map(phase)));
    }

    /// Writes a congestion state if it differs from the last one.
    fn enter(&mut self, event: &mut Event<'_>, state: Option<&'static str>) {
        let Some(new) = state.filter(|_| state != self.state) else { return };
        match self.state {
            None => event.write("quic:congestion_state_updated", format_args!("{{\"new\":\"{new}\"}}")),
            Some(old) => {
                event.write("quic:congestion_state_updated", format_args!("{{\"old\":\"{old}\",\"new\":\"{new}\"}}"))
            }
        }
        self.state = Some(new);
    }
}

/// The header of a packet. All packets are in one packet number space.
fn header(number: u64) -> String {
    format!("\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{number}}}")
}

fn sent(event: &mut Event<'_>, number: u64, size: u64, payload: u64) {
    let raw = format!("\"raw\":{{\"length\":{size},\"payload_length\":{payload}}}");
    event.write("quic:packet_sent", format_args!("{{{},{raw}}}", header(number)));
}

fn lost(event: &mut Event<'_>, number: u64) {
    event.write("quic:packet_lost", format_args!("{{{}}}", header(number)));
}
