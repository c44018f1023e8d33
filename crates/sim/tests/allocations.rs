//! After its warm-up a run allocates nothing per packet (ARCHITECTURE.md, invariants), multipath connections included,
//! and flows occupy memory only between their start and their end.

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
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system allocator with per-thread counters of allocations and allocated bytes.
struct Counting;

fn count(bytes: i64) {
    COUNT.with(|count| count.set(count.get() + 1));
    hold(bytes);
}

fn hold(bytes: i64) {
    HELD.with(|held| held.set(held.get() + bytes));
}

// SAFETY: forwards every call to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Number of allocations and of data packets delivered from 40 s to 120 s.
fn in_steady_state(text: &str) -> (u64, u64) {
    let mut engine = Engine::new(spec(text));
    engine.run_until(Nanos::from_secs(40));
    let (before, packets) = (COUNT.get(), engine.delivered_packets());
    engine.run_until(Nanos::from_secs(120));
    (COUNT.get() - before, engine.delivered_packets() - packets)
}

/// After its warm-up a run allocates nothing per packet, for any scheme, scheduler and window.
#[test]
fn warm_run_allocates_nothing_per_packet() {
    let kept = Box::new(0u8);
    assert!(COUNT.get() > 0, "the counter does not count");
    drop(kept);
    let small = "[tcp]\nreceive_window = \"96KiB\"";
    for (name, network) in [("wide", ""), ("small", small)] {
        let paths = TwoPaths { seconds: 121.0, delays: [10, 60], network: network.to_owned(), ..TwoPaths::default() };
        let mut flows = vec![single("newreno", "a", "")];
        for scheme in ["newreno", "lia", "olia", "bbr"] {
            for scheduler in ["lowest-rtt", "round-robin"] {
                flows.push(both(scheme, &format!("scheduler = \"{scheduler}\"")));
            }
        }
        for flows in flows {
            let (allocations, packets) = in_steady_state(&paths.text(&flows));
            println!("{name}: {allocations} for {packets} packets\n{flows}");
            // Ring buffers may occasionally double in size.
            assert!(packets > 50_000 && allocations <= 10, "{allocations} for {packets} packets: {flows}");
        }
    }
}

/// Before they start and after they end, short flows occupy little memory: only routes, measurements and counters.
#[test]
fn short_flows_hold_memory_while_they_last() {
    const FLOWS: i64 = 4000;
    let text = format!(
        "duration = \"10s\"\n[network]\nrate = \"1gbit\"\nbuffer = \"1bdp\"\n[[flows]]\nscheme = \"cubic\"\n\
         rtt = \"20ms\"\ncount = {FLOWS}\nstagger = \"2ms\"\nsize = \"50kB\"\n"
    );
    let plan = spec(&text);
    let before = HELD.get();
    let mut engine = Engine::new(plan);
    let built = HELD.get() - before;
    let (mut most, mut at) = (0, Nanos::ZERO);
    while at < Nanos::from_secs(10) {
        at += Nanos::from_millis(100);
        engine.run_until(at);
        most = most.max(HELD.get() - before);
    }
    let ended = HELD.get() - before;
    println!("bytes per flow: {} built, {} at most, {} at the end", built / FLOWS, most / FLOWS, ended / FLOWS);
    let open = size_of::<narrows_tcp::Sender>() + size_of::<narrows_tcp::Receiver>();
    assert!(built / FLOWS < open as i64 / 4, "{built} bytes before any flow has started");
    // About a hundred flows are open at any time. An ended flow keeps its counters and its histogram of RTTs.
    assert!((most - built) / FLOWS < open as i64 / 4, "{most} bytes at most");
    assert!(ended <= most && engine.delivered_packets() as i64 >= FLOWS * 50_000 / 1448);
}
