//! A DCCP endpoint (RFC 4340 sections 6 to 11), sans-I/O.
//!
//! The caller passes packets to [`Connection::on_packet`], time to [`Connection::on_timer`] at
//! [`Connection::deadline`], and data to [`Connection::push`]. After each call it drains
//! [`Connection::poll_transmit`] and [`Connection::poll_event`].
//!
//! A received packet passes the steps of RFC 4340 section 8.5 in order: `validity` checks that the packet belongs to
//! the connection, `options` parses its options, `feedback` reports the fate of sent data to the scheme, `receiving`
//! schedules feedback on received data.
//!
//! ## Retransmission and timeouts
//! RFC 4340 has no keep-alive. Waiting connections are bounded as follows ("ours" marks limits that are not in the
//! RFC):
//!
//! | state | retransmission | abort |
//! |---|---|---|
//! | REQUEST | Request after 1 s, doubled up to 64 s | [`Config::request_limit`] (3 min) (8.1.1) |
//! | RESPOND | only on a repeated Request | 4 MSL (8 min) (8.1.3) |
//! | PARTOPEN | Ack after 0.2 s, doubled | 4 MSL (8.1.5) |
//! | OPEN, data or Sync unanswered | Sync at each timeout, doubled up to 64 s | 4 MSL (ours) |
//! | OPEN, nothing sent | none | never: RFC 4340 defines no timer |
//! | CLOSEREQ, CLOSING | CloseReq, Close after 2 RTT (>= 10 ms), doubled up to 64 s (8.3) | 4 MSL (ours) |
//! | TIMEWAIT (receiver of the Reset) | none | ends after 2 MSL (8.3) |
//!
//! An abort sends Reset(Aborted).
//!
//! ## Replies to invalid packets
//! A packet with invalid numbers, or without a connection, triggers at most one reply of at most [`REPLY_LIMIT`] bytes,
//! and at most eight replies per second (section 7.5.4). Such a packet changes only counters, the next sequence number,
//! and the time of the next such reply.
//!
//! ## Differences
//! 1. Requests and Responses carry no application data; received data in them is dropped.
//! 2. Data waits until its CCID is agreed.
//! 3. There is no proportional rate reduction: nothing is retransmitted, and RFC 4341 halves the window immediately.
//! 4. A timeout without feedback sends a Sync, because there may be no data to send.
//! 5. Data that exceeds the receive buffer or fails its Data Checksum is reported in Data Dropped options (sections 9.3
//!    and 11.7). Over UDP a Data Checksum failure indicates faulty memory or software, because the UDP checksum covers
//!    the data. The endpoint obeys 'Application Not Listening' but never sends this code: an application either reads
//!    or closes. The endpoint never sends 'Delivered Corrupt'.
//! 6. CCID 2 and CCID 3 respond to Receive Buffer drops and Slow Receiver as their RFCs require. For other
//!    schemes the endpoint freezes window and rate for a round trip, and reduces both by one packet per drop.
//!    Corrupt data counts as ECN marked.
//! 7. In REQUEST, a Reset that acknowledges no packet of this connection gets no Reset in reply; otherwise
//!    two endpoints in REQUEST could exchange Resets forever.

mod close;
mod config;
mod cookie;
mod feedback;
mod half;
mod handshake;
mod limited;
mod negotiation;
mod options;
mod output;
mod pending;
mod queue;
mod ratio;
mod receiving;
mod records;
mod rtt;
mod sending;
mod state;
mod timers;
mod validity;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use narrows_cc::{Bytes, Control, Nanos, Phase, Random, Telemetry, schemes::Entry};

pub use config::{Config, Overflow, Role};
pub use cookie::{AMPLIFICATION, CookieKeys, Ends, KEY, Returned};
pub use pending::REPLY_LIMIT;
pub use state::{Event, PushError, Sent, State, Stats};

use crate::ccid::Ccid;
use crate::feature::Features;
use crate::seq::Seq;
use half::Half;
use pending::Pending;
use queue::Queue;
use receiving::Reception;
use state::Backoff;

