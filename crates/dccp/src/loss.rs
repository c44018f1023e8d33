//! What a receiver of TFRC measures (RFC 5348 sections 5 and 6, with RFC 4342's ways of DCCP), and DCCP-BBR's.
//!
//! * [`LossHistory`]: arrivals to loss events, loss intervals and the loss event rate p.
//! * [`ReceiveRate`]: bytes per second since the last report. [`CounterRtt`]: the round-trip time that the sender's window
//!   counter betrays.
//! * [`Receiver`]: these together: when feedback is due, and its options.
//! * [`Interval`]: an entry of the Loss Intervals option, both ways.
//! * [`LossRate`]: the share of packets lost in the last 10 s, for DCCP-BBR.
//!
//! ## Control law
//! ```text
//! lost:       three packets with greater numbers have arrived (RFC 5348 section 5.1)
//! when:       T_loss = T_before + (T_after - T_before) (S_loss - S_before) / (S_after - S_before)       (section 5.2)
//! event:      the first loss, and each whose T_loss is after that of the last event's first loss by more than R; or, with
//!             the window counter, each before whose predecessor a counter was seen that is more than 4 quarters of R ahead
//! I_i:        packets from the first loss of an event to that of the next; I_0 to the newest that is decided (section 5.3)
//! weights:    w = 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2                                                        (section 5.4)
//! I_mean:     max(sum I_i w_i, sum I_(i+1) w_i) / sum w_i  over i < k, k of up to 8 closed intervals;    p = 1/I_mean
//! discount:   DF = max(2 I_mean/I_0, 1/4) where I_0 > 2 I_mean, times every weight but I_0's            (section 5.5)
//! first:      the interval before the first loss counts as 1/p, where p gives X_target = max X_recv      (section 6.3.1)
//! ```
//!
//! ## Differences
//! 1. A packet that comes after it was found lost stays lost; section 5.1 lets a receiver choose. So three packets are all the
//!    history of arrivals that there is.
//! 2. A congestion mark counts when its packet's place is decided: at once, unless a packet before it is missing, then with
//!    that one, two packets later at most. So losses and marks are met in the order in which they were sent.
//! 3. Packets without data are no losses (RFC 4342 section 6.1): the NDP count of the packet after a gap says how many of the
//!    gap's packets they were. Without one, all carried data. Intervals are counted in data packets (its data length).
//! 4. Where nothing has been received before the first loss, X_target is one packet in two round trips.

mod history;
mod interval;
mod rate;
mod receiver;
mod window;

pub use history::{Arrival, LossHistory, Path, Separation};
pub use interval::{Interval, MAX_SKIP, mean_interval, read_intervals, write_intervals};
pub use rate::{CounterRtt, ReceiveRate};
pub use receiver::{Receiver, Report};
pub use window::{LossRate, WINDOW};
