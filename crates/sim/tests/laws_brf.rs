//! Laws of BRF: the scheme with its router at the bottleneck. Shares on the wire include headers and goodput does not,
//! so the total goodput is 1448 / 1500 of the link's rate.

use crate::law::{PAYLOAD, assert_within, flows, goodputs, link, pacing_mbit_s, reading, run, scenario, spec};
use narrows_cc::Nanos;
use narrows_routers::RouterLink;
use narrows_scenario::result::RunResult;
use narrows_sim::Engine;

/// Bottleneck rate in Mbit/s.
const RATE: f64 = 100.0;

/// A scenario on a link of [`RATE`]; `network` holds further keys of the network, `flows` holds tables.
fn text(duration_s: f64, warmup_s: f64, network: &str, flows: &str) -> String {
    let network = format!("rate = \"{RATE}mbit\"\nbuffer = \"1000pkt\"\n{network}");
    scenario(duration_s, warmup_s, &network, flows)
}

/// A table of a link with this buffer; `more` holds further keys.
fn buffered_link((from, to): (&str, &str), rate: &str, delay: &str, buffer: &str, more: &str) -> String {
    link(from, to, rate, delay, &format!("buffer = \"{buffer}\"\n{more}"))
}

/// Packets in the port's queue, read every millisecond from `from_s` to `until_s`.
fn queue_until(engine: &mut Engine, from_s: f64, until_s: f64) -> Vec<u64> {
    let steps = (from_s * 1e3) as u64..(until_s * 1e3) as u64;
    steps
        .map(|ms| {
            engine.run_until(Nanos::from_millis(ms));
            engine.link(0).port_statistics().expect("a port that is polled").waiting
        })
        .collect()
}

/// Flows of 20 and 100 ms share equally, fill the link and lose no packet.
#[test]
fn brf_mixed_rtts_share_equally_without_drops() {
    let result = run(&text(30.0, 5.0, "", &(flows("brf", 100, "count = 2") + &flows("brf", 20, "count = 3"))));
    for goodput in goodputs(&result) {
        assert_within("goodput", goodput, RATE / 5.0 * PAYLOAD, 0.01);
    }
    let link = &result.links[0];
    assert!(link.utilization > 0.99, "{}", link.utilization);
    assert_eq!((link.drops, result.counters().timeouts), (0, 0));
}

/// One flow fills the link and has less than one packet queued on average.
#[test]
fn brf_one_flow_fills_link_without_queue() {
    let result = run(&text(10.0, 1.0, "", &flows("brf", 20, "")));
    assert_within("goodput", result.flows[0].goodput_mbit_s, RATE * PAYLOAD, 0.01);
    // The packet in transmission does not count; one packet behind it may wait.
    assert!(result.links[0].queue_mean_pkt < 1.0, "{}", result.links[0].queue_mean_pkt);
}

/// BRF and CUBIC share the link in proportion to their numbers of flows, in small and large buffers.
#[test]
fn brf_and_cubic_share_by_flow_count_in_any_buffer() {
    for (buffer, cubics) in [("1000pkt", 1), ("100000pkt", 1), ("1000pkt", 3)] {
        let both = flows("brf", 20, "") + &flows("cubic", 20, &format!("count = {cubics}"));
        let text = text(60.0, 5.0, "", &both).replace("1000pkt", buffer);
        let goodputs = goodputs(&run(&text));
        let part = RATE / f64::from(cubics + 1) * PAYLOAD;
        assert_within("brf", goodputs[0], part, 0.02);
        assert_within("cubic", goodputs[1..].iter().sum(), part * f64::from(cubics), 0.02);
    }
}

