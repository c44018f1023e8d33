//! Negotiated rates on real hosts: requesters beside the kernel's TCP.

mod flow;

pub(crate) use flow::{Counts, Flow};

/// UDP port of responders and nodes.
pub const PORT: u16 = 47_450;
