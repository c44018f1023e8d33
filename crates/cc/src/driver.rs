//! The driver: the only component between a transport and a scheme.
//!
//! A transport reports the packets that it sends, that are acknowledged and that it declares lost. The driver takes the
//! delivery-rate sample, counts round trips, tracks how much of cwnd is used, builds the [`Ack`], calls the scheme in
//! the contract's order and keeps the [`Control`] in force. Loss detection, RTT estimation and packet records stay in
//! the transport.
//!
//! ```text
//! a packet leaves      stamp → the transport stores the state with the packet → sent → note_usage
//! an acknowledgement   begin_ack → delivered … → receiver_feedback → lost …
//!                      → recovery_entered | recovery_left | spurious_loss → finish_ack → rate_advice
//! a timer              lost … → timeout, or lost … → recovery_entered
//! ```
//! [`SentState::order`], the transmission number, identifies a packet. The driver reads no clock and allocates nothing.
//! Debug builds assert the order of calls.

mod order;
mod usage;

use crate::{
    Ack, Advice, AnyScheme, Bytes, CongestionCause, Control, IdleRestart, IdleRule, Lost, Nanos, Paths, Phase, Rate,
    RateAdvice, RateSampler, ReceiverFeedback, RecoveryEntered, RecoveryLeft, RoundCounter, Sent, SentState,
    SpuriousLoss, Timeout,
};
use order::{Order, Step};
pub use usage::SendPosition;
use usage::Usage;

/// Data outstanding at a congestion event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The amount that a reduction starts from: cwnd (Linux), or the data outstanding when congestion was
    /// detected, lost packets included (FlightSize, RFC 5681).
    pub size: Bytes,
    /// Data in flight, without the packets declared lost (pipe, RFC 6675).
    pub inflight: Bytes,
}

impl Flight {
    /// A flight whose reduction starts from cwnd, as in Linux, but at least from one segment.
    pub fn of_cwnd(driver: &Driver, mss: Bytes, inflight: Bytes) -> Self {
        Self { size: driver.scheme().control().cwnd.max(mss), inflight }
    }
}

/// A limit that the transport puts on the scheme's control.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Limit {
    /// None.
    #[default]
    None,
    /// Maximum pacing rate; also paces schemes that do not pace.
    Paced(Rate),
    /// Maximum cwnd, and maximum pacing rate of a scheme that paces.
    Capped(Bytes, Rate),
}

/// One packet that the transport declares lost.
#[derive(Clone, Copy, Debug)]
pub struct LostPacket<'a> {
    /// The packet's payload in bytes.
    pub bytes: Bytes,
    /// The packet's number in the order of first transmission: see [`Lost::packet`].
    pub packet: u64,
    /// The connection state stored when the packet was sent.
    pub sent: &'a SentState,
}

/// One acknowledgement in progress.
#[derive(Clone, Copy, Debug)]
pub struct AckProgress {
    inflight_before: Bytes,
    delivered_before: Bytes,
    /// State of the most recently sent packet with payload that this acknowledgement delivers.
    newest: Option<SentState>,
    /// The connection's delivered count when the newest packet of this acknowledgement was sent.
    delivered_at_send: Option<Bytes>,
}

/// The end of an acknowledgement, after losses and phase changes.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct AckEnd {
    /// When the acknowledgement arrived.
    pub now: Nanos,
    /// Newly delivered data if the transport counts each packet as full-sized (RFC 4341); data in flight before the
    /// acknowledgement then was [`AckEnd::inflight`] plus this amount. `None`: the bytes actually delivered.
    pub acked: Option<Bytes>,
    /// Bytes by which the cumulative acknowledgement advanced; `None` if the transport has no cumulative
    /// acknowledgement.
    pub acked_cumulative: Option<Bytes>,
    /// Bytes declared lost while processing this acknowledgement.
    pub lost: Bytes,
    /// RTT of the newest packet that was delivered, if that packet was sent only once.
    pub rtt: Option<Nanos>,
    /// Data in flight after this acknowledgement.
    pub inflight: Bytes,
    /// Newly delivered bytes with a congestion-experienced mark.
    pub ce: Bytes,
    /// The phase after this acknowledgement.
    pub phase: Phase,
    /// Smoothed RTT; `None` before the first sample.
    pub srtt: Option<Nanos>,
    /// Minimum RTT; `None` before the first sample.
    pub min_rtt: Option<Nanos>,
}

