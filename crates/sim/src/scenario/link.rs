//! The elements of a link, checked and resolved.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use narrows_cc::{Bytes, Explicit, Nanos, Params, Rate};
use narrows_net::allocator;
use narrows_net::config::{self, Capacity, Limit};
use narrows_net::trace::CapacityTrace;

use super::choice::{self, Loss, LossKind, Queue, QueueKind};
use super::fault::{Fault, unknown};
use super::flows;
use super::quantity::{self, BufferSize, DataAmount};
use super::schema;

/// Of queues that are to drop nothing: those of access links and of the way back.
pub(super) const AMPLE: Limit = Limit::Packets(1_000_000);

/// The longest period of a capacity trace: 115 days.
const LONGEST_TRACE_MS: u64 = 10_000_000_000;

/// Capacity traces that were read, by path, so that a sweep reads each file once.
#[derive(Default)]
pub(super) struct Traces(BTreeMap<String, Arc<CapacityTrace>>);

impl Traces {
    /// The trace in `file`, relative to `dir`.
    fn load(&mut self, key: &str, file: &str, dir: Option<&Path>) -> Result<Arc<CapacityTrace>, Fault> {
        if let Some(trace) = self.0.get(file) {
            return Ok(Arc::clone(trace));
        }
        let path = dir.map_or_else(|| Path::new(file).to_owned(), |dir| dir.join(file));
        const FORMAT: &str = "a file in mahimahi format: one time in milliseconds per line, ascending";
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Fault::new(key, format!("cannot read `{}`: {error}", path.display())).accepted(FORMAT)
        })?;
        let trace = CapacityTrace::parse(&text)
            .map_err(|error| Fault::new(key, format!("`{file}`: {error}")).accepted(FORMAT))?;
        if trace.opportunities_ms.last().is_some_and(|&ms| ms > LONGEST_TRACE_MS) {
            return Err(
                Fault::new(key, format!("`{file}` goes beyond {LONGEST_TRACE_MS} ms")).accepted(FORMAT)
            );
        }
        let trace = Arc::new(trace);
        self.0.insert(file.to_owned(), Arc::clone(&trace));
        Ok(trace)
    }

    /// All that were read, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Arc<CapacityTrace>)> {
        self.0.iter()
    }
}

/// A rate that is not zero.
pub(super) fn rate(key: &str, rate: &quantity::Rate) -> Result<Rate, Fault> {
    match rate.value() {
        Rate::ZERO => Err(Fault::new(key, format!("`{rate}` carries nothing"))
            .accepted("a rate above zero such as 100mbit")),
        rate => Ok(rate),
    }
}

/// The capacity and its mean, from the two keys that may state it in one table.
pub(super) fn capacity(
    table: &str,
    stated_rate: Option<&quantity::Rate>,
    file: Option<&str>,
    dir: Option<&Path>,
    traces: &mut Traces,
) -> Result<Option<(Capacity, Rate)>, Fault> {
    match (stated_rate, file) {
        (None, None) => Ok(None),
        (Some(stated), None) => {
            let rate = rate(&format!("{table}.rate"), stated)?;
            Ok(Some((Capacity::Constant(rate), rate)))
        }
        (None, Some(file)) => {
            let trace = traces.load(&format!("{table}.capacity_trace"), file, dir)?;
            let mean = trace.mean_rate();
            Ok(Some((Capacity::Trace(trace), mean)))
        }
        (Some(_), Some(_)) => Err(Fault::new(format!("{table}.capacity_trace"), "there is a rate too")
            .accepted("either rate or capacity_trace")),
    }
}

/// When the queue is full. `rtt` is what a BDP is taken at, `packet` the largest packet.
pub(super) fn limit(
    key: &str,
    buffer: &quantity::Buffer,
    rate: Rate,
    rtt: Nanos,
    packet: Bytes,
) -> Result<Limit, Fault> {
    let limit = match buffer.value() {
        BufferSize::Bdp { multiple, rtt: stated } => {
            // Rounded to the nearest byte: 0.7 of 1000 is 700, though 0.7 has no exact binary form.
            Limit::Bytes(Bytes::from_f64(rate.over(stated.unwrap_or(rtt)).as_f64() * multiple + 0.5))
        }
        BufferSize::Packets(packets) => Limit::Packets(packets),
        BufferSize::Bytes(bytes) => Limit::Bytes(bytes),
        BufferSize::Time(time) => Limit::Time(time),
    };
    let refuse = |message: String| {
        Err(Fault::new(key, message)
            .accepted(format!("a buffer of at least one packet of {} B", packet.as_u64())))
    };
    match limit {
        Limit::Bytes(bytes) if bytes < packet => {
            refuse(format!("`{buffer}` is {} B here and holds no packet", bytes.as_u64()))
        }
        Limit::Packets(0) | Limit::Time(Nanos::ZERO) => refuse(format!("`{buffer}` holds no packet")),
        limit => Ok(limit),
    }
}

