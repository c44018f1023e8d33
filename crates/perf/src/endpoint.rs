//! The socket of a test.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use narrows_host::socket::SYSTEM_BUFFER;
use noq::{Endpoint, EndpointConfig, ServerConfig, default_runtime};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Opens a UDP socket at this address; an IPv6 socket serves both address families.
///
/// Its buffers are as large as the system allows, up to [`SYSTEM_BUFFER`]: a sender whose window exceeds
/// Linux's default of 208 KiB overflows that default whenever the receiver is delayed.
fn socket(at: SocketAddr) -> io::Result<UdpSocket> {
    let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    if at.is_ipv6() {
        // The call may fail on systems without IPv4.
        let _ = sockopt::set_ipv6_v6only(&socket, false);
    }
    // The call may fail; smaller buffers are acceptable.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, SYSTEM_BUFFER);
    let _ = sockopt::set_socket_send_buffer_size(&socket, SYSTEM_BUFFER);
    rustix::net::bind(&socket, &at)?;
    Ok(socket.into())
}

/// The unspecified address of `peer`'s family, with any port.
pub(super) fn any(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The address from which this host sends to `peer`; determined without sending a packet.
pub(super) fn route(peer: SocketAddr) -> io::Result<IpAddr> {
    let probe = UdpSocket::bind(any(peer))?;
    probe.connect(peer)?;
    Ok(probe.local_addr()?.ip())
}

/// Opens an endpoint at this address; with `server`, the endpoint accepts connections.
pub(super) fn endpoint(server: Option<ServerConfig>, at: SocketAddr) -> io::Result<Endpoint> {
    let runtime = default_runtime().ok_or_else(|| io::Error::other("there is no runtime of tokio"))?;
    Endpoint::new(EndpointConfig::default(), server, socket(at)?, runtime)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn sockets_have_all_buffer_that_the_system_allows() {
        let default = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let default = sockopt::socket_recv_buffer_size(&default).expect("a size");
        let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").expect("Linux");
        let most: usize = most.trim().parse().expect("a number");
        let own = socket((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
        let size = sockopt::socket_recv_buffer_size(&own).expect("a size");
        // Linux doubles the requested size to account for its overhead.
        assert_eq!(size, 2 * most.min(SYSTEM_BUFFER), "the default is {default}");
    }

    #[test]
    fn ipv6_socket_receives_ipv4() {
        let Ok(own) = socket((Ipv6Addr::UNSPECIFIED, 0).into()) else {
            eprintln!("skipped: needs IPv6");
            return;
        };
        own.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
        let port = own.local_addr().expect("an address").port();
        let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        peer.send_to(b"hello", (Ipv4Addr::LOCALHOST, port)).expect("sent");
        let mut text = [0; 8];
        assert_eq!(own.recv(&mut text).expect("received"), 5);
    }
}
