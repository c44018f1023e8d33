//! A receiver: several connections up to a limit, on one socket.
//!
//! The peer's address and UDP port and both DCCP ports identify a connection (RFC 6773 section 3.8). Packets
//! without a connection get the answers of RFC 4340: a Request opens a connection or is refused with a
//! reason, and other packets get a Reset (No Connection, section 8.3.1). A connection that ended with the
//! peer's Reset remains for TIMEWAIT.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::time::{Duration, Instant};

use narrows_cc::Nanos;
use narrows_dccp::udp::{self, Flow};
use narrows_dccp::{Header, Kind, ResetCode, Role};

use crate::alarm::Alarm;
use crate::capture::Capture;
use crate::port::{AddressPair, Port};
use crate::report::Report;
use crate::session::{Session, nanos};
use crate::settings::{Caller, LiveError, Settings, Stop};
use crate::socket::{Received, Socket};
use crate::{TICK, block_on, is_transient};

/// Least time between two Resets without a connection; each has at most eight bytes more than the packet it
/// answers.
const REFUSAL_INTERVAL: Nanos = Nanos::from_millis(10);

/// Receives until the caller stops it, its duration ends or, with `once`, a connection has ended. The caller
/// gets all reports; returns the last one, if any.
///
/// # Errors
/// If it cannot listen, or its only connection fails.
pub fn receive(settings: &Settings, caller: &dyn Caller) -> Result<Option<Report>, LiveError> {
    let bound =
        StdSocket::bind(settings.address).map_err(|error| LiveError::Socket(settings.address, error))?;
    receive_on(bound, settings, caller)
}

