//! TCP settings of a flow.

use narrows_cc::{Bytes, EcnNeed, Nanos};
use narrows_tcp::TcpConfig;

use crate::diagnostic::{Diagnostic, show};
use crate::profile::FlowProfile;
use crate::quantity::{Amount, DataAmount, Time};
use crate::schema::Tcp;
use crate::schema::tcp::ProfileName;

/// Largest window that 32-bit sequence numbers and the window scale allow (RFC 7323 section 2.3).
const RECEIVE_WINDOW_MAX: Bytes = Bytes::new(1 << 30);

/// Longest header: leaves room for three SACK blocks in the 65535 bytes of a packet.
const MAX_HEADER: u16 = 65_507;

/// TCP settings: those of the flow, else the common ones, else those of the profile, else the ECN mode that its
/// scheme needs, else TCP as deployed. A mapping option takes `mapped` bytes of each segment, so that full packets
/// keep their size.
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
    let deployed =
        TcpConfig { segment, ecn: needed, ecn_precise: needed, ect1: need == EcnNeed::L4s, ..plain };
    let profile = FlowProfile::of(common, own);
    if let Some((wrong, known)) = profile.unknown() {
        let in_own = own.is_some_and(|own| own.profile_except.is_some());
        let key =
            if in_own { format!("{table}.tcp.profile_except") } else { "tcp.profile_except".to_owned() };
        let message = format!("the profile `{}` does not set `{wrong}`", profile.profile.name);
        return Err(Diagnostic::new(key, message).accepted(known.join(", ")));
    }
    let keys = profile.keys();
    let default = stated(&deployed, &Tcp::default(), &keys, None, "")?;
    stated(&default, &keys, common, own, table)
}

