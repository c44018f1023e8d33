//! The rate requester: the server's process of Nodectl (Algorithm 3 of the paper). It requests a rate before data flows and
//! follows the nodes' adjustments afterwards.
//!
//! * The request leaves when the handshake is over. Without an answer it is repeated after two round-trip times, then with
//!   twice the patience each time. After four requests data flows without a rate, as the scheme's fallback says, and a
//!   request is sent again every 10 s. The same holds if the answer shows that no node took part. The limits that the ends
//!   have stated still apply then: data is paced no faster.
//! * An answer belongs to a request if it repeats its Rtt. The message has no sequence number, so the three lowest bits of
//!   the Rtt, in microseconds, count requests. Only the answer to the last request counts, and only once.
//! * Failure: the requester tries the next path of the flow, and after the last one the first again when 1 s is over. No
//!   data flows meanwhile. If a rate had been granted on this path, only the change failed and the rate stands.
//! * Reduce: the rate becomes the smaller of Speed and the rate, and so does the rate of an answer in transit. The node may
//!   have sent the reduction before it saw the request, so the requester then requests that rate again. If the rate is below
//!   Min (a hot node) and there are other paths, the requester tries these while data flows on at the reduced rate; the path
//!   changes with the first that grants Min. If none does, it tries them again every 1 s.
//! * Increase: a request for Speed, unless one is in transit; the node will repeat it.
//! * When no other reduction has followed within eight round-trip times, the requester requests the rate it has now, so that
//!   the other nodes on the path learn it. Otherwise they would reserve bandwidth that it may not use. (The paper leaves open
//!   how they learn it.)
//! * Nodes send to every requester at times. A requester that receives nothing for 10 s requests its maximum while data flows
//!   on. If no node answers, it falls back, so that flows granted a rate by nodes that died do not hold it for ever.
//! * Max is the rate that the sender can provide and its line carries. If for eight round-trip times less would have done, by
//!   a hundredth of the rate and more than a packet, the requester requests a twentieth more than was sent, two packets per
//!   round trip at least. As soon as more waits than a round trip's worth, it requests its maximum.
//! * When nothing has been sent for 5 s, nodes may have deleted the flow: the requester requests before data flows again.
//! * The termination leaves when everything is acknowledged, and again after two round-trip times, for it is never
//!   acknowledged. Nodes have a timeout if both are lost.
//! * Messages with another ID, unrequested grants, grants above the request and unreadable messages are counted and ignored.

mod state;

use narrows_cc::{Advice, Bytes, Limit, Nanos, Rate};
use narrows_packet::{ControlMessage, Packet};
use narrows_tcp::rates::{RateAgent, RateEvent, RateOrders, RateSetup, SenderView};

use self::state::{LEAST, REVIEW, Requester, Review, Stage, Update};
use super::{NegotiationConfig, payload_share};
use crate::negotiation::{LEASE, MOST, Message};
use crate::protocol::Explicit;

/// Twice the round-trip time, or what stands for it before the first sample.
fn patience(sender: &SenderView) -> Nanos {
    if sender.srtt.is_zero() { sender.rto } else { sender.srtt * 2 }
}

/// A sender that negotiates its rate by messages.
#[derive(Clone, Debug)]
pub(super) struct RateRequester {
    state: Requester,
    /// How much of a full packet on the wire is payload. The network counts everything, a scheme payload alone.
    share: f64,
    segment: u64,
    /// A full packet on the wire.
    packet: u64,
}

impl RateRequester {
    pub(super) fn new(config: &NegotiationConfig, setup: &RateSetup) -> Self {
        let share = payload_share(setup, Explicit::Nodectl);
        Self {
            state: Requester::new(config, setup.line, share),
            share,
            segment: u64::from(setup.segment),
            packet: u64::from(setup.segment) + u64::from(setup.data_header),
        }
    }

