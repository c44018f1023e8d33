//! Feedback on sent data: deliveries, losses and ECN marks from acknowledgements, reported to the scheme.

use narrows_cc::{
    AckEnd, AckProgress, Bytes, CongestionCause, EcnNeed, Flight, LostPacket, Nanos, Phase, Rate, ReceiverFeedback,
    record,
};

use super::Connection;
use super::half::{Episode, Half};
use super::options::ReceivedOptions;
use super::records::{Fate, Record};
use crate::ack_vector::{PacketState as State, runs};
use crate::{Ccid, Seq};

/// The record number `back` below `acked`; `None` before the first record.
fn number_of(acked: u64, back: i64) -> Option<u64> {
    u64::try_from((acked as i64).checked_sub(back)?).ok()
}

/// Packets newly delivered by one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    acked: Bytes,
    ce: Bytes,
    acked_packets: u64,
    ce_packets: u64,
    /// Newest data packet.
    newest: Option<u64>,
    /// Newest marked data packet.
    marked: Option<u64>,
    /// Shortest time since a delivered packet was sent, including the delay at the receiver.
    rtt: Option<Nanos>,
    /// Whether the delivered packets include the packet that the acknowledgement number refers to.
    has_acked: bool,
    /// Window counter and send time of the packet that the acknowledgement number refers to.
    counter: u8,
    sent_at: Nanos,
    /// Packets of the recovery episode that were lost and arrived late.
    late: u64,
}

impl Connection {
    /// Processes the acknowledgement number `ack` and the options of a valid packet.
    pub(super) fn on_feedback(&mut self, now: Nanos, ack: Seq, options: &[u8], received: &ReceivedOptions) {
        let half = &mut self.half;
        let Some(acked) = (half.records.end() as i64 - 1 - self.gss.minus(ack)).try_into().ok() else {
            return;
        };
        // Ignore vectors that cover packets before the first one (RFC 4340 section 11.4).
        let precedes_first =
            |iss: Seq| runs(ack, options).map(|run| run.count as i64).sum::<i64>() > ack.minus(iss) + 1;
        let options = if self.iss.is_some_and(precedes_first) { &[] } else { options };
        half.check_app_limited();
        let (mut ack_progress, flight_size) = (half.driver.begin_ack(half.inflight), half.inflight);
        let (dropped, corrupt) = half.record_drops(ack, options, self.iss, &mut self.stats);
        let report = received.is_report(half.ccid);
        let progress = half.deliver(now, &mut ack_progress, ack, acked, options, &corrupt, report, &mut self.stats);
        let mut sample = None;
        if let Some(rtt) = progress.rtt {
            let elapsed = received.elapsed.filter(|&elapsed| progress.has_acked && elapsed < rtt);
            let rtt = rtt - elapsed.unwrap_or(Nanos::ZERO);
            // RFC 4341 section 5: one sample per window updates the smoothed round-trip time.
            let newest = progress.newest.unwrap_or(u64::MAX);
            if half.ccid == Ccid::TcpLike && newest < half.sampled_until {
                half.rtt.record(rtt);
            } else {
                half.rtt.on_sample(rtt);
                half.sampled_until = half.records.end();
            }
            half.rtt.on_progress();
            sample = half.rtt.last;
        }
        if half.ccid == Ccid::Tfrc && progress.has_acked {
            half.advance_counter(now, progress.counter);
        }
        half.on_receive_buffer_drops(now, dropped);
        if dropped == 0 && !received.slow {
            half.relax_cap();
        }
        half.report_feedback(now, sample, &progress, received);
        let lost = half.detect_losses(now, &mut self.stats);
        half.update_phase(now, &progress, flight_size, lost, &mut self.stats);
        if half.packets == 0 && progress.newest.is_some() {
            half.idle_since = now;
        }
        if progress.newest.is_some() {
            half.timeouts = 0;
        }
        half.finish_ack(now, &ack_progress, &progress, lost.0, sample);
        half.drop_settled();
        half.rearm(now, &progress, received, self.config.datagram);
        self.stats.bytes_delivered = (self.half.driver.delivered() + self.half.forgotten_bytes).as_u64();
        self.widen_to_cwnd(now);
        if progress.newest.is_some() {
            self.control_acknowledgements(now);
        }
    }

