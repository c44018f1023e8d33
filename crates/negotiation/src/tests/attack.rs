//! Hostile datagrams and clients.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows_cc::Rate;
use narrows_host::descriptors::raise_socket_limit;
use narrows_host::testing::{alone, length, print_row};
use narrows_routers::negotiation::{Adjustment, Id, Message, Negotiation};

use super::super::client::connect;
use super::super::server::ServerSettings;
use super::super::wire::Hello;
use super::super::{NodeSettings, request};
use super::{ClientSettings, Desk, Ending, client, loopback, mbit, node, run_node, serve, server};

/// Address number `n` of a range that no other test uses.
fn invented(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 77, 0, 1).to_bits() + n)
}

fn request_of(content: u32, max: f64) -> Vec<u8> {
    request_for(*loopback(9, 0).ip(), content, max)
}

fn request_for(destination: Ipv4Addr, content: u32, max: f64) -> Vec<u8> {
    let id = Id { content, destination: destination.to_bits(), subflow: 0 };
    let kind = Negotiation::Request;
    let message = Message::Negotiation { kind, max: mbit(max), min: Rate::ZERO, id, rtt_us: 1_000 };
    message.encode().as_bytes().to_vec()
}

/// Garbage, forged answers and forged terminations do not change the rate of a flow, are counted, and get no answer.
#[test]
#[ignore = "real time: `make test`"]
fn hostile_datagrams_change_nothing() {
    let _alone = alone(); // another run in real time would compete for its processors
    let (passing, sending, receiving) = Default::default();
    let desks: [&Desk; 3] = [&passing, &sending, &receiving];
    let (report, counts) = thread::scope(|scope| {
        let _ending = Ending(&desks);
        let ran = scope.spawn(|| run_node(&node(16.0, 47_456), &passing));
        scope.spawn(|| serve(&server(Some(passing.address())), &sending));
        let (at, victim) = (sending.address(), passing.address());
        let receiving = &receiving;
        let waiting = scope.spawn(move || request(&client(at, 9, 47_456, 4.0), receiving));
        // An ID belongs to the first address that uses it.
        sending.wait_for("content 9 to 127.0.0.9:");
        sending.wait_for("may send");
        let hostile = UdpSocket::bind(loopback(99, 0)).unwrap();
        hostile.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let id = Id { content: 9, destination: loopback(9, 0).ip().to_bits(), subflow: 0 };
        let forged = [
            Message::Adjustment { kind: Adjustment::Terminate, id, speed: Rate::ZERO },
            Message::Adjustment { kind: Adjustment::Reduce, id, speed: Rate::from_bytes_per_sec(1) },
            Message::Negotiation {
                kind: Negotiation::Success,
                max: Rate::from_bytes_per_sec(1),
                min: Rate::ZERO,
                id,
                rtt_us: 0,
            },
        ];
        let mut answers = 0;
        for round in 0..150_u32 {
            for message in &forged {
                let bytes = message.encode();
                let _ = hostile.send_to(bytes.as_bytes(), victim);
                let _ = hostile.send_to(bytes.as_bytes(), loopback(9, 47_456));
            }
            let garbage = round.to_be_bytes().repeat(round as usize % 9);
            let _ = hostile.send_to(&garbage, victim);
            let _ = hostile.send_to(&request_of(9, 1.0), victim); // the ID belongs to another address
            thread::sleep(Duration::from_millis(10));
            let mut bytes = [0; 64];
            answers += u32::from(hostile.recv_from(&mut bytes).is_ok());
        }
        assert_eq!(answers, 0);
        let report = waiting.join().unwrap().expect("no stall");
        passing.stop();
        (report, ran.join().unwrap().expect("it ran"))
    });
    eprintln!("{report:?} {counts:?}");
    assert!(report.goodput_mbit_s < 16.0 * 1.05 && report.goodput_mbit_s > 8.0, "{report:?}");
    let kept = format!("no answer, {:.1} of 16 Mbit/s kept", report.goodput_mbit_s);
    print_row("Nodectl: forged messages and garbage beside a flow", 150 * (2 * 3 + 2), &kept);
    assert!(counts.unreadable > 100 && counts.foreign > 300 && report.refused > 100, "{counts:?}");
}

