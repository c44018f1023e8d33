//! The simulator's engine between two hosts: network namespaces whose packets pass through TUN devices.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use narrows_cc::{Nanos, Random};
use narrows_emulation::{Done, Emulation, Ending, Late, PRIORITY, TICK, Watch, Wire, load};
use narrows_host::HostError;
use narrows_host::clock::{Clock, hurry};
use narrows_host::descriptors::{raise_socket_limit, wait_readable};
use narrows_host::namespace::{self, HostConfig, dotted};
use narrows_host::netlink::Netlink;
use narrows_packet::real::set_ecn;
use narrows_packet::{Flags, Kind, Packet};
use narrows_scenario::result::{Host, RunResult};
use narrows_scenario::{FlowPlan, Plan};
use narrows_sim::{Engine, Observer};
use narrows_traffic::{App, AppConfig};
use tun_rs::SyncDevice;

use crate::arrivals::Arrivals;
use crate::hosts::{self, Client};
use crate::negotiation::{self, Negotiation, Responders};
use crate::options::Options;
use crate::reading;
use crate::scheme::{Scheme, negotiates};
use crate::shim::Shim;
use crate::tap::{Latest, ReceiverTap, SenderTap};
use crate::{rates, support};

/// Time between the preparation of the hosts and the start of the run.
const LEAD: Duration = Duration::from_millis(20);
/// Longest interval between two readings of the senders' state.
const READINGS: Nanos = Nanos::from_millis(100);
/// Local port of the first flow's sender; flow `n` uses `PORTS + n`.
const PORTS: u16 = 10_000;
const MAX_FLOWS: usize = 50_000;
/// Priority of the receivers' thread. It is above the priority of the emulator, which could otherwise deliver a whole
/// burst before the receivers read: while data waits to be read, Linux neither acknowledges every second segment nor
/// grows the receive buffer.
const READING: u8 = PRIORITY + 1;

