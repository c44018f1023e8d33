//! Applications on the hosts: one thread sends for all flows, one receives.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use narrows_cc::{Bytes, Nanos};
use narrows_host::HostError;
use narrows_host::clock::{Clock, timespec};
use narrows_traffic::App;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto};

use crate::negotiation::{self, Requester};

/// Bytes per write and read.
const CHUNK: usize = 256 << 10;
/// Events per wait.
const EVENTS: usize = 64;
/// Longest wait between checks for the end of the run.
const TICK: Duration = Duration::from_millis(20);

/// A flow's sender.
#[derive(Debug)]
pub(super) struct Client {
    /// The sender's address and port.
    pub(super) local: SocketAddrV4,
    /// The receiver's address and port.
    pub(super) remote: SocketAddrV4,
    /// Name of the scheme in the kernel.
    pub(super) scheme: String,
    pub(super) start: Nanos,
    pub(super) stop: Option<Nanos>,
    pub(super) app: App,
    pub(super) buffer: Bytes,
    /// Receives a second handle of the socket when the socket opens.
    pub(super) handle: Option<Handle>,
    /// Negotiates the rate.
    pub(super) requester: Option<Requester>,
}

/// A second handle of a socket; `None` until the socket opens.
pub(super) type Handle = Arc<Mutex<Option<OwnedFd>>>;

/// A sender's connection in progress.
#[derive(Debug)]
enum Stage {
    Waiting,
    Open(OwnedFd),
    /// The connection has failed: it was reset, or the peer did not answer for too long.
    Failed,
    /// The application has written all data; the kernel finishes the connection.
    Shut(OwnedFd),
}

#[derive(Debug)]
struct Sending {
    client: Client,
    stage: Stage,
    written: u64,
    /// The socket's buffer is full.
    full: bool,
    /// The socket was writable once.
    connected: bool,
}

impl Sending {
    fn open(&mut self, poll: &OwnedFd, number: u64) -> Result<(), HostError> {
        let client = &self.client;
        let client_address = client.local;
        let opened = || -> io::Result<OwnedFd> {
            let socket = socket()?;
            sockopt::set_tcp_congestion(&socket, &client.scheme)?;
            sockopt::set_socket_send_buffer_size_force(&socket, client.buffer.as_u64() as usize)?;
            // However the run ends, the socket closes immediately: an orphaned socket would keep its namespace and its
            // scheme alive.
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
            net::bind(&socket, &client.local)?;
            match net::connect(&socket, &client.remote) {
                Ok(()) => {}
                Err(error) if error == Errno::INPROGRESS => {}
                Err(error) => return Err(error.into()),
            }
            let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(poll, &socket, epoll::EventData::new_u64(number), flags)?;
            Ok(socket)
        };
        let socket = opened()
            .map_err(|error| HostError::step(&format!("open {} with {}", client.local, client.scheme), error))?;
        if let Some(handle) = &client.handle
            && let Ok(mut handle) = handle.lock()
        {
            *handle = socket.try_clone().ok();
        }
        if let Some(requester) = &mut self.client.requester {
            let opened = requester.open(poll, number);
            opened.map_err(|error| HostError::step(&format!("open UDP {client_address}"), error))?;
        }
        self.stage = Stage::Open(socket);
        self.full = true; // until the socket is connected
        Ok(())
    }

    /// Advances the negotiation of the flow's rate, if the flow negotiates.
    fn negotiate(&mut self, now: Nanos) -> Result<(), HostError> {
        let Some(requester) = &mut self.client.requester else { return Ok(()) };
        let unwritten = self.client.app.limit().as_u64().saturating_sub(self.written);
        match &self.stage {
            Stage::Open(socket) => {
                requester.step(now, socket.as_fd(), unwritten, (self.connected, false))?;
                if unwritten > 0 && !self.full && !requester.blocks_data() {
                    requester.on_write(now, socket.as_fd())?;
                }
                Ok(())
            }
            Stage::Shut(socket) => requester.step(now, socket.as_fd(), 0, (true, true)),
            Stage::Waiting | Stage::Failed => Ok(()),
        }
    }

    /// Writes the application's data while the socket accepts it.
    fn write(&mut self, now: Nanos, zeros: &[u8]) -> Result<(), Errno> {
        let Stage::Open(socket) = &self.stage else { return Ok(()) };
        self.client.app.on_time(now, Bytes::new(self.written));
        if self.client.requester.as_ref().is_some_and(Requester::blocks_data) {
            return Ok(());
        }
        while !self.full {
            let ready = self.client.app.limit().as_u64().saturating_sub(self.written);
            if ready == 0 {
                break;
            }
            let chunk = &zeros[..zeros.len().min(ready as usize)];
            match net::send(socket, chunk, SendFlags::NOSIGNAL) {
                Ok(count) => self.written += count as u64,
                Err(Errno::AGAIN) => self.full = true,
                Err(error) => return Err(error),
            }
        }
        if self.client.app.is_finished() && self.written >= self.client.app.limit().as_u64() {
            net::shutdown(socket, net::Shutdown::Write)?;
            let Stage::Open(socket) = std::mem::replace(&mut self.stage, Stage::Waiting) else {
                return Ok(());
            };
            self.stage = Stage::Shut(socket);
        }
        Ok(())
    }

