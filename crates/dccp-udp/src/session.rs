//! One connection in real time with its source, at either endpoint.

mod supervision;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use narrows_cc::{Nanos, Random};
use narrows_dccp::connection::{AMPLIFICATION, Overflow};
use narrows_dccp::wire::Body;
use narrows_dccp::{Config, Connection, CookieKeys, Event, Header, Kind, ResetCode, Role, State, udp};
use narrows_host::buckets::entropy;
use narrows_traffic::{App, AppConfig};
use narrows_units::Histogram;
use rustix::io::Errno;

use crate::port::{AddressPair, Port};
use crate::report::Report;
use crate::settings::{Caller, LiveError, Settings, Stop};
use crate::source::{Source, queue_for, realtime};

/// Longest time for which one connection sends before received packets are processed.
const MAX_TURN: Nanos = Nanos::from_millis(1);
/// Clients draw one of the 16384 ports from this port on, so that packets of an earlier connection do not match.
const FIRST_CLIENT_PORT: u16 = 49_152;

/// Initial sequence numbers have 48 bits.
const INITIAL_SEQ_MASK: u64 = (1 << 48) - 1;

/// Bytes for the options of a data packet: an Ack Vector (128), features, cookies.
const MAX_OPTIONS: usize = 160;

/// Largest datagram that always fits a packet of `mtu` bytes with the headers of IP, UDP and DataAck, and
/// options.
pub fn largest_datagram(mtu: usize, remote: SocketAddr) -> Option<usize> {
    let ip = if remote.ip().to_canonical().is_ipv4() { 20 } else { 40 };
    mtu.checked_sub(ip + udp::HEADER + Header::new(Kind::DataAck).len() + MAX_OPTIONS).filter(|most| *most > 0)
}

/// Settings of the connection at one endpoint.
pub fn config(settings: &Settings, role: Role) -> Config {
    let mut config = Config { role, ..settings.config.clone() };
    let limit = nanos(settings.timeout);
    (config.request_limit, config.msl) = (limit, limit / 4);
    if role == Role::Server {
        config.remote_port = 0;
    }
    config
}

pub fn nanos(duration: Duration) -> Nanos {
    Nanos::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Times and results from the connection's events.
#[derive(Default)]
struct Observed {
    /// Time of the last valid packet.
    received_at: Nanos,
    /// Time at which the last packet was declared lost.
    lost_at: Option<Nanos>,
    connected_at: Option<Nanos>,
    /// Time of the last datagram received or sent.
    data_at: Nanos,
    delays: Histogram,
    gone: bool,
    code: Option<u8>,
}

impl Observed {
    fn read(&mut self, now: Nanos, connection: &mut Connection) {
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected => self.connected_at = Some(now),
                Event::Datagram(data) => {
                    self.data_at = now;
                    let stamp = data.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                    if stamp > 0 {
                        self.delays.record(realtime().saturating_sub(stamp));
                    }
                    connection.recycle(data);
                }
                Event::Closed { code } => self.code = Some(code),
                Event::PeerGone => self.gone = true,
            }
        }
    }
}

/// A connection with its source and the results of its events.
pub struct Session<'a> {
    settings: &'a Settings,
    sender: bool,
    connection: Connection,
    source: Option<Source>,
    addresses: AddressPair,
    /// Latest time passed to the connection.
    latest: Nanos,
    /// Whether there is more data to send than one turn allows.
    busy: bool,
    observed: Observed,
    /// Time at which the source finished.
    done_at: Option<Nanos>,
    /// Time at which this endpoint requested the close.
    closing_at: Option<Nanos>,
    over: bool,
    dismissed: bool,
    /// Whether the peer answered, but made no progress until the timeout.
    stalled: bool,
    /// Whether an Init Cookie opened the connection.
    by_cookie: bool,
    /// Datagrams acknowledged so far, and the time of the last acknowledgement or of the last moment without waiting
    /// data.
    progress: (u64, Nanos),
    /// Losses declared so far.
    losses: u64,
    /// Bytes received and sent before the peer proved its address.
    unproven: (usize, usize),
    next_progress: Nanos,
}

