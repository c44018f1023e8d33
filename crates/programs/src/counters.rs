//! Counters of programs, kept per processor.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use narrows_host::HostError;

use crate::libbpf::failed;

/// The beginning of `struct counters` in `bpf/counted.h`, summed over processors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) opened: u64,
    closed: u64,
    pub(crate) acks: u64,
    pub(crate) timeouts: u64,
    pub(crate) errors: u64,
}

impl Counters {
    /// Connections that use the program now.
    pub(crate) fn sockets(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}

/// Reads the counters of a program.
pub(crate) fn counters(map: &MapHandle) -> Result<Counters, HostError> {
    let [opened, closed, acks, timeouts, errors] = sums(map)?;
    Ok(Counters { opened, closed, acks, timeouts, errors })
}

/// The first `N` numbers of a map's only entry, summed over processors; zero for numbers that the entry lacks.
pub fn sums<const N: usize>(map: &impl MapCore) -> Result<[u64; N], HostError> {
    let values = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
    let values = values.map_err(|error| failed("read the counters", &error))?.unwrap_or_default();
    let mut sum = [0u64; N];
    for bytes in &values {
        for (total, own) in sum.iter_mut().zip(bytes.chunks_exact(8)) {
            *total += own.try_into().map_or(0, u64::from_ne_bytes);
        }
    }
    Ok(sum)
}
