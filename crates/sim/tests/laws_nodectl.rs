//! Laws of Nodectl: negotiated rates are compared with shares computed by hand. Rates on the wire include headers,
//! goodput does not.

use crate::law::{
    PAYLOAD, assert_lossless, assert_rates, assert_within, cwnd, flows, goodputs, reading, run, scenario, spec,
};
use narrows_cc::Nanos;
use narrows_routers::RouterLink;
use narrows_sim::Engine;

/// Bottleneck rate in Mbit/s.
const RATE: f64 = 36.0;
/// Round-trip time in seconds.
const RTT: f64 = 0.02;

/// A dumbbell of [`RATE`] with the buffer of the paper; `flows` holds tables.
fn text(duration_s: f64, warmup_s: f64, network: &str, flows: &str) -> String {
    let network = format!("rate = \"{RATE}mbit\"\nbuffer = \"100pkt\"\n{network}");
    scenario(duration_s, warmup_s, &network, flows)
}

/// A `[[flows]]` table with RTT [`RTT`].
fn flow(more: &str) -> String {
    flows("nodectl", 20, more)
}

/// Any number of flows share a bottleneck exactly and lose no packet.
#[test]
fn nodectl_flows_share_bottleneck_exactly_without_loss() {
    for count in [1, 2, 3, 7, 20] {
        let result = run(&text(20.0, 5.0, "", &flow(&format!("count = {count}"))));
        // Tolerance: one packet. Each of 20 flows sends 2250 packets in 15 s, and fewer flows send more each.
        assert_rates(&result, &vec![RATE / f64::from(count); count as usize], 0.001);
        assert_lossless(&result);
        assert!(result.links[0].utilization > 0.999, "{}", result.links[0].utilization);
        // Packets of paced flows meet by chance: in the worst case one packet of each flow is queued.
        assert!(result.links[0].queue_mean_pkt <= f64::from(count) + 2.0, "{}", result.links[0].queue_mean_pkt);
    }
}

/// Table 7: three transmissions get 12 Mbit/s each, less headers.
#[test]
fn nodectl_table_7_three_transmissions_get_12_mbit() {
    let each = "tcp = { segment_bytes = 1000, header_bytes = 54 }\n";
    let flows: String = ["0s", "5s", "10s"].iter().map(|at| flow(&format!("start = \"{at}\"\n{each}"))).collect();
    let result = run(&text(20.0, 10.5, "", &flows));
    for goodput in goodputs(&result) {
        // 12 Mbit/s x 1000/1054.
        assert_within("table 7", goodput, 11.385, 0.001);
    }
    assert_lossless(&result);
}

/// A file waits one round trip for its rate and then gets the whole link.
#[test]
fn nodectl_file_waits_one_round_trip_for_its_rate() {
    // The SYN and the request take two round trips and their transmission times. Then follow 1000 packets at 36 Mbit/s;
    // the last packet and its ACK take one more round trip.
    let result = run(&text(5.0, 0.0, "", &flow("size = \"1448000B\"\ntcp = { receive_autotuning = false }")));
    let packet = 1500.0 * 8.0 / (RATE * 1e6);
    let expected = 2.0 * RTT + 1000.0 * packet + RTT;
    let completion = result.flows[0].completion_s.expect("a completion time");
    // Tolerance: one packet, and 13 us for each packet of 52 to 60 B (handshake, request, ACKs).
    assert!((completion - expected).abs() < packet + 5.0 * 13e-6, "{completion}, not {expected}");
    assert_lossless(&result);
}

/// Seconds after `event` until all windows (twice rate times RTT) stay near the values for the `expected` rates, given
/// per flow in Mbit/s on the wire; a flow with an expected rate of zero is ignored. The run advances in steps of 1 ms.
fn settles(text: &str, event: f64, until: f64, expected: &[f64]) -> f64 {
    let mut engine = Engine::new(spec(text));
    let (mut now, mut settled) = (event, event);
    while now < until {
        engine.run_until(Nanos::from_secs_f64(now));
        for (flow, wire) in expected.iter().enumerate().filter(|(_, wire)| **wire > 0.0) {
            let window = 2.0 * wire * PAYLOAD * 1e6 / 8.0 * RTT;
            // The tolerance is 5 %, because the measured RTT includes a queue of one or two packets.
            if (cwnd(&engine, flow) / window - 1.0).abs() > 0.05 {
                settled = now + 0.001;
            }
        }
        now += 0.001;
    }
    let result = engine.finish();
    assert_lossless(&result);
    settled - event
}

