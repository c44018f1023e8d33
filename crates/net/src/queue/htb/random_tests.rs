//! Tests with random trees and arrivals against a model that recomputes everything at every event.

use std::collections::VecDeque;

use narrows_units::Random;
use proptest::prelude::*;

use super::*;
use crate::Link;
use crate::config::{Capacity, LinkConfig, Queue};
use crate::testing::{Packet, packet};
use crate::trace::CapacityTrace;

const LINK_RATE: u64 = 1_000_000;
const LINK: Rate = Rate::from_bytes_per_sec(LINK_RATE);
const NS: Nanos = Nanos::from_nanos(1);

/// A random class: its parent, weight among its siblings, ceiling, priority, quantum, burst, and whether it is policed.
type Seed = (Option<usize>, u64, Option<u64>, u8, Option<u32>, Option<u64>, bool);

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let class = |n: usize| {
        (
            prop::option::of(0..n.max(1)).prop_map(move |parent| parent.filter(|_| n > 0)),
            0u64..5,
            prop::option::of(1u64..6),
            0u8..3,
            prop::option::of(1_500u32..6_000),
            prop::option::of(0u64..20_000),
            prop::bool::weighted(0.15),
        )
    };
    (1usize..10).prop_flat_map(move |count| (0..count).map(class).collect::<Vec<_>>())
}

/// Builds a valid tree: the rates of children sum to at most their parent's.
fn tree(seeds: &[Seed]) -> Arc<Htb> {
    let mut classes: Vec<HtbClass> = Vec::new();
    let depth = |classes: &[HtbClass], mut class: usize| {
        let mut depth = 1;
        while let Some(parent) = classes[class].parent {
            (class, depth) = (usize::from(parent), depth + 1);
        }
        depth
    };
    for &(parent, weight, ceil, priority, quantum, burst, _) in seeds {
        let parent = parent.filter(|&parent| depth(&classes, parent) < Htb::MAX_DEPTH);
        let of_all: u64 = seeds.iter().filter(|seed| seed.0 == parent || parent.is_none()).map(|seed| seed.1).sum();
        let above = parent.map_or(LINK_RATE, |parent| classes[parent].rate.as_bytes_per_sec());
        let rate = Rate::from_bytes_per_sec(above * weight / of_all.max(1));
        classes.push(HtbClass {
            parent: parent.map(|parent| parent as u8),
            ceil: ceil.map(|times| Rate::from_bytes_per_sec((rate.as_bytes_per_sec() * times).max(1_000))),
            priority,
            quantum,
            burst: burst.map(Bytes::new),
            ceil_burst: burst.map(|burst| Bytes::new(burst / 2)),
            limit: Some(Limit::Packets(5)),
            ..HtbClass::new("c", rate)
        });
    }
    let parents: Vec<_> = classes.iter().filter_map(|class| class.parent.map(usize::from)).collect();
    for (n, class) in classes.iter_mut().enumerate() {
        class.policed = seeds[n].6 && !parents.contains(&n);
    }
    let default = (0..classes.len()).find(|n| !parents.contains(n)).expect("a leaf");
    Arc::new(Htb::new(classes, default as u8).expect("a tree"))
}

/// Reference model without rows, feeds or agenda.
struct Model {
    config: Arc<Htb>,
    /// Per class, tokens and depth of the buckets of rate and ceiling, in 10^-9 B.
    buckets: Vec<[(i128, i128); 2]>,
    at: Nanos,
    queues: Vec<VecDeque<Packet>>,
}

impl Model {
    fn new(config: &Arc<Htb>) -> Self {
        let full = |class: &HtbClass| {
            let derived = Derived::new(class, round(config, LINK), class.rate, class.ceil);
            [derived.burst, derived.ceil_burst].map(|depth| {
                let full = i128::from(depth.as_u64()) * 1_000_000_000;
                (full, full)
            })
        };
        let queues = vec![VecDeque::new(); config.classes().len()];
        Self {
            buckets: config.classes().iter().map(full).collect(),
            at: Nanos::ZERO,
            queues,
            config: Arc::clone(config),
        }
    }

    /// Tokens of rate and ceiling at `now`, which must not precede the last charge.
    fn tokens(&self, class: usize, now: Nanos) -> [i128; 2] {
        let HtbClass { rate, ceil, .. } = &self.config.classes()[class];
        let elapsed = i128::from((now - self.at).as_nanos());
        let filled = |(tokens, full): (i128, i128), rate: Rate| {
            (tokens + i128::from(rate.as_bytes_per_sec()) * elapsed).min(full)
        };
        let [rates, ceils] = self.buckets[class];
        [filled(rates, *rate), filled(ceils, ceil.unwrap_or(Rate::MAX))]
    }

