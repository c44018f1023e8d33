//! Laws of Nodectl: the negotiated rates against shares computed by hand. Rates on the wire count headers, goodput does not.

mod law;

use law::{PAYLOAD, assert_within, goodputs, reading, run, spec};
use narrows_cc::Nanos;
use narrows_routers::RouterLink;
use narrows_sim::{Engine, Recorder, RunResult};

/// Megabits per second of the bottleneck.
const RATE: f64 = 36.0;
/// Seconds of a round trip.
const RTT: f64 = 0.02;

/// A dumbbell of [`RATE`] with the buffer of the paper; `flows` are tables.
fn text(duration_s: f64, warmup_s: f64, network: &str, flows: &str) -> String {
    format!(
        r#"
name = "nodectl law"
duration = "{duration_s}s"
warmup = "{warmup_s}s"
[network]
rate = "{RATE}mbit"
buffer = "100pkt"
{network}
{flows}
"#
    )
}

/// A table of flows with a round-trip time of [`RTT`].
fn flow(more: &str) -> String {
    format!("[[flows]]\nscheme = \"nodectl\"\nrtt = \"20ms\"\n{more}\n")
}

/// Each flow has the stated rate on the wire, in Mbit/s.
#[track_caller]
fn assert_rates(result: &RunResult, expected: &[f64], tolerance: f64) {
    for (n, (measured, wire)) in goodputs(result).iter().zip(expected).enumerate() {
        assert_within(&format!("flow {n}"), *measured, wire * PAYLOAD, tolerance);
    }
}

#[track_caller]
fn assert_lossless(result: &RunResult) {
    for link in &result.links {
        assert_eq!(link.drops, 0, "{}", link.link);
    }
    assert_eq!((result.counters.retransmits, result.counters.timeouts), (0, 0));
}

#[test]
fn any_number_of_flows_share_one_bottleneck_exactly_and_lose_nothing() {
    for count in [1, 2, 3, 7, 20] {
        let result = run(&text(20.0, 5.0, "", &flow(&format!("count = {count}"))));
        // A packet more or less in 15 s: 20 of 20 000 for the slowest.
        assert_rates(&result, &vec![RATE / f64::from(count); count as usize], 0.001);
        assert_lossless(&result);
        assert!(result.links[0].utilization > 0.999, "{}", result.links[0].utilization);
        println!("{count} flows: queue {:.2} pkt", result.links[0].queue_mean_pkt);
        // Paced flows meet by chance, one packet of each at the worst.
        assert!(
            result.links[0].queue_mean_pkt <= f64::from(count) + 2.0,
            "{}",
            result.links[0].queue_mean_pkt
        );
    }
}

#[test]
fn table_7_three_transmissions_get_12_mbit_less_headers() {
    let each = "tcp = { segment_bytes = 1000, header_bytes = 54 }\n";
    let flows: String =
        ["0s", "5s", "10s"].iter().map(|at| flow(&format!("start = \"{at}\"\n{each}"))).collect();
    let result = run(&text(20.0, 10.5, "", &flows));
    for goodput in goodputs(&result) {
        // 12 Mbit/s x 1000/1054.
        assert_within("table 7", goodput, 11.385, 0.001);
    }
    assert_lossless(&result);
}

#[test]
fn a_file_waits_one_round_trip_for_its_rate_and_then_has_all_of_it() {
    // SYN and request: 2 RTT and their serialisation; 1000 packets at 36 Mbit/s; the last crosses the link and comes back.
    let result = run(&text(5.0, 0.0, "", &flow("size = \"1448000B\"")));
    let packet = 1500.0 * 8.0 / (RATE * 1e6);
    let expected = 2.0 * RTT + 1000.0 * packet + RTT;
    let completion = result.flows[0].completion_s.expect("it completes");
    // Handshake, request and acknowledgements take 52 to 60 B each: 13 us apiece; and one packet.
    assert!((completion - expected).abs() < packet + 5.0 * 13e-6, "{completion}, not {expected}");
    assert_lossless(&result);
}

