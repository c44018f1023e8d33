//! Queue disciplines, checked and resolved.

use std::sync::Arc;

use narrows_cc::Nanos;
use narrows_net::config;

use crate::diagnostic::Diagnostic;
use crate::htb::{self, Place};
use crate::keys::{check_keys, time_or};
use crate::quantity::{self, DataAmount};
use crate::schema::choice::{self, Queue, QueueKind};

/// The shortest time between updates of DualPI2: a run would hardly get on.
const SHORTEST_UPDATE: Nanos = Nanos::from_micros(10);

/// The queue discipline that stands before a link.
pub(crate) fn queue(table: &str, queue: &Queue, place: &Place<'_>) -> Result<config::Queue, Diagnostic> {
    let allowed: &[&str] = match queue.kind {
        QueueKind::DropTail => &[],
        QueueKind::CoDel => &["ecn", "target", "interval"],
        QueueKind::FqCoDel => &["ecn", "target", "interval", "queues", "quantum"],
        QueueKind::Pie => &["ecn", "target"],
        QueueKind::Red => &["ecn", "min", "max", "max_p", "weight", "adaptive"],
        QueueKind::Step => &["above"],
        QueueKind::DualPi2 => {
            &["target", "rtt_max", "update", "alpha", "beta", "coupling", "ramp_min", "ramp_range", "shift"]
        }
        QueueKind::Htb => &["classes", "default"],
    };
    check_keys(table, queue, &choice::name_of(&queue.kind), allowed)?;
    let key = |name: &str| format!("{table}.{name}");
    let ecn = queue.ecn.unwrap_or(false);
    let target = |default| time_or(key("target"), queue.target.as_ref(), Nanos::from_millis(default));
    let in_packets = |amount: &quantity::Amount| match amount.value() {
        DataAmount::Packets(packets) => packets as f64,
        DataAmount::Bytes(bytes) => bytes.in_segments(place.packet),
    };
    let interval = || time_or(key("interval"), queue.interval.as_ref(), Nanos::from_millis(100));
    Ok(match queue.kind {
        QueueKind::DropTail => config::Queue::DropTail,
        QueueKind::CoDel => config::Queue::CoDel { target: target(5)?, interval: interval()?, ecn },
        QueueKind::FqCoDel => {
            let queues = queue.queues.unwrap_or(1024);
            if !(1..=65_536).contains(&queues) {
                return Err(Diagnostic::new(key("queues"), format!("`{queues}` is out of range"))
                    .accepted("1 to 65536"));
            }
            let quantum = queue.quantum.as_ref().map_or(1514, |quantum| quantum.value().as_u64());
            let quantum = u32::try_from(quantum).ok().filter(|&quantum| quantum > 0).ok_or_else(|| {
                Diagnostic::new(key("quantum"), format!("`{quantum}` bytes is out of range"))
                    .accepted("1B to 4GiB")
            })?;
            config::Queue::FqCoDel { target: target(5)?, interval: interval()?, queues, quantum, ecn }
        }
        QueueKind::Pie => config::Queue::Pie { target: target(15)?, ecn },
        QueueKind::DualPi2 => config::Queue::DualPi2(dualpi2(table, queue, target(15)?)?),
        QueueKind::Htb => config::Queue::Htb(Arc::new(htb::queue(table, queue, place)?)),
        // 65 packets: what the paper recommends at 10 Gbit/s (Alizadeh et al. 2010, section 3.5).
        QueueKind::Step => config::Queue::Step { above: queue.above.as_ref().map_or(65.0, in_packets) },
        QueueKind::Red => {
            // Floyd's recommendations (Floyd and Jacobson 1993; 'RED: discussions of setting parameters',
            // 1997).
            let min = queue.min.as_ref().map_or(5.0, in_packets);
            let max = queue.max.as_ref().map_or(3.0 * min, in_packets);
            let max_p = queue.max_p.as_ref().map_or(0.1, quantity::Share::value);
            let weight = queue.weight.unwrap_or(0.002);
            if max <= min {
                return Err(Diagnostic::new(
                    key("max"),
                    format!("{max} packets is not above `min`, {min} packets"),
                )
                .accepted("a threshold above min"));
            }
            if max_p <= 0.0 {
                return Err(Diagnostic::new(key("max_p"), "`0%` would drop nothing early")
                    .accepted("a percentage above 0%, such as 10%"));
            }
            if !(weight > 0.0 && weight <= 1.0) {
                return Err(Diagnostic::new(key("weight"), format!("`{weight}` is out of range"))
                    .accepted("a number above 0, at most 1"));
            }
            config::Queue::Red(config::Red {
                min,
                max,
                max_p,
                weight,
                adaptive: queue.adaptive.unwrap_or(false),
                ecn,
            })
        }
    })
}

/// DualPI2: what is not stated follows from the target and the longest round-trip time.
fn dualpi2(table: &str, queue: &Queue, target: Nanos) -> Result<config::DualPi2, Diagnostic> {
    let key = |name: &str| format!("{table}.{name}");
    let rtt_max = time_or(key("rtt_max"), queue.rtt_max.as_ref(), Nanos::from_millis(100))?;
    let base = config::DualPi2::for_rtt(target, rtt_max);
    let update = time_or(key("update"), queue.update.as_ref(), base.update)?;
    if update < SHORTEST_UPDATE {
        return Err(Diagnostic::new(
            key("update"),
            format!("an interval of {} ns between updates", update.as_nanos()),
        )
        .accepted("a time of at least 10us"));
    }
    let alpha = base.alpha * update.as_secs_f64() / base.update.as_secs_f64();
    let gain = |name: &str, stated: Option<f64>, default: f64| match stated {
        Some(gain) if !(0.0..=1e6).contains(&gain) => {
            Err(Diagnostic::new(key(name), format!("`{gain}` is out of range")).accepted("0 to 1000000"))
        }
        stated => Ok(stated.unwrap_or(default)),
    };
    Ok(config::DualPi2 {
        target,
        update,
        alpha: gain("alpha", queue.alpha, alpha)?,
        beta: gain("beta", queue.beta, base.beta)?,
        coupling: gain("coupling", queue.coupling, base.coupling)?,
        ramp_min: queue.ramp_min.as_ref().map_or(base.ramp_min, quantity::Time::value),
        ramp_range: queue.ramp_range.as_ref().map_or(base.ramp_range, quantity::Time::value),
        shift: queue.shift.as_ref().map_or(base.shift, quantity::Time::value),
    })
}
