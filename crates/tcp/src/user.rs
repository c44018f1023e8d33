//! The user's process of Nodectl (Algorithm 5 of the paper): answers requests for rates with its own limit.
//!
//! An answer goes back the way its request came and repeats the request's ID and Rtt, by which the server knows what is
//! answered. Every request is answered, repeated ones too: what the nodes gave may have changed meanwhile.

use narrows_cc::Rate;
use narrows_packet::{Flags, Packet};
use narrows_routers::negotiation::{Adjustment, Id, Message, Negotiation};

use crate::config;

/// The user's side.
#[derive(Clone, Debug)]
pub(crate) struct User {
    id: Id,
    /// The most it can take.
    limit: Rate,
    answer: Option<(Message, u8)>,
}

impl User {
    pub(crate) fn new(config: &config::Negotiation) -> Self {
        Self { id: id(config), limit: config.receive, answer: None }
    }

    /// A control message arrives; whether it is one for the user.
    pub(crate) fn on_packet(&mut self, packet: &Packet) -> bool {
        let Ok(message) = Message::decode(packet.message().as_bytes()) else { return false };
        if message.id() != self.id {
            return false;
        }
        match message {
            Message::Negotiation { kind: Negotiation::Request, max, min, id, rtt_us } => {
                let given = max.min(self.limit);
                let kind =
                    if given < min || given.is_zero() { Negotiation::Failure } else { Negotiation::Success };
                self.answer =
                    Some((Message::Negotiation { kind, max: given, min, id, rtt_us }, packet.path()));
                true
            }
            Message::Adjustment { kind: Adjustment::Terminate, .. } => true,
            _ => false,
        }
    }

    /// The answer that waits.
    pub(crate) fn poll(&mut self, flow: u32) -> Option<Packet> {
        let (message, path) = self.answer.take()?;
        let mut packet = Packet::control(flow, Flags::REVERSE, message.encode().as_bytes());
        packet.set_path(path);
        Some(packet)
    }
}

/// The ID in a connection's messages.
pub(crate) fn id(config: &config::Negotiation) -> Id {
    Id { content: config.content, destination: config.destination, subflow: config.subflow }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(n: u64) -> Rate {
        Rate::from_bytes_per_sec(n)
    }

    fn user(limit: u64) -> User {
        User::new(&config::Negotiation {
            content: 7,
            destination: 9,
            receive: rate(limit),
            ..config::Negotiation::default()
        })
    }

    fn negotiation(kind: Negotiation, max: u64, min: u64) -> Message {
        let id = Id { content: 7, destination: 9, subflow: 0 };
        Message::Negotiation { kind, max: rate(max), min: rate(min), id, rtt_us: 20_003 }
    }

    fn packet(message: &Message) -> Packet {
        let mut packet = Packet::control(3, Flags::NONE, message.encode().as_bytes());
        packet.set_path(2);
        packet
    }

    #[track_caller]
    fn answered(limit: u64, request: Message) -> Message {
        let mut user = user(limit);
        assert!(user.on_packet(&packet(&request)));
        let answer = user.poll(3).expect("every request is answered");
        assert!(answer.flags.has(Flags::REVERSE) && answer.path() == 2 && answer.flow == 3);
        assert!(user.poll(3).is_none());
        Message::decode(answer.message().as_bytes()).expect("a sound message")
    }

    #[test]
    fn the_answer_is_the_smaller_of_max_and_its_own_limit_or_a_failure_below_min() {
        let request = |max, min| negotiation(Negotiation::Request, max, min);
        assert_eq!(answered(50, request(40, 10)), negotiation(Negotiation::Success, 40, 10));
        assert_eq!(answered(50, request(60, 50)), negotiation(Negotiation::Success, 50, 50));
        assert_eq!(answered(50, request(60, 51)), negotiation(Negotiation::Failure, 50, 51));
        assert_eq!(answered(0, request(60, 0)), negotiation(Negotiation::Failure, 0, 0));
    }

    #[test]
    fn what_is_no_request_to_it_is_not_answered() {
        let mut user = user(50);
        let foreign = Message::Negotiation {
            kind: Negotiation::Request,
            max: rate(5),
            min: rate(1),
            id: Id { content: 8, destination: 9, subflow: 0 },
            rtt_us: 0,
        };
        for message in
            [foreign, negotiation(Negotiation::Success, 5, 1), negotiation(Negotiation::Failure, 1, 5)]
        {
            assert!(!user.on_packet(&packet(&message)));
        }
        let end = Message::Adjustment { kind: Adjustment::Terminate, id: user.id, speed: Rate::ZERO };
        assert!(user.on_packet(&packet(&end)));
        assert!(!user.on_packet(&Packet::control(3, Flags::NONE, &[0, 0x11, 1])));
        assert!(user.poll(3).is_none());
    }
}
