//! The cases of the datagram benchmark.

use std::time::Duration;

use narrows_bench::{datagrams, pair};

/// Every case transfers datagrams: in memory, over loopback and plain UDP.
#[test]
fn bench_datagrams_every_case_moves_datagrams() {
    let short = Duration::from_millis(20);
    for entry in pair::schemes() {
        assert!(datagrams::memory(entry, short).expect("no stall").datagrams > 0);
        let found = datagrams::loopback(entry, short).expect("a connection");
        assert!(found.datagrams > 0 && found.wall_s > 0.0, "{}: {found:?}", entry.info.name);
    }
    for batched in [false, true] {
        assert!(datagrams::udp(batched, short).expect("a connection").datagrams > 0);
    }
}
