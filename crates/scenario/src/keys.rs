//! Checks of the values of single keys.

use narrows_cc::{Bytes, Nanos, Rate};
use narrows_net::config::Limit;

use crate::diagnostic::{Diagnostic, refuse};
use crate::quantity::{self, BufferSize};

/// Rejects a rate of zero.
pub(crate) fn rate(key: &str, rate: &quantity::Rate) -> Result<Rate, Diagnostic> {
    match rate.value() {
        Rate::ZERO => refuse(key, format!("`{rate}` carries nothing"), "a rate above zero such as 100mbit"),
        rate => Ok(rate),
    }
}

/// Resolves the limit of a queue. `place` describes the link in messages, `rtt` is the RTT of a BDP, and
/// `packet` is the size of the largest packet.
pub(crate) fn limit(
    key: &str,
    place: &str,
    buffer: &quantity::Buffer,
    rate: Rate,
    rtt: Nanos,
    packet: Bytes,
) -> Result<Limit, Diagnostic> {
    let limit = match buffer.value() {
        BufferSize::Bdp { multiple, rtt: stated } => {
            // Round to the nearest byte: 0.7 of 1000 must give 700, although 0.7 has no exact binary form.
            Limit::Bytes(Bytes::from_f64(rate.over(stated.unwrap_or(rtt)).as_f64() * multiple + 0.5))
        }
        BufferSize::Packets(packets) => Limit::Packets(packets),
        BufferSize::Bytes(bytes) => Limit::Bytes(bytes),
        BufferSize::Time(time) => Limit::Time(time),
    };
    let accepted = format!("a buffer of at least one packet of {} B", packet.as_u64());
    match limit {
        Limit::Bytes(bytes) if bytes < packet => {
            refuse(key, format!("`{buffer}` is {} B {place}, less than a packet", bytes.as_u64()), accepted)
        }
        Limit::Packets(0) | Limit::Time(Nanos::ZERO) => refuse(key, format!("`{buffer}` holds no packet"), accepted),
        limit => Ok(limit),
    }
}

/// Resolves a time, which must be above zero; without a stated time, returns `default`.
pub(crate) fn time_or(key: String, time: Option<&quantity::Time>, default: Nanos) -> Result<Nanos, Diagnostic> {
    match time.map(quantity::Time::value) {
        Some(Nanos::ZERO) => refuse(key, "a time of zero", "a time above zero"),
        Some(time) => Ok(time),
        None => Ok(default),
    }
}