/// One DCCP endpoint.
#[derive(Clone, Debug)]
pub struct Connection {
    config: Config,
    random: Random,
    state: State,
    remote_port: u16,
    /// ISS, until the acknowledgement window has passed it; GSS.
    iss: Option<Seq>,
    gss: Seq,
    /// ISR, until the sequence number window has passed it; GSR; GAR.
    isr: Option<Seq>,
    gsr: Seq,
    gar: Seq,
    /// OSR: sequence number that opened the connection.
    osr: Seq,
    features: Features,
    /// Init Cookie options: a client returns them in PARTOPEN as received, a server sends its own in the Response.
    cookies: Vec<u8>,
    /// Time of the last valid packet.
    valid_at: Nanos,
    /// Retransmission timer of handshake and close.
    backoff: Backoff,
    pending: Pending,
    /// Recent handshake packets and their send times, for the round-trip time.
    handshake: VecDeque<(Seq, Nanos)>,
    half: Half,
    reception: Reception,
    inbox: Queue,
    /// Sequence numbers of the queued datagrams' packets.
    inbox_numbers: VecDeque<Seq>,
    /// Whether the application cannot keep up.
    slow: bool,
    /// Pending events: Connected, PeerGone, Closed.
    connected: bool,
    gone: bool,
    closed: Option<u8>,
    /// Whether the application has closed the connection; queued data is sent first.
    closing: bool,
    stats: Stats,
    /// Buffer for options.
    scratch: Vec<u8>,
}

impl Connection {
    /// A new endpoint. A client has a Request to send; a server waits for a Request.
    pub fn new(config: &Config, mut random: Random, now: Nanos) -> Self {
        let first = Seq::new(config.first_number.unwrap_or_else(|| random.bits()));
        let server = config.role == Role::Server;
        let mut connection = Self {
            state: if server { State::Listen } else { State::Request },
            remote_port: config.remote_port,
            iss: Some(first),
            gss: first.add(-1),
            isr: None,
            gsr: Seq::new(0),
            gar: first.add(-1),
            osr: Seq::new(0),
            features: Features::new(server),
            cookies: Vec::new(),
            valid_at: now,
            backoff: Backoff::NEVER,
            pending: Pending::default(),
            handshake: VecDeque::new(),
            half: Half::new(config, &random, now),
            reception: Reception::new(config),
            inbox: Queue::new(config.queue, config.overflow),
            inbox_numbers: VecDeque::new(),
            slow: false,
            connected: false,
            gone: false,
            closed: None,
            closing: false,
            stats: Stats::default(),
            scratch: Vec::new(),
            config: config.clone(),
            random,
        };
        connection.request_features(now);
        if !server {
            connection.begin_request(now);
        }
        connection
    }

    /// Queues a datagram to send. Call [`Connection::poll_transmit`] next.
    ///
    /// # Errors
    /// If the datagram is empty or too long, the connection is closing, or the queue is full and its policy rejects new
    /// datagrams.
    pub fn push(&mut self, now: Nanos, data: &[u8]) -> Result<(), PushError> {
        if self.half.ended {
            return Err(PushError::Closed);
        }
        if data.is_empty() || data.len() > usize::from(self.config.datagram) {
            return Err(PushError::Length(self.config.datagram));
        }
        self.note_idle_end(now);
        let taken = self.half.queue.push(data);
        self.stats.send_drops = self.half.queue.dropped;
        if taken { Ok(()) } else { Err(PushError::Full) }
    }

    /// Capacity of the send queue in datagrams.
    pub fn queue_limit(&self) -> u64 {
        self.half.queue.limit() as u64
    }

    /// Counts datagrams that the application dropped for lack of queue space as send drops.
    pub fn count_send_drops(&mut self, datagrams: u64) {
        self.half.queue.dropped += datagrams;
        self.stats.send_drops = self.half.queue.dropped;
    }

    /// Whether the queue accepts a datagram without a drop.
    pub fn can_push(&self) -> bool {
        !self.half.ended && self.half.queue.has_room()
    }

    /// Simulates a backlogged application that sends zero-filled datagrams of `size` bytes; size 0 ends the backlog.
    pub fn set_backlogged(&mut self, size: u16) {
        self.half.backlogged = (size > 0).then(|| size.min(self.config.datagram));
    }

