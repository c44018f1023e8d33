//! Keeps processors awake. One that sleeps takes tens of microseconds to wake, and longer in a virtual machine: on a slow
//! path, whose packets are rare, that delays every timer and every packet. A scheme that takes the maximum of rate samples
//! then overestimates the rate.
//!
//! A thread of the policy `SCHED_IDLE` spins on each of a few processors. It runs only where nothing else wants to, and
//! needs no rights.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Processors kept awake at most: as many as a run has threads, and one for others.
const MOST: usize = 4;
/// Turns between two looks at the end.
const TURNS: u32 = 1000;

/// Processors that stay awake until this is dropped.
#[derive(Debug)]
pub(crate) struct Awake {
    kept: CpuSet,
    over: Arc<AtomicBool>,
    spinners: Vec<thread::JoinHandle<bool>>,
}

impl Awake {
    /// Keeps processors awake that the calling thread may use. Where the system does not allow it, they sleep as ever.
    pub(crate) fn begin() -> Self {
        let mut kept = CpuSet::new();
        let own = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let chosen: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| own.is_set(*cpu)).take(MOST).collect();
        chosen.iter().for_each(|cpu| kept.set(*cpu));
        let over = Arc::new(AtomicBool::new(false));
        let spin = |cpu| {
            let over = Arc::clone(&over);
            thread::Builder::new().name(format!("awake-{cpu}")).spawn(move || spin(cpu, &over)).ok()
        };
        let spinners = chosen.into_iter().filter_map(spin).collect();
        Self { kept, over, spinners }
    }

    /// Binds the calling thread to the processors kept awake.
    pub(crate) fn stay(&self) {
        let _ = sched_setaffinity(None, &self.kept);
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for spinner in self.spinners.drain(..) {
            let _ = spinner.join();
        }
    }
}

/// Spins on a processor until the end. Returns whether the system allowed it to, behind everything else.
fn spin(cpu: usize, over: &AtomicBool) -> bool {
    let mut own = CpuSet::new();
    own.set(cpu);
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let allowed = sched_setaffinity(None, &own).is_ok()
        && set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).is_ok();
    while allowed && !over.load(Ordering::Relaxed) {
        (0..TURNS).for_each(|_| hint::spin_loop());
    }
    allowed
}

#[cfg(test)]
mod tests {
    use thread_priority::thread_schedule_policy;

    use super::*;

    /// A thread that spins has the idle policy and one processor.
    #[test]
    fn thread_that_spins_is_behind_all_others() {
        let own = sched_getaffinity(None).expect("the processors of this thread");
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| own.is_set(*cpu)).expect("a processor");
        let spun = thread::spawn(move || {
            let allowed = spin(cpu, &AtomicBool::new(true));
            (allowed, thread_schedule_policy(), sched_getaffinity(None).map(|set| set.count()))
        });
        let (allowed, policy, cpus) = spun.join().expect("no panic");
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        assert!(allowed && matches!(policy, Ok(policy) if policy == idle), "{policy:?}");
        assert_eq!(cpus.ok(), Some(1));
    }

    /// The threads end with their owner, also those that never began to spin.
    #[test]
    fn threads_end_with_their_owner() {
        let awake = Awake::begin();
        let over = Arc::clone(&awake.over);
        assert!((1..=MOST).contains(&awake.spinners.len()), "{awake:?}");
        drop(awake);
        // Each had a copy.
        assert_eq!(Arc::strong_count(&over), 1);
    }
}
