//! Throughput tests over loopback.

mod certificates;
mod hostile;
mod silent;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use super::{Caller, Event, PerfError, Request, Service, Settings, Summary, Trust, client, server};

/// Stores events, and forwards the server's address to the test.
struct Log {
    events: Mutex<Vec<Event>>,
    listening: mpsc::SyncSender<(SocketAddr, String)>,
    stop: AtomicBool,
    /// Whether to stop after the first interval.
    brief: bool,
}

impl Log {
    fn events(&self) -> Vec<Event> {
        self.events.lock().expect("no panic").clone()
    }
}

impl Caller for Log {
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn event(&self, event: &Event) {
        match event {
            Event::Listening { address, fingerprint } => {
                let _ = self.listening.send((address.parse().expect("an address"), fingerprint.clone()));
            }
            Event::Interval(_) if self.brief => self.stop.store(true, Ordering::Relaxed),
            _ => {}
        }
        self.events.lock().expect("no panic").push(event.clone());
    }
}

/// Stops a server when a test ends, or fails.
struct Stopping<'a>(&'a Log);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

fn log() -> (Arc<Log>, mpsc::Receiver<(SocketAddr, String)>) {
    let (listening, heard) = mpsc::sync_channel(1);
    let stop = AtomicBool::new(false);
    (Arc::new(Log { events: Mutex::default(), listening, stop, brief: false }), heard)
}

fn settings(address: SocketAddr, scheme: &str) -> Settings {
    let (scheme, params) = match scheme.split_once(":rate=") {
        Some((name, rate)) => (name.to_owned(), vec![("rate".to_owned(), rate.to_owned())]),
        None => (scheme.to_owned(), Vec::new()),
    };
    Settings { address, scheme, params, interval: Duration::from_millis(200) }
}

fn request(trust: Trust, reverse: bool) -> Request {
    Request { duration: Duration::from_millis(700), streams: 3, reverse, name: "localhost".to_owned(), trust }
}

fn service() -> Service {
    Service {
        identity: None,
        once: false,
        duration: Some(Duration::from_secs(60)),
        connections: 4,
        per_address: 4,
        longest: Duration::from_secs(3600),
    }
}

/// Runs a server, and then `clients` against it.
fn serving_as(service: &Service, scheme: &str, clients: impl FnOnce(SocketAddr, String)) -> Vec<Event> {
    let (caller, heard) = log();
    let at = (Ipv4Addr::LOCALHOST, 0).into();
    std::thread::scope(|scope| {
        let shared: Arc<dyn Caller> = Arc::clone(&caller) as Arc<dyn Caller>;
        let own = settings(at, scheme);
        let running = scope.spawn(move || server(&own, service, &shared));
        let (address, fingerprint) = heard.recv_timeout(Duration::from_secs(20)).expect("it listens");
        let stopping = Stopping(&caller);
        clients(address, fingerprint);
        drop(stopping);
        running.join().expect("no panic").expect("the server ends");
    });
    caller.events()
}

fn serving(scheme: &str, clients: impl FnOnce(SocketAddr, String)) -> Vec<Event> {
    serving_as(&service(), scheme, clients)
}

/// Runs a short test from a client that accepts any certificate.
fn tested(address: SocketAddr) -> Result<Summary, PerfError> {
    client(&settings(address, "bbr"), &request(Trust::Any, false), log().0.as_ref())
}

fn ended(events: &[Event]) -> Vec<Summary> {
    let summary = |event: &Event| match event {
        Event::Ended(summary) => Some(summary.as_ref().clone()),
        _ => None,
    };
    events.iter().filter_map(summary).collect()
}

/// In both directions, both endpoints know the sender's scheme and both tallies, the intervals add up to the
/// total, and no sender counts bytes that the receiver has not read.
#[test]
#[ignore = "real time: `make test`"]
fn both_directions_agree_on_the_bytes() {
    let seen = serving("bbr", |address, fingerprint| {
        for reverse in [false, true] {
            let (caller, _) = log();
            let trust = Trust::Fingerprint(fingerprint.clone());
            let done = client(&settings(address, "bbr-gc"), &request(trust, reverse), caller.as_ref());
            let summary = done.unwrap_or_else(|error| panic!("{error}"));
            assert!(summary.complete && summary.begun.sends != reverse, "{summary:?}");
            assert!(summary.begun.local.starts_with("127.0.0.1:"), "{summary:?}");
            assert_eq!(summary.begun.scheme.as_deref(), Some(if reverse { "bbr" } else { "bbr-gc" }));
            let (sent, received) = (summary.sent.expect("said"), summary.received.expect("said"));
            assert!(received.bytes() > 100_000 && sent.bytes() <= received.bytes(), "{sent:?} {received:?}");
            assert!(received.streams.iter().all(|bytes| *bytes > 0), "{received:?}");
            // The receiver's time begins with the first byte that arrives.
            assert!(sent.seconds >= 0.7 && received.seconds > 0.0, "{sent:?} {received:?}");
            if !reverse {
                assert!(summary.total.state.is_some() && summary.total.cwnd_bytes.is_some());
            }
            let (mut bytes, mut end, mut streams) = (0, 0.0, vec![0; 3]);
            for event in caller.events() {
                let Event::Interval(interval) = event else { continue };
                assert!(interval.start_s == end, "{interval:?} begins at {end}");
                (bytes, end) = (bytes + interval.bytes, interval.end_s);
                streams.iter_mut().zip(&interval.streams).for_each(|(sum, bytes)| *sum += bytes);
            }
            let own = if reverse { received } else { sent };
            assert_eq!((bytes, end, streams), (summary.total.bytes, own.seconds, own.streams));
        }
    });
    let both = ended(&seen);
    let schemes: Vec<_> = both.iter().map(|summary| summary.begun.scheme.as_deref()).collect();
    assert_eq!(schemes, [Some("bbr-gc"), Some("bbr")], "the sender's, at the server too");
    assert!(both.len() == 2 && both.iter().all(|summary| summary.complete), "{seen:?}");
}

