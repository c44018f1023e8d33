//! Laws of HTB: the shares that TCP connections get from classes.

use crate::law::{PAYLOAD, assert_within, dumbbell, flows, run, scenario};
use narrows_sim::RunResult;

fn goodput(result: &RunResult, label: &str) -> f64 {
    result.flows.iter().find(|flow| flow.flow == label).expect("a flow of the scenario").goodput_mbit_s
}

/// Three flows with an RTT of 20 ms on 100 Mbit/s: CUBIC, NewReno, and an unresponsive sender that sends 90 Mbit/s of
/// payload.
///
/// ```text
///   cubic     assured 60 ─┐
///   newreno   assured 30 ─┼─ 100 Mbit/s
///   deaf      10, policed ┘
/// ```
fn against_unresponsive(classes: &str, newreno: &str) -> RunResult {
    let deaf = "label = \"deaf\"\nprotocol = \"udp\"\ntcp = { receive_autotuning = false }";
    let senders =
        flows("cubic", 20, "") + &flows("newreno", 20, newreno) + &flows("fixed:window=100000,rate=90", 20, deaf);
    let rest = format!("queue = {classes}\n{senders}");
    run(&dumbbell((40.0, Some(10.0)), ("100mbit", "1bdp"), &rest))
}

const CLASSES: &str = r#"{ kind = "htb", classes = [
    { name = "c", rate = "60mbit", schemes = ["cubic"] },
    { name = "n", rate = "30mbit", flows = ["newreno"] },
    { name = "d", rate = "10mbit", policed = true, burst = "15kB", protocol = "udp" },
] }"#;

/// An unresponsive sender gets the rate of its policed class, and the other classes keep their rates.
#[test]
fn htb_unresponsive_flow_stays_in_policed_class() {
    let plain = against_unresponsive("\"droptail\"", "");
    // Without classes the unresponsive flow takes nearly everything it sends.
    assert!(goodput(&plain, "cubic") + goodput(&plain, "newreno") < 20.0);
    assert!(plain.links[0].classes.is_empty());
    let result = against_unresponsive(CLASSES, "");
    let [cubic, newreno, policed] = &result.links[0].classes[..] else { panic!("three classes") };
    assert_eq!([&cubic.class, &newreno.class, &policed.class], ["c", "n", "d"]);
    assert_within("the policed class", policed.sent_mbit_s, 10.0, 0.01);
    // A packet of the policed class waits while the other two classes spend their tokens and one packet of debt each,
    // and for the packet in transmission. The tokens of a class are at most one packet plus the tokens that accrue in
    // 1 ms and in the transmission time of six packets.
    let saved = 2.0 * 1500.0 + 90e6 / 8.0 * (1e-3 + 6.0 * 1500.0 / 12.5e6);
    let most = (saved + 3.0 * 1500.0) / 12.5e6 * 1e3;
    assert!(policed.queue_delay_mean_ms < most, "{} ms, at most {most} ms", policed.queue_delay_mean_ms);
    // With a buffer of one BDP of the whole link, both classes stay backlogged.
    assert_within("CUBIC's class", cubic.sent_mbit_s, 60.0, 0.01);
    assert_within("NewReno's class", newreno.sent_mbit_s, 30.0, 0.01);
    assert_within("CUBIC", goodput(&result, "cubic"), 60.0 * PAYLOAD, 0.01);
    assert_within("NewReno", goodput(&result, "newreno"), 30.0 * PAYLOAD, 0.01);
    let drops: u64 = result.links[0].classes.iter().map(|class| class.drops).sum();
    assert_eq!(drops, result.links[0].drops);
    // The scheme's rate counts payload.
    let beyond = 90.0 / PAYLOAD - 10.0;
    assert_within("drops of the policed class", policed.drops as f64, beyond * 1e6 / 12_000.0 * 30.0, 0.001);
}

/// The class of a stopped flow lends its rate to another class.
#[test]
fn htb_stopped_flow_lends_rate_to_other_class() {
    // NewReno stops at 10 s, when the measurement begins. CUBIC borrows NewReno's 30 Mbit/s; the policed class may not
    // borrow.
    let result = against_unresponsive(CLASSES, "stop = \"10s\"");
    assert_within("CUBIC", goodput(&result, "cubic"), 90.0 * PAYLOAD, 0.01);
    assert_within("the policed class", result.links[0].classes[2].sent_mbit_s, 10.0, 0.01);
}

/// A ceiling below the link rate leaves the link idle, for a constant rate and a capacity trace.
#[test]
fn htb_ceiling_below_link_rate_leaves_link_idle() {
    // The trace has delivery opportunities of 1500 B every millisecond, which is 12 Mbit/s.
    for capacity in ["rate = \"12mbit\"", "capacity_trace = \"even.trace\""] {
        let network = format!(
            r#"{capacity}
buffer = "50pkt"
[network.queue]
kind = "htb"
classes = [{{ name = "all", rate = "3mbit", ceil = "5mbit", schemes = ["cubic"] }}]"#
        );
        let result = run(&scenario(25.0, 5.0, &network, &flows("cubic", 40, "")));
        assert_within("utilization", result.links[0].utilization, 5.0 / 12.0, 0.01);
        assert_within("goodput", goodput(&result, "cubic"), 5.0 * PAYLOAD, 0.01);
    }
}
