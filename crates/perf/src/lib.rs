//! Throughput tests of QUIC between real hosts: `narrows perf`.
//!
//! ## Protocol
//! ALPN `narrows-perf/3`. The client opens a bidirectional stream, the control stream, and writes its request:
//! direction, number of streams, duration. A server without a free slot closes the connection with the reason. The
//! sender writes its scheme to the control stream, opens the unidirectional data streams, and fills them for the
//! duration. The receiver reports on the control stream the bytes that it has read; at the end the sender adds its own
//! result (see `control`). The client closes. `narrows-perf/2` is the same without the scheme.
//!
//! ## Hostile peers
//! `admission` bounds handshakes, connections and tests; a test without progress, or longer than requested, ends. A
//! server's tests share `MEMORY` for arriving data, and the sender's buffer follows the congestion window.

// This crate runs in wall time.
#![allow(clippy::disallowed_methods)]

mod admission;
mod client;
mod control;
mod endpoint;
mod measure;
mod server;
#[cfg(test)]
mod tests;
mod tls;
mod transfer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use narrows_host::text::{reason_of_quic, shown};
use narrows_quic::noq::{self as schemes, Factory};
use narrows_quic::{Scheme, Stack};
use noq::{Connection, ConnectionError, TransportConfig, TransportErrorCode};
use noq_proto::PathId;
use serde::Serialize;

pub use client::run as client;
pub use control::Tally;
pub use server::run as server;
pub use tls::{ALPN, Identity, Trust};

/// Longest interval between checks for a stop, and shortest interval between reports of a receiver.
const TICK: Duration = Duration::from_millis(20);
/// Longest time for a handshake, and longest time of a test beyond its duration.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time without a packet after which a connection is closed, and time without progress after which a test ends.
const SILENCE: Duration = Duration::from_secs(15);
/// Maximum number of streams of a test, and maximum duration of a test.
pub const MAX_STREAMS: u16 = 128;
/// See [`MAX_STREAMS`].
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);
/// Receive window and maximum send buffer in bytes: the data of 50 ms at 10 Gbit/s.
const WINDOW: u64 = 64 << 20;
/// Receive memory for all tests of a server together, in bytes.
const MEMORY: u64 = 256 << 20;
/// Receive window in bytes of a connection without a test.
const EARLY_WINDOW: u32 = 256 << 10;
/// Minimum send buffer in bytes: more than the initial windows of all schemes.
const SEND_WINDOW: u64 = 64 << 10;
/// Codes with which a server closes a connection: no free slot, or an invalid request.
const BUSY: u32 = 2;
/// See [`BUSY`].
const INVALID: u32 = 1;
/// Prefix that selects the controllers of the noq library.
const OWN: &str = "noq:";

/// The reason why a test failed.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// A setting is refused; the message names what is accepted.
    #[error("{0}")]
    Refused(String),
    /// The system or the peer failed during a test.
    #[error("cannot {step}: {reason}")]
    Failed {
        /// The failed step.
        step: String,
        /// The cause of the failure.
        reason: String,
    },
}

impl PerfError {
    fn failed(step: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        // The peer may have written the reason: escape it.
        Self::Failed { step: step.into(), reason: shown(&reason.to_string()) }
    }
}

