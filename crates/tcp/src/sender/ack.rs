//! Processing of acknowledgements.

use narrows_cc::{AckEnd, AckProgress, Bytes, CongestionCause, Driver, Nanos, Phase, record};
use narrows_packet::{Flags, MAX_SACK_BLOCKS, Packet, timestamp};

use super::rack::Rack;
use super::scoreboard::Record;
use super::timers::LossTimer;
use super::undo::Undo;
use super::{AckOutcome, Pending, Sender, State};
use crate::TimerRules;
use crate::rates::RateEvent;

/// Least wait before data that the receiver seems to have discarded is sent again.
const RENEGING_WAIT: Nanos = Nanos::from_millis(10);

/// Deliveries of one acknowledgement.
pub(super) struct Progress {
    driver: AckProgress,
    now: Nanos,
    /// Timestamp echo, if the connection uses timestamps.
    echo: Option<u32>,
    min_rtt: Nanos,
    pub(super) acked: Bytes,
    cumulative: Bytes,
    /// Transmission number of the newest delivered packet, followed by fields of its record.
    newest: u64,
    newest_sent_at: Nanos,
    newest_retransmitted: bool,
    /// Transmission number and round-trip time of the newest packet usable by RACK.
    rack: Option<(u64, Nanos)>,
    /// Round-trip times of the last usable packets acknowledged selectively and cumulatively.
    last: [Option<Nanos>; 2],
    /// Departure of the first packets sent only once that were acknowledged selectively and cumulatively.
    first_sent_at: [Option<Nanos>; 2],
    /// Packets that arrived out of order were acknowledged selectively and cumulatively.
    reordered: [bool; 2],
    /// A retransmitted packet was acknowledged cumulatively.
    retransmission_acked: bool,
    /// A packet retransmitted in this recovery was acknowledged cumulatively, and the timestamp echo shows
    /// that the earlier copy had arrived (RFC 3522).
    pub(super) late: bool,
    /// A packet retransmitted in this recovery was delivered, possibly thanks to the retransmission.
    pub(super) repaired: bool,
}

/// Whether timestamp `a` is before `b`, modulo 2^32.
pub(super) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Round-trip time by the echo of a timestamp, in microseconds and at least one (Linux `tcp_rtt_tsopt_us`).
pub(super) fn timestamp_rtt(now: Nanos, echo: u32) -> Nanos {
    Nanos::from_micros(u64::from(timestamp(now).wrapping_sub(echo)).max(1))
}

impl Progress {
    fn new(driver: AckProgress, now: Nanos, echo: Option<u32>, min_rtt: Nanos) -> Self {
        Self {
            driver,
            now,
            echo,
            min_rtt,
            acked: Bytes::ZERO,
            cumulative: Bytes::ZERO,
            newest: 0,
            newest_sent_at: now,
            newest_retransmitted: false,
            rack: None,
            last: [None; 2],
            first_sent_at: [None; 2],
            reordered: [false; 2],
            retransmission_acked: false,
            late: false,
            repaired: false,
        }
    }

    /// Bytes delivered, and the cumulatively acknowledged part of them.
    pub(super) fn bytes(&self) -> (Bytes, Bytes) {
        (self.acked, self.cumulative)
    }

    /// Counts reordering once for selective and once for cumulative deliveries of this acknowledgement.
    #[cold]
    fn note_reordering(&mut self, rack: &mut Rack, cumulative: bool) {
        let known = &mut self.reordered[usize::from(cumulative)];
        rack.reordering_count = rack.reordering_count.saturating_add(u16::from(!*known));
        *known = true;
    }

    /// Accounts for one newly delivered record.
    #[inline]
    fn deliver(&mut self, record: &Record, driver: &mut Driver, rack: &mut Rack, cumulative: bool) {
        self.acked += record.bytes();
        if rack.on_delivered(record) {
            self.note_reordering(rack, cumulative);
        }
        driver.delivered_packet(self.now, &mut self.driver, record.bytes(), &record.snapshot);
        let rtt = self.now - record.snapshot.sent_at;
        if record.snapshot.order > self.newest {
            self.newest = record.snapshot.order;
            self.newest_sent_at = record.snapshot.sent_at;
            self.newest_retransmitted = record.retransmissions > 0;
        }
        let how = usize::from(cumulative);
        let again = record.retransmissions > 0;
        if !again && self.first_sent_at[how].is_none() {
            self.first_sent_at[how] = Some(record.snapshot.sent_at);
        }
        self.retransmission_acked |= again && cumulative;
        // RFC 8985 section 6.2, step 2: an acknowledgement of the earlier copy says nothing about the newer one.
        let early = || self.echo.is_some_and(|echo| before(echo, timestamp(record.snapshot.sent_at)));
        if again && (rtt < self.min_rtt || early()) {
            return;
        }
        self.last[how] = Some(rtt);
        if self.rack.is_none_or(|(order, _)| record.snapshot.order > order) {
            self.rack = Some((record.snapshot.order, rtt));
        }
    }

