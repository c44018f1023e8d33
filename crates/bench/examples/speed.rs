//! CPU seconds of the event loop for each benchmark case: `cargo run --release -p narrows-bench --example
//! speed [CASE]`. CPU time, unlike the wall time of `narrows bench`, remains comparable on a busy machine.

use narrows_bench::cases::CASES;
use narrows_sim::Engine;

/// The allocator of the extension module.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// CPU time of this thread in seconds (Linux).
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let only = std::env::args().nth(1);
    for case in CASES.iter().filter(|case| only.as_deref().is_none_or(|name| name == case.name)) {
        let plan = case.plan().unwrap_or_else(|error| panic!("{error}"));
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let mut engine = Engine::new(plan.clone());
            let start = cpu_s();
            engine.run_until(plan.duration);
            best = best.min(cpu_s() - start);
            let packets = engine.delivered_packets();
            let result = engine.finish();
            println!(
                "{:<12} {packets:>9} packets {:>9} events {best:>6.3} s {:>5.2} M packets/s  hash {}  {} B per flow",
                case.name,
                result.events,
                packets as f64 / best / 1e6,
                result.event_hash(),
                result.peak_flow_bytes.unwrap_or_default()
            );
        }
    }
}
