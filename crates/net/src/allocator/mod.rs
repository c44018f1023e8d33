//! Allocators: what a node does to take part in congestion control. One sits on a port, the egress of a link: it sees every
//! packet that arrives for the queue and every packet that leaves it, and may read and stamp headers. Like everything here
//! it owns no clock: it is told the time, and may ask to be woken.
//!
//! The registry below is the one list of allocators. A new one is a file beside this one and a line in the list; a scheme
//! that speaks its header names it in [`narrows_cc::Explicit`].

mod flows;

use narrows_cc::{Bytes, Evidence, Nanos, Param, Params, Rate};

pub use flows::FlowTable;

use crate::config;
use crate::{Flags, Packet};

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
}

/// The port as an allocator finds it at an event. What an allocator can ask of its node will be methods here, so that none
/// of the others changes.
#[derive(Debug)]
pub struct Port {
    /// The time.
    pub now: Nanos,
    /// Bytes that wait: without the packet that arrives or leaves, and without the one in transmission.
    pub backlog: Bytes,
}

/// An allocator. For one packet the calls come in this order: `on_open` or `on_close` if it opens or ends a flow, then
/// `on_arrival`, then, unless the queue drops it, `on_departure` when its transmission begins.
pub trait Allocator {
    /// What is known of it without running it.
    const INFO: Info;

    /// An allocator on an idle port.
    fn new(setup: &Setup) -> Self;

    /// A SYN arrives: a flow is set up. It may be repeated, or forged.
    fn on_open(&mut self, _port: &mut Port, _syn: &Packet) {}
    /// A FIN arrives: one direction of a flow ends.
    fn on_close(&mut self, _port: &mut Port, _fin: &Packet) {}
    /// A packet arrives; the queue may yet drop it.
    fn on_arrival(&mut self, port: &mut Port, packet: &mut Packet);
    /// A packet leaves the queue.
    fn on_departure(&mut self, port: &mut Port, packet: &mut Packet);
    /// When it wants to be woken next; [`Nanos::MAX`]: not before the next packet. Read when it is made, after
    /// [`Allocator::on_arrival`] and after [`Allocator::on_wake`]. On an idle link it had better sleep, for the events it
    /// asks for are all that happens there.
    fn next_wake(&self) -> Nanos {
        Nanos::MAX
    }
    /// That time has come; [`Port::now`] is exactly that time.
    fn on_wake(&mut self, _port: &mut Port) {}
    /// Named internals, for traces and tests.
    fn telemetry(&self, _sink: &mut dyn FnMut(&'static str, f64)) {}
}

macro_rules! registry {
    ($($module:ident :: $Type:ident),+ $(,)?) => {
        $(mod $module; pub use $module::$Type;)+

        /// Any registered allocator, dispatched by `match`.
        #[derive(Clone, Debug)]
        pub enum AnyAllocator { $(#[doc = concat!("See `allocator/", stringify!($module), ".rs`.")] $Type($Type)),+ }

        /// All registered allocators, in the order of the list.
        pub const ALL: &[Entry] = &[$(Entry {
            info: &<$Type as Allocator>::INFO,
            source: include_str!(concat!(stringify!($module), ".rs")),
            build: |setup| AnyAllocator::$Type(<$Type as Allocator>::new(setup)),
        }),+];

        impl AnyAllocator {
            /// A SYN arrives.
            pub fn on_open(&mut self, port: &mut Port, syn: &Packet) { match self { $(Self::$Type(a) => a.on_open(port, syn)),+ } }
            /// A FIN arrives.
            pub fn on_close(&mut self, port: &mut Port, fin: &Packet) { match self { $(Self::$Type(a) => a.on_close(port, fin)),+ } }
            /// A packet arrives.
            pub fn on_arrival(&mut self, port: &mut Port, packet: &mut Packet) { match self { $(Self::$Type(a) => a.on_arrival(port, packet)),+ } }
            /// A packet leaves the queue.
            pub fn on_departure(&mut self, port: &mut Port, packet: &mut Packet) { match self { $(Self::$Type(a) => a.on_departure(port, packet)),+ } }
            /// When it wants to be woken next.
            pub fn next_wake(&self) -> Nanos { match self { $(Self::$Type(a) => a.next_wake()),+ } }
            /// That time has come.
            pub fn on_wake(&mut self, port: &mut Port) { match self { $(Self::$Type(a) => a.on_wake(port)),+ } }
            /// Named internals.
            pub fn telemetry(&self, sink: &mut dyn FnMut(&'static str, f64)) { match self { $(Self::$Type(a) => a.telemetry(sink)),+ } }
            /// What is known of it without running it.
            pub fn info(&self) -> &'static Info { match self { $(Self::$Type(_) => &<$Type as Allocator>::INFO),+ } }
        }
    };
}

registry! {
    rcp::Rcp,
    xcp::Xcp,
    nodectl::Nodectl,
}

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What is known of the allocator without running it.
    pub info: &'static Info,
    source: &'static str,
    build: fn(&Setup) -> AnyAllocator,
}

impl Entry {
    /// An allocator on an idle port.
    pub fn build(&self, setup: &Setup) -> AnyAllocator {
        (self.build)(setup)
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

/// An allocator in its place on a port.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    allocator: AnyAllocator,
    next_wake: Nanos,
}

impl Seat {
    pub(crate) fn new(config: &config::Allocator, capacity: Rate) -> Self {
        let allocator = config.entry.build(&Setup { capacity, params: config.params.clone() });
        let next_wake = allocator.next_wake();
        Self { allocator, next_wake }
    }

    pub(crate) const fn allocator(&self) -> &AnyAllocator {
        &self.allocator
    }

    pub(crate) fn on_arrival(&mut self, now: Nanos, backlog: u64, packet: &mut Packet) {
        let mut port = Port { now, backlog: Bytes::new(backlog) };
        if packet.flags.has(Flags::SYN) && !packet.flags.has(Flags::ACK) {
            self.allocator.on_open(&mut port, packet);
        }
        if packet.flags.has(Flags::FIN) {
            self.allocator.on_close(&mut port, packet);
        }
        self.allocator.on_arrival(&mut port, packet);
        self.next_wake = self.allocator.next_wake().max(now.saturating_add(TICK));
    }

    pub(crate) fn on_departure(&mut self, now: Nanos, backlog: u64, packet: &mut Packet) {
        self.allocator.on_departure(&mut Port { now, backlog: Bytes::new(backlog) }, packet);
    }

    #[inline]
    pub(crate) const fn next_wake(&self) -> Nanos {
        self.next_wake
    }

    /// Makes up for all wakes that are due.
    pub(crate) fn wake(&mut self, now: Nanos, backlog: u64) {
        while self.next_wake <= now {
            self.allocator.on_wake(&mut Port { now: self.next_wake, backlog: Bytes::new(backlog) });
            // Whatever the allocator asks for, time goes on.
            self.next_wake = self.allocator.next_wake().max(self.next_wake.saturating_add(TICK));
        }
    }
}

#[cfg(test)]
mod tests;
