//! Messages that cross on the path: a port counts as the bottleneck exactly while it is the bottleneck. Conventions
//! between nodes and requesters.

use super::*;

/// A flow has one suggestion at a time, and the answer to it keeps this port as the bottleneck.
#[test]
fn one_suggestion_at_a_time_keeps_the_bottleneck() {
    let mut node = Node::with_flows(4);
    node.notices();
    node.terminate(4);
    node.terminate(3);
    node.terminate(2);
    // Three flows ended within a round trip. The first suggestion stays in force until a request answers it.
    let first = TOTAL / 3;
    assert_eq!(node.notices().iter().filter(|notice| notice.0 == 1).collect::<Vec<_>>(), [&(1, Increase, first)]);
    assert_eq!(node.request(1, first, 0), Some(first));
    node.answer(1, Negotiation::Success, first, 0);
    // The port is still the bottleneck, and suggests the whole bandwidth.
    node.pass(200);
    assert!(node.suggests(1, TOTAL));
}

/// A request for a void increase keeps this port as the bottleneck.
#[test]
fn request_for_void_increase_keeps_the_bottleneck() {
    let mut node = Node::with_flows(3);
    node.terminate(3);
    let suggested = TOTAL / 2;
    // Other flows join and end while the request for half of the bandwidth is in flight.
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
    assert!(node.suggests(1, TOTAL));
}

/// An answer that shows the bottleneck elsewhere ends all suggestions to its flow.
#[test]
fn answer_with_bottleneck_elsewhere_ends_suggestions() {
    let mut node = Node::with_flows(2);
    node.terminate(2);
    node.notices();
    // A later node lowers the request to a third: the suggestion is not repeated, and no flow gets a suggestion for the
    // rest.
    assert_eq!(node.request(1, TOTAL, 0), Some(TOTAL));
    node.answer(1, Negotiation::Success, TOTAL / 3, 0);
    // A request below the suggestion, lowered before this port, also ends the suggestion.
    node.request(1, TOTAL / 2, 0);
    node.answer(1, Negotiation::Success, TOTAL / 3, 0);
    node.pass(2_000);
    assert_eq!(node.notices(), []);
}

/// Between request and answer nothing is suggested to a flow.
#[test]
fn nothing_is_suggested_between_request_and_answer() {
    let mut node = Node::with_flows(1);
    node.request(2, ALL, 0);
    node.notices();
    node.terminate(1);
    assert_eq!(node.notices(), []);
    // The answer shows that the flow's bottleneck is elsewhere: the rest stays free.
    node.answer(2, Negotiation::Success, TOTAL / 4, 0);
    node.pass(2_000);
    assert_eq!(node.notices(), []);
}

/// A forwarded request carries the mark of a participating node.
#[test]
fn forwarded_request_carries_the_attended_mark() {
    let mut node = Node::new(&[]);
    let mut packet = control(1, Flags::NONE, &node.negotiation(Negotiation::Request, id(1), TOTAL / 2, 0));
    assert!(node.forward(&mut packet));
    let Message::Negotiation { max, rtt_us, .. } = read(&packet.message()) else { panic!("a request") };
    // The port could allocate more than the request, so it changes only the mark.
    assert_eq!((max, rtt_us), (rate(TOTAL / 2), 20_000 | message::ATTENDED));
    // A second node on the path also forwards the mark, and accepts the answer that repeats the marked field.
    assert!(node.forward(&mut packet));
    let Message::Negotiation { max, min, id, rtt_us, .. } = read(&packet.message()) else { panic!("a request") };
    assert_eq!(rtt_us, 20_000 | message::ATTENDED);
    let answer = Message::Negotiation { kind: Negotiation::Success, max: rate(TOTAL / 4), min, id, rtt_us };
    assert_eq!(max, rate(TOTAL / 2));
    node.back(&mut control(1, Flags::REVERSE, &answer));
    assert_eq!(node.reading("given"), TOTAL / 4);
}

/// Records last at least twice the silence after which a requester sends a new request.
#[test]
fn record_timeout_is_at_least_twice_the_lease() {
    let timeout = Nodectl::INFO.params.iter().find(|param| param.name == "timeout").expect("it has one");
    assert_eq!(Nanos::from_secs_f64(timeout.min), message::LEASE * 2);
}
