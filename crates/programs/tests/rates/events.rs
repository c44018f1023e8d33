//! Events of the contract in the form that the program receives, and the twin's decisions.

use narrows_cc::schemes::Brf;
use narrows_cc::{
    Ack, Advice, Bytes, CongestionControl, IdleRestart, IdleRule, Lost, Nanos, Phase, RateAdvice, RecoveryEntered,
    Setup, SpuriousLoss, Timeout, Value, record,
};

use crate::recording::Event;

pub const FALLBACK: u32 = 2;

/// State and control after an event.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    pub state: u32,
    /// cwnd in packets.
    pub cwnd: u64,
    pub rate: Option<u64>,
}

impl Decision {
    pub fn of(twin: &Brf, mss: u64) -> Self {
        let control = twin.control();
        let mut state = 0;
        twin.telemetry(&mut |name, value| {
            if let ("state", Value::State(name)) = (name, value) {
                state = ["waiting", "advised", "fallback"].iter().position(|own| *own == name).expect("a state");
            }
        });
        Self {
            state: state as u32,
            cwnd: control.cwnd.as_u64() / mss,
            rate: control.pacing_rate.map(|rate| rate.as_bytes_per_sec()),
        }
    }
}

/// `struct event` of `bpf/native/brf.c` without the twin's decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    now: u64,
    rate: u64,
    idle: u64,
    kind: u32,
    acked: u32,
    rtt: u32,
    srtt: u32,
    min_rtt: u32,
    rto: u32,
    in_flight: u32,
    delivered: u32,
    ca_state: u32,
    retransmits: u32,
    flags: u32,
    lost: u32,
}

const START: u32 = 1;
const ACKED: u32 = 2;
const ADVICE: u32 = 3;
const RECOVERING: u32 = 4;
const EXPIRED: u32 = 5;
const UNDONE: u32 = 6;
const RESTARTED: u32 = 7;
const LIMITED: u32 = 1;
const CREDITED: u32 = 2;

impl Wire {
    /// Whether the program sets its pacing rate at this event, rather than at the acknowledgement in progress.
    pub fn sets_rate(&self) -> bool {
        ![RECOVERING, UNDONE].contains(&self.kind)
    }

    pub fn bytes(&self, mss: u32, twin: &Decision) -> Vec<u8> {
        let longs = [self.now, self.rate, self.idle].map(u64::to_ne_bytes).concat();
        let words = [
            self.kind,
            mss,
            self.acked,
            self.rtt,
            self.srtt,
            self.min_rtt,
            self.rto,
            self.in_flight,
            self.delivered,
            self.ca_state,
            self.retransmits,
            self.flags,
            twin.cwnd as u32,
            self.lost,
        ];
        [longs, words.map(u32::to_ne_bytes).concat()].concat()
    }
}

/// Rounds events to packets and microseconds, for the twin and for the program.
#[derive(Debug)]
pub struct Rounding {
    mss: u64,
    initial: u32,
    now: u64,
    delivered: u32,
    lost: u32,
    srtt: u32,
    started: bool,
}

fn micros(time: Nanos) -> u32 {
    (time.as_nanos() / 1_000).max(1) as u32
}

fn nanos(us: u32) -> Nanos {
    Nanos::from_micros(us.into())
}

impl Rounding {
    pub fn new(setup: &Setup) -> Self {
        let mss = setup.mss.as_u64();
        let initial = (setup.initial_window.as_u64() / mss) as u32;
        Self { mss, initial, now: 0, delivered: 0, lost: 0, srtt: 0, started: false }
    }

    fn bytes(&self, packets: u32) -> Bytes {
        Bytes::new(self.mss * u64::from(packets))
    }

    fn begun(&self, bytes: Bytes) -> u32 {
        bytes.as_u64().div_ceil(self.mss) as u32
    }