/// Settings common to client and server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen at, or to connect to.
    pub address: SocketAddr,
    /// The scheme for the data that this endpoint sends: name and parameters, or a name with the prefix `noq:`
    /// for a controller of the noq library.
    pub scheme: String,
    /// Values of the scheme's parameters, by name.
    pub params: Vec<(String, String)>,
    /// Interval between reports.
    pub interval: Duration,
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Request {
    /// Duration for which data is sent.
    pub duration: Duration,
    /// Number of parallel streams.
    pub streams: u16,
    /// Whether the server sends the data.
    pub reverse: bool,
    /// The name in the server's certificate.
    pub name: String,
    /// Which certificate to accept.
    pub trust: Trust,
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Service {
    /// The server's certificate and key; `None`: a self-signed certificate.
    pub identity: Option<Identity>,
    /// Whether to serve only one test.
    pub once: bool,
    /// Time after which the server ends.
    pub duration: Option<Duration>,
    /// Maximum number of simultaneous tests; further tests are refused.
    pub connections: usize,
    /// Maximum number of simultaneous connections from one address.
    pub per_address: usize,
    /// Longest duration that a client may request.
    pub longest: Duration,
}

/// Measurements of one interval of a test.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Interval {
    /// The number of the test at this endpoint.
    pub test: u64,
    /// The peer's address.
    pub peer: String,
    /// Whether this endpoint sends the data.
    pub sends: bool,
    /// Start and end of the interval, in seconds since the start of the test.
    pub start_s: f64,
    /// See `start_s`.
    pub end_s: f64,
    /// Payload bytes that the receiver has read; at the sender, the bytes that the receiver's reports confirm.
    pub bytes: u64,
    /// `bytes` by stream.
    pub streams: Vec<u64>,
    /// Payload rate, from `bytes` and the length of the interval.
    pub mbit_s: f64,
    /// Smoothed RTT at the end of the interval.
    pub rtt_ms: Option<f64>,
    /// Congestion window at the end of the interval; `None` at a receiver.
    pub cwnd_bytes: Option<u64>,
    /// Pacing rate at the end of the interval.
    pub pacing_mbit_s: Option<f64>,
    /// Largest payload of a datagram at the end of the interval.
    pub mtu_bytes: u16,
    /// Packets sent and packets declared lost, without MTU probes.
    pub packets: u64,
    /// See `packets`.
    pub lost: u64,
    /// The state that the scheme reports.
    pub state: Option<&'static str>,
    /// Time since the last packet from the peer in seconds, at the end of the interval.
    pub silent_s: f64,
}

/// Facts about a test that begins.
#[derive(Clone, Debug, Serialize)]
pub struct Begun {
    /// The number of the test at this endpoint.
    pub test: u64,
    /// The address of this endpoint.
    pub local: String,
    /// The peer's address.
    pub peer: String,
    /// Whether this endpoint is the client.
    pub client: bool,
    /// Whether this endpoint sends the data.
    pub sends: bool,
    /// The sender's scheme; `None` if the peer sends and has not stated its scheme.
    pub scheme: Option<String>,
    /// Number of parallel streams.
    pub streams: u16,
    /// Duration for which data is sent.
    pub duration_s: f64,
}

/// The result of a test.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The facts from the start of the test.
    #[serde(flatten)]
    pub begun: Begun,
    /// Measurements of the whole test.
    pub total: Interval,
    /// The sender's tally: the bytes that reports confirmed during the test; `None` without a result.
    pub sent: Option<Tally>,
    /// The receiver's tally: the bytes that it read, and the time since its first byte; `None` without a report.
    pub received: Option<Tally>,
    /// Whether the test ended as requested.
    pub complete: bool,
    /// The reason why the test failed.
    pub failure: Option<String>,
}

/// Reports of a test.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The server listens.
    Listening {
        /// The server's address.
        address: String,
        /// SHA-256 of the server's certificate.
        fingerprint: String,
    },
    /// A test begins.
    Begun(Begun),
    /// An interval of a test is over.
    Interval(Interval),
    /// A test is over.
    Ended(Box<Summary>),
    /// A failure that does not end the program.
    Warning {
        /// The reason for the warning.
        text: String,
    },
}

/// The caller of a test or server.
pub trait Caller: Send + Sync {
    /// Whether the caller requests the end.
    fn stop(&self) -> bool;
    /// Receives a report.
    fn event(&self, event: &Event);
}

/// Creates the factory of the controller that the settings name.
///
/// # Errors
/// If no controller has the name, or a parameter is refused.
pub fn controller(settings: &Settings) -> Result<Factory, PerfError> {
    let refused = |reason: &dyn std::fmt::Display| PerfError::Refused(format!("scheme: {reason}"));
    if let Some(own) = settings.scheme.strip_prefix(OWN) {
        if !settings.params.is_empty() {
            return Err(refused(&"noq's own controllers have no parameters; accepted: the name alone"));
        }
        let accepted: Vec<_> = schemes::OWN.iter().map(|name| format!("{OWN}{name}")).collect();
        let missing = format!("noq has no controller `{own}`; accepted: {}", accepted.join(", "));
        return schemes::own(own).ok_or_else(|| refused(&missing));
    }
    let mut scheme = Scheme::find(&settings.scheme, Stack::Noq).map_err(|reason| refused(&reason))?;
    if let Some(entry) = narrows_cc::schemes::find(scheme.name()) {
        let params = narrows_scenario::settings(entry, &settings.params).map_err(|reason| refused(&reason))?;
        scheme = scheme.params(params).map_err(|reason| refused(&reason))?;
    }
    Ok(schemes::factory(scheme))
}

