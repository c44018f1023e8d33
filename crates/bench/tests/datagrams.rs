//! Each way to measure datagrams.

use std::time::Duration;

use narrows_bench::{datagrams, pair};

#[test]
fn all_that_is_measured_moves_datagrams() {
    let short = Duration::from_millis(20);
    for entry in pair::schemes() {
        assert!(datagrams::memory(entry, short).expect("it does not stop").datagrams > 0);
        let found = datagrams::loopback(entry, short).expect("it connects");
        assert!(found.datagrams > 0 && found.wall_s > 0.0, "{}: {found:?}", entry.info.name);
    }
    for batched in [false, true] {
        assert!(datagrams::udp(batched, short).expect("it connects").datagrams > 0);
    }
}
