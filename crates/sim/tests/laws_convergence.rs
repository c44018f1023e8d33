//! Convergence time of explicit-rate schemes after a flow joins or leaves, in round-trip times. [`LAWS`] has an entry
//! per scheme; `--nocapture` prints the measured times as a table.

use crate::convergence::Deliveries;
use crate::law::{dumbbell, flows, spec};
use crate::oracle::{Flow, explicit_rate_schemes, max_min, wire};
use narrows_cc::Nanos;

/// Bottleneck rate in Mbit/s.
const RATE: f64 = 100.0;
/// Times in seconds at which one flow joins, the same flow leaves, and the run ends.
const JOINS: u64 = 15;
const LEAVES: u64 = 30;
const END: u64 = 45;

/// Per scheme, the accepted round-trip times until all flows stay within a tenth of their fair rates after a
/// flow joins and after it leaves, over all [`CASES`].
///
/// * RCP gives a new flow the common rate immediately and then drains the resulting queue. At an RTT of 10 ms, which
///   is as long as a slot, RCP corrects twice for one cause and its rate falls to a hundredth of the link. With slots
///   of 2.5 ms it would take as many round trips as at 40 ms.
/// * XCP moves a tenth of the traffic between flows per round-trip time: until the new flow has its half, this takes
///   about ln(0.1) / ln(0.9) = 22 round trips. When a flow leaves, the others get its share as spare capacity in a
///   few round trips.
/// * BRF measures for a round-trip time and then allocates; the rates reach the senders a round trip later. A Nodectl
///   sender requests a rate after the handshake.
const LAWS: &[(&str, f64, f64)] = &[("rcp", 48.0, 8.0), ("xcp", 28.0, 8.0), ("brf", 4.0, 4.5), ("nodectl", 4.2, 4.0)];

/// Round-trip times in milliseconds of the permanent flows; the joining flow has the first round-trip time of the list.
/// There are at most eight flows, because windows change by whole packets: with 17 flows the fair share would be 19
/// packets, and two packets are more than a tenth of it.
const CASES: &[(&str, &[u64])] = &[
    ("1 flow", &[40]),
    ("4 flows", &[40; 4]),
    ("8 flows", &[40; 8]),
    ("1 flow", &[10]),
    ("1 flow", &[100]),
    ("2 + 2 flows", &[20, 20, 100, 100]),
];

/// Fair goodput of each of `flows` flows on the bottleneck.
fn fair(flows: usize, payload: f64) -> f64 {
    max_min(&[RATE], &vec![Flow::backlogged(&[0]); flows])[0] * payload
}

/// Time until rates are fair after the additional flow joins, and after it leaves, in multiples of the longest
/// round-trip time of the case.
fn measure(scheme: &str, rtts: &[u64]) -> (Option<f64>, Option<f64>) {
    let wire = wire(scheme);
    let rest = "[tcp]\nreceive_autotuning = false\n".to_owned()
        + &rtts.iter().map(|&rtt| flows(scheme, rtt, "")).collect::<String>()
        + &flows(scheme, rtts[0], &format!("start = \"{JOINS}s\"\nstop = \"{LEAVES}s\""));
    let text = dumbbell((END as f64, None), (&format!("{RATE}mbit"), "8bdp"), &rest);
    let longest = Nanos::from_millis(*rtts.iter().max().expect("there are flows"));
    let (deliveries, result) = Deliveries::of(spec(&text), longest);
    assert_eq!(result.links[0].drops, 0, "{scheme}, {rtts:?} ms: drops");
    let [joins, leaves, end] = [JOINS, LEAVES, END].map(Nanos::from_secs);
    let n = rtts.len();
    let with = vec![Some(fair(n + 1, wire.payload)); n + 1];
    let mut without = vec![Some(fair(n, wire.payload)); n];
    without.push(None);
    (deliveries.settled_after(joins, leaves, &with), deliveries.settled_after(leaves, end, &without))
}

/// Explicit rates are fair again within the stated round-trip times after a flow joins or leaves.
#[test]
#[ignore = "seconds: `make test`"]
fn explicit_rates_join_or_leave_settle_in_stated_time() {
    let show = |rtts: Option<f64>| rtts.map_or("never".to_owned(), |rtts| format!("{rtts:.1}"));
    println!("| scheme | before | RTT | joins: RTTs | leaves: RTTs |\n|---|---|---|---|---|");
    let stated: Vec<&str> = LAWS.iter().map(|law| law.0).collect();
    assert!(
        explicit_rate_schemes().iter().all(|scheme| stated.contains(scheme)),
        "{:?} need entries in LAWS",
        explicit_rate_schemes()
    );
    let mut failures = String::new();
    for &(scheme, most_joining, most_leaving) in LAWS {
        for (name, rtts) in CASES {
            let (joining, leaving) = measure(scheme, rtts);
            let mut distinct = rtts.to_vec();
            distinct.dedup();
            let distinct: Vec<String> = distinct.iter().map(u64::to_string).collect();
            let case = format!("| {scheme} | {name} | {} ms", distinct.join(" and "));
            println!("{case} | {} | {} |", show(joining), show(leaving));
            for (event, measured, most) in [("joins", joining, most_joining), ("leaves", leaving, most_leaving)] {
                if !measured.is_some_and(|measured| measured <= most) {
                    failures += &format!("{case}, a flow {event}: {}, at most {most}\n", show(measured));
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}
