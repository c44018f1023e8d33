//! The task that drives a connection.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use narrows_cc::{Nanos, Random};
use narrows_dccp::connection::Overflow;
use narrows_dccp::{Config, Connection, Event, ResetCode, Role, State, udp};
use narrows_endpoint::{App, AppConfig};
use narrows_net::Histogram;

use crate::capture::Capture;
use crate::report::Report;
use crate::settings::{Caller, LiveError, Settings};
use crate::socket::Socket;
use crate::source::{Source, realtime};

/// So often at least the driver looks whether it is to stop, and flushes the capture.
const TICK: Duration = Duration::from_millis(50);
/// A sender that has sent everything waits so long for acknowledgements before it closes.
const LINGER: Nanos = Nanos::from_secs(1);
/// Datagrams that wait at a sender whose source always has more: what lies there only adds delay.
const SHORT_QUEUE: usize = 32;

/// Sends; the report of what was done.
///
/// # Errors
/// If there is no connection, or the other side falls silent.
pub fn send(settings: &Settings, caller: &dyn Caller) -> Result<Report, LiveError> {
    let address = settings.address;
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    block_on(async {
        let socket = Socket::open(any, Some(address)).map_err(|error| LiveError::Open { address, error })?;
        let mut driver = Driver::new(settings, Role::Client, socket, None)?;
        driver.run(caller).await?;
        driver.verdict(caller)
    })
}

/// Receives one connection after the other; the reports go to the caller, the last one comes back, if there was one.
///
/// # Errors
/// If it cannot listen, or the only connection's other side falls silent.
pub fn receive(settings: &Settings, caller: &dyn Caller) -> Result<Option<Report>, LiveError> {
    let address = settings.address;
    block_on(async {
        let mut last = None;
        let begin = Instant::now();
        let mut socket = Socket::open(address, None).map_err(|error| LiveError::Open { address, error })?;
        let mut capture = None;
        loop {
            let mut driver = Driver::new(settings, Role::Server, socket, capture)?;
            driver.until = settings.duration.map(|duration| begin + duration);
            driver.run(caller).await?;
            if driver.heard.connected_at.is_some() {
                match driver.verdict(caller) {
                    Err(error) if settings.once => return Err(error),
                    Err(LiveError::Gone(_, _, report)) => last = Some(*report),
                    Err(error) => return Err(error),
                    Ok(report) => last = Some(report),
                }
            }
            if caller.stop() || driver.is_late() || (settings.once && driver.heard.connected_at.is_some()) {
                return Ok(last);
            }
            (socket, capture) = (driver.socket, driver.capture);
        }
    })
}

fn block_on<T>(work: impl Future<Output = Result<T, LiveError>>) -> Result<T, LiveError> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?.block_on(work)
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// What a connection has told.
#[derive(Default)]
struct Heard {
    /// When the last packet came.
    at: Nanos,
    connected_at: Option<Nanos>,
    /// When the last datagram came or left.
    data_at: Nanos,
    delays: Histogram,
    gone: bool,
    code: Option<u8>,
}

impl Heard {
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

struct Driver<'a> {
    settings: &'a Settings,
    sender: bool,
    socket: Socket,
    connection: Connection,
    source: Option<Source>,
    capture: Option<Capture>,
    start: Instant,
    /// The time the connection was last told.
    told: Nanos,
    remote: Option<SocketAddr>,
    local: SocketAddr,
    heard: Heard,
    /// When everything was written.
    done_at: Option<Nanos>,
    until: Option<Instant>,
    ended: bool,
    next_progress: Nanos,
    /// Packets that wait for room in the system's buffer: their bytes, the size of each, their codepoint.
    batch: Vec<u8>,
    size: usize,
    ecn: u8,
    /// The packet that did not belong to that batch.
    extra: Vec<u8>,
    extra_ecn: u8,
}

impl<'a> Driver<'a> {
    fn new(
        settings: &'a Settings,
        role: Role,
        socket: Socket,
        capture: Option<Capture>,
    ) -> Result<Self, LiveError> {
        let sender = role == Role::Client;
        let mut config = Config { role, ..settings.config.clone() };
        let limit = nanos(settings.timeout);
        (config.request_limit, config.msl) = (limit, limit / 4);
        let seed = realtime() ^ (u64::from(std::process::id()) << 32);
        if !sender {
            config.remote_port = 0;
        }
        let start = Instant::now();
        let source = sender.then(|| {
            let random = Random::stream(seed, "app", 0);
            Source::new(App::new(settings.app, random, Nanos::ZERO), config.datagram)
        });
        if sender && matches!(settings.app, AppConfig::Bulk) {
            (config.queue, config.overflow) = (SHORT_QUEUE, Overflow::DropNewest);
        }
        let capture = match (&settings.capture, capture) {
            (Some(path), None) => {
                Some(Capture::create(path).map_err(|error| named(error, &path.display().to_string()))?)
            }
            (_, capture) => capture,
        };
        Ok(Self {
            sender,
            local: socket.local(),
            connection: Connection::new(&config, Random::stream(seed, "dccp", 0), Nanos::ZERO),
            socket,
            source,
            capture,
            start,
            told: Nanos::ZERO,
            remote: sender.then_some(settings.address),
            heard: Heard::default(),
            done_at: None,
            until: None,
            ended: false,
            next_progress: Nanos::from_secs(1),
            batch: Vec::with_capacity(1 << 16),
            size: 0,
            ecn: 0,
            extra: Vec::with_capacity(1 << 11),
            extra_ecn: 0,
            settings,
        })
    }

