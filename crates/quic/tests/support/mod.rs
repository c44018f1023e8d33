//! Two endpoints of noq's state machine in virtual time, joined by a link of `narrows-net`.

#![allow(dead_code, unused_imports)] // each test file uses some of these items
#![allow(clippy::disallowed_methods)] // noq takes times as `Instant`

mod estimator;
pub mod service;

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use narrows_cc::{Bytes, Nanos, Random, Rate};
use narrows_net::config::{Limit, LinkConfig, Loss};
use narrows_net::{DelayLine, Direction, Ecn, Frame, Link, Offer};
use narrows_quic::noq::Factory;
use noq_proto::congestion::NewRenoConfig;
use noq_proto::crypto::rustls::QuicClientConfig;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event,
    FourTuple, PathId, ServerConfig, StreamId, TransportConfig,
};

pub use estimator::estimator;

/// UDP payload of a full packet, which has 1500 bytes including the IP and UDP headers.
pub const DATAGRAM: u16 = 1472;
const HEADERS: u64 = 28;

/// A datagram on the wire: a handle to its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    handle: usize,
    size: u64,
    ecn: Ecn,
    from: usize,
}

impl Frame for Wire {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
    fn flow(&self) -> u32 {
        0
    }
    fn direction(&self) -> Direction {
        if self.from == 0 { Direction::Forward } else { Direction::Reverse }
    }
}

struct Host {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    address: SocketAddr,
}

/// A network and its two hosts: host 0 sends, host 1 receives.
pub struct Pair {
    start: Instant,
    pub now: Nanos,
    hosts: [Host; 2],
    link: Rc<RefCell<Link<Wire>>>,
    delays: [DelayLine<Wire>; 2],
    buffers: Vec<Vec<u8>>,
    free: Vec<usize>,
    stream: Option<StreamId>,
    /// Total bytes that the application may write, and bytes that it has written.
    pub offered: u64,
    pub written: u64,
    /// Bytes that the receiver has read.
    pub read: u64,
    pub connected: bool,
    pub closed: Option<String>,
    /// Times and sizes of data packets when they leave the sender.
    pub departures: Vec<(Nanos, u64)>,
    /// Number of datagrams from the receiver.
    pub answers: u64,
    /// Whether the path marks every datagram from the sender.
    pub mark: bool,
}

/// A path: rate and one-way delay of the link, buffer in packets, and fraction of packets lost.
#[derive(Clone, Copy)]
pub struct Path {
    pub mbit: f64,
    pub delay_ms: u64,
    pub buffer: u64,
    pub loss: f64,
}

fn address(host: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, host), port).into()
}

fn transport(controller: Factory) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(controller)
        .initial_mtu(DATAGRAM)
        .min_mtu(DATAGRAM)
        .mtu_discovery_config(None)
        .max_idle_timeout(None)
        .receive_window((1_u32 << 29).into())
        .stream_receive_window((1_u32 << 29).into())
        .send_window(1 << 24)
        .initial_rtt(Duration::from_millis(100));
    Arc::new(config)
}

impl Pair {
    /// Creates a pair in which the client sends.
    pub fn new(controller: Factory, path: Path, seed: u64) -> Self {
        Self::with_client(0, controller, path, seed)
    }