/// Steps through a run by milliseconds. The windows are twice rate times round-trip time: when all of them came within a
/// hundredth of `expected` Mbit/s (on the wire, one for each flow; zero: not looked at) for good, in seconds after `event`.
fn settles(text: &str, event: f64, until: f64, expected: &[f64]) -> f64 {
    let mut engine = Engine::new(spec(text), Recorder::off());
    let (mut now, mut settled) = (event, event);
    while now < until {
        engine.run_until(Nanos::from_secs_f64(now)).unwrap();
        for (flow, wire) in expected.iter().enumerate().filter(|(_, wire)| **wire > 0.0) {
            let window = 2.0 * wire * PAYLOAD * 1e6 / 8.0 * RTT;
            // The queue of a packet or two is in the measured round-trip time: 5 %.
            if (engine.window(flow).as_f64() / window - 1.0).abs() > 0.05 {
                settled = now + 0.001;
            }
        }
        now += 0.001;
    }
    let result = engine.finish().unwrap();
    assert_lossless(&result);
    settled - event
}

#[test]
fn shares_are_right_two_round_trips_after_a_flow_joins() {
    let flows = flow("") + &flow("start = \"2s\"");
    let after = settles(&text(4.0, 0.0, "", &flows), 2.0, 3.9, &[RATE / 2.0, RATE / 2.0]);
    println!("join: {:.2} RTT", after / RTT);
    assert!(after <= 2.1 * RTT, "{after}");
}

#[test]
fn shares_are_right_three_round_trips_after_a_flow_leaves() {
    // What is in flight is acknowledged after one, and the termination reaches the node at once; the others ask for what
    // they are offered, which takes another.
    let flows = flow("count = 2") + &flow("stop = \"2s\"");
    let after = settles(&text(4.0, 0.0, "", &flows), 2.0, 3.9, &[RATE / 2.0, RATE / 2.0, 0.0]);
    println!("leave: {:.2} RTT", after / RTT);
    assert!(after <= 3.0 * RTT, "{after}");
}

#[test]
fn subflows_of_one_transmission_have_one_share_together() {
    // Table 8: A against D1 and D2.
    let flows = flow("") + &flow("count = 2\ncontent = 7");
    let result = run(&text(20.0, 5.0, "", &flows));
    assert_rates(&result, &[RATE / 2.0, RATE / 4.0, RATE / 4.0], 0.001);
    assert_lossless(&result);
}

#[test]
fn what_the_ends_cannot_use_goes_to_the_others() {
    let flows = flow("receive_rate = \"6mbit\"") + &flow("max_rate = \"4mbit\"") + &flow("count = 2");
    let result = run(&text(20.0, 5.0, "", &flows));
    assert_rates(&result, &[6.0, 4.0, 13.0, 13.0], 0.002);
    assert_lossless(&result);
}

/// At 8 Mbit/s of payload the line carries 8 x 1500/1448 on the wire. Nothing more is ever set aside for it, so the other has
/// the rest at once.
#[test]
fn what_the_line_of_a_sender_cannot_carry_is_never_asked_for() {
    let narrow = "[[flows]]\nscheme = \"nodectl:line_rate=8\"\nrtt = \"20ms\"\n".to_owned();
    let text = text(20.0, 5.0, "", &(narrow + &flow("")));
    let mut engine = Engine::new(spec(&text), Recorder::off());
    engine.run_until(Nanos::from_millis(100)).unwrap();
    assert_within("given", reading(engine.link(0).router(), "given"), RATE * 1e6 / 8.0, 1e-6);
    let result = engine.finish().unwrap();
    assert_rates(&result, &[8.0 / PAYLOAD, RATE - 8.0 / PAYLOAD], 0.001);
    assert_lossless(&result);
}

#[test]
fn a_flow_with_a_minimum_is_refused_until_there_is_room() {
    let flows = flow("stop = \"4s\"") + &flow("min_rate = \"20mbit\"\nstart = \"1s\"");
    let result = run(&text(12.0, 0.0, "", &flows));
    // The first keeps everything; the second asks once a second and finds all of it free, after 4 s, at 5.0 to 5.1 s.
    assert_rates(&result, &[RATE], 0.015);
    let sent = result.flows[1].bytes_delivered as f64 * 8.0 / 1e6 / (RATE * PAYLOAD);
    assert!((6.8..=7.1).contains(&sent), "sent for {sent} s");
    assert_lossless(&result);
}

