//! Failures of a host, by their cause.

use std::io;

/// Reason why a host refuses or fails a request.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// This build or this kernel does not support the request; the message names what is accepted.
    #[error("{0}")]
    Unsupported(String),
    /// This machine or this user lacks a general requirement.
    #[error("{0}")]
    Unavailable(String),
    /// The system refused a step.
    #[error("cannot {step}: {error}")]
    Step {
        /// The step, as a verb and its object.
        step: String,
        /// The system's reason.
        error: io::Error,
    },
}

impl HostError {
    /// The error of a step that the system refused.
    pub fn step(step: &str, error: io::Error) -> Self {
        Self::Step { step: step.to_owned(), error }
    }

    /// The error of a thread that panicked.
    pub fn crashed(who: &str) -> Self {
        Self::step(&format!("run {who}"), io::Error::other("its thread ended early"))
    }
}
