//! TFRC's loss history against the formulas of RFC 5348, the example of RFC 4342, and a reference list.

use crate::loss_model::{Model, model_mean};
use narrows_cc::{Bytes, Nanos, Rate, tfrc};
use narrows_dccp::loss::{
    Arrival, Interval, LossHistory, PathEstimate, Separation, mean_interval, read_intervals, write_intervals,
};
use narrows_dccp::seq::Seq;
use narrows_dccp::wire::{Opt, options};
use proptest::prelude::*;

const SEGMENT: Bytes = Bytes::new(1000);

fn arrival(millis: u64, n: u64) -> Arrival {
    Arrival { at: Nanos::from_millis(millis), seq: Seq::new(n), data: true, ndp: None, marked: false, counter: 0 }
}

/// Path estimates at which the first interval counts as `first` packets.
fn path(rtt_ms: u64, first: u64) -> PathEstimate {
    let rtt = Nanos::from_millis(rtt_ms);
    PathEstimate { rtt, segment: SEGMENT, target: tfrc::throughput(SEGMENT, rtt, 1.0 / first as f64) }
}

fn intervals(history: &LossHistory) -> Vec<Interval> {
    history.intervals().1.collect()
}

/// The history of packets 0..=`last`, one per millisecond, without those in `lost`, separated by time.
fn pattern(discounting: bool, last: u64, lost: &[u64], path: &PathEstimate) -> LossHistory {
    let mut history = LossHistory::new(Separation::Time, discounting);
    for n in (0..=last).filter(|n| !lost.contains(n)) {
        history.arrive(&arrival(n, n), path);
    }
    history
}

/// The example of RFC 4342 gives its Loss Intervals option.
///
/// RFC 4342 section 8.6.2: packets 10, 19 to 21, 23 and 32 of 0 to 44 are lost, and 43 is missing but undecided. The
/// intervals from 10, 19 and 32 contain one, three and one packet without data; the interval before the first loss
/// counts as 15. The nonce bits of the example are not used.
#[test]
fn loss_intervals_match_example_of_rfc_4342() {
    let path = path(5, 15);
    let mut history = LossHistory::new(Separation::Time, false);
    for n in (0..=44).filter(|n| ![10, 19, 20, 21, 23, 32, 43].contains(n)) {
        let data = ![11, 24, 25, 26, 33].contains(&n);
        history.arrive(&Arrival { data, ..arrival(n, n) }, &path);
    }
    let (skip, entries) = history.intervals();
    let mut bytes = Vec::new();
    write_intervals(skip, entries, &mut bytes);
    let expected = [
        193, 39, 2, //
        0, 0, 10, 0, 0, 1, 0, 0, 10, //
        0, 0, 8, 0, 0, 5, 0, 0, 10, //
        0, 0, 8, 0, 0, 1, 0, 0, 8, //
        0, 0, 10, 0, 0, 0, 0, 0, 15,
    ];
    assert_eq!(bytes, expected);
    assert_eq!((history.events(), history.lost(), history.settled()), (3, 6, Some(Seq::new(42))));
    // Three closed intervals: the mean is the greater of (10 + 10 + 8)/3, with the open interval, and (10 + 8 + 15)/3 =
    // 11, without it.
    assert_eq!(history.mean_interval(), Some(11.0));
    assert_eq!(history.inverse_rate(), 11);

    let Some(Ok(Opt::LossIntervals(value))) = options(&bytes).next() else { panic!("no intervals") };
    let (skip, read) = read_intervals(value).unwrap();
    let read: Vec<Interval> = read.collect();
    assert_eq!((skip, &read), (2, &intervals(&history)));
    assert_eq!(mean_interval(read.iter().map(|interval| interval.data)), Some(11.0));
}

