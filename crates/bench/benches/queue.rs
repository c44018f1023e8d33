//! Cost of an event in the event loop, including the event queue, in cases where the queue matters: few flows, many
//! flows with one round-trip time, and many flows with different round-trip times and delay lines. One measurement
//! covers a million events, so its time in milliseconds is the time per event in nanoseconds.
//!
//!     cargo bench -p narrows-bench --bench queue

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use narrows_cc::Nanos;
use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};
use narrows_sim::Engine;

const EVENTS: u64 = 1_000_000;

fn spec(flows: u32, stagger_us: u64) -> Plan {
    let mut text = String::from("name = \"queue\"\nduration = \"10000s\"\n[network]\nrate = \"10gbit\"\n");
    let one = |rtt_us: u64, count: u32| {
        format!("[[flows]]\nscheme = \"fixed:window=20\"\nrtt = \"{rtt_us}us\"\ncount = {count}\n")
    };
    if stagger_us == 0 {
        text += &one(20_000, flows);
    } else {
        (0..u64::from(flows)).for_each(|i| text += &one(20_000 + i * stagger_us, 1));
    }
    let source = Source { name: "queue", text: &text, files: &NoFiles };
    let planned = expand(&source, &[]).unwrap_or_else(|error| panic!("{error}"));
    resolve(&planned[0].scenario, 1, &NoFiles).unwrap_or_else(|error| panic!("{error}"))
}

fn queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("million events");
    group.throughput(Throughput::Elements(EVENTS));
    for (name, flows, stagger_us) in
        [("10 flows", 10, 0), ("1000 flows, one RTT", 1_000, 0), ("1000 flows, 1000 RTTs", 1_000, 10)]
    {
        let spec = spec(flows, stagger_us);
        let begun = || {
            let mut engine = Engine::new(spec.clone());
            engine.run_until(Nanos::from_millis(200));
            engine
        };
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                begun,
                |mut engine| {
                    assert!(!engine.run_slice(spec.duration, EVENTS));
                    engine
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, queue);
criterion_main!(benches);
