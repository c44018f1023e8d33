//! The other side says what became of our data: the scheme hears of it.

use narrows_cc::{
    AckEnd, AckProgress, Bytes, CongestionCause, EcnNeed, Flight, LostPacket, Nanos, Phase, Rate,
    ReceiverFeedback,
};

use super::Connection;
use super::half::Half;
use super::options::ReceivedOptions as Told;
use super::records::{Fate, Record};
use crate::ack_vector::{PacketState as State, runs};
use crate::{Ccid, Seq};

/// The record `back` before the one `named`.
fn number_of(named: u64, back: i64) -> Option<u64> {
    u64::try_from((named as i64).checked_sub(back)?).ok()
}

/// What one acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    acked: Bytes,
    ce: Bytes,
    /// In packets.
    acked_packets: u64,
    ce_packets: u64,
    /// The newest data packet among those delivered.
    newest: Option<u64>,
    /// The newest marked one.
    marked: Option<u64>,
    /// The least time since one of those delivered was sent, waiting at the receiver included.
    rtt: Option<Nanos>,
    /// The packet that the acknowledgement number names is one of them.
    named: bool,
    /// Its window counter, and when it left.
    counter: u8,
    sent_at: Nanos,
    late: u64,
}

impl Connection {
    /// A valid packet acknowledges `ack`; its options may hold vectors.
    pub(super) fn on_feedback(&mut self, now: Nanos, ack: Seq, options: &[u8], told: &Told) {
        let half = &mut self.half;
        let Some(named) = (half.records.end() as i64 - 1 - self.gss.minus(ack)).try_into().ok() else {
            return;
        };
        // A vector that tells of packets before the first one tells nothing (RFC 4340 section 11.4).
        let told_of =
            |iss: Seq| runs(ack, options).map(|run| run.count as i64).sum::<i64>() > ack.minus(iss) + 1;
        let options = if self.iss.is_some_and(told_of) { &[] } else { options };
        half.check_app_limited();
        let (mut ack_progress, flight_size) = (half.driver.begin_ack(half.inflight), half.inflight);
        let (dropped, spoilt) = half.hear_of_drops(ack, options, self.iss, &mut self.stats);
        let report = told.is_report(half.ccid);
        let progress =
            half.deliver(now, &mut ack_progress, ack, named, options, &spoilt, report, &mut self.stats);
        let mut sample = None;
        if let Some(rtt) = progress.rtt {
            let elapsed = told.elapsed.filter(|&elapsed| progress.named && elapsed < rtt);
            let rtt = rtt - elapsed.unwrap_or(Nanos::ZERO);
            // RFC 4341 section 5: the mean is over windows, of which each gives one sample.
            let newest = progress.newest.unwrap_or(u64::MAX);
            if half.ccid == Ccid::TcpLike && newest < half.sampled_until {
                half.rtt.glance(rtt);
            } else {
                half.rtt.on_sample(rtt);
                half.sampled_until = half.records.end();
            }
            half.rtt.on_progress();
            sample = half.rtt.last;
        }
        if half.ccid == Ccid::Tfrc && progress.named {
            half.pass_quarters(now, progress.counter);
        }
        half.heed(now, dropped);
        if dropped == 0 && !told.slow {
            half.let_go();
        }
        half.report(now, sample, &progress, told);
        let lost = half.detect_losses(now, &mut self.stats);
        half.update_phase(now, &progress, flight_size, lost, &mut self.stats);
        if half.packets == 0 && progress.newest.is_some() {
            half.quiet_since = now;
        }
        if progress.newest.is_some() {
            half.timeouts = 0;
        }
        half.finish_ack(now, &ack_progress, &progress, lost.0, sample);
        half.forget();
        half.rearm(now, &progress, told, self.config.datagram);
        self.stats.bytes_delivered = self.half.driver.delivered().as_u64();
        self.follow_rate(now);
        if progress.newest.is_some() {
            self.control_acknowledgements(now);
        }
    }

    /// Declares everything outstanding below packet `until` lost.
    pub(super) fn lose_until(&mut self, now: Nanos, until: u64) -> Bytes {
        let mut bytes = Bytes::ZERO;
        let fate = if self.half.ccid == Ccid::Tfrc { Fate::Unanswered } else { Fate::Lost };
        while let Some(record) = self.half.records.lose_next(until, fate) {
            bytes += self.half.tell_lost(now, &record, &mut self.stats);
        }
        bytes
    }
}

