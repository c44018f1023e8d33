//! DCCP flows: the choice of transport, and its settings.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use narrows_cc::{Params, schemes};
use narrows_dccp::Ccid;
use narrows_dccp::connection::Overflow;
use narrows_traffic::AppConfig;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::app::app;
use crate::choice::{App, TextOr, table};
use crate::diagnostic::{Diagnostic, key_in};
use crate::flows;
use crate::quantity::Size;
use crate::schema::{Flow, ParamValue, Protocol};

/// Overflow policy of the sender's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverflowKind {
    /// Drops the oldest datagram.
    #[default]
    DropOldest,
    /// Drops the new datagram.
    DropNewest,
}

/// A whole number from `LEAST` to `MOST`, checked when it is parsed, even if no flow uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Within<const LEAST: u64, const MOST: u64>(u64);

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Within<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WithinVisitor)
    }
}

struct WithinVisitor<const LEAST: u64, const MOST: u64>;

impl<const LEAST: u64, const MOST: u64> Visitor<'_> for WithinVisitor<LEAST, MOST> {
    type Value = Within<LEAST, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {LEAST} to {MOST}")
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        if (LEAST..=MOST).contains(&value) { Ok(Within(value)) } else { Err(beyond(value, LEAST, MOST)) }
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        u64::try_from(value).map_or_else(|_| Err(beyond(value, LEAST, MOST)), |value| self.visit_u64(value))
    }
}

fn beyond<E: de::Error>(found: impl fmt::Display, least: u64, most: u64) -> E {
    E::custom(format!("`{found}` is out of range\n  accepted: {least} to {most}"))
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for Within<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("From{LEAST}To{MOST}").into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LEAST, "maximum": MOST })
    }
}

table! {
    /// Settings of DCCP.
    #[derive(Default)]
    Dccp {
        ; // optional:
        /// Greatest payload of a datagram in bytes (1448).
        datagram_bytes: Within<1, 65_000>,
        /// Ack Ratio: data packets per acknowledgement (2).
        ack_ratio: Within<1, 1_000>,
        /// 24-bit sequence numbers where possible (false).
        short_sequence_numbers: bool,
        /// Initial Sequence Window in packets (1000).
        sequence_window: Within<32, { (1 << 46) - 1 }>,
        /// Capacity of the sender's queue in datagrams (256).
        queue: Within<1, 1_000_000>,
        /// Overflow policy of the sender's queue: drop-oldest or drop-newest (drop-oldest).
        overflow: OverflowKind,
        /// ECN (true).
        ecn: bool,
        /// Initial window in datagrams (3). RFC 3390 limits CCID 2 to between 2 and 4 datagrams, by their
        /// size. CCID 3 has an initial rate instead (RFC 5348 section 4.2).
        initial_window: Within<1, 10_000>,
    }
}

/// The transport of a flow: the stated one, or by default the one that its scheme is designed for.
pub(crate) fn protocol(flow: &Flow, scheme: &schemes::Entry) -> Protocol {
    let made_for_datagrams = Ccid::of(scheme) != Ccid::Other;
    flow.protocol.unwrap_or(if made_for_datagrams { Protocol::Dccp } else { Protocol::Tcp })
}

/// Reason why DCCP cannot carry flows of this scheme, if any.
fn unable(scheme: &schemes::Entry) -> Option<&'static str> {
    if scheme.rate_protocol.is_some() {
        Some("its header exists for TCP only")
    } else {
        scheme.coupled.then_some("it couples subflows, which DCCP does not have")
    }
}

/// Names of the schemes that DCCP can carry.
pub(crate) fn carried() -> impl Iterator<Item = &'static str> + Clone {
    schemes::ALL
        .iter()
        .filter(|entry| unable(entry).is_none())
        .flat_map(|entry| [entry.info.name].into_iter().chain(entry.info.aliases.iter().copied()))
}

/// Settings of the DCCP sender of the flow in `table`; `None` for other transports.
pub(crate) fn settings(
    common: &Dccp,
    flow: &Flow,
    table: &str,
    scheme: &'static schemes::Entry,
    params: &Params,
) -> Result<Option<narrows_dccp::Config>, Diagnostic> {
    let key = |name: &str| key_in(table, name);
    if protocol(flow, scheme) != Protocol::Dccp {
        return match &flow.dccp {
            Some(_) => Err(Diagnostic::new(key("dccp"), "this flow is not carried by DCCP")
                .accepted("protocol = \"dccp\", or omit this table")),
            None => Ok(None),
        };
    }
    let cannot =
        |name: &str, why: &str, accepted: &str| Err(Diagnostic::new(key(name), why).accepted(accepted));
    if flow.tcp.is_some() {
        return cannot("tcp", "this flow is carried by DCCP", "settings in the table `dccp`");
    }
    if flow.subflows.is_some() {
        return cannot("subflows", "this flow is carried by DCCP", "one path, or protocol = \"tcp\"");
    }
    config(common, flow.dccp.as_ref(), table, scheme, params).map(Some)
}