#[test]
fn random_loss_of_ten_per_cent_takes_messages_too_and_shares_converge_all_the_same() {
    let starts = ["0s", "1s", "2s"].map(|at| flow(&format!("start = \"{at}\""))).concat();
    let flows = starts + &flow("start = \"3s\"\nstop = \"10s\"");
    let result = run(&text(30.0, 15.0, "loss = \"10%\"", &flows));
    // 0.9 of what was sent arrives, and loss has no other effect; 15 s are 15 000 packets, so the share lost is 10 +- 0.25 %.
    for (n, goodput) in goodputs(&result)[..3].iter().enumerate() {
        assert_within(&format!("flow {n}"), *goodput, RATE / 3.0 * PAYLOAD * 0.9, 0.02);
    }
    assert_eq!(result.links[0].drops, 0);
}

/// A retransmission that is lost too is found by the timeout, and the receiver's window is full before: the flow stands still for a
/// second. It has its rate again when that is repaired, though it had no use for it meanwhile.
#[test]
fn a_flow_that_losses_hold_up_has_its_rate_again() {
    // 4.3 MB/s fill 4 MB in a second. Of 3000 packets a second 15 are lost, and of 200 repairs one: every 13 s.
    let result = run(&text(
        20.0,
        0.0,
        "loss = \"0.5%\"\n[tcp]\nrack = false\nmin_rto = \"1s\"\nreceive_window = \"4MB\"",
        &flow(""),
    ));
    let timeouts = result.counters.timeouts;
    assert!((1..=6).contains(&timeouts), "{timeouts}: it must be held up, but not most of the time");
    // Two seconds for each: the timeout begins anew with every retransmission, and new ones come for most of a second.
    let expected = RATE * PAYLOAD * (1.0 - 0.005) * (1.0 - 2.0 * timeouts as f64 / 20.0);
    assert!(
        result.flows[0].goodput_mbit_s > expected,
        "{} with {timeouts} timeouts",
        result.flows[0].goodput_mbit_s
    );
}

#[test]
fn where_no_node_takes_part_a_flow_is_cubic() {
    let negotiating = run(&text(20.0, 5.0, "router = \"none\"", &flow("count = 2")));
    println!("no nodes: {:?}, utilisation {}", goodputs(&negotiating), negotiating.links[0].utilization);
    assert!(negotiating.links[0].utilization > 0.95, "{}", negotiating.links[0].utilization);
    assert!(negotiating.links[0].drops > 0, "it probes");
}

/// Limits of the ends that the link cannot carry: what no node has met is no grant of them.
#[test]
fn where_no_node_takes_part_a_flow_with_a_limit_is_cubic_below_it() {
    let limited = flow("count = 2\nmax_rate = \"30mbit\"") + &flow("receive_rate = \"30mbit\"");
    let result = run(&text(20.0, 5.0, "router = \"none\"", &limited));
    let (sent, lost) = (result.counters.data_packets_sent, result.links[0].drops);
    println!("limits above the link: {:?}, {lost} of {sent} packets dropped", goodputs(&result));
    assert!(result.links[0].utilization > 0.95, "{}", result.links[0].utilization);
    // 90 Mbit/s sent blindly would lose 60 % for good; a window of CUBIC's loses a few packets in hundreds.
    assert!(lost * 50 < sent, "{lost} of {sent}");
    // Three that the link can carry are held to what they state.
    let limited = flow("count = 2\nmax_rate = \"4mbit\"") + &flow("receive_rate = \"6mbit\"");
    let result = run(&text(20.0, 5.0, "router = \"none\"", &limited));
    assert_rates(&result, &[4.0, 4.0, 6.0], 0.002);
    assert_lossless(&result);
}

/// The least time-out of a port is twice the silence after which servers ask before they go on.
#[test]
fn at_the_least_timeout_pauses_and_long_ways_are_outlasted() {
    let node = "router = { kind = \"nodectl\", timeout = 10 }";
    let pauses = |off: f64, rtt: &str| {
        format!(
            "[[flows]]\nscheme = \"nodectl\"\nrtt = \"{rtt}\"\n\
             app = {{ kind = \"on-off\", on = \"3s\", off = \"{off}s\" }}\n"
        )
    };
    // Pauses just below five seconds, from five seconds to ten, and round trips of 3 s. The last comes back after 12 s.
    let flows = pauses(4.9, "20ms")
        + &pauses(4.9, "1s")
        + &pauses(7.0, "20ms")
        + &pauses(9.5, "200ms")
        + "[[flows]]\nscheme = \"nodectl\"\nrtt = \"3s\"\n";
    let mut engine = Engine::new(spec(&text(60.0, 0.0, node, &flows)), Recorder::off());
    engine.run_until(Nanos::from_secs(60)).unwrap();
    let read = |name| reading(engine.link(0).router(), name);
    assert_eq!((read("flows"), read("expired")), (5.0, 0.0));
    // One that pauses for longer is forgotten, and asks before it goes on: nobody loses anything.
    let flows = pauses(12.0, "20ms") + &pauses(25.0, "200ms") + &flow("");
    let mut engine = Engine::new(spec(&text(60.0, 0.0, node, &flows)), Recorder::off());
    engine.run_until(Nanos::from_secs(60)).unwrap();
    assert!(reading(engine.link(0).router(), "expired") >= 4.0);
    assert_lossless(&engine.finish().unwrap());
}

