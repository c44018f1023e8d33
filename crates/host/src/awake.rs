//! Keeps a processor awake. A sleeping processor takes tens of microseconds to wake, and longer in a virtual machine:
//! on a slow path, with rare packets, waking delays every timer and packet. Schemes with a maximum filter then
//! overestimate the rate.
//!
//! A thread of the policy `SCHED_IDLE` spins on the processor. It runs only while nothing else does, and needs no
//! rights. The threads of the run stay on that processor too, because another one would have to wake up first. Only one
//! processor is kept awake: a virtual machine that is never idle loses its processors to others for milliseconds.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Iterations of the loop between checks for the end.
const TURNS: u32 = 1000;

/// A processor that stays awake until this is dropped.
#[derive(Debug)]
pub struct Awake {
    kept: CpuSet,
    over: Arc<AtomicBool>,
    spinner: Option<thread::JoinHandle<bool>>,
}

impl Awake {
    /// Keeps the calling thread's current processor awake, if the system allows it.
    pub fn begin() -> Self {
        let mut kept = CpuSet::new();
        kept.set(sched_getcpu());
        let over = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&over);
        let spinner = thread::Builder::new().name("awake".to_owned()).spawn(move || spin(&kept, &shared)).ok();
        Self { kept, over, spinner }
    }

    /// Binds the calling thread to the processor.
    pub fn stay(&self) {
        let _ = sched_setaffinity(None, &self.kept);
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(spinner) = self.spinner.take() {
            let _ = spinner.join();
        }
    }
}

/// Spins on a processor until the end. Returns whether the system allowed that, at the lowest priority.
fn spin(kept: &CpuSet, over: &AtomicBool) -> bool {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let allowed = sched_setaffinity(None, kept).is_ok()
        && set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).is_ok();
    while allowed && !over.load(Ordering::Relaxed) {
        (0..TURNS).for_each(|_| hint::spin_loop());
    }
    allowed
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;
    use thread_priority::thread_schedule_policy;

    use super::*;

    /// A thread that spins has the idle policy and one processor.
    #[test]
    fn thread_that_spins_is_behind_all_others() {
        let mut kept = CpuSet::new();
        kept.set(sched_getcpu());
        let spun = thread::spawn(move || {
            let allowed = spin(&kept, &AtomicBool::new(true));
            (allowed, thread_schedule_policy(), sched_getaffinity(None).map(|set| set.count()))
        });
        let (allowed, policy, cpus) = spun.join().expect("no panic");
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        assert!(allowed && matches!(policy, Ok(policy) if policy == idle), "{policy:?}");
        assert_eq!(cpus.ok(), Some(1));
    }

    /// The thread ends with its owner, even before it spins.
    #[test]
    fn thread_ends_with_its_owner() {
        let awake = Awake::begin();
        let over = Arc::clone(&awake.over);
        drop(awake);
        // The thread had the only other reference.
        assert_eq!(Arc::strong_count(&over), 1);
    }
}
