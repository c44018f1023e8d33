use std::sync::Arc;

use narrows_units::Rate;
use proptest::prelude::*;

use super::*;
use crate::config::{Limit, Policer, Red};
use crate::testing::{self, Packet};
use crate::timeline::LossTrace;
use crate::trace::CapacityTrace;

/// Packet number `n`, of `size` bytes.
pub(super) fn packet(n: u64, size: u16) -> Packet {
    testing::packet(0, n, size)
}

const fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

pub(super) fn link(config: &LinkConfig) -> Link<Packet> {
    Link::new(config, Random::stream(1, "link", 0))
}

/// A link of 12 Mbit/s, which transmits 1500 bytes in a millisecond.
fn millisecond_link(limit: Limit) -> Link<Packet> {
    link(&LinkConfig::drop_tail(Rate::from_mbit_per_sec(12.0), limit))
}

/// Number of packets accepted out of ten full packets offered at once.
fn accepted_at_once(limit: Limit) -> usize {
    let mut link = millisecond_link(limit);
    (0..10).filter(|&n| link.offer(Nanos::ZERO, &packet(n, 1500)) != Offer::Dropped(DropReason::Queue)).count()
}

const fn departs(at: Nanos) -> Offer {
    Offer::Departs { at, lost: false }
}

/// Packets leave back to back at the link's rate; after an idle time transmission starts at once.
#[test]
fn packets_leave_at_line_rate_and_restart_after_idle() {
    let mut link = millisecond_link(Limit::Packets(100));
    let us = Nanos::from_micros;
    assert_eq!(link.offer(us(0), &packet(0, 1500)), departs(us(1_000)));
    assert_eq!(link.offer(us(100), &packet(1, 750)), departs(us(1_500)));
    assert_eq!(link.offer(us(100), &packet(2, 1500)), departs(us(2_500)));
    assert_eq!(link.backlog_packets(us(100)), 2);
    assert_eq!(link.backlog_bytes(us(100)), Bytes::new(2_250));
    assert_eq!(link.queue_delay(us(100)), us(2_400));
    // At 1 ms the transmission of the second packet begins, so only the third packet waits.
    assert_eq!((link.backlog_packets(us(1_000)), link.backlog_bytes(us(1_000))), (1, Bytes::new(1_500)));
    assert_eq!(link.queue_delay(us(3_000)), Nanos::ZERO);
    assert_eq!(link.offer(us(5_000), &packet(3, 1500)), departs(us(6_000)));
    link.settle(us(6_000));
    let stats = link.stats();
    assert_eq!((stats.arrived_packets, stats.departed_packets), (4, 4));
    assert_eq!((stats.arrived_bytes, stats.departed_bytes), (5_250, 5_250));
    // The packets wait 0, 0.9, 1.4 and 0 ms. The sum is 2.3 ms in an observation of 10 ms.
    assert_eq!(stats.queue_delay_sum_ns, 2_300_000);
    assert_eq!(link.mean_queue(us(10_000)), 0.23);
    let stats = link.stats();
    assert_eq!(stats.queue_delay.max(), Some(1_400_000));
    // Of the first 7 ms, the link is busy for 2.5 ms and later for 1 ms.
    assert_eq!(link.utilization(us(7_000)), 0.5);
}

/// The packet in transmission does not count against the queue limit.
#[test]
fn limit_excludes_the_packet_in_transmission() {
    assert_eq!(accepted_at_once(Limit::Packets(0)), 1);
    assert_eq!(accepted_at_once(Limit::Packets(1)), 2);
    assert_eq!(accepted_at_once(Limit::Packets(7)), 8);
    assert_eq!(accepted_at_once(Limit::Bytes(Bytes::ZERO)), 1);
    assert_eq!(accepted_at_once(Limit::Bytes(Bytes::new(1_499))), 1);
    assert_eq!(accepted_at_once(Limit::Bytes(Bytes::new(1_500))), 2);
    assert_eq!(accepted_at_once(Limit::Bytes(Bytes::new(4_499))), 3);
    assert_eq!(accepted_at_once(Limit::Time(Nanos::ZERO)), 1);
    assert_eq!(accepted_at_once(Limit::Time(Nanos::from_nanos(999_999))), 1);
    assert_eq!(accepted_at_once(Limit::Time(Nanos::from_millis(1))), 2);
    assert_eq!(accepted_at_once(Limit::Time(Nanos::from_millis(3))), 4);
}

