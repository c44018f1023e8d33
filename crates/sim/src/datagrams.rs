//! Datagrams in the simulator: both ends are those that run over real sockets, and what travels are their bytes.
//!
//! A packet of the network has no room for them. They wait in [`Bodies`], and the packet names their place.

use narrows_cc::{Bytes, Nanos, Rate, Telemetry};
use narrows_dccp::{Connection, Event, Header, Kind, ResetCode, State};
use narrows_packet::{Dccp, Ecn, Flags, Packet};
use narrows_tcp::{AckOutcome, ReceiverStats, SenderStats};
use narrows_traffic::App;
use narrows_units::Histogram;

use crate::ends::Peak;

/// The IP header of a datagram packet, in bytes.
const IP_HEADER: usize = 20;

/// The bytes of packets that are under way.
#[derive(Debug, Default)]
pub struct Bodies {
    places: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Bodies {
    /// An empty place, and its number.
    fn reserve(&mut self) -> (u32, &mut Vec<u8>) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.places.push(Vec::new());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[id as usize];
        place.clear();
        (id, place)
    }

    /// The bytes of a packet.
    fn of(&self, packet: &Packet) -> &[u8] {
        &self.places[packet.dccp().handle as usize]
    }

    /// Packets that are under way with data.
    pub fn under_way(&self) -> u64 {
        let mut used = vec![true; self.places.len()];
        for &id in &self.free {
            used[id as usize] = false;
        }
        let places = self.places.iter().zip(used).filter(|(_, used)| *used);
        let data = places.filter(|(bytes, _)| {
            Header::decode(bytes).is_ok_and(|(header, body)| header.kind.is_data() && !body.data.is_empty())
        });
        data.count() as u64
    }

    /// The packet is no more.
    pub fn forget(&mut self, packet: &Packet) {
        self.free.push(packet.dccp().handle);
    }
}

/// What has become of all flows' datagrams, at this time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The application handed them over; those of an unlimited one are made when they leave.
    pub pushed: u64,
    /// No room was found for them.
    pub refused: u64,
    /// They wait at the sender.
    pub queued: u64,
    /// They have left the sender.
    pub sent: u64,
    /// Of these the network carries so many,
    pub under_way: u64,
    /// has lost so many,
    pub dropped: u64,
    /// and so many have arrived.
    pub arrived: u64,
    /// The sender knows of so many of those sent that they were delivered,
    pub delivered: u64,
    /// takes so many for lost,
    pub lost: u64,
    /// has heard nothing of so many in the time it waits,
    pub unanswered: u64,
    /// and still waits to hear of the rest.
    pub outstanding: u64,
}

/// One end with what it needs to speak through the simulator.
#[derive(Debug)]
struct End {
    flow: u32,
    connection: Connection,
    reverse: bool,
}

impl End {
    fn on_packet(&mut self, now: Nanos, packet: &Packet, bodies: &mut Bodies) {
        self.connection.on_packet(now, bodies.of(packet), packet.ecn() as u8);
        bodies.forget(packet);
    }

    fn poll_transmit(&mut self, now: Nanos, bodies: &mut Bodies) -> Option<Packet> {
        let (handle, bytes) = bodies.reserve();
        let Some(sent) = self.connection.poll_transmit(now, bytes) else {
            bodies.free.push(handle);
            return None;
        };
        let mut packet = Packet::datagram(self.flow, Dccp { seq: sent.seq.get(), handle });
        packet.payload = sent.data;
        packet.header = (IP_HEADER + bytes.len()) as u16 - sent.data;
        packet.set_ecn(Ecn::from_bits(sent.ecn));
        let way = if self.reverse { Flags::REVERSE } else { Flags::NONE };
        // What switches and nodes look at to tell the life of a flow.
        packet.flags = match sent.kind {
            Kind::Request => way.with(Flags::SYN),
            Kind::Response => way.with(Flags::SYN).with(Flags::ACK),
            Kind::Close => way.with(Flags::FIN),
            Kind::Data => way,
            _ => way.with(Flags::ACK),
        };
        Some(packet)
    }
}

/// The sending end, with its application.
#[derive(Debug)]
pub struct Origin {
    end: End,
    app: App,
    start: Nanos,
    /// What the application had written so far goes no further than this.
    written: u64,
    /// Most payload of a datagram.
    size: u16,
    payload: Vec<u8>,
    greedy: bool,
    stopped: bool,
    /// The application has written all it meant to.
    finished: bool,
    pushed: u64,
    first_data_at: Option<Nanos>,
    completed_at: Option<Nanos>,
    stats: SenderStats,
    peak: Peak,
}

