//! RCP and XCP against control intervals computed by hand, and properties of all router algorithms.

use narrows_cc::{Nanos, Params, Rate};
use narrows_packet::Packet;
use proptest::prelude::*;

use super::{ALL, AnyRouter, RateHeader, Reading, RouterFrame, RouterSetup, TestPort, find};

#[path = "../tests/strategies/mod.rs"]
mod strategies;

/// A router algorithm at a port of 10 MB/s.
fn made(name: &str) -> AnyRouter {
    let entry = find(name).expect("a registered name");
    entry.build(&RouterSetup {
        capacity: Rate::from_bytes_per_sec(10_000_000),
        params: Params::defaults(entry.info.params),
        flows: std::sync::Arc::new([]),
        learned: None,
    })
}

/// A packet of 1000 bytes in total.
fn packet(extension: RateHeader) -> Packet {
    let mut packet = Packet::new(0);
    packet.set_rate_header(extension);
    packet.payload = 1000 - packet.header;
    packet
}

fn reading(router: &AnyRouter, name: &str) -> f64 {
    router.reading(name).and_then(Reading::number).expect("a number with this name")
}

#[track_caller]
fn close(measured: f64, expected: f64) {
    assert!((measured - expected).abs() <= 1e-6 * expected.abs().max(1e-3), "{measured}, not {expected}");
}

/// Every router algorithm has a name, parameters in range and complete module documentation.
#[test]
fn every_router_has_name_valid_params_and_page() {
    for entry in ALL {
        assert_eq!(find(entry.info.name).map(|found| found.info.name), Some(entry.info.name));
        for param in entry.info.params {
            assert!(param.min <= param.default && param.default <= param.max, "{}", param.name);
            assert!(!param.help.is_empty());
        }
        let page: Vec<_> = entry.page().collect();
        for section in ["## Control law", "## States", "## References", "## Differences", "## Known weaknesses"] {
            assert!(page.contains(&section), "{}: {section}", entry.info.name);
        }
    }
    assert!(find("none").is_none());
}

/// Every router algorithm reports each telemetry item once, without a unit in its name.
#[test]
fn telemetry_items_are_unique_and_carry_no_unit() {
    for entry in ALL {
        let mut names = Vec::new();
        made(entry.info.name).telemetry(&mut |name, _| names.push(name));
        for (place, name) in names.iter().enumerate() {
            assert!(!names[..place].contains(name), "{}: {name} reported twice", entry.info.name);
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}: {name}", entry.info.name);
            let unit = ["_s", "_ms", "_bytes"].iter().find(|unit| name.ends_with(**unit));
            assert_eq!(unit, None, "{}: {name}", entry.info.name);
        }
        assert!(!names.is_empty());
    }
}

/// RCP corrects its rate once per slot.
#[test]
fn rcp_corrects_its_rate_once_per_slot() {
    let mut rcp = made("rcp");
    // R = 0.05 C = 500 kB/s, d = 200 ms, T = 10 ms. 20 packets of 1000 B with an RTT of 100 ms, then one packet that
    // begins to arrive 40 us before the slot's end and takes 100 us: 40 % of this packet counts in this slot.
    for n in 0..20 {
        let mut sent = packet(RateHeader::RcpRequest { rate: -1.0, rtt_us: 100_000 });
        rcp.on_arrival(&mut TestPort::default().at(Nanos::from_micros(n * 100), 0), &mut sent);
    }
    rcp.on_arrival(&mut TestPort::default().at(Nanos::from_micros(9_960), 0), &mut packet(RateHeader::None));
    assert_eq!(rcp.next_wake(), Nanos::from_millis(10));
    rcp.on_wake(&mut TestPort::default().at(Nanos::from_millis(10), 3_000));
    // d falls: g = (R/C)(m/d)(T/d) = 0.05 * 0.5 * 0.05 = 0.00125; d = 0.2 - 0.00125 * 0.1 = 0.199875.
    let d = 0.199_875;
    close(reading(&rcp, "mean_rtt"), d);
    // y = 20 400 B / 10 ms = 2.04 MB/s; R (1 + (T/d) (0.4 (10 - 2.04) MB/s - 0.4 * 3000 B / d) / 10 MB/s).
    let factor = 1.0 + 0.01 / d * (0.4 * 7.96e6 - 0.4 * 3000.0 / d) / 1e7;
    close(reading(&rcp, "rate"), 500_000.0 * factor);
    // The second slot counts only the rest of the last packet: y = 600 B / 10 ms.
    let before = reading(&rcp, "rate");
    assert_eq!(rcp.next_wake(), Nanos::from_millis(20));
    rcp.on_wake(&mut TestPort::default().at(Nanos::from_millis(20), 0));
    close(reading(&rcp, "rate"), before * (1.0 + 0.01 / d * 0.4 * (1e7 - 60_000.0) / 1e7));
}

