//! Peers that keep a sender waiting, and captures that fail.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use narrows_host::testing::print_row;

use super::*;
use crate::client::send;

/// How a server keeps a client waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Server {
    /// Answers every packet and confirms no feature.
    ConfirmsNothing,
    /// Negotiates and answers Syncs, but drops all data.
    DropsData,
    /// Acknowledges all data, but never closes.
    NeverCloses,
    /// Reports that its application is not listening.
    DoesNotListen,
}

/// Serves one client until `over`.
fn serve(kind: Server, socket: &StdSocket, over: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a read timeout");
    let config = Config { role: Role::Server, remote_port: 0, ..Config::default() };
    let mut end = Connection::new(&config, Random::stream(1, "server", 0), Nanos::ZERO);
    let (start, mut seq, mut buffer) = (Instant::now(), 1_000, [0; 2_048]);
    let mut peer = None;
    while !over.load(Ordering::Relaxed) {
        let now = crate::session::nanos(start.elapsed());
        let received = socket.recv_from(&mut buffer).ok();
        if let Some((length, from)) = received {
            peer = Some(from);
            let (header, body) = udp::open(&buffer[..length]).expect("a packet");
            match kind {
                Server::ConfirmsNothing | Server::DoesNotListen => {
                    let first = header.kind == Kind::Request;
                    let mut answer = Header::new(if first { Kind::Response } else { Kind::Ack });
                    (answer.source, answer.destination) = (header.destination, header.source);
                    (answer.seq, answer.ack) = (seq, Some(header.seq));
                    answer.service = header.service;
                    seq += 1;
                    let mut options = Vec::new();
                    if kind == Server::DoesNotListen {
                        // The options are Confirm R(Send Ack Vector, 1), then Data Dropped with Application Not
                        // Listening.
                        options.extend([35, 4, 6, 1]);
                        if !first {
                            options.extend([40, 3, 0x90]);
                        }
                    }
                    let mut packet = Vec::new();
                    answer.encode(&options, &[], &mut packet);
                    let _ = socket.send_to(&packet, from);
                }
                Server::DropsData if !body.data.is_empty() => {}
                Server::NeverCloses if matches!(header.kind, Kind::Close | Kind::Reset) => {}
                _ => end.on_decoded(now, &header, &body, 0),
            }
        }
        if end.deadline() <= now {
            end.on_timer(now);
        }
        let mut packet = Vec::new();
        while let Some(from) = peer
            && end.poll_transmit(now, &mut packet).is_some()
        {
            let _ = socket.send_to(&std::mem::take(&mut packet), from);
        }
        while end.poll_event().is_some() {}
    }
}

/// Sends to such a server. Returns the result and the time taken.
fn send_to(kind: Server, duration: Option<Duration>) -> (Result<Report, LiveError>, Duration) {
    let socket = StdSocket::bind("127.0.0.1:0").expect("a free port");
    let settings = Settings {
        address: socket.local_addr().expect("a bound socket"),
        // The client requests features again after a second, and the answer shows that the peer is alive; the timeout
        // must be longer.
        timeout: Duration::from_millis(if kind == Server::ConfirmsNothing { 2_500 } else { 600 }),
        duration,
        ..settings()
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| serve(kind, &socket, &over));
        // The caller stops a sender that would never end, so that the test fails instead of hanging.
        struct Patient(Instant);
        impl Caller for Patient {
            fn stop(&self) -> Stop {
                if self.0.elapsed() > Duration::from_secs(20) { Stop::Abort } else { Stop::No }
            }
            fn listening(&self, _: SocketAddr) {}
            fn progress(&self, _: &Report) {}
            fn ended(&self, _: &Report) {}
        }
        let begin = Instant::now();
        let result = send(&settings, &Patient(begin));
        let took = begin.elapsed();
        over.store(true, Ordering::Relaxed);
        (result, took)
    })
}

/// A sender ends within its timeout and its duration, whatever the peer answers.
#[test]
#[ignore = "real time: `make test`"]
fn sender_ends_whatever_the_peer_does() {
    let short = Some(Duration::from_millis(200));
    let servers = [
        (Server::ConfirmsNothing, None),
        (Server::ConfirmsNothing, short),
        (Server::DropsData, None),
        (Server::DropsData, short),
        (Server::NeverCloses, short),
    ];
    for (kind, duration) in servers {
        let (result, took) = send_to(kind, duration);
        let Err(error) = result else { panic!("{kind:?}: no error") };
        assert!(matches!(error, LiveError::Stalled(..) | LiveError::PeerGone(..)), "{kind:?}: {error}");
        // The bound covers the timeout, the duration, the wait for the last reports, and slack for a busy machine.
        assert!(took < Duration::from_secs(15), "{kind:?}: {took:?}");
        if kind == Server::ConfirmsNothing {
            let LiveError::Stalled(_, _, report) = error else { panic!("{error}") };
            assert_eq!((report.end, report.datagrams), ("stalled", 0));
        }
    }
    print_row("DCCP sender: servers that keep it waiting", servers.len(), "ended within its timeout");
}

/// A sender whose peer does not listen closes instead of waiting.
#[test]
fn sender_without_listener_closes() {
    let (result, took) = send_to(Server::DoesNotListen, None);
    assert!(result.is_err() && took < Duration::from_secs(15), "{took:?}");
}

/// A capture on a full disk ends with a warning that names the file; the server continues to serve.
#[cfg(target_os = "linux")]
#[test]
fn capture_on_full_disk_ends_and_server_continues() {
    let settings = settings();
    let full = Path::new("/dev/full");
    block_on(async {
        let mut test = TestServer::new(&settings);
        let file = File::options().write(true).open(full).expect("a device that is always full");
        test.port.recorder = Recorder::with(full, Capture::over(file).expect("a buffered header"));
        test.connect(SECOND, 50_001).await;
        for _ in 0..3 {
            test.port.recorder.flush();
            test.port.recorder.warn(&test.listener);
        }
        test.connect(SECOND, 50_002).await;
        let warnings = test.listener.warnings.borrow();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("/dev/full: No space left on device"), "{}", warnings[0]);
        Ok(())
    })
    .expect("no error");
}
