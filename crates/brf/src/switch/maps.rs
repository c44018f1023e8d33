//! The programs of a switch in the kernel (`bpf/brf_switch.bpf.c`), and the maps that they share with the agent
//! (`bpf/brf_switch.h`).

use std::ffi::OsStr;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, BorrowedFd};

use libbpf_rs::{MapCore as _, MapFlags, MapImpl, Object, ObjectBuilder};
use narrows_cc::Rate;
use narrows_host::HostError;
use narrows_programs::{BRF_SWITCH, libbpf};
use narrows_routers::{FiveTuple, RateCode};

use super::tc::word;

/// Names of the programs: on the egress of the bottleneck, and on the ingress of ports where ACKs return.
pub(super) const DATA: &str = "brf_data";
pub(super) const ACK: &str = "brf_ack";
/// Number of flows that one call reads.
const BATCH: u32 = 256;

pub(super) const OBEYS: u32 = 1;
pub(super) const ANSWERED: u32 = 2;
pub(super) const ENDED: u32 = 4;
pub(super) const GONE: u32 = 8;
pub(super) const STRIPPED: u32 = 16;

/// `struct flow_key`, as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) [u8; 16]);

impl Key {
    pub(super) fn tuple(&self) -> FiveTuple {
        let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = self.0;
        FiveTuple {
            source: u32::from_be_bytes([a, b, c, d]),
            destination: u32::from_be_bytes([e, f, g, h]),
            source_port: u16::from_be_bytes([i, j]),
            destination_port: u16::from_be_bytes([k, l]),
            protocol: FiveTuple::TCP,
        }
    }

    /// `10.0.0.1:5000 > 10.0.1.1:80`.
    pub(super) fn name(&self) -> String {
        let own = self.tuple();
        format!(
            "{}:{} > {}:{}",
            Ipv4Addr::from(own.source),
            own.source_port,
            Ipv4Addr::from(own.destination),
            own.destination_port
        )
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|own| own.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// The fields of `struct flow` that the agent reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowState {
    pub(super) opened: u64,
    pub(super) rtt: u64,
    pub(super) bytes: u64,
    pub(super) returned: u64,
    pub(super) advised: u64,
    pub(super) written: u32,
    pub(super) flags: u32,
}

impl FlowState {
    fn read(bytes: &[u8]) -> Self {
        Self {
            opened: long(bytes, 0),
            rtt: long(bytes, 16),
            bytes: long(bytes, 24),
            returned: long(bytes, 40),
            advised: long(bytes, 56),
            written: word(bytes, 80),
            flags: word(bytes, 88),
        }
    }

    pub(super) const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// `struct decision`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// `None`: nothing is written into ACKs.
    pub(super) share: Option<Rate>,
    pub(super) class: u8,
}

impl Decision {
    fn bytes(self) -> [u8; 16] {
        let code = self.share.map_or(RateCode(0), RateCode::encode);
        // The rate after rounding to a code of the option, so that programs compare rates of the same precision.
        let rate = code.decode().as_bytes_per_sec();
        let mut out = [0; 16];
        out[..8].copy_from_slice(&rate.to_ne_bytes());
        out[8..10].copy_from_slice(&code.0.to_ne_bytes());
        out[10] = self.class;
        out
    }
}

/// `struct control`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    pub(super) heartbeat: u64,
    pub(super) patience: u64,
    pub(super) offer: Rate,
    pub(super) handle: u32,
    /// Classes of ACKs of the other direction, of untracked flows, and of UDP.
    pub(super) classes: [u8; 3],
}

impl Control {
    fn bytes(self) -> [u8; 40] {
        let code = RateCode::encode(self.offer);
        let mut out = [0; 40];
        for (at, value) in [self.heartbeat, self.patience, code.decode().as_bytes_per_sec()].iter().enumerate() {
            out[at * 8..at * 8 + 8].copy_from_slice(&value.to_ne_bytes());
        }
        out[24..28].copy_from_slice(&self.handle.to_ne_bytes());
        out[28..30].copy_from_slice(&code.0.to_ne_bytes());
        out[30..33].copy_from_slice(&self.classes);
        out
    }
}

