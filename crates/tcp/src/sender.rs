//! The sending end of a reliable stream.
//!
//! Parts: `scoreboard` knows the packets outstanding, `ack` applies acknowledgements, `rack` finds losses by time and
//! `sack_loss` by counting (RFC 6675), `recovery` holds the phases and the undo of needless reductions, `prr` shapes the
//! window meanwhile, `timers` has the retransmission timeout, probes and the handshake's start, `transmit` decides what
//! leaves next, `rates` carries the agent that settles the rate with the network, if there is one.
//!
//! Deliberate differences from the texts:
//! 1. The clock granularity G of RFC 6298 is the longest delay of an acknowledgement, so that a delayed one never makes a
//!    timeout when the round-trip time hardly varies.
//! 2. RACK's least round-trip time is that of the connection, not of the last minutes, and packets sent at one instant are
//!    ordered as they left, not by sequence number.
//! 3. FlightSize at congestion is what was outstanding when the news arrived, limited transmit not counted; RecoverFS of
//!    proportional rate reduction counts it.
//! 4. A spurious timeout or recovery is undone at once (RFC 3522, RFC 3708) and is reported instead of its end.
//! 5. A lost SYN does not shrink the initial window: the window is the scheme's. The SYN-ACK is repeated only when a SYN
//!    arrives again, and the receiver's FIN is part of its acknowledgement of the sender's.
//! 6. A packet is lost or delivered as a whole; retransmissions keep its boundaries.
//! 7. Without SACK each duplicate acknowledgement counts as one delivered segment, in the delivery rate, in what schemes are
//!    told and in the flight at a timeout, as Linux emulates SACK; RFC 5681 would count it as outstanding. Linux forgets
//!    the count at a timeout and takes the same data for delivered again when it is acknowledged; here it counts once.

mod ack;
mod prr;
mod rack;
mod rates;
mod recovery;
mod rto;
mod sack_loss;
mod scoreboard;
mod subflow;
mod timers;
mod transmit;

use narrows_cc::{AnyScheme, Bytes, Driver, Nanos, Pacer, Phase, Rate, RecoveryStyle};
use narrows_packet::{Flags, Kind, Packet};

use crate::rates::{RateAgent, RateEvent};
use crate::{SenderStats, TcpConfig};
use narrows_traffic::App;
use prr::Prr;
use rack::{Path, Probe, Rack};
use recovery::Undo;
use rto::RttEstimator;
use sack_loss::SackLoss;
use scoreboard::Scoreboard;

/// What an incoming packet told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckOutcome {
    /// The round-trip time sample it gave.
    pub rtt: Option<Nanos>,
    /// Bytes newly known to be delivered.
    pub acked: Bytes,
    /// Bytes newly declared lost.
    pub lost: Bytes,
}

/// Where the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before its start.
    Waiting,
    /// The SYN is out.
    SynSent,
    Established,
    /// Everything, the FIN included, is acknowledged.
    Closed,
}

/// Which of the timers for doubtful packets runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LossTimer {
    /// RACK's reordering timer.
    Reordering,
    /// The tail-loss probe's.
    Probe,
}

/// Things to send beside the normal course, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending(u8);

impl Pending {
    const NONE: Self = Self(0);
    const SYN: Self = Self(1);
    /// A bare acknowledgement that ends the handshake.
    const ACK: Self = Self(2);
    /// The first lost packet, whatever the window says.
    const RETRANSMISSION: Self = Self(4);
    const TAIL_PROBE: Self = Self(8);
    const WINDOW_PROBE: Self = Self(16);
    /// A message to nodes of the network.
    const MESSAGE: Self = Self(32);

    fn add(&mut self, what: Self) {
        self.0 |= what.0;
    }

