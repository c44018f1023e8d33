//! Shared parts of real-time tests and tests of attacks: lock, length, seed, and the table of attempts.
//!
//! `NARROWS_REDTEAM=N` makes long tests N times as long, `NARROWS_SEED=N` selects another seed, and `-- --show-output`
//! shows the rows, which `make redteam` collects.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tests hold this lock, because real-time runs and loads of programs disturb each other, and a loaded program changes
/// other runs.
static ALONE: Mutex<()> = Mutex::new(());

/// Keeps out other runs and loads of programs until the guard is dropped.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of an environment variable, or a default if it is not set.
pub fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number; accepted: such as {default}"))
}

/// Factor on the tests' length.
pub fn length() -> u32 {
    number("NARROWS_REDTEAM", 1) as u32
}

/// The seed of random draws.
pub fn seed() -> u64 {
    let seed = number("NARROWS_SEED", 15);
    println!("seed {seed}");
    seed
}

/// Prints a row of the table.
pub fn print_row(tried: &str, many: impl Display, result: &str) {
    println!("{tried} | {many} | {result}");
}

/// Prints the reason for a skipped test; bypasses the test runner, which captures `eprintln!`.
pub fn skipped(needs: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}

/// Largest share of a judged run's time in which some task of the machine waits for a processor.
const CALM: f64 = 0.3;

/// Judges whether a real-time run was disturbed: by the run's lateness, and by the time in which tasks waited for a
/// processor, where the kernel reports it (`/proc/pressure/cpu`).
#[derive(Debug)]
pub struct Calm {
    began: Instant,
    waited: Option<Duration>,
}

impl Calm {
    pub fn begin() -> Self {
        Self { began: Instant::now(), waited: waited() }
    }

    /// Whether a test may judge the run, for which the backend reports `disturbed` and `lateness`. If not, prints the
    /// reason; tests in virtual time check the same property.
    pub fn judges(&self, disturbed: bool, lateness: &impl std::fmt::Debug) -> bool {
        let passed = self.began.elapsed().as_secs_f64();
        let waited = self.waited.zip(waited()).map_or(0.0, |(before, after)| (after - before).as_secs_f64() / passed);
        if disturbed || waited > CALM {
            let percent = 100.0 * waited;
            let reason = format!("disturbed, not judged: tasks waited {percent:.0} % of the time; {lateness:?}");
            let _ = writeln!(std::io::stderr(), "{reason}");
        }
        !disturbed && waited <= CALM
    }
}

/// Time in which some task of the machine has waited for a processor.
fn waited() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let total = text.lines().next()?.split("total=").nth(1)?;
    total.trim().parse().ok().map(Duration::from_micros)
}