/// RCP's mean RTT rises faster than it falls, and RCP keeps its rate within bounds.
#[test]
fn rcp_follows_longer_rtt_faster_and_keeps_bounds() {
    let mut rcp = made("rcp");
    rcp.on_arrival(
        &mut TestPort::default().at(Nanos::ZERO, 0),
        &mut packet(RateHeader::RcpRequest { rate: 0.0, rtt_us: 300_000 }),
    );
    rcp.on_wake(&mut TestPort::default().at(Nanos::from_millis(10), 0));
    // g = T/d = 0.05: d = 0.2 + 0.05 * 0.1.
    close(reading(&rcp, "mean_rtt"), 0.205);
    // With 1 GB queued, the rate falls to its floor: 0.01 packets of 1000 B per d = 0.205 s.
    rcp.on_wake(&mut TestPort::default().at(Nanos::from_millis(20), 1_000_000_000));
    close(reading(&rcp, "rate"), 10.0 / 0.205);
    // An idle link: the rate grows by 2 % per slot (0.4 * 10/205), to the capacity and no further.
    for n in 3..2_000 {
        rcp.on_wake(&mut TestPort::default().at(Nanos::from_millis(10 * n), 0));
    }
    close(reading(&rcp, "rate"), 1e7);
}

/// RCP writes its rate if the field is unset or higher.
#[test]
fn rcp_writes_its_rate_if_lower_or_unset() {
    let mut rcp = made("rcp");
    let mut stamped = |rate: f32| {
        let mut sent = packet(RateHeader::RcpRequest { rate, rtt_us: 7 });
        rcp.on_departure(&mut TestPort::default().at(Nanos::ZERO, 0), &mut sent);
        match sent.rate_header() {
            RateHeader::RcpRequest { rate, rtt_us: 7 } => rate,
            other => panic!("{other:?}"),
        }
    };
    for requested in [-1.0, 1e9, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(stamped(requested), 500_000.0);
    }
    assert_eq!(stamped(1000.0), 1000.0);
    assert_eq!(stamped(0.0), 0.0);
}

