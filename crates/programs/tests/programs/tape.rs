//! Events for BBR's programs, and the twin's decisions on them, in the kernel's units.

use narrows_cc::bbr_v1::{BbrCore, Policy, State};
use narrows_cc::{
    Ack, Bytes, CongestionCause, CongestionControl, IdleRestart, Lost, Nanos, Phase, RateSample, RecoveryEntered,
    RecoveryLeft, Setup, SpuriousLoss, Timeout, record,
};

use super::deferred::{self, Deferred};
use crate::recording::Event;

/// A twin whose internal state can be compared.
pub trait Twin {
    /// The program acts on losses and on changes of the kernel's state at the acknowledgement after them.
    const DEFERS: bool = false;

    /// The twin's current decisions.
    fn decisions(&self) -> Decisions;
}

/// State and control after an event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decisions {
    pub mode: u32,
    pub phase: u32,
    pub since_us: u64,
    pub gain: f64,
    pub bandwidth: u64,
    pub min_rtt_us: u32,
    pub rate: u64,
    pub cwnd: u64,
    pub cwnd_gain: f64,
    /// The twin's random draws at this event, if any.
    pub drawn: [u32; 2],
    /// BBR v3: cwnd in bytes, bounds and signals, as in `bpf/native/v3.h`.
    pub bytes: u64,
    pub bounds: [u64; 3],
    pub signals: u32,
}

impl<P: Policy> Twin for BbrCore<P> {
    fn decisions(&self) -> Decisions {
        let model = self.model();
        let (mode, phase, since) = match model.state() {
            State::Startup => (0, 0, Nanos::ZERO),
            State::Drain => (1, 0, Nanos::ZERO),
            State::ProbeBw { phase, since } => (2, u32::from(phase), since),
            State::ProbeRtt(_) => (3, 0, Nanos::ZERO),
        };
        Decisions {
            mode,
            phase,
            since_us: since.as_nanos() / 1_000,
            gain: self.policy().pacing_gain(model),
            bandwidth: model.max_bw().as_bytes_per_sec(),
            min_rtt_us: model.min_rtt().map_or(u32::MAX, |rtt| (rtt.as_nanos() / 1_000) as u32),
            rate: model.pacing_rate().as_bytes_per_sec(),
            cwnd: model.cwnd().as_u64() / model.settings().mss.as_u64(),
            cwnd_gain: self.policy().cwnd_gain(model),
            drawn: [if mode == 2 { (8 - phase) % 8 } else { 0 }; 2],
            ..Decisions::default()
        }
    }
}

/// `struct event` of `bpf/native/replay.c` without the twin's decisions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    pub now: u64,
    pub kind: u32,
    pub acked: u32,
    pub lost: u32,
    pub prior_in_flight: u32,
    pub in_flight: u32,
    pub delivered: u32,
    pub lost_total: u32,
    pub sample_delivered: u32,
    pub prior_delivered: u32,
    pub interval: u32,
    pub rtt: u32,
    pub srtt: u32,
    pub flags: u32,
    pub ca_state: u32,
}

const START: u32 = 1;
const ACKED: u32 = 2;
const RECOVERING: u32 = 3;
const EXPIRED: u32 = 4;
const UNDONE: u32 = 5;
const RESTARTED: u32 = 6;
const LIMITED: u32 = 1;
const DELAYED: u32 = 2;
const SAMPLED: u32 = 4;
const FULL: u32 = 8;
const SACKED: u32 = 256;

/// Rounds events to packets and microseconds, for the twin and for the program.
#[derive(Debug)]
pub struct Rounding {
    mss: u64,
    initial: u32,
    now: u64,
    delivered: u32,
    lost_total: u32,
    started: bool,
    only_marked: bool,
    sack: bool,
    deferred: Deferred,
}

impl Rounding {
    pub fn new(setup: &Setup) -> Self {
        let mss = setup.mss.as_u64();
        let initial = (setup.initial_window.as_u64() / mss) as u32;
        Self {
            mss,
            initial,
            now: 0,
            delivered: 0,
            lost_total: 0,
            started: false,
            only_marked: false,
            sack: setup.sack,
            deferred: Deferred::default(),
        }
    }

    fn bytes(&self, packets: u32) -> Bytes {
        Bytes::new(self.mss * u64::from(packets))
    }

