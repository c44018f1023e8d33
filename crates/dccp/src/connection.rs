//! One end of a connection (RFC 4340 sections 6 to 11), without I/O.
//!
//! Bytes come in by [`Connection::on_packet`], time by [`Connection::on_timer`] when [`Connection::deadline`] is reached, data by
//! [`Connection::push`]. After every such call packets are taken with [`Connection::poll_transmit`] until there are no more, and
//! events with [`Connection::poll_event`].
//!
//! A packet passes the steps of RFC 4340 section 8.5 in order: `validity` decides whether it belongs here, `options` reads what
//! it says, `feedback` tells the scheme what became of our data, `receiving` decides what to report of the data of the other side.
//!
//! ## When a peer is gone
//! RFC 4340 knows no keep-alive; what it bounds, and what follows for a connection that waits for an answer, is:
//!
//! | state | repeated | given up |
//! |---|---|---|
//! | REQUEST | Request after 1 s, doubled up to 64 s | [`Config::request_limit`] (3 min), with Reset(Aborted) (8.1.1) |
//! | RESPOND | only when the Request comes again | 4 MSL (8 min), with Reset(Aborted) (8.1.3) |
//! | PARTOPEN | Ack after 0.2 s, doubled | 4 MSL, with Reset(Aborted) (8.1.5) |
//! | OPEN, data or Sync unanswered | Sync at each timeout, doubled up to 64 s | 4 MSL (our choice), with Reset(Aborted) |
//! | OPEN, nothing sent | nothing | never: the RFC has no timer for it |
//! | CLOSEREQ, CLOSING | CloseReq or Close after 2 RTT (10 ms at least), doubled up to 64 s (8.3) | 4 MSL (our choice), with Reset(Aborted) |
//! | TIMEWAIT: who receives the Reset | nothing | 2 MSL (8.3) |
//!
//! ## What a packet can cause
//! A packet whose numbers are not valid, or that belongs to no connection, causes at most one packet of at most
//! [`REPLY_LIMIT`] bytes, and at most eight of them are sent per second (section 7.5.4). It changes nothing but counters, the
//! number of the next packet, and the time of the next such reply.
//!
//! ## Differences
//! 1. Requests and Responses carry no application data; what arrives in them is ignored.
//! 2. Data waits until the CCID that controls it is agreed.
//! 3. Losses, not proportional rate reduction, shape the window: nothing is sent twice, and RFC 4341 halves it at once.
//! 4. After a timeout without an answer a Sync asks for one, for there may be no data to send.
//! 5. Data that finds no room, or whose Data Checksum is wrong, is told of in Data Dropped (sections 9.3 and 11.7). Over UDP a wrong
//!    Data Checksum takes a memory or a program at fault, for UDP's own covers all. 'Application Not Listening' is heeded, not sent:
//!    an application either reads or closes. 'Delivered Corrupt' is never sent.
//! 6. A full receive buffer and Slow Receiver are answered by CCID 2 and CCID 3 as their RFCs say; for other schemes the transport
//!    takes a packet per round trip off window and rate, or lets them not grow, for a round trip. What is corrupt counts as marked.
//! 7. In REQUEST a Reset that acknowledges nothing of ours is not answered by one: two ends that ask each other would go on for ever.

mod close;
mod config;
mod feedback;
mod half;
mod handshake;
mod limited;
mod options;
mod output;
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
pub use output::REPLY_LIMIT;
pub use state::{Event, PushError, Sent, State, Stats};

use crate::feature::{self, Features, Side};
use crate::{Ccid, Seq};
use half::Half;
use output::Pending;
use queue::Queue;
use receiving::Reception;
use state::Backoff;

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    config: Config,
    random: Random,
    state: State,
    remote_port: u16,
    /// The number of our first packet, as long as the window of acknowledgements may begin before it; of our last.
    iss: Option<Seq>,
    gss: Seq,
    /// Of the first packet received, likewise; the greatest received; the greatest of ours acknowledged.
    isr: Option<Seq>,
    gsr: Seq,
    gar: Seq,
    /// The packet that opened the connection.
    osr: Seq,
    features: Features,
    /// The Init Cookie options that the server wants to see again in PARTOPEN, as they came.
    cookies: Vec<u8>,
    /// When the last valid packet came.
    valid_at: Nanos,
    /// Repeats what the state's change waits for.
    backoff: Backoff,
    pending: Pending,
    /// The last handshake packets and when they left: an answer names the one that it measures the round trip with.
    handshake: VecDeque<(Seq, Nanos)>,
    half: Half,
    reception: Reception,
    inbox: Queue,
    /// The numbers of the packets that brought what is there.
    inbox_numbers: VecDeque<Seq>,
    /// The application has trouble keeping up.
    slow: bool,
    /// Connected, PeerGone, Closed: to be told before and after the datagrams.
    connected: bool,
    gone: bool,
    closed: Option<u8>,
    /// The application has closed; what it pushed is sent before.
    closing: bool,
    stats: Stats,
    /// Options are put together here.
    scratch: Vec<u8>,
}

