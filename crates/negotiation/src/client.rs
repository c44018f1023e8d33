//! The client: receives a transmission over one or several connections, and answers requests for its rate.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use narrows_cc::{Nanos, Rate};
use narrows_host::clock::Clock;
use narrows_packet::{ControlMessage, Flags, Packet};
use narrows_routers::NegotiationConfig;
use narrows_routers::endpoint::Responder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self as sockets, AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use serde::Serialize;

use super::peers::Limiter;
use super::wire::{Hello, MOST_SUBFLOWS, Pieces};
use super::{NegotiationError, Operator, TICK, is_ready, open_udp, wait};

/// Longest wait for a connection to the server to open.
const CONNECT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// Bytes per read.
const CHUNK: usize = 256 << 10;
/// Maximum number of answers to one address per second.
const ANSWERS_PER_S: u32 = 200;
/// Datagrams read per turn of the client's loop.
const BATCH: usize = 64;
const PROGRESS: Nanos = Nanos::from_secs(1);

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The server.
    pub server: SocketAddrV4,
    /// Local address, which is also the destination ID; by default that of the route to the server.
    pub local: Option<Ipv4Addr>,
    /// Content ID.
    pub content: u32,
    /// Number of connections, the subflows of one transmission.
    pub subflows: u16,
    /// Upper bound of the rate of each connection, headers included.
    pub max: Rate,
    /// Lowest useful rate of each connection.
    pub min: Rate,
    /// Highest rate that the client grants to a connection.
    pub limit: Rate,
    /// Payload bytes of the transmission; 0: until the duration is over.
    pub size: u64,
    /// Time after which the client closes its connections.
    pub duration: Option<Duration>,
    /// UDP port of the responder.
    pub responder: u16,
    /// Longest time without received data.
    pub timeout: Duration,
}

/// Result of a client run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientReport {
    /// Payload bytes received.
    pub bytes: u64,
    /// Time from the first received data to the last.
    pub seconds: f64,
    /// Mean payload rate in that time.
    pub goodput_mbit_s: f64,
    /// Payload bytes of each connection.
    pub subflow_bytes: Vec<u64>,
    /// Whether a transmission of finite size arrived completely.
    pub complete: bool,
    /// Time from the first request for the transmission to the first data.
    pub wait_s: f64,
    /// Number of rate requests that the client answered.
    pub answered: u64,
    /// Datagrams that were no message for this client, or exceeded the limit.
    pub refused: u64,
}

/// A connection and its data.
struct Subflow {
    stream: Option<TcpStream>,
    pieces: Pieces,
    responder: Responder,
}

pub(super) fn connect(settings: &ClientSettings) -> io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = sockets::socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    if let Some(local) = settings.local {
        sockets::bind(&socket, &SocketAddrV4::new(local, 0))?;
    }
    match sockets::connect(&socket, &settings.server) {
        Ok(()) => {}
        Err(rustix::io::Errno::INPROGRESS) => {
            if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&CONNECT))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sockopt::socket_error(&socket)?.map_err(io::Error::from)?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(TcpStream::from(socket))
}

