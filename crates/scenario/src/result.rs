//! The results of a run. The JSON field names are fixed: other programs read them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::telemetry::Shown;

/// Results of one run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Version of the engine.
    pub version: &'static str,
    /// The scenario's name.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// Length of the run in virtual time.
    pub duration_s: f64,
    /// Time the run took on the wall; filled in by the caller, who has a clock.
    pub wall_s: f64,
    /// Events processed.
    pub events: u64,
    /// Distinct data packets delivered.
    pub data_packets: u64,
    /// Jain's fairness index over the flows' goodputs; a connection of several subflows counts as one.
    pub jain: f64,
    /// Seconds from the last flow's start until the shares stay fair; one-second windows keep a Jain
    /// index of at least 0.9 for five seconds, all flows being active; a connection of several subflows counts as one.
    pub convergence_s: Option<f64>,
    /// One row per flow; a subflow of a connection is one.
    pub flows: Vec<FlowResult>,
    /// One row per link; the first is the bottleneck.
    pub links: Vec<LinkResult>,
    /// The part at the start that is left out of means.
    pub warmup_s: f64,
    /// Hash over every event of the run, in hexadecimal.
    pub event_hash: String,
    /// How often the parts of the transport acted, over the whole run.
    pub counters: Counters,
    /// Memory of the flow that needs most, in bytes.
    pub peak_flow_bytes: u64,
    /// One row per connection of several subflows. Its subflows are flows of the same label with `/1`, `/2`, … behind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionResult>,
}

/// Results of one connection of several subflows, after the warm-up where not stated otherwise. In the
/// rows of its flows, data is in order on the subflow; here, in the connection.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionResult {
    /// Its label.
    pub connection: String,
    /// The scheme of its subflows.
    pub scheme: &'static str,
    /// How many subflows it has.
    pub subflows: usize,
    /// Payload per second in the order of the connection's data; if it is stopped, until then.
    pub goodput_mbit_s: f64,
    /// From the start until all data of a finite connection had arrived; whole run.
    pub completion_s: Option<f64>,
    /// When it opened.
    pub start_s: f64,
    /// Payload bytes delivered in order; whole run.
    pub bytes_delivered: u64,
    /// Payload bytes that arrived a second time, by another subflow or again; whole run.
    pub duplicate_bytes: u64,
    /// Most bytes that waited at the receiver for data in front of them; whole run.
    pub reorder_peak_bytes: u64,
    /// Payload bytes sent again on another subflow because a path was given up; whole run.
    pub reinjected_bytes: u64,
    /// Payload bytes repeated on a faster subflow because they held up the receive window, or were about to; whole run.
    pub rescued_bytes: u64,
    /// Times that a path was given up; whole run.
    pub paths_given_up: u64,
}

/// Results of one flow, after the warm-up where not stated otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct FlowResult {
    /// Its label.
    pub flow: String,
    /// Its scheme.
    pub scheme: &'static str,
    /// Two-way propagation delay.
    pub rtt_base_ms: f64,
    /// In-order payload per second; of a flow that is stopped, until then.
    pub goodput_mbit_s: f64,
    /// IP bytes received per second.
    pub throughput_mbit_s: f64,
    /// Retransmitted share of the data packets sent.
    pub retransmit_percent: f64,
    /// Share of the data packets sent that the network lost.
    pub loss_percent: f64,
    /// Least round-trip time.
    pub rtt_min_ms: Option<f64>,
    /// Mean round-trip time.
    pub rtt_mean_ms: Option<f64>,
    /// Median round-trip time.
    pub rtt_p50_ms: Option<f64>,
    /// 95th percentile of the round-trip time.
    pub rtt_p95_ms: Option<f64>,
    /// 99th percentile of the round-trip time.
    pub rtt_p99_ms: Option<f64>,
    /// From the first data packet until inflight first reaches the path's BDP; whole run.
    pub fill_time_ms: Option<f64>,
    /// From the start until all data of a finite flow was acknowledged, or its connection of datagrams was closed; whole run.
    pub completion_s: Option<f64>,
    /// Greatest minus least round-trip time.
    pub rtt_range_ms: Option<f64>,
    /// Greatest minus least throughput over bins of 100 ms (a thousandth of the run if that is longer).
    pub throughput_range_mbit_s: Option<f64>,
    /// When it opened.
    pub start_s: f64,
    /// In-order payload bytes delivered; whole run.
    pub bytes_delivered: u64,
    /// Data packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Retransmission timeouts; whole run.
    pub timeouts: u64,
    /// The scheme's parameters that differ from their defaults, as after the colon of a scheme: `beta=0.8,paced=on`.
    pub params: String,
    /// Of a flow carried by datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramResult>,
}

