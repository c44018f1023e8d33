//! Time of a run: the monotonic clock since its start, and threads that keep to it.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use narrows_cc::Nanos;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

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

/// Gives the calling thread a real-time priority and exact timers, where allowed. Returns whether it has the priority.
pub(crate) fn hurry(priority: u8) -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    priority
        .try_into()
        .map(ThreadPriority::Crossplatform)
        .is_ok_and(|priority| set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok())
}
