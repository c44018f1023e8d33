//! Lateness of the emulator's readings and deliveries.

use narrows_cc::Nanos;
use narrows_scenario::result::Lateness;
use narrows_units::Histogram;

/// Lateness beyond which a delivery or reading is a stall.
const STALL: Nanos = Nanos::from_millis(5);
/// Longest lateness, and share of stalls, beyond which a run is repeated.
const LONGEST: Nanos = Nanos::from_millis(20);
const SHARE_OF_STALLS: f64 = 0.005;

/// Lateness of deliveries and readings.
#[derive(Debug)]
pub struct Late {
    delays: Histogram,
    /// Longest lateness of a delivery or reading.
    longest: Nanos,
    stalls: u64,
}

impl Late {
    pub(crate) fn new() -> Self {
        Self { delays: Histogram::new(), longest: Nanos::ZERO, stalls: 0 }
    }

    /// Notes that a packet scheduled for `due` was delivered at `now`.
    #[inline]
    pub fn record(&mut self, due: Nanos, now: Nanos) {
        let delay = now - due;
        self.delays.record(delay.as_nanos());
        self.add(delay);
    }

    /// Notes that a packet that a host sent at `sent` or earlier was read at `now`.
    #[inline]
    pub fn read(&mut self, sent: Nanos, now: Nanos) {
        self.add(now - sent);
    }

    fn add(&mut self, delay: Nanos) {
        self.longest = self.longest.max(delay);
        self.stalls += u64::from(delay > STALL);
    }

    /// Whether the run was disturbed too much to be trusted.
    pub fn is_disturbed(&self) -> bool {
        self.longest > LONGEST || self.stalls as f64 > SHARE_OF_STALLS * self.delays.count() as f64
    }

    /// The lateness figures for a run's result.
    pub fn report(&self) -> Lateness {
        Lateness {
            mean_us: self.delays.mean() / 1e3,
            p99_us: self.delays.quantile(0.99) / 1e3,
            longest_ms: self.longest.as_nanos() as f64 / 1e6,
            stalls: self.stalls,
        }
    }
}
