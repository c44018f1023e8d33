//! The server: sends payload over the kernel's TCP, at the rate that it negotiates for each connection.

mod connection;
mod lobby;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use narrows_cc::Rate;
use narrows_programs::{Grants, Program};
use narrows_routers::negotiation::Id;
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use self::connection::Connection;
use self::lobby::{Greeted, Lobby};
use super::wire::MOST_SUBFLOWS;
use super::{NegotiationError, Operator, TICK, is_ready, wait};

/// Minimum time between log lines about clients that are not served.
const QUIET: Duration = Duration::from_secs(1);
/// Connections accepted per turn of the server's loop.
const ACCEPTED: usize = 64;
/// File descriptors per connection, and file descriptors for everything else.
const DESCRIPTORS: [usize; 2] = [3, 64];

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Address of its TCP socket.
    pub listen: SocketAddrV4,
    /// The first node on the path to clients; without a node, requests go to the clients.
    pub via: Option<SocketAddrV4>,
    /// Highest rate that the server requests, headers included.
    pub max: Rate,
    /// Limit of simultaneous connections; an address gets a quarter, or the subflows of one transmission.
    pub connections: usize,
    /// Whether the program in the kernel paces the data, provided that the kernel loads the program.
    pub program: bool,
}

/// Result of a server run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ServerReport {
    /// Connections that were served.
    pub served: u64,
    /// Connections refused because of the limits.
    pub refused: u64,
    /// Connections that ended in an error or sent no hello.
    pub failed: u64,
    /// Payload bytes written.
    pub bytes: u64,
    /// Number of changes of granted rates.
    pub changes: u64,
    /// Acknowledgements that the program processed with a granted rate; absent without the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks_granted: Option<u64>,
}

/// A transmission in progress: the offset of its next piece, and the numbers of the subflows that have joined.
type Transmission = (Weak<AtomicU64>, BTreeSet<u16>);

/// Transmissions in progress. The subflows of a transmission take its pieces in turn.
#[derive(Debug, Default)]
struct Transmissions(Mutex<BTreeMap<(u32, u32), Transmission>>);

impl Transmissions {
    /// Joins a subflow to its transmission; returns the transmission's next offset. A subflow number that has
    /// already joined begins a new transmission of the same content.
    fn join(&self, id: Id) -> Arc<AtomicU64> {
        let Ok(mut all) = self.0.lock() else { return Arc::default() };
        all.retain(|_, (next, _)| next.strong_count() > 0);
        let known = all.get_mut(&(id.content, id.destination));
        let joined = known.and_then(|(next, subflows)| subflows.insert(id.subflow).then(|| next.upgrade())?);
        joined.unwrap_or_else(|| {
            let fresh = Arc::default();
            let own = (Arc::downgrade(&fresh), BTreeSet::from([id.subflow]));
            all.insert((id.content, id.destination), own);
            fresh
        })
    }

    /// Closes a transmission to further subflows, because its client is gone.
    fn close(&self, gone: &Arc<AtomicU64>) {
        if let Ok(mut all) = self.0.lock() {
            all.retain(|_, (next, _)| next.as_ptr() != Arc::as_ptr(gone));
        }
    }
}

/// Number of connections being served, by client address.
#[derive(Debug, Default)]
struct Open(Mutex<BTreeMap<Ipv4Addr, usize>>);

impl Open {
    /// Counts a connection of this address, unless the address's limit or the total limit is reached.
    fn enter(&self, address: Ipv4Addr, most: usize) -> Result<(), String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.values().sum::<usize>() >= most {
            return Err(format!("{most} connections are open"));
        }
        // One address gets at most a quarter of all connections, but at least enough for the subflows of one
        // transmission.
        let own = (most / 4).max(MOST_SUBFLOWS.into());
        let count = all.entry(address).or_default();
        if *count >= own {
            return Err(format!("{own} connections from this address are open"));
        }
        *count += 1;
        Ok(())
    }

    fn leave(&self, address: Ipv4Addr) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                all.remove(&address);
            }
        }
    }
}

