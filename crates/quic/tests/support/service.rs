//! Endpoints of noq over loopback.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use narrows_quic::noq::Factory;
use noq::crypto::rustls::QuicClientConfig;
use noq::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TransportConfig, default_runtime};
use rustix::net::sockopt;

fn transport(controller: Factory) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    // A busy machine may delay connections, so disable the idle timeout.
    transport.congestion_controller_factory(controller).max_idle_timeout(None);
    Arc::new(transport)
}

/// An endpoint on loopback whose socket requests a receive buffer of this size in bytes, or keeps the system's default.
fn endpoint(server: Option<ServerConfig>, buffer: Option<usize>) -> Endpoint {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    if let Some(buffer) = buffer {
        sockopt::set_socket_recv_buffer_size(&socket, buffer).expect("a socket takes what the system allows");
    }
    let runtime = default_runtime().expect("a runtime of tokio");
    Endpoint::new(EndpointConfig::default(), server, socket, runtime).expect("an endpoint")
}

/// A server that counts the bytes it receives, the server's address, and an endpoint whose connections run
/// `controller`. The server's socket requests a receive buffer of `buffer` bytes.
pub fn pair(controller: Factory, buffer: Option<usize>) -> (Endpoint, SocketAddr, Endpoint) {
    let (chain, key, crypto) = crate::tls::made();
    let mut server = ServerConfig::with_single_cert(chain, key).expect("a certificate");
    server.transport_config(transport(Arc::clone(&controller)));
    let server = endpoint(Some(server), buffer);
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto).expect("a TLS 1.3 suite")));
    client.transport_config(transport(controller));
    let endpoint = endpoint(None, None);
    endpoint.set_default_client_config(client);
    let at = server.local_addr().expect("an address");
    (server, at, endpoint)
}

/// Reads the streams of all connections to their ends, and answers each stream with its length.
pub async fn count(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                let mut bytes = 0_u64;
                while let Ok(Some(chunk)) = receive.read_chunk(1 << 20).await {
                    bytes += chunk.len() as u64;
                }
                if send.write_all(&bytes.to_be_bytes()).await.is_ok() {
                    let _ = send.finish();
                }
            }
        });
    }
}
