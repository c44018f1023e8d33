//! The half-connection of the data received here: what is to be reported of it, and when.

use narrows_cc::Nanos;

use super::config::Config;
use crate::ack_vector::{AckVector, Mark, Recorded};
use crate::ccid::Ccid;
use crate::data_dropped::{DropCode, Unheard};
use crate::loss::{Arrival, LossRate, Receiver, Separation};
use crate::seq::Seq;
use crate::wire::Opt;

/// The unit of elapsed times and timestamps.
const TICK: u64 = 10_000;

/// From this delay on an acknowledgement says how long it waited.
const WORTH_TELLING: Nanos = Nanos::from_millis(1);

/// The longest vector that rides on data.
pub(super) const RIDING: usize = 64;

/// Packets at most that are remembered because their data was dropped.
const MOST_DROPS: usize = 1 << 10;

/// A packet that arrived, as far as reports are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) seq: Seq,
    pub(super) mark: Mark,
    /// Bytes of data.
    pub(super) payload: u32,
    pub(super) ccval: u8,
    pub(super) ndp: Option<u64>,
    /// Its data is not what was sent.
    pub(super) corrupt: bool,
}

/// Receiving.
#[derive(Clone, Debug)]
pub(super) struct Reception {
    ccid: Ccid,
    vector: AckVector,
    /// Packets whose data did not reach the application.
    unheard: Unheard,
    /// The receiver of CCID 3, and that of DCCP-BBR, where they are asked for.
    tfrc: Option<Box<Receiver>>,
    loss: Option<Box<LossRate>>,
    ack_delay: Nanos,
    /// Packets with data since the last acknowledgement.
    unreported: u64,
    ack_at: Nanos,
    due: bool,
    /// The greatest number and when it came.
    greatest: Option<(Seq, Nanos)>,
    /// When a mark was last answered at once.
    marked_at: Option<Nanos>,
    /// Data has come.
    active: bool,
    /// Packets without data since our last acknowledgement.
    pub(super) unacknowledged: u64,
    timestamp: Option<(u32, Nanos)>,
}

