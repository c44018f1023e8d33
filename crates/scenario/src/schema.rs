//! The tables and keys of a scenario. Their doc comments become the descriptions of the JSON Schema.

use std::collections::BTreeMap;

use narrows_net::config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod choice;
pub mod class;
pub mod dccp;
pub mod short;
pub mod subflows;
pub(crate) mod table;
pub mod tcp;
pub mod value;

use crate::app::App;
use crate::loss::Loss;
use crate::quantity::{Buffer, Frequency, Period, Rate, Share, Size, Time, Warmup, parsed};
use crate::queue::Queue;
use choice::{FileSize, Jitter, Radio, Router};
use dccp::Dccp;
use short::TextOr;
use subflows::{SchedulerKind, Subflows};
use table::table;
pub use tcp::Tcp;
pub use value::{ParamValue, Protocol};

/// The keys of each table in the list of tables `list`.
pub(crate) fn keys_of_items(list: &str) -> Option<&'static [&'static str]> {
    match list {
        "flows" => Some(table::names::<Flow>()),
        "links" => Some(table::names::<Link>()),
        _ => None,
    }
}

/// The full key of a key that a scenario wrongly states at its top level: `flows.rtt` for `rtt`.
pub(crate) fn place_of(key: &str) -> Option<String> {
    let tables = [("flows", table::names::<Flow>()), ("network", table::names::<Network>())];
    let (table, _) = tables.into_iter().find(|(_, keys)| keys.contains(&key))?;
    Some(format!("{table}.{key}"))
}

/// One run, without sweep: what a scenario file says, defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Name in results (the file's name).
    pub name: String,
    /// Length of the run.
    pub duration: Time,
    /// Warm-up, excluded from means.
    pub warmup: Warmup,
    /// The seed of all random streams.
    pub seed: u64,
    /// Number of runs, with the seeds `seed`, `seed` + 1, ….
    #[serde(deserialize_with = "value::count")]
    pub repeat: u32,
    /// Schemes and routers that have a printed form use it: their parameter `literal` is on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
    /// The network: a dumbbell unless `kind` or `links` say otherwise.
    pub network: Network,
    /// The links of a graph. Unstated keys are those of `network`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// Transport settings of all flows.
    pub tcp: Tcp,
    /// Settings of all flows that DCCP carries.
    pub dccp: Dccp,
    /// The flows.
    pub flows: Vec<Flow>,
    /// The trace of a run.
    pub trace: Trace,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: String::new(),
            duration: parsed("60s"),
            warmup: parsed("10%"),
            seed: 1,
            repeat: 1,
            literal: false,
            network: Network::default(),
            links: Vec::new(),
            tcp: Tcp::default(),
            dccp: Dccp::default(),
            flows: Vec::new(),
            trace: Trace::default(),
        }
    }
}

/// The shape of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkKind {
    /// All flows share one bottleneck.
    Dumbbell,
    /// A chain of equal links between r0, r1, …, rN.
    ParkingLot,
    /// The links listed in `links`.
    Graph,
}

/// Position of random loss on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LossAt {
    /// After the queue: lost packets use capacity.
    #[default]
    Egress,
    /// Before the queue: lost packets use no capacity.
    Ingress,
}

impl From<LossAt> for config::LossAt {
    fn from(at: LossAt) -> Self {
        match at {
            LossAt::Egress => Self::Egress,
            LossAt::Ingress => Self::Ingress,
        }
    }
}

/// Packets that are delayed and so arrive out of order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// The share of packets that are delayed.
    pub probability: Share,
    /// Their additional delay.
    pub delay: Time,
}

/// A token bucket that drops excess packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// Token rate.
    pub rate: Rate,
    /// Bucket depth: the largest burst.
    pub burst: Size,
}

/// The network. These keys describe the bottleneck of a dumbbell, every link of a parking lot, and the
/// defaults for the links of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Its shape (dumbbell; graph where `links` are listed).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<NetworkKind>,
    /// The bottleneck's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// A file in mahimahi format instead of a rate; relative to the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_trace: Option<String>,
    /// A generated radio path instead of a rate: capacity, loss and delay of data packets change with time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radio: Option<TextOr<Radio>>,
    /// A file of loss that changes with time, in addition to `loss`: lines of `start_ms end_ms share`, share
    /// from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_trace: Option<String>,
    /// A file of additional delay of data that changes with time: lines of `at_ms delay_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_trace: Option<String>,
    /// The buffer of the queue. A BDP is computed with the longest base RTT, unless another RTT is stated: 5bdp@10ms.
    pub buffer: Buffer,
    /// The queue discipline.
    pub queue: TextOr<Queue>,
    /// Random loss of data packets.
    pub loss: TextOr<Loss>,
    /// Position of the random loss: egress (after the queue) or ingress (before the queue).
    pub loss_at: LossAt,
    /// Variation of the delay of data packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<TextOr<Jitter>>,
    /// Reordering of data packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// A policer before the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<Policer>,
    /// The router algorithm at the port, by name, or none. By default, a dumbbell has the router of the first
    /// flow whose scheme needs one; other networks have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<TextOr<Router>>,
    /// A JSON file of router state learned in earlier runs, one string per link; relative to the scenario. A
    /// missing file means that there is no state yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<String>,
    /// The controller, for router algorithms that use one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<Controller>,
    /// The rate of an access link for every sender and every receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_rate: Option<Rate>,
    /// One-way delay of each access link, part of the stated RTT (0ms).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_delay: Option<Time>,
    /// The buffer of access links (ample).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_buffer: Option<Buffer>,
    /// Receivers have access links, too (true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_access: Option<bool>,
    /// Rate of the reverse link in a dumbbell (that of the bottleneck).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_rate: Option<Rate>,
    /// Buffer of the reverse link in a dumbbell (ample).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_buffer: Option<Buffer>,
    /// Number of links of a parking lot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// One-way delay of each link of a parking lot or graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Time>,
}

