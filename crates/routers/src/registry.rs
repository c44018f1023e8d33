//! The list of router algorithms.

use narrows_cc::Nanos;
use narrows_net::config;

use crate::{Port, Reading, Router, RouterFrame, RouterInfo, RouterSetup, Signal, TelemetrySink, telemetry};

macro_rules! registry {
    ($($module:ident :: $Type:ident),+ $(,)?) => {
        $(use crate::$module::$Type;)+

        /// Any registered router algorithm, dispatched by `match`.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant)] // a port has only one; a `Box` would cost a cache miss per packet
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
            pub fn on_open<F: RouterFrame>(&mut self, port: &mut Port<'_>, opening: &F) { match self { $(Self::$Type(a) => a.on_open(port, opening)),+ } }
            /// A FIN arrives.
            pub fn on_close<F: RouterFrame>(&mut self, port: &mut Port<'_>, fin: &F) { match self { $(Self::$Type(a) => a.on_close(port, fin)),+ } }
            /// A packet arrives.
            pub fn on_arrival<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) { match self { $(Self::$Type(a) => a.on_arrival(port, packet)),+ } }
            /// A packet leaves the queue.
            pub fn on_departure<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) { match self { $(Self::$Type(a) => a.on_departure(port, packet)),+ } }
            /// A packet from receiver to sender reaches the node.
            pub fn on_return<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) { match self { $(Self::$Type(a) => a.on_return(port, packet)),+ } }
            /// A message from another port or from the controller.
            pub fn on_signal(&mut self, port: &mut Port<'_>, signal: &Signal) { match self { $(Self::$Type(a) => a.on_signal(port, signal)),+ } }
            /// Whether the algorithm needs [`AnyRouter::on_return`].
            pub fn wants_returns(&self) -> bool { match self { $(Self::$Type(_) => <$Type as Router>::RETURNS),+ } }
            /// Time of the next [`AnyRouter::on_wake`].
            pub fn next_wake(&self) -> Nanos { match self { $(Self::$Type(a) => a.next_wake()),+ } }
            /// The time of [`AnyRouter::next_wake`] is reached.
            pub fn on_wake(&mut self, port: &mut Port<'_>) { match self { $(Self::$Type(a) => a.on_wake(port)),+ } }
            /// Learned state, as text.
            pub fn learned(&self) -> Option<String> { match self { $(Self::$Type(a) => a.learned()),+ } }
            /// Bytes of memory, including the algorithm's struct.
            pub fn memory(&self) -> usize { match self { $(Self::$Type(a) => size_of::<$Type>() + a.memory()),+ } }
            /// Reports named internals.
            pub fn telemetry(&self, sink: TelemetrySink<'_>) { match self { $(Self::$Type(a) => a.telemetry(sink)),+ } }
            /// Description of the algorithm.
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
    /// One item of the algorithm's telemetry.
    pub fn reading(&self, name: &str) -> Option<Reading> {
        telemetry::find(|sink| self.telemetry(sink), name)
    }
}

/// An entry of the registry.
#[derive(Clone, Copy, Debug)]
pub struct RouterEntry {
    /// Description of the algorithm.
    pub info: &'static RouterInfo,
    source: &'static str,
    build: fn(&RouterSetup) -> AnyRouter,
    queue: fn(&RouterSetup) -> Option<config::Queue>,
    check_learned: fn(&str) -> Result<(), String>,
    /// Whether a controller polls its port.
    pub controlled: bool,
}

impl RouterEntry {
    /// Creates the algorithm on an idle port.
    pub fn build(&self, setup: &RouterSetup) -> AnyRouter {
        (self.build)(setup)
    }

    /// Queue discipline of its port if the scenario states none.
    pub fn queue(&self, setup: &RouterSetup) -> Option<config::Queue> {
        (self.queue)(setup)
    }

    /// Checks a text learned in an earlier run.
    ///
    /// # Errors
    /// The reason, if the text is invalid.
    pub fn check_learned(&self, text: &str) -> Result<(), String> {
        (self.check_learned)(text)
    }

    /// Module documentation of its file, one line per item.
    pub fn page(&self) -> impl Iterator<Item = &'static str> {
        narrows_cc::schemes::module_docs(self.source)
    }
}

/// The router algorithm with this name.
pub fn find(name: &str) -> Option<&'static RouterEntry> {
    ALL.iter().find(|entry| entry.info.name == name)
}