/// The mean uses the weights of RFC 5348 section 5.4, and at most eight closed intervals.
#[test]
fn mean_interval_uses_weights_of_section_5_4() {
    // Eight closed intervals of 10, 20, ... 80 packets, newest first, and an open interval.
    let closed = [10, 20, 30, 40, 50, 60, 70, 80];
    let weights = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
    for open in [1, 9, 35, 90, 1000] {
        let all: Vec<u64> = std::iter::once(open).chain(closed).collect();
        let sum = |from: usize| -> f64 { (0..8).map(|i| all[i + from] as f64 * weights[i]).sum() };
        let expected = sum(0).max(sum(1)) / 6.0;
        let mean = mean_interval(all.iter().copied()).unwrap();
        assert!((mean - expected).abs() < 1e-9, "open {open}: {mean}, not {expected}");
    }
    // By hand: (10 + 20 + 30 + 40 + 40 + 36 + 28 + 16)/6 = 220/6.
    assert!((mean_interval([1].into_iter().chain(closed)).unwrap() - 220.0 / 6.0).abs() < 1e-9);
    // A single closed interval has all the weight; a ninth closed interval has no weight.
    assert_eq!(mean_interval([3, 7]), Some(7.0));
    assert_eq!(mean_interval([8, 7]), Some(8.0));
    assert_eq!(mean_interval([5]), None);
    assert_eq!(mean_interval([5; 9].into_iter().chain([1 << 24])), Some(5.0));
}

/// Before the first loss the loss event rate is zero and the data length is not reported.
#[test]
fn loss_event_rate_before_first_loss_is_zero() {
    let history = pattern(true, 500, &[], &path(100, 50));
    assert_eq!((history.mean_interval(), history.inverse_rate()), (None, u32::MAX));
    assert!(history.loss_event_rate().abs() < f64::MIN_POSITIVE);
    // RFC 4342 section 6.1.1: the reported data length is zero before the first loss event.
    assert_eq!(intervals(&history), [Interval { lossless: 501, lossy: 0, data: 0 }]);
}

/// The first interval is 1/p, where p is the rate at which the equation gives X_target, within 5 % (section 6.3.1).
#[test]
fn first_loss_interval_follows_from_receive_rate() {
    for rate in [20_000, 100_000, 1_000_000, 20_000_000] {
        let rtt = Nanos::from_millis(50);
        let path = PathEstimate { rtt, segment: SEGMENT, target: Rate::from_bytes_per_sec(rate) };
        let history = pattern(false, 13, &[10], &path);
        let x = |interval: f64| tfrc::throughput(SEGMENT, rtt, 1.0 / interval).as_bytes_per_sec();
        // Intervals are whole packets: an interval shorter or longer by half a packet gives a rate below or above the
        // actual rate.
        let interval = intervals(&history)[1].data as f64;
        assert!(x(interval - 0.5) <= rate && rate <= x(interval + 0.5), "{rate} B/s: {interval} packets");
        if interval > 20.0 {
            let x = x(1.0 / history.loss_event_rate());
            assert!((x as f64 / rate as f64 - 1.0).abs() <= 0.05, "{rate} B/s became {x}");
        }
    }
}

/// Three later packets declare a packet lost. Duplicates do not count as later packets, and a declared loss is final.
#[test]
fn loss_is_declared_after_three_later_packets() {
    let path = path(100, 50);
    let mut history = LossHistory::new(Separation::Time, false);
    for n in [0, 1, 3, 4] {
        assert!(!history.arrive(&arrival(n, n), &path));
    }
    assert_eq!(history.intervals().0, 3, "2 to 4 wait");
    assert!(!history.arrive(&arrival(4, 4), &path), "a copy is no later packet");
    assert!(history.arrive(&arrival(5, 5), &path));
    assert_eq!((history.lost(), history.events(), history.settled()), (1, 1, Some(Seq::new(5))));
    assert!(!history.arrive(&arrival(9, 2), &path));
    assert_eq!(history.lost(), 1, "a loss is final");

    let mut reordered = LossHistory::new(Separation::Time, false);
    for n in [0, 1, 3, 4, 2, 5, 6] {
        reordered.arrive(&arrival(n, n), &path);
    }
    assert_eq!((reordered.lost(), reordered.settled()), (0, Some(Seq::new(6))));
}