    /// Creates a pair in which the host `client` opens the connection, and host 0 sends with this controller.
    pub fn with_client(client: usize, controller: Factory, path: Path, seed: u64) -> Self {
        let own = [transport(controller), transport(Arc::new(NewRenoConfig::default()))];
        let (chain, key, crypto) = crate::tls::made();
        let mut server = ServerConfig::with_single_cert(chain, key).expect("a certificate");
        server.transport_config(Arc::clone(&own[1 - client]));
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto).expect("a TLS 1.3 suite")));
        config.transport_config(Arc::clone(&own[client]));
        let endpoint = |number: u8, server: Option<ServerConfig>| {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some([number ^ seed as u8; 32]));
            Endpoint::new(Arc::new(config), server.map(Arc::new), false)
        };
        let start = Instant::now();
        let addresses = [address(1, 5000), address(2, 4433)];
        let mut server = Some(server);
        let mut hosts = [0, 1].map(|number| Host {
            endpoint: endpoint(number as u8 + 1, server.take_if(|_| number != client)),
            connection: None,
            address: addresses[number],
        });
        let to = hosts[1 - client].address;
        let opened = hosts[client].endpoint.connect(start, config, to, "localhost");
        hosts[client].connection = Some(opened.expect("a connection"));
        let rate = Rate::from_mbit_per_sec(path.mbit);
        let loss = if path.loss > 0.0 { Loss::Bernoulli(path.loss) } else { Loss::None };
        let config = LinkConfig { loss, ..LinkConfig::drop_tail(rate, Limit::Packets(path.buffer)) };
        let delay = Nanos::from_millis(path.delay_ms);
        let line = |number| DelayLine::new(delay, None, None, Random::stream(seed, "line", number));
        Self {
            start,
            now: Nanos::ZERO,
            hosts,
            link: Rc::new(RefCell::new(Link::new(&config, Random::stream(seed, "link", 0)))),
            delays: [line(0), line(1)],
            buffers: Vec::new(),
            free: Vec::new(),
            stream: None,
            offered: 0,
            written: 0,
            read: 0,
            connected: false,
            closed: None,
            departures: Vec::new(),
            answers: 0,
            mark: false,
        }
    }

    fn instant(&self, at: Nanos) -> Instant {
        self.start + Duration::from_nanos(at.as_nanos())
    }

    fn nanos(&self, at: Instant) -> Nanos {
        Nanos::from_nanos(at.saturating_duration_since(self.start).as_nanos() as u64)
    }

    /// A copy of the sender's controller.
    pub fn controller(&self) -> Box<narrows_quic::noq::Controller> {
        let connection = &self.hosts[0].connection.as_ref().expect("the sender has a connection").1;
        let state = connection.congestion_state(PathId::ZERO).expect("a path");
        narrows_quic::noq::Controller::inspect(state).expect("a scheme of ours")
    }

    /// Moves a host to this address. Its endpoint learns of the move, as from the operating system.
    pub fn move_host(&mut self, number: usize, host: u8, port: u16) {
        let now = self.instant(self.now);
        self.hosts[number].address = address(host, port);
        if let Some((_, connection)) = &mut self.hosts[number].connection {
            connection.handle_network_change(None, now);
        }
    }

    /// Changes a host's address without notifying its endpoint, as a NAT does.
    pub fn rebind_host(&mut self, number: usize, host: u8, port: u16) {
        self.hosts[number].address = address(host, port);
    }

    /// Makes this pair send through the link of another pair that has the same path and began at the same time.
    pub fn share_link(&mut self, other: &Self) {
        self.link = Rc::clone(&other.link);
    }

    /// Processes all events that are due, and returns the time of the next event.
    pub fn next(&mut self) -> Nanos {
        self.drive();
        let timer = |host: &Host| host.connection.as_ref().and_then(|(_, connection)| connection.poll_timeout());
        let timers = self.hosts.each_ref().map(|host| timer(host).map_or(Nanos::MAX, |at| self.nanos(at)));
        timers.into_iter().fold(self.delays[0].next().min(self.delays[1].next()), Nanos::min)
    }

    /// Runs the pair until `end`.
    pub fn run_until(&mut self, end: Nanos) {
        loop {
            let next = self.next();
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            let now = self.instant(self.now);
            for host in &mut self.hosts {
                if let Some((_, connection)) = &mut host.connection
                    && connection.poll_timeout().is_some_and(|at| at <= now)
                {
                    connection.handle_timeout(now);
                }
            }
            for direction in 0..2 {
                while self.delays[direction].next() <= self.now {
                    if let Some((_, frame)) = self.delays[direction].pop() {
                        self.arrive(&frame);
                    }
                }
            }
        }
    }

    /// Runs the pair until `end`. Returns the mean goodput in Mbit/s.
    pub fn mbit_until(&mut self, end: Nanos) -> f64 {
        let (begin, before) = (self.now, self.read);
        self.run_until(end);
        (self.read - before) as f64 * 8e-6 / (end - begin).as_secs_f64()
    }

    fn arrive(&mut self, frame: &Wire) {
        let (from, to) = (self.hosts[frame.from].address, 1 - frame.from);
        let data = BytesMut::from(self.buffers[frame.handle].as_slice());
        self.free.push(frame.handle);
        let now = self.instant(self.now);
        let ecn = EcnCodepoint::from_bits(frame.ecn as u8);
        let host = &mut self.hosts[to];
        let mut answer = Vec::new();
        match host.endpoint.handle(now, FourTuple::from_remote(from), ecn, data, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut host.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if host.connection.is_none() => {
                host.connection = host.endpoint.accept(incoming, now, &mut answer, None).ok();
            }
            _ => {}
        }
    }

    /// Lets both hosts read, write and send until they have nothing left to do.
    fn drive(&mut self) {
        for number in 0..2 {
            loop {
                let mut busy = self.exchange(number);
                busy |= if number == 0 { self.write() } else { self.read_all() };
                busy |= self.transmit(number);
                if !busy {
                    break;
                }
            }
        }
    }

    fn exchange(&mut self, number: usize) -> bool {
        let host = &mut self.hosts[number];
        let Some((handle, connection)) = &mut host.connection else { return false };
        let mut busy = false;
        while let Some(event) = connection.poll_endpoint_events() {
            busy = true;
            if let Some(event) = host.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            busy = true;
            match event {
                Event::Connected if number == 0 => self.connected = true,
                Event::ConnectionLost { reason } => self.closed = Some(reason.to_string()),
                _ => {}
            }
        }
        busy
    }

    fn write(&mut self) -> bool {
        const CHUNK: [u8; 16 << 10] = [0; 16 << 10];
        if !self.connected || self.closed.is_some() {
            return false;
        }
        let Some((_, connection)) = &mut self.hosts[0].connection else { return false };
        if self.stream.is_none() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(stream) = self.stream else { return false };
        let mut busy = false;
        while self.written < self.offered {
            let room = CHUNK.len().min((self.offered - self.written) as usize);
            match connection.send_stream(stream).write(&CHUNK[..room]) {
                Ok(count) => {
                    self.written += count as u64;
                    busy = true;
                }
                Err(_) => break,
            }
        }
        busy
    }

    fn read_all(&mut self) -> bool {
        let Some((_, connection)) = &mut self.hosts[1].connection else { return false };
        connection.streams().accept(Dir::Uni);
        let before = self.read;
        let Some(stream) = self.stream else { return false };
        let mut stream = connection.recv_stream(stream);
        if let Ok(mut chunks) = stream.read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.read += chunk.bytes.len() as u64;
            }
            let _ = chunks.finalize();
        }
        self.read > before
    }

    fn transmit(&mut self, number: usize) -> bool {
        let now = self.instant(self.now);
        let mut busy = false;
        loop {
            let mut buffer = Vec::with_capacity(16 * usize::from(DATAGRAM));
            let Some((_, connection)) = &mut self.hosts[number].connection else { return busy };
            let most = NonZeroUsize::new(16).expect("not zero");
            let Some(transmit) = connection.poll_transmit(now, most, &mut buffer) else { return busy };
            busy = true;
            let ecn = transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
            let size = transmit.segment_size.unwrap_or(transmit.size).max(1);
            for datagram in buffer[..transmit.size].chunks(size) {
                self.offer(number, datagram, ecn);
            }
        }
    }

    fn offer(&mut self, from: usize, datagram: &[u8], ecn: Ecn) {
        let size = datagram.len() as u64 + HEADERS;
        let ecn = if self.mark && from == 0 { Ecn::Ce } else { ecn };
        let handle = self.free.pop().unwrap_or(self.buffers.len());
        if handle == self.buffers.len() {
            self.buffers.push(Vec::new());
        }
        self.buffers[handle].clear();
        self.buffers[handle].extend_from_slice(datagram);
        let frame = Wire { handle, size, ecn, from };
        if from == 1 {
            self.answers += 1;
            self.delays[1].push(self.now, &frame);
            return;
        }
        if size > 1000 {
            self.departures.push((self.now, size));
        }
        let offered = self.link.borrow_mut().offer(self.now, &frame);
        match offered {
            Offer::Departs { at, lost: false } => {
                self.delays[0].push(at, &frame);
            }
            _ => self.free.push(handle),
        }
    }
}
