//! Granted rates, which a process writes for the program of its sockets, and the counters of that program.

use narrows_cc::Rate;

/// `struct grant` in `bpf/nodectl.bpf.c`, without the serial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Rate of payload; `None`: none is granted.
    pub rate: Option<Rate>,
    /// Limit of the pacing rate while no rate is granted.
    pub limit: Option<Rate>,
}

/// Counters of the program, over all its sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantCounts {
    /// Acknowledgements.
    pub acks: u64,
    /// Grants that it followed.
    pub grants: u64,
    /// Withdrawals that it followed.
    pub withdrawn: u64,
    /// Grants out of bounds.
    pub ignored: u64,
    /// Acknowledgements with a granted rate.
    pub granted_acks: u64,
}
