//! Receive rate, round-trip time from the window counter, CCID 3 feedback, and DCCP-BBR's loss rate.

use std::collections::{BTreeMap, BTreeSet};

use narrows_cc::{Bytes, Nanos, Rate};
use narrows_dccp::loss::{Arrival, CounterRtt, LossRate, ReceiveRate, Receiver, Separation, read_intervals};
use narrows_dccp::seq::Seq;
use narrows_dccp::wire::{Opt, options};
use proptest::prelude::*;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// A constant rate is reported within one packet per round trip. The rate is the bytes of the last t seconds divided by
/// t, where t is the longer of R and the time since the last report (RFC 4342 section 8.3).
#[test]
fn receive_rate_constant_is_exact_within_a_packet() {
    let rtt = ms(80);
    let mut rate = ReceiveRate::new(Nanos::ZERO);
    // 1000 bytes arrive per millisecond: 10^6 B/s. The reports are less or more than a round trip apart.
    let mut reports = 0;
    for millis in 1..=2000 {
        rate.arrive(ms(millis), 1000, rtt);
        if [100, 110, 115, 200, 530, 531, 1000, 2000].contains(&millis) {
            let measured = rate.report(ms(millis), rtt).as_bytes_per_sec();
            // The error is at most one packet of 1000 B per round trip of 80 ms.
            assert!(measured.abs_diff(1_000_000) <= 1000 * 1000 / 80, "at {millis} ms: {measured} B/s");
            reports += 1;
        }
    }
    assert_eq!(reports, 8);
    assert_eq!(rate.report(ms(4000), rtt), Rate::ZERO, "nothing came in two seconds");
    assert_eq!(ReceiveRate::new(ms(5)).rate(ms(5), ms(0)), Rate::ZERO);
}

/// If more than a round trip has passed since the last report, the rate covers the time since that report.
#[test]
fn receive_rate_counts_from_last_report() {
    let rtt = ms(50);
    let mut rate = ReceiveRate::new(Nanos::ZERO);
    rate.arrive(ms(10), 5000, rtt);
    assert_eq!(rate.report(ms(100), rtt), Rate::from_bytes_per_sec(50_000));
    rate.arrive(ms(150), 600, rtt);
    assert_eq!(rate.report(ms(300), rtt), Rate::from_bytes_per_sec(3000));
}

proptest! {
    /// For bursts, the error of the rate is at most the arrivals of one eighth of a round trip.
    #[test]
    fn receive_rate_varying_covers_last_round_trip(
        arrivals in prop::collection::vec((0..30u64, 1..1500u64), 1..200),
        rtt_ms in 8..200u64,
        report_every in 1..20usize,
    ) {
        let rtt = ms(rtt_ms);
        let mut rate = ReceiveRate::new(Nanos::ZERO);
        let (mut now, mut last) = (0, 0);
        let mut all: BTreeMap<u64, u64> = BTreeMap::new();
        for (i, (gap, bytes)) in arrivals.into_iter().enumerate() {
            now += gap;
            rate.arrive(ms(now), bytes, rtt);
            *all.entry(now).or_default() += bytes;
            if i % report_every == 0 && now > 0 {
                let t = rtt_ms.max(now - last);
                let since = |from: i64| -> u64 { all.iter().filter(|(at, _)| **at as i64 > from).map(|(_, n)| n).sum() };
                let measured = rate.report(ms(now), rtt).as_bytes_per_sec();
                if now - last >= rtt_ms {
                    let new = since(last as i64) + if last == 0 { all.get(&0).copied().unwrap_or(0) } else { 0 };
                    // Arrivals in the millisecond of a report may count for the next report.
                    let at_report = all.get(&last).copied().unwrap_or(0);
                    prop_assert!(measured >= new * 1000 / t && measured <= (new + at_report) * 1000 / t + 1);
                } else {
                    let exact = since(now as i64 - t as i64);
                    // A part is an eighth of a round trip, ends with a packet, and counts proportionally.
                    let edge = now as i64 - t as i64;
                    let part = rtt_ms as i64 / 8 + 31;
                    let off: u64 = all.range((edge - part).max(0) as u64..=(edge + part).max(0) as u64).map(|(_, n)| n).sum();
                    prop_assert!((measured * t / 1000).abs_diff(exact) <= off + 1, "{} B/s for {} bytes in {} ms", measured, exact, t);
                }
                last = now;
            }
        }
    }
}

