//! Hosts, and the addresses, ports and connection settings of flows.

use std::collections::BTreeMap;

use narrows_packet::HEADER_BYTES;
use narrows_scenario::{FlowPlan, Plan};
use narrows_tcp::multipath::MAPPING_BYTES;
use narrows_units::Random;

use crate::pcapng::Interface;

/// The first port of senders, and the number of ports for senders (RFC 6335 section 6).
const EPHEMERAL: u16 = 49_152;
const PORTS: u32 = 1 << 14;
/// Bytes of the IP and TCP headers without options.
const BARE_HEADER: u16 = 40;
/// Largest window scale (RFC 7323 section 2.3).
const MAX_SCALE: u8 = 14;
/// Maximum number of flows listed in the description of an interface.
const LISTED: usize = 8;

/// One endpoint of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Number of the host and of its interface.
    pub(crate) host: u32,
    pub(crate) address: [u8; 4],
    pub(crate) port: u16,
    /// Sequence number of the endpoint's SYN.
    pub(crate) isn: u32,
}

/// Properties of a flow that are visible in its packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) sender: End,
    pub(crate) receiver: End,
    /// Maximum segment size (RFC 9293 section 3.7.1): bytes of payload and options.
    pub(crate) mss: u16,
    pub(crate) scale: u8,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
}

/// A host and the labels of its flows.
#[derive(Debug)]
struct Host {
    address: [u8; 4],
    sends: bool,
    flows: Vec<String>,
    /// Number of flows that are not listed.
    further: usize,
}

impl Host {
    fn describe(&self) -> String {
        let further = if self.further > 0 { format!(" and {} more", self.further) } else { String::new() };
        format!("{}{further}", self.flows.join(", "))
    }
}

/// All hosts and flows of a run.
#[derive(Debug)]
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    flows: Vec<Flow>,
}

impl Hosts {
    /// Creates the hosts in the order of the flows; the sender's host comes first.
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut hosts: Vec<Host> = Vec::new();
        let (mut numbers, mut ports) = (BTreeMap::new(), BTreeMap::new());
        let mut mapped = vec![0; plan.flows.len()];
        let mut windows: Vec<u64> = plan.flows.iter().map(|flow| flow.tcp.receive_window.as_u64()).collect();
        for connection in &plan.connections {
            let own = connection.first..connection.first + connection.subflows;
            mapped[own.clone()].fill(MAPPING_BYTES);
            windows[own].fill(connection.receive_window.as_u64());
        }
        let flow = |(number, flow): (usize, &FlowPlan)| {
            let tuple = flow.tuple;
            let mut random = Random::stream(plan.seed, "isn", number as u64);
            let mut end = |address: u32, port, sends| {
                let host = *numbers.entry(address).or_insert_with(|| {
                    let address = address.to_be_bytes();
                    hosts.push(Host { address, sends, flows: Vec::new(), further: 0 });
                    hosts.len() as u32 - 1
                });
                let own = &mut hosts[host as usize];
                if own.flows.len() < LISTED {
                    own.flows.push(flow.label.clone());
                } else {
                    own.further += 1;
                }
                End { host, address: address.to_be_bytes(), port, isn: random.bits() as u32 }
            };
            // Flows between the same addresses need different ports, even if different scenario entries state
            // these addresses.
            let used: &mut u32 = ports.entry((tuple.source, tuple.destination, tuple.destination_port)).or_default();
            let port = EPHEMERAL + (*used % PORTS) as u16;
            *used += 1;
            let options = flow.tcp.header.saturating_sub(BARE_HEADER) + mapped[number];
            Flow {
                sender: end(tuple.source, port, true),
                receiver: end(tuple.destination, tuple.destination_port, false),
                mss: flow.tcp.segment.saturating_add(options),
                scale: scale(windows[number]),
                sack: flow.tcp.sack,
                timestamps: flow.tcp.header >= HEADER_BYTES,
            }
        };
        let flows = plan.flows.iter().enumerate().map(flow).collect();
        Self { hosts, flows }
    }

    /// The interfaces in the order of their numbers.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = Interface> + '_ {
        let mut given = [0; 2];
        self.hosts.iter().map(move |host| {
            let number: &mut u32 = &mut given[usize::from(host.sends)];
            *number += 1;
            let role = if host.sends { "sender" } else { "receiver" };
            Interface { name: format!("{role}-{number}"), description: host.describe(), address: host.address }
        })
    }

    /// The flow with this number.
    pub(crate) fn flow(&self, number: u32) -> &Flow {
        &self.flows[number as usize]
    }
}

/// The smallest window scale with which a 16-bit field can express the window (RFC 7323 section 2.2).
fn scale(window: u64) -> u8 {
    (0..MAX_SCALE).find(|&scale| window >> scale <= u64::from(u16::MAX)).unwrap_or(MAX_SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chosen scale is the smallest that can express the window; a window of 1 GiB needs the largest scale.
    #[test]
    fn scale_is_the_least_that_expresses_the_window() {
        for (window, expected) in [(0, 0), (65_535, 0), (65_536, 1), (64 << 20, 11), (1 << 30, 14), (u64::MAX, 14)] {
            assert_eq!(scale(window), expected, "{window}");
        }
    }
}