/// Runs a plan once; `None` if cancelled.
pub(super) fn run<O: Observer + Send>(
    plan: &Plan,
    options: &Options,
    observer: O,
    watch: &dyn Watch,
) -> Result<Option<(RunResult, O)>, HostError> {
    let schemes = support::schemes(plan, options)?;
    let (mut senders, receivers) = support::hosts(plan)?;
    senders.burst = support::largest_burst(plan, &schemes);
    // Descriptors per flow: the sender's, the receiver's, and a second one of the sender's for the shim.
    let per_flow = if schemes.contains(&Scheme::Ours) { 3 } else { 2 };
    let most = MAX_FLOWS.min(raise_socket_limit() / per_flow);
    if plan.flows.len() > most {
        let message = format!(
            "the scenario has {} flows; accepted on the kernel: at most {most}, as far as open files allow (ulimit -Hn)",
            plan.flows.len()
        );
        return Err(HostError::Unsupported(message));
    }
    // The scheme stays registered from before the first socket opens until after the last one closes.
    let ours: Vec<usize> = (0..schemes.len()).filter(|number| schemes[*number] == Scheme::Ours).collect();
    let shim = (!ours.is_empty()).then(|| Shim::start(plan, &ours, PORTS, options)).transpose()?;
    let negotiation = Negotiation::start(plan, &schemes)?;
    let advised = rates::Run::start(plan, |flow| schemes[flow] == Scheme::Advised)?;
    let names: Vec<String> = schemes
        .into_iter()
        .map(|scheme| match scheme {
            Scheme::Kernel(name) => name,
            Scheme::Ours => shim.as_ref().map(|shim| shim.name().to_owned()).unwrap_or_default(),
            Scheme::Negotiated => negotiation.as_ref().map(|own| own.name().to_owned()).unwrap_or_default(),
            Scheme::Advised => advised.as_ref().map(|own| own.name().to_owned()).unwrap_or_default(),
        })
        .collect();
    // Receivers answer offers only if they use the senders' scheme.
    let listening = advised.as_ref().map(|own| own.name().to_owned());
    let latest: Vec<Latest> = plan.flows.iter().map(|_| Latest::default()).collect();
    let over = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        // Every exit from this function ends the threads of the hosts too.
        let ending = Ending(&over);
        let (left, right) = (mpsc::channel(), mpsc::channel());
        let (go_left, start_left) = mpsc::channel();
        let (over, receivers) = (&over, &receivers);
        let clients = clients(plan, &names, shim.as_ref(), negotiation.as_ref());
        let responding = negotiation.clone();
        let readers = readers(plan, &latest, &clients, senders.clone());
        let sending = scope.spawn(move || {
            let (device, netlink) = readers.enter()?;
            if left.0.send(device).is_err() {
                return Ok(());
            }
            let Ok(clock) = start_left.recv() else { return Ok(()) };
            thread::scope(|inner| {
                let reading = inner.spawn(move || readers.read(netlink, clock, over));
                let sent = hosts::send(clients, clock, over);
                // `send` returns before the end of the run only if a sender fails. Setting `over` then ends the
                // readings too.
                over.store(true, Ordering::Relaxed);
                reading.join().map_err(|_| HostError::crashed("the readings"))??;
                sent
            })
        });
        let receiving = scope.spawn(move || {
            let device = namespace::enter(receivers)?;
            let mut ports: Vec<u16> = plan.flows.iter().map(|flow| flow.tuple.destination_port).collect();
            ports.sort_unstable();
            ports.dedup();
            let tcp = &plan.flows[0].tcp;
            let buffer = (!tcp.receive_autotuning).then_some(tcp.receive_window);
            let listeners = hosts::listen(&ports, buffer, listening.as_deref())?;
            let responders = responding.map(|run| Responders::open(plan, &run)).transpose()?;
            if right.0.send(device).is_err() {
                return Ok(());
            }
            thread::scope(|inner| {
                // Spawned before the priority is raised, because threads inherit it.
                let answering = responders.map(|own| inner.spawn(move || own.answer(PORTS, over)));
                hurry(READING);
                let received = hosts::receive(&listeners, over);
                if answering.is_some_and(|answering| answering.join().is_err()) {
                    return Err(HostError::crashed("the responders"));
                }
                received
            })
        });
        let devices = left.1.recv().ok().zip(right.1.recv().ok());
        let Some((left, right)) = devices else {
            drop((ending, go_left)); // the senders' host may wait for the start
            sending.join().map_err(|_| HostError::crashed("the senders' host"))??;
            receiving.join().map_err(|_| HostError::crashed("the receivers' host"))??;
            return Err(HostError::crashed("a host"));
        };
        // The devices stay open until the hosts have ended: a flow may open at the very end of the run.
        let devices = [left, right];
        let clock = Clock::from(Instant::now() + LEAD);
        if go_left.send(clock).is_err() {
            return Err(HostError::crashed("the senders' host"));
        }
        let failed = || sending.is_finished() || receiving.is_finished();
        // A separate thread, so that the real-time priority ends with it.
        let ended = thread::scope(|inner| {
            let emulate = || {
                let forgery = rates::Forger::new(options.forgery);
                let done = emulation(plan, observer, &latest, &devices, clock, forgery).run(watch, &failed)?;
                Ok::<_, HostError>(done.map(|done| finish(done, &latest, &names, &senders)))
            };
            inner.spawn(emulate).join()
        });
        drop(ending);
        sending.join().map_err(|_| HostError::crashed("the senders' host"))??;
        receiving.join().map_err(|_| HostError::crashed("the receivers' host"))??;
        ended.map_err(|_| HostError::crashed("the emulator"))?
    })?;
    let Some((mut result, observer)) = ended else { return Ok(None) };
    if let Some(host) = &mut result.host {
        let rename = |host: &mut Host, private: &str| {
            let schemes = host.schemes.iter_mut().zip(&plan.flows).filter(|(scheme, _)| *scheme == private);
            schemes.for_each(|(scheme, flow)| *scheme = format!("narrows:{}", flow.scheme.info.name));
        };
        if let Some(shim) = shim {
            rename(host, shim.name());
            host.shim = Some(shim.finish()?);
        }
        if let Some(negotiation) = negotiation {
            if negotiation.is_private() {
                rename(host, negotiation.name());
            }
            host.negotiation = Some(negotiation.report()?);
        }
        if let Some(run) = advised {
            run.finish(host)?;
        }
    }
    Ok(Some((result, observer)))
}

fn port(flow: usize) -> u16 {
    PORTS + flow as u16
}

fn clients(
    plan: &Plan,
    schemes: &[String],
    shim: Option<&Shim>,
    negotiation: Option<&Arc<Negotiation>>,
) -> Vec<Client> {
    let client = |(number, (flow, scheme)): (usize, (&FlowPlan, &String))| {
        let random = Random::stream(plan.seed, "app", number as u64);
        let local = SocketAddrV4::new(Ipv4Addr::from(flow.tuple.source), port(number));
        let remote = SocketAddrV4::new(Ipv4Addr::from(flow.tuple.destination), flow.tuple.destination_port);
        let own = negotiation.filter(|_| negotiates(flow));
        Client {
            local,
            remote,
            scheme: scheme.clone(),
            start: flow.start,
            stop: flow.stop,
            app: App::new(flow.app, random, flow.start),
            buffer: flow.tcp.receive_window,
            handle: shim.and_then(|shim| shim.handle(number)),
            requester: own.map(|own| own.requester(plan, number, (local, remote))),
        }
    };
    plan.flows.iter().zip(schemes).enumerate().map(client).collect()
}

/// Reads the kernel's reports on all senders, at equal intervals.
struct Readers {
    host: HostConfig,
    /// Local address, remote address and latest reading of each flow.
    flows: Vec<(SocketAddrV4, SocketAddrV4, Latest)>,
    interval: Nanos,
}

fn readers(plan: &Plan, latest: &[Latest], clients: &[Client], host: HostConfig) -> Readers {
    let flows = clients.iter().zip(latest).map(|(own, latest)| (own.local, own.remote, latest.clone()));
    Readers { host, flows: flows.collect(), interval: plan.trace.samples.unwrap_or(READINGS).min(READINGS) }
}

