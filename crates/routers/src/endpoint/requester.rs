//! The rate requester: the server process of Nodectl (Algorithm 3 of the paper). It requests a rate before
//! data flows and then follows the nodes' adjustments.
//!
//! * The request is sent after the handshake. An unanswered request is repeated after two round-trip times, with twice
//!   the timeout each time. After four requests data flows without a rate under the scheme's fallback, and a request
//!   follows every 10 s; between hosts ([`RateRequester::refreshed`]) the first four follow after 1, 2, 4 and 8 s. A
//!   request also follows every 10 s if the answer shows that no node handled the request; pacing then still stays
//!   within the limits that both endpoints stated.
//! * An answer belongs to a request if it repeats the request's Rtt. The message has no sequence number, so the three
//!   lowest bits of the Rtt, in microseconds, number the requests. Only the first answer to the last request counts.
//! * Failure: the requester tries the flow's next path; after the last one it waits 1 s and starts again with the
//!   first. No data flows meanwhile. If a rate was granted on this path, only the change failed and the rate stays in
//!   force.
//! * Reduce: the message's Speed caps the current rate and the rate of an answer in transit. The node may have sent the
//!   reduction before the request arrived, so the requester then requests the answer's rate again. If the rate is below
//!   Min (a hot node) and there are other paths, the requester tries these while data continues at the reduced rate.
//!   The flow moves to the first path that grants Min; if none does, it retries every 1 s.
//! * Increase: the requester requests Speed, unless a request is in transit; in that case the node repeats the message.
//! * After eight round-trip times without another reduction, the requester requests its current rate, so that the other
//!   nodes on the path record it. Otherwise these nodes would reserve bandwidth that the flow may not use. (The paper
//!   does not say how they learn the rate.)
//! * Nodes send to every requester periodically. After 10 s without a message the requester requests the highest rate
//!   that it can use, while data continues. If no node answers, it falls back, so that flows do not keep the grants of
//!   failed nodes forever.
//! * Max is the lower of the sender's maximum and its line rate. If the usage over eight round-trip times, plus a
//!   twentieth, is below the rate by more than a hundredth of the rate and a packet, the requester requests this sum,
//!   at least two packets per round trip. Once the backlog exceeds the data of one round trip, it requests its maximum.
//! * After 5 s without sending, nodes may have deleted the flow: the requester requests again before data
//!   flows.
//! * The termination is sent when all data is acknowledged, and again after two round-trip times, because it is never
//!   acknowledged. If both terminations are lost, the nodes' records time out.
//! * Counted and ignored: messages with another ID, unsolicited grants, grants above the request, unreadable
//!   messages.

mod state;
#[cfg(test)]
mod tests;

use narrows_cc::{Advice, Bytes, Limit, Nanos, Rate};
use narrows_packet::{ControlMessage, Packet};
use narrows_tcp::rates::{RateAgent, RateEvent, RateOrders, RateSetup, SenderView};

use self::state::{LEAST, REVIEW, Requester, Review, Stage, Update};
use super::{NegotiationConfig, payload_share};
use crate::negotiation::{LEASE, MOST, Message};
use crate::protocol::Explicit;

/// Twice the round-trip time; the RTO before the first sample.
fn timeout(sender: &SenderView) -> Nanos {
    sender.srtt.map_or(sender.rto, |srtt| srtt * 2)
}

/// Agent that negotiates its rate by messages.
#[derive(Clone, Debug)]
pub struct RateRequester {
    state: Requester,
    /// Payload fraction of a full packet on the wire. The network counts wire bytes; a scheme counts payload only.
    share: f64,
    segment: u64,
    /// Wire size of a full packet.
    packet: u64,
}

impl RateRequester {
    /// An agent that has not sent anything yet, for a sender with these constants.
    pub fn new(config: &NegotiationConfig, setup: &RateSetup) -> Self {
        let share = payload_share(setup, Explicit::Nodectl);
        Self {
            state: Requester::new(config, setup.line, share),
            share,
            segment: u64::from(setup.segment),
            packet: u64::from(setup.segment) + u64::from(setup.data_header),
        }
    }

