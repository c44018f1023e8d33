//! Interface between a sender and its rate agent.

use narrows_cc::{Advice, Nanos};
use narrows_packet::{Flags, Packet};

use super::subflow::data_header;
use super::{Pending, Sender, State};
use crate::rates::{RateAgent, RateEvent, RateOrders, RateReply, RateSetup, SenderView};

impl Sender {
    /// The constants of this sender for its agent.
    pub fn rate_setup(&self) -> RateSetup {
        RateSetup {
            segment: self.config.segment,
            data_header: data_header(&self.config, &self.stream.app),
            line: self.scheme().line_rate(),
        }
    }

    /// Attaches an agent of an explicit-rate protocol. Must be called before the connection starts.
    pub fn attach(&mut self, agent: Box<dyn RateAgent>) {
        self.agent = Some(agent);
    }

    /// Passes the network's rate advice to the scheme. Call [`Sender::poll_transmit`] afterwards.
    pub fn on_advice(&mut self, now: Nanos, advice: Advice) {
        self.window.driver.rate_advice(now, advice);
        self.window.follow(self.mss());
    }

    fn view_for_agent(&self, now: Nanos) -> SenderView {
        SenderView {
            now,
            srtt: self.rtt.smoothed(),
            rto: self.rtt.rto(),
            cwnd: self.window.driver.control().cwnd,
            wire_sent: self.stats.bytes_sent + self.stats.data_packets_sent * u64::from(self.data_header()),
            backlog: self.stream.app_end.saturating_sub(self.stream.nxt) + self.stream.waiting,
            repairing: self.recovery.is_repairing(),
            established: self.state == State::Established,
        }
    }

    /// Writes the agent's option into an outgoing packet.
    #[inline]
    pub(super) fn write_option(&self, now: Nanos, packet: &mut Packet) {
        if let Some(agent) = &self.agent {
            let option = agent.option(&self.view_for_agent(now), packet.flags.has(Flags::SYN));
            packet.set_option(option);
        }
    }

    /// Passes an acknowledgement to the agent before the sender applies it.
    #[inline]
    pub(super) fn read_reply(&mut self, packet: &Packet, una: u64, nxt: u64) -> RateReply {
        let Some(agent) = &mut self.agent else { return RateReply::default() };
        let reply = agent.on_acknowledgement(packet, una, nxt);
        self.stats.stale_advice += u64::from(reply.stale);
        reply
    }

    /// Passes the advice in an acknowledgement to the scheme, after the sender has applied the acknowledgement.
    #[inline]
    pub(super) fn follow_reply(&mut self, now: Nanos, reply: RateReply) {
        if let Some(advice) = reply.advice {
            self.on_advice(now, advice);
        }
    }

    /// Reports an event to the agent and applies its orders.
    pub(super) fn report_to_agent(&mut self, now: Nanos, event: RateEvent<'_>) {
        if self.agent.is_none() {
            self.stats.messages_refused += u64::from(matches!(event, RateEvent::Message(_)));
            return;
        }
        let view = self.view_for_agent(now);
        let Some(agent) = &mut self.agent else { return };
        let RateOrders { limit, advice, path, refused } = agent.on_event(&view, event);
        if agent.has_message() {
            self.pending.add(Pending::MESSAGE);
        }
        self.stats.messages_refused += u64::from(refused);
        if let Some(limit) = limit {
            self.window.driver.set_limit(limit);
        }
        if let Some(path) = path {
            self.path = path;
        }
        if let Some(advice) = advice {
            self.on_advice(now, advice);
        }
    }

    #[inline]
    pub(super) fn agent_deadline(&self) -> Nanos {
        self.agent.as_ref().map_or(Nanos::MAX, |agent| agent.deadline())
    }

    /// Whether the agent blocks data.
    #[inline]
    pub(super) fn agent_blocks_data(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.blocks_data())
    }

    /// Whether there is data to send that the agent blocks.
    #[inline]
    pub(super) fn waits_for_rate(&self) -> bool {
        self.agent_blocks_data() && (self.stream.has_unsent() || self.board.has_lost())
    }

    /// Next control message.
    #[cold]
    pub(super) fn poll_message(&mut self, now: Nanos) -> Option<Packet> {
        let view = self.view_for_agent(now);
        let agent = self.agent.as_mut()?;
        let (message, path) = agent.poll_message(&view)?;
        if agent.has_message() {
            self.pending.add(Pending::MESSAGE);
        }
        self.stats.messages_sent += 1;
        let mut packet = Packet::control(self.flow, Flags::NONE, message.as_bytes());
        packet.set_path(path);
        Some(packet)
    }
}