/// Logs clients that are not served, at most one line per [`QUIET`].
#[derive(Debug, Default)]
struct Quiet {
    next: Option<Instant>,
    unsaid: u64,
}

impl Quiet {
    fn log(&mut self, operator: &dyn Operator, client: SocketAddrV4, reason: &str) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            self.unsaid += 1;
            return;
        }
        self.next = Some(now + QUIET);
        let more = match std::mem::take(&mut self.unsaid) {
            0 => String::new(),
            more => format!(" (and {more} others before)"),
        };
        operator.log(&format!("{client}: {reason}{more}"));
    }
}

/// Totals over all connections.
#[derive(Debug, Default)]
struct Totals {
    open: Open,
    served: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    changes: AtomicU64,
}

/// Loads the program in the kernel; if the kernel refuses it, logs the reason.
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

/// Raises the limit of open files to the number that all connections need, up to the hard limit.
fn raise_descriptors(connections: usize) {
    let [each, other] = DESCRIPTORS;
    let needed = (connections.saturating_mul(each) + lobby::MOST + other) as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        // If the server still reaches the limit, it accepts no connection until others end.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
}

fn listen(settings: &ServerSettings, grants: Option<&Arc<Grants>>) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(settings.listen)?;
    listener.set_nonblocking(true)?;
    if let Some(grants) = grants {
        // Accepted connections inherit the listener's congestion control.
        sockopt::set_tcp_congestion(&listener, grants.name())?;
    }
    Ok(listener)
}

/// Serves clients until the operator stops the server; then the server ends its connections and releases their rates.
///
/// # Errors
/// If the socket cannot be opened or fails.
pub fn serve(settings: &ServerSettings, operator: &dyn Operator) -> Result<ServerReport, NegotiationError> {
    raise_descriptors(settings.connections);
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
    let (mut refused, mut lobby, mut quiet) = (0, Lobby::default(), Quiet::default());
    let accepted = thread::scope(|scope| {
        while !operator.is_stopped() {
            let mut fds = vec![PollFd::new(&listener, PollFlags::IN)];
            fds.extend(lobby.streams().map(|stream| PollFd::new(stream, PollFlags::IN)));
            wait(&mut fds, TICK)?;
            let comes = is_ready(&fds[0]);
            drop(fds);
            let mut unserved = Vec::new();
            for _ in 0..if comes { ACCEPTED } else { 0 } {
                match listener.accept() {
                    Ok((stream, SocketAddr::V4(client))) => {
                        // Drop the connection if its socket fails.
                        unserved.extend(lobby.admit(Instant::now(), stream, client).unwrap_or_default());
                    }
                    Ok(_) => {}
                    Err(error) if narrows_host::is_transient(&error) => break,
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        // This happens, for example, when no descriptor is free until connections end.
                        operator.log(&format!("cannot accept a connection: {error}"));
                        thread::sleep(TICK);
                        break;
                    }
                }
            }
            let (greeted, gone) = lobby.greet(Instant::now());
            for (client, reason) in unserved.into_iter().chain(gone) {
                totals.failed.fetch_add(1, Ordering::Relaxed);
                quiet.log(operator, client, reason);
            }
            for greeted in greeted {
                let client = greeted.client;
                if let Err(reason) = totals.open.enter(*client.ip(), settings.connections) {
                    refused += 1;
                    quiet.log(operator, client, &format!("refused: {reason}"));
                    continue;
                }
                let (transmissions, totals, grants) = (&transmissions, &totals, grants.as_ref());
                scope.spawn(move || {
                    one(settings, &greeted, transmissions, totals, grants, operator);
                    totals.open.leave(*client.ip());
                });
            }
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
    greeted: &Greeted,
    transmissions: &Transmissions,
    totals: &Totals,
    grants: Option<&Arc<Grants>>,
    operator: &dyn Operator,
) {
    let client = greeted.client;
    let opened = Connection::open(settings, greeted, transmissions, grants, operator);
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
