//! Expansion of one scenario to runs: order and number of points, seeds, names of runs, and arrivals.

use std::collections::{BTreeMap, BTreeSet};

use crate::texts::{plan, plan_with, planned};
use narrows_cc::{Bytes, Nanos};
use narrows_scenario::{NoFiles, Run, Source, expand, resolve, schema_json};
use narrows_traffic::AppConfig;

fn points(runs: &[Run]) -> Vec<String> {
    let point = |run: &Run| {
        let point: Vec<_> = run.point.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} #{}", point.join(" "), run.seed)
    };
    runs.iter().map(point).collect()
}

const SWEPT: &str = r#"
seed = 7
repeat = 2
[network]
rate = "100mbit"
[[flows]]
scheme = "newreno"
rtt = "10ms"
[[flows]]
scheme = "fixed"
rtt = "20ms"
[sweep]
"network.rate" = ["100mbit", "10mbit"]
"flows.1.rtt" = ["30ms", "40ms"]
"#;

/// A sweep is the product of its axes, in the order of the file, with all seeds per point.
#[test]
fn sweep_is_product_of_axes_in_file_order_times_seeds() {
    let runs = planned(SWEPT, &[]);
    assert_eq!(
        points(&runs),
        [
            "network.rate=100mbit flows.1.rtt=30ms #7",
            "network.rate=100mbit flows.1.rtt=30ms #8",
            "network.rate=100mbit flows.1.rtt=40ms #7",
            "network.rate=100mbit flows.1.rtt=40ms #8",
            "network.rate=10mbit flows.1.rtt=30ms #7",
            "network.rate=10mbit flows.1.rtt=30ms #8",
            "network.rate=10mbit flows.1.rtt=40ms #7",
            "network.rate=10mbit flows.1.rtt=40ms #8",
        ]
    );
    let spec = resolve(&runs[5].scenario, runs[5].seed, &NoFiles).unwrap();
    assert_eq!(spec.seed, 8);
    assert_eq!(spec.flows[0].base_rtt, Nanos::from_millis(10));
    assert_eq!(spec.flows[1].base_rtt, Nanos::from_millis(30));
    // The limit is one BDP of 10 Mbit/s × 30 ms.
    assert_eq!(spec.links[0].config.limit, narrows_net::config::Limit::Bytes(Bytes::new(37_500)));
}

/// A scenario with two flows, one of which is swept: a comparison of schemes in competition with a fixed scheme.
const ONE_SWEPT: &str = r#"
[network]
rate = "10mbit"
queue = "codel"
[[flows]]
scheme = "newreno"
label = "a"
rtt = "10ms"
[[flows]]
scheme = "newreno"
label = "b"
rtt = "10ms"
[sweep]
"network.queue.target" = ["5ms"]
"flows.0.scheme" = ["vegas", "fixed"]
"#;

/// An override of all flows replaces the sweep of one flow. The names of points contain the values in use.
#[test]
fn override_of_all_items_ends_sweep_of_one() {
    let schemes = |run: &Run| run.scenario.flows.iter().map(|flow| flow.scheme.clone()).collect::<Vec<_>>();
    let runs = planned(ONE_SWEPT, &[("flows.scheme", "cubic")]);
    assert_eq!(points(&runs), ["network.queue.target=5ms #1"]);
    assert_eq!(schemes(&runs[0]), ["cubic", "cubic"]);
    let runs = planned(ONE_SWEPT, &[("flows.scheme", "cubic,bbr"), ("flows.1.scheme", "reno")]);
    assert_eq!(
        points(&runs),
        ["network.queue.target=5ms flows.scheme=cubic #1", "network.queue.target=5ms flows.scheme=bbr #1"]
    );
    assert_eq!(schemes(&runs[0]), ["cubic", "reno"]);
    assert_eq!(schemes(&runs[1]), ["bbr", "reno"]);
    // Override the other flow's scheme, and a key inside a table that is now swept.
    let runs = planned(ONE_SWEPT, &[("flows.1.scheme", "bbr"), ("network.queue", "codel,fq-codel")]);
    assert_eq!(runs.len(), 4);
    for run in &runs {
        let point: Vec<_> = run.point.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let queue = serde_json::to_value(&run.scenario.network.queue).unwrap();
        assert_eq!(point[0], ("network.queue", queue["kind"].as_str().unwrap()));
        assert_eq!(point[1], ("network.queue.target", queue["target"].as_str().unwrap()));
        assert_eq!(point[2].1, run.scenario.flows[0].scheme);
    }
}

