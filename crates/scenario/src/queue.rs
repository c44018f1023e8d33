//! Queue disciplines: their tables of keys, the settings to which the keys resolve, and the rows of `--explain`.

use std::sync::Arc;

use narrows_cc::Nanos;
use narrows_net::config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::diagnostic::{Diagnostic, refuse, show};
use crate::htb::{self, Place};
use crate::keys::time_or;
use crate::quantity::{Amount, DataAmount, Share, Size, Time};
use crate::schema::class::Class;
use crate::schema::short::tagged;
use crate::schema::table::table;

/// A queue's table and the properties of its link.
struct At<'a> {
    table: &'a str,
    place: &'a Place<'a>,
}

impl At<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.table)
    }

    /// Resolves a time, which must be above zero.
    fn time(&self, name: &str, stated: Option<&Time>, default: Nanos) -> Result<Nanos, Diagnostic> {
        time_or(self.key(name), stated, default)
    }

    /// An amount as a number of full packets.
    fn packets(&self, amount: &Amount) -> f64 {
        match amount.value() {
            DataAmount::Packets(packets) => packets as f64,
            DataAmount::Bytes(bytes) => bytes.in_segments(self.place.packet),
        }
    }

    /// Returns `value` if `sound` is true, else an error about the key `name`.
    fn check<T: std::fmt::Display>(&self, name: &str, value: T, sound: bool, accepted: &str) -> Result<T, Diagnostic> {
        match sound {
            true => Ok(value),
            false => refuse(self.key(name), format!("`{value}` is out of range"), accepted),
        }
    }
}

