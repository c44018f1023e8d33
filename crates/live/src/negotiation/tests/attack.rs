//! Hostile datagrams and clients.

use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use narrows_cc::Rate;
use narrows_routers::negotiation::{Adjustment, Id, Message, Negotiation};

use super::super::{NodeSettings, request};
use super::{ClientSettings, Desk, Ending, client, loopback, mbit, node, run_node, serve, server};

fn request_of(content: u32, max: f64) -> Vec<u8> {
    let id = Id { content, destination: loopback(9, 0).ip().to_bits(), subflow: 0 };
    let kind = Negotiation::Request;
    let message = Message::Negotiation { kind, max: mbit(max), min: Rate::ZERO, id, rtt_us: 1_000 };
    message.encode().as_bytes().to_vec()
}

/// Garbage, forged answers and terminations do not change the rate of a flow, are counted, and get no answer.
#[test]
fn hostile_datagrams_change_nothing() {
    let (passing, sending, receiving) = Default::default();
    let desks: [&Desk; 3] = [&passing, &sending, &receiving];
    let (report, counts) = thread::scope(|scope| {
        let _ending = Ending(&desks);
        let ran = scope.spawn(|| run_node(&node(16.0, 47_456), &passing));
        scope.spawn(|| serve(&server(Some(passing.address())), &sending));
        let (at, victim) = (sending.address(), passing.address());
        let receiving = &receiving;
        let waiting = scope.spawn(move || request(&client(at, 9, 47_456, 4.0), receiving));
        // The first address that uses an ID owns it.
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
            let _ = hostile.send_to(&request_of(9, 1.0), victim); // another's ID
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
    assert!(counts.unreadable > 100 && counts.foreign > 300 && report.refused > 100, "{counts:?}");
}

/// A flood of requests gets no more messages than the limit per address, and the table keeps its bound.
#[test]
fn flood_of_requests_is_limited() {
    let passing = Desk::default();
    let counts = thread::scope(|scope| {
        let _ending = Ending(&[&passing]);
        let flows = ("flows".to_owned(), "50".to_owned());
        let settings = NodeSettings { messages_per_s: 100, params: vec![flows], ..node(16.0, 1) };
        let desk = &passing;
        let ran = scope.spawn(move || run_node(&settings, desk));
        let hostile = UdpSocket::bind(loopback(98, 0)).unwrap();
        for content in 0..5_000 {
            let _ = hostile.send_to(&request_of(content, 1.0), passing.address());
        }
        thread::sleep(Duration::from_millis(500));
        passing.stop();
        ran.join().unwrap().expect("it ran")
    });
    eprintln!("{counts:?}");
    // Half a second of the limit at once, and what the time of the test allows.
    assert!(counts.received < 1_000 && counts.limited > 1_000, "{counts:?}");
    assert!(counts.flows <= 50 && counts.sent < 1_000, "{counts:?}");
}

/// Clients that say nothing, nonsense or hang up are refused, and others are served meanwhile.
#[test]
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
    assert!(counts.served == 1 && counts.failed == 3, "{counts:?}");
}
