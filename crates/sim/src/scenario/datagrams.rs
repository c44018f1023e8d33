//! Flows that carry datagrams: which ones do, and their transport's settings.

use narrows_cc::{EXPERIMENTAL_CCID, Params, schemes};
use narrows_dccp::connection::Overflow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choice::table;
use super::fault::Fault;
use super::schema::{Flow, Protocol, Scenario};

/// What happens to a datagram for which the sender's queue has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverflowKind {
    /// It takes the place of the oldest.
    #[default]
    DropOldest,
    /// It is refused.
    DropNewest,
}

table! {
    /// Settings of DCCP.
    #[derive(Default)]
    Dccp {
        ; // optional:
        /// The most payload of a datagram, in bytes (1448).
        datagram_bytes: u16,
        /// Packets of data per acknowledgement (2).
        ack_ratio: u16,
        /// 24-bit sequence numbers where they will do (false).
        short_sequence_numbers: bool,
        /// How many numbers ahead are valid, at first (1000).
        sequence_window: u64,
        /// Datagrams that wait at the sender (256).
        queue: u32,
        /// What happens when it is full: drop-oldest or drop-newest (drop-oldest).
        overflow: OverflowKind,
        /// ECN (true).
        ecn: bool,
        /// Initial window in datagrams (3).
        initial_window: u32,
    }
}

/// What carries a flow: what it says, else what its scheme is made for.
pub(super) fn protocol(flow: &Flow, scheme: &schemes::Entry) -> Protocol {
    let made_for_datagrams = scheme.ccid != EXPERIMENTAL_CCID;
    flow.protocol.unwrap_or(if made_for_datagrams { Protocol::Dccp } else { Protocol::Tcp })
}

/// The settings of the sending end of entry `index`, if datagrams carry it.
pub(super) fn settings(
    scenario: &Scenario,
    index: usize,
    scheme: &'static schemes::Entry,
    params: &Params,
) -> Result<Option<narrows_dccp::Config>, Fault> {
    let flow = &scenario.flows[index];
    let key = |name: &str| format!("flows.{index}.{name}");
    if protocol(flow, scheme) != Protocol::Dccp {
        return match &flow.dccp {
            Some(_) => Err(Fault::new(key("dccp"), "this flow is not carried by DCCP")
                .accepted("this table with protocol = \"dccp\", or no such table")),
            None => Ok(None),
        };
    }
    let cannot = |name: &str, why: &str, accepted: &str| Err(Fault::new(key(name), why).accepted(accepted));
    if flow.tcp.is_some() {
        return cannot("tcp", "this flow is carried by DCCP", "its settings in the table `dccp`");
    }
    if flow.subflows.is_some() {
        return cannot("subflows", "this flow is carried by DCCP", "one way, or protocol = \"tcp\"");
    }
    if scheme.explicit.is_some() {
        let why = format!("the header of `{}` exists for TCP only", scheme.info.name);
        return Err(Fault::new(key("protocol"), why).accepted("tcp"));
    }
    if scheme.coupled {
        let why = format!("`{}` couples subflows, which DCCP does not have", scheme.info.name);
        return Err(Fault::new(key("protocol"), why).accepted("tcp"));
    }
    let default = narrows_dccp::Config::default();
    let (own, common) = (flow.dccp.clone().unwrap_or_default(), &scenario.dccp);
    let name = |field: &str, in_own: bool| {
        if in_own { key(&format!("dccp.{field}")) } else { format!("dccp.{field}") }
    };
    macro_rules! within {
        ($field:ident, $range:expr, $default:expr) => {{
            let stated = own.$field.or(common.$field);
            match stated {
                Some(value) if !$range.contains(&value) => {
                    return Err(Fault::new(
                        name(stringify!($field), own.$field.is_some()),
                        format!("`{value}` is out of range"),
                    )
                    .accepted(format!("{} to {}", $range.start(), $range.end())));
                }
                _ => stated.unwrap_or($default),
            }
        }};
    }
    Ok(Some(narrows_dccp::Config {
        scheme,
        params: params.clone(),
        datagram: within!(datagram_bytes, 1..=65_000, DATAGRAM),
        ack_ratio: within!(ack_ratio, 1..=1_000, default.ack_ratio),
        sequence_window: within!(sequence_window, 32..=(1u64 << 46) - 1, default.sequence_window),
        queue: within!(queue, 1..=1_000_000, default.queue as u32) as usize,
        initial_window: within!(initial_window, 1..=10_000, default.initial_window),
        short: own.short_sequence_numbers.or(common.short_sequence_numbers).unwrap_or(false),
        ecn: own.ecn.or(common.ecn).unwrap_or(true),
        overflow: match own.overflow.or(common.overflow).unwrap_or_default() {
            OverflowKind::DropOldest => Overflow::DropOldest,
            OverflowKind::DropNewest => Overflow::DropNewest,
        },
        ..default
    }))
}

/// The payload of a full TCP segment, so that packets of both have nearly the same size.
const DATAGRAM: u16 = 1448;
