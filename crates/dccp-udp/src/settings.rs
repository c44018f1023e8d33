//! Settings of a live run, its errors and its caller.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use narrows_dccp::{Config, ResetCode};
use narrows_traffic::AppConfig;
use thiserror::Error;

use crate::report::{Overview, Report};

/// Settings of a live run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Settings of the connection; the session sets role and ports.
    pub config: Config,
    /// The peer's address for a sender, the listening address for a receiver.
    pub address: SocketAddr,
    /// The sender's application.
    pub app: AppConfig,
    /// Limit of queued datagrams; the default depends on the application.
    pub queue: Option<usize>,
    /// Time after which a sender closes or a receiver ends.
    pub duration: Option<Duration>,
    /// Longest wait for an answer to a Request, for ACKs of data and for the end of a close. A receiver also gives up a
    /// sender from which no valid packet arrives for this time; DCCP has no timer for this case.
    pub timeout: Duration,
    /// A receiver serves one connection, the first that completes its handshake, and ends after it.
    pub once: bool,
    /// Limit of concurrent connections at a receiver; further Requests get a Reset (Too Busy). Incomplete
    /// handshakes do not count.
    pub connections: usize,
    /// Path of the capture file.
    pub capture: Option<PathBuf>,
}

/// Failure of a live run.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The socket cannot be opened or fails.
    #[error("socket {0}: {1}")]
    Socket(SocketAddr, io::Error),
    /// The port is closed.
    #[error("{0}: connection refused: no receiver listens at this address")]
    Refused(SocketAddr),
    /// No answer to Requests.
    #[error("{0}: no answer in {1:?}")]
    NoAnswer(SocketAddr, Duration),
    /// The peer answered the Request with a Reset.
    #[error("{0}: the peer refused the connection: {code}", code = code(*.1))]
    Rejected(SocketAddr, u8),
    /// A Reset ended an open connection.
    #[error("{0}: the peer reset the connection: {code}", code = code(*.1))]
    Reset(SocketAddr, u8),
    /// The peer fell silent. The report covers the connection until then.
    #[error("{0}: the peer is gone: no packet for {1:?}")]
    PeerGone(SocketAddr, Duration, Box<Report>),
    /// The peer sent packets, but acknowledged no data or did not close. The report covers the connection until
    /// then.
    #[error("{0}: no progress for {1:?}: the peer neither acknowledges datagrams nor closes the connection")]
    Stalled(SocketAddr, Duration, Box<Report>),
    /// A datagram with its headers exceeds the path's MTU.
    #[error(
        "{0}: datagrams of {1} bytes with their headers exceed the MTU of the path; accepted: {fit}",
        fit = .2.map_or("shorter datagrams".to_owned(), |most| format!("at most {most} bytes"))
    )]
    TooLong(SocketAddr, u16, Option<usize>),
    /// The capture or the system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Name and number of a Reset code (RFC 4340 section 5.6), with an explanation where the name needs one.
fn code(number: u8) -> String {
    let known = ResetCode::from_wire(number);
    let name = known.map_or("unknown reason", ResetCode::name);
    let explanation = match known {
        Some(ResetCode::NoConnection) => ": the peer knows no such connection",
        Some(ResetCode::PacketError) => ": an unexpected packet",
        Some(ResetCode::OptionError) => ": an invalid option",
        Some(ResetCode::MandatoryError) => ": a mandatory option that the peer does not support",
        Some(ResetCode::ConnectionRefused) => ": no service at this DCCP port, or the receiver is closing",
        Some(ResetCode::BadServiceCode) => ": the receiver offers another service code",
        Some(ResetCode::TooBusy) => ": it serves its maximum of connections",
        Some(ResetCode::AggressionPenalty) => ": the sender exceeded the rate that congestion allows",
        _ => "",
    };
    format!("{name} ({number}){explanation}")
}

/// Stop request of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Continue.
    No,
    /// Close connections and wait for the peer.
    Close,
    /// Abort without waiting.
    Abort,
}

/// Callbacks of a live run.
pub trait Caller {
    /// Returns the current stop request.
    fn stop(&self) -> Stop;
    /// A receiver listens at this address.
    fn listening(&self, at: SocketAddr);
    /// Progress of a connection, once a second.
    fn progress(&self, report: &Report);
    /// Progress of many connections, once a second instead of a report for each.
    fn overview(&self, _: &Overview) {}
    /// A failure that does not end the run.
    fn warning(&self, _: &str) {}
    /// A connection ended.
    fn ended(&self, report: &Report);
}
