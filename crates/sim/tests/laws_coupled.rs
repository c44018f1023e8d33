//! Laws of coupled congestion control: measured shares are compared with the goals of RFC 6356, the claims of the
//! papers on its successors, and shares computed from the rules of the schemes.

use crate::law::{assert_within, link, run, spec};
use crate::multipath::{PAYLOAD, TwoPaths, both, goodput, of_flows, single, windows};
use narrows_cc::Nanos;
use narrows_sim::{Engine, RunResult};

const COUPLED: [&str; 6] = ["ewtcp", "olia", "balia", "lia", "mptcp-coupled", "mptcp-semicoupled"];

/// Goodput of connections with two subflows, divided by the goodput of as many plain flows with equal segment size.
fn ratio(scheme: &str, count: u32, tables: &str) -> f64 {
    let flow = |scheme: &str, more: &str| {
        format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\ncount = {count}\nspread = \"1s\"\n{more}\n")
    };
    let multi = flow(scheme, "subflows = 2\nlabel = \"multi\"");
    let plain = flow("newreno", "label = \"plain\"\ntcp = { segment_bytes = 1428, header_bytes = 72 }");
    let result = run(&format!("{tables}\n{multi}{plain}"));
    goodput(&result) / of_flows(&result, "plain")
}

/// Total window of two subflows relative to the window of a plain flow at this loss probability, from the scheme's
/// rule without a network.
fn by_rule(scheme: &str, loss: f64) -> f64 {
    let sum: f64 = windows::mean_windows(scheme, [loss; 2], 40_000).iter().sum();
    sum / windows::mean_windows("newreno", [loss], 80_000)[0]
}

/// With independent losses, coupled subflows get the share that their rules give.
#[test]
fn law_coupled_independent_losses_give_rule_shares() {
    // RFC 6356 goal 2 is a ratio of one. EWTCP and OLIA reach it: with a quarter of Reno's increase at equal
    // windows, each of two subflows has half of Reno's window. LIA gets 9 % more and BALIA 4 % more, because alpha and
    // the best rate follow the larger of two independently oscillating windows. COUPLED gets 4 % more, because its
    // windows grow and shrink alternately. SEMI-COUPLED gets less than sqrt(2), because its growth a/w_T per segment is
    // at most Reno's growth on the smaller window. ACKs are not delayed: a delayed ACK costs each subflow half a
    // segment, because an odd last segment waits for the next flight. Windows are whole segments, 20 per subflow.
    for scheme in COUPLED.into_iter().chain(["newreno"]) {
        let tables = "duration = \"400s\"\n[tcp]\nack_every = 1\n[network]\nrate = \"10gbit\"\nloss = \"0.1%\"";
        assert_within(scheme, ratio(scheme, 8, tables), by_rule(scheme, 0.001), 0.05);
    }
}

/// At a shared bottleneck, coupled subflows get at most the share that their rules give.
#[test]
fn law_coupled_shared_bottleneck_share_within_rule() {
    // Drop-tail, with windows of twenty segments per plain flow and ten per subflow. Seeds differ by jitter of a few
    // packet times at the bottleneck, so that flows do not stay in phase (Floyd and Jacobson 1992). No scheme gets
    // more than its rule gives at independent losses. EWTCP, OLIA and COUPLED get 6 % less: delayed ACKs take half a
    // segment from every window, and the window of a subflow is half as large. Packets leave one by one, because bursts
    // of a plain flow would lose more packets than subflows, which get their data segment by segment.
    for scheme in COUPLED.into_iter().chain(["newreno"]) {
        let ratios = (1..=6).map(|seed| {
            let network = "[network]\nrate = \"40mbit\"\njitter = { max = \"1ms\" }\n[tcp]\nprofile = \"rfc\"";
            ratio(scheme, 4, &format!("duration = \"200s\"\nseed = {seed}\n{network}"))
        });
        let ratios: Vec<f64> = ratios.collect();
        let n = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / n;
        let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // Student's t for five degrees of freedom, 95 %.
        let interval = 2.571 * (variance / n).sqrt();
        let rule = by_rule(scheme, 0.003);
        assert!(interval < 0.06, "{scheme}: {ratios:?}");
        assert!(mean - interval <= rule && mean + interval >= 0.93 * rule, "{scheme}: {mean} +- {interval} by {rule}");
    }
}