/// A slot in the queue is free from the instant the next transmission begins.
#[test]
fn queue_slot_frees_when_next_transmission_begins() {
    let mut link = millisecond_link(Limit::Packets(1));
    let ns = Nanos::from_nanos;
    assert_eq!(link.offer(ns(0), &packet(0, 1500)), departs(ns(1_000_000)));
    assert_eq!(link.offer(ns(0), &packet(1, 1500)), departs(ns(2_000_000)));
    assert_eq!(link.offer(ns(999_999), &packet(2, 1500)), Offer::Dropped(DropReason::Queue));
    assert_eq!(link.offer(ns(1_000_000), &packet(3, 1500)), departs(ns(3_000_000)));
    assert_eq!(link.stats().dropped_queue, 1);
}

/// Sustained throughput equals the link's rate, without drift.
#[test]
fn sustained_throughput_equals_the_rate() {
    // The link is never idle. The rates are 10 Gbit/s, 3 Mbit/s, and a rate at which a packet takes a fractional number
    // of nanoseconds.
    for rate in [Rate::from_mbit_per_sec(10_000.0), Rate::from_mbit_per_sec(3.0), Rate::from_bytes_per_sec(9_999_991)] {
        let mut link = link(&LinkConfig::drop_tail(rate, Limit::Packets(u64::MAX)));
        let mut last = Nanos::ZERO;
        for n in 0..100_000 {
            if let Offer::Departs { at, .. } = link.offer(Nanos::ZERO, &packet(n, 1500)) {
                last = at;
            }
        }
        let throughput = 100_000.0 * 1500.0 / last.as_secs_f64();
        let wanted = rate.as_bytes_per_sec() as f64;
        assert!((throughput / wanted - 1.0).abs() < 1e-9, "{throughput} B/s at {wanted} B/s");
        assert_eq!(link.utilization(last), 1.0);
    }
}

/// A packet lost at egress has used the link; a packet lost at ingress has not.
#[test]
fn only_egress_loss_uses_the_link() {
    let mut config = LinkConfig::drop_tail(Rate::from_mbit_per_sec(12.0), Limit::Packets(100));
    config.loss = Loss::Periodic(2);
    let mut egress = link(&config);
    assert_eq!(egress.offer(ms(0), &packet(0, 1500)), departs(ms(1)));
    assert_eq!(egress.offer(ms(0), &packet(1, 1500)), Offer::Departs { at: ms(2), lost: true });
    assert_eq!(egress.offer(ms(0), &packet(2, 1500)), departs(ms(3)));
    egress.settle(ms(2));
    assert_eq!((egress.stats().departed_packets, egress.stats().dropped_loss), (1, 1));
    config.loss_at = LossAt::Ingress;
    let mut ingress = link(&config);
    assert_eq!(ingress.offer(ms(0), &packet(0, 1500)), departs(ms(1)));
    assert_eq!(ingress.offer(ms(0), &packet(1, 1500)), Offer::Dropped(DropReason::Loss));
    assert_eq!(ingress.offer(ms(0), &packet(2, 1500)), departs(ms(2)));
}

