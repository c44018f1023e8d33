//! The half-connection of the data sent here: what its congestion control needs.

use narrows_cc::schemes::{AnyScheme, Entry};
use narrows_cc::{
    Bytes, Driver, Limit, Nanos, Pacer, Params, Phase, Random, Rate, ReceiverFeedback, SendPosition, Setup,
    tfrc,
};

use super::config::Config;
use super::limited::NotLimited;
use super::queue::Queue;
use super::ratio::AckRatio;
use super::records::Records;
use super::rtt::Rtt;
use crate::data_dropped::ReportedDrops as Heard;
use crate::{Ccid, Seq};

/// The most payload a datagram can have at all: what the length of a UDP packet leaves, headers and options included.
pub(super) static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Sending.
#[derive(Clone, Debug)]
pub(super) struct Half {
    pub(super) entry: &'static Entry,
    pub(super) ccid: Ccid,
    pub(super) driver: Driver,
    pub(super) queue: Queue,
    /// The size of the datagrams of an application that always has one.
    pub(super) backlogged: Option<u16>,
    /// No more data is accepted.
    pub(super) ended: bool,
    pub(super) records: Records,
    pub(super) rtt: Rtt,
    /// CCID 2 takes the next sample of it from this packet on.
    pub(super) sampled_until: u64,
    pub(super) pacer: Pacer,
    /// The pacer holds a packet back.
    pub(super) pacing_blocked: bool,
    /// It held one longer than it wanted, and what came of that is not made up for.
    pub(super) late: bool,
    /// The departure time last counted as a wait.
    pub(super) waited_for: Nanos,
    /// The size of full datagrams.
    pub(super) datagram: Bytes,
    pub(super) inflight: Bytes,
    /// Packets with data outstanding.
    pub(super) packets: u64,
    /// Payload sent so far.
    pub(super) offset: u64,
    pub(super) phase: Phase,
    /// Recovery is over when a packet from here on is acknowledged; losses before it are its own.
    pub(super) recovery_point: u64,
    /// The first packet lost in it, how many were, and how many of them arrived after all.
    pub(super) episode: (u64, u64, u64),
    /// Lost packets from the first of these on are remembered, for they may be only late; then the next such bounds, a round trip apart.
    pub(super) keep: [u64; 3],
    /// Packets without data since the last one with data.
    pub(super) ndp: u64,
    /// It was entered for a mark.
    pub(super) marked: bool,
    /// Timeouts in a row.
    pub(super) timeouts: u32,
    /// The window's timeout, or the no-feedback timer.
    pub(super) timer: Nanos,
    /// Since when an answer is overdue from a peer that has said nothing since.
    pub(super) waiting: Option<Nanos>,
    pub(super) quiet_since: Nanos,
    pub(super) last_sent_at: Nanos,
    /// CCID 2's control of acknowledgements.
    pub(super) ratio: AckRatio,
    /// CCID 3's window counter and when it last grew.
    pub(super) counter: (u8, Nanos),
    /// For want of room at the receiver, no more than this until a packet from here on is acknowledged: window, rate.
    pub(super) cap: Option<(u64, Bytes, Rate)>,
    /// What was told of that since the last report of CCID 3: packets dropped, trouble.
    pub(super) told_dropped: u64,
    pub(super) told_slow: bool,
    /// Drops that have been heard of.
    pub(super) heard: Heard,
    /// The loss event rate last reported.
    pub(super) loss_event_rate: f64,
    /// The packet that brought the last report.
    pub(super) reported_in: Option<Seq>,
    /// When its scheme held the sender back: what reports tell of may have been limited by want of data instead.
    pub(super) not_limited: NotLimited,
    /// When acknowledgements were last acknowledged.
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
            rtt: Rtt::new(config.ack_delay),
            sampled_until: 0,
            pacer: Pacer::default(),
            late: false,
            pacing_blocked: false,
            waited_for: Nanos::MAX,
            datagram: Bytes::new(u64::from(config.datagram.max(1))),
            inflight: Bytes::ZERO,
            packets: 0,
            offset: 0,
            phase: Phase::Open,
            recovery_point: 0,
            episode: (0, 0, 0),
            keep: [0; 3],
            ndp: 0,
            marked: false,
            timeouts: 0,
            timer: Nanos::MAX,
            waiting: None,
            quiet_since: Nanos::MAX,
            last_sent_at: now,
            ratio: AckRatio::default(),
            counter: (0, now),
            cap: None,
            told_dropped: 0,
            told_slow: false,
            heard: Heard::default(),
            loss_event_rate: 0.0,
            reported_in: None,
            not_limited: NotLimited::default(),
            acknowledged_at: now,
        }
    }

    /// Another scheme takes over, before any data was sent.
    pub(super) fn replace(&mut self, entry: &'static Entry, config: &Config, random: &Random) {
        self.entry = entry;
        self.ccid = Ccid::of(entry);
        self.driver.replace(build(entry, Params::defaults(entry.info.params), config, random));
    }

    /// Forgets packets of which nothing more is to be heard: the lost ones of the last two round trips may be late.
    #[inline]
    pub(super) fn forget(&mut self) {
        let keep = if self.phase == Phase::Open { self.keep[0] } else { self.keep[0].min(self.episode.0) };
        self.records.forget(keep);
    }

    /// Puts a bound on what the scheme asks for, or takes it away.
    fn set_cap(&mut self, cap: Option<(u64, Bytes, Rate)>) {
        self.cap = cap;
        self.driver.set_limit(cap.map_or(Limit::None, |(_, window, rate)| Limit::Capped(window, rate)));
        self.driver.refresh();
    }

    /// The receiver has trouble keeping up: for a round trip nothing grows (RFC 4340 section 11.6).
    pub(super) fn on_slow(&mut self, now: Nanos) {
        if self.ccid == Ccid::Tfrc {
            self.told_slow = true;
            return;
        }
        self.restrain(Bytes::ZERO);
        if self.ccid == Ccid::TcpLike {
            self.tell_restraint(now, 0, true);
        }
    }

    /// For a round trip window and rate stay where they are, less so much per round trip; one datagram remains.
    pub(super) fn restrain(&mut self, less: Bytes) {
        let rtt = self.rtt.or_default();
        let least = self.datagram;
        let control = *self.driver.control();
        let window = (control.cwnd - less).max(least);
        let rate = control.pacing_rate.map_or(Rate::MAX, |rate| (rate - less.per(rtt)).max(least.per(rtt)));
        self.set_cap(Some((self.records.end(), window, rate)));
    }

    /// After a round trip without such news twice as much may be sent, until that is as much as the scheme asks for.
    #[inline]
    pub(super) fn let_go(&mut self) {
        if let Some((until, window, rate)) = self.cap
            && self.records.known() > until
        {
            let scheme = self.driver.scheme().control();
            let (window, rate) = (window.mul_f64(2.0), rate.mul_f64(2.0));
            let enough = window >= scheme.cwnd && scheme.pacing_rate.is_none_or(|own| rate >= own);
            self.set_cap((!enough).then(|| (self.records.end(), window, rate)));
        }
    }

    /// The scheme hears that its receiver has no room, or has trouble keeping up.
    pub(super) fn tell_restraint(&mut self, now: Nanos, dropped: u64, slow: bool) {
        self.driver.receiver_feedback(&ReceiverFeedback { dropped, slow, ..ReceiverFeedback::empty(now) });
    }

    /// Payload of the datagram that is next, if there is one.
    #[inline]
    pub(super) fn next_size(&self) -> Option<u16> {
        match self.queue.front() {
            Some(data) => Some(data.len() as u16),
            None if self.ended => None,
            None => self.backlogged,
        }
    }

    /// What of the window is in use: CCID 2's is of packets, of which each counts as a full one.
    #[inline]
    pub(super) fn used(&self) -> Bytes {
        if self.ccid == Ccid::TcpLike { self.datagram * self.packets } else { self.inflight }
    }

    /// Whether the congestion window has room. One packet always may be in flight.
    #[inline]
    pub(super) fn has_room(&self, len: Bytes) -> bool {
        // RFC 4341 section 5 counts packets, whatever their size: as many as full ones would be allowed.
        let len = if self.ccid == Ccid::TcpLike { self.datagram } else { len };
        let used = self.used();
        used + len <= self.driver.control().cwnd || used.is_zero()
    }

    /// Marks samples as application-limited if nothing but want of data keeps it from sending.
    #[inline]
    pub(super) fn check_app_limited(&mut self) {
        if self.next_size().is_none() && self.used() < self.driver.control().cwnd {
            self.driver.set_app_limited(self.inflight);
        }
    }

    /// Follows how much of the window is used.
    #[inline]
    pub(super) fn note_usage(&mut self, limited: bool) {
        let position = SendPosition { acknowledged: self.records.known(), next: self.records.end() };
        self.driver.note_usage(limited, self.used(), position);
    }

    /// How long the timer runs: CCID 3's no-feedback timer is max(4R, 2s/X), 2 s before a sample (RFC 5348 sections 4.2
    /// and 4.3), but no less than [`tfrc::LEAST_NO_FEEDBACK`].
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
    entry.build(&Setup {
        mss,
        initial_window: mss * u64::from(config.initial_window.max(1)),
        max_burst: Bytes::MAX,
        sack: true,
        random: random.clone(),
        params,
    })
}
