//! Limit of open files, and waits for descriptors.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::HostError;
use crate::clock::timespec;

/// Descriptors that a process needs beside those of its connections.
const OTHERS: u64 = 256;

/// Waits at most this long until one of two descriptors is readable. Returns which of them are readable: none after a
/// timeout or a signal.
///
/// # Errors
/// If the system refuses to wait.
pub fn wait_readable<T: AsFd>(descriptors: [&T; 2], most: Duration) -> Result<[bool; 2], HostError> {
    let mut asked = descriptors.map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
    match poll(&mut asked, Some(&timespec(most))) {
        Ok(_) | Err(Errno::INTR) => Ok(asked.map(|descriptor| !descriptor.revents().is_empty())),
        Err(error) => Err(HostError::step("wait for packets", error.into())),
    }
}

/// Raises the limit of open files as far as this process may, and returns the number of sockets that it allows.
pub fn raise_socket_limit() -> usize {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    let most = setrlimit(Resource::Nofile, raised).map_or(limits.current, |()| limits.maximum);
    most.map_or(usize::MAX, |most| most.saturating_sub(OTHERS) as usize)
}
