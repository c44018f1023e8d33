//! Messages that cross: a port remains the bottleneck where it is, and does not take itself for one where it is not. And what
//! nodes and servers have agreed upon.

use super::*;

/// A flow has one suggestion at a time, and the answer to it leaves the bottleneck where it is.
#[test]
fn flow_has_one_suggestion_at_a_time() {
    let mut node = Node::new(&[]);
    for flow in 1..=4 {
        node.join(flow);
    }
    node.notices();
    node.terminate(4);
    node.terminate(3);
    node.terminate(2);
    // Three went within a round trip. The first suggestion stands until it is answered.
    let first = TOTAL / 3;
    assert_eq!(node.notices().iter().filter(|notice| notice.0 == 1).collect::<Vec<_>>(), [&(1, Increase, first)]);
    assert_eq!(node.request(1, first, 0), Some(first));
    node.answer(1, Negotiation::Success, first, 0);
    // It is still the bottleneck, and suggests the rest.
    node.pass(200);
    assert!(node.notices().iter().any(|notice| notice.0 == 1 && notice.1 == Increase && near(notice.2, TOTAL)));
}

/// A request for an increase that is void leaves the bottleneck where it is.
#[test]
fn void_increase_request_keeps_bottleneck() {
    let mut node = Node::new(&[]);
    for flow in 1..=3 {
        node.join(flow);
    }
    node.terminate(3);
    let suggested = TOTAL / 2;
    // Others come and go while the request for half is on its way.
    node.join(4);
    node.join(5);
    assert!(node.notices().contains(&(1, Reduce, TOTAL / 4)));
    for flow in [4, 5, 2] {
        node.terminate(flow);
    }
    node.notices();
    assert_eq!(node.request(1, suggested, 0), Some(suggested));
    node.answer(1, Negotiation::Success, suggested, 0);
    node.pass(200);
    assert!(node.notices().iter().any(|notice| notice.0 == 1 && notice.1 == Increase && near(notice.2, TOTAL)));
}

/// An answer that finds the bottleneck elsewhere ends all suggestions.
#[test]
fn remote_bottleneck_ends_suggestions() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.join(2);
    node.terminate(2);
    node.notices();
    // Half is lowered to a third farther on: nothing is repeated, and what is left is suggested to nobody.
    assert_eq!(node.request(1, TOTAL, 0), Some(TOTAL));
    node.answer(1, Negotiation::Success, TOTAL / 3, 0);
    // A request for less than was suggested, lowered before this port, ends the suggestion as well.
    node.request(1, TOTAL / 2, 0);
    node.answer(1, Negotiation::Success, TOTAL / 3, 0);
    node.pass(2_000);
    assert_eq!(node.notices(), []);
}

/// Between request and answer nothing is suggested.
#[test]
fn no_suggestion_between_request_and_answer() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.request(2, ALL, 0);
    node.notices();
    node.terminate(1);
    assert_eq!(node.notices(), []);
    // The answer says that its bottleneck is elsewhere: the rest remains free.
    node.answer(2, Negotiation::Success, TOTAL / 4, 0);
    node.pass(2_000);
    assert_eq!(node.notices(), []);
}

/// A request goes on with the mark that a node took part.
#[test]
fn request_carries_mark_of_participation() {
    let mut node = Node::new(&[]);
    let message = Message::Negotiation {
        kind: Negotiation::Request,
        max: rate(TOTAL / 2),
        min: Rate::ZERO,
        id: id(1),
        rtt_us: 20_000,
    };
    let mut packet = control(1, Flags::NONE, &message);
    assert!(node.forward(&mut packet));
    let Message::Negotiation { max, rtt_us, .. } = read(&packet.message()) else { panic!("a request") };
    // Although the port could give more than is asked.
    assert_eq!((max, rtt_us), (rate(TOTAL / 2), 20_000 | message::ATTENDED));
    // A second node on the way, and the answer that repeats what it says, are no different.
    assert!(node.forward(&mut packet));
    let Message::Negotiation { max, min, id, rtt_us, .. } = read(&packet.message()) else { panic!("a request") };
    assert_eq!(rtt_us, 20_000 | message::ATTENDED);
    let answer = Message::Negotiation { kind: Negotiation::Success, max: rate(TOTAL / 4), min, id, rtt_us };
    assert_eq!(max, rate(TOTAL / 2));
    node.back(&mut control(1, Flags::REVERSE, &answer));
    assert_eq!(node.reading("given"), TOTAL / 4);
}

/// Records outlast twice the silence after which requesters ask again.
#[test]
fn records_outlast_requester_silence_twice() {
    let timeout = Nodectl::INFO.params.iter().find(|param| param.name == "timeout").expect("it has one");
    assert_eq!(Nanos::from_secs_f64(timeout.min), message::LEASE * 2);
}
