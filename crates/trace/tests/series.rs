//! Series of routers and classes, in results and in traces.

use std::collections::BTreeMap;
use std::path::Path;

use crate::texts::{batches, plan, recorded};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use narrows_scenario::telemetry::Shown;
use narrows_sim::RunResult;

/// A series of link 0: times in seconds, and values or strings.
type Series = Vec<(f64, Option<f64>, Option<String>)>;

/// A run of two flows on a 100 Mbit/s link with a trace, and the series of the bottleneck.
fn traced(label: &str, scheme: &str, network: &str) -> (RunResult, BTreeMap<String, Series>) {
    let text = format!(
        "name = \"{label}\"\nduration = \"5s\"\n[trace]\nsamples = \"10ms\"\n[network]\nrate = \"100mbit\"\n\
         buffer = \"1000pkt\"\n{network}\n[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\ncount = 2\n"
    );
    let samples = |dir: &Path| batches(dir, "samples.arrow").collect::<Vec<_>>();
    let (result, batches) = recorded(&format!("traces-{label}"), &text, samples);
    let mut all: BTreeMap<String, Series> = BTreeMap::new();
    for batch in batches {
        let column = |name| batch.column_by_name(name).unwrap();
        let (kinds, names) = (column("kind").as_string::<i32>(), column("series").as_string::<i32>());
        let (times, values) =
            (column("time_s").as_primitive::<Float64Type>(), column("value").as_primitive::<Float64Type>());
        let (places, texts) = (column("index").as_primitive::<UInt32Type>(), column("text").as_string::<i32>());
        let of_bottleneck = (0..batch.num_rows()).filter(|&row| kinds.value(row) == "link" && places.value(row) == 0);
        for row in of_bottleneck {
            all.entry(names.value(row).to_owned()).or_default().push((
                times.value(row),
                values.iter().nth(row).unwrap(),
                texts.iter().nth(row).unwrap().map(str::to_owned),
            ));
        }
    }
    (result, all)
}

#[track_caller]
fn assert_within(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let off = measured / expected - 1.0;
    assert!(off.abs() <= tolerance, "{what}: measured {measured}, expected {expected} within {tolerance}");
}

/// Values of a series from 3 s on, when both flows have settled.
fn settled(series: &Series) -> Vec<f64> {
    series.iter().filter(|(at, ..)| *at >= 3.0).map(|(_, value, _)| value.expect("a number")).collect()
}

/// Every value that a router reports is a series of the router's link, with one sample per interval.
#[test]
fn every_router_reading_is_a_series_of_its_link() {
    for name in ["rcp", "xcp", "brf", "nodectl"] {
        let (result, series) = traced(name, name, "");
        let router = result.links[0].router.as_ref().expect("the scheme brings its router");
        let expected: Vec<String> = router.readings.keys().map(|item| format!("router_{item}")).collect();
        let sampled: Vec<&String> = series.keys().filter(|name| name.starts_with("router_")).collect();
        assert_eq!(sampled, expected.iter().collect::<Vec<_>>(), "{name}");
        for (item, shown) in &router.readings {
            let series = &series[&format!("router_{item}")];
            // One sample every 10 ms of 5 s.
            assert!((499..=501).contains(&series.len()), "{name} {item}: {} samples", series.len());
            let text = matches!(shown, Shown::Text(_));
            assert!(series.iter().all(|(_, value, name)| value.is_none() == text && name.is_some() == text));
        }
    }
}

/// Values of a router have the unit that is part of their name.
#[test]
fn readings_have_the_unit_of_their_name() {
    // Each of two flows gets half of 100 Mbit/s, and the RTT is 40 ms plus a queue of a few packets of 0.12 ms each.
    let (result, series) = traced("units-rcp", "rcp", "");
    let mean = |name: &str| {
        let values = settled(&series[name]);
        values.iter().sum::<f64>() / values.len() as f64
    };
    assert_within("RCP's rate", mean("router_rate_mbit_s"), 50.0, 0.05);
    assert_within("RCP's round-trip time", mean("router_mean_rtt_ms"), 40.0, 0.05);
    let readings = serde_json::to_value(&result).unwrap()["links"][0]["router"]["readings"].clone();
    assert_within("the last rate", readings["rate_mbit_s"].as_f64().unwrap(), 50.0, 0.05);
}