/// Makes the sender measure the RTT of the newest packet. Linux measures the first packet that an ACK acknowledges,
/// whose RTT is longer by the gap between two packets: 0.67 of 20 ms at half the rate.
const NEWEST_RTT: &str = "\n[tcp]\ntimers = \"rfc\"\n";

/// Shares are fair two round trips after a flow joins.
#[test]
fn nodectl_join_settles_in_two_round_trips() {
    let flows = flow("") + &flow("start = \"2s\"") + NEWEST_RTT;
    let after = settles(&text(4.0, 0.0, "", &flows), 2.0, 3.9, &[RATE / 2.0, RATE / 2.0]);
    assert!(after <= 2.1 * RTT, "{after}");
}

/// Shares are fair three round trips after a flow leaves.
#[test]
fn nodectl_leave_settles_in_three_round_trips() {
    // The data in flight is acknowledged after one round trip; the termination reaches the node earlier. Then the
    // other flows request the offered rate, which takes another round trip.
    let flows = flow("count = 2") + &flow("stop = \"2s\"") + NEWEST_RTT;
    let after = settles(&text(4.0, 0.0, "", &flows), 2.0, 3.9, &[RATE / 2.0, RATE / 2.0, 0.0]);
    assert!(after <= 3.0 * RTT, "{after}");
}

/// The subflows of one transmission together get one share.
#[test]
fn nodectl_subflows_of_transmission_share_one_share() {
    // Table 8: flow A against the subflows D1 and D2.
    let flows = flow("") + &flow("count = 2\ncontent = 7");
    let result = run(&text(20.0, 5.0, "", &flows));
    assert_rates(&result, &[RATE / 2.0, RATE / 4.0, RATE / 4.0], 0.001);
    assert_lossless(&result);
}

/// Bandwidth that flows cannot use because of the limits of their endpoints goes to the other flows.
#[test]
fn nodectl_endpoint_limits_leave_rest_to_others() {
    let flows = flow("receive_rate = \"6mbit\"") + &flow("max_rate = \"4mbit\"") + &flow("count = 2");
    let result = run(&text(20.0, 5.0, "", &flows));
    assert_rates(&result, &[6.0, 4.0, 13.0, 13.0], 0.002);
    assert_lossless(&result);
}

/// The sender's line carries 8 Mbit/s of payload, 8 x 1500/1448 Mbit/s on the wire. No port ever reserves more, so
/// the other flow gets the rest immediately.
#[test]
fn nodectl_line_rate_limits_request() {
    let narrow = "[[flows]]\nscheme = \"nodectl:line_rate=8\"\nrtt = \"20ms\"\n".to_owned();
    let text = text(20.0, 5.0, "", &(narrow + &flow("")));
    let mut engine = Engine::new(spec(&text));
    engine.run_until(Nanos::from_millis(100));
    assert_within("given", reading(engine.link(0).router(), "given"), RATE * 1e6 / 8.0, 1e-6);
    let result = engine.finish();
    assert_rates(&result, &[8.0 / PAYLOAD, RATE - 8.0 / PAYLOAD], 0.001);
    assert_lossless(&result);
}

/// The node refuses a flow with a minimum rate until the rate is available.
#[test]
fn nodectl_minimum_rate_is_refused_until_available() {
    let flows = flow("stop = \"4s\"") + &flow("min_rate = \"20mbit\"\nstart = \"1s\"");
    let result = run(&text(12.0, 0.0, "", &flows));
    // The first flow keeps the whole link until it stops at 4 s. The second flow sends a request every second and is
    // accepted at 5.0 to 5.1 s.
    assert_rates(&result, &[RATE], 0.015);
    let sent = result.flows[1].bytes_delivered as f64 * 8.0 / 1e6 / (RATE * PAYLOAD);
    assert!((6.8..=7.1).contains(&sent), "sent for {sent} s");
    assert_lossless(&result);
}

