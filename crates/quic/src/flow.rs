//! A scheme on one path: translates the reports of a QUIC stack into calls of the driver.
//!
//! The stacks end an acknowledgement before they detect the losses that it reveals, and report nothing if there
//! are no losses. The driver requires losses before the end. Therefore, if an acknowledgement leaves a gap, the
//! adapter keeps a copy of the driver. If losses follow, the adapter restores the copy and ends the
//! acknowledgement again, now with the losses.
//!
//! The adapter measures and filters the RTT itself, because noq updates its estimate only after the
//! acknowledgement has ended.

use std::time::Instant;

use narrows_cc::{
    AckEnd, AckProgress, AnyScheme, Bytes, CongestionCause, Driver, Episode, Flight, IdleRule, LostPacket, Nanos,
    Phase, Prr, PrrBound, SendPosition, Sent, SentState, record,
};

/// Minimum idle time after which cwnd is stale: Linux's minimum retransmission timeout.
const LEAST_IDLE: Nanos = Nanos::from_millis(200);

/// RTT estimator (RFC 6298); samples include the peer's acknowledgement delay, as in TCP.
#[derive(Clone, Copy, Debug, Default)]
struct Rtt {
    smoothed: Option<Nanos>,
    variation: Nanos,
    min: Option<Nanos>,
}

impl Rtt {
    fn update(&mut self, rtt: Nanos) {
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
        let ns = |time: Nanos| time.as_nanos();
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation) = (Some(rtt), Nanos::from_nanos(ns(rtt) / 2));
            return;
        };
        let distance = ns(smoothed).abs_diff(ns(rtt));
        self.variation = Nanos::from_nanos(ns(self.variation) / 4 * 3 + distance / 4);
        self.smoothed = Some(Nanos::from_nanos(ns(smoothed) / 8 * 7 + ns(rtt) / 8));
    }

    fn timeout(&self) -> Option<Nanos> {
        let smoothed = self.smoothed?;
        Some(smoothed.saturating_add(Nanos::from_nanos(self.variation.as_nanos().saturating_mul(4))).max(LEAST_IDLE))
    }
}

/// An acknowledgement that has begun and not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    progress: AckProgress,
    newest: SentState,
    /// Bytes that the acknowledgement newly delivers.
    acked: Bytes,
}

/// An acknowledgement that has ended, and the driver's state before its end.
#[derive(Clone, Debug)]
struct Ended {
    driver: Driver,
    episode: Episode,
    progress: AckProgress,
    end: AckEnd,
    acked: Bytes,
}

/// Converts an instant to the time on a connection's clock.
pub(crate) fn since(origin: Instant, at: Instant) -> Nanos {
    Nanos::from_nanos(at.saturating_duration_since(origin).as_nanos().try_into().unwrap_or(u64::MAX))
}

/// A scheme on one path.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    driver: Driver,
    idle: IdleRule,
    mtu: Bytes,
    now: Nanos,
    last_sent: Nanos,
    inflight: Bytes,
    rtt: Rtt,
    episode: Episode,
    /// Number of the last transmission, and number of the newest delivered transmission.
    order: u64,
    newest: u64,
    /// Number of the last transmission when the last recovery began, and the time at which that recovery began;
    /// `None` before the first recovery.
    since: u64,
    entered: Option<Nanos>,
    /// Whether the losses of the last reduction were spurious; the reduction is undone when the next
    /// acknowledgement ends.
    undo: bool,
    timeouts: u32,
    open: Option<Open>,
    ended: Option<Ended>,
    /// The last acknowledgement, if its end was revoked because losses follow.
    reopened: Option<(AckProgress, AckEnd, Bytes)>,
    /// Bytes lost outside acknowledgements, which are reported with the next acknowledgement.
    lost: Bytes,
}

