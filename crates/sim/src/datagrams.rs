//! DCCP in the simulator. Simulated flows use the same endpoints as real sockets, which exchange encoded packets.
//!
//! A simulated packet has no space for the encoded bytes. They are stored in a [`PayloadArena`], and the packet carries
//! their slot number. Arrival, drop and loss free the slot, so nothing is allocated in the steady state. Packet type
//! and sequence number are copied into the simulated packet for queues, nodes and traces: switches see Request,
//! Response and Close as SYN, SYN-ACK and FIN.
//!
//! Real-time applications (constant rate, video) push datagrams regardless of the send queue; a full queue drops
//! according to `dccp.overflow`. Files wait for space in the queue. Bulk data is generated at transmission. A datagram
//! of eight bytes or more begins with the time at which it was written, from which the receiver measures delay.

use narrows_cc::{Bytes, Nanos, Telemetry};
use narrows_dccp::{Connection, Event, Kind, ResetCode, State};
use narrows_packet::{Dccp, Ecn, Flags, Packet};
use narrows_tcp::{AckOutcome, ReceiverStats, SenderStats};
use narrows_traffic::App;
use narrows_units::Histogram;

use crate::arena::PayloadArena;
use crate::sender_view::SenderView;

/// Bytes of an IP header.
const IP_HEADER: usize = 20;

/// Ledger of the datagrams of all flows at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketLedger {
    /// Written by applications; for backlogged ones, counted when sent.
    pub pushed: u64,
    /// Dropped for lack of space in the send queue.
    pub refused: u64,
    /// Waiting in the send queue.
    pub queued: u64,
    /// Sent.
    pub sent: u64,
    /// Sent and in the network.
    pub in_network: u64,
    /// Sent and dropped by the network.
    pub dropped: u64,
    /// Sent and arrived at the receiver.
    pub arrived: u64,
    /// Sent and acknowledged.
    pub delivered: u64,
    /// Sent and declared lost by the sender.
    pub lost: u64,
    /// Sent and abandoned: a timer expired without a report from the receiver.
    pub unanswered: u64,
    /// Sent and, from the sender's view, in flight.
    pub outstanding: u64,
}

/// Peak memory of a connection in bytes: a closed connection has freed its memory and cannot be measured at the end.
/// Memory is sampled only now and then, because one packet changes it little.
#[derive(Debug, Default)]
struct Peak(usize);

impl Peak {
    fn record(&mut self, connection: &Connection) {
        self.0 = self.0.max(connection.memory());
    }

    /// Records the memory if `packets` is a power of two or a multiple of 1024 (0 forces a sample).
    fn sample(&mut self, connection: &Connection, packets: u64) {
        if packets.is_power_of_two() || packets.is_multiple_of(1_024) {
            self.record(connection);
        }
    }
}

/// A DCCP endpoint of a simulated flow.
#[derive(Debug)]
struct End {
    flow: u32,
    connection: Connection,
    reverse: bool,
}

impl End {
    fn on_packet(&mut self, now: Nanos, packet: &Packet, arena: &mut PayloadArena) {
        self.connection.on_packet(now, arena.bytes(packet), packet.ecn() as u8);
        arena.free(packet);
    }

    fn poll_transmit(&mut self, now: Nanos, arena: &mut PayloadArena) -> Option<Packet> {
        let (handle, bytes) = arena.allocate();
        let Some(sent) = self.connection.poll_transmit(now, bytes) else {
            arena.unused.push(handle);
            return None;
        };
        let mut packet = Packet::datagram(self.flow, Dccp { seq: sent.seq.get(), handle });
        packet.payload = sent.data;
        packet.header = (IP_HEADER + bytes.len()) as u16 - sent.data;
        packet.set_ecn(Ecn::from_bits(sent.ecn));
        let direction = if self.reverse { Flags::REVERSE } else { Flags::NONE };
        // Switches and routers recognise the start and the end of a flow by these flags.
        packet.flags = match sent.kind {
            Kind::Request => direction.with(Flags::SYN),
            Kind::Response => direction.with(Flags::SYN).with(Flags::ACK),
            Kind::Close => direction.with(Flags::FIN),
            Kind::Data => direction,
            _ => direction.with(Flags::ACK),
        };
        Some(packet)
    }
}

