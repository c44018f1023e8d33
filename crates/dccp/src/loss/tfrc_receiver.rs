//! CCID 3 receiver: measurements, feedback schedule and feedback contents (RFC 4342 sections 6, 8 and 10.3).

use narrows_cc::{Bytes, Nanos, Rate};

use super::history::{Arrival, LossHistory, PathEstimate, Separation};
use super::interval::{Interval, write_intervals};
use super::rate::{CounterRtt, ReceiveRate};
use crate::seq::Seq;
use crate::wire::{Opt, TICK_NANOS};

/// R before the first estimate (RFC 4340 section 3.4).
const DEFAULT_RTT: Nanos = Nanos::from_millis(200);

/// Window counter steps between two reports: one round trip.
const REPORT_STEPS: u8 = 4;

/// Contents of a feedback packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FeedbackPacket {
    /// Time since the arrival of the greatest sequence number, in units of 10 µs.
    pub elapsed: u32,
    /// X_recv.
    pub receive_rate: Rate,
    /// p; 0 before the first loss event.
    pub loss_event_rate: f64,
    /// 1/p rounded up, `u32::MAX` before the first loss event.
    pub inverse_rate: u32,
}

/// Receiving side of a CCID 3 half-connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    history: LossHistory,
    rate: ReceiveRate,
    rtt: CounterRtt,
    greatest: Option<(Seq, Nanos)>,
    /// Greatest window counter at the last report (section 10.3: last_counter).
    reported: Option<u8>,
    counter: u8,
    due: bool,
    /// Greatest receive rate so far.
    peak: Rate,
    bytes: u64,
    packets: u64,
}

impl Receiver {
    /// `rtt` is the handshake's estimate, if any.
    pub fn new(now: Nanos, rtt: Option<Nanos>, separation: Separation, discounting: bool) -> Self {
        Self {
            history: LossHistory::new(separation, discounting),
            rate: ReceiveRate::new(now),
            rtt: CounterRtt::new(rtt),
            greatest: None,
            reported: None,
            counter: 0,
            due: false,
            peak: Rate::ZERO,
            bytes: 0,
            packets: 0,
        }
    }

    /// Records the first arrival of a packet with `bytes` of data. Returns whether a report is due: on the
    /// first data, a round trip after the last report by the window counter, and when a loss event begins.
    pub fn arrive(&mut self, arrival: &Arrival, bytes: u64) -> bool {
        let newest = self.greatest.is_none_or(|(greatest, _)| arrival.seq.after(greatest));
        if newest {
            self.greatest = Some((arrival.seq, arrival.at));
        }
        if arrival.data && newest {
            self.rtt.arrive(arrival.at, arrival.counter);
            self.counter = arrival.counter % 16;
            self.due |= self.reported.is_none_or(|last| self.counter.wrapping_sub(last) % 16 >= REPORT_STEPS);
        }
        let rtt = self.rtt();
        if arrival.data {
            self.bytes += bytes;
            self.packets += 1;
            self.rate.arrive(arrival.at, bytes, rtt);
        }
        let path = self.path(arrival.at, rtt);
        let began = self.history.arrive(arrival, &path);
        self.due |= began;
        self.due
    }

    /// Path estimates. Before the first loss X_target includes the current rate (RFC 5348 section 6.3.1).
    fn path(&self, now: Nanos, rtt: Nanos) -> PathEstimate {
        let segment = Bytes::new(self.bytes.checked_div(self.packets).unwrap_or(0).max(1));
        let target = match self.history.events() {
            0 => self.peak.max(self.rate.rate(now, rtt)),
            _ => self.peak,
        };
        PathEstimate { rtt, segment, target: if target == Rate::ZERO { segment.per(rtt + rtt) } else { target } }
    }

    /// The receiver's round-trip time estimate.
    pub fn rtt(&self) -> Nanos {
        self.rtt.rtt().unwrap_or(DEFAULT_RTT).max(Nanos::from_micros(1))
    }

    /// Whether a report is due.
    pub const fn due(&self) -> bool {
        self.due
    }

    /// Loss history.
    pub const fn history(&self) -> &LossHistory {
        &self.history
    }

    /// Contents of a report sent now; the next report is due a round trip later.
    pub fn report(&mut self, now: Nanos) -> FeedbackPacket {
        let measured = self.rate.report(now, self.rtt());
        // The first packet alone yields no rate (RFC 5348 section 6.3).
        let receive_rate = if self.reported.is_none() { Rate::ZERO } else { measured };
        self.peak = self.peak.max(receive_rate);
        self.reported = Some(self.counter);
        self.due = false;
        let waited = self.greatest.map_or(Nanos::ZERO, |(_, at)| now - at);
        FeedbackPacket {
            elapsed: u32::try_from(waited.as_nanos() / TICK_NANOS).unwrap_or(u32::MAX),
            receive_rate,
            loss_event_rate: self.history.loss_event_rate(),
            inverse_rate: self.history.inverse_rate(),
        }
    }

    /// Appends the options of a report to `out`: Elapsed Time, Receive Rate, Loss Intervals and, with
    /// `event_rate`, Loss Event Rate (RFC 4342 section 8.5: feature 192). At most 6 + 6 + 84 + 6 bytes.
    pub fn write(&self, report: &FeedbackPacket, event_rate: bool, out: &mut Vec<u8>) {
        Opt::ElapsedTime(report.elapsed).write(out);
        let rate = u32::try_from(report.receive_rate.as_bytes_per_sec()).unwrap_or(u32::MAX);
        Opt::ReceiveRate(rate).write(out);
        let (skip, intervals) = self.history.intervals();
        write_intervals(skip, intervals, out);
        if event_rate {
            Opt::LossEventRate(report.inverse_rate).write(out);
        }
    }

    /// Skip length and intervals of the next report, newest first.
    pub fn intervals(&self) -> (u8, impl Iterator<Item = Interval> + '_) {
        self.history.intervals()
    }
}
