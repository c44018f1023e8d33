//! Endpoints of quinn over loopback.

#![allow(dead_code)] // each test file uses some of these items

use std::any::Any;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use narrows_quic::quinn::Factory;
use quinn::congestion::{Controller, ControllerFactory};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use quinn_proto::RttEstimator;

fn transport(controller: Factory) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    // A busy machine may delay connections, so disable the idle timeout.
    transport.congestion_controller_factory(controller).max_idle_timeout(None);
    Arc::new(transport)
}

/// A server, and an endpoint that trusts the server. Both run this controller.
pub fn pair(controller: &Factory) -> (Endpoint, Endpoint) {
    let (chain, key, crypto) = crate::tls::made();
    let mut server = ServerConfig::with_single_cert(chain, key).expect("a certificate");
    server.transport_config(transport(Arc::clone(controller)));
    let server = Endpoint::server(server, (Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
    let crypto = QuicClientConfig::try_from(crypto).expect("a TLS 1.3 suite");
    let mut client = ClientConfig::new(Arc::new(crypto));
    client.transport_config(transport(Arc::clone(controller)));
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
    endpoint.set_default_client_config(client);
    (server, endpoint)
}

/// A controller that stores the RTT estimator that it receives.
struct Capture(Arc<Mutex<Option<RttEstimator>>>);

impl ControllerFactory for Capture {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Self(Arc::clone(&self.0)))
    }
}

impl Controller for Capture {
    fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: bool, rtt: &RttEstimator) {
        if let Ok(mut kept) = self.0.lock() {
            *kept = Some(*rtt);
        }
    }
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}
    fn on_mtu_update(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        20_000
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self(Arc::clone(&self.0)))
    }
    fn initial_window(&self) -> u64 {
        20_000
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The RTT estimator of a connection after some acknowledgements. quinn has no public constructor for estimators.
pub fn estimator() -> RttEstimator {
    let kept = Arc::new(Mutex::new(None));
    let factory: Factory = Arc::new(Capture(Arc::clone(&kept)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (server, client) = pair(&factory);
        let at = server.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            let connection = server.accept().await.expect("a client").await.expect("connects");
            let mut stream = connection.accept_uni().await.expect("a stream");
            stream.read_to_end(1 << 16).await.expect("data").len()
        });
        let connection = client.connect(at, "localhost").expect("begins").await.expect("connects");
        let mut stream = connection.open_uni().await.expect("a stream");
        stream.write_all(&[7; 50_000]).await.expect("sent");
        stream.finish().expect("open");
        let _ = stream.stopped().await;
        assert_eq!(serving.await.expect("no panic"), 50_000);
    });
    let found = kept.lock().expect("no panic").take();
    found.expect("an acknowledgement arrived")
}
