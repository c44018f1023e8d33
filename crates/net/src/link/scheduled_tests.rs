//! Tests of links that store their packets: active queue management, or capacity from a trace.

use std::sync::Arc;

use narrows_units::Rate;
use proptest::prelude::*;

use super::tests::{any_limit, any_loss, link, packet};
use super::*;
use crate::Ecn;
use crate::config::{CoDel, DualPi2, FqCoDel, Htb, HtbClass, Limit, Pie, Policer, Red, Step};
use crate::testing::Packet;
use crate::trace::CapacityTrace;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// A RED queue whose AQM never drops, so that a scheduled link behaves as drop-tail.
const TRANSPARENT: Queue =
    Queue::Red(Red { min: 1e9, max: 2e9, max_p: 0.1, weight: 0.002, adaptive: false, ecn: false });

fn trace_link(text: &str, limit: Limit) -> Link<Packet> {
    let trace = Arc::new(CapacityTrace::parse(text).expect("valid"));
    link(&LinkConfig { capacity: Capacity::Trace(trace), ..LinkConfig::drop_tail(Rate::ZERO, limit) })
}

/// Runs all services due by `until`; returns times and numbers of the departed packets.
fn serve(link: &mut Link<Packet>, until: Nanos) -> Vec<(Nanos, u64)> {
    let mut left = Vec::new();
    while link.next_service() <= until && link.next_service() < Nanos::MAX {
        let at = link.next_service();
        left.extend(link.serve(at).map(|packet| (at, packet.seq)));
    }
    left
}

/// An idle link transmits an arriving packet at once; further packets wait.
#[test]
fn idle_link_transmits_at_once_and_queues_the_rest() {
    // At 12 Mbit/s the transmission of 1500 bytes takes a millisecond.
    let config =
        LinkConfig { queue: TRANSPARENT, ..LinkConfig::drop_tail(Rate::from_mbit_per_sec(12.0), Limit::Packets(1)) };
    let mut link = link(&config);
    assert_eq!(link.next_service(), Nanos::MAX);
    assert_eq!(link.serve(MS(1)).map(|packet| packet.seq), None);
    assert_eq!(link.offer(MS(2), &packet(0, 1500)), Offer::Queued);
    assert_eq!(link.backlog_packets(MS(2)), 0);
    assert_eq!(link.offer(MS(2), &packet(1, 750)), Offer::Queued);
    assert_eq!(link.offer(MS(2), &packet(2, 1500)), Offer::Dropped(DropReason::Queue));
    assert_eq!((link.backlog_packets(MS(2)), link.backlog_bytes(MS(2))), (1, Bytes::new(750)));
    assert_eq!(link.queue_delay(MS(2)), Nanos::from_micros(1_500));
    // After a late call, the next transmission still begins at the end of the previous transmission.
    assert_eq!(link.serve(MS(10)).map(|packet| packet.seq), Some(0));
    assert_eq!(link.next_service(), Nanos::from_micros(3_500));
    assert_eq!(link.serve(MS(10)).map(|packet| packet.seq), Some(1));
    assert_eq!(link.next_service(), Nanos::MAX);
    assert_eq!(link.stats().queue_delay_sum_ns, 1_000_000);
    // The link is busy from 2 ms to 3.5 ms.
    assert_eq!(link.utilization(MS(6)), 0.25);
}

