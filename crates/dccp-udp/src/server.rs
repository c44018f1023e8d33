//! A receiver: several connections up to a limit, on one socket.
//!
//! The peer's address and UDP port and both DCCP ports identify a connection (RFC 6773 section 3.8). Packets without a
//! connection get the answers of RFC 4340: a Request opens a connection, is answered with an Init Cookie or is refused
//! with a reason; a packet that returns a valid cookie opens its connection; other packets get a Reset (No Connection,
//! section 8.3.1).
//!
//! A wake-up serves only the connections that received packets or are due (`table`). Before the peer has proved its
//! address, a connection sends at most three times the bytes that it received, and many incomplete handshakes leave no
//! state (`admission`). A connection that ended leaves a compact record (`timewait`): for the time of TIMEWAIT after
//! the peer's Reset, and, if a cookie opened the connection, as long as the cookie could open it again.

use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::time::{Duration, Instant};

use narrows_cc::{Nanos, Random};
use narrows_dccp::connection::Returned;
use narrows_dccp::udp::{self, Flow};
use narrows_dccp::wire::Body;
use narrows_dccp::{Config, Header, Kind, ResetCode, Role};
use narrows_host::alarm::Alarm;
use narrows_host::buckets::{Hasher, entropy};
use narrows_host::is_transient;
use narrows_host::socket::{Received, Socket};

use crate::admission::{Answers, HALF_OPEN, ends};
use crate::capture::Recorder;
use crate::port::{AddressPair, Port};
use crate::report::{Overview, Report};
use crate::session::{self, Session, nanos};
use crate::settings::{Caller, LiveError, Settings, Stop};
use crate::table::Table;
use crate::timewait::TimeWait;
use crate::{TICK, block_on};

/// If more than this number of connections are open, they share one line of progress.
const MANY: usize = 8;
/// Interval at which the progress of at most [`MANY`] connections is checked.
const PROGRESS_CHECK: Nanos = Nanos::from_millis(250);
/// Progress interval of more than [`MANY`] connections.
const OVERVIEW_INTERVAL: Nanos = Nanos::from_secs(1);

/// Receives until the caller requests a stop, the duration ends or, with `once`, a connection has ended. The caller
/// receives all reports; returns the last report, if any.
///
/// # Errors
/// If the receiver cannot listen, or its only connection fails.
pub fn receive(settings: &Settings, caller: &dyn Caller) -> Result<Option<Report>, LiveError> {
    let bound = StdSocket::bind(settings.address).map_err(|error| LiveError::Socket(settings.address, error))?;
    receive_on(bound, settings, caller)
}

/// As [`receive`], on a bound socket.
///
/// # Errors
/// As [`receive`].
pub fn receive_on(bound: StdSocket, settings: &Settings, caller: &dyn Caller) -> Result<Option<Report>, LiveError> {
    block_on(async {
        let socket = Socket::new(bound)?;
        let mut port = Port::new(socket, settings.capture.as_deref())?;
        let mut server = Server::new(settings, port.socket.local())?;
        let mut alarm = Alarm::new()?;
        caller.listening(port.socket.local());
        let start = Instant::now();
        let clock = || nanos(start.elapsed());
        loop {
            let expired = settings.duration.is_some_and(|duration| start.elapsed() >= duration);
            server.set_stop(match caller.stop() {
                Stop::No if expired || server.stop == Stop::Close => Stop::Close,
                stop => stop,
            });
            server.advance(&clock, caller, &mut port).await?;
            port.recorder.flush();
            port.recorder.warn(caller);
            if server.is_done() {
                return server.last.transpose();
            }
            let wait = server.deadline().as_nanos().saturating_sub(clock().as_nanos());
            let wait = Duration::from_nanos(wait).min(TICK);
            if alarm.wait(&port.socket, wait).await? {
                server.receive(&mut port, clock())?;
            }
        }
    })
}

pub struct Server<'a> {
    settings: &'a Settings,
    /// Configuration of connections rebuilt from a cookie.
    config: Config,
    local: SocketAddr,
    table: Table<'a>,
    timewait: TimeWait,
    /// The stop request; once set, further connections are refused.
    stop: Stop,
    /// With `once`, the served connection: the first that completed its handshake.
    served: Option<Flow>,
    /// Outcome of the connection that ended last.
    last: Option<Result<Report, LiveError>>,
    answers: Answers,
    next_progress: Nanos,
    overview: Overview,
    overview_at: Nanos,
    /// Connections served so far, over all wake-ups.
    #[cfg(test)]
    pub work: u64,
}

