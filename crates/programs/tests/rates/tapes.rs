//! Tapes of the scheme in the simulator, and random tapes.

use narrows_cc::schemes::{Brf, Entry};
use narrows_cc::{
    Ack, Advice, Bytes, CongestionCause, IdleRestart, IdleRule, Nanos, Params, Phase, Random, Rate, RateAdvice,
    RecoveryEntered, Scheme, Setup, SpuriousLoss, Timeout, record,
};

use crate::recording::{self, Event, MSS, Recording, Tape, lost, size};

/// Networks in which the scheme reaches every state, and its parameters there.
pub const NETWORKS: &[(&str, &[(&str, f64)])] = &[
    (
        "rate = '50mbit'\nbuffer = '1bdp'\n[[flows]]\nscheme = 'brf'\nrtt = '20ms'\n[[flows]]\nscheme = 'brf'\nrtt = '60ms'\n",
        &[],
    ),
    (
        "rate = '20mbit'\nbuffer = '1bdp'\nrouter = { kind = 'brf', dies = '5s' }\n[[flows]]\nscheme = 'brf'\nrtt = '40ms'\n[[flows]]\nscheme = 'brf'\nrtt = '40ms'\n",
        &[],
    ),
    (
        "rate = '20mbit'\nbuffer = '2bdp'\nrouter = 'none'\n[[flows]]\nscheme = 'brf'\nrtt = '40ms'\n[[flows]]\nscheme = 'cubic'\nrtt = '40ms'\n",
        &[("timeout", 0.3)],
    ),
    (
        "rate = '30mbit'\nbuffer = '1bdp'\nrouter = 'none'\nloss = '0.2%'\n[[flows]]\nscheme = 'brf'\nrtt = '80ms'\n",
        &[("timeout", 0.05)],
    ),
    (
        "rate = '30mbit'\nbuffer = '1bdp'\nloss = '2%'\n[[flows]]\nscheme = 'brf'\nrtt = '30ms'\n",
        &[("window_gain", 1.5)],
    ),
    // The narrower link has no router algorithm.
    (
        "[[links]]\nfrom = 's'\nto = 'a'\nrate = '50mbit'\ndelay = '5ms'\nbuffer = '200pkt'\nrouter = 'brf'\n[[links]]\nfrom = 'a'\nto = 'b'\nrate = '10mbit'\ndelay = '5ms'\nbuffer = '50pkt'\n[[flows]]\nscheme = 'brf'\nfrom = 's'\nto = 'b'\n[[flows]]\nscheme = 'brf'\nfrom = 's'\nto = 'b'\nstart = '2s'\n",
        &[],
    ),
    (
        "rate = '30mbit'\nbuffer = '1bdp'\n[[flows]]\nscheme = 'brf'\nrtt = '30ms'\napp = { kind = 'on-off', on = '300ms', off = '2s' }\n",
        &[],
    ),
    (
        "rate = '30mbit'\nbuffer = '1bdp'\nrouter = 'none'\n[[flows]]\nscheme = 'brf'\nrtt = '30ms'\napp = { kind = 'on-off', on = '300ms', off = '1s' }\n",
        &[("timeout", 0.05)],
    ),
];

static ENTRY: Entry = Entry::of::<Recording<Brf>>();

pub fn params(values: &[(&str, f64)]) -> Params {
    recording::params(&Brf::INFO, values)
}

/// The tapes of the scheme in a network.
pub fn recorded(network: &str, values: &[(&str, f64)]) -> Vec<Tape> {
    recording::recorded(&ENTRY, &format!("duration = '20s'\n[network]\n{network}"), values)
}

/// A tape of 5000 acknowledgements, and other events between them.
pub fn drawn(seed: u64) -> Tape {
    let params = params(&[("line_rate", 1_000.0), ("timeout", 0.2 + 0.4 * (seed % 3) as f64)]);
    let random = Random::stream(seed, "scheme", 0);
    let setup = Setup::new(MSS, params, random);
    let mut draw = Random::stream(seed, "events", 0);
    let first = Nanos::from_micros(1_000 + draw.below(200_000));
    let mut now = Nanos::from_millis(300);
    let mut events = vec![Event::Ack(Ack::of_handshake(now, first, Some(first), Some(first)))];
    let (mut delivered, mut phase, mut silent, mut least) = (0, Phase::Open, false, first);
    let mut lost_total = 0;
    for _ in 0..5_000 {
        let bits = if draw.chance(0.005) { 22 } else { 14 };
        now = now.saturating_add(Nanos::from_micros(1 + size(&mut draw, bits)));
        let acked = if draw.chance(0.1) { 0 } else { 1 + draw.below(8) };
        delivered += acked;
        let rtt = draw.chance(0.9).then(|| Nanos::from_micros(500 + size(&mut draw, 19)));
        least = rtt.map_or(least, |rtt| least.min(rtt));
        let srtt = Nanos::from_micros(1_000 + draw.below(100_000));
        if draw.chance(0.02) {
            lost_total += size(&mut draw, 7);
            events.push(lost(now, lost_total, MSS));
        }
        if phase == Phase::Open && draw.chance(0.01) {
            phase = Phase::Recovery;
            let (cause, flight) = (CongestionCause::Loss, MSS * 10);
            events.push(Event::Entered(record!(RecoveryEntered {
                now,
                cause,
                flight_size: flight,
                inflight: flight,
                acked: Bytes::ZERO,
                delivered: MSS * delivered,
            })));
        } else if phase != Phase::Open && draw.chance(0.1) {
            phase = Phase::Open;
        }
        events.push(Event::Ack(record!(Ack {
            acked: MSS * acked,
            acked_cumulative: Some(if draw.chance(0.1) { Bytes::ZERO } else { MSS * acked }),
            rtt,
            inflight: MSS * draw.below(64),
            delivered: MSS * delivered,
            phase,
            cwnd_limited: draw.chance(0.7),
            ..Ack::of_handshake(now, first, Some(srtt), Some(least))
        })));
        // Long periods without any rate.
        silent ^= draw.chance(0.004);
        if !silent && draw.chance(0.2) {
            let rate = match draw.below(8) {
                0 => 0,
                1 => 125_000_000 + draw.below(1 << 40),
                _ => size(&mut draw, 28),
            };
            events
                .push(Event::Advice(record!(RateAdvice { now, advice: Advice::Rate(Rate::from_bytes_per_sec(rate)) })));
        }
        let (flight, total) = (MSS * draw.below(64), MSS * delivered);
        match draw.below(400) {
            0 => {
                phase = Phase::Loss;
                let consecutive = 1 + draw.below(3) as u32;
                events.push(Event::Timeout(record!(Timeout {
                    now,
                    flight_size: flight,
                    inflight: flight,
                    delivered: total,
                    consecutive,
                })));
            }
            1 => events.push(Event::Spurious(record!(SpuriousLoss {
                now,
                inflight: flight,
                delivered: total,
                phase: Phase::Recovery,
            }))),
            2 | 3 => events.push(Event::Idle(record!(IdleRestart {
                now,
                idle: Nanos::from_micros(draw.below(1 << 19)),
                rto: draw.chance(0.9).then(|| Nanos::from_millis(200)),
                delivered: total,
                app_limited: true,
                rule: IdleRule::Linux,
            }))),
            _ => {}
        }
    }
    Tape { setup, events, program_params: None }
}
