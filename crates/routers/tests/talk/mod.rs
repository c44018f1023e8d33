//! A Nodectl rate requester with hand-written answers.

use narrows_cc::{Nanos, Random, Rate};
use narrows_packet::{Flags, Kind, Packet};
use narrows_routers::negotiation::{ATTENDED, Adjustment, Id, Message, Negotiation};
use narrows_routers::{NegotiationConfig as Settings, endpoint};
use narrows_tcp::{Receiver, Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};

use crate::common::scheme;

pub const ID: Id = Id { content: 7, destination: 9, subflow: 1 };
pub const RTT: Nanos = Nanos::from_millis(40);

pub fn rate(n: u64) -> Rate {
    Rate::from_bytes_per_sec(n)
}

/// These settings with the ID used in the test.
pub fn with_id(settings: Settings) -> Settings {
    Settings { content: ID.content, destination: ID.destination, subflow: ID.subflow, ..settings }
}

pub fn made(settings: &Settings, app: AppConfig) -> Sender {
    let config = TcpConfig::rfc();
    let app = App::new(app, Random::stream(1, "app", 0), Nanos::ZERO);
    let mut sender = Sender::new(0, config.clone(), scheme("nodectl", &[], &config), app, Nanos::ZERO);
    endpoint::attach_sender(&mut sender, settings);
    sender
}

pub fn read(packet: &Packet) -> Message {
    let message = packet.message();
    Message::decode(message.as_bytes()).expect("a requester writes valid messages")
}

pub fn is_message(packet: &Packet) -> bool {
    packet.kind() == Kind::Message
}

/// A sender, its receiver and the clock.
pub struct Talk {
    pub now: Nanos,
    pub sender: Sender,
    pub receiver: Receiver,
    /// Packets sent, with their times.
    pub log: Vec<(Nanos, Packet)>,
}

impl Talk {
    /// State after a handshake of [`RTT`], with the first request sent.
    pub fn begin(settings: Settings, app: AppConfig) -> Self {
        let settings = with_id(settings);
        let mut receiver = Receiver::new(0, &TcpConfig::rfc());
        endpoint::attach_receiver(&mut receiver, &settings);
        let mut talk = Self { now: Nanos::ZERO, sender: made(&settings, app), receiver, log: Vec::new() };
        talk.sender.on_timer(Nanos::ZERO);
        talk.poll();
        let syn = talk.log.pop().expect("a SYN").1;
        talk.receiver.on_packet(RTT / 2, &syn);
        let answer = talk.receiver.poll_transmit(RTT / 2).expect("a SYN-ACK");
        talk.now = RTT;
        talk.sender.on_packet(RTT, &answer);
        talk.poll();
        talk
    }

    pub fn poll(&mut self) {
        for _ in 0..1_000 {
            match self.sender.poll_transmit(self.now) {
                Some(packet) => self.log.push((self.now, packet)),
                None => return,
            }
        }
        panic!("an endless burst");
    }

    /// Runs the timers for `time`. With `acks`, all data sent is acknowledged `RTT` later.
    pub fn pass(&mut self, time: Nanos, acks: bool) {
        let end = self.now + time;
        let mut wire: Vec<(Nanos, Packet)> = Vec::new();
        let mut seen = self.log.len();
        loop {
            for (at, packet) in self.log[seen..].iter().filter(|(_, packet)| !is_message(packet)) {
                wire.push((*at + RTT, *packet));
            }
            seen = self.log.len();
            let arrival = wire.first().map_or(Nanos::MAX, |first| first.0);
            let next = self.sender.deadline().min(if acks { arrival } else { Nanos::MAX });
            if next > end {
                break;
            }
            self.now = next;
            if next == self.sender.deadline() {
                self.sender.on_timer(next);
            } else {
                let (_, packet) = wire.remove(0);
                self.receiver.on_packet(next, &packet);
                self.receiver.on_timer(Nanos::MAX);
                while let Some(ack) = self.receiver.poll_transmit(next) {
                    self.sender.on_packet(next, &ack);
                }
            }
            self.poll();
        }
        self.now = end;
    }

    /// Packets sent since the last call.
    pub fn sent(&mut self) -> Vec<(Nanos, Packet)> {
        std::mem::take(&mut self.log)
    }

    /// The only request since the last call, with its path; discards other packets.
    #[track_caller]
    pub fn request(&mut self) -> (Rate, u32, u8) {
        let sent = self.sent();
        let requests: Vec<_> = sent
            .iter()
            .filter(|(_, packet)| is_message(packet))
            .filter_map(|(_, packet)| match read(packet) {
                Message::Negotiation { kind: Negotiation::Request, max, id: ID, rtt_us, .. } => {
                    Some((max, rtt_us, packet.path()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0]
    }

    pub fn deliver(&mut self, message: &Message) {
        self.sender.on_packet(self.now, &Packet::control(0, Flags::REVERSE, message.encode().as_bytes()));
        self.poll();
    }

    pub fn answer(&mut self, kind: Negotiation, max: u64, token: u32) {
        self.deliver(&Message::Negotiation { kind, max: rate(max), min: Rate::ZERO, id: ID, rtt_us: token | ATTENDED });
    }

    pub fn fail(&mut self, token: u32) {
        self.deliver(&Message::Negotiation {
            kind: Negotiation::Failure,
            max: Rate::ZERO,
            min: Rate::ZERO,
            id: ID,
            rtt_us: token,
        });
    }

    pub fn adjust(&mut self, kind: Adjustment, speed: u64) {
        self.adjust_over(0, kind, speed);
    }

    /// Delivers an adjustment from a node on one of the paths.
    pub fn adjust_over(&mut self, path: u8, kind: Adjustment, speed: u64) {
        let message = Message::Adjustment { kind, id: ID, speed: rate(speed) };
        let mut packet = Packet::control(0, Flags::REVERSE, message.encode().as_bytes());
        packet.set_path(path);
        self.sender.on_packet(self.now, &packet);
        self.poll();
    }

    pub fn data(&self) -> usize {
        self.log.iter().filter(|(_, packet)| packet.payload > 0).count()
    }

    /// Pacing rate on the wire.
    pub fn wire_rate(&self) -> f64 {
        self.sender.pacing_rate().map_or(0.0, |rate| rate.as_bytes_per_sec() as f64 * 1500.0 / 1448.0)
    }

    #[track_caller]
    pub fn assert_rate(&self, wire: u64) {
        assert!((self.wire_rate() - wire as f64).abs() < 2.0, "{}, not {wire}", self.wire_rate());
    }

    /// Answers the only request with a grant of `granted`.
    pub fn grant(&mut self, granted: u64) {
        let (_, token, _) = self.request();
        self.answer(Negotiation::Success, granted, token);
    }

    /// A requester after a grant of `granted`.
    pub fn granted(settings: Settings, granted: u64) -> Self {
        let mut talk = Self::begin(settings, AppConfig::Bulk);
        talk.grant(granted);
        talk.assert_rate(granted);
        talk
    }
}
