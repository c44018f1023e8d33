//! Scenarios that are sound: defaults, arithmetic, sweeps, names of runs.

use narrows_cc::{Bytes, Nanos, Rate};
use narrows_net::config::{Capacity, Limit, Loss, Queue};
use narrows_sim::scenario::{Planned, Source, plan, resolve};
use narrows_sim::spec::{Hop, Spec};

fn planned(text: &str, overrides: &[(&str, &str)]) -> Vec<Planned> {
    let overrides: Vec<_> = overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    match plan(&Source { name: "test.toml", text, dir: None }, &overrides) {
        Ok(planned) => planned,
        Err(error) => panic!("{error}"),
    }
}

fn spec_with(text: &str, overrides: &[(&str, &str)]) -> Spec {
    let runs = planned(text, overrides);
    assert_eq!(runs.len(), 1);
    resolve(&runs[0].scenario, runs[0].seed, None).unwrap()
}

fn spec(text: &str) -> Spec {
    spec_with(text, &[])
}

const PLAIN: &str = r#"
[network]
rate = "100mbit"
[[flows]]
scheme = "newreno"
rtt = "40ms"
"#;

#[test]
fn defaults_are_those_of_the_field() {
    let spec = spec(PLAIN);
    assert_eq!(spec.name, "test");
    assert_eq!((spec.duration, spec.warmup, spec.seed), (Nanos::from_secs(60), Nanos::from_secs(6), 1));
    assert_eq!(spec.links.len(), 2);
    let bottleneck = &spec.links[0];
    assert_eq!((bottleneck.name.as_str(), bottleneck.reported), ("bottleneck", true));
    // 100 Mbit/s × 40 ms = 500 000 B.
    assert_eq!(bottleneck.config.limit, Limit::Bytes(Bytes::new(500_000)));
    assert_eq!(bottleneck.config.queue, Queue::DropTail);
    assert_eq!(bottleneck.config.loss, Loss::None);
    assert!(matches!(bottleneck.config.capacity, Capacity::Constant(rate) if rate == Rate::from_mbit_per_sec(100.0)));
    assert_eq!((spec.links[1].name.as_str(), spec.links[1].reported), ("reverse", false));
    let flow = &spec.flows[0];
    assert_eq!((flow.label.as_str(), flow.scheme.info.name), ("newreno", "newreno"));
    assert_eq!(flow.tcp, narrows_endpoint::TcpConfig::default());
    assert_eq!(flow.app, narrows_endpoint::AppConfig::Bulk);
    assert_eq!((flow.start, flow.stop, flow.base_rtt), (Nanos::ZERO, None, Nanos::from_millis(40)));
    assert_eq!(flow.forward, [Hop { link: 0, delay: Nanos::from_millis(20) }]);
    assert_eq!(flow.reverse, [Hop { link: 1, delay: Nanos::from_millis(20) }]);
    assert_eq!(spec.trace, Default::default());
}
