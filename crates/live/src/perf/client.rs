//! The client of a throughput test.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use noq::{ClientConfig, Connection, Endpoint};
use noq_proto::crypto::rustls::QuicClientConfig;

use super::transfer::{self, Asked, REQUEST};
use super::{Caller, Event, PATIENCE, PerfError, Request, Settings, Summary, TICK, peer, tls, transport};

/// Runs one test and returns its result.
///
/// # Errors
/// If the settings are refused, the server cannot be reached or is not trusted, or the connection fails.
pub fn run(settings: &Settings, request: &Request, caller: &dyn Caller) -> Result<Summary, PerfError> {
    let mut config = ClientConfig::new(Arc::new(
        QuicClientConfig::try_from(tls::client(&request.trust)?)
            .map_err(|error| PerfError::failed("set up TLS", error))?,
    ));
    config.transport_config(transport(settings)?);
    super::block_on(async {
        let any: SocketAddr = match settings.address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let endpoint = Endpoint::client(any).map_err(|error| PerfError::failed("open a socket", error))?;
        let step = format!("connect to {}", settings.address);
        let connecting = endpoint
            .connect_with(config, settings.address, &request.name)
            .map_err(|error| PerfError::failed(&step, error))?;
        let Some(connected) = bounded(connecting, caller).await else {
            return Err(PerfError::failed(step, "no answer, or stopped"));
        };
        let connection = connected.map_err(|error| PerfError::failed(step, error))?;
        let done = test(&connection, settings, request, caller).await;
        connection.close(0_u32.into(), b"done");
        let _ = tokio::time::timeout(PATIENCE / 10, endpoint.wait_idle()).await;
        done
    })
}

/// The result of `work`, unless it takes too long or the caller stops.
async fn bounded<T>(work: impl Future<Output = T>, caller: &dyn Caller) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let begun = std::time::Instant::now();
    loop {
        if let Ok(done) = tokio::time::timeout(TICK, &mut work).await {
            return Some(done);
        }
        if caller.stop() || begun.elapsed() > PATIENCE {
            return None;
        }
    }
}

async fn test(
    connection: &Connection,
    settings: &Settings,
    request: &Request,
    caller: &dyn Caller,
) -> Result<Summary, PerfError> {
    let failed = |error: &dyn std::fmt::Display| PerfError::failed("ask for a test", error);
    let asked = Asked { reverse: request.reverse, streams: request.streams, duration: request.duration };
    let (mut send, mut answer) = connection.open_bi().await.map_err(|error| failed(&error))?;
    send.write_all(&asked.encode()).await.map_err(|error| failed(&error))?;
    let sends = !request.reverse;
    let moved = transfer::run(connection, asked, sends, settings.interval, caller).await?;
    let (mut received_bytes, mut received_s) = (None, None);
    if !sends {
        (received_bytes, received_s) = (Some(moved.total.bytes), Some(moved.total.end_s));
    } else if moved.complete {
        let mut bytes = [0; REQUEST];
        if let Some(Ok(())) = bounded(answer.read_exact(&mut bytes), caller).await {
            let (count, micros) = bytes.split_at(8);
            let number = |part: &[u8]| part.try_into().map(u64::from_be_bytes).ok();
            (received_bytes, received_s) = (number(count), number(micros).map(|micros| micros as f64 / 1e6));
        }
    }
    let summary = Summary {
        peer: peer(connection),
        sends,
        scheme: settings.scheme.clone(),
        streams: request.streams,
        total: moved.total,
        received_bytes,
        received_s,
        complete: moved.complete,
    };
    caller.event(&Event::Ended(summary.clone()));
    Ok(summary)
}
