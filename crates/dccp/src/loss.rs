//! Measurements of a TFRC receiver (RFC 5348 sections 5 and 6, adapted by RFC 4342) and of a DCCP-BBR
//! receiver.
//!
//! * [`LossHistory`]: arrivals → loss events, loss intervals, loss event rate p.
//! * [`ReceiveRate`]: bytes per second since the last report.
//! * [`CounterRtt`]: round-trip time from the sender's window counter.
//! * [`Receiver`]: combines these, schedules feedback and writes its options.
//! * [`Interval`]: an entry of the Loss Intervals option.
//! * [`LossRate`]: share of packets lost in the last 10 s, for DCCP-BBR.
//!
//! ## Control law
//! ```text
//! lost:       three packets with greater numbers have arrived (RFC 5348 section 5.1)
//! time:       T_loss = T_before + (T_after - T_before) (S_loss - S_before) / (S_after - S_before)
//!                                                                                          (section 5.2)
//! event:      the first loss, and each loss whose T_loss is more than R after the first loss of the last
//!             event; with the window counter: each loss after a packet whose counter is more than 4 ahead
//!             of the counter before the first loss of the last event
//! I_i:        packets from the first loss of an event to that of the next; I_0 to the newest settled packet
//!                                                                                          (section 5.3)
//! weights:    w = 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2                                           (section 5.4)
//! I_mean:     max(sum I_i w_i, sum I_(i+1) w_i) / sum w_i  over i < k, for k <= 8 closed intervals
//! p:          1 / I_mean
//! discount:   DF = max(2 I_mean/I_0, 1/4) where I_0 > 2 I_mean, on every weight but I_0's  (section 5.5)
//! first:      the interval before the first loss is 1/p, where p gives X_target = max X_recv
//!                                                                                          (section 6.3.1)
//! ```
//!
//! ## Differences
//! 1. A packet that arrives after being declared lost stays lost, which section 5.1 permits. The history therefore
//!    stores only three arrivals.
//! 2. An ECN mark counts when its packet is settled: immediately, or, if an earlier packet is missing, at most two
//!    packets later. Losses and marks are thus processed in sending order.
//! 3. Packets without data are not losses (RFC 4342 section 6.1): the NDP count of the packet after a gap gives the
//!    number of such packets in the gap. Without an NDP count all missing packets count as data. Intervals are measured
//!    in data packets (data length).
//! 4. If no data arrived before the first loss, X_target is one packet in two round trips.

mod history;
mod interval;
mod rate;
mod tfrc_receiver;
mod window;

pub use history::{Arrival, LossHistory, PathEstimate, Separation};
pub use interval::{Interval, MAX_SKIP, mean_interval, read_intervals, write_intervals};
pub use rate::{CounterRtt, ReceiveRate};
pub use tfrc_receiver::{FeedbackPacket, Receiver};
pub use window::{LossRate, WINDOW};