/// In messages about a file, a swept key has the prefix `sweep.`; in messages about options such as `--each`,
/// it has none.
#[test]
fn swept_key_of_options_has_no_prefix() {
    let text = ONE_SWEPT.replace("flows.0.scheme", "flows.0.rtt");
    let key = |name| expand(&Source { name, text: &text, files: &NoFiles }, &[]).unwrap_err().key.unwrap();
    assert_eq!(key("a.toml"), "sweep.flows.0.rtt");
    assert_eq!(key("command line"), "flows.0.rtt");
}

/// A text that consists of one header is a TOML table, although it could be a JSON list.
#[test]
fn header_with_a_quoted_name_is_toml() {
    let set = [("network.rate", "10mbit"), ("flows", "[{ scheme = \"newreno\", rtt = \"40ms\" }]")];
    assert_eq!(planned("[\"network\"]", &set).len(), 1);
}

/// An axis that would override another axis is refused.
#[test]
fn axis_that_undoes_another_is_refused() {
    let refusal = |text: &str, overrides: &[(&str, &str)]| {
        let overrides: Vec<_> = overrides.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        expand(&Source { name: "a.toml", text, files: &NoFiles }, &overrides).unwrap_err().to_string()
    };
    assert_eq!(
        refusal(&format!("{ONE_SWEPT}\"flows.scheme\" = [\"cubic\"]"), &[]),
        "a.toml:16: sweep.flows.scheme: this undoes the earlier sweep of flows.0.scheme\n  \
         accepted: each key on one axis"
    );
    assert_eq!(
        refusal(ONE_SWEPT, &[("flows.1.scheme", "cubic,bbr"), ("flows.scheme", "reno")]),
        "command line: flows.scheme: this would undo the sweep of flows.1.scheme\n  \
         accepted: flows.scheme before flows.1.scheme"
    );
    let all = ONE_SWEPT.replace("flows.0.scheme", "flows.scheme");
    let own = [("flows.0.scheme", "bbr"), ("flows.1.scheme", "reno,cubic")];
    assert_eq!(
        refusal(&all, &own),
        "a.toml:15: sweep.flows.scheme: every item of flows has its own `scheme`, so these values have no effect\n  \
         accepted: one value for `flows.scheme`, or no own value for one of flows"
    );
    assert_eq!(planned(&all, &own[..1]).len(), 2, "the other flow keeps its sweep");
    let cases =
        ONE_SWEPT.replace("\"flows.0.scheme\" = [\"vegas\", \"fixed\"]", "cases = [{ \"flows.0.scheme\" = \"bbr\" }]");
    assert_eq!(
        refusal(&cases, &[("flows.scheme", "reno")]),
        "command line: flows.scheme: `flows.0.scheme` is set by sweep.cases\n  \
         accepted: a key that no case sets"
    );
}

/// An override replaces a value or an axis, and an override with a list of values creates an axis.
#[test]
fn override_replaces_value_or_axis_and_list_makes_axis() {
    let runs = planned(
        SWEPT,
        &[("repeat", "1"), ("network.rate", "1gbit"), ("flows.scheme", "newreno,fixed:window=2,rate=5")],
    );
    assert_eq!(
        points(&runs),
        [
            "flows.1.rtt=30ms flows.scheme=newreno #7",
            "flows.1.rtt=30ms flows.scheme=fixed:window=2,rate=5 #7",
            "flows.1.rtt=40ms flows.scheme=newreno #7",
            "flows.1.rtt=40ms flows.scheme=fixed:window=2,rate=5 #7",
        ]
    );
    assert!(runs.iter().all(|run| run.scenario.network.rate.as_ref().unwrap().to_string() == "1gbit"));
    assert!(runs[1].scenario.flows.iter().all(|flow| flow.scheme == "fixed:window=2,rate=5"));
    let runs = planned(SWEPT, &[("repeat", "1"), ("network.rate", "1gbit,2gbit,3gbit"), ("flows.1.rtt", "5ms")]);
    assert_eq!(points(&runs), ["network.rate=1gbit #7", "network.rate=2gbit #7", "network.rate=3gbit #7"]);
}