    /// Declares all outstanding packets below `until` lost, or unanswered under CCID 3. Returns their
    /// payload.
    pub(super) fn declare_lost_until(&mut self, now: Nanos, until: u64) -> Bytes {
        let mut bytes = Bytes::ZERO;
        let fate = if self.half.ccid == Ccid::Tfrc { Fate::Unanswered } else { Fate::Lost };
        while let Some(record) = self.half.records.settle_next(until, fate) {
            bytes += self.half.declare_lost(now, &record, &mut self.stats);
        }
        bytes
    }
}

impl Half {
    /// Records Data Dropped options (RFC 4340 section 11.7.2). Returns the number of new receive-buffer drops
    /// and the packets whose corrupt data counts as ECN marked.
    fn record_drops(
        &mut self,
        ack: Seq,
        options: &[u8],
        iss: Option<Seq>,
        stats: &mut super::Stats,
    ) -> (u64, Vec<Seq>) {
        let (mut dropped, mut corrupt, mut not_listening) = (0, Vec::new(), false);
        // The receiver cannot have dropped packets that were never sent or that its vector reports missing:
        // ignore such options.
        let missing =
            |seq: Seq| runs(ack, options).any(|run| run.state == State::Missing && seq.within(run.last(), run.first));
        let invalid = |seq: Seq| iss.is_some_and(|iss| iss.after(seq)) || missing(seq);
        self.reported_drops.record(ack, options, invalid, |seq, code| {
            stats.dropped_by_peer += u64::from(code != 7);
            match code {
                0 => {}
                1 => not_listening = true,
                2 => dropped += 1,
                _ => corrupt.push(seq),
            }
        });
        if not_listening {
            // The peer's application reads no more data.
            self.ended = true;
            self.queue.clear();
        }
        (dropped, corrupt)
    }

    /// Responds to `dropped` packets that the receiver dropped for lack of buffer space.
    fn on_receive_buffer_drops(&mut self, now: Nanos, dropped: u64) {
        if dropped == 0 {
            return;
        }
        match self.ccid {
            Ccid::Tfrc => self.unreported_drops += dropped,
            Ccid::TcpLike => self.report_overload(now, dropped, false),
            _ => self.cap_control(self.datagram * dropped),
        }
    }

    /// Marks packets as delivered that an acknowledgement reports as received.
    fn deliver(
        &mut self,
        now: Nanos,
        ack_progress: &mut AckProgress,
        ack: Seq,
        acked: u64,
        options: &[u8],
        corrupt: &[Seq],
        report: bool,
        stats: &mut super::Stats,
    ) -> Progress {
        let mut progress = Progress::default();
        let Self { records, driver, inflight, packets, ccid, phase, episode, forgotten_bytes, .. } = self;
        let (first, tfrc_report) = (records.first(), report && *ccid == Ccid::Tfrc);
        let range = |run: crate::ack_vector::Run| {
            // Runs that extend before the first packet are cut at the first packet.
            let high = number_of(acked, ack.minus(run.first))?;
            Some((high.saturating_sub(run.count - 1), high, run.state))
        };
        if let Some((late, bytes)) = records.take_forgotten(runs(ack, options).map_while(range)) {
            stats.late_packets += late;
            stats.delivered_packets += late;
            *forgotten_bytes += bytes;
        }
        let deliver = |number: u64, record: &Record, marked: bool| {
            if number == acked {
                progress.has_acked = true;
                progress.counter = record.counter;
                progress.sent_at = record.snapshot.sent_at;
            }
            let rtt = now - record.snapshot.sent_at;
            if record.fate == Fate::Outstanding {
                progress.rtt = Some(progress.rtt.map_or(rtt, |least| least.min(rtt)));
            }
            if record.bytes == 0 {
                return;
            }
            let size = record.size();
            if record.fate == Fate::Outstanding {
                *inflight -= size;
                *packets -= 1;
            } else if record.fate == Fate::Unanswered {
                stats.unanswered_packets -= 1;
            } else {
                stats.late_packets += 1;
                progress.late += u64::from(*phase != Phase::Open && number >= episode.first);
            }
            progress.acked += size;
            progress.acked_packets += 1;
            stats.delivered_packets += 1;
            let is_corrupt = || corrupt.iter().any(|&seq| Some(number) == number_of(acked, ack.minus(seq)));
            if marked || is_corrupt() {
                stats.marked_packets += 1;
                progress.ce += size;
                progress.ce_packets += 1;
                progress.marked = progress.marked.max(Some(number));
            }
            progress.newest = progress.newest.max(Some(number));
            driver.delivered_packet(now, ack_progress, size, &record.snapshot);
        };
        let mut vector = runs(ack, options).map_while(range).peekable();
        if vector.peek().is_some() {
            records.apply(vector, deliver);
        } else if tfrc_report {
            // Without vectors, a CCID 3 report gives the number of losses but not the lost packets. All
            // packets up to its acknowledgement number have left the network and count as delivered.
            if acked >= first {
                records.apply(std::iter::once((first, acked, State::Received)), deliver);
            }
        } else {
            records.apply(std::iter::once((acked, acked, State::Received)), deliver);
        }
        progress
    }

