//! Laws of multipath connections: goodput against link capacity, and behaviour when paths fail or differ.

use crate::law::{assert_within, run, spec};
use crate::multipath::{PAYLOAD, TwoPaths, both, goodput, single};
use narrows_cc::Nanos;
use narrows_net::timeline::LossTrace;
use narrows_sim::{Engine, RunResult};

/// Uncoupled subflows over disjoint links get the sum of both capacities.
#[test]
fn multipath_disjoint_links_give_sum_of_capacities() {
    // With a buffer of one BDP NewReno and CUBIC keep their links busy except at the start. BBR spends 200 ms
    // of each 10 s in ProbeRTT with almost nothing in flight.
    for (scheme, tolerance) in [("newreno", 0.01), ("cubic", 0.01), ("bbr", 0.03)] {
        for scheduler in ["lowest-rtt", "round-robin"] {
            let paths = TwoPaths { rates: [10.0, 4.0], ..TwoPaths::default() };
            let result = run(&paths.text(&both(scheme, &format!("scheduler = \"{scheduler}\""))));
            assert_within(scheduler, goodput(&result), 14.0 * PAYLOAD, tolerance);
            for (flow, rate) in result.flows.iter().zip(paths.rates) {
                assert_within(scheme, flow.goodput_mbit_s, rate * PAYLOAD, tolerance);
            }
            assert_bytes_accounted(&result);
            let labels: Vec<_> = result.flows.iter().map(|flow| flow.flow.as_str()).collect();
            assert_eq!((labels, result.connections[0].connection.as_str()), (vec!["both/1", "both/2"], "both"));
        }
    }
}

/// Each byte that arrived on a subflow was delivered in order in the connection, is a duplicate, or waits for earlier
/// data.
#[track_caller]
fn assert_bytes_accounted(result: &RunResult) {
    let arrived: u64 = result.flows.iter().map(|flow| flow.bytes_delivered).sum();
    let row = &result.connections[0];
    let known = row.bytes_delivered + row.duplicate_bytes;
    assert!((known..=known + row.reorder_peak_bytes).contains(&arrived), "{arrived} on subflows: {row:?}");
}

/// Four subflows, two per path, fill both paths.
#[test]
fn multipath_four_subflows_fill_both_paths() {
    let path = |via: &str| format!("{{ route = [\"s\", \"{via}\", \"d\"] }}");
    let (a, b) = (path("a"), path("b"));
    // BALIA reduces the window of a subflow that is not the best by up to three quarters: with one BDP of queue, the
    // path idles afterwards.
    for (scheme, tolerance) in [("cubic", 0.02), ("lia", 0.02), ("olia", 0.02), ("balia", 0.1)] {
        let paths = TwoPaths { rates: [10.0, 4.0], ..TwoPaths::default() };
        let result = run(&paths
            .text(&format!("[[flows]]\nscheme = \"{scheme}\"\nlabel = \"four\"\nsubflows = [{a}, {a}, {b}, {b}]\n")));
        assert_within(scheme, goodput(&result), 14.0 * PAYLOAD, tolerance);
        assert_bytes_accounted(&result);
        let on =
            |subflows: [usize; 2]| subflows.map(|subflow| result.flows[subflow].goodput_mbit_s).iter().sum::<f64>();
        assert_within(scheme, on([0, 1]), 10.0 * PAYLOAD, tolerance);
        assert_within(scheme, on([2, 3]), 4.0 * PAYLOAD, tolerance);
    }
}

/// Over two paths, Nodectl gives a connection all of the first path and half of the path that it shares.
#[test]
fn multipath_nodectl_gets_first_path_and_half_of_shared_one() {
    // The connection has 10 Mbit/s to itself and shares 4 Mbit/s with another flow. It gets 10 + 2 Mbit/s, because each
    // port sees one subflow.
    let paths = TwoPaths {
        rates: [10.0, 4.0],
        network: "[network]\nrouter = \"nodectl\"\nbuffer = \"100pkt\"".to_owned(),
        ..TwoPaths::default()
    };
    for scheduler in ["lowest-rtt", "round-robin"] {
        let flows = both("nodectl", &format!("scheduler = \"{scheduler}\"")) + &single("nodectl", "b", "");
        let result = run(&paths.text(&flows));
        let rates: Vec<_> = result.flows.iter().map(|flow| flow.goodput_mbit_s).collect();
        for (rate, share) in rates.iter().zip([10.0, 2.0, 2.0]) {
            assert_within(scheduler, *rate, share * PAYLOAD, 0.005);
        }
        assert_within(scheduler, goodput(&result), 12.0 * PAYLOAD, 0.005);
        assert_eq!(result.links.iter().map(|link| link.drops).sum::<u64>(), 0);
    }
}

