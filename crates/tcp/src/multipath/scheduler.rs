//! Multipath sender: assigns data to subflows.

use narrows_cc::{Bytes, MAX_PATHS_VIEW, Nanos, PathView, Paths};
use narrows_packet::{Flags, Kind, Packet};

use super::losses::Losses;
use super::mapping::Mappings;
use super::option::MptcpOption;
use super::penalty::PenalisationCap;
use crate::ranges::Ranges;
use crate::{AckOutcome, ConnectionConfig, Scheduler, Sender};
use narrows_traffic::App;

/// Consecutive retransmission timeouts after which a path is declared dead. A single timeout may have been caused by
/// lost acknowledgements of a short tail.
const TIMEOUTS_UNTIL_GIVEN_UP: u32 = 2;

/// Counters of the multipath sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MultipathSenderStats {
    /// Number of times a path was declared dead.
    pub given_up: u64,
    /// Payload bytes of dead paths that were sent again on another subflow.
    pub reinjected_bytes: u64,
    /// Payload bytes sent again on a faster subflow because they blocked the window or were about to block it.
    pub opportunistic_bytes: u64,
    /// Number of times a penalisation cap was halved.
    pub penalties: u64,
}

/// A type that contains the sender of a subflow.
pub trait HasSender {
    /// The sender.
    fn sender(&self) -> &Sender;
    /// Like [`HasSender::sender`], mutable.
    fn sender_mut(&mut self) -> &mut Sender;
}

impl HasSender for Sender {
    #[inline]
    fn sender(&self) -> &Sender {
        self
    }

    #[inline]
    fn sender_mut(&mut self) -> &mut Sender {
        self
    }
}

/// Connection-level state of a subflow.
#[derive(Clone, Debug, Default)]
struct Subflow {
    mappings: Mappings,
    given_up: bool,
    penalty_cap: PenalisationCap,
    losses: Losses,
}

/// The next piece of data to assign.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// Data of a dead path.
    Reinject {
        data: u64,
        len: u64,
    },
    New {
        len: u64,
    },
    /// The connection's window is full.
    Blocked,
}

/// Multipath sender. In all calls, `senders` are the senders of the connection's subflows, in order.
#[derive(Clone, Debug)]
pub struct MultipathSender {
    app: App,
    config: ConnectionConfig,
    /// Flow number of the first subflow.
    base: u32,
    /// Next data byte to send for the first time.
    next: u64,
    /// Highest DATA_ACK: all data below has arrived.
    acked: u64,
    /// Right edge of the connection's window.
    right_edge: u64,
    subflows: Vec<Subflow>,
    /// Data of dead paths to be sent again on other paths.
    reinject: Ranges,
    /// Data at the trailing edge of the window below this number has been sent again or skipped.
    repeated_until: u64,
    /// Next subflow of the round robin.
    turn: usize,
    joined: bool,
    closed: bool,
    completed_at: Option<Nanos>,
    stats: MultipathSenderStats,
}

impl MultipathSender {
    /// A sender whose first subflow is flow `base`.
    ///
    /// # Panics
    /// If `config.subflows` is 0 or exceeds [`MAX_PATHS_VIEW`].
    pub fn new(base: u32, config: ConnectionConfig, app: App) -> Self {
        assert!((1..=MAX_PATHS_VIEW).contains(&config.subflows), "{} subflows", config.subflows);
        Self {
            app,
            base,
            next: 0,
            acked: 0,
            right_edge: 0,
            subflows: vec![Subflow::default(); config.subflows],
            config,
            reinject: Ranges::default(),
            repeated_until: 0,
            turn: 0,
            joined: false,
            closed: false,
            completed_at: None,
            stats: MultipathSenderStats::default(),
        }
    }

    /// The counters.
    pub fn stats(&self) -> &MultipathSenderStats {
        &self.stats
    }

    /// Bytes of allocated memory.
    pub fn memory(&self) -> usize {
        let mappings: usize = self.subflows.iter().map(|own| size_of::<Subflow>() + own.mappings.memory()).sum();
        size_of::<Self>() + mappings + self.reinject.memory()
    }

    /// Bytes acknowledged by DATA_ACK.
    pub fn acknowledged(&self) -> Bytes {
        Bytes::new(self.acked)
    }

    /// Arrival time of the last acknowledgement of a finite application's data.
    pub fn completed_at(&self) -> Option<Nanos> {
        self.completed_at
    }

    /// Time of the next [`MultipathSender::on_timer`]; [`Nanos::MAX`] for never.
    pub fn deadline(&self) -> Nanos {
        self.app.deadline()
    }

    /// Runs the application if its deadline has passed.
    pub fn on_timer<S: HasSender>(&mut self, now: Nanos, senders: &mut [S]) {
        if now >= self.app.deadline() {
            self.app.on_time(now, Bytes::new(self.next));
            self.report_waiting(now, senders, true);
            self.close_if_done(now, senders);
        }
    }