/// Shares converge although random loss of 10 % also affects control messages.
#[test]
fn nodectl_lost_messages_do_not_stop_convergence() {
    let starts = ["0s", "1s", "2s"].map(|at| flow(&format!("start = \"{at}\""))).concat();
    let flows = starts + &flow("start = \"3s\"\nstop = \"10s\"");
    let result = run(&text(30.0, 15.0, "loss = \"10%\"", &flows));
    // 0.9 of the packets arrive, and loss has no other effect. A flow sends 15 000 packets in 15 s, so its loss is
    // 10 +- 0.25 %.
    for (n, goodput) in goodputs(&result)[..3].iter().enumerate() {
        assert_within(&format!("flow {n}"), *goodput, RATE / 3.0 * PAYLOAD * 0.9, 0.02);
    }
    assert_eq!(result.links[0].drops, 0);
}

/// A lost retransmission is detected only by a timeout, after the receive window is full: the flow stalls for a
/// second. After the repair the flow gets its rate back, although it could not use the rate during the stall.
#[test]
fn nodectl_flow_recovers_rate_after_stall() {
    // 4.3 MB/s fill the window of 4 MB in a second. 15 of 3000 packets per second are lost. One of 200 retransmissions
    // is lost too, which is one every 13 s.
    let result = run(&text(
        20.0,
        0.0,
        "loss = \"0.5%\"\n[tcp]\nrack = false\nmin_rto = \"1s\"\nreceive_window = \"4MB\"",
        &flow(""),
    ));
    let timeouts = result.counters().timeouts;
    assert!((1..=6).contains(&timeouts), "{timeouts} timeouts, expected 1 to 6");
    // A timeout costs two seconds: every retransmission restarts the timer, and there are retransmissions for most
    // of a second.
    let expected = RATE * PAYLOAD * (1.0 - 0.005) * (1.0 - 2.0 * timeouts as f64 / 20.0);
    assert!(result.flows[0].goodput_mbit_s > expected, "{} with {timeouts} timeouts", result.flows[0].goodput_mbit_s);
}

/// Without a node on the path, a flow uses CUBIC.
#[test]
fn nodectl_without_nodes_is_cubic() {
    let negotiating = run(&text(20.0, 5.0, "router = \"none\"", &flow("count = 2")));
    assert!(negotiating.links[0].utilization > 0.95, "{}", negotiating.links[0].utilization);
    assert!(negotiating.links[0].drops > 0, "no drops: the flows do not probe");
}

/// Without a node, limits of the endpoints above the link's rate do not set the send rate: an unconfirmed limit is not
/// a grant.
#[test]
fn nodectl_without_nodes_is_cubic_below_limits() {
    let limited = flow("count = 2\nmax_rate = \"30mbit\"") + &flow("receive_rate = \"30mbit\"");
    let result = run(&text(20.0, 5.0, "router = \"none\"", &limited));
    let (sent, lost) = (result.counters().data_packets_sent, result.links[0].drops);
    assert!(result.links[0].utilization > 0.95, "{}", result.links[0].utilization);
    // If the flows sent at their limits, 90 Mbit/s in total, 60 % would be lost permanently. CUBIC loses a few packets
    // in hundreds.
    assert!(lost * 50 < sent, "{lost} of {sent}");
    // Three flows whose limits the link can carry stay at their limits.
    let limited = flow("count = 2\nmax_rate = \"4mbit\"") + &flow("receive_rate = \"6mbit\"");
    let result = run(&text(20.0, 5.0, "router = \"none\"", &limited));
    assert_rates(&result, &[4.0, 4.0, 6.0], 0.002);
    assert_lossless(&result);
}

/// The shortest timeout of a port is twice the pause after which senders renew their request. With this timeout, flows
/// with pauses or long round trips keep their reservation.
#[test]
fn nodectl_shortest_timeout_outlasts_pauses_and_long_rtts() {
    let node = "router = { kind = \"nodectl\", timeout = 10 }";
    let pauses = |off: f64, rtt: &str| {
        format!(
            "[[flows]]\nscheme = \"nodectl\"\nrtt = \"{rtt}\"\n\
             app = {{ kind = \"on-off\", on = \"3s\", off = \"{off}s\" }}\n"
        )
    };
    // Pauses just below five seconds, pauses from five to ten seconds, and an RTT of 3 s. The flow with the longest
    // pauses sends again after 12 s.
    let flows = pauses(4.9, "20ms")
        + &pauses(4.9, "1s")
        + &pauses(7.0, "20ms")
        + &pauses(9.5, "200ms")
        + "[[flows]]\nscheme = \"nodectl\"\nrtt = \"3s\"\n";
    let mut engine = Engine::new(spec(&text(60.0, 0.0, node, &flows)));
    engine.run_until(Nanos::from_secs(60));
    let read = |name| reading(engine.link(0).router(), name);
    assert_eq!((read("flows"), read("expired")), (5.0, 0.0));
    // During longer pauses reservations expire. The sender renews its request before it sends data, so no flow loses
    // packets.
    let flows = pauses(12.0, "20ms") + &pauses(25.0, "200ms") + &flow("");
    let mut engine = Engine::new(spec(&text(60.0, 0.0, node, &flows)));
    engine.run_until(Nanos::from_secs(60));
    assert!(reading(engine.link(0).router(), "expired") >= 4.0);
    assert_lossless(&engine.finish());
}