impl<'a> Session<'a> {
    /// A client, or a server that waits for the packet that opened it.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(settings: &'a Settings, role: Role, addresses: AddressPair, now: Nanos) -> io::Result<Self> {
        let sender = role == Role::Client;
        let mut config = config(settings, role);
        // An attacker off the path must not guess ports and numbers, otherwise it could forge a Reset (RFC 4340 section
        // 7.2). The initial number comes from the system itself, so that a visible port reveals nothing about the
        // number.
        let mut random = Random::stream(u64::from_ne_bytes(entropy()?), "dccp", 0);
        config.first_number = Some(u64::from_ne_bytes(entropy()?) & INITIAL_SEQ_MASK);
        if sender {
            config.local_port = FIRST_CLIENT_PORT + random.below(u64::from(u16::MAX - FIRST_CLIENT_PORT) + 1) as u16;
            let default_queue = || queue_for(&settings.app, config.datagram, config.queue);
            config.queue = settings.queue.unwrap_or_else(default_queue);
            if matches!(settings.app, AppConfig::Bulk) {
                config.overflow = Overflow::DropNewest; // bulk data waits for queue space instead of being dropped
            }
        }
        let source = sender.then(|| {
            let random = Random::stream(random.bits(), "app", 0);
            Source::new(App::new(settings.app, random, Nanos::ZERO), config.datagram)
        });
        let connection = Connection::new(&config, random, now);
        Ok(Self::of(settings, sender, connection, source, addresses, now))
    }

    /// A server whose connection was rebuilt from an Init Cookie.
    pub fn rebuilt(settings: &'a Settings, connection: Connection, addresses: AddressPair, now: Nanos) -> Self {
        let mut session = Self::of(settings, false, connection, None, addresses, now);
        session.by_cookie = true;
        session
    }

    fn of(
        settings: &'a Settings,
        sender: bool,
        connection: Connection,
        source: Option<Source>,
        addresses: AddressPair,
        now: Nanos,
    ) -> Self {
        Self {
            settings,
            sender,
            connection,
            source,
            addresses,
            latest: now,
            busy: false,
            observed: Observed { received_at: now, ..Observed::default() },
            done_at: None,
            closing_at: None,
            over: false,
            dismissed: false,
            stalled: false,
            by_cookie: false,
            progress: (0, now),
            losses: 0,
            unproven: (0, 0),
            next_progress: Nanos::from_secs(1),
        }
    }

    /// Addresses of both endpoints.
    pub fn addresses(&self) -> AddressPair {
        self.addresses
    }

    /// Aborts after a local failure and sends a Reset if possible.
    pub async fn give_up(&mut self, now: Nanos, port: &mut Port) {
        let now = now.max(self.latest);
        self.connection.abort(now, ResetCode::Aborted);
        while port.collect(now, self.addresses, &mut self.connection, usize::MAX, |_, _| ()) > 0 {
            let _ = port.flush(self.addresses).await;
        }
    }

    /// Next time at which the session needs to run.
    pub fn deadline(&self) -> Nanos {
        if self.busy {
            return self.latest;
        }
        self.connection.deadline().min(self.source_deadline()).min(self.silence_deadline())
    }

    /// Whether the connection is over; late packets may still get answers.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Time until which the addresses must not open another connection; `None` if they may open one now.
    pub fn refused_until(&self, now: Nanos) -> Option<Nanos> {
        let cookie = self.by_cookie.then(|| now.saturating_add(CookieKeys::LIFETIME));
        let timewait = (self.connection.state() == State::TimeWait).then(|| self.connection.deadline());
        cookie.max(timewait)
    }

    /// Datagrams and bytes received.
    pub fn received(&self) -> (u64, u64) {
        let stats = self.connection.stats();
        (stats.data_packets_received, stats.bytes_received)
    }

    /// Memory in bytes.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.connection.memory() + self.observed.delays.memory()
    }

    /// Whether the first packet opened no connection.
    pub fn is_listening(&self) -> bool {
        self.connection.state() == State::Listen
    }

    pub fn was_connected(&self) -> bool {
        self.observed.connected_at.is_some()
    }

    /// Resets the connection as too busy and suppresses its report.
    pub fn dismiss(&mut self, now: Nanos) {
        if !std::mem::replace(&mut self.dismissed, true) {
            let now = self.monotonic(now);
            self.connection.abort(now, ResetCode::TooBusy);
        }
    }

    pub fn is_dismissed(&self) -> bool {
        self.dismissed
    }

    fn source_deadline(&self) -> Nanos {
        match (&self.source, self.observed.connected_at) {
            (Some(source), Some(at)) if self.is_writing() => at.saturating_add(source.deadline()),
            _ => Nanos::MAX,
        }
    }

    fn is_writing(&self) -> bool {
        self.done_at.is_none() && self.connection.state().is_open()
    }

    /// Reports progress once a second.
    pub fn show_progress(&mut self, now: Nanos, caller: &dyn Caller) {
        let age = self.observed.connected_at.map_or(Nanos::ZERO, |at| now - at);
        if !self.connection.state().is_over() && age >= self.next_progress {
            self.next_progress = Nanos::from_secs(age.as_nanos() / 1_000_000_000 + 1);
            caller.progress(&self.report(now));
        }
    }

    fn close(&mut self, now: Nanos) {
        self.closing_at.get_or_insert(now);
        self.connection.close(now);
    }

    /// Bytes that may leave now. Before the peer has proved its address, the session sends at most a multiple of the
    /// bytes received.
    fn room(&self) -> usize {
        if self.sender || self.was_connected() {
            return usize::MAX;
        }
        (self.unproven.0 * AMPLIFICATION).saturating_sub(self.unproven.1)
    }

    /// Runs due timers, writes and sends. Every action has the time at which it happens, not the time at which it was
    /// due. A packet's time is the time of its departure; otherwise the delay of a late timer would count as round-trip
    /// time.
    ///
    /// # Errors
    /// If the socket fails.
    pub async fn advance(&mut self, clock: &impl Fn() -> Nanos, port: &mut Port) -> Result<(), LiveError> {
        let begin = self.monotonic(clock());
        if self.connection.deadline() <= begin {
            self.connection.on_timer(begin);
        }
        loop {
            let now = self.monotonic(clock());
            let writing = self.is_writing();
            if let (Some(source), Some(begin), true) = (&mut self.source, self.observed.connected_at, writing) {
                source.write(now - begin, &mut self.connection);
            }
            let room = self.room();
            let (observed, unproven) = (&mut self.observed, &mut self.unproven);
            let count = port.collect(now, self.addresses, &mut self.connection, room, |sent, size| {
                unproven.1 = unproven.1.saturating_add(size);
                if sent.data > 0 {
                    observed.data_at = now;
                }
            });
            if let Err(error) = port.flush(self.addresses).await {
                self.classify(error, port)?;
            }
            self.observed.read(now, &mut self.connection);
            // Received packets are processed even if there is always more to send.
            self.busy = count > 0 && now >= begin.saturating_add(MAX_TURN);
            if count == 0 || (self.busy && !port.has_extra()) {
                break;
            }
        }
        self.over |= self.connection.state().is_over();
        Ok(())
    }

    /// The time for the connection, which never decreases.
    fn monotonic(&mut self, now: Nanos) -> Nanos {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Classifies a socket error. An error ends a client's attempt to connect. Open connections rely on their timers,
    /// because anybody can forge ICMP, and an unreachable address does not end a server.
    ///
    /// # Errors
    /// If the session cannot continue.
    pub fn classify(&self, error: io::Error, port: &Port) -> Result<(), LiveError> {
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
        let path_error =
            matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | ConnectionReset);
        let size_errors = [Errno::MSGSIZE, Errno::INVAL].map(|errno| Some(errno.raw_os_error()));
        match (path_error, self.was_connected()) {
            _ if !self.sender => Ok(()),
            (true, true) => Ok(()),
            // Batches of datagrams that are too long fail with EINVAL.
            _ if self.was_connected() && size_errors.contains(&error.raw_os_error()) => {
                let most = port.socket.mtu().and_then(|mtu| largest_datagram(mtu, self.addresses.remote));
                let size = self.settings.config.datagram;
                // If the datagram fits the interface's MTU, the MTU of the path is smaller.
                let most = most.filter(|most| *most < usize::from(size));
                Err(LiveError::TooLong(self.addresses.remote, size, most))
            }
            (true, false) if error.kind() == ConnectionRefused => Err(LiveError::Refused(self.settings.address)),
            _ => Err(LiveError::Socket(self.addresses.remote, error)),
        }
    }

    /// Processes a decoded packet.
    pub fn on_packet(&mut self, now: Nanos, header: &Header, body: &Body<'_>, ecn: u8) {
        // Packets that arrive together with the packet that ended the connection get no Reset (No Connection) before
        // the Reset that ends the connection.
        if self.connection.state().is_over() && !self.over {
            return;
        }
        let now = self.monotonic(now);
        self.unproven.0 = self.unproven.0.saturating_add(header.len() + body.options.len() + body.data.len());
        let before = self.connection.stats().packets_received;
        self.connection.on_decoded(now, header, body, ecn);
        let stats = self.connection.stats();
        // Anybody can send packets with the right ports; only valid packets are signs of life.
        if stats.packets_received > before {
            self.observed.received_at = now;
        }
        if std::mem::replace(&mut self.losses, stats.lost_packets) < stats.lost_packets {
            self.observed.lost_at = Some(now);
        }
        // Drain events now, because one receive call may return more datagrams than the connection queues.
        self.observed.read(now, &mut self.connection);
    }

    pub(crate) fn report(&self, now: Nanos) -> Report {
        let age = self.observed.connected_at.map_or(Nanos::ZERO, |at| now - at);
        let written = self.source.as_ref().map_or(0, |source| source.datagrams);
        // Exclude the time after the last data: the final ACKs and the close carry no data.
        let over = self.connection.state().is_over();
        let last = if over { self.observed.data_at.max(self.done_at.unwrap_or_default()) } else { now };
        let active = self.observed.connected_at.map_or(Nanos::ZERO, |at| last.max(at) - at);
        let remote = self.addresses.remote;
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port()).to_string();
        Report::of(self.sender, remote, &self.connection, (age, active), written, &self.observed.delays)
    }

    /// Reports the end of the connection.
    ///
    /// # Errors
    /// If the connection did not end with a close.
    pub fn outcome(&self, now: Nanos, caller: &dyn Caller) -> Result<Report, LiveError> {
        let remote: SocketAddr = self.addresses.remote;
        let mut report = self.report(now);
        let code = self.observed.code.unwrap_or_default();
        report.reset_code = self.observed.code;
        report.reset_name = self.observed.code.and_then(ResetCode::from_wire).map(ResetCode::name);
        // The peer's answer to our Close was lost, and the peer had forgotten the connection when the retransmitted
        // Close arrived: this counts as closed.
        let forgotten = self.closing_at.is_some() && code == ResetCode::NoConnection as u8;
        let given_up = self.observed.gone || self.stalled;
        let closed = (code == ResetCode::Closed as u8 || forgotten) && !given_up;
        report.end = if self.observed.gone {
            "peer gone"
        } else if self.stalled {
            "stalled"
        } else if closed {
            "closed"
        } else {
            "reset"
        };
        let stopped = caller.stop() != Stop::No;
        if self.was_connected() {
            caller.ended(&report);
        }
        match (self.was_connected(), self.observed.gone) {
            (false, true) => Err(LiveError::NoAnswer(remote, self.settings.timeout)),
            (false, false) if !stopped => Err(LiveError::Rejected(remote, code)),
            (true, true) => Err(LiveError::PeerGone(remote, self.settings.timeout, Box::new(report))),
            (true, false) if self.stalled => Err(LiveError::Stalled(remote, self.settings.timeout, Box::new(report))),
            (true, false) if !closed && !stopped => Err(LiveError::Reset(remote, code)),
            _ => Ok(report),
        }
    }
}