/// An opportunity carries 1500 bytes: several packets share an opportunity, a packet is split over two opportunities,
/// or the rest of an opportunity is wasted.
#[test]
fn opportunities_are_shared_split_or_wasted() {
    // Opportunities at 2, 4, 4, 10, 12, 14, 14, 20 … ms.
    let mut link = trace_link("2\n4\n4\n10\n", Limit::Packets(100));
    // Two small packets share the first opportunity; the third packet is split over this opportunity and the first of
    // the two at 4 ms.
    for (n, size) in [700, 700, 1500].into_iter().enumerate() {
        assert_eq!(link.offer(MS(0), &packet(n as u64, size)), Offer::Queued);
    }
    // 1400 bytes leave before the first byte of the third packet. 2900 bytes would leave before the first byte of a
    // fourth packet, so that byte would leave at 4 ms.
    assert_eq!(link.queue_delay(MS(0)), MS(4));
    assert_eq!(serve(&mut link, MS(9)), [(MS(2), 0), (MS(2), 1), (MS(4), 2)]);
    // The rest of the opportunities at 4 ms and the opportunity at 10 ms have expired; a packet that arrives at 10 ms
    // leaves at 12 ms.
    assert_eq!(link.next_service(), Nanos::MAX);
    link.offer(MS(10), &packet(3, 1500));
    // Packet 4 leaves in the first opportunity at 14 ms. Packet 5 begins in the rest of this opportunity and ends in
    // the second opportunity at 14 ms.
    link.offer(MS(11), &packet(4, 1000));
    link.offer(MS(11), &packet(5, 1500));
    assert_eq!(serve(&mut link, MS(30)), [(MS(12), 3), (MS(14), 4), (MS(14), 5)]);
    // The packets wait 2, 2, 2, 2, 3 and 3 ms until their first byte leaves.
    assert_eq!(link.stats().queue_delay_sum_ns, 14_000_000);
}

/// A saturated trace link carries the mean rate of its trace, less at most one packet.
#[test]
fn saturated_trace_link_carries_the_mean_rate() {
    let text = "1\n1\n3\n8\n8\n8\n13\n";
    let mut link = trace_link(text, Limit::Packets(10));
    let trace = CapacityTrace::parse(text).expect("valid");
    // The trace has seven opportunities of 1500 bytes in 13 ms.
    let mean = 7.0 * 1500.0 / 0.013;
    assert!((trace.mean_rate().as_bytes_per_sec() as f64 - mean).abs() < 1.0);
    let end = MS(13 * 500);
    let (mut now, mut n) = (Nanos::ZERO, 0);
    while now <= end {
        while link.offer(now, &packet(n, [1500, 300, 999][n as usize % 3])) == Offer::Queued {
            n += 1;
        }
        now = link.next_service();
        if now <= end {
            link.serve(now);
        }
    }
    // Only whole packets depart, so at most one packet is missing.
    let carried = link.stats().departed_bytes as f64;
    let expected = mean * end.as_secs_f64();
    assert!(carried <= expected && carried > expected - 1500.0, "{carried} of {expected}");
    assert_eq!(link.capacity_between(Nanos::ZERO, end).as_f64(), expected);
    assert_eq!(link.utilization(end), 1.0);
}

/// An idle trace link accepts at least one packet, whatever its limit.
#[test]
fn idle_trace_link_accepts_one_packet_beyond_its_limit() {
    let accepted = |limit| {
        let mut link = trace_link("5\n", limit);
        (0..10).filter(|&n| link.offer(MS(0), &packet(n, 1500)) == Offer::Queued).count()
    };
    assert_eq!(accepted(Limit::Packets(0)), 1);
    assert_eq!(accepted(Limit::Packets(3)), 3);
    assert_eq!(accepted(Limit::Bytes(Bytes::new(100))), 1);
    assert_eq!(accepted(Limit::Bytes(Bytes::new(3_000))), 2);
    // The trace has opportunities at 5, 10, 15 … ms.
    assert_eq!(accepted(Limit::Time(Nanos::ZERO)), 1);
    assert_eq!(accepted(Limit::Time(MS(10))), 2);
}

/// Returns a link after 20 s of full packets at `load` times its rate, with statistics from 10 s on.
fn overload(queue: Queue, load: f64, ecn: Ecn) -> Link<Packet> {
    let rate = Rate::from_mbit_per_sec(12.0);
    let mut link = link(&LinkConfig { queue, ..LinkConfig::drop_tail(rate, Limit::Packets(1_000)) });
    let mut sent = packet(0, 1500);
    sent.ecn = ecn;
    for n in 0..(20_000.0 * load) as u64 {
        let now = MS(1).mul_f64(n as f64 / load);
        serve(&mut link, now);
        if n == (10_000.0 * load) as u64 {
            link.reset_stats(now);
        }
        link.offer(now, &sent);
    }
    link
}