    /// The sample for the smoothed RTT, as Linux takes it: since the first packet acknowledged cumulatively,
    /// unless a retransmission is among these; else since the first one acknowledged selectively.
    fn first_rtt(&self) -> Option<Nanos> {
        let [sacked, cumulative] = self.first_sent_at;
        let sent_at = cumulative.filter(|_| !self.retransmission_acked).or(sacked)?;
        Some(self.now - sent_at)
    }

    /// Linux `tcp_ack_update_rtt`: an acknowledgement of new data gives a sample by its timestamp echo if
    /// retransmissions forbid any other.
    fn timestamp_rtt(&self) -> Option<Nanos> {
        let echo = self.echo.filter(|_| !self.cumulative.is_zero())?;
        Some(timestamp_rtt(self.now, echo))
    }

    /// RACK.rtt. Linux: that of the last packet processed; cumulative acknowledgement follows SACK.
    fn rack_rtt(&self, newest: Nanos, last: bool) -> Nanos {
        if last { self.last[1].or(self.last[0]).unwrap_or(newest) } else { newest }
    }

    #[inline]
    fn judge(&mut self, record: &Record, undo: &Undo, cumulative: bool) {
        if record.retransmissions > 0
            && let Some(first) = undo.first_stamp()
        {
            // A SACK echoes the timestamp of other packets, so it proves nothing.
            let late = cumulative && self.echo.is_some_and(|echo| before(echo, first));
            self.late |= late;
            self.repaired |= !late;
        }
    }
}

impl Sender {
    /// Completes the handshake.
    pub(super) fn on_syn_ack(&mut self, now: Nanos, packet: &Packet) -> AckOutcome {
        self.state = State::Established;
        self.milestones.established_at = Some(now);
        self.stream.open(packet.tcp().ack, u64::from(packet.tcp().window));
        self.ecn.negotiated = self.config.ecn && packet.flags.has(Flags::ECE);
        self.handshake.peer_timestamp = packet.tcp().ts_val;
        self.timers.rto_at = Nanos::MAX;
        self.pending.add(Pending::ACK);
        let mut outcome = AckOutcome::default();
        let by_timestamp = self.config.timestamps && self.config.timestamp_rtt;
        if let Some(rtt) = self.handshake.rtt(now, packet, by_timestamp) {
            self.rtt.on_sample(rtt, self.stream.una, self.stream.nxt);
            self.stats.rtt_samples += 1;
            outcome.rtt = Some(rtt);
            self.window.driver.handshake(now, rtt, self.rtt.smoothed(), self.rtt.least());
        } else {
            self.rtt.on_lost_syn();
        }
        self.window.follow(self.mss());
        if packet.has_option() {
            let reply = self.read_reply(packet, 0, u64::MAX);
            self.follow_reply(now, reply);
        }
        self.report_to_agent(now, RateEvent::Established);
        outcome
    }