/// DCCP settings: those of the table `dccp` in `table`, else the common ones, else the defaults of DCCP.
fn config(
    common: &Dccp,
    own: Option<&Dccp>,
    table: &str,
    scheme: &'static schemes::Entry,
    params: &Params,
) -> Result<narrows_dccp::Config, Diagnostic> {
    let key = |name: &str| key_in(table, name);
    if let Some(why) = unable(scheme) {
        return Err(Diagnostic::new(
            key("scheme"),
            format!("DCCP cannot carry `{}`: {why}", scheme.info.name),
        )
        .accepted(carried().collect::<Vec<_>>().join(", ")));
    }
    let default = narrows_dccp::Config::default();
    let own = own.cloned().unwrap_or_default();
    macro_rules! stated {
        ($field:ident, $default:expr) => {
            own.$field.or(common.$field).unwrap_or($default)
        };
    }
    // Ranges fit the types that they become.
    macro_rules! number {
        ($field:ident, $default:expr) => {
            own.$field.or(common.$field).map_or($default, |within| within.0 as _)
        };
    }
    let (queue, datagram) = (number!(queue, default.queue), number!(datagram_bytes, DATAGRAM));
    let waiting = queue as u64 * u64::from(datagram);
    if waiting > MOST_WAITING {
        let place = if own.queue.is_some() { key("dccp.queue") } else { "dccp.queue".to_owned() };
        let found = format!("{queue} datagrams of {datagram} B are {:.1} GB", waiting as f64 / 1e9);
        let accepted = format!("at most {} of this size, which are 2 GB", MOST_WAITING / u64::from(datagram));
        return Err(Diagnostic::new(place, found).accepted(accepted));
    }
    Ok(narrows_dccp::Config {
        scheme,
        params: params.clone(),
        datagram,
        ack_ratio: number!(ack_ratio, default.ack_ratio),
        sequence_window: number!(sequence_window, default.sequence_window),
        queue,
        initial_window: number!(initial_window, default.initial_window),
        short: stated!(short_sequence_numbers, false),
        ecn: stated!(ecn, true),
        overflow: match stated!(overflow, OverflowKind::default()) {
            OverflowKind::DropOldest => Overflow::DropOldest,
            OverflowKind::DropNewest => Overflow::DropNewest,
        },
        ..default
    })
}

/// Limit of one sender's queue in bytes. More is certainly a mistake and exceeds the memory of most machines.
const MOST_WAITING: u64 = 2_000_000_000;

/// The payload of a full TCP segment, so that packets of both have nearly the same size.
const DATAGRAM: u16 = 1448;

table! {
    /// A flow of datagrams by itself, as real sockets send it: those keys of a scenario's flow that need no
    /// network.
    DatagramFlow {
        /// The congestion control scheme, with parameters after a colon.
        scheme: String,
        ; // optional:
        /// Parameters of the scheme.
        params: BTreeMap<String, ParamValue>,
        /// A file of this size instead of bulk data.
        size: Size,
        /// The application (bulk).
        app: TextOr<App>,
        /// Settings of DCCP.
        dccp: Dccp,
    }
}

/// A DCCP flow, checked.
#[derive(Clone, Debug)]
pub struct DatagramPlan {
    /// Settings of the sender.
    pub config: narrows_dccp::Config,
    /// The application.
    pub app: AppConfig,
    /// Length of the sender's queue, if stated.
    pub queue: Option<usize>,
}

impl DatagramFlow {
    pub(crate) fn plan(&self) -> Result<DatagramPlan, Diagnostic> {
        let (scheme, params) = flows::scheme(&self.scheme, self.params.as_ref(), Some(Protocol::Dccp), "")?;
        let config = config(&Dccp::default(), self.dccp.as_ref(), "", scheme, &params)?;
        let app = app(self.size.as_ref(), self.app.as_ref().map(|app| &app.0), "", config.datagram)?;
        let stated = self.dccp.as_ref().is_some_and(|own| own.queue.is_some());
        Ok(DatagramPlan { queue: stated.then_some(config.queue), config, app })
    }
}
