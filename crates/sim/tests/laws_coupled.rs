//! Laws of coupled congestion control: the goals of RFC 6356 and what the papers of its successors claim, against shares
//! computed from the rules of the schemes.

mod law;
mod multipath;

use law::{assert_within, run};
use multipath::{Ways, both, goodput, of_flows, single};
use narrows_sim::RunResult;

/// Four connections of two subflows and four plain ones at one bottleneck: how much the connections have for each byte of
/// the others.
fn at_one_bottleneck(scheme: &str) -> f64 {
    let flow = |scheme: &str, more: &str| {
        format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\ncount = 4\nspread = \"1s\"\n{more}\n")
    };
    let multi = flow(scheme, "subflows = 2\nlabel = \"multi\"");
    let plain = flow("newreno", "label = \"plain\"");
    let result =
        run(&format!("name = \"shared\"\nduration = \"200s\"\n[network]\nrate = \"40mbit\"\n{multi}{plain}"));
    goodput(&result) / of_flows(&result, "plain")
}

#[test]
fn coupled_subflows_take_no_more_of_a_shared_bottleneck_than_one_tcp() {
    // RFC 6356 goal 2. Alpha follows the windows of the moment, and the maximum of two windows that fluctuate is more than
    // their mean: a tenth. EWTCP with a = 1/4 has half a TCP's window on each of two subflows, whatever happens.
    for scheme in ["lia", "olia", "balia", "ewtcp", "mptcp-coupled"] {
        let ratio = at_one_bottleneck(scheme);
        println!("{scheme}: {ratio:.3}");
        assert!((0.85..1.15).contains(&ratio), "{scheme}: {ratio}");
    }
    // What is not coupled takes what two take.
    assert_within("uncoupled", at_one_bottleneck("newreno"), 2.0, 0.1);
}

/// Ways that never queue and lose packets at random.
fn lossy(percent: [f64; 2], delays: [u32; 2]) -> Ways {
    Ways {
        seconds: 400.0,
        rates: [10_000.0; 2],
        delays,
        more: percent.map(|loss| format!("loss = \"{loss}%\"")),
        ..Ways::default()
    }
}

fn alone(ways: &Ways) -> [f64; 2] {
    ["a", "b"].map(|via| run(&ways.text(&single("newreno", via, ""))).flows[0].goodput_mbit_s)
}

fn parts(result: &RunResult) -> [f64; 2] {
    [of_flows(result, "/1"), of_flows(result, "/2")]
}

#[test]
fn lia_is_as_good_as_the_best_path_and_moves_off_congestion() {
    // RFC 6356 goals 1 and 3. Per round trip subflow r gains alpha w_r/w_T and loses p_r w_r^2/2, so w_r is as 1/p_r: of one
    // and four losses in a thousand, four to one. Alpha makes the sum of w_r/rtt_r that of the best path alone.
    for percent in [[0.1, 0.1], [0.1, 0.4]] {
        let ways = lossy(percent, [20, 20]);
        let best = alone(&ways).into_iter().fold(0.0, f64::max);
        let result = run(&ways.text(&both("lia", "")));
        assert_within("as the best path", goodput(&result), best, 0.15);
        let [first, second] = parts(&result);
        assert_within("split", first / second, percent[1] / percent[0], 0.25);
    }
}

#[test]
fn lia_takes_the_fast_way_of_much_loss_where_fully_coupled_windows_leave_it() {
    // Wischik et al. (NSDI 2011, section 2.3): 10 ms with 4 % of loss against 100 ms with 1 %. A TCP has four to five times
    // as much on the first, COUPLED puts everything on the way of less loss whatever its round-trip time.
    let ways = lossy([4.0, 1.0], [5, 50]);
    let [fast, slow] = alone(&ways);
    assert!(fast > 3.0 * slow, "{fast} {slow}");
    let of = |scheme| goodput(&run(&ways.text(&both(scheme, ""))));
    let (lia, coupled, ewtcp) = (of("lia"), of("mptcp-coupled"), of("ewtcp"));
    println!("alone {fast:.3} {slow:.3}, lia {lia:.3}, coupled {coupled:.3}, ewtcp {ewtcp:.3}");
    assert_within("LIA as the best path", lia, fast, 0.15);
    assert_within("EWTCP half of each", ewtcp, (fast + slow) / 2.0, 0.2);
    assert!(coupled < 0.6 * fast, "{coupled}");
}

#[test]
fn ewtcp_is_half_a_tcp_on_each_way() {
    // Increase a/w with a = 1/4: at the same loss the window is sqrt(a) of a TCP's.
    let ways = lossy([0.1, 0.1], [20, 20]);
    let [first, second] = alone(&ways);
    let own = parts(&run(&ways.text(&both("ewtcp", ""))));
    assert_within("first", own[0], first / 2.0, 0.1);
    assert_within("second", own[1], second / 2.0, 0.1);
}

#[test]
fn olia_and_balia_leave_more_of_a_shared_link_to_single_paths_than_lia() {
    // Scenario C of Khalili et al. (CoNEXT 2012): five users of two ways have one to themselves, and share the other with
    // five of one way. The optimum leaves the shared one to the latter; an uncoupled user takes as much of it as they.
    let ways = Ways { seconds: 200.0, delays: [40, 40], ..Ways::default() };
    let singles = |scheme| {
        let flows = both(scheme, "count = 5") + &single("newreno", "b", "count = 5\nlabel = \"single\"");
        let result = run(&ways.text(&flows));
        println!("{scheme}: {:.3} beside {:?}", of_flows(&result, "single"), parts(&result));
        of_flows(&result, "single")
    };
    let [uncoupled, lia, olia, balia] = ["newreno", "lia", "olia", "balia"].map(singles);
    assert!(uncoupled < 0.8 * lia && lia < 0.95 * olia && lia < 0.95 * balia);
}
