//! Laws of the schemes with explicit feedback: RCP and XCP with their routers at the bottleneck of a dumbbell. Rates on
//! the wire count headers, goodput does not: of C the flows together get payload / (payload + header).

mod law;

use law::{assert_within, reading, run, spec};
use narrows_cc::Nanos;
use narrows_routers::RouterLink;
use narrows_sim::{Engine, Recorder, RunResult};

/// Megabits per second of the bottleneck.
const RATE: f64 = 100.0;

/// The share of payload in a full packet, with the explicit header of the scheme.
fn payload_share(scheme: &str) -> f64 {
    let header = match scheme {
        "rcp" => 52.0 + 12.0,
        "xcp" => 52.0 + 20.0,
        other => panic!("{other} has no explicit header"),
    };
    1448.0 / (1448.0 + header)
}

/// A scenario on [`RATE`], the buffer ample; `flows` are tables.
fn text(duration_s: f64, warmup_s: f64, flows: &str) -> String {
    format!(
        r#"
name = "explicit law"
duration = "{duration_s}s"
warmup = "{warmup_s}s"
[network]
rate = "{RATE}mbit"
buffer = "8bdp"
{flows}
"#
    )
}

fn flows(scheme: &str, rtt_ms: u32, count: u32) -> String {
    format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"{rtt_ms}ms\"\ncount = {count}\n")
}

/// The most and the least goodput.
fn extremes(result: &RunResult) -> (f64, f64) {
    let all = || result.flows.iter().map(|flow| flow.goodput_mbit_s);
    (all().fold(0.0, f64::max), all().fold(f64::INFINITY, f64::min))
}

/// Every flow gets the same share of all there is, the link is busy, its queue short, and nothing is dropped.
#[track_caller]
fn assert_equal_shares(scheme: &str, count: u32, result: &RunResult, tolerance: f64) {
    let link = &result.links[0];
    println!(
        "{scheme}, {count} flows: utilisation {:.4}, queue {:.2} pkt",
        link.utilization, link.queue_mean_pkt
    );
    let share = RATE / f64::from(count) * payload_share(scheme);
    let (most, least) = extremes(result);
    assert_within("most", most, share, tolerance);
    assert_within("least", least, share, tolerance);
    assert_eq!((link.drops, result.counters.timeouts), (0, 0), "{scheme}: drops, timeouts");
}

#[test]
fn rcp_flows_of_one_round_trip_time_share_the_link_equally() {
    for count in [1, 2, 5, 20] {
        let result = run(&text(30.0, 10.0, &flows("rcp", 40, count)));
        assert_equal_shares("rcp", count, &result, 0.05);
        assert!(result.links[0].utilization > 0.97, "{}", result.links[0].utilization);
        // 3 % of a bandwidth-delay product of 333 packets of 1500 B.
        assert!(result.links[0].queue_mean_pkt < 0.03 * 333.0, "{}", result.links[0].queue_mean_pkt);
    }
}

#[test]
fn rcp_flows_share_equally_whatever_their_round_trip_times() {
    let mixed = flows("rcp", 10, 2) + &flows("rcp", 100, 2);
    let result = run(&text(60.0, 20.0, &mixed));
    assert_equal_shares("rcp", 4, &result, 0.05);
}

/// A flow whose line carries 20 Mbit/s asks routers for no more and gets it; the others share the rest.
#[test]
fn an_rcp_flow_asks_for_what_its_line_carries_and_no_stamp_is_refused() {
    for line in [20.0, 19.999_997] {
        let narrow =
            format!("[[flows]]\nscheme = \"rcp:line_rate={line}\"\nrtt = \"40ms\"\n") + &flows("rcp", 40, 2);
        let mut engine = Engine::new(spec(&text(30.0, 10.0, &narrow)), Recorder::off());
        engine.run_until(Nanos::from_secs(29)).unwrap();
        // Rounded down to the numbers of the header, 2^-24 apart at the worst.
        let paced = engine.pacing_rate(0).expect("a rate").as_mbit_per_sec();
        assert!((line * (1.0 - 2e-7) - 1e-5..=line).contains(&paced), "{paced}, not {line}");
        let result = engine.finish().unwrap();
        assert_within("narrow", result.flows[0].goodput_mbit_s, line, 0.001);
        let share = (RATE - line / payload_share("rcp")) / 2.0 * payload_share("rcp");
        for flow in &result.flows[1..] {
            assert_within("wide", flow.goodput_mbit_s, share, 0.05);
        }
        assert_eq!((result.links[0].drops, result.counters.timeouts), (0, 0));
    }
}

#[test]
fn xcp_fills_the_link_with_hardly_a_queue() {
    for count in [1, 2, 5, 20] {
        let result = run(&text(30.0, 10.0, &flows("xcp", 40, count)));
        assert_equal_shares("xcp", count, &result, 0.05);
        assert!(result.links[0].utilization > 0.97, "{}", result.links[0].utilization);
        assert!(result.links[0].queue_mean_pkt < 0.03 * 333.0, "{}", result.links[0].queue_mean_pkt);
    }
}

#[test]
fn xcp_is_fair_between_flows_of_ten_and_a_hundred_milliseconds() {
    let mixed = flows("xcp", 10, 2) + &flows("xcp", 100, 2);
    let result = run(&text(60.0, 20.0, &mixed));
    assert_equal_shares("xcp", 4, &result, 0.10);
    assert!(result.links[0].utilization > 0.95, "{}", result.links[0].utilization);
}

/// A second flow joins the first after ten seconds. In round-trip times of 40 ms after that: when `reading` of the run came
/// within a tenth of `expected` for good.
fn joins(scheme: &str, expected: f64, reading: impl Fn(&Engine) -> f64) -> f64 {
    let second = flows(scheme, 40, 1) + "start = \"10s\"\n";
    let spec = spec(&text(30.0, 0.0, &(flows(scheme, 40, 1) + &second)));
    let mut engine = Engine::new(spec, Recorder::off());
    let mut settled = 10.0;
    for step in 2_000..6_000 {
        let now = f64::from(step) / 200.0;
        engine.run_until(Nanos::from_secs_f64(now)).unwrap();
        if (reading(&engine) / expected - 1.0).abs() > 0.1 {
            settled = now;
        }
    }
    let result = engine.finish().unwrap();
    assert_eq!(result.links[0].drops, 0, "{scheme} drops nothing when a flow joins");
    let round_trips = (settled - 10.0) / 0.04;
    println!("{scheme}: settled {round_trips:.0} RTTs after a flow joined");
    round_trips
}

#[test]
fn the_rate_of_rcp_settles_within_thirty_round_trips_of_a_flow_that_joins() {
    // The queue of the second flow's first round trips is drained with beta; see the router's essay.
    let round_trips = joins("rcp", RATE * 1e6 / 8.0 / 2.0, |engine| reading(engine.link(0).router(), "rate"));
    assert!(round_trips < 30.0, "{round_trips}");
}

#[test]
fn a_flow_that_joins_has_its_share_of_xcp_within_forty_round_trips() {
    let share = RATE * 1e6 / 8.0 / 2.0 * 0.04 * payload_share("xcp");
    let round_trips = joins("xcp", share, |engine| engine.window(1).as_f64());
    assert!(round_trips < 40.0, "{round_trips}");
}