/// Losses within a round trip form one loss event.
#[test]
fn losses_within_a_round_trip_form_one_event() {
    // One packet leaves per millisecond: packets 30 and 40 are one round trip apart, and packet 41 is more than one
    // round trip after packet 30.
    let history = pattern(false, 60, &[30, 33, 40, 41, 45], &path(10, 50));
    assert_eq!(history.events(), 2);
    assert_eq!(
        intervals(&history),
        [
            Interval { lossless: 15, lossy: 5, data: 20 },
            Interval { lossless: 0, lossy: 11, data: 11 },
            Interval { lossless: 30, lossy: 0, data: 50 },
        ]
    );
}

/// A long gap splits into one event per round trip; nominal arrival times are spaced evenly (section 5.2).
#[test]
fn long_gap_splits_into_events_by_nominal_time() {
    let history = pattern(false, 100, &(20..=69).collect::<Vec<_>>(), &path(10, 50));
    // Packet 20 begins an event. Packet 31, the first packet more than 10 ms later, begins the next event; then packets
    // 42, 53 and 64 do.
    assert_eq!((history.events(), history.lost()), (5, 50));
    let data: Vec<u64> = history.intervals().1.map(|interval| interval.data).collect();
    assert_eq!(data, [37, 11, 11, 11, 11, 50]);
}

/// A gap of 2^40 packets takes constant time and gives exact counts.
#[test]
fn gap_of_2_40_takes_constant_time() {
    let path = path(10, 50);
    let mut history = LossHistory::new(Separation::Time, true);
    let far = 1 << 40;
    for (millis, n) in [(0, 0), (1 << 24, far), (1 << 24, far + 1), (1 << 24, far + 2)] {
        history.arrive(&arrival(millis, n), &path);
    }
    // 2^40 numbers in 2^24 ms: 65 536 packets per millisecond, and one event per 655 361 packets.
    assert_eq!(history.lost(), far - 1);
    assert_eq!(history.events(), (far - 1).div_ceil(655_361));
    let data: Vec<u64> = history.intervals().1.map(|interval| interval.data).collect();
    assert_eq!(data[1..], [655_361; 8]);
    assert_eq!(data[0], (far - 1) - (history.events() - 1) * 655_361 + 3);
}

/// With the window counter, a new event requires that, between its first loss and the first loss of the last event, a
/// packet arrived whose counter is more than four ahead of the counter before the earlier loss (RFC 4342 section 10.2).
#[test]
fn window_counter_separates_loss_events() {
    let run = |lost: &[u64]| {
        let mut history = LossHistory::new(Separation::Counter, false);
        for n in (0..60).filter(|n| !lost.contains(n)) {
            // The counter advances every two packets, that is, there are two packets per quarter of a round trip; all
            // arrival times are equal.
            history.arrive(&Arrival { counter: (n / 2 % 16) as u8, ..arrival(0, n) }, &path(100, 50));
        }
        history.events()
    };
    // Packet 19, before the lost packet 20, has counter 9: a packet with counter 14 (packet 28 or later) must arrive
    // before a loss begins another event.
    assert_eq!(run(&[20, 28]), 1);
    assert_eq!(run(&[20, 29]), 2);
    assert_eq!(run(&[20, 28, 29, 30]), 1);
    assert_eq!(run(&[20, 28, 29, 31]), 2);
    // The counter wraps: packets 19 and 51 both have counter 9, but packet 28 has arrived in between.
    assert_eq!(run(&[20, 52]), 2);
    // If no packet arrives in between, all losses form one event.
    assert_eq!(run(&(20..52).collect::<Vec<_>>()), 1);
}