/// A loss interval with probability 1 loses exactly the packets that pass in it.
#[test]
fn loss_burst_of_share_one_loses_exactly_its_packets() {
    // One packet arrives per millisecond and departs a millisecond later. The loss interval lasts from 10 ms until just
    // before 15 ms.
    let mut config = LinkConfig::drop_tail(Rate::from_mbit_per_sec(12.0), Limit::Packets(100));
    config.loss_trace = Some(LossTrace::parse("10 15 1\n").unwrap());
    let mut egress = link(&config);
    for n in 0..30 {
        let at = ms(n + 1);
        let lost = (10..15).contains(&(n + 1));
        assert_eq!(egress.offer(ms(n), &packet(n, 1500)), Offer::Departs { at, lost });
    }
    egress.settle(ms(30));
    assert_eq!((egress.stats().departed_packets, egress.stats().dropped_loss), (25, 5));
    config.loss_at = LossAt::Ingress;
    let mut ingress = link(&config);
    for n in 0..30 {
        let lost = ingress.offer(ms(n), &packet(n, 1500)) == Offer::Dropped(DropReason::Loss);
        assert_eq!(lost, (10..15).contains(&n), "{n}");
    }
    // A link that stores its packets (a trace link) loses the same packets.
    config.loss_at = LossAt::Egress;
    let opportunities_ms = (1..=1000).collect();
    config.capacity = Capacity::Trace(Arc::new(CapacityTrace { opportunities_ms }));
    let mut traced = link(&config);
    let mut left = Vec::new();
    for n in 0..30 {
        assert_eq!(traced.offer(ms(n), &packet(n, 1500)), Offer::Queued);
        while traced.next_service() <= ms(n + 1) {
            left.extend(traced.serve(traced.next_service()).map(|packet| packet.seq));
        }
    }
    assert!(left.iter().copied().eq((0..9).chain(14..30)), "{left:?}");
}

/// The policer runs before the queue: a packet that passes it spends tokens even if the queue is full.
#[test]
fn policer_runs_before_the_queue() {
    let mut config = LinkConfig::drop_tail(Rate::from_mbit_per_sec(12.0), Limit::Packets(0));
    config.policer = Some(Policer { rate: Rate::from_mbit_per_sec(1.2), burst: Bytes::new(3_000) });
    let mut link = link(&config);
    assert_eq!(link.offer(Nanos::ZERO, &packet(0, 1500)), departs(Nanos::from_millis(1)));
    // The second packet passes the policer, spends tokens and finds the queue full.
    assert_eq!(link.offer(Nanos::ZERO, &packet(1, 1500)), Offer::Dropped(DropReason::Queue));
    assert_eq!(link.offer(Nanos::ZERO, &packet(2, 1500)), Offer::Dropped(DropReason::Policer));
    // The policer fills 1500 bytes of tokens in 10 ms.
    assert_eq!(link.offer(ms(10), &packet(3, 1500)), departs(ms(11)));
    assert_eq!((link.stats().dropped_policer, link.stats().dropped()), (1, 2));
}

/// After a reset, queued packets depart in the new statistics without having arrived in them.
#[test]
fn stats_reset_keeps_waiting_packets_as_departures() {
    let mut link = millisecond_link(Limit::Packets(10));
    (0..4).for_each(|n| _ = link.offer(ms(0), &packet(n, 1500)));
    link.reset_stats(ms(2));
    link.settle(ms(8));
    assert_eq!((link.stats().arrived_packets, link.stats().departed_packets), (0, 2));
    assert_eq!(link.stats().queue_delay.count(), 0);
    // In the 6 ms since the reset, the link is busy from 2 ms to 4 ms.
    assert!((link.utilization(ms(8)) - 1.0 / 3.0).abs() < 1e-12);
}

/// The mean queue covers only the time since the start of the statistics.
#[test]
fn mean_queue_counts_only_time_since_reset() {
    // Four packets take a millisecond of transmission each: three packets wait in the first millisecond, two in the
    // second, and one in the third.
    let transparent = Queue::Red(Red { min: 1e9, max: 2e9, max_p: 0.1, weight: 0.002, adaptive: false, ecn: false });
    for queue in [Queue::DropTail, transparent] {
        let config = LinkConfig { queue, ..LinkConfig::drop_tail(Rate::from_mbit_per_sec(12.0), Limit::Packets(10)) };
        let mut link = link(&config);
        (0..4).for_each(|n| _ = link.offer(ms(0), &packet(n, 1500)));
        let advance = |link: &mut Link<Packet>, to: u64| {
            while link.next_service() <= ms(to) {
                link.serve(link.next_service());
            }
            link.settle(ms(to));
        };
        advance(&mut link, 2);
        assert_eq!(link.mean_queue(ms(2)), 5.0 / 2.0);
        link.reset_stats(ms(2));
        assert_eq!(link.mean_queue(ms(2)), 0.0);
        advance(&mut link, 6);
        assert_eq!(link.mean_queue(ms(6)), 1.0 / 4.0);
    }
}

