//! The elements of a link, checked and resolved.

use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_cc::{Bytes, Nanos, Params, Rate};
use narrows_net::config::{self, Capacity, Limit};
use narrows_net::timeline::{DelayTrace, LossTrace, Timeline, TimelineError};
use narrows_net::trace::{CapacityTrace, OPPORTUNITY_BYTES};
use narrows_routers::protocol::Explicit;
use narrows_routers::{self as routers, RouterConfig, controller};

use crate::diagnostic::{Diagnostic, key_in, refuse, unknown};
use crate::files::{FileError, Files};
use crate::keys::{rate, time_or};
use crate::params;
use crate::quantity;
use crate::radio;
use crate::schema;
use crate::schema::choice::{self, Radio};

/// Buffer limit of queues that must not drop packets: access links and the reverse path.
pub(crate) const AMPLE: Limit = Limit::Packets(1_000_000);

/// Longest period of a capacity trace: 115 days, in milliseconds.
const LONGEST_TRACE_MS: u64 = 10_000_000_000;

/// Maximum number of transmission opportunities in a generated path, which take 400 MB of memory.
const MOST_OPPORTUNITIES: f64 = 50e6;

/// Cache of traces by file name, so that a sweep reads each file once.
#[derive(Default)]
pub(crate) struct Traces {
    capacity: BTreeMap<String, Arc<CapacityTrace>>,
    loss: BTreeMap<String, LossTrace>,
    delay: BTreeMap<String, DelayTrace>,
    /// The last generated path, and the inputs from which it was generated.
    radio: Option<(Recipe, Carried)>,
    /// Router state learned in earlier runs, by link name.
    pub(crate) learned: BTreeMap<String, String>,
}

/// Seed, length in milliseconds and settings of a generated path.
type Recipe = (u64, u64, radio::Settings);

/// Capacity of a link, with loss and delay over time.
#[derive(Clone)]
pub(crate) struct Carried {
    pub(crate) capacity: Capacity,
    /// The mean rate.
    pub(crate) rate: Rate,
    pub(crate) loss: Option<LossTrace>,
    pub(crate) delay: Option<DelayTrace>,
}

/// The capacity keys of one table, and the table's name.
pub(crate) struct Stated<'a> {
    pub(crate) table: &'a str,
    pub(crate) rate: Option<&'a quantity::Rate>,
    pub(crate) file: Option<&'a str>,
    pub(crate) radio: Option<&'a Radio>,
}

/// Inputs besides the scenario: files, the seed of the run, and cached traces.
pub(crate) struct Inputs<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) seed: u64,
    pub(crate) traces: &'a mut Traces,
}

fn read(key: &str, file: &str, files: &dyn Files, format: &str) -> Result<String, Diagnostic> {
    files.read(file).map_err(|failed| unreadable(key, &failed, format))
}

fn unreadable(key: &str, failed: &FileError, format: &str) -> Diagnostic {
    Diagnostic::new(key, format!("cannot read `{}`: {}", failed.place, failed.error)).accepted(format)
}

/// Reads the timeline in `file`. The timeline repeats with the period of the link's capacity trace, if the link
/// has one.
fn timeline<T: Copy + Default>(
    known: &mut BTreeMap<String, Timeline<T>>,
    parse: fn(&str) -> Result<Timeline<T>, TimelineError>,
    format: &str,
    (key, file): (&str, &str),
    files: &dyn Files,
    capacity: &Capacity,
) -> Result<Timeline<T>, Diagnostic> {
    let read_now = match known.get(file) {
        Some(known) => known.clone(),
        None => {
            let parsed = parse(&read(key, file, files, format)?)
                .map_err(|error| Diagnostic::new(key, format!("`{file}`: {error}")).accepted(format))?;
            known.insert(file.to_owned(), parsed.clone());
            parsed
        }
    };
    let Capacity::Trace(trace) = capacity else { return Ok(read_now) };
    let period = trace.period_duration();
    if read_now.end() > period {
        let ms = |time: Nanos| time.as_nanos() / 1_000_000;
        let found = format!("`{file}` extends to {} ms, the capacity trace to {} ms", ms(read_now.end()), ms(period));
        return refuse(key, found, "times within the capacity trace, with which it repeats");
    }
    Ok(read_now.repeating(period))
}

