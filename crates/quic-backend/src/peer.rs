//! One endpoint of a flow: noq's state machine on a UDP socket.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use narrows_host::HostError;
use narrows_host::socket::Buffers;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, Event,
    FourTuple, ServerConfig,
};

use super::udp::Udp;

/// Maximum number of datagrams per call. A larger batch would wait in the relay's socket.
const BATCH: usize = 32;

/// A change that the application must handle.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The handshake is over.
    Connected,
    /// The peer has acknowledged the whole stream.
    Finished,
    /// The connection failed for this reason.
    Lost(String),
}

/// One endpoint of a flow.
pub(super) struct Peer {
    pub(super) socket: Udp,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    remote: SocketAddr,
    buffer: Vec<u8>,
}

impl Peer {
    /// Creates an endpoint whose peer is at `remote`; with `server`, the endpoint waits for the peer to connect.
    pub(super) fn new(socket: Udp, remote: SocketAddr, server: Option<Arc<ServerConfig>>) -> Self {
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), server, false);
        Self { socket, endpoint, connection: None, remote, buffer: Vec::new() }
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut().map(|(_, connection)| connection)
    }

    /// Begins the handshake.
    pub(super) fn connect(&mut self, now: Instant, config: ClientConfig, name: &str) -> Result<(), HostError> {
        let begun = self.endpoint.connect(now, config, self.remote, name);
        self.connection = Some(begun.map_err(|error| HostError::step("connect", io::Error::other(error)))?);
        Ok(())
    }

    /// Time at which the connection's next timer expires.
    pub(super) fn timer(&mut self) -> Option<Instant> {
        self.connection()?.poll_timeout()
    }

    /// Processes the timers that have expired.
    pub(super) fn on_timer(&mut self, now: Instant) {
        if let Some(connection) = self.connection()
            && connection.poll_timeout().is_some_and(|at| at <= now)
        {
            connection.handle_timeout(now);
        }
    }

    /// Reads and processes the datagrams that have arrived.
    pub(super) fn receive(&mut self, now: Instant, buffers: &mut Buffers) -> Result<(), HostError> {
        let Self { socket, endpoint, connection, remote, buffer } = self;
        let mut failed = None;
        loop {
            let take = |_port: u16, ecn: u8, datagram: &[u8]| {
                buffer.clear();
                let (path, ecn) = (FourTuple::from_remote(*remote), EcnCodepoint::from_bits(ecn));
                match endpoint.handle(now, path, ecn, BytesMut::from(datagram), buffer) {
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        if let Some((_, connection)) = connection {
                            connection.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) if connection.is_none() => {
                        buffer.clear();
                        match endpoint.accept(incoming, now, buffer, None) {
                            Ok(accepted) => *connection = Some(accepted),
                            Err(refused) => failed = Some(refused.cause.to_string()),
                        }
                    }
                    _ => {}
                }
            };
            match socket.receive(buffers, take) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(HostError::step("receive", error)),
            }
        }
        failed.map_or(Ok(()), |reason| Err(HostError::step("accept a connection", io::Error::other(reason))))
    }

    /// The next change for the application.
    pub(super) fn poll(&mut self) -> Option<Change> {
        let (handle, connection) = self.connection.as_mut()?;
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        loop {
            return Some(match connection.poll()? {
                Event::Connected => Change::Connected,
                Event::Stream(noq_proto::StreamEvent::Finished { .. }) => Change::Finished,
                Event::ConnectionLost { reason } => Change::Lost(reason.to_string()),
                _ => continue,
            });
        }
    }

    /// Sends all that the connection allows. Returns whether it sent anything.
    pub(super) fn transmit(&mut self, now: Instant) -> Result<bool, HostError> {
        let most = NonZeroUsize::new(self.socket.segments().min(BATCH)).unwrap_or(NonZeroUsize::MIN);
        let Some((_, connection)) = &mut self.connection else { return Ok(false) };
        let mut any = false;
        loop {
            self.buffer.clear();
            let Some(transmit) = connection.poll_transmit(now, most, &mut self.buffer) else {
                return Ok(any);
            };
            any = true;
            let size = transmit.segment_size.unwrap_or(transmit.size);
            let ecn = transmit.ecn.map_or(0, |ecn| ecn as u8);
            self.socket
                .send(transmit.destination, ecn, &self.buffer[..transmit.size], size)
                .map_err(|error| HostError::step("send", error))?;
        }
    }
}
