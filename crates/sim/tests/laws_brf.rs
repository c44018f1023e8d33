//! Laws of BRF: the scheme with its router at the bottleneck. Shares on the wire count headers, goodput does not: of C the flows
//! together get 1448 / 1500.

mod law;

use law::{PAYLOAD, assert_within, goodputs, reading, run, spec};
use narrows_cc::Nanos;
use narrows_routers::RouterLink;
use narrows_sim::{Engine, Recorder};

/// Megabits per second of the bottleneck.
const RATE: f64 = 100.0;

/// A scenario on [`RATE`]; `network` has further keys, `flows` are tables.
fn text(duration_s: f64, warmup_s: f64, network: &str, flows: &str) -> String {
    format!(
        "name = \"brf law\"\nduration = \"{duration_s}s\"\nwarmup = \"{warmup_s}s\"\n[network]\nrate = \"{RATE}mbit\"\n\
         buffer = \"1000pkt\"\n{network}\n{flows}"
    )
}

fn flows(scheme: &str, rtt_ms: u32, extra: &str) -> String {
    format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"{rtt_ms}ms\"\n{extra}\n")
}

/// Runs on, and collects a reading of the port's queue, in packets, every millisecond until `until_s`.
fn queue_until(engine: &mut Engine, from_s: f64, until_s: f64) -> Vec<u64> {
    let steps = (from_s * 1e3) as u64..(until_s * 1e3) as u64;
    steps
        .map(|ms| {
            engine.run_until(Nanos::from_millis(ms)).unwrap();
            engine.link(0).port_statistics().expect("a port that is polled").waiting
        })
        .collect()
}

#[test]
fn flows_share_equally_whatever_their_round_trip_times_and_nothing_is_dropped() {
    let result =
        run(&text(30.0, 5.0, "", &(flows("brf", 100, "count = 2") + &flows("brf", 20, "count = 3"))));
    for goodput in goodputs(&result) {
        assert_within("goodput", goodput, RATE / 5.0 * PAYLOAD, 0.01);
    }
    let link = &result.links[0];
    assert!(link.utilization > 0.99, "{}", link.utilization);
    assert_eq!((link.drops, result.counters.timeouts), (0, 0));
}

#[test]
fn one_flow_fills_the_link_without_a_queue() {
    let result = run(&text(10.0, 1.0, "", &flows("brf", 20, "")));
    assert_within("goodput", result.flows[0].goodput_mbit_s, RATE * PAYLOAD, 0.01);
    // The packet in transmission does not count; one behind it may.
    assert!(result.links[0].queue_mean_pkt < 1.0, "{}", result.links[0].queue_mean_pkt);
}

#[test]
fn brf_and_cubic_share_by_numbers_of_flows_in_small_buffers_and_large() {
    for (buffer, cubics) in [("1000pkt", 1), ("100000pkt", 1), ("1000pkt", 3)] {
        let both = flows("brf", 20, "") + &flows("cubic", 20, &format!("count = {cubics}"));
        let text = text(60.0, 5.0, "", &both).replace("1000pkt", buffer);
        let goodputs = goodputs(&run(&text));
        let part = RATE / f64::from(cubics + 1) * PAYLOAD;
        assert_within("brf", goodputs[0], part, 0.02);
        assert_within("cubic", goodputs[1..].iter().sum(), part * f64::from(cubics), 0.02);
    }
}

/// When the windows of the flows that there are came within a tenth of their share for good after a flow joined at 10 s, in
/// round-trip times of 40 ms; and the longest queue.
fn joins(flows_before: u32, network: &str) -> (f64, u64) {
    let flow = |extra: &str| flows("brf", 40, extra);
    let all = flow(&format!("count = {flows_before}")) + &flow("start = \"10s\"");
    let mut engine = Engine::new(spec(&text(12.0, 0.0, network, &all)), Recorder::off());
    let before = 10_000;
    let (mut settled, mut longest) = (before, 0);
    for ms in before..12_000 {
        engine.run_until(Nanos::from_millis(ms)).unwrap();
        longest = longest.max(engine.link(0).port_statistics().expect("polled").waiting);
        let share = RATE * 1e6 / 8.0 / f64::from(flows_before + 1);
        for flow in 0..=flows_before as usize {
            let rate = engine.pacing_rate(flow).map_or(0.0, |rate| rate.as_bytes_per_sec() as f64);
            if (rate / (share * PAYLOAD) - 1.0).abs() > 0.1 {
                settled = ms;
            }
        }
    }
    let round_trips = (settled - before) as f64 / 40.0;
    println!(
        "{flows_before} flows and one that joins: settled after {round_trips:.2} RTT, queue {longest} packets"
    );
    (round_trips, longest)
}

