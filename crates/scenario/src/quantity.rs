//! Quantities as strings with units. Each quantity keeps its original string, so that scenarios are printed as written.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use narrows_cc::{Bytes, Nanos};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Error for a string that is not the expected quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The problem.
    pub message: String,
    /// The values accepted.
    pub accepted: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  accepted: {}", self.message, self.accepted)
    }
}

impl std::error::Error for Refused {}

/// Parses a quantity from a string that this crate wrote and that is therefore valid.
pub(crate) fn parsed<T: FromStr>(text: &str) -> T {
    match text.parse() {
        Ok(value) => value,
        Err(_) => unreachable!("`{text}` is a quantity"),
    }
}

/// An exact number before a unit.
#[derive(Clone, Copy)]
struct Decimal<'a> {
    text: &'a str,
    digits: u128,
    /// Number of digits after the point.
    places: u32,
}

impl Decimal<'_> {
    /// The number times `factor`, rounded down.
    fn times(self, factor: u64) -> Result<u64, String> {
        let exact = self.digits * u128::from(factor);
        let value = exact / 10u128.pow(self.places);
        if value == 0 && self.digits != 0 {
            return Err("too small".into());
        }
        u64::try_from(value).ok().filter(|&value| value <= u64::MAX / 4).ok_or_else(|| "too large".into())
    }

    fn as_f64(self) -> f64 {
        self.text.parse().unwrap_or(0.0)
    }
}

/// Splits `5.5mbit` into 5.5 and `mbit`.
fn split(text: &str) -> Result<(Decimal<'_>, &str), String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the value is empty".into());
    }
    if let Some(rest) = text.strip_prefix('-')
        && rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')
    {
        return Err(format!("`{text}` is negative"));
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unsound = || format!("`{text}` is not a number with a unit");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // A number of 24 digits times the factor of the largest unit fits in 128 bits.
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') || number.len() > 24 {
        return Err(unsound());
    }
    let digits = format!("{whole}{fraction}").parse().map_err(|_| unsound())?;
    Ok((Decimal { text: number, digits, places: fraction.len() as u32 }, unit.trim_start()))
}

const RATES: &[(&str, u64)] = &[("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];
const TIMES: &[(&str, u64)] =
    &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];
const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

const RATE: &str = "a rate such as 100mbit, 1gbit, 2.5kbit (units per second: bit, kbit, mbit, gbit)";
const TIME: &str = "a time such as 40ms, 1.5s, 250us (units: ns, us, ms, s, min)";
const SIZE: &str = "a size such as 1500B, 64kB, 3MB, 1MiB (units: B, kB, MB, GB, KiB, MiB, GiB)";
const BUFFER: &str = "a buffer such as 1bdp, 5bdp@10ms, 100pkt, 64kB, 50ms";
const SHARE: &str = "a percentage from 0% to 100%, such as 0.1%";
const WARMUP: &str = "a percentage of the duration such as 10%, or a time such as 5s";
const FREQUENCY: &str = "a number per second or minute such as 10/s, 0.5/s, 90/min";
const AMOUNT: &str = "an amount such as 1pkt, 10pkt, 64kB";
const PERIOD: &str = "off, or a time such as 10ms";

fn no_unit(text: &str, unit: &str, units: &[(&str, u64)], what: &str) -> String {
    if unit.is_empty() {
        return format!("`{text}` has no unit");
    }
    if matches!(unit, "b" | "kb" | "mb" | "gb" | "Kb" | "Mb" | "Gb") {
        return format!("`{unit}` is ambiguous: bits or bytes, and of 1000 or 1024?");
    }
    let plain = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps").filter(|p| p.len() == 2)).unwrap_or(unit);
    let meant = match plain.to_lowercase().as_str() {
        "kb" => "kbit".to_owned(),
        "mb" => "mbit".to_owned(),
        "gb" => "gbit".to_owned(),
        other => other.to_owned(),
    };
    // `MB/s` means bytes, so never suggest a unit in bits for it.
    let bytes = plain.ends_with('B');
    match units.iter().find(|(name, _)| !bytes && name.to_lowercase() == meant) {
        Some((name, _)) => format!("`{unit}` is not a unit of {what} here; write `{name}`"),
        None => format!("`{unit}` is not a unit of {what}"),
    }
}

fn scaled(text: &str, units: &[(&str, u64)], what: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => number.times(*factor).map_err(|why| format!("`{text}` is {why}")),
        None => Err(no_unit(text, unit, units, what)),
    }
}

