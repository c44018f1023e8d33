//! One connection in real time, at either end.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use narrows_cc::{Nanos, Random};
use narrows_dccp::connection::Overflow;
use narrows_dccp::wire::Body;
use narrows_dccp::{Config, Connection, Event, Header, Kind, ResetCode, Role, State, udp};
use narrows_traffic::{App, AppConfig};
use narrows_units::Histogram;
use rustix::io::Errno;

use crate::port::{Port, Way};
use crate::report::Report;
use crate::settings::{Caller, LiveError, Settings, Stop};
use crate::source::{Source, queue_for, realtime};

/// A sender that has sent everything waits so long for acknowledgements before it closes.
const LINGER: Nanos = Nanos::from_secs(1);
/// So long one connection sends before packets that came are looked at.
const TURN: Nanos = Nanos::from_millis(1);
/// Clients have a port among these 16384, another one each time: packets of an earlier connection belong to none.
const EPHEMERAL: u16 = 49_152;

/// First numbers have 48 bits.
const FIRST_NUMBERS: u64 = (1 << 48) - 1;

/// Bytes for the options of a packet with data: a report on what was received (128), features, cookies.
const OPTIONS: usize = 160;

/// The largest datagram that surely fits a packet of `mtu` bytes: headers of IP, UDP and DataAck, and options, go off.
pub fn largest(mtu: usize, remote: SocketAddr) -> Option<usize> {
    let ip = if remote.ip().to_canonical().is_ipv4() { 20 } else { 40 };
    mtu.checked_sub(ip + udp::HEADER + Header::new(Kind::DataAck).len() + OPTIONS).filter(|most| *most > 0)
}

/// What nobody can guess.
fn entropy() -> io::Result<u64> {
    getrandom::u64().map_err(io::Error::other)
}

pub fn nanos(duration: Duration) -> Nanos {
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

/// A connection with its source, and what it has told.
pub struct Peer<'a> {
    settings: &'a Settings,
    sender: bool,
    connection: Connection,
    source: Option<Source>,
    way: Way,
    /// The time the connection was last told.
    told: Nanos,
    /// There was more to send than one turn takes.
    busy: bool,
    heard: Heard,
    /// When everything was written.
    done_at: Option<Nanos>,
    /// We asked for the end.
    closing: bool,
    over: bool,
    dismissed: bool,
    next_progress: Nanos,
}

