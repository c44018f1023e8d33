//! Queue limit.

use narrows_units::{Bytes, Nanos};

/// Queue limit. The packet in transmission does not count as queued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A number of packets.
    Packets(u64),
    /// A number of bytes.
    Bytes(Bytes),
    /// Maximum waiting time of a packet.
    Time(Nanos),
}
