//! Names of schemes in the kernel, which are global.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a scheme's name in the kernel, the terminator included.
pub const NAME: usize = 16;

/// Number of names that this process has made.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A name that no other run uses: names in the kernel are global and shorter than 16 bytes.
pub fn unique() -> String {
    let digits = |mut number: u32| {
        let mut text = Vec::new();
        loop {
            text.push(char::from_digit(number % 36, 36).unwrap_or('0'));
            number /= 36;
            if number == 0 {
                return text.into_iter().rev().collect::<String>();
            }
        }
    };
    let count = COUNT.fetch_add(1, Ordering::Relaxed) % 36u32.pow(2);
    // The process number has at most five digits: Linux has at most 2^22 processes.
    format!("narrows{}{:0>2}", digits(std::process::id()), digits(count))
}

/// Replaces the name of a scheme in its `struct tcp_congestion_ops` by another name.
pub fn rename(ops: &mut [u8], from: &str, to: &str) {
    let is_name =
        |bytes: &[u8]| bytes.starts_with(from.as_bytes()) && bytes[from.len()..].iter().all(|byte| *byte == 0);
    if let Some(at) = ops.windows(NAME).position(is_name) {
        let name = &mut ops[at..at + NAME];
        name.fill(0);
        name[..to.len()].copy_from_slice(to.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names differ within a process and fit the kernel's limit.
    #[test]
    fn names_are_unique_and_short() {
        let names: Vec<String> = (0..100).map(|_| unique()).collect();
        assert!(names.iter().all(|name| name.len() < NAME), "{names:?}");
        assert!((1..100).all(|i| names[i] != names[i - 1]), "{names:?}");
    }
}
