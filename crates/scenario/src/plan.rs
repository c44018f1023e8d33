//! A run, fully resolved: names looked up, units parsed, defaults filled in.

use narrows_cc::{Bytes, Nanos, Params, schemes::Entry};
use narrows_net::config::{Jitter, LinkConfig, Reordering};
use narrows_net::timeline::DelayTrace;
use narrows_routers::{NegotiationConfig, RouterConfig};
use narrows_tcp::{Scheduler, TcpConfig};
use narrows_traffic::AppConfig;

/// Everything a run is a function of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario's name.
    pub name: String,
    /// How long it runs.
    pub duration: Nanos,
    /// The part at the start that is left out of means.
    pub warmup: Nanos,
    /// The seed of every random stream.
    pub seed: u64,
    /// The links; the first is the bottleneck.
    pub links: Vec<LinkPlan>,
    /// The flows; a subflow of a connection is one.
    pub flows: Vec<FlowPlan>,
    /// The connections of several subflows.
    pub connections: Vec<ConnectionPlan>,
    /// How the controller works, where a router algorithm needs one.
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
    /// Jitter of what leaves it.
    pub jitter: Option<Jitter>,
    /// Packets of it that arrive late.
    pub reordering: Option<Reordering>,
    /// Delay in addition to that of its hops, as it changes with time.
    pub delay_trace: Option<DelayTrace>,
    /// The link that leads back from its far end to its near one: what comes back over that passes the node of its port.
    pub opposite: Option<usize>,
    /// Whether it appears in results (reverse and access links do not, unless the scenario lists them).
    pub reported: bool,
}

/// One step of a route: through a link, then over a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the link.
    pub link: usize,
    /// Propagation delay to the next link or the endpoint.
    pub delay: Nanos,
}

/// A connection of several subflows.
#[derive(Clone, Debug)]
pub struct ConnectionPlan {
    /// Its label in results.
    pub label: String,
    /// The flow that is its first subflow, which has the settings common to all.
    pub first: usize,
    /// How many flows from there on are its subflows.
    pub subflows: usize,
    /// Which subflow new data takes.
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
    /// Its transport.
    pub tcp: TcpConfig,
    /// Its identity and wishes, where the network negotiates rates.
    pub negotiation: NegotiationConfig,
    /// The sending end's settings, where datagrams carry it; then `tcp` only says how large its packets are.
    pub datagrams: Option<narrows_dccp::Config>,
    /// Its application.
    pub app: AppConfig,
    /// When it opens.
    pub start: Nanos,
    /// When its application stops writing.
    pub stop: Option<Nanos>,
    /// The path it takes.
    pub path: Path,
    /// Other paths it could take; see [`narrows_packet::MAX_PATHS`].
    pub alternates: Vec<Path>,
    /// Two-way propagation delay.
    pub base_rtt: Nanos,
}

/// A path through the network and back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// That of data.
    pub forward: Vec<Hop>,
    /// That of acknowledgements.
    pub reverse: Vec<Hop>,
}

/// The trace of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TracePlan {
    /// Sample every flow's and link's state this often.
    pub samples: Option<Nanos>,
    /// Record every packet event.
    pub packets: bool,
}