/// Replaces those of the `default` settings that the tables state. `profile` has their amounts in packets, which
/// depend on the stated segment.
fn stated(
    default: &TcpConfig,
    profile: &Tcp,
    common: &Tcp,
    own: Option<&Tcp>,
    table: &str,
) -> Result<TcpConfig, Diagnostic> {
    let key =
        |name: &str, in_own: bool| if in_own { format!("{table}.tcp.{name}") } else { format!("tcp.{name}") };
    macro_rules! stated {
        ($field:ident) => {
            match own.and_then(|own| own.$field.as_ref()) {
                Some(value) => Some((value, key(stringify!($field), true))),
                None => common.$field.as_ref().map(|value| (value, key(stringify!($field), false))),
            }
        };
    }
    macro_rules! from_one {
        ($field:ident, $default:expr) => {
            match stated!($field) {
                Some((0, key)) => {
                    return Err(Diagnostic::new(key, "`0` is out of range").accepted("a whole number from 1"))
                }
                Some((value, _)) => *value,
                None => $default,
            }
        };
    }
    let time =
        |stated: Option<(&Time, String)>, default: Nanos| stated.map_or(default, |(time, _)| time.value());
    let segment = from_one!(segment_bytes, default.segment);
    let header = match stated!(header_bytes) {
        Some((&header, key)) if !(20..=MAX_HEADER).contains(&header) => {
            return Err(Diagnostic::new(key, format!("`{header}` is out of range"))
                .accepted(format!("20 to {MAX_HEADER}")));
        }
        Some((header, _)) => *header,
        None => default.header,
    };
    let packet = u32::from(header) + u32::from(segment);
    let size_key = stated!(segment_bytes).or(stated!(header_bytes)).map(|(_, key)| key);
    if let Some(key) = size_key.filter(|_| packet > u32::from(u16::MAX)) {
        return Err(Diagnostic::new(key, format!("a segment of {segment} B and a header of {header} B"))
            .accepted(format!("packets of at most {} B", u16::MAX)));
    }
    let mss = Bytes::new(segment.into());
    let flag = |stated: Option<(&bool, String)>, default: bool| stated.map_or(default, |(flag, _)| *flag);
    // On by default only where `on` holds; if stated, it must hold.
    macro_rules! needs {
        ($field:ident, $default:expr, $on:expr, $message:literal, $other:literal) => {{
            let value = flag(stated!($field), $default && $on);
            if let Some((_, key)) = stated!($field).filter(|_| value && !$on) {
                let accepted = format!("{} = false, or {} = true", stringify!($field), $other);
                return Err(Diagnostic::new(key, $message).accepted(accepted));
            }
            value
        }};
    }
    macro_rules! word {
        ($field:ident, $default:expr) => {
            stated!($field).map_or($default, |(word, _)| (*word).into())
        };
    }
    let sack = flag(stated!(sack), default.sack);
    let rack = needs!(rack, default.rack, sack, "RACK needs selective acknowledgements", "sack");
    let tlp = needs!(tlp, default.tlp, rack, "tail-loss probes need RACK", "rack");
    let timestamps = flag(stated!(timestamps), default.timestamps);
    let timestamp_rtt = needs!(
        timestamp_rtt,
        default.timestamp_rtt,
        timestamps,
        "samples from timestamps need timestamps",
        "timestamps"
    );
    let sack_compression = needs!(
        sack_compression,
        default.sack_compression,
        sack,
        "there are no selective acknowledgements to compress",
        "sack"
    );
    let dsack_delivered = needs!(
        dsack_delivered,
        default.dsack_delivered,
        sack,
        "duplicates are reported by selective acknowledgements",
        "sack"
    );
    let grow_on_sack = needs!(
        grow_on_sack,
        default.grow_on_sack,
        sack,
        "growth on selective acknowledgements needs them",
        "sack"
    );
    let at_least_a_segment = |stated: Option<(Bytes, String, String)>, default: Bytes| match stated {
        Some((bytes, text, key)) if bytes < mss => {
            Err(Diagnostic::new(key, format!("`{text}` is less than a segment"))
                .accepted(format!("at least {}B", mss.as_u64())))
        }
        Some((bytes, _, _)) => Ok(bytes),
        None => Ok(default),
    };
    let receive_window = stated!(receive_window);
    if let Some((size, key)) = receive_window.as_ref().filter(|(size, _)| size.value() > RECEIVE_WINDOW_MAX) {
        return Err(Diagnostic::new(key, format!("`{size}` exceeds what a header can advertise"))
            .accepted("at most 1GiB"));
    }
    let receive_window = receive_window.map(|(size, key)| (size.value(), size.to_string(), key));
    let burst = |amount: &Amount| match amount.value() {
        DataAmount::Packets(packets) => Bytes::new(mss.as_u64().saturating_mul(packets)),
        DataAmount::Bytes(bytes) => bytes,
    };
    let max_burst = stated!(max_burst).map(|(amount, key)| (burst(amount), amount.to_string(), key));
    let default_burst = profile.max_burst.as_ref().map_or(default.max_burst, burst);
    if let Some((true, key)) = stated!(tso).map(|(tso, key)| (*tso, key))
        && max_burst.is_none()
        && default_burst < mss * 2
    {
        // The least burst of TSO has two segments (Linux `tcp_min_tso_segs`).
        let message = "bursts of several segments, but the profile limits bursts to one (`max_burst`)";
        return Err(
            Diagnostic::new(key, message).accepted("max_burst = \"65215B\" beside it, or tso = false")
        );
    }
    let (min_rto, initial_rto, max_rto) = (stated!(min_rto), stated!(initial_rto), stated!(max_rto));
    let rto_key = min_rto.as_ref().or(initial_rto.as_ref()).or(max_rto.as_ref()).map(|(_, key)| key.clone());
    let (min_rto, initial_rto) = (time(min_rto, default.min_rto), time(initial_rto, default.initial_rto));
    let max_rto = time(max_rto, default.max_rto);
    if let Some(key) = rto_key
        && (min_rto.is_zero() || initial_rto.max(min_rto) > max_rto || initial_rto.is_zero())
    {
        let message = format!(
            "min_rto is {}, initial_rto {}, max_rto {}",
            show(min_rto),
            show(initial_rto),
            show(max_rto)
        );
        return Err(Diagnostic::new(key, message).accepted("times above zero, max_rto the greatest"));
    }
    Ok(TcpConfig {
        segment,
        header,
        initial_window: from_one!(initial_window, default.initial_window),
        ack_every: from_one!(ack_every, default.ack_every),
        ack_delay: time(stated!(ack_delay), default.ack_delay),
        receive_window: at_least_a_segment(receive_window, default.receive_window)?,
        receive_autotuning: flag(stated!(receive_autotuning), default.receive_autotuning),
        min_rto,
        initial_rto,
        max_rto,
        sack,
        rack,
        tlp,
        ecn: flag(stated!(ecn), default.ecn),
        ecn_precise: flag(stated!(ecn_precise), default.ecn_precise),
        ect1: flag(stated!(ect1), default.ect1),
        max_burst: at_least_a_segment(max_burst, default_burst)?,
        tso: flag(stated!(tso), default.tso),
        quick_acks: stated!(quick_acks).map_or(default.quick_acks, |(count, _)| *count),
        quick_growth: flag(stated!(quick_growth), default.quick_growth),
        sack_compression,
        gro: stated!(gro).map_or(default.gro, |(gro, _)| gro.value().unwrap_or(Nanos::ZERO)),
        timers: word!(timers, default.timers),
        prr: word!(prr, default.prr),
        reduction_from: word!(reduction_from, default.reduction_from),
        idle: word!(idle_restart, default.idle),
        timestamps,
        timestamp_rtt,
        rack_rtt_last: word!(rack_rtt, default.rack_rtt_last),
        dsack_delivered,
        grow_on_sack,
    })
}

