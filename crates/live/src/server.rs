//! A receiver: any number of connections, up to a limit, on one socket.
//!
//! A connection is known by the other side's address and UDP port and by both DCCP ports (RFC 6773 section 3.8). Packets of none
//! are answered as RFC 4340 says: a Request opens a connection, or is refused with the reason; anything else is told that there is
//! no connection (section 8.3.1). What has ended with a Reset of the other side stays for TIMEWAIT.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket as Plain};
use std::time::{Duration, Instant};

use narrows_cc::Nanos;
use narrows_dccp::udp::{self, Flow};
use narrows_dccp::{Header, Kind, ResetCode, Role};

use crate::alarm::Alarm;
use crate::capture::Capture;
use crate::peer::{Peer, nanos};
use crate::port::{Port, Way};
use crate::report::Report;
use crate::settings::{Caller, LiveError, Settings, Stop};
use crate::socket::{Arrived, Socket};
use crate::{TICK, block_on, forgivable};

/// The least time between two Resets to strangers, who get no more bytes than they sent, or eight more.
const REFUSAL_INTERVAL: Nanos = Nanos::from_millis(10);

/// Receives until it is told to stop, its time is over, or, with `once`, a connection has ended. The reports go to the caller,
/// the last one comes back, if there was one.
///
/// # Errors
/// If it cannot listen, or the only connection does not end as it should.
pub fn receive(settings: &Settings, caller: &dyn Caller) -> Result<Option<Report>, LiveError> {
    let plain = Plain::bind(settings.address).map_err(|error| LiveError::Socket(settings.address, error))?;
    receive_on(plain, settings, caller)
}

/// As [`receive`], on a bound socket.
///
/// # Errors
/// As [`receive`].
pub fn receive_on(
    plain: Plain,
    settings: &Settings,
    caller: &dyn Caller,
) -> Result<Option<Report>, LiveError> {
    block_on(async {
        let socket = Socket::new(plain)?;
        let mut port = Port::new(socket, settings.capture.as_deref())?;
        let mut server = Server::new(settings, port.socket.local());
        let mut alarm = Alarm::new()?;
        caller.listening(port.socket.local());
        let start = Instant::now();
        let clock = || nanos(start.elapsed());
        loop {
            let late = settings.duration.is_some_and(|duration| start.elapsed() >= duration);
            server.stop = match caller.stop() {
                Stop::No if late || server.stop == Stop::Close => Stop::Close,
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
                server.hear(&mut port, clock())?;
            }
        }
    })
}

pub struct Server<'a> {
    settings: &'a Settings,
    local: SocketAddr,
    peers: BTreeMap<Flow, Peer<'a>>,
    /// If so, there are no more connections.
    stop: Stop,
    /// What came of the connection that ended last.
    last: Option<Result<Report, LiveError>>,
    refusals: Refusals,
}

impl<'a> Server<'a> {
    pub fn new(settings: &'a Settings, local: SocketAddr) -> Self {
        let refusals = Refusals::default();
        Self { settings, local, peers: BTreeMap::new(), stop: Stop::No, last: None, refusals }
    }

    /// Connections that are not over.
    fn present(&self) -> usize {
        self.peers.values().filter(|peer| !peer.is_over()).count()
    }

    /// With `once`: the one that is served.
    fn chosen(&self) -> Option<Flow> {
        let there = self.peers.iter().filter(|(_, peer)| peer.was_connected());
        there.min_by_key(|(_, peer)| peer.connected_at()).map(|(flow, _)| *flow)
    }

    pub fn is_done(&self) -> bool {
        (self.stop != Stop::No || (self.settings.once && self.last.is_some())) && self.present() == 0
    }

    pub fn deadline(&self) -> Nanos {
        self.peers.values().map(Peer::deadline).min().unwrap_or(Nanos::MAX)
    }

