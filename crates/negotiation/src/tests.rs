//! Nodes, servers and clients on loopback addresses, and between network namespaces where this user may create them.

mod attack;
mod namespaces;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows_cc::Rate;
use narrows_routers::negotiation::MOST;

use super::*;

/// Longest wait for a daemon to report its address.
const START: Duration = Duration::from_secs(20);

/// Collects a daemon's reports, and stops the daemon.
#[derive(Default)]
pub(super) struct Desk {
    stopped: AtomicBool,
    at: Mutex<Option<SocketAddrV4>>,
    pub(super) lines: Mutex<Vec<String>>,
}

impl Operator for Desk {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn listening(&self, at: SocketAddrV4) {
        *self.at.lock().unwrap() = Some(at);
    }

    fn log(&self, text: &str) {
        eprintln!("{text}");
        self.lines.lock().unwrap().push(text.to_owned());
    }
}

impl Desk {
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn address(&self) -> SocketAddrV4 {
        let begun = Instant::now();
        while begun.elapsed() < START {
            if let Some(at) = *self.at.lock().unwrap() {
                return at;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the daemon does not listen");
    }

    /// Waits for a log line that contains this text.
    pub(super) fn wait_for(&self, text: &str) {
        let begun = Instant::now();
        while !self.has(text) {
            assert!(begun.elapsed() < START, "no line with `{text}`");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn has(&self, text: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|line| line.contains(text))
    }
}

/// Stops the daemons when the test ends, even by a panic.
struct Ending<'a>(&'a [&'a Desk]);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|desk| desk.stop());
    }
}

pub(super) fn loopback(last: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), port)
}

pub(super) fn mbit(rate: f64) -> Rate {
    Rate::from_bytes_per_sec((rate * 125_000.0) as u64)
}

pub(super) fn server(via: Option<SocketAddrV4>) -> ServerSettings {
    ServerSettings { listen: loopback(1, 0), via, max: MOST, connections: 16, program: false }
}

pub(super) fn client(server: SocketAddrV4, last: u8, responder: u16, seconds: f64) -> ClientSettings {
    ClientSettings {
        server,
        local: Some(*loopback(last, 0).ip()),
        content: last.into(),
        subflows: 1,
        max: mbit(200.0),
        min: Rate::ZERO,
        limit: MOST,
        size: 0,
        duration: Some(Duration::from_secs_f64(seconds)),
        responder,
        timeout: Duration::from_secs(10),
    }
}

pub(super) fn node(capacity: f64, responders: u16) -> NodeSettings {
    NodeSettings { responders, ..NodeSettings::new(loopback(1, 0), mbit(capacity)) }
}

/// A file arrives completely, through two nodes, at the rate of the node with the lower capacity. Then the rate
/// is released.
#[test]
#[ignore = "real time: `make test`"]
fn file_arrives_at_the_rate_of_the_narrower_node() {
    let (first, second, sending, receiving) = (Desk::default(), Desk::default(), Desk::default(), Desk::default());
    let (report, passed) = thread::scope(|scope| {
        let _ending = Ending(&[&first, &second, &sending]);
        let narrow = scope.spawn(|| run_node(&node(16.0, 47_451), &second));
        let hop = NextHop { network: Ipv4Addr::UNSPECIFIED, bits: 0, address: second.address() };
        let settings = NodeSettings { next: vec![hop], ..node(80.0, 1) };
        let desk = &first;
        scope.spawn(move || run_node(&settings, desk));
        scope.spawn(|| serve(&server(Some(first.address())), &sending));
        let wishes = ClientSettings { size: 2_000_000, ..client(sending.address(), 2, 47_451, 20.0) };
        let report = request(&wishes, &receiving).expect("it is served");
        thread::sleep(Duration::from_millis(300)); // wait for the termination
        second.stop();
        (report, narrow.join().unwrap().expect("it ran"))
    });
    eprintln!("{report:?} {passed:?}");
    assert!(report.complete && report.bytes == 2_000_000 && report.answered >= 1, "{report:?}");
    // The file takes 1 s at 16 Mbit/s, because the heads of the pieces add little. A busy machine takes longer.
    assert!(report.goodput_mbit_s < 16.0 * 1.05 && report.goodput_mbit_s > 8.0, "{report:?}");
    let given = passed.port.iter().find(|(name, _)| name == "given").map(|own| own.1);
    assert_eq!(given, Some(0.0), "{passed:?}");
    assert!(second.has("gets 16.00 Mbit/s") && second.has("has ended"));
}

