//! Pacing of a socket: by the program in the kernel, or by the timing of the application's writes.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use narrows_cc::{Nanos, Rate};
use narrows_host::HostError;
use narrows_programs::{Grant, Grants};

/// Lateness that writes may make up for.
const BURST: Nanos = Nanos::from_millis(5);
/// Minimum bytes per write.
const LEAST: f64 = 2.0 * 1448.0;
/// Shortest wait between writes.
const SHORTEST: Nanos = Nanos::from_millis(1);

/// Keeps a socket to its rate.
#[derive(Debug)]
pub(super) enum Pacer {
    /// The program paces the socket's data.
    Program(Arc<Grants>),
    /// The application writes no faster than the rate, and the kernel's own scheme sends.
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

    /// Applies a changed grant.
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

    /// Bytes that may be written now.
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

    /// Accounts for written bytes.
    pub(super) fn spend(&mut self, bytes: usize) {
        if let Self::Writes { rate: Some(_), tokens, .. } = self {
            *tokens -= bytes as f64;
        }
    }

    /// Time at which a write that waits for tokens may continue.
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
