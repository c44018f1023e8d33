//! A node: runs the router algorithm of one port, on a host beside the router that forwards the data.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Instant;

use narrows_cc::{Nanos, Params, Rate};
use narrows_host::clock::Clock;
use narrows_packet::ControlMessage;
use narrows_routers::negotiation::{ATTENDED, Adjustment, Id, Message, Negotiation};
use narrows_routers::{NodePort, node};
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;

use super::peers::{Found, Limiter, NextHop, Peer, Peers};
use super::unproven::{Asked, Unproven};
use super::{Mbit, NegotiationError, Operator, PORT, TICK, open_udp, wait};

/// Datagrams read per turn of the node's loop.
const BATCH: usize = 64;
/// Size of the receive buffer, larger than any message.
const DATAGRAM: usize = 64;
/// Interval of log lines with totals.
const SUMMARY: Nanos = Nanos::from_secs(10);

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Address of the node's UDP socket.
    pub listen: SocketAddrV4,
    /// Capacity of the port, headers included.
    pub capacity: Rate,
    /// Next nodes. The node sends messages for other destinations directly to the client, at port `responders`.
    pub next: Vec<NextHop>,
    /// UDP port of responders.
    pub responders: u16,
    /// Parameters of the router algorithm: pairs of name and value, both strings.
    pub params: Vec<(String, String)>,
    /// Maximum number of messages per second from one address, and to one address.
    pub messages_per_s: u32,
}

impl NodeSettings {
    /// A port of this capacity, with defaults for the other settings.
    pub fn new(listen: SocketAddrV4, capacity: Rate) -> Self {
        Self { listen, capacity, next: Vec::new(), responders: PORT, params: Vec::new(), messages_per_s: 2000 }
    }
}

/// Result of a node run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodeReport {
    /// Valid messages received.
    pub received: u64,
    /// Messages sent, that is forwarded messages, answers and adjustments.
    pub sent: u64,
    /// Datagrams that are not a valid message.
    pub unreadable: u64,
    /// Messages for unknown flows, or for flows of another neighbour.
    pub foreign: u64,
    /// Messages dropped because of the limit per address.
    pub limited: u64,
    /// Requests forwarded for flows whose responder had not answered yet.
    pub unproven: u64,
    /// Answers for new flows that were dropped because the table was full.
    pub full: u64,
    /// Number of flows with a known reverse path.
    pub flows: u64,
    /// Internal values of the router algorithm.
    pub port: Vec<(String, f64)>,
}

fn encoded(message: &Message) -> ControlMessage {
    ControlMessage::new(message.encode().as_bytes())
}

/// The highest rate that a failure message may state for a request whose Min is `min`; zero means that it
/// states no rate.
fn below(min: Rate) -> Rate {
    Rate::from_bytes_per_sec(min.as_bytes_per_sec().saturating_sub(1))
}

struct Node<'a> {
    settings: &'a NodeSettings,
    socket: UdpSocket,
    port: NodePort,
    peers: Peers,
    unproven: Unproven,
    limiter: Limiter,
    report: NodeReport,
    operator: &'a dyn Operator,
}

/// Runs a node until the operator stops it.
///
/// # Errors
/// If a setting is invalid or the socket cannot be opened or fails.
pub fn run_node(settings: &NodeSettings, operator: &dyn Operator) -> Result<NodeReport, NegotiationError> {
    let params = narrows_scenario::router_settings(node::negotiating(), &settings.params)
        .map_err(|message| NegotiationError::Setting(format!("--set: {message}")))?;
    if settings.capacity.is_zero() {
        return Err(NegotiationError::Setting("the capacity is zero; accepted: a rate such as 100mbit".to_owned()));
    }
    let socket = open_udp("the node's UDP socket", settings.listen)?;
    if let Ok(SocketAddr::V4(at)) = socket.local_addr() {
        operator.listening(at);
    }
    operator.log(&format!("the port has {}", Mbit(settings.capacity)));
    let mut node = Node::over(socket, settings, params, operator)?;
    node.run()?;
    Ok(node.finish())
}

