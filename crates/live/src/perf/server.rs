//! The server of throughput tests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use noq::{Connection, Endpoint, Incoming, ServerConfig};
use noq_proto::crypto::rustls::QuicServerConfig;
use tokio::task::JoinSet;

use super::transfer::{self, Asked, REQUEST};
use super::{Caller, Event, PATIENCE, PerfError, Service, Settings, Summary, TICK, peer, tls, transport};

/// Serves tests until the caller stops.
///
/// # Errors
/// If the settings are refused, or the address cannot be used. Failures of a connection are warnings.
pub fn run(settings: &Settings, service: &Service, caller: &Arc<dyn Caller>) -> Result<(), PerfError> {
    let (chain, key) = tls::identity(service.identity.as_ref())?;
    let fingerprint = chain.first().map(|own| tls::fingerprint(own)).unwrap_or_default();
    let crypto = QuicServerConfig::try_from(tls::server(chain, key)?)
        .map_err(|error| PerfError::failed("set up TLS", error))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport(settings)?);
    super::block_on(async {
        let endpoint = Endpoint::server(config, settings.address)
            .map_err(|error| PerfError::failed(format!("listen at {}", settings.address), error))?;
        let address =
            endpoint.local_addr().map_or_else(|_| settings.address.to_string(), |at| at.to_string());
        caller.event(&Event::Listening { address, fingerprint });
        let mut tests = JoinSet::new();
        let begun = Instant::now();
        let over = || caller.stop() || service.duration.is_some_and(|most| begun.elapsed() >= most);
        let mut served = 0_u64;
        while !over() && (!service.once || served == 0) {
            while let Some(ended) = tests.try_join_next() {
                served += u64::from(ended.unwrap_or(false));
            }
            let Ok(Some(incoming)) = tokio::time::timeout(TICK, endpoint.accept()).await else { continue };
            if tests.len() >= service.connections {
                incoming.refuse();
                continue;
            }
            tests.spawn(serve(incoming, settings.clone(), Arc::clone(caller)));
        }
        tests.abort_all();
        endpoint.close(0_u32.into(), b"the server ends");
        let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
        Ok(())
    })
}

/// Serves one connection. Returns whether it was a test.
async fn serve(incoming: Incoming, settings: Settings, caller: Arc<dyn Caller>) -> bool {
    let from = incoming.remote_address();
    match test(incoming, &settings, caller.as_ref()).await {
        Ok(summary) => {
            caller.event(&Event::Ended(summary));
            true
        }
        Err(error) => {
            caller.event(&Event::Warning { text: format!("{from}: {error}") });
            false
        }
    }
}

async fn test(incoming: Incoming, settings: &Settings, caller: &dyn Caller) -> Result<Summary, PerfError> {
    let failed = |error: &dyn std::fmt::Display| PerfError::failed("take a test", error);
    let connection: Connection = within(incoming).await?.map_err(|error| failed(&error))?;
    let (mut answer, mut receive) = within(connection.accept_bi()).await?.map_err(|error| failed(&error))?;
    let mut bytes = [0; REQUEST];
    within(receive.read_exact(&mut bytes)).await?.map_err(|error| failed(&error))?;
    let Some(asked) = Asked::decode(&bytes) else {
        connection.close(1_u32.into(), b"not a request of narrows perf");
        return Err(failed(&"not a request of narrows perf, or beyond its limits"));
    };
    let sends = asked.reverse;
    let moved = transfer::run(&connection, asked, sends, settings.interval, caller).await?;
    let (mut received_bytes, mut received_s) = (None, None);
    if !sends {
        (received_bytes, received_s) = (Some(moved.total.bytes), Some(moved.total.end_s));
        let mut bytes = [0; REQUEST];
        bytes[..8].copy_from_slice(&moved.total.bytes.to_be_bytes());
        bytes[8..].copy_from_slice(&((moved.total.end_s * 1e6) as u64).to_be_bytes());
        // The client may have gone.
        if answer.write_all(&bytes).await.is_ok() && answer.finish().is_ok() {
            let _ = within(answer.stopped()).await;
        }
    } else {
        let _ = within(connection.closed()).await;
    }
    Ok(Summary {
        peer: peer(&connection),
        sends,
        scheme: settings.scheme.clone(),
        streams: asked.streams,
        total: moved.total,
        received_bytes,
        received_s,
        complete: moved.complete,
    })
}

async fn within<F: IntoFuture>(work: F) -> Result<F::Output, PerfError> {
    let done = tokio::time::timeout(PATIENCE, work.into_future()).await;
    done.map_err(|_| PerfError::failed("wait for the client", "it says nothing"))
}
