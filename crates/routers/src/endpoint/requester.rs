//! The rate requester: the server's process of Nodectl (Algorithm 3 of the paper): asks for a rate before data flows, and follows what nodes
//! say afterwards.
//!
//! * The request leaves when the handshake is over. Without an answer it is repeated after twice the round-trip time, then
//!   with twice the patience each time. After four requests data flows without a rate (the scheme knows how), and a
//!   request is sent again every 10 s. The same where the answer says that no node took part. The limits that the ends have
//!   stated still hold then: data is paced no faster.
//! * An answer belongs to a request if it repeats its Rtt. The message has no sequence number, so the three lowest bits of
//!   the Rtt, in microseconds, count requests. Only the answer to the last request counts, and only once.
//! * Failure: the next of the flow's ways is asked, and after the last one the first again when 1 s is over. No data
//!   flows meanwhile. Where a rate had been granted on this way, only the change failed and the rate stands.
//! * Reduce: the smaller of Speed and the rate, also of the rate that an answer under way will bring; as the node may have
//!   said so before it met the request, that rate is then asked for again. If that is below Min (a hot
//!   node) and there are other ways, these are asked while data flows on at the reduced rate; the way changes with the first
//!   that grants Min. If none does they are asked again every 1 s.
//! * Increase: a request for Speed, unless one is under way; the node will repeat it.
//! * When no other reduction has come for eight round-trip times after one, it asks for the rate it has now, so that the
//!   other nodes on the way learn of it; otherwise they would keep for it what it may not use. (The paper leaves open how
//!   they learn.)
//! * Nodes speak to every server at times. One that hears nothing for 10 s asks for all it may while data flows on; if no
//!   node answers any more it is on its own, so that flows granted a rate by nodes that died do not hold it for ever.
//! * Max is what the server can provide, and its line carries. If for eight round-trip times it could have done with less,
//!   by a hundredth of its rate and more than a packet, it asks for a twentieth more than it sent, two packets per round
//!   trip at least; as soon as more waits than a round trip's worth, it asks for all it may.
//! * When nothing has been sent for 5 s, nodes may have forgotten the flow: it asks before it goes on.
//! * The termination leaves when everything is acknowledged, and again after twice the round-trip time, for nobody
//!   acknowledges it; nodes have a time-out if both are lost.
//! * Messages that speak of another ID, come unasked, grant more than was asked or cannot be read are counted and ignored.

mod state;

use narrows_cc::{Advice, Bytes, Limit, Nanos, Rate};
use narrows_packet::{ControlMessage, Packet};
use narrows_tcp::rates::{RateAgent, RateEvent, RateOrders, RateSetup, SenderView};

use self::state::{LEAST, News, REVIEW, Requester, Review, Stage};
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

    /// Translates news into the advice for the scheme and the limit for the sender.
    fn follow(&mut self, sender: &SenderView, news: News) -> RateOrders {
        let (limit, advice) = match news {
            News::None => (None, None),
            News::Rate(rate) => (Some(Limit::None), Some(Advice::Rate(self.payload_rate(rate)))),
            News::Withdrawn => {
                let ends = self.state.ends;
                let limit = if ends < MOST { Limit::Paced(self.payload_rate(ends)) } else { Limit::None };
                (Some(limit), Some(Advice::Rate(Rate::ZERO)))
            }
        };
        let state = &mut self.state;
        // A new rate begins a new look at its use, and so does the end of one.
        if state.stage == Stage::Settled && (news != News::None || state.review.at == Nanos::MAX) {
            let at = sender.now.saturating_add(patience(sender) * (REVIEW / 2));
            state.review = Review { from: sender.now, sent: sender.wire_sent, at };
        }
        RateOrders { limit, advice, path: Some(state.way), refused: false }
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
        let news = state.on_timer(sender.now);
        self.follow(sender, news)
    }

    fn on_message(&mut self, sender: &SenderView, packet: &Packet) -> RateOrders {
        let news = match Message::decode(packet.message().as_bytes()) {
            // Late messages have done their duty.
            Ok(_) if !sender.established => Some(News::None),
            Ok(message) => self.state.on_message(sender.now, patience(sender), &message, packet.path()),
            Err(_) => None,
        };
        match news {
            Some(news) => self.follow(sender, news),
            None => RateOrders { refused: true, ..RateOrders::default() },
        }
    }
}

impl RateAgent for RateRequester {
    fn on_event(&mut self, sender: &SenderView, event: RateEvent<'_>) -> RateOrders {
        match event {
            RateEvent::Established => self.state.ask(0, self.state.max),
            RateEvent::Completed => self.state.end(sender.now, patience(sender)),
            RateEvent::Resumed { idle } if idle >= LEASE && self.state.granted.is_some() => {
                self.state.ask_anew();
            }
            RateEvent::Written if self.more_waits(sender) => self.state.on_backlog(),
            RateEvent::Resumed { .. } | RateEvent::Written => return RateOrders::default(),
            RateEvent::Message(packet) => return self.on_message(sender, packet),
            RateEvent::Timer => return self.on_timer(sender),
        }
        self.follow(sender, News::None)
    }

    fn has_message(&self) -> bool {
        self.state.has_messages()
    }

    fn poll_message(&mut self, sender: &SenderView) -> Option<(ControlMessage, u8)> {
        let (message, way) = self.state.next_message(sender.now, sender.srtt, patience(sender))?;
        Some((ControlMessage::new(message.encode().as_bytes()), way))
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
