//! # Several subflows of one connection
//!
//! Each subflow is a [`Sender`](crate::Sender) and a [`Receiver`](crate::Receiver) with its own congestion
//! window, loss recovery and path. Above them runs one data stream with its own sequence numbers, as in
//! Multipath TCP (RFC 8684). The [`MultipathSender`] assigns the application's data to subflows piece by
//! piece, the [`MultipathReceiver`] reassembles it. Neither owns the subflows: the simulation stores all
//! senders and receivers together and passes in those of a connection.
//!
//! ## Sending
//! * A piece of at most one segment goes to a subflow only when it can leave at once. Data therefore waits in
//!   the connection, not on a path, and all data assigned to a subflow has been sent.
//! * `mapping` records, per subflow, the data behind its sequence numbers until the subflow acknowledges
//!   them. Every packet, retransmissions included, carries its mapping ([`MptcpOption::Mapping`]).
//!   The option takes 20 bytes, so the default segment of a subflow has 1428.
//! * The scheduler chooses among subflows with room: least smoothed round-trip time, or round robin.
//! * A path is given up after two consecutive retransmission timeouts: other paths resend its outstanding
//!   data before any new data, and it gets no new data until an acknowledgement arrives. Its own
//!   retransmissions continue and serve as the probe.
//! * When the connection's window is full and a faster subflow has room, it repeats the data outstanding on a
//!   slower one, from the trailing edge of the window on, each byte once (opportunistic retransmission,
//!   Raiciu et al. 2012, section 4.2). Data that would block the window within a round trip of the fastest
//!   subflow is repeated earlier, if the repetition arrives first.
//! * A subflow overtaken by a repetition has its inflight capped at half, at most once per round trip; the
//!   cap then grows by a segment or an eighth per round trip (penalisation, ibid.; `penalty_cap`).
//! * The other subflows open after the first one's handshake.
//! * A coupled scheme sees cwnd, round-trip times and losses of all subflows before each acknowledgement and timer.
//!
//! ## Receiving
//! * Each packet is placed in the connection's data on arrival, regardless of gaps on its subflow. Data
//!   already received counts as duplicate, but the subflow still acknowledges it.
//! * There is one window, the connection's: the receive buffer, from the next byte expected on. Every
//!   subflow's acknowledgements advertise it together with that number (DATA_ACK).
//! * A packet that fills a gap is acknowledged at once: the window may have moved far.
//!
//! ## References
//! * RFC 8684, TCP Extensions for Multipath Operation with Multiple Addresses, sections 3.1 to 3.3.
//! * C. Raiciu et al., How Hard Can It Be? Designing and Implementing a Deployable Multipath TCP, NSDI 2012.
//! * RFC 6182, Architectural Guidelines for Multipath TCP Development.
//!
//! ## Differences
//! 1. Keys, tokens and authenticators occupy their size in SYNs but have no contents. The third packet of a handshake
//!    does not repeat them, and a joined subflow sends at once, not after the fourth packet (RFC 8684 section 3.2).
//! 2. Data numbers begin at 0, and DATA_FIN takes no number: it rides on the subflows' own FINs, which leave
//!    after all data has arrived.
//! 3. There is no data-level retransmission timer: a subflow delivers its data unless it is given up.
//! 4. Penalisation caps the assigned data; Linux halves the subflow's congestion window. Here the scheme owns the
//!    window, and some schemes have none to halve. A path whose data arrives before a repetition would is spared.
//! 5. Unlike Linux's, opportunistic retransmission covers more than the first segment of the window and starts
//!    before the window is full. Once it is full, the repetition is the last packet in the fast path's queue,
//!    which runs dry until the acknowledgement, and then a whole window leaves at once into a queue too short
//!    for it. The benefit is judged by the departure time of the original, not by a ratio of round-trip times.
//! 6. No checksum, fallback to plain TCP, REMOVE_ADDR or backup flag.
//! 7. After a tail loss the probe repeats the last packet of its subflow instead of sending new data.

mod losses;
mod mapping;
mod option;
mod penalty;
mod reassembly;
mod scheduler;

pub use option::{MAPPING_BYTES, MptcpOption};
pub use reassembly::{MultipathReceiver, MultipathReceiverStats};
pub use scheduler::{HasSender, MultipathSender, MultipathSenderStats};
