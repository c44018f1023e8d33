//! Time of a run: the monotonic clock since its start, and threads with exact timing.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use narrows_units::Nanos;
use rustix::time::{ClockId, Timespec, clock_gettime};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Time since the start of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that begins at `start`.
    pub const fn from(start: Instant) -> Self {
        Self { start }
    }

    /// Time since the start; zero before it.
    #[inline]
    pub fn now(self) -> Nanos {
        self.at(Instant::now())
    }

    /// The time of an instant; zero before the start.
    pub fn at(self, instant: Instant) -> Nanos {
        Nanos::from_nanos(instant.saturating_duration_since(self.start).as_nanos() as u64)
    }

    /// Time left until `at`.
    pub fn until(self, at: Nanos) -> Duration {
        let at = self.start + Duration::from_nanos(at.as_nanos().min(u64::MAX / 4));
        at.saturating_duration_since(Instant::now())
    }
}

/// A duration for system calls.
pub fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

/// Gives the calling thread exact timers.
pub fn exact_timers() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Gives the calling thread a real-time priority and exact timers, where allowed. Returns whether it has the priority.
pub fn hurry(priority: u8) -> bool {
    exact_timers();
    set(priority, ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo))
}

fn set(priority: u8, policy: ThreadSchedulePolicy) -> bool {
    let priority = priority.try_into().map(ThreadPriority::Crossplatform);
    priority.is_ok_and(|priority| set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok())
}

/// Real-time priority within the kernel's limit: after 950 ms of CPU time in a second (`sched_rt_runtime_us`), Linux
/// halts real-time threads for the rest of that second. A thread that drops its priority before the limit keeps
/// running.
#[derive(Debug)]
pub struct Budget {
    priority: u8,
    /// Whether the system allows the priority. `has`: whether the thread has it now.
    pub granted: bool,
    has: bool,
    begun: Instant,
    used: Duration,
}

impl Budget {
    const WINDOW: Duration = Duration::from_millis(200);
    /// Maximum CPU time per window: nine tenths of the window. That is less than the kernel's 95 %, because the CPU
    /// time is read only every few milliseconds.
    const MOST: Duration = Duration::from_millis(180);

    /// Gives the calling thread this priority, where allowed.
    pub fn begin(priority: u8) -> Self {
        let granted = hurry(priority);
        Self { priority, granted, has: granted, begun: Instant::now(), used: cpu_time() }
    }

    /// Drops the priority before the thread reaches the limit, and restores the priority in the next window. Call this
    /// function every 5 ms.
    pub fn look(&mut self) {
        if !self.granted {
            return;
        }
        if self.begun.elapsed() >= Self::WINDOW {
            if !self.has {
                self.has = hurry(self.priority);
            }
            (self.begun, self.used) = (Instant::now(), cpu_time());
        } else if self.has && cpu_time().saturating_sub(self.used) > Self::MOST {
            self.has = !relax();
        }
    }
}

/// Removes the calling thread's real-time priority; the thread gets the highest weight among normal threads.
fn relax() -> bool {
    set(99, ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other))
}

/// CPU time of the calling thread.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
