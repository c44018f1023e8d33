//! Programs of schemes in this machine's kernel. Without root or BPF the tests print the reason and pass.

use narrows_host::testing::{alone, skipped};
use narrows_programs::{PROGRAMS, Program, status};

use super::real::next_to_none;
use crate::{Options, shim};

/// A program in the kernel; dropping this unloads it.
struct Loaded(&'static Program);

impl Drop for Loaded {
    fn drop(&mut self) {
        let _ = self.0.unload();
    }
}

/// The verifier accepts every program, a flow over it fills the link, and its counters prove that it ran.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_loaded_programs_carry_flows() {
    if !rustix::process::geteuid().is_root() || shim::missing().is_some() {
        skipped("root and BPF");
        return;
    }
    let _alone = alone();
    if let Some(used) = PROGRAMS.iter().find(|program| program.is_registered()) {
        skipped(&format!("a kernel in which nobody uses the scheme {}", used.name));
        return;
    }
    for program in PROGRAMS {
        program.load(&[(changed(program).to_owned(), "8".to_owned())]).unwrap();
        let loaded = Loaded(program);
        // The scheme name `bbr` would select the kernel's own BBR, and a run with rates loads its own copy of the
        // program.
        if program.scheme != "bbr" && !crate::rates::is_advised(program.entry()) {
            carries_a_flow(program);
        }
        ends_when_cancelled();
        drop(loaded);
        assert!(!program.is_registered(), "`{}` is gone", program.name);
    }
}

/// A cancelled observation ends long before its time.
fn ends_when_cancelled() {
    let rows = status(3_000.0, &|| true).unwrap();
    assert!(rows[0].observed_s < 100.0, "{rows:?}");
}

/// A parameter of the program that accepts the value 8.
fn changed(program: &Program) -> &'static str {
    let has = |name: &str| program.entry().info.params.iter().any(|own| own.name == name);
    let names = ["bw_window", "extra_acked_window", "window_gain"];
    names.into_iter().find(|name| has(name)).expect("one of them")
}

fn carries_a_flow(program: &Program) {
    let text = format!(
        "duration = '3s'\n[network]\nrate = '50mbit'\nbuffer = '1bdp'\n[[flows]]\nscheme = '{}'\nrtt = '20ms'\n",
        program.scheme
    );
    let Some(result) = next_to_none(&text, &Options::default()) else { return };
    let own = status(0.0, &|| false).unwrap().into_iter().find(|own| own.name == program.name).expect("it is loaded");
    let flow = &result.flows[0];
    eprintln!("{}: {} Mbit/s, {:?} ms, {own:?}", program.name, flow.goodput_mbit_s, flow.rtt_mean_ms);
    assert_eq!(result.host.expect("a real host").schemes, [program.name]);
    assert_eq!(own.parameters, [(changed(program).to_owned(), 8.0)]);
    // The link has 50 Mbit/s, and receivers acknowledge at least every second packet. The machine may be busy.
    assert!(flow.throughput_mbit_s > 40.0 && flow.throughput_mbit_s < 50.1, "{flow:?}");
    assert!(own.opened >= 1 && own.acks > 2_000 && own.errors == 0, "{own:?}");
}