/// An override of one flow takes precedence over a sweep of all flows.
#[test]
fn override_of_one_flow_wins_over_sweep_of_all() {
    let text = SWEPT.replace("\"flows.1.rtt\"", "\"flows.rtt\"");
    let runs = planned(&text, &[("repeat", "1"), ("flows.0.rtt", "99ms")]);
    assert_eq!(runs.len(), 4);
    for run in runs {
        let rtts: Vec<_> = run.scenario.flows.iter().map(|flow| flow.rtt.as_ref().unwrap().to_string()).collect();
        assert_eq!(rtts, ["99ms", run.point[1].1.as_str()]);
    }
}

/// Each case sets several keys, and all cases form one axis.
#[test]
fn cases_set_several_keys_and_are_one_axis() {
    let sweep = r#"
        [sweep]
        "network.buffer" = ["1bdp", "2bdp"]
        cases = [
            { label = "slow", "network.rate" = "10mbit", "flows.rtt" = "80ms" },
            { network.rate = "20mbit", "network.queue" = { kind = "codel", target = "1ms" } },
        ]
    "#;
    let text = format!("[network]\nrate = \"100mbit\"\n{}{sweep}", crate::texts::flows(&[("newreno", "10ms", "")]));
    let runs = planned(&text, &[]);
    assert_eq!(
        points(&runs),
        [
            "network.buffer=1bdp case=slow #1",
            "network.buffer=1bdp case=20mbit {kind = \"codel\", target = \"1ms\"} #1",
            "network.buffer=2bdp case=slow #1",
            "network.buffer=2bdp case=20mbit {kind = \"codel\", target = \"1ms\"} #1",
        ]
    );
    let specs: Vec<_> = runs.iter().map(|run| resolve(&run.scenario, run.seed, &NoFiles).unwrap()).collect();
    // In the case `slow`, the BDP is 10 Mbit/s × 80 ms; in the other case, it is 20 Mbit/s × 10 ms.
    let limit = |index: usize| match specs[index].links[0].config.limit {
        narrows_net::config::Limit::Bytes(bytes) => bytes.as_u64(),
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 1, 2, 3].map(limit), [100_000, 25_000, 200_000, 50_000]);
}

/// Dotted keys can be swept with and without quotes.
#[test]
fn unquoted_dotted_keys_sweep_like_quoted_ones() {
    let quoted = planned(SWEPT, &[]);
    let unquoted =
        planned(&SWEPT.replace("\"network.rate\" =", "network.rate =").replace("\"flows.1.rtt\"", "flows.1.rtt"), &[]);
    assert_eq!(points(&quoted), points(&unquoted));
}

/// Names of runs are distinct and stable. A run's name depends only on the run, not on the other runs of the sweep.
#[test]
fn run_ids_are_distinct_and_depend_on_the_run_alone() {
    let runs = planned(SWEPT, &[]);
    let ids: BTreeSet<_> = runs.iter().map(|run| &run.id).collect();
    assert_eq!(ids.len(), runs.len());
    assert!(runs.iter().all(|run| run.id.len() == 16 && run.id.bytes().all(|b| b.is_ascii_hexdigit())));
    assert_eq!(planned(SWEPT, &[])[3].id, runs[3].id);
    // A run has the same name without the sweep, and with more seeds.
    let alone = planned(SWEPT, &[("repeat", "1"), ("seed", "8"), ("network.rate", "10mbit"), ("flows.1.rtt", "40ms")]);
    assert_eq!(alone[0].id, runs[7].id);
    assert_eq!(planned(SWEPT, &[("repeat", "5")])[6].id, planned(SWEPT, &[("repeat", "9")])[10].id);
    // Stating a default gives the same scenario and name; another value does not.
    let id = |overrides: &[(&str, &str)]| planned(SWEPT, overrides)[0].id.clone();
    assert_eq!(
        id(&[("network.buffer", "1bdp"), ("duration", "60s"), ("network.queue", "{ kind = 'droptail' }")]),
        id(&[])
    );
    assert_ne!(id(&[("network.buffer", "2bdp")]), id(&[]));
}

/// A run's name depends on the contents of its capacity trace.
#[test]
fn run_id_depends_on_content_of_capacity_trace() {
    let text = "[network]\ncapacity_trace = \"c\"\n[[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\n";
    let id = |trace: &str| {
        let files = BTreeMap::from([("c".to_owned(), trace.to_owned())]);
        expand(&Source { name: "t", text, files: &files }, &[]).unwrap().remove(0).id
    };
    let (first, second, again) = (id("1\n2\n"), id("1\n3\n"), id("1\n2\n"));
    assert_ne!(first, second);
    assert_eq!(first, again);
}

