//! A Nodectl node against random messages.

use narrows_cc::Rate;
use narrows_packet::{Flags, Packet};
use proptest::prelude::*;

use super::message::{Adjustment, Id, Message, Negotiation};
use super::tests::{ALL, Node, TOTAL, control, rate, read};
use super::{Nodectl, Router};
use crate::Outgoing;

#[derive(Clone, Debug)]
enum Event {
    Request { flow: u32, content: u32, max: u64, min: u64 },
    Answer { flow: u32, content: u32, success: bool, max: u64, serial: u32 },
    Adjustment { flow: u32, content: u32, kind: u8, speed: u64, back: bool },
    Data { flow: u32 },
    Bytes { flow: u32, bytes: Vec<u8>, back: bool },
    Pass { ms: u64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let flow = || 0u32..6;
    let amount = || prop_oneof![1u64..TOTAL, Just(ALL), Just(0), any::<u64>()];
    let event = prop_oneof![
        4 => (flow(), 0u32..4, amount(), amount())
            .prop_map(|(flow, content, max, min)| Event::Request { flow, content, max, min: min % 1000 }),
        4 => (flow(), 0u32..4, any::<bool>(), amount(), 0u32..4).prop_map(|(flow, content, success, max, serial)| {
            Event::Answer { flow, content, success, max, serial }
        }),
        2 => (flow(), 0u32..4, 0u8..3, amount(), any::<bool>()).prop_map(|(flow, content, kind, speed, back)| {
            Event::Adjustment { flow, content, kind, speed, back }
        }),
        3 => flow().prop_map(|flow| Event::Data { flow }),
        1 => (flow(), prop::collection::vec(any::<u8>(), 0..40), any::<bool>())
            .prop_map(|(flow, bytes, back)| Event::Bytes { flow, bytes, back }),
        2 => (0u64..3_000).prop_map(|ms| Event::Pass { ms }),
    ];
    prop::collection::vec(event, 1..200)
}

proptest! {
    /// For any input, the node allocates at most the port's bandwidth. [`Node::forward`] and [`Node::back`]
    /// recount the reservation table after every message. As printed, Algorithm 1 allocates more; then only the
    /// counts are checked.
    #[test]
    fn any_input_never_over_allocates(
        events in events(),
        ends in prop::collection::vec(0u8..3, Nodectl::INFO.params.len()),
    ) {
        let params: Vec<_> = Nodectl::INFO
            .params
            .iter()
            .zip(ends)
            .map(|(param, end)| (param.name, [param.default, param.min, param.max][usize::from(end)]))
            // A large table would only make the test slower.
            .map(|(name, value)| (name, if name == "flows" { value.min(1_000.0) } else { value }))
            .collect();
        let mut node = Node::new(&params);
        for event in events {
            let id = |content| Id { content, destination: 1, subflow: 0 };
            match event {
                Event::Request { flow, content, max, min } => {
                    node.request_of(flow, id(content), max.clamp(1, ALL), min.min(max.clamp(1, ALL)));
                }
                Event::Answer { flow, content, success, max, serial } => {
                    let kind = if success { Negotiation::Success } else { Negotiation::Failure };
                    let message = Message::Negotiation {
                        kind,
                        max: rate(max),
                        min: Rate::ZERO,
                        id: id(content),
                        rtt_us: (20_000 + node.serial).saturating_sub(serial),
                    };
                    node.back(&mut control(flow, Flags::REVERSE, &message));
                }
                Event::Adjustment { flow, content, kind, speed, back } => {
                    let kind = [Adjustment::Reduce, Adjustment::Increase, Adjustment::Terminate][usize::from(kind)];
                    let message = Message::Adjustment { kind, id: id(content), speed: rate(speed) };
                    if back {
                        node.back(&mut control(flow, Flags::REVERSE, &message));
                    } else {
                        node.forward(&mut control(flow, Flags::NONE, &message));
                    }
                }
                Event::Data { flow } => node.data(flow),
                Event::Bytes { flow, bytes, back } => {
                    let flags = if back { Flags::REVERSE } else { Flags::NONE };
                    let mut packet = Packet::control(flow, flags, &bytes);
                    if back { node.back(&mut packet) } else { node.forward(&mut packet); }
                }
                Event::Pass { ms } => node.pass(ms),
            }
            // Every flow has at least one byte per second.
            let floor = node.reading("flows");
            let bounded = node.nodectl.literal || node.reading("given") <= TOTAL + floor;
            prop_assert!(bounded, "{} given", node.reading("given"));
            for out in node.port.outbox.drain(..) {
                match out {
                    Outgoing::ToSender { message, .. } => { read(&message); }
                    Outgoing::Broadcast(_) => prop_assert!(false, "a node sends no broadcasts"),
                }
            }
        }
        prop_assert!(node.nodectl.memory() < 1 << 20);
    }
}
