//! Schemes and their parameters, by name.

use std::collections::BTreeMap;

use narrows_cc::{LITERAL, Param, ParamError, ParamKind, Params, schemes};

use crate::diagnostic::{Diagnostic, Location, key_in, refuse, unknown};
use crate::profile::FlowProfile;
use crate::schema::value::{ParamValue, Protocol};
use crate::transport;

fn describe(param: &Param) -> String {
    match param.kind {
        ParamKind::Flag => format!("{} (on or off)", param.name),
        ParamKind::Choice(words) => format!("{} ({})", param.name, words.join(" or ")),
        ParamKind::Number | ParamKind::Count => {
            let unit = match param.unit {
                "" => String::new(),
                word @ ("round" | "byte") => format!(" {word}s"),
                unit => format!(" {unit}"),
            };
            let whole = if param.kind == ParamKind::Count { "a whole number from " } else { "" };
            format!("{} ({whole}{} to {}{unit})", param.name, param.min, param.max)
        }
    }
}

/// Resolves the key `scheme` of `table`. Parameters come from the text after the colon and from the table
/// `params`; for TCP flows, the profile sets the remaining parameters.
pub(crate) fn scheme(
    text: &str,
    table_params: Option<&BTreeMap<String, ParamValue>>,
    protocol: Option<Protocol>,
    profile: Option<FlowProfile<'_>>,
    table: &str,
) -> Result<(&'static schemes::Entry, Params), Diagnostic> {
    let key = key_in(table, "scheme");
    let (name, inline) = match text.split_once(':') {
        Some((name, inline)) => (name.trim(), Some(inline)),
        None => (text.trim(), None),
    };
    let Some(entry) = schemes::find(name) else {
        let message = format!("there is no scheme `{name}`");
        let known = schemes::ALL
            .iter()
            .flat_map(|entry| [entry.info.name].into_iter().chain(entry.info.aliases.iter().copied()));
        let diagnostic = match protocol {
            Some(Protocol::Dccp) => unknown(&message, name, transport::carried()),
            _ => unknown(&message, name, known),
        };
        return Err(diagnostic.within(&key));
    };
    let mut params = Params::defaults(entry.info.params);
    let over_tcp = transport::stated_or_made_for(protocol, entry) != Protocol::Dccp;
    for (param, value) in profile.filter(|_| over_tcp).into_iter().flat_map(|profile| profile.params(entry)) {
        set(&mut params, entry.info.name, entry.info.params, param, value, &key)?;
    }
    let mut stated: Vec<&str> = Vec::new();
    for part in inline.into_iter().flat_map(|inline| inline.split(',')) {
        let Some((param, text)) = part.split_once('=') else {
            let message = match part.trim() {
                "" if inline == Some(part) => format!("no parameter follows `{name}:`"),
                "" => "one of the parameters is empty".to_owned(),
                part => format!("`{part}` does not set a parameter"),
            };
            return refuse(&key, message, format!("{name}:parameter=value,…"));
        };
        let (param, text) = (param.trim(), text.trim());
        if stated.contains(&param) {
            return refuse(&key, format!("`{param}` is set twice"), "each parameter once");
        }
        stated.push(param);
        set(&mut params, entry.info.name, entry.info.params, param, text, &key)?;
    }
    for (param, value) in table_params.into_iter().flatten() {
        let key = key_in(table, &format!("params.{param}"));
        if stated.contains(&param.as_str()) {
            return refuse(key, format!("`{param}` is also set in `scheme`"), "one of the two");
        }
        set(&mut params, entry.info.name, entry.info.params, param, &plain(value), &key)?;
    }
    Ok((entry, params))
}

/// The parameters of a scheme: its defaults, overridden by `values`, which are pairs of name and string.
///
/// # Errors
/// For the first refused value: the problem and the accepted values.
pub fn settings(entry: &schemes::Entry, values: &[(String, String)]) -> Result<Params, String> {
    in_place_of_defaults(entry.info.name, entry.info.params, values)
}

/// The parameters of a router algorithm, like [`settings`] of a scheme.
///
/// # Errors
/// For the first refused value: the problem and the accepted values.
pub fn router_settings(entry: &narrows_routers::RouterEntry, values: &[(String, String)]) -> Result<Params, String> {
    in_place_of_defaults(entry.info.name, entry.info.params, values)
}

fn in_place_of_defaults(
    owner: &str,
    specs: &'static [narrows_cc::Param],
    values: &[(String, String)],
) -> Result<Params, String> {
    let mut params = Params::defaults(specs);
    for (name, text) in values {
        set(&mut params, owner, specs, name, text, "").map_err(|refused| {
            let refused = refused.report("", "", |_| Location::Unknown);
            let accepted = refused.accepted.map(|accepted| format!("; accepted: {accepted}"));
            refused.message + &accepted.unwrap_or_default()
        })?;
    }
    Ok(params)
}

/// Sets the parameter `literal`, if the scheme has it.
pub(crate) fn follow_print(params: &mut Params) {
    // `set` fails if the scheme has no printed form, because it then lacks the parameter.
    let _ = params.set(LITERAL.name, 1.0);
}

/// A parameter's value as a string.
pub(crate) fn plain(value: &ParamValue) -> String {
    match value {
        ParamValue::Flag(on) => on.to_string(),
        ParamValue::Number(number) => number.to_string(),
        ParamValue::Text(text) => text.clone(),
    }
}

/// Sets a parameter of `owner` from a string; `known` lists the parameters of `owner`.
pub(crate) fn set(
    params: &mut Params,
    owner: &str,
    known: &[Param],
    name: &str,
    text: &str,
    key: &str,
) -> Result<(), Diagnostic> {
    let Some(param) = known.iter().find(|param| param.name == name) else {
        let message = format!("`{owner}` has no parameter `{name}`");
        if known.is_empty() {
            return refuse(key, message, "no parameter");
        }
        let list: Vec<_> = known.iter().map(describe).collect();
        return Err(unknown(&message, name, known.iter().map(|param| param.name))
            .accepted(list.join(", "))
            .within(key));
    };
    let refuse = || Diagnostic::new(key, format!("`{text}` is not a value of `{name}`")).accepted(describe(param));
    let value = match param.kind {
        ParamKind::Flag => match text {
            "on" | "true" => 1.0,
            "off" | "false" => 0.0,
            _ => return Err(refuse()),
        },
        ParamKind::Choice(words) => words.iter().position(|word| *word == text).ok_or_else(refuse)? as f64,
        ParamKind::Number | ParamKind::Count => {
            let number = text.strip_suffix(param.unit).unwrap_or(text).trim_end();
            number.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(refuse)?
        }
    };
    params.set(name, value).map_err(|error| match error {
        ParamError::Unknown => refuse(),
        ParamError::OutOfRange(_) => {
            Diagnostic::new(key, format!("`{name}` = {text} is out of range")).accepted(describe(param))
        }
        ParamError::Fraction(_) => {
            Diagnostic::new(key, format!("`{name}` = {text} is not a whole number")).accepted(describe(param))
        }
    })
}