/// A run's name depends on the contents of its loss and delay traces.
#[test]
fn run_id_depends_on_loss_and_delay_traces() {
    let text = "[network]\nrate = \"10mbit\"\nloss_trace = \"l\"\ndelay_trace = \"d\"\n\
                [[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\n";
    let id = |loss: &str, delay: &str| {
        let files = [("l", loss), ("d", delay)].map(|(name, text)| (name.to_owned(), text.to_owned()));
        expand(&Source { name: "t", text, files: &BTreeMap::from(files) }, &[]).unwrap().remove(0).id
    };
    let ids = [id("1 2 0.5", "1 2"), id("1 2 0.25", "1 2"), id("1 2 0.5", "1 3"), id("1 2 0.5", "1 2")];
    assert_ne!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
    assert_eq!(ids[0], ids[3]);
}

/// A scenario written as JSON and read back equals the original.
#[test]
fn scenario_round_trip_through_json_is_lossless() {
    let text = r#"
        name = "everything"
        duration = "1.50s"
        warmup = "3%"
        [network]
        rate = "100mbit"
        buffer = "5bdp@10ms"
        queue = { kind = "red", min = "5pkt", weight = 0.01, ecn = true }
        loss = { kind = "gilbert-elliott", to_bad = "1%", to_good = "10%" }
        jitter = "1ms"
        access_rate = "1gbit"
        [tcp]
        initial_window = 1
        [[flows]]
        scheme = "newreno"
        params = { abc = false }
        rtt = "10ms"
        app = { kind = "on-off", on = "1s", off = "1s" }
        [[flows]]
        scheme = "fixed"
        params = { window = 2.5, rate = "3mbit" }
        rtt = "10ms"
        arrivals = { rate = "100/s", size = { kind = "pareto", mean = "10kB" }, limit = 50 }
        [trace]
        samples = "10ms"
    "#;
    let run = planned(text, &[]).remove(0);
    let json = serde_json::to_string(&run.scenario).unwrap();
    let again = planned(&json, &[]).remove(0);
    assert_eq!(again.scenario, run.scenario);
    assert_eq!(again.id, run.id);
    assert!(json.contains("\"1.50s\"") && json.contains("\"5bdp@10ms\""), "texts stay as written: {json}");
    assert_eq!(serde_json::to_string(&again.scenario).unwrap(), json);
}

/// A scenario may be JSON: its sweep keeps the order of its keys, and a null counts as not stated.
#[test]
fn json_scenario_keeps_sweep_order_and_drops_nulls() {
    let text = r#" {"network": {"rate": "100mbit", "capacity_trace": null},
        "flows": [{"scheme": "newreno", "rtt": "10ms", "count": null}],
        "sweep": {"network.rate": ["1mbit", "2mbit"], "flows.rtt": ["30ms", "20ms"], "duration": ["5s"]}}"#;
    assert_eq!(
        points(&planned(text, &[])),
        [
            "network.rate=1mbit flows.rtt=30ms duration=5s #1",
            "network.rate=1mbit flows.rtt=20ms duration=5s #1",
            "network.rate=2mbit flows.rtt=30ms duration=5s #1",
            "network.rate=2mbit flows.rtt=20ms duration=5s #1",
        ]
    );
}

fn arrivals(size: &str, seed: u64) -> Vec<(Nanos, u64)> {
    let text = format!(
        "duration = \"200s\"\nseed = {seed}\n[network]\nrate = \"1gbit\"\n[[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\n\
         start = \"100s\"\narrivals = {{ rate = \"100/s\", size = {size} }}\n"
    );
    let file = |flow: &narrows_scenario::FlowPlan| match flow.app {
        AppConfig::File(size) => (flow.start, size.as_u64()),
        other => panic!("{other:?}"),
    };
    plan(&text).flows.iter().map(file).collect()
}