    /// The class whose tokens a leaf may use: `Some(Some(class))`, `Some(None)` for the link, or `None` if the leaf may
    /// not send.
    fn lender(&self, leaf: usize, now: Nanos) -> Option<Option<usize>> {
        let mut class = leaf;
        loop {
            let [rate, ceil] = self.tokens(class, now);
            if self.config.classes()[class].policed || (rate >= 0 && ceil >= 0) {
                return Some(Some(class));
            }
            if ceil < 0 {
                return None;
            }
            match self.config.classes()[class].parent {
                Some(parent) => class = usize::from(parent),
                None => return Some(None),
            }
        }
    }

    /// Level of a leaf: zero if the leaf uses its own tokens; otherwise, the nearer the lender is to the link, the
    /// higher the level.
    fn level(&self, leaf: usize, lender: Option<usize>) -> usize {
        let mut depth = 0;
        let mut class = lender;
        while let Some(number) = class {
            depth += 1;
            class = self.config.classes()[number].parent.map(usize::from);
        }
        if lender == Some(leaf) { 0 } else { 100 - depth }
    }

    /// The eligible leaves of the best level and, within this level, of the best priority.
    fn eligible(&self, now: Nanos) -> Vec<usize> {
        let backlogged = (0..self.queues.len()).filter(|&leaf| !self.queues[leaf].is_empty());
        let rank = |leaf| {
            let lender = self.lender(leaf, now)?;
            Some(((self.level(leaf, lender), self.config.classes()[leaf].priority), leaf))
        };
        let ranked: Vec<_> = backlogged.filter_map(rank).collect();
        let best = ranked.iter().map(|(rank, _)| *rank).min();
        ranked.iter().filter(|(rank, _)| Some(*rank) == best).map(|&(_, leaf)| leaf).collect()
    }

    fn pass_time(&mut self, now: Nanos) {
        let tokens: Vec<_> = (0..self.buckets.len()).map(|class| self.tokens(class, now)).collect();
        for (buckets, tokens) in self.buckets.iter_mut().zip(tokens) {
            (buckets[0].0, buckets[1].0) = (tokens[0], tokens[1]);
        }
        self.at = now;
    }

    /// Processes an arrival; returns whether it is accepted.
    fn arrive(&mut self, now: Nanos, packet: Packet) -> bool {
        self.pass_time(now);
        let class = usize::from(self.config.leaf_of(packet.flow, None));
        let size = i128::from(packet.size().as_u64()) * 1_000_000_000;
        if self.queues[class].len() >= 5 {
            return false;
        }
        if self.config.classes()[class].policed {
            if self.buckets[class].iter().any(|(tokens, _)| *tokens < size) {
                return false;
            }
            self.buckets[class].iter_mut().for_each(|(tokens, _)| *tokens -= size);
        }
        self.queues[class].push_back(packet);
        true
    }

    fn leave(&mut self, now: Nanos, leaf: usize) -> Packet {
        let lender = self.lender(leaf, now).expect("the leaf may send");
        self.pass_time(now);
        let packet = self.queues[leaf].pop_front().expect("the leaf is backlogged");
        let size = i128::from(packet.size().as_u64()) * 1_000_000_000;
        let (mut class, mut pays) = (Some(leaf), false);
        while let Some(number) = class {
            pays |= lender == Some(number);
            if !self.config.classes()[number].policed {
                self.buckets[number][0].0 -= if pays { size } else { 0 };
                self.buckets[number][1].0 -= size;
            }
            class = self.config.classes()[number].parent.map(usize::from);
        }
        packet
    }
}

/// Random arrivals: gap in nanoseconds, flow, size.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32, u16)>> {
    prop::collection::vec((0u64..3_000_000, 0u32..10, 60u16..1500), 1..250)
}

/// Assigns flow n to class n; a flow whose class is not a leaf joins the default leaf.
fn with_flows(htb: &Arc<Htb>) -> Arc<Htb> {
    let flows = (0..htb.classes().len() as u8).collect();
    Arc::new(Htb::clone(htb).with_flows(flows))
}

