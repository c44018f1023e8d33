//! A fully resolved run: all names are resolved, units parsed and defaults applied.

use std::sync::Arc;

use narrows_cc::{Bytes, Nanos, Params, schemes::Entry};
use narrows_net::config::{Jitter, LinkConfig, Reordering};
use narrows_net::timeline::DelayTrace;
use narrows_routers::{FiveTuple, NegotiationConfig, RouterConfig};
use narrows_tcp::{Scheduler, TcpConfig};
use narrows_traffic::AppConfig;

/// All inputs of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario's name.
    pub name: String,
    /// Length of the run.
    pub duration: Nanos,
    /// Length of the warm-up, which means exclude.
    pub warmup: Nanos,
    /// The seed of every random stream.
    pub seed: u64,
    /// The links; the first is the bottleneck.
    pub links: Vec<LinkPlan>,
    /// The flows, including the subflows of multipath connections.
    pub flows: Vec<FlowPlan>,
    /// The multipath connections.
    pub connections: Vec<ConnectionPlan>,
    /// Settings of the controller, for router algorithms that use one.
    pub controller: narrows_routers::controller::Config,
    /// Settings of the run's trace.
    pub trace: TracePlan,
}

/// A link in one direction.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// The link's name in results.
    pub name: String,
    /// Rate, queue and loss.
    pub config: LinkConfig,
    /// The router algorithm at the link's port.
    pub router: Option<RouterConfig>,
    /// Jitter of departing packets.
    pub jitter: Option<Jitter>,
    /// Reordering of departing packets.
    pub reordering: Option<Reordering>,
    /// Additional delay over time.
    pub delay_trace: Option<DelayTrace>,
    /// Index of the link in the opposite direction. Packets on that link pass the node of this link's port.
    pub opposite: Option<usize>,
    /// Whether the link appears in results. Reverse and access links do not, unless the scenario lists them.
    pub reported: bool,
}

/// One step of a route: a link, then a propagation delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the link.
    pub link: usize,
    /// Propagation delay to the next link or the endpoint.
    pub delay: Nanos,
}

/// A multipath connection.
#[derive(Clone, Debug)]
pub struct ConnectionPlan {
    /// The connection's label in results.
    pub label: String,
    /// Number of the first subflow, whose settings include those common to all subflows.
    pub first: usize,
    /// Number of subflows; they are consecutive flows.
    pub subflows: usize,
    /// Scheduler, which chooses the subflow for new data.
    pub scheduler: Scheduler,
    /// The receiver's buffer.
    pub receive_window: Bytes,
    /// The connection's application.
    pub app: AppConfig,
}

/// A connection with a single path, or one subflow of a multipath connection.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// The flow's label in results.
    pub label: String,
    /// The flow's scheme.
    pub scheme: &'static Entry,
    /// The scheme's parameters.
    pub params: Params,
    /// The flow's transport settings, shared by the flows of one entry.
    pub tcp: Arc<TcpConfig>,
    /// Addresses and ports, by which switches and captures name the flow.
    pub tuple: FiveTuple,
    /// Identity and rate request, for schemes that negotiate with the network.
    pub negotiation: NegotiationConfig,
    /// Settings of the DCCP sender; if present, `tcp` only gives the packet size.
    pub datagrams: Option<narrows_dccp::Config>,
    /// The flow's application.
    pub app: AppConfig,
    /// Start time.
    pub start: Nanos,
    /// Time at which the application stops, if it does.
    pub stop: Option<Nanos>,
    /// The flow's path.
    pub path: Path,
    /// Alternate paths; see [`narrows_packet::MAX_PATHS`].
    pub alternates: Vec<Path>,
    /// Two-way propagation delay.
    pub base_rtt: Nanos,
}

/// A path in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Path of data.
    pub forward: Vec<Hop>,
    /// Path of acknowledgements.
    pub reverse: Vec<Hop>,
}

/// Settings of a run's trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TracePlan {
    /// Interval between samples of all flows and links; with `None`, no samples are taken.
    pub samples: Option<Nanos>,
    /// Whether to record every packet event.
    pub packets: bool,
}