/// The result of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckResult {
    /// Bytes newly delivered.
    pub acked: Bytes,
    /// The acknowledgement yielded a delivery-rate sample.
    pub sampled: bool,
    /// The acknowledgement began a packet-timed round trip.
    pub round_start: bool,
}

/// A scheme on a connection. See the module documentation.
// The field `scheme` comes last: most schemes fill only part of the enum `AnyScheme`, and the unused rest stays out of
// the cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Driver {
    control: Control,
    limit: Limit,
    usage: Usage,
    /// cwnd after the last reduction (after a timeout, half the flight). While cwnd is below this value, the scheme
    /// counts as in slow start.
    ssthresh: Bytes,
    sampler: RateSampler,
    rounds: RoundCounter,
    order: Order,
    scheme: AnyScheme,
}

impl Driver {
    /// Creates the driver for `scheme` at the start of a connection.
    pub fn new(scheme: AnyScheme) -> Self {
        Self {
            control: scheme.control(),
            limit: Limit::None,
            usage: Usage::default(),
            ssthresh: Bytes::MAX,
            sampler: RateSampler::default(),
            rounds: RoundCounter::default(),
            scheme,
            order: Order::default(),
        }
    }

    /// The scheme.
    #[inline]
    pub fn scheme(&self) -> &AnyScheme {
        &self.scheme
    }

    /// Replaces the scheme and keeps the measurements so far.
    pub fn replace(&mut self, scheme: AnyScheme) {
        self.scheme = scheme;
        self.refresh();
    }

    /// The control in force: the scheme's control after the last event, bounded by the transport's limit.
    #[inline]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Reads the scheme's control again. Calls that end an event already do this; after any other call, call `refresh`
    /// unless such a call follows.
    #[inline]
    pub fn refresh(&mut self) {
        self.scheme.store_control(&mut self.control);
        self.apply_limit();
    }

    /// Bounds the scheme's control by the transport's limit.
    #[inline]
    fn apply_limit(&mut self) {
        match self.limit {
            Limit::None => {}
            Limit::Paced(most) => {
                self.control.pacing_rate = Some(self.control.pacing_rate.map_or(most, |rate| rate.min(most)));
            }
            Limit::Capped(cwnd, most) => {
                self.control.cwnd = self.control.cwnd.min(cwnd);
                self.control.pacing_rate = self.control.pacing_rate.map(|rate| rate.min(most));
            }
        }
    }

    /// Sets the transport's limit. It takes effect at the next event or [`Driver::refresh`].
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// All bytes ever delivered.
    #[inline]
    pub fn delivered(&self) -> Bytes {
        self.sampler.delivered()
    }

    /// Packet-timed round trips begun so far.
    pub fn round(&self) -> u64 {
        self.rounds.count()
    }

    /// cwnd after the last reduction.
    #[inline]
    pub fn ssthresh(&self) -> Bytes {
        self.ssthresh
    }

    /// Undoes an unnecessary reduction: restores `ssthresh`, the value from before that reduction.
    pub fn restore_ssthresh(&mut self, ssthresh: Bytes) {
        self.ssthresh = ssthresh;
    }

    /// Whether cwnd was full at some time in the last round trip.
    #[inline]
    pub fn is_cwnd_full(&self) -> bool {
        self.usage.limited
    }

    /// Whether cwnd, not the application, limited the data in flight (Linux `tcp_is_cwnd_limited`). In slow start it is
    /// enough that more than half of cwnd was in use.
    #[inline]
    fn cwnd_limited(&self) -> bool {
        let cwnd = self.control.cwnd;
        self.usage.limited || (cwnd < self.ssthresh && cwnd.as_u64() < 2 * self.usage.most.as_u64())
    }

    /// Returns the state to store with a packet of `bytes` that is sent while `inflight` is outstanding. A packet
    /// without payload needs a state too if the transport expects its acknowledgement.
    #[inline]
    pub fn stamp(&mut self, now: Nanos, bytes: Bytes, inflight: Bytes) -> SentState {
        self.sampler.on_sent(now, bytes, inflight)
    }

    /// A packet with payload was sent.
    #[inline]
    pub fn sent(&mut self, event: &Sent) {
        self.order.outside_ack();
        self.scheme.sent(event, &mut self.control);
        self.apply_limit();
    }

