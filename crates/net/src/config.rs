//! Link configuration as plain data, with buffer sizes resolved (a size in BDPs has become bytes).

use std::sync::Arc;

use narrows_units::{Bytes, Nanos, Rate};

pub use crate::limit::Limit;
pub use crate::queue::*;

use crate::timeline::LossTrace;
use crate::trace::CapacityTrace;

/// The capacity of a link.
#[derive(Clone, Debug)]
pub enum Capacity {
    /// A constant rate.
    Constant(Rate),
    /// Recorded delivery opportunities of one MTU each (mahimahi format), repeated without end.
    Trace(Arc<CapacityTrace>),
}

/// Random loss on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// No loss.
    None,
    /// Each packet is lost independently with this probability.
    Bernoulli(f64),
    /// A model with a good and a bad state (Gilbert 1960, Elliott 1963); a transition is drawn once per packet.
    GilbertElliott {
        /// Probability of a transition from the good to the bad state.
        to_bad: f64,
        /// Probability of a transition from the bad to the good state.
        to_good: f64,
        /// Loss probability in the good state.
        loss_good: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
    },
    /// Every n-th packet is lost, as throughput formulas for periodic loss assume.
    Periodic(u64),
}

/// Location of random loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossAt {
    /// After the queue, as in ns-3: a lost packet has used the link.
    Egress,
    /// Before the queue, as in netem: a lost packet uses no capacity.
    Ingress,
}

/// A token bucket that drops packets for which it lacks tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policer {
    /// Token rate.
    pub rate: Rate,
    /// Bucket depth: maximum burst.
    pub burst: Bytes,
}

/// Variation of the propagation delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Maximum additional delay; the delay of each packet is uniform from zero to this value.
    pub max: Nanos,
    /// Whether packets may overtake each other; otherwise they keep their order.
    pub reorder: bool,
}

/// Reordering: some packets get an additional delay, so that later packets overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Fraction of packets delayed.
    pub probability: f64,
    /// Additional delay of these packets.
    pub delay: Nanos,
}

/// A link in one direction.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Capacity of the link.
    pub capacity: Capacity,
    /// Queue limit.
    pub limit: Limit,
    /// Queue discipline.
    pub queue: Queue,
    /// Random loss.
    pub loss: Loss,
    /// Random loss that changes with time, at the same location as `loss` and independent of it.
    pub loss_trace: Option<LossTrace>,
    /// Location of both kinds of loss.
    pub loss_at: LossAt,
    /// A policer before the queue.
    pub policer: Option<Policer>,
}

impl Capacity {
    /// The constant rate, or the mean rate of the trace.
    pub fn mean_rate(&self) -> Rate {
        match self {
            Self::Constant(rate) => *rate,
            Self::Trace(trace) => trace.mean_rate(),
        }
    }
}

impl LinkConfig {
    /// Creates a drop-tail link of constant rate without loss.
    pub const fn drop_tail(rate: Rate, limit: Limit) -> Self {
        Self {
            capacity: Capacity::Constant(rate),
            limit,
            queue: Queue::DropTail,
            loss: Loss::None,
            loss_trace: None,
            loss_at: LossAt::Egress,
            policer: None,
        }
    }
}
