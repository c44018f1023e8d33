//! Cost per packet of a sender and a receiver together, with only a delay between them. One measurement
//! delivers a million packets, so its time in milliseconds is the time per packet in nanoseconds.
//!
//!     cargo bench -p narrows-tcp --bench stream

use std::collections::VecDeque;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use narrows_cc::schemes::find;
use narrows_cc::{Bytes, Nanos, Params, Random, Setup};
use narrows_packet::Packet;
use narrows_tcp::{Receiver, Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};

const PACKETS: u64 = 1_000_000;
const DELAY: Nanos = Nanos::from_millis(5);
/// Transmission time per packet: without it, all packets would arrive at the same time.
const SERVICE: Nanos = Nanos::from_nanos(1_000);

/// A case: name, scheme, scheme parameters, losses per million packets, full segments per acknowledgement.
type Case = (&'static str, &'static str, &'static [(&'static str, f64)], u64, u32);

const CASES: &[Case] = &[
    ("window 100", "fixed", &[("window", 100.0)], 0, 2),
    ("window 5000", "fixed", &[("window", 5000.0)], 0, 2),
    ("window 5000, paced", "fixed", &[("window", 5000.0), ("rate", 10_000.0)], 0, 2),
    ("window 5000, every packet acknowledged", "fixed", &[("window", 5000.0)], 0, 1),
    ("window 5000, loss 1 %", "fixed", &[("window", 5000.0)], 10_000, 2),
    ("window 5000, loss 10 %", "fixed", &[("window", 5000.0)], 100_000, 2),
    ("newreno, loss 0.01 %", "newreno", &[], 100, 2),
];

fn ends(&(_, scheme, settings, _, ack_every): &Case) -> (Sender, Receiver) {
    let config = TcpConfig { ack_every, ..TcpConfig::default() };
    let entry = find(scheme).expect("a registered scheme");
    let mut params = Params::defaults(entry.info.params);
    for &(key, value) in settings {
        params.set(key, value).expect("a valid parameter");
    }
    let mss = Bytes::new(u64::from(config.segment));
    let random = Random::stream(1, "scheme", 0);
    let scheme = entry.build(&Setup::new(mss, params, random));
    let app = App::new(AppConfig::Bulk, Random::stream(1, "app", 0), Nanos::ZERO);
    let receiver = Receiver::new(0, &config);
    (Sender::new(0, config, scheme, app, Nanos::ZERO), receiver)
}

/// Runs until `PACKETS` data packets have arrived.
fn transfer((mut sender, mut receiver): (Sender, Receiver), loss_ppm: u64) -> u64 {
    let mut random = Random::stream(1, "loss", 0);
    let mut forward: VecDeque<(Nanos, Packet)> = VecDeque::new();
    let mut reverse: VecDeque<(Nanos, Packet)> = VecDeque::new();
    let mut free_at = Nanos::ZERO;
    while receiver.stats().data_packets < PACKETS {
        let data = forward.front().map_or(Nanos::MAX, |f| f.0);
        let ack = reverse.front().map_or(Nanos::MAX, |f| f.0);
        let timer = sender.deadline();
        let now = data.min(ack).min(timer).min(receiver.deadline());
        if now == data {
            let (_, packet) = forward.pop_front().expect("checked");
            receiver.on_packet(now, &packet);
        } else if now == ack {
            let (_, packet) = reverse.pop_front().expect("checked");
            sender.on_packet(now, &packet);
        } else if now == timer {
            sender.on_timer(now);
        } else {
            receiver.on_timer(now);
        }
        if now != data {
            while let Some(packet) = sender.poll_transmit(now) {
                if loss_ppm == 0 || random.below(1_000_000) >= loss_ppm {
                    free_at = free_at.max(now) + SERVICE;
                    forward.push_back((free_at + DELAY, packet));
                }
            }
        }
        if now != ack {
            while let Some(packet) = receiver.poll_transmit(now) {
                reverse.push_back((now + DELAY, packet));
            }
        }
    }
    sender.stats().data_packets_sent
}

fn stream(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("million packets end to end");
    group.throughput(Throughput::Elements(PACKETS));
    for case in CASES {
        let (name, .., loss_ppm, _) = *case;
        group.bench_function(name, |bencher| {
            bencher.iter_batched(|| ends(case), |ends| transfer(ends, loss_ppm), BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, stream);
criterion_main!(benches);