/// Time from the start of a flow at 10 s until all rates stay within a tenth of their fair shares, in round-trip
/// times of 40 ms; and the longest queue in packets.
fn joins(flows_before: u32, network: &str) -> (f64, u64) {
    // Without autotuning, Linux's receive window does not limit the rate at first.
    let flow = |extra: &str| flows("brf", 40, &format!("{extra}\ntcp = {{ receive_autotuning = false }}"));
    let all = flow(&format!("count = {flows_before}")) + &flow("start = \"10s\"");
    let mut engine = Engine::new(spec(&text(12.0, 0.0, network, &all)));
    let before = 10_000;
    let (mut settled, mut longest) = (before, 0);
    for ms in before..12_000 {
        engine.run_until(Nanos::from_millis(ms));
        longest = longest.max(engine.link(0).port_statistics().expect("polled").waiting);
        let share = RATE / f64::from(flows_before + 1);
        for flow in 0..=flows_before as usize {
            if (pacing_mbit_s(&engine, flow) / (share * PAYLOAD) - 1.0).abs() > 0.1 {
                settled = ms;
            }
        }
    }
    ((settled - before) as f64 / 40.0, longest)
}

/// All flows have their fair share two round trips after a flow joins.
#[test]
fn brf_join_settles_all_shares_in_two_round_trips() {
    // The handshake takes one round trip. In the paper's form, all other flows receive their share within one more
    // round trip, because their control intervals are spread.
    for flows in [1, 4, 9] {
        let (round_trips, queue) = joins(flows, "");
        assert!(round_trips <= 2.1, "{round_trips}");
        // With urgent announcements, the other flows receive their share after at most the gap between two ACKs instead
        // of a round trip.
        assert!(queue <= 30, "{queue}");
        let (round_trips, queue) = joins(flows, "router = { kind = \"brf\", urgent = false }");
        assert!(round_trips <= 2.1, "{round_trips}");
        // The queue grows with at most half of the link's rate for a round trip, in which the link carries 333 packets.
        assert!(queue <= 333 / 2, "{queue}");
    }
}

/// Within four round trips after a flow leaves, the remaining flows use its share.
#[test]
fn brf_leave_frees_share_within_four_round_trips() {
    let all = flows("brf", 40, "count = 2") + &flows("brf", 40, "stop = \"5s\"");
    let mut engine = Engine::new(spec(&text(8.0, 0.0, "", &all)));
    let mut settled = 5_000u64;
    for ms in 5_000..8_000 {
        engine.run_until(Nanos::from_millis(ms));
        if (pacing_mbit_s(&engine, 0) / (RATE / 2.0 * PAYLOAD) - 1.0).abs() > 0.1 {
            settled = ms;
        }
    }
    let round_trips = (settled - 5_000) as f64 / 40.0;
    // The written data drains and the FIN follows. Then one period passes until the next allocation, and another until
    // the sender receives its new share.
    assert!(round_trips <= 4.0, "{round_trips}");
}

/// Random loss of 2 % takes 2 % of the goodput, and the queue drops no packet.
#[test]
fn brf_random_loss_costs_only_lost_packets() {
    let result = run(&text(20.0, 2.0, "loss = \"2%\"", &flows("brf", 20, "count = 2")));
    for goodput in goodputs(&result) {
        assert_within("goodput", goodput, RATE / 2.0 * PAYLOAD * 0.98, 0.01);
    }
    assert_eq!(result.links[0].drops, 0);
}

/// When the switch stops sending shares, the flows continue with CUBIC and keep the link busy.
#[test]
fn brf_dead_switch_falls_back_to_cubic() {
    let all = flows("brf", 20, "count = 2") + &flows("brf", 20, "start = \"10s\"");
    let network = "router = { kind = \"brf\", dies = \"8s\" }";
    let mut engine = Engine::new(spec(&text(30.0, 9.5, network, &all)));
    let rate = |engine: &Engine| engine.link(0).port_statistics().expect("polled").sent.as_f64();
    let mut before = 0.0;
    // In every half second the link carries at least nine tenths of its rate: before the failure, during the timeout,
    // with CUBIC, and when a flow starts that never receives a share.
    for half in 2..60u64 {
        engine.run_until(Nanos::from_millis(500 * half));
        let sent = rate(&engine);
        let used = (sent - before) / (RATE * 125_000.0 * 0.5);
        assert!(half == 2 || used > 0.9, "utilisation {used} in half second {half}");
        before = sent;
    }
    let result = engine.finish();
    // CUBIC determines the shares, but no flow starves.
    assert!(goodputs(&result).iter().all(|goodput| *goodput > RATE / 10.0), "{:?}", goodputs(&result));
}

