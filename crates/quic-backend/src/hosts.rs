//! The endpoints of all flows: one thread runs the senders, another thread the receivers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use narrows_cc::{Bytes, Nanos};
use narrows_host::HostError;
use narrows_host::clock::{Clock, exact_timers, timespec};
use narrows_host::socket::Buffers;
use narrows_host::text::reason_of_quic;
use narrows_traffic::App;
use noq_proto::{ClientConfig, Dir, PathId, StreamId};
use rustix::event::epoll;
use rustix::io::Errno;

use super::meter::{Meter, Probe};
use super::peer::{Change, Peer};
use super::tls;

/// Bytes per write to a stream.
const CHUNK: usize = 64 << 10;
/// Maximum number of socket events per wait.
const EVENTS: usize = 64;
/// Longest wait between checks for the end of the run.
const TICK: Duration = Duration::from_millis(20);

/// An endpoint with its application.
pub(super) trait Role {
    fn peer(&mut self) -> &mut Peer;
    /// Time of the next step that needs no packet, apart from the connection's timers.
    fn due(&self) -> Nanos;
    /// Runs the application at the time `now`. Returns whether the connection may have something to send.
    fn act(&mut self, now: Nanos, at: Instant) -> Result<bool, HostError>;
    /// Handles a change of the connection.
    fn on_change(&mut self, now: Nanos, change: Change) -> Result<(), HostError>;
}

/// A sender.
pub(super) struct Sending {
    pub(super) peer: Peer,
    pub(super) label: String,
    pub(super) start: Nanos,
    pub(super) stop: Option<Nanos>,
    pub(super) app: App,
    pub(super) config: Option<ClientConfig>,
    pub(super) meter: Arc<Meter>,
    /// Bytes that the connection may buffer beyond the bytes in flight.
    pub(super) unsent: u64,
    /// Interval between readings of the scheme's internal values, and the time of the next reading.
    pub(super) interval: Nanos,
    pub(super) reading: Nanos,
    pub(super) connected: bool,
    pub(super) stream: Option<StreamId>,
    pub(super) written: u64,
    pub(super) finished: bool,
}

impl Sending {
    fn write(&mut self, now: Nanos) -> bool {
        static ZEROS: [u8; CHUNK] = [0; CHUNK];
        self.app.on_time(now, Bytes::new(self.written));
        let (meter, unsent) = (&self.meter, self.unsent);
        let Some(connection) = self.peer.connection() else { return false };
        if self.stream.is_none() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(stream) = self.stream else { return false };
        // Keep most unsent data in the application, which may pause or stop.
        connection.set_send_window(meter.inflight.load(Ordering::Relaxed) + unsent);
        let mut any = false;
        loop {
            let ready = self.app.limit().as_u64().saturating_sub(self.written);
            if ready == 0 {
                break;
            }
            match connection.send_stream(stream).write(&ZEROS[..CHUNK.min(ready as usize)]) {
                Ok(count) => {
                    self.written += count as u64;
                    any = true;
                }
                Err(_) => break, // the buffer is full until an acknowledgement arrives
            }
        }
        if self.app.is_finished() && self.written >= self.app.limit().as_u64() && !self.finished {
            self.finished = connection.send_stream(stream).finish().is_ok();
            any |= self.finished;
        }
        any
    }

    /// Publishes the scheme's internal values.
    fn read(&mut self, now: Nanos) {
        if now < self.reading {
            return;
        }
        while self.reading <= now {
            self.reading += self.interval;
        }
        let Some(connection) = self.peer.connection() else { return };
        let Some(scheme) = connection.congestion_state(PathId::ZERO).and_then(Probe::scheme) else { return };
        if let Ok(mut telemetry) = self.meter.telemetry.lock() {
            telemetry.clear();
            scheme.driver().scheme().telemetry(&mut |name, value| telemetry.push((name, value)));
        }
    }
}

