//! Loads the BPF program and registers it as a scheme of the kernel.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject};

use super::super::{KernelError, libbpf};
use super::record::Decision;

/// `bpf/shim.bpf.c`, compiled.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim.bpf.o"));
/// Bytes of a scheme's name in the kernel, the terminator included.
const NAME: usize = 16;
/// The kernel counts these per flow: calls, decisions applied, fallbacks, records dropped.
const COUNTERS: usize = 4;

/// Programs loaded by this process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The program in the kernel; dropping it removes it.
#[derive(Debug)]
pub(super) struct Program {
    /// First: it must go before the maps.
    _link: Link,
    object: Object,
}

/// What the kernel counted for one flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) calls: u64,
    pub(super) decisions: u64,
    pub(super) fallbacks: u64,
    pub(super) drops: u64,
}

/// A name that no other run has: those of the kernel are global and shorter than 16 bytes.
pub(crate) fn unique() -> String {
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
    // At most five digits: Linux has at most 2^22 processes.
    format!("narrows{}{:0>2}", digits(std::process::id()), digits(count))
}

/// Replaces the name of a scheme in its `struct tcp_congestion_ops` by another one.
pub(crate) fn rename(ops: &mut [u8], from: &str, to: &str) {
    let held =
        |own: &[u8]| own.starts_with(from.as_bytes()) && own[from.len()..].iter().all(|byte| *byte == 0);
    let place = ops.windows(NAME).position(held);
    if let Some(own) = place.and_then(|at| ops.get_mut(at..at + NAME)) {
        own.fill(0);
        own[..to.len()].copy_from_slice(to.as_bytes());
    }
}

impl Program {
    /// Loads the program for this many flows, and registers it. Returns its name too.
    pub(super) fn load(flows: usize) -> Result<(Self, String), KernelError> {
        let name = unique();
        let program = libbpf::loading("the BPF shim", || Self::attach(flows as u32, &name))?;
        Ok((program, name))
    }

    fn attach(flows: u32, name: &str) -> libbpf_rs::Result<Self> {
        // Aligned as ELF wants it.
        let bytes = OBJECT.to_vec();
        let mut open: OpenObject = ObjectBuilder::default().name("narrows")?.open_memory(&bytes)?;
        for mut map in open.maps_mut() {
            if [OsStr::new("decisions"), OsStr::new("counters")].contains(&map.name()) {
                map.set_max_entries(flows)?;
            } else if let Some(ops) = map.initial_value_mut() {
                rename(ops, "narrows", name);
            }
        }
        let mut object = open.load()?;
        let narrows = object.maps_mut().find(|map| map.name() == OsStr::new("narrows"));
        let link = match narrows {
            Some(mut map) => map.attach_struct_ops()?,
            None => return Err(std::io::Error::other("the program has no scheme").into()),
        };
        Ok(Self { _link: link, object })
    }

    /// A map of the program.
    pub(super) fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, KernelError> {
        let found = self.object.maps().find(|map| map.name() == OsStr::new(name));
        let missing = || KernelError::Unsupported(format!("the BPF shim of this build has no map `{name}`"));
        found.ok_or_else(missing)
    }
}

/// Writes the first decision of a flow, and zero counters.
pub(super) fn admit(program: &Program, port: u16, decision: &Decision) -> Result<(), KernelError> {
    decide(&program.map("decisions")?, port, decision)?;
    let zeros = [0; COUNTERS * 8];
    let counters = program.map("counters")?;
    counters.update(&key(port), &zeros, MapFlags::ANY).map_err(|error| failed("write a BPF map", &error))
}

/// Writes a decision.
pub(super) fn decide(map: &libbpf_rs::Map<'_>, port: u16, decision: &Decision) -> Result<(), KernelError> {
    map.update(&key(port), &decision.bytes(), MapFlags::ANY)
        .map_err(|error| failed("write a BPF map", &error))
}

/// Reads the counters of a flow.
pub(super) fn counters(program: &Program, port: u16) -> Result<Counters, KernelError> {
    let bytes = program.map("counters")?.lookup(&key(port), MapFlags::ANY);
    let bytes = bytes.map_err(|error| failed("read a BPF map", &error))?.unwrap_or_default();
    let number = |place: usize| {
        let own = bytes.get(place * 8..).and_then(|own| own.first_chunk());
        own.map_or(0, |own| u64::from_ne_bytes(*own))
    };
    Ok(Counters { calls: number(0), decisions: number(1), fallbacks: number(2), drops: number(3) })
}

fn key(port: u16) -> [u8; 4] {
    u32::from(port).to_ne_bytes()
}

/// A refused step with libbpf's reason.
pub(super) fn failed(step: &str, error: &libbpf_rs::Error) -> KernelError {
    KernelError::step(step, std::io::Error::other(error.to_string()))
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
