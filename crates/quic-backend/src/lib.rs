//! Scenarios on real QUIC: one noq connection per flow, over UDP sockets, through the simulator's network in
//! real time. The backend needs no privileges: the sockets are on loopback, or in network namespaces if this
//! process may create them.
//!
//! ```text
//! senders ─ sockets ─┐                      ┌─ sockets ─ receivers
//!  (one thread)      └─ relay: the engine ──┘    (one thread)
//! ```
//! Links, queues, loss, traces and metrics are those of `narrows-sim`, as on the kernel backend. A datagram
//! enters the network when the relay reads it. Packets are encrypted, so the endpoints report the congestion
//! window, RTT samples, losses and delivered data.
//!
//! The backend drives noq's state machine directly, because an asynchronous runtime would round timers to
//! milliseconds. The code is not part of `narrows-quic`, because a service needs neither the simulator nor
//! these sockets. Runs at low rates keep one processor awake ([`narrows_host::awake`]).

#![cfg(target_os = "linux")]
// This crate runs in wall time.
#![allow(clippy::disallowed_methods)]

mod hosts;
mod meter;
mod packets;
mod peer;
mod place;
mod relay;
mod support;
mod tap;
#[cfg(test)]
mod tests;
mod tls;
mod udp;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use hosts::{Receiving, Sending};
use meter::{Meter, Metered};
use narrows_cc::{Nanos, Random, Rate};
use narrows_emulation::{Emulation, Ending, Watch, attempts, load, unsent};
use narrows_host::HostError;
use narrows_host::awake::Awake;
use narrows_host::clock::Clock;
use narrows_host::descriptors::raise_socket_limit;
use narrows_quic::noq::Factory;
use narrows_scenario::result::{Host, RunResult};
use narrows_scenario::{FlowPlan, Plan};
use narrows_sim::{Engine, Observer};
use narrows_traffic::App;
use noq_proto::TransportConfig;
use peer::Peer;
use place::{Place, Spaces};
use relay::{HEADERS, Relay};
use tap::{ReceiverTap, SenderTap};
use tls::Keys;

pub use support::Options;

/// Largest total rate at which the backend keeps one processor awake. At higher rates no processor sleeps for long.
const QUIET: Rate = Rate::from_bytes_per_sec(12_500_000);
/// Time between the preparation of the endpoints and the start of the flows.
const LEAD: Duration = Duration::from_millis(20);
/// Longest interval between readings of a scheme's internal values.
const READINGS: Nanos = Nanos::from_millis(100);
/// UDP payload of a packet of 1500 bytes.
const DATAGRAM: u16 = 1500 - HEADERS as u16;

/// Refuses a plan that QUIC cannot run.
///
/// # Errors
/// The reason, with what is accepted.
pub fn check(plan: &Plan, options: &Options) -> Result<(), HostError> {
    support::check(plan, options)
}

/// Runs a plan; `None` if cancelled. A run that the machine disturbed is repeated with a new observer.
///
/// # Errors
/// If QUIC cannot run the plan, a connection fails, or the system refuses a step.
pub fn run<O: Observer + Send>(
    plan: &Plan,
    options: &Options,
    observer: impl FnMut() -> io::Result<O>,
    watch: &dyn Watch,
) -> Result<Option<(RunResult, O)>, HostError> {
    check(plan, options)?;
    attempts(observer, |own| once(plan, options, own, watch))
}

/// The endpoints of a run and the relay between them.
struct Ends {
    senders: Vec<Sending>,
    receivers: Vec<Receiving>,
    relay: Relay,
    meters: Vec<Arc<Meter>>,
    /// Names of the running schemes.
    names: Vec<String>,
    /// The namespaces of the endpoints.
    spaces: Spaces,
}

fn transport(controller: Option<Factory>, window: u64) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let window = u32::try_from(window).unwrap_or(u32::MAX).min(1 << 30);
    config
        .initial_mtu(DATAGRAM)
        .min_mtu(DATAGRAM)
        .mtu_discovery_config(None)
        .max_idle_timeout(None)
        .receive_window(window.into())
        .stream_receive_window(window.into());
    if let Some(controller) = controller {
        config.congestion_controller_factory(controller);
    }
    Arc::new(config)
}

