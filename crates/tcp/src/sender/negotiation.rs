//! The server's process of Nodectl (Algorithm 3 of the paper): asks for a rate before data flows, and follows what nodes
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

mod server;

use narrows_cc::{Advice, Bytes, Limit, Nanos, Rate};
use narrows_net::allocator::negotiation::{LEASE, MOST, Message};
use narrows_net::packet::{Flags, Packet};

pub(super) use self::server::Server;
use self::server::{LEAST, News, REVIEW, Review, Stage};
use super::{Pending, Sender, State};

impl Sender {
    /// Twice the round-trip time, or what stands for it before the first sample.
    fn patience(&self) -> Nanos {
        if self.rtt.srtt.is_zero() { self.rtt.rto() } else { self.rtt.srtt * 2 }
    }

    /// Tells the scheme, and sees to it that messages leave.
    fn follow(&mut self, now: Nanos, news: News) {
        match news {
            News::None => {}
            News::Rate(rate) => {
                self.window.driver.set_limit(Limit::None);
                self.on_advice(now, Advice::Rate(self.payload_rate(rate)));
            }
            News::Withdrawn => {
                let ends = self.server.as_ref().map_or(MOST, |server| server.ends);
                let limit = if ends < MOST { Limit::Paced(self.payload_rate(ends)) } else { Limit::None };
                self.window.driver.set_limit(limit);
                self.on_advice(now, Advice::Rate(Rate::ZERO));
            }
        }
        let (sent, wait) = (self.wire_sent(), self.patience() * (REVIEW / 2));
        if let Some(server) = &mut self.server {
            self.path = server.way;
            if server.has_messages() {
                self.pending.add(Pending::MESSAGE);
            }
            // A new rate begins a new look at its use, and so does the end of one.
            if server.stage == Stage::Settled && (news != News::None || server.review.at == Nanos::MAX) {
                server.review = Review { from: now, sent, at: now.saturating_add(wait) };
            }
        }
    }

    /// What is payload of a rate on the wire.
    fn payload_rate(&self, wire: Rate) -> Rate {
        let share = self.explicit.map_or(1.0, |explicit| self.payload_share(explicit));
        Rate::from_bytes_per_sec(((wire.as_bytes_per_sec() as f64 * share) as u64).max(1))
    }

    /// Bytes of data packets that have left, headers included.
    fn wire_sent(&self) -> u64 {
        self.stats.bytes_sent + self.stats.data_packets_sent * u64::from(self.data_header())
    }

    /// The application has written.
    pub(super) fn note_backlog(&mut self, now: Nanos) {
        if self.more_waits()
            && let Some(server) = &mut self.server
        {
            server.on_backlog();
            self.follow(now, News::None);
        }
    }

    /// Whether more waits than leaves in a round trip at the rate that was granted.
    fn more_waits(&self) -> bool {
        let Some(granted) = self.server.as_ref().and_then(|server| server.granted) else { return false };
        let trip = granted.over(self.rtt.srtt).as_u64().max(4 * u64::from(self.config.segment));
        self.stream.app_end.saturating_sub(self.stream.nxt) + self.stream.waiting > trip
    }

    /// The handshake is over.
    pub(super) fn begin_negotiation(&mut self, now: Nanos) {
        if let Some(server) = &mut self.server {
            server.ask(0, server.max);
            self.follow(now, News::None);
        }
    }

    /// Everything is acknowledged.
    pub(super) fn end_negotiation(&mut self, now: Nanos) {
        let patience = self.patience();
        if let Some(server) = &mut self.server {
            server.end(now, patience);
            self.follow(now, News::None);
        }
    }

    /// Sending resumes after a silence.
    pub(super) fn renew_negotiation(&mut self, now: Nanos, idle: Nanos) {
        if let Some(server) = &mut self.server
            && idle >= LEASE
            && server.granted.is_some()
        {
            server.ask_anew();
            self.follow(now, News::None);
        }
    }

    /// Whether data waits for a rate.
    #[inline]
    pub(super) fn waits_for_rate(&self) -> bool {
        let waits = self.server.as_ref().is_some_and(|server| server.holds());
        waits && (self.stream.has_unsent() || self.board.has_lost())
    }

    /// The time of the negotiation has come.
    pub(super) fn on_negotiation_timer(&mut self, now: Nanos) {
        let (sent, packet) =
            (self.wire_sent(), u64::from(self.config.segment) + u64::from(self.data_header()));
        let least = Bytes::new(LEAST * packet).per(self.patience() / 2);
        let (waiting, repairing) = (self.more_waits(), self.recovery.is_repairing());
        let Some(server) = &mut self.server else { return };
        if now < server.deadline() {
            return;
        }
        if now >= server.review.at {
            if repairing {
                // What is lost may hold up everything else: no measure for what it can use.
                server.review.at = Nanos::MAX;
            } else {
                server.on_review(now, sent, least, waiting, packet);
            }
        }
        let news = server.on_timer(now);
        self.follow(now, news);
    }

    /// A control message arrives.
    #[cold]
    pub(super) fn on_control(&mut self, now: Nanos, packet: &Packet) {
        let (bytes, len) = packet.message();
        let patience = self.patience();
        let news = match (&mut self.server, Message::decode(&bytes[..len])) {
            // What arrives late has done its duty.
            (Some(_), Ok(_)) if self.state != State::Established => Some(News::None),
            (Some(server), Ok(message)) => server.on_message(now, patience, &message, packet.path()),
            _ => None,
        };
        match news {
            Some(news) => self.follow(now, news),
            None => self.stats.messages_refused += 1,
        }
    }

    /// The next control message.
    #[cold]
    pub(super) fn poll_message(&mut self, now: Nanos) -> Option<Packet> {
        let (rtt, patience) = (self.rtt.srtt, self.patience());
        let server = self.server.as_mut()?;
        let (message, way) = server.next_message(now, rtt, patience)?;
        if server.has_messages() {
            self.pending.add(Pending::MESSAGE);
        }
        self.stats.messages_sent += 1;
        let mut packet = Packet::control(self.flow, Flags::NONE, message.encode().as_bytes());
        packet.set_path(way);
        Some(packet)
    }
}
