//! Every effective option of a scenario, and its origin.

mod flow;

use narrows_net::config;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostic, Location, show};
use crate::plan::{LinkPlan, Plan};
use crate::queue;
use crate::schema::table::{names, object};
use crate::schema::value::Protocol;
use crate::schema::{Link, Network, NetworkKind, Scenario};
use crate::tree::{Tree, names_in};

/// One option and its origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The option's key in its table.
    pub key: String,
    /// The option's value, as a scenario spells it.
    pub value: Value,
    /// The value in the run's units, if it depends on other values, such as the bytes of `1bdp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// The value's origin: `default`, `profile NAME`, `command line`, `[sweep]`, the table that states it such
    /// as `[tcp]`, `scheme` if the flow's scheme needs it, or `derived` if it follows from another option.
    pub from: String,
    /// The number of the line that states the value, if any does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// The options of an entry of `flows`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowOptions {
    /// The flow's label.
    pub flow: String,
    /// The flow's scheme.
    pub scheme: &'static str,
    /// The flow's transport protocol.
    pub protocol: Protocol,
    /// Keys of the flow itself.
    pub options: Vec<Row>,
    /// Settings of the flow's transport.
    pub transport: Vec<Row>,
    /// Parameters of the flow's scheme.
    pub params: Vec<Row>,
}

/// The options of a listed link of a graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkOptions {
    /// The link's name.
    pub link: String,
    /// The link's keys.
    pub options: Vec<Row>,
}

/// The options of one point of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The scenario's name.
    pub scenario: String,
    /// The swept keys with their values.
    pub point: Map<String, Value>,
    /// Duration, warm-up, seeds and trace.
    pub run: Vec<Row>,
    /// The network.
    pub network: Vec<Row>,
    /// The links of a graph.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkOptions>,
    /// The flows.
    pub flows: Vec<FlowOptions>,
}

/// The scenario's text, its parsed tree and the swept keys, which together determine the origin of each option.
pub(crate) struct Origins<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) text: &'a str,
    pub(crate) point: &'a [(String, String)],
}

impl Origins<'_> {
    /// The value that the scenario states for a key.
    fn stated(&self, key: &str) -> Option<&Tree> {
        key.split('.').try_fold(self.tree, |here, segment| here.child(segment))
    }

    /// The row of a key that the scenario states.
    fn row(&self, name: &str, value: Value, key: &str, at: Location) -> Row {
        let table = match key.split('.').next() {
            Some(list @ ("flows" | "links")) => format!("[[{list}]]"),
            Some(table) if key.contains('.') => format!("[{table}]"),
            _ => "scenario".to_owned(),
        };
        let swept = self.point.iter().any(|(axis, _)| key == axis || names_in(key).eq(names_in(axis)));
        let (from, line) = match at {
            Location::CommandLine => ("command line".to_owned(), None),
            Location::Text(offset) => {
                let before = self.text.get(..offset).unwrap_or(self.text);
                let from = if swept { "[sweep]".to_owned() } else { table };
                (from, Some(before.matches('\n').count() + 1))
            }
            Location::Unknown => (table, None),
        };
        Row { key: name.to_owned(), value, resolved: None, from, line }
    }

    /// The row of `name`, from the first of `keys` that the scenario states; if it states none, with the origin
    /// `otherwise`.
    fn option(&self, name: &str, value: Value, keys: &[String], otherwise: &str) -> Row {
        match keys.iter().find_map(|key| self.stated(key).map(|tree| (key, tree.at))) {
            Some((key, at)) => self.row(name, value, key, at),
            None => Row { key: name.to_owned(), value, resolved: None, from: otherwise.to_owned(), line: None },
        }
    }
}

/// Explains one point of a scenario.
pub(crate) fn explain(scenario: &Scenario, plan: &Plan, origins: &Origins<'_>) -> Result<Explanation, Diagnostic> {
    let top = object(scenario);
    let of_top = |name: &str| origins.option(name, top[name].clone(), &[name.to_owned()], "default");
    let mut run: Vec<Row> = ["duration", "warmup", "seed", "repeat"].map(of_top).into();
    let trace = object(&scenario.trace);
    run.extend(["samples", "packets"].map(|name| {
        let key = format!("trace.{name}");
        origins.option(&key, trace[name].clone(), std::slice::from_ref(&key), "default")
    }));
    let point = origins.point.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    let flows = (0..scenario.flows.len()).map(|index| flow::options(scenario, index, origins));
    Ok(Explanation {
        scenario: scenario.name.clone(),
        point: point.collect(),
        run,
        network: network(scenario, plan, origins),
        links: (0..scenario.links.len()).map(|index| link(scenario, index, plan, origins)).collect(),
        flows: flows.collect::<Result<_, _>>()?,
    })
}

