//! A UDP socket that sends and receives batches, with the ECN codepoint of each packet.
//!
//! Packets of one size and codepoint that follow each other leave in one call (UDP segmentation offload), and may arrive in one.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as Plain};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Bytes that one receiving call may give for each of its buffers.
const BUFFER: usize = 1 << 16;
/// The most that one sending call carries.
const MOST: usize = 60_000;
/// Buffers of the system: several milliseconds at 1 Gbit/s.
const SYSTEM_BUFFER: usize = 4 << 20;

/// A socket with its buffers.
pub struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    buffer: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
    /// The system refused a batch.
    single: AtomicBool,
}

/// A packet that arrived.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The sender's address.
    pub from: SocketAddr,
    /// Our address that it was sent to.
    pub to: SocketAddr,
    /// The ECN codepoint of its IP header.
    pub ecn: u8,
    /// Its payload.
    pub bytes: &'a [u8],
}

impl Socket {
    /// Binds to `local`. With a peer, it exchanges packets with that address only and reports its refusals.
    ///
    /// # Errors
    /// If the address cannot be used. Call it inside a tokio runtime.
    pub fn open(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Self> {
        let plain = Plain::bind(local)?;
        if let Some(peer) = peer {
            plain.connect(peer)?;
        }
        Self::new(plain)
    }

    /// Takes over a bound socket.
    ///
    /// # Errors
    /// If the system refuses an option. Call it inside a tokio runtime.
    pub fn new(plain: Plain) -> io::Result<Self> {
        plain.set_nonblocking(true)?;
        let state = UdpSocketState::new((&plain).into())?;
        // Less will do where the system allows no more.
        let _ = state.set_send_buffer_size((&plain).into(), SYSTEM_BUFFER);
        let _ = state.set_recv_buffer_size((&plain).into(), SYSTEM_BUFFER);
        let local = plain.local_addr()?;
        let socket = UdpSocket::from_std(plain)?;
        let metas = [RecvMeta::default(); BATCH_SIZE];
        Ok(Self {
            socket,
            state,
            local,
            buffer: vec![0; BUFFER * BATCH_SIZE],
            metas,
            single: AtomicBool::new(false),
        })
    }

    /// The address that it is bound to.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// How many packets of `size` bytes one call may send.
    pub fn segments(&self, size: usize) -> usize {
        if self.single.load(Ordering::Relaxed) {
            return 1;
        }
        self.state.max_gso_segments().min(MOST / size.max(1)).max(1)
    }

    /// From now on each packet needs a call.
    pub fn stop_batches(&self) {
        self.single.store(true, Ordering::Relaxed);
    }

    /// Bytes that one packet to the peer may have, IP header included, as far as the system knows; none for a socket without one.
    pub fn mtu(&self) -> Option<usize> {
        let mtu = if self.local.is_ipv4() {
            sockopt::ip_mtu(&self.socket)
        } else {
            sockopt::ipv6_mtu(&self.socket)
        };
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

    /// Waits until there is room to send.
    ///
    /// # Errors
    /// If the socket fails.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Sends `contents`, packets of `size` bytes of which the last may be shorter. `WouldBlock` if there is no room.
    /// It comes from the address `from`, if one is given.
    ///
    /// # Errors
    /// If there is no room, or the system refuses the packets.
    pub fn send(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
        ecn: u8,
        contents: &[u8],
        size: usize,
    ) -> io::Result<()> {
        let segment_size = (contents.len() > size).then_some(size);
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(ecn),
            contents,
            segment_size,
            src_ip: from,
        };
        self.socket.try_io(Interest::WRITABLE, || self.state.try_send((&self.socket).into(), &transmit))
    }

    /// Hands all packets of one call to `take`; `WouldBlock` if there are none.
    ///
    /// # Errors
    /// If there are none, or the peer refuses packets.
    pub fn receive(&mut self, mut take: impl FnMut(Arrived<'_>)) -> io::Result<()> {
        let Self { socket, state, buffer, metas, local, .. } = self;
        let mut parts = buffer.chunks_mut(BUFFER);
        let mut slices: [io::IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| io::IoSliceMut::new(parts.next().unwrap_or_default()));
        let count =
            socket.try_io(Interest::READABLE, || state.recv((&*socket).into(), &mut slices, metas))?;
        for (slice, meta) in slices.iter().zip(metas.iter()).take(count) {
            let to = meta.dst_ip.map_or(*local, |ip: IpAddr| SocketAddr::new(ip, local.port()));
            let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
            for bytes in slice[..meta.len].chunks(meta.stride.max(1)) {
                take(Arrived { from: meta.addr, to, ecn, bytes });
            }
        }
        Ok(())
    }
}
