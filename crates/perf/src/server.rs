//! The server of throughput tests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use narrows_host::text::shown;
use noq::{Connection, ConnectionError, Incoming, ServerConfig};
use noq_proto::crypto::rustls::QuicServerConfig;
use tokio::task::JoinSet;

use super::admission::{Admission, Arrival, Place};
use super::control::{Asked, REQUEST, encode_scheme, read_scheme};
use super::endpoint::endpoint;
use super::measure::Test;
use super::transfer::{self, Moved};
use super::{
    BUSY, Begun, Caller, EARLY_WINDOW, Event, INVALID, MEMORY, PATIENCE, PerfError, Service, Settings, Summary, TICK,
    WINDOW, ended, explained, local, peer, tls, transport,
};

/// Maximum number of connection attempts that wait for a decision, and maximum number of bytes received for them.
const INCOMING: usize = 1 << 12;
const INCOMING_BYTES: u64 = 1 << 20;
/// Time in which running tests send their results when the server is stopped.
const FAREWELL: Duration = Duration::from_secs(3);
/// Warnings about connections per [`WARNING_TIME`]; further warnings are only counted.
const WARNINGS: u64 = 10;
/// See [`WARNINGS`].
const WARNING_TIME: Duration = Duration::from_secs(10);

/// Serves tests until the caller requests the end.
///
/// # Errors
/// If the settings are refused, or the address cannot be used. Failures of a connection are warnings.
pub fn run(settings: &Settings, service: &Service, caller: &Arc<dyn Caller>) -> Result<(), PerfError> {
    let (chain, key) = tls::identity(service.identity.as_ref())?;
    let fingerprint = chain.first().map(|own| tls::fingerprint(own)).unwrap_or_default();
    let crypto = QuicServerConfig::try_from(tls::server(chain, key, service.identity.as_ref())?)
        .map_err(|error| PerfError::failed("set up TLS", error))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    let tests = if service.once { 1 } else { service.connections.max(1) };
    let window = (MEMORY / tests as u64).clamp(EARLY_WINDOW.into(), WINDOW);
    config.transport_config(transport(settings, window, EARLY_WINDOW)?);
    config.max_incoming(INCOMING).incoming_buffer_size(INCOMING_BYTES / 16).incoming_buffer_size_total(INCOMING_BYTES);
    super::block_on(async {
        let endpoint = endpoint(Some(config), settings.address)
            .map_err(|error| PerfError::failed(format!("listen at {}", settings.address), error))?;
        let bound = endpoint.local_addr().unwrap_or(settings.address);
        caller.event(&Event::Listening { address: bound.to_string(), fingerprint });
        let server = Arc::new(Server {
            settings: settings.clone(),
            longest: service.longest,
            window,
            bound,
            caller: Arc::clone(caller),
            tests: AtomicU64::new(0),
            warned: Mutex::new((Instant::now(), 0)),
        });
        let admission = Admission::new(tests, service.per_address);
        let mut work = JoinSet::new();
        let begun = Instant::now();
        let over = || caller.stop() || service.duration.is_some_and(|most| begun.elapsed() >= most);
        let mut served = false;
        while !(over() || service.once && served) {
            while let Some(ended) = work.try_join_next() {
                served |= ended.unwrap_or(false);
            }
            let Ok(incoming) = tokio::time::timeout(TICK, endpoint.accept()).await else { continue };
            let Some(incoming) = incoming else {
                return Err(PerfError::failed(format!("listen at {bound}"), "the socket failed"));
            };
            match admission.arrival(incoming.remote_address().ip(), incoming.remote_address_validated()) {
                Arrival::Accepted(place) => _ = work.spawn(Arc::clone(&server).serve(incoming, place)),
                // Only connections with a proven address cannot get a Retry, so this call always sends one.
                Arrival::Retry => _ = incoming.retry(),
                Arrival::Refused(reason) => {
                    server.warn(format!("{}: refused: {reason}", incoming.remote_address()));
                    incoming.refuse();
                }
            }
        }
        if caller.stop() {
            let rest = async { while work.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(FAREWELL, rest).await;
        }
        work.abort_all();
        endpoint.close(0_u32.into(), b"the server ends");
        let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
        Ok(())
    })
}

struct Server {
    settings: Settings,
    longest: Duration,
    window: u64,
    bound: SocketAddr,
    caller: Arc<dyn Caller>,
    tests: AtomicU64,
    /// Start of the period in which warnings are counted, and the number of warnings in it.
    warned: Mutex<(Instant, u64)>,
}

impl Server {
    /// Serves one connection. Returns whether the connection ran a test.
    async fn serve(self: Arc<Self>, incoming: Incoming, mut place: Place) -> bool {
        let from = incoming.remote_address();
        let connection = match within(incoming).await {
            Ok(Ok(connection)) => connection,
            // First packets may be spoofed, so a handshake that times out causes no warning. A peer that ends a
            // handshake states the reason.
            Ok(Err(ConnectionError::TimedOut)) | Err(_) if place.is_unproven() => return false,
            Ok(Err(error)) => {
                self.warn(format!("{from}: the handshake failed: {}", ended(&error)));
                return false;
            }
            Err(error) => {
                self.warn(format!("{from}: {error}"));
                return false;
            }
        };
        match self.test(connection, &mut place).await {
            Ok(summary) => {
                self.caller.event(&Event::Ended(Box::new(summary)));
                true
            }
            Err(error) => {
                self.warn(format!("{from}: {error}"));
                false
            }
        }
    }

    fn warn(&self, text: String) {
        let (text, mut warned) = (shown(&text), self.warned.lock().unwrap_or_else(PoisonError::into_inner));
        if warned.0.elapsed() >= WARNING_TIME {
            let silent = warned.1.saturating_sub(WARNINGS);
            if silent > 0 {
                self.caller.event(&Event::Warning { text: format!("{silent} further connections failed") });
            }
            *warned = (Instant::now(), 0);
        }
        warned.1 += 1;
        if warned.1 <= WARNINGS {
            self.caller.event(&Event::Warning { text });
        }
    }

    async fn test(&self, connection: Connection, place: &mut Place) -> Result<Summary, PerfError> {
        let failed = |reason: &dyn std::fmt::Display| PerfError::failed("take a test", reason);
        let refuse = |code: u32, reason: String| {
            connection.close(code.into(), reason.as_bytes());
            failed(&reason)
        };
        place.prove().map_err(|reason| refuse(BUSY, reason))?;
        let (mut send, mut receive) = within(connection.accept_bi()).await?.map_err(|error| failed(&ended(&error)))?;
        let mut bytes = [0; REQUEST];
        let read = within(receive.read_exact(&mut bytes)).await?;
        read.map_err(|error| failed(&explained(&connection, &error)))?;
        let asked = Asked::decode(&bytes, self.longest).map_err(|reason| refuse(INVALID, reason))?;
        place.begin().map_err(|reason| refuse(BUSY, reason))?;
        let scheme = if asked.reverse {
            if asked.named {
                let stated = within(send.write_all(&encode_scheme(&self.settings.scheme))).await?;
                stated.map_err(|error| failed(&explained(&connection, &error)))?;
            }
            Some(self.settings.scheme.clone())
        } else if asked.named {
            let stated = within(read_scheme(&mut receive)).await?;
            Some(stated.map_err(|reason| refuse(INVALID, reason))?)
        } else {
            None
        };
        connection.set_receive_window(self.window.try_into().unwrap_or(EARLY_WINDOW.into()));
        let begun = Begun {
            test: self.tests.fetch_add(1, Ordering::Relaxed),
            local: local(&connection, self.bound),
            peer: peer(&connection),
            client: false,
            sends: asked.reverse,
            scheme,
            streams: asked.streams,
            duration_s: asked.duration.as_secs_f64(),
        };
        self.caller.event(&Event::Begun(begun.clone()));
        let test = Test {
            id: begun.test,
            connection: &connection,
            asked,
            sends: begun.sends,
            interval: self.settings.interval,
            caller: self.caller.as_ref(),
        };
        let Moved { total, sent, received, complete, failure } = transfer::run(&test, send, receive).await;
        // The client closes the connection after it has received everything.
        let patience = if complete { PATIENCE } else { PATIENCE / 10 };
        if tokio::time::timeout(patience, connection.closed()).await.is_err() {
            connection.close(0_u32.into(), failure.as_deref().unwrap_or("the test has ended").as_bytes());
        }
        Ok(Summary { begun, total, sent, received, complete, failure: failure.map(|text| shown(&text)) })
    }
}

async fn within<F: IntoFuture>(work: F) -> Result<F::Output, PerfError> {
    let done = tokio::time::timeout(PATIENCE, work.into_future()).await;
    done.map_err(|_| PerfError::failed("wait for the client", "it says nothing"))
}
