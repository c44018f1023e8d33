//! The results of a run. The JSON field names are fixed: other programs read them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::telemetry::Shown;

/// Results of one run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Version of the engine that ran the scenario.
    pub version: &'static str,
    /// The scenario's name.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// Length of the run in virtual time.
    pub duration_s: f64,
    /// Wall time of the run in seconds, set by the caller.
    pub wall_s: f64,
    /// Number of events processed.
    pub events: u64,
    /// Number of distinct data packets delivered.
    pub data_packets: u64,
    /// Jain's fairness index of the flows' goodputs; a multipath connection counts as one flow.
    pub jain: f64,
    /// Time in seconds from the last flow's start to convergence. Convergence is the beginning of the first
    /// five seconds in which all one-second windows have a Jain's index of at least 0.9 while all flows are
    /// active. A multipath connection counts as one flow.
    pub convergence_s: Option<f64>,
    /// One row per flow, including the subflows of multipath connections.
    pub flows: Vec<FlowResult>,
    /// One row per link; the first is the bottleneck.
    pub links: Vec<LinkResult>,
    /// Length of the warm-up, which means exclude.
    pub warmup_s: f64,
    /// Hash of all events of the run, in hexadecimal; absent for runs in real time, which do not repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_hash: Option<String>,
    /// Counters of transport mechanisms over the whole run; absent for real hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// Largest memory of a flow in bytes; absent for real hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_flow_bytes: Option<u64>,
    /// The real hosts of the run, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// One row per multipath connection. Its subflows are flows with its label and the suffixes `/1`, `/2`, …
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionResult>,
}

impl RunResult {
    /// Counters of a simulated run.
    ///
    /// # Panics
    /// If the run had real hosts.
    pub fn counters(&self) -> &Counters {
        self.counters.as_ref().expect("a simulated run")
    }

    /// Hash of the events of a simulated run.
    ///
    /// # Panics
    /// If the run had real hosts.
    pub fn event_hash(&self) -> &str {
        self.event_hash.as_ref().expect("a simulated run")
    }
}

/// The hosts of a real-time run.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// The backend: `kernel`, `quic`, or `noq` for the noq library's controllers.
    pub on: &'static str,
    /// The network between the QUIC endpoints: `namespaces` or `loopback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<&'static str>,
    /// Release of the hosts' kernel.
    pub kernel: String,
    /// The flows' schemes as the kernel or the QUIC stack names them.
    pub schemes: Vec<String>,
    /// System settings (sysctl) of the hosts.
    pub sysctls: BTreeMap<String, String>,
    /// Whether the network devices accept packets larger than the MTU.
    pub offload: bool,
    /// Whether the emulator ran with real-time priority.
    pub real_time: bool,
    /// Delays of deliveries beyond their scheduled times.
    pub lateness: Lateness,
    /// CPU time of the emulator per packet, including the kernel's receive path.
    pub cpu_us_per_packet: f64,
    /// Load average of the machine over one minute, at the end of the run.
    pub load: f64,
    /// Number of attempts, the last of which was undisturbed unless `disturbed` is set.
    pub attempts: u32,
    /// Whether lateness exceeded its bound even in the last attempt.
    pub disturbed: bool,
    /// The shim between the kernel's TCP and our schemes, if a flow used it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shim: Option<Shim>,
    /// The rate negotiation of flows on the hosts, if any flow negotiated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negotiation: Option<Negotiation>,
    /// Packets dropped by full socket buffers of the QUIC endpoints and the relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_drops: Option<u64>,
    /// The program of flows that receive rates in TCP options, if any flow used it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates: Option<HostRates>,
}

/// Messages of flows that negotiate on the hosts, and counters of the program that follows the granted rates.
#[derive(Clone, Debug, Serialize)]
pub struct Negotiation {
    /// Number of flows that negotiate.
    pub flows: u64,
    /// Messages that requesters sent.
    pub messages_sent: u64,
    /// Messages that requesters received: answers and adjustments.
    pub messages_received: u64,
    /// Messages that requesters refused, because they belonged to another flow, were malformed, or were out of bounds.
    pub messages_refused: u64,
    /// Requests that responders answered.
    pub requests_answered: u64,
    /// Grants that the program applied.
    pub grants: u64,
    /// Grants withdrawn; the flow then continues with CUBIC.
    pub withdrawals: u64,
    /// Grants that the program ignored, because they exceeded its bounds.
    pub grants_ignored: u64,
    /// Acknowledgements that the program processed.
    pub acks: u64,
    /// Acknowledgements that the program processed while a grant was in force.
    pub acks_granted: u64,
}