    pub(super) fn on_ack(&mut self, now: Nanos, packet: &Packet) -> AckOutcome {
        let reply = self.read_reply(packet, self.stream.una, self.stream.nxt);
        if packet.tcp().ack > self.stream.nxt {
            // Forged: acknowledges data never sent.
            return AckOutcome::default();
        }
        self.check_app_limited();
        self.handshake.peer_timestamp = packet.tcp().ts_val;
        let begun = self.window.driver.begin_ack(self.in_network());
        let advanced = packet.tcp().ack > self.stream.una;
        let window_changed = self.update_right_edge(now, packet);

        let echo = self.config.timestamps.then_some(packet.tcp().ts_ecr);
        let mut progress = Progress::new(begun, now, echo, self.rtt.min_rtt_or_zero());
        if advanced && !self.config.sack {
            self.window.driver.advancing(Bytes::new(packet.tcp().ack - self.stream.una), self.mss());
        }
        {
            let Self { board, window, recovery, .. } = self;
            board.acknowledge(packet.tcp().ack, |record| {
                progress.deliver(record, &mut window.driver, &mut recovery.rack, true);
                progress.judge(record, &recovery.undo, true);
            });
        }
        if advanced {
            progress.cumulative = self.stream.advance(packet.tcp().ack);
            self.timers.timeouts = 0;
            self.recovery.on_advance();
            self.recovery.reneged = self.board.is_head_sacked();
        }
        let duplicates_before = self.recovery.duplicate_acks;
        let mut duplicate = None;
        if packet.has_sack() {
            duplicate = self.on_sack_blocks(packet, &mut progress, advanced);
        } else if !self.config.sack
            && !advanced
            && !window_changed
            && packet.tcp().ack == self.stream.una
            && !self.board.is_empty()
        {
            self.recovery.duplicate_acks += 1;
            // Once a retransmission after a timeout arrives, most duplicates come from packets that arrive a
            // second time, until new data follows. The first such arrival advances SND.UNA, so earlier
            // duplicates still belong to packets sent before the timeout.
            let reported =
                self.recovery.phase != Phase::Loss || self.timers.timeouts > 0 || self.stream.nxt > self.recovery.point;
            // At most the data outstanding besides the hole itself: the network may duplicate acknowledgements.
            if reported && self.recovery.duplicate_acks < self.board.len() {
                self.window.driver.delivered_unknown(now, self.mss());
            }
        }

        let rtt = self.sample_rtt(&progress);
        if let Some((order, newest)) = progress.rack {
            self.recovery.rack.advance(order, progress.rack_rtt(newest, self.config.rack_rtt_last));
        }
        let lost = self.detect_losses(now);
        let again = self.recovery.duplicate_acks > duplicates_before;
        self.update_phase(now, packet, &progress, lost, duplicate, advanced, again);
        if self.board.is_empty() && advanced {
            self.timers.quiet_since = now;
        }

        let end = record!(AckEnd {
            now,
            // Linux `tcp_may_raise_cwnd`: after reordering, all delivered data counts for growth.
            acked_cumulative: (!self.config.grow_on_sack || !self.recovery.rack.is_reordering_high())
                .then_some(progress.cumulative),
            lost,
            rtt,
            inflight: self.in_network(),
            ce: self.ecn.marked(packet, progress.acked),
            phase: self.recovery.phase,
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.least(),
        });
        let result = self.window.driver.finish_ack(&progress.driver, &end);
        self.stats.rate_samples += u64::from(result.sampled);
        self.window.follow(self.mss());
        self.follow_reply(now, reply);
        self.rearm_after_ack(now, advanced, progress.newest > 0);
        if advanced {
            self.note_completion(now);
        }
        AckOutcome { rtt, acked: result.acked, lost }
    }

    /// Updates the RTT estimates. Returns the sample for the scheme: that of the newest packet delivered.
    #[inline]
    fn sample_rtt(&mut self, progress: &Progress) -> Option<Nanos> {
        let newest =
            (progress.newest > 0 && !progress.newest_retransmitted).then(|| progress.now - progress.newest_sent_at);
        let linux = self.config.timers == TimerRules::Linux;
        let smoothed = if linux { progress.first_rtt() } else { newest };
        let echoed = || progress.timestamp_rtt().filter(|_| self.config.timestamp_rtt);
        let sample = smoothed.or_else(echoed)?;
        let newest = newest.or(Some(sample));
        if let Some(newest) = newest {
            self.rtt.note_least(newest);
        }
        self.rtt.on_sample(sample, self.stream.una, self.stream.nxt);
        self.stats.rtt_samples += 1;
        newest
    }

    #[inline]
    fn update_right_edge(&mut self, now: Nanos, packet: &Packet) -> bool {
        if packet.tcp().ack < self.stream.una {
            return false;
        }
        let changed = self.stream.offer(packet.tcp().ack, u64::from(packet.tcp().window));
        if self.timers.persist {
            self.timers.probes = 0;
            if self.stream.admits(1) {
                self.timers.end_persist();
            } else if self.config.timers == TimerRules::Linux {
                // `tcp_ack_probe` counts from the answer.
                self.timers.rto_at = now + self.rtt.rto();
            }
        }
        changed
    }

    /// Applies SACK blocks, lowest first to avoid seeing false reordering. Returns the range of a DSACK block, if any.
    fn on_sack_blocks(&mut self, packet: &Packet, progress: &mut Progress, advanced: bool) -> Option<(u64, u64)> {
        let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
        let mut n = 0;
        for block in packet.sack_blocks() {
            blocks[n] = block;
            n += 1;
        }
        // RFC 2883 section 4: the first block is a DSACK if it lies below the acknowledgement number or
        // within the second block.
        let (first, second) = (blocks[0], blocks[1]);
        let inside = n > 1 && first.0 >= second.0 && first.1 <= second.1;
        let duplicate = (first.1 <= packet.tcp().ack || inside).then_some(first);
        if duplicate.is_some() {
            blocks[0] = (0, 0);
        }
        blocks[..n].sort_unstable();
        let mut news = 0;
        let Self { board, window, recovery, stream, .. } = self;
        for &(start, end) in &blocks[..n] {
            let (start, end) = (start.max(stream.una), end.min(stream.nxt));
            if start < end {
                news += u64::from(board.sack(start, end, |record| {
                    progress.deliver(record, &mut window.driver, &mut recovery.rack, false);
                    progress.judge(record, &recovery.undo, false);
                }));
            }
        }
        self.stats.sack_blocks += news;
        if news > 0 && !advanced {
            self.recovery.duplicate_acks += 1;
        }
        let (start, end) = duplicate?;
        if self.config.dsack_delivered {
            // Linux `tcp_dsack_seen`: without a retransmission for each packet a DSACK is dubious.
            self.recovery.duplicates += (end - start).div_ceil(self.mss().as_u64()).max(1);
            if self.recovery.duplicates > self.stats.retransmits {
                return None;
            }
            let bytes = Bytes::new(end - start);
            self.window.driver.delivered_again(progress.now, bytes);
            progress.acked += bytes;
        }
        duplicate
    }

