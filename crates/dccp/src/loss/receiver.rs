//! The receiver of CCID 3: what it measures, when it reports, what the report says (RFC 4342 sections 6, 8 and 10.3).

use narrows_cc::{Bytes, Nanos, Rate};

use super::{Arrival, CounterRtt, Interval, LossHistory, Path, ReceiveRate, Separation, write_intervals};
use crate::Seq;
use crate::wire::Opt;

/// R before anything is known of it; RFC 4340 section 3.4 has 0.2 s for that.
const UNKNOWN_RTT: Nanos = Nanos::from_millis(200);

/// Steps of the window counter between two reports: a round trip.
const STEPS: u8 = 4;

/// 10 µs, the unit of elapsed times.
const TICK: u64 = 10_000;

/// A feedback packet's contents.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    /// From the arrival of the greatest number to now, in 10 µs.
    pub elapsed: u32,
    /// X_recv.
    pub receive_rate: Rate,
    /// p; 0 before the first loss event.
    pub loss_event_rate: f64,
    /// 1/p rounded up, `u32::MAX` before the first loss event.
    pub inverse_rate: u32,
}

/// The receiving side of a half-connection with CCID 3.
#[derive(Clone, Debug)]
pub struct Receiver {
    history: LossHistory,
    rate: ReceiveRate,
    rtt: CounterRtt,
    greatest: Option<(Seq, Nanos)>,
    /// The greatest window counter at the last report (section 10.3: last_counter).
    reported: Option<u8>,
    counter: u8,
    due: bool,
    /// The greatest rate measured so far.
    peak: Rate,
    bytes: u64,
    packets: u64,
}

impl Receiver {
    /// A half-connection whose handshake took `rtt`, if that is known.
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

    /// A packet arrived for the first time, with so many bytes of data. Gives whether a report is due: on the first data, on
    /// data a round trip after the last report by the window counter, and when a loss event begins.
    pub fn arrive(&mut self, arrival: &Arrival, bytes: u64) -> bool {
        let newest = self.greatest.is_none_or(|(greatest, _)| arrival.seq.after(greatest));
        if newest {
            self.greatest = Some((arrival.seq, arrival.at));
        }
        if arrival.data && newest {
            self.rtt.arrive(arrival.at, arrival.counter);
            self.counter = arrival.counter % 16;
            self.due |= self.reported.is_none_or(|last| self.counter.wrapping_sub(last) % 16 >= STEPS);
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

    /// The path before the first loss, with the greatest rate so far (RFC 5348 section 6.3.1); after it, the round trip matters.
    fn path(&self, now: Nanos, rtt: Nanos) -> Path {
        let segment = Bytes::new(self.bytes.checked_div(self.packets).unwrap_or(0).max(1));
        let target = match self.history.events() {
            0 => self.peak.max(self.rate.rate(now, rtt)),
            _ => self.peak,
        };
        Path { rtt, segment, target: if target == Rate::ZERO { segment.per(rtt + rtt) } else { target } }
    }

    /// The round-trip time as the receiver sees it.
    pub fn rtt(&self) -> Nanos {
        self.rtt.rtt().unwrap_or(UNKNOWN_RTT).max(Nanos::from_micros(1))
    }

    /// Whether a report is due.
    pub const fn due(&self) -> bool {
        self.due
    }

    /// Losses and intervals.
    pub const fn history(&self) -> &LossHistory {
        &self.history
    }

    /// The contents of a report that is sent now; the next one is due a round trip later.
    pub fn report(&mut self, now: Nanos) -> Report {
        let measured = self.rate.report(now, self.rtt());
        // The first packet alone has no rate (RFC 5348 section 6.3).
        let receive_rate = if self.reported.is_none() { Rate::ZERO } else { measured };
        self.peak = self.peak.max(receive_rate);
        self.reported = Some(self.counter);
        self.due = false;
        let waited = self.greatest.map_or(Nanos::ZERO, |(_, at)| now - at);
        Report {
            elapsed: u32::try_from(waited.as_nanos() / TICK).unwrap_or(u32::MAX),
            receive_rate,
            loss_event_rate: self.history.loss_event_rate(),
            inverse_rate: self.history.inverse_rate(),
        }
    }

    /// Appends the options of `report` to `out`: Elapsed Time, Receive Rate, Loss Intervals and, if `event_rate` is set
    /// (RFC 4342 section 8.5: feature 192), Loss Event Rate. At most 6 + 6 + 84 + 6 bytes.
    pub fn write(&self, report: &Report, event_rate: bool, out: &mut Vec<u8>) {
        Opt::ElapsedTime(report.elapsed).write(out);
        let rate = u32::try_from(report.receive_rate.as_bytes_per_sec()).unwrap_or(u32::MAX);
        Opt::ReceiveRate(rate).write(out);
        let (skip, intervals) = self.history.intervals();
        write_intervals(skip, intervals, out);
        if event_rate {
            Opt::LossEventRate(report.inverse_rate).write(out);
        }
    }

    /// The intervals of the next report, newest first, and how many packets they leave out.
    pub fn intervals(&self) -> (u8, impl Iterator<Item = Interval> + '_) {
        self.history.intervals()
    }
}