    fn whole(&self, bytes: Bytes) -> u32 {
        (bytes.as_u64() / self.mss) as u32
    }

    fn begun(&self, bytes: Bytes) -> u32 {
        bytes.as_u64().div_ceil(self.mss) as u32
    }

    /// Gives the rounded event to the twin. Returns the event for the program, or `None` if the program does not
    /// receive such events.
    pub fn feed<S: CongestionControl + Twin>(&mut self, event: &Event, twin: &mut S) -> Option<Wire> {
        self.now = self.now.max(event.now().as_nanos() / 1_000);
        let now = Nanos::from_micros(self.now);
        let wire = Wire { now: self.now, rtt: u32::MAX, delivered: self.delivered, ..Wire::default() };
        let delivered = self.bytes(self.delivered);
        let wire = match *event {
            Event::Ack(ack) => return Some(self.ack(&ack, now, twin)),
            Event::Advice(_) => return None,
            Event::Lost(e) => {
                self.lost_total = self.whole(e.lost_total);
                self.only_marked = false;
                if S::DEFERS {
                    return None;
                }
                twin.on_lost(&record!(Lost { now, lost_total: self.bytes(self.lost_total), ..e }));
                return None;
            }
            Event::Left(_) | Event::Entered(_) | Event::Spurious(_) if S::DEFERS => {
                self.deferred.states.push(*event);
                return None;
            }
            Event::Left(e) => {
                self.only_marked = false;
                twin.on_recovery_left(&record!(RecoveryLeft { now, delivered, ..e }));
                return None;
            }
            Event::Entered(e) => {
                self.only_marked = e.cause == CongestionCause::Ecn;
                twin.on_recovery_entered(&record!(RecoveryEntered { now, delivered, ..e }));
                Wire { kind: RECOVERING, ..wire }
            }
            Event::Timeout(e) => {
                self.only_marked = false;
                let in_flight = self.begun(e.inflight);
                let (_, flags) = self.catch_up(now, twin);
                twin.on_timeout(&record!(Timeout { now, inflight: self.bytes(in_flight), delivered, ..e }));
                self.deferred.flights.note(self.delivered, self.lost_total, in_flight, 0);
                Wire { kind: EXPIRED, in_flight, flags, ..wire }
            }
            Event::Spurious(e) => {
                twin.on_spurious_loss(&record!(SpuriousLoss { now, delivered, ..e }));
                Wire { kind: UNDONE, ..wire }
            }
            Event::Idle(e) => {
                twin.on_idle_restart(&record!(IdleRestart { now, delivered, ..e }));
                Wire { kind: RESTARTED, flags: u32::from(e.app_limited) * LIMITED, ..wire }
            }
        };
        Some(Wire { lost_total: self.lost_total, ..wire })
    }

