//! Limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process needs beside those of its connections.
const OTHERS: u64 = 256;

/// Raises the limit of open files as far as this process may, and returns the number of sockets that it allows.
pub fn raise_socket_limit() -> usize {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    let most = setrlimit(Resource::Nofile, raised).map_or(limits.current, |()| limits.maximum);
    most.map_or(usize::MAX, |most| most.saturating_sub(OTHERS) as usize)
}
