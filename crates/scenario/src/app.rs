//! The application of an entry's flows: `size`, or `app` with the parameters of its kind.

use std::ops::RangeInclusive;

use narrows_cc::{Bytes, Rate};
use narrows_traffic::AppConfig;

use crate::diagnostic::{Diagnostic, key_in};
use crate::keys;
use crate::quantity::{Size, Time};
use crate::schema::choice::{self, App, AppKind};

/// Resolves the keys `size` and `app` of `table`. By default a constant rate writes one segment at a time.
pub(crate) fn app(
    size: Option<&Size>,
    app: Option<&App>,
    table: &str,
    segment: u16,
) -> Result<AppConfig, Diagnostic> {
    let key = |name: &str| key_in(table, name);
    if let Some(size) = size {
        if app.is_some() {
            return Err(Diagnostic::new(key("app"), "`size` already makes the flow a file")
                .accepted("either size or app"));
        }
        return match size.value() {
            Bytes::ZERO => Err(Diagnostic::new(key("size"), format!("`{size}` is an empty file"))
                .accepted("a size above zero")),
            size => Ok(AppConfig::File(size)),
        };
    }
    let bulk = App::default();
    let app = app.unwrap_or(&bulk);
    let allowed: &[&str] = match app.kind {
        AppKind::Bulk => &[],
        AppKind::OnOff => &["on", "off", "random"],
        AppKind::Cbr => &["rate", "write"],
        AppKind::Video => &["rate", "frames", "key_every", "key_size", "variation"],
    };
    let kind = choice::name_of(&app.kind);
    if let Some(stray) = choice::stray_key(app, allowed) {
        return Err(Diagnostic::new(key(&format!("app.{stray}")), format!("`{kind}` has no such parameter"))
            .accepted(if allowed.is_empty() { "no parameter".to_owned() } else { allowed.join(", ") }));
    }
    let period =
        |name: &str, time: &Option<Time>| match time.as_ref().map(Time::value) {
            Some(time) if !time.is_zero() => Ok(time),
            Some(_) => Err(Diagnostic::new(key(&format!("app.{name}")), "a period of zero")
                .accepted("a time above zero")),
            None => Err(Diagnostic::new(key(&format!("app.{name}")), format!("`{kind}` requires this key"))
                .accepted("a time such as 1s")),
        };
    let rate = || -> Result<Rate, Diagnostic> {
        match &app.rate {
            Some(rate) => keys::rate(&key("app.rate"), rate),
            None => Err(Diagnostic::new(key("app.rate"), format!("`{kind}` requires this key"))
                .accepted("a rate such as 1mbit")),
        }
    };
    let ranged = |name: &str, stated: Option<f64>, default: f64, range: RangeInclusive<f64>| match stated {
        Some(value) if !range.contains(&value) => {
            Err(Diagnostic::new(key(&format!("app.{name}")), format!("`{value}` is out of range"))
                .accepted(format!("{} to {}", range.start(), range.end())))
        }
        stated => Ok(stated.unwrap_or(default)),
    };
    Ok(match app.kind {
        AppKind::Bulk => AppConfig::Bulk,
        AppKind::OnOff => AppConfig::OnOff {
            on: period("on", &app.on)?,
            off: period("off", &app.off)?,
            random: app.random.unwrap_or(false),
        },
        AppKind::Video => AppConfig::Video {
            rate: rate()?,
            frames: ranged("frames", app.frames, 30.0, 1.0..=1_000.0)?,
            key_every: ranged("key_every", app.key_every.map(f64::from), 60.0, 1.0..=100_000.0)? as u32,
            key_size: ranged("key_size", app.key_size, 5.0, 1.0..=1_000.0)?,
            variation: ranged("variation", app.variation, 0.2, 0.0..=1.0)?,
        },
        AppKind::Cbr => {
            let rate = rate()?;
            let write = app.write.as_ref().map_or(Bytes::new(segment.into()), Size::value);
            if write.is_zero() {
                return Err(
                    Diagnostic::new(key("app.write"), "writes of zero bytes").accepted("a size above zero")
                );
            }
            AppConfig::Cbr { rate, write }
        }
    })
}
