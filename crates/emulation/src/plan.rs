//! What real ends take from a plan.

use narrows_scenario::{FlowPlan, Plan};
use narrows_tcp::TcpConfig;
use narrows_traffic::AppConfig;

/// Bytes that a sender's socket holds beyond those sent. What waits there is still sent when the application pauses or
/// stops: then it is the data of 10 ms on the slowest link.
pub fn unsent(plan: &Plan) -> u64 {
    const MOST: u64 = 1 << 20;
    const LEAST: u64 = 16 << 10;
    let pauses = |flow: &FlowPlan| {
        flow.stop.is_some_and(|stop| stop < plan.duration) || matches!(flow.app, AppConfig::OnOff { .. })
    };
    if !plan.flows.iter().any(pauses) {
        return MOST;
    }
    let rates = plan.links.iter().map(|link| link.config.capacity.mean_rate().as_bytes_per_sec());
    rates.min().map_or(MOST, |rate| rate / 100).clamp(LEAST, MOST)
}

/// The first key in which two settings differ.
pub fn difference(one: &TcpConfig, other: &TcpConfig) -> Option<&'static str> {
    macro_rules! keys {
        ($($field:ident $key:literal),+ $(,)?) => {{
            // Every field is listed, or this does not compile.
            let TcpConfig { $($field: _),+ } = one;
            [$((one.$field == other.$field, $key)),+]
        }};
    }
    let keys = keys! {
        segment "segment_bytes", header "header_bytes", initial_window "initial_window", ack_every "ack_every",
        ack_delay "ack_delay", receive_window "receive_window",
        receive_autotuning "receive_autotuning", min_rto "min_rto", initial_rto "initial_rto",
        max_rto "max_rto", sack "sack", rack "rack", tlp "tlp", timestamps "timestamps", ecn "ecn",
        ecn_precise "ecn_precise", ect1 "ect1", max_burst "max_burst", tso "tso", quick_acks "quick_acks",
        quick_growth "quick_growth", sack_compression "sack_compression", gro "gro", timers "timers", prr "prr",
        reduction_from "reduction_from", idle "idle_restart", timestamp_rtt "timestamp_rtt",
        rack_rtt_last "rack_rtt", dsack_delivered "dsack_delivered", grow_on_sack "grow_on_sack",
    };
    keys.into_iter().find(|(same, _)| !same).map(|(_, key)| key)
}