impl<'a> Node<'a> {
    fn over(
        socket: UdpSocket,
        settings: &'a NodeSettings,
        params: Params,
        operator: &'a dyn Operator,
    ) -> io::Result<Self> {
        let (limit, idle) = (params.number("flows") as usize, Nanos::from_secs_f64(2.0 * params.number("timeout")));
        Ok(Self {
            settings,
            socket,
            port: NodePort::new(settings.capacity, params),
            peers: Peers::new(limit, idle),
            unproven: Unproven::new(settings.messages_per_s)?,
            limiter: Limiter::new(settings.messages_per_s)?,
            report: NodeReport::default(),
            operator,
        })
    }

    fn run(&mut self) -> Result<(), NegotiationError> {
        let clock = Clock::from(Instant::now());
        let mut next_summary = SUMMARY;
        while !self.operator.is_stopped() {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            wait(&mut fds, clock.until(self.port.next_wake()).min(TICK))?;
            let mut bytes = [0; DATAGRAM];
            for _ in 0..BATCH {
                let Ok((length, SocketAddr::V4(from))) = self.socket.recv_from(&mut bytes) else { break };
                self.on_datagram(clock.now(), from, &bytes[..length]);
            }
            let now = clock.now();
            self.port.wake(now);
            self.send_adjustments(now);
            if now >= next_summary {
                next_summary = now + SUMMARY;
                self.summarise();
            }
        }
        Ok(())
    }

    fn send(&mut self, now: Nanos, to: SocketAddrV4, message: &ControlMessage) {
        if !self.limiter.take(now, *to.ip()) {
            self.report.limited += 1;
            return;
        }
        self.transmit(to, message);
    }

    fn transmit(&mut self, to: SocketAddrV4, message: &ControlMessage) {
        // A failed neighbour needs no handling here: its record times out.
        if self.socket.send_to(message.as_bytes(), to).is_ok() {
            self.report.sent += 1;
        }
    }

    fn on_datagram(&mut self, now: Nanos, from: SocketAddrV4, bytes: &[u8]) {
        let Ok(message) = Message::decode(bytes) else {
            self.report.unreadable += 1;
            return;
        };
        if !self.limiter.take(now, *from.ip()) {
            self.report.limited += 1;
            return;
        }
        self.report.received += 1;
        let raw = ControlMessage::new(bytes);
        match message {
            Message::Negotiation { kind: Negotiation::Request, max, min, id, rtt_us } => {
                let next = self.next_hop(id);
                match self.peers.towards_responder(now, id, from, next) {
                    Found::Known(peer) => self.forward(now, peer, raw),
                    Found::Unknown => {
                        self.probe(now, Asked { id, max, min, rtt_us, previous: from, next });
                    }
                    Found::Foreign => return self.report.foreign += 1,
                }
            }
            Message::Adjustment { kind: Adjustment::Terminate, id, .. } => {
                let Some((peer, first)) = self.peers.end(id, from) else {
                    self.report.foreign += 1;
                    return;
                };
                self.forward(now, peer, raw);
                if first {
                    self.log(id, "has ended");
                }
            }
            Message::Negotiation { .. } | Message::Adjustment { .. } => {
                let id = message.id();
                let Some(peer) = self.peers.towards_requester(id, from) else {
                    self.prove(now, from, &message);
                    return self.send_adjustments(now);
                };
                let raw = match message {
                    Message::Negotiation { kind, max, rtt_us, .. } if self.peers.take_correction(id, rtt_us) => {
                        if kind != Negotiation::Success {
                            return;
                        }
                        // This message answers the node's correction: send the requester a reduction.
                        encoded(&Message::Adjustment { kind: Adjustment::Reduce, id, speed: max })
                    }
                    _ => raw,
                };
                let passed = self.port.on_answer(now, peer.flow, raw);
                self.log_answer(id, &passed);
                self.send(now, peer.previous, &passed);
            }
        }
        self.send_adjustments(now);
    }