/// Arrivals are a Poisson process, which the seed determines.
#[test]
fn arrivals_are_a_poisson_process_of_the_seed() {
    let files = arrivals("\"100kB\"", 3);
    assert_eq!(files, arrivals("\"100kB\"", 3));
    assert_ne!(files, arrivals("\"100kB\"", 4));
    // 100 arrivals/s over 100 s have a mean of 10 000 and a standard deviation of 100; the bound is four
    // standard deviations.
    assert!((files.len() as f64 - 10_000.0).abs() < 400.0, "{}", files.len());
    assert!(files.is_sorted_by_key(|&(start, _)| start));
    assert!(files[0].0 >= Nanos::from_secs(100) && files[files.len() - 1].0 < Nanos::from_secs(200));
    assert!(files.iter().all(|&(_, size)| size == 100_000));
    // Times between arrivals are exponential: their standard deviation equals their mean (within 5 %, about
    // five standard errors).
    let gaps: Vec<f64> = files.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_secs_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{} {mean}", variance.sqrt());
}

/// File sizes have the stated distribution.
#[test]
fn file_sizes_have_the_stated_distribution() {
    let mean = |files: &[(Nanos, u64)]| files.iter().map(|&(_, size)| size as f64).sum::<f64>() / files.len() as f64;
    let exponential = arrivals("{ kind = \"exponential\", mean = \"50kB\" }", 1);
    // The standard error of the mean of 10 000 exponential sizes is 1 %.
    assert!((mean(&exponential) / 50_000.0 - 1.0).abs() < 0.04, "{}", mean(&exponential));
    let above = exponential.iter().filter(|&&(_, size)| size > 100_000).count() as f64 / exponential.len() as f64;
    // For exponential sizes, P(X > 2 mean) = e^-2 = 0.1353.
    assert!((above - 0.1353).abs() < 0.015, "{above}");
    let pareto = arrivals("{ kind = \"pareto\", mean = \"50kB\", shape = 3 }", 1);
    // The minimum of Pareto sizes is mean × (shape − 1) / shape; the standard error of the mean is about 0.6 %.
    let least = 50_000.0 * 2.0 / 3.0;
    assert!(pareto.iter().all(|&(_, size)| size as f64 >= least - 1.0));
    assert!((mean(&pareto) / 50_000.0 - 1.0).abs() < 0.03, "{}", mean(&pareto));
    // For these Pareto sizes, P(X > 2 × minimum) = 2^-3.
    let above = pareto.iter().filter(|&&(_, size)| size as f64 > 2.0 * least).count() as f64 / pareto.len() as f64;
    assert!((above - 0.125).abs() < 0.015, "{above}");
}

/// Arrivals end when their limit is reached or when the flow stops.
#[test]
fn arrivals_end_at_limit_or_stop() {
    let text = "[network]\nrate = \"1gbit\"\n[[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\nstop = \"10s\"\n\
                arrivals = { rate = \"100/s\", size = \"1kB\" }\n";
    let flows = plan(text).flows;
    assert!(flows.iter().all(|flow| flow.start < Nanos::from_secs(10) && flow.stop.is_none()));
    // The number of arrivals has a mean of 1000 and a standard deviation of 32; the bound is four standard deviations.
    assert!((flows.len() as f64 - 1000.0).abs() < 130.0, "{}", flows.len());
    assert_eq!(plan_with(text, &[("flows.arrivals.limit", "5")]).flows.len(), 5);
}

/// The JSON Schema has every table and describes the units.
#[test]
fn schema_has_every_table_and_describes_units() {
    let schema: serde_json::Value = serde_json::from_str(&schema_json()).unwrap();
    let keys: BTreeSet<_> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "name", "duration", "warmup", "seed", "repeat", "literal", "network", "links", "tcp", "dccp", "flows", "trace",
        "sweep",
    ];
    assert_eq!(keys, expected.into_iter().collect());
    assert_eq!(schema["additionalProperties"], false);
    let definitions = &schema["$defs"];
    assert_eq!(definitions["Rate"]["type"], "string");
    assert!(definitions["Rate"]["description"].as_str().unwrap().contains("100mbit"));
    assert_eq!(definitions["Flow"]["required"], serde_json::json!(["scheme"]));
    assert!(definitions["Network"]["properties"]["queue"]["anyOf"].is_array());
}

/// Lines may end with CRLF.
#[test]
fn crlf_lines_are_accepted() {
    let text = SWEPT.replace('\n', "\r\n");
    assert_eq!(points(&planned(&text, &[])), points(&planned(SWEPT, &[])));
    let bad = text.replace("10ms", "10");
    let error = expand(&Source { name: "w.toml", text: &bad, files: &NoFiles }, &[]).unwrap_err();
    assert_eq!((error.line, error.column), (Some(8), Some(7)));
}
