//! Tests of the rules of borrowing on a link with continuously backlogged classes.

use super::*;
use crate::config::{LinkConfig, Queue};
use crate::testing::{self, Packet};
use crate::{Link, Offer};
use narrows_units::Random;

const AMPLE: Limit = Limit::Packets(1_000_000);

fn mbit(n: f64) -> Rate {
    Rate::from_mbit_per_sec(n)
}

fn class(name: &str, rate: f64) -> HtbClass {
    HtbClass::new(name, mbit(rate))
}

/// A link on which flow n belongs to class n.
fn link(rate: Rate, classes: Vec<HtbClass>, limit: Limit) -> Link<Packet> {
    let flows = (0..classes.len() as u8).collect();
    let sound = |default| Htb::new(classes.clone(), default).ok();
    let htb = (0..64).find_map(sound).expect("a leaf").with_flows(flows);
    let queue = Queue::Htb(Arc::new(htb));
    Link::new(&LinkConfig { queue, ..LinkConfig::drop_tail(rate, limit) }, Random::stream(1, "link", 0))
}

fn packet(flow: u32, size: u16) -> Packet {
    testing::packet(flow, 0, size)
}

/// Bytes transmitted by each class from `from` to `to`. `backlogged` lists classes and packet sizes: each of these
/// classes always has about a hundred packets of this size in its queue.
fn shares(rate: Rate, classes: Vec<HtbClass>, backlogged: &[(u32, u16)], from: Nanos, to: Nanos) -> Vec<f64> {
    let mut sent = vec![0.0; classes.len()];
    let mut link = link(rate, classes, AMPLE);
    for &(flow, size) in backlogged {
        (0..100).for_each(|_| assert_eq!(link.offer(Nanos::ZERO, &packet(flow, size)), Offer::Queued));
    }
    while link.next_service() < to {
        let now = link.next_service();
        if let Some(left) = link.serve(now) {
            if now >= from {
                sent[left.flow as usize] += left.size().as_f64();
            }
            link.offer(now, &left);
        }
    }
    sent
}

/// Rate of each class in Mbit/s, measured from 1 s to 3 s, while the classes of `backlogged` always have packets
/// queued.
fn rates(rate: f64, classes: Vec<HtbClass>, backlogged: &[u32]) -> Vec<f64> {
    let backlogged: Vec<_> = backlogged.iter().map(|&flow| (flow, 1500)).collect();
    let sent = shares(mbit(rate), classes, &backlogged, Nanos::from_secs(1), Nanos::from_secs(3));
    sent.iter().map(|bytes| bytes * 8e-6 / 2.0).collect()
}

#[track_caller]
fn close(measured: &[f64], expected: &[f64], tolerance: f64) {
    let near = |(measured, expected): (&f64, &f64)| (measured - expected).abs() <= tolerance * expected;
    assert!(measured.iter().zip(expected).all(near), "{measured:?}, not {expected:?}");
}

/// Backlogged classes get their assured rates, at any priorities.
#[test]
#[ignore = "seconds: `make test`"]
fn backlogged_classes_get_their_assured_rates() {
    // The link rates are 80 kbit/s to 100 Gbit/s. The measurement takes about the time of 170 packets of the smallest
    // class, but at least a second.
    for (rate, seconds) in [(0.08, 2_500), (1.0, 200), (100.0, 2), (1_000.0, 1), (10_000.0, 1), (100_000.0, 1)] {
        for order in [[0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]] {
            let parts = [0.55, 0.3, 0.1, 0.04, 0.01];
            let of = |(part, priority)| HtbClass { priority, ..class("c", rate * part) };
            let classes = parts.into_iter().zip(order).map(of).collect();
            let all: Vec<_> = (0..5).map(|flow| (flow, 1500)).collect();
            // The smallest class may have to wait until the other classes have spent their initial tokens. These are
            // one packet per class plus, in total, the bytes that the link sends in a millisecond and ten packets.
            let saved = Bytes::new(15 * 1500) + mbit(rate).over(Nanos::from_millis(1));
            let from = mbit(rate * 0.01).time_for(saved);
            let sent = shares(mbit(rate), classes, &all, from, from + Nanos::from_secs(seconds));
            for (sent, part) in sent.iter().zip(parts) {
                // The tolerance is 1 %, plus one packet at either end.
                let expected = part * rate * 125_000.0 * seconds as f64;
                let apart = (sent - expected).abs();
                assert!(apart <= 0.01 * expected + 3000.0, "{rate} Mbit/s, {order:?}: {sent}, not {expected}");
            }
        }
    }
}

