//! Sender of a reliable stream.
//!
//! Modules with state: `stream` (sequence numbers and the application), `cwnd` (the scheme's driver and the
//! cwnd in force), `pacing`, `timers`, `rto` (round-trip times), `scoreboard` (outstanding packets),
//! `recovery` (with `rack`, `sack_loss` and `undo`), `ecn`, `handshake`.
//!
//! Event handlers: `ack` applies acknowledgements, `phases` enters and leaves recovery, `timers` handles
//! expired deadlines, `transmit` selects the next packet, `subflow` serves multipath connections, `rate_agent`
//! connects the agent of an explicit-rate protocol, `local` handles packets dropped by the queue of the sending host.
//!
//! The default is TCP as Linux 6.18 deploys it; `TcpConfig` names each rule and its alternative in the RFCs.
//!
//! Deliberate differences from Linux and the RFCs:
//! 1. With `TimerRules::Rfc` the clock granularity G of RFC 6298 is the maximum acknowledgement delay, so
//!    that a delayed acknowledgement never causes a timeout when the round-trip time hardly varies. Timers
//!    are exact; Linux rounds them up to jiffies (1 to 10 ms).
//! 2. RACK's minimum round-trip time covers the whole connection, not the last five minutes. Packets sent at
//!    the same time are ordered by departure, not by sequence number.
//! 3. With `ReductionFrom::Flight`, FlightSize at congestion is the data outstanding when the acknowledgement
//!    arrived, without limited transmit; RecoverFS of proportional rate reduction includes limited transmit.
//! 4. A spurious timeout or recovery is undone immediately (RFC 3522, RFC 3708). The undo is reported to the scheme
//!    instead of the end of the recovery. F-RTO (RFC 5682) is not implemented; timestamps and DSACK detect spurious
//!    timeouts.
//! 5. A lost SYN does not reduce the initial window, which the scheme owns. The SYN-ACK is retransmitted only when
//!    another SYN arrives, and the receiver's FIN is part of its acknowledgement of the sender's FIN.
//! 6. A packet is lost or delivered as a whole; retransmissions keep its boundaries.
//! 7. Without SACK each duplicate acknowledgement counts as one delivered segment (in the delivery rate, the scheme's
//!    input and the flight at a timeout), as Linux emulates SACK; RFC 5681 would count the segment as outstanding.
//!    Linux resets the count at a timeout and counts the same data again when it is acknowledged; here each byte counts
//!    once.

mod ack;
mod cwnd;
mod ecn;
mod handshake;
pub(crate) mod info;
mod local;
mod pacing;
mod phases;
mod rack;
mod rate_agent;
mod recovery;
mod rto;
mod sack_loss;
mod scoreboard;
mod stream;
mod subflow;
mod timers;
mod transmit;
mod tso;
mod undo;

use std::sync::Arc;

use narrows_cc::{AnyScheme, Bytes, Nanos, Phase, Rate};
use narrows_packet::{Flags, Kind, Packet};
use narrows_traffic::App;
use narrows_units::prefetch;

use crate::rates::{RateAgent, RateEvent};
use crate::{SenderStats, TcpConfig};
use cwnd::Window;
use ecn::EcnState;
use handshake::Handshake;
use pacing::Pacing;
use rack::Path;
use recovery::Recovery;
use rto::RttEstimator;
use scoreboard::Scoreboard;
use stream::ByteStream;
use timers::Timers;

/// Result of processing a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckOutcome {
    /// Round-trip time sample, if any.
    pub rtt: Option<Nanos>,
    /// Bytes newly known to be delivered.
    pub acked: Bytes,
    /// Bytes newly declared lost.
    pub lost: Bytes,
}

/// Connection state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the start time.
    Waiting,
    /// The SYN has been sent.
    SynSent,
    Established,
    /// Everything, including the FIN, is acknowledged.
    Closed,
}

/// Milestones of a connection, for results.
#[derive(Clone, Copy, Debug, Default)]
struct Milestones {
    established_at: Option<Nanos>,
    first_data_at: Option<Nanos>,
    /// Time at which all data of a finite application was acknowledged.
    completed_at: Option<Nanos>,
    /// Bytes of memory that were freed when the connection closed.
    released: usize,
}

/// Pending transmissions outside the normal packet selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending(u8);

impl Pending {
    const NONE: Self = Self(0);
    const SYN: Self = Self(1);
    /// A bare acknowledgement that completes the handshake.
    const ACK: Self = Self(2);
    /// The first lost packet, regardless of the window.
    const RETRANSMISSION: Self = Self(4);
    const TAIL_PROBE: Self = Self(8);
    const WINDOW_PROBE: Self = Self(16);
    /// A control message to routers.
    const MESSAGE: Self = Self(32);
    /// The queue of this host drops all packets: attempts to send fail.
    const CONGESTED: Self = Self(64);

    fn add(&mut self, item: Self) {
        self.0 |= item.0;
    }

    fn has(self, item: Self) -> bool {
        self.0 & item.0 != 0
    }

    fn take(&mut self, item: Self) -> bool {
        let had = self.0 & item.0 != 0;
        self.0 &= !item.0;
        had
    }
}

