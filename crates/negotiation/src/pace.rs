//! Pacing of a socket, either by the program in the kernel or by the timing of the application's writes.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use narrows_cc::{Nanos, Rate};
use narrows_host::HostError;
use narrows_programs::{Grant, Grants};

/// Longest delay for which later writes may catch up.
const BURST: Nanos = Nanos::from_millis(5);
/// Minimum bytes per write.
const LEAST: f64 = 2.0 * 1448.0;
/// Shortest wait between writes.
const SHORTEST: Nanos = Nanos::from_millis(1);

/// Limits a socket to its granted rate.
#[derive(Debug)]
pub(super) enum Pacer {
    /// The program in the kernel paces the socket's data.
    Program(Arc<Grants>),
    /// The application limits the rate of its writes; the kernel's default congestion control sends the data.
    Writes {
        /// Rate of writes; `None`: no limit.
        rate: Option<Rate>,
        /// Bytes that may be written, as of `at`.
        tokens: f64,
        at: Nanos,
    },
}

impl Pacer {
    pub(super) fn new(grants: Option<&Arc<Grants>>) -> Self {
        match grants {
            Some(grants) => Self::Program(Arc::clone(grants)),
            None => Self::Writes { rate: None, tokens: LEAST, at: Nanos::ZERO },
        }
    }

    /// Applies a changed grant to the socket.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(super) fn set(&mut self, now: Nanos, socket: &TcpStream, grant: Grant) -> Result<(), HostError> {
        match self {
            Self::Program(grants) => grants.set(socket.as_fd(), grant),
            Self::Writes { .. } => {
                self.refill(now);
                if let Self::Writes { rate, .. } = self {
                    *rate = grant.rate.or(grant.limit);
                }
                Ok(())
            }
        }
    }

    fn refill(&mut self, now: Nanos) {
        if let Self::Writes { rate, tokens, at } = self {
            if let Some(rate) = rate {
                let most = (rate.over(BURST).as_f64()).max(LEAST);
                *tokens = (*tokens + rate.over(now - *at).as_f64()).min(most);
            } else {
                *tokens = LEAST;
            }
            *at = now;
        }
    }

    /// Bytes that the application may write now.
    pub(super) fn allowance(&mut self, now: Nanos) -> usize {
        match self {
            Self::Program(_) | Self::Writes { rate: None, .. } => usize::MAX,
            Self::Writes { .. } => {
                self.refill(now);
                match self {
                    Self::Writes { tokens, .. } if *tokens >= LEAST / 2.0 => *tokens as usize,
                    _ => 0,
                }
            }
        }
    }

    /// Removes the tokens of the written bytes.
    pub(super) fn spend(&mut self, bytes: usize) {
        if let Self::Writes { rate: Some(_), tokens, .. } = self {
            *tokens -= bytes as f64;
        }
    }

    /// Time at which a write that waits for tokens may proceed.
    pub(super) fn deadline(&self) -> Nanos {
        match self {
            Self::Writes { rate: Some(rate), tokens, at } if *tokens < LEAST => {
                let missing = ((LEAST - *tokens) / (rate.as_bytes_per_sec().max(1) as f64) * 1e9) as u64;
                *at + Nanos::from_nanos(missing).max(SHORTEST)
            }
            _ => Nanos::MAX,
        }
    }
}
