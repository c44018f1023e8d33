//! Warnings about settings without effect: keys for a router algorithm that is missing on the path, and
//! settings of an unused transport.

use narrows_cc::schemes;
use narrows_dccp::Ccid;
use narrows_routers::protocol::Explicit;
use serde_json::{Map, Value};

use crate::diagnostic::Diagnostic;
use crate::flow_entry::FlowEntry;
use crate::schema::table::object;
use crate::schema::{Flow, Scenario};

/// Warnings about common settings of a transport that no flow uses.
pub(crate) fn transports(scenario: &Scenario, entries: &[FlowEntry]) -> Vec<Diagnostic> {
    let uses = |datagrams: bool| entries.iter().any(|entry| entry.kind.datagrams.is_some() == datagrams);
    let mut warnings = Vec::new();
    let mut unused = |table: &str, keys: Map<String, Value>, transport: &str| {
        warnings.extend(keys.keys().map(|key| {
            let key = format!("{table}.{key}");
            let message = format!("unused setting `{key}`: no flow uses {transport}");
            Diagnostic::new(key, message)
        }));
    };
    if !uses(false) {
        unused("tcp", object(&scenario.tcp), "TCP");
    }
    if !uses(true) {
        unused("dccp", object(&scenario.dccp), "DCCP");
    }
    warnings
}

/// Warning about an initial window that a DCCP flow does not use.
fn initial_window(scenario: &Scenario, index: usize, entry: &FlowEntry) -> Option<Diagnostic> {
    let stated = scenario.dccp.initial_window.is_some();
    let own = scenario.flows[index].dccp.as_ref().is_some_and(|own| own.initial_window.is_some());
    let datagrams = entry.kind.datagrams.as_ref().filter(|_| own || stated)?;
    let key = if own { format!("flows.{index}.dccp.initial_window") } else { "dccp.initial_window".to_owned() };
    let name = entry.kind.scheme.info.name;
    // RFC 4341 section 5: the initial window is that of RFC 3390, in packets.
    let most = (4_380 / u32::from(datagrams.datagram)).clamp(2, 4);
    match Ccid::of(entry.kind.scheme) {
        Ccid::TcpLike if datagrams.initial_window > most => {
            Some(Diagnostic::new(key, format!("{name} starts with at most {most} datagrams of this size (RFC 3390)")))
        }
        Ccid::Tfrc => {
            let message = format!("unused setting `dccp.initial_window`: {name} starts with a rate");
            Some(Diagnostic::new(key, message))
        }
        _ => None,
    }
}

/// Warnings about initial windows without effect.
pub(crate) fn initial_windows(scenario: &Scenario, entries: &[FlowEntry]) -> Vec<Diagnostic> {
    entries.iter().enumerate().filter_map(|(index, entry)| initial_window(scenario, index, entry)).collect()
}

/// Warnings about keys without effect in entry `index`. `answered` returns whether a path of the flow has the
/// router algorithm with a given name.
pub(crate) fn of_flow(
    flow: &Flow,
    index: usize,
    scheme: &schemes::Entry,
    answered: impl Fn(&str) -> bool,
) -> Vec<Diagnostic> {
    let name = scheme.info.name;
    let warning = |key: &str, message: String| Diagnostic::new(format!("flows.{index}.{key}"), message);
    let mut warnings = Vec::new();
    let explicit = scheme.rate_protocol.and_then(Explicit::named);
    if let Some(explicit) = explicit
        && !answered(explicit.router())
    {
        let (router, then) = (explicit.router(), explicit.unanswered());
        warnings.push(warning("scheme", format!("{name} finds no router `{router}` on its path and {then}")));
    }
    if !explicit.is_some_and(Explicit::negotiates) {
        let stated = [
            ("min_rate", flow.min_rate.is_some()),
            ("max_rate", flow.max_rate.is_some()),
            ("receive_rate", flow.receive_rate.is_some()),
            ("alternatives", flow.alternatives.as_ref().is_some_and(|paths| !paths.is_empty())),
        ];
        let message = |key| format!("unused setting `{key}`: {name} does not negotiate rates");
        warnings.extend(stated.iter().filter(|(_, stated)| *stated).map(|(key, _)| warning(key, message(key))));
    }
    warnings
}