/// A class of half the link keeps its rate against 31 others.
#[test]
fn half_link_class_keeps_its_rate_against_31_others() {
    // 31 small classes share the other half of the link; all of them may be served before the next turn of `half`.
    let mut classes = vec![HtbClass { priority: 7, ..class("half", 50.0) }];
    classes.extend((0..31).map(|_| class("small", 50.0 / 31.0)));
    let all: Vec<_> = (0..32).collect();
    let found = rates(100.0, classes, &all);
    close(&found[..1], &[50.0], 0.01);
    close(&found[1..], &[50.0 / 31.0; 31], 0.02);
}

/// A shaped class alone on the link sends at its ceiling, exact to the nanosecond.
#[test]
fn shaped_class_alone_sends_exactly_at_its_ceiling() {
    // The tokens for a packet of 100 B take 1.25 s at 80 B/s. The tokens for a packet of 9000 B take 728.999… ns at 12
    // 345 678 901 B/s.
    for (rate, size, link_rate) in [(80u64, 100u16, 1_000_000u64), (12_345_678_901, 9_000, 125_000_000_000)] {
        let rate = Rate::from_bytes_per_sec(rate);
        // The bucket must hold at least the tokens of one nanosecond.
        let burst = Some(Bytes::new(20));
        let shaped = HtbClass { ceil: Some(rate), burst, ceil_burst: burst, ..HtbClass::new("shaped", rate) };
        let mut link = link(Rate::from_bytes_per_sec(link_rate), vec![shaped], AMPLE);
        (0..1_000).for_each(|_| _ = link.offer(Nanos::ZERO, &packet(0, size)));
        let transmission = u128::from(size) * 1_000_000_000 / u128::from(link_rate);
        let mut sent = 0u128;
        while link.next_service() < Nanos::MAX {
            let now = link.next_service();
            if link.serve(now).is_some() {
                // A packet starts once the debt of all earlier packets is paid.
                let debt = (sent * u128::from(size)).saturating_sub(20);
                let paid = (debt * 1_000_000_000).div_ceil(u128::from(rate.as_bytes_per_sec()));
                assert!(u128::from(now.as_nanos()).abs_diff(paid + transmission) <= 1, "packet {sent} at {now:?}");
                sent += 1;
            }
        }
        assert_eq!(sent, 1_000);
    }
}

/// Unused bandwidth goes to the best priority; the other classes keep their assured rates.
#[test]
fn unused_rate_goes_to_the_best_priority() {
    let classes = || {
        vec![
            class("idle", 70.0),
            HtbClass { priority: 1, ..class("second", 10.0) },
            HtbClass { priority: 0, ..class("first", 20.0) },
        ]
    };
    close(&rates(100.0, classes(), &[1, 2]), &[0.0, 10.0, 90.0], 0.01);
    // If only `second` is backlogged, it gets the whole link.
    close(&rates(100.0, classes(), &[1]), &[0.0, 100.0, 0.0], 0.001);
}

/// A class stays within its ceiling, and the remaining bandwidth goes to the next priority.
#[test]
fn bandwidth_above_a_ceiling_goes_to_the_next_priority() {
    let classes = vec![
        HtbClass { ceil: Some(mbit(35.0)), ..class("capped", 10.0) },
        HtbClass { priority: 3, ..class("rest", 10.0) },
        HtbClass { priority: 1, ceil: Some(mbit(15.0)), ..class("equal", 15.0) },
    ];
    close(&rates(100.0, classes.clone(), &[0, 1, 2]), &[35.0, 50.0, 15.0], 0.01);
    // Both backlogged classes are at their ceilings: the link is idle half of the time.
    close(&rates(100.0, classes, &[0, 2]), &[35.0, 0.0, 15.0], 0.002);
}