#[test]
fn a_flow_that_joins_and_all_others_have_their_shares_two_round_trips_later() {
    // One for the handshake, and in the paper's form up to one until all others are told: their beats are spread.
    for flows in [1, 4, 9] {
        let (round_trips, queue) = joins(flows, "");
        assert!(round_trips <= 2.1, "{round_trips}");
        // Told at once, the others are late by the time between two acknowledgements, no round trip.
        assert!(queue <= 30, "{queue}");
        let (round_trips, queue) = joins(flows, "router = { kind = \"brf\", urgent = false }");
        assert!(round_trips <= 2.1, "{round_trips}");
        // Half of the link for a round trip at most: 333 packets per round trip.
        assert!(queue <= 333 / 2, "{queue}");
    }
}

#[test]
fn what_a_flow_leaves_is_taken_within_three_periods() {
    let all = flows("brf", 40, "count = 2") + &flows("brf", 40, "stop = \"5s\"");
    let mut engine = Engine::new(spec(&text(8.0, 0.0, "", &all)), Recorder::off());
    let mut settled = 5_000u64;
    for ms in 5_000..8_000 {
        engine.run_until(Nanos::from_millis(ms)).unwrap();
        let rate = engine.pacing_rate(0).map_or(0.0, |rate| rate.as_bytes_per_sec() as f64 * 8e-6);
        if (rate / (RATE / 2.0 * PAYLOAD) - 1.0).abs() > 0.1 {
            settled = ms;
        }
    }
    let round_trips = (settled - 5_000) as f64 / 40.0;
    println!("settled {round_trips:.2} RTT after a flow left");
    // What was written is still delivered; then the FIN; a period until the next allocation, one until it is told.
    assert!(round_trips <= 4.0, "{round_trips}");
}

#[test]
fn random_loss_costs_what_it_takes_and_no_more() {
    let result = run(&text(20.0, 2.0, "loss = \"2%\"", &flows("brf", 20, "count = 2")));
    for goodput in goodputs(&result) {
        assert_within("goodput", goodput, RATE / 2.0 * PAYLOAD * 0.98, 0.01);
    }
    assert_eq!(result.links[0].drops, 0);
}

#[test]
fn a_switch_that_dies_stalls_nobody() {
    let all = flows("brf", 20, "count = 2") + &flows("brf", 20, "start = \"10s\"");
    let network = "router = { kind = \"brf\", dies = \"8s\" }";
    let mut engine = Engine::new(spec(&text(30.0, 9.5, network, &all)), Recorder::off());
    let rate = |engine: &Engine| engine.link(0).port_statistics().expect("polled").sent.as_f64();
    let mut before = 0.0;
    // Before, while the time-out runs, as CUBIC, and when a flow starts that never hears of a share: every half second the link
    // carries nine tenths of what it can.
    for half in 2..60u64 {
        engine.run_until(Nanos::from_millis(500 * half)).unwrap();
        let sent = rate(&engine);
        let used = (sent - before) / (RATE * 125_000.0 * 0.5);
        assert!(half == 2 || used > 0.9, "{used} at {half} halves of a second");
        before = sent;
    }
    let result = engine.finish().unwrap();
    // CUBIC's fairness, not BRF's, but everybody gets something.
    assert!(goodputs(&result).iter().all(|goodput| *goodput > RATE / 10.0), "{:?}", goodputs(&result));
}

#[test]
fn applications_that_send_less_keep_their_rate_and_the_others_have_the_rest() {
    let all = flows("brf", 20, "count = 2")
        + &flows("brf", 20, "app = { kind = \"cbr\", rate = \"5mbit\" }\ncount = 2");
    let result = run(&text(20.0, 2.0, "", &all));
    let goodputs = goodputs(&result);
    for limited in &goodputs[2..] {
        assert_within("limited", *limited, 5.0, 0.001);
    }
    // The limited flows have ten per cent to spare, and nobody else has it.
    let rest = (RATE - 2.0 * 1.1 * 5.0 / PAYLOAD) / 2.0 * PAYLOAD;
    for greedy in &goodputs[..2] {
        assert_within("greedy", *greedy, rest, 0.02);
    }
    assert_eq!(result.links[0].drops, 0);
}

#[test]
fn udp_has_its_share_and_is_policed() {
    let all = flows("brf", 20, "") + &flows("fixed", 20, "protocol = \"udp\"\nparams = { window = 2000 }");
    let result = run(&text(20.0, 2.0, "", &all));
    assert_within("brf", goodputs(&result)[0], RATE * 0.95 * PAYLOAD, 0.02);
    assert!(result.links[0].drops > 0, "what is above the share is dropped");
}

