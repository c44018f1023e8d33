//! The TCP stack that a script runs on: the endpoint in virtual time, or another stack in real time.

use std::collections::VecDeque;

use narrows_cc::Nanos;

use crate::script::{Call, Problem, Segment};

/// A segment that the stack sent, in the numbers of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Departure time.
    pub at: Nanos,
    /// Headers of the segment.
    pub segment: Segment,
}

/// The outcome of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call returned a value, or an error by its name (`EAGAIN`).
    Done(Result<i64, &'static str>),
    /// The call blocks.
    Blocks,
    /// The result of the call is not modelled and not compared.
    Unchecked,
}

/// Reason for the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The time was reached without an event.
    Passed,
    /// An event happened at this time: a packet left, a timer expired, or a call returned.
    Happened(Nanos),
}

/// A TCP stack that scripts run on. Times are counted from the start of the script.
pub trait Stack {
    /// Accepted lateness of packets if the clock of the stack is inexact; `None` if the clock is exact.
    fn lateness(&self) -> Option<Nanos>;

    /// The unit of the stack's TCP timestamps.
    fn stamp_unit(&self) -> Nanos;

    /// Reason why the stack cannot execute a system call, if any.
    fn lacks_call(&self, call: &Call) -> Option<String>;

    /// Whether the stack has this field of `TCP_INFO` (`tcpi_…`).
    fn has_field(&self, name: &str) -> bool;

    /// Checks a shell command, given as its words, without running it.
    ///
    /// # Errors
    /// The command or its setting is not supported.
    fn check_command(&self, line: usize, words: &[String]) -> Result<(), Problem>;

    /// Runs a shell command, given as its words.
    ///
    /// # Errors
    /// The command or its setting is not supported.
    fn command(&mut self, line: usize, words: &[String]) -> Result<(), Problem>;

    /// Runs from `now` until `until`, or until the first event. `until` may have passed already.
    ///
    /// # Errors
    /// The stack has failed.
    fn wait(&mut self, now: Nanos, line: usize, until: Nanos) -> Result<Waited, Problem>;

    /// Processes an arriving packet.
    ///
    /// # Errors
    /// The packet needs an unsupported feature.
    fn on_packet(&mut self, now: Nanos, line: usize, segment: &Segment) -> Result<(), Problem>;

    /// Begins a system call. The script states whether it `blocks`.
    ///
    /// # Errors
    /// The call is not supported, or stores an unexpected value.
    fn call(&mut self, now: Nanos, line: usize, call: &Call, blocks: bool) -> Result<Outcome, Problem>;

    /// Returns the current outcome of a call that blocked.
    ///
    /// # Errors
    /// Like [`Stack::call`].
    fn resume(&mut self, now: Nanos, line: usize, call: &Call) -> Result<Outcome, Problem>;

    /// Updates the values that [`Stack::info`] returns, for a stack that runs by itself.
    ///
    /// # Errors
    /// The values cannot be read.
    fn observe(&mut self, _line: usize) -> Result<(), Problem> {
        Ok(())
    }

    /// A field of `TCP_INFO` by its name (`tcpi_…`): times in microseconds, those of `tcpi_last_…` in milliseconds.
    fn info(&self, now: Nanos, name: &str) -> Option<f64>;

    /// Packets sent and not yet compared with the script.
    fn sent(&mut self) -> &mut VecDeque<Sent>;

    /// Calls whose results were not compared.
    fn unchecked(&self) -> Vec<String>;
}

/// Constants of code blocks.
const CONSTANTS: &[(&str, f64)] = &[
    ("TCP_CA_Open", 0.0),
    ("TCP_CA_Disorder", 1.0),
    ("TCP_CA_CWR", 2.0),
    ("TCP_CA_Recovery", 3.0),
    ("TCP_CA_Loss", 4.0),
];

/// The value of a constant of code blocks.
pub(crate) fn constant(name: &str) -> Option<f64> {
    CONSTANTS.iter().find(|(own, _)| *own == name).map(|&(_, value)| value)
}