    /// Tracks the use of cwnd. `outstanding`: data not acknowledged cumulatively, lost or not. `limited`: cwnd prevents
    /// the transport from sending.
    #[inline]
    pub fn note_usage(&mut self, limited: bool, outstanding: Bytes, position: SendPosition) {
        self.usage.note(limited, outstanding, position);
    }

    /// Marks the sender as application-limited: only a lack of data prevents it from sending, with `inflight`
    /// outstanding.
    #[inline]
    pub fn set_app_limited(&mut self, inflight: Bytes) {
        self.sampler.set_app_limited(inflight);
    }

    /// Whether packets sent now give application-limited samples.
    pub fn is_app_limited(&self) -> bool {
        self.sampler.is_app_limited()
    }

    /// Reports the RTT of the handshake, before any data.
    pub fn handshake(&mut self, now: Nanos, rtt: Nanos, srtt: Option<Nanos>, min_rtt: Option<Nanos>) {
        self.order.outside_ack();
        self.scheme.on_ack(&Ack::of_handshake(now, rtt, srtt, min_rtt));
        self.refresh();
    }

    /// An acknowledgement arrived while `inflight` is outstanding.
    #[inline]
    pub fn begin_ack(&mut self, inflight: Bytes) -> AckProgress {
        self.order.begin_ack();
        AckProgress {
            inflight_before: inflight,
            delivered_before: self.sampler.delivered(),
            newest: None,
            delivered_at_send: None,
        }
    }

    /// The acknowledgement delivers a packet, which may have no payload.
    #[inline]
    pub fn delivered_packet(&mut self, now: Nanos, ack: &mut AckProgress, bytes: Bytes, sent: &SentState) {
        self.order.within_ack(Step::Delivered);
        if !bytes.is_zero() {
            self.sampler.on_delivered(now, bytes, sent, &mut ack.newest);
        }
        // `sent.delivered` never falls from one transmission to the next, so the maximum belongs to the newest packet.
        ack.delivered_at_send = ack.delivered_at_send.max(Some(sent.delivered));
    }

    /// Without selective acknowledgements: a duplicate acknowledgement reports the delivery of an unknown packet of
    /// `bytes`.
    #[inline]
    pub fn delivered_unknown(&mut self, now: Nanos, bytes: Bytes) {
        self.sampler.on_duplicate(now, bytes);
    }

    /// The receiver reports that `bytes` arrived more than once: the duplicate counts as delivered, as in
    /// Linux (`tcp_sacktag_write_queue` counts DSACKed segments).
    pub fn delivered_again(&mut self, now: Nanos, bytes: Bytes) {
        self.sampler.on_delivered_again(now, bytes);
    }

    /// Without selective acknowledgements: `acked` bytes are about to be delivered by a cumulative acknowledgement.
    /// Duplicate acknowledgements may already have reported all of them but one segment `mss`.
    #[inline]
    pub fn advancing(&mut self, acked: Bytes, mss: Bytes) {
        self.sampler.on_cumulative(acked, mss);
    }

    /// Without selective acknowledgements: all data that duplicate acknowledgements reported is now acknowledged
    /// cumulatively.
    pub fn forget_unknown(&mut self) {
        self.sampler.forget_duplicates();
    }

    /// The receiver reports measurements. Within an acknowledgement, this call precedes losses.
    pub fn receiver_feedback(&mut self, event: &ReceiverFeedback) {
        self.order.feedback();
        self.scheme.on_receiver_feedback(event);
        self.refresh();
    }

    /// Passes all subflows of the connection to a coupled scheme, before an acknowledgement or timer of this subflow.
    #[inline]
    pub fn paths(&mut self, paths: &Paths) {
        self.order.outside_ack();
        self.scheme.on_paths(paths);
    }

    /// The transport declares a packet lost; `inflight` remains. The control in force stays until the event
    /// that revealed the loss ends.
    #[inline]
    pub fn lost(&mut self, now: Nanos, packet: &LostPacket<'_>, inflight: Bytes) {
        self.order.lost();
        let LostPacket { bytes, packet, sent } = *packet;
        self.sampler.on_lost(bytes);
        self.scheme.on_lost(&Lost {
            now,
            bytes,
            packet,
            sent_at: sent.sent_at,
            tx_in_flight: sent.tx_in_flight,
            lost_at_send: sent.lost,
            delivered_at_send: sent.delivered,
            app_limited: sent.app_limited,
            lost_total: self.sampler.lost(),
            inflight,
        });
    }

