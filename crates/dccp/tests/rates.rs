//! The receive rate, the round-trip time that the window counter shows, CCID 3's reports, and DCCP-BBR's loss rate.

use std::collections::{BTreeMap, BTreeSet};

use narrows_cc::{Bytes, Nanos, Rate};
use narrows_dccp::loss::{Arrival, CounterRtt, LossRate, ReceiveRate, Receiver, Separation, read_intervals};
use narrows_dccp::seq::Seq;
use narrows_dccp::wire::{Opt, options};
use proptest::prelude::*;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// RFC 4342 section 8.3: the bytes of the last t seconds by t, the longer of R and the time since the last report.
#[test]
fn a_constant_rate_is_reported_as_it_is() {
    let rtt = ms(80);
    let mut rate = ReceiveRate::new(Nanos::ZERO);
    // 1000 bytes each millisecond: 10^6 B/s; reports sooner and later than a round trip after one another.
    let mut reports = 0;
    for millis in 1..=2000 {
        rate.arrive(ms(millis), 1000, rtt);
        if [100, 110, 115, 200, 530, 531, 1000, 2000].contains(&millis) {
            let told = rate.report(ms(millis), rtt).as_bytes_per_sec();
            // Within one packet of those of a round trip.
            assert!(told.abs_diff(1_000_000) <= 1000 * 1000 / 80, "at {millis} ms: {told} B/s");
            reports += 1;
        }
    }
    assert_eq!(reports, 8);
    assert_eq!(rate.report(ms(4000), rtt), Rate::ZERO, "nothing came in two seconds");
    assert_eq!(ReceiveRate::new(ms(5)).rate(ms(5), ms(0)), Rate::ZERO);
}

#[test]
fn the_time_since_a_report_counts_from_there() {
    let rtt = ms(50);
    let mut rate = ReceiveRate::new(Nanos::ZERO);
    rate.arrive(ms(10), 5000, rtt);
    assert_eq!(rate.report(ms(100), rtt), Rate::from_bytes_per_sec(50_000));
    rate.arrive(ms(150), 600, rtt);
    assert_eq!(rate.report(ms(300), rtt), Rate::from_bytes_per_sec(3000));
}

proptest! {
    /// Bursts: never off by more than what one eighth of a round trip brought.
    #[test]
    fn a_varying_rate_is_that_of_the_last_round_trip(
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
                let told = rate.report(ms(now), rtt).as_bytes_per_sec();
                if now - last >= rtt_ms {
                    let new = since(last as i64) + if last == 0 { all.get(&0).copied().unwrap_or(0) } else { 0 };
                    // What came in the very millisecond of a report, after it, belongs to the next: at most that.
                    let at_report = all.get(&last).copied().unwrap_or(0);
                    prop_assert!(told >= new * 1000 / t && told <= (new + at_report) * 1000 / t + 1);
                } else {
                    let exact = since(now as i64 - t as i64);
                    // A part is an eighth long and ends with a packet; it counts by its share of the round trip.
                    let edge = now as i64 - t as i64;
                    let part = rtt_ms as i64 / 8 + 31;
                    let off: u64 = all.range((edge - part).max(0) as u64..=(edge + part).max(0) as u64).map(|(_, n)| n).sum();
                    prop_assert!((told * t / 1000).abs_diff(exact) <= off + 1, "{} B/s for {} bytes in {} ms", told, exact, t);
                }
                last = now;
            }
        }
    }
}

/// The sender's counter goes up each quarter of R; packets every 3 ms put each step's first packet at most 3 ms late.
#[test]
fn the_window_counter_shows_the_round_trip_time() {
    for rtt in [40, 100, 333] {
        let mut estimate = CounterRtt::new(None);
        for packet in 0..1000u64 {
            let millis = packet * 3;
            estimate.arrive(ms(millis), (millis * 4 / rtt % 16) as u8);
        }
        let told = estimate.rtt().unwrap().as_millis_f64();
        assert!((told - rtt as f64).abs() <= 3.0, "{told} ms, not {rtt}");
    }
}

