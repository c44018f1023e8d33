//! What one packet costs on its way through a link and over a distance, in nanoseconds of this machine's time.
//!
//!     cargo run --release -p narrows-net --example timing

// A stopwatch is the purpose here; nothing simulated reads it.
#![allow(clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::Instant;

use narrows_cc::{Bytes, Nanos, Random, Rate};
use narrows_net::config::{Jitter, Limit, LinkConfig, Loss, Queue};
use narrows_net::{Link, Offer, Packet, Wire};

const PACKETS: u64 = 5_000_000;

/// Offers a full packet per transmission time, in bursts of 16, and lets each arrive after 20 ms.
fn nanos_per_packet(config: &LinkConfig, jitter: Option<Jitter>) -> f64 {
    let random = |name| Random::stream(1, name, 0);
    let mut link = Link::new(config, random("link"));
    let mut wire = Wire::new(Nanos::from_millis(20), jitter, None, random("wire"));
    let mut packet = Packet::new(1);
    packet.payload = 1448;
    let mut arrived = 0u64;
    let begin = Instant::now();
    for n in 0..PACKETS {
        packet.seq = n;
        // 1500 bytes take 12 µs at 1 Gbit/s.
        let now = Nanos::from_micros(n / 16 * 16 * 12);
        while link.next_service() <= now {
            let at = link.next_service();
            if let Some(packet) = link.serve(now) {
                wire.push(at, &packet);
            }
        }
        while wire.next() <= now {
            arrived += wire.pop().map_or(0, |(_, packet)| black_box(packet).seq & 1);
        }
        if let Offer::Departs { at, lost: false } = link.offer(now, black_box(&packet)) {
            wire.push(at, &packet);
        }
    }
    let elapsed = begin.elapsed();
    black_box(arrived);
    elapsed.as_nanos() as f64 / PACKETS as f64
}

fn main() {
    let limit = Limit::Bytes(Bytes::new(500_000));
    let plain = LinkConfig::drop_tail(Rate::from_mbit_per_sec(1_000.0), limit);
    let ms = Nanos::from_millis;
    let with = |queue| LinkConfig { queue, ..plain.clone() };
    let lossy = LinkConfig { loss: Loss::Bernoulli(0.01), ..plain.clone() };
    let codel = Queue::CoDel { target: ms(5), interval: ms(100), ecn: false };
    let fq_codel =
        Queue::FqCoDel { target: ms(5), interval: ms(100), queues: 1024, quantum: 1514, ecn: false };
    let red = Queue::Red { min: 50.0, max: 150.0, max_p: 0.1, weight: 0.002, adaptive: false, ecn: false };
    let jitter = Jitter { max: Nanos::from_micros(100), reorder: true };
    for (name, config, jitter) in [
        ("drop-tail", plain.clone(), None),
        ("drop-tail, 1 % loss", lossy, None),
        ("drop-tail, jitter", plain.clone(), Some(jitter)),
        ("CoDel", with(codel), None),
        ("FQ-CoDel", with(fq_codel), None),
        ("PIE", with(Queue::Pie { target: ms(15), ecn: false }), None),
        ("RED", with(red), None),
    ] {
        println!("{name:20} {:6.1} ns a packet", nanos_per_packet(&config, jitter));
    }
}