    /// Next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.connected) {
            return Some(Event::Connected);
        }
        if let Some(data) = self.inbox.pop() {
            self.inbox_numbers.pop_front();
            return Some(Event::Datagram(data));
        }
        if std::mem::take(&mut self.gone) {
            return Some(Event::PeerGone);
        }
        self.closed.take().map(|code| Event::Closed { code })
    }

    /// Returns the buffer of a received datagram for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.inbox.recycle(buffer);
    }

    /// Sets whether the application cannot keep up, which the Slow Receiver option reports to the peer.
    pub fn set_slow_receiver(&mut self, slow: bool) {
        self.slow = slow;
    }

    /// Whether to send Slow Receiver: the application cannot keep up, or the receive queue is more than half full.
    fn must_send_slow_receiver(&self) -> bool {
        self.slow || self.inbox.is_filling()
    }

    /// Connection state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Window and pacing rate of the scheme.
    pub fn control(&self) -> Control {
        *self.half.driver.control()
    }

    /// The active scheme: the configured one or its fallback.
    pub fn scheme(&self) -> &'static Entry {
        self.half.entry
    }

    /// CCIDs of the sent and of the received data.
    pub fn ccids(&self) -> (Ccid, Ccid) {
        (self.half.ccid, self.reception.ccid())
    }

    /// Agreed features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Reports named internals of the scheme.
    pub fn telemetry(&self, sink: Telemetry<'_>) {
        self.half.driver.scheme().telemetry(sink);
    }

    /// Payload in flight: sent and neither delivered nor declared lost.
    pub fn inflight(&self) -> Bytes {
        self.half.inflight
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub fn srtt(&self) -> Option<Nanos> {
        self.half.rtt.smoothed()
    }

    /// Latest round-trip time sample.
    pub fn last_rtt(&self) -> Option<Nanos> {
        self.half.rtt.last
    }

    /// Latest round-trip time sample, if the endpoint has taken a sample since the last call.
    pub fn take_rtt(&mut self) -> Option<Nanos> {
        self.half.rtt.unread.take()
    }

    /// Loss event rate in the latest CCID 3 feedback; zero before the first feedback.
    pub fn loss_event_rate(&self) -> f64 {
        self.half.loss_event_rate
    }

    /// Smoothed round-trip time, or RFC 4340's default before the first sample.
    pub fn srtt_or_default(&self) -> Nanos {
        self.half.rtt.or_default()
    }

    /// Packet-timed round trips so far.
    pub fn round(&self) -> u64 {
        self.half.driver.round()
    }

    /// CCID 2: number of the packet from which on the next round-trip sample updates the smoothed time.
    #[cfg(test)]
    pub(crate) fn next_rtt_sample(&self) -> u64 {
        self.half.sampled_until
    }

    /// Packet numbers that follow the newest acknowledged packet and the newest sent packet.
    #[cfg(test)]
    pub(crate) fn sent_packets(&self) -> (u64, u64) {
        (self.half.records.known(), self.half.records.end())
    }

    /// Phase of loss recovery.
    pub fn phase(&self) -> Phase {
        self.half.phase
    }

    /// Data packets in flight: sent, and neither acknowledged, declared lost nor given up.
    pub fn data_packets_in_flight(&self) -> u64 {
        self.half.packets
    }

    /// Number of data packets that a timeout declared lost and that no report has covered since; these packets may have
    /// arrived.
    pub fn unreported_losses(&self) -> u64 {
        self.stats.unreported_losses + self.half.records.unreported_losses()
    }

    /// Whether the peer's application reads no more data (Application Not Listening), or the end of the
    /// connection has begun.
    pub fn takes_no_data(&self) -> bool {
        self.half.ended
    }

    /// Datagrams in the send queue.
    pub fn queued(&self) -> usize {
        self.half.queue.len()
    }

    /// Records of sent packets whose fate may still matter.
    pub fn outstanding(&self) -> usize {
        self.half.records.len()
    }

    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        self.half.records.memory()
            + self.half.queue.memory()
            + self.inbox.memory()
            + self.reception.memory()
            + self.half.reported_drops.memory()
    }
}
