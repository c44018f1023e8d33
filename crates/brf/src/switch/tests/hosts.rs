//! Hosts on both sides of a switch, in a separate network namespace. Senders pace at the rate that they read; receivers
//! acknowledge every second packet a round trip later.
//!
//! ```text
//!   senders ── send0 ── bridge ── bottle0 ── receivers      (TAP devices; the test reads and writes their other ends)
//! ```

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use narrows_host::clock::hurry;
use narrows_host::namespace::unshare;
use narrows_routers::RateCode;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use super::super::{PortSettings, Role, Settings, Watch, run, status};
use super::may;
use super::packets::{ACK, FIN, NO_LIMIT, Packet, SYN};

pub(super) const BOTTLENECK: &str = "bottle0";
pub(super) const ACCESS: &str = "send0";
/// Largest lateness that a sender catches up.
const CATCH_UP: Duration = Duration::from_millis(2);

/// Behaviour of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    pub(super) start: Duration,
    pub(super) stop: Duration,
    pub(super) rtt: Duration,
    /// The flow offers to obey; otherwise it sends at `fixed`.
    pub(super) obeys: bool,
    /// The flow's rate in bytes per second until it has read a rate.
    pub(super) fixed: u64,
    /// The code in the flow's ACKs; `None`: the option is stripped.
    pub(super) carried: Option<u16>,
}

impl Plan {
    /// A flow that obeys, with this round trip, from `start` to the end.
    pub(super) fn obeying(start_ms: u64, rtt_ms: u64) -> Self {
        Self {
            start: Duration::from_millis(start_ms),
            stop: Duration::MAX,
            rtt: Duration::from_millis(rtt_ms),
            obeys: true,
            fixed: 250_000,
            carried: Some(NO_LIMIT),
        }
    }
}

/// A flow of the test.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) plan: Plan,
    opened: Option<Duration>,
    established: bool,
    ended: bool,
    next: Duration,
    /// Rate in bytes per second of IP packets. `rates`: its history.
    pub(super) rate: u64,
    pub(super) rates: Vec<(Duration, u64)>,
    unacknowledged: u32,
    /// Bytes received in each interval of 10 ms.
    pub(super) arrivals: Vec<u64>,
    pub(super) wrong_checksums: u32,
}

impl Flow {
    /// Bytes per second received between two times.
    pub(super) fn throughput(&self, from_ms: usize, to_ms: usize) -> f64 {
        let slots = self.arrivals.get(from_ms / 10..(to_ms / 10).min(self.arrivals.len())).unwrap_or_default();
        slots.iter().sum::<u64>() as f64 * 1000.0 / (to_ms - from_ms) as f64
    }

    /// The rate in force at a time.
    pub(super) fn rate_at(&self, time: Duration) -> u64 {
        self.rates.iter().take_while(|(at, _)| *at <= time).last().map_or(0, |(_, rate)| *rate)
    }
}

