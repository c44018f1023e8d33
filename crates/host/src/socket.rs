//! A UDP socket that sends and receives batches, with the ECN codepoint of each packet.
//!
//! Consecutive packets of one size and codepoint leave in one call (UDP segmentation offload) and may arrive in one
//! call.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as StdSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::net::sockopt;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Bytes per buffer of a receive call.
const RECEIVE_BUFFER: usize = 1 << 16;
/// Largest batch of a send call, in bytes.
const MAX_BATCH: usize = 60_000;
/// Kernel buffer sizes: about 30 ms of data at 1 Gbit/s.
pub const SYSTEM_BUFFER: usize = 4 << 20;

/// Buffers of a receive call.
pub struct Buffers {
    bytes: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
}

impl Buffers {
    /// Empty buffers.
    #[expect(clippy::new_without_default, reason = "they are large")]
    pub fn new() -> Self {
        Self { bytes: vec![0; RECEIVE_BUFFER * BATCH_SIZE], metas: [RecvMeta::default(); BATCH_SIZE] }
    }

    /// Passes each packet of one receive call to `take`: its addresses, ECN codepoint and payload. Returns whether
    /// there were packets.
    ///
    /// # Errors
    /// `WouldBlock` without packets, or an ICMP error from the peer.
    pub fn receive(
        &mut self,
        socket: UdpSockRef<'_>,
        state: &UdpSocketState,
        mut take: impl FnMut(&RecvMeta, u8, &[u8]),
    ) -> io::Result<bool> {
        let mut parts = self.bytes.chunks_mut(RECEIVE_BUFFER);
        let mut slices: [io::IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| io::IoSliceMut::new(parts.next().unwrap_or_default()));
        let count = state.recv(socket, &mut slices, &mut self.metas)?;
        for (slice, meta) in slices.iter().zip(&self.metas).take(count) {
            let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
            for bytes in slice[..meta.len].chunks(meta.stride.max(1)) {
                take(meta, ecn, bytes);
            }
        }
        Ok(count > 0)
    }
}

/// A socket with its buffers.
pub struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    buffers: Buffers,
    /// The system has refused a batch.
    single: AtomicBool,
}

/// A received packet.
#[derive(Debug)]
pub struct Received<'a> {
    /// The sender's address.
    pub from: SocketAddr,
    /// The local address to which it was sent.
    pub to: SocketAddr,
    /// The ECN codepoint of the packet's IP header.
    pub ecn: u8,
    /// The packet's UDP payload.
    pub bytes: &'a [u8],
}

impl Socket {
    /// Binds to `local`. With a peer, connects to it: only packets and ICMP errors of the peer arrive.
    ///
    /// # Errors
    /// If the address cannot be used.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Self> {
        let bound = StdSocket::bind(local)?;
        if let Some(peer) = peer {
            bound.connect(peer)?;
        }
        Self::new(bound)
    }

    /// Takes over a bound socket.
    ///
    /// # Errors
    /// If the system refuses an option.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(bound: StdSocket) -> io::Result<Self> {
        bound.set_nonblocking(true)?;
        let state = UdpSocketState::new((&bound).into())?;
        // Errors are ignored, because smaller buffers are acceptable.
        let _ = state.set_send_buffer_size((&bound).into(), SYSTEM_BUFFER);
        let _ = state.set_recv_buffer_size((&bound).into(), SYSTEM_BUFFER);
        let local = bound.local_addr()?;
        let socket = UdpSocket::from_std(bound)?;
        Ok(Self { socket, state, local, buffers: Buffers::new(), single: AtomicBool::new(false) })
    }

    /// The bound address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Packets of `size` bytes that one send call may carry.
    pub fn segments(&self, size: usize) -> usize {
        if self.single.load(Ordering::Relaxed) {
            return 1;
        }
        self.state.max_gso_segments().min(MAX_BATCH / size.max(1)).max(1)
    }

    /// Sends single packets from now on.
    pub fn stop_batches(&self) {
        self.single.store(true, Ordering::Relaxed);
    }

    /// MTU towards the peer in bytes with the IP header, if the system knows it; `None` without a peer.
    pub fn mtu(&self) -> Option<usize> {
        let mtu = if self.local.is_ipv4() { sockopt::ip_mtu(&self.socket) } else { sockopt::ipv6_mtu(&self.socket) };
        mtu.ok().map(|mtu| mtu as usize)
    }

    /// Waits until a packet has arrived.
    ///
    /// # Errors
    /// If the socket fails.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Polls whether a packet has arrived.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_recv_ready(context)
    }

    /// Waits until the socket can send.
    ///
    /// # Errors
    /// If the socket fails.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Sends `contents`, packets of `size` bytes of which the last may be shorter, from the address `from` if
    /// given.
    ///
    /// # Errors
    /// `WouldBlock` if the send buffer is full, or the system's refusal.
    pub fn send(&self, to: SocketAddr, from: Option<IpAddr>, ecn: u8, contents: &[u8], size: usize) -> io::Result<()> {
        let segment_size = (contents.len() > size).then_some(size);
        let transmit =
            Transmit { destination: to, ecn: EcnCodepoint::from_bits(ecn), contents, segment_size, src_ip: from };
        self.socket.try_io(Interest::WRITABLE, || self.state.try_send((&self.socket).into(), &transmit))
    }

    /// Passes all packets of one call to `take`.
    ///
    /// # Errors
    /// `WouldBlock` without packets, or an ICMP error from the peer.
    pub fn receive(&mut self, mut take: impl FnMut(Received<'_>)) -> io::Result<()> {
        let Self { socket, state, buffers, local, .. } = self;
        let pass = |meta: &RecvMeta, ecn: u8, bytes: &[u8]| {
            let to = meta.dst_ip.map_or(*local, |ip| SocketAddr::new(ip, local.port()));
            take(Received { from: meta.addr, to, ecn, bytes });
        };
        socket.try_io(Interest::READABLE, || buffers.receive((&*socket).into(), state, pass)).map(|_| ())
    }
}