/// Classes of equal priority share the excess in the ratio of their quanta.
#[test]
fn equal_priorities_share_excess_by_quanta() {
    let with = |quantum| HtbClass { quantum: Some(quantum), ..class("c", 1.0) };
    // The three backlogged classes have assured rates of 1 Mbit/s each. They share the other 97 Mbit/s in the ratio of
    // their quanta, 1 : 2 : 5.
    let classes = vec![with(1_500), with(3_000), with(7_500), class("idle", 5.0)];
    close(&rates(100.0, classes, &[0, 1, 2]), &[1.0 + 97.0 / 8.0, 1.0 + 97.0 / 4.0, 1.0 + 97.0 * 0.625], 0.01);
    // The ratio applies to bytes, at any packet size. Default quanta are the bytes of a tenth of a second at the
    // assured rate.
    let classes = vec![class("one", 1.0), class("two", 2.0), class("idle", 5.0)];
    let sent = shares(mbit(50.0), classes, &[(0, 300), (1, 1500)], Nanos::from_secs(1), Nanos::from_secs(21));
    let found: Vec<_> = sent.iter().map(|bytes| bytes * 8e-6 / 20.0).collect();
    close(&found, &[50.0 / 3.0, 100.0 / 3.0, 0.0], 0.02);
}

/// The nearest ancestor with tokens lends.
#[test]
fn nearest_ancestor_with_tokens_lends() {
    //   a 50 ─┬─ a1 40, idle        b 50 ── b1 10
    //         └─ a2 10
    let tree = |priority| {
        vec![
            class("a", 50.0),
            HtbClass { parent: Some(0), ..class("a1", 40.0) },
            HtbClass { parent: Some(0), priority: 5, ..class("a2", 10.0) },
            class("b", 50.0),
            HtbClass { parent: Some(3), priority, ..class("b1", 10.0) },
        ]
    };
    // Although b1 has the better priority, a lends the unused rate of a1 to a2.
    close(&rates(100.0, tree(0), &[2, 4]), &[0.0, 0.0, 50.0, 0.0, 50.0], 0.01);
    // If b1 is idle too, a2 also borrows the rate of b from the link.
    close(&rates(100.0, tree(0), &[2]), &[0.0, 0.0, 100.0, 0.0, 0.0], 0.001);
    // A ceiling of 60 Mbit/s on a changes nothing while b1 is backlogged, but limits a2 while b1 is idle.
    let mut capped = tree(0);
    capped[0].ceil = Some(mbit(60.0));
    close(&rates(100.0, capped, &[2, 4]), &[0.0, 0.0, 50.0, 0.0, 50.0], 0.01);
    let mut capped = tree(0);
    capped[0].ceil = Some(mbit(60.0));
    close(&rates(100.0, capped, &[2]), &[0.0, 0.0, 60.0, 0.0, 0.0], 0.002);
}

/// All borrowers of one class take turns, at any depth.
#[test]
fn borrowers_of_one_class_take_turns_at_any_depth() {
    // No class has an assured rate: the link lends its whole rate to three leaves. Two of the leaves are in the same
    // tree, at different depths (Devera's equation 2 sums over all descendants).
    let under = |parent| HtbClass { parent, ..class("c", 0.0) };
    let classes = vec![under(None), under(Some(0)), under(None), under(Some(0)), under(Some(3))];
    close(&rates(90.0, classes, &[1, 2, 4]), &[0.0, 30.0, 30.0, 0.0, 30.0], 0.01);
}