    fn ack<S: CongestionControl + Twin>(&mut self, ack: &Ack, now: Nanos, twin: &mut S) -> Wire {
        let delivered = self.whole(ack.delivered);
        let acked = delivered - self.delivered;
        self.delivered = delivered;
        let micros = |time: Nanos| (time.as_nanos() / 1_000).max(1) as u32;
        let (rtt, srtt) = (ack.rtt.map(micros), ack.srtt.map(micros));
        let (mut lost, before, after) =
            (self.begun(ack.lost), self.begun(ack.inflight_before), self.begun(ack.inflight));
        let mut wire = Wire {
            now: self.now,
            kind: if self.started { ACKED } else { START },
            acked,
            lost,
            prior_in_flight: before,
            in_flight: after,
            delivered,
            lost_total: self.lost_total,
            rtt: rtt.unwrap_or(u32::MAX),
            srtt: srtt.unwrap_or(0) * 8,
            ca_state: match ack.phase {
                Phase::Open => 0,
                Phase::Recovery if self.only_marked => 2,
                Phase::Recovery => 3,
                Phase::Loss => 4,
            },
            ..Wire::default()
        };
        let rate = ack.rate.map(|sample| {
            wire.prior_delivered = self.whole(sample.prior_delivered);
            wire.sample_delivered = delivered - wire.prior_delivered;
            wire.interval = micros(sample.interval);
            wire.flags = SAMPLED | (u32::from(sample.app_limited) * LIMITED);
            let (bytes, interval) = (self.bytes(wire.sample_delivered), Nanos::from_micros(wire.interval.into()));
            record!(RateSample {
                rate: bytes.per(interval),
                delivered: bytes,
                interval,
                prior_delivered: self.bytes(wire.prior_delivered),
                ..sample
            })
        });
        let mut rate = rate;
        if S::DEFERS {
            self.deferred.flights.sent(before);
            if let Some(sample) = &mut rate {
                let limited = sample.app_limited;
                self.deferred.newest = self.deferred.flights.newest(wire.prior_delivered, limited);
                sample.tx_in_flight = self.bytes(self.deferred.newest.in_flight);
                sample.lost = self.bytes(self.lost_total - self.deferred.newest.lost);
            }
            let (newly, flags) = self.catch_up(now, twin);
            lost = newly;
            wire.lost = lost;
            wire.flags |= flags | (u32::from(ack.cwnd_full) * FULL);
        }
        let own = record!(Ack {
            now,
            acked: self.bytes(acked),
            acked_cumulative: ack.acked_cumulative.map(|_| self.bytes(acked)),
            lost: self.bytes(lost),
            rtt: rtt.map(|us| Nanos::from_micros(us.into())),
            srtt: srtt.map(|us| Nanos::from_micros(us.into())),
            min_rtt: ack.min_rtt.map(|rtt| Nanos::from_micros(micros(rtt).into())),
            rate,
            inflight_before: self.bytes(before),
            inflight: self.bytes(after),
            delivered: self.bytes(delivered),
            ..*ack
        });
        // `rs->is_ack_delayed`, by the rule of the core: the acknowledgement delivers one packet that is not of full
        // size, with no other packet in flight.
        let lone = own.rate.is_some_and(|sample| sample.delivered == own.acked);
        let delayed = lone && acked == 0 && own.phase == Phase::Open && own.ce.is_zero();
        wire.flags |= u32::from(delayed) * DELAYED;
        if !self.started {
            assert!(acked == 0 && own.rate.is_none(), "the first event is the end of the handshake");
            wire.acked = self.initial;
            wire.flags |= u32::from(self.sack) * SACKED;
            self.started = true;
        }
        twin.on_ack(&own);
        self.deferred.flights.note(delivered, self.lost_total, after, before);
        wire
    }

    /// Gives the twin the losses and changes of state that it has not seen yet, in the kernel's order. Returns the
    /// number of losses, and the changes as flags of the event.
    fn catch_up<S: CongestionControl>(&mut self, now: Nanos, twin: &mut S) -> (u32, u32) {
        let newest = self.deferred.newest;
        let lost = self.lost_total - self.deferred.lost;
        for packet in 1..=lost {
            twin.on_lost(&record!(Lost {
                now,
                bytes: self.bytes(1),
                packet: self.deferred.packet + u64::from(packet),
                sent_at: now,
                tx_in_flight: self.bytes(newest.in_flight),
                lost_at_send: self.bytes(newest.lost),
                delivered_at_send: self.bytes(newest.delivered),
                app_limited: newest.app_limited,
                lost_total: self.bytes(self.deferred.lost + packet),
                inflight: Bytes::ZERO,
            }));
        }
        self.deferred.lost = self.lost_total;
        // The losses of one acknowledgement form one range of packets; a gap separates this range from the next.
        self.deferred.packet += u64::from(lost) + 2;
        let delivered = self.bytes(self.delivered);
        let mut flags = 0;
        for event in std::mem::take(&mut self.deferred.states) {
            match event {
                Event::Left(e) => {
                    twin.on_recovery_left(&record!(RecoveryLeft { now, delivered, ..e }));
                    flags = flags & deferred::NEEDLESS | deferred::OPENED;
                }
                Event::Entered(e) => {
                    let marked = e.cause == CongestionCause::Ecn;
                    twin.on_recovery_entered(&record!(RecoveryEntered { now, delivered, ..e }));
                    flags |= if marked { deferred::MARKING } else { deferred::LOSING };
                }
                Event::Spurious(e) => {
                    twin.on_spurious_loss(&record!(SpuriousLoss { now, delivered, ..e }));
                    flags = deferred::NEEDLESS | deferred::OPENED;
                }
                _ => {}
            }
        }
        (lost, flags)
    }
}
