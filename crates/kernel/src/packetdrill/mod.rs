//! Packetdrill scripts on this machine's TCP: the same runner as in `narrows-packetdrill`, with the kernel as its
//! stack, in real time.
//!
//! A thread enters a new network namespace, whose only exit is a TUN device. It writes packets of the script to the
//! device, and reads packets of the kernel from it (`wire` maps their ports and sequence numbers). System calls of the
//! script run on sockets of the kernel (`calls`, `options`); blocking calls run in separate threads. `machine` applies
//! the script's settings to the namespace; no shell runs, and nothing outside of the namespace changes.
//!
//! The kernel's packets may be late by the larger of [`Settings::lateness`] and an eighth of the time since the last
//! event: kernel timers have the resolution of a tick, and the longer a timer, the later it may fire.

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
/// Interval between checks for cancellation.
const WATCH: Duration = Duration::from_millis(50);

/// Settings of a script's run on the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Minimum tolerance for packet times.
    pub lateness: Duration,
}

impl Default for Settings {
    /// The tolerance of packetdrill.
    fn default() -> Self {
        Self { lateness: Duration::from_millis(4) }
    }
}

/// Runs the script `text` on this machine's kernel. `files` reads the shell scripts that `text` names. The script fails
/// as soon as `is_cancelled`, which is polled, returns true.
///
/// # Errors
/// Without rights, or if the kernel refuses the namespace or the device.
pub fn run(
    text: &str,
    files: ReadFile<'_>,
    settings: &Settings,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Report, HostError> {
    narrows_host::namespace::available("--on kernel")?;
    // This thread calls `files`, which cannot be sent to another thread.
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
