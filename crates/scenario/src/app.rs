//! Applications: their tables of keys, and the resolution of a flow's `size` and `app`.

use std::ops::RangeInclusive;

use narrows_cc::{Bytes, Nanos};
use narrows_traffic::AppConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::{Diagnostic, key_in, refuse};
use crate::keys;
use crate::quantity::{Rate, Size, Time};
use crate::schema::short::tagged;
use crate::schema::table::table;

tagged! {
    /// An application with its parameters.
    App {
        /// Backlogged: always has data to send.
        Bulk(Bulk) "bulk",
        /// Alternates between busy and silent periods.
        OnOff(OnOff) "on-off",
        /// A constant bit rate.
        Cbr(Cbr) "cbr",
        /// A video of variable bit rate.
        Video(Video) "video",
    }
    fn accepted() -> String {
        "bulk, or a table: { kind = \"on-off\", on = \"1s\", off = \"1s\" }, { kind = \"cbr\", rate = \"1mbit\" } or \
        { kind = \"video\", rate = \"1mbit\" }"
            .to_owned()
    }
}

table! {
    /// Bulk data has no parameters.
    Bulk {
        ;
    }
}

table! {
    /// Parameters of an application that alternates.
    OnOff {
        /// Length of a busy period.
        on: Time,
        /// Length of a silent period.
        off: Time,
        ; // optional:
        /// Draw both lengths from exponential distributions with these means (false).
        random: bool,
    }
}

table! {
    /// Parameters of a constant bit rate.
    Cbr {
        /// Payload rate.
        rate: Rate,
        ; // optional:
        /// Size of one write (one segment).
        write: Size,
    }
}

table! {
    /// Parameters of a video.
    Video {
        /// Mean payload rate.
        rate: Rate,
        ; // optional:
        /// Frames per second (30).
        frames: f64,
        /// Interval of key frames in frames (60).
        key_every: u32,
        /// Size of key frames relative to the others (5).
        key_size: f64,
        /// Standard deviation of frame sizes relative to their mean (0.2).
        variation: f64,
    }
}

/// Resolves the keys `size` and `app` of `table`. By default, an application with a constant bit rate writes
/// one segment at a time.
pub(crate) fn app(size: Option<&Size>, app: Option<&App>, table: &str, segment: u16) -> Result<AppConfig, Diagnostic> {
    let key = |name: &str| key_in(table, name);
    if let Some(size) = size {
        if app.is_some() {
            return refuse(key("app"), "`size` already makes the flow a file", "either size or app");
        }
        return match size.value() {
            Bytes::ZERO => refuse(key("size"), format!("`{size}` is an empty file"), "a size above zero"),
            size => Ok(AppConfig::File(size)),
        };
    }
    let period = |name: &str, time: &Time| match time.value() {
        Nanos::ZERO => refuse(key(name), "a period of zero", "a time above zero"),
        time => Ok(time),
    };
    let ranged = |name: &str, stated: Option<f64>, default: f64, range: RangeInclusive<f64>| match stated {
        Some(value) if !range.contains(&value) => refuse(
            key(&format!("app.{name}")),
            format!("`{value}` is out of range"),
            format!("{} to {}", range.start(), range.end()),
        ),
        stated => Ok(stated.unwrap_or(default)),
    };
    Ok(match app {
        None | Some(App::Bulk(_)) => AppConfig::Bulk,
        Some(App::OnOff(own)) => AppConfig::OnOff {
            on: period("app.on", &own.on)?,
            off: period("app.off", &own.off)?,
            random: own.random.unwrap_or(false),
        },
        Some(App::Video(own)) => AppConfig::Video {
            rate: keys::rate(&key("app.rate"), &own.rate)?,
            frames: ranged("frames", own.frames, 30.0, 1.0..=1_000.0)?,
            key_every: ranged("key_every", own.key_every.map(f64::from), 60.0, 1.0..=100_000.0)? as u32,
            key_size: ranged("key_size", own.key_size, 5.0, 1.0..=1_000.0)?,
            variation: ranged("variation", own.variation, 0.2, 0.0..=1.0)?,
        },
        Some(App::Cbr(own)) => {
            let rate = keys::rate(&key("app.rate"), &own.rate)?;
            let write = own.write.as_ref().map_or(Bytes::new(segment.into()), Size::value);
            if write.is_zero() {
                return refuse(key("app.write"), "writes of zero bytes", "a size above zero");
            }
            AppConfig::Cbr { rate, write }
        }
    })
}