/// s ── a ══ b ── d: the first switch has 80 Mbit/s, the second 40; a flow crosses both, another only the first.
#[test]
fn of_two_switches_the_lower_share_wins_and_the_other_gives_the_rest_away() {
    let link = |from: &str, to: &str, rate: u32, extra: &str| {
        format!(
            "[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}mbit\"\ndelay = \"5ms\"\nbuffer = \"1000pkt\"\n{extra}\n"
        )
    };
    let brf = "router = \"brf\"";
    let text = String::from("name = \"two\"\nduration = \"20s\"\nwarmup = \"5s\"\n[network]\n")
        + &link("s", "a", 1000, "")
        + &link("a", "b", 80, brf)
        + &link("b", "c", 40, brf)
        + &link("c", "d", 1000, "")
        + "[[flows]]\nscheme = \"brf\"\nfrom = \"s\"\nto = \"d\"\ncount = 2\n"
        + "[[flows]]\nscheme = \"brf\"\nfrom = \"s\"\nto = \"b\"\n";
    let result = run(&text);
    let goodputs = goodputs(&result);
    for through in &goodputs[..2] {
        assert_within("through both", *through, 20.0 * PAYLOAD, 0.01);
    }
    // The first switch finds two limited flows, which get ten per cent more there than they use.
    assert_within("through the first", goodputs[2], (80.0 - 2.0 * 1.1 * 20.0) * PAYLOAD, 0.02);
    assert_eq!(result.counters.timeouts, 0);
    assert!(result.links.iter().all(|link| link.drops == 0), "no drop");
}

/// Data takes the way over b, acknowledgements that over c: only the switch at c sees them.
#[test]
fn acknowledgements_that_return_another_way_still_bring_the_share() {
    let link = |from: &str, to: &str, rate: &str, extra: &str| {
        format!(
            "[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}\"\ndelay = \"10ms\"\nbuffer = \"2000pkt\"\n{extra}\n"
        )
    };
    let brf = "router = \"brf\"";
    let text = String::from("name = \"asymmetric\"\nduration = \"20s\"\nwarmup = \"5s\"\n[network]\n")
        + &link("s", "a", "1gbit", "")
        + &link("a", "b", "50mbit", brf)
        + &link("b", "d", "1gbit", "")
        + &link("a", "c", "50mbit", brf)
        + &link("c", "d", "1gbit", "")
        + "[[flows]]\nscheme = \"brf\"\nroute = [\"s\", \"a\", \"b\", \"d\"]\nreverse_route = [\"d\", \"c\", \"a\", \"s\"]\ncount = 2\n";
    let spec = spec(&text);
    let forward = spec.links.iter().position(|link| link.name == "a-b").expect("a link of the scenario");
    let mut engine = Engine::new(spec, Recorder::off());
    engine.run_until(Nanos::from_secs(20)).unwrap();
    let forward = engine.link(forward).router();
    assert!(reading(forward, "announced") > 100.0, "{}", reading(forward, "announced"));
    let rates: Vec<f64> = (0..2)
        .map(|flow| engine.pacing_rate(flow).map_or(0.0, |rate| rate.as_bytes_per_sec() as f64 * 8e-6))
        .collect();
    for rate in rates {
        assert_within("pacing rate", rate, 25.0 * PAYLOAD, 0.01);
    }
    let result = engine.finish().unwrap();
    for goodput in goodputs(&result) {
        assert_within("goodput", goodput, 25.0 * PAYLOAD, 0.02);
    }
}

/// Two switches on each of two ways, and acknowledgements by the other one: both of a way announce, the least counts (equation 7).
#[test]
fn of_two_switches_that_announce_the_lower_share_counts() {
    let link = |from: &str, to: &str, rate: &str, extra: &str| {
        format!(
            "[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}\"\ndelay = \"5ms\"\nbuffer = \"2000pkt\"\n{extra}\n"
        )
    };
    let brf = "router = \"brf\"";
    let text = String::from("name = \"announced\"\nduration = \"20s\"\nwarmup = \"5s\"\n[network]\n")
        + &link("s", "a", "1gbit", "")
        + &link("a", "b", "100mbit", brf)
        + &link("b", "e", "40mbit", brf)
        + &link("s", "c", "1gbit", "")
        + &link("c", "d", "60mbit", brf)
        + &link("d", "e", "100mbit", brf)
        + "[[flows]]\nscheme = \"brf\"\nroute = [\"s\", \"a\", \"b\", \"e\"]\nreverse_route = [\"e\", \"d\", \"c\", \"s\"]\n"
        + "[[flows]]\nscheme = \"brf\"\nroute = [\"s\", \"c\", \"d\", \"e\"]\nreverse_route = [\"e\", \"b\", \"a\", \"s\"]\n";
    let result = run(&text);
    for (goodput, least) in goodputs(&result).into_iter().zip([40.0, 60.0]) {
        assert_within("goodput", goodput, least * PAYLOAD, 0.01);
    }
    // Reading the shares of both in turn, a sender would keep a queue that grows: 20 ms are the empty path's, and the queue of the
    // first round trips stays, at most what leaves in as long again as no switch answers for the flow.
    for flow in &result.flows {
        let mean = flow.rtt_mean_ms.expect("round-trip times");
        assert!(mean < 20.0 + 60.0, "{mean} ms");
    }
}