    /// Gives the rounded event to the twin. Returns the event for the program, or `None` if the program does not
    /// receive such events.
    pub fn feed(&mut self, event: &Event, twin: &mut Brf) -> Option<Wire> {
        self.now = self.now.max(event.now().as_nanos() / 1_000).max(1);
        let now = Nanos::from_micros(self.now);
        let wire = Wire { now: self.now, srtt: self.srtt * 8, lost: self.lost, ..Wire::default() };
        Some(match *event {
            Event::Ack(ack) => self.ack(&ack, now, wire, twin),
            Event::Advice(e) => {
                let Advice::Rate(rate) = e.advice else { return None };
                twin.on_rate_advice(&record!(RateAdvice { now, ..e }));
                Wire { kind: ADVICE, rate: rate.as_bytes_per_sec(), ..wire }
            }
            Event::Lost(e) => {
                self.lost = (e.lost_total.as_u64() / self.mss) as u32;
                twin.on_lost(&record!(Lost { now, lost_total: self.bytes(self.lost), ..e }));
                return None;
            }
            Event::Left(_) => return None,
            Event::Entered(e) => {
                // The program reduces from its cwnd, as Linux does.
                twin.on_recovery_entered(&record!(RecoveryEntered { now, flight_size: twin.control().cwnd, ..e }));
                Wire { kind: RECOVERING, ..wire }
            }
            Event::Timeout(e) => {
                let in_flight = self.begun(e.inflight);
                // The flight size is cwnd in whole packets, as Linux counts it.
                let flight_size = Bytes::new(twin.control().cwnd.as_u64() / self.mss * self.mss);
                twin.on_timeout(&record!(Timeout { now, inflight: self.bytes(in_flight), flight_size, ..e }));
                Wire { kind: EXPIRED, in_flight, retransmits: e.consecutive.saturating_sub(1), ..wire }
            }
            Event::Spurious(e) => {
                twin.on_spurious_loss(&record!(SpuriousLoss { now, ..e }));
                Wire { kind: UNDONE, ..wire }
            }
            Event::Idle(e) => {
                let idle = u64::from(micros(e.idle)).min(self.now);
                let rto = e.rto.map(|rto| micros(rto).max(self.srtt + 1)).filter(|_| self.srtt > 0);
                let (idle_time, rule) = (Nanos::from_micros(idle), IdleRule::Linux);
                twin.on_idle_restart(&record!(IdleRestart { now, idle: idle_time, rto: rto.map(nanos), rule, ..e }));
                // With an infinite RTO, cwnd does not shrink after idle time.
                Wire { kind: RESTARTED, idle, rto: rto.unwrap_or(u32::MAX), ..wire }
            }
        })
    }

    fn ack(&mut self, ack: &Ack, now: Nanos, wire: Wire, twin: &mut Brf) -> Wire {
        let delivered = (ack.delivered.as_u64() / self.mss) as u32;
        let acked = delivered - self.delivered;
        self.delivered = delivered;
        let (rtt, srtt, min_rtt) = (ack.rtt.map(micros), ack.srtt.map(micros), ack.min_rtt.map(micros));
        self.srtt = srtt.unwrap_or(self.srtt);
        let in_flight = self.begun(ack.inflight);
        let own = record!(Ack {
            now,
            acked: self.bytes(acked),
            acked_cumulative: ack.acked_cumulative.map(|own| if own.is_zero() { own } else { self.bytes(acked) }),
            rtt: rtt.map(nanos),
            srtt: (self.srtt > 0).then(|| nanos(self.srtt)),
            min_rtt: min_rtt.map(nanos),
            inflight: self.bytes(in_flight),
            delivered: self.bytes(delivered),
            ..*ack
        });
        twin.on_ack(&own);
        let credited = !own.creditable().is_zero();
        let flags = u32::from(ack.cwnd_limited) * LIMITED + u32::from(credited) * CREDITED;
        let first = !std::mem::replace(&mut self.started, true);
        Wire {
            kind: if first { START } else { ACKED },
            acked: if first { self.initial } else { acked },
            rtt: rtt.unwrap_or(0),
            srtt: self.srtt * 8,
            min_rtt: min_rtt.unwrap_or(u32::MAX),
            in_flight,
            delivered,
            ca_state: match ack.phase {
                Phase::Open => 0,
                Phase::Recovery => 3,
                Phase::Loss => 4,
            },
            flags,
            ..wire
        }
    }
}
