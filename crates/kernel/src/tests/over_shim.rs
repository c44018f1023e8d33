//! Schemes of ours on this machine's kernel. Without root or BPF the tests print the reason and pass.

use std::path::PathBuf;

use narrows_cc::{Nanos, schemes};
use narrows_host::HostError;
use narrows_host::testing::skipped;
use narrows_scenario::result::RunResult;

use super::plan;
use super::real::with;
use crate::shim::{self, Tape};
use crate::{Options, check};

/// Whether the shim can run. If not, prints the reason.
fn has_bpf() -> bool {
    let missing = shim::missing();
    if let Some(missing) = missing {
        skipped(&format!("BPF: {missing}"));
    }
    missing.is_none()
}

/// A run over the shim; `None` without root or BPF.
fn over_shim(text: &str, options: Options) -> Option<RunResult> {
    if has_bpf() { with(text, &Options { shim: true, ..options }) } else { None }
}

fn scenario(scheme: &str) -> String {
    format!(
        "duration = '3s'\n[network]\nrate = '50mbit'\nbuffer = '1bdp'\n[[flows]]\nscheme = '{scheme}'\nrtt = '20ms'\n"
    )
}

/// Our schemes fill a link through the kernel's TCP, and the counters prove that they ran.
#[test]
#[ignore = "real time: `make test`"]
fn schemes_of_ours_fill_the_link() {
    for scheme in ["cubic", "bbr"] {
        let Some(result) = over_shim(&scenario(scheme), Options::default()) else { return };
        let flow = &result.flows[0];
        let host = result.host.expect("a real host");
        let shim = host.shim.expect("the shim ran");
        eprintln!("{scheme}: {} Mbit/s, {:?} ms, {shim:?}", flow.goodput_mbit_s, flow.rtt_mean_ms);
        // The link has 50 Mbit/s. The machine may be busy.
        assert!(flow.throughput_mbit_s > 40.0 && flow.throughput_mbit_s < 50.1, "{flow:?}");
        assert_eq!(host.schemes, [format!("narrows:{scheme}")]);
        // Receivers acknowledge at least every second packet.
        assert!(shim.decisions > 2_000, "{shim:?}");
        assert_eq!((shim.fallbacks, shim.drops), (0, 0), "{shim:?}");
        assert!(shim.decision_delay_mean_us > 0.0 && shim.batch_max > 0, "{shim:?}");
    }
}

/// A scheme that neither the kernel nor a program of ours offers runs over the shim even without `--on shim`, under its
/// own name.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_schemes_that_the_kernel_lacks_run() {
    let text = scenario("da-bbr"); // no program of ours has its name
    let Some(result) = with(&text, &Options::default()) else { return };
    let shim = result.host.and_then(|host| host.shim).expect("the shim ran");
    assert_eq!(shim.flows[0].scheme, "da-bbr");
    assert!(shim.flows[0].decisions > 1_000, "{shim:?}");
}

/// Every scheme of the registry runs, except schemes of DCCP, schemes of explicit-rate networks, and schemes that need
/// every mark.
#[test]
#[ignore = "real time: `make test`"]
fn every_stream_scheme_runs() {
    if !has_bpf() {
        return;
    }
    let mut text = "duration = '3s'\n[network]\nrate = '100mbit'\nbuffer = '1bdp'\n".to_owned();
    let mut names = Vec::new();
    for entry in schemes::ALL {
        let name = entry.info.name;
        let flow = format!("[[flows]]\nscheme = '{name}'\nrtt = '20ms'\n");
        let alone = format!("duration = '3s'\n[network]\nrate = '100mbit'\n{flow}");
        match check(&plan(&alone), &Options { shim: true, ..Options::default() }) {
            Ok(()) => {
                names.push(name);
                text.push_str(&flow);
            }
            Err(HostError::Unavailable(_)) => {
                skipped("root, network namespaces and BPF");
                return;
            }
            Err(error) => {
                let reason = error.to_string();
                let known = ["DCCP", "needs every mark", "tcp.ect1", "router algorithm"]
                    .iter()
                    .any(|part| reason.contains(part));
                assert!(known, "{name}: {reason}");
            }
        }
    }
    assert!(names.len() > 25, "{names:?}");
    let Some(result) = over_shim(&text, Options::default()) else { return };
    let shim = result.host.and_then(|host| host.shim).expect("the shim ran");
    assert_eq!(shim.flows.iter().map(|own| own.scheme).collect::<Vec<_>>(), names);
    for (own, flow) in shim.flows.iter().zip(&result.flows) {
        assert!(own.decisions > 20 && own.fallbacks == 0, "{own:?} {flow:?}");
        assert!(flow.bytes_delivered > 30_000, "{flow:?}");
    }
}

