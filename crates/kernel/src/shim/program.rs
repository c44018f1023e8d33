//! Loads the BPF program and registers it as a scheme of the kernel.

use std::ffi::OsStr;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use narrows_host::HostError;
use narrows_programs::libbpf::{failed, loading};
use narrows_programs::names::{rename, unique};
use narrows_programs::{SHIM, pinned};

use super::record::Decision;

/// Number of counters per flow in the kernel: calls, decisions applied, fallbacks, records dropped.
const COUNTERS: usize = 4;

/// The program in the kernel; dropping it removes it.
#[derive(Debug)]
pub(super) struct Program {
    /// The first field, so that it is dropped before the maps.
    _link: Link,
    object: Object,
}

/// The kernel's counters of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) calls: u64,
    pub(super) decisions: u64,
    pub(super) fallbacks: u64,
    pub(super) drops: u64,
}

impl Program {
    /// Loads the program for this many flows, and registers it. Also returns its name.
    pub(super) fn load(flows: usize) -> Result<(Self, String), HostError> {
        let name = unique();
        let program = loading("the BPF shim", || Self::attach(flows as u32, &name))?;
        Ok((program, name))
    }

    fn attach(flows: u32, name: &str) -> libbpf_rs::Result<Self> {
        // ELF requires alignment, so the object is copied.
        let bytes = SHIM.to_vec();
        let mut open = ObjectBuilder::default().name("narrows")?.open_memory(&bytes)?;
        for mut map in open.maps_mut() {
            if [OsStr::new("decisions"), OsStr::new("counters")].contains(&map.name()) {
                map.set_max_entries(flows)?;
            } else if let Some(ops) = map.initial_value_mut() {
                rename(ops, "narrows", name);
            }
        }
        let mut object = open.load()?;
        let link = pinned::map(&mut object, "narrows")?.attach_struct_ops()?;
        Ok(Self { _link: link, object })
    }

    /// A map of the program.
    pub(super) fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, HostError> {
        let found = self.object.maps().find(|map| map.name() == OsStr::new(name));
        let missing = || HostError::Unsupported(format!("the BPF shim of this build has no map `{name}`"));
        found.ok_or_else(missing)
    }
}

/// Writes the first decision of a flow, and zero counters.
pub(super) fn admit(program: &Program, port: u16, decision: &Decision) -> Result<(), HostError> {
    decide(&program.map("decisions")?, port, decision)?;
    let zeros = [0; COUNTERS * 8];
    let counters = program.map("counters")?;
    counters.update(&key(port), &zeros, MapFlags::ANY).map_err(|error| failed("write a BPF map", &error))
}

/// Writes a decision.
pub(super) fn decide(map: &libbpf_rs::Map<'_>, port: u16, decision: &Decision) -> Result<(), HostError> {
    map.update(&key(port), &decision.bytes(), MapFlags::ANY).map_err(|error| failed("write a BPF map", &error))
}

/// Reads the counters of a flow.
pub(super) fn counters(program: &Program, port: u16) -> Result<Counters, HostError> {
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
