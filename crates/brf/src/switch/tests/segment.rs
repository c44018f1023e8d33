//! A segment: senders, a switch on a bridge of 100 Mbit/s, receivers. Times are wall-clock times; bounds are generous,
//! as the machine may be busy.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use narrows_cc::Nanos;
use narrows_host::netlink::Netlink;
use narrows_host::testing::skipped;

use super::super::tc;
use super::super::{clean, status};
use super::hosts::{ACCESS, BOTTLENECK, Hosts, Log, Plan, Running, on_bridge, settings};
use super::packets::NO_LIMIT;

const LINK: f64 = 12_500_000.0;
/// Environment variable of the process that is killed.
const CHILD: &str = "NARROWS_TEST_SWITCH";

/// Whether a rate differs from the expected one by at most the fraction `part` of it.
fn near(rate: f64, expected: f64, part: f64) -> bool {
    (rate - expected).abs() <= part * expected
}

fn wrong(hosts: &Hosts) -> u32 {
    hosts.flows.iter().map(|flow| flow.wrong_checksums).sum()
}

/// Whether both ports have their default queues, without hooks and HTB.
pub(super) fn is_clean() -> bool {
    let (index, _) = tc::interface(BOTTLENECK).expect("it exists");
    let mut netlink = Netlink::route().expect("a socket");
    let root = tc::root(&mut netlink, index).expect("a list");
    let clean = |port: &str| {
        let listed = Command::new("tc").args(["qdisc", "show", "dev", port]).output().expect("tc of iproute2");
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        !text.contains("clsact") && !text.contains("htb")
    };
    root.is_none_or(|(_, handle)| handle == 0) && clean(ACCESS) && clean(BOTTLENECK)
}

/// Two flows share equally. A third flow reads a rate within a tenth of its share in its handshake or in one of the
/// next three rates. The test counts rates, which come once per round trip, because a busy machine may deliver them
/// late. Nothing is dropped, no checksum is wrong, and the mean queue is below a millisecond.
#[test]
#[ignore = "real time: `make test`"]
fn third_flow_has_its_share_after_three_round_trips() {
    on_bridge(|mut hosts| {
        let switch = Running::start(settings());
        hosts.begin(&[Plan::obeying(0, 40), Plan::obeying(300, 40), Plan::obeying(1500, 40)]);
        hosts.run(3000);
        let report = Running::report();
        let halves: Vec<f64> = hosts.flows[..2].iter().map(|flow| flow.throughput(900, 1500)).collect();
        let thirds: Vec<f64> = hosts.flows.iter().map(|flow| flow.throughput(2000, 3000)).collect();
        let fair = |ms: u64| {
            let rates = hosts.flows.iter().map(|flow| flow.rate_at(Duration::from_millis(ms)));
            rates.into_iter().all(|rate| near(rate as f64, LINK / 3.0, 0.1))
        };
        let rates: Vec<u64> = hosts.flows.iter().map(|flow| flow.rate).collect();
        let after = (1500..3000).find(|ms| fair(*ms)).map(|ms| ms - 1500);
        let first: Vec<u64> = hosts.flows[2].rates.iter().take(4).map(|(_, rate)| *rate).collect();
        eprintln!(
            "halves {halves:?}, thirds {thirds:?} at rates {rates:?}, first of the third {first:?}, fair after {after:?} ms of RTT 40 ms, \
             queue {} ms (at most {}), late {} ms (at most {})",
            report["queue_mean_ms"], report["queue_most_ms"], report["late_mean_ms"], report["late_most_ms"]
        );
        assert!(halves.iter().all(|rate| near(*rate, LINK / 2.0, 0.15)), "{halves:?} {:#?}", switch.lines());
        assert!(thirds.iter().all(|rate| near(*rate, LINK / 3.0, 0.15)), "{thirds:?} {report:#}");
        let share = first.iter().position(|rate| near(*rate as f64, LINK / 3.0, 0.1));
        assert!(share.is_some(), "{first:?}: {report:#}");
        assert!(after.is_some(), "all three have a third: {report:#}");
        assert_eq!(wrong(&hosts), 0);
        assert!(report["classes"].as_array().is_some_and(|all| all.iter().all(|own| own["drops"] == 0)), "{report:#}");
        assert!(report["queue_mean_ms"].as_f64().is_some_and(|ms| ms < 1.0), "{report:#}");
        assert!(report["counters"]["written"].as_u64().is_some_and(|count| count > 50), "{report:#}");
        switch.end().expect("it ran");
        assert!(is_clean());
        assert_eq!(status(), serde_json::json!([]));
    });
}

