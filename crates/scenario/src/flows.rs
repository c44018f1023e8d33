//! Resolves the flows of a scenario to connections: schemes with parameters, transport settings, start times.

use std::sync::Arc;

use narrows_cc::{Bytes, Nanos, Params, Random, schemes};
use narrows_tcp::TcpConfig;
use narrows_tcp::multipath::MAPPING_BYTES;
use narrows_traffic::AppConfig;

use crate::app::app;
use crate::datagrams;
use crate::diagnostic::{Diagnostic, refuse, show};
use crate::params;
use crate::profile::FlowProfile;
use crate::quantity::Time;
use crate::schema::choice::{FileSize, Mean, Pareto};
use crate::schema::table::first_stated;
use crate::schema::{Arrivals, Scenario};
use crate::tcp;

/// Maximum number of flows in a run; a larger number is certainly a mistake.
pub(crate) const MAX_FLOWS: u64 = 100_000;

/// Header bytes of a full DCCP data packet: IP, DCCP and its usual options.
const DATAGRAM_HEADER: u16 = 20 + 16;

/// A connection before its route is known.
pub(crate) struct Draft {
    /// Index of the connection's entry in `flows`.
    pub(crate) entry: usize,
    /// Index of the subflow in its connection.
    pub(crate) subflow: usize,
    pub(crate) app: AppConfig,
    pub(crate) start: Nanos,
    pub(crate) stop: Option<Nanos>,
}

/// Scheme and transport of all connections of an entry.
pub(crate) struct Kind {
    pub(crate) scheme: &'static schemes::Entry,
    pub(crate) params: Params,
    pub(crate) tcp: Arc<TcpConfig>,
    /// DCCP settings; `None` for TCP.
    pub(crate) datagrams: Option<narrows_dccp::Config>,
}

/// The scheme and transport of entry `index`.
pub(crate) fn kind(scenario: &Scenario, index: usize) -> Result<Kind, Diagnostic> {
    let flow = &scenario.flows[index];
    let table = format!("flows.{index}");
    let profile = FlowProfile::of(&scenario.tcp, flow.tcp.as_ref());
    let (scheme, mut params) =
        params::scheme(&flow.scheme, flow.params.as_ref(), flow.protocol, Some(profile), &table)?;
    if scenario.literal {
        params::follow_print(&mut params);
    }
    let mapped = if flow.subflows.is_some() { MAPPING_BYTES } else { 0 };
    let datagrams = datagrams::settings(&scenario.dccp, flow, &table, scheme, &params)?;
    let mut tcp = tcp::settings(&scenario.tcp, flow.tcp.as_ref(), &table, scheme.ecn, mapped)?;
    if let Some(datagrams) = &datagrams {
        // Header and segment determine the packet size.
        (tcp.segment, tcp.header) = (datagrams.datagram, DATAGRAM_HEADER);
    }
    Ok(Kind { scheme, params, tcp: Arc::new(tcp), datagrams })
}

/// Creates the connections of entry `index` in the order of their start, each with `subflows` subflows.
pub(crate) fn expand(
    scenario: &Scenario,
    index: usize,
    seed: u64,
    (segment, subflows): (u16, usize),
    drafts: &mut Vec<Draft>,
) -> Result<(), Diagnostic> {
    let push = |app, start, stop, drafts: &mut Vec<Draft>| {
        drafts.extend((0..subflows).map(|subflow| Draft { entry: index, subflow, app, start, stop }));
    };
    let flow = &scenario.flows[index];
    let table = format!("flows.{index}");
    let key = |name: &str| format!("{table}.{name}");
    let duration = scenario.duration.value();
    let start = flow.start.as_ref().map_or(Nanos::ZERO, Time::value);
    let stop = flow.stop.as_ref().map(Time::value);
    let late = |name: &str, start: Nanos| {
        Diagnostic::new(
            key(name),
            format!("a flow would start at {}, but the run ends at {}", show(start), scenario.duration),
        )
        .accepted(format!("a time before {}", scenario.duration))
    };
    if start >= duration {
        return Err(late("start", start));
    }
    if let Some(arrivals) = &flow.arrivals {
        if let Some(name) = first_stated(flow, &["count", "size", "app", "stagger", "spread"]) {
            return refuse(key(name), "`arrivals` already states this", "either this key or arrivals");
        }
        let end = stop.unwrap_or(duration).min(duration);
        if end <= start {
            return refuse(key("stop"), "arrivals stop before they start", "a time after start");
        }
        let before = drafts.len();
        arrive(
            arrivals,
            &key("arrivals"),
            start,
            end,
            Random::stream(seed, "arrivals", index as u64),
            |start, size| push(AppConfig::File(size), start, None, drafts),
        )?;
        return check_count(drafts.len(), drafts.len() - before, &key("arrivals.rate"));
    }
    let count = flow.count.unwrap_or(1);
    if count == 0 {
        return refuse(key("count"), "`0` is out of range", "a whole number from 1");
    }
    let all = (count as usize).saturating_mul(subflows);
    check_count(drafts.len().saturating_add(all), all, &key("count"))?;
    let app = app(flow.size.as_ref(), flow.app.as_ref().map(|app| &app.0), &table, segment)?;
    if flow.stagger.is_some() && flow.spread.is_some() {
        return refuse(key("spread"), "`stagger` is also set", "either stagger or spread");
    }
    for i in 0..u64::from(count) {
        let (name, offset) = match (&flow.stagger, &flow.spread) {
            (Some(stagger), _) => ("stagger", Nanos::from_nanos(stagger.value().as_nanos().saturating_mul(i))),
            (_, Some(spread)) => ("spread", spread.value().mul_f64(i as f64 / f64::from(count))),
            (None, None) => ("start", Nanos::ZERO),
        };
        let start = start.saturating_add(offset);
        if start >= duration {
            return Err(late(name, start));
        }
        if let (Some(stop), Some(stated)) = (stop, &flow.stop)
            && stop <= start
        {
            let order = match stop < start {
                true => format!("before it starts at {}", show(start)),
                false => "as it starts".to_owned(),
            };
            let message = format!("the flow would stop at {stated}, {order}");
            return refuse(key("stop"), message, format!("a time after {}", show(start)));
        }
        push(app, start, stop, drafts);
    }
    Ok(())
}

