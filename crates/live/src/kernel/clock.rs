//! Time of a run: the monotonic clock since its start.

use std::time::{Duration, Instant};

use narrows_cc::Nanos;

/// Time since the start of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that begins at `start`.
    pub(crate) const fn from(start: Instant) -> Self {
        Self { start }
    }

    /// Time since the start; zero before it.
    #[inline]
    pub(crate) fn now(self) -> Nanos {
        Nanos::from_nanos(Instant::now().saturating_duration_since(self.start).as_nanos() as u64)
    }

    /// Time left until `at`.
    pub(crate) fn until(self, at: Nanos) -> Duration {
        let at = self.start + Duration::from_nanos(at.as_nanos().min(u64::MAX / 4));
        at.saturating_duration_since(Instant::now())
    }
}
