//! Flows that receive rates from the simulated router in TCP options. Without root or BPF the tests print the reason
//! and pass.

use narrows_host::HostError;
use narrows_host::testing::skipped;
use narrows_scenario::result::{HostRates, RunResult};

use super::plan;
use super::real::with;
use crate::{Forgery, Options, check, shim};

/// A dumbbell of 40 Mbit/s with these flows.
fn dumbbell(seconds: u32, router: &str, flows: &[&str]) -> String {
    let flows: String = flows.iter().map(|flow| format!("[[flows]]\nrtt = '20ms'\n{flow}\n")).collect();
    format!(
        "duration = '{seconds}s'\nwarmup = '500ms'\n[network]\nrate = '40mbit'\nbuffer = '200pkt'\n{router}\n{flows}"
    )
}

/// The run and the program's counters; `None` if it cannot run here.
fn ran(text: &str, options: &Options) -> Option<(RunResult, HostRates)> {
    if shim::missing().is_some() {
        skipped("BPF");
        return None;
    }
    let result = with(text, options)?;
    let host = result.host.clone().expect("a real host");
    let rates = host.rates.expect("a flow with rates");
    eprintln!(
        "{:?} Mbit/s, queue {} ms, drops {}, {rates:?}, {:?}, load {}",
        result.flows.iter().map(|flow| flow.goodput_mbit_s).collect::<Vec<_>>(),
        result.links[0].queue_delay_mean_ms,
        result.links[0].drops,
        host.lateness,
        host.load,
    );
    assert_eq!(rates.errors, 0, "{rates:?}");
    for (scheme, flow) in host.schemes.iter().zip(&result.flows) {
        assert_eq!(*scheme, flow.scheme, "as the scenario names it");
    }
    Some((result, rates))
}

/// Two flows follow their rates, fill the link and share it equally. The counters prove that the program under test
/// ran.
#[test]
#[ignore = "real time: `make test`"]
fn rates_are_followed_and_shared_equally() {
    let text = dumbbell(5, "", &["scheme = 'brf'", "scheme = 'brf'"]);
    let Some((result, rates)) = ran(&text, &Options::default()) else { return };
    // 38.6 of 40 Mbit/s are payload. The machine may be busy.
    let [a, b] = &result.flows[..] else { panic!("two flows") };
    assert!(a.goodput_mbit_s + b.goodput_mbit_s > 0.85 * 38.6, "{result:?}");
    assert!((a.goodput_mbit_s / b.goodput_mbit_s - 1.0).abs() < 0.1, "{result:?}");
    assert_eq!((rates.offered, rates.accepted, rates.fallbacks, rates.invalid), (2, 2, 0, 0), "{rates:?}");
    // Each flow reads a rate per round trip, and receivers acknowledge every second packet.
    assert!(rates.read > 300 && rates.advised > 300 && rates.acks > 3_000, "{rates:?}");
    // Linux does not pace the first ten segments of a flow, and the queue that they build, up to 5 ms, may persist.
    // With CUBIC the queue is 50 ms.
    assert!(result.links[0].queue_delay_mean_ms < 8.0 && result.links[0].drops == 0, "{:?}", result.links[0]);
}

/// A flow of the kernel's CUBIC beside a flow with rates keeps the share of its class.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_rates_leave_cubic_its_class() {
    let text = dumbbell(6, "", &["scheme = 'brf'", "scheme = 'cubic'"]);
    let Some((result, rates)) = ran(&text, &Options::default()) else { return };
    for flow in &result.flows {
        assert!(flow.goodput_mbit_s > 0.7 * 19.3 && flow.goodput_mbit_s < 1.2 * 19.3, "{flow:?}");
    }
    assert_eq!(rates.accepted, 1, "only the one that offers");
}

/// Parameters reach the program, and flows without any router become CUBIC.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_rates_without_router_fall_back() {
    let text = dumbbell(4, "router = 'none'", &["scheme = 'brf:timeout=0.2'"]);
    let Some((result, rates)) = ran(&text, &Options::default()) else { return };
    assert!(result.flows[0].goodput_mbit_s > 0.6 * 38.6, "{:?}", result.flows[0]);
    assert!(rates.fallbacks == 1 && rates.read == 0 && rates.unlimited > 500, "{rates:?}");
}