/// Returns the departures from a link of [`LINK_RATE`], in order, with the start of each transmission. Compares each
/// scheduling decision with the model.
fn run(htb: &Arc<Htb>, arrivals: &[(u64, u32, u16)]) -> Result<Vec<(Nanos, u64)>, TestCaseError> {
    let (mut queue, mut model) = (ClassQueues::new(htb, LINK, Limit::Packets(1)), Model::new(htb));
    let mut stats = Tally::default();
    let mut arriving = arrivals.iter().enumerate();
    let (mut next, mut at) = (arriving.next(), Nanos::ZERO);
    at += Nanos::from_nanos(next.map_or(0, |(_, arrival)| arrival.0));
    let (mut free_at, mut carry, mut left) = (Nanos::ZERO, 0, Vec::new());
    loop {
        let ready = queue.ready_at(model.at);
        let serve_at = if ready == Nanos::MAX { ready } else { ready.max(free_at) };
        if let Some((n, &(_, flow, size))) = next
            && at <= serve_at
        {
            let packet = packet(flow, n as u64, size);
            let kept = queue.enqueue(at, &packet, None, Room::Packets(0), &mut stats);
            prop_assert_eq!(kept, model.arrive(at, packet), "arrival {}", n);
            next = arriving.next();
            at += Nanos::from_nanos(next.map_or(0, |(_, arrival)| arrival.0));
            continue;
        }
        if serve_at == Nanos::MAX {
            break;
        }
        let now = serve_at;
        if now > free_at && now > model.at {
            // The link was idle until now, so no leaf could have sent earlier.
            prop_assert!(model.eligible(now - NS).is_empty(), "{:?} idles", now);
        }
        let eligible = model.eligible(now);
        match queue.dequeue(now, &mut stats) {
            Some((_, packet)) => {
                let leaf = usize::from(htb.leaf_of(packet.flow, None));
                prop_assert!(eligible.contains(&leaf), "{:?}: {} of {:?}", now, leaf, eligible);
                // The packets of one leaf leave in order of arrival.
                prop_assert_eq!(model.leave(now, leaf).seq, packet.seq);
                left.push((now, packet.seq));
                // Carry the remainder, as a transmitter does.
                carry += packet.size().as_u64() * 1_000_000_000 % LINK_RATE;
                let whole = packet.size().as_u64() * 1_000_000_000 / LINK_RATE;
                free_at = now + Nanos::from_nanos(whole + carry / LINK_RATE);
                carry %= LINK_RATE;
            }
            None => {
                prop_assert!(eligible.is_empty(), "{:?} may send at {:?}", eligible, now);
                prop_assert!(queue.ready_at(now) > now);
                model.pass_time(now);
            }
        }
        prop_assert_eq!(queue.packets(), model.queues.iter().map(|queue| queue.len() as u64).sum::<u64>());
    }
    // No packet that remains in the queue can ever leave.
    prop_assert!(model.eligible(model.at + Nanos::from_secs(1_000_000)).is_empty());
    prop_assert_eq!(left.len() as u64 + stats.dropped() + queue.packets(), arrivals.len() as u64);
    let total = |of: fn(&ClassStats) -> u64| {
        let all = queue.class_stats(Nanos::ZERO, at);
        let roots = htb.classes().iter().zip(all).filter(|(class, _)| class.parent.is_none());
        roots.map(|(_, stats)| of(&stats)).sum::<u64>()
    };
    prop_assert_eq!(total(|stats| stats.sent_packets), left.len() as u64);
    prop_assert_eq!(total(|stats| stats.dropped), stats.dropped());
    prop_assert_eq!(total(|stats| stats.waiting_packets), queue.packets());
    Ok(left)
}