/// When the node stops answering, existing and new flows continue.
#[test]
fn nodectl_dead_node_stalls_no_flow() {
    let dies = "router = { kind = \"nodectl\", dies = \"5s\" }";
    let flows = flow("count = 2") + &flow("start = \"6s\"\nsize = \"2MB\"");
    let mut engine = Engine::new(spec(&text(60.0, 0.0, dies, &flows)));
    engine.run_until(Nanos::from_secs(10));
    assert!(reading(engine.link(0).router(), "given") > 0.0, "readings of the dead node");
    let result = engine.finish();
    let completion = result.flows[2].completion_s.expect("a completion time");
    // The flows that use the whole link detect the failure 10 s after the node's last message and then reduce their
    // rates. A timeout of the file may take some seconds more. At a third of the link the file takes 1.4 s.
    assert!(completion < 20.0, "{completion}");
    for flow in &result.flows[..2] {
        assert!(flow.goodput_mbit_s > 0.3 * RATE * PAYLOAD, "{}", flow.goodput_mbit_s);
    }
}

/// Flows of 20 and 200 ms share equally.
#[test]
fn nodectl_mixed_rtts_share_equally() {
    let flows = flow("count = 2") + "[[flows]]\nscheme = \"nodectl\"\nrtt = \"200ms\"\ncount = 2\n";
    let result = run(&text(20.0, 5.0, "", &flows));
    assert_rates(&result, &[RATE / 4.0; 4], 0.001);
    assert_lossless(&result);
}