/// Application-limited flows keep their rate, and backlogged flows share the rest.
#[test]
fn brf_app_limited_flows_leave_rest_to_others() {
    let all =
        flows("brf", 20, "count = 2") + &flows("brf", 20, "app = { kind = \"cbr\", rate = \"5mbit\" }\ncount = 2");
    let result = run(&text(20.0, 2.0, "", &all));
    let goodputs = goodputs(&result);
    for limited in &goodputs[2..] {
        assert_within("limited", *limited, 5.0, 0.001);
    }
    // The limited flows reserve 10 % more than they use, which no other flow gets.
    let rest = (RATE - 2.0 * 1.1 * 5.0 / PAYLOAD) / 2.0 * PAYLOAD;
    for backlogged in &goodputs[..2] {
        assert_within("backlogged", *backlogged, rest, 0.02);
    }
    assert_eq!(result.links[0].drops, 0);
}

/// Unresponsive UDP gets only its share: the port drops the excess.
#[test]
fn brf_udp_flow_gets_share_and_is_policed() {
    let all = flows("brf", 20, "") + &flows("fixed", 20, "protocol = \"udp\"\nparams = { window = 2000 }");
    let result = run(&text(20.0, 2.0, "", &all));
    assert_within("brf", goodputs(&result)[0], RATE * 0.95 * PAYLOAD, 0.02);
    assert!(result.links[0].drops > 0, "no drops above the share");
}

/// s ── a ══ b ── d
///
/// The first switch has 80 Mbit/s, the second has 40. Two flows cross both switches, and one flow crosses only the
/// first. The lower share limits the two flows, and the first switch gives the rest to the other flow.
#[test]
fn brf_two_switches_lower_share_wins() {
    let link = |from, to, rate, more| buffered_link((from, to), rate, "5ms", "1000pkt", more);
    let brf = "router = \"brf\"";
    let tables = link("s", "a", "1000mbit", "")
        + &link("a", "b", "80mbit", brf)
        + &link("b", "c", "40mbit", brf)
        + &link("c", "d", "1000mbit", "")
        + "[[flows]]\nscheme = \"brf\"\nfrom = \"s\"\nto = \"d\"\ncount = 2\n"
        + "[[flows]]\nscheme = \"brf\"\nfrom = \"s\"\nto = \"b\"\n";
    let result = run(&scenario(20.0, 5.0, "", &tables));
    let goodputs = goodputs(&result);
    for through in &goodputs[..2] {
        assert_within("both switches", *through, 20.0 * PAYLOAD, 0.01);
    }
    // The first switch reserves 10 % more for the two limited flows than they use.
    assert_within("first switch", goodputs[2], (80.0 - 2.0 * 1.1 * 20.0) * PAYLOAD, 0.02);
    assert_eq!(result.counters().timeouts, 0);
    assert!(result.links.iter().all(|link| link.drops == 0), "drops");
}

/// s ── a ══ b
///
/// The first link has 80 Mbit/s and a switch, the second link has 20 Mbit/s and no switch. The switch's shares exceed
/// the path's capacity: the flows use CUBIC after a round trip and fill the second link without losing more than CUBIC.
#[test]
fn brf_narrow_link_without_switch_is_not_flooded() {
    let tables = buffered_link(("s", "a"), "80mbit", "5ms", "1000pkt", "router = \"brf\"")
        + &buffered_link(("a", "b"), "20mbit", "5ms", "50pkt", "")
        + "[[flows]]\nscheme = \"brf\"\nfrom = \"s\"\nto = \"b\"\ncount = 2\n";
    let result = |params: &str| run(&scenario(20.0, 2.0, "", &(tables.clone() + params)));
    let bounded = result("");
    let sum: f64 = goodputs(&bounded).iter().sum();
    assert!(sum > 0.85 * 20.0 * PAYLOAD, "{sum}");
    let drop_percent =
        |result: &RunResult| result.links.iter().find(|link| link.link == "a-b").expect("the second link").drop_percent;
    assert!(drop_percent(&bounded) < 3.0, "{}", drop_percent(&bounded));
    // Without the bound (`overrun = 0`), most packets are lost all the time.
    let flooded = result("params = { overrun = 0 }\n");
    assert!(drop_percent(&flooded) > 50.0, "{}", drop_percent(&flooded));
}

