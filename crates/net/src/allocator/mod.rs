//! Allocators: what a node does to take part in congestion control. One sits on a port, the egress of a link: it sees every
//! packet that arrives for the queue and every packet that leaves it, and may read and stamp headers. Like everything here
//! it owns no clock: it is told the time, and may ask to be woken.
//!
//! It may also see what goes back to senders through its node, send messages to senders, and exchange [`Signal`]s with
//! other allocators and with a controller.
//!
//! The registry below is the one list of allocators. A new one is a file beside this one and a line in the list; a scheme
//! that speaks its header names it in [`protocol::Explicit`].

mod flows;
mod port;
pub mod protocol;
mod reading;
mod seat;

use std::sync::Arc;

use narrows_cc::{Evidence, Nanos, Param, Params, Rate};

pub use brf::RateCode;
pub use flows::FlowTable;
pub use nodectl::message as negotiation;
pub use port::{Congestion, Desk, Outgoing, Port, Signal, Tuple};
pub use reading::{Reading, Sink};
pub(crate) use seat::Seat;

use crate::Packet;
use crate::config;

/// What is known of an allocator without running it.
#[derive(Debug)]
pub struct Info {
    /// The name in scenarios.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// How well its definition is known.
    pub evidence: Evidence,
    /// Its parameters.
    pub params: &'static [Param],
}

/// What an allocator is created from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What the link carries; the mean of a capacity trace.
    pub capacity: Rate,
    /// Parameter values, already checked against [`Info::params`].
    pub params: Params,
    /// What the flow numbers of packets stand for.
    pub flows: Arc<[Tuple]>,
    /// What an allocator of this kind has learned before; see [`Allocator::learned`].
    pub learned: Option<Arc<str>>,
}

/// An allocator. For one packet the calls come in this order: `on_open` or `on_close` if it opens or ends a flow, then
/// `on_arrival`, then, unless the queue drops it, `on_departure` when its transmission begins.
pub trait Allocator {
    /// What is known of it without running it.
    const INFO: Info;
    /// It wants [`Allocator::on_return`].
    const RETURNS: bool = false;
    /// A controller polls its port; see [`crate::controller`].
    const CONTROLLED: bool = false;

    /// An allocator on an idle port.
    fn new(setup: &Setup) -> Self;

    /// The queue discipline of its port, where the scenario states none.
    fn queue(_setup: &Setup) -> Option<config::Queue> {
        None
    }