fn rate(text: &str) -> Result<narrows_cc::Rate, String> {
    let bits = scaled(text, RATES, "a rate")?;
    match bits {
        1..8 => Err(format!("`{text}` is too small: less than a byte per second")),
        _ => Ok(narrows_cc::Rate::from_bits_per_sec(bits)),
    }
}

/// Longest time, 115 days: sums of a few such times fit in 64 bits without overflow checks.
const LONGEST: Nanos = Nanos::from_secs(10_000_000);

fn time(text: &str) -> Result<Nanos, String> {
    match Nanos::from_nanos(scaled(text, TIMES, "time")?) {
        time if time > LONGEST => Err(format!("`{text}` is too large")),
        time => Ok(time),
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    scaled(text, SIZES, "size").map(Bytes::new)
}

fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    match unit {
        "%" if number.as_f64() > 100.0 => Err(format!("`{text}` is more than 100%")),
        "%" => Ok(number.as_f64() / 100.0),
        "" => Err(format!("`{text}` is ambiguous: {0}%, or a fraction ({1}%)?", number.text, percent(number))),
        _ => Err(format!("`{unit}` is not a unit of a share")),
    }
}

/// The fraction `number` as a percentage.
fn percent(number: Decimal<'_>) -> f64 {
    (number.digits * 100) as f64 / 10u128.pow(number.places) as f64
}

/// Capacity of a queue, before the BDP is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BufferSize {
    /// Multiples of a bandwidth-delay product.
    Bdp {
        /// The number of BDPs.
        multiple: f64,
        /// RTT from which the BDP is computed, instead of the longest RTT.
        rtt: Option<Nanos>,
    },
    /// A number of packets.
    Packets(u64),
    /// A number of bytes.
    Bytes(Bytes),
    /// The data that the link sends in this time.
    Time(Nanos),
}

fn packets(number: Decimal<'_>, text: &str) -> Result<u64, String> {
    match number.places {
        0 => number.times(1).map_err(|why| format!("`{text}` is {why}")),
        _ => Err(format!("`{text}` is not a whole number of packets")),
    }
}

fn buffer(text: &str) -> Result<BufferSize, String> {
    let (amount, at) = match text.split_once('@') {
        Some((amount, rtt)) => (amount, Some(time(rtt)?)),
        None => (text, None),
    };
    let (number, unit) = split(amount)?;
    match unit {
        "bdp" if at == Some(Nanos::ZERO) => Err(format!("the BDP of `{text}` is zero")),
        "bdp" => Ok(BufferSize::Bdp { multiple: number.as_f64(), rtt: at }),
        _ if at.is_some() => Err(format!("`{text}`: only a BDP refers to an RTT")),
        "pkt" => packets(number, text).map(BufferSize::Packets),
        _ if TIMES.iter().any(|(name, _)| *name == unit) => time(text).map(BufferSize::Time),
        _ if SIZES.iter().any(|(name, _)| *name == unit) => size(text).map(BufferSize::Bytes),
        _ => Err(no_unit(text, unit, &[("bdp", 0), ("pkt", 0)], "a buffer")),
    }
}

/// The initial part of a run that means exclude.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WarmupLength {
    /// A share of the duration.
    Share(f64),
    /// A time.
    Time(Nanos),
}

fn warmup(text: &str) -> Result<WarmupLength, String> {
    match split(text)? {
        (_, "%") => share(text).map(WarmupLength::Share),
        _ => time(text).map(WarmupLength::Time),
    }
}