    fn take(&mut self, what: Self) -> bool {
        let had = self.0 & what.0 != 0;
        self.0 &= !what.0;
        had
    }
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    state: State,
    phase: Phase,
    pending: Pending,
    /// PRR shapes the window.
    reducing: bool,
    /// The lowest sequence number not acknowledged.
    una: u64,
    /// The next to be sent for the first time. Data begins at 1.
    nxt: u64,
    /// The application has data up to here.
    app_end: u64,
    /// Data that a connection of several subflows has beyond that and may hand over.
    waiting: u64,
    /// The receiver takes data up to here.
    right_edge: u64,
    /// The window in force.
    cwnd: u64,
    pacer: Pacer,
    /// The pacer holds a packet back.
    held: bool,
    /// The departure time last counted as a wait.
    waited_for: Nanos,
    rto_at: Nanos,
    loss_timer_at: Nanos,
    loss_timer: LossTimer,
    /// When the packets that the last acknowledgement left in doubt count as lost.
    reordering_at: Nanos,
    /// Since when nothing was outstanding; `MAX` while something is.
    quiet_since: Nanos,
    last_sent_at: Nanos,
    board: Scoreboard,
    driver: Driver,
    rtt: RttEstimator,
    rack: Rack,
    stats: SenderStats,
    app: App,
    config: TcpConfig,
    flow: u32,
    style: RecoveryStyle,
    /// Settles the rate with the network, where the scheme asks for it.
    agent: Option<Box<dyn RateAgent>>,
    prr: Prr,
    sack_loss: SackLoss,
    undo: Undo,
    probe: Option<Probe>,
    /// Recovery or loss repair ends when this is acknowledged.
    recovery_point: u64,
    /// Recovery was entered for a mark, not for loss.
    marked: bool,
    duplicate_acks: u32,
    /// Without SACK: by how much departed packets inflate the window (RFC 6582), in bytes.
    inflation: i64,
    /// Without SACK: this recovery saw a partial acknowledgement.
    partial_seen: bool,
    /// New data sent on duplicate acknowledgements, which does not count as outstanding at congestion (RFC 3042).
    limited_transmit: u64,
    /// Timeouts in a row.
    timeouts: u32,
    /// The retransmission timer probes a closed window.
    persist: bool,
    ecn: bool,
    /// The next new data shall say that the window was reduced.
    cwr: bool,
    /// Which of its ways packets take.
    path: u8,
    syns: u32,
    syn_sent_at: Nanos,
    peer_timestamp: u32,
    largest_window: u64,
    fin_sent: bool,
    established_at: Option<Nanos>,
    first_data_at: Option<Nanos>,
    completed_at: Option<Nanos>,
    /// Memory given back when the connection was over.
    released: usize,
}

impl Sender {
    /// A sender that connects at `start`.
    pub fn new(flow: u32, config: TcpConfig, scheme: AnyScheme, app: App, start: Nanos) -> Self {
        Self {
            state: State::Waiting,
            phase: Phase::Open,
            pending: Pending::NONE,
            reducing: false,
            una: 0,
            nxt: 0,
            app_end: 1,
            waiting: 0,
            right_edge: 0,
            cwnd: scheme.control().cwnd.as_u64(),
            pacer: Pacer::default(),
            held: false,
            waited_for: Nanos::MAX,
            rto_at: start,
            loss_timer_at: Nanos::MAX,
            loss_timer: LossTimer::Reordering,
            reordering_at: Nanos::MAX,
            quiet_since: Nanos::MAX,
            last_sent_at: start,
            board: Scoreboard::new(config.segment),
            rtt: RttEstimator::new(&config),
            rack: Rack::new(),
            style: scheme.info().recovery,
            agent: None,
            driver: Driver::new(scheme),
            stats: SenderStats::default(),
            app,
            config,
            flow,
            prr: Prr::default(),
            sack_loss: SackLoss::default(),
            undo: Undo::default(),
            probe: None,
            recovery_point: 0,
            marked: false,
            duplicate_acks: 0,
            inflation: 0,
            partial_seen: false,
            limited_transmit: 0,
            timeouts: 0,
            persist: false,
            ecn: false,
            cwr: false,
            path: 0,
            syns: 0,
            syn_sent_at: start,
            peer_timestamp: 0,
            largest_window: 0,
            fin_sent: false,
            established_at: None,
            first_data_at: None,
            completed_at: None,
            released: 0,
        }
    }

    /// A packet from the receiver.
    #[inline]
    pub fn on_packet(&mut self, now: Nanos, packet: &Packet) -> AckOutcome {
        if !packet.flags.has(Flags::REVERSE) {
            return AckOutcome::default();
        }
        if packet.kind() == Kind::Message {
            self.report_to_agent(now, RateEvent::Message(packet));
            return AckOutcome::default();
        }
        match self.state {
            State::Established if !packet.flags.has(Flags::SYN) => self.on_ack(now, packet),
            State::SynSent if packet.flags.has(Flags::SYN) => self.on_syn_ack(now, packet),
            _ => AckOutcome::default(),
        }
    }

