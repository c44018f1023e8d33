//! Runs on this machine's kernel. Without root the tests print the reason and pass.

use narrows_host::HostError;
use narrows_host::testing::{Calm, alone, skipped};
use narrows_scenario::result::RunResult;

use super::plan;
use crate::{Options, check, run, shim};

/// The run on the kernel; `None` without root, or if this machine was too busy.
fn on_kernel(text: &str) -> Option<RunResult> {
    with(text, &Options::default())
}

/// As [`on_kernel`], but with these options.
pub(super) fn with(text: &str, options: &Options) -> Option<RunResult> {
    let _alone = alone();
    next_to_none(text, options)
}

/// As [`with`], for a caller that already keeps other runs out.
pub(super) fn next_to_none(text: &str, options: &Options) -> Option<RunResult> {
    let calm = Calm::begin();
    match run(&plan(text), options, || Ok(()), &()) {
        Ok(done) => {
            let result = done.expect("not cancelled").0;
            let host = result.host.as_ref().expect("a real host");
            calm.judges(host.disturbed, &host.lateness).then_some(result)
        }
        Err(HostError::Unavailable(lacks)) => {
            skipped(&format!("root and network namespaces: {lacks}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The kernel fills the link, and the result names the backend.
#[test]
#[ignore = "real time: `make test`"]
fn kernel_fills_the_link() {
    let text = "duration = '3s'\n[network]\nrate = '50mbit'\nbuffer = '1bdp'\n\
                [[flows]]\nscheme = 'cubic'\nrtt = '20ms'\n";
    let Some(result) = on_kernel(text) else { return };
    let flow = &result.flows[0];
    // 1448 of 1500 bytes are payload. The machine may be busy.
    assert!(flow.goodput_mbit_s > 0.8 * 48.27 && flow.goodput_mbit_s < 48.3, "{flow:?}");
    let host = result.host.expect("a real host");
    assert_eq!((host.on, host.schemes), ("kernel", vec!["cubic".to_owned()]));
    assert!(result.counters.is_none() && result.event_hash.is_none());
}

/// A flow that leaves the queue empty has the RTT of the path, 20 ms, plus the transmission time of a packet, 0.12 ms.
/// The flow's minimum RTT is within 0.2 ms of this sum, also on a busy machine.
#[test]
#[ignore = "real time: `make test`"]
fn light_flows_have_the_rtt_of_the_path() {
    let text = "duration = '2s'\n[network]\nrate = '100mbit'\nbuffer = '1bdp'\n\
                [[flows]]\nscheme = 'cubic'\nrtt = '20ms'\napp = { kind = 'cbr', rate = '5mbit' }\n";
    let Some(result) = on_kernel(text) else { return };
    let flow = &result.flows[0];
    assert!(flow.rtt_min_ms.is_some_and(|rtt| (20.12..20.32).contains(&rtt)), "{flow:?}");
}

/// A file completes with all its bytes, and a stopped flow stops sending.
#[test]
#[ignore = "real time: `make test`"]
fn files_end_and_stopped_flows_stop() {
    let text = "duration = '3s'\n[network]\nrate = '20mbit'\nbuffer = '1bdp'\n\
                [[flows]]\nscheme = 'cubic'\nrtt = '10ms'\nsize = '1MB'\n\
                [[flows]]\nscheme = 'reno'\nrtt = '10ms'\nstart = '1.5s'\nstop = '2s'\n";
    let Some(result) = on_kernel(text) else { return };
    assert_eq!(result.flows[0].bytes_delivered, 1_000_000);
    let took = result.flows[0].completion_s.expect("completed");
    assert!((0.4..1.4).contains(&took), "{took} s at 20 Mbit/s");
    assert!(result.flows[1].bytes_delivered > 200_000, "{:?}", result.flows[1]);
    assert!(result.flows[1].bytes_delivered < 3_000_000, "{:?}", result.flows[1]);
}

/// A file that ends within slow start does not fill the link: the acknowledgement of its FIN leaves nothing in flight.
#[test]
#[ignore = "real time: `make test`"]
fn short_files_leave_nothing_in_flight() {
    let text = "duration = '1s'\n[network]\nrate = '100mbit'\nbuffer = '1bdp'\n\
                [[flows]]\nscheme = 'cubic'\nrtt = '40ms'\nsize = '10kB'\n";
    let Some(result) = on_kernel(text) else { return };
    let flow = &result.flows[0];
    assert_eq!((flow.bytes_delivered, flow.fill_time_ms), (10_000, None), "{flow:?}");
}

/// Scenarios that the kernel cannot run are refused before anything is created, with the accepted values.
#[test]
fn impossible_scenarios_are_refused() {
    let flow = |keys: &str, tcp: &str| {
        format!("duration = '1s'\n[network]\nrate = '10mbit'\n{tcp}\n[[flows]]\nrtt = '10ms'\n{keys}\n")
    };
    let lacks = shim::missing().map_or_else(String::new, |missing| format!("no scheme `bbr-gc`, and {missing}"));
    for (text, part) in [
        (flow("scheme = 'bbr-gc'", ""), lacks.as_str()),
        (flow("scheme = 'bbr:cwnd_gain=3'", ""), "has no parameters"),
        (flow("scheme = 'ccid2'", ""), "DCCP"),
        (flow("scheme = 'cubic'", "[tcp]\nprofile = 'rfc'"), "tcp.quick_acks"),
        (flow("scheme = 'cubic'", "[tcp]\nack_every = 4"), "tcp.ack_every"),
        (flow("scheme = 'cubic'\ntcp = { sack = false }", "[tcp]"), ""),
    ] {
        let refused = check(&plan(&text), &Options::default());
        match refused {
            Err(HostError::Unsupported(message)) => assert!(message.contains(part), "{message}"),
            Ok(()) | Err(HostError::Unavailable(_)) if part.is_empty() => {}
            other => panic!("{text}: {other:?}"),
        }
    }
}