pub(super) fn any_limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (0..20u64).prop_map(Limit::Packets),
        (0..30_000u64).prop_map(|bytes| Limit::Bytes(Bytes::new(bytes))),
        (0..20_000_000u64).prop_map(|ns| Limit::Time(Nanos::from_nanos(ns))),
    ]
}

pub(super) fn any_loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        (0.0..0.5f64).prop_map(Loss::Bernoulli),
        (1..9u64).prop_map(Loss::Periodic),
        (0.0..0.5f64, 0.1..1.0f64).prop_map(|(to_bad, to_good)| Loss::GilbertElliott {
            to_bad,
            to_good,
            loss_good: 0.01,
            loss_bad: 0.9,
        }),
    ]
}

proptest! {
    /// The drop-tail link agrees with a model of every packet's start and end.
    #[test]
    fn fifo_conserves_packets_and_keeps_its_limit(
        arrivals in prop::collection::vec((0u64..2_000_000, 60u16..1500), 1..300),
        rate in 100_000u64..20_000_000,
        limit in any_limit(),
        loss in any_loss(),
        at_ingress: bool,
    ) {
        let mut config = LinkConfig::drop_tail(Rate::from_bytes_per_sec(rate), limit);
        config.loss = loss;
        config.loss_at = if at_ingress { LossAt::Ingress } else { LossAt::Egress };
        let mut link = link(&config);
        let mut now = Nanos::ZERO;
        let mut accepted: Vec<(Nanos, Nanos, u64)> = Vec::new();
        let (mut dropped, mut lost_later) = (0, 0);
        for (n, &(gap, size)) in arrivals.iter().enumerate() {
            now += Nanos::from_nanos(gap);
            let waiting = |at: Nanos| accepted.iter().filter(move |&&(start, _, _)| start > at);
            prop_assert_eq!(link.backlog_packets(now), waiting(now).count() as u64);
            let bytes: u64 = waiting(now).map(|&(_, _, size)| size).sum();
            prop_assert_eq!(link.backlog_bytes(now).as_u64(), bytes);
            let start = accepted.last().map_or(now, |&(_, end, _)| end.max(now));
            prop_assert_eq!(link.queue_delay(now), start - now);
            let fits = start == now || match limit {
                Limit::Packets(most) => (waiting(now).count() as u64) < most,
                Limit::Bytes(most) => bytes + u64::from(size) <= most.as_u64(),
                Limit::Time(most) => start - now <= most,
            };
            match link.offer(now, &packet(n as u64, size)) {
                Offer::Departs { at, lost } => {
                    prop_assert!(fits);
                    let exact = f64::from(size) / rate as f64 * 1e9;
                    prop_assert!(((at - start).as_nanos() as f64 - exact).abs() <= 1.0);
                    accepted.push((start, at, size.into()));
                    lost_later += u64::from(lost);
                }
                Offer::Dropped(DropReason::Queue) => {
                    prop_assert!(!fits);
                    dropped += 1;
                }
                Offer::Dropped(reason) => {
                    prop_assert!(at_ingress && reason == DropReason::Loss);
                    dropped += 1;
                }
                Offer::Queued | Offer::Consumed => prop_assert!(false, "a FIFO knows its departures"),
            }
        }
        prop_assert_eq!(accepted.len() as u64 + dropped, arrivals.len() as u64);
        link.settle(Nanos::MAX);
        let stats = link.stats();
        prop_assert_eq!(stats.arrived_packets, arrivals.len() as u64);
        prop_assert_eq!(stats.departed_packets + stats.dropped(), stats.arrived_packets);
        prop_assert_eq!(stats.departed_packets + lost_later, accepted.len() as u64);
        prop_assert_eq!(stats.queue_delay.count(), accepted.len() as u64);
    }
}