/// PIE keeps its target delay under an unresponsive overload.
#[test]
fn pie_under_overload_holds_its_target_delay() {
    // At 1.25 times the rate a fifth of the packets must be dropped; the integral term leaves no steady-state error of
    // the delay.
    let link = overload(Queue::Pie(Pie::default()), 1.25, Ecn::NotEct);
    let stats = link.stats();
    let dropped = stats.dropped_aqm as f64 / stats.arrived_packets as f64;
    assert!((dropped - 0.2).abs() < 0.01, "{dropped}");
    assert_eq!(stats.dropped_queue, 0);
    let delay = stats.queue_delay.mean() / 1e6;
    assert!((delay - 15.0).abs() < 1.0, "{delay} ms");
}

/// RED settles at the queue length whose drop rate matches the overload.
#[test]
fn red_under_overload_settles_at_matching_drop_rate() {
    // A tenth of the packets must be dropped. Gaps between drops are uniform on 1 … 1/p - 1, so the mean gap is 1/(2p)
    // = 10 packets and p = 0.05. RED reaches this probability half way between the thresholds, at 30 queued packets;
    // the packet in transmission is not queued.
    let queue = Queue::Red(Red { min: 20.0, max: 40.0, max_p: 0.1, weight: 0.002, adaptive: false, ecn: false });
    let link = overload(queue, 1.0 / 0.9, Ecn::NotEct);
    let dropped = link.stats().dropped_aqm as f64 / link.stats().arrived_packets as f64;
    assert!((dropped - 0.1).abs() < 0.005, "{dropped}");
    let waiting = link.mean_queue(Nanos::from_secs(20));
    assert!((waiting - 30.0).abs() < 1.5, "{waiting}");
}

/// AQMs mark ECN-capable packets instead of dropping them, and the marks leave the link.
#[test]
fn ecn_capable_packets_leave_marked() {
    let red = Queue::Red(Red { min: 20.0, max: 400.0, ecn: true, ..Red::default() });
    let codel = CoDel { ecn: true, ..CoDel::default() };
    let fq = Queue::FqCoDel(FqCoDel { codel, queues: 64, ..FqCoDel::default() });
    for queue in [red, Queue::CoDel(codel), fq] {
        let mut link = overload(queue.clone(), 1.02, Ecn::Ect0);
        assert!(link.stats().marked > 0 && link.stats().dropped() == 0, "{queue:?}");
        let mut marked = 0;
        while link.next_service() < Nanos::MAX {
            marked += u64::from(link.serve(link.next_service()).is_some_and(|packet| packet.ecn == Ecn::Ce));
        }
        assert!(marked > 0, "{queue:?}");
        assert_eq!(overload(queue, 1.02, Ecn::NotEct).stats().marked, 0);
    }
}

fn any_queue() -> impl Strategy<Value = Queue> {
    let codel = |ecn| CoDel { target: MS(1), interval: MS(10), ecn };
    prop_oneof![
        prop::sample::select(Queue::examples()),
        Just(Queue::DropTail),
        any::<bool>().prop_map(move |ecn| Queue::CoDel(codel(ecn))),
        (1..8u32, any::<bool>()).prop_map(move |(queues, ecn)| {
            Queue::FqCoDel(FqCoDel { codel: codel(ecn), queues, ..FqCoDel::default() })
        }),
        any::<bool>().prop_map(|ecn| Queue::Pie(Pie { target: MS(1), ecn })),
        (0u64..3, 0u64..2, any::<bool>()).prop_map(|(ramp, shift, high)| Queue::DualPi2(DualPi2 {
            ramp_min: MS(ramp),
            ramp_range: MS(ramp / 2),
            shift: MS(shift),
            // The higher gain brings the controller into its overload mode at once.
            beta: if high { 100.0 } else { 3.0 },
            ..DualPi2::for_rtt(MS(1), MS(10))
        })),
        // An HTB with one class, shaped to a rate below most of the random capacities.
        (10_000u64..2_000_000).prop_map(|rate| {
            let rate = Rate::from_bytes_per_sec(rate);
            let class = HtbClass { ceil: Some(rate), ..HtbClass::new("all", rate) };
            Queue::Htb(Arc::new(Htb::new(vec![class], 0).unwrap()))
        }),
        (0..6u32).prop_map(|above| Queue::Step(Step { above: f64::from(above) })),
        (any::<bool>(), any::<bool>()).prop_map(|(adaptive, ecn)| Queue::Red(Red {
            min: 1.0,
            max: 4.0,
            max_p: 0.3,
            weight: 0.1,
            adaptive,
            ecn
        })),
    ]
}

