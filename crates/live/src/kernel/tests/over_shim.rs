//! Schemes of ours on this machine's kernel. Without root or BPF the tests say so and pass.

use narrows_cc::Nanos;
use narrows_scenario::result::RunResult;

use super::super::Options;
use super::real::with;

/// A run over the shim; `None` without root.
fn over_shim(text: &str, options: Options) -> Option<RunResult> {
    let result = with(text, &Options { shim: true, ..options });
    if result.is_none() {
        eprintln!("skipped: needs root and BPF");
    }
    result
}

fn scenario(scheme: &str) -> String {
    format!(
        "duration = '3s'\n[network]\nrate = '50mbit'\nbuffer = '1bdp'\n[[flows]]\nscheme = '{scheme}'\nrtt = '20ms'\n"
    )
}

/// Our schemes fill a link through the kernel's TCP, and the counters prove that they ran.
#[test]
fn schemes_of_ours_fill_the_link() {
    for scheme in ["cubic", "bbr"] {
        let Some(result) = over_shim(&scenario(scheme), Options::default()) else { return };
        let flow = &result.flows[0];
        let host = result.host.expect("a real host");
        let shim = host.shim.expect("the shim ran");
        eprintln!("{scheme}: {} Mbit/s, {:?} ms, {shim:?}", flow.goodput_mbit_s, flow.rtt_mean_ms);
        assert!(flow.goodput_mbit_s > 0.8 * 48.27 && flow.goodput_mbit_s < 48.3, "{flow:?}");
        assert_eq!(host.schemes, [format!("narrows:{scheme}")]);
        // At least every second packet is acknowledged.
        assert!(shim.decisions > 2_000, "{shim:?}");
        assert_eq!((shim.fallbacks, shim.drops), (0, 0), "{shim:?}");
        assert!(shim.decision_delay_mean_us > 0.0 && shim.batch_max > 0, "{shim:?}");
    }
}

/// A scheme that the kernel lacks needs no request, and its own name decides.
#[test]
fn schemes_that_the_kernel_lacks_run() {
    let text = scenario("bbr-gc");
    let Some(result) = with(&text, &Options::default()) else { return };
    let shim = result.host.and_then(|host| host.shim).expect("the shim ran");
    assert_eq!(shim.flows[0].scheme, "bbr-gc");
    assert!(shim.flows[0].decisions > 1_000, "{shim:?}");
}

/// A flow whose agent dies goes on as Reno would.
#[test]
fn flows_survive_their_agent() {
    for scheme in ["cubic", "bbr"] {
        let options = Options { agent_until: Some(Nanos::from_millis(1_000)), ..Options::default() };
        let Some(result) = over_shim(&scenario(scheme), options) else { return };
        let shim = result.host.and_then(|host| host.shim).expect("the shim ran");
        eprintln!("{scheme}: {} Mbit/s, {shim:?}", result.flows[0].goodput_mbit_s);
        assert!(shim.fallbacks > 100, "{shim:?}");
        assert!(result.flows[0].goodput_mbit_s > 0.6 * 48.27, "{:?}", result.flows[0]);
    }
}
