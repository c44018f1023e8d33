//! A warm run allocates nothing per packet (ARCHITECTURE.md, the event loop), multipath connections included.

#![allow(unsafe_code)] // a counting allocator cannot be written without

mod law;
mod multipath;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use law::spec;
use multipath::{TwoPaths, both, single};
use narrows_cc::Nanos;
use narrows_sim::Engine;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system allocator with a counter per thread.
struct Counting;

fn count() {
    COUNT.with(|count| count.set(count.get() + 1));
}

// SAFETY: forwards every call to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and data packets delivered from 40 s to 120 s.
fn in_steady_state(text: &str) -> (u64, u64) {
    let mut engine = Engine::new(spec(text));
    engine.run_until(Nanos::from_secs(40));
    let (before, packets) = (COUNT.get(), engine.delivered_packets());
    engine.run_until(Nanos::from_secs(120));
    (COUNT.get() - before, engine.delivered_packets() - packets)
}

/// A warm run allocates nothing per packet, for any scheme, scheduler and window.
#[test]
fn warm_run_allocates_nothing_per_packet() {
    let kept = Box::new(0u8);
    assert!(COUNT.get() > 0, "the counter does not count");
    drop(kept);
    let small = "[tcp]\nreceive_window = \"96KiB\"";
    for (name, network) in [("wide", ""), ("small", small)] {
        let paths =
            TwoPaths { seconds: 121.0, delays: [10, 60], network: network.to_owned(), ..TwoPaths::default() };
        let mut flows = vec![single("newreno", "a", "")];
        for scheme in ["newreno", "lia", "olia", "bbr"] {
            for scheduler in ["lowest-rtt", "round-robin"] {
                flows.push(both(scheme, &format!("scheduler = \"{scheduler}\"")));
            }
        }
        for flows in flows {
            let (allocations, packets) = in_steady_state(&paths.text(&flows));
            println!("{name}: {allocations} for {packets} packets\n{flows}");
            // Rings may double now and then.
            assert!(packets > 50_000 && allocations <= 10, "{allocations} for {packets} packets: {flows}");
        }
    }
}
