//! A run, fully resolved: no names to look up, no units to parse, nothing left to default.

use narrows_cc::{Nanos, Params, schemes::Entry};
use narrows_endpoint::{AppConfig, TcpConfig};
use narrows_net::config::{Jitter, LinkConfig, Reordering};
use narrows_net::timeline::DelayTrace;

/// Everything a run is a function of.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The scenario's name.
    pub name: String,
    /// How long it runs.
    pub duration: Nanos,
    /// The part at the start that is left out of means.
    pub warmup: Nanos,
    /// The seed of every random stream.
    pub seed: u64,
    /// The links; the first is the bottleneck.
    pub links: Vec<LinkSpec>,
    /// The flows.
    pub flows: Vec<FlowSpec>,
    /// What is recorded.
    pub trace: TraceSpec,
}

/// A link in one direction.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Its name in results.
    pub name: String,
    /// Rate, queue and loss.
    pub config: LinkConfig,
    /// Jitter of what leaves it.
    pub jitter: Option<Jitter>,
    /// Packets of it that arrive late.
    pub reordering: Option<Reordering>,
    /// Delay in addition to that of its hops, as it changes with time.
    pub delay_trace: Option<DelayTrace>,
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

/// One connection.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// Its label in results.
    pub label: String,
    /// Its scheme.
    pub scheme: &'static Entry,
    /// The scheme's parameters.
    pub params: Params,
    /// Its transport.
    pub tcp: TcpConfig,
    /// What feeds it.
    pub app: AppConfig,
    /// When it opens.
    pub start: Nanos,
    /// When its application stops writing.
    pub stop: Option<Nanos>,
    /// The way of its data.
    pub forward: Vec<Hop>,
    /// The way of its acknowledgements.
    pub reverse: Vec<Hop>,
    /// Two-way propagation delay.
    pub base_rtt: Nanos,
}

/// What is recorded besides the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TraceSpec {
    /// Sample every flow's and link's state this often.
    pub samples: Option<Nanos>,
    /// Record every packet event.
    pub packets: bool,
}
