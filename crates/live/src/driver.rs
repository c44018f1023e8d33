//! One task that drives one connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use narrows_cc::{Nanos, Random};
use narrows_dccp::{Config, Connection, Event, ResetCode, Role, State};
use narrows_endpoint::{App, AppConfig};
use narrows_net::Histogram;
use thiserror::Error;
use tokio::runtime;

use crate::capture::Capture;
use crate::report::Report;
use crate::socket::Socket;
use crate::source::{Source, realtime};

/// How often a driver looks whether it shall stop.
const LOOK: Nanos = Nanos::from_millis(50);
/// A driver that wakes later than this does not make up for more: what is sent at once stays a few milliseconds of the pace.
const LATEST: Nanos = Nanos::from_millis(4);
/// Batches read before what they cause is sent.
const BATCHES: usize = 4;
/// Timers that are caught up with before the socket is looked at again.
const TURNS: usize = 4_096;
/// Between two lines of progress.
const PROGRESS: Nanos = Nanos::from_secs(1);

/// Settings of both ends.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The protocol's.
    pub config: Config,
    /// Where a receiver listens, or where a sender's packets go.
    pub address: SocketAddr,
    /// What a sender sends.
    pub app: AppConfig,
    /// For how long; until it is stopped where nothing is said.
    pub duration: Option<Duration>,
    /// A peer that says nothing for so long, though it should, is gone.
    pub timeout: Duration,
    /// A receiver ends with its first connection.
    pub once: bool,
    /// Where all packets are recorded.
    pub capture: Option<PathBuf>,
    /// A line on standard error every second.
    pub progress: bool,
}

/// Why there are no results.
#[derive(Debug, Error)]
pub enum LiveError {
    /// No Response in time.
    #[error("no answer from {0} in {1:?}")]
    NoAnswer(SocketAddr, Duration),
    /// The other machine says that nobody listens there.
    #[error("{0} refuses: nobody listens there")]
    Refused(SocketAddr),
    /// The other side ended the handshake.
    #[error("{0} refuses the connection: reset code {1}")]
    Reset(SocketAddr, u8),
    /// Stopped before there was a connection.
    #[error("stopped before {0} answered")]
    Stopped(SocketAddr),
    /// Someone else has the port.
    #[error("{0} is in use")]
    InUse(SocketAddr),
    /// The system says no.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

/// Sends to [`Settings::address`] until the duration is over or `stop` is set: 1 closes, 2 breaks off.
///
/// # Errors
/// If there was no connection, or the system refuses something.
pub fn send(settings: &Settings, stop: &AtomicU8) -> Result<Report, LiveError> {
    let local: IpAddr = match settings.address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    block_on(async {
        let socket = open(SocketAddr::new(local, 0), Some(settings.address))?;
        let mut capture = capture(settings)?;
        let mut driver = Driver::new(settings, socket, &mut capture, Role::Client, stop);
        driver.run().await?;
        Ok(driver.report())
    })
}

/// Listens at [`Settings::address`] and hands the report of each connection to `each`, one after the other, until `stop` is set
/// or, with [`Settings::once`], the first is over. Meanwhile others get no answer.
///
/// # Errors
/// If the system refuses something.
pub fn receive(settings: &Settings, stop: &AtomicU8, mut each: impl FnMut(Report)) -> Result<(), LiveError> {
    block_on(async {
        let mut socket = open(settings.address, None)?;
        let mut capture = capture(settings)?;
        if settings.progress {
            eprintln!("listening at {}", socket.local());
        }
        loop {
            let mut driver = Driver::new(settings, socket, &mut capture, Role::Server, stop);
            driver.run().await?;
            let met = driver.connected_at.is_some();
            if met {
                each(driver.report());
            }
            if stop.load(Ordering::Relaxed) > 0 || (settings.once && met) {
                return Ok(());
            }
            socket = driver.socket;
        }
    })
}

fn block_on<T>(work: impl Future<Output = Result<T, LiveError>>) -> Result<T, LiveError> {
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|error| LiveError::System("event loop".into(), error))?.block_on(work)
}

