//! The network side of explicit-rate schemes: router algorithms, rate headers, control messages, and the
//! controller that BRF needs.
//!
//! A router algorithm runs at a port, the egress of a link. It sees every packet that arrives at or leaves
//! the queue, and may read and write rate headers. It owns no clock: the port agent calls and wakes it. It
//! may also see packets on their way back to senders, send control messages to senders, and exchange
//! [`Signal`]s with other ports and a controller.
//!
//! [`PortAgent`] implements the hook of `narrows-net` and calls the algorithm with a [`Port`], through which the
//! algorithm makes all its requests: token-bucket classes for packets, rates of these classes, messages, signals. On a
//! sender a [`RateAgent`](narrows_tcp::rates::RateAgent) writes requests and reads replies; the receiver's responder
//! turns the requests into replies.
//!
//! * Rate headers are TCP options and add their size to the packet. Control messages are separate packets, queued and
//!   lost like any other. Signals between ports travel over the control plane.
//! * In a dumbbell without access links, senders and node are co-located: a sender receives a changed acknowledgement
//!   without delay.
//! * A flow number identifies a 5-tuple, which algorithms receive at construction. A flow has up to four paths; a
//!   packet names its path, and its acknowledgement returns on the same path.
//! * Per-flow state is bounded ([`FlowTable`]). Learned state is text in the results and an input of another run
//!   (`network.learned`), so that a run stays a function of its inputs.
//!
//! `router` defines the contract, `registry` lists the algorithms. A new algorithm is a file that implements
//! [`Router`], its `mod` line here and a line in the list. A new rate header also needs a protocol in
//! [`protocol::Explicit`], by which its scheme is found.
//!
//! Imports between files run one way: headers, frames and `port` at the bottom, then `router`, the algorithms,
//! `registry`, `agent` and `node`. The files below `brf/` and `nodectl/` are parts of the implementation of one type
//! each, so they use that type's private fields and its methods call them.

mod agent;
mod brf;
pub mod controller;
pub mod endpoint;
mod flow_table;
mod frame;
mod header;
pub mod node;
mod nodectl;
mod port;
pub mod protocol;
mod rcp;
mod registry;
mod router;
mod telemetry;
mod xcp;

pub use agent::{PortAgent, RouterConfig, RouterLink, link};
pub use brf::{Brf, RateCode};
pub use endpoint::NegotiationConfig;
pub use flow_table::FlowTable;
pub use frame::RouterFrame;
pub use header::RateHeader;
pub use node::NodePort;
pub use nodectl::Nodectl;
pub use nodectl::message as negotiation;
pub use port::{Congestion, FiveTuple, Outgoing, Port, Signal, TestPort};
pub use rcp::Rcp;
pub use registry::{ALL, AnyRouter, RouterEntry, find};
pub use router::{Router, RouterInfo, RouterSetup};
pub use telemetry::{Reading, TelemetrySink};
pub use xcp::Xcp;

#[cfg(test)]
mod tests;
