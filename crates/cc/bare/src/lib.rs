//! Every scheme, built without the standard library. See `Cargo.toml` beside this folder.
#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use narrows_cc::{Bytes, Params, Random, Setup, schemes};

/// Builds every scheme and returns the sum of their first windows, in bytes, under a name that the linker keeps.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_first_windows(mss: u64, seed: u64) -> u64 {
    let windows = schemes::ALL.iter().map(|entry| {
        let setup = Setup::new(Bytes::new(mss), Params::defaults(entry.info.params), Random::stream(seed, "scheme", 0));
        entry.build(&setup).control().cwnd.as_u64()
    });
    windows.fold(0, u64::wrapping_add)
}

/// Refuses all memory: registered schemes allocate nothing.
struct NoMemory;

// SAFETY: a null pointer means failure, and nothing is ever handed out that could be freed.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _layout: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _pointer: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static MEMORY: NoMemory = NoMemory;

/// A second one, from the standard library, would be a duplicate.
#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