impl Origin {
    /// A sender whose application opens the connection at `start`; datagrams have `size` bytes at most.
    pub fn new(flow: u32, connection: Connection, app: App, start: Nanos, size: u16) -> Self {
        Self {
            end: End { flow, connection, reverse: false },
            app,
            start,
            written: 0,
            size,
            payload: vec![0; usize::from(size)],
            greedy: false,
            stopped: false,
            finished: false,
            pushed: 0,
            first_data_at: None,
            completed_at: None,
            stats: SenderStats::default(),
            peak: Peak::default(),
        }
    }

    /// Gives what the application has written to the connection. Media are not held back: what finds no room is lost at
    /// once, and counted. Files wait.
    fn write(&mut self, now: Nanos) {
        if self.stopped || now < self.start {
            return;
        }
        self.app.on_time(now, Bytes::new(self.written));
        let greedy = self.app.is_backlogged();
        if greedy != self.greedy {
            self.greedy = greedy;
            self.end.connection.set_backlogged(if greedy { self.size } else { 0 });
        }
        if greedy {
            return;
        }
        let limit = self.app.limit().as_u64();
        if self.app.is_live() {
            // Of more than the queue can hold, written at one time, all but so many find no room, and need no copy to be lost.
            let ready = (limit - self.written).div_ceil(u64::from(self.size));
            let beyond = ready.saturating_sub(self.end.connection.queue_limit());
            self.end.connection.count_send_drops(beyond);
            self.pushed += beyond;
            self.written += beyond * u64::from(self.size);
        }
        while self.written < limit && (self.app.is_live() || self.end.connection.can_push()) {
            let size = (limit - self.written).min(u64::from(self.size)) as usize;
            let stamp = (now.as_nanos() + 1).to_be_bytes();
            let stamped = size.min(stamp.len());
            self.payload[..stamped].copy_from_slice(&stamp[..stamped]);
            // A datagram that finds no room is counted by the connection.
            let _ = self.end.connection.push(now, &self.payload[..size]);
            self.pushed += 1;
            self.written += size as u64;
        }
        if self.app.is_finished() && self.written >= limit {
            (self.stopped, self.finished) = (true, true);
            self.peak.see(&self.end.connection);
            self.end.connection.close(now);
        }
    }

    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, bodies: &mut Bodies) -> AckOutcome {
        let before = self.end.connection.stats().lost_packets;
        self.end.on_packet(now, packet, bodies);
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
            // A connection that was given up has completed nothing. To a Close that is repeated because the answer was lost, the
            // other side says that it knows of no connection.
            let well =
                [ResetCode::Closed, ResetCode::NoConnection].map(|code| Event::Closed { code: code as u8 });
            if self.finished && well.contains(&event) {
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

    pub fn poll_transmit(&mut self, now: Nanos, bodies: &mut Bodies) -> Option<Packet> {
        if now < self.start {
            return None;
        }
        let packet = self.end.poll_transmit(now, bodies)?;
        if packet.payload > 0 {
            self.stats.data_packets_sent += 1;
            self.stats.bytes_sent += u64::from(packet.payload);
            self.first_data_at.get_or_insert(now);
            self.peak.look(&self.end.connection, self.stats.data_packets_sent);
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
            self.peak.see(&self.end.connection);
            self.end.connection.set_backlogged(0);
            self.end.connection.close(now);
        }
    }

    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// The most bytes it had, as far as it was looked at.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.end.connection.memory().max(self.peak.0)
    }

    pub fn telemetry(&self, sink: Telemetry<'_>) {
        self.end.connection.telemetry(sink);
    }

    pub fn inflight(&self) -> Bytes {
        self.end.connection.inflight()
    }

    pub fn window(&self) -> Bytes {
        self.end.connection.control().cwnd
    }

    pub fn pacing_rate(&self) -> Option<Rate> {
        self.end.connection.control().pacing_rate
    }

    pub fn srtt(&self) -> Nanos {
        self.end.connection.srtt()
    }

    pub fn first_data_at(&self) -> Option<Nanos> {
        self.first_data_at
    }

    pub fn completed_at(&self) -> Option<Nanos> {
        self.completed_at
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.end.connection.state(), State::Closed | State::TimeWait)
    }

    /// Adds what the sender knows of its datagrams.
    pub fn account(&self, account: &mut Account) {
        let connection = &self.end.connection;
        let stats = connection.stats();
        account.pushed += self.pushed;
        account.refused += stats.send_drops;
        account.queued += connection.queued() as u64;
        account.sent += stats.data_packets_sent;
        account.delivered += stats.delivered_packets;
        account.lost += stats.lost_packets - stats.late_packets;
        account.unanswered += stats.unanswered_packets;
        account.outstanding += connection.data_packets_in_flight();
    }

    /// Datagrams of the application that were never sent.
    pub fn unsent(&self) -> u64 {
        self.end.connection.stats().send_drops
    }
}