#[test]
fn a_node_that_dies_stalls_nobody() {
    let dies = "router = { kind = \"nodectl\", dies = \"5s\" }";
    let flows = flow("count = 2") + &flow("start = \"6s\"\nsize = \"2MB\"");
    let mut engine = Engine::new(spec(&text(60.0, 0.0, dies, &flows)), Recorder::off());
    engine.run_until(Nanos::from_secs(10)).unwrap();
    assert!(reading(engine.link(0).router(), "given") > 0.0, "what it knew when it died");
    let result = engine.finish().unwrap();
    let completion = result.flows[2].completion_s.expect("it completes");
    println!("after the node's death a file of 2 MB took {completion:.2} s");
    // Those that were granted all of the link find out 10 s after they last heard of the node, and make room; a timeout of
    // the file may take some seconds more. At a third of the link it takes 1.4 s.
    assert!(completion < 20.0, "{completion}");
    for flow in &result.flows[..2] {
        assert!(flow.goodput_mbit_s > 0.3 * RATE * PAYLOAD, "{}", flow.goodput_mbit_s);
    }
}

#[test]
fn flows_of_different_round_trip_times_share_equally() {
    let flows = flow("count = 2") + "[[flows]]\nscheme = \"nodectl\"\nrtt = \"200ms\"\ncount = 2\n";
    let result = run(&text(20.0, 5.0, "", &flows));
    assert_rates(&result, &[RATE / 4.0; 4], 0.001);
    assert_lossless(&result);
}