/// A flow that ends leaves its share to the other flows, and the log reports the end.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_ended_flow_leaves_its_share() {
    on_bridge(|mut hosts| {
        let switch = Running::start(settings());
        let second = Plan { stop: Duration::from_millis(1000), ..Plan::obeying(0, 20) };
        hosts.begin(&[Plan::obeying(0, 20), second]);
        hosts.run(2000);
        let (with, alone) = (hosts.flows[0].throughput(500, 1000), hosts.flows[0].throughput(1500, 2000));
        assert!(near(with, LINK / 2.0, 0.2) && near(alone, LINK, 0.15), "{with} {alone}");
        let lines = switch.lines();
        for part in ["flow in: 10.0.0.1:5000", "flow out: 10.0.0.1:5001"] {
            assert!(lines.iter().any(|line| line.contains(part)), "{part}: {lines:#?}");
        }
        switch.end().expect("it ran");
    });
}

/// A flow that obeys keeps its share beside a flow that floods, because the queue limits the flood's class.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_flood_beside_stays_in_its_class() {
    on_bridge(|mut hosts| {
        let switch = Running::start(settings());
        let flood = Plan { obeys: false, fixed: 11_000_000, carried: None, ..Plan::obeying(0, 20) };
        hosts.begin(&[Plan::obeying(0, 20), flood]);
        hosts.run(2500);
        let rates: Vec<f64> = hosts.flows.iter().map(|flow| flow.throughput(1000, 2500)).collect();
        eprintln!("obeying and flood: {rates:?}");
        assert!(near(rates[0], LINK / 2.0, 0.15) && near(rates[1], LINK / 2.0, 0.15), "{rates:?}");
        switch.end().expect("it ran");
    });
}

/// Flows whose option is stripped or forged continue, and the other flows keep their shares.
#[test]
#[ignore = "real time: `make test`"]
fn stripped_and_forged_options_do_no_harm() {
    on_bridge(|mut hosts| {
        let switch = Running::start(settings());
        let carried = [None, Some(0), Some(u16::MAX), Some(10), Some(65_530), Some(NO_LIMIT)];
        let plans = carried.map(|carried| Plan { carried, ..Plan::obeying(0, 20) });
        hosts.begin(&plans);
        hosts.run(2500);
        let rates: Vec<f64> = hosts.flows.iter().map(|flow| flow.throughput(1000, 2500)).collect();
        eprintln!("rates by carried code {carried:?}: {rates:?}");
        // Flows whose receivers forge 1 or 6553 bytes per second send at these rates. All other flows get more than a
        // tenth of an equal share, and no flow floods the link.
        for (rate, carried) in rates.iter().zip(carried) {
            assert!([Some(10), Some(65_530)].contains(&carried) || *rate > LINK / 60.0, "{carried:?}: {rates:?}");
        }
        assert!(rates.iter().sum::<f64>() < 1.05 * LINK);
        assert!(rates[5] > LINK / 8.0, "the honest flow: {rates:?}");
        assert_eq!(wrong(&hosts), 0);
        assert!(switch.lines().iter().any(|line| line.contains("option lost: 10.0.0.1:5000")), "{:#?}", switch.lines());
        switch.end().expect("it ran");
    });
}

/// Flows for which the table has no space are counted in the report and in the log, and continue beside the tracked
/// flows.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_flows_beyond_the_table_are_counted() {
    on_bridge(|mut hosts| {
        let mut settings = settings();
        settings.set("flows", "2").expect("in range");
        let switch = Running::start(settings);
        hosts.begin(&[Plan::obeying(0, 20), Plan::obeying(0, 20), Plan::obeying(600, 20)]);
        hosts.run(1800);
        let report = Running::report();
        let refused =
            report["flows_refused"].as_u64().unwrap_or(0) + report["counters"]["refused"].as_u64().unwrap_or(0);
        assert_eq!(refused, 1, "{report:#}");
        let lines = switch.lines();
        let said = "table full: 1 flows so far found no room among 2";
        assert!(lines.iter().any(|line| line.contains(said)), "{lines:#?}");
        assert!(hosts.flows[2].throughput(1000, 1800) > 100_000.0, "it sends at its own rate");
        switch.end().expect("it ran");
    });
}

