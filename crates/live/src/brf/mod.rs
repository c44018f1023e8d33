//! BRF on this machine: its header as a TCP option of unmodified kernels.
//!
//! [`host`] attaches the programs that write and read the option (`bpf/brf_host.h`) to a cgroup. [`switch`] makes ports
//! of this machine those of a switch, which lowers the rates in passing.

pub mod host;
#[cfg(feature = "bpf")]
mod program;
pub mod switch;
#[cfg(all(test, feature = "bpf"))]
mod tests;

/// The code that receivers write where they have no limit, and senders into the SYN: the largest of all.
pub const NO_LIMIT: u16 = 65_529;
