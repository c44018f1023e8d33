//! Negotiated rates on the hosts: messages travel as UDP datagrams, which the emulator turns into the engine's control
//! messages, so that the simulator's router algorithms answer and adjust.
//!
//! ```text
//! senders' host                        emulator                          receivers' host
//! requester ── UDP, port of flow ──> control message ──> links, routers ──> UDP ── responder
//!     │                                                       │
//!     └── rate ──> grants[socket], program <── UDP <── answer, adjustment
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use narrows_cc::{Bytes, Nanos, Random, Setup};
use narrows_host::HostError;
use narrows_host::netlink::Netlink;
use narrows_negotiation::{Counts, Flow, PORT};
use narrows_packet::{ControlMessage, Flags, Packet};
use narrows_programs::{Grant, Grants, Program};
use narrows_routers::endpoint::Responder;
use narrows_scenario::{Plan, result};
use narrows_tcp::rates::RateSetup;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::datagram::write_datagram;
use crate::scheme::Scheme;

/// Longest wait of the responders.
const TICK: Duration = Duration::from_millis(20);
/// Maximum number of datagrams that a requester reads per step.
const BATCH: usize = 64;
/// Marks events of requesters' sockets.
const MESSAGES: u64 = 1 << 63;

/// The program that the negotiating flows use during a run, and counters of these flows.
#[derive(Debug)]
pub(super) struct Negotiation {
    grants: Grants,
    totals: Totals,
}

/// Sums over flows.
#[derive(Debug, Default)]
struct Totals {
    flows: AtomicU64,
    messages_sent: AtomicU64,
    messages_received: AtomicU64,
    refused: AtomicU64,
    answered: AtomicU64,
}

impl Negotiation {
    /// Loads the program if a flow negotiates. All negotiating flows must have the same parameters.
    pub(super) fn start(plan: &Plan, schemes: &[Scheme]) -> Result<Option<Arc<Self>>, HostError> {
        let mut own = plan.flows.iter().zip(schemes).filter(|(_, scheme)| **scheme == Scheme::Negotiated);
        let Some((first, _)) = own.next() else { return Ok(None) };
        let program = Program::negotiating();
        let wanted = program.parameters(&first.params)?;
        if let Some((other, _)) = own.find(|(flow, _)| program.parameters(&flow.params).ok().as_ref() != Some(&wanted))
        {
            return Err(HostError::Unsupported(format!(
                "`{}` and `{}` negotiate with different parameters; accepted on the kernel: one set for all flows",
                first.label, other.label
            )));
        }
        // Parameters given to `narrows kernel load` apply unless the scenario sets parameters.
        let own = first.params.changed().next().is_some();
        let grants = if own { Grants::load(program, &first.params)? } else { Grants::open(program)? };
        Ok(Some(Arc::new(Self { grants, totals: Totals::default() })))
    }

    /// The kernel's name of the scheme.
    pub(super) fn name(&self) -> &str {
        self.grants.name()
    }

    /// Whether the program was loaded for this run, under a unique name.
    pub(super) fn is_private(&self) -> bool {
        self.grants.is_private()
    }

    /// The requester of flow `number` of the plan.
    pub(super) fn requester(
        self: &Arc<Self>,
        plan: &Plan,
        number: usize,
        (local, remote): (SocketAddrV4, SocketAddrV4),
    ) -> Requester {
        let flow = &plan.flows[number];
        let segment = Bytes::new(flow.tcp.segment.into());
        let scheme = flow.scheme.build(
            &Setup::new(segment, flow.params.clone(), Random::stream(plan.seed, "scheme", number as u64))
                .with_window(flow.tcp.initial_window)
                .with_sack(flow.tcp.sack),
        );
        let setup = RateSetup { segment: flow.tcp.segment, data_header: flow.tcp.header, line: scheme.line_rate() };
        self.totals.flows.fetch_add(1, Ordering::Relaxed);
        Requester {
            flow: Flow::new(&flow.negotiation, &setup, (local, remote)),
            local,
            remote: SocketAddrV4::new(*remote.ip(), PORT),
            open: None,
            run: Arc::clone(self),
        }
    }

    /// Counters for the result of the run.
    pub(super) fn report(&self) -> Result<result::Negotiation, HostError> {
        let counts = self.grants.counts()?;
        let total = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Ok(result::Negotiation {
            flows: total(&self.totals.flows),
            messages_sent: total(&self.totals.messages_sent),
            messages_received: total(&self.totals.messages_received),
            messages_refused: total(&self.totals.refused),
            requests_answered: total(&self.totals.answered),
            grants: counts.grants,
            withdrawals: counts.withdrawn,
            grants_ignored: counts.ignored,
            acks: counts.acks,
            acks_granted: counts.granted_acks,
        })
    }
}

/// The requester of a flow on the senders' host.
#[derive(Debug)]
pub(super) struct Requester {
    flow: Flow,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    open: Option<(UdpSocket, Netlink)>,
    run: Arc<Negotiation>,
}

/// The flow whose requester's socket has an event, if any.
pub(super) fn flow_of_event(data: u64) -> Option<usize> {
    (data & MESSAGES != 0).then_some((data & !MESSAGES) as usize)
}