impl Readers {
    fn enter(&self) -> Result<(SyncDevice, Netlink), HostError> {
        let device = namespace::enter(&self.host)?;
        let netlink = Netlink::diagnostics().map_err(|error| HostError::step("open a netlink socket", error))?;
        Ok((device, netlink))
    }

    fn read(&self, mut netlink: Netlink, clock: Clock, over: &AtomicBool) -> Result<(), HostError> {
        // Each reading is taken shortly before the sample that reports it.
        let early = Nanos::from_millis(1).min(self.interval / 4);
        let mut next = Nanos::ZERO;
        loop {
            let last = over.load(Ordering::Relaxed);
            for (local, remote, latest) in &self.flows {
                let reading = match reading::read(&mut netlink, *local, *remote) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(HostError::step("read the state of connections", error));
                    }
                    reading => reading.ok().flatten(),
                };
                let Ok(mut latest) = latest.lock() else { continue };
                match (reading, &mut *latest) {
                    (Some(reading), latest) => *latest = Some(reading),
                    (None, Some(ended)) => ended.open = false,
                    (None, None) => {} // the flow has not begun
                }
            }
            if last {
                return Ok(());
            }
            while next <= clock.now() + early {
                next += self.interval;
            }
            loop {
                let wait = clock.until(next - early);
                if wait.is_zero() || over.load(Ordering::Relaxed) {
                    break;
                }
                thread::sleep(wait.min(TICK));
            }
        }
    }
}

/// The devices of senders and receivers.
struct Tuns<'a> {
    plan: &'a Plan,
    devices: &'a [SyncDevice; 2],
    /// Whether packets may wait in them.
    ready: [bool; 2],
    arrivals: Arrivals,
    /// Forges rates in TCP options.
    forgery: rates::Forger,
}

impl Wire for Tuns<'_> {
    fn read(&mut self, now: Nanos, late: &mut Late) -> Result<(), HostError> {
        self.arrivals.read(self.devices, &mut self.ready, now, late)
    }

    fn packets(&self) -> impl Iterator<Item = (Nanos, Packet, &[u8])> {
        self.arrivals.packets()
    }

    fn count(&self) -> u64 {
        self.arrivals.packets
    }

    fn deliver(&mut self, packet: &Packet, bytes: &mut [u8]) -> io::Result<()> {
        let host = usize::from(!packet.flags.has(Flags::REVERSE));
        let sent = if packet.kind() == Kind::Message {
            self.devices[host].send(&negotiation::to_host(self.plan, PORTS, packet))
        } else {
            set_ecn(bytes, packet.ecn());
            rates::write(packet, bytes, &mut self.forgery);
            self.devices[host].send(bytes)
        };
        sent.map(|_| ())
    }

    /// With `most` = 0, only checks for packets.
    fn wait(&mut self, most: Duration) -> Result<(), HostError> {
        if !self.ready.contains(&true) {
            self.ready = wait_readable(self.devices.each_ref(), most)?;
        }
        Ok(())
    }
}

fn emulation<'a, O: Observer>(
    plan: &'a Plan,
    observer: O,
    latest: &[Latest],
    devices: &'a [SyncDevice; 2],
    clock: Clock,
    forgery: rates::Forger,
) -> Emulation<'a, O, Tuns<'a>> {
    let mut engine = Engine::observed(plan.clone(), observer);
    for (number, (flow, latest)) in plan.flows.iter().zip(latest).enumerate() {
        let size = match flow.app {
            AppConfig::File(size) => Some(size.as_u64()),
            _ => None,
        };
        let sender = SenderTap::new(latest.clone(), size);
        engine.attach(number as u32, Box::new(sender), Box::new(ReceiverTap::default()));
    }
    let arrivals = Arrivals::new(plan.flows.len(), PORTS);
    Emulation::new(plan, engine, Tuns { plan, devices, ready: [true; 2], arrivals, forgery }, clock)
}

/// Returns the result and the observer.
fn finish<O: Observer>(
    done: Done<O, Tuns<'_>>,
    latest: &[Latest],
    names: &[String],
    host: &HostConfig,
) -> (RunResult, O) {
    let (real_time, lateness, cpu_us_per_packet) = (done.real_time, done.late.report(), done.cpu_us_per_packet());
    let disturbed = done.late.is_disturbed();
    let (mut result, observer) = done.finish();
    // A flow that began and ended between two readings has no report; its scheme is the one that its socket accepted.
    let schemes = latest.iter().zip(names).map(|(latest, name)| {
        let reading = latest.lock().ok();
        reading.and_then(|reading| Some(reading.as_ref()?.scheme.clone())).unwrap_or_else(|| name.clone())
    });
    result.host = Some(Host {
        on: "kernel",
        between: None,
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        schemes: schemes.collect(),
        sysctls: host.sysctls.iter().map(|(name, value)| (dotted(name), value.clone())).collect(),
        offload: false,
        real_time,
        lateness,
        cpu_us_per_packet,
        load: load(),
        attempts: 1,
        disturbed,
        shim: None,
        negotiation: None,
        socket_drops: None,
        rates: None,
    });
    (result, observer)
}