/// `key` belongs to another kind.
fn stray(table: &str, key: &str, kind: &str, allowed: &[&str]) -> Fault {
    let accepted = if allowed.is_empty() { "no parameter".to_owned() } else { allowed.join(", ") };
    Fault::new(format!("{table}.{key}"), format!("`{kind}` has no such parameter")).accepted(accepted)
}

fn check_keys<T: serde::Serialize>(
    table: &str,
    value: &T,
    kind: &str,
    allowed: &[&str],
) -> Result<(), Fault> {
    match choice::stray_key(value, allowed) {
        Some(key) => Err(stray(table, &key, kind, allowed)),
        None => Ok(()),
    }
}

/// A time that must not be zero, or its default.
fn time_or(key: String, time: Option<&quantity::Time>, default: Nanos) -> Result<Nanos, Fault> {
    match time.map(quantity::Time::value) {
        Some(Nanos::ZERO) => Err(Fault::new(key, "a time of zero").accepted("a time above zero")),
        Some(time) => Ok(time),
        None => Ok(default),
    }
}

/// The queue discipline. `packet` is the size of a full packet, for thresholds that count packets.
pub(super) fn queue(table: &str, queue: &Queue, packet: Bytes) -> Result<config::Queue, Fault> {
    let allowed: &[&str] = match queue.kind {
        QueueKind::DropTail => &[],
        QueueKind::CoDel => &["ecn", "target", "interval"],
        QueueKind::FqCoDel => &["ecn", "target", "interval", "queues", "quantum"],
        QueueKind::Pie => &["ecn", "target"],
        QueueKind::Red => &["ecn", "min", "max", "max_p", "weight", "adaptive"],
    };
    check_keys(table, queue, &choice::name_of(&queue.kind), allowed)?;
    let key = |name: &str| format!("{table}.{name}");
    let ecn = queue.ecn.unwrap_or(false);
    let target = |default| time_or(key("target"), queue.target.as_ref(), Nanos::from_millis(default));
    let interval = || time_or(key("interval"), queue.interval.as_ref(), Nanos::from_millis(100));
    Ok(match queue.kind {
        QueueKind::DropTail => config::Queue::DropTail,
        QueueKind::CoDel => config::Queue::CoDel { target: target(5)?, interval: interval()?, ecn },
        QueueKind::FqCoDel => {
            let queues = queue.queues.unwrap_or(1024);
            if !(1..=65_536).contains(&queues) {
                return Err(
                    Fault::new(key("queues"), format!("`{queues}` is out of range")).accepted("1 to 65536")
                );
            }
            let quantum = queue.quantum.as_ref().map_or(1514, |quantum| quantum.value().as_u64());
            let quantum = u32::try_from(quantum).ok().filter(|&quantum| quantum > 0).ok_or_else(|| {
                Fault::new(key("quantum"), format!("`{quantum}` bytes is out of range"))
                    .accepted("1B to 4GiB")
            })?;
            config::Queue::FqCoDel { target: target(5)?, interval: interval()?, queues, quantum, ecn }
        }
        QueueKind::Pie => config::Queue::Pie { target: target(15)?, ecn },
        QueueKind::Red => {
            let in_packets = |amount: &quantity::Amount| match amount.value() {
                DataAmount::Packets(packets) => packets as f64,
                DataAmount::Bytes(bytes) => bytes.in_segments(packet),
            };
            // Floyd's recommendations (Floyd and Jacobson 1993; 'RED: discussions of setting parameters', 1997).
            let min = queue.min.as_ref().map_or(5.0, in_packets);
            let max = queue.max.as_ref().map_or(3.0 * min, in_packets);
            let max_p = queue.max_p.as_ref().map_or(0.1, quantity::Share::value);
            let weight = queue.weight.unwrap_or(0.002);
            if max <= min {
                return Err(Fault::new(key("max"), format!("{max} packets is not above min, {min} packets"))
                    .accepted("a threshold above min"));
            }
            if max_p <= 0.0 {
                return Err(Fault::new(key("max_p"), "with `0%` nothing would ever be dropped early")
                    .accepted("a percentage above 0%, such as 10%"));
            }
            if !(weight > 0.0 && weight <= 1.0) {
                return Err(Fault::new(key("weight"), format!("`{weight}` is out of range"))
                    .accepted("a number above 0, at most 1"));
            }
            config::Queue::Red { min, max, max_p, weight, adaptive: queue.adaptive.unwrap_or(false), ecn }
        }
    })
}