impl Connection {
    /// One end at the start: a client's Request is ready to be sent, a server waits for one.
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
        connection.wish(now);
        if !server {
            connection.begin_request(now);
        }
        connection
    }

    /// What this end wants of features.
    fn wish(&mut self, now: Nanos) {
        let Self { config, features, .. } = self;
        let mut wanted = vec![Ccid::of(config.scheme).number()];
        wanted.extend(config.fallback.map(|entry| Ccid::of(entry).number()));
        // Without agreement the other side keeps CCID 2, which only serves a scheme that is one.
        let mandatory = !wanted.contains(&2);
        features.want(now, feature::CCID, Side::Local, &wanted, mandatory);
        features.accept(feature::CCID, Side::Remote, &config.accept);
        if !config.accept.contains(&Ccid::TcpLike.number()) {
            // CCID 2 is what a connection begins with: who cannot take it has to say so at once (section 10).
            features.want(now, feature::CCID, Side::Remote, &config.accept, true);
        }
        for (number, values) in [
            (feature::SEND_ACK_VECTOR, &[1, 0][..]),
            (feature::SEND_LOSS_EVENT_RATE, &[1, 0]),
            (feature::SEND_NDP_COUNT, &[1, 0]),
        ] {
            features.accept(number, Side::Local, values);
        }
        features.accept(feature::ECN_INCAPABLE, Side::Remote, &[0, 1]);
        features.accept(feature::CHECK_DATA, Side::Local, &[1, 0]);
        if config.data_checksum {
            features.want(now, feature::CHECK_DATA, Side::Remote, &[1], true);
        }
        if config.short {
            features.want(now, feature::SHORT_NUMBERS, Side::Local, &[1, 0], false);
            features.accept(feature::SHORT_NUMBERS, Side::Remote, &[1, 0]);
        }
        if !config.ecn {
            // Section 12.1.
            features.want(now, feature::ECN_INCAPABLE, Side::Local, &[1], true);
        }
        let (least, most) = feature::SEQUENCE_WINDOWS;
        features.state(now, feature::SEQUENCE_WINDOW, config.sequence_window.clamp(least, most));
        let window = u64::from(config.initial_window);
        features.state(now, feature::ACK_RATIO, u64::from(config.ack_ratio).clamp(1, ratio::most(window)));
        self.wish_for_reports(now);
    }

    /// What the receiver of our data shall report.
    fn wish_for_reports(&mut self, now: Nanos) {
        // CCID 3 does without vectors, but then nobody knows which packets were lost (RFC 4342 section 6).
        self.features.want(now, feature::SEND_ACK_VECTOR, Side::Remote, &[1], false);
        if self.half.ccid == Ccid::Tfrc {
            self.features.want(now, feature::SEND_LOSS_EVENT_RATE, Side::Remote, &[1], false);
        }
    }

    /// Features may have changed: the half-connections follow.
    fn settle(&mut self, now: Nanos) {
        let ours = self.features.value(feature::CCID, Side::Local) as u8;
        if !self.features.is_changing(feature::CCID, Side::Local) && ours != self.half.ccid.number() {
            let other = self.config.fallback.filter(|entry| Ccid::of(entry).number() == ours);
            match other {
                Some(entry) if self.half.offset == 0 => {
                    self.half.replace(entry, &self.config, &self.random);
                    self.wish_for_reports(now);
                }
                _ => {
                    self.reset(now, crate::ResetCode::MandatoryError, [1, feature::CCID, ours]);
                    return;
                }
            }
        }
        let theirs = self.features.value(feature::CCID, Side::Remote) as u8;
        if let Some(ccid) = Ccid::from_number(theirs) {
            let rtt = self.half.rtt.last;
            self.reception.set_ccid(now, ccid, self.gsr, rtt);
            if ccid == Ccid::Tfrc {
                // Its loss intervals count packets with data only (RFC 4342 section 6.1).
                self.features.want(now, feature::SEND_NDP_COUNT, Side::Remote, &[1], false);
            }
        }
    }

    /// The application has a datagram. To be followed by [`Connection::poll_transmit`].
    ///
    /// # Errors
    /// If it is empty or too long, the connection is closing, or the queue is full and refuses what is new.
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

    /// How many datagrams may wait to be sent.
    pub fn queue_limit(&self) -> u64 {
        self.half.queue.limit() as u64
    }

    /// The application had so many datagrams more that found no room: they count as if they had been pushed.
    pub fn lose_unsent(&mut self, datagrams: u64) {
        self.half.queue.dropped += datagrams;
        self.stats.send_drops = self.half.queue.dropped;
    }

    /// Whether a datagram would be taken without a loss.
    pub fn can_push(&self) -> bool {
        !self.half.ended && self.half.queue.has_room()
    }

    /// From now on the application always has a datagram of `size` bytes, all zero; 0 ends that.
    pub fn set_greedy(&mut self, size: u16) {
        self.half.greedy = (size > 0).then(|| size.min(self.config.datagram));
    }

    /// What the application hears next.
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

    /// Gives back the buffer of a datagram that was read, for the next one.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.inbox.recycle(buffer);
    }

    /// The application has trouble keeping up, or no longer: the other side is asked not to send faster.
    pub fn set_slow(&mut self, slow: bool) {
        self.slow = slow;
    }

    /// Whether the other side is to hear that: also where more than half of the queue waits to be read.
    fn is_slow(&self) -> bool {
        self.slow || self.inbox.is_filling()
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What the scheme asks for.
    pub fn control(&self) -> Control {
        *self.half.driver.control()
    }

    /// The scheme in force: the one of the settings, or its fallback.
    pub fn scheme(&self) -> &'static Entry {
        self.half.entry
    }

    /// The congestion control of the data sent here, and of the data received.
    pub fn ccids(&self) -> (Ccid, Ccid) {
        (self.half.ccid, self.reception.ccid())
    }

    /// The agreed values of features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Named internals of the scheme.
    pub fn telemetry(&self, sink: Telemetry<'_>) {
        self.half.driver.scheme().telemetry(sink);
    }

    /// Payload in flight: sent, and neither known to be delivered nor taken for lost.
    pub fn inflight(&self) -> Bytes {
        self.half.inflight
    }

    /// Smoothed round-trip time, zero before the first sample.
    pub fn srtt(&self) -> Nanos {
        self.half.rtt.srtt
    }

    /// The last sample of the round-trip time.
    pub fn last_rtt(&self) -> Option<Nanos> {
        self.half.rtt.last
    }

    /// The last sample of the round-trip time, if it is new since the last call.
    pub fn take_rtt(&mut self) -> Option<Nanos> {
        self.half.rtt.unread.take()
    }

    /// The phase of the answer to losses.
    pub fn phase(&self) -> Phase {
        self.half.phase
    }

    /// Packets with data sent of which nothing has been heard and that have not been given up.
    pub fn flying(&self) -> u64 {
        self.half.packets
    }

    /// Datagrams that wait to be sent.
    pub fn queued(&self) -> usize {
        self.half.queue.len()
    }

    /// Packets sent whose fate is not known and that may still matter.
    pub fn outstanding(&self) -> usize {
        self.half.records.len()
    }

    /// Bytes of memory held behind this value.
    pub fn memory(&self) -> usize {
        self.half.records.memory()
            + self.half.queue.memory()
            + self.inbox.memory()
            + self.reception.memory()
            + self.half.heard.memory()
    }

    /// Asks for another window of valid sequence numbers.
    pub fn set_sequence_window(&mut self, now: Nanos, packets: u64) {
        let (least, most) = feature::SEQUENCE_WINDOWS;
        self.features.state(now, feature::SEQUENCE_WINDOW, packets.clamp(least, most));
    }
}
