//! The responder: the user process of Nodectl (Algorithm 5 of the paper) answers rate requests with the receiver's
//! limit.
//!
//! An answer takes the path of its request and repeats the request's ID and Rtt for matching. Every request
//! is answered, even a repeated one: the nodes' grants may have changed meanwhile.

use narrows_cc::Rate;
use narrows_packet::{ControlMessage, Packet};

use super::NegotiationConfig;
use crate::negotiation::{Adjustment, Id, Message, Negotiation};

/// Responder side of a negotiation.
#[derive(Clone, Debug)]
pub struct Responder {
    id: Id,
    /// Maximum rate of the receiver.
    limit: Rate,
    answer: Option<(Message, u8)>,
}

impl Responder {
    /// A responder without a pending answer.
    pub fn new(config: &NegotiationConfig) -> Self {
        Self { id: config.id(), limit: config.receive, answer: None }
    }

    /// Handles a control message; returns whether it is for this flow.
    pub fn on_packet(&mut self, packet: &Packet) -> bool {
        let Ok(message) = Message::decode(packet.message().as_bytes()) else { return false };
        if message.id() != self.id {
            return false;
        }
        match message {
            Message::Negotiation { kind: Negotiation::Request, max, min, id, rtt_us } => {
                let given = max.min(self.limit);
                let kind = if given < min || given.is_zero() { Negotiation::Failure } else { Negotiation::Success };
                self.answer = Some((Message::Negotiation { kind, max: given, min, id, rtt_us }, packet.path()));
                true
            }
            Message::Adjustment { kind: Adjustment::Terminate, .. } => true,
            _ => false,
        }
    }

    /// The pending answer and its path.
    pub fn poll(&mut self) -> Option<(ControlMessage, u8)> {
        let (message, path) = self.answer.take()?;
        Some((ControlMessage::new(message.encode().as_bytes()), path))
    }
}

#[cfg(test)]
mod tests {
    use narrows_packet::Flags;

    use super::*;

    fn rate(n: u64) -> Rate {
        Rate::from_bytes_per_sec(n)
    }

    fn user(limit: u64) -> Responder {
        Responder::new(&NegotiationConfig {
            content: 7,
            destination: 9,
            receive: rate(limit),
            ..NegotiationConfig::default()
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
        let (answer, path) = user.poll().expect("every request is answered");
        assert_eq!(path, 2);
        assert!(user.poll().is_none());
        Message::decode(answer.as_bytes()).expect("a valid message")
    }

    /// The answer is the smaller of Max and the receiver's limit, or a failure below Min.
    #[test]
    fn answer_is_limited_or_fails_below_min() {
        let request = |max, min| negotiation(Negotiation::Request, max, min);
        assert_eq!(answered(50, request(40, 10)), negotiation(Negotiation::Success, 40, 10));
        assert_eq!(answered(50, request(60, 50)), negotiation(Negotiation::Success, 50, 50));
        assert_eq!(answered(50, request(60, 51)), negotiation(Negotiation::Failure, 50, 51));
        assert_eq!(answered(0, request(60, 0)), negotiation(Negotiation::Failure, 0, 0));
    }

    /// Messages other than requests to this responder get no answer.
    #[test]
    fn foreign_message_is_not_answered() {
        let mut user = user(50);
        let foreign = Message::Negotiation {
            kind: Negotiation::Request,
            max: rate(5),
            min: rate(1),
            id: Id { content: 8, destination: 9, subflow: 0 },
            rtt_us: 0,
        };
        for message in [foreign, negotiation(Negotiation::Success, 5, 1), negotiation(Negotiation::Failure, 1, 5)] {
            assert!(!user.on_packet(&packet(&message)));
        }
        let end = Message::Adjustment { kind: Adjustment::Terminate, id: user.id, speed: Rate::ZERO };
        assert!(user.on_packet(&packet(&end)));
        assert!(!user.on_packet(&Packet::control(3, Flags::NONE, &[0, 0x11, 1])));
        assert!(user.poll().is_none());
    }
}
