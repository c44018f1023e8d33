//! Requester for one kernel TCP connection. It runs the rate agent of the simulator's senders on the kernel's
//! socket statistics.
//!
//! The requester fills the agent's view of the connection from `TCP_INFO`, converts the agent's orders into a
//! grant for the socket, and encodes the agent's messages as UDP datagrams.

use std::io;
use std::net::SocketAddrV4;

use narrows_cc::{Advice, Limit, Nanos};
use narrows_host::diagnostics;
use narrows_host::netlink::Netlink;
use narrows_packet::{ControlMessage, Flags, Packet};
use narrows_programs::Grant;
use narrows_routers::NegotiationConfig;
use narrows_routers::endpoint::RateRequester;
use narrows_routers::negotiation::{Id, LEASE, Message};
use narrows_tcp::rates::{RateAgent, RateEvent, RateOrders, RateSetup, SenderView};

/// `TCP_ESTABLISHED`, `TCP_SYN_SENT` and `TCP_LISTEN`; `TCP_CA_Recovery`, the first congestion state of a recovery.
const ESTABLISHED: u8 = 1;
const OPENING: u8 = 2;
const LISTENING: u8 = 10;
const RECOVERING: u8 = 3;
/// The retransmission timeout before the first RTT sample.
const FIRST_RTO: Nanos = Nanos::from_secs(1);
/// Interval of repeated requests. It is shorter than [`LEASE`], after which nodes that see no data delete the
/// flow's record.
const REFRESH: Nanos = Nanos::from_nanos(LEASE.as_nanos() / 5 * 4);
/// Minimum RTT assumed for messages between processes, because each process waits for a processor.
const PROCESSING: Nanos = Nanos::from_millis(10);
/// Interval between checks for unsent data and for the last acknowledgement.
const LOOK: Nanos = Nanos::from_millis(10);

/// The fields of the kernel's socket statistics that the agent uses.
#[derive(Clone, Copy, Debug, Default)]
struct Socket {
    state: u8,
    recovering: bool,
    rto_us: u32,
    srtt_us: u32,
    unacked: u32,
    unsent: u32,
    packets: u32,
    bytes: u64,
}

impl Socket {
    /// Reads `struct tcp_info`; `None` if the structure is shorter than that of Linux 5.5.
    fn read(info: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(*info.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_ne_bytes(*info.get(at..)?.first_chunk()?));
        Some(Self {
            state: *info.first()?,
            recovering: *info.get(1)? >= RECOVERING,
            rto_us: word(8)?,
            unacked: word(24)?,
            srtt_us: word(68)?,
            unsent: word(144)?,
            packets: word(156)?,
            bytes: long(200)?,
        })
    }

    /// Whether all written data is acknowledged or the connection is closed.
    fn is_done(&self) -> bool {
        self.state > OPENING && self.unacked == 0 && self.unsent == 0 || self.state == 0
    }
}

/// Counters of a requester.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// Datagrams that were no message for this flow.
    pub refused: u64,
    /// Changes of the granted rate.
    pub changes: u64,
}

/// The requester of one connection.
#[derive(Debug)]
pub struct Flow {
    agent: RateRequester,
    id: Id,
    header: u64,
    least_srtt: Nanos,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    socket: Socket,
    established: bool,
    completed: bool,
    last_write: Nanos,
    next_look: Nanos,
    current: Grant,
    /// Counts of messages and rate changes so far.
    pub counts: Counts,
}

impl Flow {
    /// Creates the requester of the connection between these addresses, before the connection opens.
    pub fn new(config: &NegotiationConfig, setup: &RateSetup, (local, remote): (SocketAddrV4, SocketAddrV4)) -> Self {
        Self {
            agent: RateRequester::new(config, setup),
            id: config.id(),
            header: setup.data_header.into(),
            least_srtt: Nanos::ZERO,
            local,
            remote,
            socket: Socket::default(),
            established: false,
            completed: false,
            last_write: Nanos::ZERO,
            next_look: Nanos::MAX,
            current: Grant::default(),
            counts: Counts::default(),
        }
    }

    /// Adapts the requester to nodes that are processes: they do not observe the flow's data
    /// ([`RateRequester::refreshed`]) and may answer late.
    pub fn between_hosts(mut self) -> Self {
        self.agent = self.agent.refreshed(REFRESH);
        self.least_srtt = PROCESSING;
        self
    }

    /// Whether data must wait for the answer to a request.
    pub fn blocks_data(&self) -> bool {
        !self.established || self.agent.blocks_data()
    }

    /// Whether the last message is sent.
    pub fn is_finished(&self) -> bool {
        self.completed && !self.agent.has_message() && self.agent.deadline() == Nanos::MAX
    }

    /// The rate in force.
    pub fn grant(&self) -> Grant {
        self.current
    }

    /// The smoothed RTT that the kernel reported last, but at least [`PROCESSING`].
    fn srtt(&self) -> Option<Nanos> {
        let measured = (self.socket.srtt_us > 0).then(|| Nanos::from_micros(self.socket.srtt_us.into()));
        measured.map(|srtt| srtt.max(self.least_srtt))
    }

    /// Time at which [`Flow::step`] must run next if no message arrives.
    pub fn deadline(&self) -> Nanos {
        if !self.established {
            return Nanos::MAX;
        }
        self.agent.deadline().min(self.next_look)
    }

