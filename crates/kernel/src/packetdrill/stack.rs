//! The kernel as the stack that a script runs on.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use narrows_cc::Nanos;
use narrows_host::clock::Clock;
use narrows_host::namespace::{self, HostConfig};
use narrows_host::netlink::Netlink;
use narrows_host::{HostError, diagnostics};
use narrows_packet::real;
use narrows_packetdrill::script::{Call, Problem, Segment};
use narrows_packetdrill::stack::{Outcome, Sent, Stack, Waited};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use tun_rs::SyncDevice;

use super::calls::{self, Running, Socket};
use super::info;
use super::machine::{self, Machine};
use super::wire::{LOCAL, Mapping, REMOTE};

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

/// The kernel's TCP in a namespace of its own.
pub(super) struct Kernel {
    device: SyncDevice,
    pub(super) machine: Machine,
    diagnostics: Netlink,
    clock: Option<Clock>,
    /// The wall clock at the start.
    pub(super) started: SystemTime,
    pub(super) lateness: Nanos,
    mapping: Mapping,
    /// A packet without SYN has arrived: the connection is past its opening.
    opened: bool,
    pub(super) sockets: BTreeMap<i64, Socket>,
    /// Calls that block, by line.
    running: BTreeMap<usize, Running>,
    /// Counts calls that have returned.
    pub(super) returned: Arc<OwnedFd>,
    sent: VecDeque<Sent>,
    pub(super) unchecked: Vec<String>,
    /// Whether the script shall end at once.
    stopped: Arc<AtomicBool>,
    /// `struct tcp_info` of the connection, read last, and the bytes in its send queue.
    info: Vec<u8>,
    queued: u32,
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
        let sysctls = settings
            .into_iter()
            .chain(namespace::COMMON)
            .map(|(name, value)| (name, value.to_owned()))
            .collect();
        let config =
            HostConfig { mtu, addresses: vec![LOCAL], initial_window: INITIAL_WINDOW, burst: None, sysctls };
        let device = namespace::enter(&config)?;
        let failed = |error: io::Error| HostError::step("prepare the script's namespace", error);
        let index = device.if_index().map_err(failed)? as i32;
        let returned = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        Ok(Self {
            device,
            machine: Machine::new(index).map_err(failed)?,
            diagnostics: Netlink::diagnostics().map_err(failed)?,
            clock: None,
            started: SystemTime::UNIX_EPOCH,
            lateness,
            mapping: Mapping { local: calls::PORT, remote: PEER, origin: 0 },
            opened: false,
            sockets: BTreeMap::new(),
            running: BTreeMap::new(),
            returned: Arc::new(returned.map_err(|error| failed(error.into()))?),
            sent: VecDeque::new(),
            unchecked: Vec::new(),
            stopped,
            info: Vec::new(),
            queued: 0,
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

    /// Reads the packets that have left, and returns the time of the first.
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

    /// Reads what the kernel reports of the connection. After its end, the last values stay.
    fn read_info(&mut self, line: usize) -> Result<bool, Problem> {
        let local = SocketAddrV4::new(LOCAL, self.mapping.local);
        let remote = SocketAddrV4::new(REMOTE, self.mapping.remote);
        let read = diagnostics::read_info(&mut self.diagnostics, local, remote);
        let read = read.map_err(|error| Problem::failure(line, format!("sock_diag: {error}")))?;
        let alive = read.is_some();
        if let Some((info, queued)) = read {
            (self.info, self.queued) = (info, queued);
        }
        Ok(alive)
    }

    /// Bytes that are not acknowledged, and among them those that were not sent.
    pub(super) fn outstanding(&mut self, line: usize) -> Result<(u32, u32), Problem> {
        self.read_info(line)?;
        let unsent = info::value(&self.info, "tcpi_notsent_bytes").unwrap_or(0.0);
        Ok((self.queued, unsent as u32))
    }
}

impl Stack for Kernel {
    fn lateness(&self) -> Option<Nanos> {
        Some(self.lateness)
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
            if rustix::io::read(&*self.returned, &mut count).is_ok() {
                return Ok(Waited::Happened(clock.now()));
            }
            if self.stopped.load(Ordering::Relaxed) {
                return Err(Problem::failure(line, "stopped".to_owned()));
            }
            let left = clock.until(until);
            if left.is_zero() {
                return Ok(Waited::Passed);
            }
            // A socket that ends is not there to be asked.
            self.read_info(line)?;
            let left = left.min(REFRESH);
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut ready =
                [PollFd::new(&self.device, PollFlags::IN), PollFd::new(&*self.returned, PollFlags::IN)];
            match poll(&mut ready, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Problem::failure(line, format!("poll: {error}"))),
            }
        }
    }

    fn on_packet(&mut self, _: Nanos, line: usize, segment: &Segment) -> Result<(), Problem> {
        let opens = segment.flags.syn && !segment.flags.ack;
        if opens && self.opened && !self.read_info(line)? {
            self.mapping =
                Mapping { local: calls::PORT, remote: self.mapping.remote.wrapping_add(1), origin: 0 };
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
        match self.start(line, call, blocks)? {
            Some(running) => {
                self.running.insert(line, running);
                Ok(Outcome::Blocks)
            }
            None => self.execute(line, call),
        }
    }

    fn resume(&mut self, _: Nanos, line: usize, call: &Call) -> Result<Outcome, Problem> {
        let Some(result) = self.running.get(&line).and_then(Running::result) else {
            return Ok(Outcome::Blocks);
        };
        self.running.remove(&line);
        self.finish(line, call, result)
    }

    fn observe(&mut self, line: usize) -> Result<(), Problem> {
        self.read_info(line).map(|_| ())
    }

    fn info(&self, _: Nanos, name: &str) -> Option<f64> {
        info::value(&self.info, name)
    }

    fn sent(&mut self) -> &mut VecDeque<Sent> {
        &mut self.sent
    }

    fn unchecked(&self) -> Vec<String> {
        self.unchecked.clone()
    }
}

impl Drop for Kernel {
    /// Ends calls that still block, so that their threads end.
    fn drop(&mut self) {
        for running in std::mem::take(&mut self.running).into_values() {
            running.end();
        }
    }
}