    /// Sets the timers after losses, phases and windows are updated. `delivered` also counts a FIN.
    #[inline]
    fn rearm_after_ack(&mut self, now: Nanos, advanced: bool, delivered: bool) {
        if self.board.is_empty() {
            self.timers.stop_repairs();
            return;
        }
        if self.recovery.reneged {
            // The receiver discarded data that it had SACKed, or its acknowledgement is late. Linux
            // (`tcp_check_sack_reneging`) waits for half an RTT, at least 10 ms, then sends all of it again.
            if advanced {
                self.timers.rto_at = now + (self.rtt.srtt / 2).max(RENEGING_WAIT);
            }
            return;
        }
        if advanced {
            // RFC 6582 section 4, the impatient variant: only the first partial acknowledgement restarts the timer.
            let partial = !self.config.sack && self.recovery.phase == Phase::Recovery && self.recovery.is_repairing();
            if !partial || !self.recovery.partial_seen {
                self.timers.rto_at = now + self.rtt.rto();
            }
            self.recovery.partial_seen |= partial;
        }
        let awaited = self.timers.await_reordering();
        if !awaited && (delivered || self.timers.loss_timer == LossTimer::Reordering) {
            self.arm_probe(now);
        }
    }

    fn note_completion(&mut self, now: Nanos) {
        if self.stream.is_delivered() && self.milestones.completed_at.is_none() {
            self.milestones.completed_at = Some(now);
        }
        if self.stream.is_complete() {
            self.close();
            self.report_to_agent(now, RateEvent::Completed);
        }
    }

    /// Updates the recovery phase after an acknowledgement and notifies the scheme of a change.
    fn update_phase(
        &mut self,
        now: Nanos,
        packet: &Packet,
        progress: &Progress,
        lost: Bytes,
        duplicate: Option<(u64, u64)>,
        advanced: bool,
        again: bool,
    ) {
        if let Some(range) = duplicate {
            // Linux `tcp_dsack_seen`: the window widens only after reordering, and not for the copy of a probe.
            let probed = self.recovery.probe.is_some_and(|probe| probe.end_seq == range.1);
            if !self.config.dsack_delivered || (self.recovery.rack.reordering_seen && !probed) {
                self.recovery.rack.on_dsack(self.stream.una, self.stream.nxt);
            }
            self.recovery.undo.on_duplicate(range, self.mss());
        }
        if self.recovery.probe.is_some() {
            self.judge_probe(now, progress, duplicate);
        }
        if self.recovery.undo.is_active() {
            self.try_undo(now, progress);
        }
        let mut repairs = false;
        if !self.recovery.is_open() {
            self.on_ack_in_recovery(now, progress, advanced, again);
            self.repair_while_reducing(now, progress.bytes());
            // Data sent in recovery was lost and repeated in it: `tcp_time_to_recover` counts it still, and so does RFC
            // 6675 section 5, whose IsLost knows nothing of repeated packets.
            repairs = self.recovery.is_open() && self.has_repairs_in_flight();
        }
        if self.recovery.is_open() && (repairs || self.shall_enter_recovery()) {
            self.enter_recovery(now, CongestionCause::Loss, progress.bytes());
        }
        // RFC 3168 section 6.1.2: once per window of data. The receiver repeats the echo until CWR arrives,
        // that is, until data sent after the last reduction is acknowledged.
        let cwr_received = self.stream.una > self.recovery.point;
        if self.ecn.is_marked(packet) && self.recovery.is_open() && cwr_received {
            self.stats.ecn_reductions += 1;
            self.enter_recovery(now, CongestionCause::Ecn, progress.bytes());
        }
        let mss = self.mss();
        if self.window.reducing {
            let good = advanced && lost.is_zero();
            self.window.reduce(progress.acked, self.board.inflight(), good, mss);
        } else if !self.config.sack && self.recovery.is_open() {
            // RFC 3042: the first two duplicates each allow one new packet.
            self.window.inflation = mss.as_u64() as i64 * i64::from(self.recovery.duplicate_acks.min(2));
        }
    }
}