fn block_on<T>(work: impl Future<Output = Result<T, PerfError>>) -> Result<T, PerfError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|error| PerfError::failed("start", error))?.block_on(work)
}

/// The transport settings of an endpoint: a receive window of `window` bytes per stream, and a total receive
/// window that begins with `early` bytes.
fn transport(settings: &Settings, window: u64, early: u32) -> Result<Arc<TransportConfig>, PerfError> {
    let range = |_| PerfError::failed("set the transport", "a value out of range");
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(controller(settings)?)
        .max_idle_timeout(Some(SILENCE.try_into().map_err(range)?))
        .keep_alive_interval(Some(SILENCE / 3))
        .receive_window(early.into())
        .stream_receive_window(window.try_into().map_err(range)?)
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        .max_concurrent_bidi_streams(1_u32.into())
        .max_concurrent_uni_streams(u32::from(MAX_STREAMS).into());
    Ok(Arc::new(config))
}

/// The peer's address.
fn peer(connection: &Connection) -> String {
    remote(connection).map_or_else(|| "unknown".to_owned(), |address| address.to_string())
}

fn remote(connection: &Connection) -> Option<SocketAddr> {
    connection.path(PathId::ZERO)?.remote_address().ok()
}

/// This endpoint's address on the connection; `bound` is the socket's address.
fn local(connection: &Connection, bound: SocketAddr) -> String {
    let ip = connection.path(PathId::ZERO).and_then(|path| path.local_ip().ok().flatten());
    let known = ip.or_else(|| Some(bound.ip()).filter(|ip| !ip.is_unspecified()));
    let ip = known.or_else(|| remote(connection).and_then(|peer| endpoint::route(peer).ok()));
    SocketAddr::new(ip.unwrap_or(bound.ip()), bound.port()).to_string()
}

/// The reason why the connection ended; `error` if no reason is known.
fn explained(connection: &Connection, error: &dyn std::fmt::Display) -> String {
    connection.close_reason().map_or_else(|| error.to_string(), |reason| ended(&reason))
}

/// The reason for a test's failure when the peer, or the path to the peer, has failed.
fn unanswered(silence: Duration) -> String {
    format!("the other end does not answer: nothing has arrived from it for {} s", silence.as_secs())
}

/// Alert `no_application_protocol` (RFC 7301) as a QUIC error code (RFC 9001 section 4.8).
const NO_PROTOCOL: u64 = ALERTS + 120;
/// The first QUIC error code for TLS alerts.
const ALERTS: u64 = 0x100;
/// Alerts about a certificate: `bad_certificate` to `unknown_ca`, `access_denied` and `decrypt_error` (RFC 8446
/// section 6.2).
const CERTIFICATE: [u64; 8] = [42, 43, 44, 45, 46, 48, 49, 51];

/// Describes why a connection ended.
fn ended(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ApplicationClosed(close) if close.reason.is_empty() => "the other end closed".to_owned(),
        ConnectionError::ApplicationClosed(close) => {
            format!("the other end closed: {}", String::from_utf8_lossy(&close.reason))
        }
        ConnectionError::ConnectionClosed(close) if close.error_code == TransportErrorCode::CONNECTION_REFUSED => {
            "the server refuses connections: it has too many, or too many from this address".to_owned()
        }
        ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == NO_PROTOCOL => {
            "the server is not `narrows perf server` of this version".to_owned()
        }
        ConnectionError::ConnectionClosed(close)
            if CERTIFICATE.iter().any(|alert| u64::from(close.error_code) == ALERTS + alert) =>
        {
            "the other end does not accept the certificate".to_owned()
        }
        ConnectionError::TimedOut => unanswered(SILENCE),
        other => reason_of_quic(other.to_string()),
    }
}
