//! One noq connection alone, and two at a bottleneck, in virtual time. `--nocapture` prints their goodput. Real
//! connections reach this goodput only if no timer is late.

use crate::support::{Pair, Path};
use narrows_cc::Nanos;
use narrows_quic::noq::controller;

const MBIT: f64 = 20.0;
/// Start of the second flow, and the times of the measurements, as in `studies/quic/study.py`.
const LATER: Nanos = Nanos::from_secs(2);
const TIMES: [Nanos; 2] = [Nanos::from_secs(40), Nanos::from_secs(100)];

/// Goodput in Mbit/s of two flows on a path with an RTT of 40 ms; the second flow starts later.
fn goodputs(schemes: [&str; 2], buffer: u64, seed: u64) -> [f64; 2] {
    let path = Path { mbit: MBIT, delay_ms: 20, buffer, loss: 0.0 };
    let mut number = 0;
    let mut pairs = schemes.map(|scheme| {
        number += 1;
        let mut pair = Pair::new(controller(scheme).expect("registered"), path, seed + number);
        pair.offered = u64::MAX;
        pair
    });
    let [first, second] = &mut pairs;
    second.share_link(first);
    first.run_until(LATER);
    second.now = LATER;
    let [before, after] = TIMES.map(|end| {
        loop {
            // The link requires that packets are offered in the order of their times.
            let next = [first.next(), second.next()];
            let earlier = if next[1] < next[0] { &mut *second } else { &mut *first };
            let at = next[0].min(next[1]);
            if at > end {
                return [first.read, second.read];
            }
            earlier.run_until(at);
        }
    });
    let seconds = (TIMES[1] - TIMES[0]).as_secs_f64();
    assert!(pairs.iter().all(|pair| pair.closed.is_none()), "{schemes:?}");
    [0, 1].map(|flow| (after[flow] - before[flow]) as f64 * 8.0 / seconds / 1e6)
}

/// In competition with CUBIC, every scheme gets at least a twentieth of the link's rate, and both flows
/// together fill the link. With `NARROWS_SEEDS=3` the test runs three seeds.
#[test]
#[allow(clippy::disallowed_methods)] // how long the test is
fn flows_beside_cubic_live() {
    let seeds = std::env::var("NARROWS_SEEDS").map_or(1, |text| text.parse().expect("a number"));
    for scheme in ["bbr-gc", "bbr3", "bbr"] {
        // Buffers of one and of four bandwidth-delay products.
        for (bdps, buffer) in [(1, 67), (4, 267)] {
            let runs: Vec<_> = (0..seeds).map(|seed| goodputs([scheme, "cubic"], buffer, 10 * seed)).collect();
            let range = |flow: usize| {
                let of = runs.iter().map(|run| run[flow]);
                (of.clone().fold(f64::MAX, f64::min), of.fold(0.0, f64::max))
            };
            let [own, cubic] = [range(0), range(1)];
            println!(
                "{scheme} then cubic, {bdps} BDP: {:.2} to {:.2}, {:.2} to {:.2} Mbit/s",
                own.0, own.1, cubic.0, cubic.1
            );
            for [own, cubic] in &runs {
                assert!(own.min(*cubic) > MBIT / 20.0, "{scheme}: {own:.2}, CUBIC {cubic:.2}");
                assert!((0.9 * MBIT..MBIT).contains(&(own + cubic)), "{scheme}: {own:.2}, CUBIC {cubic:.2}");
            }
        }
    }
}

/// Goodput in Mbit/s and mean smoothed RTT in ms of a single flow from 3 s to 15 s, at 10 Mbit/s with an RTT of 20 ms.
fn alone(scheme: &str, buffer: u64) -> [f64; 2] {
    const STEP: Nanos = Nanos::from_millis(5);
    let path = Path { mbit: 10.0, delay_ms: 10, buffer, loss: 0.0 };
    let mut pair = Pair::new(controller(scheme).expect("registered"), path, 1);
    pair.offered = u64::MAX;
    let (begin, end) = (Nanos::from_secs(3), Nanos::from_secs(15));
    pair.run_until(begin);
    let before = pair.read;
    let mut samples = Vec::new();
    while pair.now < end {
        pair.run_until(pair.now + STEP);
        samples.extend(pair.controller().srtt().map(|rtt| rtt.as_secs_f64() * 1e3));
    }
    let mbit_s = (pair.read - before) as f64 * 8e-6 / (end - begin).as_secs_f64();
    [mbit_s, samples.iter().sum::<f64>() / samples.len() as f64]
}

/// A single BBR flow has, in virtual time, the goodput and the RTT that `narrows compare bbr --rate 10mbit
/// --rtt 20ms --duration 15s` simulates, within 2 %. BBR-GC has 9.4 Mbit/s with either buffer, which equals the
/// simulated goodput with 4 BDP. With 1 BDP, the simulated flow has 8.9 Mbit/s because of Linux's bursts of two
/// segments, and 9.3 Mbit/s if it sends single packets.
#[test]
fn flows_alone_keep_the_simulated_goodput() {
    for (scheme, bdps, buffer, simulated) in [
        ("bbr", 1, 17, [9.53, 29.5]),
        ("bbr", 4, 67, [9.53, 29.5]),
        ("bbr-gc", 1, 17, [9.39, 21.7]),
        ("bbr-gc", 4, 67, [9.39, 23.1]),
    ] {
        let own = alone(scheme, buffer);
        println!("{scheme} alone, {bdps} BDP: {:.2} Mbit/s, {:.2} ms", own[0], own[1]);
        // The RTT of BBR-GC depends on the phase of its pacing gains.
        let bounds = if scheme == "bbr" { [0.02, 0.02] } else { [0.02, 0.05] };
        for ((own, simulated), bound) in own.into_iter().zip(simulated).zip(bounds) {
            assert!((own / simulated - 1.0).abs() < bound, "{scheme}, {bdps} BDP: {own} against {simulated}");
        }
    }
}
