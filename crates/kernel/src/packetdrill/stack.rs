//! The kernel as the stack that a script runs on.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use narrows_cc::Nanos;
use narrows_host::HostError;
use narrows_host::clock::{Clock, timespec};
use narrows_host::namespace::{self, HostConfig};
use narrows_host::netlink::Netlink;
use narrows_packet::real;
use narrows_packetdrill::script::{Call, Problem, Segment};
use narrows_packetdrill::stack::{Outcome, Sent, Stack, Waited};
use rustix::event::{PollFd, PollFlags, poll};
use tun_rs::SyncDevice;

use super::calls::{self, Calls, Context};
use super::info::{self, Info};
use super::machine::{self, Machine};
use super::wire::{LOCAL, Mapping, PORT};

/// Time from the preparation to the start of the script.
const LEAD: Duration = Duration::from_millis(2);
/// Segments that `IW10` allows.
const INITIAL_WINDOW: u32 = 10;
/// First port of the peer.
const PEER: u16 = 40_000;
/// Time between readings of `TCP_INFO` while nothing happens.
const REFRESH: Duration = Duration::from_millis(25);
/// Larger than any packet.
const PACKET: usize = 1 << 16;

/// The kernel's TCP in a separate namespace.
pub(super) struct Kernel {
    device: SyncDevice,
    machine: Machine,
    info: Info,
    clock: Option<Clock>,
    /// Wall-clock time at the start of the script.
    started: SystemTime,
    lateness: Nanos,
    mapping: Mapping,
    /// The script has sent a packet without SYN: the connection is past its handshake.
    opened: bool,
    calls: Calls,
    sent: VecDeque<Sent>,
    /// Whether the script shall end immediately.
    stopped: Arc<AtomicBool>,
    buffer: Vec<u8>,
}

impl Kernel {
    /// Moves the calling thread into a new namespace with a device.
    ///
    /// # Errors
    /// If the kernel refuses a step.
    pub(super) fn open(mtu: u16, lateness: Nanos, stopped: Arc<AtomicBool>) -> Result<Self, HostError> {
        let settings = [
            // Defaults that differ between machines.
            ("ipv4/tcp_rmem", "4096 131072 6291456"),
            ("ipv4/tcp_wmem", "4096 16384 4194304"),
        ];
        let sysctls =
            settings.into_iter().chain(namespace::COMMON).map(|(name, value)| (name, value.to_owned())).collect();
        let config = HostConfig { mtu, addresses: vec![LOCAL], initial_window: INITIAL_WINDOW, burst: None, sysctls };
        let device = namespace::enter(&config)?;
        let failed = |error: io::Error| HostError::step("prepare the script's namespace", error);
        let index = device.if_index().map_err(failed)? as i32;
        Ok(Self {
            device,
            machine: Machine::new(index).map_err(failed)?,
            info: Info::new(Netlink::diagnostics().map_err(failed)?),
            clock: None,
            started: SystemTime::UNIX_EPOCH,
            lateness,
            mapping: Mapping { local: PORT, remote: PEER, origin: 0 },
            opened: false,
            calls: Calls::new().map_err(failed)?,
            sent: VecDeque::new(),
            stopped,
            buffer: vec![0; PACKET],
        })
    }

    /// The clock of the script, which the first event starts.
    fn clock(&mut self) -> Clock {
        if let Some(clock) = self.clock {
            return clock;
        }
        let clock = Clock::from(Instant::now() + LEAD);
        self.started = SystemTime::now() + LEAD;
        *self.clock.insert(clock)
    }

    /// Reads the packets that the kernel has sent, and returns the time of the first.
    fn collect(&mut self, line: usize) -> Result<Option<Nanos>, Problem> {
        let clock = self.clock();
        let mut first = None;
        loop {
            let length = match self.device.recv(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(first),
                Err(error) => return Err(Problem::failure(line, format!("the TUN device: {error}"))),
            };
            let at = clock.now();
            let Some(packet) = real::Segment::read(&self.buffer[..length]) else { continue };
            let Some(new) = self.mapping.adopt(&packet) else { continue };
            self.opened &= !new;
            let segment = self.mapping.segment(&packet);
            self.sent.push_back(Sent { at, segment });
            first.get_or_insert(at);
        }
    }
}

