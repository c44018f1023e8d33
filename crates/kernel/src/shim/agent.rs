//! The agent: a thread that answers the records of the shim with the decisions of our schemes.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libbpf_rs::RingBufferBuilder;
use narrows_host::HostError;
use narrows_host::clock::Budget;
use narrows_programs::libbpf::failed;
use narrows_scenario::Plan;
use narrows_scenario::result;
use narrows_units::Histogram;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::time::{ClockId, clock_gettime};

use super::program::{self, Counters, Program};
use super::{Flow, FlowSettings, Record, TapeEntry, TapeWriter};
use crate::hosts::Handle;
use crate::options::Options;

/// Longest wait between checks for the end.
const TICK: Duration = Duration::from_millis(20);
/// Maximum number of records per batch: decisions must not wait for the end of a flood of records.
const BATCH: usize = 4096;
/// Priority among real-time threads: below the emulator's.
const PRIORITY: u8 = 45;

/// The shim during a run. When it is dropped, the agent ends and the scheme leaves the kernel.
#[derive(Debug)]
pub(crate) struct Shim {
    name: String,
    /// Numbers and sockets of the flows over the shim.
    handles: Vec<(usize, Handle)>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<result::Shim, HostError>>>,
}

/// A flow that runs over the shim.
#[derive(Debug)]
struct Own {
    label: String,
    port: u16,
    flow: Flow,
    socket: Handle,
    events: u64,
    /// The flow's last record has no answer yet.
    waiting: bool,
}

struct Agent {
    program: Program,
    flows: Vec<Own>,
    over: Arc<AtomicBool>,
    until_ns: u64,
    tape: Option<TapeWriter<BufWriter<File>>>,
    delays: Histogram,
    batches: Histogram,
}

