//! Rate samples of an application that writes less than the path can carry must not change the bandwidth estimate.
//!
//!     sender ──[ 100 Mbit/s ]── 20 ms ── receiver
//!        └────────── 20 ms ──────────────────┘

use crate::common::{Fate, Pipe, delay, ms, sender};
use narrows_cc::{Bytes, Nanos, Rate, Value};
use narrows_packet::Packet;
use narrows_tcp::{Sender, TcpConfig};
use narrows_traffic::AppConfig;

const LINK: f64 = 100.0;
const SEGMENT: u64 = 1448;
/// Size of a full packet on the wire.
const PACKET: u64 = 1500;

/// A link with an endless queue. The timestamp of a packet is its departure time.
fn bottleneck(after: Nanos) -> Fate {
    let time = Rate::from_mbit_per_sec(LINK).time_for(Bytes::new(PACKET));
    let mut free_at = Nanos::ZERO;
    Box::new(move |packet: &Packet, _| {
        let now = Nanos::from_micros(u64::from(packet.tcp().ts_val));
        if packet.payload > 0 {
            free_at = free_at.max(now) + time;
        }
        vec![free_at.max(now) - now + after]
    })
}

/// State of the scheme, and its bandwidth estimate in Mbit/s.
fn model(sender: &Sender) -> (&'static str, f64) {
    let (mut state, mut bw) = ("", 0.0);
    sender.scheme().telemetry(&mut |name, value| match (name, value) {
        ("state", Value::State(found)) => state = found,
        ("bw_estimate", Value::Rate(rate)) => bw = rate.as_mbit_per_sec(),
        _ => {}
    });
    (state, bw)
}

/// After 1 s of bulk data an application writes at a tenth of the rate for four seconds, which are 100 round trips and
/// ten times the length of BBR's filter. The estimate stays at the path's rate: 1448 of 1500 bytes at 100 Mbit/s,
/// within a hundredth.
#[test]
fn bbr_estimate_survives_paced_application_at_a_tenth() {
    let config = TcpConfig::default();
    for name in ["bbr", "bbr2", "bbr3"] {
        let sender = sender(name, &[], &config, AppConfig::Written);
        let mut pipe = Pipe::new(sender, &config, bottleneck(ms(20)), delay(ms(20)));
        // Data for slightly less than a second.
        pipe.write(ms(100), 11_000_000);
        pipe.run_until(ms(1_400));
        assert_eq!(pipe.sender.inflight(), Bytes::ZERO, "{name}: the bulk data is delivered");
        let expected = LINK * SEGMENT as f64 / PACKET as f64;
        let (state, before) = model(&pipe.sender);
        assert!((before / expected - 1.0).abs() <= 0.01, "{name} in {state}: {before} of {expected} Mbit/s");
        // The application writes ten segments every 11.6 ms, 10 Mbit/s.
        let gap = Rate::from_mbit_per_sec(LINK / 10.0).time_for(Bytes::new(10 * SEGMENT));
        for n in 0..4_000_000_000 / gap.as_nanos() {
            pipe.write(ms(1_400) + gap * n, 10 * SEGMENT);
        }
        let (state, after) = model(&pipe.sender);
        assert!((after / expected - 1.0).abs() <= 0.01, "{name} in {state}: {after} of {expected} Mbit/s");
    }
}

/// If an application writes at a tenth of the rate from the start, BBR never leaves Startup: samples stop growing
/// because there is no more data, not because the pipe is full.
#[test]
fn bbr_paced_application_at_a_tenth_stays_in_startup() {
    let config = TcpConfig::default();
    let rate = Rate::from_mbit_per_sec(LINK / 10.0);
    for name in ["bbr", "bbr2", "bbr3"] {
        let app = AppConfig::Cbr { rate, write: Bytes::new(SEGMENT) };
        let mut pipe = Pipe::new(sender(name, &[], &config, app), &config, bottleneck(ms(20)), delay(ms(20)));
        // 4.5 s end before the first ProbeRTT of any of the schemes, which begins after 5 s or later.
        for n in 1..450 {
            pipe.run_until(ms(10) * n);
            assert_eq!(model(&pipe.sender).0, "startup", "{name} after {} ms", 10 * n);
        }
        assert!(pipe.delivered > 5_000_000, "{name}: {} bytes", pipe.delivered);
    }
}
