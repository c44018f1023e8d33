//! The endpoints of explicit-rate protocols: the agents that TCP senders carry, and the responders of their receivers.

mod headers;
mod requester;
mod responder;

use narrows_cc::Rate;
use narrows_packet::{ControlMessage, Packet, RawOption};
use narrows_tcp::rates::{RateAgent, RateResponder, RateSetup};
use narrows_tcp::{Receiver, Sender};

use self::headers::{Echo, HeaderAgent};
use self::requester::RateRequester;
use self::responder::Responder;
use crate::negotiation::Id;
use crate::protocol::Explicit;

/// The identity and the wishes of a connection, for networks that negotiate rates. Rates are those of the wire, headers
/// included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiationConfig {
    /// What is sent. Connections that send the same content to the same destination are subflows of one transmission.
    pub content: u32,
    /// Who gets it.
    pub destination: u32,
    /// Which subflow of the transmission it is.
    pub subflow: u16,
    /// How many paths it has through the network.
    pub paths: u8,
    /// The least rate at which it wants to send.
    pub min: Rate,
    /// The highest rate at which the sender can send.
    pub max: Rate,
    /// The highest rate that the receiver can take.
    pub receive: Rate,
}

impl Default for NegotiationConfig {
    fn default() -> Self {
        let most = Rate::from_bytes_per_sec(125_000_000_000);
        Self { content: 0, destination: 0, subflow: 0, paths: 1, min: Rate::ZERO, max: most, receive: most }
    }
}

impl NegotiationConfig {
    /// The ID in its messages.
    fn id(&self) -> Id {
        Id { content: self.content, destination: self.destination, subflow: self.subflow }
    }
}

/// How much of a full packet on the wire is payload.
fn payload_share(setup: &RateSetup, protocol: Explicit) -> f64 {
    let header = f64::from(setup.data_header) + f64::from(protocol.header_bytes());
    let payload = f64::from(setup.segment);
    payload / (payload + header)
}

/// Gives a sender the agent for the protocol of its scheme, if that has one, before it connects.
pub fn attach_sender(sender: &mut Sender, config: &NegotiationConfig) {
    let Some(protocol) = sender.scheme().rate_protocol().and_then(Explicit::named) else { return };
    let setup = sender.rate_setup();
    let agent: Box<dyn RateAgent> = match protocol {
        Explicit::Nodectl => Box::new(RateRequester::new(config, &setup)),
        Explicit::Rcp | Explicit::Xcp | Explicit::Brf => Box::new(HeaderAgent::new(protocol, &setup)),
    };
    sender.attach(agent);
}

/// Gives a receiver the part of the peer of such senders.
pub fn attach_receiver(receiver: &mut Receiver, config: &NegotiationConfig) {
    receiver.attach(Box::new(Peer { echo: Echo::default(), responder: Responder::new(config) }));
}

/// The receiver's part of all protocols.
#[derive(Clone, Debug)]
struct Peer {
    echo: Echo,
    responder: Responder,
}

impl RateResponder for Peer {
    fn on_option(&mut self, packet: &Packet) {
        self.echo.on_option(packet);
    }

    fn option(&mut self) -> Option<RawOption> {
        self.echo.option()
    }

    fn on_message(&mut self, packet: &Packet) -> bool {
        self.responder.on_packet(packet)
    }

    fn poll_message(&mut self) -> Option<(ControlMessage, u8)> {
        self.responder.poll()
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
    }
}
