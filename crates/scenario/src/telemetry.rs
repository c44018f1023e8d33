//! Telemetry for display: names end with the unit, rates are in Mbit/s, times in ms, and states are strings.

use std::borrow::Cow;

use narrows_cc::Value;
use narrows_routers::Reading;
use serde::Serialize;

/// Value of a telemetry item, in the unit at the end of the item's name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Shown {
    /// A number.
    Number(f64),
    /// The name of a state.
    Text(&'static str),
}

/// The name of an item and its value.
pub type Item = (Cow<'static, str>, Shown);

fn number(name: &'static str, unit: &str, value: f64) -> Item {
    (format!("{name}_{unit}").into(), Shown::Number(value))
}

/// A telemetry item of a scheme.
pub fn of_scheme(name: &'static str, value: Value) -> Item {
    match value {
        Value::Rate(rate) => number(name, "mbit_s", rate.as_mbit_per_sec()),
        Value::Bytes(bytes) => number(name, "bytes", bytes.as_f64()),
        Value::Time(time) => number(name, "ms", time.as_millis_f64()),
        Value::Number(x) => (name.into(), Shown::Number(x)),
        Value::State(text) => (name.into(), Shown::Text(text)),
    }
}

/// A telemetry item of a router.
pub fn of_router(name: &'static str, reading: Reading) -> Item {
    match reading {
        Reading::Rate(rate) => number(name, "mbit_s", rate / 125_000.0),
        Reading::Bytes(bytes) => number(name, "bytes", bytes),
        Reading::Time(seconds) => number(name, "ms", seconds * 1e3),
        Reading::Number(x) => (name.into(), Shown::Number(x)),
        Reading::State(text) => (name.into(), Shown::Text(text)),
    }
}

#[cfg(test)]
mod tests {
    use narrows_cc::{Bytes, Nanos, Rate};

    use super::*;

    /// Equal values of a scheme and of a router algorithm are displayed with the same name and number.
    #[test]
    fn same_values_of_scheme_and_router_are_shown_alike() {
        // A rate of 1 Mbit/s is 125 000 bytes per second.
        let rate = Value::Rate(Rate::from_bytes_per_sec(250_000));
        for (value, reading, name, shown) in [
            (rate, Reading::Rate(250_000.0), "x_mbit_s", Shown::Number(2.0)),
            (Value::Bytes(Bytes::new(7)), Reading::Bytes(7.0), "x_bytes", Shown::Number(7.0)),
            (Value::Time(Nanos::from_micros(1_500)), Reading::Time(0.0015), "x_ms", Shown::Number(1.5)),
            (Value::Number(0.5), Reading::Number(0.5), "x", Shown::Number(0.5)),
            (Value::State("up"), Reading::State("up"), "x", Shown::Text("up")),
        ] {
            assert_eq!(of_scheme("x", value), (name.into(), shown));
            assert_eq!(of_router("x", reading), (name.into(), shown));
        }
        // Rates below one byte per second are not rounded to zero.
        assert_eq!(of_router("x", Reading::Rate(0.125)).1, Shown::Number(1e-6));
    }
}
