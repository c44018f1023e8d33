//! Endpoints of explicit-rate protocols: agents for TCP senders and responders for receivers.

mod rate_headers;
mod requester;
mod responder;

use narrows_cc::Rate;
use narrows_packet::{ControlMessage, Packet, RawOption};
use narrows_tcp::rates::{RateAgent, RateResponder, RateSetup};
use narrows_tcp::{Receiver, Sender};

use self::rate_headers::{Echo, HeaderAgent};
pub use self::requester::RateRequester;
pub use self::responder::Responder;
use crate::negotiation::Id;
use crate::protocol::Explicit;

/// Identity and rate bounds of a connection in a network that negotiates rates. Rates are wire rates, headers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiationConfig {
    /// Content ID. Connections with the same content and destination are subflows of one transmission.
    pub content: u32,
    /// Destination ID.
    pub destination: u32,
    /// Subflow number within the transmission.
    pub subflow: u16,
    /// Number of the connection's paths through the network.
    pub paths: u8,
    /// Minimum acceptable rate.
    pub min: Rate,
    /// Maximum rate of the sender.
    pub max: Rate,
    /// Maximum rate of the receiver.
    pub receive: Rate,
}

impl Default for NegotiationConfig {
    fn default() -> Self {
        let most = Rate::from_bytes_per_sec(125_000_000_000);
        Self { content: 0, destination: 0, subflow: 0, paths: 1, min: Rate::ZERO, max: most, receive: most }
    }
}

impl NegotiationConfig {
    /// The ID in the connection's messages.
    pub const fn id(&self) -> Id {
        Id { content: self.content, destination: self.destination, subflow: self.subflow }
    }
}

/// Payload fraction of a full packet on the wire.
fn payload_share(setup: &RateSetup, protocol: Explicit) -> f64 {
    let header = f64::from(setup.data_header) + f64::from(protocol.header_bytes());
    let payload = f64::from(setup.segment);
    payload / (payload + header)
}

/// Attaches the agent for the protocol of the sender's scheme, if any. Call this before the sender connects.
pub fn attach_sender(sender: &mut Sender, config: &NegotiationConfig) {
    let Some(protocol) = sender.scheme().rate_protocol().and_then(Explicit::named) else { return };
    let setup = sender.rate_setup();
    let agent: Box<dyn RateAgent> = match protocol {
        Explicit::Nodectl => Box::new(RateRequester::new(config, &setup)),
        Explicit::Rcp | Explicit::Xcp | Explicit::Brf => Box::new(HeaderAgent::new(protocol, &setup)),
    };
    sender.attach(agent);
}

/// Attaches the receiver side of all protocols.
pub fn attach_receiver(receiver: &mut Receiver, config: &NegotiationConfig) {
    receiver.attach(Box::new(Peer { echo: Echo::default(), responder: Responder::new(config) }));
}

/// Receiver side of all protocols.
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