    /// Stops the application: data already written is still delivered. (Bulk data and files count as written when they
    /// are sent.)
    pub fn stop<S: HasSender>(&mut self, now: Nanos, senders: &mut [S]) {
        self.app.on_time(now, Bytes::new(self.next));
        self.app.stop(Bytes::new(self.next));
        self.close_if_done(now, senders);
    }

    /// Processes a packet from the receiver for one of the subflows.
    pub fn on_packet<S: HasSender>(&mut self, now: Nanos, packet: &Packet, senders: &mut [S]) -> AckOutcome {
        let own = (packet.flow - self.base) as usize;
        self.show_paths(own, senders);
        let mut plain = *packet;
        if packet.kind() == Kind::Tcp {
            self.on_data_ack(packet);
            // The advertised window limits the connection, not the subflow.
            *plain.tcp_mut().window = u32::MAX;
        }
        let sender = senders[own].sender_mut();
        let before = sender.delivered();
        let outcome = sender.on_packet(now, &plain);
        let (window, inflight) = (sender.view().cwnd, sender.inflight());
        let acked = sender.delivered() - before;
        let subflow = &mut self.subflows[own];
        let segment = u64::from(self.config.segment);
        subflow.penalty_cap.grow(acked.as_u64(), inflight.as_u64(), segment, window.as_u64());
        subflow.mappings.remove_below(sender.acknowledged());
        self.update_subflow(own, senders[own].sender());
        if !self.joined && senders[own].sender().established_at().is_some() {
            self.joined = true;
            senders.iter_mut().for_each(|sender| sender.sender_mut().open(now));
        }
        self.close_if_done(now, senders);
        outcome
    }

    /// Handles the expired deadline of a subflow.
    pub fn on_subflow_timer<S: HasSender>(&mut self, now: Nanos, own: usize, senders: &mut [S]) {
        self.show_paths(own, senders);
        senders[own].sender_mut().on_timer(now);
        self.update_subflow(own, senders[own].sender());
    }

    /// Next packet of any subflow. Must be called until it returns `None` after every call that changes the connection.
    pub fn poll_transmit<S: HasSender>(&mut self, now: Nanos, senders: &mut [S]) -> Option<Packet> {
        loop {
            for (own, sender) in senders.iter_mut().enumerate() {
                if let Some(mut packet) = sender.sender_mut().poll_transmit(now) {
                    self.complete(own, &mut packet);
                    return Some(packet);
                }
            }
            if !self.assign_next(now, senders) {
                self.report_waiting(now, senders, false);
                return None;
            }
        }
    }

    /// Adds the multipath option to an outgoing packet.
    fn complete(&self, own: usize, packet: &mut Packet) {
        if packet.kind() != Kind::Tcp {
            return;
        }
        let fin = packet.flags.has(Flags::FIN);
        let option = if packet.flags.has(Flags::SYN) {
            if own == 0 {
                MptcpOption::Capable { answer: false }
            } else {
                MptcpOption::Join { address: own as u8, answer: false }
            }
        } else if packet.payload > 0 || fin {
            // A FIN has no mapping; it follows the last byte of data.
            let seq = packet.tcp().seq;
            let data = self.subflows[own].mappings.data_of(seq).unwrap_or(self.next);
            MptcpOption::Mapping { data, subflow: seq as u32, len: packet.payload, fin }
        } else {
            return;
        };
        option.write(packet);
    }

    /// Applies the DATA_ACK and window of a packet.
    fn on_data_ack(&mut self, packet: &Packet) {
        let ack = match MptcpOption::of(packet) {
            Some(MptcpOption::DataAck { ack }) => {
                let ahead = ack.wrapping_sub(self.acked as u32) as i32;
                self.acked.saturating_add_signed(i64::from(ahead))
            }
            _ if packet.flags.has(Flags::SYN) => 0,
            _ => return,
        };
        // Ignore acknowledgements of data never sent.
        if ack > self.next {
            return;
        }
        self.right_edge = self.right_edge.max(ack + u64::from(packet.tcp().window));
        if ack > self.acked {
            self.acked = ack;
            self.reinject.remove_below(ack);
        }
    }

    /// Updates the losses of a subflow and whether its path is dead, after the subflow processed a packet or a timer.
    fn update_subflow(&mut self, own: usize, sender: &Sender) {
        let subflow = &mut self.subflows[own];
        subflow.losses.note(sender.reductions(), sender.delivered());
        if sender.timeouts_in_a_row() < TIMEOUTS_UNTIL_GIVEN_UP {
            subflow.given_up &= sender.timeouts_in_a_row() > 0;
        } else if !subflow.given_up {
            subflow.given_up = true;
            self.stats.given_up += 1;
            for (start, end) in subflow.mappings.ranges() {
                let start = start.max(self.acked);
                if start < end {
                    self.reinject.insert(start, end, |_, _| {});
                }
            }
        }
    }