/// The estimate matches R. The counter advances per quarter of R, and packets every 3 ms delay each step by
/// at most 3 ms.
#[test]
fn counter_rtt_follows_window_counter() {
    for rtt in [40, 100, 333] {
        let mut estimate = CounterRtt::new(None);
        for packet in 0..1000u64 {
            let millis = packet * 3;
            estimate.arrive(ms(millis), (millis * 4 / rtt % 16) as u8);
        }
        let measured = estimate.rtt().unwrap().as_millis_f64();
        assert!((measured - rtt as f64).abs() <= 3.0, "{measured} ms, not {rtt}");
    }
}

/// A jump by five steps yields no sample; the steps before the jump yield one.
#[test]
fn counter_rtt_jump_of_five_is_no_sample() {
    let mut estimate = CounterRtt::new(Some(ms(70)));
    // At one packet per second the counter advances by five, its maximum, per packet.
    for packet in 0..20u64 {
        estimate.arrive(Nanos::from_secs(packet), (packet * 5 % 16) as u8);
    }
    assert_eq!(estimate.rtt(), Some(ms(70)));
    // Two steps in 20 ms before a jump are a sample of half a round trip.
    let mut estimate = CounterRtt::new(None);
    for (millis, counter) in [(0, 0), (20, 2), (500, 7)] {
        estimate.arrive(ms(millis), counter);
    }
    assert_eq!(estimate.rtt(), Some(ms(40)));
}

/// R = 100 ms, one packet per millisecond: the window counter advances every 25 ms.
fn data(n: u64) -> Arrival {
    let counter = (n / 25 % 16) as u8;
    Arrival { at: ms(n), seq: Seq::new(n), data: true, ndp: None, marked: false, counter }
}

/// Feedback is due once per round trip and when a loss event begins.
#[test]
fn feedback_is_due_per_round_trip_and_on_loss_event() {
    let mut receiver = Receiver::new(Nanos::ZERO, None, Separation::Counter, true);
    let mut due = Vec::new();
    for n in (0..600).filter(|n| ![430, 431, 500, 560].contains(n)) {
        if receiver.arrive(&data(n), 1000) {
            due.push(n);
            receiver.report(ms(n));
        }
    }
    // Packets 434 and 563 are the third packets after a loss that begins an event; the loss of packet 500 is less than
    // a round trip after the loss of packet 430. The round trip after the report at 434 counts from 425, where the
    // counter value of packet 434 starts.
    assert_eq!(due, [0, 100, 200, 300, 400, 434, 525, 563]);
    assert_eq!((receiver.history().events(), receiver.history().lost()), (2, 4));
}