/// A policed class passes the same packets as a token bucket, and no accepted packet waits for tokens.
#[test]
fn policed_class_passes_bucket_and_never_waits_for_tokens() {
    // The class has 8 Mbit/s, 1000 bytes per millisecond, and a burst of 4000 B. Ten packets of 1000 B arrive at once,
    // then one packet every 0.5 ms for a second.
    let policed = HtbClass { policed: true, burst: Some(Bytes::new(4_000)), ..class("policed", 8.0) };
    let mut link = link(mbit(800.0), vec![policed, class("other", 100.0)], AMPLE);
    let mut passed = (0..10).filter(|_| link.offer(Nanos::ZERO, &packet(0, 1000)) == Offer::Queued).count();
    assert_eq!(passed, 4);
    // The other class borrows all the time; the transmission of each of its packets of 1500 B takes 15 us.
    (0..100).for_each(|_| _ = link.offer(Nanos::ZERO, &packet(1, 1500)));
    let step = Nanos::from_micros(500);
    let (mut next, mut left) = (step, 0);
    while next <= Nanos::from_secs(1) {
        let now = link.next_service();
        if now >= next {
            passed += usize::from(link.offer(next, &packet(0, 1000)) == Offer::Queued);
            next += step;
        } else if let Some(packet) = link.serve(now) {
            match packet.flow {
                0 => left += 1,
                _ => _ = link.offer(now, &packet),
            }
        }
    }
    assert_eq!(passed, 4 + 1_000);
    let classes = link.classes(Nanos::from_secs(1));
    assert_eq!(classes[0].dropped, 2_010 - 1_004);
    assert!(left + 1 >= passed, "{left}");
    assert_eq!(link.stats().dropped_policer, classes[0].dropped);
    // Each packet waits for at most one packet in transmission (15 us). Of the first four packets, three also wait for
    // their predecessors (10 us each).
    let most = (6 * 10 + 1_000 * 15) * 1_000;
    assert!(classes[0].queue_delay_sum_ns <= most, "{} ns", classes[0].queue_delay_sum_ns);
}

/// An unresponsive class cannot delay a conforming one.
#[test]
fn unresponsive_class_cannot_delay_a_conforming_one() {
    // The flood has the best priority, an unlimited supply of packets and no ceiling. The conforming class sends a
    // packet of 1500 B every 240 us (50 Mbit/s on a link of 100 Mbit/s) for two seconds. Each of its packets may have
    // to wait for the packet in transmission (120 us).
    let flood = HtbClass { limit: Some(Limit::Packets(50)), ..class("flood", 50.0) };
    let meek = HtbClass { priority: 7, limit: Some(Limit::Packets(1)), ..class("meek", 50.0) };
    let mut link = link(mbit(100.0), vec![flood, meek], AMPLE);
    let mut next = Nanos::from_secs(1);
    (0..100).for_each(|_| _ = link.offer(Nanos::ZERO, &packet(0, 1500)));
    while next < Nanos::from_secs(3) {
        let now = link.next_service().min(next);
        if now < link.next_service() {
            assert_eq!(link.offer(now, &packet(1, 1500)), Offer::Queued);
            next += Nanos::from_micros(240);
        } else if link.serve(now).is_some() {
            (0..2).for_each(|_| _ = link.offer(now, &packet(0, 1500)));
        }
    }
    let classes = link.classes(next);
    assert_eq!(classes[1].dropped, 0);
    // The conforming class always has enough tokens. The flood goes first while its tokens last, which is at most the
    // time of its bucket's depth.
    let bucket = 1500.0 + 6.25e6 * (0.001 + 4.0 * 1500.0 / 12.5e6);
    let most = (bucket + 2.0 * 1500.0) / 12.5e6 * 1e9;
    let mean = classes[1].queue_delay_sum_ns as f64 / classes[1].sent_packets as f64;
    assert!(mean <= most, "{mean} ns");
    assert!(classes[0].dropped > 8_000);
}

/// Each class has its own buffer limit.
#[test]
fn each_class_has_its_own_buffer() {
    let with = |limit| HtbClass { limit, ..class("c", 1.0) };
    let classes = vec![
        with(Some(Limit::Packets(3))),
        with(Some(Limit::Bytes(Bytes::new(7_000)))),
        // At the rate of this class the transmission of 1500 B takes 12 ms: a packet behind three other packets exceeds
        // the limit of 24 ms.
        with(Some(Limit::Time(Nanos::from_millis(24)))),
        with(None),
        HtbClass { limit: Some(Limit::Time(Nanos::from_millis(1))), ..class("still", 0.0) },
    ];
    let mut link = link(mbit(100.0), classes, Limit::Packets(6));
    link.offer(Nanos::ZERO, &packet(3, 1500));
    let mut kept = |flow| (0..20).filter(|_| link.offer(Nanos::ZERO, &packet(flow, 1500)) == Offer::Queued).count();
    assert_eq!([kept(0), kept(1), kept(2), kept(3), kept(4)], [3, 4, 3, 6, 1]);
    assert_eq!(link.stats().dropped_queue, 100 - 17);
}