/// A flood of requests causes no more messages than the limit per address allows, and leaves no flow in the node.
#[test]
fn flood_of_requests_is_limited() {
    let passing = Desk::default();
    let sent = 5_000 * length();
    let counts = thread::scope(|scope| {
        let _ending = Ending(&[&passing]);
        let settings = NodeSettings { messages_per_s: 100, ..node(16.0, 1) };
        let desk = &passing;
        let ran = scope.spawn(move || run_node(&settings, desk));
        let hostile = UdpSocket::bind(loopback(98, 0)).unwrap();
        for content in 0..sent {
            let _ = hostile.send_to(&request_of(content, 1.0), passing.address());
            if content % 50 == 0 {
                thread::sleep(Duration::from_millis(2)); // send no more than the node's socket can buffer
            }
        }
        thread::sleep(Duration::from_millis(500));
        passing.stop();
        ran.join().unwrap().expect("it ran")
    });
    eprintln!("{counts:?}");
    // At most the limit for the time of the test, plus a burst of half a second.
    let most = 1_000 * u64::from(length());
    assert!(counts.received < most && counts.limited > 1_000, "{counts:?}");
    assert!(counts.flows == 0 && counts.sent < most && counts.sent > 0, "{counts:?}");
    print_row("Nodectl: requests of one address", sent, &format!("{} forwarded, no flow", counts.sent));
}

/// Clients that are silent, send invalid data or hang up are refused, and other clients are served meanwhile.
#[test]
#[ignore = "real time: `make test`"]
fn malformed_clients_do_not_disturb_others() {
    let (sending, receiving) = Default::default();
    let desks: [&Desk; 2] = [&sending, &receiving];
    let (report, counts) = thread::scope(|scope| {
        let _ending = Ending(&desks);
        let ran = scope.spawn(|| serve(&server(None), &sending));
        let at = sending.address();
        let silent = TcpStream::connect(at).unwrap();
        drop(TcpStream::connect(at).unwrap());
        let mut nonsense = TcpStream::connect(at).unwrap();
        nonsense.write_all(&[b'x'; 64]).unwrap();
        let wishes = ClientSettings { size: 500_000, limit: mbit(80.0), ..client(at, 10, 47_457, 10.0) };
        let report = request(&wishes, &receiving).expect("it is served");
        drop((silent, nonsense));
        thread::sleep(Duration::from_millis(500));
        sending.stop();
        (report, ran.join().unwrap().expect("it ran"))
    });
    assert!(report.complete, "{report:?}");
    print_row("Nodectl: clients that are silent, gone or speak nonsense", counts.failed, "another was served");
    assert!(counts.served == 1 && counts.failed == 3, "{counts:?}");
}

/// A client that sends data after its hello is disconnected, so it no longer wakes the server.
#[test]
fn talking_client_is_closed() {
    let sending = Desk::default();
    let counts = thread::scope(|scope| {
        let _ending = Ending(&[&sending]);
        let ran = scope.spawn(|| serve(&server(None), &sending));
        let mut stream = TcpStream::connect(sending.address()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let max = mbit(8.0);
        let hello = Hello { content: 13, subflow: 0, responder: 47_471, max, min: Rate::ZERO, size: 0 };
        stream.write_all(&hello.encode()).unwrap();
        sending.wait_for("content 13");
        let begun = Instant::now();
        // Write until the server resets the connection, which still has unread data.
        while stream.write(&[b'x'; 64]).map_or_else(|error| narrows_host::is_transient(&error), |_| true) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server reads on");
            thread::sleep(Duration::from_millis(1));
        }
        sending.stop();
        ran.join().unwrap().expect("it ran")
    });
    assert!(sending.has("sent data after its hello; accepted: "), "the log says why");
    assert_eq!((counts.served, counts.failed), (0, 1), "{counts:?}");
}