impl Traces {
    /// Returns the capacity trace in `file`, from the cache if possible.
    fn load(&mut self, key: &str, file: &str, files: &dyn Files) -> Result<Arc<CapacityTrace>, Diagnostic> {
        if let Some(trace) = self.capacity.get(file) {
            return Ok(Arc::clone(trace));
        }
        const FORMAT: &str = "a file in mahimahi format: one time in milliseconds per line, ascending";
        let text = read(key, file, files, FORMAT)?;
        let trace = CapacityTrace::parse(&text)
            .map_err(|error| Diagnostic::new(key, format!("`{file}`: {error}")).accepted(FORMAT))?;
        if trace.opportunities_ms.last().is_some_and(|&ms| ms > LONGEST_TRACE_MS) {
            return refuse(key, format!("`{file}` extends beyond {LONGEST_TRACE_MS} ms"), FORMAT);
        }
        let trace = Arc::new(trace);
        self.capacity.insert(file.to_owned(), Arc::clone(&trace));
        Ok(trace)
    }

    /// Calls `eat` with the contents of the files `used`: capacity, loss and delay traces, each sorted by name.
    pub(crate) fn contents(&self, used: [&[&str]; 3], mut eat: impl FnMut(u64)) {
        let [capacity, loss, delay] = used;
        for (_, trace) in self.capacity.iter().filter(|(file, _)| capacity.contains(&file.as_str())) {
            trace.opportunities_ms.iter().for_each(|&ms| eat(ms));
        }
        for (_, trace) in self.loss.iter().filter(|(file, _)| loss.contains(&file.as_str())) {
            trace.steps().iter().for_each(|&(at, share)| {
                eat(at.as_nanos());
                eat(share.to_bits());
            });
        }
        for (_, trace) in self.delay.iter().filter(|(file, _)| delay.contains(&file.as_str())) {
            trace.steps().iter().for_each(|&(at, delay)| {
                eat(at.as_nanos());
                eat(delay.as_nanos());
            });
        }
    }
}

impl Inputs<'_> {
    /// Reads a loss trace.
    pub(crate) fn loss(&mut self, key: &str, file: &str, capacity: &Capacity) -> Result<LossTrace, Diagnostic> {
        const FORMAT: &str = "a file with lines of `start_ms end_ms share`";
        timeline(&mut self.traces.loss, LossTrace::parse, FORMAT, (key, file), self.files, capacity)
    }

    /// Reads a delay trace.
    pub(crate) fn delay(&mut self, key: &str, file: &str, capacity: &Capacity) -> Result<DelayTrace, Diagnostic> {
        const FORMAT: &str = "a file with lines of `at_ms delay_ms`";
        timeline(&mut self.traces.delay, DelayTrace::parse, FORMAT, (key, file), self.files, capacity)
    }

    /// Resolves the capacity keys of one table; `None` if the table states none.
    pub(crate) fn carried(&mut self, stated: &Stated<'_>) -> Result<Option<Carried>, Diagnostic> {
        let key = |name: &str| format!("{}.{name}", stated.table);
        let plain = |capacity, rate| Carried { capacity, rate, loss: None, delay: None };
        Ok(Some(match (stated.rate, stated.file, stated.radio) {
            (None, None, None) => return Ok(None),
            (Some(stated), None, None) => {
                let rate = rate(&key("rate"), stated)?;
                plain(Capacity::Constant(rate), rate)
            }
            (None, Some(file), None) => {
                let trace = self.traces.load(&key("capacity_trace"), file, self.files)?;
                let mean = trace.mean_rate();
                plain(Capacity::Trace(trace), mean)
            }
            (None, None, Some(radio)) => {
                let recipe = recipe(&key("radio"), radio, self.seed)?;
                match &self.traces.radio {
                    Some((known, carried)) if *known == recipe => carried.clone(),
                    _ => {
                        let path = radio::generate(recipe.0, recipe.1, &recipe.2);
                        let rate = path.capacity.mean_rate();
                        let capacity = Capacity::Trace(Arc::new(path.capacity));
                        let carried = Carried { capacity, rate, loss: Some(path.loss), delay: Some(path.delay) };
                        self.traces.radio = Some((recipe, carried.clone()));
                        carried
                    }
                }
            }
            (_, Some(_), None) => {
                return refuse(key("capacity_trace"), "`rate` is also set", "either rate or capacity_trace");
            }
            (_, _, Some(_)) => {
                return refuse(
                    key("radio"),
                    "`rate` or `capacity_trace` is also set",
                    "one of rate, capacity_trace and radio",
                );
            }
        }))
    }
}

