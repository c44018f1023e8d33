//! Link configuration as plain data, with buffer sizes resolved (a BDP is in bytes here).

mod htb;
mod limit;

use std::sync::Arc;

use narrows_units::{Bytes, Nanos, Rate};

pub use htb::{Htb, HtbClass, HtbError};
pub use limit::Limit;

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

/// The queue discipline of a link, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Queue {
    /// First in, first out; arrivals that do not fit are dropped.
    DropTail,
    /// RFC 8289.
    CoDel {
        /// Acceptable standing delay (5 ms).
        target: Nanos,
        /// Time for which the delay may exceed the target (100 ms).
        interval: Nanos,
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool,
    },
    /// RFC 8290.
    FqCoDel {
        /// Acceptable standing delay per flow queue (5 ms).
        target: Nanos,
        /// Time for which the delay may exceed the target (100 ms).
        interval: Nanos,
        /// Number of flow queues (1024).
        queues: u32,
        /// Bytes that a queue may send per turn (1514).
        quantum: u32,
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool,
    },
    /// RFC 8033.
    Pie {
        /// Reference delay (15 ms).
        target: Nanos,
        /// Mark ECN-capable packets instead of dropping them, while the probability is small.
        ecn: bool,
    },
    /// Marks (or drops) every arrival that finds more than a threshold queued, as DCTCP's switches do.
    Step {
        /// The threshold, in packets.
        above: f64,
    },
    /// RFC 9332.
    DualPi2(DualPi2),
    /// Hierarchical token bucket, as Linux `sch_htb`.
    Htb(Arc<Htb>),
    /// Random early detection (Floyd and Jacobson 1993), gentle.
    Red(Red),
}

/// The constants of RED. The average is that of the queue length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Below this average, in packets, nothing is dropped.
    pub min: f64,
    /// At this average the probability is `max_p`.
    pub max: f64,
    /// See `max`.
    pub max_p: f64,
    /// Weight of the newest sample in the average.
    pub weight: f64,
    /// Adapt `max_p` every half second.
    pub adaptive: bool,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

/// The constants of DualPI2. [`Default`] is RFC 9332, appendix A, for round-trip times up to 100 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2 {
    /// Reference delay of the classic queue (15 ms).
    pub target: Nanos,
    /// Time between updates of the base probability (15 ms).
    pub update: Nanos,
    /// Integral gain per second of delay and update (0.15).
    pub alpha: f64,
    /// Proportional gain per second of delay (3).
    pub beta: f64,
    /// Ratio of the low-latency queue's probability to the base probability (2).
    pub coupling: f64,
    /// Delay at which the low-latency queue begins to mark on its own (0.8 ms).
    pub ramp_min: Nanos,
    /// Additional delay over which that probability rises to 1 (0.4 ms); zero makes a step.
    pub ramp_range: Nanos,
    /// Time shift of the scheduler: the low-latency queue goes first until the classic packet has waited
    /// longer by this (50 ms).
    pub shift: Nanos,
}

impl DualPi2 {
    /// The constants for a reference delay and the longest typical round-trip time.
    pub fn for_rtt(target: Nanos, rtt_max: Nanos) -> Self {
        let update = target.min(rtt_max / 3).max(Nanos::from_nanos(1));
        let rtt_max = rtt_max.as_secs_f64();
        Self {
            target,
            update,
            alpha: 0.1 * update.as_secs_f64() / (rtt_max * rtt_max),
            beta: 0.3 / rtt_max,
            coupling: 2.0,
            ramp_min: Nanos::from_micros(800),
            ramp_range: Nanos::from_micros(400),
            shift: Nanos::from_millis(50),
        }
    }
}

impl Default for DualPi2 {
    fn default() -> Self {
        Self::for_rtt(Nanos::from_millis(15), Nanos::from_millis(100))
    }
}

/// Random loss on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// None.
    None,
    /// Each packet independently with this probability.
    Bernoulli(f64),
    /// Two states, good and bad (Gilbert 1960, Elliott 1963); transitions are drawn once per packet.
    GilbertElliott {
        /// Probability of going from good to bad.
        to_bad: f64,
        /// Probability of going from bad to good.
        to_good: f64,
        /// Loss probability in the good state.
        loss_good: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
    },
    /// Every n-th packet, for throughput formulas that assume periodic loss.
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

/// A token bucket that drops packets without tokens.
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
    /// Maximum: each packet's additional delay is uniform from zero to this.
    pub max: Nanos,
    /// Packets may overtake each other; otherwise they keep their order.
    pub reorder: bool,
}

/// Reordering: some packets are delayed longer than the others and arrive late.
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
    /// Its capacity.
    pub capacity: Capacity,
    /// Queue limit.
    pub limit: Limit,
    /// Queue discipline.
    pub queue: Queue,
    /// Random loss.
    pub loss: Loss,
    /// Random loss that changes with time; same location as `loss`, and independent of it.
    pub loss_trace: Option<LossTrace>,
    /// Location of both kinds of loss.
    pub loss_at: LossAt,
    /// A policer before the queue.
    pub policer: Option<Policer>,
}

impl Capacity {
    /// The rate; the mean of a trace.
    pub fn mean_rate(&self) -> Rate {
        match self {
            Self::Constant(rate) => *rate,
            Self::Trace(trace) => trace.mean_rate(),
        }
    }
}

impl LinkConfig {
    /// A drop-tail link of constant rate, with no loss.
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
