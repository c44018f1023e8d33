//! The client of a throughput test.

use std::net::SocketAddr;
use std::sync::Arc;

use narrows_host::text::shown;
use noq::{ClientConfig, Connection};
use noq_proto::crypto::rustls::QuicClientConfig;
use rustls::pki_types::ServerName;

use super::control::{Asked, encode_scheme, is_named, read_scheme};
use super::endpoint::{any, endpoint};
use super::measure::Test;
use super::transfer::{self, Moved};
use super::{
    Begun, Caller, Event, MAX_DURATION, PATIENCE, PerfError, Request, Settings, Summary, TICK, Trust, WINDOW, ended,
    explained, local, peer, tls, transport,
};

/// Runs one test and returns its result.
///
/// # Errors
/// If the settings are refused, the server is unreachable or not trusted, or the connection fails. If the test
/// moved data, the caller receives its result before the error.
pub fn run(settings: &Settings, request: &Request, caller: &dyn Caller) -> Result<Summary, PerfError> {
    let Request { reverse, streams, duration, .. } = *request;
    let mut asked = Asked { reverse, streams, duration, named: true };
    asked.check(MAX_DURATION).map_err(PerfError::Refused)?;
    let (crypto, verdict) = tls::client(&request.trust)?;
    let name = server_name(request)?;
    let crypto = QuicClientConfig::try_from(crypto).map_err(|error| PerfError::failed("set up TLS", error))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport(settings, WINDOW, WINDOW as u32)?);
    super::block_on(async {
        let any = any(settings.address);
        let endpoint = endpoint(None, any).map_err(|error| PerfError::failed("open a socket", error))?;
        let step = format!("connect to {}", settings.address);
        let connecting =
            endpoint.connect_with(config, settings.address, name).map_err(|error| PerfError::failed(&step, error))?;
        let connected = match bounded(connecting, caller).await {
            Ok(connected) => connected,
            Err(reason) if settings.address.is_ipv6() && !caller.stop() => {
                let hint = "a server listens on IPv6 with `--listen [::]:PORT`, by default on IPv4 alone";
                return Err(PerfError::failed(step, format_args!("{reason}; {hint}")));
            }
            Err(reason) => return Err(PerfError::failed(step, reason)),
        };
        let connection =
            connected.map_err(|error| PerfError::failed(step, verdict.take().unwrap_or_else(|| ended(&error))))?;
        let bound = endpoint.local_addr().unwrap_or(any);
        asked.named = is_named(&connection);
        let done = test(&connection, bound, asked, settings, caller).await;
        connection.close(0_u32.into(), b"");
        let _ = tokio::time::timeout(PATIENCE / 10, endpoint.wait_idle()).await;
        done
    })
}

/// The server name for the handshake: the requested name. `localhost` replaces a name that no certificate can
/// have, if trust does not depend on the name.
fn server_name(request: &Request) -> Result<&str, PerfError> {
    match (ServerName::try_from(request.name.as_str()), &request.trust) {
        (Ok(_), _) => Ok(&request.name),
        (Err(_), Trust::Any | Trust::Fingerprint(_)) => Ok("localhost"),
        (Err(_), Trust::System | Trust::Authorities(_)) => Err(PerfError::Refused(format!(
            "`{}` cannot be the name in a certificate; accepted: --name with a host's name or address",
            request.name
        ))),
    }
}

/// Returns the result of `work`, unless `work` takes too long or the caller stops.
async fn bounded<T>(work: impl Future<Output = T>, caller: &dyn Caller) -> Result<T, String> {
    let mut work = std::pin::pin!(work);
    let begun = std::time::Instant::now();
    loop {
        if let Ok(done) = tokio::time::timeout(TICK, &mut work).await {
            return Ok(done);
        }
        if caller.stop() {
            return Err("stopped before an answer".to_owned());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("no answer within {} s", PATIENCE.as_secs()));
        }
    }
}

async fn test(
    connection: &Connection,
    bound: SocketAddr,
    asked: Asked,
    settings: &Settings,
    caller: &dyn Caller,
) -> Result<Summary, PerfError> {
    let failed = |error: &dyn std::fmt::Display| PerfError::failed("ask for a test", explained(connection, error));
    let opened = bounded(connection.open_bi(), caller).await.map_err(|reason| failed(&reason))?;
    let (mut send, mut receive) = opened.map_err(|error| failed(&error))?;
    send.write_all(&asked.encode()).await.map_err(|error| failed(&error))?;
    let scheme = if !asked.reverse {
        if asked.named {
            send.write_all(&encode_scheme(&settings.scheme)).await.map_err(|error| failed(&error))?;
        }
        Some(settings.scheme.clone())
    } else if asked.named {
        let stated = bounded(read_scheme(&mut receive), caller).await.and_then(|stated| stated);
        Some(stated.map_err(|reason| failed(&reason))?)
    } else {
        None
    };
    let begun = Begun {
        test: 0,
        local: local(connection, bound),
        peer: peer(connection),
        client: true,
        sends: !asked.reverse,
        scheme,
        streams: asked.streams,
        duration_s: asked.duration.as_secs_f64(),
    };
    caller.event(&Event::Begun(begun.clone()));
    let test = Test { id: begun.test, connection, asked, sends: begun.sends, interval: settings.interval, caller };
    let Moved { total, sent, received, complete, failure } = transfer::run(&test, send, receive).await;
    if let Some(reason) = &failure
        && total.bytes == 0
    {
        return Err(PerfError::failed("run the test", reason));
    }
    let failure = failure.map(|text| shown(&text));
    let summary = Summary { begun, total, sent, received, complete, failure };
    caller.event(&Event::Ended(Box::new(summary.clone())));
    match &summary.failure {
        Some(reason) => Err(PerfError::failed("finish the test", reason)),
        None => Ok(summary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name matters only with a certificate authority: otherwise `localhost` replaces a name that no
    /// certificate can have.
    #[test]
    fn impossible_name_matters_to_authorities_only() {
        let request = |name: &str, trust| Request {
            duration: MAX_DURATION,
            streams: 1,
            reverse: false,
            name: name.to_owned(),
            trust,
        };
        for trust in [Trust::Any, Trust::Fingerprint(String::new())] {
            assert!(server_name(&request("fe80::1%eth0", trust.clone())).is_ok_and(|name| name == "localhost"));
            assert!(server_name(&request("fe80::1", trust)).is_ok_and(|name| name == "fe80::1"));
        }
        let refused = server_name(&request("fe80::1%eth0", Trust::System)).expect_err("no name").to_string();
        assert!(refused.contains("`fe80::1%eth0` cannot be the name"), "{refused}");
    }
}
