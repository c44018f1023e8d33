//! How long a sender and a receiver take per packet, with nothing but a delay between them.
//!
//!     cargo run --release -p narrows-endpoint --example speed [packets]
#![allow(clippy::disallowed_methods)] // a measurement reads the clock

use std::collections::VecDeque;
use std::time::Instant;

use narrows_cc::{Bytes, Nanos, Params, Random, Setup, schemes};
use narrows_endpoint::{App, AppConfig, Receiver, Sender, TcpConfig};
use narrows_net::packet::Packet;

/// One case: a scheme, its window and rate, and how many packets in a million are lost.
struct Case {
    name: &'static str,
    scheme: &'static str,
    params: &'static [(&'static str, f64)],
    loss_ppm: u64,
    ack_every: u32,
}

const CASES: &[Case] = &[
    Case { name: "window 100", scheme: "fixed", params: &[("window", 100.0)], loss_ppm: 0, ack_every: 2 },
    Case { name: "window 5000", scheme: "fixed", params: &[("window", 5000.0)], loss_ppm: 0, ack_every: 2 },
    Case {
        name: "window 5000, paced",
        scheme: "fixed",
        params: &[("window", 5000.0), ("rate", 10_000.0)],
        loss_ppm: 0,
        ack_every: 2,
    },
    Case {
        name: "window 5000, every packet acknowledged",
        scheme: "fixed",
        params: &[("window", 5000.0)],
        loss_ppm: 0,
        ack_every: 1,
    },
    Case {
        name: "window 5000, loss 1 %",
        scheme: "fixed",
        params: &[("window", 5000.0)],
        loss_ppm: 10_000,
        ack_every: 2,
    },
    Case {
        name: "window 5000, loss 10 %",
        scheme: "fixed",
        params: &[("window", 5000.0)],
        loss_ppm: 100_000,
        ack_every: 2,
    },
    Case { name: "newreno, loss 0.01 %", scheme: "newreno", params: &[], loss_ppm: 100, ack_every: 2 },
];

const DELAY: Nanos = Nanos::from_millis(5);
/// The pipe serves one packet at a time, or all would arrive at one instant.
const SERVICE: Nanos = Nanos::from_nanos(1_000);

/// Time this process has spent on a processor, so that others on the machine do not count; wall time where that is unknown.
fn cpu_seconds(begin: Instant) -> f64 {
    let nanos = std::fs::read_to_string("/proc/self/schedstat")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    nanos.map_or_else(|| begin.elapsed().as_secs_f64(), |n| n as f64 / 1e9)
}

fn run(case: &Case, packets: u64) -> (f64, Sender, Receiver) {
    let config = TcpConfig { ack_every: case.ack_every, ..TcpConfig::default() };
    let entry = schemes::find(case.scheme).expect("a registered scheme");
    let mut params = Params::defaults(entry.info.params);
    for &(key, value) in case.params {
        params.set(key, value).expect("a valid parameter");
    }
    let mss = Bytes::new(u64::from(config.segment));
    let random = Random::stream(1, "scheme", 0);
    let scheme = entry.build(&Setup { mss, initial_window: mss * 10, max_burst: mss, random, params });
    let app = App::new(AppConfig::Bulk, Random::stream(1, "app", 0), Nanos::ZERO);
    let mut sender = Sender::new(0, config.clone(), scheme, app, Nanos::ZERO);
    let mut receiver = Receiver::new(0, &config);
    let mut random = Random::stream(1, "loss", 0);
    let mut forward: VecDeque<(Nanos, Packet)> = VecDeque::new();
    let mut reverse: VecDeque<(Nanos, Packet)> = VecDeque::new();
    let mut free_at = Nanos::ZERO;
    let mut now;
    let clock = Instant::now();
    let begin = cpu_seconds(clock);
    while receiver.stats().data_packets < packets {
        let data = forward.front().map_or(Nanos::MAX, |f| f.0);
        let ack = reverse.front().map_or(Nanos::MAX, |f| f.0);
        let timer = sender.deadline();
        let delayed = receiver.deadline();
        now = data.min(ack).min(timer).min(delayed);
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
                if case.loss_ppm == 0 || random.below(1_000_000) >= case.loss_ppm {
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
    ((cpu_seconds(clock) - begin) * 1e9 / packets as f64, sender, receiver)
}

fn main() {
    let packets = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000_000);
    println!("idle: Sender {} B, Receiver {} B", size_of::<Sender>(), size_of::<Receiver>());
    for case in CASES {
        let best = (0..3).map(|_| run(case, packets)).min_by(|a, b| a.0.total_cmp(&b.0)).expect("three runs");
        let stats = best.1.stats();
        println!(
            "{:<40} {:6.1} ns per packet, {} sent again, {} timeouts",
            case.name, best.0, stats.retransmits, stats.timeouts
        );
    }
}
