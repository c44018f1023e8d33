//! What a scenario states and nothing heeds: what a flow asks of the network where nothing on its way listens, and settings of
//! a transport that no flow has.

use narrows_cc::schemes;
use narrows_dccp::Ccid;
use narrows_routers::protocol::Explicit;
use serde::Serialize;

use crate::entry::Entry;
use crate::fault::Fault;
use crate::schema::{Flow, Scenario};

/// Common settings of a transport that carries no flow.
pub(crate) fn settings(scenario: &Scenario, entries: &[Entry]) -> Vec<Fault> {
    let uses = |datagrams: bool| entries.iter().any(|entry| entry.kind.datagrams.is_some() == datagrams);
    let mut notes = Vec::new();
    let mut vain = |table: &str, keys: Vec<String>, transport: &str| {
        notes.extend(keys.into_iter().map(|key| {
            let key = format!("{table}.{key}");
            let message = format!("no flow is carried by {transport}, so `{key}` changes nothing");
            Fault::new(key, message)
        }));
    };
    if !uses(false) {
        vain("tcp", stated(&scenario.tcp), "TCP");
    }
    if !uses(true) {
        vain("dccp", stated(&scenario.dccp), "DCCP");
    }
    notes
}

/// The keys of a table that were given values: others are not written.
fn stated(table: &impl Serialize) -> Vec<String> {
    match serde_json::to_value(table) {
        Ok(serde_json::Value::Object(keys)) => keys.into_iter().map(|(key, _)| key).collect(),
        other => unreachable!("a table is an object: {other:?}"),
    }
}

/// A window that a flow of datagrams has no use for.
fn initial_window(scenario: &Scenario, index: usize, entry: &Entry) -> Option<Fault> {
    let stated = scenario.dccp.initial_window.is_some();
    let own = scenario.flows[index].dccp.as_ref().is_some_and(|own| own.initial_window.is_some());
    let datagrams = entry.kind.datagrams.as_ref().filter(|_| own || stated)?;
    let key =
        if own { format!("flows.{index}.dccp.initial_window") } else { "dccp.initial_window".to_owned() };
    let name = entry.kind.scheme.info.name;
    // RFC 3390, which RFC 4341 section 5 takes over in packets.
    let most = (4_380 / u32::from(datagrams.datagram)).clamp(2, 4);
    match Ccid::of(entry.kind.scheme) {
        Ccid::TcpLike if datagrams.initial_window > most => Some(Fault::new(
            key,
            format!("{name} begins with {most} datagrams of this size, as RFC 3390 has it"),
        )),
        Ccid::Tfrc => {
            let message = format!("{name} begins with a rate, so `dccp.initial_window` changes nothing");
            Some(Fault::new(key, message))
        }
        _ => None,
    }
}

/// What the entries' transports state in vain.
pub(crate) fn windows(scenario: &Scenario, entries: &[Entry]) -> Vec<Fault> {
    entries.iter().enumerate().filter_map(|(index, entry)| initial_window(scenario, index, entry)).collect()
}

/// Keys and requests of entry `index` that nobody heeds. `answered` says whether a router of this name is on its way.
pub(crate) fn notes(
    flow: &Flow,
    index: usize,
    scheme: &schemes::Entry,
    answered: impl Fn(&str) -> bool,
) -> Vec<Fault> {
    let name = scheme.info.name;
    let note = |key: &str, message: String| Fault::new(format!("flows.{index}.{key}"), message);
    let mut notes = Vec::new();
    let explicit = scheme.rate_protocol.and_then(Explicit::named);
    if let Some(explicit) = explicit
        && !answered(explicit.router())
    {
        let (router, then) = (explicit.router(), explicit.unanswered());
        notes.push(note("scheme", format!("{name} finds no router `{router}` on its way and {then}")));
    }
    if !explicit.is_some_and(Explicit::negotiates) {
        let stated = [
            ("min_rate", flow.min_rate.is_some()),
            ("max_rate", flow.max_rate.is_some()),
            ("receive_rate", flow.receive_rate.is_some()),
            ("alternatives", flow.alternatives.as_ref().is_some_and(|ways| !ways.is_empty())),
        ];
        let message = |key| format!("{name} negotiates no rate, so `{key}` changes nothing");
        notes.extend(stated.iter().filter(|(_, stated)| *stated).map(|(key, _)| note(key, message(key))));
    }
    notes
}
