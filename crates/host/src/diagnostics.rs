//! The kernel's report on a TCP socket (`sock_diag`).
//!
//! Reads one socket at a time, because a dump walks the hash table of all sockets of the machine, which takes
//! milliseconds.

use std::io;
use std::net::SocketAddrV4;

use crate::netlink::{Netlink, Request, attributes};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const IPV4: u8 = 2;
const TCP: u8 = 6;
/// `INET_DIAG_INFO`: `struct tcp_info`. The number is that of the attribute and of the attribute's bit in a request.
pub const INFO: u16 = 2;
/// `INET_DIAG_VEGASINFO`; its bit requests the internals of any scheme.
pub const INTERNALS: u16 = 3;
/// `INET_DIAG_CONG`: the name of the scheme.
pub const SCHEME: u16 = 4;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// Offset of `idiag_wqueue` in `struct inet_diag_msg`.
const QUEUED: usize = 60;

/// Passes the [`attributes`] of the TCP socket with these addresses, in the namespace of `netlink`, and the bytes in
/// its send queue to `take`.
///
/// # Errors
/// If there is no such socket, or the kernel refuses to report.
pub fn read(
    netlink: &mut Netlink,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    mut take: impl FnMut(&[u8], u32),
) -> io::Result<()> {
    netlink.get(request(local, remote), |body| {
        let queued = body.get(QUEUED..).and_then(|queued| queued.first_chunk());
        let queued = queued.map_or(0, |queued| u32::from_ne_bytes(*queued));
        take(body.get(MESSAGE..).unwrap_or_default(), queued);
    })
}

fn request(local: SocketAddrV4, remote: SocketAddrV4) -> Request {
    let wanted = [INFO, INTERNALS, SCHEME].iter().map(|kind| 1 << (kind - 1)).sum::<u8>();
    let mut fixed = vec![IPV4, TCP, wanted, 0];
    fixed.extend_from_slice(&u32::MAX.to_ne_bytes()); // in any state
    fixed.extend_from_slice(&local.port().to_be_bytes());
    fixed.extend_from_slice(&remote.port().to_be_bytes());
    for address in [local.ip(), remote.ip()] {
        fixed.extend_from_slice(&address.octets());
        fixed.extend_from_slice(&[0; 12]);
    }
    fixed.extend_from_slice(&[0; 4]); // on any interface
    fixed.extend_from_slice(&[0xff; 8]); // with any cookie
    Request::new(SOCK_DIAG_BY_FAMILY, 0, &fixed)
}

/// `struct tcp_info` of the socket with these addresses, and the bytes in its send queue; `None` without such a socket.
///
/// # Errors
/// If the kernel refuses to report.
pub fn read_info(
    netlink: &mut Netlink,
    local: SocketAddrV4,
    remote: SocketAddrV4,
) -> io::Result<Option<(Vec<u8>, u32)>> {
    let mut found = None;
    let read = read(netlink, local, remote, |reported, queued| {
        found = attributes(reported).find(|(kind, _)| *kind == INFO).map(|(_, info)| (info.to_vec(), queued));
    });
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(|()| found),
    }
}
