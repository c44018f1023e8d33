//! Laws of connections of several subflows: rates against the capacity of links, less headers.

mod law;

use law::{assert_within, run};
use narrows_sim::RunResult;

/// The share of payload in a full packet: its header has 20 bytes more, and its segment as many less.
const PAYLOAD: f64 = 1428.0 / 1500.0;

/// ```text
///      a (r1)
///   s <       > d
///      b (r2)
/// ```
/// Two disjoint ways of stated rates in Mbit/s and one-way delays in ms.
fn two_ways(seconds: u32, [r1, r2]: [f64; 2], [d1, d2]: [u32; 2], more: &str, flows: &str) -> String {
    let link = |from: &str, to: &str, rate: f64, delay: u32| {
        format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}mbit\"\ndelay = \"{delay}ms\"\n")
    };
    let links = [("s", "a", r1, d1), ("a", "d", 1000.0, 0), ("s", "b", r2, d2), ("b", "d", 1000.0, 0)]
        .map(|(from, to, rate, delay)| link(from, to, rate, delay))
        .concat();
    format!("name = \"multipath\"\nduration = \"{seconds}s\"\nwarmup = \"10%\"\n{more}\n{links}{flows}")
}

/// A connection over both.
fn both(scheme: &str, more: &str) -> String {
    format!(
        "[[flows]]\nscheme = \"{scheme}\"\nlabel = \"both\"\nsubflows = [{{ route = [\"s\", \"a\", \"d\"] }}, {{ route = [\"s\", \"b\", \"d\"] }}]\n{more}\n"
    )
}

fn goodput(result: &RunResult) -> f64 {
    result.connections[0].goodput_mbit_s
}

#[test]
fn uncoupled_subflows_over_disjoint_links_have_the_sum_of_both() {
    let result = run(&two_ways(60, [10.0, 4.0], [20, 20], "", &both("newreno", "")));
    for row in &result.flows {
        println!("{} {:.3} {:?}", row.flow, row.goodput_mbit_s, row.rtt_mean_ms);
    }
    println!("{:?}", result.connections[0]);
    // With a buffer of one BDP, NewReno keeps its link busy but for the start and repairs.
    assert_within("sum", goodput(&result), 14.0 * PAYLOAD, 0.02);
}