/// A time limit of the link is converted to bytes at the link's rate, regardless of a class's assured rate.
#[test]
fn link_time_limit_counts_at_the_link_rate() {
    // The transmission of 1500 B takes 0.12 ms at 100 Mbit/s, so the limit of 10 ms corresponds to 83.3 packets. One
    // more packet may exceed the limit.
    let classes = vec![HtbClass::new("borrows all", Rate::from_bytes_per_sec(1)), class("other", 99.0)];
    let mut link = link(mbit(100.0), classes, Limit::Time(Nanos::from_millis(10)));
    link.offer(Nanos::ZERO, &packet(1, 1500));
    let kept = |flow, link: &mut Link<Packet>| {
        (0..200).filter(|_| link.offer(Nanos::ZERO, &packet(flow, 1500)) == Offer::Queued).count()
    };
    assert_eq!([kept(0, &mut link), kept(1, &mut link)], [84, 84]);
}

/// Dequeues all eligible packets at `now`; returns their bytes.
fn drain(htb: &mut ClassQueues<Packet>, now: Nanos) -> u64 {
    std::iter::from_fn(|| htb.dequeue(now, &mut Tally::default())).map(|(_, packet)| packet.size().as_u64()).sum()
}

/// A change of a class's rate neither creates nor loses tokens.
#[test]
fn class_rate_change_neither_mints_nor_loses_tokens() {
    let rate = Rate::from_bytes_per_sec;
    let depth = Some(Bytes::new(10_000));
    let shaped = HtbClass {
        ceil: Some(rate(1_000_000)),
        burst: depth,
        ceil_burst: depth,
        ..HtbClass::new("c", rate(1_000_000))
    };
    let mut htb = ClassQueues::new(&Arc::new(Htb::new(vec![shaped], 0).unwrap()), mbit(100.0), AMPLE);
    for _ in 0..10_000 {
        htb.enqueue(Nanos::ZERO, &packet(0, 1000), None, Room::Idle, &mut Tally::default());
    }
    // The class sends the depth of its bucket, 10 000 bytes, plus one packet into debt.
    assert_eq!(drain(&mut htb, Nanos::ZERO), 11_000);
    // For 2 s the rate alternates every 10 us between 1 MB/s and 3 MB/s. The mean is 2 MB/s; the bytes sent may differ
    // from this rate by one packet of debt.
    let mut sent = 0;
    for n in 1..=200_000u64 {
        let now = Nanos::from_micros(10 * n);
        sent += drain(&mut htb, now);
        let next = rate(if n % 2 == 0 { 1_000_000 } else { 3_000_000 });
        htb.set_class(now, 0, next, next);
    }
    assert!(sent.abs_diff(4_000_000) <= 1_000, "{sent}");
    // A rate of zero halts the class. After a new rate is set, the class may send again as soon as this rate has paid
    // its debt.
    let now = Nanos::from_secs(2);
    drain(&mut htb, now);
    htb.set_class(now, 0, Rate::ZERO, Rate::ZERO);
    assert_eq!(htb.ready_at(now), Nanos::MAX);
    let later = Nanos::from_secs(9);
    assert_eq!(drain(&mut htb, later), 0);
    htb.set_class(later, 0, rate(1_000), rate(1_000));
    let ready = htb.ready_at(later);
    assert!(ready > later && ready <= later + Nanos::from_secs(1), "{ready:?}");
    assert!(htb.dequeue(ready - Nanos::from_nanos(1), &mut Tally::default()).is_none());
    assert!(htb.dequeue(ready, &mut Tally::default()).is_some());
    // Without a ceiling the class borrows as soon as its debt is paid.
    htb.set_class(ready, 0, rate(1_000), Rate::MAX);
    let ready = ready + Nanos::from_nanos(1);
    let waiting = htb.bytes();
    assert!(waiting > 5_000_000);
    assert_eq!(drain(&mut htb, ready), waiting);
    assert_eq!((htb.packets(), htb.ready_at(ready)), (0, Nanos::MAX));
}