/// Missing packets without data are not losses.
#[test]
fn lost_packets_without_data_are_no_losses() {
    let path = path(2, 50);
    let mut history = LossHistory::new(Separation::Time, false);
    let arrivals = [(0, None), (1, None), (4, Some(2)), (5, None), (8, Some(1)), (9, None), (10, None), (11, None)];
    for (n, ndp) in arrivals {
        history.arrive(&Arrival { ndp, ..arrival(n, n) }, &path);
    }
    // Of the missing packets, 2 and 3 carried no data; of packets 6 and 7, only packet 6 carried data.
    assert_eq!((history.lost(), history.events()), (1, 1));
    assert_eq!(intervals(&history)[0], Interval { lossless: 5, lossy: 1, data: 5 });
}

/// An ECN mark on a data packet begins a loss event immediately.
#[test]
fn ecn_marks_begin_events_at_once() {
    let path = path(10, 50);
    let mut history = LossHistory::new(Separation::Time, false);
    let mut begun = Vec::new();
    for n in 0..40 {
        if history.arrive(&Arrival { marked: [12, 15, 23].contains(&n), ..arrival(n, n) }, &path) {
            begun.push(n);
        }
    }
    assert_eq!(begun, [12, 23]);
    assert_eq!((history.events(), history.lost()), (2, 0));
    assert_eq!(
        intervals(&history)[..2],
        [Interval { lossless: 16, lossy: 1, data: 17 }, Interval { lossless: 7, lossy: 4, data: 11 },]
    );
    let mut acks = LossHistory::new(Separation::Time, false);
    assert!(!acks.arrive(&Arrival { marked: true, data: false, ..arrival(0, 0) }, &path));
}

/// An open interval of more than twice the mean discounts the closed intervals, down to a quarter (section 5.5).
#[test]
fn long_open_interval_discounts_history() {
    let path = path(1, 10);
    let run = |last: u64, discounting: bool| {
        // Nine loss events, 10 packets apart.
        let lost: Vec<_> = (1..=9).map(|i| 10 * i).collect();
        pattern(discounting, last, &lost, &path).mean_interval().unwrap()
    };
    for (open, factor) in [(15, 1.0), (20, 1.0), (25, 0.8), (40, 0.5), (80, 0.25), (1000, 0.25)] {
        // The open interval has weight 1; seven intervals of 10 have weight 5 in total, times DF.
        let sum = |df: f64| (open as f64 + 50.0 * df) / (1.0 + 5.0 * df);
        let (plain, discounted) = (run(89 + open, false), run(89 + open, true));
        assert!((plain - sum(1.0).max(10.0)).abs() < 1e-9, "{open}: {plain}");
        assert!((discounted - sum(factor).max(10.0)).abs() < 1e-9, "{open}: {discounted}, not {}", sum(factor));
    }
}

/// Interval lengths saturate at the width of their fields, and malformed options are rejected.
#[test]
fn loss_interval_lengths_saturate_at_24_bits() {
    let mut bytes = Vec::new();
    let long = Interval { lossless: 1 << 30, lossy: 1 << 30, data: 1 << 30 };
    write_intervals(9, [long; 40], &mut bytes);
    assert_eq!(bytes.len(), 3 + 28 * 9);
    let Some(Ok(Opt::LossIntervals(value))) = options(&bytes).next() else { panic!("no intervals") };
    let (skip, mut read) = read_intervals(value).unwrap();
    assert_eq!((skip, read.len()), (3, 28));
    assert_eq!(read.next(), Some(Interval { lossless: (1 << 24) - 1, lossy: (1 << 23) - 1, data: (1 << 24) - 1 }));
    assert!(read_intervals(&[]).is_none() && read_intervals(&[0; 11]).is_none());
    assert_eq!(read_intervals(&[1]).map(|(skip, read)| (skip, read.len())), Some((1, 0)));
}

