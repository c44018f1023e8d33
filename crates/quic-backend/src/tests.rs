//! QUIC over loopback and in network namespaces, in real time.

use std::sync::atomic::{AtomicU64, Ordering};

use narrows_emulation::Watch;
use narrows_host::testing::{Calm, alone};
use narrows_host::{HostError, namespace};
use narrows_scenario::result::RunResult;
use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};
use narrows_trace::qlog::Log;
use serde_json::Value;

use super::{Options, check, run};

#[path = "../../trace/tests/schema/mod.rs"]
mod schema;

fn plan(text: &str) -> Plan {
    let planned = expand(&Source { name: "test", text, files: &NoFiles }, &[]).expect("valid");
    resolve(&planned[0].scenario, planned[0].seed, &NoFiles).expect("resolves")
}

/// The result of a run; `None` if this machine was too busy.
fn on_quic(text: &str, options: &Options) -> Option<RunResult> {
    let _alone = alone();
    let calm = Calm::begin();
    let done = run(&plan(text), options, || Ok(()), &()).unwrap_or_else(|error| panic!("{error}"));
    let result = done.expect("not cancelled").0;
    let host = result.host.as_ref().expect("real ends");
    calm.judges(host.disturbed, &host.lateness).then_some(result)
}

fn refusal(text: &str, options: &Options) -> String {
    match check(&plan(text), options) {
        Err(HostError::Unsupported(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

const LINK: &str = "duration = '3s'\n[network]\nrate = '20mbit'\nbuffer = '1bdp'\n";

/// A flow fills the link over real sockets, without privileges, and the result names the scheme and the backend.
#[test]
#[ignore = "real time: `make test`"]
fn quic_fills_the_link() {
    for (scheme, own, name) in [("bbr-gc", false, "narrows:bbr-gc"), ("cubic", true, "noq:cubic")] {
        let text = format!("{LINK}[[flows]]\nscheme = '{scheme}'\nrtt = '20ms'\n");
        let Some(result) = on_quic(&text, &Options { own, ..Options::default() }) else { return };
        let flow = &result.flows[0];
        // Of each 1500 bytes, about 1430 are payload. The lower bound allows for a busy machine.
        assert!(flow.goodput_mbit_s > 0.7 * 19.0 && flow.goodput_mbit_s < 19.4, "{flow:?}");
        assert!(flow.rtt_min_ms.is_some_and(|rtt| (20.0..30.0).contains(&rtt)), "{flow:?}");
        assert_eq!(flow.timeouts, None);
        let host = result.host.expect("real ends");
        assert_eq!((host.on, host.schemes), (if own { "noq" } else { "quic" }, vec![name.to_owned()]));
        assert!(result.counters.is_none() && result.event_hash.is_none());
    }
}

/// The endpoints are in two network namespaces if these can be created, and otherwise or on request on
/// loopback. Both variants carry several flows to one port of one receiver.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_ends_are_in_namespaces_where_possible() {
    let text = format!(
        "{LINK}[[flows]]\nscheme = 'bbr'\nrtt = '20ms'\ncount = 2\n[[flows]]\nscheme = 'cubic'\nrtt = '30ms'\n"
    );
    let possible = namespace::available("--on quic").is_ok();
    for loopback in [false, true] {
        let Some(result) = on_quic(&text, &Options { loopback, ..Options::default() }) else { return };
        let host = result.host.expect("real ends");
        assert_eq!(host.between, Some(if possible && !loopback { "namespaces" } else { "loopback" }));
        assert!(host.socket_drops.is_some());
        for flow in &result.flows {
            assert!(flow.bytes_delivered > 100_000, "loopback {loopback}: {flow:?}");
            assert!(flow.rtt_min_ms.is_some_and(|rtt| rtt >= flow.rtt_base_ms), "loopback {loopback}: {flow:?}");
        }
        let total: f64 = result.flows.iter().map(|flow| flow.goodput_mbit_s).sum();
        // Data behind a gap is delivered when the gap is filled, so in part of a run more data may be delivered
        // than the link carries in that time.
        assert!(total > 0.6 * 19.0 && total < 20.0, "loopback {loopback}: {total}");
    }
}

/// Two flows share the link. A file completes, and a flow that stops leaves the link to the other flow.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_applications_end_and_stop() {
    let text = format!(
        "{LINK}[[flows]]\nscheme = 'bbr'\nrtt = '10ms'\nsize = '1MB'\n\
         [[flows]]\nscheme = 'newreno'\nrtt = '30ms'\nstop = '1s'\n"
    );
    let Some(result) = on_quic(&text, &Options::default()) else { return };
    let [file, stopped] = &result.flows[..] else { panic!("two flows") };
    assert_eq!(file.bytes_delivered, 1_000_000, "{file:?}");
    assert!(file.completion_s.is_some_and(|at| at > 0.4 && at < 3.0), "{file:?}");
    assert!(stopped.bytes_delivered > 100_000 && stopped.completion_s.is_none(), "{stopped:?}");
}

/// The simulator applies the link's random loss, and the data of lost packets is sent again.
#[test]
#[ignore = "real time: `make test`"]
fn lost_packets_are_sent_again() {
    let text = format!("{LINK}loss = '2%'\n[[flows]]\nscheme = 'bbr'\nrtt = '20ms'\n");
    let Some(result) = on_quic(&text, &Options::default()) else { return };
    let flow = &result.flows[0];
    // The queue drops packets, too, and drops more of them if the endpoints are delayed.
    assert!((0.5..4.0).contains(&flow.loss_percent), "{flow:?}");
    assert!((0.9..1.1).contains(&(flow.retransmit_percent / flow.loss_percent)), "{flow:?}");
    assert!(flow.goodput_mbit_s > 10.0, "{flow:?}");
}

/// The qlog of a run follows the schema and gives each packet one fate: acknowledged, lost, or in flight at the
/// end. The losses in the qlog equal the result's retransmissions.
#[test]
#[ignore = "real time: `make test`"]
fn qlog_gives_each_packet_one_fate() {
    let _alone = alone();
    let plan = plan(&format!("warmup = '0s'\n{LINK}loss = '2%'\n[[flows]]\nscheme = 'bbr'\nrtt = '20ms'\n"));
    let path = std::env::temp_dir().join(format!("narrows-quic-{}.sqlog", std::process::id()));
    let create = || Log::create(&plan, Some("quic"), &path);
    let done = run(&plan, &Options::default(), create, &()).unwrap_or_else(|error| panic!("{error}"));
    let (result, log) = done.expect("not cancelled");
    log.finish().expect("written");
    let bytes = std::fs::read(&path).expect("a file");
    std::fs::remove_file(&path).expect("removed");
    let records = schema::records(&bytes).unwrap_or_else(|problem| panic!("{problem}"));
    schema::check(&records).unwrap_or_else(|problem| panic!("{problem}"));
    let data =
        |name: &'static str| records.iter().filter(move |record| record["name"] == name).map(|record| &record["data"]);
    let number = |data: &Value| data["header"]["packet_number"].as_u64().expect("a number");
    let sent: Vec<u64> = data("quic:packet_sent").map(number).collect();
    assert!((0..).zip(&sent).all(|(place, number)| place == *number), "gaps in packet numbers");
    let lost: Vec<u64> = data("quic:packet_lost").map(number).collect();
    let acked = data("quic:packets_acked").flat_map(|data| data["packet_numbers"].as_array().expect("a list"));
    let mut fates: Vec<u64> = acked.map(|number| number.as_u64().expect("a number")).collect();
    assert!(fates.len() > 1000, "{} acknowledged", fates.len());
    fates.extend(&lost);
    let count = fates.len();
    fates.sort_unstable();
    fates.dedup();
    assert_eq!(fates.len(), count, "packets with two fates");
    assert!(fates.last() < Some(&(sent.len() as u64)));
    // The remaining packets were in flight: at most the largest congestion window, and handshake packets whose
    // keys were discarded.
    let windows = data("quic:recovery_metrics_updated").filter_map(|data| data["congestion_window"].as_u64());
    let most = windows.max().expect("a window") / 1200 + 16;
    assert!((sent.len() - count) as u64 <= most, "{} sent, {count} with a fate, {most} in flight", sent.len());
    let flow = &result.flows[0];
    let retransmitted = (flow.retransmit_percent / 100.0 * flow.packets_sent as f64).round();
    assert!(lost.len() > 10 && lost.len() as f64 == retransmitted, "{} {retransmitted}", lost.len());
    let scenario = data("simulation:scenario").next().expect("a description");
    assert_eq!(scenario["details"]["flows"][0]["transport"], "quic");
}

/// Scenarios that QUIC cannot run are refused with a reason and the accepted values.
#[test]
fn foreign_needs_are_refused() {
    let flow = |keys: &str| format!("{LINK}[[flows]]\nrtt = '20ms'\n{keys}\n");
    let ours = Options::default();
    let marks = refusal(&flow("scheme = 'dctcp'"), &ours);
    assert!(marks.contains("needs the number of marked packets"), "{marks}");
    let counting = refusal(&flow("scheme = 'bbr3:ecn=true'"), &ours);
    assert!(counting.contains("with ecn = 1 it needs the number of marked packets"), "{counting}");
    let setting = refusal(&flow("scheme = 'cubic'\ntcp = { sack = false }"), &ours);
    assert!(setting.contains("tcp.sack") && setting.contains("accepted on quic"), "{setting}");
    let own = refusal(&flow("scheme = 'vegas'"), &Options { own: true, ..Options::default() });
    assert!(own.contains("noq has no controller `vegas` of its own; accepted: cubic, newreno, bbr3"), "{own}");
}

/// A run that is cancelled ends immediately, without a result.
#[test]
#[ignore = "real time: `make test`"]
fn cancelled_run_ends_at_once() {
    struct Once(AtomicU64);
    impl Watch for Once {
        fn progress(&self, _: f64) {}
        fn is_cancelled(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) > 3
        }
    }
    let _alone = alone();
    let text = "duration = '600s'\n[network]\nrate = '5mbit'\n[[flows]]\nscheme = 'bbr'\nrtt = '20ms'\n";
    let done = run(&plan(text), &Options::default(), || Ok(()), &Once(AtomicU64::new(0)));
    assert!(done.is_ok_and(|done| done.is_none()));
}