/// Resolves the settings of a generated path. `table` is empty if the keys have no table.
pub(crate) fn recipe(table: &str, radio: &Radio, seed: u64) -> Result<Recipe, Diagnostic> {
    let Radio::FiveG(radio) = radio;
    let key = |name: &str| key_in(table, name);
    let rate_or = |name: &str, stated: Option<&quantity::Rate>, default| match stated {
        Some(stated) => rate(&key(name), stated),
        None => Ok(Rate::from_mbit_per_sec(default)),
    };
    let time_or =
        |stated: Option<&quantity::Time>, default| stated.map_or(Nanos::from_millis(default), quantity::Time::value);
    let settings = radio::Settings {
        mean: rate_or("mean", radio.mean.as_ref(), 150.0)?,
        peak: rate_or("peak", radio.peak.as_ref(), 1_000.0)?,
        loss: radio.loss.as_ref().map_or(0.005, quantity::Share::value),
        handovers: time_or(radio.handovers.as_ref(), 12_000),
        delay: time_or(radio.delay.as_ref(), 10),
    };
    let period = time_or(radio.period.as_ref(), 60_000);
    let (mean, peak) = (settings.mean.as_bytes_per_sec(), settings.peak.as_bytes_per_sec());
    if peak < mean.saturating_mul(radio::LEAST_PEAK) {
        let least = (mean * radio::LEAST_PEAK) as f64 * 8.0 / 1e6;
        let name = if radio.peak.is_none() { "mean" } else { "peak" };
        let accepted = format!("a peak of at least {least}mbit, three times the mean");
        return refuse(key(name), "the peak is too close to the mean", accepted);
    }
    if settings.handovers < radio::LEAST_HANDOVERS || settings.handovers > Nanos::from_secs(3_600) {
        let message = "the mean time to the next handover is out of range";
        return refuse(key("handovers"), message, "a time from 500ms to 60min");
    }
    if settings.delay > Nanos::from_secs(1) {
        return refuse(key("delay"), "the delay of a cell is out of range", "a time up to 1s");
    }
    if settings.loss > settings.most_loss() {
        let most = libm::floor(settings.most_loss() * 1e4) / 1e2;
        let found = format!("`{}%` is more than such rare handovers can lose", settings.loss * 100.0);
        return refuse(key("loss"), found, format!("up to {most}%, or more frequent handovers"));
    }
    let length_ms = period.as_nanos() / 1_000_000;
    let opportunities = period.as_secs_f64() * mean as f64 / OPPORTUNITY_BYTES as f64;
    if length_ms < 1_000 || opportunities > MOST_OPPORTUNITIES {
        let longest = libm::floor(MOST_OPPORTUNITIES * OPPORTUNITY_BYTES as f64 / mean as f64);
        let accepted = format!("a time from 1s to {longest}s at this mean rate");
        return refuse(key("period"), "the path is too short or too long", accepted);
    }
    Ok((radio.seed.unwrap_or(seed), length_ms, settings))
}

/// Resolves a policer.
pub(crate) fn policer(table: &str, policer: &schema::Policer, packet: Bytes) -> Result<config::Policer, Diagnostic> {
    let burst = policer.burst.value();
    if burst < packet {
        let message = format!("`{}` is less than a packet", policer.burst);
        return refuse(format!("{table}.burst"), message, format!("at least one packet of {} B", packet.as_u64()));
    }
    Ok(config::Policer { rate: rate(&format!("{table}.rate"), &policer.rate)?, burst })
}