    /// Reports the receiver's measurements to the scheme.
    fn report_feedback(&mut self, now: Nanos, rtt: Option<Nanos>, progress: &Progress, received: &ReceivedOptions) {
        if !received.is_report(self.ccid) {
            return;
        }
        // Ignore duplicate and reordered reports.
        if self.report_seq.is_some_and(|last| !received.seq.after(last)) {
            return;
        }
        self.report_seq = Some(received.seq);
        let new_loss_event = received.loss_event_rate.is_some_and(|rate| rate > self.loss_event_rate);
        self.loss_event_rate = received.loss_event_rate.unwrap_or(self.loss_event_rate);
        let sent_at = if progress.has_acked { progress.sent_at } else { now - self.rtt.or_default() };
        let limited = self.not_limited.report(now, sent_at, self.rtt.or_default());
        self.driver.receiver_feedback(&record!(ReceiverFeedback {
            now,
            rtt,
            receive_rate: received.receive_rate,
            loss_event_rate: received.loss_event_rate,
            loss_rate: received.loss_rate,
            // Only the first report has rate zero; it covers no interval (RFC 5348 section 4.3).
            data_limited: limited && received.receive_rate.is_none_or(|rate| rate > Rate::ZERO),
            new_loss_event,
            dropped: std::mem::take(&mut self.unreported_drops),
            slow: std::mem::take(&mut self.unreported_slow),
        }));
    }

    /// Advances the window counter to at least four above the counter of an acknowledged packet, because a round trip
    /// has passed (RFC 4342 section 8.1).
    fn advance_counter(&mut self, now: Nanos, acknowledged: u8) {
        if self.counter.0.wrapping_sub(acknowledged) % 16 < 4 {
            self.counter = ((acknowledged + 4) % 16, now);
        }
    }

    /// Declares packets lost that three later packets have overtaken. Returns their payload, and the first
    /// and last number.
    fn detect_losses(&mut self, now: Nanos, stats: &mut super::Stats) -> (Bytes, Option<(u64, u64)>) {
        let (mut bytes, mut range) = (Bytes::ZERO, None);
        while let Some((number, record)) = self.records.next_lost() {
            if record.bytes > 0 {
                bytes += self.declare_lost(now, &record, stats);
                range = Some((range.map_or(number, |(first, _)| first), number));
                if self.phase != Phase::Open {
                    self.episode.lost += 1;
                }
            }
        }
        (bytes, range)
    }

    /// Counts a lost or unanswered packet and reports it to the scheme. Returns its payload.
    pub(super) fn declare_lost(&mut self, now: Nanos, record: &Record, stats: &mut super::Stats) -> Bytes {
        if record.bytes == 0 {
            return Bytes::ZERO;
        }
        let size = record.size();
        self.inflight -= size;
        self.packets -= 1;
        if record.fate == Fate::Unanswered {
            stats.unanswered_packets += 1;
            return size;
        }
        stats.lost_packets += 1;
        if self.ccid == Ccid::Tfrc {
            // CCID 3 reacts to the receiver's loss events instead.
            self.driver.lost_unseen(size);
            return size;
        }
        let packet = LostPacket { bytes: size, packet: record.snapshot.order, sent: &record.snapshot };
        self.driver.lost(now, &packet, self.inflight);
        size
    }