/// What arrived at an application.
#[derive(Debug)]
pub struct Arrivals {
    /// Datagrams.
    pub datagrams: u64,
    /// From the sending application to the receiving one, in nanoseconds, of those that say when they were written.
    pub delay: Histogram,
}

/// The receiving end.
#[derive(Debug)]
pub struct Target {
    end: End,
    arrivals: Arrivals,
    stats: ReceiverStats,
    peak: Peak,
}

impl Target {
    pub fn new(flow: u32, connection: Connection) -> Self {
        Self {
            end: End { flow, connection, reverse: true },
            arrivals: Arrivals { datagrams: 0, delay: Histogram::new() },
            stats: ReceiverStats::default(),
            peak: Peak::default(),
        }
    }

    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, bodies: &mut Bodies) {
        self.stats.bytes_received += packet.size().as_u64();
        self.stats.ce_packets += u64::from(packet.ecn() == Ecn::Ce);
        // What a connection had is gone when this packet ends it.
        self.peak.look(
            &self.end.connection,
            if packet.flags.has(Flags::FIN) { 0 } else { self.stats.data_packets },
        );
        self.end.on_packet(now, packet, bodies);
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

    pub fn poll_transmit(&mut self, now: Nanos, bodies: &mut Bodies) -> Option<Packet> {
        let packet = self.end.poll_transmit(now, bodies)?;
        self.stats.acks_sent += 1;
        Some(packet)
    }

    pub fn deadline(&self) -> Nanos {
        self.end.connection.deadline()
    }

    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// The most bytes it had, as far as it was looked at.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.end.connection.memory().max(self.peak.0)
    }

    pub fn clear_delays(&mut self) {
        self.arrivals.delay.clear();
    }

    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Datagrams that arrived, with or without room for them.
    pub fn arrived(&self) -> u64 {
        self.end.connection.stats().data_packets_received
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
        let mut bodies = Bodies::default();
        let mut taken = |fill: u8| {
            let (id, place) = bodies.reserve();
            assert!(place.is_empty(), "what was there is gone");
            place.extend_from_slice(&[fill; 3]);
            Packet::datagram(0, Dccp { seq: 0, handle: id })
        };
        let [first, second] = [taken(1), taken(2)];
        assert_eq!((bodies.of(&first), bodies.of(&second)), (&[1; 3][..], &[2; 3][..]));
        for _ in 0..100 {
            bodies.forget(&first);
            assert_eq!(bodies.reserve().0, first.dccp().handle);
        }
        assert_eq!((bodies.places.len(), bodies.free.len()), (2, 0));
        bodies.forget(&first);
        bodies.forget(&second);
        assert_eq!(bodies.free.len(), 2);
    }

    /// Every end of a packet frees its slot, and slots never exceed the packets inflight: under loss,
    /// reordering, head drops, and drops at nodes.
    #[test]
    fn arena_frees_slot_at_every_end_of_a_packet() {
        for (scheme, network) in [
            ("ccid2", "buffer = \"10pkt\"\nloss = \"2%\""),
            (
                "ccid3",
                "buffer = \"40pkt\"\nqueue = \"codel\"\nreorder = { probability = \"3%\", delay = \"15ms\" }",
            ),
            (
                "dccp-bbr",
                "buffer = \"40pkt\"\nqueue = \"fq-codel\"\njitter = { max = \"10ms\", reorder = true }",
            ),
            ("cubic", "buffer = \"40pkt\"\npolicer = { rate = \"5mbit\", burst = \"30kB\" }"),
        ] {
            let text = format!(
                "duration = \"15s\"\n[network]\nrate = \"10mbit\"\n{network}\n[[flows]]\nscheme = \"{scheme}\"\n\
                 protocol = \"dccp\"\nrtt = \"40ms\"\nstop = \"10s\"\ncount = 2\n"
            );
            let planned = expand(&Source { name: "test", text: &text, files: &NoFiles }, &[]).expect(&text);
            let spec = resolve(&planned[0].scenario, 1, &NoFiles).expect("it is sound");
            let mut engine = Engine::new(spec);
            engine.run_until(Nanos::from_secs(15));
            let bodies = &engine.bodies;
            // 33 packets travel, 40 wait, and as many acknowledge; the start may have twice as many under way.
            assert!((20..300).contains(&bodies.places.len()), "{scheme}: {}", bodies.places.len());
            let mut free = bodies.free.clone();
            free.sort_unstable();
            free.dedup();
            assert_eq!(
                (free.len(), bodies.free.len()),
                (bodies.places.len(), bodies.places.len()),
                "{scheme}"
            );
        }
    }
}
