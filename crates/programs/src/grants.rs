//! Granted rates, which a process writes for the program of its sockets, and the counters of that program.

use narrows_cc::Rate;

/// `struct grant` in `bpf/nodectl.bpf.c`, without the serial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Granted rate of payload; `None`: no rate is granted.
    pub rate: Option<Rate>,
    /// Limit of the pacing rate while no rate is granted.
    pub limit: Option<Rate>,
}

/// Counters of the program, over all its sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantCounts {
    /// Acknowledgements that the program processed.
    pub acks: u64,
    /// Grants that the program followed.
    pub grants: u64,
    /// Withdrawals that the program followed.
    pub withdrawn: u64,
    /// Grants that the program ignored because they were out of bounds.
    pub ignored: u64,
    /// Acknowledgements processed while a rate was granted.
    pub granted_acks: u64,
}
