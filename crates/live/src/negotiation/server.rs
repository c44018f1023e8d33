//! The server: sends payload over the kernel's TCP, at the rate that it negotiates for each connection.

mod connection;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use narrows_cc::Rate;
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt;
use serde::Serialize;

use self::connection::Connection;
use super::{NegotiationError, Operator, TICK, wait};
use crate::kernel::programs::{Grants, Program};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Address of its TCP socket.
    pub listen: SocketAddrV4,
    /// The first node on the path to clients; without one requests go to the clients.
    pub via: Option<SocketAddrV4>,
    /// Most that it requests, headers included.
    pub max: Rate,
    /// Limit of simultaneous connections.
    pub connections: usize,
    /// Whether the program in the kernel paces, where it can be loaded.
    pub program: bool,
}

/// What a server has done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ServerReport {
    /// Connections that were served.
    pub served: u64,
    /// Connections beyond the limit.
    pub refused: u64,
    /// Connections that ended in an error.
    pub failed: u64,
    /// Payload that was written.
    pub bytes: u64,
    /// Changes of granted rates.
    pub changes: u64,
    /// Acknowledgements that the program processed with a granted rate; absent without the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks_granted: Option<u64>,
}

/// Next offset of each transmission in progress: its subflows take pieces in turn.
#[derive(Debug, Default)]
struct Transmissions(Mutex<BTreeMap<(u32, u32), Weak<AtomicU64>>>);

impl Transmissions {
    fn join(&self, content: u32, destination: u32) -> Arc<AtomicU64> {
        let Ok(mut all) = self.0.lock() else { return Arc::default() };
        all.retain(|_, own| own.strong_count() > 0);
        let known = all.get(&(content, destination)).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let fresh = Arc::default();
            all.insert((content, destination), Arc::downgrade(&fresh));
            fresh
        })
    }
}

/// Sums over connections.
#[derive(Debug, Default)]
struct Totals {
    open: AtomicUsize,
    served: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    changes: AtomicU64,
}

/// The program, if the kernel takes it; otherwise the reason is logged.
fn program(settings: &ServerSettings, operator: &dyn Operator) -> Option<Arc<Grants>> {
    if !settings.program {
        operator.log("paces its own writes, over the kernel's own scheme");
        return None;
    }
    match Grants::open(Program::negotiating()) {
        Ok(grants) => {
            operator.log(&format!("the program `{}` in the kernel paces", grants.name()));
            Some(Arc::new(grants))
        }
        Err(error) => {
            operator.log(&format!(
                "no program in the kernel ({error}): paces its own writes, over the kernel's own scheme"
            ));
            None
        }
    }
}

fn listen(settings: &ServerSettings, grants: Option<&Arc<Grants>>) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(settings.listen)?;
    listener.set_nonblocking(true)?;
    if let Some(grants) = grants {
        // Connections inherit it.
        sockopt::set_tcp_congestion(&listener, grants.name())?;
    }
    Ok(listener)
}

/// Serves clients until the operator stops it; then connections end, and their rates are returned.
///
/// # Errors
/// If the socket cannot be opened or fails.
pub fn serve(settings: &ServerSettings, operator: &dyn Operator) -> Result<ServerReport, NegotiationError> {
    let grants = program(settings, operator);
    let listener = listen(settings, grants.as_ref()).map_err(|error| NegotiationError::Open {
        what: "the server's TCP socket",
        address: settings.listen,
        error,
    })?;
    if let Ok(SocketAddr::V4(at)) = listener.local_addr() {
        operator.listening(at);
    }
    let (transmissions, totals) = (Transmissions::default(), Totals::default());
    let mut refused = 0;
    let accepted = thread::scope(|scope| {
        while !operator.is_stopped() {
            wait(&mut [PollFd::new(&listener, PollFlags::IN)], TICK)?;
            let (stream, client) = match listener.accept() {
                Ok((stream, SocketAddr::V4(client))) => (stream, client),
                Ok(_) => continue,
                Err(error) if crate::is_transient(&error) => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // Such as no more descriptors: connections that end return them.
                    operator.log(&format!("cannot accept a connection: {error}"));
                    thread::sleep(TICK);
                    continue;
                }
            };
            if totals.open.load(Ordering::Relaxed) >= settings.connections {
                refused += 1;
                operator.log(&format!("{client}: refused: {} connections are open", settings.connections));
                continue;
            }
            totals.open.fetch_add(1, Ordering::Relaxed);
            let (transmissions, totals, grants) = (&transmissions, &totals, grants.as_ref());
            scope.spawn(move || {
                one(settings, &stream, client, transmissions, totals, grants, operator);
                totals.open.fetch_sub(1, Ordering::Relaxed);
            });
        }
        Ok::<_, io::Error>(())
    });
    accepted?;
    let total = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Ok(ServerReport {
        served: total(&totals.served),
        refused,
        failed: total(&totals.failed),
        bytes: total(&totals.bytes),
        changes: total(&totals.changes),
        acks_granted: grants.and_then(|grants| grants.counts().ok()).map(|counts| counts.granted_acks),
    })
}

/// Serves one connection.
fn one(
    settings: &ServerSettings,
    stream: &TcpStream,
    client: SocketAddrV4,
    transmissions: &Transmissions,
    totals: &Totals,
    grants: Option<&Arc<Grants>>,
    operator: &dyn Operator,
) {
    let opened = Connection::open(settings, stream, client, transmissions, grants, operator);
    let ended = opened.and_then(|mut connection| {
        let ended = connection.run();
        totals.bytes.fetch_add(connection.written, Ordering::Relaxed);
        totals.changes.fetch_add(connection.changes(), Ordering::Relaxed);
        ended
    });
    match ended {
        Ok(()) => totals.served.fetch_add(1, Ordering::Relaxed),
        Err(error) => {
            let named = matches!(error, NegotiationError::Server(..));
            operator.log(&if named { error.to_string() } else { format!("{client}: {error}") });
            totals.failed.fetch_add(1, Ordering::Relaxed)
        }
    };
}
