//! The network side of explicit-rate schemes: router algorithms, the headers and control messages by which they and senders
//! talk, and the controller that some of them need.
//!
//! A router algorithm sits on a port, the egress of a link: it sees every packet that arrives for the queue and every packet
//! that leaves it, and may read and stamp headers. It owns no clock: the port calls it and wakes it. It may also see what
//! goes back to senders through its node, send messages to senders, and exchange [`Signal`]s with other ports and with a
//! controller.
//!
//! The registry below is the one list of router algorithms. A new one is a file beside this one and a line in the list; a
//! scheme that speaks its header names it in [`protocol::Explicit`].

mod agent;
pub mod controller;
pub mod endpoint;
mod flow_table;
mod frame;
mod header;
mod port;
pub mod protocol;
mod telemetry;

use std::sync::Arc;

use narrows_cc::{Provenance, Nanos, Param, Params, Rate};
use narrows_net::config;

pub use agent::{PortAgent, RouterConfig, RouterLink, link};
pub use brf::RateCode;
pub use endpoint::NegotiationConfig;
pub use flow_table::FlowTable;
pub use frame::RouterFrame;
pub use header::RateHeader;
pub use nodectl::message as negotiation;
pub use port::{Congestion, FiveTuple, Outgoing, Port, Signal, TestPort};
pub use telemetry::{Reading, TelemetrySink};

/// The description of a router algorithm.
#[derive(Debug)]
pub struct RouterInfo {
    /// The name in scenarios.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// How well its definition is known.
    pub provenance: Provenance,
    /// Its parameters.
    pub params: &'static [Param],
}

/// What a router algorithm is created from.
#[derive(Clone, Debug)]
pub struct RouterSetup {
    /// What the link carries; the mean of a capacity trace.
    pub capacity: Rate,
    /// Parameter values, already checked against [`RouterInfo::params`].
    pub params: Params,
    /// What the flow numbers of packets stand for.
    pub flows: Arc<[FiveTuple]>,
    /// What an algorithm of this kind has learned before; see [`Router::learned`].
    pub learned: Option<Arc<str>>,
}

/// A router algorithm. For one packet the calls come in this order: `on_open` or `on_close` if it opens or ends a flow, then
/// `on_arrival`, then, unless the queue drops it, `on_departure` when its transmission begins.
pub trait Router {
    /// Its description.
    const INFO: RouterInfo;
    /// It wants [`Router::on_return`].
    const RETURNS: bool = false;
    /// A controller polls its port; see [`crate::controller`].
    const CONTROLLED: bool = false;

    /// An algorithm on an idle port.
    fn new(setup: &RouterSetup) -> Self;

    /// The queue discipline of its port, where the scenario states none.
    fn queue(_setup: &RouterSetup) -> Option<config::Queue> {
        None
    }