/// The sender endpoint of a DCCP flow, with its application.
#[derive(Debug)]
pub struct DatagramSender {
    end: End,
    app: App,
    start: Nanos,
    /// Bytes of the application passed to the connection so far.
    written: u64,
    /// Maximum payload of a datagram in bytes.
    size: u16,
    payload: Vec<u8>,
    backlogged: bool,
    stopped: bool,
    /// The application has written all its data.
    finished: bool,
    pushed: u64,
    first_data_at: Option<Nanos>,
    completed_at: Option<Nanos>,
    stats: SenderStats,
    peak: Peak,
}

impl DatagramSender {
    /// A sender whose application opens the connection at `start`; datagrams have at most `size` bytes.
    pub fn new(flow: u32, connection: Connection, app: App, start: Nanos, size: u16) -> Self {
        Self {
            end: End { flow, connection, reverse: false },
            app,
            start,
            written: 0,
            size,
            payload: vec![0; usize::from(size)],
            backlogged: false,
            stopped: false,
            finished: false,
            pushed: 0,
            first_data_at: None,
            completed_at: None,
            stats: SenderStats::default(),
            peak: Peak::default(),
        }
    }

    /// Passes data of the application to the connection. Live sources send regardless of congestion: data
    /// that exceeds the send queue is dropped and counted. Files wait.
    fn write(&mut self, now: Nanos) {
        if self.stopped || now < self.start {
            return;
        }
        self.app.on_time(now, Bytes::new(self.written));
        let backlogged = self.app.is_backlogged();
        if backlogged != self.backlogged {
            self.backlogged = backlogged;
            self.end.connection.set_backlogged(if backlogged { self.size } else { 0 });
        }
        if backlogged {
            return;
        }
        let limit = self.app.limit().as_u64();
        if self.app.is_real_time() {
            // Datagrams beyond the capacity of the whole queue are dropped in any case: count them without a copy.
            let ready = (limit - self.written).div_ceil(u64::from(self.size));
            let beyond = ready.saturating_sub(self.end.connection.queue_limit());
            self.end.connection.count_send_drops(beyond);
            self.pushed += beyond;
            self.written += beyond * u64::from(self.size);
        }
        while self.written < limit && (self.app.is_real_time() || self.end.connection.can_push()) {
            let size = (limit - self.written).min(u64::from(self.size)) as usize;
            let stamp = (now.as_nanos() + 1).to_be_bytes();
            let stamped = size.min(stamp.len());
            self.payload[..stamped].copy_from_slice(&stamp[..stamped]);
            // Ignored: the connection counts datagrams dropped for lack of space.
            let _ = self.end.connection.push(now, &self.payload[..size]);
            self.pushed += 1;
            self.written += size as u64;
        }
        if self.app.is_finished() && self.written >= limit {
            (self.stopped, self.finished) = (true, true);
            self.peak.record(&self.end.connection);
            self.end.connection.close(now);
        }
    }

    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, arena: &mut PayloadArena) -> AckOutcome {
        let before = self.end.connection.stats().lost_packets;
        self.end.on_packet(now, packet, arena);
        self.read(now);
        self.write(now);
        let lost = self.end.connection.stats().lost_packets - before;
        let rtt = self.end.connection.take_rtt();
        self.stats.rtt_samples += u64::from(rtt.is_some());
        AckOutcome { rtt, acked: Bytes::ZERO, lost: Bytes::new(lost * u64::from(self.size)) }
    }

    pub fn on_timer(&mut self, now: Nanos) {
        if now < self.start {
            return;
        }
        if self.end.connection.deadline() <= now {
            self.end.connection.on_timer(now);
        }
        self.read(now);
        self.write(now);
    }

    fn read(&mut self, now: Nanos) {
        while let Some(event) = self.end.connection.poll_event() {
            // An aborted connection has not completed. If the peer's first answer to Close was lost, the peer
            // answers the retransmitted Close with Reset(No Connection).
            let completed = [ResetCode::Closed, ResetCode::NoConnection].map(|code| Event::Closed { code: code as u8 });
            if self.finished && completed.contains(&event) {
                self.completed_at = Some(now);
            }
        }
        let stats = self.end.connection.stats();
        self.stats.lost_packets = stats.lost_packets;
        self.stats.timeouts = stats.timeouts;
        self.stats.ecn_reductions = stats.ecn_reductions;
        self.stats.spurious_recoveries = stats.spurious_recoveries;
        self.stats.paced_waits = stats.paced_waits;
        self.stats.recoveries = stats.recoveries;
    }

    pub fn poll_transmit(&mut self, now: Nanos, arena: &mut PayloadArena) -> Option<Packet> {
        if now < self.start {
            return None;
        }
        let packet = self.end.poll_transmit(now, arena)?;
        if packet.payload > 0 {
            self.stats.data_packets_sent += 1;
            self.stats.bytes_sent += u64::from(packet.payload);
            self.first_data_at.get_or_insert(now);
            self.peak.sample(&self.end.connection, self.stats.data_packets_sent);
            self.write(now);
        }
        Some(packet)
    }

    pub fn deadline(&self) -> Nanos {
        let app = if self.stopped { Nanos::MAX } else { self.app.deadline() };
        self.end.connection.deadline().min(app).max(self.start)
    }

    pub fn stop(&mut self, now: Nanos) {
        if !self.stopped {
            self.app.stop(Bytes::new(self.written));
            self.stopped = true;
            self.peak.record(&self.end.connection);
            self.end.connection.set_backlogged(0);
            self.end.connection.close(now);
        }
    }

    pub fn view(&self) -> SenderView {
        let (connection, control) = (&self.end.connection, self.end.connection.control());
        SenderView {
            stats: self.stats,
            timeouts: Some(self.stats.timeouts),
            inflight: connection.inflight(),
            cwnd: Some(control.cwnd),
            pacing_rate: control.pacing_rate,
            srtt: connection.srtt(),
            first_data_at: self.first_data_at,
            completed_at: self.completed_at,
            closed: matches!(connection.state(), State::Closed | State::TimeWait),
            unsent: connection.stats().send_drops,
        }
    }

    /// Peak memory in bytes, from samples.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.end.connection.memory().max(self.peak.0)
    }

    pub fn telemetry(&self, sink: Telemetry<'_>) {
        self.end.connection.telemetry(sink);
    }

    pub fn inflight(&self) -> Bytes {
        self.end.connection.inflight()
    }

    pub fn completed_at(&self) -> Option<Nanos> {
        self.completed_at
    }

    /// Adds the sender's counts to the ledger.
    pub fn add_to_ledger(&self, ledger: &mut PacketLedger) {
        let connection = &self.end.connection;
        let stats = connection.stats();
        ledger.pushed += self.pushed;
        ledger.refused += stats.send_drops;
        ledger.queued += connection.queued() as u64;
        ledger.sent += stats.data_packets_sent;
        ledger.delivered += stats.delivered_packets;
        ledger.lost += stats.lost_packets - stats.late_packets;
        ledger.unanswered += stats.unanswered_packets;
        ledger.outstanding += connection.data_packets_in_flight();
    }
}