impl<'a> Server<'a> {
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(settings: &'a Settings, local: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            settings,
            config: session::config(settings, Role::Server),
            local,
            table: Table::default(),
            timewait: TimeWait::new(Hasher::new()?),
            stop: Stop::No,
            served: None,
            last: None,
            answers: Answers::new(Hasher::new()?),
            next_progress: PROGRESS_CHECK,
            overview: Overview::default(),
            overview_at: Nanos::ZERO,
            #[cfg(test)]
            work: 0,
        })
    }

    /// Requests all connections to stop.
    pub fn set_stop(&mut self, stop: Stop) {
        if stop != self.stop {
            self.stop = stop;
            let all: Vec<usize> = self.table.all().collect();
            all.into_iter().for_each(|id| self.table.make_ready(id));
        }
    }

    pub fn is_done(&self) -> bool {
        (self.stop != Stop::No || (self.settings.once && self.last.is_some()))
            && self.table.half_open() + self.table.connected() == 0
    }

    pub fn deadline(&self) -> Nanos {
        let progress = if self.table.connected() > 0 { self.next_progress } else { Nanos::MAX };
        self.table.deadline().min(self.timewait.deadline()).min(progress)
    }

    /// Serves the connections that are due and reports those that ended.
    pub async fn advance(
        &mut self,
        clock: &impl Fn() -> Nanos,
        caller: &dyn Caller,
        port: &mut Port,
    ) -> Result<(), LiveError> {
        self.answers.flush(port);
        let mut due = Vec::new();
        self.table.take_due(clock(), &mut due);
        for id in due {
            self.serve(id, clock, caller, port).await?;
        }
        self.timewait.expire(clock());
        self.show_progress(clock(), caller);
        Ok(())
    }

    async fn serve(
        &mut self,
        id: usize,
        clock: &impl Fn() -> Nanos,
        caller: &dyn Caller,
        port: &mut Port,
    ) -> Result<(), LiveError> {
        #[cfg(test)]
        {
            self.work += 1;
        }
        let Some(entry) = self.table.get(id) else { return Ok(()) };
        let now = clock();
        entry.session.supervise(now, self.stop);
        entry.session.advance(clock, port).await?;
        if !entry.session.is_over() && !entry.session.is_listening() {
            self.table.recount(id);
            self.table.rearm(id);
            return Ok(());
        }
        let Some(entry) = self.table.remove(id) else { return Ok(()) };
        if let Some(until) = entry.session.refused_until(now) {
            self.timewait.insert(&entry.flow, until);
        }
        if entry.session.is_over() && entry.session.was_connected() && !entry.session.is_dismissed() {
            match entry.session.outcome(now, caller) {
                // A failed connection does not end the other connections; its report states how it ended.
                Err(LiveError::PeerGone(_, _, report)) if !self.settings.once => self.last = Some(Ok(*report)),
                Err(LiveError::Reset(..)) if !self.settings.once => {}
                result => self.last = Some(result),
            }
        }
        Ok(())
    }

    /// Reports progress: of each connection, or of many in one line.
    fn show_progress(&mut self, now: Nanos, caller: &dyn Caller) {
        if now < self.next_progress {
            return;
        }
        self.next_progress = now.saturating_add(PROGRESS_CHECK);
        if self.table.connected() <= MANY {
            let all: Vec<usize> = self.table.all().collect();
            for id in all {
                if let Some(entry) = self.table.get(id) {
                    entry.session.show_progress(now, caller);
                }
            }
        }
        let past = now - self.overview_at;
        if past < OVERVIEW_INTERVAL {
            return;
        }
        let mut overview = std::mem::take(&mut self.overview);
        self.overview_at = now;
        if self.table.connected() > MANY {
            overview.connections = self.table.connected();
            overview.half_open = self.table.half_open();
            overview.set_interval(past);
            caller.overview(&overview);
        }
    }

    /// Passes received packets to their connections.
    fn receive(&mut self, port: &mut Port, now: Nanos) -> Result<(), LiveError> {
        let Port { socket, recorder, .. } = port;
        let mut failed = Ok(());
        let received = socket.receive(|packet| {
            if let Err(error) = self.on_packet(now, &packet, recorder) {
                failed = Err(error);
            }
        });
        failed?;
        match received {
            // Ignore ICMP errors: they concern one peer, and the timers of that peer's connection detect a failure.
            Err(error) if !is_transient(&error) && error.kind() != io::ErrorKind::ConnectionRefused => {
                Err(LiveError::Socket(self.local, error))
            }
            _ => Ok(()),
        }
    }

    /// Processes a packet.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn on_packet(&mut self, now: Nanos, packet: &Received<'_>, recorder: &mut Recorder) -> io::Result<()> {
        recorder.write(packet.from, packet.to, packet.ecn, packet.bytes);
        // RFC 6773: drop malformed packets without an answer.
        let Ok((header, body)) = udp::open(packet.bytes) else { return Ok(()) };
        let flow = Flow::of(packet.from, &header);
        let addresses = AddressPair { local: packet.to, remote: packet.from };
        let found = match self.table.find(&flow) {
            // Every repetition of a Request triggers an answer, so the answer limit applies.
            Some(id) if header.kind == Kind::Request => self.answers.admit(now, addresses).then_some(id),
            Some(id) => Some(id),
            None => self.open(now, flow, addresses, &header, &body, packet.bytes.len())?,
        };
        let Some(id) = found else { return Ok(()) };
        let Some(entry) = self.table.get(id) else { return Ok(()) };
        let before = entry.session.received();
        entry.session.on_packet(now, &header, &body, packet.ecn);
        let after = entry.session.received();
        self.overview.datagrams += after.0 - before.0;
        self.overview.bytes += after.1 - before.1;
        self.table.make_ready(id);
        if self.table.recount(id) {
            self.on_connected(now, id);
        }
        Ok(())
    }

    /// Opens a connection for a packet that belongs to none, or answers the packet.
    fn open(
        &mut self,
        now: Nanos,
        flow: Flow,
        addresses: AddressPair,
        header: &Header,
        body: &Body<'_>,
        length: usize,
    ) -> io::Result<Option<usize>> {
        let refused =
            if self.timewait.contains(&flow) { Some(ResetCode::NoConnection) } else { self.reset_code(header) };
        if let Some(code) = refused {
            self.answers.refuse(now, addresses, header, code);
            return Ok(None);
        }
        if header.kind != Kind::Request {
            let random = Random::stream(u64::from_ne_bytes(entropy()?), "dccp", 0);
            let cookies = &self.answers.cookies;
            let code = match cookies.open(&self.config, random, now, ends(addresses), header, body) {
                Returned::Connection(connection) => {
                    let session = Session::rebuilt(self.settings, *connection, addresses, now);
                    return Ok(Some(self.table.insert(flow, session)));
                }
                Returned::Bad => ResetCode::BadInitCookie,
                Returned::Nothing => ResetCode::NoConnection,
            };
            self.answers.refuse(now, addresses, header, code);
            return Ok(None);
        }
        if !self.answers.admit(now, addresses) {
            return Ok(None);
        }
        if self.table.half_open() < HALF_OPEN {
            let session = Session::new(self.settings, Role::Server, addresses, now)?;
            return Ok(Some(self.table.insert(flow, session)));
        }
        self.answers.send_cookie(&self.config, now, addresses, header, body, length)?;
        Ok(None)
    }

    /// Reset code for a packet without a connection; `None` if the packet may open one.
    fn reset_code(&self, header: &Header) -> Option<ResetCode> {
        if !matches!(header.kind, Kind::Request | Kind::Ack | Kind::DataAck) {
            return Some(ResetCode::NoConnection);
        }
        let request = header.kind == Kind::Request;
        if header.destination != self.settings.config.local_port || self.stop != Stop::No {
            Some(if request { ResetCode::ConnectionRefused } else { ResetCode::NoConnection })
        } else if request && header.service != self.settings.config.service {
            Some(ResetCode::BadServiceCode)
        } else {
            // Only a full server refuses Requests; an incomplete handshake does not exclude other handshakes.
            (request && self.is_full()).then_some(ResetCode::TooBusy)
        }
    }

    /// Whether no further connection is served.
    fn is_full(&self) -> bool {
        let taken = self.settings.once && (self.last.is_some() || self.served.is_some());
        taken || self.table.connected() >= self.settings.connections
    }

    /// Handles a completed handshake: either serves the connection, and with `once` dismisses all other connections, or
    /// dismisses this connection.
    fn on_connected(&mut self, now: Nanos, id: usize) {
        let others = self.settings.once && self.last.is_none() && self.served.is_none();
        let excess = self.table.connected() > self.settings.connections;
        if excess || (self.settings.once && !others) {
            self.dismiss(now, id);
        } else if others {
            self.served = self.table.get(id).map(|entry| entry.flow);
            let all: Vec<usize> = self.table.all().filter(|other| *other != id).collect();
            all.into_iter().for_each(|other| self.dismiss(now, other));
        }
    }

    fn dismiss(&mut self, now: Nanos, id: usize) {
        if let Some(entry) = self.table.get(id) {
            entry.session.dismiss(now);
        }
        self.table.recount(id);
        self.table.make_ready(id);
    }

    /// Memory of all connections in bytes, without the table.
    #[cfg(test)]
    pub fn memory(&mut self) -> usize {
        let all: Vec<usize> = self.table.all().collect();
        all.into_iter().filter_map(|id| self.table.get(id).map(|entry| entry.session.memory())).sum()
    }

    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.table.half_open(), self.table.connected(), self.timewait.len())
    }
}