/// Results of a flow of datagrams.
#[derive(Clone, Debug, Serialize)]
pub struct DatagramResult {
    /// Datagrams that arrived; whole run.
    pub delivered: u64,
    /// Datagrams that found no room in the sender's queue; whole run.
    pub unsent: u64,
    /// From one application to the other, the wait at the sender included: least, after the warm-up as the following. Not for
    /// unlimited applications, whose datagrams are made when they are sent, nor of datagrams without room for eight bytes of time.
    pub delay_min_ms: Option<f64>,
    /// Mean.
    pub delay_mean_ms: Option<f64>,
    /// Median.
    pub delay_p50_ms: Option<f64>,
    /// 95th percentile.
    pub delay_p95_ms: Option<f64>,
    /// 99th percentile.
    pub delay_p99_ms: Option<f64>,
}

/// Results of one link, after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct LinkResult {
    /// Its name.
    pub link: String,
    /// Share of the capacity used.
    pub utilization: f64,
    /// Mean time in the queue.
    pub queue_delay_mean_ms: f64,
    /// 95th percentile of the time in the queue.
    pub queue_delay_p95_ms: f64,
    /// Packets waiting, averaged over time.
    pub queue_mean_pkt: f64,
    /// Packets dropped by queue, policer or queue discipline; random loss is not counted.
    pub drops: u64,
    /// The same as a share of the packets that arrived.
    pub drop_percent: f64,
    /// Packets taken by random loss.
    pub random_losses: u64,
    /// Packets marked.
    pub marks: u64,
    /// The classes of its queue, where that has some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassResult>,
    /// The router at its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterResult>,
}

/// Results of one class of a queue and all classes below it, after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct ClassResult {
    /// Its name.
    pub class: String,
    /// IP bytes sent per second.
    pub sent_mbit_s: f64,
    /// Packets dropped because its queue was full or, of a policed class, they exceeded its tokens.
    pub drops: u64,
    /// Packets waiting, averaged over time.
    pub queue_mean_pkt: f64,
    /// Mean time in the queue.
    pub queue_delay_mean_ms: f64,
}

/// A router at the end of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RouterResult {
    /// Which one.
    pub kind: &'static str,
    /// Its named internals and counters: the unit last in the name, states as text.
    pub readings: BTreeMap<Cow<'static, str>, Shown>,
    /// The state that it learned, as text; see the key `network.learned` of scenarios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<String>,
}

/// How often the parts of the transport acted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counters {
    /// SACK blocks that reported something new.
    pub sack_blocks: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries found to be spurious.
    pub spurious_recoveries: u64,
    /// Tail-loss probes.
    pub tlp_probes: u64,
    /// Packets the pacer held back.
    pub paced_waits: u64,
    /// Delivery-rate samples of streams; datagrams' are not counted.
    pub rate_samples: u64,
    /// Round-trip time samples.
    pub rtt_samples: u64,
    /// Retransmitted packets.
    pub retransmits: u64,
    /// Window reductions for ECN marks.
    pub ecn_reductions: u64,
    /// Acknowledgements held back.
    pub delayed_acks: u64,
    /// Data packets sent.
    pub data_packets_sent: u64,
}