    /// Forwards the request of an unproven flow, up to the separate limit in [`Unproven`].
    fn probe(&mut self, now: Nanos, asked: Asked) {
        match self.unproven.add(now, asked) {
            Some(probe) => {
                self.report.unproven += 1;
                self.transmit(asked.next, &probe);
            }
            None => self.report.limited += 1,
        }
    }

    /// Handles a message towards the requester of a flow without a record. If the message is an answer that
    /// proves the flow, the port allocates a rate as it does for a request.
    fn prove(&mut self, now: Nanos, from: SocketAddrV4, message: &Message) {
        let Message::Negotiation { kind, max: granted, rtt_us, id, .. } = *message else {
            return self.report.foreign += 1;
        };
        let Some(asked) = self.unproven.take(id, from, rtt_us) else { return self.report.foreign += 1 };
        let Asked { max, min, rtt_us, previous, next, .. } = asked;
        let answer = |kind, max, rtt_us| encoded(&Message::Negotiation { kind, max, min, id, rtt_us });
        if kind != Negotiation::Success || granted < min || granted > max {
            let failure = answer(Negotiation::Failure, granted.min(below(min)), rtt_us | ATTENDED);
            return self.send(now, previous, &failure);
        }
        let Some(peer) = self.peers.insert(now, id, previous, next) else { return self.report.full += 1 };
        self.log(id, &format!("requests {} from {previous}; next is {next}", Mbit(max)));
        let request = answer(Negotiation::Request, max, rtt_us);
        let passed = self.port.on_request(now, peer.flow, request);
        let Some((passed, Ok(Message::Negotiation { max: allowed, rtt_us, .. }))) =
            passed.map(|passed| (passed, Message::decode(passed.as_bytes())))
        else {
            // The port's messages include its failure message. The later nodes have already allocated a rate,
            // so terminate the flow there.
            let end = Message::Adjustment { kind: Adjustment::Terminate, id, speed: Rate::ZERO };
            return self.send(now, next, &encoded(&end));
        };
        let success = answer(Negotiation::Success, granted.min(allowed), rtt_us);
        let success = self.port.on_answer(now, peer.flow, success);
        self.log_answer(id, &success);
        self.send(now, previous, &success);
        if allowed < granted {
            // The later nodes have allocated more than this node allows: request the lower rate from them.
            self.peers.expect_correction(id, rtt_us);
            self.send(now, next, &passed);
        }
    }

    fn forward(&mut self, now: Nanos, peer: Peer, message: ControlMessage) {
        if let Some(passed) = self.port.on_request(now, peer.flow, message) {
            self.send(now, peer.next, &passed);
        }
    }

    fn next_hop(&self, id: Id) -> SocketAddrV4 {
        let destination = Ipv4Addr::from_bits(id.destination);
        NextHop::find(&self.settings.next, destination)
            .unwrap_or_else(|| SocketAddrV4::new(destination, self.settings.responders))
    }

    /// Sends the port's adjustments to the requesters.
    fn send_adjustments(&mut self, now: Nanos) {
        let mut messages = Vec::new();
        self.port.take_messages(|flow, message| messages.push((flow, message)));
        for (flow, message) in messages {
            if let Some(peer) = self.peers.of_flow(flow) {
                self.send(now, peer.previous, &message);
            }
        }
    }

    fn log(&self, id: Id, what: &str) {
        let Id { content, destination, subflow } = id;
        let destination = Ipv4Addr::from_bits(destination);
        self.operator.log(&format!("content {content} to {destination}, subflow {subflow}: {what}"));
    }

    fn log_answer(&mut self, id: Id, answer: &ControlMessage) {
        match Message::decode(answer.as_bytes()) {
            Ok(Message::Negotiation { kind: Negotiation::Success, max, .. }) => {
                let is_new = self.peers.report_rate(id, Some(Mbit(max).hundredths()));
                if is_new {
                    self.log(id, &format!("gets {}", Mbit(max)));
                }
            }
            Ok(Message::Negotiation { kind: Negotiation::Failure, max, .. }) => {
                self.peers.report_rate(id, None);
                self.log(id, &format!("is refused; {} are available", Mbit(max)));
            }
            _ => {}
        }
    }