/// Sender of a reliable stream.
// Fields are ordered by use: with thousands of flows, the number of cache lines that an acknowledgement accesses
// determines the speed. These lines form two ranges: from the last counters to the head of `stream.app`, and from the
// end of `recovery.undo` to the state of the scheme, which therefore comes last in `window`.
#[derive(Debug)]
#[repr(C)]
pub struct Sender {
    stats: SenderStats,
    state: State,
    pending: Pending,
    ecn: EcnState,
    /// Path number of outgoing packets.
    path: u8,
    flow: u32,
    config: Arc<TcpConfig>,
    /// Agent of an explicit-rate protocol, if the scheme uses one.
    agent: Option<Box<dyn RateAgent>>,
    handshake: Handshake,
    timers: Timers,
    pacing: Pacing,
    rtt: RttEstimator,
    board: Scoreboard,
    stream: ByteStream,
    milestones: Milestones,
    recovery: Recovery,
    window: Window,
}

impl Sender {
    /// A sender that connects at `start`. Senders with the same settings may share one `Arc`.
    pub fn new(flow: u32, config: impl Into<Arc<TcpConfig>>, scheme: AnyScheme, app: App, start: Nanos) -> Self {
        let config = config.into();
        Self {
            state: State::Waiting,
            pending: Pending::NONE,
            ecn: EcnState::default(),
            path: 0,
            flow,
            stream: ByteStream::new(app),
            pacing: Pacing::new(config.tso),
            timers: Timers::new(start),
            rtt: RttEstimator::new(&config),
            board: Scoreboard::new(config.segment),
            recovery: Recovery::new(scheme.info().recovery, u64::from(config.segment)),
            stats: SenderStats::default(),
            handshake: Handshake::new(start),
            milestones: Milestones::default(),
            agent: None,
            window: Window::new(scheme),
            config,
        }
    }

    /// Processes a packet from the receiver.
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

    /// Time of the next [`Sender::on_timer`]; [`Nanos::MAX`] for never.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        let timer = self.timers.deadline().min(self.stream.app.deadline()).min(self.agent_deadline());
        timer.min(self.pacing.deadline())
    }

    /// Stops the application: data already written is still delivered, then the connection closes. (Bulk data and files
    /// count as written when they are sent.) Call [`Sender::poll_transmit`] afterwards.
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

    /// Prefetches the two ranges of state that an acknowledgement accesses, for schemes up to the size of CUBIC. The
    /// function is not inlined: with its instructions in the event loop, runs of a thousand flows took 8 % longer.
    #[inline(never)]
    pub fn prefetch(&self) {
        prefetch(&self.stats.data_packets_sent, 9);
        prefetch(&self.recovery.probe, 14);
    }

    /// Prefetches the heap memory that `packet` accesses and, after losses, the state that only such packets access.
    #[inline]
    pub fn prefetch_records(&self, packet: &Packet) {
        self.board.prefetch();
        if packet.has_sack() || !self.recovery.is_open() {
            self.board.prefetch_lossy(packet, self.stream.una);
            prefetch(&self.stats, 1);
            prefetch(&self.recovery, 2);
        }
    }

    /// Peak bytes of memory: buffers grow and do not shrink until the connection closes.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.board.memory().max(self.milestones.released)
    }

    /// The scheme.
    pub fn scheme(&self) -> &AnyScheme {
        self.window.driver.scheme()
    }

    /// Data in flight: sent, neither acknowledged nor lost.
    #[inline]
    pub fn inflight(&self) -> Bytes {
        self.board.inflight()
    }

    /// The cwnd in force: that of the scheme or, during a reduction, that of proportional rate reduction.
    #[inline]
    pub fn window(&self) -> Bytes {
        Bytes::new(self.window.cwnd)
    }

    /// The pacing rate in force.
    #[inline]
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.window.driver.control().pacing_rate
    }

    /// The smoothed round-trip time; `None` before the first sample.
    #[inline]
    pub fn srtt(&self) -> Option<Nanos> {
        self.rtt.smoothed()
    }

    /// The phase of loss recovery.
    pub fn phase(&self) -> Phase {
        self.recovery.phase
    }

    /// Whether rate samples of packets sent now are application-limited (`app_limited` of Linux `tcp_sock`).
    pub fn is_app_limited(&self) -> bool {
        self.window.driver.is_app_limited()
    }

    /// Completion time of the handshake.
    pub fn established_at(&self) -> Option<Nanos> {
        self.milestones.established_at
    }

    /// Departure time of the first data packet.
    pub fn first_data_at(&self) -> Option<Nanos> {
        self.milestones.first_data_at
    }

    /// Time at which all data of a finite application was acknowledged.
    pub fn completed_at(&self) -> Option<Nanos> {
        self.milestones.completed_at
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether the connection is closed for good: it has nothing to send and no agent that may send messages.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.state == State::Closed && self.agent.is_none()
    }

    /// Recomputes all incrementally maintained counts and compares the results with them. Slow, for tests.
    ///
    /// # Panics
    /// If a count is wrong.
    pub fn check(&self) {
        self.board.check();
    }

    fn mss(&self) -> Bytes {
        Bytes::new(u64::from(self.config.segment))
    }

    /// Data outstanding less the segments that duplicate acknowledgements without SACK imply to be delivered.
    #[inline]
    fn in_network(&self) -> Bytes {
        self.board.inflight() - self.window.presumed_delivered()
    }

    fn path(&self) -> Path {
        Path { srtt: self.rtt.srtt, min_rtt: self.rtt.min_rtt_or_zero(), recovering: self.recovery.is_repairing() }
    }

    /// Marks samples as application-limited if the sender could send but has no data.
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
        // Free the memory: a run may have many more connections in total than at any one time.
        self.milestones.released = self.board.memory();
        self.board = Scoreboard::new(self.config.segment);
    }
}