/// A graph of links with 10 Mbit/s and 5 ms, with a node at both ends of each.
fn graph(duration_s: f64, warmup_s: f64, links: &[(&str, &str)], flows: &str) -> String {
    let links: String =
        links.iter().map(|(from, to)| format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\n")).collect();
    let network = format!("rate = \"10mbit\"\ndelay = \"5ms\"\nbuffer = \"100pkt\"\nrouter = \"nodectl\"\n{links}");
    scenario(duration_s, warmup_s, &network, flows)
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

/// A flow that a congested node reduces below its minimum takes its alternate path.
#[test]
fn nodectl_flow_below_minimum_takes_alternate_path() {
    let picky = routed(&["a", "x", "b"], "min_rate = \"6mbit\"\nalternatives = [[\"a\", \"y\", \"b\"]]");
    let other = routed(&["a", "x", "b"], "start = \"2s\"");
    let result = run(&graph(20.0, 5.0, DIAMOND, &(picky + &other)));
    // ACKs return over links without data, so each flow has a path to itself.
    assert_rates(&result, &[10.0, 10.0], 0.002);
    assert_lossless(&result);
    let carried: Vec<_> = result.links.iter().map(|link| (link.link.as_str(), link.utilization > 0.99)).collect();
    for link in ["a-x", "x-b", "a-y", "y-b"] {
        assert!(carried.contains(&(link, true)), "{link}: {carried:?}");
    }
}

/// A refused flow takes its alternate path immediately.
#[test]
fn nodectl_refused_flow_takes_alternate_path_at_once() {
    let first = routed(&["a", "x", "b"], "");
    let second = routed(
        &["a", "x", "b"],
        "start = \"2s\"\nsize = \"1448000B\"\nmin_rate = \"6mbit\"\nalternatives = [[\"a\", \"y\", \"b\"]]",
    );
    let result = run(&graph(10.0, 0.0, DIAMOND, &(first + &second)));
    // The handshake takes 20 ms. The first node, at the sender, refuses immediately. Then follow 20 ms for request and
    // answer on the alternate path, 1000 packets of 1.2 ms, 10 ms of propagation, one more packet for store and
    // forward, and 10 ms for the ACK.
    let expected = 0.02 + 0.02 + 1.2 + 0.0012 + 0.02;
    let completion = result.flows[1].completion_s.expect("a completion time");
    // The SYN waits behind at most one packet of the other flow at both links, and control messages take 50 us each.
    assert!((expected..expected + 0.003).contains(&completion), "{completion}, not {expected}");
    assert_lossless(&result);
}

/// If no alternate path is better, the flow continues at the reduced rate.
#[test]
fn nodectl_no_better_path_keeps_reduced_rate() {
    let picky = routed(&["a", "x", "b"], "min_rate = \"6mbit\"\nalternatives = [[\"a\", \"y\", \"b\"]]");
    let others = routed(&["a", "x", "b"], "start = \"2s\"") + &routed(&["a", "y", "b"], "start = \"1s\"");
    let result = run(&graph(20.0, 5.0, DIAMOND, &(picky + &others)));
    assert_rates(&result, &[5.0, 5.0, 10.0], 0.002);
    assert_lossless(&result);
}

/// Bandwidth that a flow cannot use because another node limits it goes to its neighbours.
///
/// A parking lot: one long flow over both links, one flow on the first link and three on the second. The long flow
/// gets 10/4 Mbit/s on the second link, and its neighbour on the first link gets the rest.
#[test]
fn nodectl_rate_limited_elsewhere_goes_to_neighbours() {
    let links = [("a", "b"), ("b", "c")];
    let flows =
        routed(&["a", "b", "c"], "") + &routed(&["a", "b"], "") + &routed(&["b", "c"], "start = \"1s\"").repeat(3);
    let result = run(&graph(20.0, 5.0, &links, &flows));
    assert_rates(&result, &[2.5, 7.5, 2.5, 2.5, 2.5], 0.002);
    assert_lossless(&result);
    // Mirrored: the long flow's bottleneck is the first link.
    let flows =
        routed(&["a", "b", "c"], "") + &routed(&["a", "b"], "start = \"1s\"").repeat(3) + &routed(&["b", "c"], "");
    let result = run(&graph(20.0, 5.0, &links, &flows));
    assert_rates(&result, &[2.5, 2.5, 2.5, 2.5, 7.5], 0.002);
    assert_lossless(&result);
}

/// Data in each direction leaves capacity for the ACKs of the other direction.
#[test]
fn nodectl_two_directions_reserve_room_for_acks() {
    // Receivers send one ACK per two packets from the start.
    let slow = "tcp = { quick_growth = false }";
    let flows = routed(&["a", "b"], slow) + &routed(&["b", "a"], slow);
    let result = run(&graph(20.0, 5.0, &[("a", "b")], &flows));
    // The node reserves a tenth more than one ACK of 52 B per two packets of 1500 B, so x + 1.1 * 52/3000 * x = 10. The
    // reserve is computed from the control interval with most ACKs; intervals of 10 ms contain four or five ACKs.
    assert_rates(&result, &[10.0 / (1.0 + 1.1 * 52.0 / 3000.0); 2], 0.01);
    assert_lossless(&result);
}

/// Three hundred flows that start one by one lose no packet and share equally.
#[test]
fn nodectl_300_staggered_flows_share_without_loss() {
    // Packets of paced flows may meet: at most one packet of each flow is queued.
    let network = format!("rate = \"{RATE}mbit\"\nbuffer = \"300pkt\"");
    let flows = flow("count = 300\nstagger = \"30ms\"");
    let result = run(&scenario(30.0, 20.0, &network, &flows));
    assert_lossless(&result);
    // Each flow sends 100 packets in 10 s; the tolerance covers a deviation of one packet.
    assert_rates(&result, &[RATE / 300.0; 300], 0.03);
}

/// Many short files pass a busy link without loss.
#[test]
fn nodectl_many_short_files_pass_without_loss() {
    let files = "arrivals = { rate = \"40/s\", size = \"100kB\", limit = 600 }";
    let result = run(&text(20.0, 0.0, "", &(flow("count = 3") + &flow(files))));
    assert_lossless(&result);
    let times: Vec<f64> = result.flows[3..].iter().filter_map(|flow| flow.completion_s).collect();
    assert!(times.len() > 500, "{} completed", times.len());
}