    /// When [`Sender::on_timer`] wants to be called; [`Nanos::MAX`] for never.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        let timer = self.rto_at.min(self.loss_timer_at).min(self.app.deadline()).min(self.agent_deadline());
        if self.held { timer.min(self.pacer.next()) } else { timer }
    }

    /// The application stops writing: what it wrote is still delivered, then the connection is closed.
    /// To be followed by [`Sender::poll_transmit`].
    pub fn stop(&mut self, now: Nanos) {
        self.app.on_time(now, self.data_sent());
        self.app.stop(self.data_sent());
        self.app_end = 1 + self.app.limit().as_u64();
        if self.state == State::Waiting {
            self.close();
        }
    }

    /// The counters.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Asks for the memory that an acknowledgement will touch behind this value itself.
    #[inline]
    pub fn prefetch(&self) {
        self.board.prefetch();
    }

    /// Bytes of memory held at most so far: buffers grow and do not shrink before the connection is over.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.board.memory().max(self.released)
    }

    /// The scheme.
    pub fn scheme(&self) -> &AnyScheme {
        self.driver.scheme()
    }

    /// Data in flight: sent, and neither acknowledged nor lost.
    #[inline]
    pub fn inflight(&self) -> Bytes {
        self.board.inflight()
    }

    /// The congestion window in force: the scheme's, or that of proportional rate reduction.
    #[inline]
    pub fn window(&self) -> Bytes {
        Bytes::new(self.cwnd)
    }

    /// The pacing rate in force.
    #[inline]
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.driver.control().pacing_rate
    }

    /// The smoothed round-trip time, zero before the first sample.
    #[inline]
    pub fn srtt(&self) -> Nanos {
        self.rtt.srtt
    }

    /// The phase of loss recovery.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// When the handshake was complete.
    pub fn established_at(&self) -> Option<Nanos> {
        self.established_at
    }

    /// When the first data packet left.
    pub fn first_data_at(&self) -> Option<Nanos> {
        self.first_data_at
    }

    /// When all data of a finite application was acknowledged.
    pub fn completed_at(&self) -> Option<Nanos> {
        self.completed_at
    }

    /// The connection is over.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Counts everything that is kept incrementally again and compares. For tests: it takes time.
    ///
    /// # Panics
    /// If a count is wrong.
    pub fn check(&self) {
        self.board.check();
    }

    fn mss(&self) -> Bytes {
        Bytes::new(u64::from(self.config.segment))
    }

    /// Payload sent so far, each byte counted once.
    fn data_sent(&self) -> Bytes {
        Bytes::new((self.nxt - u64::from(self.fin_sent)).saturating_sub(1))
    }

    /// Data outstanding, lost or not (FlightSize).
    fn flight_size(&self) -> Bytes {
        let fin = u64::from(self.fin_sent && self.una < self.nxt);
        Bytes::new(self.nxt - fin - self.una.min(self.nxt - fin))
    }

    /// Data outstanding less what duplicate acknowledgements without SACK show to have left the network.
    #[inline]
    fn in_network(&self) -> Bytes {
        self.board.inflight() - self.presumed_delivered()
    }

    /// Without SACK the window is inflated by a segment for each packet that a duplicate acknowledgement reports.
    #[inline]
    fn presumed_delivered(&self) -> Bytes {
        Bytes::new(self.inflation.max(0) as u64)
    }

    /// Losses are being repaired: fast recovery or what follows a timeout, not the reduction for a mark.
    #[inline]
    fn is_repairing(&self) -> bool {
        self.phase != Phase::Open && !self.marked
    }

    fn path(&self) -> Path {
        Path { srtt: self.rtt.srtt, min_rtt: self.rtt.min_rtt_or_zero(), recovering: self.is_repairing() }
    }

    /// Follows the window of the control in force, unless proportional rate reduction shapes it.
    #[inline]
    fn follow_window(&mut self) {
        if !self.reducing {
            self.cwnd = self.driver.control().cwnd.as_u64();
            if self.inflation != 0 {
                self.cwnd = self.cwnd.saturating_add_signed(self.inflation).max(self.mss().as_u64());
            }
        }
    }

    /// Marks samples as application-limited if nothing but want of data keeps the sender from sending.
    #[inline]
    fn check_app_limited(&mut self) {
        if self.nxt >= self.app_end
            && self.board.inflight().as_u64() < self.cwnd
            && !self.board.has_lost()
            && self.waiting == 0
        {
            self.driver.set_app_limited(self.board.inflight());
        }
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.pending = Pending::NONE;
        self.held = false;
        self.rto_at = Nanos::MAX;
        self.loss_timer_at = Nanos::MAX;
        self.app.stop(self.data_sent());
        // A run may see many more connections than are open at a time.
        self.released = self.board.memory();
        self.board = Scoreboard::new(self.config.segment);
    }
}
