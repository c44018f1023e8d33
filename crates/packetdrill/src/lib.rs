//! Runs [packetdrill](https://github.com/google/packetdrill) scripts against the TCP endpoint of
//! `narrows-tcp`, in virtual time and without I/O.
//!
//! A script states arriving packets, system calls of the application, and which packets must leave when. `parse` reads
//! the script (with `lexer` and `script`), `shell` stores the settings made by shell commands, `python` evaluates
//! assertions, `connection` combines a sender and a receiver into a TCP connection, `host` has the sockets, and
//! `runner` drives the clock and compares packets. A script runs on a [`stack::Stack`]: here on `host`, in
//! `narrows-kernel` on the kernel.
//!
//! Rules of the comparison:
//! 1. A packet must leave at its time within a tolerance: 4 ms, or an eighth of the time since the last event if that
//!    is more. The clock of the endpoint is exact.
//! 2. Several consecutive packets may match one longer packet of the script, like the parts of a TSO packet, unless
//!    `--strict_segments` forbids this.
//! 3. Packets must leave in the order of the script, and every packet that leaves must be in the script. After the last
//!    line with a sent packet, packets caused by later arrivals and calls are not compared. A packet that has another
//!    cause, such as a timer, is a failure, unless the script states no packet with data at all.
//! 4. PSH is not compared. Window fields and ECN fields are compared if the script states them.
//! 5. `write` accepts the script's number of bytes, unless `SO_SNDBUF` sets the send buffer: a kernel sizes buffers
//!    according to its memory. Results of `poll` and `epoll_wait` are not compared. [`Report::unchecked`] names such
//!    calls.

mod connection;
mod host;
mod lexer;
mod parse;
mod python;
mod runner;
pub mod script;
pub mod shell;
pub mod stack;

pub use shell::ReadFile;

/// The outcome of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything happened as scripted.
    Pass,
    /// An event did not happen as scripted.
    Fail,
    /// The script needs an unsupported feature.
    Skip,
}

impl Verdict {
    /// `pass`, `fail` or `skip`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }
}

/// The outcome of a script, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The outcome.
    pub verdict: Verdict,
    /// Line of the event that failed or is not supported, from 1; `None` after a pass.
    pub line: Option<usize>,
    /// Expected and observed behaviour; empty after a pass.
    pub reason: String,
    /// System calls whose results were not compared, each once.
    pub unchecked: Vec<String>,
}

/// Runs the script `text`. `files` reads a shell script by the path that `text` gives (`../common/defaults.sh`); if
/// `files` returns `None`, the settings of the public test suites are used.
pub fn run(text: &str, files: ReadFile<'_>) -> Report {
    run_on(text, files, |mtu| Ok(host::Host::new(mtu)))
}

/// Reason why the endpoint cannot execute a system call, if any.
pub fn unsupported(call: &script::Call) -> Option<String> {
    host::unsupported(call)
}

/// Runs the script `text` on the stack that `open` creates for an MTU.
pub fn run_on<S: stack::Stack>(
    text: &str,
    files: ReadFile<'_>,
    open: impl FnOnce(u16) -> Result<S, script::Problem>,
) -> Report {
    let (unchecked, result) = match parse::parse(text) {
        Ok(script) => runner::run(&script, files, open),
        Err(problem) => (Vec::new(), Err(problem)),
    };
    match result {
        Ok(()) => Report { verdict: Verdict::Pass, line: None, reason: String::new(), unchecked },
        Err(problem) => Report {
            verdict: if problem.skips { Verdict::Skip } else { Verdict::Fail },
            line: Some(problem.line),
            reason: problem.reason,
            unchecked,
        },
    }
}