impl Role for Sending {
    fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }

    fn due(&self) -> Nanos {
        let stop = self.stop.unwrap_or(Nanos::MAX);
        if self.config.is_some() {
            return self.start;
        }
        if !self.connected { stop } else { self.app.deadline().min(stop).min(self.reading) }
    }

    fn act(&mut self, now: Nanos, at: Instant) -> Result<bool, HostError> {
        if self.stop.is_some_and(|stop| stop <= now) {
            self.stop = None;
            self.config = None; // a flow that has not started yet must not start
            self.app.stop(Bytes::new(self.written));
        }
        if self.start <= now
            && let Some(config) = self.config.take()
        {
            self.peer.connect(at, config, tls::NAME)?;
        }
        if !self.connected {
            return Ok(false);
        }
        self.read(now);
        Ok(self.write(now))
    }

    fn on_change(&mut self, now: Nanos, change: Change) -> Result<(), HostError> {
        match change {
            Change::Connected => self.connected = true,
            Change::Finished if self.app.size().is_some() => self.meter.complete(now),
            Change::Finished => {}
            Change::Lost(reason) => {
                let error = io::Error::other(reason_of_quic(reason));
                return Err(HostError::step(&format!("keep the connection of `{}`", self.label), error));
            }
        }
        Ok(())
    }
}

/// A receiver, which reads and discards the data.
pub(super) struct Receiving {
    pub(super) peer: Peer,
    pub(super) meter: Arc<Meter>,
    pub(super) stream: Option<StreamId>,
}

impl Role for Receiving {
    fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }

    fn due(&self) -> Nanos {
        Nanos::MAX
    }

    fn act(&mut self, _: Nanos, _: Instant) -> Result<bool, HostError> {
        let Some(connection) = self.peer.connection() else { return Ok(false) };
        if self.stream.is_none() {
            self.stream = connection.streams().accept(Dir::Uni);
        }
        let Some(stream) = self.stream else { return Ok(false) };
        let mut count = 0;
        let mut more = false;
        let mut stream = connection.recv_stream(stream);
        if let Ok(mut chunks) = stream.read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                count += chunk.bytes.len() as u64;
            }
            more = chunks.finalize().should_transmit();
        }
        self.meter.read.fetch_add(count, Ordering::Relaxed);
        Ok(more)
    }

    fn on_change(&mut self, _: Nanos, _: Change) -> Result<(), HostError> {
        Ok(()) // the sender reports the cause
    }
}

/// Runs all endpoints of one side until `over` is set.
pub(super) fn serve<R: Role>(mut ends: Vec<R>, clock: Clock, over: &AtomicBool) -> Result<(), HostError> {
    exact_timers();
    let failed = |error: Errno| HostError::step("wait for packets", error.into());
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
    for (number, end) in (0..).zip(&mut ends) {
        let data = epoll::EventData::new_u64(number);
        epoll::add(&poll, &end.peer().socket, data, epoll::EventFlags::IN).map_err(failed)?;
    }
    let mut buffers = Buffers::new();
    let mut events = Vec::with_capacity(EVENTS);
    let mut deadlines: Vec<Nanos> = ends.iter().map(Role::due).collect();
    while !over.load(Ordering::Relaxed) {
        let next = deadlines.iter().min().copied().unwrap_or(Nanos::MAX);
        let wait = clock.until(next).min(TICK);
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&timespec(wait))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
        for event in &events {
            let number = event.data.u64() as usize;
            ends[number].peer().receive(Instant::now(), &mut buffers)?;
            deadlines[number] = Nanos::ZERO;
        }
        let now = clock.now();
        for (end, deadline) in ends.iter_mut().zip(&mut deadlines).filter(|(_, deadline)| **deadline <= now) {
            drive(end, clock)?;
            let timer = end.peer().timer().map_or(Nanos::MAX, |at| clock.at(at));
            *deadline = timer.min(end.due());
        }
    }
    Ok(())
}

/// Runs an endpoint until it has nothing more to do at this time.
fn drive<R: Role>(end: &mut R, clock: Clock) -> Result<(), HostError> {
    let at = Instant::now();
    let now = clock.now();
    end.peer().on_timer(at);
    loop {
        let mut busy = false;
        while let Some(change) = end.peer().poll() {
            end.on_change(now, change)?;
            busy = true;
        }
        busy |= end.act(now, at)?;
        busy |= end.peer().transmit(at)?;
        if !busy {
            return Ok(());
        }
    }
}
