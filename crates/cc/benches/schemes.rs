//! Cost of one acknowledgement per registered scheme. One measurement is a million acknowledgements, so its
//! milliseconds are nanoseconds per acknowledgement. `narrows bench --schemes` measures the same with the
//! schemes in turns.
//!
//!     cargo bench -p narrows-cc --bench schemes

#[path = "../../bench/src/acks.rs"]
mod acks;

use std::hint::black_box;

use acks::ACKS;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use narrows_cc::schemes::ALL;

/// Number of connections that receive the events.
const CONNECTIONS: usize = 100;

fn schemes(criterion: &mut Criterion) {
    let events = acks::events();
    let mut group = criterion.benchmark_group("million acknowledgements");
    group.throughput(Throughput::Elements((ACKS * CONNECTIONS) as u64));
    for entry in ALL {
        group.bench_function(entry.info.name, |bencher| {
            bencher.iter(|| acks::replay(entry, CONNECTIONS, black_box(&events)));
        });
    }
    group.finish();
}

criterion_group!(benches, schemes);
criterion_main!(benches);
