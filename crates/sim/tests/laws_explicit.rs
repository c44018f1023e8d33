//! Laws of explicit feedback: RCP and XCP with their routers at the bottleneck of a dumbbell. Rates on the wire include
//! headers and goodput does not, so the total goodput is payload / (payload + header) of the link's rate.

use crate::law::{assert_within, cwnd, pacing_mbit_s, reading, run, scenario, spec};
use narrows_cc::Nanos;
use narrows_routers::RouterLink;
use narrows_sim::{Engine, RunResult};

/// Bottleneck rate in Mbit/s.
const RATE: f64 = 100.0;

/// Payload share of a full packet with the scheme's explicit header.
fn payload_share(scheme: &str) -> f64 {
    let header = match scheme {
        "rcp" => 52.0 + 12.0,
        "xcp" => 52.0 + 20.0,
        other => panic!("{other} has no explicit header"),
    };
    1448.0 / (1448.0 + header)
}

/// A scenario on a link of [`RATE`] with a large buffer; `flows` holds tables.
fn text(duration_s: f64, warmup_s: f64, flows: &str) -> String {
    let network = format!("rate = \"{RATE}mbit\"\nbuffer = \"8bdp\"");
    scenario(duration_s, warmup_s, &network, flows)
}

fn flows(scheme: &str, rtt_ms: u64, count: u32) -> String {
    crate::law::flows(scheme, rtt_ms, &format!("count = {count}"))
}

/// The highest and the lowest goodput.
fn extremes(result: &RunResult) -> (f64, f64) {
    let all = || result.flows.iter().map(|flow| flow.goodput_mbit_s);
    (all().fold(0.0, f64::max), all().fold(f64::INFINITY, f64::min))
}

/// All flows get the same share of the whole link, the queue is short, and no packet is dropped.
#[track_caller]
fn assert_equal_shares(scheme: &str, count: u32, result: &RunResult, tolerance: f64) {
    let link = &result.links[0];
    let share = RATE / f64::from(count) * payload_share(scheme);
    let (most, least) = extremes(result);
    assert_within("most", most, share, tolerance);
    assert_within("least", least, share, tolerance);
    assert_eq!((link.drops, result.counters().timeouts), (0, 0), "{scheme}: drops, timeouts");
}

/// Flows of 40 ms share the link equally, fill it and keep a short queue.
#[track_caller]
fn assert_equal_rtts_share(scheme: &str) {
    for count in [1, 2, 5, 20] {
        let result = run(&text(30.0, 10.0, &flows(scheme, 40, count)));
        assert_equal_shares(scheme, count, &result, 0.05);
        assert!(result.links[0].utilization > 0.97, "{}", result.links[0].utilization);
        // 3 % of a BDP of 333 packets of 1500 B.
        assert!(result.links[0].queue_mean_pkt < 0.03 * 333.0, "{}", result.links[0].queue_mean_pkt);
    }
}

/// RCP flows with equal RTTs share the link equally and keep a short queue.
#[test]
fn rcp_equal_rtts_share_link_equally() {
    assert_equal_rtts_share("rcp");
}

/// RCP flows of 10 and 100 ms share the link equally.
#[test]
fn rcp_mixed_rtts_share_link_equally() {
    let mixed = flows("rcp", 10, 2) + &flows("rcp", 100, 2);
    let result = run(&text(60.0, 20.0, &mixed));
    assert_equal_shares("rcp", 4, &result, 0.05);
}

/// A flow with a line rate of 20 Mbit/s requests and gets this rate, routers refuse no stamp, and the other flows
/// share the rest.
#[test]
fn rcp_line_rate_limits_request_and_others_share_rest() {
    for line in [20.0, 19.999_997] {
        let narrow = format!("[[flows]]\nscheme = \"rcp:line_rate={line}\"\nrtt = \"40ms\"\n") + &flows("rcp", 40, 2);
        let mut engine = Engine::new(spec(&text(30.0, 10.0, &narrow)));
        engine.run_until(Nanos::from_secs(29));
        // The rate is rounded down to a floating-point number of the header; adjacent numbers differ by at most 2^-24.
        let paced = pacing_mbit_s(&engine, 0);
        assert!((line * (1.0 - 2e-7) - 1e-5..=line).contains(&paced), "{paced}, not {line}");
        let result = engine.finish();
        assert_within("narrow", result.flows[0].goodput_mbit_s, line, 0.001);
        let share = (RATE - line / payload_share("rcp")) / 2.0 * payload_share("rcp");
        for flow in &result.flows[1..] {
            assert_within("wide", flow.goodput_mbit_s, share, 0.05);
        }
        assert_eq!((result.links[0].drops, result.counters().timeouts), (0, 0));
    }
}

/// XCP flows with equal RTTs fill the link and keep a short queue.
#[test]
fn xcp_equal_rtts_fill_link_with_short_queue() {
    assert_equal_rtts_share("xcp");
}

/// XCP flows of 10 and 100 ms share the link equally.
#[test]
fn xcp_mixed_rtts_share_link_equally() {
    let mixed = flows("xcp", 10, 2) + &flows("xcp", 100, 2);
    let result = run(&text(60.0, 20.0, &mixed));
    assert_equal_shares("xcp", 4, &result, 0.10);
    assert!(result.links[0].utilization > 0.95, "{}", result.links[0].utilization);
}

/// Time until `reading` stays within a tenth of `expected` after a second flow joins at 10 s, in round-trip times of
/// 40 ms.
fn joins(scheme: &str, expected: f64, reading: impl Fn(&Engine) -> f64) -> f64 {
    let second = flows(scheme, 40, 1) + "start = \"10s\"\n";
    let spec = spec(&text(30.0, 0.0, &(flows(scheme, 40, 1) + &second)));
    let mut engine = Engine::new(spec);
    let mut settled = 10.0;
    for step in 2_000..6_000 {
        let now = f64::from(step) / 200.0;
        engine.run_until(Nanos::from_secs_f64(now));
        if (reading(&engine) / expected - 1.0).abs() > 0.1 {
            settled = now;
        }
    }
    let result = engine.finish();
    assert_eq!(result.links[0].drops, 0, "{scheme}: drops after a flow joined");
    (settled - 10.0) / 0.04
}

/// RCP's rate settles within 30 round trips after a flow joins.
#[test]
fn rcp_join_settles_rate_within_thirty_round_trips() {
    // The queue of the second flow's first round trips drains at the rate given by beta; see the module documentation
    // of the router.
    let round_trips = joins("rcp", RATE * 1e6 / 8.0 / 2.0, |engine| reading(engine.link(0).router(), "rate"));
    assert!(round_trips < 30.0, "{round_trips}");
}

/// An XCP flow that joins gets its share within 40 round trips.
#[test]
fn xcp_joining_flow_gets_share_within_forty_round_trips() {
    let share = RATE * 1e6 / 8.0 / 2.0 * 0.04 * payload_share("xcp");
    let round_trips = joins("xcp", share, |engine| cwnd(engine, 1));
    assert!(round_trips < 40.0, "{round_trips}");
}