/// The keys of one queue discipline.
trait Keys {
    /// The settings to which the keys resolve.
    type Config;
    /// Resolves the keys; defaults are those of the discipline's RFC or paper.
    fn resolve(&self, at: &At<'_>) -> Result<Self::Config, Diagnostic>;
    /// The keys with their effective values.
    fn rows(config: &Self::Config) -> Vec<(&'static str, Value)>;
}

macro_rules! queues {
    ($($(#[doc = $about:literal])* $module:ident::$Kind:ident($Config:ty) $name:literal,)*) => {
        tagged! {
            /// A queue discipline with its parameters.
            Queue {
                /// First in, first out.
                DropTail(DropTail) "droptail",
                $($(#[doc = $about])* $Kind($Kind) $name,)*
            }
            fn accepted() -> String {
                let names = Self::KINDS.iter().filter(|kind| !NEEDS_TABLE.contains(kind));
                let names = names.copied().collect::<Vec<_>>().join(", ");
                format!("{names}, or a table with `kind` and parameters")
            }
        }

        /// Resolves the queue discipline of a link.
        pub(crate) fn queue(table: &str, queue: &Queue, place: &Place<'_>) -> Result<config::Queue, Diagnostic> {
            let at = At { table, place };
            match queue {
                Queue::DropTail(_) => Ok(config::Queue::DropTail),
                $(Queue::$Kind(keys) => keys.resolve(&at).map(config::Queue::$Kind),)*
            }
        }

        /// The keys of a queue discipline with their effective values.
        pub(crate) fn rows(queue: &config::Queue) -> Vec<(&'static str, Value)> {
            match queue {
                config::Queue::DropTail => Vec::new(),
                $(config::Queue::$Kind(config) => $Kind::rows(config),)*
            }
        }
    };
}

narrows_net::queue_disciplines!(queues);

/// Kinds of queues that require further keys.
const NEEDS_TABLE: &[&str] = &["htb"];

impl Default for Queue {
    fn default() -> Self {
        Self::DropTail(DropTail {})
    }
}

fn time(time: Nanos) -> Value {
    Value::from(show(time))
}

table! {
    /// Drop-tail has no parameters.
    DropTail {
        ;
    }
}

table! {
    /// Parameters of CoDel.
    CoDel {
        ; // optional:
        /// Mark ECN-capable packets instead of dropping them (off).
        ecn: bool,
        /// Acceptable delay (5ms).
        target: Time,
        /// Interval: time for which the delay may exceed the target (100ms).
        interval: Time,
    }
}

impl Keys for CoDel {
    type Config = config::CoDel;
    fn resolve(&self, at: &At<'_>) -> Result<config::CoDel, Diagnostic> {
        let default = config::CoDel::default();
        Ok(config::CoDel {
            target: at.time("target", self.target.as_ref(), default.target)?,
            interval: at.time("interval", self.interval.as_ref(), default.interval)?,
            ecn: self.ecn.unwrap_or(default.ecn),
        })
    }
    fn rows(own: &config::CoDel) -> Vec<(&'static str, Value)> {
        vec![("target", time(own.target)), ("interval", time(own.interval)), ("ecn", own.ecn.into())]
    }
}

table! {
    /// Parameters of FQ-CoDel.
    FqCoDel {
        ; // optional:
        /// Mark ECN-capable packets instead of dropping them (off).
        ecn: bool,
        /// Acceptable delay (5ms).
        target: Time,
        /// Interval: time for which the delay may exceed the target (100ms).
        interval: Time,
        /// Number of flow queues (1024).
        queues: u32,
        /// Quantum: bytes that a flow queue sends per turn (1514B).
        quantum: Size,
    }
}

impl Keys for FqCoDel {
    type Config = config::FqCoDel;
    fn resolve(&self, at: &At<'_>) -> Result<config::FqCoDel, Diagnostic> {
        let default = config::FqCoDel::default();
        let queues = self.queues.unwrap_or(default.queues);
        let queues = at.check("queues", queues, (1..=65_536).contains(&queues), "1 to 65536")?;
        let quantum = self.quantum.as_ref().map_or(default.quantum.into(), |size| size.value().as_u64());
        let quantum = u32::try_from(quantum).ok().filter(|&quantum| quantum > 0).ok_or_else(|| {
            Diagnostic::new(at.key("quantum"), format!("`{quantum}` bytes is out of range")).accepted("1B to 4GiB")
        })?;
        let Self { ecn, target, interval, .. } = self.clone();
        Ok(config::FqCoDel { codel: CoDel { ecn, target, interval }.resolve(at)?, queues, quantum })
    }
    fn rows(own: &config::FqCoDel) -> Vec<(&'static str, Value)> {
        let mut rows = CoDel::rows(&own.codel);
        rows.splice(2..2, [("queues", own.queues.into()), ("quantum", format!("{}B", own.quantum).into())]);
        rows
    }
}

table! {
    /// Parameters of PIE.
    Pie {
        ; // optional:
        /// Mark ECN-capable packets instead of dropping them (off).
        ecn: bool,
        /// Acceptable delay (15ms).
        target: Time,
    }
}

impl Keys for Pie {
    type Config = config::Pie;
    fn resolve(&self, at: &At<'_>) -> Result<config::Pie, Diagnostic> {
        let default = config::Pie::default();
        let target = at.time("target", self.target.as_ref(), default.target)?;
        Ok(config::Pie { target, ecn: self.ecn.unwrap_or(default.ecn) })
    }
    fn rows(own: &config::Pie) -> Vec<(&'static str, Value)> {
        vec![("target", time(own.target)), ("ecn", own.ecn.into())]
    }
}

table! {
    /// Parameters of RED.
    Red {
        ; // optional:
        /// Mark ECN-capable packets instead of dropping them (off).
        ecn: bool,
        /// Average queue below which no packet is dropped (5pkt).
        min: Amount,
        /// Average queue at which the probability is max_p (three times min).
        max: Amount,
        /// Drop probability at max (10%).
        max_p: Share,
        /// Weight of the newest sample in the average (0.002).
        weight: f64,
        /// Adapt max_p every half second (off).
        adaptive: bool,
    }
}

impl Keys for Red {
    type Config = config::Red;
    fn resolve(&self, at: &At<'_>) -> Result<config::Red, Diagnostic> {
        let default = config::Red::default();
        let min = self.min.as_ref().map_or(default.min, |min| at.packets(min));
        let max = self.max.as_ref().map_or(3.0 * min, |max| at.packets(max));
        let max_p = self.max_p.as_ref().map_or(default.max_p, Share::value);
        let weight = self.weight.unwrap_or(default.weight);
        if max <= min {
            let message = format!("{max} packets is not above `min`, {min} packets");
            return refuse(at.key("max"), message, "a threshold above min");
        }
        if max_p <= 0.0 {
            return refuse(at.key("max_p"), "`0%` would drop nothing early", "a percentage above 0%, such as 10%");
        }
        let weight = at.check("weight", weight, weight > 0.0 && weight <= 1.0, "a number above 0, at most 1")?;
        let (adaptive, ecn) = (self.adaptive.unwrap_or(default.adaptive), self.ecn.unwrap_or(default.ecn));
        Ok(config::Red { min, max, max_p, weight, adaptive, ecn })
    }
    fn rows(own: &config::Red) -> Vec<(&'static str, Value)> {
        vec![
            ("min", format!("{}pkt", own.min).into()),
            ("max", format!("{}pkt", own.max).into()),
            ("max_p", format!("{}%", own.max_p * 100.0).into()),
            ("weight", own.weight.into()),
            ("adaptive", own.adaptive.into()),
            ("ecn", own.ecn.into()),
        ]
    }
}

table! {
    /// Parameters of step marking.
    Step {
        ; // optional:
        /// Queue length above which arrivals are marked, or dropped if not ECN-capable (65pkt).
        above: Amount,
    }
}

impl Keys for Step {
    type Config = config::Step;
    fn resolve(&self, at: &At<'_>) -> Result<config::Step, Diagnostic> {
        let above = self.above.as_ref().map(|above| at.packets(above));
        Ok(above.map_or_else(config::Step::default, |above| config::Step { above }))
    }
    fn rows(own: &config::Step) -> Vec<(&'static str, Value)> {
        vec![("above", format!("{}pkt", own.above).into())]
    }
}

table! {
    /// Parameters of DualPI2. Unstated keys follow from `target` and `rtt_max`.
    DualPi2 {
        ; // optional:
        /// Acceptable delay (15ms).
        target: Time,
        /// Longest typical round-trip time, from which update, alpha and beta follow (100ms).
        rtt_max: Time,
        /// Time between updates of the probabilities (the target, or a third of rtt_max if that is less).
        update: Time,
        /// Integral gain (0.1 update / rtt_max^2).
        alpha: f64,
        /// Proportional gain (0.3 / rtt_max).
        beta: f64,
        /// Ratio of the low-latency queue's marking probability to the square root of the classic queue's (2).
        coupling: f64,
        /// Delay at which the low-latency queue's own ramp of marks begins (0.8ms).
        ramp_min: Time,
        /// Width of the ramp from there to a marking probability of 1; 0ms makes a step (0.4ms).
        ramp_range: Time,
        /// Time shift: the low-latency queue has priority until the classic queue has waited this much longer
        /// (50ms).
        shift: Time,
    }
}

impl Keys for DualPi2 {
    type Config = config::DualPi2;
    fn resolve(&self, at: &At<'_>) -> Result<config::DualPi2, Diagnostic> {
        /// Minimum time between updates; a shorter time would slow a run too much.
        const SHORTEST_UPDATE: Nanos = Nanos::from_micros(10);
        let target = at.time("target", self.target.as_ref(), config::DualPi2::default().target)?;
        let rtt_max = at.time("rtt_max", self.rtt_max.as_ref(), Nanos::from_millis(100))?;
        let base = config::DualPi2::for_rtt(target, rtt_max);
        let update = at.time("update", self.update.as_ref(), base.update)?;
        if update < SHORTEST_UPDATE {
            let message = format!("an interval of {} ns between updates", update.as_nanos());
            return refuse(at.key("update"), message, "a time of at least 10us");
        }
        let gain = |name: &str, stated: Option<f64>, default: f64| match stated {
            Some(gain) => at.check(name, gain, (0.0..=1e6).contains(&gain), "0 to 1000000"),
            None => Ok(default),
        };
        let or = |stated: &Option<Time>, default| stated.as_ref().map_or(default, Time::value);
        let alpha = base.alpha * update.as_secs_f64() / base.update.as_secs_f64();
        Ok(config::DualPi2 {
            target,
            update,
            alpha: gain("alpha", self.alpha, alpha)?,
            beta: gain("beta", self.beta, base.beta)?,
            coupling: gain("coupling", self.coupling, base.coupling)?,
            ramp_min: or(&self.ramp_min, base.ramp_min),
            ramp_range: or(&self.ramp_range, base.ramp_range),
            shift: or(&self.shift, base.shift),
        })
    }
    fn rows(own: &config::DualPi2) -> Vec<(&'static str, Value)> {
        vec![
            ("target", time(own.target)),
            ("update", time(own.update)),
            ("alpha", own.alpha.into()),
            ("beta", own.beta.into()),
            ("coupling", own.coupling.into()),
            ("ramp_min", time(own.ramp_min)),
            ("ramp_range", time(own.ramp_range)),
            ("shift", time(own.shift)),
        ]
    }
}

table! {
    /// Parameters of a hierarchical token bucket.
    Htb {
        ; // optional:
        /// Its classes (required).
        classes: Vec<Class>,
        /// Class of flows that match no class (every flow must match one).
        default: String,
    }
}

impl Keys for Htb {
    type Config = Arc<config::Htb>;
    fn resolve(&self, at: &At<'_>) -> Result<Self::Config, Diagnostic> {
        let classes = self.classes.as_deref().unwrap_or_default();
        htb::queue(at.table, classes, self.default.as_deref(), at.place).map(Arc::new)
    }
    /// Returns no rows, because the classes are shown as the scenario states them.
    fn rows(_: &Self::Config) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}