    /// Closes the subflows once all data is acknowledged and the application has finished.
    fn close_if_done<S: HasSender>(&mut self, now: Nanos, senders: &mut [S]) {
        let done = self.app.is_finished() && self.acked >= self.app.limit().as_u64();
        if self.closed || !done {
            return;
        }
        self.closed = true;
        let completed = self.app.size().is_some();
        self.completed_at = completed.then_some(now);
        senders.iter_mut().for_each(|sender| sender.sender_mut().finish(now, completed));
    }

    fn waiting(&self) -> u64 {
        self.app.limit().as_u64().saturating_sub(self.next)
    }

    fn report_waiting<S: HasSender>(&self, now: Nanos, senders: &mut [S], written: bool) {
        let waiting = self.waiting();
        senders.iter_mut().for_each(|sender| sender.sender_mut().set_waiting(now, waiting, written));
    }

    /// Passes the state of all subflows to a coupled scheme.
    fn show_paths<S: HasSender>(&self, own: usize, senders: &mut [S]) {
        if !self.config.coupled {
            return;
        }
        let mut views = [PathView::default(); MAX_PATHS_VIEW];
        for ((view, sender), subflow) in views.iter_mut().zip(senders.iter()).zip(&self.subflows) {
            let sender = sender.sender();
            *view = sender.view();
            view.established &= !subflow.given_up;
            view.since_loss = subflow.losses.since(sender.delivered());
            view.between_losses = subflow.losses.between();
        }
        senders[own].sender_mut().on_paths(&Paths::new(own, &views[..self.subflows.len()]));
    }

    /// Selects the next data to send: first data to reinject, then new data within the window.
    fn next_piece(&self) -> Option<Piece> {
        let segment = u64::from(self.config.segment);
        if let Some((start, end)) = self.reinject.first() {
            return Some(Piece::Reinject { data: start, len: segment.min(end - start) });
        }
        let len = self.waiting().min(segment);
        if len == 0 {
            return None;
        }
        let room = self.right_edge.saturating_sub(self.next);
        if room >= len {
            return Some(Piece::New { len });
        }
        // Send less than a segment only if no acknowledgement can open the window (RFC 9293 section 3.8.6.2.1).
        if self.acked == self.next && room > 0 {
            return Some(Piece::New { len: room });
        }
        Some(Piece::Blocked)
    }

    /// Assigns one piece to a subflow; returns whether there was a piece and a subflow for it.
    fn assign_next<S: HasSender>(&mut self, now: Nanos, senders: &mut [S]) -> bool {
        let Some(piece) = self.next_piece() else { return false };
        let urgent = match piece {
            Piece::Reinject { .. } => 0,
            Piece::New { .. } => self.urgent_below(senders),
            Piece::Blocked => u64::MAX,
        };
        let (own, data, len) = if let Some((own, data, len)) = self.opportunistic(now, urgent, senders) {
            self.repeated_until = data + len;
            self.stats.opportunistic_bytes += len;
            (own, data, len)
        } else {
            let (Piece::Reinject { len, .. } | Piece::New { len }) = piece else { return false };
            let Some(own) = self.choose(now, len, senders) else { return false };
            if let Piece::Reinject { data, .. } = piece {
                self.reinject.remove_below(data + len);
                self.stats.reinjected_bytes += len;
                (own, data, len)
            } else {
                self.next += len;
                (own, self.next - len, len)
            }
        };
        let subflow = senders[own].sender_mut().assign(len);
        self.subflows[own].mappings.push(subflow, data, len);
        true
    }

    /// Penalises a subflow that blocks the window.
    fn penalise(&mut self, now: Nanos, own: usize, sender: &Sender) {
        let (srtt, segment) = (sender.srtt().unwrap_or(Nanos::ZERO), u64::from(self.config.segment));
        let penalty_cap = &mut self.subflows[own].penalty_cap;
        self.stats.penalties += u64::from(penalty_cap.halve(now, srtt, sender.inflight().as_u64(), segment));
    }

    /// Whether a subflow can send `len` bytes now.
    fn can_send<S: HasSender>(&self, own: usize, now: Nanos, len: u64, senders: &mut [S]) -> bool {
        let (subflow, sender) = (&self.subflows[own], senders[own].sender_mut());
        !subflow.given_up
            && subflow.penalty_cap.admits(sender.inflight().as_u64(), len)
            && sender.has_room_for(now, len)
    }

