//! Laws of connections of several subflows: goodputs against the capacity of links, and what happens when paths die or differ.

mod law;
mod multipath;

use law::{assert_within, run, spec};
use multipath::{PAYLOAD, Ways, both, goodput, single};
use narrows_cc::Nanos;
use narrows_net::timeline::LossTrace;
use narrows_sim::{Engine, Recorder, RunResult};

#[test]
fn uncoupled_subflows_over_disjoint_links_have_the_sum_of_both() {
    // With a buffer of one BDP NewReno and CUBIC keep their links busy but for the start. BBR probes for the round-trip time for
    // 200 ms of each 10 s, with next to nothing in flight.
    for (scheme, tolerance) in [("newreno", 0.01), ("cubic", 0.01), ("bbr", 0.03)] {
        for scheduler in ["lowest-rtt", "round-robin"] {
            let ways = Ways { rates: [10.0, 4.0], ..Ways::default() };
            let result = run(&ways.text(&both(scheme, &format!("scheduler = \"{scheduler}\""))));
            assert_within(scheduler, goodput(&result), 14.0 * PAYLOAD, tolerance);
            for (flow, rate) in result.flows.iter().zip(ways.rates) {
                assert_within(scheme, flow.goodput_mbit_s, rate * PAYLOAD, tolerance);
            }
            accounts_agree(&result);
            let labels: Vec<_> = result.flows.iter().map(|flow| flow.flow.as_str()).collect();
            assert_eq!(
                (labels, result.connections[0].connection.as_str()),
                (vec!["both/1", "both/2"], "both")
            );
        }
    }
}

/// What arrived on subflows is what the connection has in order, what it had already, and what still waits for data in front.
#[track_caller]
fn accounts_agree(result: &RunResult) {
    let arrived: u64 = result.flows.iter().map(|flow| flow.bytes_delivered).sum();
    let row = &result.connections[0];
    let known = row.bytes_delivered + row.duplicate_bytes;
    assert!((known..=known + row.reorder_peak_bytes).contains(&arrived), "{arrived} on subflows: {row:?}");
}

#[test]
fn four_subflows_two_on_each_way_have_both_ways() {
    let way = |via: &str| format!("{{ route = [\"s\", \"{via}\", \"d\"] }}");
    let (a, b) = (way("a"), way("b"));
    // BALIA gives up to three quarters of a window for a loss where a subflow is not the best: a BDP of queue does not bridge that.
    for (scheme, tolerance) in [("cubic", 0.02), ("lia", 0.02), ("olia", 0.02), ("balia", 0.1)] {
        let ways = Ways { rates: [10.0, 4.0], ..Ways::default() };
        let result = run(&ways.text(&format!(
            "[[flows]]\nscheme = \"{scheme}\"\nlabel = \"four\"\nsubflows = [{a}, {a}, {b}, {b}]\n"
        )));
        assert_within(scheme, goodput(&result), 14.0 * PAYLOAD, tolerance);
        accounts_agree(&result);
        let on = |legs: [usize; 2]| legs.map(|leg| result.flows[leg].goodput_mbit_s).iter().sum::<f64>();
        assert_within(scheme, on([0, 1]), 10.0 * PAYLOAD, tolerance);
        assert_within(scheme, on([2, 3]), 4.0 * PAYLOAD, tolerance);
    }
}

#[test]
fn nodectl_gives_a_connection_over_two_ways_the_first_and_half_of_the_one_that_it_shares() {
    // 10 Mbit/s for itself, 4 Mbit/s with another flow: 10 + 2 by the shares of ports that see one subflow each.
    let ways = Ways {
        rates: [10.0, 4.0],
        network: "[network]\nrouter = \"nodectl\"\nbuffer = \"100pkt\"".to_owned(),
        ..Ways::default()
    };
    for scheduler in ["lowest-rtt", "round-robin"] {
        let flows = both("nodectl", &format!("scheduler = \"{scheduler}\"")) + &single("nodectl", "b", "");
        let result = run(&ways.text(&flows));
        let rates: Vec<_> = result.flows.iter().map(|flow| flow.goodput_mbit_s).collect();
        for (rate, share) in rates.iter().zip([10.0, 2.0, 2.0]) {
            assert_within(scheduler, *rate, share * PAYLOAD, 0.005);
        }
        assert_within(scheduler, goodput(&result), 12.0 * PAYLOAD, 0.005);
        assert_eq!(result.links.iter().map(|link| link.drops).sum::<u64>(), 0);
    }
}