/// XCP divides spare capacity in proportion to packet spacing; requests with invalid fields get nothing.
#[test]
fn xcp_divides_spare_capacity_by_packet_spacing() {
    let mut xcp = made("xcp");
    // 100 packets of 1000 B in 50 ms: half of them from a flow with RTT 40 ms and X = 1 ms, half from a flow with RTT
    // 80 ms and X = 2 ms.
    let request = |n: u64, delta| RateHeader::XcpRequest {
        rtt_us: if n.is_multiple_of(2) { 40_000 } else { 80_000 },
        spacing: if n.is_multiple_of(2) { 1e-3 } else { 2e-3 },
        delta,
    };
    for n in 0..100 {
        xcp.on_arrival(&mut TestPort::default().at(Nanos::from_micros(n * 400), 0), &mut packet(request(n, 1e24)));
    }
    assert_eq!(xcp.next_wake(), Nanos::from_millis(50));
    xcp.on_wake(&mut TestPort::default().at(Nanos::from_millis(50), 0));
    // d = (50 * 0.04 * 0.001 + 50 * 0.08 * 0.002) / 0.15 s = 66.667 ms. y = 2 MB/s; phi = 0.4 * 8 MB/s = 3.2 MB/s; h =
    // max(0, 0.2 - 3.2) = 0. The pool to give is 3.2 MB/s, or 3.2e6 / 0.15 per second of X.
    let d = 0.01 / 0.15;
    close(reading(&xcp, "mean_rtt"), d);
    close(reading(&xcp, "give"), 3.2e6);
    close(reading(&xcp, "take"), 0.0);
    let mut stamped = |extension| {
        let mut sent = packet(extension);
        xcp.on_departure(&mut TestPort::default().at(Nanos::from_millis(51), 0), &mut sent);
        match sent.rate_header() {
            RateHeader::XcpRequest { delta, .. } => f64::from(delta),
            other => panic!("{other:?}"),
        }
    };
    close(stamped(request(0, 1e24)), 3.2e6 / 0.15 * 1e-3);
    close(stamped(request(1, 1e24)), 3.2e6 / 0.15 * 2e-3);
    // A smaller request is granted unchanged.
    close(stamped(request(1, 100.0)), 100.0);
    // Without an RTT, or with invalid fields, the change is zero.
    close(stamped(RateHeader::XcpRequest { rtt_us: 0, spacing: 1e-3, delta: 1e24 }), 0.0);
    for spacing in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        close(stamped(RateHeader::XcpRequest { rtt_us: 9, spacing, delta: 1e24 }), 0.0);
    }
    close(stamped(RateHeader::XcpRequest { rtt_us: 9, spacing: 1e-3, delta: f32::NAN }), 0.0);
    close(reading(&xcp, "give"), 3.2e6 - 3.2e6 / 0.15 * 3e-3 - 100.0);
}

/// XCP shuffles a tenth of full traffic and drains the persistent queue.
#[test]
fn xcp_shuffles_a_tenth_and_drains_the_queue() {
    let mut xcp = made("xcp");
    let request = RateHeader::XcpRequest { rtt_us: 100_000, spacing: 1e-3, delta: 1e24 };
    let at = |us| Nanos::from_micros(us);
    // The first Q is read at the end of the first interval, at 50 ms; from then on 40 kB wait at every
    // departure. d is still unknown, so T_q = max(2 ms, (50 ms - 4 ms) / 2) = 23 ms, and Q is 40 kB from 73
    // ms on.
    xcp.on_arrival(&mut TestPort::default().at(at(1), 0), &mut packet(request));
    xcp.on_wake(&mut TestPort::default().at(at(50_000), 40_000));
    close(reading(&xcp, "mean_rtt"), 0.1);
    assert_eq!(xcp.next_wake(), at(73_000));
    // Full traffic in the next interval of 100 ms: 1000 packets of 1000 B are 10 MB/s.
    for n in 0..1000 {
        xcp.on_arrival(&mut TestPort::default().at(at(50_000 + n * 100), 0), &mut packet(request));
    }
    xcp.on_departure(&mut TestPort::default().at(at(60_000), 41_000), &mut packet(RateHeader::None));
    xcp.on_wake(&mut TestPort::default().at(at(73_000), 40_000));
    close(reading(&xcp, "persistent_queue"), 40_000.0);
    while xcp.next_wake() < at(150_000) {
        let now = xcp.next_wake();
        xcp.on_wake(&mut TestPort::default().at(now, 40_000));
    }
    assert_eq!(xcp.next_wake(), at(150_000));
    xcp.on_wake(&mut TestPort::default().at(at(150_000), 40_000));
    // y = C, so phi = -0.226 * 40 kB / 0.1 s = -90.4 kB/s; h = 0.1 * 10 MB/s - 90.4 kB/s.
    let phi = 0.226 * 40_000.0 / 0.1;
    close(reading(&xcp, "give"), 1e6 - phi);
    close(reading(&xcp, "take"), 1e6);
    // Per packet: (1 MB/s - phi) / 1000 packets of equal X, less 1 MB/s / 1000 packets of equal size.
    let mut sent = packet(request);
    xcp.on_departure(&mut TestPort::default().at(at(150_001), 40_000), &mut sent);
    match sent.rate_header() {
        RateHeader::XcpRequest { delta, .. } => close(f64::from(delta), -phi / 1000.0),
        other => panic!("{other:?}"),
    }
}

