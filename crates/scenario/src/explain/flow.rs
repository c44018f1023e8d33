//! The options of an entry of `flows`: keys of the flow's table, settings of its transport and parameters of
//! its scheme.

use narrows_cc::{Param, ParamKind, Params};
use narrows_dccp::connection::Overflow;
use narrows_tcp::TcpConfig;
use serde_json::Value;

use super::{FlowOptions, Origins, Row};
use crate::diagnostic::Diagnostic;
use crate::flows::{self, Kind};
use crate::profile::FlowProfile;
use crate::schema::dccp::{Dccp, OverflowKind, Within};
use crate::schema::table::{names, object};
use crate::schema::tcp::ProfileName;
use crate::schema::value::Protocol;
use crate::schema::{Flow, Scenario, Tcp};
use crate::transport;

pub(super) fn options(scenario: &Scenario, index: usize, origins: &Origins<'_>) -> Result<FlowOptions, Diagnostic> {
    let flow = &scenario.flows[index];
    let kind = flows::kind(scenario, index)?;
    let protocol = transport::protocol(flow, kind.scheme);
    Ok(FlowOptions {
        flow: flow.label.clone().unwrap_or_else(|| kind.scheme.info.name.to_owned()),
        scheme: kind.scheme.info.name,
        protocol,
        options: own(flow, index, protocol, origins),
        transport: match &kind.datagrams {
            Some(config) => datagrams(config, index, origins),
            None => stream(scenario, index, &kind.tcp, origins),
        },
        params: params(scenario, index, &kind, protocol, origins),
    })
}

/// Rows of the keys in the flow's table.
fn own(flow: &Flow, index: usize, protocol: Protocol, origins: &Origins<'_>) -> Vec<Row> {
    let stated = object(flow);
    let default = |key: &str| match key {
        "count" if flow.arrivals.is_none() => Some(Value::from(1)),
        "start" => Some("0s".into()),
        "app" if flow.size.is_none() && flow.arrivals.is_none() => Some("bulk".into()),
        "protocol" => serde_json::to_value(protocol).ok(),
        _ => None,
    };
    let row = |key: &&'static str| {
        let value = stated.get(*key).cloned().or_else(|| default(key))?;
        let needed = *key == "protocol" && protocol == Protocol::Dccp;
        let otherwise = if needed { "scheme" } else { "default" };
        Some(origins.option(key, value, &[format!("flows.{index}.{key}")], otherwise))
    };
    let keys = names::<Flow>().iter().filter(|key| !matches!(**key, "tcp" | "dccp" | "params"));
    keys.filter_map(row).collect()
}

/// Rows of the TCP settings.
fn stream(scenario: &Scenario, index: usize, config: &TcpConfig, origins: &Origins<'_>) -> Vec<Row> {
    let profile = FlowProfile::of(&scenario.tcp, scenario.flows[index].tcp.as_ref());
    let effective = object(&Tcp::spelled(config, profile.profile.id, profile.except));
    let listed = object(&profile.keys());
    let plain = object(&Tcp::spelled(&TcpConfig::default(), ProfileName::default(), &[]));
    let row = |key: &&'static str| {
        let value = effective[*key].clone();
        let otherwise = match listed.get(*key) {
            Some(of_profile) if *of_profile == value => format!("profile {}", profile.profile.name),
            None if plain[*key] == value => "default".to_owned(),
            None if matches!(*key, "ecn" | "ecn_precise" | "ect1") => "scheme".to_owned(),
            _ => "derived".to_owned(),
        };
        origins.option(key, value, &[format!("flows.{index}.tcp.{key}"), format!("tcp.{key}")], &otherwise)
    };
    names::<Tcp>().iter().map(row).collect()
}

/// Rows of the DCCP settings.
fn datagrams(config: &narrows_dccp::Config, index: usize, origins: &Origins<'_>) -> Vec<Row> {
    let effective = object(&Dccp {
        datagram_bytes: Some(Within(config.datagram.into())),
        ack_ratio: Some(Within(config.ack_ratio.into())),
        short_sequence_numbers: Some(config.short),
        sequence_window: Some(Within(config.sequence_window)),
        queue: Some(Within(config.queue as u64)),
        overflow: Some(match config.overflow {
            Overflow::DropOldest => OverflowKind::DropOldest,
            Overflow::DropNewest => OverflowKind::DropNewest,
        }),
        ecn: Some(config.ecn),
        initial_window: Some(Within(config.initial_window.into())),
    });
    let row = |key: &&'static str| {
        let keys = [format!("flows.{index}.dccp.{key}"), format!("dccp.{key}")];
        origins.option(key, effective[*key].clone(), &keys, "default")
    };
    names::<Dccp>().iter().map(row).collect()
}

/// A parameter's value as a scenario spells it.
fn spelled(param: &Param, params: &Params) -> Value {
    let number = || {
        let number = params.number(param.name);
        match param.unit {
            "" if number.fract() == 0.0 => Value::from(number as i64),
            "" => Value::from(number),
            unit => Value::from(format!("{number}{unit}")),
        }
    };
    match param.kind {
        ParamKind::Flag => Value::from(params.flag(param.name)),
        ParamKind::Choice(_) => Value::from(params.word(param.name)),
        ParamKind::Number | ParamKind::Count => number(),
    }
}

/// Rows of the scheme's parameters, which are stated after the scheme's colon or in `params`, or else set by
/// the profile.
fn params(
    scenario: &Scenario,
    index: usize,
    Kind { scheme, params, .. }: &Kind,
    protocol: Protocol,
    origins: &Origins<'_>,
) -> Vec<Row> {
    let flow = &scenario.flows[index];
    let profile = FlowProfile::of(&scenario.tcp, flow.tcp.as_ref());
    let listed: Vec<_> = match protocol {
        Protocol::Dccp => Vec::new(),
        Protocol::Tcp | Protocol::Udp => profile.params(scheme).map(|(name, _)| name).collect(),
    };
    let inline: Vec<_> = inline(&flow.scheme).collect();
    let row = |param: &Param| {
        let key = match inline.contains(&param.name) {
            true => format!("flows.{index}.scheme"),
            false => format!("flows.{index}.params.{}", param.name),
        };
        let of_profile = listed.contains(&param.name);
        let otherwise = if of_profile { format!("profile {}", profile.profile.name) } else { "default".to_owned() };
        origins.option(param.name, spelled(param, params), &[key], &otherwise)
    };
    scheme.info.params.iter().map(row).collect()
}

/// The names of the parameters after the colon in `scheme`.
fn inline(scheme: &str) -> impl Iterator<Item = &str> {
    let parts = scheme.split_once(':').map_or("", |(_, parts)| parts).split(',');
    parts.filter_map(|part| part.split_once('=')).map(|(name, _)| name.trim())
}