    /// Updates the phase after an acknowledgement and reports changes to the scheme. Losses and marks of
    /// packets sent within one window form one event (RFC 4341 section 5).
    fn update_phase(
        &mut self,
        now: Nanos,
        progress: &Progress,
        flight_size: Bytes,
        lost: (Bytes, Option<(u64, u64)>),
        stats: &mut super::Stats,
    ) {
        if self.ccid == Ccid::Tfrc {
            return;
        }
        if self.phase != Phase::Open {
            self.episode.late += progress.late;
            if self.episode.lost > 0 && self.episode.late >= self.episode.lost {
                let phase = self.phase;
                self.phase = Phase::Open;
                self.marked = false;
                stats.spurious_recoveries += 1;
                self.driver.spurious_loss(now, self.inflight, phase);
                self.driver.refresh();
            } else if self.records.known() > self.recovery_point {
                self.phase = Phase::Open;
                self.marked = false;
                self.driver.recovery_left(now, self.inflight);
                self.driver.refresh();
            }
        }
        let again = self.marked && self.entry.ecn != EcnNeed::Nothing;
        if let Some((first, last)) = lost.1
            && (last >= self.recovery_point || again)
            && (self.phase == Phase::Open || again)
        {
            stats.recoveries += 1;
            let known = if self.episode.first >= first { self.episode.lost } else { 0 };
            self.episode = Episode { first, lost: known.max(last - first + 1), late: 0 };
            self.enter_recovery(now, CongestionCause::Loss, flight_size, progress.acked);
        } else if let Some(marked) = progress.marked
            && marked >= self.recovery_point
            && self.phase == Phase::Open
        {
            stats.ecn_reductions += 1;
            self.episode = Episode { first: self.records.end(), lost: 0, late: 0 };
            self.enter_recovery(now, CongestionCause::Ecn, flight_size, progress.acked);
        }
    }

    fn enter_recovery(&mut self, now: Nanos, cause: CongestionCause, flight_size: Bytes, acked: Bytes) {
        self.phase = Phase::Recovery;
        self.marked = cause == CongestionCause::Ecn;
        self.recovery_point = self.records.end();
        let flight = Flight { size: flight_size, inflight: self.inflight };
        self.driver.recovery_entered(now, cause, flight, acked);
    }

    /// Reports the acknowledgement to the scheme, after losses and phase changes.
    fn finish_ack(
        &mut self,
        now: Nanos,
        ack_progress: &AckProgress,
        progress: &Progress,
        lost: Bytes,
        rtt: Option<Nanos>,
    ) {
        // CCID 2 counts packets: each counts as a full datagram.
        let counts = self.ccid == Ccid::TcpLike;
        let end = record!(AckEnd {
            now,
            acked: counts.then(|| self.datagram * progress.acked_packets),
            lost,
            rtt,
            inflight: self.window_used(),
            ce: if counts { self.datagram * progress.ce_packets } else { progress.ce },
            phase: self.phase,
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.least(),
        });
        if self.driver.finish_ack(ack_progress, &end).round_start {
            self.keep = [self.keep[1], self.keep[2], self.records.end()];
        }
    }

    /// Restarts the timer when new data is acknowledged; under CCID 3, restarts it with every report.
    fn rearm(&mut self, now: Nanos, progress: &Progress, received: &ReceivedOptions, datagram: u16) {
        if self.ccid == Ccid::Tfrc {
            self.timeouts = 0;
            if received.is_report(Ccid::Tfrc) {
                self.timer = now.saturating_add(self.timeout(datagram));
            }
        } else if self.packets == 0 {
            self.timer = Nanos::MAX;
        } else if progress.newest.is_some() {
            self.timer = now.saturating_add(self.timeout(datagram));
        }
    }
}
