//! Connections allocate nothing per packet once their buffers have grown.
//!
//! This is the only test of its process, because the counter covers every thread.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use narrows_bench::pair::{self, Pair};
use narrows_cc::schemes::find;

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is forwarded to the system allocator, which keeps the contract; counting touches no
// allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(work: impl FnOnce()) -> u64 {
    let before = COUNT.load(Ordering::Relaxed);
    work();
    COUNT.load(Ordering::Relaxed) - before
}

/// Number of datagrams until windows, queues and histories have grown; `MEASURED` datagrams follow.
const SETTLE: u64 = 300_000;
const MEASURED: u64 = 300_000;
/// Accepted allocations, for ring buffers that may still double.
const DOUBLINGS: u64 = 4;

/// A connection allocates nothing per packet once its buffers have grown.
#[test]
fn connection_steady_state_allocates_nothing() {
    assert_eq!(count(|| drop(std::hint::black_box(vec![0_u8; 1]))), 1, "the counter does not count");
    // Also test a TCP scheme.
    for entry in pair::schemes().chain(find("cubic")) {
        let name = entry.info.name;
        let mut pair = Pair::new(entry);
        assert!(pair.run(SETTLE), "{name}: stuck at {:?}", pair.now());
        let (drops, sent) = (pair.dropped(), pair.client().stats().packets_sent);
        let allocated = count(|| assert!(pair.run(MEASURED), "{name}: stuck at {:?}", pair.now()));
        assert!(pair.client().stats().packets_sent - sent >= MEASURED, "{name}");
        assert!(pair.dropped() > drops, "{name}: no losses");
        assert!(allocated <= DOUBLINGS, "{name}: {allocated} allocations for {MEASURED} datagrams");
    }
}
