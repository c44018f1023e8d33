//! The running network.

use std::io;
use std::time::{Duration, Instant};

use narrows_cc::Nanos;
use narrows_host::HostError;
use narrows_host::clock::{Budget, Clock, cpu_time};
use narrows_packet::{Kind, Packet};
use narrows_scenario::Plan;
use narrows_scenario::result::RunResult;
use narrows_sim::{Engine, Observer};

use crate::lateness::Late;
use crate::watch::Watch;

/// Longest wait, and interval of progress reports.
pub const TICK: Duration = Duration::from_millis(20);
/// Interval between checks of the real-time budget.
const LOOK: Nanos = Nanos::from_millis(5);
/// Priority of the emulator among real-time threads.
pub const PRIORITY: u8 = 50;

/// Carries packets between the hosts and the network.
pub trait Wire {
    /// Reads the hosts' packets up to `now`.
    fn read(&mut self, now: Nanos, late: &mut Late) -> Result<(), HostError>;
    /// The packets of the last [`read`](Self::read): departure time, packet and bytes, in order of departure.
    fn packets(&self) -> impl Iterator<Item = (Nanos, Packet, &[u8])>;
    /// Packets read so far.
    fn count(&self) -> u64;
    /// Sends a packet on to its host.
    fn deliver(&mut self, packet: &Packet, bytes: &mut [u8]) -> io::Result<()>;
    /// Waits until a host has sent something, at most this long.
    fn wait(&mut self, most: Duration) -> Result<(), HostError>;
}

/// The running network.
pub struct Emulation<'a, O, W> {
    plan: &'a Plan,
    engine: Engine<O>,
    wire: W,
    clock: Clock,
    late: Late,
}

/// A run that reached its end.
pub struct Done<O, W> {
    engine: Engine<O>,
    /// Lateness of readings and deliveries.
    pub late: Late,
    /// The wire that carried the packets.
    pub wire: W,
    cpu: Duration,
    wall: Duration,
    /// Whether the thread may have a real-time priority.
    pub real_time: bool,
}

impl<'a, O: Observer, W: Wire> Emulation<'a, O, W> {
    /// The network of `engine`, whose flows have real endpoints attached.
    pub fn new(plan: &'a Plan, engine: Engine<O>, wire: W, clock: Clock) -> Self {
        Self { plan, engine, wire, clock, late: Late::new() }
    }

    /// Runs the network to the end of the plan; `None` if cancelled. `failed`: whether a host has ended early.
    pub fn run(mut self, watch: &dyn Watch, failed: &dyn Fn() -> bool) -> Result<Option<Done<O, W>>, HostError> {
        let mut budget = Budget::begin(PRIORITY);
        let cpu_before = cpu_time();
        let begun = Instant::now();
        let (mut next_report, mut next_look) = (Nanos::ZERO, Nanos::ZERO);
        loop {
            let now = self.clock.now();
            if now >= self.plan.duration {
                break;
            }
            if now >= next_look {
                budget.look();
                next_look = now + LOOK;
            }
            if now >= next_report {
                if watch.is_cancelled() {
                    return Ok(None);
                }
                if failed() {
                    break; // the host's thread returns the cause
                }
                watch.progress(now.as_secs_f64() / self.plan.duration.as_secs_f64());
                next_report = now + Nanos::from_nanos(TICK.as_nanos() as u64);
            }
            self.take(now)?;
            self.deliver(now)?;
            let next = self.engine.next_event().min(self.plan.duration);
            self.wire.wait(self.clock.until(next).min(TICK))?;
        }
        self.engine.run_until(self.plan.duration);
        Ok(Some(Done {
            engine: self.engine,
            late: self.late,
            wire: self.wire,
            cpu: cpu_time().saturating_sub(cpu_before),
            wall: begun.elapsed(),
            real_time: budget.granted,
        }))
    }

    /// Reads the hosts' packets up to `now` and offers them to the network.
    fn take(&mut self, now: Nanos) -> Result<(), HostError> {
        self.wire.read(now, &mut self.late)?;
        for (at, packet, bytes) in self.wire.packets() {
            // The network's time must not go back.
            self.engine.run_until(at.max(self.engine.now()));
            match packet.kind() {
                Kind::Message => {
                    self.engine.inject_message(packet.flow, packet.flags, packet.message().as_bytes());
                }
                _ => self.engine.inject(packet, bytes),
            }
        }
        Ok(())
    }

    /// Hands the packets whose delivery time has come at `now` to their hosts.
    fn deliver(&mut self, now: Nanos) -> Result<(), HostError> {
        self.engine.run_until(now.max(self.engine.now()));
        let Self { engine, wire, late, clock, .. } = self;
        let mut failed = None;
        // In virtual time, reading the clock is a system call: the first packet uses `now` instead.
        let mut first = Some(now);
        engine.take_delivered(|due, packet, bytes| {
            late.record(due, first.take().unwrap_or_else(|| clock.now()));
            if let Err(error) = wire.deliver(packet, bytes) {
                failed.get_or_insert(error);
            }
        });
        failed.map_or(Ok(()), |error| Err(HostError::step("hand a packet to its host", error)))
    }
}

impl<O: Observer, W: Wire> Done<O, W> {
    /// CPU time of the emulator per packet, in microseconds.
    pub fn cpu_us_per_packet(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.wire.count().max(1) as f64
    }

    /// Returns the result and the observer.
    pub fn finish(self) -> (RunResult, O) {
        let (mut result, observer) = self.engine.finish_with_observer();
        result.wall_s = self.wall.as_secs_f64();
        (result, observer)
    }
}

/// Load average over one minute.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}
