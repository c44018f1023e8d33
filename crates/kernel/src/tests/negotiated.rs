//! Flows that negotiate their rate, on this machine's kernel. Without root or BPF the tests print the reason and pass.

use narrows_host::testing::skipped;
use narrows_scenario::result::RunResult;

use super::real::with;
use crate::{Options, shim};

fn on_kernel(text: &str) -> Option<RunResult> {
    if let Some(missing) = shim::missing() {
        skipped(missing);
        return None;
    }
    with(text, &Options::default())
}

fn network(rate: &str, more: &str, flows: &str) -> String {
    format!("duration = '4s'\nwarmup = '1s'\n[network]\nrate = '{rate}'\nbuffer = '1bdp'\n{more}\n{flows}")
}

const FLOW: &str = "[[flows]]\nscheme = 'nodectl'\nrtt = '20ms'\n";

/// The flow sends at the negotiated rate, the link's whole 40 Mbit/s, within 5 %, and the program's counters show that
/// it ran with a grant.
#[test]
#[ignore = "real time: `make test`"]
fn negotiated_rate_is_on_the_wire() {
    let Some(result) = on_kernel(&network("40mbit", "", FLOW)) else { return };
    let flow = &result.flows[0];
    assert!((38.0..=40.1).contains(&flow.throughput_mbit_s), "{flow:?}");
    let own = result.host.as_ref().and_then(|host| host.negotiation.clone()).expect("it negotiates");
    eprintln!("{} Mbit/s, RTT {:?} ms, {own:?}", flow.throughput_mbit_s, flow.rtt_mean_ms);
    assert_eq!((own.flows, own.withdrawals, own.grants_ignored), (1, 0, 0));
    assert!(own.grants >= 1 && own.requests_answered >= 1 && own.messages_received >= 1, "{own:?}");
    assert!(own.acks_granted > 1_000, "{own:?}");
    assert_eq!(result.host.expect("a real host").schemes, ["narrows:nodectl"]);
}

/// A second flow makes the node reduce the first flow's rate: each flow has half of the link within 10 %.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_second_flow_makes_the_node_adjust_the_first() {
    let flows = format!("{FLOW}{FLOW}start = '0.5s'\n");
    let Some(result) = on_kernel(&network("40mbit", "", &flows)) else { return };
    for flow in &result.flows {
        assert!((18.0..=21.0).contains(&flow.throughput_mbit_s), "{flow:?}");
    }
    let own = result.host.and_then(|host| host.negotiation).expect("they negotiate");
    assert!(own.grants >= 3, "two answers and a reduction: {own:?}");
}

/// Without a node the flow uses CUBIC and does not stall.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_flow_without_nodes_runs_on_cubic() {
    let text = network("20mbit", "router = 'none'", FLOW);
    let Some(result) = on_kernel(&text) else { return };
    let flow = &result.flows[0];
    let own = result.host.and_then(|host| host.negotiation).expect("it negotiates");
    assert!(flow.throughput_mbit_s > 15.0, "{flow:?} {own:?}");
    assert_eq!((own.grants, own.acks_granted), (0, 0));
}

/// Losses of packets and messages neither stall a flow nor cost it its rate.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_lost_messages_do_not_stall_flows() {
    let flows = format!("{FLOW}{FLOW}");
    let Some(result) = on_kernel(&network("20mbit", "loss = '2%'", &flows)) else { return };
    for flow in &result.flows {
        assert!(flow.throughput_mbit_s > 7.0, "{flow:?}");
    }
}

/// Two flows with the same content and destination share one allocation, as large as that of a flow with other content.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_subflows_of_one_transmission_share_one_allocation() {
    let flow = |keys: &str| format!("{FLOW}{keys}\n");
    let both = "content = 7\ndestination = '10.77.0.1'";
    let flows = format!("{}{}{}", flow(both), flow(both), flow("content = 8"));
    let Some(result) = on_kernel(&network("40mbit", "", &flows)) else { return };
    let rates: Vec<f64> = result.flows.iter().map(|flow| flow.throughput_mbit_s).collect();
    eprintln!("{rates:?}");
    let close = |rate: f64, share: f64| (0.9 * share..=1.05 * share).contains(&rate);
    assert!(close(rates[0] + rates[1], 20.0) && close(rates[2], 20.0), "{rates:?}");
}

/// A node that dies during the run stalls no flow: requesters notice its silence after 10 s and continue with CUBIC.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_dead_node_stalls_no_flow() {
    let more = "router = { kind = 'nodectl', dies = '2s' }";
    let text = network("20mbit", more, &format!("{FLOW}{FLOW}")).replace("'4s'", "'16s'");
    let Some(result) = on_kernel(&text) else { return };
    let total: f64 = result.flows.iter().map(|flow| flow.throughput_mbit_s).sum();
    let own = result.host.and_then(|host| host.negotiation).expect("they negotiate");
    eprintln!("{total} Mbit/s, {own:?}");
    assert!(total > 17.0, "{total} {own:?}");
    assert!(own.messages_sent >= 4 && own.withdrawals == 2, "a request after the silence: {own:?}");
}
