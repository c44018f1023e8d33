//! qlog files: every record follows the schema, and the numbers in the records are those of the run.

use std::fs;
use std::path::PathBuf;

use crate::texts::plan;
use narrows_sim::{Engine, RunResult};
use narrows_trace::qlog::Log;
use serde_json::Value;

/// Runs a scenario; returns its result, and the records of its qlog file after a check against the schema.
fn logged(label: &str, text: &str) -> (RunResult, Vec<Value>) {
    let path: PathBuf = [env!("CARGO_TARGET_TMPDIR"), &format!("{label}.sqlog")].iter().collect();
    let plan = plan(text);
    let mut log = Log::create(&plan, None, &path).unwrap();
    let result = Engine::observed(plan, &mut log).finish();
    log.finish().unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let records = crate::schema::records(&bytes).unwrap_or_else(|problem| panic!("{label}: {problem}"));
    crate::schema::check(&records).unwrap_or_else(|problem| panic!("{label}: {problem}"));
    (result, records)
}

fn scenario(flows: &str) -> String {
    format!("duration = \"5s\"\n[network]\nrate = \"20mbit\"\nbuffer = \"1bdp\"\n{flows}\n")
}

/// The data of all events with this name and, unless `group` is empty, of this flow.
fn data<'a>(records: &'a [Value], name: &str, group: &str) -> Vec<&'a Value> {
    let of = |record: &&Value| record["name"] == name && (group.is_empty() || record["group_id"] == group);
    records.iter().filter(of).map(|record| &record["data"]).collect()
}

fn number(data: &Value) -> u64 {
    data["header"]["packet_number"].as_u64().expect("a packet number")
}

/// The packet numbers that acknowledgements list, in order.
fn acked(records: &[Value], group: &str) -> Vec<u64> {
    let mut numbers = Vec::new();
    for data in data(records, "quic:packet_received", group) {
        for range in data["frames"][0]["acked_ranges"].as_array().into_iter().flatten() {
            let ends: Vec<u64> = range.as_array().unwrap().iter().map(|end| end.as_u64().unwrap()).collect();
            numbers.extend(ends[0]..=ends[ends.len() - 1]);
        }
    }
    numbers
}

