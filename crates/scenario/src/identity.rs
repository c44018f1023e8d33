//! Identity of a connection in the network: addresses, ports, and the rate request of schemes that negotiate.

use core::net::Ipv4Addr;

use narrows_routers::{FiveTuple, NegotiationConfig};

use crate::diagnostic::{Diagnostic, refuse};
use crate::keys;
use crate::schema::{Flow, Protocol, Scenario};

/// The identity of the connections of an entry of `flows`.
pub(crate) struct Identity {
    tuple: FiveTuple,
    negotiation: NegotiationConfig,
    /// Whether the entry states `content`; otherwise each connection is a separate transmission.
    stated: bool,
}

/// Default networks of senders and of receivers; each entry gets a network of each kind.
const SENDERS: u32 = 10 << 24;
const RECEIVERS: u32 = (10 << 24) | (128 << 16);
/// The default port of receivers.
const PORT: u16 = 5001;
/// The first port of senders (RFC 6335 section 6).
const EPHEMERAL: u16 = 49_152;
/// The first content number for flows that state no `content`.
const OWN_CONTENT: u32 = 1 << 31;

fn address(key: String, text: &str) -> Result<u32, Diagnostic> {
    text.parse::<Ipv4Addr>().map(u32::from).map_err(|_| {
        Diagnostic::new(key, format!("`{text}` is not an address")).accepted("an IPv4 address such as 10.0.0.1")
    })
}

impl Identity {
    pub(crate) fn new(scenario: &Scenario, index: usize, paths: usize, protocol: Protocol) -> Result<Self, Diagnostic> {
        let flow = &scenario.flows[index];
        let key = |name: &str| format!("flows.{index}.{name}");
        let host = |network: u32, entry: usize| network + ((entry as u32) << 8) + 1;
        // Flows with the same content are subflows of one transmission, so all of them use the receiver of the
        // first entry with this content.
        let same = |other: &Flow| other.content.is_some() && other.content == flow.content;
        let home = scenario.flows.iter().position(same).unwrap_or(index);
        let source = match &flow.source {
            Some(text) => address(key("source"), text)?,
            None => host(SENDERS, index),
        };
        let destination = match &flow.destination {
            Some(text) => address(key("destination"), text)?,
            None => host(RECEIVERS, home),
        };
        let tuple = FiveTuple {
            source,
            destination,
            source_port: EPHEMERAL,
            destination_port: flow.port.unwrap_or(PORT),
            protocol: match protocol {
                Protocol::Tcp => FiveTuple::TCP,
                Protocol::Udp => FiveTuple::UDP,
                Protocol::Dccp => FiveTuple::DCCP,
            },
        };
        let default = NegotiationConfig::default();
        let rate = |name: &str, stated: &Option<_>, default| match stated {
            Some(rate) => keys::rate(&key(name), rate),
            None => Ok(default),
        };
        let min = rate("min_rate", &flow.min_rate, default.min)?;
        let max = rate("max_rate", &flow.max_rate, default.max)?;
        let receive = rate("receive_rate", &flow.receive_rate, default.receive)?;
        if min > max {
            return refuse(key("min_rate"), "`min_rate` exceeds `max_rate`", "at most max_rate");
        }
        if let Some(content) = flow.content
            && content >= OWN_CONTENT
        {
            let message = format!("`{content}` is out of range");
            return refuse(key("content"), message, format!("a whole number below {OWN_CONTENT}"));
        }
        let negotiation = NegotiationConfig {
            content: flow.content.unwrap_or_default(),
            destination,
            subflow: 0,
            paths: paths as u8,
            min,
            max,
            receive,
        };
        Ok(Self { tuple, negotiation, stated: flow.content.is_some() })
    }

    /// Addresses and ports of connection number `nth` of the entry.
    pub(crate) fn tuple(&self, nth: usize) -> FiveTuple {
        let port = EPHEMERAL + (nth % usize::from(u16::MAX - EPHEMERAL + 1)) as u16;
        FiveTuple { source_port: port, ..self.tuple }
    }

    /// Rate request of the run's flow number `flow`, which is subflow number `subflow` of its connection.
    /// `before` contains the requests of the flows before it.
    pub(crate) fn negotiation(&self, flow: usize, subflow: usize, before: &[NegotiationConfig]) -> NegotiationConfig {
        if !self.stated {
            let content = OWN_CONTENT + (flow - subflow) as u32;
            return NegotiationConfig { content, subflow: subflow as u16, ..self.negotiation };
        }
        let same = |other: &&NegotiationConfig| {
            (other.content, other.destination) == (self.negotiation.content, self.negotiation.destination)
        };
        NegotiationConfig { subflow: before.iter().filter(same).count() as u16, ..self.negotiation }
    }
}
