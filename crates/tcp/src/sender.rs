//! The sending end of a reliable stream.
//!
//! Parts that hold state: `stream` (sequence numbers and the application), `window` (the scheme's driver and
//! the window in force), `pacing`, `timers`, `rto` (round-trip times), `scoreboard` (packets outstanding),
//! `recovery` (with `rack`, `sack_loss`, `prr` and `undo`), `ecn`, `handshake`, `milestones`.
//!
//! Parts that act on them: `ack` applies acknowledgements, `phases` enters and leaves recovery, `timers` acts
//! when time is due, `transmit` selects the next packet, `subflow` serves connections of several subflows,
//! `rates` carries the agent that settles the rate with the network, if there is one.
//!
//! Deliberate differences from the texts:
//! 1. The clock granularity G of RFC 6298 is the longest delay of an acknowledgement, so that a delayed one
//!    never makes a timeout when the round-trip time hardly varies.
//! 2. RACK's least round-trip time is that of the connection, not of the last minutes, and packets sent at
//!    one instant are ordered as they left, not by sequence number.
//! 3. FlightSize at congestion is what was outstanding when the news arrived, limited transmit not counted;
//!    RecoverFS of proportional rate reduction counts it.
//! 4. A spurious timeout or recovery is undone at once (RFC 3522, RFC 3708) and is reported instead of its
//!    end.
//! 5. A lost SYN does not shrink the initial window: the window is the scheme's. The SYN-ACK is repeated only
//!    when a SYN arrives again, and the receiver's FIN is part of its acknowledgement of the sender's.
//! 6. A packet is lost or delivered as a whole; retransmissions keep its boundaries.
//! 7. Without SACK each duplicate acknowledgement counts as one delivered segment, in the delivery rate, in
//!    what schemes are told and in the flight at a timeout, as Linux emulates SACK; RFC 5681 would count it
//!    as outstanding. Linux forgets the count at a timeout and takes the same data for delivered again when
//!    it is acknowledged; here it counts once.

mod ack;
mod ecn;
mod handshake;
mod milestones;
mod pacing;
mod phases;
mod prr;
mod rack;
mod rates;
mod recovery;
mod rto;
mod sack_loss;
mod scoreboard;
mod stream;
mod subflow;
mod timers;
mod transmit;
mod undo;
mod window;

use narrows_cc::{AnyScheme, Bytes, Nanos, Phase, Rate};
use narrows_packet::{Flags, Kind, Packet};
use narrows_traffic::App;

use crate::rates::{RateAgent, RateEvent};
use crate::{SenderStats, TcpConfig};
use ecn::EcnState;
use handshake::Handshake;
use milestones::Milestones;
use pacing::Pacing;
use rack::Path;
use recovery::Recovery;
use rto::RttEstimator;
use scoreboard::Scoreboard;
use stream::ByteStream;
use timers::Timers;
use window::Window;

/// The result of an incoming packet.
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
    pending: Pending,
    ecn: EcnState,
    /// Which of its paths packets take.
    path: u8,
    flow: u32,
    stream: ByteStream,
    window: Window,
    pacing: Pacing,
    timers: Timers,
    rtt: RttEstimator,
    board: Scoreboard,
    recovery: Recovery,
    stats: SenderStats,
    config: TcpConfig,
    handshake: Handshake,
    milestones: Milestones,
    /// Settles the rate with the network, where the scheme asks for it.
    agent: Option<Box<dyn RateAgent>>,
}

impl Sender {
    /// A sender that connects at `start`.
    pub fn new(flow: u32, config: TcpConfig, scheme: AnyScheme, app: App, start: Nanos) -> Self {
        Self {
            state: State::Waiting,
            pending: Pending::NONE,
            ecn: EcnState::default(),
            path: 0,
            flow,
            stream: ByteStream::new(app),
            pacing: Pacing::new(),
            timers: Timers::new(start),
            rtt: RttEstimator::new(&config),
            board: Scoreboard::new(config.segment),
            recovery: Recovery::new(scheme.info().recovery),
            stats: SenderStats::default(),
            handshake: Handshake::new(start),
            milestones: Milestones::default(),
            agent: None,
            window: Window::new(scheme),
            config,
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
        let timer = self.timers.deadline().min(self.stream.app.deadline()).min(self.agent_deadline());
        timer.min(self.pacing.deadline())
    }

    /// The application stops writing: what it wrote is still delivered, then the connection is closed.
    /// To be followed by [`Sender::poll_transmit`].
    pub fn stop(&mut self, now: Nanos) {
        self.stream.on_time(now);
        self.stream.stop();
        self.stream.note_written();
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
        size_of::<Self>() + self.board.memory().max(self.milestones.released)
    }

    /// The scheme.
    pub fn scheme(&self) -> &AnyScheme {
        self.window.driver.scheme()
    }

    /// Data in flight: sent, and neither acknowledged nor lost.
    #[inline]
    pub fn inflight(&self) -> Bytes {
        self.board.inflight()
    }

    /// The congestion window in force: the scheme's, or that of proportional rate reduction.
    #[inline]
    pub fn window(&self) -> Bytes {
        Bytes::new(self.window.cwnd)
    }

    /// The pacing rate in force.
    #[inline]
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.window.driver.control().pacing_rate
    }

    /// The smoothed round-trip time, zero before the first sample.
    #[inline]
    pub fn srtt(&self) -> Nanos {
        self.rtt.srtt
    }

    /// The phase of loss recovery.
    pub fn phase(&self) -> Phase {
        self.recovery.phase
    }

    /// When the handshake was complete.
    pub fn established_at(&self) -> Option<Nanos> {
        self.milestones.established_at
    }

    /// When the first data packet left.
    pub fn first_data_at(&self) -> Option<Nanos> {
        self.milestones.first_data_at
    }

    /// When all data of a finite application was acknowledged.
    pub fn completed_at(&self) -> Option<Nanos> {
        self.milestones.completed_at
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

    /// Data outstanding less what duplicate acknowledgements without SACK show to have left the network.
    #[inline]
    fn in_network(&self) -> Bytes {
        self.board.inflight() - self.window.presumed_delivered()
    }

    fn path(&self) -> Path {
        Path {
            srtt: self.rtt.srtt,
            min_rtt: self.rtt.min_rtt_or_zero(),
            recovering: self.recovery.is_repairing(),
        }
    }

    /// Marks samples as application-limited if nothing but want of data keeps the sender from sending.
    #[inline]
    fn check_app_limited(&mut self) {
        if !self.stream.has_unsent()
            && self.board.inflight().as_u64() < self.window.cwnd
            && !self.board.has_lost()
            && self.stream.waiting == 0
        {
            self.window.driver.set_app_limited(self.board.inflight());
        }
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.pending = Pending::NONE;
        self.pacing.clear();
        self.timers.stop();
        self.stream.stop();
        // A run may see many more connections than are open at a time.
        self.milestones.released = self.board.memory();
        self.board = Scoreboard::new(self.config.segment);
    }
}