fn frequency(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    match unit {
        "/s" => Ok(number.as_f64()),
        "/min" => Ok(number.as_f64() / 60.0),
        "" => Err(format!("`{text}` has no unit")),
        _ => Err(format!("`{unit}` is not a unit of a frequency")),
    }
}

/// An amount of data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DataAmount {
    /// A number of full segments.
    Packets(u64),
    /// A number of bytes.
    Bytes(Bytes),
}

fn amount(text: &str) -> Result<DataAmount, String> {
    match split(text)? {
        (number, "pkt") => packets(number, text).map(DataAmount::Packets),
        _ => size(text).map(DataAmount::Bytes),
    }
}

fn period(text: &str) -> Result<Option<Nanos>, String> {
    match text {
        "off" => Ok(None),
        _ => time(text).map(Some),
    }
}

macro_rules! quantity {
    ($(#[$doc:meta])* $Name:ident, $Value:ty, $parse:path, $accepted:ident, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Name {
            text: String,
            value: $Value,
        }

        impl $Name {
            /// The quantity's value.
            pub const fn value(&self) -> $Value {
                self.value
            }
        }

        impl FromStr for $Name {
            type Err = Refused;
            fn from_str(text: &str) -> Result<Self, Refused> {
                match $parse(text) {
                    Ok(value) => Ok(Self { text: text.to_owned(), value }),
                    Err(message) => Err(Refused { message, accepted: $accepted }),
                }
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        }

        impl Serialize for $Name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.text)
            }
        }

        impl<'de> Deserialize<'de> for $Name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Text($accepted)).and_then(|text| text.parse().map_err(de::Error::custom))
            }
        }

        impl JsonSchema for $Name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($Name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $accepted })
            }
        }
    };
}

/// Visits a string. Forwards a bare number as a string, so that the quantity's error can list the missing unit.
struct Text(&'static str);

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }
    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }
    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }
}

quantity! {
    /// A rate: `100mbit`.
    Rate, narrows_cc::Rate, rate, RATE, r"^[0-9]+(\.[0-9]+)? *(bit|kbit|mbit|gbit)$"
}
quantity! {
    /// A time: `40ms`.
    Time, Nanos, time, TIME, r"^[0-9]+(\.[0-9]+)? *(ns|us|ms|s|min)$"
}
quantity! {
    /// A size: `64kB`.
    Size, Bytes, size, SIZE, r"^[0-9]+(\.[0-9]+)? *(B|kB|MB|GB|KiB|MiB|GiB)$"
}
quantity! {
    /// A buffer: `1bdp`.
    Buffer, BufferSize, buffer, BUFFER,
    r"^[0-9]+(\.[0-9]+)? *(bdp(@[0-9]+(\.[0-9]+)? *(ns|us|ms|s|min))?|pkt|B|kB|MB|GB|KiB|MiB|GiB|ns|us|ms|s|min)$"
}
impl Default for Buffer {
    fn default() -> Self {
        parsed("1bdp")
    }
}