/// A connection with one subflow delivers the same data as plain TCP.
#[test]
fn multipath_one_subflow_is_plain_tcp() {
    // Departure times differ only by the transmission of the options in the handshake: 4 and 12 bytes at 10 Mbit/s.
    let alone = run(&TwoPaths::default().text(&single("cubic", "a", "")));
    let one = "[[flows]]\nscheme = \"cubic\"\nroute = [\"s\", \"a\", \"d\"]\nsubflows = 1\n";
    let result = run(&TwoPaths::default().text(one));
    let packet = 1428.0 * 8e-6 / 54.0;
    assert!((goodput(&result) - alone.flows[0].goodput_mbit_s).abs() <= 2.0 * packet);
    assert_eq!(result.flows[0].packets_sent.abs_diff(alone.flows[0].packets_sent).min(3), 0);
    assert_eq!(result.connections[0].duplicate_bytes, 0);
}

/// A file arrives complete under loss and reordering, with either scheduler.
#[test]
fn multipath_file_arrives_whole_under_loss_and_reordering() {
    let disturbed = "loss = \"2%\"\njitter = { max = \"10ms\", reorder = true }\nreorder = { probability = \"3%\", delay = \"15ms\" }";
    for scheme in ["newreno", "cubic", "bbr", "lia", "olia", "balia", "ewtcp"] {
        for scheduler in ["lowest-rtt", "round-robin"] {
            let paths = TwoPaths {
                seconds: 120.0,
                delays: [5, 50],
                more: [disturbed; 2].map(str::to_owned),
                ..TwoPaths::default()
            };
            let file = format!("size = \"3000001B\"\nscheduler = \"{scheduler}\"");
            let row = run(&paths.text(&both(scheme, &file))).connections.remove(0);
            assert_eq!(row.bytes_delivered, 3_000_001, "{scheme} {scheduler}");
            assert!(row.completion_s.is_some(), "{scheme} {scheduler}");
        }
    }
}

/// When a path fails, goodput continues over the other path within two timeouts.
#[test]
fn multipath_dead_path_moves_goodput_within_two_timeouts() {
    let mut spec = spec(&TwoPaths { seconds: 30.0, ..TwoPaths::default() }.text(&both("newreno", "")));
    let dying = spec.links.iter_mut().find(|link| link.name == "s-b").expect("a link of the scenario");
    dying.config.loss_trace = Some(LossTrace::parse("10000 1000000 1").expect("valid"));
    let mut engine = Engine::new(spec);
    let mut at = |ms: u64| {
        engine.run_until(Nanos::from_millis(ms));
        engine.connection_delivered(0).as_f64()
    };
    // The RTT is 40 ms, or 80 ms with a full queue. A probe is sent after 2 x 80 + 2 ms, the first timeout follows
    // 80 + 200 ms later, and the second timeout after twice that time. Data that has passed the failed link is still
    // acknowledged during the first 40 ms.
    let (stall, before) = (162 + 280 + 560 + 40, at(10_000));
    let silent = at(10_100);
    let after = at(10_000 + stall + 50);
    assert!(silent - before < 0.2 * 10e6 / 8.0, "{}", silent - before);
    assert!(after > silent, "no data within {stall} ms");
    let (from, to) = (at(12_000), at(29_000));
    assert_within("the other path", (to - from) * 8e-6 / 17.0, 10.0 * PAYLOAD, 0.01);
    let row = engine.finish().connections.remove(0);
    assert_eq!(row.paths_given_up, 1);
    // Reinjected data is at most the dead path's window of two BDP.
    assert!(row.reinjected_bytes > 0 && row.reinjected_bytes as f64 <= 2.0 * 1.1e6 / 8.0 * 0.4, "{row:?}");
}

/// A connection stops using a path that fails in either direction, and uses the path again after it recovers.
#[test]
fn multipath_recovered_path_is_used_again() {
    // From 10 s to 20 s the second path drops all data or all ACKs. Retransmissions probe the path. Their timeout
    // doubles from 200 ms: after five doublings a probe is sent 6.3 s after the last ACK, and the next probe 12.7 s
    // after the last ACK. The path is therefore used again by 23 s.
    let lost = || Some(LossTrace::parse("10000 20000 1").expect("valid"));
    for (from, to) in [("s", "b"), ("b", "s")] {
        let mut spec = spec(&TwoPaths { seconds: 40.0, ..TwoPaths::default() }.text(&both("newreno", "")));
        let failing = spec.links.iter_mut().find(|link| link.name == format!("{from}-{to}"));
        failing.expect("a link of the scenario").config.loss_trace = lost();
        let mut engine = Engine::new(spec);
        let mut at = |seconds: u64| {
            engine.run_until(Nanos::from_secs(seconds));
            (engine.connection_delivered(0).as_f64() * 8e-6, engine.flow(1).receiver().bytes_in_order as f64 * 8e-6)
        };
        let [before, start, end, back, last] = [5, 12, 20, 26, 39].map(&mut at);
        assert_within("both paths, before", (before.0 / 5.0).max(1.0), 20.0 * PAYLOAD, 0.05);
        assert_within("one path, during the failure", (end.0 - start.0) / 8.0, 10.0 * PAYLOAD, 0.01);
        assert_within("both paths, afterwards", (last.0 - back.0) / 13.0, 20.0 * PAYLOAD, 0.03);
        let row = engine.finish().connections.remove(0);
        assert_eq!(row.paths_given_up, 1, "{from}-{to}: {row:?}");
    }
}

