//! Status of loaded and attached programs.

use std::path::PathBuf;

use serde::Serialize;

/// Status of a loaded program.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The program's name in the kernel.
    pub name: String,
    /// The twin in the registry.
    pub scheme: String,
    /// Connections that use the program now, in all network namespaces.
    pub sockets: u64,
    /// Connections that have used the program.
    pub opened: u64,
    /// Acknowledgements that the program processed.
    pub acks: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Connections without state, for lack of memory.
    pub errors: u64,
    /// Calls of all functions of the program in the observed time.
    pub calls: u64,
    /// Mean duration of a call of any of its functions, in the observed time; `None`: there was no such call.
    pub ns_per_call: Option<f64>,
    /// Mean duration of a call that processes an acknowledgement, in the observed time; `None`: there was no such call.
    pub ns_per_ack: Option<f64>,
    /// Share of one processor that the program used in the observed time.
    pub cpu_percent: f64,
    /// The observed time.
    pub observed_s: f64,
    /// Parameters that differ from their defaults.
    pub parameters: Vec<(String, f64)>,
}

/// Programs that are attached to a cgroup.
#[derive(Clone, Debug, Serialize)]
pub struct Attachment {
    /// The cgroup's number.
    pub id: u64,
    /// The cgroup's folder; `None`: it was removed.
    pub cgroup: Option<PathBuf>,
    /// Whether connections that begin in the cgroup get the scheme.
    pub adopts: bool,
}
