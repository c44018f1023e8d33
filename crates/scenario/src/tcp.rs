//! Resolves the TCP settings of a flow from the keys that a scenario states.

use narrows_cc::{Bytes, EcnNeed};
use narrows_tcp::TcpConfig;

use crate::diagnostic::{Diagnostic, refuse, show};
use crate::profile::FlowProfile;
use crate::schema::Tcp;
use crate::schema::tcp::Stated;

/// Largest window that 32-bit sequence numbers and the window scale allow (RFC 7323 section 2.3).
const RECEIVE_WINDOW_MAX: Bytes = Bytes::new(1 << 30);

/// Accepted header lengths. The longest header leaves 28 bytes of a packet's 65535, which three SACK blocks need.
const HEADERS: std::ops::RangeInclusive<u16> = 20..=65_507;

/// Resolves TCP settings: the flow's, else the common ones, else the profile's, else (for ECN) the mode that
/// the flow's scheme needs, else Linux's. A mapping option takes `mapped` bytes of each segment, so that the
/// size of full packets stays the same.
pub(crate) fn settings(
    common: &Tcp,
    own: Option<&Tcp>,
    table: &str,
    need: EcnNeed,
    mapped: u16,
) -> Result<TcpConfig, Diagnostic> {
    let needed = need != EcnNeed::Nothing;
    let plain = TcpConfig::default();
    let segment = plain.segment - mapped;
    let deployed = TcpConfig { segment, ecn: needed, ecn_precise: needed, ect1: need == EcnNeed::L4s, ..plain };
    let profile = FlowProfile::of(common, own);
    if let Some((wrong, known)) = profile.unknown() {
        let in_own = own.is_some_and(|own| own.profile_except.is_some());
        let key = if in_own { format!("{table}.tcp.profile_except") } else { "tcp.profile_except".to_owned() };
        let message = format!("the profile `{}` does not set `{wrong}`", profile.profile.name);
        return refuse(key, message, known.join(", "));
    }
    let stated = Stated { common, own, table };
    let keys = profile.keys();
    sizes(&stated, &deployed)?;
    let config = Tcp::resolved(&stated, &keys, &deployed)?;
    amounts(&stated, &config)?;
    timeouts(&stated, &config)?;
    Ok(config)
}

/// Checks counts and packet sizes.
fn sizes(stated: &Stated<'_>, default: &TcpConfig) -> Result<(), Diagnostic> {
    let segment = stated.get("segment_bytes", |keys| keys.segment.as_ref());
    let header = stated.get("header_bytes", |keys| keys.header.as_ref());
    let counts = [
        segment.as_ref().map(|(count, key)| (u32::from(**count), key.clone())),
        stated.get("initial_window", |keys| keys.initial_window.as_ref()).map(|(count, key)| (*count, key)),
        stated.get("ack_every", |keys| keys.ack_every.as_ref()).map(|(count, key)| (*count, key)),
    ];
    if let Some((_, key)) = counts.into_iter().flatten().find(|(count, _)| *count == 0) {
        return refuse(key, "`0` is out of range", "a whole number from 1");
    }
    if let Some((header, key)) = header.as_ref().filter(|(header, _)| !HEADERS.contains(header)) {
        return refuse(key, format!("`{header}` is out of range"), format!("{} to {}", HEADERS.start(), HEADERS.end()));
    }
    let payload = segment.as_ref().map_or(default.segment, |(segment, _)| **segment);
    let rest = header.as_ref().map_or(default.header, |(header, _)| **header);
    match segment.or(header) {
        Some((_, key)) if u32::from(payload) + u32::from(rest) > u32::from(u16::MAX) => refuse(
            key,
            format!("a segment of {payload} B and a header of {rest} B"),
            format!("packets of at most {} B", u16::MAX),
        ),
        _ => Ok(()),
    }
}

/// Checks the receive window and the maximum burst.
fn amounts(stated: &Stated<'_>, config: &TcpConfig) -> Result<(), Diagnostic> {
    let mss = Bytes::new(config.segment.into());
    let window = stated.get("receive_window", |keys| keys.receive_window.as_ref());
    if let Some((size, key)) = window.as_ref().filter(|(size, _)| size.value() > RECEIVE_WINDOW_MAX) {
        return refuse(key, format!("`{size}` exceeds what a header can advertise"), "at most 1GiB");
    }
    let burst = stated.get("max_burst", |keys| keys.max_burst.as_ref());
    if let Some((true, key)) = stated.get("tso", |keys| keys.tso.as_ref()).map(|(tso, key)| (*tso, key))
        && burst.is_none()
        && config.max_burst < mss * 2
    {
        // The smallest TSO burst has two segments (Linux `tcp_min_tso_segs`).
        let message = "bursts of several segments, but the profile limits bursts to one (`max_burst`)";
        return refuse(key, message, "max_burst = \"65215B\" beside it, or tso = false");
    }
    let window = window.map(|(size, key)| (size.to_string(), config.receive_window, key));
    let burst = burst.map(|(amount, key)| (amount.to_string(), config.max_burst, key));
    match [window, burst].into_iter().flatten().find(|(_, bytes, _)| *bytes < mss) {
        Some((text, _, key)) => {
            refuse(key, format!("`{text}` is less than a segment"), format!("at least {}B", mss.as_u64()))
        }
        None => Ok(()),
    }
}

/// Checks the bounds of the retransmission timeout.
fn timeouts(stated: &Stated<'_>, config: &TcpConfig) -> Result<(), Diagnostic> {
    let TcpConfig { min_rto, initial_rto, max_rto, .. } = *config;
    let first = stated
        .get("min_rto", |keys| keys.min_rto.as_ref())
        .or_else(|| stated.get("initial_rto", |keys| keys.initial_rto.as_ref()))
        .or_else(|| stated.get("max_rto", |keys| keys.max_rto.as_ref()));
    match first {
        Some((_, key)) if min_rto.is_zero() || initial_rto.max(min_rto) > max_rto || initial_rto.is_zero() => {
            let [min, initial, max] = [min_rto, initial_rto, max_rto].map(show);
            let message = format!("min_rto is {min}, initial_rto {initial}, max_rto {max}");
            refuse(key, message, "times above zero, max_rto the greatest")
        }
        _ => Ok(()),
    }
}
