//! Connections that have not sent a hello yet. Their number and waiting time are bounded, so that none excludes
//! other clients.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use crate::wire::{HELLO, Hello};

/// Maximum number of waiting connections; a further one displaces the oldest.
pub(super) const MOST: usize = 256;
/// Maximum number of waiting connections from one address, twice the subflows of a transmission. A further
/// connection displaces the oldest from this address.
pub(super) const PER_ADDRESS: usize = 32;
/// Longest wait for a client's hello.
pub(super) const GREETING: Duration = Duration::from_secs(5);

const SILENT: &str = "the client sent no hello";

/// A waiting connection, and the part of its hello that has arrived.
#[derive(Debug)]
struct Guest {
    stream: TcpStream,
    client: SocketAddrV4,
    hello: [u8; HELLO],
    length: usize,
    until: Instant,
}

impl Guest {
    /// Returns the hello once it is complete.
    fn read(&mut self) -> Result<Option<Hello>, &'static str> {
        match self.stream.read(&mut self.hello[self.length..]) {
            Ok(0) => Err(SILENT),
            Ok(count) => {
                self.length += count;
                if self.length < HELLO { Ok(None) } else { Hello::decode(&self.hello).map(Some) }
            }
            Err(error) if narrows_host::is_transient(&error) => Ok(None),
            Err(_) => Err(SILENT),
        }
    }
}

/// A client that has sent its complete hello.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) stream: TcpStream,
    pub(super) client: SocketAddrV4,
    pub(super) hello: Hello,
}

/// A client that is not served, and the reason.
pub(super) type Refusal = (SocketAddrV4, &'static str);

/// The waiting connections, oldest first.
#[derive(Debug, Default)]
pub(super) struct Lobby(VecDeque<Guest>);

impl Lobby {
    /// Adds a connection; returns the connection that it displaces, if any.
    ///
    /// # Errors
    /// If the connection's socket fails.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        stream: TcpStream,
        client: SocketAddrV4,
    ) -> io::Result<Option<Refusal>> {
        stream.set_nonblocking(true)?;
        let own = |guest: &Guest| guest.client.ip() == client.ip();
        let displaced = if self.0.iter().filter(|guest| own(guest)).count() >= PER_ADDRESS {
            self.0.iter().position(own)
        } else {
            (self.0.len() >= MOST).then_some(0)
        };
        let displaced = displaced.and_then(|at| self.0.remove(at));
        self.0.push_back(Guest { stream, client, hello: [0; HELLO], length: 0, until: now + GREETING });
        Ok(displaced.map(|guest| (guest.client, "the client sent no hello before others came")))
    }

    /// The sockets of the waiting connections.
    pub(super) fn streams(&self) -> impl Iterator<Item = &TcpStream> {
        self.0.iter().map(|guest| &guest.stream)
    }

    /// Removes clients that have sent a complete hello, and clients that are gone, invalid or silent for too long.
    pub(super) fn greet(&mut self, now: Instant) -> (Vec<Greeted>, Vec<Refusal>) {
        let (mut greeted, mut refused) = (Vec::new(), Vec::new());
        for mut guest in std::mem::take(&mut self.0) {
            match guest.read() {
                Ok(Some(hello)) => {
                    greeted.push(Greeted { stream: guest.stream, client: guest.client, hello });
                }
                Ok(None) if now < guest.until => self.0.push_back(guest),
                Ok(None) => refused.push((guest.client, SILENT)),
                Err(reason) => refused.push((guest.client, reason)),
            }
        }
        (greeted, refused)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{Ipv4Addr, TcpListener};

    use narrows_cc::Rate;

    use super::*;

    /// The two sockets of a connection: the client's socket, and the socket that the listener accepted.
    fn guest(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn from(number: u32) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::from_bits(number), 9)
    }

    /// The number of silent connections is bounded in total and by address, the oldest is displaced, and a
    /// hello may arrive in parts.
    #[test]
    fn lobby_bounds_silent_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut lobby, now) = (Lobby::default(), Instant::now());
        let (mut client, stream) = guest(&listener);
        let mut others = Vec::new();
        assert!(lobby.admit(now, stream, from(1)).unwrap().is_none());
        for n in 0..PER_ADDRESS + 3 {
            let (other, stream) = guest(&listener);
            others.push(other);
            let displaced = lobby.admit(now, stream, from(2)).unwrap();
            assert_eq!(displaced.map(|own| own.0), (n >= PER_ADDRESS).then_some(from(2)), "{n}");
        }
        let rate = Rate::from_bytes_per_sec;
        let hello = Hello { content: 7, subflow: 1, responder: 9, max: rate(9), min: rate(1), size: 5 };
        client.write_all(&hello.encode()[..11]).unwrap();
        client.flush().unwrap();
        while lobby.0[0].length < 11 {
            assert!(lobby.greet(now).0.is_empty());
        }
        client.write_all(&hello.encode()[11..]).unwrap();
        let found = loop {
            let (mut greeted, refused) = lobby.greet(now);
            assert!(refused.is_empty(), "{refused:?}");
            if let Some(found) = greeted.pop() {
                break found;
            }
        };
        assert_eq!((found.client, found.hello), (from(1), hello));
        for n in 0..MOST as u32 {
            let (other, stream) = guest(&listener);
            others.push(other);
            lobby.admit(now, stream, from(10 + n)).unwrap();
            assert!(lobby.0.len() <= MOST);
        }
        let (greeted, refused) = lobby.greet(now + GREETING);
        assert_eq!((greeted.len(), refused.len(), lobby.0.len()), (0, MOST, 0));
    }
}
