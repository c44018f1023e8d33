//! # Several subflows of one connection
//!
//! Each subflow is a [`Sender`](crate::Sender) and a [`Receiver`](crate::Receiver) with a separate congestion
//! window, loss recovery and path. The connection is one data stream with separate sequence numbers, as in
//! Multipath TCP (RFC 8684). The [`MultipathSender`] assigns the application's data to subflows piece by
//! piece, and the [`MultipathReceiver`] reassembles the data. Neither owns the subflows: the simulation stores all
//! senders and receivers together and passes in those of a connection.
//!
//! ## Sending
//! * A piece of at most one segment is assigned to a subflow only when it can leave immediately. Data therefore waits
//!   in the connection, not on a path, and all data assigned to a subflow has been sent.
//! * `mapping` records, per subflow, which data corresponds to the subflow's sequence numbers, until the subflow
//!   acknowledges them. Every packet, retransmissions included, carries its mapping ([`MptcpOption::Mapping`]).
//!   The option takes 20 bytes, so the default segment of a subflow has 1428 bytes.
//! * The scheduler chooses among subflows whose windows are not full: lowest smoothed round-trip time, or round robin.
//! * A path is declared dead after two consecutive retransmission timeouts: other paths resend the path's outstanding
//!   data before any new data, and the path gets no new data until an acknowledgement arrives. Retransmissions on the
//!   path continue and serve as the probe.
//! * When the connection's window is full and the window of a faster subflow is not, the faster subflow sends data that
//!   is outstanding on a slower subflow again, from the trailing edge of the window on, each byte once (opportunistic
//!   retransmission, Raiciu et al. 2012, section 4.2). Data that would block the window within a round trip of the
//!   fastest subflow is resent earlier, if the copy would arrive before the original.
//! * If a copy overtakes the original, the slower subflow's data in flight is capped at half, at most once per round
//!   trip; the cap then grows by a segment or an eighth per round trip (penalisation, ibid.; `penalty_cap`).
//! * The other subflows open after the handshake of the first subflow.
//! * A coupled scheme sees cwnd, round-trip times and losses of all subflows before each acknowledgement and timer.
//!
//! ## Receiving
//! * The data of each packet is added to the connection's data on arrival, regardless of gaps on the packet's subflow.
//!   Data already received counts as duplicate, but the subflow still acknowledges it.
//! * The connection has one window: the receive buffer, beginning at the next expected byte. Acknowledgements of every
//!   subflow advertise this window together with the number of this byte (DATA_ACK).
//! * A packet that fills a gap is acknowledged immediately, because the window may have moved far.
//!
//! ## References
//! * RFC 8684, TCP Extensions for Multipath Operation with Multiple Addresses, sections 3.1 to 3.3.
//! * C. Raiciu et al., How Hard Can It Be? Designing and Implementing a Deployable Multipath TCP, NSDI 2012.
//! * RFC 6182, Architectural Guidelines for Multipath TCP Development.
//!
//! ## Differences
//! 1. Keys, tokens and authenticators take up space in SYNs but have no contents. The third packet of a handshake
//!    does not repeat them, and a joined subflow sends data immediately, not after the fourth packet (RFC 8684 section
//!    3.2).
//! 2. Data sequence numbers begin at 0, and DATA_FIN takes no number: it is carried by the FINs of the subflows, which
//!    leave after all data has arrived.
//! 3. There is no data-level retransmission timer: a subflow delivers its data unless its path is declared dead.
//! 4. Penalisation caps the assigned data; Linux halves the subflow's congestion window. Here the scheme owns the
//!    window, and some schemes have no window to halve. A path is not penalised if its data arrives before a copy
//!    would.
//! 5. Unlike Linux's, opportunistic retransmission covers more than the first segment of the window and starts
//!    before the window is full. If it started only with a full window, the copy would be the last packet in the fast
//!    path's queue. That queue would drain until the acknowledgement of the copy arrives, and then a whole window would
//!    leave in one burst, for which the queue is too short. The benefit is computed from the departure time of the
//!    original, not from a ratio of round-trip times.
//! 6. There is no checksum, fallback to plain TCP, REMOVE_ADDR or backup flag.
//! 7. After a tail loss the probe retransmits the last packet of its subflow instead of sending new data.

mod losses;
mod mapping;
mod option;
mod penalty;
mod reassembly;
mod scheduler;

pub use option::{MAPPING_BYTES, MptcpOption};
pub use reassembly::{MultipathReceiver, MultipathReceiverStats};
pub use scheduler::{HasSender, MultipathSender, MultipathSenderStats};
