//! A strict validator of the qlog records that this crate writes, based on the definitions of
//! draft-ietf-quic-qlog-main-schema and -quic-events. It refuses members that the drafts do not define,
//! although the drafts permit further members in some objects.

use serde_json::{Map, Value};

/// Type of a member.
#[derive(Clone, Copy)]
enum Is {
    /// An unsigned integer of this many bits.
    Uint(u32),
    /// A number.
    Float,
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// An object with these members.
    Object(&'static [Member]),
    /// A list of items of this type, with this minimum length.
    List(&'static Is, usize),
    /// Any object.
    Anything,
}

/// Name of the member, whether it is required, and its type.
type Member = (&'static str, bool, Is);

const RAW: Is =
    Is::Object(&[("length", false, Is::Uint(64)), ("payload_length", false, Is::Uint(64)), ("data", false, Is::Text)]);
const PACKET_TYPES: &[&str] =
    &["initial", "handshake", "0RTT", "1RTT", "retry", "version_negotiation", "stateless_reset", "unknown"];
const HEADER: Is = Is::Object(&[("packet_type", true, Is::Word(PACKET_TYPES)), ("packet_number", false, Is::Uint(64))]);
const ACK: Is = Is::Object(&[
    ("frame_type", true, Is::Word(&["ack"])),
    ("ack_delay", false, Is::Float),
    ("acked_ranges", false, Is::List(&Is::List(&Is::Uint(64), 1), 1)),
    ("ect1", false, Is::Uint(64)),
    ("ect0", false, Is::Uint(64)),
    ("ce", false, Is::Uint(64)),
]);
const FRAMES: Is = Is::List(&ACK, 0);
/// The defined events, and the members of their data.
const EVENTS: &[(&str, &[Member])] = &[
    ("simulation:scenario", &[("name", false, Is::Text), ("details", false, Is::Anything)]),
    ("quic:packet_sent", &[("header", true, HEADER), ("frames", false, FRAMES), ("raw", false, RAW)]),
    ("quic:packet_received", &[("header", true, HEADER), ("frames", false, FRAMES), ("raw", false, RAW)]),
    (
        "quic:packet_lost",
        &[
            ("header", false, HEADER),
            ("frames", false, FRAMES),
            ("trigger", false, Is::Word(&["reordering_threshold", "time_threshold", "pto_expired"])),
        ],
    ),
    ("quic:packets_acked", &[("packet_numbers", false, Is::List(&Is::Uint(64), 1))]),
    (
        "quic:recovery_parameters_set",
        &[
            ("reordering_threshold", false, Is::Uint(16)),
            ("time_threshold", false, Is::Float),
            ("timer_granularity", true, Is::Uint(16)),
            ("initial_rtt", false, Is::Float),
            ("max_datagram_size", false, Is::Uint(32)),
            ("initial_congestion_window", false, Is::Uint(64)),
            ("minimum_congestion_window", false, Is::Uint(64)),
            ("loss_reduction_factor", false, Is::Float),
            ("persistent_congestion_threshold", false, Is::Uint(16)),
        ],
    ),
    (
        "quic:recovery_metrics_updated",
        &[
            ("min_rtt", false, Is::Float),
            ("smoothed_rtt", false, Is::Float),
            ("latest_rtt", false, Is::Float),
            ("rtt_variance", false, Is::Float),
            ("pto_count", false, Is::Uint(16)),
            ("congestion_window", false, Is::Uint(64)),
            ("bytes_in_flight", false, Is::Uint(64)),
            ("ssthresh", false, Is::Uint(64)),
            ("packets_in_flight", false, Is::Uint(64)),
            ("pacing_rate", false, Is::Uint(64)),
        ],
    ),
    (
        "quic:congestion_state_updated",
        &[("old", false, Is::Text), ("new", true, Is::Text), ("trigger", false, Is::Text)],
    ),
];
const REFERENCE_TIME: Is = Is::Object(&[
    ("clock_type", true, Is::Word(&["monotonic"])),
    // A monotonic clock has no known epoch.
    ("epoch", true, Is::Word(&["unknown"])),
    ("wall_clock_time", false, Is::Text),
]);
const FILE: Is = Is::Object(&[
    ("file_schema", true, Is::Word(&["urn:ietf:params:qlog:file:sequential"])),
    ("serialization_format", true, Is::Word(&["application/qlog+json-seq"])),
    ("title", false, Is::Text),
    ("description", false, Is::Text),
    (
        "trace",
        true,
        Is::Object(&[
            ("title", false, Is::Text),
            ("description", false, Is::Text),
            (
                "common_fields",
                false,
                Is::Object(&[
                    ("time_format", false, Is::Word(&["relative_to_epoch", "relative_to_previous_event"])),
                    ("reference_time", false, REFERENCE_TIME),
                    ("group_id", false, Is::Text),
                ]),
            ),
            (
                "vantage_point",
                false,
                Is::Object(&[
                    ("name", false, Is::Text),
                    ("type", true, Is::Word(&["client", "server", "network", "unknown"])),
                    ("flow", false, Is::Word(&["client", "server", "unknown"])),
                ]),
            ),
            ("event_schemas", true, Is::List(&Is::Text, 1)),
        ]),
    ),
]);

fn object(value: &Value, members: &[Member], place: &str) -> Result<(), String> {
    let object: &Map<String, Value> = value.as_object().ok_or(format!("{place} is no object: {value}"))?;
    for (name, required, kind) in members {
        match object.get(*name) {
            Some(value) => fits(value, *kind, &format!("{place}.{name}"))?,
            None if *required => return Err(format!("{place} has no {name}: {value}")),
            None => {}
        }
    }
    match object.keys().find(|key| members.iter().all(|(name, ..)| name != key)) {
        Some(key) => Err(format!("{place} has the unknown member {key}")),
        None => Ok(()),
    }
}

fn fits(value: &Value, kind: Is, place: &str) -> Result<(), String> {
    let ok = match kind {
        Is::Uint(bits) => value.as_u64().is_some_and(|number| bits == 64 || number >> bits == 0),
        Is::Float => value.as_f64().is_some_and(|number| number.is_finite() && number >= 0.0),
        Is::Text => value.is_string(),
        Is::Word(words) => value.as_str().is_some_and(|text| words.contains(&text)),
        Is::Anything => value.is_object(),
        Is::Object(members) => return object(value, members, place),
        Is::List(kind, least) => {
            let items = value.as_array().filter(|items| items.len() >= least);
            return items
                .ok_or(format!("{place} is no list: {value}"))?
                .iter()
                .try_for_each(|item| fits(item, *kind, place));
        }
    };
    if ok { Ok(()) } else { Err(format!("{place} has the wrong type: {value}")) }
}

/// The records of a JSON text sequence: each begins with a separator and ends with a newline.
pub fn records(bytes: &[u8]) -> Result<Vec<Value>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let text = text.strip_prefix('\u{1e}').ok_or("no separator at the start")?;
    let parse = |record: &str| {
        let record = record.strip_suffix('\n').ok_or(format!("no newline after {record}"))?;
        serde_json::from_str(record).map_err(|error| format!("{error}: {record}"))
    };
    text.split('\u{1e}').map(parse).collect()
}

/// Checks the header, every event, and the order of times.
pub fn check(records: &[Value]) -> Result<(), String> {
    let (header, events) = records.split_first().ok_or("no record")?;
    fits(header, FILE, "file")?;
    let common = header["trace"]["common_fields"]["group_id"].is_string();
    let mut last = 0.0;
    for event in events {
        let name = event["name"].as_str().ok_or(format!("no name: {event}"))?;
        let (_, data) =
            EVENTS.iter().find(|(known, _)| *known == name).ok_or(format!("the event {name} is in no schema"))?;
        object(&event["data"], data, name)?;
        let envelope: [Member; 4] = [
            ("time", true, Is::Float),
            ("name", true, Is::Text),
            ("data", true, Is::Anything),
            ("group_id", !common && name != "simulation:scenario", Is::Text),
        ];
        object(event, &envelope, name)?;
        let time = event["time"].as_f64().unwrap_or_default();
        if time < last {
            return Err(format!("time goes back from {last} to {time}"));
        }
        last = time;
    }
    Ok(())
}
