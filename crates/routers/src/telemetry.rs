//! Telemetry of router algorithms.

/// Value of one telemetry item. Router algorithms compute with fluid quantities, for which whole bytes and
/// nanoseconds would be too coarse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// A rate, in bytes per second.
    Rate(f64),
    /// An amount of data, in bytes.
    Bytes(f64),
    /// A time or interval, in seconds.
    Time(f64),
    /// A dimensionless number.
    Number(f64),
    /// The name of a state.
    State(&'static str),
}

impl Reading {
    /// A count.
    pub const fn count(n: u64) -> Self {
        Self::Number(n as f64)
    }

    /// The number in the units above; none for a state.
    pub const fn number(self) -> Option<f64> {
        match self {
            Self::Rate(x) | Self::Bytes(x) | Self::Time(x) | Self::Number(x) => Some(x),
            Self::State(_) => None,
        }
    }
}

/// A receiver of telemetry, called once per named item.
pub type TelemetrySink<'a> = &'a mut dyn FnMut(&'static str, Reading);

/// One item of a telemetry report, by name.
pub(crate) fn find(report: impl FnOnce(TelemetrySink<'_>), name: &str) -> Option<Reading> {
    let mut found = None;
    report(&mut |item, reading| {
        if item == name {
            found = Some(reading);
        }
    });
    found
}
