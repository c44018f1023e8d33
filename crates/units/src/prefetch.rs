//! Cache prefetch.
//!
//! With thousands of flows, the endpoints of nearly every packet are outside the nearest caches, but the
//! packets in flight show which endpoints the simulator will access next. A prefetch has no visible effect
//! except timing.

/// Prefetches the first `lines` cache lines of a value.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = core::ptr::from_ref(value).cast::<i8>();
        for line in 0..lines {
            // SAFETY: a prefetch never faults on any address; `wrapping_add` keeps the arithmetic defined.
            #[allow(unsafe_code)]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(64 * line));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, lines);
}