    /// A SYN arrives: a flow is set up. It may be repeated, or forged.
    fn on_open<F: RouterFrame>(&mut self, _port: &mut Port<'_>, _syn: &F) {}
    /// A FIN arrives: one direction of a flow ends.
    fn on_close<F: RouterFrame>(&mut self, _port: &mut Port<'_>, _fin: &F) {}
    /// A packet arrives; the queue may yet drop it.
    fn on_arrival<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F);
    /// A packet leaves the queue.
    fn on_departure<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F);
    /// A packet on its way back to the sender reaches the node, over the link opposite to that of the port. The flow's data
    /// may take another way.
    fn on_return<F: RouterFrame>(&mut self, _port: &mut Port<'_>, _packet: &mut F) {}
    /// A message from another port or from the controller.
    fn on_signal(&mut self, _port: &mut Port<'_>, _signal: &Signal) {}
    /// When it wants to be woken next; [`Nanos::MAX`]: not before the next packet. Read when it is made, after
    /// [`Router::on_arrival`] and after [`Router::on_wake`]. On an idle link it had better sleep, for the events it
    /// asks for are all that happens there.
    fn next_wake(&self) -> Nanos {
        Nanos::MAX
    }
    /// That time has come; [`Port::now`] is exactly that time.
    fn on_wake(&mut self, _port: &mut Port<'_>) {}
    /// Checks a text that [`Router::learned`] of such an algorithm gave.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    fn check_learned(_text: &str) -> Result<(), String> {
        Err("it does not learn".to_owned())
    }
    /// What it has learned and could begin with in another run, as text.
    fn learned(&self) -> Option<String> {
        None
    }
    /// Bytes of memory it owns besides itself. Whatever arrives, there is a bound to them.
    fn memory(&self) -> usize {
        0
    }
    /// Named internals, for results, traces and tests; the names without their unit.
    fn telemetry(&self, _sink: TelemetrySink<'_>) {}
}

macro_rules! registry {
    ($($module:ident :: $Type:ident),+ $(,)?) => {
        $(mod $module; pub use $module::$Type;)+

        /// Any registered router algorithm, dispatched by `match`.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant)] // one per port, and indirection would cost a cache miss per packet
        pub enum AnyRouter { $(#[doc = concat!("See `", stringify!($module), ".rs`.")] $Type($Type)),+ }

        /// All registered router algorithms, in the order of the list.
        pub const ALL: &[RouterEntry] = &[$(RouterEntry {
            info: &<$Type as Router>::INFO,
            source: include_str!(concat!(stringify!($module), ".rs")),
            build: |setup| AnyRouter::$Type(<$Type as Router>::new(setup)),
            queue: <$Type as Router>::queue,
            check_learned: <$Type as Router>::check_learned,
            controlled: <$Type as Router>::CONTROLLED,
        }),+];

        impl AnyRouter {
            /// A SYN arrives.
            pub fn on_open<F: RouterFrame>(&mut self, port: &mut Port<'_>, syn: &F) { match self { $(Self::$Type(a) => a.on_open(port, syn)),+ } }
            /// A FIN arrives.
            pub fn on_close<F: RouterFrame>(&mut self, port: &mut Port<'_>, fin: &F) { match self { $(Self::$Type(a) => a.on_close(port, fin)),+ } }
            /// A packet arrives.
            pub fn on_arrival<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) { match self { $(Self::$Type(a) => a.on_arrival(port, packet)),+ } }
            /// A packet leaves the queue.
            pub fn on_departure<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) { match self { $(Self::$Type(a) => a.on_departure(port, packet)),+ } }
            /// A packet on its way back reaches the node.
            pub fn on_return<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) { match self { $(Self::$Type(a) => a.on_return(port, packet)),+ } }
            /// A message from another port or from the controller.
            pub fn on_signal(&mut self, port: &mut Port<'_>, signal: &Signal) { match self { $(Self::$Type(a) => a.on_signal(port, signal)),+ } }
            /// Whether it wants [`AnyRouter::on_return`].
            pub fn wants_returns(&self) -> bool { match self { $(Self::$Type(_) => <$Type as Router>::RETURNS),+ } }
            /// When it wants to be woken next.
            pub fn next_wake(&self) -> Nanos { match self { $(Self::$Type(a) => a.next_wake()),+ } }
            /// That time has come.
            pub fn on_wake(&mut self, port: &mut Port<'_>) { match self { $(Self::$Type(a) => a.on_wake(port)),+ } }
            /// What it has learned, as text.
            pub fn learned(&self) -> Option<String> { match self { $(Self::$Type(a) => a.learned()),+ } }
            /// Bytes of memory it takes, itself and what it owns.
            pub fn memory(&self) -> usize { match self { $(Self::$Type(a) => size_of::<$Type>() + a.memory()),+ } }
            /// Named internals.
            pub fn telemetry(&self, sink: TelemetrySink<'_>) { match self { $(Self::$Type(a) => a.telemetry(sink)),+ } }
            /// Its description.
            pub fn info(&self) -> &'static RouterInfo { match self { $(Self::$Type(_) => &<$Type as Router>::INFO),+ } }
        }
    };
}

registry! {
    rcp::Rcp,
    xcp::Xcp,
    brf::Brf,
    nodectl::Nodectl,
}

impl AnyRouter {
    /// One item of its telemetry.
    pub fn reading(&self, name: &str) -> Option<Reading> {
        let mut found = None;
        self.telemetry(&mut |item, reading| {
            if item == name {
                found = Some(reading);
            }
        });
        found
    }
}

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct RouterEntry {
    /// Its description.
    pub info: &'static RouterInfo,
    source: &'static str,
    build: fn(&RouterSetup) -> AnyRouter,
    queue: fn(&RouterSetup) -> Option<config::Queue>,
    check_learned: fn(&str) -> Result<(), String>,
    /// A controller polls its port.
    pub controlled: bool,
}

impl RouterEntry {
    /// An algorithm on an idle port.
    pub fn build(&self, setup: &RouterSetup) -> AnyRouter {
        (self.build)(setup)
    }

    /// The queue discipline of its port, where the scenario states none.
    pub fn queue(&self, setup: &RouterSetup) -> Option<config::Queue> {
        (self.queue)(setup)
    }

    /// Checks a text that such an algorithm has learned.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn check_learned(&self, text: &str) -> Result<(), String> {
        (self.check_learned)(text)
    }

    /// The module documentation at the head of its file. One line per item.
    pub fn page(&self) -> impl Iterator<Item = &'static str> {
        narrows_cc::schemes::module_docs(self.source)
    }
}

/// The router algorithm of that name.
pub fn find(name: &str) -> Option<&'static RouterEntry> {
    ALL.iter().find(|entry| entry.info.name == name)
}

/// The shortest time between two wakes.
const TICK: Nanos = Nanos::from_nanos(1);

/// The first of `at`, `at + step`, `at + 2 step`, … after `now`: the wakes that a sleeper has missed change nothing, but those
/// to come keep to the same interval.
fn next_multiple(at: Nanos, step: Nanos, now: Nanos) -> Nanos {
    if at > now {
        return at;
    }
    let step = step.max(TICK).as_nanos();
    let missed = (now - at).as_nanos() / step;
    at.saturating_add(Nanos::from_nanos((missed + 1).saturating_mul(step)))
}

#[cfg(test)]
mod tests;