impl Flow {
    pub(crate) fn new(scheme: AnyScheme, idle: IdleRule, mtu: Bytes) -> Self {
        Self {
            driver: Driver::new(scheme),
            idle,
            mtu,
            now: Nanos::ZERO,
            last_sent: Nanos::ZERO,
            inflight: Bytes::ZERO,
            rtt: Rtt::default(),
            episode: Episode::default(),
            order: 0,
            newest: 0,
            since: 0,
            entered: None,
            undo: false,
            timeouts: 0,
            open: None,
            ended: None,
            reopened: None,
            lost: Bytes::ZERO,
        }
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    #[cfg(feature = "noq")]
    pub(crate) fn phase(&self) -> Phase {
        self.episode.phase()
    }

    pub(crate) fn srtt(&self) -> Option<Nanos> {
        self.rtt.smoothed
    }

    pub(crate) fn inflight(&self) -> Bytes {
        self.inflight
    }

    /// The window in force: the scheme's cwnd or, during a reduction, the window of the reduction; at least two
    /// packets.
    pub(crate) fn window(&self) -> Bytes {
        let window = self.episode.window().unwrap_or(self.driver.control().cwnd);
        window.max(self.mtu * 2)
    }

    #[cfg(feature = "noq")]
    pub(crate) fn control(&self) -> &narrows_cc::Control {
        self.driver.control()
    }

    pub(crate) fn set_mtu(&mut self, mtu: Bytes) {
        self.mtu = mtu;
    }

    /// Forgets the packets in flight, because they took another path.
    pub(crate) fn forget(&mut self) {
        self.settle();
        self.inflight = Bytes::ZERO;
    }

    /// Updates the clock, which never goes back, and returns its time.
    fn tick(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }

    /// Records a sent packet. Returns the state to keep for this packet.
    pub(crate) fn send(&mut self, now: Nanos, bytes: Bytes) -> SentState {
        self.settle();
        let now = self.tick(now);
        if self.inflight.is_zero() && self.order > 0 {
            // Either the pacer or the application may have caused the pause; the transport has reported which
            // one with the last acknowledgement.
            self.driver.idle_restart(now, now - self.last_sent, self.rtt.timeout(), self.idle);
        }
        let sent = self.driver.stamp(now, bytes, self.inflight);
        self.inflight += bytes;
        self.order = sent.order;
        self.last_sent = now;
        self.driver.sent(&record!(Sent { now, bytes, inflight: self.inflight }));
        self.episode.on_sent(bytes);
        self.note_usage(false);
        sent
    }

    /// Records that the window prevents the transport from sending.
    pub(crate) fn blocked(&mut self) {
        self.settle();
        self.note_usage(true);
    }

    fn note_usage(&mut self, limited: bool) {
        let position = SendPosition { acknowledged: self.newest, next: self.order + 1 };
        self.driver.note_usage(limited, self.inflight, position);
    }

    fn open(&mut self) -> &mut Open {
        let (driver, inflight) = (&mut self.driver, self.inflight);
        self.open.get_or_insert_with(|| Open {
            progress: driver.begin_ack(inflight),
            newest: SentState::default(),
            acked: Bytes::ZERO,
        })
    }

    /// Records a delivered packet; `sent` is `None` if the adapter has no record of the packet.
    pub(crate) fn deliver(&mut self, now: Nanos, bytes: Bytes, sent: Option<&SentState>) {
        if self.open.is_none() {
            self.settle();
        }
        let now = self.tick(now);
        self.open();
        let Some(open) = &mut self.open else { return };
        open.acked += bytes;
        match sent {
            Some(sent) => {
                self.driver.delivered_packet(now, &mut open.progress, bytes, sent);
                if sent.order > open.newest.order {
                    open.newest = *sent;
                }
            }
            None => self.driver.delivered_again(now, bytes),
        }
        self.inflight -= bytes;
    }

    /// Ends the acknowledgement. Losses may still follow if the acknowledgement leaves a gap. `inflight` is the
    /// transport's count of bytes in flight; `idle` means that the transport had nothing to send before the
    /// acknowledgement.
    pub(crate) fn end_ack(&mut self, now: Nanos, inflight: Option<Bytes>, idle: bool, gap: bool) {
        let now = self.tick(now);
        let Some(open) = self.open.take() else { return };
        let mut rtt = None;
        // RFC 9002 section 5.1 requires that 'the largest acknowledged packet number is newly acknowledged'. An
        // older packet gives no sample, because an earlier acknowledgement that was lost or reordered may have
        // covered it.
        if open.newest.order > self.newest {
            let sample = now - open.newest.sent_at;
            self.rtt.update(sample);
            rtt = Some(sample);
        }
        if open.newest.order > 0 {
            self.timeouts = 0;
        }
        self.inflight = inflight.unwrap_or(self.inflight);
        self.newest = self.newest.max(open.newest.order);
        if std::mem::take(&mut self.undo) {
            self.episode.undo(&mut self.driver, now, self.inflight);
        }
        if self.episode.phase() != Phase::Open && open.newest.order > self.since {
            self.episode.leave(&mut self.driver, now, self.inflight);
        }
        if idle {
            self.driver.set_app_limited(self.inflight);
        }
        let end = record!(AckEnd {
            now,
            lost: std::mem::take(&mut self.lost),
            rtt,
            inflight: self.inflight,
            phase: self.episode.phase(),
            srtt: self.rtt.smoothed,
            min_rtt: self.rtt.min,
        });
        self.ended = None;
        if gap {
            let driver = self.driver.clone();
            self.ended = Some(Ended { driver, episode: self.episode, progress: open.progress, end, acked: open.acked });
        }
        self.finish(&open.progress, &end, open.acked);
    }

    fn finish(&mut self, progress: &AckProgress, end: &AckEnd, acked: Bytes) {
        let good = end.lost.is_zero() && !acked.is_zero();
        self.episode.on_ack(acked, self.inflight, good, self.mtu);
        self.driver.finish_ack(progress, end);
    }

    /// Records the loss of a packet of which the adapter has a record.
    pub(crate) fn lose(&mut self, now: Nanos, number: u64, bytes: Bytes, sent: &SentState) {
        let now = self.tick(now);
        if let Some(ended) = self.ended.take_if(|ended| ended.end.now == now) {
            self.driver = ended.driver;
            self.episode = ended.episode;
            self.reopened = Some((ended.progress, ended.end, ended.acked));
        } else if self.reopened.is_none() {
            self.settle();
        }
        self.inflight -= bytes;
        self.driver.lost(now, &LostPacket { bytes, packet: number, sent }, self.inflight);
        match &mut self.reopened {
            Some((_, end, _)) => end.lost += bytes,
            None => self.lost += bytes,
        }
    }

    /// Records that packets were lost or marked; the newest of them was sent at `sent`. `persistent`: the
    /// losses are persistent congestion.
    pub(crate) fn congestion(&mut self, now: Nanos, sent: Nanos, cause: CongestionCause, persistent: bool) {
        let now = self.tick(now);
        // No acknowledgement has ended since the undo was requested: undo before the next reduction.
        if std::mem::take(&mut self.undo) {
            self.episode.undo(&mut self.driver, now, self.inflight);
        }
        let acked = self.reopened.map_or(Bytes::ZERO, |(_, _, acked)| acked);
        // RFC 9002 section 7.3.2: losses of packets sent before a recovery began belong to that recovery.
        if self.entered.is_none_or(|entered| sent > entered) && !persistent {
            self.enter(cause, acked);
        }
        self.settle();
        if persistent {
            self.time_out();
        }
        self.driver.refresh();
    }

    /// Records that all losses of the last reduction were spurious.
    #[cfg(feature = "noq")]
    pub(crate) fn spurious(&mut self) {
        self.settle();
        self.undo = true;
    }

    /// Ends an acknowledgement that the transport left open.
    fn settle(&mut self) {
        self.ended = None;
        if let Some((progress, mut end, acked)) = self.reopened.take() {
            end.inflight = self.inflight;
            end.phase = self.episode.phase();
            self.finish(&progress, &end, acked);
        }
        if self.open.is_some() {
            self.end_ack(self.now, None, false, false);
        }
    }

    fn enter(&mut self, cause: CongestionCause, acked: Bytes) {
        let flight = Flight::of_cwnd(&self.driver, self.mtu, self.inflight);
        (self.since, self.entered) = (self.order, Some(self.now));
        let reduces = self.episode.enter(&mut self.driver, self.now, cause, flight, acked);
        if reduces {
            let prr = Prr::begin(self.driver.control().cwnd, flight.size, PrrBound::Rfc9937);
            // Until the acknowledgement ends, allow one packet more than is in flight: it replaces a delivered packet.
            self.episode.reduce_by(prr, self.inflight + self.mtu);
        }
    }

    fn time_out(&mut self) {
        (self.since, self.entered) = (self.order, Some(self.now));
        self.timeouts = self.timeouts.saturating_add(1);
        let flight = Flight::of_cwnd(&self.driver, self.mtu, self.inflight);
        self.episode.time_out(&mut self.driver, self.now, flight, self.timeouts);
    }
}

#[cfg(all(test, feature = "noq"))]
mod tests;
