//! Throughput tests over loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use super::{Caller, Event, PerfError, Request, Service, Settings, Trust, client, server};

/// Keeps events, and passes on where the server listens.
struct Log {
    events: Mutex<Vec<Event>>,
    listening: mpsc::SyncSender<(SocketAddr, String)>,
    stop: AtomicBool,
}

impl Caller for Log {
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn event(&self, event: &Event) {
        if let Event::Listening { address, fingerprint } = event {
            let _ = self.listening.send((address.parse().expect("an address"), fingerprint.clone()));
        }
        self.events.lock().expect("no panic").push(event.clone());
    }
}

fn log() -> (Arc<Log>, mpsc::Receiver<(SocketAddr, String)>) {
    let (listening, heard) = mpsc::sync_channel(1);
    (Arc::new(Log { events: Mutex::default(), listening, stop: AtomicBool::new(false) }), heard)
}

fn settings(address: SocketAddr, scheme: &str) -> Settings {
    Settings { address, scheme: scheme.to_owned(), params: Vec::new(), interval: Duration::from_millis(200) }
}

fn request(trust: Trust, reverse: bool) -> Request {
    Request { duration: Duration::from_millis(700), streams: 3, reverse, name: "localhost".to_owned(), trust }
}

/// Runs a server, and clients against it.
fn serving(scheme: &str, clients: impl FnOnce(SocketAddr, String)) -> Vec<Event> {
    let (caller, heard) = log();
    let at = (Ipv4Addr::LOCALHOST, 0).into();
    let service =
        Service { identity: None, once: false, duration: Some(Duration::from_secs(60)), connections: 4 };
    std::thread::scope(|scope| {
        let shared: Arc<dyn Caller> = Arc::clone(&caller) as Arc<dyn Caller>;
        let own = settings(at, scheme);
        let running = scope.spawn(move || server(&own, &service, &shared));
        let (address, fingerprint) = heard.recv_timeout(Duration::from_secs(20)).expect("it listens");
        clients(address, fingerprint);
        caller.stop.store(true, Ordering::Relaxed);
        running.join().expect("no panic").expect("the server ends");
    });
    caller.events.lock().expect("no panic").clone()
}

/// Both directions: what the receiver counts is what the sender sent, and intervals and state are reported.
#[test]
fn both_directions_agree_on_the_bytes() {
    let seen = serving("bbr", |address, fingerprint| {
        for reverse in [false, true] {
            let (caller, _) = log();
            let trust = Trust::Fingerprint(fingerprint.clone());
            let done = client(&settings(address, "bbr-gc"), &request(trust, reverse), caller.as_ref());
            let summary = done.unwrap_or_else(|error| panic!("{error}"));
            assert!(summary.complete && summary.sends != reverse, "{summary:?}");
            let bytes = summary.received_bytes.expect("the receiver has counted");
            assert!(bytes > 100_000, "{summary:?}");
            if !reverse {
                assert_eq!(bytes, summary.total.bytes, "{summary:?}");
                assert!(summary.total.state.is_some() && summary.total.cwnd_bytes.is_some(), "{summary:?}");
            }
            let events = caller.events.lock().expect("no panic");
            assert!(events.iter().any(|event| matches!(event, Event::Interval(_))));
        }
    });
    let ended = seen.iter().filter(|event| matches!(event, Event::Ended(summary) if summary.complete));
    assert_eq!(ended.count(), 2, "{seen:?}");
}

/// noq's own controllers run by their names, for comparison.
#[test]
fn own_controllers_run_by_name() {
    serving("noq:cubic", |address, _| {
        let (caller, _) = log();
        let done = client(&settings(address, "noq:bbr3"), &request(Trust::Any, false), caller.as_ref());
        assert!(done.is_ok_and(|summary| summary.complete && summary.total.state.is_none()));
    });
}

/// A certificate of someone else is refused, and so are wrong names of schemes, each with a reason.
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

/// A client that is stopped ends at once, and the server goes on.
#[test]
fn stopped_client_ends_at_once() {
    serving("bbr", |address, _| {
        let (caller, _) = log();
        caller.stop.store(true, Ordering::Relaxed);
        let mut long = request(Trust::Any, false);
        long.duration = Duration::from_secs(600);
        let done = client(&settings(address, "bbr"), &long, caller.as_ref());
        assert!(done.map_or(true, |summary| !summary.complete));
    });
}