/// An idle port sleeps, and wakes on the grid of control intervals that it would have kept without sleep.
#[test]
fn idle_port_sleeps_and_wakes_on_its_interval_grid() {
    for entry in ALL {
        let name = entry.info.name;
        let mut router = made(name);
        let mut wakes = 0;
        let mut last = Nanos::ZERO;
        while router.next_wake() < Nanos::MAX {
            last = router.next_wake();
            router.on_wake(&mut TestPort::default().at(last, 0));
            wakes += 1;
            assert!(wakes < 1_000, "{name} does not sleep");
        }
        let mut before = Vec::new();
        router.telemetry(&mut |item, value| before.push((item, value)));
        // Slots of RCP last 10 ms, control intervals of XCP 50 ms, with a queue sample every 25 ms.
        let interval = if name == "rcp" { 10 } else { 25 };
        let sleeps = wakes == 0;
        let now = last + Nanos::from_secs(1_000) + Nanos::from_millis(3);
        router.on_arrival(&mut TestPort::default().at(now, 0), &mut packet(RateHeader::None));
        let mut after = Vec::new();
        router.telemetry(&mut |item, value| after.push((item, value)));
        assert_eq!(before, after, "{name}");
        // Algorithms that need a handshake ignore a packet of an unknown flow.
        let next = if sleeps { Nanos::MAX } else { last + Nanos::from_secs(1_000) + Nanos::from_millis(interval) };
        assert_eq!(router.next_wake(), next, "{name}");
    }
}

proptest! {
    /// For any headers, a router algorithm advises finite numbers, and each wake is later than the wake before.
    #[test]
    fn any_headers_yield_finite_advice_and_progress(
        packets in prop::collection::vec((strategies::rate_headers(), 0u64..20_000, 0u64..100_000), 1..200),
    ) {
        for entry in ALL {
            let mut router = made(entry.info.name);
            let mut now = Nanos::ZERO;
            for &(extension, us, backlog) in &packets {
                let next = now + Nanos::from_micros(us);
                while router.next_wake() <= next {
                    let due = router.next_wake();
                    router.on_wake(&mut TestPort::default().at(due, backlog));
                    prop_assert!(router.next_wake() > due, "{}", entry.info.name);
                }
                now = next;
                let mut sent = packet(extension);
                router.on_arrival(&mut TestPort::default().at(now, backlog), &mut sent);
                router.on_departure(&mut TestPort::default().at(now, backlog), &mut sent);
                match (entry.info.name, sent.rate_header()) {
                    ("rcp", RateHeader::RcpRequest { rate, .. }) => prop_assert!((0.0..=1e7).contains(&rate)),
                    // Bound of an allotted change: alpha times the capacity, as on an idle link, plus a tenth of the
                    // load.
                    ("xcp", RateHeader::XcpRequest { delta, .. }) => prop_assert!(delta.is_finite() && delta <= 2e7),
                    _ => {}
                }
            }
            router.telemetry(&mut |name, value| {
                let sound = value.number().is_none_or(|x| x.is_finite() && x >= 0.0);
                assert!(sound, "{name}: {value:?}");
            });
        }
    }
}
