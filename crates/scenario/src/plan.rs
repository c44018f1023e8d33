//! A fully resolved run: names resolved, units parsed, defaults applied.

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
    /// Warm-up, excluded from means.
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
    /// The trace.
    pub trace: TracePlan,
}

/// A link in one direction.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// Its name in results.
    pub name: String,
    /// Rate, queue and loss.
    pub config: LinkConfig,
    /// The router algorithm at its port.
    pub router: Option<RouterConfig>,
    /// Jitter of departing packets.
    pub jitter: Option<Jitter>,
    /// Reordering of departing packets.
    pub reordering: Option<Reordering>,
    /// Additional delay over time.
    pub delay_trace: Option<DelayTrace>,
    /// The link in the opposite direction; packets on it pass the node of this link's port.
    pub opposite: Option<usize>,
    /// Whether it appears in results (reverse and access links do not, unless the scenario lists them).
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
    /// Its label in results.
    pub label: String,
    /// Number of its first subflow, which has the settings common to all.
    pub first: usize,
    /// Number of subflows, which are consecutive flows.
    pub subflows: usize,
    /// Scheduler of new data.
    pub scheduler: Scheduler,
    /// The receiver's buffer.
    pub receive_window: Bytes,
    /// Its application.
    pub app: AppConfig,
}

/// One connection, or one subflow of a connection.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its label in results.
    pub label: String,
    /// Its scheme.
    pub scheme: &'static Entry,
    /// The scheme's parameters.
    pub params: Params,
    /// Its transport; the flows of one entry share it.
    pub tcp: Arc<TcpConfig>,
    /// Addresses and ports, by which switches and captures name the flow.
    pub tuple: FiveTuple,
    /// Identity and rate request, for schemes that negotiate with the network.
    pub negotiation: NegotiationConfig,
    /// Settings of the DCCP sender; `tcp` then only gives the packet size.
    pub datagrams: Option<narrows_dccp::Config>,
    /// Its application.
    pub app: AppConfig,
    /// Start time.
    pub start: Nanos,
    /// Stop time of the application.
    pub stop: Option<Nanos>,
    /// Its path.
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

/// The trace of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TracePlan {
    /// Interval between samples of all flows and links; `None` takes no samples.
    pub samples: Option<Nanos>,
    /// Record every packet event.
    pub packets: bool,
}