/// `struct counters`, summed over processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Rates written into ACKs.
    pub written: u64,
    /// Lower rates of other switches that were left in the ACK.
    pub kept: u64,
    /// ACKs of flows that offered to obey, without the option.
    pub bare: u64,
    /// ACKs passed without a rate because the agent was gone.
    pub silent: u64,
    /// SYNs of flows for which the table had no space.
    pub refused: u64,
    /// Events that the agent missed; its next reading finds them.
    pub lost: u64,
    /// Bytes of ACKs of the other direction.
    pub acks: u64,
    /// Packets of flows without an entry.
    pub untracked: u64,
    /// UDP packets.
    pub udp: u64,
}

/// The loaded programs and their maps.
#[derive(Debug)]
pub(super) struct Programs {
    object: Object,
}

impl Programs {
    /// Loads the programs with tables for `flows` flows.
    pub(super) fn load(flows: u32) -> Result<Self, HostError> {
        let object = libbpf::loading("the programs of the switch", || {
            // ELF requires alignment, so the object is copied.
            let bytes = BRF_SWITCH.to_vec();
            let mut open = ObjectBuilder::default().name("brf_switch")?.open_memory(&bytes)?;
            for mut map in open.maps_mut() {
                if [Some("flows"), Some("decisions")].contains(&map.name().to_str()) {
                    map.set_max_entries(flows)?;
                }
            }
            open.load()
        })?;
        Ok(Self { object })
    }

    pub(super) fn map(&self, name: &str) -> MapImpl<'_> {
        let found = self.object.maps().find(|map| map.name() == OsStr::new(name));
        found.unwrap_or_else(|| unreachable!("the object has a map `{name}`"))
    }

    /// Passes a loaded program to `work`.
    pub(super) fn with_program<T>(&self, name: &str, work: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        let found = self.object.progs().find(|program| program.name() == OsStr::new(name));
        found.map_or_else(|| unreachable!("the object has a program `{name}`"), |own| work(own.as_fd()))
    }

    /// Runs a loaded program on a packet, and returns its result.
    #[cfg(test)]
    pub(super) fn run<'dat>(&mut self, name: &str, input: libbpf_rs::ProgramInput<'dat>) -> u32 {
        let mut programs = self.object.progs_mut();
        let found = programs.find(|program| program.name() == OsStr::new(name)).expect("a program");
        found.test_run(input).expect("runs").return_value
    }

    /// All flows of the table.
    pub(super) fn flows(&self) -> io::Result<Vec<(Key, FlowState)>> {
        let map = self.map("flows");
        let batches = map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY).map_err(io::Error::other)?;
        let rows = batches.filter_map(|(key, value)| Some((Key(key.try_into().ok()?), FlowState::read(&value))));
        Ok(rows.collect())
    }

    /// One flow of the table.
    pub(super) fn flow(&self, key: &Key) -> Option<FlowState> {
        let value = self.map("flows").lookup(&key.0, MapFlags::ANY).ok()??;
        Some(FlowState::read(&value))
    }

    /// Removes a flow and its decision from the tables.
    pub(super) fn remove(&self, key: &Key) {
        // The flow, its decision or both may already be gone.
        let _ = self.map("flows").delete(&key.0);
        let _ = self.map("decisions").delete(&key.0);
    }

    pub(super) fn decide(&self, key: &Key, decision: Decision) -> io::Result<()> {
        self.map("decisions").update(&key.0, &decision.bytes(), MapFlags::ANY).map_err(io::Error::other)
    }

    pub(super) fn control(&self, control: Control) -> io::Result<()> {
        let bytes = control.bytes();
        self.map("controls").update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(io::Error::other)
    }

    pub(super) fn counters(&self) -> io::Result<Counters> {
        let values = self.map("counters").lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let mut sum = [0u64; 9];
        for own in values.map_err(io::Error::other)?.unwrap_or_default() {
            for (i, total) in sum.iter_mut().enumerate() {
                *total += long(&own, i * 8);
            }
        }
        let [written, kept, bare, silent, refused, lost, acks, untracked, udp] = sum;
        Ok(Counters { written, kept, bare, silent, refused, lost, acks, untracked, udp })
    }

    /// Packets and bytes for which the programs selected this class.
    pub(super) fn total(&self, class: u8) -> io::Result<(u64, u64)> {
        let values = self.map("totals").lookup_percpu(&u32::from(class).to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(io::Error::other)?.unwrap_or_default();
        Ok(values.iter().fold((0, 0), |(packets, bytes), own| (packets + long(own, 0), bytes + long(own, 8))))
    }
}
