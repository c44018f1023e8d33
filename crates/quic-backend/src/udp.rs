//! A UDP socket without an asynchronous runtime: sends and receives batches of datagrams with their ECN field.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use narrows_host::HostError;
use narrows_host::socket::Buffers;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// Sizes of the kernel's buffers: the data of several milliseconds at 1 Gbit/s.
const SYSTEM_BUFFER: usize = 8 << 20;
/// Longest wait for space in the send buffer.
const ROOM: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// A socket of an endpoint or of the relay.
pub(super) struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    address: SocketAddr,
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Udp {
    /// Opens a socket on a free port of loopback.
    pub(super) fn open() -> Result<Self, HostError> {
        let opened = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(Self::prepared);
        opened.map_err(|error| HostError::step("open a UDP socket on loopback", error))
    }

    /// Opens a socket between two addresses. Several sockets may share the local address if their remote
    /// addresses differ.
    pub(super) fn between(local: SocketAddrV4, remote: SocketAddrV4) -> Result<Self, HostError> {
        let opened = || -> io::Result<Self> {
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            sockopt::set_socket_reuseport(&socket, true)?;
            rustix::net::bind(&socket, &local)?;
            rustix::net::connect(&socket, &remote)?;
            Self::prepared(socket.into())
        };
        opened().map_err(|error| HostError::step(&format!("open a UDP socket at {local}"), error))
    }

    fn prepared(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        // Only a privileged process may exceed the system's limit; smaller buffers are acceptable.
        if sockopt::set_socket_recv_buffer_size_force(&socket, SYSTEM_BUFFER).is_err() {
            let _ = state.set_recv_buffer_size((&socket).into(), SYSTEM_BUFFER);
        }
        let _ = state.set_send_buffer_size((&socket).into(), SYSTEM_BUFFER);
        let address = socket.local_addr()?;
        Ok(Self { socket, state, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of datagrams that one call may send.
    pub(super) fn segments(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// Sends datagrams of `size` bytes each; the last may be shorter. Waits briefly if the send buffer is full.
    pub(super) fn send(&self, to: SocketAddr, ecn: u8, contents: &[u8], size: usize) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(ecn),
            contents,
            segment_size: (contents.len() > size).then_some(size),
            src_ip: None,
        };
        let mut sent = self.state.try_send((&self.socket).into(), &transmit);
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&ROOM))?;
            sent = self.state.try_send((&self.socket).into(), &transmit);
        }
        match sent {
            // The receiving endpoint is gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            sent => sent,
        }
    }

    /// Passes each datagram that one call receives to `take`: source port, ECN field and bytes. Returns whether
    /// there were any.
    pub(super) fn receive(&self, buffers: &mut Buffers, mut take: impl FnMut(u16, u8, &[u8])) -> io::Result<bool> {
        let pass = |meta: &RecvMeta, ecn: u8, bytes: &[u8]| take(meta.addr.port(), ecn, bytes);
        match buffers.receive((&self.socket).into(), &self.state, pass) {
            Err(error) if narrows_host::is_transient(&error) || error.kind() == io::ErrorKind::ConnectionRefused => {
                Ok(false)
            }
            received => received,
        }
    }
}

/// Number of datagrams that the sockets on these ports of the calling thread's namespace dropped because their
/// buffers were full.
pub(super) fn dropped(ports: &[u16]) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap_or_default();
    let of_line = |line: &str| {
        let mut fields = line.split_whitespace();
        let port = u16::from_str_radix(fields.nth(1)?.rsplit(':').next()?, 16).ok()?;
        ports.binary_search(&port).ok()?;
        fields.next_back()?.parse::<u64>().ok()
    };
    text.lines().skip(1).filter_map(of_line).sum()
}
