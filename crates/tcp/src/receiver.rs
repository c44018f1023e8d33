//! Receiver of a reliable stream: reassembly, acknowledgements, SACK and DSACK blocks, ECN echo.
//!
//! * An acknowledgement leaves for every `ack_every` full segments or after `ack_delay`, and at once for data that
//!   fills the last hole, duplicates and a FIN (RFC 5681 section 4.2). `ack_timing` adds Linux's rules: quick
//!   acknowledgements at the start and after idle, and compression of SACKs.
//! * SACK blocks: the most recently changed first (RFC 2018 section 4); a duplicate is reported once, before all others
//!   (RFC 2883).
//! * The timestamp echoed is that of the earliest packet the acknowledgement covers, or of the packet that filled the
//!   hole (RFC 7323 section 4.3).
//! * The application reads at once. The window (`receive_window`) is the buffer less the out-of-order data, or smaller
//!   until Linux's tuning has opened it; its right edge never moves back (RFC 9293 section 3.8.6).
//! * The responder, if any, handles options and control messages of explicit-rate protocols.
//! * The reverse direction carries no data: its FIN rides on the acknowledgement of the peer's FIN.

mod ack_timing;
mod receive_window;

use ack_timing::AckTiming;
use narrows_cc::{Bytes, Nanos};
use narrows_packet::{Ecn, Flags, Kind, MAX_SACK_BLOCKS, Packet, timestamp};
use narrows_units::prefetch;
use receive_window::Window;

use crate::{ReceiverStats, TcpConfig, ranges::Ranges, rates::RateResponder};

/// Effect of an arriving packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Payload bytes that became deliverable in order.
    pub in_order: Bytes,
    /// The packet carries new data.
    pub distinct: bool,
    /// The packet carries data, none of it new.
    pub duplicate: bool,
}

/// SACK blocks that compressed acknowledgements may fill without loss of information.
const BLOCKS_EXPECTED: usize = 2;

/// `fin` before a FIN arrives.
const NO_FIN: u64 = u64::MAX;

/// Receiver of a reliable stream.
// With thousands of flows the cache lines that a packet accesses decide the speed: they are five, from the unused part
// of `timing` to the first counters.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Receiver {
    /// Meaningful while `pending_early_ack`. Few connections need it, but those often.
    early_ack: Option<Box<Packet>>,
    /// Stored ranges in order of their last change, newest first.
    recent: [(u64, u64); MAX_SACK_BLOCKS],
    timing: AckTiming,
    next: u64,
    right_edge: u64,
    window: Window,
    fin: u64,
    /// Departure of the SYN-ACK, until its round-trip time is measured; otherwise [`Nanos::MAX`].
    syn_ack_at: Nanos,
    ts_echo_limit: u64,
    stored: Ranges,
    ts_recent: u32,
    flow: u32,
    header: u16,
    /// Path of the newest packet; acknowledgements return on it.
    path: u8,
    open: bool,
    sack: bool,
    ecn_wanted: bool,
    ecn: bool,
    ecn_precise: bool,
    echo: bool,
    pending_early_ack: bool,
    pending_ack: bool,
    pending_syn_ack: bool,
    pending_message: bool,
    pending_duplicate: bool,
    recent_len: u8,
    /// Receiver side of an explicit-rate protocol, if the sender's scheme uses one.
    responder: Option<Box<dyn RateResponder>>,
    stats: ReceiverStats,
    /// Range that arrived again; meaningful while `pending_duplicate`.
    duplicate: (u64, u64),
}

impl Receiver {
    /// A receiver that waits for a SYN.
    pub fn new(flow: u32, config: &TcpConfig) -> Self {
        let window = Window::new(config);
        Self {
            next: 0,
            timing: AckTiming::new(config),
            syn_ack_at: Nanos::MAX,
            stored: Ranges::default(),
            ts_recent: 0,
            ts_echo_limit: 0,
            flow,
            header: config.header,
            path: 0,
            open: false,
            sack: config.sack,
            ecn_wanted: config.ecn,
            ecn: false,
            ecn_precise: config.ecn_precise,
            echo: false,
            early_ack: None,
            pending_early_ack: false,
            pending_ack: false,
            pending_syn_ack: false,
            window,
            right_edge: 1 + window.offer(0),
            fin: NO_FIN,
            pending_duplicate: false,
            duplicate: (0, 0),
            recent: [(0, 0); MAX_SACK_BLOCKS],
            recent_len: 0,
            responder: None,
            pending_message: false,
            stats: ReceiverStats::default(),
        }
    }