/// Unanswered requests from 1 000 addresses take no rate from a client and leave no record in the node. The
/// long form waits until the client's requests have been repeated and the unanswered ones have timed out.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_invented_requesters_take_no_rate() {
    let _alone = alone(); // another run in real time would compete for its processors
    let (passing, sending, receiving) = Default::default();
    let desks: [&Desk; 3] = [&passing, &sending, &receiving];
    let over = AtomicBool::new(false);
    let seconds = if length() > 1 { 25.0 } else { 4.0 };
    let (report, counts, sent) = thread::scope(|scope| {
        let _ending = Ending(&desks);
        let ran = scope.spawn(|| run_node(&node(16.0, 47_458), &passing));
        scope.spawn(|| serve(&server(Some(passing.address())), &sending));
        let (at, victim) = (sending.address(), passing.address());
        let over = &over;
        let attack = scope.spawn(move || {
            let mut sent = 0_u32;
            while !over.load(Ordering::Relaxed) {
                // Every 16th request goes to the client, which does not know its content. These requests stay
                // below the node's limit of unproven requests per address, because more would delay the
                // client's flow. The other requests go to absent hosts.
                let to = if sent.is_multiple_of(16) { *loopback(11, 0).ip() } else { invented(1_000 + sent % 500) };
                let socket = UdpSocket::bind((invented(sent % 1_000), 0)).unwrap();
                let _ = socket.send_to(&request_for(to, 1_000 + sent, 1_000.0), victim);
                sent += 1;
                if sent.is_multiple_of(4) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            sent
        });
        thread::sleep(Duration::from_millis(500));
        let report = request(&client(at, 11, 47_458, seconds), &receiving);
        over.store(true, Ordering::Relaxed);
        let sent = attack.join().unwrap();
        passing.stop();
        (report.expect("no stall"), ran.join().unwrap().expect("it ran"), sent)
    });
    eprintln!("{report:?} {counts:?}");
    assert!(report.goodput_mbit_s < 16.0 * 1.05 && report.goodput_mbit_s > 8.0, "{report:?}");
    assert!(passing.has("gets 16.00 Mbit/s"), "all of the port");
    assert!(!sending.has("the nodes are silent"), "cut off");
    assert!(counts.flows == 1 && counts.unproven >= 1_000, "{counts:?}");
    assert!(sent >= 1_000, "{sent}");
    let kept = format!("{:.1} of 16 Mbit/s kept, no record", report.goodput_mbit_s);
    print_row("Nodectl: requests of invented addresses", sent, &kept);
    // At most one message per request, plus the messages of the client's flow.
    assert!(counts.sent < counts.received + 100, "{counts:?}");
}

/// 1 000 silent connections, and connections from one address that accept no data, do not exclude another client.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_silent_clients_keep_no_other_out() {
    let (sending, receiving) = Default::default();
    let desks: [&Desk; 2] = [&sending, &receiving];
    raise_socket_limit();
    let (report, counts) = thread::scope(|scope| {
        let _ending = Ending(&desks);
        let settings = ServerSettings { connections: 64, ..server(None) };
        let sending = &sending;
        let ran = scope.spawn(move || serve(&settings, sending));
        let at = sending.address();
        let from = |address: Ipv4Addr| {
            connect(&ClientSettings { local: Some(address), ..client(at, 1, 1, 1.0) }).expect("room")
        };
        let mut taking = Vec::new();
        for n in 0..32_u16 {
            let mut stream = from(invented(2_000));
            let (content, max) = (5_000 + u32::from(n), mbit(80.0));
            let hello = Hello { content, subflow: 0, responder: 47_470, max, min: Rate::ZERO, size: 0 };
            stream.write_all(&hello.encode()).unwrap();
            taking.push(stream);
        }
        let silent: Vec<TcpStream> = (0..1_000).map(|n| from(invented(n % 500))).collect();
        let wishes = ClientSettings { size: 500_000, limit: mbit(80.0), ..client(at, 12, 47_459, 20.0) };
        let report = request(&wishes, &receiving);
        drop((silent, taking));
        thread::sleep(Duration::from_millis(300));
        sending.stop();
        (report.expect("it is served"), ran.join().unwrap().expect("it ran"))
    });
    eprintln!("{report:?} {counts:?}");
    assert!(report.complete, "{report:?}");
    print_row("Nodectl: clients that say or take nothing", 1_000 + 32, "another was served");
    assert_eq!(counts.refused, 32 - 16, "{counts:?}");
    assert_eq!(counts.served + counts.failed, 1_000 + 16 + 1, "{counts:?}");
    let lines = sending.lines.lock().unwrap();
    let refusals = lines.iter().filter(|line| line.contains("hello") || line.contains("refused")).count();
    assert!(refusals < 100, "{refusals} lines for 1 000 clients");
}
