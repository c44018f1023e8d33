//! Half-connection of sent data: congestion control state.

use narrows_cc::schemes::{AnyScheme, Entry};
use narrows_cc::{
    Bytes, Driver, Limit, Nanos, Pacer, Params, Phase, Random, Rate, ReceiverFeedback, SendPosition, Setup, record,
    tfrc,
};

use super::config::Config;
use super::limited::NotLimited;
use super::queue::Queue;
use super::ratio::AckRatio;
use super::records::Records;
use super::rtt::Rtt;
use crate::data_dropped::ReportedDrops;
use crate::{Ccid, Seq};

/// Zero-filled payload of backlogged applications. Longer than any datagram that fits into a UDP packet.
pub(super) static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A recovery episode, to detect that it was spurious.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Episode {
    /// First packet of the episode.
    pub(super) first: u64,
    /// Number of packets lost in the episode.
    pub(super) lost: u64,
    /// Number of these lost packets that arrived late.
    pub(super) late: u64,
}

/// The sender of a half-connection.
#[derive(Clone, Debug)]
pub(super) struct Half {
    pub(super) entry: &'static Entry,
    pub(super) ccid: Ccid,
    pub(super) driver: Driver,
    pub(super) queue: Queue,
    /// Datagram size of a backlogged application.
    pub(super) backlogged: Option<u16>,
    /// Whether the half-connection accepts no more data.
    pub(super) ended: bool,
    pub(super) records: Records,
    /// Payload that arrived after its records were dropped. It is not reported to the scheme.
    pub(super) forgotten_bytes: Bytes,
    pub(super) rtt: Rtt,
    /// CCID 2: packet from which on the next round-trip sample updates the smoothed time.
    pub(super) sampled_until: u64,
    pub(super) pacer: Pacer,
    /// Whether the pacer delays a packet.
    pub(super) pacing_blocked: bool,
    /// Whether a pacing timer fired late, so that the next packets make up for the delay.
    pub(super) pacing_late: bool,
    /// Departure time last counted in `Stats::paced_waits`.
    pub(super) counted_wait: Nanos,
    /// Size of a full datagram.
    pub(super) datagram: Bytes,
    pub(super) inflight: Bytes,
    /// Data packets in flight.
    pub(super) packets: u64,
    /// Payload sent so far.
    pub(super) offset: u64,
    pub(super) phase: Phase,
    /// Recovery ends when this packet or a later packet is acknowledged; losses of earlier packets belong to the same
    /// recovery.
    pub(super) recovery_point: u64,
    pub(super) episode: Episode,
    /// Records of lost packets from the first number on are kept, because the packets may arrive late. The second
    /// number becomes the first after one round trip, the third number after two.
    pub(super) keep: [u64; 3],
    /// Non-data packets since the last data packet.
    pub(super) ndp: u64,
    /// Whether an ECN mark began the recovery.
    pub(super) marked: bool,
    /// Consecutive timeouts.
    pub(super) timeouts: u32,
    /// Retransmission timeout, or CCID 3's no-feedback timer.
    pub(super) timer: Nanos,
    /// Time since which data is in flight and no valid packet has arrived.
    pub(super) unanswered_since: Option<Nanos>,
    /// Time since which no data is in flight.
    pub(super) idle_since: Nanos,
    pub(super) last_sent_at: Nanos,
    /// CCID 2: acknowledgement congestion control.
    pub(super) ratio: AckRatio,
    /// CCID 3: window counter and time of its last change.
    pub(super) counter: (u8, Nanos),
    /// Bounds on window and rate while the receiver is overloaded, and the packet number from which on an
    /// acknowledgement reviews these bounds.
    pub(super) cap: Option<(u64, Bytes, Rate)>,
    /// CCID 3: receive-buffer drops and Slow Receiver since the last report to the scheme.
    pub(super) unreported_drops: u64,
    pub(super) unreported_slow: bool,
    /// Drops reported by the receiver, each counted once.
    pub(super) reported_drops: ReportedDrops,
    /// Latest loss event rate.
    pub(super) loss_event_rate: f64,
    /// Sequence number of the packet with the latest report.
    pub(super) report_seq: Option<Seq>,
    /// Times at which the scheme, not the application, limited sending.
    pub(super) not_limited: NotLimited,
    /// Time of the last acknowledgement sent.
    pub(super) acknowledged_at: Nanos,
}

impl Half {
    pub(super) fn new(config: &Config, random: &Random, now: Nanos) -> Self {
        Self {
            entry: config.scheme,
            ccid: Ccid::of(config.scheme),
            driver: Driver::new(build(config.scheme, config.params.clone(), config, random)),
            queue: Queue::new(config.queue, config.overflow),
            backlogged: None,
            ended: false,
            records: Records::default(),
            forgotten_bytes: Bytes::ZERO,
            rtt: Rtt::new(config.ack_delay),
            sampled_until: 0,
            pacer: Pacer::default(),
            pacing_late: false,
            pacing_blocked: false,
            counted_wait: Nanos::MAX,
            datagram: Bytes::new(u64::from(config.datagram.max(1))),
            inflight: Bytes::ZERO,
            packets: 0,
            offset: 0,
            phase: Phase::Open,
            recovery_point: 0,
            episode: Episode::default(),
            keep: [0; 3],
            ndp: 0,
            marked: false,
            timeouts: 0,
            timer: Nanos::MAX,
            unanswered_since: None,
            idle_since: Nanos::MAX,
            last_sent_at: now,
            ratio: AckRatio::default(),
            counter: (0, now),
            cap: None,
            unreported_drops: 0,
            unreported_slow: false,
            reported_drops: ReportedDrops::default(),
            loss_event_rate: 0.0,
            report_seq: None,
            not_limited: NotLimited::default(),
            acknowledged_at: now,
        }
    }