/// Links of 10 Mbit/s and 5 ms, each with a node at either end.
fn graph(duration_s: f64, warmup_s: f64, links: &[(&str, &str)], flows: &str) -> String {
    let links: String =
        links.iter().map(|(from, to)| format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\n")).collect();
    format!(
        r#"
name = "nodectl graph law"
duration = "{duration_s}s"
warmup = "{warmup_s}s"
[network]
rate = "10mbit"
delay = "5ms"
buffer = "100pkt"
router = "nodectl"
{links}
{flows}
"#
    )
}

fn routed(nodes: &[&str], more: &str) -> String {
    let (from, to) = (nodes[0], nodes[nodes.len() - 1]);
    format!("[[flows]]\nscheme = \"nodectl\"\nfrom = \"{from}\"\nto = \"{to}\"\nroute = {nodes:?}\n{more}\n")
}

/// ```text
///        +-- x --+
///   a ---+       +--- b
///        +-- y --+
/// ```
const DIAMOND: &[(&str, &str)] = &[("a", "x"), ("x", "b"), ("a", "y"), ("y", "b")];

#[test]
fn a_flow_that_a_hot_node_reduces_below_its_minimum_takes_another_way() {
    let picky = routed(&["a", "x", "b"], "min_rate = \"6mbit\"\nalternatives = [[\"a\", \"y\", \"b\"]]");
    let other = routed(&["a", "x", "b"], "start = \"2s\"");
    let result = run(&graph(20.0, 5.0, DIAMOND, &(picky + &other)));
    // Acknowledgements go back over links that carry no data, so each has a link for itself.
    assert_rates(&result, &[10.0, 10.0], 0.002);
    assert_lossless(&result);
    let carried: Vec<_> =
        result.links.iter().map(|link| (link.link.as_str(), link.utilization > 0.99)).collect();
    for link in ["a-x", "x-b", "a-y", "y-b"] {
        assert!(carried.contains(&(link, true)), "{link}: {carried:?}");
    }
}

#[test]
fn a_flow_that_is_refused_on_its_way_takes_another_at_once() {
    let first = routed(&["a", "x", "b"], "");
    let second = routed(
        &["a", "x", "b"],
        "start = \"2s\"\nsize = \"1448000B\"\nmin_rate = \"6mbit\"\nalternatives = [[\"a\", \"y\", \"b\"]]",
    );
    let result = run(&graph(10.0, 0.0, DIAMOND, &(first + &second)));
    // SYN 20 ms; the refusal comes from the first node, which is the sender's; request and answer 20 ms; 1000 packets of
    // 1.2 ms; 10 ms to get there, one more packet to be stored and forwarded, 10 ms back.
    let expected = 0.02 + 0.02 + 1.2 + 0.0012 + 0.02;
    let completion = result.flows[1].completion_s.expect("it completes");
    // The SYN waits behind a packet of the other flow at both links at the most, and messages take 50 us each.
    assert!((expected..expected + 0.003).contains(&completion), "{completion}, not {expected}");
    assert_lossless(&result);
}

#[test]
fn where_other_ways_are_no_better_the_flow_goes_on_at_the_reduced_rate() {
    let picky = routed(&["a", "x", "b"], "min_rate = \"6mbit\"\nalternatives = [[\"a\", \"y\", \"b\"]]");
    let others = routed(&["a", "x", "b"], "start = \"2s\"") + &routed(&["a", "y", "b"], "start = \"1s\"");
    let result = run(&graph(20.0, 5.0, DIAMOND, &(picky + &others)));
    assert_rates(&result, &[5.0, 5.0, 10.0], 0.002);
    assert_lossless(&result);
}

/// A parking lot: one flow over both links, one on each. With three on the second link the long one has 10/4 there, and its
/// neighbour on the first takes the rest of that.
#[test]
fn what_a_flow_may_not_use_because_of_another_node_goes_to_its_neighbours() {
    let links = [("a", "b"), ("b", "c")];
    let flows = routed(&["a", "b", "c"], "")
        + &routed(&["a", "b"], "")
        + &routed(&["b", "c"], "start = \"1s\"").repeat(3);
    let result = run(&graph(20.0, 5.0, &links, &flows));
    assert_rates(&result, &[2.5, 7.5, 2.5, 2.5, 2.5], 0.002);
    assert_lossless(&result);
    // The other way round: the long flow's bottleneck is the first link.
    let flows = routed(&["a", "b", "c"], "")
        + &routed(&["a", "b"], "start = \"1s\"").repeat(3)
        + &routed(&["b", "c"], "");
    let result = run(&graph(20.0, 5.0, &links, &flows));
    assert_rates(&result, &[2.5, 2.5, 2.5, 2.5, 7.5], 0.002);
    assert_lossless(&result);
}

#[test]
fn two_directions_leave_each_other_room_for_acknowledgements() {
    let flows = routed(&["a", "b"], "") + &routed(&["b", "a"], "");
    let result = run(&graph(20.0, 5.0, &[("a", "b")], &flows));
    // One acknowledgement of 52 B for two packets of 1500 B, and a tenth more: x + 1.1 x 52/3000 x = 10.
    // What is set aside is that of the beat in which most came: beats of 10 ms have four or five acknowledgements.
    assert_rates(&result, &[10.0 / (1.0 + 1.1 * 52.0 / 3000.0); 2], 0.01);
    assert_lossless(&result);
}

#[test]
fn three_hundred_flows_that_come_one_by_one_lose_nothing_and_share_equally() {
    let result = run(&text(30.0, 20.0, "", &flow("count = 300\nstagger = \"30ms\"")));
    assert_lossless(&result);
    // 10 s are 100 packets of each, one more or less.
    assert_rates(&result, &[RATE / 300.0; 300], 0.03);
}

#[test]
fn many_short_files_pass_a_busy_link_without_loss() {
    let files = "arrivals = { rate = \"40/s\", size = \"100kB\", limit = 600 }";
    let result = run(&text(20.0, 0.0, "", &(flow("count = 3") + &flow(files))));
    assert_lossless(&result);
    let times: Vec<f64> = result.flows[3..].iter().filter_map(|flow| flow.completion_s).collect();
    assert!(times.len() > 500, "{} completed", times.len());
    println!(
        "{} files of 100 kB: {:.3} s on the mean",
        times.len(),
        times.iter().sum::<f64>() / times.len() as f64
    );
}