    fn telemetry(&self) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        self.port.telemetry(&mut |name, reading| {
            found.extend(reading.number().map(|number| (name.to_owned(), number)));
        });
        found
    }

    fn summarise(&self) {
        let NodeReport { received, sent, unreadable, foreign, limited, .. } = self.report;
        let all = self.telemetry();
        let number = |wanted: &str| all.iter().find(|(name, _)| name == wanted).map_or(0.0, |own| own.1);
        let rate = |name| Mbit(Rate::from_bytes_per_sec(number(name) as u64));
        self.operator.log(&format!(
            "{} flows have {}, {} are free; messages: {received} received, {sent} sent, {unreadable} unreadable, \
             {foreign} foreign, {limited} beyond the limit",
            number("flows"),
            rate("given"),
            rate("free"),
        ));
    }

    fn finish(self) -> NodeReport {
        let port = self.telemetry();
        NodeReport { flows: self.peers.len() as u64, port, ..self.report }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Desk, loopback, mbit, node as settings_of};
    use super::*;

    fn request_of(content: u32) -> Message {
        let id = Id { content, destination: Ipv4Addr::LOCALHOST.to_bits(), subflow: 0 };
        Message::Negotiation { kind: Negotiation::Request, max: mbit(8.0), min: Rate::ZERO, id, rtt_us: 9_000 }
    }

    /// 10 000 simultaneous requests of invented flows to one client use none of the message allowance of the
    /// client's proven flow; the node forwards them only up to a share of the limit.
    #[test]
    fn unproven_requests_use_up_no_message_of_others() {
        const LIMIT: u32 = 200;
        let responder = UdpSocket::bind(loopback(1, 0)).expect("a free port");
        responder.set_nonblocking(true).expect("a socket");
        let at = responder.local_addr().expect("an address");
        let SocketAddr::V4(at) = at else { unreachable!("bound to IPv4") };
        let settings = NodeSettings { messages_per_s: LIMIT, ..settings_of(16.0, at.port()) };
        let socket = UdpSocket::bind(loopback(1, 0)).expect("a free port");
        let (params, desk) = (Params::defaults(node::negotiating().info.params), Desk::default());
        let mut node = Node::over(socket, &settings, params, &desk).expect("random numbers");
        let (now, requester) = (Nanos::from_secs(1), loopback(7, 9));
        let own = request_of(9);
        node.on_datagram(now, requester, own.encode().as_bytes());
        let mut bytes = [0; DATAGRAM];
        let length = responder.recv(&mut bytes).expect("forwarded");
        let Ok(Message::Negotiation { max, min, id, rtt_us, .. }) = Message::decode(&bytes[..length]) else {
            panic!("no request: {bytes:?}");
        };
        let success = Message::Negotiation { kind: Negotiation::Success, max, min, id, rtt_us };
        node.on_datagram(now, at, success.encode().as_bytes());
        assert_eq!((node.peers.len(), node.report.sent), (1, 2));
        for n in 0..10_000 {
            let invented = SocketAddrV4::new(Ipv4Addr::from_bits(0x7f4d_0001 + n), 9);
            node.on_datagram(now, invented, request_of(100 + n).encode().as_bytes());
        }
        // The limit of probes is a quarter of the node's limit, with a burst of half a second. The flow's own
        // request was the first probe.
        let probes = u64::from(LIMIT / 4 / 2);
        assert_eq!((node.report.unproven, node.report.sent), (probes, probes + 1));
        // All repeated requests of the proven flow are forwarded.
        for _ in 0..20 {
            let before = node.report.sent;
            node.on_datagram(now, requester, own.encode().as_bytes());
            assert_eq!(node.report.sent, before + 1, "{:?}", node.report);
        }
    }
}
