//! What a script runs on: the endpoint in virtual time, or another TCP in its own time.

use std::collections::VecDeque;

use narrows_cc::Nanos;

use crate::script::{Call, Problem, Segment};

/// A segment that the stack sent, in the numbers of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When it left.
    pub at: Nanos,
    /// Its headers.
    pub segment: Segment,
}

/// The outcome of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned a value, or an error by its name (`EAGAIN`).
    Done(Result<i64, &'static str>),
    /// It blocks.
    Blocks,
    /// Its result is not modelled: nothing to compare.
    Unchecked,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The time is reached, and nothing happened.
    Passed,
    /// Something happened at this time: a packet left, a timer expired, or a call returned.
    Happened(Nanos),
}

/// A TCP that scripts run on. Times count from the start of the script.
pub trait Stack {
    /// How late packets may leave at least, if its clock is not exact.
    fn lateness(&self) -> Option<Nanos>;

    /// Why it cannot execute a system call, if it cannot.
    fn lacks_call(&self, call: &Call) -> Option<String>;

    /// Whether it has this field of `TCP_INFO` (`tcpi_…`).
    fn has_field(&self, name: &str) -> bool;

    /// Refuses a shell command, given as its words, that it cannot run, without running it.
    ///
    /// # Errors
    /// The reason.
    fn check_command(&self, line: usize, words: &[String]) -> Result<(), Problem>;

    /// Runs a shell command, given as its words.
    ///
    /// # Errors
    /// The command or its setting is not supported.
    fn command(&mut self, line: usize, words: &[String]) -> Result<(), Problem>;

    /// Runs from `now` until `until`, or until the first thing happens. The time may have passed already.
    ///
    /// # Errors
    /// It cannot go on.
    fn wait(&mut self, now: Nanos, line: usize, until: Nanos) -> Result<Waited, Problem>;

    /// A packet arrives.
    ///
    /// # Errors
    /// The packet needs what it does not have.
    fn on_packet(&mut self, now: Nanos, line: usize, segment: &Segment) -> Result<(), Problem>;

    /// Begins a system call. The script says whether it `blocks`.
    ///
    /// # Errors
    /// The call needs what it does not have, or stores something else than the script says.
    fn call(&mut self, now: Nanos, line: usize, call: &Call, blocks: bool) -> Result<Outcome, Problem>;

    /// The outcome of a call that blocked.
    ///
    /// # Errors
    /// Like [`Stack::call`].
    fn resume(&mut self, now: Nanos, line: usize, call: &Call) -> Result<Outcome, Problem>;

    /// Takes the values that [`Stack::info`] gives, if they change on their own.
    ///
    /// # Errors
    /// They cannot be read.
    fn observe(&mut self, _line: usize) -> Result<(), Problem> {
        Ok(())
    }

    /// A field of `TCP_INFO` by its name (`tcpi_…`): times in microseconds, those of `tcpi_last_…` in
    /// milliseconds.
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