/// Datagrams received by an application.
#[derive(Debug)]
pub struct Arrivals {
    /// Datagrams.
    pub datagrams: u64,
    /// Delay from application to application in nanoseconds, for datagrams that carry their time of writing.
    pub delay: Histogram,
}

/// The receiver endpoint of a DCCP flow.
#[derive(Debug)]
pub struct DatagramReceiver {
    end: End,
    arrived: u64,
    arrivals: Arrivals,
    stats: ReceiverStats,
    peak: Peak,
}

impl DatagramReceiver {
    pub fn new(flow: u32, connection: Connection) -> Self {
        Self {
            end: End { flow, connection, reverse: true },
            arrived: 0,
            arrivals: Arrivals { datagrams: 0, delay: Histogram::new() },
            stats: ReceiverStats::default(),
            peak: Peak::default(),
        }
    }

    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, arena: &mut PayloadArena) {
        self.stats.bytes_received += packet.size().as_u64();
        self.stats.ce_packets += u64::from(packet.ecn() == Ecn::Ce);
        self.arrived += u64::from(packet.payload > 0);
        // A FIN packet ends the connection and frees its memory, so take a sample before it.
        self.peak.sample(&self.end.connection, if packet.flags.has(Flags::FIN) { 0 } else { self.stats.data_packets });
        self.end.on_packet(now, packet, arena);
        while let Some(event) = self.end.connection.poll_event() {
            if let Event::Datagram(data) = event {
                self.arrivals.datagrams += 1;
                self.stats.data_packets += 1;
                self.stats.bytes_in_order += data.len() as u64;
                let stamp = data.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                if stamp > 0 {
                    self.arrivals.delay.record((now.as_nanos() + 1).saturating_sub(stamp));
                }
                self.end.connection.recycle(data);
            }
        }
    }

    pub fn on_timer(&mut self, now: Nanos) {
        self.end.connection.on_timer(now);
        while self.end.connection.poll_event().is_some() {}
    }

    pub fn poll_transmit(&mut self, now: Nanos, arena: &mut PayloadArena) -> Option<Packet> {
        let packet = self.end.poll_transmit(now, arena)?;
        self.stats.acks_sent += 1;
        Some(packet)
    }

    pub fn deadline(&self) -> Nanos {
        self.end.connection.deadline()
    }

    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Peak memory in bytes, from samples.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.end.connection.memory().max(self.peak.0)
    }

    pub fn clear_delays(&mut self) {
        self.arrivals.delay.clear();
    }

    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Data packets that arrived, including those that the connection ignored because they came too late or after the
    /// connection had ended.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use narrows_scenario::{NoFiles, Source, expand, resolve};

    /// Freed slots are reused, and their old contents are gone.
    #[test]
    fn arena_reuses_freed_slots() {
        let mut arena = PayloadArena::default();
        let mut stored = |fill: u8| {
            let (id, slot) = arena.allocate();
            assert!(slot.is_empty(), "a reused slot is empty");
            slot.extend_from_slice(&[fill; 3]);
            Packet::datagram(0, Dccp { seq: 0, handle: id })
        };
        let [first, second] = [stored(1), stored(2)];
        assert_eq!((arena.bytes(&first), arena.bytes(&second)), (&[1; 3][..], &[2; 3][..]));
        for _ in 0..100 {
            arena.free(&first);
            assert_eq!(arena.allocate().0, first.dccp().handle);
        }
        assert_eq!((arena.slots.len(), arena.unused.len()), (2, 0));
        arena.free(&first);
        arena.free(&second);
        assert_eq!(arena.unused.len(), 2);
    }

    /// A packet frees its slot however it leaves the network (loss, reordering, head drops, drops at nodes), and slots
    /// never exceed the packets in flight.
    #[test]
    fn arena_frees_slot_at_every_end_of_a_packet() {
        for (scheme, network) in [
            ("ccid2", "buffer = \"10pkt\"\nloss = \"2%\""),
            ("ccid3", "buffer = \"40pkt\"\nqueue = \"codel\"\nreorder = { probability = \"3%\", delay = \"15ms\" }"),
            ("dccp-bbr", "buffer = \"40pkt\"\nqueue = \"fq-codel\"\njitter = { max = \"10ms\", reorder = true }"),
            ("cubic", "buffer = \"40pkt\"\npolicer = { rate = \"5mbit\", burst = \"30kB\" }"),
        ] {
            let text = format!(
                "duration = \"15s\"\n[network]\nrate = \"10mbit\"\n{network}\n[[flows]]\nscheme = \"{scheme}\"\n\
                 protocol = \"dccp\"\nrtt = \"40ms\"\nstop = \"10s\"\ncount = 2\n"
            );
            let planned = expand(&Source { name: "test", text: &text, files: &NoFiles }, &[]).expect(&text);
            let spec = resolve(&planned[0].scenario, 1, &NoFiles).expect("a valid scenario");
            let mut engine = Engine::new(spec);
            engine.run_until(Nanos::from_secs(15));
            let arena = &engine.arena;
            // 33 data packets propagate, 40 are queued, and as many acknowledgements return. At start-up the total may
            // double.
            assert!((20..300).contains(&arena.slots.len()), "{scheme}: {}", arena.slots.len());
            let mut free = arena.unused.clone();
            free.sort_unstable();
            free.dedup();
            assert_eq!((free.len(), arena.unused.len()), (arena.slots.len(), arena.slots.len()), "{scheme}");
        }
    }
}