/// The kernel program of flows whose rates come from the network, and the programs that write and read the TCP option.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostRates {
    /// Name of the program's scheme.
    pub scheme: String,
    /// Acknowledgements that the program processed.
    pub acks: u64,
    /// Rates that the program applied.
    pub advised: u64,
    /// Invalid rates, which the program ignored.
    pub invalid: u64,
    /// Number of times that the program fell back to sending without rates, because no rates arrived.
    pub fallbacks: u64,
    /// SYNs that carried the offer to obey rates.
    pub offered: u64,
    /// Connections at receivers whose SYN carried this offer.
    pub accepted: u64,
    /// SYN-ACKs and acknowledgements that carried the option; three SACK blocks leave no space for it.
    pub written: u64,
    /// Rates read from options.
    pub read: u64,
    /// Options read that contained no rate.
    pub unlimited: u64,
    /// Options read from acknowledgements that arrived after a newer acknowledgement.
    pub stale: u64,
    /// Operations that the kernel refused.
    pub errors: u64,
}

/// The BPF shim between the kernel's TCP and our schemes.
#[derive(Clone, Debug, Serialize)]
pub struct Shim {
    /// The flows that ran over the shim.
    pub flows: Vec<ShimFlow>,
    /// Number of events that the kernel reported or should have reported.
    pub events: u64,
    /// Number of decisions that the kernel applied. A newer decision may replace one that is not applied yet.
    pub decisions: u64,
    /// Number of events lost because the ring buffer was full.
    pub drops: u64,
    /// Number of events at which the kernel behaved as Reno because no decision arrived.
    pub fallbacks: u64,
    /// Mean delay from an event to its decision.
    pub decision_delay_mean_us: f64,
    /// 99th percentile of the delay from an event to its decision.
    pub decision_delay_p99_us: f64,
    /// Mean number of events that our schemes answered together.
    pub batch_mean: f64,
    /// Largest number of events that our schemes answered together.
    pub batch_max: u64,
}

/// One flow that ran over the shim.
#[derive(Clone, Debug, Serialize)]
pub struct ShimFlow {
    /// The flow's label.
    pub flow: String,
    /// The scheme that made the decisions.
    pub scheme: &'static str,
    /// Number of the flow's events.
    pub events: u64,
    /// Number of decisions applied to the flow.
    pub decisions: u64,
    /// Number of the flow's events without a decision.
    pub fallbacks: u64,
}

/// Delays of deliveries and telemetry readings beyond their scheduled times.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Lateness {
    /// Mean delay of deliveries.
    pub mean_us: f64,
    /// 99th percentile of the delay of deliveries.
    pub p99_us: f64,
    /// Longest delay of deliveries and readings.
    pub longest_ms: f64,
    /// Number of deliveries and readings that were delayed by more than 5 ms.
    pub stalls: u64,
}

/// Results of one multipath connection, after the warm-up unless stated. Here, order refers to the connection's
/// data; in the rows of its subflows, it refers to the subflow's data.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionResult {
    /// The connection's label.
    pub connection: String,
    /// The scheme of the connection's subflows.
    pub scheme: &'static str,
    /// Number of subflows.
    pub subflows: usize,
    /// In-order payload per second until the connection's application stops.
    pub goodput_mbit_s: f64,
    /// Time from the start to the arrival of all data, for finite connections; whole run.
    pub completion_s: Option<f64>,
    /// Start time.
    pub start_s: f64,
    /// Payload bytes delivered in order; whole run.
    pub bytes_delivered: u64,
    /// Payload bytes that arrived more than once, on any subflow; whole run.
    pub duplicate_bytes: u64,
    /// Largest number of bytes in the receiver's reordering queue; whole run.
    pub reorder_peak_bytes: u64,
    /// Payload bytes reinjected on another subflow after the path of their first subflow was abandoned; whole run.
    pub reinjected_bytes: u64,
    /// Payload bytes of opportunistic retransmissions, that is data sent again on a faster subflow because it
    /// blocked the receive window, or was about to; whole run.
    pub rescued_bytes: u64,
    /// Number of times a path was abandoned; whole run.
    pub paths_given_up: u64,
}