/// Random loss.
pub(super) fn loss(table: &str, loss: &Loss) -> Result<config::Loss, Fault> {
    let allowed: &[&str] = match loss.kind {
        LossKind::Bernoulli => &["probability"],
        LossKind::GilbertElliott => &["to_bad", "to_good", "loss_good", "loss_bad"],
        LossKind::Periodic => &["every"],
    };
    let kind = choice::name_of(&loss.kind);
    check_keys(table, loss, &kind, allowed)?;
    let missing = |name: &str| Fault::new(format!("{table}.{name}"), format!("`{kind}` needs this key"));
    let share = |name: &str, share: &Option<quantity::Share>| {
        share
            .as_ref()
            .map(quantity::Share::value)
            .ok_or_else(|| missing(name).accepted("a percentage such as 0.1%"))
    };
    match loss.kind {
        LossKind::Bernoulli => match share("probability", &loss.probability)? {
            0.0 => Ok(config::Loss::None),
            1.0 => {
                Err(Fault::new(table, "with `100%` nothing would pass").accepted("a percentage below 100%"))
            }
            probability => Ok(config::Loss::Bernoulli(probability)),
        },
        LossKind::GilbertElliott => Ok(config::Loss::GilbertElliott {
            to_bad: share("to_bad", &loss.to_bad)?,
            to_good: share("to_good", &loss.to_good)?,
            loss_good: loss.loss_good.as_ref().map_or(0.0, quantity::Share::value),
            loss_bad: loss.loss_bad.as_ref().map_or(1.0, quantity::Share::value),
        }),
        LossKind::Periodic => match loss.every {
            Some(0 | 1) => Err(Fault::new(format!("{table}.every"), "nothing would pass")
                .accepted("a whole number from 2: one packet in so many is lost")),
            Some(every) => Ok(config::Loss::Periodic(every)),
            None => Err(missing("every").accepted("a whole number such as 1000")),
        },
    }
}

/// A policer.
pub(super) fn policer(
    table: &str,
    policer: &schema::Policer,
    packet: Bytes,
) -> Result<config::Policer, Fault> {
    let burst = policer.burst.value();
    if burst < packet {
        return Err(Fault::new(format!("{table}.burst"), format!("`{}` lets no packet pass", policer.burst))
            .accepted(format!("at least one packet of {} B", packet.as_u64())));
    }
    Ok(config::Policer { rate: rate(&format!("{table}.rate"), &policer.rate)?, burst })
}

/// An allocator, if one is meant.
pub(super) fn allocator(table: &str, stated: &choice::Allocator) -> Result<Option<config::Allocator>, Fault> {
    if stated.kind == "none" {
        return match stated.params.keys().next() {
            Some(key) => Err(stray(table, key, "none", &[])),
            None => Ok(None),
        };
    }
    let Some(entry) = allocator::find(&stated.kind) else {
        let known = allocator::ALL.iter().map(|entry| entry.info.name).chain(["none"]);
        return Err(
            unknown(&format!("there is no allocator `{}`", stated.kind), &stated.kind, known).within(table)
        );
    };
    let mut params = Params::defaults(entry.info.params);
    for (name, value) in &stated.params {
        let key = format!("{table}.{name}");
        flows::set(&mut params, entry.info.name, entry.info.params, name, &flows::plain(value), &key)?;
    }
    Ok(Some(config::Allocator { entry, params }))
}

/// The allocator that answers an explicit header, with default parameters.
pub(super) fn default_allocator(explicit: Explicit) -> config::Allocator {
    match allocator::find(explicit.allocator()) {
        Some(entry) => config::Allocator { entry, params: Params::defaults(entry.info.params) },
        None => unreachable!("every explicit header has its allocator"),
    }
}

/// Reordering.
pub(super) fn reordering(table: &str, reorder: &schema::Reorder) -> Result<config::Reordering, Fault> {
    let delay = time_or(format!("{table}.delay"), Some(&reorder.delay), Nanos::ZERO)?;
    Ok(config::Reordering { probability: reorder.probability.value(), delay })
}