impl Requester {
    /// Opens the socket for messages, with the local port of the connection. Call it in the senders' host.
    pub(super) fn open(&mut self, poll: &OwnedFd, number: u64) -> io::Result<()> {
        let socket = UdpSocket::bind(self.local)?;
        socket.set_nonblocking(true)?;
        epoll::add(poll, &socket, epoll::EventData::new_u64(number | MESSAGES), epoll::EventFlags::IN)?;
        self.open = Some((socket, Netlink::diagnostics()?));
        Ok(())
    }

    pub(super) fn blocks_data(&self) -> bool {
        self.flow.blocks_data()
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.flow.deadline()
    }

    /// Reads messages, advances the negotiation, and sends messages; see [`Flow::step`].
    pub(super) fn step(
        &mut self,
        now: Nanos,
        socket: BorrowedFd<'_>,
        unwritten: u64,
        state: (bool, bool),
    ) -> Result<(), HostError> {
        let Some((messages, netlink)) = &mut self.open else { return Ok(()) };
        let failed = |error| HostError::step("read the state of a connection", error);
        let mut changed = self.flow.step(now, netlink, unwritten, state).map_err(failed)?;
        let mut bytes = [0; 64];
        for _ in 0..BATCH {
            match messages.recv_from(&mut bytes) {
                Ok((length, _)) => {
                    let read = self.flow.on_datagram(now, netlink, unwritten, &bytes[..length]);
                    changed = read.map_err(failed)?.or(changed);
                }
                // Any error ends the reading of messages; an unreachable peer counts as silent.
                Err(_) => break,
            }
        }
        self.settle(now, socket, changed)
    }

    /// Reports a write to the flow's negotiation. Call it when the application is about to write.
    pub(super) fn on_write(&mut self, now: Nanos, socket: BorrowedFd<'_>) -> Result<(), HostError> {
        let changed = self.flow.on_write(now);
        self.settle(now, socket, changed)
    }

    fn settle(&mut self, now: Nanos, socket: BorrowedFd<'_>, changed: Option<Grant>) -> Result<(), HostError> {
        if let Some(grant) = changed {
            self.run.grants.set(socket, grant)?;
        }
        while let Some(message) = self.flow.poll_message(now) {
            if let Some((messages, _)) = &self.open {
                // If sending fails, the message counts as lost: the negotiation sends it again after its timeout.
                let _ = messages.send_to(message.as_bytes(), self.remote);
            }
        }
        Ok(())
    }
}

impl Drop for Requester {
    fn drop(&mut self) {
        let Counts { sent, received, refused, .. } = self.flow.counts;
        let totals = &self.run.totals;
        totals.messages_sent.fetch_add(sent, Ordering::Relaxed);
        totals.messages_received.fetch_add(received, Ordering::Relaxed);
        totals.refused.fetch_add(refused, Ordering::Relaxed);
    }
}

/// The responders of all flows, on the receivers' host.
#[derive(Debug)]
pub(super) struct Responders {
    socket: UdpSocket,
    responders: Vec<Responder>,
    run: Arc<Negotiation>,
}

impl Responders {
    /// Opens the common socket of the responders. Call it in the receivers' host.
    pub(super) fn open(plan: &Plan, run: &Arc<Negotiation>) -> Result<Self, HostError> {
        let opened = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
            socket.set_read_timeout(Some(TICK))?;
            Ok(socket)
        };
        let socket = opened().map_err(|error| HostError::step("open the responders' socket", error))?;
        let responders = plan.flows.iter().map(|flow| Responder::new(&flow.negotiation)).collect();
        Ok(Self { socket, responders, run: Arc::clone(run) })
    }

    /// Answers requests until `over`. Flow `n` has source port `ports + n`.
    pub(super) fn answer(mut self, ports: u16, over: &AtomicBool) {
        let mut bytes = [0; 64];
        while !over.load(Ordering::Relaxed) {
            let Ok((length, from)) = self.socket.recv_from(&mut bytes) else { continue };
            let flow = usize::from(from.port().wrapping_sub(ports));
            if length > ControlMessage::MAX_BYTES {
                continue;
            }
            let Some(responder) = self.responders.get_mut(flow) else { continue };
            responder.on_packet(&Packet::control(flow as u32, Flags::NONE, &bytes[..length]));
            while let Some((answer, _)) = responder.poll() {
                self.run.totals.answered.fetch_add(1, Ordering::Relaxed);
                let _ = self.socket.send_to(answer.as_bytes(), from);
            }
        }
    }
}

/// The datagram that carries a message of the engine to a real host.
pub(super) fn to_host(plan: &Plan, ports: u16, packet: &Packet) -> Vec<u8> {
    let tuple = &plan.flows[packet.flow as usize].tuple;
    let sender = SocketAddrV4::new(tuple.source.into(), ports + packet.flow as u16);
    let receiver = SocketAddrV4::new(tuple.destination.into(), PORT);
    let message = packet.message();
    if packet.flags.has(Flags::REVERSE) {
        write_datagram(receiver, sender, message.as_bytes())
    } else {
        write_datagram(sender, receiver, message.as_bytes())
    }
}