    /// The transport declares a packet lost without notifying the scheme: the receiver reports loss events instead.
    pub fn lost_unseen(&mut self, bytes: Bytes) {
        self.sampler.on_lost(bytes);
    }

    /// Recovery begins, on an acknowledgement that delivered `acked` bytes.
    pub fn recovery_entered(&mut self, now: Nanos, cause: CongestionCause, flight: Flight, acked: Bytes) {
        self.order.phase();
        self.scheme.on_recovery_entered(&RecoveryEntered {
            now,
            cause,
            flight_size: flight.size,
            inflight: flight.inflight,
            acked,
            delivered: self.sampler.delivered(),
        });
        self.refresh();
        self.ssthresh = self.control.cwnd;
    }

    /// Recovery ends. The control in force stays until the acknowledgement is finished.
    pub fn recovery_left(&mut self, now: Nanos, inflight: Bytes) {
        self.order.phase();
        let delivered = self.sampler.delivered();
        self.scheme.on_recovery_left(&RecoveryLeft { now, inflight, delivered });
    }

    /// The reduction of `phase` was unnecessary. The control in force stays until the acknowledgement is
    /// finished.
    pub fn spurious_loss(&mut self, now: Nanos, inflight: Bytes, phase: Phase) {
        self.order.phase();
        let delivered = self.sampler.delivered();
        self.scheme.on_spurious_loss(&SpuriousLoss { now, inflight, delivered, phase });
    }

    /// Ends an acknowledgement, after its losses and phase changes: takes the samples and calls the scheme.
    #[inline]
    pub fn finish_ack(&mut self, ack: &AckProgress, end: &AckEnd) -> AckResult {
        self.order.finish_ack();
        let rate = self.sampler.sample(ack.newest.as_ref(), end.min_rtt);
        let delivered = self.sampler.delivered();
        let round_start = ack.delivered_at_send.is_some_and(|at_send| self.rounds.on_ack(at_send, delivered));
        // Without SACK a packet counts when its duplicate acknowledgement arrives.
        let acked = delivered - ack.delivered_before;
        let (counted, inflight_before) = match end.acked {
            None => (acked, ack.inflight_before),
            Some(counted) => (counted, end.inflight + counted),
        };
        let event = Ack {
            now: end.now,
            acked: counted,
            acked_cumulative: end.acked_cumulative,
            lost: end.lost,
            rtt: end.rtt,
            rate,
            inflight_before,
            inflight: end.inflight,
            ce: end.ce,
            delivered,
            cwnd_limited: self.cwnd_limited(),
            cwnd_full: self.usage.limited,
            phase: end.phase,
            round_start,
            round: self.rounds.count(),
            srtt: end.srtt,
            min_rtt: end.min_rtt,
        };
        self.scheme.acknowledged(&event, &mut self.control);
        self.apply_limit();
        AckResult { acked, sampled: rate.is_some(), round_start }
    }

    /// The retransmission timer expired, for the `consecutive`-th time in a row; the resulting losses are already
    /// reported.
    pub fn timeout(&mut self, now: Nanos, flight: Flight, consecutive: u32) {
        self.order.outside_ack();
        self.ssthresh = flight.size / 2;
        self.scheme.on_timeout(&Timeout {
            now,
            flight_size: flight.size,
            inflight: flight.inflight,
            delivered: self.sampler.delivered(),
            consecutive,
        });
        self.refresh();
    }

    /// Sending resumes after `idle` with nothing in flight; `rto` is the retransmission timeout, if the transport has
    /// one.
    pub fn idle_restart(&mut self, now: Nanos, idle: Nanos, rto: Option<Nanos>, rule: IdleRule) {
        self.order.outside_ack();
        self.scheme.on_idle_restart(&IdleRestart {
            now,
            idle,
            rto,
            delivered: self.sampler.delivered(),
            app_limited: self.sampler.is_app_limited(),
            rule,
        });
        self.refresh();
    }

    /// The network advises a rate.
    pub fn rate_advice(&mut self, now: Nanos, advice: Advice) {
        self.order.outside_ack();
        self.scheme.on_rate_advice(&RateAdvice { now, advice });
        self.refresh();
    }
}

#[cfg(test)]
mod tests;