    fn now(&self) -> Nanos {
        nanos(self.start.elapsed())
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    async fn run(&mut self, caller: &dyn Caller) -> Result<(), LiveError> {
        loop {
            let now = self.now();
            self.supervise(now, caller);
            self.advance(now).await?;
            if self.ended {
                break;
            }
            if let Some(capture) = &mut self.capture {
                capture.flush()?;
            }
            let next = self.connection.deadline().min(self.source_deadline());
            let wait = Duration::from_nanos(next.as_nanos().saturating_sub(self.now().as_nanos())).min(TICK);
            let heard = tokio::time::timeout(wait, self.socket.readable()).await;
            if heard.is_ok() {
                self.receive()?;
            }
        }
        if let Some(capture) = &mut self.capture {
            capture.flush()?;
        }
        Ok(())
    }

    fn source_deadline(&self) -> Nanos {
        match (&self.source, self.heard.connected_at) {
            (Some(source), Some(at)) if self.is_writing() => at.saturating_add(source.deadline()),
            _ => Nanos::MAX,
        }
    }

    fn is_writing(&self) -> bool {
        self.done_at.is_none() && self.connection.state().is_open()
    }

    /// What has nothing to do with packets: progress, the end.
    fn supervise(&mut self, now: Nanos, caller: &dyn Caller) {
        let age = self.heard.connected_at.map_or(Nanos::ZERO, |at| now - at);
        if age >= self.next_progress {
            self.next_progress += Nanos::from_secs(1);
            caller.progress(&self.report(now));
        }
        if self.connection.state().is_over() {
            return;
        }
        let over = self
            .settings
            .duration
            .zip(self.heard.connected_at)
            .is_some_and(|(duration, at)| self.sender && now >= at.saturating_add(nanos(duration)));
        let written = self.source.as_ref().is_some_and(Source::is_done);
        if caller.stop() || self.is_late() {
            self.done_at.get_or_insert(now);
            self.connection.close(now);
        } else if over || written {
            let done = *self.done_at.get_or_insert(now);
            if self.connection.inflight().is_zero() || now >= done.saturating_add(LINGER) {
                self.connection.close(now);
            }
        }
        // DCCP has no timer for a receiver whose sender is silent.
        let silent = now >= self.heard.at.saturating_add(nanos(self.settings.timeout));
        if !self.sender && self.heard.connected_at.is_some() && silent {
            self.heard.gone = true;
            self.connection.abort(now, ResetCode::Aborted);
        }
    }

    /// Time has come to `now`: what was due is done in its order, at the time it was due.
    async fn advance(&mut self, now: Nanos) -> Result<(), LiveError> {
        loop {
            let due = self.connection.deadline().min(self.source_deadline()).min(now);
            let at = due.max(self.told);
            self.told = at;
            if self.connection.deadline() <= at {
                self.connection.on_timer(at);
            }
            let left = self.turn(at).await?;
            if at >= now
                || self.ended
                || (!left && self.connection.deadline().min(self.source_deadline()) <= at)
            {
                break;
            }
        }
        // Nothing that is left may keep the connection from the present.
        if !self.ended && self.told < now {
            self.told = now;
            self.turn(now).await?;
        }
        Ok(())
    }

    /// Writes, sends and reads what can be at `at`; whether packets left.
    async fn turn(&mut self, at: Nanos) -> Result<bool, LiveError> {
        let mut left = false;
        loop {
            let writing = self.is_writing();
            if let (Some(source), Some(begin), true) = (&mut self.source, self.heard.connected_at, writing) {
                source.write(at - begin, &mut self.connection);
            }
            let count = self.collect(at)?;
            left |= count > 0;
            self.flush().await?;
            self.heard.read(at, &mut self.connection);
            if count == 0 {
                break;
            }
        }
        if self.connection.state().is_over() && self.heard.connected_at.is_none() && !self.sender {
            // A server that was closed before anybody came.
            self.ended = true;
        }
        self.ended |= self.connection.state().is_over();
        Ok(left)
    }

    /// Takes packets of one size and codepoint from the connection, as many as one call sends.
    fn collect(&mut self, at: Nanos) -> io::Result<usize> {
        let mut count = 0;
        if !self.extra.is_empty() {
            std::mem::swap(&mut self.batch, &mut self.extra);
            (self.size, self.ecn) = (self.batch.len(), self.extra_ecn);
            count = 1;
        }
        while self.extra.is_empty() {
            if count > 0 && count >= self.socket.segments(self.size) {
                break;
            }
            let begin = self.batch.len();
            let Some(sent) = self.connection.poll_transmit(at, &mut self.batch) else { break };
            let size = self.batch.len() - begin;
            if let (Some(capture), Some(remote)) = (&mut self.capture, self.remote) {
                capture.write(self.local, remote, sent.ecn, &self.batch[begin..])?;
            }
            if sent.data > 0 {
                self.heard.data_at = at;
            }
            if count == 0 {
                (self.size, self.ecn) = (size, sent.ecn);
            } else if size > self.size || sent.ecn != self.ecn {
                self.extra.extend_from_slice(&self.batch[begin..]);
                self.extra_ecn = sent.ecn;
                self.batch.truncate(begin);
                break;
            }
            count += 1;
            if size < self.size {
                break; // only the last may be shorter
            }
        }
        Ok(count)
    }

    async fn flush(&mut self) -> Result<(), LiveError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        if let Some(remote) = self.remote {
            loop {
                match self.socket.send(remote, self.ecn, &self.batch, self.size) {
                    Ok(()) => break,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.writable().await?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.judge(error)?;
                        break;
                    }
                }
            }
        }
        self.batch.clear();
        Ok(())
    }

    /// An error of the socket ends an attempt; an existing connection has timers of its own, for anybody can forge ICMP.
    fn judge(&self, error: io::Error) -> Result<(), LiveError> {
        let soft = matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::ConnectionReset
        );
        match (soft, self.heard.connected_at) {
            (true, Some(_)) => Ok(()),
            (true, None) if error.kind() == io::ErrorKind::ConnectionRefused && self.sender => {
                Err(LiveError::Refused(self.settings.address))
            }
            (true, None) if !self.sender => Ok(()),
            _ => Err(LiveError::Io(error)),
        }
    }

    /// Hands what the socket has to the connection.
    fn receive(&mut self) -> Result<(), LiveError> {
        let now = self.now().max(self.told);
        self.told = now;
        let Self { socket, connection, remote, local, capture, heard, .. } = self;
        let mut failed = Ok(());
        let received = socket.receive(|packet| {
            let listening = connection.state() == State::Listen;
            if !listening && *remote != Some(packet.from) {
                return; // somebody else's
            }
            if let Some(capture) = capture
                && let Err(error) = capture.write(packet.from, packet.to, packet.ecn, packet.bytes)
            {
                failed = Err(error);
            }
            if udp::open(packet.bytes).is_err() {
                return; // RFC 6773: dropped without an answer
            }
            if listening {
                (*remote, *local) = (Some(packet.from), packet.to);
            }
            // What comes with the packet that ended the connection shall not be told, before the Reset that the end asks for,
            // that there is none.
            if connection.state().is_over() {
                return;
            }
            heard.at = now;
            connection.on_packet(now, packet.bytes, packet.ecn);
            // One call may bring more datagrams than the connection keeps.
            heard.read(now, connection);
        });
        failed?;
        match received {
            Ok(()) => Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(())
            }
            Err(error) => self.judge(error),
        }
    }

    fn report(&self, now: Nanos) -> Report {
        let age = self.heard.connected_at.map_or(Nanos::ZERO, |at| now - at);
        let remote = self.remote.map_or_else(String::new, |remote| remote.to_string());
        let written = self.source.as_ref().map_or(0, |source| source.datagrams);
        // At the end, acknowledgements and the close took time without data.
        let over = self.connection.state().is_over();
        let last = if over { self.heard.data_at.max(self.done_at.unwrap_or_default()) } else { now };
        let active = self.heard.connected_at.map_or(Nanos::ZERO, |at| last.max(at) - at);
        Report::of(self.sender, remote, &self.connection, (age, active), written, &self.heard.delays)
    }

    /// What came of it.
    fn verdict(&mut self, caller: &dyn Caller) -> Result<Report, LiveError> {
        let remote = self.remote.unwrap_or(self.settings.address);
        let mut report = self.report(self.now());
        report.reset_code = self.heard.code;
        let closed = self.heard.code == Some(ResetCode::Closed as u8) && !self.heard.gone;
        report.end = if self.heard.gone {
            "peer gone"
        } else if closed {
            "closed"
        } else {
            "reset"
        };
        if self.heard.connected_at.is_some() {
            caller.ended(&report);
        }
        match (self.heard.connected_at, self.heard.gone) {
            (None, true) => Err(LiveError::NoAnswer(remote, self.settings.timeout)),
            (None, false) if !caller.stop() => {
                Err(LiveError::Reset(remote, self.heard.code.unwrap_or_default()))
            }
            (Some(_), true) => Err(LiveError::Gone(remote, self.settings.timeout, Box::new(report))),
            (Some(_), false) if !closed && !caller.stop() => {
                Err(LiveError::Reset(remote, self.heard.code.unwrap_or_default()))
            }
            _ => Ok(report),
        }
    }
}

fn named(error: io::Error, name: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}
