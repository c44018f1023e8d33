//! Shared parts of the hostile tests: turns, length, seed, and the table of attempts.
//!
//! `NARROWS_REDTEAM=N` makes long forms N times as long, `NARROWS_SEED=N` selects another seed, and `-- --show-output`
//! shows the rows, which `make redteam` collects.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Real-time runs and loads disturb each other, and a loaded program changes other runs.
static ALONE: Mutex<()> = Mutex::new(());

/// Keeps other runs and loads out.
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

/// Reports the reason for a skipped test, past the runner, which captures `eprintln!`.
pub fn skipped(needs: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}

/// Reports a disturbed real-time run, which the test does not judge. Tests in virtual time check the law.
pub fn disturbed(lateness: &impl std::fmt::Debug) {
    let _ = writeln!(std::io::stderr(), "disturbed, not judged: {lateness:?}");
}
