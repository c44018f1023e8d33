//! A flow that changes its path, at a port on both paths.

use super::*;

impl Node {
    /// Sends a request over a path, and expects the node to forward it.
    fn request_over(&mut self, path: u8, flow: u32, max: u64) {
        self.serial += 1;
        let mut packet = control(flow, Flags::NONE, &self.negotiation(Negotiation::Request, id(flow), max, 0));
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

/// A port on both paths of flow 1, which has half of the bandwidth on its old path 0 and has requested all of it on its
/// new path 1.
fn moving() -> Node {
    let mut node = Node::new(&[]);
    node.request_over(0, 1, TOTAL / 2);
    node.answer(1, Negotiation::Success, TOTAL / 2, 0);
    node.request_over(1, 1, TOTAL);
    node
}

/// A flow that leaves its old path keeps its record at a port that the new path shares.
#[test]
fn path_change_keeps_the_record_at_a_common_port() {
    let mut node = moving();
    node.answer(1, Negotiation::Success, TOTAL / 3, 0);
    node.terminate_over(0, 1);
    assert_eq!((node.reading("flows"), node.reading("given")), (1, TOTAL / 3));
    node.terminate_over(1, 1);
    assert_eq!((node.reading("flows"), node.reading("given")), (0, 0));
}

/// If a flow is refused on a new path, its termination on the old path still removes its record.
#[test]
fn flow_refused_on_a_new_path_ends_on_its_old_one() {
    let mut node = moving();
    node.answer(1, Negotiation::Failure, 0, 0);
    assert_eq!(node.reading("given"), TOTAL / 2);
    node.terminate_over(0, 1);
    assert_eq!((node.reading("flows"), node.reading("given")), (0, 0));
}

/// A reduction on a path that a flow is leaving does not affect the new path.
#[test]
fn reduction_on_the_old_path_spares_the_new_one() {
    let mut node = moving();
    // A later node sends a reduction over the flow's old path.
    let reduce = Message::Adjustment { kind: Reduce, id: id(1), speed: rate(TOTAL / 6) };
    node.back(&mut control(1, Flags::REVERSE, &reduce));
    assert_eq!(node.reading("given"), TOTAL);
    // The reduction takes effect when the flow is refused on the new path.
    node.answer(1, Negotiation::Failure, 0, 0);
    assert_eq!(node.reading("given"), TOTAL / 6);
}

/// Data sent before another node's reduction took effect is not disobedience.
#[test]
fn data_sent_before_a_reduction_is_no_disobedience() {
    // Until the reduction takes effect, within half an RTT, 20 packets at the old rate pass.
    let mut node = Node::with_flows(1);
    node.pass(100);
    let reduce = Message::Adjustment { kind: Reduce, id: id(1), speed: rate(TOTAL / 6) };
    node.back(&mut control(1, Flags::REVERSE, &reduce));
    (0..20).for_each(|_| node.data(1));
    node.pass(30);
    assert_eq!((node.reading("disobeyed"), node.notices()), (0, vec![]));
}
