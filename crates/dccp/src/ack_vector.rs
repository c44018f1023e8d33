//! Ack Vectors (RFC 4340 section 11.4, appendix A): the reception state of packets, run-length encoded.
//!
//! A byte encodes a run of packets: two bits of state, six bits of length minus one. The first byte starts at
//! the acknowledgement number; later bytes describe older packets. With acknowledgement number 100, the bytes
//! 0, 192, 3, 64, 5 mean: 100 received, 99 not received, 98 to 95 received, 94 received ECN marked, 93 to 88
//! received.
//!
//! The receiver stores its history in this format, as appendix A proposes. The receiver reports a packet until the
//! sender acknowledges a packet that carried the report.
//!
//! ## Differences
//! 1. The ECN nonce is historic (RFC 8311): vectors are written with nonce 0 and received nonces are not
//!    checked.
//! 2. Duplicates change nothing, and the first copy's ECN mark counts. A vector therefore contradicts an earlier vector
//!    only if it reports as received a packet that the earlier vector reported missing.
//! 3. A packet that arrives after being reported missing is reported again, even if the vector that reported the loss
//!    was acknowledged in the meantime. The packet's newer neighbours stay in the vector too, because a vector has no
//!    holes. Only state that the sender knows exactly is dropped.
//! 4. The newest packet is never dropped from the history: a vector describes at least one packet.

mod arrivals;
mod runs;

pub use arrivals::{AckVector, Mark, Recorded};
pub use runs::{PacketState, Run, runs};