#[test]
fn a_counter_that_jumps_by_five_says_nothing_of_time() {
    let mut estimate = CounterRtt::new(Some(ms(70)));
    // One packet a second: the sender's counter goes up by at most five.
    for packet in 0..20u64 {
        estimate.arrive(Nanos::from_secs(packet), (packet * 5 % 16) as u8);
    }
    assert_eq!(estimate.rtt(), Some(ms(70)));
    // Two steps before a jump are a sample of half a round trip: 2 steps in 20 ms.
    let mut estimate = CounterRtt::new(None);
    for (millis, counter) in [(0, 0), (20, 2), (500, 7)] {
        estimate.arrive(ms(millis), counter);
    }
    assert_eq!(estimate.rtt(), Some(ms(40)));
}

/// R = 100 ms, a packet each millisecond: the window counter goes up every 25.
fn data(n: u64) -> Arrival {
    let counter = (n / 25 % 16) as u8;
    Arrival { at: ms(n), seq: Seq::new(n), data: true, ndp: None, marked: false, counter }
}

#[test]
fn reports_are_due_once_in_a_round_trip_and_when_a_loss_event_begins() {
    let mut receiver = Receiver::new(Nanos::ZERO, None, Separation::Counter, true);
    let mut due = Vec::new();
    for n in (0..600).filter(|n| ![430, 431, 500, 560].contains(n)) {
        if receiver.arrive(&data(n), 1000) {
            due.push(n);
            receiver.report(ms(n));
        }
    }
    // 434 and 563 are the third after a loss; 500 is less than a round trip after 430. The round trip of the report at 434 counts
    // from its counter, which began at 425.
    assert_eq!(due, [0, 100, 200, 300, 400, 434, 525, 563]);
    assert_eq!((receiver.history().events(), receiver.history().lost()), (2, 4));
}

#[test]
fn a_report_says_what_was_measured() {
    let mut receiver = Receiver::new(Nanos::ZERO, None, Separation::Counter, false);
    for n in (0..=1000).filter(|n| *n != 700) {
        if receiver.arrive(&data(n), 1000) {
            receiver.report(ms(n));
        }
    }
    let report = receiver.report(Nanos::from_micros(1_002_340));
    assert_eq!(report.elapsed, 234);
    let told = report.receive_rate.as_bytes_per_sec();
    // 102.34 ms since the report at 900 or less than that: two packets of a hundred for the edges.
    assert!(told.abs_diff(1_000_000) <= 30_000, "{told} B/s");
    let mut bytes = Vec::new();
    receiver.write(&report, true, &mut bytes);
    let read: Vec<Opt> = options(&bytes).map(Result::unwrap).collect();
    let [
        Opt::ElapsedTime(234),
        Opt::ReceiveRate(rate),
        Opt::LossIntervals(value),
        Opt::LossEventRate(inverse),
    ] = read[..]
    else {
        panic!("{read:?}")
    };
    assert_eq!(u64::from(rate), told);
    assert_eq!(inverse, report.inverse_rate);
    let lengths: Vec<u64> = read_intervals(value).unwrap().1.map(|interval| interval.data).collect();
    // 700 to 1000; before it, the interval at which the equation gives 100 packets in a round trip of about 100 ms.
    assert_eq!(lengths[0], 301);
    let p = 1.0 / lengths[1] as f64;
    let x = narrows_cc::tfrc::throughput(Bytes::new(1000), receiver.rtt(), p).as_bytes_per_sec();
    assert!((x as f64 / 1e6 - 1.0).abs() < 0.05, "{x} B/s");
    assert!(bytes.len() <= 102);
}

/// RFC 5348 section 6.3: the first packet makes a report, of a rate of zero.
#[test]
fn the_first_report_has_no_rate() {
    let mut receiver = Receiver::new(Nanos::ZERO, Some(ms(100)), Separation::Counter, false);
    assert!(receiver.arrive(&data(0), 1000));
    assert_eq!(receiver.report(ms(0)).receive_rate, Rate::ZERO);
    for n in 1..=100 {
        receiver.arrive(&data(n), 1000);
    }
    assert!(receiver.report(ms(100)).receive_rate > Rate::ZERO);
}

