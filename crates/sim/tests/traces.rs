//! What routers and classes tell of themselves, in results and in traces.

mod law;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_ipc::reader::StreamReader;
use law::{assert_within, spec};
use narrows_scenario::telemetry::Shown;
use narrows_sim::{Engine, Recorder, RunResult};

/// Of a series of link 0: times in seconds, and values or texts.
type Series = Vec<(f64, Option<f64>, Option<String>)>;

/// A run of two flows on 100 Mbit/s with a trace, and the series of its bottleneck.
fn traced(label: &str, scheme: &str, network: &str) -> (RunResult, BTreeMap<String, Series>) {
    let spec = spec(&format!(
        "name = \"{label}\"\nduration = \"5s\"\n[trace]\nsamples = \"10ms\"\n[network]\nrate = \"100mbit\"\n\
         buffer = \"1000pkt\"\n{network}\n[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\ncount = 2\n"
    ));
    let dir: PathBuf = [env!("CARGO_TARGET_TMPDIR"), &format!("traces-{label}")].iter().collect();
    fs::create_dir_all(&dir).unwrap();
    let recorder = Recorder::new(&spec.trace, &dir).unwrap();
    let result = Engine::new(spec, recorder).finish().unwrap();
    let mut all: BTreeMap<String, Series> = BTreeMap::new();
    for batch in StreamReader::try_new(File::open(dir.join("samples.arrow")).unwrap(), None).unwrap() {
        let batch = batch.unwrap();
        let column = |name| batch.column_by_name(name).unwrap();
        let (kinds, names) = (column("kind").as_string::<i32>(), column("series").as_string::<i32>());
        let (times, values) =
            (column("time_s").as_primitive::<Float64Type>(), column("value").as_primitive::<Float64Type>());
        let (places, texts) =
            (column("index").as_primitive::<UInt32Type>(), column("text").as_string::<i32>());
        let of_bottleneck =
            (0..batch.num_rows()).filter(|&row| kinds.value(row) == "link" && places.value(row) == 0);
        for row in of_bottleneck {
            all.entry(names.value(row).to_owned()).or_default().push((
                times.value(row),
                values.iter().nth(row).unwrap(),
                texts.iter().nth(row).unwrap().map(str::to_owned),
            ));
        }
    }
    fs::remove_dir_all(&dir).unwrap();
    (result, all)
}

/// The numbers of a series from 3 s on, when both flows have long had their rates.
fn settled(series: &Series) -> Vec<f64> {
    series.iter().filter(|(at, ..)| *at >= 3.0).map(|(_, value, _)| value.expect("a number")).collect()
}

#[test]
fn every_reading_of_a_router_is_a_series_of_its_link() {
    for name in ["rcp", "xcp", "brf", "nodectl"] {
        let (result, series) = traced(name, name, "");
        let router = result.links[0].router.as_ref().expect("the scheme brings it");
        let told: Vec<String> = router.readings.keys().map(|item| format!("router_{item}")).collect();
        let sampled: Vec<&String> = series.keys().filter(|name| name.starts_with("router_")).collect();
        assert_eq!(sampled, told.iter().collect::<Vec<_>>(), "{name}");
        for (item, shown) in &router.readings {
            let series = &series[&format!("router_{item}")];
            // One sample every 10 ms of 5 s.
            assert!((499..=501).contains(&series.len()), "{name} {item}: {} samples", series.len());
            let text = matches!(shown, Shown::Text(_));
            assert!(series.iter().all(|(_, value, name)| value.is_none() == text && name.is_some() == text));
        }
    }
}

#[test]
fn readings_are_in_the_units_that_their_names_end_with() {
    // The rate of two flows that share 100 Mbit/s, and their round-trip time: 40 ms and a queue of a few packets of 0.12 ms.
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

#[test]
fn the_state_of_brf_is_a_text_of_its_figure() {
    let (result, series) = traced("states-brf", "brf", "");
    let states: Vec<&str> =
        series["router_state"].iter().map(|(_, _, text)| text.as_deref().expect("a text")).collect();
    // Before the first packet the table is empty; then the port measures, and allocates in an instant.
    assert_eq!(states[0], "flow_table");
    assert_eq!(states[states.len() - 1], "measurement");
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["links"][0]["router"]["readings"]["state"], "measurement");
    // The period is the round-trip time, once that is known.
    let period = settled(&series["router_period_ms"]);
    period.iter().for_each(|&period| assert_within("Δt", period, 40.0, 0.1));
    settled(&series["router_c_brf_mbit_s"]).iter().for_each(|&c| assert_within("C", c, 100.0, 0.05));
}