/// A feedback packet contains the measured elapsed time, receive rate, loss intervals and loss event rate.
#[test]
fn feedback_contains_measured_values() {
    let mut receiver = Receiver::new(Nanos::ZERO, None, Separation::Counter, false);
    for n in (0..=1000).filter(|n| *n != 700) {
        if receiver.arrive(&data(n), 1000) {
            receiver.report(ms(n));
        }
    }
    let report = receiver.report(Nanos::from_micros(1_002_340));
    assert_eq!(report.elapsed, 234);
    let measured = report.receive_rate.as_bytes_per_sec();
    // The previous report was at packet 900, at most 102.34 ms ago, so the report covers about a hundred packets; the
    // tolerance is three of these packets.
    assert!(measured.abs_diff(1_000_000) <= 30_000, "{measured} B/s");
    let mut bytes = Vec::new();
    receiver.write(&report, true, &mut bytes);
    let read: Vec<Opt> = options(&bytes).map(Result::unwrap).collect();
    let [Opt::ElapsedTime(234), Opt::ReceiveRate(rate), Opt::LossIntervals(value), Opt::LossEventRate(inverse)] =
        read[..]
    else {
        panic!("{read:?}")
    };
    assert_eq!(u64::from(rate), measured);
    assert_eq!(inverse, report.inverse_rate);
    let lengths: Vec<u64> = read_intervals(value).unwrap().1.map(|interval| interval.data).collect();
    // The newest interval has packets 700 to 1000; the interval before is the inverse of the loss event rate at which
    // the equation gives 100 packets per round trip of 100 ms.
    assert_eq!(lengths[0], 301);
    let p = 1.0 / lengths[1] as f64;
    let x = narrows_cc::tfrc::throughput(Bytes::new(1000), receiver.rtt(), p).as_bytes_per_sec();
    assert!((x as f64 / 1e6 - 1.0).abs() < 0.05, "{x} B/s");
    assert!(bytes.len() <= 102);
}

/// The first packet triggers feedback with a receive rate of zero (RFC 5348 section 6.3).
#[test]
fn feedback_on_first_packet_has_zero_rate() {
    let mut receiver = Receiver::new(Nanos::ZERO, Some(ms(100)), Separation::Counter, false);
    assert!(receiver.arrive(&data(0), 1000));
    assert_eq!(receiver.report(ms(0)).receive_rate, Rate::ZERO);
    for n in 1..=100 {
        receiver.arrive(&data(n), 1000);
    }
    assert!(receiver.report(ms(100)).receive_rate > Rate::ZERO);
}

/// A loss before any data assumes a rate of one packet in two round trips.
#[test]
fn loss_before_data_assumes_packet_per_two_rtts() {
    let mut receiver = Receiver::new(Nanos::ZERO, Some(ms(100)), Separation::Time, false);
    for n in [0, 2, 3, 4] {
        receiver.arrive(&Arrival { data: false, ..data(n) }, 0);
    }
    // The loss event rate p satisfies f(p) = 2 round trips per packet; 1/p is rounded to a whole packet. The unknown
    // packet size counts as one byte.
    let p = narrows_cc::tfrc::loss_event_rate(Bytes::new(1), ms(100), Rate::from_bytes_per_sec(5));
    assert!((narrows_cc::tfrc::round_trips_per_segment(p) - 2.0).abs() < 1e-6);
    let lengths: Vec<u64> = receiver.intervals().1.map(|interval| interval.data).collect();
    assert_eq!(lengths, [1, (1.0 / p).round() as u64]);
}

const HALF: u64 = 500;

/// Equation 11, over the newest 20 half seconds.
fn model_rate(arrivals: &[(u64, u64)], now: u64) -> Option<f64> {
    let mut current = 0;
    let mut entry = None;
    for &(at, n) in arrivals {
        if n > current {
            if at / HALF + 20 > now / HALF {
                entry = entry.or(Some(current));
            }
            current = n;
        }
    }
    let entry = entry?;
    let nums: BTreeSet<u64> = arrivals.iter().map(|(_, n)| *n).filter(|n| *n > entry).collect();
    Some(1.0 - nums.len() as f64 / (current - entry) as f64)
}