fn open(local: SocketAddr, peer: Option<SocketAddr>) -> Result<Socket, LiveError> {
    Socket::open(local, peer).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => LiveError::InUse(local),
        _ => LiveError::System(peer.unwrap_or(local).to_string(), error),
    })
}

fn capture(settings: &Settings) -> Result<Option<Capture>, LiveError> {
    let create = |path: &PathBuf| {
        Capture::create(path).map_err(|error| LiveError::System(path.display().to_string(), error))
    };
    settings.capture.as_ref().map(create).transpose()
}

/// Packets of one size and codepoint that leave together.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    size: usize,
    count: usize,
    ecn: u8,
}

struct Driver<'a> {
    settings: &'a Settings,
    stop: &'a AtomicU8,
    role: Role,
    socket: Socket,
    capture: &'a mut Option<Capture>,
    connection: Connection,
    start: Instant,
    /// The latest time that the connection has heard of.
    told: Nanos,
    source: Option<Source>,
    written: u64,
    peer: Option<SocketAddr>,
    /// Our address and where answers go: of the last packet while there is no peer.
    ends: (SocketAddr, SocketAddr),
    batch: Batch,
    delays: Histogram,
    connected_at: Option<Nanos>,
    heard_at: Nanos,
    /// Since when an answer is waited for.
    asked_at: Option<Nanos>,
    closing_at: Option<Nanos>,
    ended_at: Option<Nanos>,
    refused: bool,
    gone: bool,
    code: Option<u8>,
    progress_at: Nanos,
    progress_bytes: u64,
}

impl<'a> Driver<'a> {
    fn new(
        settings: &'a Settings,
        socket: Socket,
        capture: &'a mut Option<Capture>,
        role: Role,
        stop: &'a AtomicU8,
    ) -> Self {
        // Numbers of connections shall not be guessed from those before (RFC 4340 section 7.2).
        let seed = realtime() ^ (u64::from(std::process::id()) << 32);
        let config = Config { role, remote_port: 0, ..settings.config.clone() };
        let config = match role {
            Role::Client => Config { remote_port: settings.config.remote_port, ..config },
            Role::Server => config,
        };
        let peer = (role == Role::Client).then_some(settings.address);
        Self {
            role,
            connection: Connection::new(&config, Random::stream(seed, "connection", 0), Nanos::ZERO),
            ends: (socket.local(), settings.address),
            settings,
            stop,
            socket,
            capture,
            start: Instant::now(),
            told: Nanos::ZERO,
            source: None,
            written: 0,
            peer,
            batch: Batch::default(),
            delays: Histogram::new(),
            connected_at: None,
            heard_at: Nanos::ZERO,
            asked_at: None,
            closing_at: None,
            ended_at: None,
            refused: false,
            gone: false,
            code: None,
            progress_at: PROGRESS,
            progress_bytes: 0,
        }
    }

    fn now(&self) -> Nanos {
        Nanos::from_nanos(self.start.elapsed().as_nanos() as u64).max(self.told)
    }

    async fn run(&mut self) -> Result<(), LiveError> {
        loop {
            self.wake().await?;
            let now = self.now();
            self.look(now)?;
            self.transmit(now).await?;
            if self.connection.state().is_over() {
                self.read(now);
                self.ended_at.get_or_insert(now);
                return self.outcome();
            }
            let due = self.due().min(now + LOOK);
            if due <= self.now() {
                // The event loop sees what has arrived.
                tokio::task::yield_now().await;
            } else {
                let at = tokio::time::Instant::from_std(self.start + Duration::from_nanos(due.as_nanos()));
                match tokio::time::timeout_at(at, self.socket.readable()).await {
                    Ok(ready) => ready.map_err(|error| self.system(error))?,
                    Err(_) => continue,
                }
            }
            self.take_in().await?;
        }
    }

    fn system(&self, error: io::Error) -> LiveError {
        LiveError::System(self.ends.1.to_string(), error)
    }

    fn due(&self) -> Nanos {
        let source = self.source.as_ref().map_or(Nanos::MAX, Source::deadline);
        self.connection.deadline().min(source)
    }

