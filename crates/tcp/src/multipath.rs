//! # Several subflows of one connection
//!
//! A [`Sender`](crate::Sender) and a [`Receiver`](crate::Receiver) for each subflow, each with a congestion window, loss
//! recovery and path of its own; above them one stream of data with numbers of its own, as in Multipath TCP (RFC 8684). The
//! [`MultipathSender`] hands the application's data to subflows piece by piece, the [`MultipathReceiver`] puts it together again. Neither owns
//! the subflows: whoever drives a run keeps all senders and receivers together, and passes those of a connection in.
//!
//! ## Sending
//! * A piece of at most a segment is handed to a subflow only when it can leave at once. So data waits in the connection,
//!   not on a path, and what a subflow has been handed is what it has sent.
//! * `mapping` keeps, for each subflow, which data its numbers stand for until the subflow itself has it acknowledged.
//!   Every packet, a repeated one too, says so in its header ([`MptcpOption::Mapping`]).
//! * The scheduler chooses among subflows with room: the least smoothed round-trip time, or each in turn.
//! * A path that has had two retransmission timeouts in a row is given up: what it holds is sent again on others before any
//!   new data, and it gets no new data before it has something acknowledged. It goes on repairing itself, which is the probe.
//! * When the window of the connection is full and a faster subflow has room, it repeats what a slower one holds, from the
//!   trailing edge of the window on, each byte once (opportunistic retransmission, Raiciu et al. 2012, section 4.2). Data that
//!   would stop the window within a round trip of the fastest subflow is repeated before that, if the repetition is there first.
//! * A subflow whose data a repetition overtakes may have half as much out as before, at most once in its round trip, and then
//!   a segment or an eighth more per round trip (penalisation, ibid.; `penalty_cap`).
//! * The other subflows open when the first one's handshake is over.
//!
//! ## Receiving
//! * What arrives takes its place in the connection's data at once, whatever is missing on its subflow. What was there already
//!   counts as duplicate; the subflow acknowledges it all the same.
//! * The window is the connection's: the receive buffer, from the next byte expected on. It is advertised on whichever subflow
//!   acknowledges next, together with that number (DATA_ACK). Subflows have no window of their own.
//! * A packet that brings what was missing is acknowledged at once: the window may have moved a long way.
//!
//! ## References
//! * RFC 8684, TCP Extensions for Multipath Operation with Multiple Addresses, sections 3.1 to 3.3.
//! * C. Raiciu et al., How Hard Can It Be? Designing and Implementing a Deployable Multipath TCP, NSDI 2012.
//! * RFC 6182, Architectural Guidelines for Multipath TCP Development.
//!
//! ## Differences
//! 1. Keys, tokens and authenticators have their size in SYNs and no contents. The third packet of a handshake has no copy
//!    of them, and a subflow that joined sends at once, not after the fourth packet (RFC 8684 section 3.2).
//! 2. Data numbers begin at 0, and DATA_FIN takes no number: it rides on the subflows' own FINs, which leave when all data
//!    has arrived.
//! 3. There is no retransmission timer for data itself: data is safe with a subflow that has sent it, until that is given up.
//! 4. Penalisation limits what the connection hands over; Linux halves the subflow's congestion window. Here windows belong to
//!    schemes, of which some have none that could be halved. And it spares a path whose data comes before a repetition would.
//! 5. Opportunistic retransmission neither stops at the first segment of the window nor waits until it is full, as Linux's
//!    does: by then the repetition is the last packet in the queue of the fast path, which runs dry until it is acknowledged,
//!    and then a whole window leaves at once into a queue that does not hold it. Whether it is worth while goes by when the
//!    original left, not by a ratio of round-trip times.
//! 6. There is no checksum, no fall back to plain TCP, no REMOVE_ADDR, no backup flag.
//! 7. After a tail loss the probe repeats the last packet of its subflow rather than take new data.

mod losses;
mod mapping;
mod option;
mod penalty;
mod receiver;
mod sender;

pub use option::{MAPPING_BYTES, MptcpOption};
pub use receiver::{MultipathReceiver, MultipathReceiverStats};
pub use sender::{HasSender, MultipathSender, MultipathSenderStats};

use narrows_cc::Bytes;

use crate::TcpConfig;

/// The settings of a subflow of a connection: the window is the connection's.
#[must_use]
pub fn subflow_config(connection: &TcpConfig) -> TcpConfig {
    TcpConfig { receive_window: Bytes::new(u64::from(u32::MAX)), ..connection.clone() }
}
