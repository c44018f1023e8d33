//! The limit of a queue.

use narrows_units::{Bytes, Nanos};

/// The limit of a queue. The packet in transmission does not count as queued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A number of packets.
    Packets(u64),
    /// A number of bytes.
    Bytes(Bytes),
    /// The longest time that a packet may wait.
    Time(Nanos),
}