/// Receives a transmission, until it is complete, the duration is over or the operator stops.
///
/// # Errors
/// If a setting is invalid, the server cannot be reached, or the server falls silent.
pub fn request(settings: &ClientSettings, operator: &dyn Operator) -> Result<ClientReport, NegotiationError> {
    if !(1..=MOST_SUBFLOWS).contains(&settings.subflows) {
        let message = format!("{} subflows; accepted: 1 to {MOST_SUBFLOWS}", settings.subflows);
        return Err(NegotiationError::Setting(message));
    }
    let failed = |error: io::Error| NegotiationError::Server(settings.server, error.to_string());
    let first = connect(settings).map_err(failed)?;
    let SocketAddr::V4(local) = first.local_addr()? else {
        return Err(NegotiationError::Setting("an IPv6 server; accepted: IPv4".to_owned()));
    };
    // Open the socket before the first hello, because a request may follow immediately.
    let address = SocketAddrV4::new(*local.ip(), settings.responder);
    let messages = open_udp("the responder's UDP socket", address)?;
    operator.listening(address);
    let mut streams = vec![first];
    for _ in 1..settings.subflows {
        streams.push(connect(settings).map_err(failed)?);
    }
    let subflow = |(number, stream): (u16, TcpStream)| {
        let hello = Hello {
            content: settings.content,
            subflow: number,
            responder: settings.responder,
            max: settings.max,
            min: settings.min,
            size: settings.size,
        };
        let mut writing = &stream;
        writing.write_all(&hello.encode())?;
        let id = hello.id(*local.ip());
        let config = NegotiationConfig {
            content: id.content,
            destination: id.destination,
            subflow: number,
            receive: settings.limit,
            ..NegotiationConfig::default()
        };
        let responder = Responder::new(&config);
        Ok(Subflow { stream: Some(stream), pieces: Pieces::default(), responder })
    };
    let subflows: io::Result<Vec<Subflow>> = (0..).zip(streams).map(subflow).collect();
    let mut client = Client {
        settings,
        messages,
        subflows: subflows.map_err(failed)?,
        limiter: Limiter::new(ANSWERS_PER_S)?,
        report: ClientReport::default(),
        operator,
        first: None,
        last: Nanos::ZERO,
    };
    client.run()?;
    Ok(client.finish())
}

struct Client<'a> {
    settings: &'a ClientSettings,
    messages: UdpSocket,
    subflows: Vec<Subflow>,
    limiter: Limiter,
    report: ClientReport,
    operator: &'a dyn Operator,
    /// Times of the first data and of the last.
    first: Option<Nanos>,
    last: Nanos,
}