    /// Does what was due, each at its time.
    async fn wake(&mut self) -> Result<(), LiveError> {
        for _ in 0..TURNS {
            let now = self.now();
            let due = self.due();
            if due > now {
                break;
            }
            let at = due.max(now.saturating_sub(LATEST)).max(self.told);
            self.told = at;
            if let Some(source) = &mut self.source {
                source.write(at, &mut self.connection);
            }
            if self.connection.deadline() <= at {
                self.connection.on_timer(at);
            }
            self.read(at);
            self.transmit(at).await?;
        }
        Ok(())
    }

    /// Reads what has arrived, and answers.
    async fn take_in(&mut self) -> Result<(), LiveError> {
        for _ in 0..BATCHES {
            let now = self.now();
            self.told = now;
            let Self { socket, connection, capture, peer, ends, heard_at, asked_at, .. } = self;
            let mut written = Ok(());
            let outcome = socket.receive(|arrived| {
                if peer.is_some_and(|peer| peer != arrived.from) {
                    return;
                }
                if let Some(capture) = capture {
                    let recorded = capture.write(arrived.from, arrived.to, arrived.ecn, arrived.bytes);
                    if let Err(error) = recorded {
                        written = Err(error);
                    }
                }
                let valid = connection.stats().packets_received;
                connection.on_packet(now, arrived.bytes, arrived.ecn);
                if connection.stats().packets_received > valid || connection.state().is_over() {
                    (*heard_at, *asked_at) = (now, None);
                }
                *ends = (arrived.to, arrived.from);
                if connection.state() != State::Listen {
                    *peer = Some(arrived.from);
                }
            });
            self.recorded(written)?;
            self.read(now);
            match outcome {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.refused = true,
                Err(error) => return Err(self.system(error)),
            }
            self.transmit(now).await?;
        }
        Ok(())
    }