/// `CLOCK_MONOTONIC`, as the kernel stamps records.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Shim {
    /// Registers the scheme and starts the agent for these flows of the plan. Flow `n` uses local port `ports + n`.
    pub(crate) fn start(plan: &Plan, flows: &[usize], ports: u16, options: &Options) -> Result<Self, HostError> {
        let (program, name) = Program::load(flows.len())?;
        let origin = monotonic();
        let own = |number: &usize| {
            let plan_of_flow = &plan.flows[*number];
            Own {
                label: plan_of_flow.label.clone(),
                port: ports + *number as u16,
                flow: Flow::new(FlowSettings::of(plan_of_flow, *number, plan.seed, origin)),
                socket: Handle::default(),
                events: 0,
                waiting: false,
            }
        };
        let numbers = flows;
        let flows: Vec<Own> = numbers.iter().map(own).collect();
        let handles = numbers.iter().zip(&flows).map(|(number, own)| (*number, Arc::clone(&own.socket)));
        let handles = handles.collect();
        for own in &flows {
            program::admit(&program, own.port, &own.flow.decision())?;
        }
        let tape = options.tape.as_ref().map(|path| {
            let heads: Vec<_> = flows.iter().map(|own| (own.port, own.flow.settings())).collect();
            TapeWriter::new(BufWriter::new(File::create(path)?), &heads)
        });
        let tape = tape.transpose().map_err(|error| HostError::step("create the event tape", error))?;
        let over = Arc::new(AtomicBool::new(false));
        let agent = Agent {
            program,
            flows,
            over: Arc::clone(&over),
            until_ns: options.agent_until.map_or(u64::MAX, |until| origin + until.as_nanos()),
            tape,
            delays: Histogram::new(),
            batches: Histogram::new(),
        };
        let thread = thread::Builder::new().name("narrows-shim".to_owned()).spawn(move || agent.run());
        let thread = thread.map_err(|error| HostError::step("start the agent of the BPF shim", error))?;
        Ok(Self { name, handles, over, thread: Some(thread) })
    }

    /// The kernel's name of the scheme.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The handle of a flow's socket, if the flow runs over the shim.
    pub(crate) fn handle(&self, flow: usize) -> Option<Handle> {
        self.handles.iter().find(|(number, _)| *number == flow).map(|(_, handle)| Arc::clone(handle))
    }

    /// Ends the agent and removes the scheme from the kernel.
    pub(crate) fn finish(mut self) -> Result<result::Shim, HostError> {
        self.over.store(true, Ordering::Relaxed);
        let crashed = || {
            let error = std::io::Error::other("its thread ended early");
            HostError::step("run the agent of the BPF shim", error)
        };
        self.thread.take().ok_or_else(crashed)?.join().map_err(|_| crashed())?
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Agent {
    fn run(mut self) -> Result<result::Shim, HostError> {
        // Without the right, the agent runs at normal priority; the decision delay in the result shows the effect.
        let mut budget = Budget::begin(PRIORITY);
        let batch = RefCell::new(Vec::<Record>::new());
        let Self { program, flows, over, until_ns, tape, delays, batches } = &mut self;
        let (records, decisions) = (program.map("records")?, program.map("decisions")?);
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            let mut batch = batch.borrow_mut();
            batch.extend(Record::read(bytes));
            if batch.len() < BATCH { 0 } else { -Errno::AGAIN.raw_os_error() }
        };
        let added = builder.add(&records, take).map(|_| ());
        let ring = added.and_then(|()| builder.build());
        let ring = ring.map_err(|error| failed("open the ring buffer of the BPF shim", &error))?;
        while !over.load(Ordering::Relaxed) {
            if monotonic() >= *until_ns {
                thread::sleep(TICK);
                continue;
            }
            budget.look();
            match ring.poll(TICK) {
                Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => continue,
                // The batch is full; the other records wait for the next batch.
                Err(error) if error.kind() == libbpf_rs::ErrorKind::WouldBlock => {}
                done => done.map_err(|error| failed("read the ring buffer of the BPF shim", &error))?,
            }
            let mut batch = batch.borrow_mut();
            if batch.is_empty() {
                continue;
            }
            batches.record(batch.len() as u64);
            for record in batch.iter() {
                let Some((place, own)) = find(flows, record.port) else { continue };
                own.flow.on_record(record);
                (own.events, own.waiting) = (own.events + 1, true);
                if let Some(tape) = tape {
                    let entry = TapeEntry { flow: place, record: *record, decision: own.flow.decision() };
                    tape.push(&entry).map_err(|error| HostError::step("write the event tape", error))?;
                }
            }
            for own in flows.iter_mut().filter(|own| own.waiting) {
                own.waiting = false;
                program::decide(&decisions, own.port, &own.flow.decision())?;
                if own.flow.allows_more() {
                    push(&own.socket);
                }
            }
            let now = monotonic();
            for record in batch.drain(..) {
                delays.record(now.saturating_sub(record.time_ns));
            }
        }
        drop((ring, records, decisions));
        self.finish()
    }

    fn finish(self) -> Result<result::Shim, HostError> {
        if let Some(tape) = self.tape {
            tape.finish().map_err(|error| HostError::step("write the event tape", error))?;
        }
        let mut total = Counters::default();
        let mut flows = Vec::with_capacity(self.flows.len());
        for own in &self.flows {
            let Counters { calls, decisions, fallbacks, drops } = program::counters(&self.program, own.port)?;
            total.decisions += decisions;
            total.fallbacks += fallbacks;
            total.drops += drops;
            total.calls += calls;
            let scheme = own.flow.settings().scheme.info.name;
            flows.push(result::ShimFlow { flow: own.label.clone(), scheme, events: calls, decisions, fallbacks });
        }
        Ok(result::Shim {
            flows,
            events: total.calls,
            decisions: total.decisions,
            drops: total.drops,
            fallbacks: total.fallbacks,
            decision_delay_mean_us: self.delays.mean() / 1e3,
            decision_delay_p99_us: self.delays.quantile(0.99) / 1e3,
            batch_mean: self.batches.mean(),
            batch_max: self.batches.max().unwrap_or(0),
        })
    }
}

/// Makes the kernel try to send, so that it reads the decision: a socket sends waiting data when its cork is removed.
fn push(socket: &Handle) {
    if let Ok(socket) = socket.lock()
        && let Some(socket) = socket.as_ref()
    {
        // Errors are ignored: a socket that has ended has nothing to send.
        let _ = sockopt::set_tcp_cork(socket, false);
    }
}

/// The flow with this port, and its index. Flows are sorted by port.
fn find(flows: &mut [Own], port: u32) -> Option<(usize, &mut Own)> {
    let place = flows.binary_search_by_key(&port, |own| own.port.into()).ok()?;
    flows.get_mut(place).map(|own| (place, own))
}