    fn look(&mut self, netlink: &mut Netlink) -> io::Result<()> {
        let reported = diagnostics::read_info(netlink, self.local, self.remote)?;
        let Socket { packets, bytes, .. } = self.socket;
        // A closed connection has nothing in flight; its counts of sent data remain.
        let gone = Socket { packets, bytes, ..Socket::default() };
        let found = reported.and_then(|(info, _)| Socket::read(&info));
        // After a connection has closed, the kernel finds the listening socket in its place.
        self.socket = found.filter(|socket| socket.state != LISTENING).unwrap_or(gone);
        Ok(())
    }

    fn view(&self, now: Nanos, unwritten: u64) -> SenderView {
        let socket = &self.socket;
        let rto = Nanos::from_micros(socket.rto_us.into());
        SenderView {
            now,
            srtt: self.srtt(),
            rto: if rto.is_zero() { FIRST_RTO } else { rto },
            // The program in the kernel sets cwnd, so state zero here.
            cwnd: narrows_cc::Bytes::ZERO,
            wire_sent: socket.bytes + u64::from(socket.packets) * self.header,
            backlog: u64::from(socket.unsent) + unwritten,
            repairing: socket.recovering,
            established: self.established && !self.completed,
        }
    }

    fn report(&mut self, view: &SenderView, event: RateEvent<'_>) -> Option<Grant> {
        let RateOrders { limit, advice, refused, .. } = self.agent.on_event(view, event);
        self.counts.refused += u64::from(refused);
        let mut next = self.current;
        match advice {
            Some(Advice::Rate(rate)) => next.rate = Some(rate),
            Some(Advice::Withdrawn) => next.rate = None,
            _ => {}
        }
        match limit {
            Some(Limit::Paced(rate)) => next.limit = Some(rate),
            Some(_) => next.limit = None,
            None => {}
        }
        if next == self.current {
            return None;
        }
        self.current = next;
        self.counts.changes += 1;
        Some(next)
    }

    /// Takes the steps that are due. `unwritten`: application bytes that the socket has not accepted yet;
    /// `connected`: the socket may be connected; `shut`: the application has written all data. Returns the
    /// grant if it has changed.
    ///
    /// # Errors
    /// If the kernel does not report the connection.
    pub fn step(
        &mut self,
        now: Nanos,
        netlink: &mut Netlink,
        unwritten: u64,
        (connected, shut): (bool, bool),
    ) -> io::Result<Option<Grant>> {
        let mut changed = None;
        if !self.established {
            if !connected {
                return Ok(None);
            }
            self.look(netlink)?;
            if self.socket.state != ESTABLISHED {
                return Ok(None);
            }
            self.established = true;
            self.next_look = now;
            changed = self.report(&self.view(now, unwritten), RateEvent::Established);
        }
        if now >= self.agent.deadline() {
            self.look(netlink)?;
            changed = self.report(&self.view(now, unwritten), RateEvent::Timer).or(changed);
        }
        if now >= self.next_look {
            self.look(netlink)?;
            self.next_look = if self.completed { Nanos::MAX } else { now + LOOK };
            if shut && !self.completed && self.socket.is_done() {
                let view = self.view(now, unwritten);
                self.completed = true;
                self.next_look = Nanos::MAX;
                changed = self.report(&view, RateEvent::Completed).or(changed);
            } else if unwritten > 0 {
                changed = self.report(&self.view(now, unwritten), RateEvent::Written).or(changed);
            }
        }
        Ok(changed)
    }

    /// Processes a received datagram. Returns the grant if it has changed.
    ///
    /// # Errors
    /// If the kernel does not report the connection.
    pub fn on_datagram(
        &mut self,
        now: Nanos,
        netlink: &mut Netlink,
        unwritten: u64,
        bytes: &[u8],
    ) -> io::Result<Option<Grant>> {
        // Discard invalid datagrams before the system call.
        if !Message::decode(bytes).is_ok_and(|message| message.id() == self.id) {
            self.counts.refused += 1;
            return Ok(None);
        }
        self.counts.received += 1;
        self.look(netlink)?;
        let packet = Packet::control(0, Flags::REVERSE, bytes);
        Ok(self.report(&self.view(now, unwritten), RateEvent::Message(&packet)))
    }

    /// Handles a write that the application is about to make. After an idle time, the requester requests the
    /// rate again.
    pub fn on_write(&mut self, now: Nanos) -> Option<Grant> {
        let idle = now - self.last_write;
        self.last_write = now;
        if !self.established || !self.socket.is_done() {
            return None;
        }
        self.report(&self.view(now, 0), RateEvent::Resumed { idle })
    }

    /// Next message to send.
    pub fn poll_message(&mut self, now: Nanos) -> Option<ControlMessage> {
        if !self.established {
            return None;
        }
        let view = self.view(now, 0);
        let (message, _) = self.agent.poll_message(&view)?;
        self.counts.sent += 1;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Socket::read` finds the fields of `struct tcp_info` and refuses a short structure.
    #[test]
    fn socket_fields_are_read_from_tcp_info() {
        let mut info = vec![0; 240];
        info[0] = ESTABLISHED;
        info[1] = RECOVERING;
        for (at, value) in [(8, 210_000_u32), (24, 3), (68, 40_000), (144, 5_000), (156, 12)] {
            info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        info[200..208].copy_from_slice(&17_000_u64.to_ne_bytes());
        let socket = Socket::read(&info).expect("whole");
        assert_eq!((socket.rto_us, socket.srtt_us, socket.unsent), (210_000, 40_000, 5_000));
        assert_eq!((socket.packets, socket.bytes, socket.recovering), (12, 17_000, true));
        assert!(!socket.is_done());
        assert!(Socket::read(&info[..200]).is_none());
    }
}