/// Defaults of the keys of `[network]` that a scenario may omit; `None` if a key does not apply.
fn unstated(network: &Network, kind: NetworkKind, key: &str) -> Option<&'static str> {
    let access = network.access_rate.is_some();
    let dumbbell = kind == NetworkKind::Dumbbell;
    match key {
        "kind" => Some(if dumbbell { "dumbbell" } else { "graph" }),
        "access_delay" => access.then_some("0ms"),
        "access_buffer" => access.then_some("ample"),
        "receiver_access" => access.then_some("true"),
        "reverse_rate" => dumbbell.then_some("that of the bottleneck"),
        "reverse_buffer" => dumbbell.then_some("ample"),
        "jitter" | "reorder" | "policer" | "access_rate" | "router" => Some("none"),
        _ => None,
    }
}

fn network(scenario: &Scenario, plan: &Plan, origins: &Origins<'_>) -> Vec<Row> {
    let network = &scenario.network;
    let kind = network.kind.unwrap_or(match scenario.links.is_empty() {
        true => NetworkKind::Dumbbell,
        false => NetworkKind::Graph,
    });
    let values = object(network);
    let first = plan.links.first().filter(|_| kind != NetworkKind::Graph);
    let mut rows = Vec::new();
    for key in names::<Network>() {
        let place = format!("network.{key}");
        let stated = values.get(*key).cloned();
        let absent = || unstated(network, kind, key).map(Value::from);
        // The resolved router of the bottleneck. If the scenario states no router, a flow's scheme has implied it.
        let router = first.and_then(|link| link.router.as_ref()).filter(|_| *key == "router");
        let implied = router.map(|router| Value::from(router.entry.info.name));
        let needed = stated.is_none() && implied.is_some();
        let Some(value) = stated.or(implied).or_else(absent) else { continue };
        let row = origins.option(key, value, std::slice::from_ref(&place), if needed { "scheme" } else { "default" });
        add(&mut rows, row, first, &[place], origins);
    }
    rows
}

/// The rows of a link in a graph; its keys are stated in the link's table or in `[network]`.
fn link(scenario: &Scenario, index: usize, plan: &Plan, origins: &Origins<'_>) -> LinkOptions {
    let link = &scenario.links[index];
    let (own, common) = (object(link), object(&scenario.network));
    let name = link.name.clone().unwrap_or_else(|| format!("{}-{}", link.from, link.to));
    let planned = plan.links.iter().find(|planned| planned.name == name);
    let mut options = Vec::new();
    for key in names::<Link>() {
        let Some(value) = own.get(*key).or_else(|| common.get(*key)) else { continue };
        let places = [format!("links.{index}.{key}"), format!("network.{key}")];
        let row = origins.option(key, value.clone(), &places, "default");
        add(&mut options, row, planned, &places, origins);
    }
    LinkOptions { link: name, options }
}

/// Adds the row of a key stated at one of `places`. The row of a buffer gets the resolved size; the row of a
/// queue is followed by the rows of the queue's parameters.
fn add(rows: &mut Vec<Row>, mut row: Row, link: Option<&LinkPlan>, places: &[String], origins: &Origins<'_>) {
    match (row.key.as_str(), link) {
        ("buffer", Some(link)) => row.resolved = Some(limit(&link.config.limit)),
        ("queue", Some(link)) => {
            let kind = row.value.get("kind").unwrap_or(&row.value);
            row.value = kind.as_str().unwrap_or_default().into();
            rows.push(row);
            return rows.extend(queue_rows(&link.config.queue, places, origins));
        }
        _ => {}
    }
    rows.push(row);
}

fn limit(limit: &config::Limit) -> String {
    match limit {
        config::Limit::Packets(packets) => format!("{packets}pkt"),
        config::Limit::Bytes(bytes) => format!("{}B", bytes.as_u64()),
        config::Limit::Time(time) => show(*time),
    }
}

/// Rows of the parameters of a queue discipline that is stated at one of the keys `places`.
fn queue_rows(config: &config::Queue, places: &[String], origins: &Origins<'_>) -> Vec<Row> {
    // The first table that states a queue states all keys of that queue.
    let owner = places.iter().find(|place| origins.stated(place).is_some());
    let row = |(name, value): (&str, Value)| {
        let keys: Vec<String> = owner.map(|place| format!("{place}.{name}")).into_iter().collect();
        origins.option(&format!("queue.{name}"), value, &keys, "default")
    };
    let mut rows: Vec<Row> = queue::rows(config).into_iter().map(row).collect();
    if let (config::Queue::Htb(_), Some(place)) = (config, owner) {
        for name in ["classes", "default"] {
            let key = format!("{place}.{name}");
            if let Some(tree) = origins.stated(&key) {
                rows.push(origins.row(&format!("queue.{name}"), tree.label().into(), &key, tree.at));
            }
        }
    }
    rows
}