impl Half {
    /// Takes in which packets arrived without use (RFC 4340 section 11.7.2): how many found no room, and the numbers of those that
    /// count as marked.
    fn hear_of_drops(
        &mut self,
        ack: Seq,
        options: &[u8],
        iss: Option<Seq>,
        stats: &mut super::Stats,
    ) -> (u64, Vec<Seq>) {
        let (mut dropped, mut spoilt, mut deaf) = (0, Vec::new(), false);
        // What was never sent, or is told to be missing, was not dropped there: such options are ignored.
        let missing = |seq: Seq| {
            runs(ack, options).any(|run| run.state == State::Missing && seq.within(run.last(), run.first))
        };
        let cannot_be = |seq: Seq| iss.is_some_and(|iss| iss.after(seq)) || missing(seq);
        self.heard.record(ack, options, cannot_be, |seq, code| {
            stats.dropped_there += u64::from(code != 7);
            match code {
                0 => {}
                1 => deaf = true,
                2 => dropped += 1,
                _ => spoilt.push(seq),
            }
        });
        if deaf {
            // Nobody will hear the rest.
            self.ended = true;
            self.queue.clear();
        }
        (dropped, spoilt)
    }

    /// So many packets found no room at the receiver.
    fn heed(&mut self, now: Nanos, dropped: u64) {
        if dropped == 0 {
            return;
        }
        match self.ccid {
            Ccid::Tfrc => self.told_dropped += dropped,
            Ccid::TcpLike => self.tell_restraint(now, dropped, false),
            _ => self.restrain(self.datagram * dropped),
        }
    }

    /// Takes in which packets arrived.
    fn deliver(
        &mut self,
        now: Nanos,
        ack_progress: &mut AckProgress,
        ack: Seq,
        named: u64,
        options: &[u8],
        spoilt: &[Seq],
        report: bool,
        stats: &mut super::Stats,
    ) -> Progress {
        let mut progress = Progress::default();
        let Self { records, driver, inflight, packets, ccid, phase, episode, .. } = self;
        let (first, tfrc_report) = (records.first(), report && *ccid == Ccid::Tfrc);
        let deliver = |number: u64, record: &Record, marked: bool| {
            if number == named {
                progress.named = true;
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
                progress.late += u64::from(*phase != Phase::Open && number >= episode.0);
            }
            progress.acked += size;
            progress.acked_packets += 1;
            stats.delivered_packets += 1;
            let is_spoilt = || spoilt.iter().any(|&seq| Some(number) == number_of(named, ack.minus(seq)));
            if marked || is_spoilt() {
                stats.marked_packets += 1;
                progress.ce += size;
                progress.ce_packets += 1;
                progress.marked = progress.marked.max(Some(number));
            }
            progress.newest = progress.newest.max(Some(number));
            driver.delivered_packet(now, ack_progress, size, &record.snapshot);
        };
        let range = |run: crate::ack_vector::Run| {
            // Runs that reach back beyond the first packet end there.
            let high = number_of(named, ack.minus(run.first))?;
            Some((high.saturating_sub(run.count - 1), high, run.state))
        };
        let mut vector = runs(ack, options).map_while(range).peekable();
        if vector.peek().is_some() {
            records.apply(vector, deliver);
        } else if tfrc_report {
            // Where it has no vectors, a report of CCID 3 tells how much was lost, not what: all up to its number has left the
            // network, and is taken for delivered.
            if named >= first {
                records.apply(std::iter::once((first, named, State::Received)), deliver);
            }
        } else {
            records.apply(std::iter::once((named, named, State::Received)), deliver);
        }
        progress
    }

    /// The scheme hears what the receiver measured.
    fn report(&mut self, now: Nanos, rtt: Option<Nanos>, progress: &Progress, told: &Told) {
        if !told.is_report(self.ccid) {
            return;
        }
        // A copy of a report, or one that a newer one overtook, is no news.
        if self.reported_in.is_some_and(|last| !told.seq.after(last)) {
            return;
        }
        self.reported_in = Some(told.seq);
        let new_loss_event = told.loss_event_rate.is_some_and(|rate| rate > self.loss_event_rate);
        self.loss_event_rate = told.loss_event_rate.unwrap_or(self.loss_event_rate);
        let sent_at = if progress.named { progress.sent_at } else { now - self.rtt.or_default() };
        let limited = self.not_limited.report(now, sent_at, self.rtt.or_default());
        self.driver.receiver_feedback(&ReceiverFeedback {
            now,
            rtt,
            receive_rate: told.receive_rate,
            loss_event_rate: told.loss_event_rate,
            loss_rate: told.loss_rate,
            // A rate of zero is the first report's; it covers no interval (RFC 5348 section 4.3).
            data_limited: limited && told.receive_rate.is_none_or(|rate| rate > Rate::ZERO),
            new_loss_event,
            dropped: std::mem::take(&mut self.told_dropped),
            slow: std::mem::take(&mut self.told_slow),
        });
    }