/// With a small receive window, two paths deliver at least as much as the faster path alone.
#[test]
fn law_multipath_small_window_matches_faster_path() {
    // The RTT is 20 ms on the first path and 200 ms on the second. To fill the first path, its BDP of 25 kB and an
    // equal amount of queue are needed. Without opportunistic retransmission, a segment on the slow path would block
    // the window for 200 ms: 64 KiB in that time are 2.6 Mbit/s. One or two retransmissions in 200 ms, of segments that
    // the slow path may still deliver, cost 1 % of the first path's rate. With similar delays, too, both paths must not
    // be slower than the faster path alone.
    let windows = [32u64, 48, 64, 128];
    let cases = windows.into_iter().flat_map(|kib| [[10, 100], [10, 40], [20, 25]].map(|delays| (kib, delays)));
    for (kib, delays) in cases {
        let network = format!("[tcp]\nreceive_window = \"{kib}KiB\"");
        let paths = TwoPaths { seconds: 30.0, delays, network, ..TwoPaths::default() };
        for scheme in ["newreno", "cubic", "bbr", "lia"] {
            let alone = run(&paths.text(&single(scheme, "a", ""))).flows[0].goodput_mbit_s;
            for scheduler in ["lowest-rtt", "round-robin"] {
                let result = run(&paths.text(&both(scheme, &format!("scheduler = \"{scheduler}\""))));
                let row = &result.connections[0];
                let what = format!("{kib} KiB, {delays:?} ms, {scheme}, {scheduler}");
                assert!(row.goodput_mbit_s >= 0.98 * alone, "{what}: {row:?}");
                assert!(row.reorder_peak_bytes <= kib << 10 && row.rescued_bytes >= row.duplicate_bytes);
            }
        }
    }
}

/// With a receive window that suffices for both paths, the slow path costs no goodput.
#[test]
fn multipath_large_window_loses_nothing_to_slow_path() {
    // 512 KiB are twice the sum of the BDPs. The expected goodput is the sum of both rates, less one penalisation of
    // the slow path, whose window grows by a segment per 200 ms.
    let network = "[tcp]\nreceive_window = \"512KiB\"".to_owned();
    let paths = TwoPaths { delays: [10, 100], network, ..TwoPaths::default() };
    for scheduler in ["lowest-rtt", "round-robin"] {
        let result = run(&paths.text(&both("newreno", &format!("scheduler = \"{scheduler}\""))));
        assert_within(scheduler, goodput(&result), 20.0 * PAYLOAD, 0.05);
    }
}

/// Nodectl gives two subflows of a connection together the share of one flow.
#[test]
fn multipath_nodectl_two_subflows_get_share_of_one_flow() {
    // Table 8 of the paper: A with one flow and D with two subflows share 6 Mbit/s. Each gets 3 Mbit/s on the
    // wire. The mapping in D's packets takes 20 bytes, so goodputs are 3 x 1000/1054 and 3 x 1000/1074.
    let each = "scheme = \"nodectl\"\nrtt = \"20ms\"\ntcp = { segment_bytes = 1000, header_bytes = 54 }\n";
    let result = run(&format!(
        "duration = \"20s\"\nwarmup = \"5s\"\n[network]\nrate = \"6mbit\"\nbuffer = \"100pkt\"\n\
        [[flows]]\nlabel = \"A\"\n{each}[[flows]]\nlabel = \"D\"\nsubflows = 2\n{each}"
    ));
    assert_within("A", result.flows[0].goodput_mbit_s, 3.0 * 1000.0 / 1054.0, 0.005);
    assert_within("D", goodput(&result), 3.0 * 1000.0 / 1074.0, 0.005);
    assert_eq!(result.flows.len(), 3);
    assert_eq!((result.links[0].drops, result.counters().retransmits), (0, 0));
}

/// The subflows of a connection share the access link of their host.
#[test]
fn multipath_subflows_share_access_link() {
    let result = run("duration = \"30s\"\n[network]\nrate = \"100mbit\"\naccess_rate = \"10mbit\"\n\
        access_buffer = \"100pkt\"\n[[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\nsubflows = 2\n");
    assert_within("one access link", goodput(&result), 10.0 * PAYLOAD, 0.01);
}

/// A stopped connection ends after all its sent data has arrived.
#[test]
fn multipath_stopped_connection_delivers_all_sent_data() {
    let result = run(&TwoPaths { seconds: 30.0, ..TwoPaths::default() }.text(&both("newreno", "stop = \"10s\"")));
    // The measurement lasts from 3 s to 10 s.
    assert_within("until the stop", goodput(&result), 20.0 * PAYLOAD, 0.01);
    let row = &result.connections[0];
    let delivered: u64 = result.flows.iter().map(|flow| flow.bytes_delivered).sum();
    assert_eq!((row.bytes_delivered, row.duplicate_bytes), (delivered, 0));
}