fn any_capacity() -> impl Strategy<Value = Capacity> {
    let trace = prop::collection::vec(0u64..6, 1..20).prop_map(|mut gaps| {
        gaps[0] += 1;
        let times = gaps.iter().scan(0, |now, gap| {
            *now += gap;
            Some(*now)
        });
        Capacity::Trace(Arc::new(CapacityTrace { opportunities_ms: times.collect() }))
    });
    let rate = (100_000u64..5_000_000).prop_map(|rate| Capacity::Constant(Rate::from_bytes_per_sec(rate)));
    prop_oneof![rate, trace]
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, u16, u32)>> {
    prop::collection::vec((0u64..1_500_000, 60u16..1500, 0..4u32), 1..400)
}

proptest! {
    /// No packet appears twice or vanishes, and packets of a flow keep their order.
    #[test]
    fn scheduled_link_conserves_packets_and_flow_order(
        arrivals in arrivals(),
        capacity in any_capacity(),
        queue in any_queue(),
        limit in any_limit(),
        loss in any_loss(),
        at_ingress: bool,
        policed: bool,
    ) {
        let keeps = !matches!((&capacity, &queue), (Capacity::Constant(_), Queue::DropTail));
        let policer = Policer { rate: Rate::from_mbit_per_sec(8.0), burst: Bytes::new(20_000) };
        let loss_at = if at_ingress { LossAt::Ingress } else { LossAt::Egress };
        let policer = policed.then_some(policer);
        let mut link = link(&LinkConfig { capacity, limit, queue: queue.clone(), loss, loss_trace: None, loss_at, policer });
        let (mut now, mut left, mut kept) = (Nanos::ZERO, Vec::new(), 0u64);
        for (n, &(gap, size, flow)) in arrivals.iter().enumerate() {
            now += Nanos::from_nanos(gap);
            while link.next_service() <= now {
                left.extend(link.serve(now));
            }
            let mut sent = packet(n as u64, size);
            (sent.flow, sent.ecn) = (flow, [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][flow as usize]);
            let before = link.stats().dropped();
            match link.offer(now, &sent) {
                Offer::Dropped(_) => prop_assert!(link.stats().dropped() > before),
                Offer::Departs { .. } => prop_assert!(!keeps),
                Offer::Consumed => prop_assert!(false, "no packet is addressed to the node"),
                Offer::Queued => {
                    prop_assert!(keeps);
                    prop_assert!(link.next_service() < Nanos::MAX);
                    kept += 1;
                }
            }
            if keeps {
                prop_assert_eq!(link.stats().departed_packets, left.len() as u64);
                let gone = left.len() as u64 + link.stats().dropped();
                let inside = link.stats().arrived_packets - gone;
                // At most one packet inside the link is not in the queue: the packet in transmission.
                let waiting = link.backlog_packets(now);
                prop_assert!(inside == waiting || inside == waiting + 1, "{inside}, {waiting}");
                prop_assert_eq!(link.backlog_bytes(now).is_zero(), waiting == 0);
                let limited = match limit {
                    Limit::Packets(most) => waiting <= most.max(1),
                    Limit::Bytes(most) => link.backlog_bytes(now) <= most.max(Bytes::new(1500)),
                    Limit::Time(_) => true,
                };
                prop_assert!(limited, "{waiting} wait");
            }
        }
        let mut services = 0;
        while link.next_service() < Nanos::MAX {
            left.extend(link.serve(link.next_service()));
            services += 1;
            prop_assert!(services < 10_000, "the link never becomes idle");
        }
        link.settle(Nanos::MAX);
        let stats = link.stats().clone();
        prop_assert_eq!(stats.arrived_packets, arrivals.len() as u64);
        prop_assert_eq!(stats.departed_packets + stats.dropped(), stats.arrived_packets);
        if !keeps {
            return Ok(());
        }
        prop_assert_eq!(stats.departed_packets, left.len() as u64);
        prop_assert!(left.len() as u64 <= kept);
        prop_assert_eq!(link.backlog_packets(now), 0);
        prop_assert_eq!(link.backlog_bytes(now), Bytes::ZERO);
        let in_order = |packets: &[&Packet]| packets.windows(2).all(|pair| pair[0].seq < pair[1].seq);
        if !matches!(queue, Queue::FqCoDel { .. } | Queue::DualPi2(_)) {
            prop_assert!(in_order(&left.iter().collect::<Vec<_>>()));
        }
        for flow in 0..4 {
            let own: Vec<_> = left.iter().filter(|packet| packet.flow == flow).collect();
            prop_assert!(in_order(&own));
            // Marks appear only on ECN-capable packets and never disappear.
            prop_assert!(flow != 0 || own.iter().all(|packet| packet.ecn == Ecn::NotEct));
            prop_assert!(flow != 3 || own.iter().all(|packet| packet.ecn == Ecn::Ce));
        }
    }

    /// Both implementations of a constant-rate drop-tail link produce the same departures, losses and drops.
    #[test]
    fn fifo_and_scheduled_links_agree(
        arrivals in arrivals(),
        rate in 100_000u64..5_000_000,
        limit in any_limit().prop_filter("scheduled links estimate waits", |limit| !matches!(limit, Limit::Time(_))),
        loss in any_loss(),
    ) {
        let plain = LinkConfig { loss, ..LinkConfig::drop_tail(Rate::from_bytes_per_sec(rate), limit) };
        let mut fifo = link(&plain);
        let mut kept = link(&LinkConfig { queue: TRANSPARENT, ..plain });
        let (mut now, mut expected, mut found) = (Nanos::ZERO, Vec::new(), Vec::new());
        for (n, &(gap, size, _)) in arrivals.iter().enumerate() {
            now += Nanos::from_nanos(gap);
            found.extend(serve(&mut kept, now));
            let packet = packet(n as u64, size);
            let offer = fifo.offer(now, &packet);
            prop_assert_eq!(matches!(offer, Offer::Departs { .. }), kept.offer(now, &packet) == Offer::Queued);
            if let Offer::Departs { at, lost: false } = offer {
                expected.push((at, n as u64));
            }
            prop_assert_eq!(fifo.backlog_packets(now), kept.backlog_packets(now));
            prop_assert_eq!(fifo.backlog_bytes(now), kept.backlog_bytes(now));
            let apart = fifo.queue_delay(now).as_nanos().abs_diff(kept.queue_delay(now).as_nanos());
            prop_assert!(apart <= 2, "{apart} ns");
        }
        found.extend(serve(&mut kept, Nanos::MAX));
        prop_assert_eq!(found, expected);
        fifo.settle(Nanos::MAX);
        // Packets lost after acceptance are returned to the owner.
        let evicted = std::iter::from_fn(|| kept.take_dropped()).count() as u64;
        prop_assert_eq!(evicted, kept.stats().dropped_loss);
        prop_assert_eq!(format!("{:?}", fifo.stats()), format!("{:?}", kept.stats()));
    }

    /// On a trace link the delay predicted on arrival equals the delay counted at departure.
    #[test]
    fn trace_link_predicts_queue_delay_exactly(
        arrivals in arrivals(),
        gaps in prop::collection::vec(0u64..6, 1..20),
    ) {
        let mut times: Vec<u64> = gaps.iter().scan(1, |now, gap| { *now += gap; Some(*now) }).collect();
        times.sort_unstable();
        let text: String = times.iter().map(|ms| format!("{ms}\n")).collect();
        let mut link = trace_link(&text, Limit::Packets(50));
        let (mut now, mut predicted) = (Nanos::ZERO, 0);
        for (n, &(gap, size, _)) in arrivals.iter().enumerate() {
            now += Nanos::from_nanos(gap);
            serve(&mut link, now);
            let wait = link.queue_delay(now);
            if link.offer(now, &packet(n as u64, size)) == Offer::Queued {
                predicted += u128::from(wait.as_nanos());
            }
        }
        serve(&mut link, Nanos::MAX);
        prop_assert_eq!(link.stats().queue_delay_sum_ns, predicted);
    }
}
