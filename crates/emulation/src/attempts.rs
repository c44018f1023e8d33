//! Repeats runs that the machine disturbed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_host::HostError;
use narrows_scenario::result::RunResult;

/// Maximum number of attempts.
const ATTEMPTS: u32 = 3;

/// Repeats a disturbed run, with a new observer; `None` if cancelled.
///
/// # Errors
/// If the observer cannot be created, or the run fails.
pub fn attempts<O>(
    mut observer: impl FnMut() -> io::Result<O>,
    mut run: impl FnMut(O) -> Result<Option<(RunResult, O)>, HostError>,
) -> Result<Option<(RunResult, O)>, HostError> {
    for attempt in 1.. {
        let own = observer().map_err(|error| HostError::step("create the files of the run", error))?;
        let Some((mut result, own)) = run(own)? else { return Ok(None) };
        let disturbed = result.host.as_ref().is_some_and(|host| host.disturbed);
        if !disturbed || attempt == ATTEMPTS {
            if let Some(host) = &mut result.host {
                host.attempts = attempt;
            }
            return Ok(Some((result, own)));
        }
    }
    unreachable!("the last attempt returns")
}

/// Sets the flag when dropped, which ends the threads that watch the flag.
#[derive(Debug)]
pub struct Ending<'a>(pub &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