    /// Switches to another scheme, before any data was sent.
    pub(super) fn replace(&mut self, entry: &'static Entry, config: &Config, random: &Random) {
        self.entry = entry;
        self.ccid = Ccid::of(entry);
        self.driver.replace(build(entry, Params::defaults(entry.info.params), config, random));
    }

    /// Drops settled records. Lost packets of the last two round trips stay, because they may arrive late.
    #[inline]
    pub(super) fn drop_settled(&mut self) {
        let keep = if self.phase == Phase::Open { self.keep[0] } else { self.keep[0].min(self.episode.first) };
        self.records.drop_settled(keep);
    }

    /// Sets or removes the bound on the scheme's control.
    fn set_cap(&mut self, cap: Option<(u64, Bytes, Rate)>) {
        self.cap = cap;
        self.driver.set_limit(cap.map_or(Limit::None, |(_, window, rate)| Limit::Capped(window, rate)));
        self.driver.refresh();
    }

    /// Slow Receiver: window and rate do not grow for a round trip (RFC 4340 section 11.6).
    pub(super) fn on_slow_receiver(&mut self, now: Nanos) {
        if self.ccid == Ccid::Tfrc {
            self.unreported_slow = true;
            return;
        }
        self.cap_control(Bytes::ZERO);
        if self.ccid == Ccid::TcpLike {
            self.report_overload(now, 0, true);
        }
    }

    /// Caps window and rate for a round trip at their current values minus `reduction` per round trip, but at
    /// least one datagram.
    pub(super) fn cap_control(&mut self, reduction: Bytes) {
        let rtt = self.rtt.or_default();
        let least = self.datagram;
        let control = *self.driver.control();
        let window = (control.cwnd - reduction).max(least);
        let rate = control.pacing_rate.map_or(Rate::MAX, |rate| (rate - reduction.per(rtt)).max(least.per(rtt)));
        self.set_cap(Some((self.records.end(), window, rate)));
    }

    /// Doubles the bounds after a round trip without overload; removes the bounds when they exceed the scheme's window
    /// and rate.
    #[inline]
    pub(super) fn relax_cap(&mut self) {
        if let Some((until, window, rate)) = self.cap
            && self.records.known() > until
        {
            let scheme = self.driver.scheme().control();
            let (window, rate) = (window.mul_f64(2.0), rate.mul_f64(2.0));
            let enough = window >= scheme.cwnd && scheme.pacing_rate.is_none_or(|own| rate >= own);
            self.set_cap((!enough).then(|| (self.records.end(), window, rate)));
        }
    }

    /// Reports receive-buffer drops and Slow Receiver to the scheme.
    pub(super) fn report_overload(&mut self, now: Nanos, dropped: u64, slow: bool) {
        self.driver.receiver_feedback(&record!(ReceiverFeedback { dropped, slow, now }));
    }

    /// Payload of the next datagram, if any.
    #[inline]
    pub(super) fn next_size(&self) -> Option<u16> {
        match self.queue.front() {
            Some(data) => Some(data.len() as u16),
            None if self.ended => None,
            None => self.backlogged,
        }
    }

    /// Part of the congestion window in use. CCID 2 counts packets, each as a full datagram.
    #[inline]
    pub(super) fn window_used(&self) -> Bytes {
        if self.ccid == Ccid::TcpLike { self.datagram * self.packets } else { self.inflight }
    }

    /// Whether the congestion window has room for `len`. One packet may always be in flight.
    #[inline]
    pub(super) fn has_room(&self, len: Bytes) -> bool {
        // RFC 4341 section 5 counts packets of any size.
        let len = if self.ccid == Ccid::TcpLike { self.datagram } else { len };
        let used = self.window_used();
        used + len <= self.driver.control().cwnd || used.is_zero()
    }

    /// Marks samples as application-limited if no data is queued and the window has room.
    #[inline]
    pub(super) fn check_app_limited(&mut self) {
        if self.next_size().is_none() && self.window_used() < self.driver.control().cwnd {
            self.driver.set_app_limited(self.inflight);
        }
    }

    /// Reports window usage to the driver.
    #[inline]
    pub(super) fn note_usage(&mut self, limited: bool) {
        let position = SendPosition { acknowledged: self.records.known(), next: self.records.end() };
        self.driver.note_usage(limited, self.window_used(), position);
    }

    /// Timer interval. CCID 3's no-feedback timer is max(4R, 2s/X), and 2 s before the first sample (RFC 5348
    /// sections 4.2 and 4.3), but at least [`tfrc::LEAST_NO_FEEDBACK`].
    pub(super) fn timeout(&self, datagram: u16) -> Nanos {
        if self.ccid != Ccid::Tfrc {
            return self.rtt.rto();
        }
        if self.rtt.srtt.is_zero() {
            return Nanos::from_secs(2);
        }
        let two = Bytes::new(2 * u64::from(datagram));
        let slow = self.driver.control().pacing_rate.map_or(Nanos::ZERO, |rate| rate.time_for(two));
        (self.rtt.srtt * 4).max(tfrc::LEAST_NO_FEEDBACK).max(slow).min(super::rtt::LONGEST)
    }
}

fn build(entry: &'static Entry, params: Params, config: &Config, random: &Random) -> AnyScheme {
    let mss = Bytes::new(u64::from(config.datagram.max(1)));
    entry.build(&Setup::new(mss, params, random.clone()).with_window(config.initial_window.max(1)))
}