table! {
    /// The controller of a software-defined network, which polls the ports of routers that need one.
    #[derive(Default)]
    Controller {
        ; // optional:
        /// The time between two polls of a port (1s).
        poll: Time,
        /// One-way delay between controller and node, and between two nodes (10ms).
        delay: Time,
        /// A link used beyond this share is congested (98%).
        utilization: Share,
        /// A queue filled beyond this share is congested (10%).
        queue: Share,
    }
}

table! {
    /// A link of a graph.
    Link {
        /// The node at its near end.
        from: String,
        /// The node at its far end.
        to: String,
        /// Add a link in the opposite direction with the same rate, delay, buffer and queue. Loss, jitter,
        /// reordering and policing act from `from` to `to` only.
        #[serde(default = "yes")]
        duplex: bool,
        ; // optional:
        /// Its name in results (from-to).
        name: String,
        /// Its rate.
        rate: Rate,
        /// A file in mahimahi format instead of a rate.
        capacity_trace: String,
        /// A generated radio path instead of a rate.
        radio: TextOr<Radio>,
        /// A file of loss that changes with time, in addition to `loss`.
        loss_trace: String,
        /// A file of additional delay that changes with time.
        delay_trace: String,
        /// Its one-way delay.
        delay: Time,
        /// The buffer of its queue. A BDP is computed with the longest base RTT among the flows that use the link.
        buffer: Buffer,
        /// Its queue discipline.
        queue: TextOr<Queue>,
        /// Random loss.
        loss: TextOr<Loss>,
        /// Position of the random loss: egress (after the queue) or ingress (before the queue).
        loss_at: LossAt,
        /// Variation of its delay.
        jitter: TextOr<Jitter>,
        /// Reordering.
        reorder: Reorder,
        /// A policer before the queue.
        policer: Policer,
        /// The router algorithm at its port, in both directions of a duplex link, by name, or none.
        router: TextOr<Router>,
    }
}

const fn yes() -> bool {
    true
}

table! {
    /// Files that arrive at random (a Poisson process), each a flow of its own.
    Arrivals {
        /// The mean rate of arrivals.
        rate: Frequency,
        /// The distribution of their sizes.
        size: TextOr<FileSize>,
        ; // optional:
        /// Greatest number of arrivals.
        #[serde(deserialize_with = "value::optional_count")]
        limit: u32,
    }
}

table! {
    /// A flow, or several equal ones.
    Flow {
        /// The congestion control scheme, with parameters after a colon: `cubic:beta=0.8`.
        scheme: String,
        ; // optional:
        /// Parameters of the scheme.
        params: BTreeMap<String, ParamValue>,
        /// The label in results (the scheme's name); flows with the same label are numbered.
        label: String,
        /// Base round-trip time (in a graph or parking lot, that of the path).
        rtt: Time,
        /// Number of flows (1).
        #[serde(deserialize_with = "value::optional_count")]
        count: u32,
        /// Start time (0s).
        start: Time,
        /// Time at which its application stops writing.
        stop: Time,
        /// Time between the starts of consecutive flows of the `count` flows.
        stagger: Time,
        /// The `count` flows start evenly spread over this interval.
        spread: Time,
        /// A file of this size instead of bulk data.
        size: Size,
        /// The application (bulk).
        app: TextOr<App>,
        /// Files that arrive at random.
        arrivals: Arrivals,
        /// The sender's node, in a graph or parking lot.
        from: String,
        /// The receiver's node, in a graph or parking lot.
        to: String,
        /// The nodes on the path of its data, from the sender's to the receiver's (the shortest path).
        route: Vec<String>,
        /// The nodes on the path of its acknowledgements (the path of its data, backwards).
        reverse_route: Vec<String>,
        /// Alternate paths that it may choose, in a graph: up to three lists of nodes.
        alternatives: Vec<Vec<String>>,
        /// One connection of 1 to 8 subflows (multipath): their number, on the same path, or a list of tables
        /// with the `route`, `reverse_route` and `rtt` of each. Unstated keys are those of the flow.
        subflows: Subflows,
        /// The scheduler of subflows: lowest-rtt or round-robin (lowest-rtt).
        scheduler: SchedulerKind,
        /// The transport: tcp; dccp, for datagrams; or udp, TCP that switches treat as datagrams (dccp for
        /// schemes made for it, else tcp).
        protocol: Protocol,
        /// The receiver's port, which switches read (5001).
        port: u16,
        /// The sender's IPv4 address, which switches read (one for each entry of `flows`).
        source: String,
        /// The receiver's IPv4 address (one for each entry of `flows`, or for each `content`).
        destination: String,
        /// The content that the flow sends: flows with the same content and destination are subflows of one
        /// transmission (each flow sends a separate content).
        content: u32,
        /// The least rate it accepts, where rates are negotiated (any).
        min_rate: Rate,
        /// The greatest rate it requests, where rates are negotiated (no limit). Each subflow negotiates
        /// separately, with this limit.
        max_rate: Rate,
        /// The greatest rate its receiver accepts on each subflow, where rates are negotiated (no limit).
        receive_rate: Rate,
        /// Transport settings that differ from the common ones.
        tcp: Tcp,
        /// DCCP settings that differ from the common ones.
        dccp: Dccp,
    }
}

/// The trace of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    /// Interval between samples of all flows and links, or off.
    pub samples: Period,
    /// Record every packet event.
    pub packets: bool,
}

impl Default for Trace {
    fn default() -> Self {
        Self { samples: parsed("off"), packets: false }
    }
}