/// Flows of 2 Mbit/s for half a second each, one after the other, beside one of a long round trip that takes all it can. With what
/// was learned of their kind they take 2.2 Mbit/s at once; without, half of the link until they are measured, which takes
/// between one and two periods of 100 ms, and up to another until the other is told.
#[test]
fn prediction_keeps_flows_of_a_known_kind_from_taking_more_than_they_use() {
    let goodput = |prediction: bool| {
        let mut all = flows("brf", 100, "");
        for n in 0..20 {
            let app = "app = { kind = \"cbr\", rate = \"2mbit\" }";
            let times = format!("start = \"{}ms\"\nstop = \"{}ms\"", 2_000 + 500 * n, 2_500 + 500 * n);
            all += &flows(
                "brf",
                10,
                &format!("{app}\n{times}\nsource = \"10.7.0.{n}\"\ndestination = \"10.9.0.1\""),
            );
        }
        let network = format!("router = {{ kind = \"brf\", prediction = {prediction} }}");
        run(&text(12.0, 3.0, &network, &all)).flows[0].goodput_mbit_s
    };
    let (with, without) = (goodput(true), goodput(false));
    println!("beside short limited flows: {with:.1} Mbit/s with prediction, {without:.1} without");
    // 1.1 times what the others use, with headers, is theirs; when they change, that of two of them.
    let rest = (RATE - 1.5 * 1.1 * 2.0 / PAYLOAD) * PAYLOAD;
    assert_within("with", with, rest, 0.02);
    // Half of the link: until the next allocation, 50 ms on average, for a period, and until the other's beat, 50 ms again.
    let lost = (RATE / 2.0 * PAYLOAD - 2.2) * 0.2 / 0.5;
    assert_within("lost", with - without, lost, 0.1);
}

/// On a link whose capacity changes the mean is too much half of the time. Measured, it is not.
#[test]
fn a_capacity_that_is_measured_keeps_the_queue_of_a_changing_link_short() {
    let on_5g = |follow: bool| {
        let text = format!(
            "name = \"5g\"\nduration = \"30s\"\nwarmup = \"2s\"\n[network]\nradio = {{ kind = \"5g\", seed = 1 }}\n\
             buffer = \"3200pkt\"\nrouter = {{ kind = \"brf\", follow = {follow} }}\n{}",
            flows("brf", 30, "count = 2")
        );
        let link = run(&text).links.remove(0);
        println!(
            "follow {follow}: {} drops, queue {:.1} ms, used {:.3}",
            link.drops, link.queue_delay_mean_ms, link.utilization
        );
        link
    };
    let (stated, measured) = (on_5g(false), on_5g(true));
    assert!(stated.drops > 1_000 && stated.queue_delay_mean_ms > 100.0, "{stated:?}");
    assert!(measured.drops == 0 && measured.queue_delay_mean_ms < 30.0, "{measured:?}");
    assert!(measured.utilization > 0.8, "{measured:?}");
}

/// Three flows join at 2.1 s, told once per round trip: the queue that this makes is above a tenth of the buffer, so the controller
/// has it drained within a longest round-trip time (equation 16), once it has polled and the answer has come.
#[test]
fn a_queue_lasts_until_the_controller_has_polled() {
    let drained = |poll_ms: u32, delay_ms: u32| {
        let network = format!(
            "controller = {{ poll = \"{poll_ms}ms\", delay = \"{delay_ms}ms\" }}\n\
             router = {{ kind = \"brf\", urgent = false }}"
        );
        let all = flows("brf", 40, "") + &flows("brf", 40, "start = \"2.1s\"\ncount = 3");
        let text = text(6.0, 0.0, &network, &all).replace("1000pkt", "400pkt");
        let mut engine = Engine::new(spec(&text), Recorder::off());
        let queue = queue_until(&mut engine, 2.1, 6.0);
        let most = *queue.iter().max().expect("it was read");
        assert!((41..400).contains(&most), "{most} packets");
        let until = queue.iter().rposition(|waiting| *waiting > 40).map_or(0, |ms| ms + 1);
        println!("polled every {poll_ms} ms, {delay_ms} ms away: {most} packets, drained after {until} ms");
        until
    };
    // A poll, there and back; each flow is told within a round trip, sends less for one, and may miss one by a hair.
    assert!(drained(100, 5) <= 100 + 10 + 160);
    // The next poll is at 4 s; the way to the controller and back takes 200 ms.
    let slow = drained(2_000, 100);
    assert!((1_900 + 200..=1_900 + 200 + 160).contains(&slow), "{slow}");
}
