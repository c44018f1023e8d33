//! Asking the processor for memory before it is needed.
//!
//! With thousands of flows nearly every packet meets endpoints that are in no near cache, but which ones come next is known:
//! they stand in the wire. A prefetch changes nothing that a program can see, only when the memory arrives.

/// Asks for the first `lines` cache lines of a value.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = core::ptr::from_ref(value).cast::<i8>();
        for line in 0..lines {
            // SAFETY: a prefetch never faults, whatever the address; `wrapping_add` keeps the arithmetic defined.
            #[allow(unsafe_code)]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(64 * line));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, lines);
}
