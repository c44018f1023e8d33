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
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use narrows_cc::{Bytes, Nanos, Random, Setup};
use narrows_packet::{ControlMessage, Flags, Packet};
use narrows_routers::endpoint::Responder;
use narrows_routers::protocol::Explicit;
use narrows_scenario::{FlowPlan, Plan, result};
use narrows_tcp::rates::RateSetup;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use super::KernelError;
use super::netlink::Netlink;
use super::programs::{Grant, Grants, Program};
use super::support::Scheme;
use crate::negotiation::{Counts, Flow, PORT};

/// Longest wait of the responders.
const TICK: Duration = Duration::from_millis(20);
/// Datagrams that a requester reads at once.
const BATCH: usize = 64;
/// Marks events of requesters' sockets.
const MESSAGES: u64 = 1 << 63;
const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP_PROTOCOL: u8 = 17;
const TIME_TO_LIVE: u8 = 64;

/// Whether a flow negotiates its rate.
pub(super) fn negotiates(flow: &FlowPlan) -> bool {
    flow.scheme.rate_protocol.and_then(Explicit::named).is_some_and(Explicit::negotiates)
}

/// The program of the flows that negotiate, during a run, and what they did.
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
    /// Loads the program, if a flow negotiates; all such flows have the same parameters.
    pub(super) fn start(plan: &Plan, schemes: &[Scheme]) -> Result<Option<Arc<Self>>, KernelError> {
        let mut own = plan.flows.iter().zip(schemes).filter(|(_, scheme)| **scheme == Scheme::Negotiated);
        let Some((first, _)) = own.next() else { return Ok(None) };
        let program = Program::negotiating();
        let wanted = program.parameters(&first.params)?;
        if let Some((other, _)) =
            own.find(|(flow, _)| program.parameters(&flow.params).ok().as_ref() != Some(&wanted))
        {
            return Err(KernelError::Unsupported(format!(
                "`{}` and `{}` negotiate with different parameters; accepted on the kernel: one set for all flows",
                first.label, other.label
            )));
        }
        // What `narrows kernel load` has set holds, unless the scenario sets something.
        let own = first.params.changed().next().is_some();
        let grants = if own { Grants::load(program, &first.params)? } else { Grants::open(program)? };
        Ok(Some(Arc::new(Self { grants, totals: Totals::default() })))
    }

    /// The kernel's name of the scheme.
    pub(super) fn name(&self) -> &str {
        self.grants.name()
    }

    /// Whether the program was loaded for this run, under a name of its own.
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
        let scheme = flow.scheme.build(&Setup {
            mss: segment,
            initial_window: segment * u64::from(flow.tcp.initial_window),
            sack: flow.tcp.sack,
            random: Random::stream(plan.seed, "scheme", number as u64),
            params: flow.params.clone(),
        });
        let setup =
            RateSetup { segment: flow.tcp.segment, data_header: flow.tcp.header, line: scheme.line_rate() };
        self.totals.flows.fetch_add(1, Ordering::Relaxed);
        Requester {
            flow: Flow::new(&flow.negotiation, &setup, (local, remote)),
            local,
            remote: SocketAddrV4::new(*remote.ip(), PORT),
            open: None,
            run: Arc::clone(self),
        }
    }

    /// What happened, for the result of the run.
    pub(super) fn report(&self) -> Result<result::Negotiation, KernelError> {
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

/// The flow whose requester an event concerns, if it does.
pub(super) fn flow_of_event(data: u64) -> Option<usize> {
    (data & MESSAGES != 0).then_some((data & !MESSAGES) as usize)
}

impl Requester {
    /// Opens its socket, which has the same local port as the connection. Call it in the senders' host.
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

    /// Reads messages, does what is due, and sends messages; see [`Flow::step`].
    pub(super) fn step(
        &mut self,
        now: Nanos,
        socket: BorrowedFd<'_>,
        unwritten: u64,
        state: (bool, bool),
    ) -> Result<(), KernelError> {
        let Some((messages, netlink)) = &mut self.open else { return Ok(()) };
        let failed = |error| KernelError::step("read the state of a connection", error);
        let mut changed = self.flow.step(now, netlink, unwritten, state).map_err(failed)?;
        let mut bytes = [0; 64];
        for _ in 0..BATCH {
            match messages.recv_from(&mut bytes) {
                Ok((length, _)) => {
                    let read = self.flow.on_datagram(now, netlink, unwritten, &bytes[..length]);
                    changed = read.map_err(failed)?.or(changed);
                }
                // An unreachable peer is silent.
                Err(_) => break,
            }
        }
        self.settle(now, socket, changed)
    }

    /// The application is about to write.
    pub(super) fn on_write(&mut self, now: Nanos, socket: BorrowedFd<'_>) -> Result<(), KernelError> {
        let changed = self.flow.on_write(now);
        self.settle(now, socket, changed)
    }

    fn settle(
        &mut self,
        now: Nanos,
        socket: BorrowedFd<'_>,
        changed: Option<Grant>,
    ) -> Result<(), KernelError> {
        if let Some(grant) = changed {
            self.run.grants.set(socket, grant)?;
        }
        while let Some(message) = self.flow.poll_message(now) {
            if let Some((messages, _)) = &self.open {
                // A lost message is repeated.
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
    /// Opens their socket. Call it in the receivers' host.
    pub(super) fn open(plan: &Plan, run: &Arc<Negotiation>) -> Result<Self, KernelError> {
        let opened = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
            socket.set_read_timeout(Some(TICK))?;
            Ok(socket)
        };
        let socket = opened().map_err(|error| KernelError::step("open the responders' socket", error))?;
        let responders = plan.flows.iter().map(|flow| Responder::new(&flow.negotiation)).collect();
        Ok(Self { socket, responders, run: Arc::clone(run) })
    }

    /// Answers until `over`. Flow `n` has source port `ports + n`.
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

/// A datagram of a host, as far as a message needs it: its ports, and the place of its payload.
pub(super) fn read_datagram(bytes: &[u8]) -> Option<((u16, u16), Range<usize>)> {
    let short = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let first = *bytes.first()?;
    let ip = usize::from(first & 15) * 4;
    if first >> 4 != 4 || ip < IP_HEADER || *bytes.get(9)? != UDP_PROTOCOL {
        return None;
    }
    let length = usize::from(short(ip + 4)?);
    let payload = ip + UDP_HEADER..ip.checked_add(length)?;
    let fits = payload.start <= payload.end && payload.end <= bytes.len();
    (fits && payload.len() <= ControlMessage::MAX_BYTES).then_some(((short(ip)?, short(ip + 2)?), payload))
}

/// The datagram of a message between two ports, without a UDP checksum.
pub(super) fn write_datagram(from: SocketAddrV4, to: SocketAddrV4, message: &[u8]) -> Vec<u8> {
    let length = (IP_HEADER + UDP_HEADER + message.len()) as u16;
    let mut out = vec![0; IP_HEADER];
    out[0] = 0x45;
    out[2..4].copy_from_slice(&length.to_be_bytes());
    out[8] = TIME_TO_LIVE;
    out[9] = UDP_PROTOCOL;
    out[12..16].copy_from_slice(&from.ip().octets());
    out[16..20].copy_from_slice(&to.ip().octets());
    let mut sum: u32 =
        out.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    out[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    for port in [from.port(), to.port(), length - IP_HEADER as u16, 0] {
        out.extend_from_slice(&port.to_be_bytes());
    }
    out.extend_from_slice(message);
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram that was written is read again, and the kernel's checksum rule holds for its header.
    #[test]
    fn written_datagrams_are_read() {
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 10_003);
        let to = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), PORT);
        let bytes = write_datagram(from, to, &[7; 32]);
        let (ports, payload) = read_datagram(&bytes).expect("a datagram");
        assert_eq!((ports, &bytes[payload]), ((10_003, PORT), &[7; 32][..]));
        let sum: u32 = bytes[..IP_HEADER]
            .chunks_exact(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    /// Cut, overlong and foreign packets are no datagrams.
    #[test]
    fn malformed_datagrams_are_refused() {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);
        let whole = write_datagram(address, address, &[7; 20]);
        for end in 0..whole.len() {
            assert!(read_datagram(&whole[..end]).is_none(), "{end}");
        }
        assert!(read_datagram(&write_datagram(address, address, &[7; 41])).is_none());
        let mut short = whole.clone();
        short[IP_HEADER + 5] = 3; // less than its own header
        assert!(read_datagram(&short).is_none());
        let mut other = whole;
        other[9] = 6;
        assert!(read_datagram(&other).is_none());
    }
}
