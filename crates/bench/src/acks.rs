//! Cost of one acknowledgement in a scheme: two packets leave, an acknowledgement of both arrives, and the scheme's
//! control is read after each event, as in a transport. Every thousandth acknowledgement reports a loss, which begins a
//! recovery of one round trip. This file reads no clock. The criterion bench of `narrows-cc` includes this file, so
//! that both measure the same work.

use std::collections::VecDeque;

use narrows_cc::schemes::Entry;
use narrows_cc::{
    Ack, Bytes, CongestionCause, Lost, Nanos, Params, Phase, Random, RateSampler, RecoveryEntered, RecoveryLeft,
    RoundCounter, Sent, SentState, Setup, record,
};

/// Packet size.
pub const MSS: Bytes = Bytes::new(1448);
/// Packets in flight.
pub const WINDOW: usize = 100;
/// Time between acknowledgements. The number of acknowledgements per round trip is half the packets of the window.
pub const GAP: Nanos = Nanos::from_micros(240);
/// Acknowledgements of one connection.
pub const ACKS: usize = 10_000;
/// Acknowledgements between losses.
pub const LOSS_EVERY: usize = 1_000;

/// A transport event for a scheme.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A packet was sent.
    Sent(Sent),
    /// An acknowledgement was processed.
    Ack(Ack),
    /// A packet was lost.
    Lost(Lost),
    /// Recovery began.
    Entered(RecoveryEntered),
    /// Recovery ended.
    Left(RecoveryLeft),
}

/// A path with a full window and a slightly varying delivery rate.
struct Path {
    now: Nanos,
    sampler: RateSampler,
    rounds: RoundCounter,
    flight: VecDeque<(u64, SentState)>,
    sent: u64,
    /// Number of packets that were sent before the current recovery began; `None` outside recovery.
    recovering_until: Option<u64>,
    srtt: Nanos,
    min_rtt: Nanos,
    events: Vec<Event>,
}

impl Path {
    fn inflight(&self) -> Bytes {
        MSS * self.flight.len() as u64
    }

    fn send(&mut self) {
        let snapshot = self.sampler.on_sent(self.now, MSS, self.inflight());
        self.flight.push_back((self.sent, snapshot));
        self.sent += 1;
        let sent = record!(Sent { now: self.now, bytes: MSS, inflight: self.inflight(), retransmission: false });
        self.events.push(Event::Sent(sent));
    }

    fn lose(&mut self) {
        let Some((number, snapshot)) = self.flight.pop_front() else { return };
        self.sampler.on_lost(MSS);
        self.events.push(Event::Lost(record!(Lost {
            now: self.now,
            bytes: MSS,
            packet: number,
            sent_at: snapshot.sent_at,
            tx_in_flight: snapshot.tx_in_flight,
            lost_at_send: snapshot.lost,
            delivered_at_send: snapshot.delivered,
            app_limited: snapshot.app_limited,
            lost_total: self.sampler.lost(),
            inflight: self.inflight(),
        })));
        self.recovering_until = Some(self.sent);
        self.events.push(Event::Entered(record!(RecoveryEntered {
            now: self.now,
            cause: CongestionCause::Loss,
            flight_size: self.inflight() + MSS,
            inflight: self.inflight(),
            acked: MSS * 2,
            delivered: self.sampler.delivered(),
        })));
    }

    fn acknowledge(&mut self, lost: Bytes) {
        let before = self.inflight() + lost;
        let mut newest = SentState::default();
        let (mut number, mut sampled) = (0, None);
        for (order, snapshot) in self.flight.drain(..2) {
            self.sampler.on_delivered(self.now, MSS, &snapshot, &mut sampled);
            (number, newest) = (order, snapshot);
        }
        let rtt = self.now - newest.sent_at;
        self.srtt = if self.srtt.is_zero() { rtt } else { (self.srtt * 7 + rtt) / 8 };
        self.min_rtt = if self.min_rtt.is_zero() { rtt } else { self.min_rtt.min(rtt) };
        let delivered = self.sampler.delivered();
        let round_start = self.rounds.on_ack(newest.delivered, delivered);
        if self.recovering_until.is_some_and(|until| number >= until) {
            self.recovering_until = None;
            let left = record!(RecoveryLeft { now: self.now, inflight: self.inflight(), delivered });
            self.events.push(Event::Left(left));
        }
        self.events.push(Event::Ack(record!(Ack {
            now: self.now,
            acked: MSS * 2,
            acked_cumulative: Some(MSS * 2),
            lost,
            rtt: Some(rtt),
            rate: self.sampler.sample(sampled.as_ref(), Some(self.min_rtt)),
            inflight_before: before,
            inflight: self.inflight(),
            ce: Bytes::ZERO,
            delivered,
            cwnd_limited: true,
            cwnd_full: true,
            phase: if self.recovering_until.is_some() { Phase::Recovery } else { Phase::Open },
            round_start,
            round: self.rounds.count(),
            srtt: Some(self.srtt),
            min_rtt: Some(self.min_rtt),
        })));
    }
}

/// Events of one connection, identical for every scheme.
pub fn events() -> Vec<Event> {
    let mut random = Random::stream(1, "bench", 0);
    let mut path = Path {
        now: Nanos::from_millis(1),
        sampler: RateSampler::default(),
        rounds: RoundCounter::default(),
        flight: VecDeque::new(),
        sent: 0,
        recovering_until: None,
        srtt: Nanos::ZERO,
        min_rtt: Nanos::ZERO,
        events: Vec::new(),
    };
    for n in 0..ACKS {
        while path.flight.len() < WINDOW {
            path.send();
        }
        path.now += GAP + Nanos::from_nanos(random.below(20_000));
        let loses = n % LOSS_EVERY == LOSS_EVERY - 1;
        if loses {
            path.lose();
        }
        path.acknowledge(if loses { MSS } else { Bytes::ZERO });
    }
    path.events
}

/// Reports all events to `connections` new instances of a scheme with default parameters. The returned sum
/// only prevents the compiler from removing the work.
pub fn replay(entry: &Entry, connections: usize, events: &[Event]) -> u64 {
    let setup = Setup::new(MSS, Params::defaults(entry.info.params), Random::stream(1, "scheme", 0));
    let mut sum = 0_u64;
    for _ in 0..connections {
        let mut scheme = entry.build(&setup);
        let mut control = scheme.control();
        for event in events {
            match event {
                Event::Sent(event) => scheme.sent(event, &mut control),
                Event::Ack(event) => scheme.acknowledged(event, &mut control),
                Event::Lost(event) => scheme.on_lost(event),
                Event::Entered(event) => scheme.on_recovery_entered(event),
                Event::Left(event) => scheme.on_recovery_left(event),
            }
            if !matches!(event, Event::Sent(_) | Event::Ack(_)) {
                control = scheme.control();
            }
            sum = sum.wrapping_add(control.cwnd.as_u64());
        }
    }
    sum
}