    /// The fastest matching subflow that can send `len` bytes now. Checks all matching subflows, because the check sets
    /// the pacing deadline of a blocked subflow.
    fn fastest<S: HasSender>(
        &self,
        among: impl Fn(usize, &[S]) -> bool,
        now: Nanos,
        len: u64,
        senders: &mut [S],
    ) -> Option<usize> {
        let mut best: Option<usize> = None;
        for own in 0..senders.len() {
            let first = best.is_none_or(|best| rank(senders[own].sender()) < rank(senders[best].sender()));
            if among(own, senders) && self.can_send(own, now, len, senders) && first {
                best = Some(own);
            }
        }
        best
    }

    /// Scheduler: subflow for the next piece.
    fn choose<S: HasSender>(&mut self, now: Nanos, len: u64, senders: &mut [S]) -> Option<usize> {
        let count = senders.len();
        match self.config.scheduler {
            Scheduler::LowestRtt => self.fastest(|_, _| true, now, len, senders),
            Scheduler::RoundRobin => {
                let turn = self.turn;
                let own = (0..count).map(|i| (turn + i) % count).find(|&own| self.can_send(own, now, len, senders))?;
                self.turn = (own + 1) % count;
                Some(own)
            }
        }
    }

    /// Data below this number will block the window, unless the original arrives before a copy sent now can move the
    /// window. The copy takes a round trip of the fastest subflow, which meanwhile sends one window of data.
    fn urgent_below<S: HasSender>(&self, senders: &[S]) -> u64 {
        let usable = senders.iter().zip(&self.subflows).filter(|(_, subflow)| !subflow.given_up);
        let fastest = usable.map(|(sender, _)| sender.sender()).min_by_key(|sender| rank(sender));
        let sends = fastest.map_or(0, |sender| sender.view().cwnd.as_u64());
        (self.next + sends).saturating_sub(self.right_edge - self.acked)
    }

    /// Opportunistic retransmission: selects a subflow whose window is not full, and data below `urgent` that is
    /// outstanding on a slower subflow. Skips data that is not outstanding on any slower subflow.
    fn opportunistic<S: HasSender>(&mut self, now: Nanos, urgent: u64, senders: &mut [S]) -> Option<(usize, u64, u64)> {
        self.repeated_until = self.repeated_until.max(self.acked);
        if senders.len() < 2 || self.repeated_until >= urgent.min(self.next) {
            return None;
        }
        let usable = senders.iter().zip(&self.subflows).filter(|(_, subflow)| !subflow.given_up);
        let least = usable.map(|(sender, _)| rank(sender.sender())).min()?;
        // Search only if a subflow faster than the slowest can send.
        let slowest = senders.iter().map(|sender| rank(sender.sender())).max()?;
        self.fastest(|own, senders: &[S]| rank(senders[own].sender()) < slowest, now, 1, senders)?;
        loop {
            // Data acknowledged on its subflow has arrived and is no longer mapped.
            let slower = senders.iter().zip(&self.subflows).filter(|(sender, _)| rank(sender.sender()) > least);
            let next = slower.filter_map(|(_, subflow)| subflow.mappings.next_from(self.repeated_until)).min();
            self.repeated_until = next.unwrap_or(self.next);
            let edge = next.filter(|&edge| edge < urgent)?;
            let holder =
                |(own, subflow): (usize, &Subflow)| subflow.mappings.place_of(edge).map(|(seq, end)| (own, seq, end));
            // Among several copies in flight, take the copy that is expected to arrive first.
            let held = self.subflows.iter().enumerate().filter_map(holder);
            let (holder, seq, end) = held.min_by_key(|&(own, ..)| rank(senders[own].sender()))?;
            let len = u64::from(self.config.segment).min(end - edge);
            let slow = rank(senders[holder].sender());
            if slow == least {
                self.repeated_until = end;
                continue;
            }
            let faster = |own: usize, senders: &[S]| rank(senders[own].sender()) < slow;
            let own = self.fastest(faster, now, len, senders)?;
            if overtakes(now, senders[own].sender(), senders[holder].sender(), seq) {
                self.penalise(now, holder, senders[holder].sender());
            } else if urgent < u64::MAX {
                return None;
            }
            return Some((own, edge, len));
        }
    }
}

/// Whether a copy sent now by `fast` would arrive before the packet of `slow` with this sequence number.
fn overtakes(now: Nanos, fast: &Sender, slow: &Sender, seq: u64) -> bool {
    slow.sent_at(seq).is_some_and(|sent| now + one_way(fast) < sent + one_way(slow))
}

/// Scheduling rank: the lowest rank is preferred; a subflow without a sample has the highest.
fn rank(sender: &Sender) -> Nanos {
    sender.srtt().unwrap_or(Nanos::MAX)
}

/// Half the smoothed round-trip time; zero before the first sample.
fn one_way(sender: &Sender) -> Nanos {
    sender.srtt().map_or(Nanos::ZERO, |srtt| srtt / 2)
}