#[test]
fn a_connection_of_one_subflow_is_plain_tcp() {
    // The same packets leave at the same times, but for the options in the handshake: 4 and 12 bytes at 10 Mbit/s.
    let alone = run(&Ways::default().text(&single("cubic", "a", "")));
    let one = "[[flows]]\nscheme = \"cubic\"\nroute = [\"s\", \"a\", \"d\"]\nsubflows = 1\n";
    let result = run(&Ways::default().text(one));
    let packet = 1428.0 * 8e-6 / 54.0;
    assert!((goodput(&result) - alone.flows[0].goodput_mbit_s).abs() <= 2.0 * packet);
    assert_eq!(result.flows[0].packets_sent.abs_diff(alone.flows[0].packets_sent).min(3), 0);
    assert_eq!(result.connections[0].duplicate_bytes, 0);
}

#[test]
fn a_file_arrives_whole_under_loss_and_reordering_by_either_scheduler() {
    let disturbed = "loss = \"2%\"\njitter = { max = \"10ms\", reorder = true }\nreorder = { probability = \"3%\", delay = \"15ms\" }";
    for scheme in ["newreno", "cubic", "bbr", "lia", "olia", "balia", "ewtcp"] {
        for scheduler in ["lowest-rtt", "round-robin"] {
            let ways = Ways {
                seconds: 120.0,
                delays: [5, 50],
                more: [disturbed; 2].map(str::to_owned),
                ..Ways::default()
            };
            let file = format!("size = \"3000001B\"\nscheduler = \"{scheduler}\"");
            let row = run(&ways.text(&both(scheme, &file))).connections.remove(0);
            assert_eq!(row.bytes_delivered, 3_000_001, "{scheme} {scheduler}");
            assert!(row.completion_s.is_some(), "{scheme} {scheduler}");
        }
    }
}

#[test]
fn when_a_path_dies_goodput_goes_on_over_the_other_within_two_timeouts() {
    let mut spec = spec(&Ways { seconds: 30.0, ..Ways::default() }.text(&both("newreno", "")));
    let dying = spec.links.iter_mut().find(|link| link.name == "s-b").expect("it is listed");
    dying.config.loss_trace = Some(LossTrace::parse("10000 1000000 1").expect("valid"));
    let mut engine = Engine::new(spec, Recorder::off());
    let mut at = |ms: u64| {
        engine.run_until(Nanos::from_millis(ms)).expect("nothing is written");
        engine.connection_delivered(0).as_f64()
    };
    // 40 ms of delay and as much in a full queue: a probe after 160 ms, the first timeout 200 ms later, the second after
    // twice that; what the path held takes another 40 ms to arrive.
    let (stall, before) = (160 + 200 + 400 + 40, at(10_000));
    let silent = at(10_100);
    let after = at(10_000 + stall + 50);
    assert!(silent - before < 0.2 * 10e6 / 8.0, "{}", silent - before);
    assert!(after > silent, "nothing after {stall} ms");
    let (from, to) = (at(12_000), at(29_000));
    assert_within("the other path", (to - from) * 8e-6 / 17.0, 10.0 * PAYLOAD, 0.01);
    let row = engine.finish().expect("nothing is written").connections.remove(0);
    assert_eq!(row.paths_given_up, 1);
    // No more than the window of the dead path, of two BDP, was repeated.
    assert!(row.reinjected_bytes > 0 && row.reinjected_bytes as f64 <= 2.0 * 1.1e6 / 8.0 * 0.4, "{row:?}");
}

#[test]
fn a_path_that_dies_in_either_direction_is_left_and_used_again_when_it_is_back() {
    // From 10 s to 20 s nothing arrives over the second way, or no acknowledgement comes back. The probe is a retransmission,
    // whose timeout has doubled five times from 200 ms (6.3 s after the last answer, then 12.7 s): it is back by 23 s.
    let lost = || Some(LossTrace::parse("10000 20000 1").expect("valid"));
    for (from, to) in [("s", "b"), ("b", "s")] {
        let mut spec = spec(&Ways { seconds: 40.0, ..Ways::default() }.text(&both("newreno", "")));
        let position = spec.links.iter().position(|link| link.name == format!("{from}-{to}"));
        let position = position.unwrap_or_else(|| {
            panic!("{:?}", spec.links.iter().map(|link| link.name.clone()).collect::<Vec<_>>())
        });
        spec.links[position].config.loss_trace = lost();
        let mut engine = Engine::new(spec, Recorder::off());
        let mut at = |seconds: u64| {
            engine.run_until(Nanos::from_secs(seconds)).expect("nothing is written");
            (engine.connection_delivered(0).as_f64() * 8e-6, engine.delivered(1).as_f64() * 8e-6)
        };
        let [before, start, end, back, last] = [5, 12, 20, 26, 39].map(&mut at);
        assert_within("both before", (before.0 / 5.0).max(1.0), 20.0 * PAYLOAD, 0.05);
        assert_within("one between", (end.0 - start.0) / 8.0, 10.0 * PAYLOAD, 0.01);
        assert_within("both again", (last.0 - back.0) / 13.0, 20.0 * PAYLOAD, 0.03);
        let row = engine.finish().expect("nothing is written").connections.remove(0);
        assert_eq!(row.paths_given_up, 1, "{from}-{to}: {row:?}");
    }
}

