//! DCCP flows: their settings, and flows of real sockets.

use std::collections::BTreeMap;

use narrows_cc::{Params, schemes};
use narrows_dccp::connection::Overflow;
use narrows_traffic::AppConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::{App, app};
use crate::diagnostic::{Diagnostic, key_in, refuse};
use crate::params;
use crate::quantity::Size;
use crate::schema::Flow;
use crate::schema::dccp::{Dccp, OverflowKind};
use crate::schema::short::TextOr;
use crate::schema::table::table;
use crate::schema::value::{ParamValue, Protocol};
use crate::transport::{carried, protocol, unable};

/// Resolves the DCCP settings of the flow in `table`; `None` for other transports.
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
            Some(_) => {
                refuse(key("dccp"), "this flow is not carried by DCCP", "protocol = \"dccp\", or omit this table")
            }
            None => Ok(None),
        };
    }
    let cannot = |name: &str, why: &str, accepted: &str| refuse(key(name), why, accepted);
    if flow.tcp.is_some() {
        return cannot("tcp", "this flow is carried by DCCP", "settings in the table `dccp`");
    }
    if flow.subflows.is_some() {
        return cannot("subflows", "this flow is carried by DCCP", "one path, or protocol = \"tcp\"");
    }
    config(common, flow.dccp.as_ref(), table, scheme, params).map(Some)
}

/// Resolves the DCCP settings of a flow: each from the table `dccp` in `table`, else from the common table,
/// else DCCP's default.
fn config(
    common: &Dccp,
    own: Option<&Dccp>,
    table: &str,
    scheme: &'static schemes::Entry,
    params: &Params,
) -> Result<narrows_dccp::Config, Diagnostic> {
    let key = |name: &str| key_in(table, name);
    if let Some(why) = unable(scheme) {
        let message = format!("DCCP cannot carry `{}`: {why}", scheme.info.name);
        return refuse(key("scheme"), message, carried().collect::<Vec<_>>().join(", "));
    }
    let default = narrows_dccp::Config::default();
    let own = own.cloned().unwrap_or_default();
    macro_rules! stated {
        ($field:ident, $default:expr) => {
            own.$field.or(common.$field).unwrap_or($default)
        };
    }
    // Each key's range fits the type of its setting, so the casts cannot truncate.
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
        return refuse(place, found, accepted);
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

/// Largest size of a sender's queue in bytes. A larger size is certainly a mistake and exceeds the memory of
/// most machines.
const MOST_WAITING: u64 = 2_000_000_000;

/// The default datagram size: the payload of a full TCP segment, so that DCCP and TCP packets have nearly the
/// same size.
const DATAGRAM: u16 = 1448;

table! {
    /// A datagram flow of real sockets: the keys of a scenario's flow that need no network.
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

/// A checked DCCP flow.
#[derive(Clone, Debug)]
pub struct DatagramPlan {
    /// Settings of the sender.
    pub config: narrows_dccp::Config,
    /// The application.
    pub app: AppConfig,
    /// Length of the sender's queue, if the scenario states it.
    pub queue: Option<usize>,
}

impl DatagramFlow {
    pub(crate) fn plan(&self) -> Result<DatagramPlan, Diagnostic> {
        let (scheme, params) = params::scheme(&self.scheme, self.params.as_ref(), Some(Protocol::Dccp), None, "")?;
        let config = config(&Dccp::default(), self.dccp.as_ref(), "", scheme, &params)?;
        let app = app(self.size.as_ref(), self.app.as_ref().map(|app| &app.0), "", config.datagram)?;
        let stated = self.dccp.as_ref().is_some_and(|own| own.queue.is_some());
        Ok(DatagramPlan { queue: stated.then_some(config.queue), config, app })
    }
}