impl Stack for Kernel {
    fn lateness(&self) -> Option<Nanos> {
        Some(self.lateness)
    }

    /// Linux counts milliseconds, unless a route asks for microseconds (`tcp_usec_ts`).
    fn stamp_unit(&self) -> Nanos {
        Nanos::from_millis(1)
    }

    fn lacks_call(&self, call: &Call) -> Option<String> {
        calls::lacks(call)
    }

    fn has_field(&self, name: &str) -> bool {
        info::is_known(name)
    }

    fn check_command(&self, line: usize, words: &[String]) -> Result<(), Problem> {
        machine::check(line, words)
    }

    fn command(&mut self, line: usize, words: &[String]) -> Result<(), Problem> {
        self.machine.run(line, words)
    }

    fn wait(&mut self, _: Nanos, line: usize, until: Nanos) -> Result<Waited, Problem> {
        let clock = self.clock();
        loop {
            if let Some(at) = self.collect(line)? {
                return Ok(Waited::Happened(at));
            }
            let mut count = [0; 8];
            if rustix::io::read(self.calls.returned(), &mut count).is_ok() {
                return Ok(Waited::Happened(clock.now()));
            }
            if self.stopped.load(Ordering::Relaxed) {
                return Err(Problem::failure(line, "stopped".to_owned()));
            }
            let left = clock.until(until);
            if left.is_zero() {
                return Ok(Waited::Passed);
            }
            // Read now, because the kernel has no report on a closed socket.
            self.info.read(line, &self.mapping)?;
            let mut ready =
                [PollFd::new(&self.device, PollFlags::IN), PollFd::new(self.calls.returned(), PollFlags::IN)];
            match poll(&mut ready, Some(&timespec(left.min(REFRESH)))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Problem::failure(line, format!("poll: {error}"))),
            }
        }
    }

    fn on_packet(&mut self, _: Nanos, line: usize, segment: &Segment) -> Result<(), Problem> {
        let opens = segment.flags.syn && !segment.flags.ack;
        if opens && self.opened && !self.info.read(line, &self.mapping)? {
            self.mapping = Mapping { local: PORT, remote: self.mapping.remote.wrapping_add(1), origin: 0 };
            self.opened = false;
        }
        self.opened |= !segment.flags.syn;
        let packet = self.mapping.packet(segment);
        let written = self.device.send(&packet);
        written.map_err(|error| Problem::failure(line, format!("the TUN device: {error}")))?;
        Ok(())
    }

    fn call(&mut self, _: Nanos, line: usize, call: &Call, blocks: bool) -> Result<Outcome, Problem> {
        self.clock();
        let Self { calls, machine, info, mapping, started, lateness, .. } = self;
        let context = Context {
            scheme: &machine.scheme,
            started: *started,
            lateness: Duration::from_nanos(lateness.as_nanos()),
            outstanding: &mut || info.outstanding(line, mapping),
        };
        calls.call(line, call, blocks, context)
    }

    fn resume(&mut self, _: Nanos, line: usize, call: &Call) -> Result<Outcome, Problem> {
        self.calls.resume(line, call)
    }

    fn observe(&mut self, line: usize) -> Result<(), Problem> {
        self.info.read(line, &self.mapping).map(|_| ())
    }

    fn info(&self, _: Nanos, name: &str) -> Option<f64> {
        self.info.value(name)
    }

    fn sent(&mut self) -> &mut VecDeque<Sent> {
        &mut self.sent
    }

    fn unchecked(&self) -> Vec<String> {
        self.calls.unchecked()
    }
}
