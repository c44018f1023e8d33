//! Window-based schemes in quinn: real endpoints over loopback.

use std::time::{Duration, Instant};

use crate::quinn_support::pair;
use narrows_cc::Bytes;
use narrows_quic::quinn::{Controller, controller};
use narrows_quic::{Scheme, Stack};
use quinn::Connection;
use quinn::congestion::Controller as _;

/// Size of a transfer in bytes.
const BYTES: usize = 3 << 20;

/// The scheme that a connection runs.
fn scheme(connection: &Connection) -> Box<Controller> {
    connection.congestion_state().into_any().downcast().expect("a scheme of ours")
}

/// Losses and marks reduce the window once per round trip, and persistent congestion reduces the window to two
/// datagrams. Losses of packets from an earlier path do not reduce it.
#[test]
#[allow(clippy::disallowed_methods)] // quinn takes times as `Instant`
fn congestion_of_the_own_path_reduces_the_window() {
    const DATAGRAM: u16 = 1200;
    let size = u64::from(DATAGRAM);
    for lost in [size, 0] {
        let scheme = Scheme::find("newreno", Stack::Quinn).expect("registered");
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut controller = Controller::new(&scheme, at(100), DATAGRAM);
        let initial = controller.window();
        for place in 0..10 {
            controller.on_sent(at(110 + place), size, place);
        }
        controller.on_congestion_event(at(150), at(50), false, lost);
        assert_eq!(controller.driver().ssthresh(), Bytes::MAX, "sent before this path");
        controller.on_congestion_event(at(150), at(112), false, lost);
        let reduced = controller.driver().ssthresh();
        assert!((2 * size..=initial / 2).contains(&reduced.as_u64()), "{reduced:?} of {initial}");
        controller.on_congestion_event(at(151), at(113), false, lost);
        assert_eq!(controller.driver().ssthresh(), reduced, "once per round trip");
        let rest = 10 * size - 2 * lost;
        controller.on_congestion_event(at(400), at(119), true, rest);
        assert_eq!(controller.window(), 2 * size);
    }
}

/// The data arrives completely, the scheme has observed the deliveries, and its window has grown beyond the
/// initial window.
#[test]
fn quinn_runs_window_based_schemes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for name in ["cubic", "newreno", "vegas"] {
        let factory = controller(name).unwrap_or_else(|error| panic!("{error}"));
        runtime.block_on(async {
            let (server, client) = pair(&factory);
            let at = server.local_addr().expect("an address");
            let receiving = tokio::spawn(async move {
                let connection = server.accept().await.expect("a client").await.expect("connects");
                let mut stream = connection.accept_uni().await.expect("a stream");
                let data = stream.read_to_end(2 * BYTES).await.expect("data");
                connection.close(0_u32.into(), b"");
                server.wait_idle().await;
                data
            });
            let connection = client.connect(at, "localhost").expect("begins").await.expect("connects");
            let initial = scheme(&connection).driver().control().cwnd;
            let data: Vec<u8> = (0..BYTES).map(|place| (place % 251) as u8).collect();
            let mut stream = connection.open_uni().await.expect("a stream");
            stream.write_all(&data).await.expect("sent");
            stream.finish().expect("open");
            let _ = stream.stopped().await;
            let ours = scheme(&connection);
            assert!(receiving.await.expect("no panic") == data, "{name}");
            let driver = ours.driver();
            assert_eq!(driver.scheme().info().name, name);
            assert!(driver.delivered() >= Bytes::new(BYTES as u64), "{name}: {:?}", driver.delivered());
            assert!(driver.control().cwnd > initial, "{name}: {:?}", driver.control());
            connection.close(0_u32.into(), b"");
            client.wait_idle().await;
        });
    }
}

/// Schemes that set a pacing rate are refused before a connection begins.
#[test]
fn quinn_refuses_schemes_that_pace() {
    let refused = controller("bbr-gc").map(|_| ()).expect_err("refused").to_string();
    assert!(refused.contains("`bbr-gc` cannot run on quinn: it sets a pacing rate"), "{refused}");
    assert!(refused.contains("accepted: cubic, ") || refused.contains(", cubic"), "{refused}");
}