fn ends(plan: &Plan, options: &Options) -> Result<Ends, HostError> {
    if plan.flows.len() * 2 > raise_socket_limit() {
        return Err(HostError::Unsupported(format!(
            "the scenario has {} flows, which need two sockets each; accepted: as many as open files allow (ulimit -Hn)",
            plan.flows.len()
        )));
    }
    let keys = Keys::new()?;
    let Place { sockets: [near, far], remotes, relay, spaces } = place::open(plan, options.loopback)?;
    let (mut near, mut far) = (near.into_iter(), far.into_iter());
    let (mut senders, mut receivers, mut meters, mut names) = (vec![], vec![], vec![], vec![]);
    let unsent = unsent(plan);
    for (number, flow) in plan.flows.iter().enumerate() {
        let (factory, name) = support::controller(flow, number, plan.seed, options)?;
        let meter = Arc::new(Meter::new());
        let (Some(near), Some(far)) = (near.next(), far.next()) else { break };
        let window = flow.tcp.receive_window.as_u64();
        let mut client = keys.client();
        client.transport_config(transport(Some(Metered::factory(factory, Arc::clone(&meter))), window));
        let mut server = keys.server()?;
        server.transport_config(transport(None, window));
        let random = Random::stream(plan.seed, "app", number as u64);
        senders.push(Sending {
            peer: Peer::new(near, remotes[0][number], None),
            label: flow.label.clone(),
            start: flow.start,
            stop: flow.stop,
            app: App::new(flow.app, random, flow.start),
            config: Some(client),
            meter: Arc::clone(&meter),
            unsent,
            interval: plan.trace.samples.unwrap_or(READINGS).min(READINGS),
            reading: flow.start,
            connected: false,
            stream: None,
            written: 0,
            finished: false,
        });
        receivers.push(Receiving {
            peer: Peer::new(far, remotes[1][number], Some(Arc::new(server))),
            meter: Arc::clone(&meter),
            stream: None,
        });
        meters.push(meter);
        names.push(name);
    }
    Ok(Ends { senders, receivers, relay, meters, names, spaces })
}

/// Sum of the rates of all links that are the bottleneck of some flow's path.
fn most_demand(plan: &Plan) -> Rate {
    let rate = |link: usize| plan.links[link].config.capacity.mean_rate();
    let slowest = |flow: &FlowPlan| flow.path.forward.iter().map(|hop| hop.link).min_by_key(|link| rate(*link));
    let narrow: BTreeSet<usize> = plan.flows.iter().filter_map(slowest).collect();
    let sum = narrow.into_iter().fold(0_u64, |sum, link| sum.saturating_add(rate(link).as_bytes_per_sec()));
    Rate::from_bytes_per_sec(sum)
}

/// Runs a plan once.
fn once<O: Observer + Send>(
    plan: &Plan,
    options: &Options,
    observer: O,
    watch: &dyn Watch,
) -> Result<Option<(RunResult, O)>, HostError> {
    let Ends { senders, receivers, relay, meters, names, spaces } = ends(plan, options)?;
    let (over, spaces) = (AtomicBool::new(false), &spaces);
    let awake = &(most_demand(plan) <= QUIET).then(Awake::begin);
    let stay = || awake.as_ref().map_or((), Awake::stay);
    let clock = Clock::from(Instant::now() + LEAD);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            stay();
            hosts::serve(senders, clock, &over)
        });
        let receiving = scope.spawn(|| {
            stay();
            hosts::serve(receivers, clock, &over)
        });
        let (sending_ends, receiving_ends) = (&sending, &receiving);
        let failed = move || sending_ends.is_finished() || receiving_ends.is_finished();
        // When the relay ends, for any reason, it stops the other threads.
        let ending = Ending(&over);
        let emulate = move || {
            stay();
            let mut engine = Engine::observed(plan.clone(), observer);
            for (number, meter) in (0..).zip(&meters) {
                let (sender, receiver) = (SenderTap::new(Arc::clone(meter)), ReceiverTap::new(Arc::clone(meter)));
                engine.attach(number, Box::new(sender), Box::new(receiver));
            }
            let done = Emulation::new(plan, engine, relay, clock).run(watch, &failed);
            // Read the drop counters before the sockets close, because closing removes the counters.
            let dropped = spaces.dropped();
            drop(ending);
            let Some(done) = done? else { return Ok(None) };
            let (real_time, lateness, cpu) = (done.real_time, done.late.report(), done.cpu_us_per_packet());
            let disturbed = done.late.is_disturbed() || dropped > 0;
            let (mut result, observer) = done.finish();
            result.host = Some(Host {
                on: if options.own { "noq" } else { "quic" },
                kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
                schemes: names,
                between: Some(spaces.name()),
                offload: spaces.name() == "loopback",
                sysctls: spaces.sysctls.clone(),
                real_time,
                lateness,
                cpu_us_per_packet: cpu,
                load: load(),
                attempts: 1,
                disturbed,
                shim: None,
                negotiation: None,
                rates: None,
                socket_drops: Some(dropped),
            });
            Ok(Some((result, observer)))
        };
        // Use a separate thread, because its priority ends with it.
        let emulated = thread::scope(|inner| inner.spawn(emulate).join());
        let ended = emulated.map_err(|_| HostError::crashed("the relay"));
        sending.join().map_err(|_| HostError::crashed("the senders"))??;
        receiving.join().map_err(|_| HostError::crashed("the receivers"))??;
        ended?
    })
}