fn check_count(total: usize, of_entry: usize, key: &str) -> Result<(), Diagnostic> {
    if total as u64 > MAX_FLOWS {
        let message = format!("{of_entry} flows here, {total} in total");
        return refuse(key, message, format!("at most {MAX_FLOWS} flows in a run"));
    }
    Ok(())
}

/// Calls `file` for every arrival of a Poisson process (exponential times between arrivals).
fn arrive(
    arrivals: &Arrivals,
    table: &str,
    start: Nanos,
    end: Nanos,
    mut random: Random,
    mut file: impl FnMut(Nanos, Bytes),
) -> Result<(), Diagnostic> {
    let rate = arrivals.rate.value();
    if rate <= 0.0 {
        let message = format!("with `{}` no flow would arrive", arrivals.rate);
        return refuse(format!("{table}.rate"), message, "a frequency above zero such as 10/s");
    }
    if arrivals.limit == Some(0) {
        return refuse(format!("{table}.limit"), "`0` is out of range", "a whole number from 1");
    }
    let limit = u64::from(arrivals.limit.unwrap_or(u32::MAX));
    let expected = rate * (end - start).as_secs_f64();
    if expected.min(limit as f64) > MAX_FLOWS as f64 {
        let message = format!("about {expected:.0} flows would arrive");
        return refuse(format!("{table}.rate"), message, format!("at most {MAX_FLOWS} flows in a run"));
    }
    let draw = sizes(&arrivals.size.0, &format!("{table}.size"))?;
    let (mut at, mut arrived) = (start.as_secs_f64(), 0);
    loop {
        at += random.exponential(1.0 / rate);
        let now = Nanos::from_secs_f64(at);
        if now >= end || arrived == limit {
            return Ok(());
        }
        arrived += 1;
        file(now, draw(&mut random));
    }
}

/// Returns a function that draws file sizes.
fn sizes(size: &FileSize, table: &str) -> Result<impl Fn(&mut Random) -> Bytes + use<>, Diagnostic> {
    let (FileSize::Fixed(Mean { mean }) | FileSize::Exponential(Mean { mean }) | FileSize::Pareto(Pareto { mean, .. })) =
        size;
    let mean = mean.value();
    if mean.is_zero() {
        return refuse(table, "a mean size of zero", "a size above zero");
    }
    if let FileSize::Pareto(Pareto { shape: Some(shape), .. }) = size
        && *shape <= 1.0
    {
        let message = format!("`{shape}` makes the mean infinite");
        return refuse(format!("{table}.shape"), message, "a number above 1, such as 1.2");
    }
    let size = size.clone();
    Ok(move |random: &mut Random| {
        let bytes = match &size {
            FileSize::Fixed(_) => return mean,
            FileSize::Exponential(_) => random.exponential(mean.as_f64()),
            // A Pareto variate is its minimum times e^(E/shape), where E is exponential with mean 1.
            FileSize::Pareto(Pareto { shape, .. }) => {
                let shape = shape.unwrap_or(1.2);
                mean.as_f64() * (shape - 1.0) / shape * libm::exp(random.exponential(1.0) / shape)
            }
        };
        Bytes::from_f64(bytes).max(Bytes::new(1))
    })
}