/// Data crosses b, ACKs cross c: only the switch at c sees them, and the sender still gets the data path's share.
#[test]
fn brf_acks_on_other_path_carry_share() {
    let link = |from, to, rate, more| buffered_link((from, to), rate, "10ms", "2000pkt", more);
    let brf = "router = \"brf\"";
    let tables = link("s", "a", "1gbit", "")
        + &link("a", "b", "50mbit", brf)
        + &link("b", "d", "1gbit", "")
        + &link("a", "c", "50mbit", brf)
        + &link("c", "d", "1gbit", "")
        + "[[flows]]\nscheme = \"brf\"\nroute = [\"s\", \"a\", \"b\", \"d\"]\nreverse_route = [\"d\", \"c\", \"a\", \"s\"]\ncount = 2\n";
    let spec = spec(&scenario(20.0, 5.0, "", &tables));
    let forward = spec.links.iter().position(|link| link.name == "a-b").expect("a link of the scenario");
    let mut engine = Engine::new(spec);
    engine.run_until(Nanos::from_secs(20));
    let forward = engine.link(forward).router();
    assert!(reading(forward, "announced") > 100.0, "{}", reading(forward, "announced"));
    let rates = [0, 1].map(|flow| pacing_mbit_s(&engine, flow));
    for rate in rates {
        assert_within("pacing rate", rate, 25.0 * PAYLOAD, 0.01);
    }
    let result = engine.finish();
    for goodput in goodputs(&result) {
        assert_within("goodput", goodput, 25.0 * PAYLOAD, 0.02);
    }
}

/// Two paths with two switches each; ACKs return over the other path. Both switches of a path announce shares, and the
/// sender uses the lower share (equation 7).
#[test]
fn brf_two_announcements_lower_share_counts() {
    let link = |from, to, rate, more| buffered_link((from, to), rate, "5ms", "2000pkt", more);
    let brf = "router = \"brf\"";
    let tables = link("s", "a", "1gbit", "")
        + &link("a", "b", "100mbit", brf)
        + &link("b", "e", "40mbit", brf)
        + &link("s", "c", "1gbit", "")
        + &link("c", "d", "60mbit", brf)
        + &link("d", "e", "100mbit", brf)
        + "[[flows]]\nscheme = \"brf\"\nroute = [\"s\", \"a\", \"b\", \"e\"]\nreverse_route = [\"e\", \"d\", \"c\", \"s\"]\n"
        + "[[flows]]\nscheme = \"brf\"\nroute = [\"s\", \"c\", \"d\", \"e\"]\nreverse_route = [\"e\", \"b\", \"a\", \"s\"]\n";
    let result = run(&scenario(20.0, 5.0, "", &tables));
    for (goodput, least) in goodputs(&result).into_iter().zip([40.0, 60.0]) {
        assert_within("goodput", goodput, least * PAYLOAD, 0.01);
    }
    // If the sender applied both shares alternately, the queue would grow. The RTT of the empty path is 20 ms. The
    // queue of the first round trips stays: at most the data sent in another 20 ms while no switch answers the flow.
    for flow in &result.flows {
        let mean = flow.rtt_mean_ms.expect("round-trip times");
        assert!(mean < 20.0 + 60.0, "{mean} ms");
    }
}