/// Two paths without queues that lose packets at random.
fn lossy(percent: [f64; 2], delays: [u32; 2]) -> TwoPaths {
    TwoPaths {
        seconds: 400.0,
        rates: [10_000.0; 2],
        delays,
        more: percent.map(|loss| format!("loss = \"{loss}%\"")),
        ..TwoPaths::default()
    }
}

fn alone(paths: &TwoPaths) -> [f64; 2] {
    ["a", "b"].map(|via| run(&paths.text(&single("newreno", via, ""))).flows[0].goodput_mbit_s)
}

fn parts(result: &RunResult) -> [f64; 2] {
    [of_flows(result, "/1"), of_flows(result, "/2")]
}

/// LIA gets the goodput of the best path (RFC 6356 goal 1) and moves off congestion (goal 3).
#[test]
fn lia_matches_best_path_and_moves_off_congestion() {
    // Per round trip the window of subflow r grows by alpha w_r/w_T and shrinks by p_r w_r^2/2, so w_r is proportional
    // to 1/p_r: the ratio is 4 : 1 for losses of 0.1 and 0.4 %. Alpha makes the sum of w_r/rtt_r equal to that of the
    // best path alone.
    for percent in [[0.1, 0.1], [0.1, 0.4]] {
        let paths = lossy(percent, [20, 20]);
        let best = alone(&paths).into_iter().fold(0.0, f64::max);
        let result = run(&paths.text(&both("lia", "")));
        assert_within("best path", goodput(&result), best, 0.15);
        let [first, second] = parts(&result);
        assert_within("split", first / second, percent[1] / percent[0], 0.25);
    }
}

/// OLIA and BALIA match the best path and use the worse path less than LIA does.
#[test]
fn law_olia_balia_match_best_path_and_leave_worse_one() {
    // Both papers claim goal 1 of RFC 6356, at equal and unequal loss and round-trip times. Delayed ACKs cost
    // two small windows more than one large window, here up to a tenth.
    for (percent, delays) in [([0.1, 0.1], [20, 20]), ([0.1, 0.4], [20, 20]), ([0.1, 0.1], [10, 40])] {
        let paths = lossy(percent, delays);
        let best = alone(&paths).into_iter().fold(0.0, f64::max);
        let on_worse = |scheme| {
            let result = run(&paths.text(&both(scheme, "")));
            let [first, second] = parts(&result);
            println!("{scheme} {percent:?} {delays:?}: {first:.3} + {second:.3} of {best:.3}");
            assert!(goodput(&result) > 0.88 * best && goodput(&result) < 1.1 * best, "{scheme}");
            second / (first + second)
        };
        let [lia, olia, balia] = ["lia", "olia", "balia"].map(on_worse);
        if percent[0] < percent[1] || delays[0] < delays[1] {
            assert!(olia < 0.8 * lia && balia < 0.8 * lia, "{olia} {balia} {lia}");
        } else {
            assert!([lia, olia, balia].iter().all(|share| (0.4..0.6).contains(share)), "{olia} {balia} {lia}");
        }
    }
}

