//! How soon the rates of explicit schemes are fair again when a flow joins or leaves, in round-trip times. One line of
//! [`LAWS`] per scheme; `--nocapture` prints the table.

mod convergence;
mod law;
mod oracle;

use convergence::Deliveries;
use law::spec;
use narrows_cc::Nanos;
use oracle::{Flow, advised, max_min, wire};

/// Of the bottleneck, in Mbit/s.
const RATE: f64 = 100.0;
/// When one flow joins and when it leaves again, and the end, in seconds.
const JOINS: u64 = 15;
const LEAVES: u64 = 30;
const END: u64 = 45;

/// A scheme with the most round-trip times that all flows may take until they are within a tenth of their fair rates, after
/// a flow has joined and after one has left; over all cases of [`CASES`].
///
/// * RCP gives a newcomer everybody's rate at once; the queue that this makes is what it then drains. At 10 ms, where a slot is
///   as long as a round-trip time, it corrects twice for one cause and falls to a hundredth of the link. With slots of
///   2.5 ms it takes as long as at 40 ms.
/// * XCP moves a tenth of the traffic between flows in each round-trip time: to a newcomer's half that takes about
///   ln(0.1) / ln(0.9) = 22. What a flow leaves is given away by spare capacity, in a few.
/// * BRF measures for a round-trip time, divides, and is heard a round trip later; Nodectl asks when the handshake is over.
const LAWS: &[(&str, f64, f64)] =
    &[("rcp", 48.0, 8.0), ("xcp", 28.0, 8.0), ("brf", 4.0, 4.5), ("nodectl", 4.2, 4.0)];

/// Flows that are there all the time, and their round-trip times in milliseconds; the flow that joins has the first of them.
/// Not more than eight: senders with windows move in whole packets, and of a fair share of 19 packets, which 17 flows have,
/// two are more than a tenth.
const CASES: &[(&str, &[u64])] = &[
    ("1 flow", &[40]),
    ("4 flows", &[40; 4]),
    ("8 flows", &[40; 8]),
    ("1 flow", &[10]),
    ("1 flow", &[100]),
    ("2 + 2 flows", &[20, 20, 100, 100]),
];

/// The fair rates of `flows` on the bottleneck, in payload.
fn fair(flows: usize, payload: f64) -> f64 {
    max_min(&[RATE], &vec![Flow::greedy(&[0]); flows])[0] * payload
}

/// Round-trip times, the longest of the case, until rates are fair after the one more flow has joined, and after it has left.
fn measure(scheme: &str, rtts: &[u64]) -> (Option<f64>, Option<f64>) {
    let wire = wire(scheme);
    let mut text = format!(
        "name = \"convergence law\"\nduration = \"{END}s\"\n[network]\nrate = \"{RATE}mbit\"\nbuffer = \"8bdp\"\n"
    );
    for rtt in rtts {
        text += &format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"{rtt}ms\"\n");
    }
    text += &format!(
        "[[flows]]\nscheme = \"{scheme}\"\nrtt = \"{}ms\"\nstart = \"{JOINS}s\"\nstop = \"{LEAVES}s\"\n",
        rtts[0]
    );
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

#[test]
fn rates_are_fair_again_within_stated_round_trip_times_of_a_flow_that_joins_or_leaves() {
    let show = |rtts: Option<f64>| rtts.map_or("never".to_owned(), |rtts| format!("{rtts:.1}"));
    println!("| scheme | before | RTT | joins: RTTs | leaves: RTTs |\n|---|---|---|---|---|");
    let stated: Vec<&str> = LAWS.iter().map(|law| law.0).collect();
    assert!(advised().iter().all(|scheme| stated.contains(scheme)), "{:?} need lines", advised());
    let mut failures = String::new();
    for &(scheme, most_joining, most_leaving) in LAWS {
        for (name, rtts) in CASES {
            let (joining, leaving) = measure(scheme, rtts);
            let mut distinct = rtts.to_vec();
            distinct.dedup();
            let distinct: Vec<String> = distinct.iter().map(u64::to_string).collect();
            let case = format!("| {scheme} | {name} | {} ms", distinct.join(" and "));
            println!("{case} | {} | {} |", show(joining), show(leaving));
            for (what, measured, most) in
                [("joins", joining, most_joining), ("leaves", leaving, most_leaving)]
            {
                if !measured.is_some_and(|measured| measured <= most) {
                    failures += &format!("{case}, a flow {what}: {}, at most {most}\n", show(measured));
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}
