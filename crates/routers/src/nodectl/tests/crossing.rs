//! Messages that cross: a port remains the bottleneck where it is, and does not take itself for one where it is not. And what
//! nodes and servers have agreed upon.

use super::*;

#[test]
fn a_flow_has_one_suggestion_at_a_time_and_the_answer_to_it_leaves_the_bottleneck_where_it_is() {
    let mut node = Node::new(&[]);
    for flow in 1..=4 {
        node.join(flow);
    }
    node.told();
    node.terminate(4);
    node.terminate(3);
    node.terminate(2);
    // Three went within a round trip. The first suggestion stands until it is answered.
    let first = TOTAL / 3;
    assert_eq!(node.told().iter().filter(|told| told.0 == 1).collect::<Vec<_>>(), [&(1, Increase, first)]);
    assert_eq!(node.request(1, first, 0), Some(first));
    node.answer(1, Negotiation::Success, first, 0);
    // It is still the bottleneck, and suggests the rest.
    node.pass(200);
    assert!(node.told().iter().any(|told| told.0 == 1 && told.1 == Increase && near(told.2, TOTAL)));
}

#[test]
fn a_request_for_an_increase_that_is_void_leaves_the_bottleneck_where_it_is() {
    let mut node = Node::new(&[]);
    for flow in 1..=3 {
        node.join(flow);
    }
    node.terminate(3);
    let suggested = TOTAL / 2;
    // Others come and go while the request for half is on its way.
    node.join(4);
    node.join(5);
    assert!(node.told().contains(&(1, Reduce, TOTAL / 4)));
    for flow in [4, 5, 2] {
        node.terminate(flow);
    }
    node.told();
    assert_eq!(node.request(1, suggested, 0), Some(suggested));
    node.answer(1, Negotiation::Success, suggested, 0);
    node.pass(200);
    assert!(node.told().iter().any(|told| told.0 == 1 && told.1 == Increase && near(told.2, TOTAL)));
}

#[test]
fn an_answer_that_finds_the_bottleneck_elsewhere_ends_all_suggestions() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.join(2);
    node.terminate(2);
    node.told();
    // Half is lowered to a third farther on: nothing is repeated, and what is left is suggested to nobody.
    assert_eq!(node.request(1, TOTAL, 0), Some(TOTAL));
    node.answer(1, Negotiation::Success, TOTAL / 3, 0);
    // A request for less than was suggested, lowered before this port, ends the suggestion as well.
    node.request(1, TOTAL / 2, 0);
    node.answer(1, Negotiation::Success, TOTAL / 3, 0);
    node.pass(2_000);
    assert_eq!(node.told(), []);
}

#[test]
fn between_request_and_answer_nothing_is_suggested() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.request(2, ALL, 0);
    node.told();
    node.terminate(1);
    assert_eq!(node.told(), []);
    // The answer says that its bottleneck is elsewhere: the rest remains free.
    node.answer(2, Negotiation::Success, TOTAL / 4, 0);
    node.pass(2_000);
    assert_eq!(node.told(), []);
}

#[test]
fn a_request_goes_on_with_the_mark_that_a_node_took_part() {
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

#[test]
fn records_outlast_the_silence_after_which_servers_ask_again_twice_over() {
    let timeout = Nodectl::INFO.params.iter().find(|param| param.name == "timeout").expect("it has one");
    assert_eq!(Nanos::from_secs_f64(timeout.min), message::LEASE * 2);
}