    /// Translates an update into the advice for the scheme and the limit for the sender.
    fn follow(&mut self, sender: &SenderView, update: Update) -> RateOrders {
        let (limit, advice) = match update {
            Update::None => (None, None),
            Update::Rate(rate) => (Some(Limit::None), Some(Advice::Rate(self.payload_rate(rate)))),
            Update::Withdrawn => {
                let ends = self.state.ends;
                let limit = if ends < MOST { Limit::Paced(self.payload_rate(ends)) } else { Limit::None };
                (Some(limit), Some(Advice::Rate(Rate::ZERO)))
            }
        };
        let state = &mut self.state;
        // A new rate begins a new review of its use, and so does the end of one.
        if state.stage == Stage::Settled && (update != Update::None || state.review.at == Nanos::MAX) {
            let at = sender.now.saturating_add(patience(sender) * (REVIEW / 2));
            state.review = Review { from: sender.now, sent: sender.wire_sent, at };
        }
        RateOrders { limit, advice, path: Some(state.path), refused: false }
    }

    /// The payload part of a rate on the wire.
    fn payload_rate(&self, wire: Rate) -> Rate {
        Rate::from_bytes_per_sec(((wire.as_bytes_per_sec() as f64 * self.share) as u64).max(1))
    }

    /// Whether more waits than leaves in a round trip at the rate that was granted.
    fn more_waits(&self, sender: &SenderView) -> bool {
        let Some(granted) = self.state.granted else { return false };
        let trip = granted.over(sender.srtt).as_u64().max(4 * self.segment);
        sender.backlog > trip
    }

    fn on_timer(&mut self, sender: &SenderView) -> RateOrders {
        let waits = self.more_waits(sender);
        let state = &mut self.state;
        if sender.now >= state.review.at {
            if sender.repairing {
                // Losses may hold up everything else: no measure of the rate that it can use.
                state.review.at = Nanos::MAX;
            } else {
                let least = Bytes::new(LEAST * self.packet).per(patience(sender) / 2);
                state.on_review(sender.now, sender.wire_sent, least, waits, self.packet);
            }
        }
        let update = state.on_timer(sender.now);
        self.follow(sender, update)
    }

    fn on_message(&mut self, sender: &SenderView, packet: &Packet) -> RateOrders {
        let update = match Message::decode(packet.message().as_bytes()) {
            // Late messages have done their duty.
            Ok(_) if !sender.established => Some(Update::None),
            Ok(message) => self.state.on_message(sender.now, patience(sender), &message, packet.path()),
            Err(_) => None,
        };
        match update {
            Some(update) => self.follow(sender, update),
            None => RateOrders { refused: true, ..RateOrders::default() },
        }
    }
}

impl RateAgent for RateRequester {
    fn on_event(&mut self, sender: &SenderView, event: RateEvent<'_>) -> RateOrders {
        match event {
            RateEvent::Established => self.state.request(0, self.state.max),
            RateEvent::Completed => self.state.end(sender.now, patience(sender)),
            RateEvent::Resumed { idle } if idle >= LEASE && self.state.granted.is_some() => {
                self.state.request_anew();
            }
            RateEvent::Written if self.more_waits(sender) => self.state.on_backlog(),
            RateEvent::Resumed { .. } | RateEvent::Written => return RateOrders::default(),
            RateEvent::Message(packet) => return self.on_message(sender, packet),
            RateEvent::Timer => return self.on_timer(sender),
        }
        self.follow(sender, Update::None)
    }

    fn has_message(&self) -> bool {
        self.state.has_messages()
    }

    fn poll_message(&mut self, sender: &SenderView) -> Option<(ControlMessage, u8)> {
        let (message, path) = self.state.next_message(sender.now, sender.srtt, patience(sender))?;
        Some((ControlMessage::new(message.encode().as_bytes()), path))
    }

    fn holds(&self) -> bool {
        self.state.holds()
    }

    fn deadline(&self) -> Nanos {
        self.state.deadline()
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
    }
}