#[test]
fn law_a_small_window_over_two_ways_brings_at_least_what_the_faster_one_does_alone() {
    // 20 ms there and back over the first way, 200 ms over the second. The first needs a BDP of 25 kB and as much of queue. If
    // nothing was repeated, the window could not move past a segment on the slow way in less than 200 ms: 64 KiB in that time
    // are 2.6 Mbit/s. A repetition for each segment that the slow way may still have, one or two in 200 ms, is 1 % of the first.
    // Nearer ways must not do worse either.
    let windows = [32u64, 48, 64, 128];
    let cases =
        windows.into_iter().flat_map(|kib| [[10, 100], [10, 40], [20, 25]].map(|delays| (kib, delays)));
    for (kib, delays) in cases {
        let network = format!("[tcp]\nreceive_window = \"{kib}KiB\"");
        let ways = Ways { seconds: 30.0, delays, network, ..Ways::default() };
        for scheme in ["newreno", "cubic", "bbr", "lia"] {
            let alone = run(&ways.text(&single(scheme, "a", ""))).flows[0].goodput_mbit_s;
            for scheduler in ["lowest-rtt", "round-robin"] {
                let result = run(&ways.text(&both(scheme, &format!("scheduler = \"{scheduler}\""))));
                let row = &result.connections[0];
                let what = format!("{kib} KiB, {delays:?} ms, {scheme}, {scheduler}");
                println!("{what}: {:.3} of {alone:.3}", row.goodput_mbit_s);
                assert!(row.goodput_mbit_s >= 0.98 * alone, "{what}: {row:?}");
                assert!(row.reorder_peak_bytes <= kib << 10 && row.rescued_bytes >= row.duplicate_bytes);
            }
        }
    }
}

#[test]
fn a_window_that_holds_both_ways_loses_nothing_to_the_slow_one() {
    // 512 KiB are twice the BDPs of both ways: the sum, less what one penalty costs a slow way that grows by a segment in 200 ms.
    let network = "[tcp]\nreceive_window = \"512KiB\"".to_owned();
    let ways = Ways { delays: [10, 100], network, ..Ways::default() };
    for scheduler in ["lowest-rtt", "round-robin"] {
        let result = run(&ways.text(&both("newreno", &format!("scheduler = \"{scheduler}\""))));
        assert_within(scheduler, goodput(&result), 20.0 * PAYLOAD, 0.05);
    }
}

#[test]
fn nodectl_gives_a_connection_of_two_subflows_the_share_of_one_flow() {
    // Table 8 of the paper: 6 Mbit/s, A alone and D over two subflows. Each has 3 Mbit/s on the wire; the mapping of D's
    // packets takes 20 bytes: 3 x 1000/1054 and 3 x 1000/1074.
    let each = "scheme = \"nodectl\"\nrtt = \"20ms\"\ntcp = { segment_bytes = 1000, header_bytes = 54 }\n";
    let result = run(&format!(
        "name = \"table 8\"\nduration = \"20s\"\nwarmup = \"5s\"\n[network]\nrate = \"6mbit\"\nbuffer = \"100pkt\"\n\
        [[flows]]\nlabel = \"A\"\n{each}[[flows]]\nlabel = \"D\"\nsubflows = 2\n{each}"
    ));
    assert_within("A", result.flows[0].goodput_mbit_s, 3.0 * 1000.0 / 1054.0, 0.005);
    assert_within("D", goodput(&result), 3.0 * 1000.0 / 1074.0, 0.005);
    let [_, first, second] = &result.flows[..] else { panic!("three flows") };
    println!("{} {}", first.goodput_mbit_s, second.goodput_mbit_s);
    assert_eq!((result.links[0].drops, result.counters.retransmits), (0, 0));
}

#[test]
fn subflows_share_the_access_link_of_their_host() {
    let result = run(
        "name = \"access\"\nduration = \"30s\"\n[network]\nrate = \"100mbit\"\naccess_rate = \"10mbit\"\n\
        access_buffer = \"100pkt\"\n[[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\nsubflows = 2\n",
    );
    assert_within("one access link", goodput(&result), 10.0 * PAYLOAD, 0.01);
}

#[test]
fn a_connection_that_is_stopped_ends_when_its_data_has_arrived() {
    let result = run(&Ways { seconds: 30.0, ..Ways::default() }.text(&both("newreno", "stop = \"10s\"")));
    // Measured from 3 s to 10 s.
    assert_within("until it stops", goodput(&result), 20.0 * PAYLOAD, 0.01);
    let row = &result.connections[0];
    let delivered: u64 = result.flows.iter().map(|flow| flow.bytes_delivered).sum();
    assert_eq!((row.bytes_delivered, row.duplicate_bytes), (delivered, 0));
}
