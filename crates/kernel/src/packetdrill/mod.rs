//! Packetdrill scripts on this machine's TCP: the same runner as in `narrows-packetdrill`, with the kernel as its
//! stack, in real time.
//!
//! A thread moves into a network namespace of its own, whose only way out is a TUN device. Packets of the script are
//! written to the device, and packets of the kernel are read from it (`wire` maps their numbers). System calls of the
//! script run on sockets of the kernel (`calls`, `options`), those that block in threads of their own. `machine` applies
//! the script's settings to the namespace; no shell runs, and nothing outside of the namespace changes.
//!
//! Packets that leave may be late by at least [`Settings::lateness`], and by an eighth of the time since the last event:
//! timers of the kernel tick, and those of long waits fire late.

mod calls;
mod info;
mod machine;
mod options;
mod socket;
mod stack;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use narrows_cc::Nanos;
use narrows_host::HostError;
use narrows_host::clock::hurry;
use narrows_packetdrill::{ReadFile, Report};

/// Priority among real-time threads.
const PRIORITY: u8 = 50;
/// Interval between questions whether to end.
const WATCH: Duration = Duration::from_millis(50);

/// How a script runs on the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How far a packet may be from its time at least.
    pub lateness: Duration,
}

impl Default for Settings {
    /// The tolerance of packetdrill.
    fn default() -> Self {
        Self { lateness: Duration::from_millis(4) }
    }
}

/// Runs the script `text` on this machine's kernel. `files` reads the shell scripts that it names. `is_cancelled` is asked
/// now and then whether to end at once; then the script fails.
///
/// # Errors
/// If there are no rights to, or if the kernel refuses the namespace or the device.
pub fn run(
    text: &str,
    files: ReadFile<'_>,
    settings: &Settings,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Report, HostError> {
    narrows_host::namespace::available("--on kernel")?;
    // Files are read before, because the reader stays in its thread.
    let (asked, names) = std::sync::mpsc::channel::<String>();
    let (reply, texts) = std::sync::mpsc::channel::<Option<String>>();
    let lateness = Nanos::from_nanos(settings.lateness.as_nanos() as u64);
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = stopped.clone();
    thread::scope(|scope| {
        let running = scope.spawn(move || {
            hurry(PRIORITY);
            let read = move |name: &str| {
                asked.send(name.to_owned()).ok()?;
                texts.recv().ok().flatten()
            };
            let mut failed = None;
            let report = narrows_packetdrill::run_on(text, &read, |mtu| {
                stack::Kernel::open(mtu, lateness, stopped.clone()).map_err(|error| {
                    let problem = narrows_packetdrill::script::Problem::failure(1, error.to_string());
                    failed = Some(error);
                    problem
                })
            });
            failed.map_or(Ok(report), Err)
        });
        loop {
            match names.recv_timeout(WATCH) {
                Ok(name) => {
                    if reply.send(files(&name)).is_err() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => stop.store(is_cancelled(), Ordering::Relaxed),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        running.join().unwrap_or_else(|_| Err(HostError::crashed("the script")))
    })
}