/// The hosts on both sides of the switch.
pub(super) struct Hosts {
    access: SyncDevice,
    bottleneck: SyncDevice,
    pub(super) flows: Vec<Flow>,
    /// Frames of the receivers by time of departure.
    delayed: BTreeMap<(Duration, u64), Vec<u8>>,
    number: u64,
    start: Instant,
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output().expect("`ip` of iproute2");
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

fn tap(name: &str) -> SyncDevice {
    let device = DeviceBuilder::new().name(name).layer(Layer::L2).mtu(1500).build_sync().expect("a TAP device");
    device.set_nonblocking(true).expect("a descriptor");
    device.set_tx_queue_len(10_000).expect("a device");
    device
}

/// Runs `work` in a thread with its own network namespace, in which a bridge joins both sides. Does nothing if this
/// process lacks the rights.
pub(super) fn on_bridge(work: impl FnOnce(Hosts) + Send + 'static) {
    if !may() {
        return;
    }
    let thread = std::thread::spawn(|| {
        unshare().expect("root");
        // Hosts that run late would not send at their rate.
        hurry(5);
        let (access, bottleneck) = (tap(ACCESS), tap(BOTTLENECK));
        for name in ["all", "default"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        }
        ip("link add bridge0 type bridge mcast_snooping 0");
        for name in [ACCESS, BOTTLENECK] {
            ip(&format!("link set {name} master bridge0 up"));
        }
        ip("link set bridge0 up");
        let start = Instant::now();
        work(Hosts { access, bottleneck, flows: Vec::new(), delayed: BTreeMap::new(), number: 0, start });
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

impl Hosts {
    /// Adds flows, and starts the clock.
    pub(super) fn begin(&mut self, plans: &[Plan]) {
        self.flows = plans.iter().map(|plan| Flow { plan: *plan, ..Flow::default() }).collect();
        self.start = Instant::now();
    }

    fn packet(&self, flow: usize, flags: u8, payload: usize, code: Option<u16>) -> Packet {
        Packet {
            from: (Ipv4Addr::new(10, 0, 0, 1), 5000 + flow as u16),
            to: (Ipv4Addr::new(10, 0, 1, 1), 80),
            flags,
            payload,
            code,
            // Puts the option at odd and at even offsets.
            padding: flow % 2 + 2,
        }
    }

    /// Runs the hosts until this time.
    pub(super) fn run(&mut self, until_ms: u64) {
        let until = Duration::from_millis(until_ms);
        let mut frame = vec![0; 2048];
        loop {
            let now = self.start.elapsed();
            if now >= until {
                return;
            }
            while let Ok(length) = self.access.recv(&mut frame) {
                self.at_sender(now, &frame[..length]);
            }
            while let Ok(length) = self.bottleneck.recv(&mut frame) {
                self.at_receiver(now, &frame[..length]);
            }
            while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now) {
                let _ = self.bottleneck.send(&first.remove());
            }
            for i in 0..self.flows.len() {
                self.send(now, i);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn send(&mut self, now: Duration, i: usize) {
        let flow = &self.flows[i];
        let plan = flow.plan;
        if now < plan.start || flow.ended {
            return;
        }
        // A SYN without an answer is retransmitted after a second.
        let silent = flow.opened.is_none_or(|at| now - at > Duration::from_secs(1));
        if !flow.established {
            if silent {
                let _ = self.access.send(&self.packet(i, SYN, 0, plan.obeys.then_some(0)).frame());
                self.flows[i].opened = Some(now);
            }
            return;
        }
        if now >= plan.stop {
            let _ = self.access.send(&self.packet(i, ACK | FIN, 0, None).frame());
            self.flows[i].ended = true;
            return;
        }
        let data = self.packet(i, ACK, 1460 - 8, None);
        let frame = data.frame();
        let size = frame.len() as u64 - 14;
        let flow = &mut self.flows[i];
        flow.next = flow.next.max(now.saturating_sub(CATCH_UP));
        while flow.next <= now {
            let _ = self.access.send(&frame);
            flow.next += Duration::from_nanos(size * 1_000_000_000 / flow.rate.max(1000));
        }
    }

    /// Handles a packet that reaches a sender.
    fn at_sender(&mut self, now: Duration, frame: &[u8]) {
        let Some((packet, right)) = Packet::read(frame) else { return };
        let i = usize::from(packet.to.1.wrapping_sub(5000));
        let Some(flow) = self.flows.get_mut(i) else { return };
        flow.wrong_checksums += u32::from(!right);
        // The codes zero and 'no limit' are not rates.
        let code = packet.code.filter(|code| flow.plan.obeys && *code != NO_LIMIT);
        let rate = code.map(|code| RateCode(code).decode().as_bytes_per_sec());
        if let Some(rate) = rate.filter(|rate| (1..1_000_000_000).contains(rate)) {
            flow.rate = rate;
            flow.rates.push((now, rate));
        }
        if packet.flags & SYN != 0 && !flow.established {
            flow.established = true;
            if flow.rate == 0 {
                flow.rate = flow.plan.fixed;
            }
            flow.next = now;
            let _ = self.access.send(&self.packet(i, ACK, 0, None).frame());
        }
    }

    /// Handles a packet that reaches a receiver.
    fn at_receiver(&mut self, now: Duration, frame: &[u8]) {
        let Some((packet, right)) = Packet::read(frame) else { return };
        let i = usize::from(packet.from.1.wrapping_sub(5000));
        let Some(flow) = self.flows.get_mut(i) else { return };
        flow.wrong_checksums += u32::from(!right);
        let flags = if packet.flags & SYN != 0 {
            SYN | ACK
        } else if packet.flags & FIN != 0 {
            ACK | FIN
        } else if packet.payload > 0 {
            let slot = now.as_millis() as usize / 10;
            flow.arrivals.resize(flow.arrivals.len().max(slot + 1), 0);
            flow.arrivals[slot] += frame.len() as u64 - 14;
            flow.unacknowledged += 1;
            if flow.unacknowledged < 2 {
                return;
            }
            flow.unacknowledged = 0;
            ACK
        } else {
            return;
        };
        let mut back = packet.back(flags, flow.plan.carried);
        back.padding = i % 2 + 2;
        let at = now + flow.plan.rtt;
        self.number += 1;
        self.delayed.insert((at, self.number), back.frame());
    }
}

/// A switch in a thread of the same namespace; dropping this stops it.
pub(super) struct Running {
    stop: &'static Log,
    thread: Option<std::thread::JoinHandle<Result<(), narrows_host::HostError>>>,
}

/// The log of a switch.
#[derive(Default)]
pub(super) struct Log {
    stopped: AtomicBool,
    lines: Mutex<Vec<String>>,
}

impl Watch for Log {
    fn log(&self, line: &str) {
        self.lines.lock().expect("no panic").push(line.to_owned());
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Settings of a switch on the bridge, with 100 Mbit/s.
pub(super) fn settings() -> Settings {
    let port = |name: &str, role| PortSettings { name: name.to_owned(), role };
    let ports = vec![port(ACCESS, Role::Acks), port(BOTTLENECK, Role::Bottleneck)];
    Settings::new(ports, narrows_cc::Rate::from_bytes_per_sec(12_500_000))
}

impl Running {
    /// Starts a switch and waits until it runs.
    pub(super) fn start(settings: Settings) -> Self {
        let log: &'static Log = Box::leak(Box::default());
        let thread = std::thread::spawn(move || run(&settings, log));
        let running = Self { stop: log, thread: Some(thread) };
        let end = Instant::now() + Duration::from_secs(20);
        while !running.lines().iter().any(|line| line.contains("the switch runs")) {
            let over = running.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished);
            assert!(!over && Instant::now() < end, "the switch does not start: {:?}", running.lines());
            std::thread::sleep(Duration::from_millis(5));
        }
        running
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.stop.lines.lock().expect("no panic").clone()
    }

    /// The latest report of the switch.
    pub(super) fn report() -> serde_json::Value {
        status()[0]["report"].clone()
    }

    /// Ends the switch and returns its result.
    pub(super) fn end(mut self) -> Result<(), narrows_host::HostError> {
        self.stop.stopped.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("no panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stopped.store(true, Ordering::Relaxed);
    }
}