    /// Requests the granted rate again every `refresh`, for nodes that do not observe the data and would delete the
    /// record of a silent flow. If repetitions get no answer, the nodes have failed: the rate is withdrawn, and the
    /// next requests follow after 1, 2, 4 and 8 s, then every 10 s.
    #[must_use]
    pub fn refreshed(mut self, refresh: Nanos) -> Self {
        self.state.set_refresh(refresh);
        self
    }

    /// Converts an update into advice for the scheme and a limit for the sender.
    fn follow(&mut self, sender: &SenderView, update: Update) -> RateOrders {
        let (limit, advice) = match update {
            Update::None => (None, None),
            Update::Rate(rate) => (Some(Limit::None), Some(Advice::Rate(self.payload_rate(rate)))),
            Update::Withdrawn => {
                let ends = self.state.ends;
                let limit = if ends < MOST { Limit::Paced(self.payload_rate(ends)) } else { Limit::None };
                (Some(limit), Some(Advice::Withdrawn))
            }
        };
        let state = &mut self.state;
        // A new or withdrawn rate restarts the usage review.
        if state.stage == Stage::Settled && (update != Update::None || state.review.at == Nanos::MAX) {
            let at = sender.now.saturating_add(timeout(sender) * (REVIEW / 2));
            state.review = Review { from: sender.now, sent: sender.wire_sent, at };
        }
        RateOrders { limit, advice, path: Some(state.path), refused: false }
    }

    /// Payload part of a wire rate.
    fn payload_rate(&self, wire: Rate) -> Rate {
        Rate::from_bytes_per_sec(((wire.as_bytes_per_sec() as f64 * self.share) as u64).max(1))
    }

    /// Whether the backlog exceeds the data of one round trip at the granted rate.
    fn has_backlog(&self, sender: &SenderView) -> bool {
        let Some(granted) = self.state.granted else { return false };
        let trip = granted.over(sender.srtt.unwrap_or(Nanos::ZERO)).as_u64().max(4 * self.segment);
        sender.backlog > trip
    }

    fn on_timer(&mut self, sender: &SenderView) -> RateOrders {
        let waits = self.has_backlog(sender);
        let state = &mut self.state;
        if sender.now >= state.review.at {
            if sender.repairing {
                // During loss recovery, losses may block all other data, so usage does not measure demand.
                state.review.at = Nanos::MAX;
            } else {
                let least = Bytes::new(LEAST * self.packet).per(timeout(sender) / 2);
                state.on_review(sender.now, sender.wire_sent, least, waits, self.packet);
            }
        }
        let update = state.on_timer(sender.now);
        self.follow(sender, update)
    }

    fn on_message(&mut self, sender: &SenderView, packet: &Packet) -> RateOrders {
        let update = match Message::decode(packet.message().as_bytes()) {
            // Messages outside an established connection have no effect.
            Ok(_) if !sender.established => Some(Update::None),
            Ok(message) => self.state.on_message(sender.now, timeout(sender), &message, packet.path()),
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
            RateEvent::Completed => self.state.end(sender.now, timeout(sender)),
            RateEvent::Resumed { idle } if idle >= LEASE && self.state.granted.is_some() => {
                self.state.request_anew();
            }
            RateEvent::Written if self.has_backlog(sender) => self.state.on_backlog(),
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
        let (message, path) =
            self.state.next_message(sender.now, sender.srtt.unwrap_or(Nanos::ZERO), timeout(sender))?;
        Some((ControlMessage::new(message.encode().as_bytes()), path))
    }

    fn blocks_data(&self) -> bool {
        self.state.blocks_data()
    }

    fn deadline(&self) -> Nanos {
        self.state.deadline()
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
    }
}
