//! Series of flows with the names of `ss -ti`.

use std::collections::BTreeMap;

use crate::texts::{batches, recorded};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use narrows_sim::RunResult;

/// A scenario: one megabyte over 20 Mbit/s with a queue of 20 packets, so that slow start ends with losses.
fn file_transfer(scheme: &str, profile: &str) -> String {
    format!(
        "duration = \"4s\"\nwarmup = \"0s\"\n[tcp]\nprofile = \"{profile}\"\n[trace]\nsamples = \"10ms\"\n\
         [network]\nrate = \"20mbit\"\nbuffer = \"20pkt\"\n\
         [[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\nsize = \"1MB\"\n"
    )
}

/// Samples of the only flow, one map per time. Each series has at most one value per time.
type Samples = Vec<BTreeMap<String, f64>>;

fn samples(name: &str, text: &str) -> (Samples, RunResult) {
    let (result, batches) = recorded(name, text, |dir| batches(dir, "samples.arrow").collect::<Vec<_>>());
    let mut all: BTreeMap<u64, BTreeMap<String, f64>> = BTreeMap::new();
    for batch in batches {
        let column = |name| batch.column_by_name(name).unwrap();
        let (kinds, names) = (column("kind").as_string::<i32>(), column("series").as_string::<i32>());
        let (times, values) =
            (column("time_s").as_primitive::<Float64Type>(), column("value").as_primitive::<Float64Type>());
        for row in (0..batch.num_rows()).filter(|&row| kinds.value(row) == "flow") {
            let at = all.entry(times.value(row).to_bits()).or_default();
            let earlier = at.insert(names.value(row).to_owned(), values.value(row));
            assert_eq!(earlier, None, "{} at {} s", names.value(row), times.value(row));
        }
    }
    (all.into_values().collect(), result)
}

/// All values of a series.
fn series(samples: &Samples, name: &str) -> Vec<f64> {
    samples.iter().filter_map(|at| at.get(name).copied()).collect()
}

/// Cumulative series never decrease and end at the run's counters; the smoothed RTT lies within the range of
/// the RTT samples.
#[test]
fn totals_of_a_flow_end_as_the_counters_of_the_run() {
    let (samples, result) = samples("flow-totals", &file_transfer("cubic", "linux"));
    let last = |name: &str| {
        let values = series(&samples, name);
        assert!(values.is_sorted(), "{name}");
        values[values.len() - 1]
    };
    let counters = result.counters();
    assert!(counters.retransmits > 0 && result.flows[0].completion_s.is_some());
    assert_eq!(last("data_segs_out"), counters.data_packets_sent as f64);
    assert_eq!(last("retrans_total"), counters.retransmits as f64);
    assert_eq!(last("bytes_sent") - last("bytes_retrans"), 1e6);
    // After the connection has closed, the series of TCP's state have no rows.
    assert!(last("bytes_acked") > 0.5e6 && last("bytes_acked") <= 1e6);
    let rows = |name: &str| series(&samples, name).len();
    assert!(rows("bytes_acked") < rows("bytes_sent") && rows("rtt_ms") < rows("bytes_sent"));
    // Sent segments are the data packets, the SYN and the FIN. The first data packet completes the handshake.
    assert_eq!(last("segs_out"), counters.data_packets_sent as f64 + 2.0);
    // The receiver sends at least one acknowledgement per two packets, plus the SYN-ACK.
    assert!(last("segs_in") > last("data_segs_out") / 2.0 - 10.0 && last("segs_in") < last("segs_out"));
    let (newest, smoothed) = (series(&samples, "rtt_sample_ms"), series(&samples, "rtt_ms"));
    let bounds = newest.iter().fold((f64::MAX, 0f64), |(low, high), &x| (low.min(x), high.max(x)));
    assert!(bounds.0 < bounds.1 && newest != smoothed);
    // RTT samples between two rows may lie outside the range of the rows, by less than the queue's 12 ms.
    assert!(smoothed.iter().all(|&x| x > 40.0 && x < bounds.1 + 12.0), "{bounds:?}");
}

/// The counts of `TCP_INFO` add up to inflight as in Linux's `tcp_packets_in_flight`, and the timeout exceeds
/// the RTT by at least max(4 rttvar, 200 ms).
#[test]
fn series_of_tcp_info_agree_with_each_other() {
    let (samples, _) = samples("flow-info", &file_transfer("cubic", "linux"));
    let mut seen: BTreeMap<&str, f64> = BTreeMap::new();
    let mut rows = 0;
    for at in samples.iter().filter(|at| at.contains_key("rto_ms")) {
        rows += 1;
        let (mss, inflight) = (at["mss_bytes"], at["inflight_bytes"]);
        assert_eq!(mss, 1448.0);
        // The last data segment is shorter than the others, and a FIN has no payload.
        let packets = at["unacked"] - at["sacked"] - at["lost"] + at["retrans"];
        assert!((packets * mss - inflight).abs() < 2.0 * mss, "{at:?}");
        assert!(at["bytes_acked"] <= at["bytes_sent"] - at["bytes_retrans"], "{at:?}");
        assert!(at["minrtt_ms"] >= 40.0 && at["minrtt_ms"] <= at["rtt_ms"], "{at:?}");
        assert!(at["rto_ms"] >= at["rtt_ms"] + (4.0 * at["rttvar_ms"]).max(200.0) - 1e-6, "{at:?}");
        assert!(at["reordering"] >= 3.0 && at["backoff"] == 0.0, "{at:?}");
        for name in ["unacked", "sacked", "lost", "retrans", "rttvar_ms", "ssthresh_bytes"] {
            let most = seen.entry(name).or_default();
            *most = most.max(at.get(name).copied().unwrap_or_default());
        }
    }
    assert!(rows > 40, "{rows} rows");
    assert!(seen.values().all(|&most| most > 0.0), "{seen:?}");
    // No row has an ssthresh in slow start, nor for a scheme without ssthresh.
    let first = samples.iter().find(|at| at.contains_key("rto_ms")).unwrap();
    assert!(!first.contains_key("ssthresh_bytes"), "{first:?}");
}

/// With RFC 6298, the timeout follows RTTVAR, without the floor that Linux adds to the smoothed RTT.
#[test]
fn series_of_tcp_info_follow_the_profile() {
    let (samples, _) = samples("flow-info-rfc", &file_transfer("newreno", "rfc"));
    let close = |at: &&BTreeMap<String, f64>| {
        at.get("rto_ms").is_some_and(|rto| rto - at["rtt_ms"] < 200.0 && *rto >= at["rtt_ms"] + 4.0 * at["rttvar_ms"])
    };
    assert!(samples.iter().filter(close).count() > 10);
}

/// Linux's BBR leaves ssthresh infinite, so `ss` shows none, regardless of losses.
#[test]
fn series_of_bbr_have_no_ssthresh() {
    let (samples, result) = samples("flow-info-bbr", &file_transfer("bbr", "linux"));
    assert!(result.counters().recoveries > 0);
    assert!(series(&samples, "ssthresh_bytes").is_empty());
    assert!(series(&samples, "minrtt_ms").len() > 40);
}

/// Series of TCP have no rows for datagrams.
#[test]
fn series_of_tcp_info_are_absent_for_datagrams() {
    let text = file_transfer("ccid2", "linux").replace("[[flows]]", "[[flows]]\nprotocol = \"dccp\"");
    let (samples, _) = samples("flow-info-dccp", &text);
    assert!(series(&samples, "rto_ms").is_empty() && series(&samples, "segs_out").is_empty());
    assert!(!series(&samples, "ssthresh_bytes").is_empty(), "the scheme's own");
}
