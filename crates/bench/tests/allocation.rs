//! Nothing is allocated per packet once a connection has all the memory that it needs.
//!
//! One test in a process of its own: the counter sees every thread.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use narrows_bench::pair::{self, Pair};
use narrows_cc::schemes::find;

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: all is handed to the system's allocator, which keeps the contract; counting touches no memory that it gives.
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

/// Datagrams until windows, queues and histories have had their sizes, and those that are measured.
const SETTLE: u64 = 300_000;
const MEASURED: u64 = 300_000;
/// A ring that has been large enough so far may still have to double.
const DOUBLINGS: u64 = 4;

#[test]
fn nothing_is_allocated_per_packet() {
    assert_eq!(count(|| drop(std::hint::black_box(vec![0_u8; 1]))), 1, "the counter counts");
    // And one that is not made for datagrams.
    for entry in pair::schemes().chain(find("cubic")) {
        let name = entry.info.name;
        let mut pair = Pair::new(entry);
        assert!(pair.run(SETTLE), "{name}: stuck at {:?}", pair.now());
        let (drops, sent) = (pair.dropped(), pair.client().stats().packets_sent);
        let allocated = count(|| assert!(pair.run(MEASURED), "{name}: stuck at {:?}", pair.now()));
        assert!(pair.client().stats().packets_sent - sent >= MEASURED, "{name}");
        assert!(pair.dropped() > drops, "{name}: losses are part of it");
        assert!(allocated <= DOUBLINGS, "{name}: {allocated} allocations for {MEASURED} datagrams");
    }
}