/// Results of one flow, after the warm-up unless stated.
#[derive(Clone, Debug, Serialize)]
pub struct FlowResult {
    /// The flow's label.
    pub flow: String,
    /// The flow's scheme.
    pub scheme: &'static str,
    /// Two-way propagation delay.
    pub rtt_base_ms: f64,
    /// In-order payload per second until the flow's application stops.
    pub goodput_mbit_s: f64,
    /// IP bytes received per second.
    pub throughput_mbit_s: f64,
    /// Retransmitted packets as a percentage of the data packets sent.
    pub retransmit_percent: f64,
    /// Packets that the network dropped, as a percentage of the data packets sent.
    pub loss_percent: f64,
    /// Minimum RTT.
    pub rtt_min_ms: Option<f64>,
    /// Mean round-trip time.
    pub rtt_mean_ms: Option<f64>,
    /// Median round-trip time.
    pub rtt_p50_ms: Option<f64>,
    /// 95th percentile of the round-trip time.
    pub rtt_p95_ms: Option<f64>,
    /// 99th percentile of the round-trip time.
    pub rtt_p99_ms: Option<f64>,
    /// Time from the first data packet until inflight first reaches the path's BDP; whole run.
    pub fill_time_ms: Option<f64>,
    /// Time from the start of a finite flow until all data was acknowledged (TCP) or the connection was
    /// closed (DCCP); whole run.
    pub completion_s: Option<f64>,
    /// Difference between the maximum and the minimum RTT.
    pub rtt_range_ms: Option<f64>,
    /// Difference between the maximum and the minimum throughput in intervals of 100 ms, or of a thousandth of
    /// the run if that is longer.
    pub throughput_range_mbit_s: Option<f64>,
    /// Start time.
    pub start_s: f64,
    /// In-order payload bytes delivered; whole run.
    pub bytes_delivered: u64,
    /// Number of data packets sent, including retransmissions.
    pub packets_sent: u64,
    /// Number of retransmission timeouts; whole run. `None` if a host does not count them.
    pub timeouts: Option<u64>,
    /// Parameters of the scheme that differ from their defaults: `beta=0.8,paced=on`.
    pub params: String,
    /// Datagram results of a DCCP flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramResult>,
}

/// Datagram results of a DCCP flow.
#[derive(Clone, Debug, Serialize)]
pub struct DatagramResult {
    /// Datagrams that arrived; whole run.
    pub delivered: u64,
    /// Datagrams that the sender's full queue dropped; whole run.
    pub unsent: u64,
    /// Minimum delay between the applications, after the warm-up. Delays include the wait in the sender's
    /// queue. They are absent for backlogged applications, and for datagrams shorter than the timestamp, which
    /// has eight bytes.
    pub delay_min_ms: Option<f64>,
    /// Mean delay.
    pub delay_mean_ms: Option<f64>,
    /// Median delay.
    pub delay_p50_ms: Option<f64>,
    /// 95th percentile of the delay.
    pub delay_p95_ms: Option<f64>,
    /// 99th percentile of the delay.
    pub delay_p99_ms: Option<f64>,
}

/// Results of one link, after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct LinkResult {
    /// The link's name.
    pub link: String,
    /// Fraction of the link's capacity that was used.
    pub utilization: f64,
    /// Mean time of a packet in the queue.
    pub queue_delay_mean_ms: f64,
    /// 95th percentile of the time of a packet in the queue.
    pub queue_delay_p95_ms: f64,
    /// Number of packets in the queue, averaged over time.
    pub queue_mean_pkt: f64,
    /// Number of packets dropped by queue, policer or queue discipline, without random losses.
    pub drops: u64,
    /// `drops` as a percentage of the packets that arrived.
    pub drop_percent: f64,
    /// Number of packets lost at random.
    pub random_losses: u64,
    /// Number of packets marked.
    pub marks: u64,
    /// Results of the classes of the link's queue, if it has classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassResult>,
    /// The router algorithm at the link's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterResult>,
}

/// Results of one class of a queue together with all classes below it, after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct ClassResult {
    /// The class's name.
    pub class: String,
    /// IP bytes sent per second.
    pub sent_mbit_s: f64,
    /// Number of packets dropped because the queue was full or, in a policed class, because the tokens were exhausted.
    pub drops: u64,
    /// Number of packets in the queue, averaged over time.
    pub queue_mean_pkt: f64,
    /// Mean time of a packet in the queue.
    pub queue_delay_mean_ms: f64,
}

/// The state of a router algorithm at the end of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RouterResult {
    /// The algorithm's name.
    pub kind: &'static str,
    /// Internal values and counters by name, with the unit last in the name; states are strings.
    pub readings: BTreeMap<Cow<'static, str>, Shown>,
    /// Learned state as a string, for the scenario key `network.learned`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<String>,
}

/// Counters of transport mechanisms.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counters {
    /// SACK blocks with new information.
    pub sack_blocks: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries that were found spurious.
    pub spurious_recoveries: u64,
    /// Tail-loss probes.
    pub tlp_probes: u64,
    /// Packets delayed by the pacer.
    pub paced_waits: u64,
    /// Delivery-rate samples of TCP flows.
    pub rate_samples: u64,
    /// Round-trip time samples.
    pub rtt_samples: u64,
    /// Retransmitted packets.
    pub retransmits: u64,
    /// Window reductions in response to ECN marks.
    pub ecn_reductions: u64,
    /// Delayed acknowledgements.
    pub delayed_acks: u64,
    /// Data packets sent.
    pub data_packets_sent: u64,
}
