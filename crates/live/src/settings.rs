//! What a live run is asked to do, and how it fails.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use narrows_dccp::{Config, ResetCode};
use narrows_traffic::AppConfig;
use thiserror::Error;

use crate::report::Report;

/// What a live run is asked to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The connection's settings; role and ports are set here.
    pub config: Config,
    /// Where to: the other side of a sender, the address that a receiver listens at.
    pub address: SocketAddr,
    /// What a sender sends.
    pub app: AppConfig,
    /// Datagrams that may wait to be sent; otherwise what the source calls for.
    pub queue: Option<usize>,
    /// A sender closes, a receiver ends, after this.
    pub duration: Option<Duration>,
    /// An answer that does not come is given up after this: a Request's, that of data; a receiver also gives up a sender that is
    /// silent for so long, for which DCCP has no timer.
    pub timeout: Duration,
    /// A receiver ends after one connection, the first whose handshake is complete, and has no other meanwhile.
    pub once: bool,
    /// A receiver serves so many connections at a time; further Requests are answered with Reset (Too Busy).
    pub connections: usize,
    /// Where packets are captured.
    pub capture: Option<PathBuf>,
}

/// Why a live run failed.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The socket cannot be opened, or fails.
    #[error("{0}: {1}")]
    Socket(SocketAddr, io::Error),
    /// Nobody listens there.
    #[error("{0}: refused: nothing receives there")]
    Refused(SocketAddr),
    /// No answer to Requests.
    #[error("{0}: no answer in {1:?}")]
    NoAnswer(SocketAddr, Duration),
    /// The other side answered the Request with a Reset.
    #[error("{0}: refused by the other side: {code}", code = code(*.1))]
    Denied(SocketAddr, u8),
    /// A Reset ended a connection that was there.
    #[error("{0}: reset by the other side: {code}", code = code(*.1))]
    Reset(SocketAddr, u8),
    /// The other side fell silent. What was done until then is in the report.
    #[error("{0}: the other side is gone: nothing came from it for {1:?}")]
    Gone(SocketAddr, Duration, Box<Report>),
    /// A datagram with its headers is more than the path takes.
    #[error(
        "{0}: datagrams of {1} bytes and their headers are longer than what the path takes in one piece; {fit}",
        fit = .2.map_or("shorter ones fit".to_owned(), |most| format!("{most} bytes fit"))
    )]
    TooLong(SocketAddr, u16, Option<usize>),
    /// The capture failed, or the system.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A Reset code (RFC 4340 section 5.6) with its number, and what is behind it where the name does not say that.
fn code(number: u8) -> String {
    let known = ResetCode::from_wire(number);
    let name = known.map_or("unknown reason", ResetCode::name);
    let why = match known {
        Some(ResetCode::NoConnection) => ": it knows no such connection",
        Some(ResetCode::PacketError) => ": a packet that should not come",
        Some(ResetCode::OptionError) => ": an option that cannot be",
        Some(ResetCode::MandatoryError) => ": an option that it must understand and does not",
        Some(ResetCode::ConnectionRefused) => ": nobody listens at that DCCP port, or it is ending",
        Some(ResetCode::BadServiceCode) => ": nobody offers that service",
        Some(ResetCode::TooBusy) => ": it serves as many as it can",
        Some(ResetCode::AggressionPenalty) => ": it was sent more than congestion allows",
        _ => "",
    };
    format!("{name} ({number}){why}")
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Go on.
    No,
    /// Close connections, and wait for that.
    Close,
    /// Wait for nobody.
    Abort,
}

/// What the caller is asked and told.
pub trait Caller {
    /// Whether to stop.
    fn stop(&self) -> Stop;
    /// A receiver is there, at this address.
    fn listening(&self, at: SocketAddr);
    /// Once a second.
    fn progress(&self, report: &Report);
    /// A receiver's connection has ended.
    fn ended(&self, report: &Report);
}