    /// Time of the next step if no event comes before it.
    fn deadline(&self) -> Nanos {
        let stop = self.client.stop.unwrap_or(Nanos::MAX);
        let negotiation = self.client.requester.as_ref().map_or(Nanos::MAX, Requester::deadline);
        match &self.stage {
            Stage::Waiting => self.client.start,
            Stage::Open(_) => self.client.app.deadline().min(stop).min(negotiation),
            Stage::Shut(_) => negotiation,
            Stage::Failed => Nanos::MAX,
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP))?)
}

/// Sends for all flows until `over`. Call it in the senders' host.
pub(super) fn send(clients: Vec<Client>, clock: Clock, over: &AtomicBool) -> Result<(), HostError> {
    let failed = |error: io::Error| HostError::step("send", error);
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let sending = |client| Sending { client, stage: Stage::Waiting, written: 0, full: false, connected: false };
    let mut flows: Vec<Sending> = clients.into_iter().map(sending).collect();
    let zeros = vec![0; CHUNK];
    let mut events = Vec::with_capacity(EVENTS);
    while !over.load(Ordering::Relaxed) {
        let next = flows.iter().map(Sending::deadline).min().unwrap_or(Nanos::MAX);
        let wait = clock.until(next).min(TICK);
        events.clear();
        let ready = epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&timespec(wait)));
        match ready {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
        for event in &events {
            // An event of a requester's socket needs no work here: `negotiate` below reads the messages.
            if negotiation::flow_of_event(event.data.u64()).is_none() {
                let flow = &mut flows[event.data.u64() as usize];
                (flow.full, flow.connected) = (false, true);
            }
        }
        let now = clock.now();
        for (number, flow) in flows.iter_mut().enumerate() {
            if matches!(flow.stage, Stage::Waiting) && flow.client.start <= now {
                if flow.client.stop.is_some_and(|stop| stop <= now) {
                    flow.client.start = Nanos::MAX;
                    continue;
                }
                flow.open(&poll, number as u64)?;
            }
            if flow.client.stop.is_some_and(|stop| stop <= now) {
                flow.client.stop = None;
                flow.client.app.stop(Bytes::new(flow.written));
            }
            flow.negotiate(now)?;
            match flow.write(now, &zeros) {
                Ok(()) => {}
                Err(Errno::TIMEDOUT | Errno::CONNRESET | Errno::PIPE | Errno::HOSTUNREACH) => {
                    flow.stage = Stage::Failed;
                }
                Err(error) => {
                    let step = format!("send from {} to {}", flow.client.local, flow.client.remote);
                    return Err(HostError::step(&step, error.into()));
                }
            }
        }
    }
    Ok(())
}

/// Opens the receivers' listening sockets, which use `scheme`. Call it in the receivers' host.
pub(super) fn listen(ports: &[u16], buffer: Option<Bytes>, scheme: Option<&str>) -> Result<Vec<OwnedFd>, HostError> {
    let open = |port: &u16| -> io::Result<OwnedFd> {
        let listener = socket()?;
        if let Some(scheme) = scheme {
            sockopt::set_tcp_congestion(&listener, scheme)?;
        }
        if let Some(size) = buffer {
            sockopt::set_socket_recv_buffer_size_force(&listener, size.as_u64() as usize)?;
        }
        net::bind(&listener, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, *port))?;
        net::listen(&listener, 4096)?;
        Ok(listener)
    };
    let listeners: io::Result<_> = ports.iter().map(open).collect();
    listeners.map_err(|error| HostError::step("listen", error))
}

/// Reads and discards the data of all flows until `over`. Call it in the receivers' host.
///
/// Reads immediately: Linux acknowledges every second segment only if the window may advance, that is if the
/// application has read the earlier data (`__tcp_ack_snd_check`).
pub(super) fn receive(listeners: &[OwnedFd], over: &AtomicBool) -> Result<(), HostError> {
    let failed = |error: Errno| HostError::step("receive", error.into());
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
    let listening = listeners.len() as u64;
    for (number, listener) in (0..).zip(listeners) {
        epoll::add(&poll, listener, epoll::EventData::new_u64(number), epoll::EventFlags::IN).map_err(failed)?;
    }
    let mut open: Vec<Option<OwnedFd>> = Vec::new();
    let mut buffer = vec![0; CHUNK];
    let mut events = Vec::with_capacity(EVENTS);
    while !over.load(Ordering::Relaxed) {
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&timespec(TICK))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
        for event in &events {
            let number = event.data.u64();
            if number < listening {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                match net::accept_with(&listeners[number as usize], flags) {
                    Ok(socket) => {
                        let data = epoll::EventData::new_u64(listening + open.len() as u64);
                        epoll::add(&poll, &socket, data, epoll::EventFlags::IN).map_err(failed)?;
                        open.push(Some(socket));
                    }
                    Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                    Err(error) => return Err(HostError::step("accept a connection", error.into())),
                }
                continue;
            }
            let place = &mut open[(number - listening) as usize];
            let Some(socket) = place else { continue };
            // With `TRUNC`, Linux discards the data and returns its length.
            match net::recv(&*socket, buffer.as_mut_slice(), RecvFlags::TRUNC) {
                Ok((0, _)) => *place = None,
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => *place = None, // the sender's host reports the cause
            }
        }
    }
    // Sockets close without a FIN: the device is gone, so Linux would retransmit the FIN for minutes and keep the
    // namespace alive.
    for socket in open.iter().flatten() {
        sockopt::set_socket_linger(socket, Some(Duration::ZERO)).map_err(failed)?;
    }
    Ok(())
}
