//! A flow that changes its way, at a port that both ways have in common.

use super::*;

impl Node {
    /// A request over a way; it goes on.
    fn request_over(&mut self, path: u8, flow: u32, max: u64) {
        self.serial += 1;
        let message = Message::Negotiation {
            kind: Negotiation::Request,
            max: rate(max),
            min: Rate::ZERO,
            id: id(flow),
            rtt_us: 20_000 + self.serial,
        };
        let mut packet = control(flow, Flags::NONE, &message);
        packet.set_path(path);
        assert!(self.forward(&mut packet));
    }

    fn terminate_over(&mut self, path: u8, flow: u32) {
        let message = Message::Adjustment { kind: Adjustment::Terminate, id: id(flow), speed: Rate::ZERO };
        let mut packet = control(flow, Flags::NONE, &message);
        packet.set_path(path);
        assert!(self.forward(&mut packet));
    }
}

#[test]
fn a_flow_that_leaves_its_old_way_keeps_its_place_where_the_new_one_passes_too() {
    let mut node = Node::new(&[]);
    node.request_over(0, 1, TOTAL / 2);
    node.answer(1, Negotiation::Success, TOTAL / 2, 0);
    node.request_over(1, 1, TOTAL);
    node.answer(1, Negotiation::Success, TOTAL / 3, 0);
    node.terminate_over(0, 1);
    assert_eq!((node.reading("flows"), node.reading("given")), (1, TOTAL / 3));
    node.terminate_over(1, 1);
    assert_eq!((node.reading("flows"), node.reading("given")), (0, 0));
}

#[test]
fn a_flow_that_was_refused_on_another_way_ends_on_its_own() {
    let mut node = Node::new(&[]);
    node.request_over(0, 1, TOTAL / 2);
    node.answer(1, Negotiation::Success, TOTAL / 2, 0);
    node.request_over(1, 1, TOTAL);
    node.answer(1, Negotiation::Failure, 0, 0);
    assert_eq!(node.reading("given"), TOTAL / 2);
    node.terminate_over(0, 1);
    assert_eq!((node.reading("flows"), node.reading("given")), (0, 0));
}

#[test]
fn a_reduction_on_a_way_that_is_being_left_takes_nothing_from_the_new_one() {
    let mut node = Node::new(&[]);
    node.request_over(0, 1, TOTAL / 2);
    node.answer(1, Negotiation::Success, TOTAL / 2, 0);
    node.request_over(1, 1, TOTAL);
    // Of its old way, by a node farther on.
    let reduce = Message::Adjustment { kind: Reduce, id: id(1), speed: rate(TOTAL / 6) };
    node.back(&mut control(1, Flags::REVERSE, &reduce));
    assert_eq!(node.reading("given"), TOTAL);
    // It counts where the new way is refused.
    node.answer(1, Negotiation::Failure, 0, 0);
    assert_eq!(node.reading("given"), TOTAL / 6);
}

#[test]
fn what_was_sent_before_another_nodes_reduction_is_no_disobedience() {
    // Within half a round-trip time after the reduction passed, the flow has been told and sent 20 packets at the old rate.
    let mut node = Node::new(&[]);
    node.join(1);
    node.pass(100);
    let reduce = Message::Adjustment { kind: Reduce, id: id(1), speed: rate(TOTAL / 6) };
    node.back(&mut control(1, Flags::REVERSE, &reduce));
    (0..20).for_each(|_| node.data(1));
    node.pass(30);
    assert_eq!((node.reading("disobeyed"), node.told()), (0, vec![]));
}
