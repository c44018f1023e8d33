//! Netlink requests, as far as kernel hosts need them: interfaces, routes and socket diagnostics.

use std::io;

use rustix::fd::OwnedFd;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

const ACK: u8 = 4;
const REQUEST: u16 = 1;
/// `NLM_F_CREATE | NLM_F_EXCL`.
pub const CREATE: u16 = 0x600;
/// `NLM_F_CREATE | NLM_F_REPLACE`.
pub const REPLACE: u16 = 0x500;
/// `RTM_NEWQDISC`.
pub const NEW_QDISC: u16 = 36;
/// `RTM_DELQDISC`.
pub const DELETE_QDISC: u16 = 37;
/// The name of a queue discipline or filter.
pub const TCA_KIND: u16 = 1;
/// The options of a queue discipline or filter.
pub const TCA_OPTIONS: u16 = 2;
/// The parent of a root queue.
pub const TC_H_ROOT: u32 = u32::MAX;
const ERROR: u16 = 2;
/// Type of the message that ends a list.
const DONE: u16 = 3;
const HEADER: usize = 16;
/// Larger than any answer.
const BUFFER: usize = 1 << 16;

/// A request under construction.
#[derive(Debug)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of this message type with a fixed part.
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self { bytes }
    }

    /// Adds an attribute.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        append(&mut self.bytes, kind, value);
        self
    }
}

fn append(list: &mut Vec<u8>, kind: u16, value: &[u8]) {
    list.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    list.extend_from_slice(&kind.to_ne_bytes());
    list.extend_from_slice(value);
    list.resize(list.len().next_multiple_of(4), 0);
}

/// Encodes a list of attributes as the value of an enclosing attribute.
pub fn nested<V: AsRef<[u8]>>(attributes: impl IntoIterator<Item = (u16, V)>) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, value) in attributes {
        append(&mut list, kind, value.as_ref());
    }
    list
}

/// `struct tcmsg`.
pub fn queue_message(index: i32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut out = [0; 20];
    for (at, value) in [(4, index as u32), (8, handle), (12, parent), (16, info)] {
        out[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    out
}

/// `struct tcmsg` for the root queue of an interface.
pub fn root_queue(index: i32) -> [u8; 20] {
    queue_message(index, 0, TC_H_ROOT, 0)
}

/// The kind and value of each attribute of a message.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, d, ..] = *bytes else { return None };
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]), value))
    })
}

/// A netlink socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket for routes and interfaces.
    pub fn route() -> io::Result<Self> {
        Self::open(None) // NETLINK_ROUTE is 0
    }

    /// Opens a socket for diagnostics of sockets.
    pub fn diagnostics() -> io::Result<Self> {
        Self::open(Some(netlink::SOCK_DIAG))
    }

    fn open(protocol: Option<net::Protocol>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        Ok(Self { socket, buffer: vec![0; BUFFER], sequence: 0 })
    }

    fn send(&mut self, request: Request) -> io::Result<()> {
        let mut bytes = request.bytes;
        self.sequence += 1;
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[6] |= ACK;
        bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        net::send(&self.socket, &bytes, SendFlags::empty())?;
        Ok(())
    }

    /// Sends a request and waits until the kernel confirms it.
    pub fn change(&mut self, request: Request) -> io::Result<()> {
        self.send(request)?;
        self.receive(|_| {})
    }

    /// Sends a request for one object or a list, and passes the answers to `take`, without their headers.
    pub fn get(&mut self, request: Request, take: impl FnMut(&[u8])) -> io::Result<()> {
        self.send(request)?;
        self.receive(take)
    }

    fn receive(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            let (length, _) = net::recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::empty())?;
            let mut rest = &self.buffer[..length];
            while let Some((head, _)) = rest.split_first_chunk::<HEADER>() {
                let [a, b, c, d, kind, high, _, _, s, t, u, v, ..] = *head;
                let size = u32::from_ne_bytes([a, b, c, d]) as usize;
                let Some(body) = rest.get(HEADER..size) else {
                    return Err(io::Error::other("a netlink message is cut off"));
                };
                if u32::from_ne_bytes([s, t, u, v]) == self.sequence {
                    match u16::from_ne_bytes([kind, high]) {
                        ERROR => {
                            let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                            return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
                        }
                        DONE => return Ok(()),
                        _ => each(body),
                    }
                }
                rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attributes are padded to four bytes and read back; a cut attribute ends the list.
    #[test]
    fn attributes_are_padded_and_read_back() {
        let request = Request::new(7, 0, &[1, 2, 3, 4]).attribute(5, b"abc").attribute(6, b"wxyz");
        let list = &request.bytes[HEADER + 4..];
        let found: Vec<_> = attributes(list).collect();
        assert_eq!(found, [(5, b"abc".as_slice()), (6, b"wxyz".as_slice())]);
        assert_eq!(attributes(&list[..list.len() - 1]).count(), 1);
        assert_eq!(attributes(&[0; 8]).count(), 0, "an attribute without a header");
    }
}