/// Resolves a router algorithm; `None` for the name `none`.
pub(crate) fn router(table: &str, stated: &choice::Router) -> Result<Option<RouterConfig>, Diagnostic> {
    if stated.kind == "none" {
        let dies = stated.dies.as_ref().map(|_| "dies");
        return match stated.params.keys().map(String::as_str).next().or(dies) {
            Some(key) => refuse(format!("{table}.{key}"), "`none` has no such parameter", "no parameter"),
            None => Ok(None),
        };
    }
    let Some(entry) = routers::find(&stated.kind) else {
        if let Some((name, inline)) = stated.kind.split_once(':')
            && routers::find(name.trim()).is_some()
        {
            let message = format!("there is no router `{}`; parameters go into a table", stated.kind);
            return refuse(table, message, as_table(name.trim(), inline));
        }
        let known = routers::ALL.iter().map(|entry| entry.info.name).chain(["none"]);
        return Err(unknown(&format!("there is no router `{}`", stated.kind), &stated.kind, known).within(table));
    };
    let mut params = Params::defaults(entry.info.params);
    for (name, value) in &stated.params {
        let key = format!("{table}.{name}");
        params::set(&mut params, entry.info.name, entry.info.params, name, &params::plain(value), &key)?;
    }
    let dies = stated.dies.as_ref().map_or(Nanos::MAX, quantity::Time::value);
    Ok(Some(RouterConfig { dies, ..RouterConfig::new(entry, params) }))
}

/// The table of a router whose parameters follow a colon, as a scheme's parameters may.
fn as_table(kind: &str, inline: &str) -> String {
    let pairs = inline.split(',').filter_map(|part| part.split_once('='));
    let entry = |(name, value): (&str, &str)| match value.trim() {
        value if value.parse::<f64>().is_ok() => format!(", {} = {value}", name.trim()),
        value => format!(", {} = \"{value}\"", name.trim()),
    };
    format!("{{ kind = \"{kind}\"{} }}", pairs.map(entry).collect::<String>())
}

/// The router algorithm that reads this kind of rate header, with default parameters.
pub(crate) fn default_router(explicit: Explicit) -> RouterConfig {
    match routers::find(explicit.router()) {
        Some(entry) => RouterConfig::new(entry, Params::defaults(entry.info.params)),
        None => unreachable!("every explicit header has its router"),
    }
}

/// Reads the state that routers learned in earlier runs.
pub(crate) fn learned(file: Option<&str>, files: &dyn Files, traces: &mut Traces) -> Result<(), Diagnostic> {
    const FORMAT: &str = "a JSON object with a text for each link";
    traces.learned.clear();
    let Some(file) = file else { return Ok(()) };
    match files.read(file) {
        Ok(text) => {
            traces.learned = serde_json::from_str(&text)
                .map_err(|error| Diagnostic::new(LEARNED, format!("`{file}`: {error}")).accepted(FORMAT))?;
            Ok(())
        }
        // A missing file means that no run has learned state yet.
        Err(failed) if failed.is_missing() => Ok(()),
        Err(failed) => Err(unreadable(LEARNED, &failed, FORMAT)),
    }
}

/// Gives a router the state that earlier runs learned at this link.
pub(crate) fn teach(link: &str, own: &mut RouterConfig, traces: &Traces) -> Result<(), Diagnostic> {
    if let Some(text) = traces.learned.get(link) {
        own.entry.check_learned(text).map_err(|problem| {
            Diagnostic::new(LEARNED, format!("the state that `{link}` learned cannot be read: {problem}"))
                .accepted("a file that `narrows run --learn` wrote, or none")
        })?;
        own.learned = Some(Arc::from(text.as_str()));
    }
    Ok(())
}

const LEARNED: &str = "network.learned";

/// Resolves the settings of the switch controller.
pub(crate) fn controller(stated: Option<&schema::Controller>) -> Result<controller::Config, Diagnostic> {
    let default = controller::Config::default();
    let Some(stated) = stated else { return Ok(default) };
    let time = |stated: &Option<quantity::Time>, default| stated.as_ref().map_or(default, quantity::Time::value);
    let share = |stated: &Option<quantity::Share>, default| stated.as_ref().map_or(default, |s| s.value());
    let poll = time(&stated.poll, default.poll);
    if poll.is_zero() {
        return refuse("network.controller.poll", "a polling interval of zero", "a time above zero");
    }
    Ok(controller::Config {
        poll,
        delay: time(&stated.delay, default.delay),
        utilization: share(&stated.utilization, default.utilization),
        queue: share(&stated.queue, default.queue),
        ..default
    })
}

/// Resolves the settings of reordering.
pub(crate) fn reordering(table: &str, reorder: &schema::Reorder) -> Result<config::Reordering, Diagnostic> {
    let delay = time_or(format!("{table}.delay"), Some(&reorder.delay), Nanos::ZERO)?;
    Ok(config::Reordering { probability: reorder.probability.value(), delay })
}
