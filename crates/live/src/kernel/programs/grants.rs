//! Granted rates: what a process writes for the program of its sockets, and what the program counts.

#[cfg(feature = "bpf")]
mod loaded;

use narrows_cc::Rate;

#[cfg(feature = "bpf")]
pub(crate) use loaded::Grants;

/// `struct grant` in `bpf/nodectl.bpf.c`, without the serial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Rate of payload; `None`: none is granted.
    pub(crate) rate: Option<Rate>,
    /// Limit of pacing without a rate.
    pub(crate) limit: Option<Rate>,
}

/// What the program counted for all its sockets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GrantCounts {
    pub(crate) acks: u64,
    /// Grants and withdrawals that it followed, and grants out of bounds.
    pub(crate) grants: u64,
    pub(crate) withdrawn: u64,
    pub(crate) ignored: u64,
    /// Acknowledgements with a granted rate.
    pub(crate) granted_acks: u64,
}

/// Without BPF: what needs it is refused before.
#[cfg(not(feature = "bpf"))]
#[derive(Debug)]
pub(crate) enum Grants {}

#[cfg(not(feature = "bpf"))]
impl Grants {
    pub(crate) fn open(_: &'static super::Program) -> Result<Self, super::KernelError> {
        Err(super::missing(0))
    }

    pub(crate) fn load(
        _: &'static super::Program,
        _: &narrows_cc::Params,
    ) -> Result<Self, super::KernelError> {
        Err(super::missing(0))
    }

    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    pub(crate) fn is_private(&self) -> bool {
        match *self {}
    }

    pub(crate) fn set(&self, _: std::os::fd::BorrowedFd<'_>, _: Grant) -> Result<(), super::KernelError> {
        match *self {}
    }

    pub(crate) fn counts(&self) -> Result<GrantCounts, super::KernelError> {
        match *self {}
    }
}