    /// What is due; ended connections are told of.
    pub async fn advance(
        &mut self,
        clock: &impl Fn() -> Nanos,
        caller: &dyn Caller,
        port: &mut Port,
    ) -> Result<(), LiveError> {
        let chosen = self.chosen().filter(|_| self.settings.once);
        for (flow, peer) in &mut self.peers {
            let now = clock();
            if chosen.is_some_and(|chosen| chosen != *flow) {
                peer.dismiss(now);
            }
            let was_over = peer.is_over();
            peer.supervise(now, caller, self.stop);
            peer.advance(clock, port).await?;
            if peer.is_over() && !was_over && peer.was_connected() && !peer.is_dismissed() {
                self.last = Some(match peer.verdict(now, caller) {
                    // Others go on; the report says how this one ended.
                    Err(LiveError::Gone(_, _, report)) if !self.settings.once => Ok(*report),
                    Err(LiveError::Reset(..)) if !self.settings.once => continue,
                    result => result,
                });
            }
        }
        self.peers.retain(|_, peer| !peer.is_closed() && !peer.is_listening());
        for (way, packet) in self.refusals.waiting.drain(..) {
            port.answer(way, &packet)?;
        }
        Ok(())
    }

    /// Hands what the socket has to the connections.
    fn hear(&mut self, port: &mut Port, now: Nanos) -> Result<(), LiveError> {
        let Port { socket, capture, .. } = port;
        let mut failed = Ok(());
        let received = socket.receive(|packet| {
            if let Err(error) = self.on_packet(now, &packet, capture.as_mut()) {
                failed = Err(error);
            }
        });
        failed?;
        match received {
            // What ICMP told of one peer; its connection has timers.
            Err(error) if !forgivable(&error) && error.kind() != io::ErrorKind::ConnectionRefused => {
                Err(LiveError::Socket(self.local, error))
            }
            _ => Ok(()),
        }
    }

    pub fn on_packet(
        &mut self,
        now: Nanos,
        packet: &Arrived<'_>,
        capture: Option<&mut Capture>,
    ) -> io::Result<()> {
        if let Some(capture) = capture {
            capture.write(packet.from, packet.to, packet.ecn, packet.bytes)?;
        }
        // RFC 6773: what is no packet is dropped without an answer.
        let Ok((header, body)) = udp::open(packet.bytes) else { return Ok(()) };
        let flow = Flow::of(packet.from, &header);
        let way = Way { local: packet.to, remote: packet.from };
        if !self.peers.contains_key(&flow) {
            if let Some(code) = self.objection(&header) {
                self.refusals.add(now, way, &header, code);
                return Ok(());
            }
            self.peers.insert(flow, Peer::new(self.settings, Role::Server, way, now)?);
        }
        if let Some(peer) = self.peers.get_mut(&flow) {
            peer.on_packet(now, &header, &body, packet.ecn);
        }
        Ok(())
    }

    /// Why a packet of no connection does not open one.
    fn objection(&self, header: &Header) -> Option<ResetCode> {
        if header.kind != Kind::Request {
            Some(ResetCode::NoConnection)
        } else if header.destination != self.settings.config.local_port || self.stop != Stop::No {
            Some(ResetCode::ConnectionRefused)
        } else if header.service != self.settings.config.service {
            Some(ResetCode::BadServiceCode)
        } else {
            // Who only asks does not keep others out: with `once` the first whose handshake is complete is served.
            let taken = self.settings.once && (self.last.is_some() || self.chosen().is_some());
            (taken || self.present() >= self.settings.connections).then_some(ResetCode::TooBusy)
        }
    }
}

/// Resets to packets of no connection, as many as may be.
#[derive(Default)]
struct Refusals {
    next: Nanos,
    waiting: Vec<(Way, Vec<u8>)>,
}

impl Refusals {
    /// Answers `header`, unless another answer was given just now, or it is a Reset itself.
    fn add(&mut self, now: Nanos, way: Way, header: &Header, code: ResetCode) {
        if header.kind == Kind::Reset || now < self.next {
            return;
        }
        self.next = now.saturating_add(REFUSAL_INTERVAL);
        let mut packet = Vec::new();
        header.refusal(code).encode(&[], &[], &mut packet);
        self.waiting.push((way, packet));
    }
}