/// In scenario A, two-path users gain nothing; with OLIA and BALIA they take less from the other users than with LIA.
#[test]
fn law_scenario_a_olia_balia_take_less_from_others_than_lia() {
    const SEEDS: u32 = 8;
    // Scenario A of Khalili et al. (CoNEXT 2012): five two-path users behind a server of 20 Mbit/s, and five
    // single-path users. The second path of the two-path users is the only path of the single-path users, with 20
    // Mbit/s.
    //
    //   s --20-- m --------- p --- d
    //            '--- x --20------'
    //   t ------------'
    // Jitter of a few packet times, so that flows do not stay in phase; results are means over eight seeds.
    let jitter = "jitter = { max = \"1ms\" }";
    let links = [
        link("s", "m", "20mbit", "10ms", jitter),
        link("m", "p", "1000mbit", "1ms", ""),
        link("p", "d", "1000mbit", "9ms", ""),
        link("m", "x", "1000mbit", "1ms", ""),
        link("t", "x", "1000mbit", "11ms", ""),
        link("x", "d", "20mbit", "9ms", jitter),
    ]
    .concat();
    let others = |scheme: &str, second: &str| {
        let text = format!(
            "duration = \"150s\"\nwarmup = \"10%\"\n{links}[[flows]]\nscheme = \"{scheme}\"\n\
            label = \"two\"\ncount = 5\nspread = \"1s\"\nsubflows = [{{ route = [\"s\", \"m\", \"p\", \"d\"] }}{second}]\n\
            [[flows]]\nscheme = \"newreno\"\nlabel = \"one\"\nroute = [\"t\", \"x\", \"d\"]\ncount = 5\nspread = \"1s\"\n\
            tcp = {{ segment_bytes = 1428, header_bytes = 72 }}\n"
        );
        let one = |seed: u32| {
            let result = run(&format!("seed = {seed}\n{text}"));
            assert_within(scheme, goodput(&result), 20.0 * PAYLOAD, 0.02);
            of_flows(&result, "one")
        };
        (1..=SEEDS).map(one).sum::<f64>() / f64::from(SEEDS)
    };
    let alone = others("newreno", "");
    let [uncoupled, lia, olia, balia] =
        ["newreno", "lia", "olia", "balia"].map(|s| others(s, ", { route = [\"s\", \"m\", \"x\", \"d\"] }"));
    println!("others: {alone:.2} alone, {uncoupled:.2}, {lia:.2}, {olia:.2}, {balia:.2}");
    // With LIA, two-path users take bandwidth from the others although they gain nothing (the paper's first problem).
    // With OLIA they should take much less, as the paper claims.
    assert_within("alone", alone, 20.0 * PAYLOAD, 0.02);
    assert!(uncoupled < 0.8 * alone && lia < 0.9 * alone);
    assert!(alone - olia < 0.75 * (alone - lia) && alone - balia < 0.75 * (alone - lia));
}

/// Linked schemes leave a path while a TCP flow uses it, and return afterwards.
#[test]
fn law_linked_schemes_leave_path_of_joining_tcp_and_return() {
    const SEEDS: u32 = 10;
    // Two paths of 10 Mbit/s; a TCP flow uses the second from 60 s to 120 s. RED equalises losses, because a full
    // drop-tail queue would drop from the faster-growing flow. On the second path, uncoupled subflows get half of the
    // rate; EWTCP has half of the TCP flow's window and therefore gets a third; linked schemes get less, because they
    // have an alternate path. Means over ten seeds.
    let red = "queue = \"red\"\nbuffer = \"100pkt\"\njitter = { max = \"3ms\" }";
    let paths = TwoPaths { seconds: 140.0, warmup: "0s", more: [red; 2].map(str::to_owned), ..TwoPaths::default() };
    let shares = |scheme: &str| {
        let mut sums = [0.0; 4];
        for seed in 1..=SEEDS {
            let join = "start = \"60s\"\nstop = \"120s\"\nlabel = \"joins\"";
            let text = paths.text(&(both(scheme, "") + &single("newreno", "b", join)));
            let mut engine = Engine::new(spec(&format!("seed = {seed}\n{text}")));
            let mut at = |seconds| {
                engine.run_until(Nanos::from_secs(seconds));
                [1, 2].map(|flow| engine.flow(flow).receiver().bytes_in_order as f64 * 8e-6)
            };
            let [a, b, c, d, e, f, g] = [30, 60, 65, 75, 120, 125, 135].map(&mut at);
            let share = |from: [f64; 2], to: [f64; 2]| (to[0] - from[0]) / (to[0] + to[1] - from[0] - from[1]);
            let own = |from: [f64; 2], to: [f64; 2], seconds: f64| (to[0] - from[0]) / seconds;
            let back = own(f, g, 10.0) / own(a, b, 30.0);
            for (sum, part) in sums.iter_mut().zip([share(c, d), share(d, e), back, own(a, b, 30.0)]) {
                *sum += part / f64::from(SEEDS);
            }
        }
        println!(
            "{scheme}: {:.3} at once, {:.3} later; {:.3} of {:.3} Mbit/s afterwards",
            sums[0], sums[1], sums[2], sums[3]
        );
        assert!(sums[2] > 0.8 && sums[3] > 7.0, "{scheme} does not return");
        sums
    };
    assert_within("uncoupled", shares("newreno")[1], 1.0 / 2.0, 0.15);
    assert_within("EWTCP", shares("ewtcp")[1], 1.0 / 3.0, 0.15);
    for scheme in ["lia", "olia", "balia"] {
        let [soon, later, ..] = shares(scheme);
        assert!(soon < 0.27 && later < 0.27, "{scheme}: {soon} {later}");
    }
}