    /// A receiver of a subflow: the multipath connection, whose settings these are, limits the window.
    pub fn of_subflow(flow: u32, connection: &TcpConfig) -> Self {
        let receiver = Self::new(flow, connection);
        Self { window: receiver.window.without_limit(), right_edge: u64::MAX, ..receiver }
    }

    /// Attaches the receiver side of an explicit-rate protocol.
    pub fn attach(&mut self, responder: Box<dyn RateResponder>) {
        self.responder = Some(responder);
    }

    /// The counters.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Next sequence number expected.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// End of the window that was advertised.
    pub fn right_edge(&self) -> u64 {
        self.right_edge
    }

    /// End of the data that waits behind holes, if any.
    pub fn stored_end(&self) -> Option<u64> {
        self.stored.end()
    }

    /// The timestamp that the next acknowledgement echoes (RFC 7323, TS.Recent).
    pub fn peer_timestamp(&self) -> u32 {
        self.ts_recent
    }

    /// Bytes of memory held. Buffers grow and never shrink, so at the end of a run this is the peak.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.stored.memory() + self.responder.as_ref().map_or(0, |own| own.memory())
    }

    /// Prefetches the cache lines that most packets access.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.timing.unacked, 5);
    }

    /// Prefetches further state if `packet` is out of order or finds holes.
    #[inline]
    pub fn prefetch_ranges(&self, packet: &Packet) {
        if !self.stored.is_empty() || packet.numbers().0 != self.next {
            prefetch(&self.recent, 1);
            prefetch(&self.stats.duplicate_packets, 1);
            self.stored.prefetch();
        }
    }

    /// Time of the next [`Receiver::on_timer`]; [`Nanos::MAX`] for never.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        self.timing.deadline()
    }

    /// Sends an acknowledgement whose delay has ended.
    pub fn on_timer(&mut self, now: Nanos) {
        if now >= self.timing.deadline() {
            let (due, delayed) = self.timing.on_timer(now);
            self.pending_ack |= due;
            self.stats.delayed_acks += u64::from(delayed);
        }
    }

    /// Sends the next acknowledgement without delay.
    pub fn acknowledge_now(&mut self) {
        self.pending_ack = true;
    }

    /// Processes a packet from the sender.
    #[inline]
    pub fn on_packet(&mut self, now: Nanos, packet: &Packet) -> Arrival {
        if packet.flags.has(Flags::REVERSE) {
            return Arrival::default();
        }
        if packet.kind() == Kind::Message {
            let ours = self.responder.as_mut().is_some_and(|own| own.on_message(packet));
            self.stats.messages_refused += u64::from(!ours);
            self.pending_message = true;
            return Arrival::default();
        }
        self.path = packet.path();
        self.stats.bytes_received += packet.size().as_u64();
        let marked = packet.ecn() == Ecn::Ce;
        self.stats.ce_packets += u64::from(marked);
        let news = marked || self.echo || packet.flags.has(Flags::CWR);
        let answer = self.ecn && news && self.update_echo(now, packet, marked);
        if packet.has_option()
            && let Some(responder) = &mut self.responder
        {
            responder.on_option(packet);
        }
        let payload = u64::from(packet.payload);
        let plain = !packet.flags.has(Flags::FIN) && !packet.flags.has(Flags::SYN);
        if packet.tcp().seq != self.next || payload == 0 || !plain || !self.stored.is_empty() || !self.open {
            self.pending_ack |= answer;
            return self.on_other_packet(now, packet);
        }
        if packet.tcp().seq <= self.ts_echo_limit {
            self.ts_recent = packet.tcp().ts_val;
        }
        self.next += payload;
        self.stats.data_packets += 1;
        self.stats.bytes_in_order += payload;
        if self.syn_ack_at != Nanos::MAX {
            self.measure_handshake(now);
        }
        self.window.sample(now, packet, self.next);
        let opened = self.window.on_data(payload, 0);
        self.pending_ack |= self.timing.on_in_order(now, payload, opened) | answer;
        self.window.on_read(now, self.next, None);
        Arrival { in_order: Bytes::new(payload), distinct: true, duplicate: false }
    }

    /// Updates the ECN echo of the following acknowledgements. Returns whether to acknowledge now.
    fn update_echo(&mut self, now: Nanos, packet: &Packet, marked: bool) -> bool {
        if packet.payload == 0 {
            return false;
        }
        let before = self.echo;
        if self.ecn_precise {
            // RFC 8257 section 3.2: acknowledge pending data with the old state before the state changes. Linux
            // `dctcp_ece_ack_update` acknowledges the new state at once too.
            if marked != before && self.timing.has_unacked() {
                self.acknowledge_early(now);
            }
            self.echo = marked;
            return marked != before && self.timing.hurries();
        }
        // RFC 3168 section 6.1.3: echo until the sender sets CWR.
        let reduced = packet.flags.has(Flags::CWR);
        self.echo = marked || (before && !reduced);
        if marked && (!before || reduced) {
            self.timing.on_congestion();
        }
        // Linux `tcp_ecn_accept_cwr`: the sender's window may be very small now.
        reduced && self.timing.hurries()
    }

    fn measure_handshake(&mut self, now: Nanos) {
        if self.syn_ack_at != Nanos::MAX {
            self.timing.rtt = now - self.syn_ack_at;
            self.syn_ack_at = Nanos::MAX;
        }
    }

    fn on_other_packet(&mut self, now: Nanos, packet: &Packet) -> Arrival {
        if packet.flags.has(Flags::SYN) {
            self.on_syn(packet);
            return Arrival::default();
        }
        if !self.open {
            return Arrival::default();
        }
        self.measure_handshake(now);
        if packet.tcp().seq <= self.ts_echo_limit {
            self.ts_recent = packet.tcp().ts_val;
        }
        let (start, end) = (packet.tcp().seq, packet.seq_end());
        if start == end {
            // The last packet of a handshake needs no answer; a window probe, which repeats an old number, does.
            self.pending_ack |= start < self.next;
            return Arrival::default();
        }
        if packet.flags.has(Flags::FIN) {
            self.fin = end - 1;
        }
        let had_holes = !self.stored.is_empty();
        let expected = self.next;
        let before = self.delivered();
        // The FIN needs no buffer. Data beyond the window is discarded and not reported as received.
        let fits = end - u64::from(packet.flags.has(Flags::FIN)) <= self.right_edge;
        // Data that arrived before: all of an old packet, or the lowest part of one that also brings new data (RFC 2883,
        // Linux `tcp_ofo_queue`).
        let known = if start < self.next { Some((start, self.next)) } else { self.stored.overlap(start, end) };
        let fresh = if end <= self.next || !fits {
            false
        } else if start <= self.next {
            self.next = end;
            while let Some(end) = self.stored.pop_reached(self.next) {
                self.next = self.next.max(end);
            }
            true
        } else {
            self.flush_compressed(now, start, end);
            self.store(start, end)
        };
        let data = packet.payload > 0;
        let arrival = Arrival {
            in_order: Bytes::new(self.delivered() - before),
            distinct: data && fresh,
            duplicate: data && !fresh,
        };
        self.stats.data_packets += u64::from(arrival.distinct);
        self.stats.duplicate_packets += u64::from(arrival.duplicate);
        self.stats.bytes_in_order += arrival.in_order.as_u64();
        self.stats.out_of_order += u64::from(arrival.distinct && start > expected);
        if fits && let Some(known) = if fresh { known } else { Some((start, end)) } {
            self.duplicate = known;
            self.pending_duplicate = true;
        }
        if data {
            self.window.sample(now, packet, self.next);
        }
        if arrival.distinct {
            let opened = self.window.on_data(u64::from(packet.payload), self.stored.total());
            self.timing.on_window(opened);
        } else if arrival.duplicate && (end <= self.next || !fits) {
            // A copy of data that waits behind a hole does not count (Linux `tcp_data_queue_ofo`).
            self.timing.on_duplicate();
        }
        let holes = !self.stored.is_empty();
        let urgent = !fresh || (had_holes && !holes) || packet.flags.has(Flags::FIN);
        let in_order = arrival.in_order.as_u64();
        self.pending_ack |= self.timing.on_other(now, in_order, self.next, urgent, holes);
        if in_order > 0 {
            self.window.on_read(now, self.next, self.stored.end());
        }
        arrival
    }

    /// Payload bytes delivered in order.
    fn delivered(&self) -> u64 {
        self.next.min(self.fin).saturating_sub(1)
    }

    fn on_syn(&mut self, packet: &Packet) {
        if !self.open {
            self.open = true;
            self.next = 1;
            self.ts_echo_limit = 1;
            let offered = packet.flags.has(Flags::ECE) && packet.flags.has(Flags::CWR);
            self.ecn = self.ecn_wanted && offered;
        }
        if self.next == 1 {
            self.ts_recent = packet.tcp().ts_val;
            self.pending_syn_ack = true;
        } else {
            self.pending_ack = true;
        }
    }

    /// Linux `tcp_sack_new_ofo_skb`: a compressed acknowledgement leaves before `start..end` displaces its blocks, i.e.
    /// if the data continues none of the two newest ones (`TCP_SACK_BLOCKS_EXPECTED`).
    fn flush_compressed(&mut self, now: Nanos, start: u64, end: u64) {
        if self.timing.is_compressing() {
            let mut blocks = self.recent[..usize::from(self.recent_len)].iter().filter(|b| b.1 > self.next);
            let extended = blocks.clone().take(BLOCKS_EXPECTED).any(|b| start <= b.1 && b.0 <= end);
            if !extended && blocks.nth(BLOCKS_EXPECTED - 1).is_some() {
                self.acknowledge_early(now);
            }
        }
    }

    /// Saves an acknowledgement of the state before a packet; it leaves before others.
    fn acknowledge_early(&mut self, now: Nanos) {
        let packet = self.acknowledgement(now);
        match &mut self.early_ack {
            Some(kept) => **kept = packet,
            None => self.early_ack = Some(Box::new(packet)),
        }
        self.pending_early_ack = true;
    }

    /// Stores out-of-order data; returns whether any of it is new.
    fn store(&mut self, start: u64, end: u64) -> bool {
        let before = self.stored.total();
        self.stored.insert(start, end, |_, _| {});
        // RFC 2018 section 4: the block with this packet comes first, then the others in order of change.
        let block = self.stored.find(start).unwrap_or((start, end));
        let mut recent = [block; MAX_SACK_BLOCKS];
        let mut n = 1;
        for &other in &self.recent[..usize::from(self.recent_len)] {
            if n < MAX_SACK_BLOCKS && !(block.0..block.1).contains(&other.0) {
                recent[n] = other;
                n += 1;
            }
        }
        self.recent = recent;
        self.recent_len = n as u8;
        self.stored.total() > before
    }

    /// Next packet to send. Call it until `None` after every call that changes the receiver.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        if self.pending_early_ack {
            self.pending_early_ack = false;
            return self.early_ack.as_deref().copied();
        }
        if self.pending_ack {
            self.pending_ack = false;
            return Some(self.acknowledgement(now));
        }
        if self.pending_syn_ack {
            self.pending_syn_ack = false;
            self.syn_ack_at = now;
            let mut packet = self.acknowledgement(now);
            *packet.tcp_mut().seq = 0;
            packet.flags = packet.flags.with(Flags::SYN);
            if self.ecn {
                packet.flags = packet.flags.with(Flags::ECE);
            }
            return Some(packet);
        }
        if self.pending_message {
            let message = self.responder.as_mut().and_then(|own| own.poll_message());
            self.pending_message = message.is_some();
            let (message, path) = message?;
            let mut packet = Packet::control(self.flow, Flags::REVERSE, message.as_bytes());
            packet.set_path(path);
            return Some(packet);
        }
        None
    }

    #[inline]
    fn acknowledgement(&mut self, now: Nanos) -> Packet {
        let mut packet = Packet::new(self.flow);
        packet.header = self.header;
        packet.set_path(self.path);
        packet.flags = Flags::ACK.with(Flags::REVERSE);
        self.right_edge = self.right_edge.max(self.next + self.window.offer(self.stored.total()));
        let tcp = packet.tcp_mut();
        (*tcp.seq, *tcp.ack) = (1, self.next);
        (*tcp.ts_val, *tcp.ts_ecr) = (timestamp(now), self.ts_recent);
        *tcp.window = (self.right_edge - self.next).min(u64::from(u32::MAX)) as u32;
        if self.echo {
            packet.flags = packet.flags.with(Flags::ECE);
        }
        if self.next > self.fin {
            packet.flags = packet.flags.with(Flags::FIN);
        }
        if let Some(option) = self.responder.as_mut().and_then(|own| own.option()) {
            packet.set_option(Some(option));
        }
        if self.sack && (self.pending_duplicate || !self.stored.is_empty()) {
            self.push_blocks(&mut packet);
        }
        self.pending_duplicate = false;
        self.ts_echo_limit = self.next;
        self.timing.on_ack_sent();
        self.stats.acks_sent += 1;
        packet
    }

    fn push_blocks(&mut self, packet: &mut Packet) {
        if self.pending_duplicate {
            let (start, end) = self.duplicate;
            packet.push_sack(start, end);
            // RFC 2883 section 4.2: above the acknowledgement number, the block containing the duplicate follows it.
            if start >= self.next {
                self.store(start, end);
            }
        }
        let mut n = 0;
        for i in 0..usize::from(self.recent_len) {
            let block = self.recent[i];
            if block.1 > self.next {
                packet.push_sack(block.0, block.1);
                self.recent[n] = block;
                n += 1;
            }
        }
        self.recent_len = n as u8;
    }
}