/// A flow whose agent dies continues like Reno.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_flows_survive_their_agent() {
    for scheme in ["cubic", "bbr"] {
        let options = Options { agent_until: Some(Nanos::from_millis(1_000)), ..Options::default() };
        let Some(result) = over_shim(&scenario(scheme), options) else { return };
        let shim = result.host.and_then(|host| host.shim).expect("the shim ran");
        eprintln!("{scheme}: {} Mbit/s, {shim:?}", result.flows[0].goodput_mbit_s);
        assert!(shim.fallbacks > 100, "{shim:?}");
        assert!(result.flows[0].throughput_mbit_s > 30.0, "{:?}", result.flows[0]);
    }
}

/// A tape of this kernel replays to the same decisions. With NARROWS_TAPE=FILE, the tape stays as data for other tests.
#[test]
#[ignore = "real time: `make test`"]
fn tapes_of_this_kernel_replay() {
    let kept = std::env::var_os("NARROWS_TAPE").map(PathBuf::from);
    let path =
        kept.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("narrows-{}.tape", std::process::id())));
    let text = "duration = '2s'\n[network]\nrate = '10mbit'\nbuffer = '0.5bdp'\nloss = '0.2%'\n\
                [[flows]]\nscheme = 'cubic'\nrtt = '40ms'\n[[flows]]\nscheme = 'bbr'\nrtt = '40ms'\n";
    let options = Options { tape: Some(path.clone()), ..Options::default() };
    if over_shim(text, options).is_none() {
        return;
    }
    let bytes = std::fs::read(&path).expect("the tape was written");
    if kept.is_none() {
        std::fs::remove_file(&path).expect("it is ours");
    }
    eprintln!("{} bytes", bytes.len());
    let tape = Tape::read(&bytes).expect("a tape");
    assert!(tape.entries.len() > 500);
    tape.replay().expect("equal decisions");
}

/// After idle time the decision comes before data leaves: the old cwnd is not sent as one burst.
#[test]
#[ignore = "real time: `make test`"]
fn restart_after_idle_loses_nothing() {
    let app = "app = { kind = 'on-off', on = '500ms', off = '800ms' }";
    let text = format!(
        "duration = '4s'\n[network]\nrate = '20mbit'\nbuffer = '1bdp'\n\
         [[flows]]\nscheme = 'cubic'\nrtt = '20ms'\n{app}\n"
    );
    let Some(result) = over_shim(&text, Options::default()) else { return };
    let flow = &result.flows[0];
    // The result excludes the warm-up. Slow start loses some packets; a cwnd sent as one burst would lose 1 % of the
    // packets.
    assert!(flow.retransmit_percent < 0.5, "{flow:?}");
    assert!(flow.bytes_delivered > 3_000_000, "{flow:?}");
}

/// Prints the kernel's own schemes beside ours over the shim. Run it alone on a quiet machine: `cargo test --release -p
/// narrows-kernel --features bpf cells -- --ignored --nocapture`; NARROWS_CELLS="100 40 1,…" selects other
/// configurations (Mbit/s, ms, BDP, % of loss).
#[test]
#[ignore = "minutes; prints, judges nothing"]
fn print_cells_side_by_side() {
    let cells = std::env::var("NARROWS_CELLS").unwrap_or_else(|_| "100 40 1 0,20 20 2 0".to_owned());
    for cell in cells.split(',') {
        let [rate, rtt, buffer, loss] = cell.split(' ').collect::<Vec<_>>()[..] else { panic!("{cell}") };
        for scheme in ["cubic", "bbr"] {
            let text = format!(
                "duration = '10s'\n[network]\nrate = '{rate}mbit'\nbuffer = '{buffer}bdp'\nloss = '{loss}%'\n\
                 [[flows]]\nscheme = '{scheme}'\nrtt = '{rtt}ms'\n"
            );
            for shim in [false, true] {
                let Some(result) = with(&text, &Options { shim, ..Options::default() }) else { return };
                let flow = &result.flows[0];
                let host = result.host.expect("a real host");
                let delay = host.shim.map(|own| (own.decision_delay_mean_us, own.decision_delay_p99_us));
                eprintln!(
                    "{cell}: {:<14} {:>6.2} Mbit/s, RTT mean {:.2} p95 {:.2} ms, {:.3} % retransmitted, \
                     decisions late by {delay:.0?} us, {} attempts, load {}",
                    host.schemes[0],
                    flow.goodput_mbit_s,
                    flow.rtt_mean_ms.unwrap_or(0.0),
                    flow.rtt_p95_ms.unwrap_or(0.0),
                    flow.retransmit_percent,
                    host.attempts,
                    host.load,
                );
            }
        }
    }
}