/// As [`receive`], on a bound socket.
///
/// # Errors
/// As [`receive`].
pub fn receive_on(
    bound: StdSocket,
    settings: &Settings,
    caller: &dyn Caller,
) -> Result<Option<Report>, LiveError> {
    block_on(async {
        let socket = Socket::new(bound)?;
        let mut port = Port::new(socket, settings.capture.as_deref())?;
        let mut server = Server::new(settings, port.socket.local());
        let mut alarm = Alarm::new()?;
        caller.listening(port.socket.local());
        let start = Instant::now();
        let clock = || nanos(start.elapsed());
        loop {
            let expired = settings.duration.is_some_and(|duration| start.elapsed() >= duration);
            server.stop = match caller.stop() {
                Stop::No if expired || server.stop == Stop::Close => Stop::Close,
                stop => stop,
            };
            server.advance(&clock, caller, &mut port).await?;
            port.flush_capture()?;
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
    local: SocketAddr,
    sessions: BTreeMap<Flow, Session<'a>>,
    /// When set, refuses further connections.
    stop: Stop,
    /// Outcome of the connection that ended last.
    last: Option<Result<Report, LiveError>>,
    refusals: Refusals,
}

impl<'a> Server<'a> {
    pub fn new(settings: &'a Settings, local: SocketAddr) -> Self {
        let refusals = Refusals::default();
        Self { settings, local, sessions: BTreeMap::new(), stop: Stop::No, last: None, refusals }
    }

    /// Connections that are not over.
    fn active_count(&self) -> usize {
        self.sessions.values().filter(|session| !session.is_over()).count()
    }

    /// With `once`, the connection that is served: the first that completed its handshake.
    fn served(&self) -> Option<Flow> {
        let connected = self.sessions.iter().filter(|(_, session)| session.was_connected());
        connected.min_by_key(|(_, session)| session.connected_at()).map(|(flow, _)| *flow)
    }

    pub fn is_done(&self) -> bool {
        (self.stop != Stop::No || (self.settings.once && self.last.is_some())) && self.active_count() == 0
    }

    pub fn deadline(&self) -> Nanos {
        self.sessions.values().map(Session::deadline).min().unwrap_or(Nanos::MAX)
    }

    /// Runs all sessions and reports ended connections.
    pub async fn advance(
        &mut self,
        clock: &impl Fn() -> Nanos,
        caller: &dyn Caller,
        port: &mut Port,
    ) -> Result<(), LiveError> {
        let served = self.served().filter(|_| self.settings.once);
        for (flow, session) in &mut self.sessions {
            let now = clock();
            if served.is_some_and(|served| served != *flow) {
                session.dismiss(now);
            }
            let was_over = session.is_over();
            session.supervise(now, caller, self.stop);
            session.advance(clock, port).await?;
            if session.is_over() && !was_over && session.was_connected() && !session.is_dismissed() {
                self.last = Some(match session.outcome(now, caller) {
                    // A failed connection does not end the others; its report states the end.
                    Err(LiveError::PeerGone(_, _, report)) if !self.settings.once => Ok(*report),
                    Err(LiveError::Reset(..)) if !self.settings.once => continue,
                    result => result,
                });
            }
        }
        self.sessions.retain(|_, session| !session.is_closed() && !session.is_listening());
        for (addresses, packet) in self.refusals.waiting.drain(..) {
            port.answer(addresses, &packet)?;
        }
        Ok(())
    }

    /// Passes received packets to their connections.
    fn receive(&mut self, port: &mut Port, now: Nanos) -> Result<(), LiveError> {
        let Port { socket, capture, .. } = port;
        let mut failed = Ok(());
        let received = socket.receive(|packet| {
            if let Err(error) = self.on_packet(now, &packet, capture.as_mut()) {
                failed = Err(error);
            }
        });
        failed?;
        match received {
            // ICMP errors concern one peer, whose connection has timers.
            Err(error) if !is_transient(&error) && error.kind() != io::ErrorKind::ConnectionRefused => {
                Err(LiveError::Socket(self.local, error))
            }
            _ => Ok(()),
        }
    }

    pub fn on_packet(
        &mut self,
        now: Nanos,
        packet: &Received<'_>,
        capture: Option<&mut Capture>,
    ) -> io::Result<()> {
        if let Some(capture) = capture {
            capture.write(packet.from, packet.to, packet.ecn, packet.bytes)?;
        }
        // RFC 6773: drop malformed packets without an answer.
        let Ok((header, body)) = udp::open(packet.bytes) else { return Ok(()) };
        let flow = Flow::of(packet.from, &header);
        let addresses = AddressPair { local: packet.to, remote: packet.from };
        if !self.sessions.contains_key(&flow) {
            if let Some(code) = self.reset_code(&header) {
                self.refusals.add(now, addresses, &header, code);
                return Ok(());
            }
            self.sessions.insert(flow, Session::new(self.settings, Role::Server, addresses, now)?);
        }
        if let Some(session) = self.sessions.get_mut(&flow) {
            session.on_packet(now, &header, &body, packet.ecn);
        }
        Ok(())
    }

    /// Reset code for a packet without a connection; `None` if the packet may open one.
    fn reset_code(&self, header: &Header) -> Option<ResetCode> {
        if header.kind != Kind::Request {
            Some(ResetCode::NoConnection)
        } else if header.destination != self.settings.config.local_port || self.stop != Stop::No {
            Some(ResetCode::ConnectionRefused)
        } else if header.service != self.settings.config.service {
            Some(ResetCode::BadServiceCode)
        } else {
            // An incomplete handshake does not keep others out: `once` serves the first that completes.
            let taken = self.settings.once && (self.last.is_some() || self.served().is_some());
            (taken || self.active_count() >= self.settings.connections).then_some(ResetCode::TooBusy)
        }
    }
}

/// Rate-limited Resets to packets without a connection.
#[derive(Default)]
struct Refusals {
    next: Nanos,
    waiting: Vec<(AddressPair, Vec<u8>)>,
}

impl Refusals {
    /// Answers `header` with a Reset, except a Reset or within the least interval.
    fn add(&mut self, now: Nanos, addresses: AddressPair, header: &Header, code: ResetCode) {
        if header.kind == Kind::Reset || now < self.next {
            return;
        }
        self.next = now.saturating_add(REFUSAL_INTERVAL);
        let mut packet = Vec::new();
        header.refusal(code).encode(&[], &[], &mut packet);
        self.waiting.push((addresses, packet));
    }
}