/// A client may request the same content again immediately, any number of times.
#[test]
#[ignore = "real time: `make test`"]
fn content_is_negotiated_again_at_once() {
    let (passing, sending, receiving) = Default::default();
    let desks: [&Desk; 3] = [&passing, &sending, &receiving];
    let reports = thread::scope(|scope| {
        let _ending = Ending(&desks);
        scope.spawn(|| run_node(&node(16.0, 47_457), &passing));
        scope.spawn(|| serve(&server(Some(passing.address())), &sending));
        let wishes = ClientSettings { size: 500_000, ..client(sending.address(), 10, 47_457, 20.0) };
        [(); 3].map(|()| request(&wishes, &receiving).expect("it is served"))
    });
    for report in reports {
        assert!(report.complete && report.answered >= 1, "{report:?}");
        assert!(report.goodput_mbit_s < 16.0 * 1.1, "{report:?}");
    }
    assert!(!sending.has("no node takes part"));
}

/// A second client halves the rate of the first client; the first client gets its rate back when the second ends.
#[test]
#[ignore = "real time: `make test`"]
fn second_client_halves_the_rate_of_the_first() {
    let (passing, sending, two) = Default::default();
    let desks: [&Desk; 3] = [&passing, &sending, &two];
    thread::scope(|scope| {
        let _ending = Ending(&desks);
        scope.spawn(|| run_node(&node(16.0, 47_452), &passing));
        scope.spawn(|| serve(&server(Some(passing.address())), &sending));
        let at = sending.address();
        let first = scope.spawn(move || request(&client(at, 3, 47_452, 5.0), &Desk::default()).unwrap());
        thread::sleep(Duration::from_millis(1000));
        let second = request(&client(at, 4, 47_452, 2.0), &two).unwrap();
        let first = first.join().unwrap();
        eprintln!("{first:?} {second:?}");
        assert!(second.goodput_mbit_s < 8.0 * 1.05 && second.goodput_mbit_s > 4.0, "{second:?}");
        // For two of its five seconds, the first client has half of its rate.
        assert!(first.goodput_mbit_s < 13.5 && first.goodput_mbit_s > 8.5, "{first:?}");
    });
    assert!(sending.has("content 3") && sending.has("may send 8.00 Mbit/s"));
}

/// Subflows of one transmission share its allocation, and its payload is striped over them.
#[test]
#[ignore = "real time: `make test`"]
fn subflows_share_one_allocation() {
    let (passing, sending, receiving) = Default::default();
    let desks: [&Desk; 3] = [&passing, &sending, &receiving];
    let report = thread::scope(|scope| {
        let _ending = Ending(&desks);
        scope.spawn(|| run_node(&node(16.0, 47_453), &passing));
        scope.spawn(|| serve(&server(Some(passing.address())), &sending));
        let wishes = ClientSettings { subflows: 3, size: 3_000_000, ..client(sending.address(), 5, 47_453, 20.0) };
        request(&wishes, &receiving).expect("it is served")
    });
    eprintln!("{report:?}");
    assert!(report.complete && report.subflow_bytes.iter().all(|bytes| *bytes > 500_000), "{report:?}");
    assert!(report.goodput_mbit_s < 16.0 * 1.05 && report.goodput_mbit_s > 8.0, "{report:?}");
}

/// The client's limit on the rate applies even without a node.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_limit_of_the_client_holds_without_nodes() {
    let (sending, receiving) = Default::default();
    let desks: [&Desk; 2] = [&sending, &receiving];
    let report = thread::scope(|scope| {
        let _ending = Ending(&desks);
        scope.spawn(|| serve(&server(None), &sending));
        let wishes = ClientSettings { limit: mbit(8.0), ..client(sending.address(), 6, 47_454, 2.0) };
        request(&wishes, &receiving).expect("it is served")
    });
    eprintln!("{report:?}");
    assert!(report.goodput_mbit_s < 8.0 * 1.05 && report.goodput_mbit_s > 4.0, "{report:?}");
    assert!(sending.has("no node takes part"));
}

/// Neither a node that dies during a transmission nor one that never existed stalls a client.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_dead_node_stalls_no_client() {
    let (passing, sending, receiving) = Default::default();
    let desks: [&Desk; 3] = [&passing, &sending, &receiving];
    let report = thread::scope(|scope| {
        let _ending = Ending(&desks);
        let dying = scope.spawn(|| run_node(&node(16.0, 47_455), &passing));
        scope.spawn(|| serve(&server(Some(passing.address())), &sending));
        let at = sending.address();
        let receiving = &receiving;
        let waiting = scope.spawn(move || request(&client(at, 7, 47_455, 8.0), receiving));
        thread::sleep(Duration::from_millis(1500));
        passing.stop();
        dying.join().unwrap().expect("it ran");
        // No process listens at the node's address, so requests get no answer.
        let late = request(&client(at, 8, 47_455, 6.0), &Desk::default()).expect("no stall");
        assert!(late.bytes > 1_000_000, "{late:?}");
        waiting.join().unwrap().expect("no stall")
    });
    eprintln!("{report:?}");
    assert!(report.goodput_mbit_s > 8.0 && report.seconds > 3.0, "{report:?}");
    assert!(sending.has("the nodes are silent") && sending.has("no node takes part"));
}