quantity! {
    /// A share: `0.1%`. Its value is a fraction.
    Share, f64, share, SHARE, r"^[0-9]+(\.[0-9]+)? *%$"
}
quantity! {
    /// A share of the duration or a time: `10%`.
    Warmup, WarmupLength, warmup, WARMUP, r"^[0-9]+(\.[0-9]+)? *(%|ns|us|ms|s|min)$"
}
quantity! {
    /// A frequency: `10/s`. Its value is per second.
    Frequency, f64, frequency, FREQUENCY, r"^[0-9]+(\.[0-9]+)? */(s|min)$"
}
quantity! {
    /// An amount of data: `2pkt`.
    Amount, DataAmount, amount, AMOUNT, r"^[0-9]+(\.[0-9]+)? *(pkt|B|kB|MB|GB|KiB|MiB|GiB)$"
}
quantity! {
    /// A period, or `off`.
    Period, Option<Nanos>, period, PERIOD, r"^(off|[0-9]+(\.[0-9]+)? *(ns|us|ms|s|min))$"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: FromStr<Err = Refused> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().message
    }

    /// Units scale values exactly.
    #[test]
    fn units_scale_exactly() {
        assert_eq!("2.5kbit".parse::<Rate>().unwrap().value().as_bytes_per_sec(), 312);
        assert_eq!("1gbit".parse::<Rate>().unwrap().value().as_bytes_per_sec(), 125_000_000);
        assert_eq!("0.1 ms".parse::<Time>().unwrap().value(), Nanos::from_micros(100));
        assert_eq!("2min".parse::<Time>().unwrap().value(), Nanos::from_secs(120));
        assert_eq!("1.5kB".parse::<Size>().unwrap().value(), Bytes::new(1500));
        assert_eq!("1MiB".parse::<Size>().unwrap().value(), Bytes::new(1_048_576));
        assert_eq!("0.1%".parse::<Share>().unwrap().value(), 0.001);
        assert_eq!("90/min".parse::<Frequency>().unwrap().value(), 1.5);
        assert_eq!("off".parse::<Period>().unwrap().value(), None);
    }

    /// A quantity keeps its string as written.
    #[test]
    fn quantity_keeps_the_text_as_written() {
        assert_eq!("0.10ms".parse::<Time>().unwrap().to_string(), "0.10ms");
    }

    /// Buffers are read in every unit.
    #[test]
    fn buffers_are_read_in_every_unit() {
        let value = |text: &str| text.parse::<Buffer>().unwrap().value();
        assert_eq!(value("0.1bdp"), BufferSize::Bdp { multiple: 0.1, rtt: None });
        assert_eq!(value("5bdp@10ms"), BufferSize::Bdp { multiple: 5.0, rtt: Some(Nanos::from_millis(10)) });
        assert_eq!(value("100pkt"), BufferSize::Packets(100));
        assert_eq!(value("64kB"), BufferSize::Bytes(Bytes::new(64_000)));
        assert_eq!(value("50ms"), BufferSize::Time(Nanos::from_millis(50)));
    }

    /// Errors of quantities name the problem and the accepted values.
    #[test]
    fn quantity_refusals_name_the_problem() {
        assert_eq!(refused::<Rate>("100"), "`100` has no unit");
        assert_eq!(refused::<Rate>("100mbps"), "`mbps` is not a unit of a rate here; write `mbit`");
        assert_eq!(refused::<Rate>("100Mbit/s"), "`Mbit/s` is not a unit of a rate here; write `mbit`");
        assert_eq!(refused::<Rate>("10MB/s"), "`MB/s` is not a unit of a rate");
        assert_eq!(refused::<Rate>("-5mbit"), "`-5mbit` is negative");
        assert_eq!(refused::<Rate>("fast"), "`fast` is not a number with a unit");
        assert_eq!(refused::<Rate>("1.2.3mbit"), "`1.2.3mbit` is not a number with a unit");
        assert_eq!(refused::<Rate>("4bit"), "`4bit` is too small: less than a byte per second");
        assert_eq!(refused::<Time>("0.1ns"), "`0.1ns` is too small");
        assert_eq!(refused::<Time>("200000min"), "`200000min` is too large");
        assert_eq!(refused::<Time>("1h"), "`h` is not a unit of time");
        assert_eq!(refused::<Size>("64kb"), "`kb` is ambiguous: bits or bytes, and of 1000 or 1024?");
        assert_eq!(refused::<Share>("0.001"), "`0.001` is ambiguous: 0.001%, or a fraction (0.1%)?");
        assert_eq!(refused::<Share>("101%"), "`101%` is more than 100%");
        assert_eq!(refused::<Buffer>("1.5pkt"), "`1.5pkt` is not a whole number of packets");
        assert_eq!(refused::<Buffer>("5pkt@10ms"), "`5pkt@10ms`: only a BDP refers to an RTT");
        assert_eq!(refused::<Buffer>("5BDP"), "`BDP` is not a unit of a buffer here; write `bdp`");
    }
}