/// A short patience is honoured: even without flows, decisions come before the patience ends. A patience below the
/// minimum is refused.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_short_patience_is_honoured_or_refused() {
    let mut settings = settings();
    settings.patience = Nanos::from_millis(19);
    let refused = super::super::plan(&settings).unwrap_err().to_string();
    assert!(refused.starts_with("--patience 19ms") && refused.ends_with("accepted: 20ms or more"), "{refused}");
    settings.patience = Nanos::from_millis(40);
    on_bridge(|mut hosts| {
        let switch = Running::start(settings);
        // Each flow begins after an idle time, because the switch sleeps longest while idle.
        hosts.begin(
            &[0, 300, 600, 900]
                .map(|start| Plan { stop: Duration::from_millis(start + 100), ..Plan::obeying(start, 10) }),
        );
        hosts.run(1200);
        let served = hosts.flows.iter().filter(|flow| !flow.rates.is_empty()).count();
        let report = Running::report();
        // On a busy machine the switch may be late for one flow.
        assert!(served >= 3, "{served} flows got rates: {report:#}");
        switch.end().expect("it ran");
    });
}

/// Two switches on one port, another program's queue and a missing interface are refused.
#[test]
fn unusable_ports_are_refused() {
    on_bridge(|_hosts| {
        let switch = Running::start(settings());
        let log = Log::default();
        let second = super::super::run(&settings(), &log).unwrap_err().to_string();
        assert!(second.contains("belongs to the switch of process"), "{second}");
        switch.end().expect("it ran");
        let mut other = settings();
        other.ports[0].name = "none0".to_owned();
        let missing = super::super::plan(&other).unwrap_err().to_string();
        assert!(missing.starts_with("--port none0: no such interface"), "{missing}");
        let tc = Command::new("tc").args(["qdisc", "add", "dev", BOTTLENECK, "root", "handle", "1:", "htb"]).status();
        if !tc.is_ok_and(|status| status.success()) {
            skipped("tc of iproute2");
            return;
        }
        let foreign = super::super::plan(&settings()).unwrap_err().to_string();
        assert!(foreign.contains("it has a queue of its own (`htb`)"), "{foreign}");
    });
}

/// The process that the next test kills.
#[test]
fn killed_switch_process() {
    if std::env::var_os(CHILD).is_some() {
        super::super::run(&settings(), &Log::default()).expect("it runs");
    }
}

/// A killed switch stalls no flow: ACKs pass without rates, and the next command removes its remains.
#[test]
#[ignore = "real time: `make test`"]
fn killed_switch_stalls_no_flow() {
    on_bridge(|mut hosts| {
        let own = std::env::current_exe().expect("this test");
        let mut child = Command::new(own)
            .args(["switch::tests::segment::killed_switch_process", "--exact"])
            .env(CHILD, "1")
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let end = Instant::now() + Duration::from_secs(20);
        while status()[0]["report"].is_null() {
            assert!(Instant::now() < end && child.try_wait().is_ok_and(|done| done.is_none()), "it runs");
            std::thread::sleep(Duration::from_millis(10));
        }
        hosts.begin(&[Plan::obeying(0, 20), Plan::obeying(100, 20), Plan::obeying(1800, 20)]);
        hosts.run(1000);
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
        hosts.run(2500);
        let before: f64 = hosts.flows.iter().map(|flow| flow.throughput(500, 1000)).sum();
        let after: Vec<f64> = hosts.flows.iter().map(|flow| flow.throughput(1700, 2500)).collect();
        eprintln!("before {before}, after {after:?}");
        assert!(
            near(before, LINK, 0.15) && after[2] > 150_000.0 && after.iter().all(|rate| *rate > 100_000.0),
            "{before} {after:?}"
        );
        let late = |flow: &super::hosts::Flow| flow.rates.iter().filter(|(at, _)| at.as_millis() > 1700).count();
        assert_eq!(hosts.flows.iter().map(late).sum::<usize>(), 0, "no rates are written");
        assert_eq!(status()[0]["runs"], false);
        assert!(!is_clean());
        assert!(clean().expect("root").contains(&BOTTLENECK.to_owned()));
        assert!(is_clean());
    });
}