    /// A round trip after a packet with this window counter the counter is at least four ahead (RFC 4342 section 8.1).
    fn pass_quarters(&mut self, now: Nanos, acknowledged: u8) {
        if self.counter.0.wrapping_sub(acknowledged) % 16 < 4 {
            self.counter = ((acknowledged + 4) % 16, now);
        }
    }

    /// Finds what three later packets have overtaken.
    fn detect_losses(&mut self, now: Nanos, stats: &mut super::Stats) -> (Bytes, Option<(u64, u64)>) {
        let (mut bytes, mut range) = (Bytes::ZERO, None);
        while let Some((number, record)) = self.records.next_lost() {
            if record.bytes > 0 {
                bytes += self.tell_lost(now, &record, stats);
                range = Some((range.map_or(number, |(first, _)| first), number));
                if self.phase != Phase::Open {
                    self.episode.1 += 1;
                }
            }
        }
        (bytes, range)
    }

    /// One packet is lost.
    pub(super) fn tell_lost(&mut self, now: Nanos, record: &Record, stats: &mut super::Stats) -> Bytes {
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
            // It answers to what its receiver finds.
            self.driver.lost_unseen(size);
            return size;
        }
        let packet = LostPacket { bytes: size, packet: record.snapshot.order, sent: &record.snapshot };
        self.driver.lost(now, &packet, self.inflight);
        size
    }

    /// The phase after an acknowledgement, with the calls that tell the scheme of a change. Losses and marks of packets sent
    /// within one window are one event (RFC 4341 section 5).
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
            self.episode.2 += progress.late;
            let (_, all, late) = self.episode;
            if all > 0 && late >= all {
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
            let known = if self.episode.0 >= first { self.episode.1 } else { 0 };
            self.episode = (first, known.max(last - first + 1), 0);
            self.enter(now, CongestionCause::Loss, flight_size, progress.acked);
        } else if let Some(marked) = progress.marked
            && marked >= self.recovery_point
            && self.phase == Phase::Open
        {
            stats.ecn_reductions += 1;
            self.episode = (self.records.end(), 0, 0);
            self.enter(now, CongestionCause::Ecn, flight_size, progress.acked);
        }
    }

    fn enter(&mut self, now: Nanos, cause: CongestionCause, flight_size: Bytes, acked: Bytes) {
        self.phase = Phase::Recovery;
        self.marked = cause == CongestionCause::Ecn;
        self.recovery_point = self.records.end();
        let flight = Flight { size: flight_size, inflight: self.inflight };
        self.driver.recovery_entered(now, cause, flight, acked);
    }

    /// Losses and phases are settled: the scheme sees the acknowledgement.
    fn finish_ack(
        &mut self,
        now: Nanos,
        ack_progress: &AckProgress,
        progress: &Progress,
        lost: Bytes,
        rtt: Option<Nanos>,
    ) {
        // CCID 2 counts packets: each stands for a full one.
        let counts = self.ccid == Ccid::TcpLike;
        let end = AckEnd {
            now,
            acked: counts.then(|| self.datagram * progress.acked_packets),
            acked_cumulative: None,
            lost,
            rtt,
            inflight: self.used(),
            ce: if counts { self.datagram * progress.ce_packets } else { progress.ce },
            phase: self.phase,
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.least(),
        };
        if self.driver.finish_ack(ack_progress, &end).round_start {
            self.keep = [self.keep[1], self.keep[2], self.records.end()];
        }
    }

    /// The timer starts again with every acknowledgement of something new; CCID 3's with every report.
    fn rearm(&mut self, now: Nanos, progress: &Progress, told: &Told, datagram: u16) {
        if self.ccid == Ccid::Tfrc {
            self.timeouts = 0;
            if told.is_report(Ccid::Tfrc) {
                self.timer = now.saturating_add(self.timeout(datagram));
            }
        } else if self.packets == 0 {
            self.timer = Nanos::MAX;
        } else if progress.newest.is_some() {
            self.timer = now.saturating_add(self.timeout(datagram));
        }
    }
}