impl Client<'_> {
    fn run(&mut self) -> Result<(), NegotiationError> {
        let clock = Clock::from(Instant::now());
        let nanos = |time: Duration| Nanos::from_nanos(time.as_nanos().min(u64::MAX.into()) as u64);
        let end = self.settings.duration.map_or(Nanos::MAX, nanos);
        let timeout = nanos(self.settings.timeout);
        let mut buffer = vec![0; CHUNK];
        let (mut next_progress, mut before) = (PROGRESS, 0);
        while self.subflows.iter().any(|own| own.stream.is_some()) {
            let now = clock.now();
            if self.operator.is_stopped() || now >= end {
                break;
            }
            if now > self.last + timeout {
                let silence = format!("the server sent nothing for {:?}", self.settings.timeout);
                return Err(NegotiationError::Server(self.settings.server, silence));
            }
            if now >= next_progress {
                next_progress = now + PROGRESS;
                let bytes = self.bytes();
                self.operator.log(&format!("{:.2} Mbit/s", (bytes - before) as f64 * 8e-6));
                before = bytes;
            }
            let mut fds = vec![PollFd::new(&self.messages, PollFlags::IN)];
            let open = self.subflows.iter().filter_map(|own| own.stream.as_ref());
            fds.extend(open.map(|stream| PollFd::new(stream, PollFlags::IN)));
            wait(&mut fds, clock.until(end.min(next_progress)).min(TICK))?;
            let ready: Vec<bool> = fds.iter().map(is_ready).collect();
            drop(fds);
            if ready[0] {
                self.answer(clock.now());
            }
            let mut ready = ready[1..].iter();
            for number in 0..self.subflows.len() {
                if self.subflows[number].stream.is_some() && ready.next() == Some(&true) {
                    self.read(number, &mut buffer, clock)?;
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, number: usize, buffer: &mut [u8], clock: Clock) -> Result<(), NegotiationError> {
        let own = &mut self.subflows[number];
        let Some(stream) = &mut own.stream else { return Ok(()) };
        match stream.read(buffer) {
            Ok(0) => own.stream = None,
            Ok(count) => {
                self.last = clock.now();
                self.first.get_or_insert(self.last);
                let taken = own.pieces.take(&buffer[..count]);
                let wrong = |reason: &str| NegotiationError::Server(self.settings.server, reason.to_owned());
                taken.map_err(wrong)?;
            }
            Err(error) if narrows_host::is_transient(&error) => {}
            Err(error) => return Err(NegotiationError::Server(self.settings.server, error.to_string())),
        }
        Ok(())
    }

    /// Answers the requests that have arrived. Only answers count towards the limit of a node's address:
    /// requests of unknown flows, which anyone can make a node forward, do not count.
    fn answer(&mut self, now: Nanos) {
        let mut bytes = [0; 64];
        for _ in 0..BATCH {
            let Ok((length, SocketAddr::V4(from))) = self.messages.recv_from(&mut bytes) else { return };
            if length > ControlMessage::MAX_BYTES {
                self.report.refused += 1;
                continue;
            }
            let packet = Packet::control(0, Flags::NONE, &bytes[..length]);
            let Some(own) =
                self.subflows.iter_mut().find_map(|own| own.responder.on_packet(&packet).then_some(&mut own.responder))
            else {
                self.report.refused += 1;
                continue;
            };
            while let Some((answer, _)) = own.poll() {
                if !self.limiter.take(now, *from.ip()) {
                    self.report.refused += 1;
                    continue;
                }
                self.report.answered += 1;
                // The requester repeats its request if this answer is lost.
                let _ = self.messages.send_to(answer.as_bytes(), from);
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.subflows.iter().map(|own| own.pieces.payload).sum()
    }

    fn finish(self) -> ClientReport {
        let bytes = self.bytes();
        let first = self.first.unwrap_or(self.last);
        let seconds = (self.last - first).as_secs_f64();
        let size = self.settings.size;
        let end = self.subflows.iter().map(|own| own.pieces.end).max().unwrap_or(0);
        ClientReport {
            bytes,
            seconds,
            goodput_mbit_s: if seconds > 0.0 { bytes as f64 * 8e-6 / seconds } else { 0.0 },
            subflow_bytes: self.subflows.iter().map(|own| own.pieces.payload).collect(),
            complete: size > 0 && bytes == size && end == size,
            wait_s: first.as_secs_f64(),
            ..self.report
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_routers::negotiation::{Id, MOST, Message, Negotiation};

    use super::super::tests::{Desk, client as settings_of, loopback, mbit};
    use super::*;

    /// Requests of unknown flows from a node's address do not count towards the limit of answers to that address.
    #[test]
    fn foreign_requests_use_up_no_answers() {
        let (settings, operator) = (settings_of(loopback(1, 1), 9, 0, 1.0), Desk::default());
        let socket = || {
            let socket = UdpSocket::bind(loopback(1, 0)).expect("a free port");
            socket.set_nonblocking(true).expect("a socket");
            socket
        };
        let (node, messages) = (socket(), socket());
        node.connect(messages.local_addr().expect("an address")).expect("a route");
        let config = NegotiationConfig { content: 9, destination: 9, receive: MOST, ..NegotiationConfig::default() };
        let own = Subflow { stream: None, pieces: Pieces::default(), responder: Responder::new(&config) };
        let mut client = Client {
            settings: &settings,
            messages,
            subflows: vec![own],
            limiter: Limiter::new(ANSWERS_PER_S).expect("random numbers"),
            report: ClientReport::default(),
            operator: &operator,
            first: None,
            last: Nanos::ZERO,
        };
        let mut ask = |content, count| {
            for _ in 0..count {
                let id = Id { content, destination: 9, subflow: 0 };
                let (kind, min) = (Negotiation::Request, Rate::ZERO);
                let message = Message::Negotiation { kind, max: mbit(8.0), min, id, rtt_us: 1_000 };
                node.send(message.encode().as_bytes()).expect("sent");
                client.answer(Nanos::from_secs(1));
            }
            (client.report.answered, client.report.refused)
        };
        assert_eq!(ask(1_000, 5_000), (0, 5_000));
        // The limit allows a burst of the answers of half a second.
        let burst = u64::from(ANSWERS_PER_S / 2);
        assert_eq!(ask(9, burst + 20), (burst, 5_020));
        assert_eq!((0..burst + 20).filter(|_| node.recv(&mut [0; 64]).is_ok()).count() as u64, burst);
    }
}