impl<'a> Peer<'a> {
    /// One end at the start; a server's waits for the packet that made it.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(settings: &'a Settings, role: Role, way: Way, now: Nanos) -> io::Result<Self> {
        let sender = role == Role::Client;
        let mut config = Config { role, ..settings.config.clone() };
        let limit = nanos(settings.timeout);
        (config.request_limit, config.msl) = (limit, limit / 4);
        // Who sees no packet must not guess ports and numbers, or could forge a Reset (RFC 4340 section 7.2). The number comes from
        // the system itself: a port that is seen tells nothing of it.
        let mut random = Random::stream(entropy()?, "dccp", 0);
        config.first_number = Some(entropy()? & FIRST_NUMBERS);
        if sender {
            config.local_port = EPHEMERAL + random.below(u64::from(u16::MAX - EPHEMERAL) + 1) as u16;
        } else {
            config.remote_port = 0;
        }
        if sender {
            let called_for = || queue_for(&settings.app, config.datagram, config.queue);
            config.queue = settings.queue.unwrap_or_else(called_for);
            if matches!(settings.app, AppConfig::Bulk) {
                config.overflow = Overflow::DropNewest; // it waits for room
            }
        }
        let source = sender.then(|| {
            let random = Random::stream(random.bits(), "app", 0);
            Source::new(App::new(settings.app, random, Nanos::ZERO), config.datagram)
        });
        Ok(Self {
            settings,
            sender,
            connection: Connection::new(&config, random, now),
            source,
            way,
            told: now,
            busy: false,
            heard: Heard { at: now, ..Heard::default() },
            done_at: None,
            closing: false,
            over: false,
            dismissed: false,
            next_progress: Nanos::from_secs(1),
        })
    }

    /// From where to where.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Ends it at once because something failed here; the other side is told, if that is possible.
    pub async fn give_up(&mut self, now: Nanos, port: &mut Port) {
        let now = now.max(self.told);
        self.connection.abort(now, ResetCode::Aborted);
        while matches!(port.collect(now, self.way, &mut self.connection, |_| ()), Ok(1..)) {
            let _ = port.flush(self.way).await;
        }
    }

    /// When it wants to go on.
    pub fn deadline(&self) -> Nanos {
        if self.busy { self.told } else { self.connection.deadline().min(self.source_deadline()) }
    }

    /// Nothing comes of it any more; what is late may still be answered.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Nothing is left of it.
    pub fn is_closed(&self) -> bool {
        self.over && self.connection.state() == State::Closed
    }

    /// The packet that made it opened nothing.
    pub fn is_listening(&self) -> bool {
        self.connection.state() == State::Listen
    }

    pub fn was_connected(&self) -> bool {
        self.heard.connected_at.is_some()
    }

    pub fn connected_at(&self) -> Option<Nanos> {
        self.heard.connected_at
    }

    /// Another is served: this one is told so, and no more is said of it.
    pub fn dismiss(&mut self, now: Nanos) {
        if !std::mem::replace(&mut self.dismissed, true) {
            let now = self.tell(now);
            self.connection.abort(now, ResetCode::TooBusy);
        }
    }

    pub fn is_dismissed(&self) -> bool {
        self.dismissed
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
    pub fn supervise(&mut self, now: Nanos, caller: &dyn Caller, stop: Stop) {
        if self.connection.state().is_over() {
            return;
        }
        let age = self.heard.connected_at.map_or(Nanos::ZERO, |at| now - at);
        if age >= self.next_progress {
            self.next_progress += Nanos::from_secs(1);
            caller.progress(&self.report(now));
        }
        let over = self
            .settings
            .duration
            .zip(self.heard.connected_at)
            .is_some_and(|(duration, at)| self.sender && now >= at.saturating_add(nanos(duration)));
        let written = self.source.as_ref().is_some_and(Source::is_done);
        if stop == Stop::Abort {
            self.connection.abort(now, ResetCode::Aborted);
        } else if stop == Stop::Close {
            self.done_at.get_or_insert(now);
            self.close(now);
        } else if over || written {
            let done = *self.done_at.get_or_insert(now);
            if self.connection.inflight().is_zero() || now >= done.saturating_add(LINGER) {
                self.close(now);
            }
        }
        // DCCP has no timer for a receiver whose sender is silent.
        let silent = now >= self.heard.at.saturating_add(nanos(self.settings.timeout));
        if !self.sender && self.heard.connected_at.is_some() && silent {
            self.heard.gone = true;
            self.connection.abort(now, ResetCode::Aborted);
        }
    }

    fn close(&mut self, now: Nanos) {
        self.closing = true;
        self.connection.close(now);
    }

    /// What is due is done. Everything gets the time at which it is done, not that at which it was due: a packet's is when it
    /// leaves, or else the wait for a timer that rings late would count as part of its round trip.
    ///
    /// # Errors
    /// If the socket or the capture fails.
    pub async fn advance(&mut self, clock: &impl Fn() -> Nanos, port: &mut Port) -> Result<(), LiveError> {
        let begin = self.tell(clock());
        if self.connection.deadline() <= begin {
            self.connection.on_timer(begin);
        }
        loop {
            let now = self.tell(clock());
            let writing = self.is_writing();
            if let (Some(source), Some(begin), true) = (&mut self.source, self.heard.connected_at, writing) {
                source.write(now - begin, &mut self.connection);
            }
            let heard = &mut self.heard;
            let count = port.collect(now, self.way, &mut self.connection, |sent| {
                if sent.data > 0 {
                    heard.data_at = now;
                }
            })?;
            if let Err(error) = port.flush(self.way).await {
                self.judge(error, port)?;
            }
            self.heard.read(now, &mut self.connection);
            // What comes in has its turn even where there is always more to send.
            self.busy = count > 0 && now >= begin.saturating_add(TURN);
            if count == 0 || (self.busy && !port.has_extra()) {
                break;
            }
        }
        self.over |= self.connection.state().is_over();
        Ok(())
    }

    /// The time for the connection, which never goes back.
    fn tell(&mut self, now: Nanos) -> Nanos {
        self.told = self.told.max(now);
        self.told
    }

    /// An error of the socket ends an attempt of a client; what exists has timers of its own, for anybody can forge ICMP, and one
    /// address that cannot be reached does not end a server.
    ///
    /// # Errors
    /// If there is no point in going on.
    pub fn judge(&self, error: io::Error, port: &Port) -> Result<(), LiveError> {
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
        let of_the_path = matches!(
            error.kind(),
            ConnectionRefused | HostUnreachable | NetworkUnreachable | ConnectionReset
        );
        let too_long = [Errno::MSGSIZE, Errno::INVAL].map(|errno| Some(errno.raw_os_error()));
        match (of_the_path, self.was_connected()) {
            _ if !self.sender => Ok(()),
            (true, true) => Ok(()),
            // The second is said of a batch.
            _ if self.was_connected() && too_long.contains(&error.raw_os_error()) => {
                let most = port.socket.mtu().and_then(|mtu| largest(mtu, self.way.remote));
                let size = self.settings.config.datagram;
                // It is no answer where it would have fitted: the path is narrower than the interface.
                let most = most.filter(|most| *most < usize::from(size));
                Err(LiveError::TooLong(self.way.remote, size, most))
            }
            (true, false) if error.kind() == ConnectionRefused => {
                Err(LiveError::Refused(self.settings.address))
            }
            _ => Err(LiveError::Socket(self.way.remote, error)),
        }
    }

    /// A packet has come, read by the rules of DCCP in UDP.
    pub fn on_packet(&mut self, now: Nanos, header: &Header, body: &Body<'_>, ecn: u8) {
        // What comes with the packet that ended the connection shall not be told, before the Reset that the end asks for, that
        // there is none.
        if self.connection.state().is_over() && !self.over {
            return;
        }
        let now = self.tell(now);
        self.heard.at = now;
        self.connection.on_decoded(now, header, body, ecn);
        // One call may bring more datagrams than the connection keeps.
        self.heard.read(now, &mut self.connection);
    }

    pub(crate) fn report(&self, now: Nanos) -> Report {
        let age = self.heard.connected_at.map_or(Nanos::ZERO, |at| now - at);
        let written = self.source.as_ref().map_or(0, |source| source.datagrams);
        // At the end, acknowledgements and the close took time without data.
        let over = self.connection.state().is_over();
        let last = if over { self.heard.data_at.max(self.done_at.unwrap_or_default()) } else { now };
        let active = self.heard.connected_at.map_or(Nanos::ZERO, |at| last.max(at) - at);
        let remote = self.way.remote;
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port()).to_string();
        Report::of(self.sender, remote, &self.connection, (age, active), written, &self.heard.delays)
    }

    /// What came of it.
    ///
    /// # Errors
    /// If it did not end as connections should.
    pub fn verdict(&self, now: Nanos, caller: &dyn Caller) -> Result<Report, LiveError> {
        let remote: SocketAddr = self.way.remote;
        let mut report = self.report(now);
        let code = self.heard.code.unwrap_or_default();
        report.reset_code = self.heard.code;
        report.reset_name = self.heard.code.and_then(ResetCode::from_wire).map(ResetCode::name);
        // The other side had answered our Close, and forgotten the connection when it came again.
        let forgotten = self.closing && code == ResetCode::NoConnection as u8;
        let closed = (code == ResetCode::Closed as u8 || forgotten) && !self.heard.gone;
        report.end = if self.heard.gone {
            "peer gone"
        } else if closed {
            "closed"
        } else {
            "reset"
        };
        let stopped = caller.stop() != Stop::No;
        if self.was_connected() {
            caller.ended(&report);
        }
        match (self.was_connected(), self.heard.gone) {
            (false, true) => Err(LiveError::NoAnswer(remote, self.settings.timeout)),
            (false, false) if !stopped => Err(LiveError::Denied(remote, code)),
            (true, true) => Err(LiveError::Gone(remote, self.settings.timeout, Box::new(report))),
            (true, false) if !closed && !stopped => Err(LiveError::Reset(remote, code)),
            _ => Ok(report),
        }
    }
}