proptest! {
    /// The loss rate matches equation 11 of the paper under reordering, loss, idle time and wrap.
    #[test]
    fn loss_rate_matches_equation_11(
        packets in prop::collection::vec((0..400u64, 0..6u64, prop::bool::weighted(0.25)), 1..400),
        idle in prop::option::of((0..400usize, 0..30_000u64)),
        wrap in 0..200i64,
    ) {
        // Packets leave `gap` ms apart; some arrive up to `late` positions later, some never.
        let origin = Seq::new(0).add(-wrap);
        let (mut now, mut order) = (0, Vec::new());
        for (i, (gap, late, lost)) in packets.iter().enumerate() {
            if let Some((at, length)) = idle && at == i {
                now += length;
            }
            now += gap;
            if !lost {
                order.push((now + late * 150, i as u64 + 1));
            }
        }
        order.sort();
        let mut rate = LossRate::new(origin);
        for (i, &(at, n)) in order.iter().enumerate() {
            rate.arrive(ms(at), origin.add(n as i64));
            let (measured, expected) = (rate.rate(ms(at)), model_rate(&order[..=i], at));
            match (measured, expected) {
                (Some(measured), Some(expected)) => prop_assert!((measured - expected).abs() < 1e-12, "{} and {}", measured, expected),
                other => prop_assert_eq!(other, (None, None)),
            }
        }
        let end = order.last().map_or(0, |(at, _)| *at);
        prop_assert_eq!(rate.rate(ms(end + 10_500)), None);
        prop_assert_eq!(rate.option(ms(end + 10_500)), None);
    }
}

/// The loss rate forgets losses within ten seconds.
#[test]
fn loss_rate_follows_path_within_ten_seconds() {
    let mut rate = LossRate::new(Seq::new(0));
    assert_eq!(rate.rate(Nanos::ZERO), None);
    // 1000 packets per second; every fourth is lost in the first 20 s.
    let mut rates = Vec::new();
    for n in 1..=40_000u64 {
        if n > 20_000 || n % 4 != 0 {
            rate.arrive(ms(n), Seq::new(n));
        }
        if [15_000, 24_999, 31_000].contains(&n) {
            rates.push(rate.rate(ms(n)).unwrap());
        }
    }
    // At 25 s the window is 9.5 to 10 s long, of which 4.5 to 5 s had losses.
    assert!((rates[0] - 0.25).abs() < 1e-3, "{rates:?}");
    assert!((0.25 * 4.5 / 9.5 - 1e-3..=0.125 + 1e-3).contains(&rates[1]), "{rates:?}");
    assert!(rates[2].abs() < 1e-12, "{rates:?}");
}

/// A late packet counts in the half second of its neighbours.
#[test]
fn loss_rate_late_packet_counts_in_its_slot() {
    let mut rate = LossRate::new(Seq::new(0));
    for n in (1..=100).filter(|n| n % 2 == 0) {
        rate.arrive(ms(0), Seq::new(n));
    }
    assert_eq!(rate.rate(ms(0)), Some(0.5));
    for n in 101..=200 {
        rate.arrive(ms(9000), Seq::new(n));
    }
    assert_eq!(rate.rate(ms(9000)), Some(0.25));
    for n in (1..=100).filter(|n| n % 2 == 1) {
        rate.arrive(ms(9000), Seq::new(n));
    }
    assert_eq!(rate.rate(ms(9000)), Some(0.0));
    // The first half second has left the window.
    assert_eq!(rate.rate(ms(10_000)), Some(0.0));
    rate.arrive(ms(10_000), Seq::new(50));
    assert_eq!(rate.rate(ms(10_000)), Some(0.0));
}

/// The Loss Rate option holds the rate in units of 1/(2^32 − 1).
#[test]
fn loss_rate_option_scales_to_2_32_minus_1() {
    let mut rate = LossRate::new(Seq::new(0));
    rate.arrive(ms(0), Seq::new(3));
    let option = rate.option(ms(1)).unwrap();
    assert_eq!(option, (2.0 / 3.0 * f64::from(u32::MAX)).round() as u32);
    assert!((LossRate::from_option(option) - 2.0 / 3.0).abs() < 1e-9);
    assert!((LossRate::from_option(u32::MAX) - 1.0).abs() < 1e-15);
}