impl Reception {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            ccid: Ccid::TcpLike,
            vector: AckVector::new(config.ack_vector_limit),
            unheard: Unheard::new(config.ack_vector_limit.min(MOST_DROPS)),
            tfrc: None,
            loss: None,
            ack_delay: config.ack_delay,
            unreported: 0,
            ack_at: Nanos::MAX,
            due: false,
            greatest: None,
            marked_at: None,
            active: false,
            unacknowledged: 0,
            timestamp: None,
        }
    }

    pub(super) fn ccid(&self) -> Ccid {
        self.ccid
    }

    /// The other side's data is controlled by `ccid`; `last` is the greatest number that came.
    pub(super) fn set_ccid(&mut self, now: Nanos, ccid: Ccid, last: Seq, rtt: Option<Nanos>) {
        if ccid == self.ccid {
            return;
        }
        self.ccid = ccid;
        let tfrc = || Box::new(Receiver::new(now, rtt, Separation::Counter, false));
        self.tfrc = (ccid == Ccid::Tfrc).then(tfrc);
        self.loss = (ccid == Ccid::DccpBbr).then(|| Box::new(LossRate::new(last)));
    }

    /// A valid packet arrived; after `ratio` packets with data an acknowledgement is due (RFC 4340 section 11.3). Gives whether
    /// it came for the first time.
    pub(super) fn on_packet(&mut self, now: Nanos, packet: &Arrived, ratio: u64, srtt: Nanos) -> bool {
        let Arrived { seq, mark, payload, .. } = *packet;
        let recorded = self.vector.record(seq, mark);
        // What came before everything remembered may be a copy: it is not delivered a second time.
        if recorded != Recorded::New {
            return false;
        }
        let ahead = self.greatest.map_or(1, |(greatest, _)| seq.minus(greatest));
        if ahead > 0 {
            self.greatest = Some((seq, now));
        }
        if let Some(loss) = &mut self.loss {
            loss.arrive(now, seq);
        }
        if let Some(tfrc) = &mut self.tfrc {
            let arrival = Arrival {
                at: now,
                seq,
                data: payload > 0,
                ndp: packet.ndp,
                // RFC 4340 section 11.7.2: what is corrupt counts as marked; of CCID 3 the receiver counts.
                marked: mark == Mark::Marked || packet.corrupt,
                counter: packet.ccval,
            };
            tfrc.arrive(&arrival, u64::from(payload));
        }
        if payload == 0 {
            self.unacknowledged += 1;
            return true;
        }
        self.active = true;
        if self.tfrc.is_some() {
            return true;
        }
        self.unreported += 1;
        if self.ack_at == Nanos::MAX {
            self.ack_at = now.saturating_add(self.ack_delay);
        }
        let marked = mark == Mark::Marked && self.marked_at.is_none_or(|at| now >= at.saturating_add(srtt));
        if marked {
            self.marked_at = Some(now);
        }
        // A gap, or a packet that fills one, is told at once.
        self.due |= self.unreported >= ratio.max(1) || ahead != 1 || marked;
        true
    }

    /// The data of a packet that arrived is dropped.
    pub(super) fn drop_data(&mut self, seq: Seq, code: DropCode) {
        self.unheard.note(seq, code);
    }

    /// Writes what became of data that arrived, in our packet `carrier` that acknowledges `ack`.
    pub(super) fn write_drops(&mut self, carrier: Seq, ack: Seq, room: usize, out: &mut Vec<u8>) {
        if !self.unheard.is_empty() {
            self.unheard.write(carrier, ack, room.saturating_sub(out.len()), out);
        }
    }

    /// A timestamp is to be returned with the next acknowledgement.
    pub(super) fn on_timestamp(&mut self, now: Nanos, value: u32) {
        self.timestamp = Some((value, now));
    }

    /// The other side has our packet `seq`, and what it said.
    pub(super) fn acknowledged(&mut self, seq: Seq) {
        self.vector.acknowledged(seq);
        self.unheard.acknowledged(seq);
    }

    pub(super) fn report_now(&mut self) {
        self.due = true;
    }

    pub(super) fn on_timer(&mut self, now: Nanos) {
        if now >= self.ack_at {
            self.due = true;
            self.ack_at = Nanos::MAX;
        }
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.ack_at
    }

    /// Whether an acknowledgement is to be sent now.
    #[inline]
    pub(super) fn must_report(&self) -> bool {
        self.due || (self.active && self.tfrc.as_ref().is_some_and(|tfrc| tfrc.due()))
    }

    /// Whether a report with the vector would be too long to ride on data.
    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.active && self.vector.len() > RIDING
    }

    /// Writes what packet `seq` reports, in at most `room` bytes. Gives the number to acknowledge.
    pub(super) fn write_report(
        &mut self,
        now: Nanos,
        seq: Seq,
        vector: bool,
        event_rate: bool,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Option<Seq> {
        if let Some((value, at)) = self.timestamp.take() {
            let elapsed = u32::try_from((now - at).as_nanos() / TICK).ok().filter(|&elapsed| elapsed > 0);
            Opt::TimestampEcho { value, elapsed }.write(out);
        }
        self.due = false;
        self.ack_at = Nanos::MAX;
        self.unreported = 0;
        self.unacknowledged = 0;
        let greatest = self.greatest.map(|(seq, _)| seq);
        if !self.active {
            return greatest;
        }
        if let Some(tfrc) = &mut self.tfrc {
            if tfrc.due() {
                let report = tfrc.report(now);
                tfrc.write(&report, event_rate, out);
            }
            return self.write_vector(seq, vector, room, out).or(greatest);
        }
        let waited = self.greatest.map_or(Nanos::ZERO, |(_, at)| now - at);
        if waited >= WORTH_TELLING {
            let elapsed = u32::try_from(waited.as_nanos() / TICK).unwrap_or(u32::MAX);
            Opt::ElapsedTime(elapsed).write(out);
        }
        if let Some(value) = self.loss.as_mut().and_then(|loss| loss.option(now)) {
            Opt::LossRate(value).write(out);
        }
        self.write_vector(seq, vector, room, out).or(greatest)
    }

    /// Writes the vector, if it is asked for; gives the number that it begins with.
    fn write_vector(&mut self, seq: Seq, wanted: bool, room: usize, out: &mut Vec<u8>) -> Option<Seq> {
        if !wanted {
            return None;
        }
        let first = self.vector.write_within(room.saturating_sub(out.len()), out);
        if first.is_some() {
            self.vector.sent_in(seq);
        }
        first
    }

    /// The connection is over.
    pub(super) fn end(&mut self) {
        self.vector = AckVector::new(1);
        self.unheard = Unheard::new(1);
        self.tfrc = None;
        self.loss = None;
        (self.due, self.ack_at) = (false, Nanos::MAX);
    }

    /// Bytes of memory held, about.
    pub(super) fn memory(&self) -> usize {
        let boxes = self.tfrc.as_ref().map_or(0, |_| size_of::<Receiver>())
            + self.loss.as_ref().map_or(0, |_| size_of::<LossRate>());
        self.vector.memory() + self.unheard.memory() + boxes
    }
}
