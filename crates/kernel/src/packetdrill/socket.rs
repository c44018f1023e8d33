//! Sockets of a script, and outcomes of calls on them.

use std::sync::Arc;
use std::time::Duration;

use narrows_packetdrill::script::{Problem, Value};
use narrows_packetdrill::stack::Outcome;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{Shutdown, shutdown};

/// A descriptor of the script.
pub(super) type Socket = Arc<OwnedFd>;

/// Ends calls that block on a socket.
pub(super) fn wake(socket: &Socket) {
    let _ = shutdown(&**socket, Shutdown::Both);
}

/// Limits how long calls on a socket block.
pub(super) fn limit(socket: &OwnedFd, time: Option<Duration>) {
    for kind in [Timeout::Send, Timeout::Recv] {
        let _ = sockopt::set_socket_timeout(socket, kind, time);
    }
}

/// Compares a number that a call stores in an argument with the expected number.
pub(super) fn expect(line: usize, what: &str, seen: i64, expected: Option<&Value>) -> Result<(), Problem> {
    let value = expected.and_then(|value| value.items().first().or(Some(value))).and_then(Value::int);
    match value {
        Some(value) if value != seen => {
            Err(Problem::failure(line, format!("{what}: expected [{value}]; seen [{seen}]")))
        }
        _ => Ok(()),
    }
}

/// The outcome of a call that returns nothing.
pub(super) fn done(result: rustix::io::Result<()>) -> Outcome {
    Outcome::Done(result.map(|()| 0).map_err(name_of))
}

/// The name of an error, as scripts write it.
pub(super) fn name_of(error: Errno) -> &'static str {
    macro_rules! names {
        ($($name:ident)+) => {
            match error {
                $(Errno::$name => concat!("E", stringify!($name)),)+
                _ => "another error",
            }
        };
    }
    names! {
        ADDRINUSE ADDRNOTAVAIL AGAIN ALREADY BADF CONNABORTED CONNREFUSED CONNRESET DESTADDRREQ FAULT
        HOSTUNREACH INPROGRESS INTR INVAL ISCONN MSGSIZE NETDOWN NETUNREACH NOBUFS NOMEM NOPROTOOPT NOTCONN
        NOTSOCK OPNOTSUPP PERM PIPE TIMEDOUT
    }
}
