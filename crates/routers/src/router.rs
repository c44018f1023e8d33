//! The contract of router algorithms.

use std::sync::Arc;

use narrows_cc::{Nanos, Param, Params, Provenance, Rate};
use narrows_net::config;

use crate::{FiveTuple, Port, RouterFrame, Signal, TelemetrySink};

/// Description of a router algorithm.
#[derive(Debug)]
pub struct RouterInfo {
    /// Name in scenarios.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// Provenance of its definition.
    pub provenance: Provenance,
    /// Parameters of the algorithm.
    pub params: &'static [Param],
}

/// Inputs of a new router algorithm.
#[derive(Clone, Debug)]
pub struct RouterSetup {
    /// Capacity of the link; the mean of a capacity trace.
    pub capacity: Rate,
    /// Parameter values, checked against [`RouterInfo::params`].
    pub params: Params,
    /// The 5-tuples of flows, by flow number.
    pub flows: Arc<[FiveTuple]>,
    /// Text learned in an earlier run; see [`Router::learned`].
    pub learned: Option<Arc<str>>,
}

/// A router algorithm. For one packet the order of calls is: `on_open` or `on_close` if it opens or ends a
/// flow, then `on_arrival`, then, unless the queue drops it, `on_departure` at the start of its transmission.
pub trait Router {
    /// Description of the algorithm.
    const INFO: RouterInfo;
    /// Whether the algorithm needs [`Router::on_return`].
    const RETURNS: bool = false;
    /// Whether a controller polls its port; see [`crate::controller`].
    const CONTROLLED: bool = false;

    /// Creates the algorithm on an idle port.
    fn new(setup: &RouterSetup) -> Self;

    /// Queue discipline of its port if the scenario states none.
    fn queue(_setup: &RouterSetup) -> Option<config::Queue> {
        None
    }

    /// A SYN arrives. It may be retransmitted or forged.
    fn on_open<F: RouterFrame>(&mut self, _port: &mut Port<'_>, _opening: &F) {}
    /// A FIN arrives: one direction of a flow ends.
    fn on_close<F: RouterFrame>(&mut self, _port: &mut Port<'_>, _fin: &F) {}
    /// A packet arrives; the queue may still drop it.
    fn on_arrival<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F);
    /// A packet leaves the queue.
    fn on_departure<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F);
    /// A packet from receiver to sender reaches the node over the reverse link of the port. The data of its flow may
    /// take another path.
    fn on_return<F: RouterFrame>(&mut self, _port: &mut Port<'_>, _packet: &mut F) {}
    /// A message from another port or from the controller.
    fn on_signal(&mut self, _port: &mut Port<'_>, _signal: &Signal) {}
    /// Time of the next [`Router::on_wake`]; [`Nanos::MAX`]: no wake before the next packet. The port agent reads this
    /// time after creation and after each call of [`Router::on_arrival`], [`Router::on_return`], [`Router::on_signal`]
    /// and [`Router::on_wake`]. On an idle link the algorithm should return [`Nanos::MAX`], because its wakes would be
    /// the only events.
    fn next_wake(&self) -> Nanos {
        Nanos::MAX
    }
    /// The time of [`Router::next_wake`] is reached; [`Port::now`] is exactly that time.
    fn on_wake(&mut self, _port: &mut Port<'_>) {}
    /// Checks a text returned by [`Router::learned`].
    ///
    /// # Errors
    /// The reason, if the text is invalid.
    fn check_learned(_text: &str) -> Result<(), String> {
        Err("this router algorithm does not learn".to_owned())
    }
    /// Learned state as text, an input of later runs.
    fn learned(&self) -> Option<String> {
        None
    }
    /// Bytes of heap memory owned, bounded under any input.
    fn memory(&self) -> usize {
        0
    }
    /// Reports named internals for results, traces and tests. Names carry no unit.
    fn telemetry(&self, _sink: TelemetrySink<'_>) {}
}

/// Minimum time between two wakes.
pub(crate) const TICK: Nanos = Nanos::from_nanos(1);

/// First of `at`, `at + step`, `at + 2 step`, … after `now`. The skipped multiples have no effect, and later wakes stay
/// on the same grid.
pub(crate) fn next_multiple(at: Nanos, step: Nanos, now: Nanos) -> Nanos {
    if at > now {
        return at;
    }
    let step = step.max(TICK).as_nanos();
    let missed = (now - at).as_nanos() / step;
    at.saturating_add(Nanos::from_nanos((missed + 1).saturating_mul(step)))
}