#[test]
fn the_backlogs_of_classes_add_up_to_that_of_the_queue() {
    let classes = "[network.queue]\nkind = \"htb\"\n\
                   classes = [{ name = \"a\", rate = \"60mbit\" }, { name = \"b\", rate = \"40mbit\", schemes = [\"cubic\"] }]\n";
    let (_, series) = traced("classes", "cubic", classes);
    let all = &series["queue_pkt"];
    let [a, b] = ["a", "b"].map(|name| &series[&format!("class_{name}_queue_pkt")]);
    assert!(all.iter().any(|(_, value, _)| *value > Some(100.0)), "a queue forms");
    for ((whole, a), b) in all.iter().zip(a).zip(b) {
        assert_eq!(whole.1, Some(a.1.unwrap() + b.1.unwrap()), "at {} s", whole.0);
    }
    // CUBIC's class alone has packets.
    assert!(a.iter().all(|(_, value, _)| *value == Some(0.0)));
}

/// Packets of DCCP have numbers of their own, acknowledgements too, which nothing on this way overtakes. What a connection did
/// is counted, and what it needed is known when it has long been closed.
#[test]
fn what_dccp_did_is_counted_and_traced() {
    let text = |flow: &str| {
        format!(
            "duration = \"8s\"\n[trace]\npackets = true\n[network]\nrate = \"10mbit\"\nbuffer = \"100pkt\"\n\
             queue = {{ kind = \"codel\", ecn = true }}\n[[flows]]\nscheme = \"ccid2\"\nrtt = \"40ms\"\n{flow}\n"
        )
    };
    let dir: PathBuf = [env!("CARGO_TARGET_TMPDIR"), "traces-dccp"].iter().collect();
    fs::create_dir_all(&dir).unwrap();
    let spec = spec(&text(""));
    let recorder = Recorder::new(&spec.trace, &dir).unwrap();
    let result = Engine::new(spec, recorder).finish().unwrap();
    let mut numbers = Vec::new();
    for batch in StreamReader::try_new(File::open(dir.join("packets.arrow")).unwrap(), None).unwrap() {
        let batch = batch.unwrap();
        let column = |name| batch.column_by_name(name).unwrap();
        let (events, seqs) = (column("event").as_string::<i32>(), column("seq").as_primitive::<UInt64Type>());
        let acks = (0..batch.num_rows()).filter(|&row| events.value(row) == "ack");
        numbers.extend(acks.map(|row| seqs.value(row)));
    }
    fs::remove_dir_all(&dir).unwrap();
    // 10 Mbit/s carry 6,700 packets in 8 s, and two at least share an acknowledgement.
    assert!((1_000..4_000).contains(&numbers.len()), "{}", numbers.len());
    assert!(numbers.is_sorted_by(|before, after| before + 1 == *after), "one after the other");
    let counted = result.counters;
    assert!(counted.rtt_samples > 500 && counted.rtt_samples <= numbers.len() as u64, "{counted:?}");
    assert!(counted.ecn_reductions > 3 && result.links[0].marks > 3, "{counted:?}");
    // The queue of a file holds 256 datagrams of 1448 B; that of what is made when it leaves, none.
    let peak = |flow: &str| {
        let result = law::run(&text(flow).replace("packets = true", ""));
        (result.flows[0].completion_s.is_some(), result.peak_flow_bytes)
    };
    let ((done, one), (all_done, two)) = (peak("size = \"1MB\""), peak("size = \"4MB\""));
    assert!(done && all_done);
    assert!(one > 256 * 1_448 && one < 3 * 256 * 1_448, "{one}");
    assert_within("the peak of a file four times as large", two as f64, one as f64, 0.3);
    assert!(peak("").1 < 100_000);
}