/// The series of BRF's state consists of strings, which are the states in the paper's figure.
#[test]
fn brf_state_is_a_text_series() {
    let (result, series) = traced("states-brf", "brf", "");
    let states: Vec<&str> =
        series["router_state"].iter().map(|(_, _, text)| text.as_deref().expect("a text")).collect();
    // The flow table is empty before the first packet. Then the port measures and allocates in the same step.
    assert_eq!(states[0], "flow_table");
    assert_eq!(states[states.len() - 1], "measurement");
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["links"][0]["router"]["readings"]["state"], "measurement");
    // The period equals the RTT, once the RTT is known.
    let period = settled(&series["router_period_ms"]);
    period.iter().for_each(|&period| assert_within("Δt", period, 40.0, 0.1));
    settled(&series["router_c_brf_mbit_s"]).iter().for_each(|&c| assert_within("C", c, 100.0, 0.05));
}

/// The backlogs of all classes add up to the queue's backlog.
#[test]
fn class_backlogs_sum_to_queue() {
    let classes = "[network.queue]\nkind = \"htb\"\n\
                   classes = [{ name = \"a\", rate = \"60mbit\" }, { name = \"b\", rate = \"40mbit\", schemes = [\"cubic\"] }]\n";
    let (_, series) = traced("classes", "cubic", classes);
    let all = &series["queue_pkt"];
    let [a, b] = ["a", "b"].map(|name| &series[&format!("class_{name}_queue_pkt")]);
    assert!(all.iter().any(|(_, value, _)| *value > Some(100.0)), "no queue above 100 packets");
    for ((whole, a), b) in all.iter().zip(a).zip(b) {
        assert_eq!(whole.1, Some(a.1.unwrap() + b.1.unwrap()), "at {} s", whole.0);
    }
    // Only CUBIC's class has queued packets.
    assert!(a.iter().all(|(_, value, _)| *value == Some(0.0)));
}

/// DCCP packets, including ACKs, have sequence numbers and are not reordered on this path. Results count the
/// connection's events, and still report its peak memory after it has closed.
#[test]
fn dccp_events_are_counted_and_traced() {
    let text = |flow: &str| {
        format!(
            "duration = \"8s\"\n[trace]\npackets = true\n[network]\nrate = \"10mbit\"\nbuffer = \"100pkt\"\n\
             queue = {{ kind = \"codel\", ecn = true }}\n[[flows]]\nscheme = \"ccid2\"\nrtt = \"40ms\"\n{flow}\n"
        )
    };
    let packets = |dir: &Path| batches(dir, "packets.arrow").collect::<Vec<_>>();
    let (result, batches) = recorded("traces-dccp", &text(""), packets);
    let mut numbers = Vec::new();
    for batch in batches {
        let column = |name| batch.column_by_name(name).unwrap();
        let (events, seqs) = (column("event").as_string::<i32>(), column("seq").as_primitive::<UInt64Type>());
        let acks = (0..batch.num_rows()).filter(|&row| events.value(row) == "ack");
        numbers.extend(acks.map(|row| seqs.value(row)));
    }
    // At 10 Mbit/s, 6,700 packets arrive in 8 s, and each ACK covers at least two.
    assert!((1_000..4_000).contains(&numbers.len()), "{}", numbers.len());
    assert!(numbers.is_sorted_by(|before, after| before + 1 == *after), "gaps in {numbers:?}");
    let counted = *result.counters();
    assert!(counted.rtt_samples > 500 && counted.rtt_samples <= numbers.len() as u64, "{counted:?}");
    assert!(counted.ecn_reductions > 3 && result.links[0].marks > 3, "{counted:?}");
    // The queue of a file source holds 256 datagrams of 1448 B; a source that writes when a datagram departs
    // needs no queue.
    let peak = |flow: &str| {
        let result = narrows_sim::run(plan(&text(flow).replace("packets = true", "")));
        (result.flows[0].completion_s.is_some(), result.peak_flow_bytes.expect("simulated"))
    };
    let ((done, one), (all_done, two)) = (peak("size = \"1MB\""), peak("size = \"4MB\""));
    assert!(done && all_done);
    assert!(one > 256 * 1_448 && one < 3 * 256 * 1_448, "{one}");
    assert_within("peak of a file four times as large", two as f64, one as f64, 0.3);
    assert!(peak("").1 < 100_000);
}
