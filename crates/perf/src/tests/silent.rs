//! Endpoints whose peers stop answering.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::{Event, Request, Trust, client};
use super::{log, request, serving, settings, tested};

/// Forwards the datagrams of one client to a server and back, until the path is cut.
fn relay(server: SocketAddr, cut: &Arc<AtomicBool>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    let cut = Arc::clone(cut);
    std::thread::spawn(move || {
        let (mut client, mut packet) = (None, [0; 1 << 16]);
        while let Ok((bytes, from)) = socket.recv_from(&mut packet) {
            let to = if from == server {
                client
            } else {
                client = Some(from);
                Some(server)
            };
            if cut.load(Ordering::Relaxed) {
                return;
            }
            if let Some(to) = to {
                let _ = socket.send_to(&packet[..bytes], to);
            }
        }
    });
    address
}

/// In either direction, an endpoint whose peer stops reports how long the peer has been silent, and finally
/// that the peer does not answer.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_dead_server_is_named_as_the_cause() {
    serving("bbr", |address, _| {
        let testing = |reverse| {
            let (cut, (caller, _)) = (Arc::new(AtomicBool::new(false)), log());
            let through = relay(address, &cut);
            let request = Request { duration: Duration::from_secs(2), ..request(Trust::Any, reverse) };
            std::thread::scope(|scope| {
                let run = scope.spawn(|| client(&settings(through, "bbr"), &request, caller.as_ref()).map(|_| ()));
                while !caller.events().iter().any(|event| matches!(event, Event::Interval(_))) {
                    assert!(!run.is_finished(), "{:?}", caller.events());
                    std::thread::sleep(Duration::from_millis(5));
                }
                cut.store(true, Ordering::Relaxed);
                let failed = run.join().expect("no panic").expect_err("the server is gone").to_string();
                assert!(
                    failed.ends_with("the other end does not answer: nothing has arrived from it for 10 s"),
                    "reverse {reverse}: {failed}"
                );
            });
            let silent = caller.events().into_iter().filter_map(|event| match event {
                Event::Interval(interval) => Some(interval.silent_s),
                _ => None,
            });
            let silent = silent.fold(0.0, f64::max);
            assert!(silent > 0.5, "reverse {reverse}: {silent} s");
        };
        std::thread::scope(|scope| {
            for reverse in [false, true] {
                scope.spawn(move || testing(reverse));
            }
        });
    });
}

/// If a server does not answer over IPv6, the error says that by default a server listens on IPv4 alone.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_silence_over_ipv6_names_the_default() {
    let Ok(silent) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) else {
        eprintln!("skipped: needs IPv6");
        return;
    };
    let at = silent.local_addr().expect("an address");
    let failed = tested(at).expect_err("silence");
    assert!(failed.to_string().contains("a server listens on IPv6 with `--listen [::]:PORT`"), "{failed}");
}
