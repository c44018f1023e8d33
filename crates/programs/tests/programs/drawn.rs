//! Random events that no network produces: amounts, times and phases are drawn independently.

use narrows_cc::{
    Ack, Bytes, CongestionCause, IdleRestart, IdleRule, Nanos, Params, Phase, Random, RateSample, RecoveryEntered,
    RecoveryLeft, Setup, SpuriousLoss, Timeout, record,
};

use crate::recording::{Event, MSS, Tape, lost, size};

/// A tape of this many acknowledgements, and other events between them.
pub fn tape(params: Params, seed: u64, acks: u64) -> Tape {
    let random = Random::stream(seed, "scheme", 0);
    let setup = Setup::new(MSS, params, random).with_sack(seed % 4 != 3);
    let mut usage = Random::stream(seed, "usage", 0);
    let mut draw = Random::stream(seed, "events", 0);
    let first = Nanos::from_micros(1 + draw.below(200_000));
    let mut now = Nanos::from_millis(300);
    let mut events = vec![Event::Ack(Ack::of_handshake(now, first, Some(first), Some(first)))];
    let (mut delivered, mut lost_total, mut phase) = (0, 0, Phase::Open);
    let mut least = first;
    for _ in 0..acks {
        let bits = if draw.chance(0.002) { 25 } else { 15 };
        now = now.saturating_add(Nanos::from_micros(1 << draw.below(bits)));
        let acked = if draw.chance(0.1) { 0 } else { 1 + size(&mut draw, 7) };
        let losses = if draw.chance(0.05) { 1 + draw.below(5) } else { 0 };
        let inflight = size(&mut draw, 10);
        delivered += acked;
        for _ in 0..losses {
            lost_total += 1;
            events.push(lost(now, lost_total, MSS * inflight));
        }
        let (own, total) = (MSS * inflight, MSS * delivered);
        if phase == Phase::Open && (losses > 0 || draw.chance(0.01)) {
            let cause = if losses > 0 { CongestionCause::Loss } else { CongestionCause::Ecn };
            phase = Phase::Recovery;
            events.push(Event::Entered(record!(RecoveryEntered {
                now,
                cause,
                flight_size: own,
                inflight: own,
                acked: MSS * acked,
                delivered: total,
            })));
        } else if phase != Phase::Open && draw.chance(0.1) {
            phase = Phase::Open;
            events.push(Event::Left(record!(RecoveryLeft { now, inflight: own, delivered: total })));
        }
        let since = size(&mut draw, 9) + acked;
        let rate = (acked > 0 && draw.chance(0.95)).then(|| {
            let prior = delivered.saturating_sub(since);
            let interval = Nanos::from_micros(1 + size(&mut draw, 19));
            let bytes = MSS * (delivered - prior);
            record!(RateSample {
                rate: bytes.per(interval),
                delivered: bytes,
                interval,
                prior_delivered: MSS * prior,
                tx_in_flight: own,
                lost: Bytes::ZERO,
                app_limited: draw.chance(0.1),
            })
        });
        let rtt = draw.chance(0.9).then(|| Nanos::from_micros(1 + size(&mut draw, 20)));
        least = rtt.map_or(least, |rtt| least.min(rtt));
        events.push(Event::Ack(record!(Ack {
            acked: MSS * acked,
            lost: MSS * losses,
            rtt,
            rate,
            inflight_before: own + MSS * acked,
            inflight: own,
            delivered: total,
            phase,
            cwnd_full: usage.chance(0.5),
            ..Ack::of_handshake(now, first, Some(first), Some(least))
        })));
        if let Some(event) = other(&mut draw, now, inflight, delivered, &mut phase) {
            events.push(event);
        }
    }
    Tape { setup, events, program_params: None }
}

fn other(draw: &mut Random, now: Nanos, inflight: u64, delivered: u64, phase: &mut Phase) -> Option<Event> {
    let (own, total) = (MSS * inflight, MSS * delivered);
    match draw.below(300) {
        0 => {
            *phase = Phase::Loss;
            let (flight_size, inflight) = (own, own);
            Some(Event::Timeout(record!(Timeout { now, flight_size, inflight, delivered: total, consecutive: 1 })))
        }
        1 => Some(Event::Spurious(record!(SpuriousLoss {
            now,
            inflight: own,
            delivered: total,
            phase: Phase::Recovery,
        }))),
        2 | 3 => Some(Event::Idle(record!(IdleRestart {
            now,
            idle: Nanos::from_millis(1),
            rto: None,
            delivered: total,
            app_limited: draw.chance(0.7),
            rule: IdleRule::Linux,
        }))),
        _ => None,
    }
}
