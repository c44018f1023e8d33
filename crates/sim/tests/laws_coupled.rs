//! Laws of coupled congestion control: the goals of RFC 6356 and what the papers of its successors claim, against shares
//! computed from the rules of the schemes.

mod law;
mod multipath;

use law::{assert_within, run};
use multipath::{Ways, both, goodput, of_flows, single, windows};
use narrows_sim::RunResult;

const COUPLED: [&str; 6] = ["ewtcp", "olia", "balia", "lia", "mptcp-coupled", "mptcp-semicoupled"];

/// Connections of two subflows and as many plain flows, with segments alike: how much the connections have for each byte of
/// the others.
fn ratio(scheme: &str, count: u32, tables: &str) -> f64 {
    let flow = |scheme: &str, more: &str| {
        format!(
            "[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\ncount = {count}\nspread = \"1s\"\n{more}\n"
        )
    };
    let multi = flow(scheme, "subflows = 2\nlabel = \"multi\"");
    let plain = flow("newreno", "label = \"plain\"\ntcp = { segment_bytes = 1428, header_bytes = 72 }");
    let result = run(&format!("name = \"shared\"\n{tables}\n{multi}{plain}"));
    goodput(&result) / of_flows(&result, "plain")
}

/// What two subflows have of a plain flow's window at this loss probability by the scheme's rule alone.
fn by_rule(scheme: &str, loss: f64) -> f64 {
    let sum: f64 = windows::mean_windows(scheme, [loss; 2], 40_000).iter().sum();
    sum / windows::mean_windows("newreno", [loss], 80_000)[0]
}

#[test]
fn law_under_independent_losses_coupled_subflows_take_what_their_rules_say() {
    // RFC 6356 goal 2 is one. EWTCP and OLIA have it: a quarter of Reno's increase at equal windows, which is half its window,
    // twice. LIA has 9 % more and BALIA 4 %: alpha and the best rate go by the larger of windows that swing one by one. COUPLED
    // has 4 % more: its windows go up and down in turns. SEMI-COUPLED has less than sqrt(2) of it, because its growth a/w_T per
    // segment is Reno's on the smaller window at most. Acknowledgements are not delayed, since that costs each subflow half a
    // segment of its window: the odd one waits for the next flight. Windows are whole segments here, 20 on a subflow.
    for scheme in COUPLED.into_iter().chain(["newreno"]) {
        let tables =
            "duration = \"400s\"\n[tcp]\nack_every = 1\n[network]\nrate = \"10gbit\"\nloss = \"0.1%\"";
        assert_within(scheme, ratio(scheme, 8, tables), by_rule(scheme, 0.001), 0.05);
    }
}

#[test]
fn law_coupled_subflows_take_no_more_of_a_shared_bottleneck_than_their_rules_say() {
    // Drop-tail, in windows of twenty segments and ten on a subflow. Jitter is what tells the seeds apart: a few packet times at
    // the bottleneck, so that no phase of a flow lasts (Floyd and Jacobson 1992). None has more than by its rule at independent
    // losses. EWTCP, OLIA and COUPLED have 6 % less, since delayed acknowledgements take half a segment from every window, and
    // a subflow's is half as large.
    for scheme in COUPLED.into_iter().chain(["newreno"]) {
        let ratios = (1..=6).map(|seed| {
            let network = "[network]\nrate = \"40mbit\"\njitter = { max = \"1ms\" }";
            ratio(scheme, 4, &format!("duration = \"200s\"\nseed = {seed}\n{network}"))
        });
        let ratios: Vec<f64> = ratios.collect();
        let n = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / n;
        let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // Student's t for five degrees of freedom, 95 %.
        let interval = 2.571 * (variance / n).sqrt();
        let rule = by_rule(scheme, 0.003);
        println!("{scheme}: {mean:.3} +- {interval:.3}, by its rule {rule:.3}");
        assert!(interval < 0.06, "{scheme}: {ratios:?}");
        assert!(mean - interval <= rule && mean + interval >= 0.93 * rule, "{scheme}: {mean} +- {interval}");
    }
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
