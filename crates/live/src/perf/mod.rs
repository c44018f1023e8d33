//! Throughput tests of QUIC between real hosts: `narrows perf`.
//!
//! ## Protocol
//! ALPN `narrows-perf/1`. The client opens a bidirectional stream and writes a request of 16 bytes: who sends, the number
//! of streams, the duration. Then the sender opens the streams, one direction each, and fills them until the duration is
//! over. The receiver counts; if that is the server, it answers with the bytes and the time. The client closes.

mod client;
mod server;
#[cfg(test)]
mod tests;
mod tls;
mod transfer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use narrows_quic::noq::{self as schemes, Factory};
use narrows_quic::{Scheme, Stack};
use noq::{Connection, TransportConfig};
use noq_proto::PathId;
use serde::Serialize;

pub use client::run as client;
pub use server::run as server;
pub use tls::{Identity, Trust};

/// Longest interval between checks for a stop.
const TICK: Duration = Duration::from_millis(50);
/// Time for a handshake, and for the rest of a test beyond its duration.
const PATIENCE: Duration = Duration::from_secs(10);
/// Silence after which a connection is given up.
const SILENCE: Duration = Duration::from_secs(15);
/// Most streams of a test, and its longest duration.
pub const MAX_STREAMS: u16 = 128;
/// See [`MAX_STREAMS`].
pub const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);
/// Bytes that a stream, and a connection, may have in flight: 10 Gbit/s at 100 ms.
const WINDOW: u32 = 128 << 20;
/// Prefix of noq's own controllers.
const OWN: &str = "noq:";

/// Why a test failed.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// A setting is not accepted; the message says what is.
    #[error("{0}")]
    Refused(String),
    /// The system or the peer failed.
    #[error("cannot {step}: {reason}")]
    Failed {
        /// What was tried.
        step: String,
        /// What went wrong.
        reason: String,
    },
}

impl PerfError {
    fn failed(step: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        // The peer states some reasons.
        Self::Failed { step: step.into(), reason: crate::shown(&reason.to_string()) }
    }
}

/// Settings of both ends.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen at, or to connect to.
    pub address: SocketAddr,
    /// The scheme of what this end sends, by name and parameters; with the prefix `noq:`, one of noq's own.
    pub scheme: String,
    /// Values of its parameters, by name.
    pub params: Vec<(String, String)>,
    /// Interval between reports.
    pub interval: Duration,
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Request {
    /// How long data is sent.
    pub duration: Duration,
    /// Parallel streams.
    pub streams: u16,
    /// The server sends.
    pub reverse: bool,
    /// The name in the server's certificate.
    pub name: String,
    /// Which certificate to accept.
    pub trust: Trust,
}

/// What the server shows, and how long it runs.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its certificate; `None`: a self-made one.
    pub identity: Option<Identity>,
    /// Serve one test, then end.
    pub once: bool,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Tests at a time; others are refused.
    pub connections: usize,
}

/// The measurements of an interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Interval {
    /// The other end.
    pub peer: String,
    /// Whether this end sends.
    pub sends: bool,
    /// Begin and end, in seconds since the start.
    pub start_s: f64,
    /// See `start_s`.
    pub end_s: f64,
    /// Payload bytes: written by the sender, or read by the receiver.
    pub bytes: u64,
    /// The same per time.
    pub mbit_s: f64,
    /// Smoothed RTT at the end.
    pub rtt_ms: Option<f64>,
    /// Window at the end; `None` at a receiver.
    pub cwnd_bytes: Option<u64>,
    /// Pacing rate at the end.
    pub pacing_mbit_s: Option<f64>,
    /// Packets sent, and declared lost.
    pub packets: u64,
    /// See `packets`.
    pub lost: u64,
    /// The state that the scheme reports.
    pub state: Option<&'static str>,
}

/// The result of a test.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The other end.
    pub peer: String,
    /// Whether this end sends.
    pub sends: bool,
    /// The scheme of this end.
    pub scheme: String,
    /// Parallel streams.
    pub streams: u16,
    /// All intervals together.
    pub total: Interval,
    /// Payload that arrived, as the receiver counts it, and its time; `None` if it has not said.
    pub received_bytes: Option<u64>,
    /// See `received_bytes`.
    pub received_s: Option<f64>,
    /// Whether the test ended as asked.
    pub complete: bool,
}

/// Reports of a test.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The server listens.
    Listening {
        /// Where.
        address: String,
        /// SHA-256 of the certificate.
        fingerprint: String,
    },
    /// An interval is over.
    Interval(Interval),
    /// A test is over.
    Ended(Summary),
    /// Something that does not end the program.
    Warning {
        /// What.
        text: String,
    },
}

/// What a test reports to, and asks.
pub trait Caller: Send + Sync {
    /// Whether to end.
    fn stop(&self) -> bool;
    /// A report.
    fn event(&self, event: &Event);
}

/// The controller of these settings.
///
/// # Errors
/// If there is none of that name, or a parameter is refused.
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
        let params =
            narrows_scenario::settings(entry, &settings.params).map_err(|reason| refused(&reason))?;
        scheme = scheme.params(params).map_err(|reason| refused(&reason))?;
    }
    Ok(schemes::factory(scheme))
}

fn block_on<T>(work: impl Future<Output = Result<T, PerfError>>) -> Result<T, PerfError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|error| PerfError::failed("start", error))?.block_on(work)
}

fn transport(settings: &Settings) -> Result<Arc<TransportConfig>, PerfError> {
    let mut config = TransportConfig::default();
    let silence =
        SILENCE.try_into().map_err(|_| PerfError::failed("set the transport", "a time out of range"))?;
    config
        .congestion_controller_factory(controller(settings)?)
        .max_idle_timeout(Some(silence))
        .keep_alive_interval(Some(SILENCE / 3))
        .receive_window(WINDOW.into())
        .stream_receive_window(WINDOW.into())
        .send_window(WINDOW.into())
        .max_concurrent_bidi_streams(1_u32.into())
        .max_concurrent_uni_streams(u32::from(MAX_STREAMS).into());
    Ok(Arc::new(config))
}

/// The other end's address.
fn peer(connection: &Connection) -> String {
    let address = connection.path(PathId::ZERO).and_then(|path| path.remote_address().ok());
    address.map_or_else(|| "unknown".to_owned(), |address| address.to_string())
}

/// The state of a connection now; counters since its start.
fn measure(connection: &Connection, sends: bool) -> Interval {
    let mut now = Interval { peer: peer(connection), sends, ..Interval::default() };
    if let Some(path) = connection.path_stats(PathId::ZERO) {
        (now.packets, now.lost) = (path.sent_packets, path.lost_packets);
    }
    now.rtt_ms = connection.rtt(PathId::ZERO).map(|rtt| rtt.as_secs_f64() * 1e3);
    if !sends {
        return now;
    }
    if let Some(controller) = connection.congestion_state(PathId::ZERO) {
        let metrics = controller.metrics();
        now.cwnd_bytes = Some(metrics.congestion_window);
        now.pacing_mbit_s = metrics.pacing_rate.map(|rate| rate as f64 * 8e-6);
        if let Some(own) = schemes::Controller::inspect(controller.as_ref()) {
            own.driver().scheme().telemetry(&mut |name, value| {
                if let ("state", narrows_cc::Value::State(state)) = (name, value) {
                    now.state = Some(state);
                }
            });
        }
    }
    now
}
