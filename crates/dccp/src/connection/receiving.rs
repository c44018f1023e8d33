//! Half-connection of received data: contents and schedule of the feedback.

use narrows_cc::Nanos;

use super::config::Config;
use crate::ack_vector::{AckVector, Mark, Recorded};
use crate::ccid::Ccid;
use crate::data_dropped::{DropCode, PendingDrops};
use crate::loss::{Arrival, LossRate, Receiver, Separation};
use crate::seq::Seq;
use crate::wire::{Opt, TICK_NANOS};

/// Least acknowledgement delay reported as Elapsed Time.
const MIN_ELAPSED: Nanos = Nanos::from_millis(1);

/// Longest Ack Vector on a data packet, in bytes.
pub(super) const MAX_PIGGYBACK: usize = 64;

/// Maximum number of dropped packets remembered.
const MAX_DROPS: usize = 1 << 10;

/// A valid packet, reduced to what feedback needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValidPacket {
    pub(super) seq: Seq,
    pub(super) mark: Mark,
    /// Bytes of data.
    pub(super) payload: u32,
    pub(super) ccval: u8,
    pub(super) ndp: Option<u64>,
    /// Whether the data failed its Data Checksum.
    pub(super) corrupt: bool,
}

/// The receiver of a half-connection.
#[derive(Clone, Debug)]
pub(super) struct Reception {
    ccid: Ccid,
    vector: AckVector,
    /// Packets whose data was dropped before the application.
    drops: PendingDrops,
    /// Measurements for CCID 3 and for DCCP-BBR; `None` under other CCIDs.
    tfrc: Option<Box<Receiver>>,
    loss: Option<Box<LossRate>>,
    ack_delay: Nanos,
    /// Data packets since the last acknowledgement.
    unreported: u64,
    ack_at: Nanos,
    due: bool,
    /// Greatest sequence number received, and the arrival time of that packet.
    greatest: Option<(Seq, Nanos)>,
    /// Time of the last immediate acknowledgement of an ECN mark.
    marked_at: Option<Nanos>,
    /// Whether data has arrived.
    active: bool,
    /// Non-data packets since the last acknowledgement sent.
    pub(super) unacknowledged: u64,
    timestamp: Option<(u32, Nanos)>,
}

impl Reception {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            ccid: Ccid::TcpLike,
            vector: AckVector::new(config.ack_vector_limit),
            drops: PendingDrops::new(config.ack_vector_limit.min(MAX_DROPS)),
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

    /// Switches to the peer's `ccid`; `last` is the greatest number received.
    pub(super) fn set_ccid(&mut self, now: Nanos, ccid: Ccid, last: Seq, rtt: Option<Nanos>) {
        if ccid == self.ccid {
            return;
        }
        self.ccid = ccid;
        let tfrc = || Box::new(Receiver::new(now, rtt, Separation::Counter, false));
        self.tfrc = (ccid == Ccid::Tfrc).then(tfrc);
        self.loss = (ccid == Ccid::LossShare).then(|| Box::new(LossRate::new(last)));
    }

    /// Records a valid packet and returns whether its number is new. After `ratio` data packets
    /// an acknowledgement is due (RFC 4340 section 11.3).
    pub(super) fn on_packet(&mut self, now: Nanos, packet: &ValidPacket, ratio: u64, srtt: Nanos) -> Recorded {
        let ValidPacket { seq, mark, payload, .. } = *packet;
        let recorded = self.vector.record(seq, mark);
        // A packet older than the history may be a duplicate and is not delivered.
        if recorded != Recorded::New {
            return recorded;
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
                // RFC 4340 section 11.7.2: corrupt data counts as ECN marked. The CCID 3 receiver does the
                // counting.
                marked: mark == Mark::Marked || packet.corrupt,
                counter: packet.ccval,
            };
            tfrc.arrive(&arrival, u64::from(payload));
        }
        if payload == 0 {
            self.unacknowledged += 1;
            return recorded;
        }
        self.active = true;
        if self.tfrc.is_some() {
            // CCID 3 schedules no report after the last data. The receiver counts a late packet as lost, so a late
            // packet makes a report due.
            self.due |= ahead < 0;
            return recorded;
        }
        self.unreported += 1;
        if self.ack_at == Nanos::MAX {
            self.ack_at = now.saturating_add(self.ack_delay);
        }
        let marked = mark == Mark::Marked && self.marked_at.is_none_or(|at| now >= at.saturating_add(srtt));
        if marked {
            self.marked_at = Some(now);
        }
        // Gaps and packets that fill gaps are acknowledged immediately.
        self.due |= self.unreported >= ratio.max(1) || ahead != 1 || marked;
        recorded
    }

    /// Records that the data of a received packet was dropped.
    pub(super) fn drop_data(&mut self, seq: Seq, code: DropCode) {
        self.drops.record(seq, code);
    }

    /// Writes Data Dropped options for packet `carrier` with acknowledgement number `ack`.
    pub(super) fn write_drops(&mut self, carrier: Seq, ack: Seq, room: usize, out: &mut Vec<u8>) {
        if !self.drops.is_empty() {
            self.drops.write(carrier, ack, room.saturating_sub(out.len()), out);
        }
    }

    /// Echoes a timestamp in the next acknowledgement.
    pub(super) fn on_timestamp(&mut self, now: Nanos, value: u32) {
        self.timestamp = Some((value, now));
    }

    /// Notes that the peer acknowledged packet `seq` and the feedback in that packet.
    pub(super) fn acknowledged(&mut self, seq: Seq) {
        self.vector.acknowledged(seq);
        self.drops.acknowledged(seq);
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

    /// Whether an acknowledgement is due.
    #[inline]
    pub(super) fn must_report(&self) -> bool {
        self.due || (self.active && self.tfrc.as_ref().is_some_and(|tfrc| tfrc.due()))
    }

    /// Whether the Ack Vector is too long for a data packet.
    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.active && self.vector.len() > MAX_PIGGYBACK
    }

    /// Writes the feedback of packet `seq` in at most `room` bytes. Returns the acknowledgement number.
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
            let elapsed = u32::try_from((now - at).as_nanos() / TICK_NANOS).ok().filter(|&elapsed| elapsed > 0);
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
        if waited >= MIN_ELAPSED {
            let elapsed = u32::try_from(waited.as_nanos() / TICK_NANOS).unwrap_or(u32::MAX);
            Opt::ElapsedTime(elapsed).write(out);
        }
        if let Some(value) = self.loss.as_mut().and_then(|loss| loss.option(now)) {
            Opt::LossRate(value).write(out);
        }
        self.write_vector(seq, vector, room, out).or(greatest)
    }

    /// Writes the Ack Vector if the peer requested it. Returns its first number.
    fn write_vector(&mut self, seq: Seq, requested: bool, room: usize, out: &mut Vec<u8>) -> Option<Seq> {
        if !requested {
            return None;
        }
        let first = self.vector.write_within(room.saturating_sub(out.len()), out);
        if first.is_some() {
            self.vector.sent_in(seq);
        }
        first
    }

    /// Frees the state of an ended connection.
    pub(super) fn end(&mut self) {
        self.vector = AckVector::new(1);
        self.drops = PendingDrops::new(1);
        self.tfrc = None;
        self.loss = None;
        (self.due, self.ack_at) = (false, Nanos::MAX);
    }

    /// Heap memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let boxes = self.tfrc.as_ref().map_or(0, |_| size_of::<Receiver>())
            + self.loss.as_ref().map_or(0, |_| size_of::<LossRate>());
        self.vector.memory() + self.drops.memory() + boxes
    }
}