proptest! {
    /// Every leaf that the scheduler serves is eligible in the model, and no class exceeds its ceiling by more than its
    /// bursts.
    #[test]
    fn htb_schedule_matches_the_model_and_ceilings(seeds in seeds(), arrivals in arrivals()) {
        let htb = with_flows(&tree(&seeds));
        let left = run(&htb, &arrivals)?;
        for (number, class) in (0u8..).zip(htb.classes()) {
            let Some(ceil) = class.ceil.filter(|_| !class.policed) else { continue };
            // Returns whether a leaf is class `number` itself or one of its descendants.
            let within = |mut leaf: u8| loop {
                match htb.classes()[usize::from(leaf)].parent {
                    _ if leaf == number => return true,
                    Some(parent) => leaf = parent,
                    None => return false,
                }
            };
            let sizes: Vec<_> = left.iter().filter_map(|&(at, seq)| {
                let (_, flow, size) = arrivals[seq as usize];
                within(htb.leaf_of(flow, None)).then_some((at, u64::from(size)))
            }).collect();
            // Descendants may send with their own tokens despite the debt of this class: each up to its burst, plus one
            // packet of debt. A policed descendant may have accepted the packets of two bursts, which were still
            // queued.
            let below = (0u8..).zip(htb.classes()).filter(|(other, _)| *other != number && within(*other));
            let allcarry: u64 = below.map(|(_, class)| {
                let burst = Derived::new(class, round(&htb, LINK), class.rate, class.ceil).burst.as_u64() + 1_500;
                if class.policed { 2 * burst + 5 * 1_500 } else { burst }
            }).sum();
            let depth = Derived::new(class, round(&htb, LINK), class.rate, class.ceil).ceil_burst.as_u64();
            for first in 0..sizes.len() {
                let mut bytes = 0;
                for &(at, size) in &sizes[first..] {
                    bytes += size;
                    // The last packet may leave as soon as the class is not in debt, so its size adds to the limit.
                    let most = ceil.over(at - sizes[first].0).as_u64() + 1 + depth + size + allcarry;
                    prop_assert!(bytes <= most, "class {number}: {bytes} B since {:?} at {at:?}, {most} B may", sizes[first].0);
                }
            }
        }
    }

    /// The link wakes exactly when necessary: its departures and their times equal those of a queue that is polled
    /// continuously.
    #[test]
    fn htb_link_wakes_exactly_when_tokens_suffice(seeds in seeds(), arrivals in arrivals()) {
        let htb = with_flows(&tree(&seeds));
        let expected = run(&htb, &arrivals)?;
        let config = LinkConfig {
            queue: Queue::Htb(htb),
            ..LinkConfig::drop_tail(LINK, Limit::Packets(1))
        };
        let mut link = Link::new(&config, Random::stream(1, "link", 0));
        let ends = pass(&mut link, &arrivals)?;
        prop_assert_eq!(ends.len(), expected.len());
        for (&(end, seq), &(begin, wanted)) in ends.iter().zip(&expected) {
            let size = u64::from(arrivals[seq as usize].2);
            prop_assert_eq!(seq, wanted);
            prop_assert!((end - begin).as_nanos().abs_diff(size * 1_000_000_000 / LINK_RATE) <= 1);
        }
    }

    /// On a trace link the packets of every leaf keep their order, and the link ends empty and idle.
    #[test]
    fn htb_on_trace_link_keeps_order_and_drains(
        seeds in seeds(),
        arrivals in arrivals(),
        gaps in prop::collection::vec(0u64..6, 1..20),
    ) {
        let htb = with_flows(&tree(&seeds));
        let times = gaps.iter().scan(1, |now, gap| { *now += gap; Some(*now) }).collect();
        let config = LinkConfig {
            queue: Queue::Htb(Arc::clone(&htb)),
            capacity: Capacity::Trace(Arc::new(CapacityTrace { opportunities_ms: times })),
            ..LinkConfig::drop_tail(Rate::ZERO, Limit::Packets(1))
        };
        let mut link = Link::new(&config, Random::stream(1, "link", 0));
        let ends = pass(&mut link, &arrivals)?;
        let waiting = link.backlog_packets(Nanos::MAX);
        prop_assert_eq!(ends.len() as u64 + waiting + link.stats().dropped(), arrivals.len() as u64);
        // Every ceiling is above zero and the link always lends, so no packet remains in any class.
        prop_assert_eq!(waiting, 0);
        for (leaf, _) in (0u8..).zip(htb.classes()) {
            let own = ends.iter().map(|&(_, seq)| seq).filter(|&seq| htb.leaf_of(arrivals[seq as usize].1, None) == leaf);
            prop_assert!(own.is_sorted());
        }
    }
}

/// Returns the departures from a link, with their times.
fn pass(link: &mut Link<Packet>, arrivals: &[(u64, u32, u16)]) -> Result<Vec<(Nanos, u64)>, TestCaseError> {
    let (mut now, mut left) = (Nanos::ZERO, Vec::new());
    let serve = |link: &mut Link<Packet>, until: Nanos, left: &mut Vec<(Nanos, u64)>| {
        let mut services = 0;
        while link.next_service() <= until && link.next_service() < Nanos::MAX {
            let at = link.next_service();
            left.extend(link.serve(at).map(|packet| (at, packet.seq)));
            services += 1;
            prop_assert!(services < 50_000, "the link never becomes idle");
        }
        Ok(())
    };
    for (n, &(gap, flow, size)) in arrivals.iter().enumerate() {
        now += Nanos::from_nanos(gap);
        serve(link, now, &mut left)?;
        link.offer(now, &packet(flow, n as u64, size));
    }
    serve(link, Nanos::MAX, &mut left)?;
    Ok(left)
}