    /// A SYN arrives: a flow is set up. It may be repeated, or forged.
    fn on_open(&mut self, _port: &mut Port<'_>, _syn: &Packet) {}
    /// A FIN arrives: one direction of a flow ends.
    fn on_close(&mut self, _port: &mut Port<'_>, _fin: &Packet) {}
    /// A packet arrives; the queue may yet drop it.
    fn on_arrival(&mut self, port: &mut Port<'_>, packet: &mut Packet);
    /// A packet leaves the queue.
    fn on_departure(&mut self, port: &mut Port<'_>, packet: &mut Packet);
    /// A packet on its way back to the sender reaches the node, over the link opposite to that of the port. The flow's data
    /// may take another way.
    fn on_return(&mut self, _port: &mut Port<'_>, _packet: &mut Packet) {}
    /// A message from another allocator or from the controller.
    fn on_signal(&mut self, _port: &mut Port<'_>, _signal: &Signal) {}
    /// When it wants to be woken next; [`Nanos::MAX`]: not before the next packet. Read when it is made, after
    /// [`Allocator::on_arrival`] and after [`Allocator::on_wake`]. On an idle link it had better sleep, for the events it
    /// asks for are all that happens there.
    fn next_wake(&self) -> Nanos {
        Nanos::MAX
    }
    /// That time has come; [`Port::now`] is exactly that time.
    fn on_wake(&mut self, _port: &mut Port<'_>) {}
    /// Whether a text is what [`Allocator::learned`] of such an allocator gives; else why not.
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
    fn telemetry(&self, _sink: Sink<'_>) {}
}

macro_rules! registry {
    ($($module:ident :: $Type:ident),+ $(,)?) => {
        $(mod $module; pub use $module::$Type;)+

        /// Any registered allocator, dispatched by `match`.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant)] // one per port, and indirection would cost a cache miss per packet
        pub enum AnyAllocator { $(#[doc = concat!("See `allocator/", stringify!($module), ".rs`.")] $Type($Type)),+ }

        /// All registered allocators, in the order of the list.
        pub const ALL: &[Entry] = &[$(Entry {
            info: &<$Type as Allocator>::INFO,
            source: include_str!(concat!(stringify!($module), ".rs")),
            build: |setup| AnyAllocator::$Type(<$Type as Allocator>::new(setup)),
            queue: <$Type as Allocator>::queue,
            check_learned: <$Type as Allocator>::check_learned,
            controlled: <$Type as Allocator>::CONTROLLED,
        }),+];

        impl AnyAllocator {
            /// A SYN arrives.
            pub fn on_open(&mut self, port: &mut Port<'_>, syn: &Packet) { match self { $(Self::$Type(a) => a.on_open(port, syn)),+ } }
            /// A FIN arrives.
            pub fn on_close(&mut self, port: &mut Port<'_>, fin: &Packet) { match self { $(Self::$Type(a) => a.on_close(port, fin)),+ } }
            /// A packet arrives.
            pub fn on_arrival(&mut self, port: &mut Port<'_>, packet: &mut Packet) { match self { $(Self::$Type(a) => a.on_arrival(port, packet)),+ } }
            /// A packet leaves the queue.
            pub fn on_departure(&mut self, port: &mut Port<'_>, packet: &mut Packet) { match self { $(Self::$Type(a) => a.on_departure(port, packet)),+ } }
            /// A packet on its way back reaches the node.
            pub fn on_return(&mut self, port: &mut Port<'_>, packet: &mut Packet) { match self { $(Self::$Type(a) => a.on_return(port, packet)),+ } }
            /// A message from another allocator or from the controller.
            pub fn on_signal(&mut self, port: &mut Port<'_>, signal: &Signal) { match self { $(Self::$Type(a) => a.on_signal(port, signal)),+ } }
            /// Whether it wants [`AnyAllocator::on_return`].
            pub fn wants_returns(&self) -> bool { match self { $(Self::$Type(_) => <$Type as Allocator>::RETURNS),+ } }
            /// When it wants to be woken next.
            pub fn next_wake(&self) -> Nanos { match self { $(Self::$Type(a) => a.next_wake()),+ } }
            /// That time has come.
            pub fn on_wake(&mut self, port: &mut Port<'_>) { match self { $(Self::$Type(a) => a.on_wake(port)),+ } }
            /// What it has learned, as text.
            pub fn learned(&self) -> Option<String> { match self { $(Self::$Type(a) => a.learned()),+ } }
            /// Bytes of memory it takes, itself and what it owns.
            pub fn memory(&self) -> usize { match self { $(Self::$Type(a) => size_of::<$Type>() + a.memory()),+ } }
            /// Named internals.
            pub fn telemetry(&self, sink: Sink<'_>) { match self { $(Self::$Type(a) => a.telemetry(sink)),+ } }
            /// What is known of it without running it.
            pub fn info(&self) -> &'static Info { match self { $(Self::$Type(_) => &<$Type as Allocator>::INFO),+ } }
        }
    };
}

registry! {
    rcp::Rcp,
    xcp::Xcp,
    brf::Brf,
    nodectl::Nodectl,
}

impl AnyAllocator {
    /// One item of what it tells.
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
pub struct Entry {
    /// What is known of the allocator without running it.
    pub info: &'static Info,
    source: &'static str,
    build: fn(&Setup) -> AnyAllocator,
    queue: fn(&Setup) -> Option<config::Queue>,
    check_learned: fn(&str) -> Result<(), String>,
    /// A controller polls its port.
    pub controlled: bool,
}

impl Entry {
    /// An allocator on an idle port.
    pub fn build(&self, setup: &Setup) -> AnyAllocator {
        (self.build)(setup)
    }

    /// The queue discipline of its port, where the scenario states none.
    pub fn queue(&self, setup: &Setup) -> Option<config::Queue> {
        (self.queue)(setup)
    }

    /// Whether a text is what such an allocator has learned.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn check_learned(&self, text: &str) -> Result<(), String> {
        (self.check_learned)(text)
    }

    /// The essay at the head of the allocator's file. One line per item.
    pub fn page(&self) -> impl Iterator<Item = &'static str> {
        narrows_cc::schemes::essay(self.source)
    }
}

/// The allocator of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.info.name == name)
}

/// The shortest time between two wakes.
const TICK: Nanos = Nanos::from_nanos(1);

/// The first of `at`, `at + step`, `at + 2 step`, … after `now`: the wakes that a sleeper has missed change nothing, but those
/// to come keep their beat.
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