/// Settings as keys of `[tcp]`, all of them stated.
pub(crate) fn spelled(config: &TcpConfig, profile: ProfileName, except: &[String]) -> Tcp {
    let time = |time: Nanos| Some(parsed(&show(time)));
    let mss = u64::from(config.segment);
    let burst = config.max_burst.as_u64();
    let burst = if burst.is_multiple_of(mss) { format!("{}pkt", burst / mss) } else { format!("{burst}B") };
    Tcp {
        profile: Some(profile),
        profile_except: Some(except.to_vec()),
        initial_window: Some(config.initial_window),
        ack_every: Some(config.ack_every),
        ack_delay: time(config.ack_delay),
        quick_acks: Some(config.quick_acks),
        quick_growth: Some(config.quick_growth),
        sack_compression: Some(config.sack_compression),
        gro: Some(if config.gro.is_zero() { parsed("off") } else { parsed(&show(config.gro)) }),
        segment_bytes: Some(config.segment),
        header_bytes: Some(config.header),
        receive_window: Some(parsed(&size(config.receive_window))),
        receive_autotuning: Some(config.receive_autotuning),
        timers: Some(config.timers.into()),
        min_rto: time(config.min_rto),
        initial_rto: time(config.initial_rto),
        max_rto: time(config.max_rto),
        timestamps: Some(config.timestamps),
        timestamp_rtt: Some(config.timestamp_rtt),
        sack: Some(config.sack),
        rack: Some(config.rack),
        rack_rtt: Some(config.rack_rtt_last.into()),
        tlp: Some(config.tlp),
        dsack_delivered: Some(config.dsack_delivered),
        prr: Some(config.prr.into()),
        reduction_from: Some(config.reduction_from.into()),
        idle_restart: Some(config.idle.into()),
        grow_on_sack: Some(config.grow_on_sack),
        ecn: Some(config.ecn),
        ecn_precise: Some(config.ecn_precise),
        ect1: Some(config.ect1),
        tso: Some(config.tso),
        max_burst: Some(parsed(&burst)),
    }
}

/// A size in the unit that reads best.
fn size(size: Bytes) -> String {
    const MIB: u64 = 1 << 20;
    match size.as_u64() {
        bytes if bytes.is_multiple_of(MIB) => format!("{}MiB", bytes / MIB),
        bytes if bytes.is_multiple_of(1_000) => format!("{}kB", bytes / 1_000),
        bytes => format!("{bytes}B"),
    }
}

/// Parses a quantity that this crate has spelled.
fn parsed<T: std::str::FromStr>(text: &str) -> T {
    match text.parse() {
        Ok(value) => value,
        Err(_) => unreachable!("`{text}` is a quantity"),
    }
}