    /// Events of the connection.
    fn read(&mut self, now: Nanos) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Connected => {
                    self.connected_at = Some(now);
                    self.progress_at = now + PROGRESS;
                    if self.role == Role::Client {
                        let random = Random::stream(realtime(), "application", 0);
                        let app = App::new(self.settings.app, random, now);
                        self.source = Some(Source::new(app, self.settings.config.datagram));
                    }
                }
                Event::Datagram(data) => {
                    if let Some(stamp) = data.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)) {
                        self.delays.record(realtime().saturating_sub(stamp));
                    }
                    self.connection.recycle(data);
                }
                Event::PeerGone => self.gone = true,
                Event::Closed { code } => {
                    self.code = Some(code);
                    self.ended_at = Some(if self.gone { self.heard_at } else { now });
                }
            }
        }
    }

    /// Sends all that may leave.
    async fn transmit(&mut self, now: Nanos) -> Result<(), LiveError> {
        self.told = now;
        loop {
            if let Some(source) = &mut self.source
                && source.is_endless()
            {
                source.write(now, &mut self.connection);
            }
            let begin = self.batch.bytes.len();
            let Some(sent) = self.connection.poll_transmit(now, &mut self.batch.bytes) else { break };
            let (size, ends) = (self.batch.bytes.len() - begin, self.ends);
            if let Some(capture) = self.capture {
                let recorded = capture.write(ends.0, ends.1, sent.ecn, &self.batch.bytes[begin..]);
                self.recorded(recorded)?;
            }
            if self.role == Role::Client && self.asked_at.is_none() {
                self.asked_at = Some(now);
            }
            let joins = begin == 0 || (size <= self.batch.size && sent.ecn == self.batch.ecn);
            if !joins {
                self.flush(begin).await?;
            }
            if self.batch.count == 0 {
                (self.batch.size, self.batch.ecn) = (size, sent.ecn);
            }
            self.batch.count += 1;
            // A shorter one ends a batch.
            if size < self.batch.size || self.batch.count >= self.socket.segments(self.batch.size) {
                self.flush(self.batch.bytes.len()).await?;
            }
        }
        self.flush(self.batch.bytes.len()).await?;
        if let Some(capture) = self.capture {
            let flushed = capture.flush();
            self.recorded(flushed)?;
        }
        Ok(())
    }

    /// Sends the first bytes of the batch; what follows begins a new one.
    async fn flush(&mut self, bytes: usize) -> Result<(), LiveError> {
        while bytes > 0 {
            let Batch { bytes: all, size, ecn, .. } = &self.batch;
            match self.socket.send(self.ends.1, *ecn, &all[..bytes], *size) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.writable().await.map_err(|error| self.system(error))?;
                }
                // Said of a packet before; this one is lost, as in a network.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.refused = true;
                    break;
                }
                Err(error) => return Err(self.system(error)),
            }
        }
        self.batch.bytes.drain(..bytes);
        self.batch.count = 0;
        Ok(())
    }

    fn recorded(&self, outcome: io::Result<()>) -> Result<(), LiveError> {
        let name = || self.settings.capture.as_ref().map_or(String::new(), |path| path.display().to_string());
        outcome.map_err(|error| LiveError::System(name(), error))
    }

    /// Whether to close, to give up, or to tell how it goes.
    fn look(&mut self, now: Nanos) -> Result<(), LiveError> {
        let timeout = Nanos::from_nanos(self.settings.timeout.as_nanos() as u64);
        let state = self.connection.state();
        let stop = self.stop.load(Ordering::Relaxed);
        let over = self.settings.duration.is_some_and(|duration| {
            self.role == Role::Client
                && self.connected_at.is_some_and(|at| (now - at).as_nanos() >= duration.as_nanos() as u64)
        });
        if (stop > 0 || over) && self.closing_at.is_none() && !state.is_over() {
            self.end_source();
            self.closing_at = Some(now);
            self.connection.close(now);
        }
        let waits = match (self.role, state) {
            (_, State::Closed | State::TimeWait | State::Listen) => None,
            (Role::Client, _) => self.asked_at,
            (Role::Server, _) => Some(self.heard_at),
        };
        let silent = waits.is_some_and(|since| now.saturating_sub(since) >= timeout);
        // A closing peer that is not there any more has closed; one that was there before is gone.
        if stop > 1 || silent || (self.refused && self.role == Role::Client) {
            self.end_source();
            let closing = matches!(state, State::Closing | State::CloseReq);
            self.gone |= !state.is_over() && (silent || (self.refused && !closing));
            self.connection.abort(now, ResetCode::Aborted);
            if state == State::Closing && self.refused {
                self.code = Some(ResetCode::Closed as u8);
            }
        }
        if self.settings.progress && now >= self.progress_at && self.connected_at.is_some() {
            self.progress_at = now + PROGRESS;
            let report = self.report();
            let rate = (report.bytes - self.progress_bytes) as f64 * 8e-6;
            self.progress_bytes = report.bytes;
            eprintln!("{}", report.progress(rate));
        }
        Ok(())
    }

    fn end_source(&mut self) {
        if let Some(source) = self.source.take() {
            self.written = source.datagrams;
        }
    }

    /// It is over: with results, or without.
    fn outcome(&mut self) -> Result<(), LiveError> {
        self.end_source();
        if self.connected_at.is_some() || self.role == Role::Server {
            return Ok(());
        }
        let peer = self.settings.address;
        Err(if self.refused {
            LiveError::Refused(peer)
        } else if self.gone {
            LiveError::NoAnswer(peer, self.settings.timeout)
        } else if self.closing_at.is_some() {
            LiveError::Stopped(peer)
        } else {
            LiveError::Reset(peer, self.code.unwrap_or_default())
        })
    }

    fn report(&self) -> Report {
        let until = self.ended_at.unwrap_or_else(|| self.now());
        let age = until.saturating_sub(self.connected_at.unwrap_or(until));
        let written = self.source.as_ref().map_or(self.written, |source| source.datagrams);
        let sender = self.role == Role::Client;
        let remote = self.ends.1.to_string();
        let report = Report::of(sender, remote, &self.connection, age, written, &self.delays);
        let end = match self.code {
            _ if self.gone => "peer gone",
            None => "open",
            Some(code) if code == ResetCode::Closed as u8 => "closed",
            Some(_) => "reset",
        };
        Report { end, reset_code: self.code, ..report }
    }
}
