//! Cost of one acknowledgement to a controller: the benchmark reports two sent packets and an acknowledgement
//! of both, and then reads window and pacing rate as noq does. Every thousandth acknowledgement reports a loss.
//! One measurement covers a million acknowledgements, so its milliseconds are nanoseconds per acknowledgement.
//! The controllers of the noq library run first.
//!
//!     cargo bench -p narrows-quic --bench acks

#![allow(clippy::disallowed_methods)] // noq takes times as `Instant`

#[path = "../tests/support/mod.rs"]
mod support;
#[path = "../tests/tls.rs"]
mod tls;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use narrows_cc::schemes::ALL;
use narrows_quic::noq::{self, Factory};
use narrows_quic::{Scheme, Stack, refusal};
use noq_proto::RttEstimator;

const ACKS: u64 = 10_000;
const CONNECTIONS: u64 = 100;
/// Number of acknowledgements in flight, number of acknowledgements from one loss to the next, and time between
/// two acknowledgements.
const FLIGHT: u64 = 50;
const LOSS_EVERY: u64 = 1_000;
const GAP: Duration = Duration::from_micros(240);

fn replay(factory: &Factory, start: Instant, rtt: &RttEstimator) {
    let mut controller = Arc::clone(factory).build(start, 1472);
    for ack in 0..ACKS {
        let now = start + GAP * ack as u32;
        for packet in [2 * ack, 2 * ack + 1] {
            controller.on_packet_sent(now, 1472, packet);
        }
        controller.on_sent(now, 2944, 2 * ack + 1);
        if ack >= FLIGHT {
            let (first, sent) = (2 * (ack - FLIGHT), now - GAP * FLIGHT as u32);
            let lossy = ack % LOSS_EVERY == 0;
            if !lossy {
                controller.on_ack(now, sent, 1472, first, false, rtt);
            }
            controller.on_ack(now, sent, 1472, first + 1, false, rtt);
            controller.on_end_acks(now, 2944 * FLIGHT, false, Some(first + 1));
            if lossy {
                controller.on_packet_lost(1472, first, now);
                controller.on_congestion_event(now, sent, false, false, 1472, first);
            }
        }
        black_box((controller.window(), controller.metrics().pacing_rate));
    }
}

fn controllers(criterion: &mut Criterion) {
    let (start, rtt) = (Instant::now(), support::estimator());
    let mut group = criterion.benchmark_group("million acknowledgements in noq");
    group.throughput(Throughput::Elements(ACKS * CONNECTIONS));
    let own = noq::OWN.iter().filter_map(|name| Some((format!("noq:{name}"), noq::own(name)?)));
    let ours = ALL.iter().filter(|entry| refusal(entry, Stack::Noq).is_none()).filter_map(|entry| {
        Some((entry.info.name.to_owned(), noq::factory(Scheme::of(entry, Stack::Noq).ok()?.seed(1, 0))))
    });
    for (name, factory) in own.chain(ours) {
        group.bench_function(name, |bencher| {
            bencher.iter(|| (0..CONNECTIONS).for_each(|_| replay(&factory, start, &rtt)));
        });
    }
    group.finish();
}

criterion_group!(benches, controllers);
criterion_main!(benches);