/// LIA uses the fast path with high loss; COUPLED does not.
#[test]
fn lia_uses_fast_lossy_path_that_coupled_leaves() {
    // Wischik et al. (NSDI 2011, section 2.3): a path with an RTT of 10 ms and 4 % loss against a path with 100 ms and
    // 1 %. A TCP flow gets four to five times as much goodput on the first path. COUPLED moves all data to the path
    // with less loss, regardless of round-trip times.
    let paths = lossy([4.0, 1.0], [5, 50]);
    let [fast, slow] = alone(&paths);
    assert!(fast > 3.0 * slow, "{fast} {slow}");
    let of = |scheme| goodput(&run(&paths.text(&both(scheme, ""))));
    let (lia, coupled, ewtcp) = (of("lia"), of("mptcp-coupled"), of("ewtcp"));
    assert_within("LIA, best path", lia, fast, 0.15);
    assert_within("EWTCP, half of each", ewtcp, (fast + slow) / 2.0, 0.2);
    assert!(coupled < 0.6 * fast, "{coupled}");
}

/// EWTCP gets half of a TCP flow's goodput on each path.
#[test]
fn ewtcp_gets_half_of_a_tcp_per_path() {
    // The increase is a/w with a = 1/4: at equal loss the window is sqrt(a) times the window of a TCP flow.
    let paths = lossy([0.1, 0.1], [20, 20]);
    let [first, second] = alone(&paths);
    let own = parts(&run(&paths.text(&both("ewtcp", ""))));
    assert_within("first", own[0], first / 2.0, 0.1);
    assert_within("second", own[1], second / 2.0, 0.1);
}

/// OLIA and BALIA leave more of a shared link to single-path flows than LIA does.
#[test]
fn olia_and_balia_leave_more_to_single_path_flows_than_lia() {
    // Scenario C of Khalili et al. (CoNEXT 2012): five two-path users have one path to themselves and share
    // the other with five single-path users. In the optimum, single-path users get the whole shared path. An uncoupled
    // two-path user takes as much of it as a single-path user.
    let paths = TwoPaths { seconds: 200.0, delays: [40, 40], ..TwoPaths::default() };
    let singles = |scheme| {
        let flows = both(scheme, "count = 5") + &single("newreno", "b", "count = 5\nlabel = \"single\"");
        let result = run(&paths.text(&flows));
        println!("{scheme}: {:.3} beside {:?}", of_flows(&result, "single"), parts(&result));
        of_flows(&result, "single")
    };
    let [uncoupled, lia, olia, balia] = ["newreno", "lia", "olia", "balia"].map(singles);
    assert!(uncoupled < 0.8 * lia && lia < 0.95 * olia && lia < 0.95 * balia);
}