/// A slow sender counts the bytes that arrived, not the bytes in its buffer, and ends in time without draining
/// the buffer.
#[test]
#[ignore = "real time: `make test`"]
fn slow_sender_counts_what_arrives() {
    serving("fixed:rate=2mbit", |address, _| {
        for reverse in [false, true] {
            let (caller, _) = log();
            let request = Request { streams: 1, ..request(Trust::Any, reverse) };
            let summary = client(&settings(address, "fixed:rate=2mbit"), &request, caller.as_ref()).expect("it runs");
            assert!(summary.complete, "{summary:?}");
            for tally in [summary.sent, summary.received].map(|tally| tally.expect("said")) {
                // After a delayed timer, the pacer may catch up with a burst of 10 packets.
                let most = 0.25e6 * tally.seconds + 10.0 * 1452.0;
                assert!((1.0..most).contains(&(tally.bytes() as f64)), "{tally:?} of {most} bytes");
            }
        }
    });
}

/// The controllers of the noq library run by their names, for comparison.
#[test]
fn own_controllers_run_by_name() {
    serving("noq:cubic", |address, _| {
        let (caller, _) = log();
        let done = client(&settings(address, "noq:bbr3"), &request(Trust::Any, false), caller.as_ref());
        assert!(done.is_ok_and(|summary| summary.complete && summary.total.state.is_none()));
    });
}

/// The certificate of another server and wrong scheme names are refused, each with a reason.
#[test]
fn wrong_settings_are_refused() {
    serving("bbr", |address, _| {
        let (caller, _) = log();
        let foreign = Trust::Fingerprint("00".repeat(32));
        match client(&settings(address, "bbr"), &request(foreign, false), caller.as_ref()) {
            Err(PerfError::Failed { reason, .. }) => assert!(reason.contains("fingerprint"), "{reason}"),
            other => panic!("{other:?}"),
        }
        let name = client(&settings(address, "noq:vegas"), &request(Trust::Any, false), caller.as_ref());
        assert!(name.is_err_and(|error| error.to_string().contains("accepted: noq:cubic")));
    });
}

/// In either direction, a client that is stopped ends immediately with the result so far, and the server continues.
#[test]
#[ignore = "real time: `make test`"]
fn stopped_client_ends_with_its_result() {
    let seen = serving("bbr", |address, _| {
        for reverse in [false, true] {
            let (listening, _heard) = mpsc::sync_channel(1);
            let caller = Log { events: Mutex::default(), listening, stop: AtomicBool::new(false), brief: true };
            let long = Request { duration: Duration::from_secs(600), ..request(Trust::Any, reverse) };
            let summary = client(&settings(address, "bbr"), &long, &caller).expect("no failure");
            assert!(!summary.complete && summary.failure.is_none(), "{summary:?}");
            assert!(summary.total.bytes > 0 && summary.total.end_s < 300.0, "{summary:?}");
            assert_eq!(ended(&caller.events()).len(), 1);
        }
        assert!(tested(address).is_ok_and(|summary| summary.complete));
    });
    assert_eq!(ended(&seen).len(), 3, "{seen:?}");
}

/// A server that is stopped reports the bytes of its tests.
#[test]
fn stopped_server_ends_its_tests() {
    let (caller, heard) = log();
    let at = (Ipv4Addr::LOCALHOST, 0).into();
    std::thread::scope(|scope| {
        let shared: Arc<dyn Caller> = Arc::clone(&caller) as Arc<dyn Caller>;
        let running = scope.spawn(move || server(&settings(at, "bbr"), &service(), &shared));
        let (address, _) = heard.recv_timeout(Duration::from_secs(20)).expect("it listens");
        let long = Request { duration: Duration::from_secs(600), ..request(Trust::Any, false) };
        let testing = scope.spawn(move || client(&settings(address, "bbr"), &long, log().0.as_ref()));
        while !caller.events().iter().any(|event| matches!(event, Event::Interval(_))) {
            std::thread::sleep(Duration::from_millis(5));
        }
        caller.stop.store(true, Ordering::Relaxed);
        running.join().expect("no panic").expect("the server ends");
        let told = testing.join().expect("no panic").expect_err("the test is incomplete").to_string();
        assert!(told.contains("the other end stopped the test"), "{told}");
    });
    assert!(ended(&caller.events()).iter().any(|summary| summary.total.bytes > 0));
}
