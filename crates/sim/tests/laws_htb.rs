//! Laws of classes: what a hierarchical token bucket makes of whole connections.

mod law;

use law::{PAYLOAD, assert_within, run};
use narrows_sim::RunResult;

fn goodput(result: &RunResult, label: &str) -> f64 {
    result.flows.iter().find(|flow| flow.flow == label).expect("it is in the results").goodput_mbit_s
}

/// Three flows of 20 ms on 100 Mbit/s. Besides CUBIC and NewReno a sender that is deaf to loss sends 90 Mbit/s of payload.
///
/// ```text
///   cubic     assured 60 ─┐
///   newreno   assured 30 ─┼─ 100 Mbit/s
///   deaf      10, policed ┘
/// ```
fn against_the_deaf(classes: &str, newreno: &str) -> RunResult {
    run(&format!(
        r#"
name = "classes"
duration = "40s"
warmup = "10s"
[network]
rate = "100mbit"
buffer = "1bdp"
queue = {classes}
[[flows]]
scheme = "cubic"
rtt = "20ms"
[[flows]]
scheme = "newreno"
rtt = "20ms"
{newreno}
[[flows]]
scheme = "fixed:window=100000,rate=90"
label = "deaf"
protocol = "udp"
rtt = "20ms"
"#
    ))
}

const CLASSES: &str = r#"{ kind = "htb", classes = [
    { name = "c", rate = "60mbit", schemes = ["cubic"] },
    { name = "n", rate = "30mbit", flows = ["newreno"] },
    { name = "d", rate = "10mbit", policed = true, burst = "15kB", protocol = "udp" },
] }"#;

#[test]
fn a_deaf_sender_gets_what_its_policed_class_has_and_the_others_keep_theirs() {
    let plain = against_the_deaf("\"droptail\"", "");
    // Without classes it takes nearly everything it sends.
    assert!(goodput(&plain, "cubic") + goodput(&plain, "newreno") < 20.0);
    assert!(plain.links[0].classes.is_empty());
    let result = against_the_deaf(CLASSES, "");
    let [cubic, newreno, deaf] = &result.links[0].classes[..] else { panic!("three classes") };
    assert_eq!([&cubic.class, &newreno.class, &deaf.class], ["c", "n", "d"]);
    assert_within("the policed class", deaf.sent_mbit_s, 10.0, 0.01);
    // It waits while the others spend what they have saved, and for a packet of debt each and one in transmission; saved are at
    // most a packet each, and what arrives in 1 ms and the time of six packets.
    let saved = 2.0 * 1500.0 + 90e6 / 8.0 * (1e-3 + 6.0 * 1500.0 / 12.5e6);
    let most = (saved + 3.0 * 1500.0) / 12.5e6 * 1e3;
    assert!(deaf.queue_delay_mean_ms < most, "{} ms, at most {most} ms", deaf.queue_delay_mean_ms);
    // A buffer of a BDP of the whole link is enough for either class alone never to run empty.
    assert_within("CUBIC's class", cubic.sent_mbit_s, 60.0, 0.01);
    assert_within("NewReno's class", newreno.sent_mbit_s, 30.0, 0.01);
    assert_within("CUBIC", goodput(&result, "cubic"), 60.0 * PAYLOAD, 0.01);
    assert_within("NewReno", goodput(&result, "newreno"), 30.0 * PAYLOAD, 0.01);
    let drops: u64 = result.links[0].classes.iter().map(|class| class.drops).sum();
    assert_eq!(drops, result.links[0].drops);
    // The rate of the scheme is that of payload.
    let beyond = 90.0 / PAYLOAD - 10.0;
    assert_within("drops of the policed class", deaf.drops as f64, beyond * 1e6 / 12_000.0 * 30.0, 0.001);
}

#[test]
fn what_a_stopped_flow_leaves_is_lent_to_the_other() {
    // NewReno stops at 10 s, where measuring begins: its 30 Mbit/s go to CUBIC, the policed class may not borrow.
    let result = against_the_deaf(CLASSES, "stop = \"10s\"");
    assert_within("CUBIC", goodput(&result, "cubic"), 90.0 * PAYLOAD, 0.01);
    assert_within("the policed class", result.links[0].classes[2].sent_mbit_s, 10.0, 0.01);
}

#[test]
fn ceilings_below_the_rate_leave_the_link_idle_whether_it_is_constant_or_follows_a_trace() {
    // Opportunities of 1500 B every millisecond: 12 Mbit/s.
    for capacity in ["rate = \"12mbit\"", "capacity_trace = \"even.trace\""] {
        let result = run(&format!(
            r#"
name = "shaped"
duration = "25s"
warmup = "5s"
[network]
{capacity}
buffer = "50pkt"
[network.queue]
kind = "htb"
classes = [{{ name = "all", rate = "3mbit", ceil = "5mbit", schemes = ["cubic"] }}]
[[flows]]
scheme = "cubic"
rtt = "40ms"
"#
        ));
        assert_within("utilization", result.links[0].utilization, 5.0 / 12.0, 0.01);
        assert_within("goodput", goodput(&result, "cubic"), 5.0 * PAYLOAD, 0.01);
    }
}