/// A router that dies stalls no flow.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_router_death_stalls_nobody() {
    let router = "router = { kind = 'brf', dies = '2s' }";
    let text = dumbbell(6, router, &["scheme = 'brf'", "scheme = 'brf'"]);
    let Some((result, rates)) = ran(&text, &Options::default()) else { return };
    assert_eq!(rates.fallbacks, 2, "{rates:?}");
    for flow in &result.flows {
        // For the rest of the run both flows use CUBIC, which does not reach equal shares within six seconds.
        assert!(flow.goodput_mbit_s > 0.1 * 38.6, "{flow:?}");
    }
}

/// If the network removes the options, flows continue with CUBIC.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_stripped_rates_stall_nobody() {
    let text = dumbbell(4, "", &["scheme = 'brf:timeout=0.2'", "scheme = 'brf:timeout=0.2'"]);
    let options = Options { forgery: Some(Forgery::Strip), ..Options::default() };
    let Some((result, rates)) = ran(&text, &options) else { return };
    assert!(rates.read == 0 && rates.advised == 0 && rates.fallbacks == 2, "{rates:?}");
    let sum: f64 = result.flows.iter().map(|flow| flow.goodput_mbit_s).sum();
    assert!(sum > 0.6 * 38.6, "{result:?}");
}

/// Forged rates (zero, the largest ones and garbage) neither stall a flow nor flood the link, with the default line
/// rate of 100 Gbit/s: senders ignore invalid rates immediately, and rates beyond the path's capacity after a round
/// trip.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_forged_rates_neither_stall_nor_flood() {
    let text = dumbbell(4, "", &["scheme = 'brf'", "scheme = 'brf'"]);
    // The codes for 0 and 0 · 10^9, the largest codes with the exponents 5 and 8, and the bytes of two no-operation
    // options, which decode to 250 MB/s.
    forged(&text, &[0, 9, 0xffff, 65_528, 0x0101]);
    // First a rate of 1250 · 10^8 B/s, above the line rate; then this rate alternating with 2000 · 10^5 B/s, below the
    // line rate.
    forged(&text, &[12_508]);
    forged(&text, &[12_508, 20_005]);
    // With a line rate of 100 Mbit/s, all these rates are invalid.
    let rates = forged(&text.replace("'brf'", "'brf:timeout=0.2,line_rate=100'"), &[0, 9, 0x0101]);
    assert_eq!(rates.as_ref().map_or(0, |rates| rates.advised), 0, "{rates:?}");
}

/// Two flows whose rates are forged fill the link and lose at most a tenth of their packets. Returns the counters.
fn forged(text: &str, codes: &'static [u16]) -> Option<HostRates> {
    let options = Options { forgery: Some(Forgery::Codes(codes)), ..Options::default() };
    let (result, rates) = ran(text, &options)?;
    assert!(rates.invalid > 500 && rates.fallbacks >= 2, "{codes:?}: {rates:?}");
    let link = &result.links[0];
    assert!(link.drop_percent < 10.0, "{codes:?}: {link:?}");
    let sum: f64 = result.flows.iter().map(|flow| flow.goodput_mbit_s).sum();
    assert!(sum > 0.6 * 38.6, "{result:?}");
    Some(rates)
}

/// Under random loss, senders still receive rates in acknowledgements that carry SACK blocks.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_rates_arrive_beside_sack_blocks() {
    let text = dumbbell(5, "loss = '2%'", &["scheme = 'brf'"]);
    let Some((result, rates)) = ran(&text, &Options::default()) else { return };
    // Many acknowledgements leave the receiver without the option, and the network writes it in place of their last
    // SACK block.
    assert!(rates.written + 100 < rates.acks && rates.fallbacks == 0, "{rates:?}");
    assert!(rates.read > 100, "{rates:?}");
    assert!(result.flows[0].goodput_mbit_s > 0.7 * 38.6, "{:?}", result.flows[0]);
}

/// Other router algorithms and differing parameters are refused, and the error names what is accepted.
#[test]
fn rates_of_other_kinds_are_refused() {
    // A build without BPF has no scheme `brf` at all.
    let differ = shim::missing().unwrap_or("accepted on the kernel: one value");
    for (text, part) in [
        (dumbbell(1, "", &["scheme = 'xcp'"]), "router algorithm `xcp`"),
        (dumbbell(1, "router = 'rcp'", &["scheme = 'cubic'"]), "router algorithm `rcp`"),
        (dumbbell(1, "", &["scheme = 'brf'", "scheme = 'brf:timeout=2'"]), differ),
    ] {
        match check(&plan(&text), &Options::default()) {
            Err(HostError::Unsupported(message)) => assert!(message.contains(part), "{message}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}