/// Short flows of 2 Mbit/s for half a second each, one after the other, beside a backlogged flow with a long
/// round trip. With a prediction for their kind, short flows get 2.2 Mbit/s from the start. Without a prediction they
/// get half of the link until they are measured, between one and two periods of 100 ms, and the other flow learns its
/// larger share up to another period later.
#[test]
fn brf_prediction_limits_known_flows_to_their_usage() {
    let goodput = |prediction: bool| {
        let mut all = flows("brf", 100, "");
        for n in 0..20 {
            let app = "app = { kind = \"cbr\", rate = \"2mbit\" }";
            let times = format!("start = \"{}ms\"\nstop = \"{}ms\"", 2_000 + 500 * n, 2_500 + 500 * n);
            all += &flows("brf", 10, &format!("{app}\n{times}\nsource = \"10.7.0.{n}\"\ndestination = \"10.9.0.1\""));
        }
        let network = format!("router = {{ kind = \"brf\", prediction = {prediction} }}");
        run(&text(12.0, 3.0, &network, &all)).flows[0].goodput_mbit_s
    };
    let (with, without) = (goodput(true), goodput(false));
    // 1.1 times the usage of the short flow, headers included, is reserved; when one short flow follows another, the
    // reservations of both exist for a time (1.5 on average).
    let rest = (RATE - 1.5 * 1.1 * 2.0 / PAYLOAD) * PAYLOAD;
    assert_within("with", with, rest, 0.02);
    // Half of the link's rate is unused for 200 ms on average: 50 ms until the next allocation, one period of 100 ms,
    // and 50 ms until the other flow's control interval.
    let lost = (RATE / 2.0 * PAYLOAD - 2.2) * 0.2 / 0.5;
    assert_within("lost", with - without, lost, 0.1);
}

/// On a link with changing capacity, the stated mean exceeds the capacity half of the time; the measured capacity does
/// not.
#[test]
fn brf_measured_capacity_keeps_changing_link_queue_short() {
    let on_5g = |follow: bool| {
        let router = format!("router = {{ kind = \"brf\", follow = {follow} }}");
        let network = format!("radio = {{ kind = \"5g\", seed = 1 }}\nbuffer = \"3200pkt\"\n{router}");
        run(&scenario(30.0, 2.0, &network, &flows("brf", 30, "count = 2"))).links.remove(0)
    };
    let (stated, measured) = (on_5g(false), on_5g(true));
    assert!(stated.drops > 1_000 && stated.queue_delay_mean_ms > 100.0, "{stated:?}");
    assert!(measured.drops == 0 && measured.queue_delay_mean_ms < 30.0, "{measured:?}");
    assert!(measured.utilization > 0.8, "{measured:?}");
}

/// Three flows join at 2.1 s with one share update per round trip. The resulting queue exceeds a tenth of the
/// buffer. The controller polls the port and signals congestion; then the queue drains within the longest round-trip
/// time (equation 16).
#[test]
fn brf_queue_drains_after_controller_poll() {
    let drained = |poll_ms: u32, delay_ms: u32| {
        let network = format!(
            "controller = {{ poll = \"{poll_ms}ms\", delay = \"{delay_ms}ms\" }}\n\
             router = {{ kind = \"brf\", urgent = false }}"
        );
        let joining = "start = \"2.1s\"\ncount = 3\ntcp = { receive_autotuning = false }";
        let all = flows("brf", 40, "") + &flows("brf", 40, joining);
        let text = text(6.0, 0.0, &network, &all).replace("1000pkt", "400pkt");
        let mut engine = Engine::new(spec(&text));
        let queue = queue_until(&mut engine, 2.1, 6.0);
        let most = *queue.iter().max().expect("readings");
        assert!((41..400).contains(&most), "{most} packets");
        let until = queue.iter().rposition(|waiting| *waiting > 40).map_or(0, |ms| ms + 1);
        println!("polled every {poll_ms} ms, {delay_ms} ms away: {most} packets, drained after {until} ms");
        until
    };
    // The poll interval is 100 ms, and the controller's delay both ways is 10 ms. Each flow learns its share within a
    // round trip, sends less for another round trip, and may just miss one more update.
    assert!(drained(100, 5) <= 100 + 10 + 160);
    // The next poll is at 4 s; the controller's delay both ways takes 200 ms.
    let slow = drained(2_000, 100);
    assert!((1_900 + 200..=1_900 + 200 + 160).contains(&slow), "{slow}");
}