/// Fates of packets: delay, lost, ECN marked, without data.
fn fates() -> impl Strategy<Value = Vec<(u8, bool, bool, bool)>> {
    let late = prop_oneof![6 => Just(0u8), 2 => 1..3u8, 1 => 3..12u8];
    let fate = (late, prop::bool::weighted(0.08), prop::bool::weighted(0.03), prop::bool::weighted(0.1));
    let burst = (3..40usize).prop_map(|n| vec![(0, true, false, false); n]);
    let piece = prop_oneof![12 => fate.prop_map(|fate| vec![fate]), 1 => burst];
    prop::collection::vec(piece, 1..250).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The loss history matches a reference list of all arrivals, for both separations, with loss,
    /// reordering, duplicates, marks and wrap.
    #[test]
    fn loss_history_matches_reference_list(
        fates in fates(),
        copies in any::<bool>(),
        counter in any::<bool>(),
        discounting in any::<bool>(),
        ndp in any::<bool>(),
        rtt_ms in prop_oneof![1..5u64, 5..40u64],
        from_wrap in prop_oneof![0i64..100, Just(1 << 44)],
        first in 1..200u64,
    ) {
        let separation = if counter { Separation::Counter } else { Separation::Time };
        let path = path(rtt_ms, first);
        let origin = Seq::new(0).add(-from_wrap);
        // Packets are sent in turns; a late packet arrives later than its turn by its delay.
        let mut order: Vec<(u64, u64)> = Vec::new();
        for (n, (late, lost, ..)) in fates.iter().enumerate() {
            if !lost {
                order.push((2 * n as u64 + 2 * u64::from(*late), n as u64));
                if copies && n % 5 == 0 {
                    order.push((2 * n as u64 + 7, n as u64));
                }
            }
        }
        order.sort();
        let mut without = 0;
        let counts: Vec<u64> = fates.iter().map(|fate| {
            let before = without;
            without = if fate.3 { without + 1 } else { 0 };
            before
        }).collect();
        let mut history = LossHistory::new(separation, discounting);
        let mut model = Model::default();
        for (turn, n) in order {
            let (_, _, marked, no_data) = fates[n as usize];
            let arrival = Arrival {
                at: Nanos::from_micros(turn * 731),
                seq: origin.add(n as i64),
                data: !no_data,
                ndp: ndp.then_some(counts[n as usize]),
                marked,
                counter: (turn * 731 / (rtt_ms * 250) % 16) as u8,
            };
            history.arrive(&arrival, &path);
            model.arrive(n, arrival);
        }
        let expected = model.read(separation, path.rtt, first, discounting);
        let (skip, reported) = history.intervals();
        let reported: Vec<Interval> = reported.collect();
        prop_assert_eq!(history.events(), expected.events);
        prop_assert_eq!(history.lost(), expected.lost);
        prop_assert_eq!(history.settled(), expected.settled.map(|n| origin.add(n as i64)));
        prop_assert_eq!(u64::from(skip), expected.waiting.min(3));
        let mut intervals = expected.intervals;
        intervals[0].lossless += expected.waiting - u64::from(skip);
        if expected.events == 0 {
            intervals[0].data = 0;
        }
        prop_assert_eq!(&reported, &intervals);
        match (history.mean_interval(), model_mean(&expected.weighted)) {
            (None, None) => prop_assert_eq!(history.inverse_rate(), u32::MAX),
            (Some(mean), Some(model)) => {
                prop_assert!((mean - model).abs() < 1e-9 * model, "{} and {}", mean, model);
                prop_assert!((1.0..1e9).contains(&mean));
                prop_assert!((history.loss_event_rate() * mean - 1.0).abs() < 1e-12);
                if !discounting {
                    let sent = mean_interval(reported.iter().map(|interval| interval.data)).unwrap();
                    prop_assert!((sent - mean).abs() < 1e-9 * mean, "sender and receiver agree");
                }
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