#[test]
fn a_loss_before_any_data_stands_for_a_packet_in_two_round_trips() {
    let mut receiver = Receiver::new(Nanos::ZERO, Some(ms(100)), Separation::Time, false);
    for n in [0, 2, 3, 4] {
        receiver.arrive(&Arrival { data: false, ..data(n) }, 0);
    }
    // f(p) = 2 round trips per packet; 1/p to the next whole packet. A byte stands for the unknown size.
    let p = narrows_cc::tfrc::loss_event_rate(Bytes::new(1), ms(100), Rate::from_bytes_per_sec(5));
    assert!((narrows_cc::tfrc::round_trips_per_segment(p) - 2.0).abs() < 1e-6);
    let lengths: Vec<u64> = receiver.intervals().1.map(|interval| interval.data).collect();
    assert_eq!(lengths, [1, (1.0 / p).round() as u64]);
}

const HALF: u64 = 500;

/// Equation 11 word for word, over half seconds of which the newest 20 count.
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
    #[test]
    fn the_loss_rate_is_that_of_equation_11(
        packets in prop::collection::vec((0..400u64, 0..6u64, prop::bool::weighted(0.25)), 1..400),
        idle in prop::option::of((0..400usize, 0..30_000u64)),
        wrap in 0..200i64,
    ) {
        // Packets leave `gap` ms apart, some arrive up to `late` places later, some never.
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
            let (told, expected) = (rate.rate(ms(at)), model_rate(&order[..=i], at));
            match (told, expected) {
                (Some(told), Some(expected)) => prop_assert!((told - expected).abs() < 1e-12, "{} and {}", told, expected),
                other => prop_assert_eq!(other, (None, None)),
            }
        }
        let end = order.last().map_or(0, |(at, _)| *at);
        prop_assert_eq!(rate.rate(ms(end + 10_500)), None);
        prop_assert_eq!(rate.option(ms(end + 10_500)), None);
    }
}

#[test]
fn a_loss_rate_follows_the_path_within_ten_seconds() {
    let mut rate = LossRate::new(Seq::new(0));
    assert_eq!(rate.rate(Nanos::ZERO), None);
    // 1000 packets a second; every fourth is lost in the first 20 s, none after.
    let mut seen = Vec::new();
    for n in 1..=40_000u64 {
        if n > 20_000 || n % 4 != 0 {
            rate.arrive(ms(n), Seq::new(n));
        }
        if [15_000, 24_999, 31_000].contains(&n) {
            seen.push(rate.rate(ms(n)).unwrap());
        }
    }
    // At 25 s the window is 10 s or half a second less, of which 5 or 4.5 had losses.
    assert!((seen[0] - 0.25).abs() < 1e-3, "{seen:?}");
    assert!((0.25 * 4.5 / 9.5 - 1e-3..=0.125 + 1e-3).contains(&seen[1]), "{seen:?}");
    assert!(seen[2].abs() < 1e-12, "{seen:?}");
}

#[test]
fn a_late_packet_is_credited_to_its_own_half_second() {
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
    // The first half second is over, and its credits with it.
    assert_eq!(rate.rate(ms(10_000)), Some(0.0));
    rate.arrive(ms(10_000), Seq::new(50));
    assert_eq!(rate.rate(ms(10_000)), Some(0.0));
}

#[test]
fn the_option_holds_a_share_of_2_to_the_32_less_one() {
    let mut rate = LossRate::new(Seq::new(0));
    rate.arrive(ms(0), Seq::new(3));
    let option = rate.option(ms(1)).unwrap();
    assert_eq!(option, (2.0 / 3.0 * f64::from(u32::MAX)).round() as u32);
    assert!((LossRate::from_option(option) - 2.0 / 3.0).abs() < 1e-9);
    assert!((LossRate::from_option(u32::MAX) - 1.0).abs() < 1e-15);
}