/// qlog files of every kind of run follow the schema: window and rate schemes, loss, marks, several flows,
/// subflows, datagrams, files that end, and labels that need escapes.
#[test]
fn records_of_every_kind_of_run_keep_to_schema() {
    let lossy =
        "loss = \"2%\"\n[[flows]]\nscheme = \"reno\"\nrtt = \"40ms\"\n[[flows]]\nscheme = \"bbr3\"\nrtt = \"20ms\"";
    let texts = [
        ("alone", scenario("[[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"")),
        ("lossy", scenario(lossy)),
        (
            "marks",
            scenario("[[flows]]\nscheme = \"reno\"\nrtt = \"40ms\"\ncount = 3")
                .replace("buffer", "queue = { kind = \"codel\", ecn = true }\nbuffer"),
        ),
        ("file", scenario("[[flows]]\nlabel = \"a \\\"file\\\"\"\nscheme = \"bbr\"\nrtt = \"40ms\"\nsize = \"1MB\"")),
        ("datagrams", scenario("[[flows]]\nscheme = \"ccid2\"\nrtt = \"40ms\"")),
        ("feedback", scenario("[[flows]]\nscheme = \"ccid3\"\nrtt = \"40ms\"")),
    ];
    for (label, text) in texts {
        let (result, records) = logged(label, &text);
        let flows = result.flows.len();
        let sent = data(&records, "quic:packet_sent", "").len() as u64;
        let states = data(&records, "quic:congestion_state_updated", "").len();
        assert!(sent > 100 * flows as u64, "{label}: {sent} packets");
        assert!(states >= flows, "{label}: {states} states of {flows} flows");
        assert_eq!(data(&records, "quic:recovery_parameters_set", "").len(), flows, "{label}");
    }
}

/// Packets, losses and retransmissions of a TCP flow agree with the sender's counters. Each packet is
/// acknowledged at most once, and lost packets are retransmitted with a new number.
#[test]
fn counts_of_lossy_flow_match_result() {
    let text = scenario("loss = \"1%\"\n[[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"");
    let (result, records) = logged("counts", &text.replace("5s", "20s"));
    let sent: Vec<u64> = data(&records, "quic:packet_sent", "").into_iter().map(number).collect();
    assert!(sent.is_sorted_by(|before, after| before + 1 == *after) && sent[0] == 0, "gaps in packet numbers");
    let counters = *result.counters();
    // The only other packets are the SYN and the acknowledgement of the handshake.
    let others = sent.len() as u64 - counters.data_packets_sent;
    assert!((1..=2).contains(&others), "{} packets, {} of data", sent.len(), counters.data_packets_sent);
    let lost: Vec<u64> = data(&records, "quic:packet_lost", "").into_iter().map(number).collect();
    assert!(lost.len() > 20, "{} losses", lost.len());
    // A tail-loss probe retransmits a packet that was not declared lost, and the last losses are not retransmitted yet.
    let repeated = counters.retransmits - counters.tlp_probes;
    assert!(lost.len() as u64 >= repeated && lost.len() as u64 <= repeated + 40, "{} {repeated}", lost.len());
    let mut acked = acked(&records, "");
    let count = acked.len();
    acked.sort_unstable();
    acked.dedup();
    assert_eq!(acked.len(), count, "packets acknowledged twice");
    // 1 % of the packets are lost; the rest is acknowledged, except for the last window of packets.
    assert!(acked.len() + lost.len() + 200 > sent.len(), "{} acked of {}", acked.len(), sent.len());
}

/// The metrics are those of the sender: the RTT is at least the base RTT, the bytes in flight are at most cwnd,
/// and the highest rate of a paced scheme is near the link's rate.
#[test]
fn metrics_are_those_of_the_sender() {
    let (_, records) = logged("metrics", &scenario("[[flows]]\nscheme = \"bbr\"\nrtt = \"40ms\""));
    let metrics = data(&records, "quic:recovery_metrics_updated", "");
    let values = |name: &str| -> Vec<f64> { metrics.iter().filter_map(|data| data[name].as_f64()).collect() };
    let least = values("min_rtt").into_iter().fold(f64::INFINITY, f64::min);
    assert!((40.0..43.0).contains(&least), "{least} ms");
    assert!(values("latest_rtt").iter().all(|&rtt| rtt >= 40.0));
    assert!(values("smoothed_rtt").len() > 100 && values("rtt_variance").len() > 100);
    let settled = values("pacing_rate").into_iter().next_back().expect("a rate");
    // A link of 20 Mbit/s carries 19.3 Mbit/s of payload, and BBR's pacing gains are 0.75 to 1.25.
    assert!((13e6..26e6).contains(&settled), "{settled} bit/s");
    // The bandwidth-delay product is 100 kB.
    let inflight = values("bytes_in_flight").into_iter().fold(0.0, f64::max);
    let cwnd = values("congestion_window").into_iter().fold(0.0, f64::max);
    assert!(inflight > 90e3 && inflight <= cwnd, "{inflight} of {cwnd}");
}

/// Each flow has its own group, packet numbers and description.
#[test]
fn flows_have_groups_of_their_own() {
    let flows =
        "[[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"\n[[flows]]\nscheme = \"bbr\"\nrtt = \"80ms\"\nstart = \"1s\"";
    let (_, records) = logged("groups", &scenario(flows));
    let described = &data(&records, "simulation:scenario", "")[0]["details"]["flows"];
    assert_eq!(described[1]["scheme"], "bbr");
    assert_eq!(described[1]["rtt_base_ms"], 80.0);
    for flow in described.as_array().unwrap() {
        let group = flow["group_id"].as_str().unwrap();
        let sent: Vec<u64> = data(&records, "quic:packet_sent", group).into_iter().map(number).collect();
        assert!(sent.len() > 100 && sent.is_sorted_by(|before, after| before + 1 == *after), "{group}");
    }
    assert!(records[2..].iter().all(|record| record["group_id"].is_string()));
}

/// Equal runs write identical files, and writing the file does not change the run.
#[test]
fn log_neither_changes_run_nor_varies() {
    let text = scenario("loss = \"1%\"\n[[flows]]\nscheme = \"bbr\"\nrtt = \"40ms\"");
    let (first, records) = logged("first", &text);
    let (second, again) = logged("second", &text);
    assert_eq!(records, again);
    assert_eq!(first.event_hash, second.event_hash);
    assert_eq!(narrows_sim::run(plan(&text)).event_hash, first.event_hash);
}

/// A full disk ends the log with the write error, but never ends the run.
#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_reported() {
    let plan = plan(&scenario("[[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\""));
    let error = Log::create(&plan, None, "/dev/full".as_ref()).expect_err("no space");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
