//! Tests of the oracle: examples solved by hand, and the defining property of max-min fair rates.

use narrows_cc::Random;

use super::{Flow, Network, Ranges, load, max_min, max_min_beside_acks, max_min_with_headroom};

#[track_caller]
fn close(rates: &[f64], expected: &[f64]) {
    assert_eq!(rates.len(), expected.len());
    for (rate, expected) in rates.iter().zip(expected) {
        assert!((rate - expected).abs() < 1e-6, "{rates:?}, not {expected:?}");
    }
}

/// Flows share one link equally, and unused shares go to the other flows.
#[test]
fn oracle_one_link_shares_equally_beyond_small_demands() {
    close(&max_min(&[12.0], &[Flow::backlogged(&[0]), Flow::backlogged(&[0]), Flow::backlogged(&[0])]), &[4.0; 3]);
    // Capacity 12, demands of 1 and 3. The flow with demand 1 leaves 11 for three flows, more than 3 each. The flow
    // with demand 3 leaves 8 for two flows.
    let flows = [Flow::limited(&[0], 1.0), Flow::limited(&[0], 3.0), Flow::backlogged(&[0]), Flow::backlogged(&[0])];
    close(&max_min(&[12.0], &flows), &[1.0, 3.0, 4.0, 4.0]);
    // All demands are met, and the link is not full.
    close(&max_min(&[12.0], &[Flow::limited(&[0], 1.0), Flow::limited(&[0], 0.0)]), &[1.0, 0.0]);
}

/// A flow over several links gets the smallest of its shares, and the other flows get the rest.
///
/// ```text
///    flow 0 ───────────────────────────────
///            link 0 (10)    link 1 (4)   link 2 (9)
///            flow 1         flow 2       flow 3
/// ```
#[test]
fn oracle_long_flow_gets_its_narrowest_share() {
    let flows = [Flow::backlogged(&[0, 1, 2]), Flow::backlogged(&[0]), Flow::backlogged(&[1]), Flow::backlogged(&[2])];
    close(&max_min(&[10.0, 4.0, 9.0], &flows), &[2.0, 8.0, 2.0, 7.0]);
}

/// A link that fills later is shared by the flows whose rates can still rise.
#[test]
fn oracle_later_bottleneck_is_shared_by_remaining_flows() {
    // Link 0 (capacity 3) carries flows 0, 1 and 2, with a rate of 1 each. Link 2 (capacity 5) carries flows 4 and 5,
    // with a rate of 2.5 each. Link 1 (capacity 9) carries flows 2, 3 and 4. It would allow flows 3 and 4 a rate of 4
    // each, but link 2 fills first, so flow 3 has 9 - 1 - 2.5.
    let flows = [
        Flow::backlogged(&[0]),
        Flow::backlogged(&[0]),
        Flow::backlogged(&[0, 1]),
        Flow::backlogged(&[1]),
        Flow::backlogged(&[1, 2]),
        Flow::backlogged(&[2]),
    ];
    close(&max_min(&[3.0, 9.0, 5.0], &flows), &[1.0, 1.0, 1.0, 5.5, 2.5, 2.5]);
}

/// ACKs reduce the capacity of the reverse path.
#[test]
fn oracle_acks_reduce_reverse_capacity() {
    // Two flows in opposite directions on a duplex link with capacity 10: x + 0.02 y = 10 = y + 0.02 x.
    let flow = |there, back| Flow { back: vec![back], ..Flow::backlogged(&[there]) };
    let rates = max_min_beside_acks(&[10.0, 10.0], &[flow(0, 1), flow(1, 0)], 0.02, 1.0);
    close(&rates, &[10.0 / 1.02; 2]);
    // With data in one direction only, ACKs do not reduce its rate.
    close(&max_min_beside_acks(&[10.0, 10.0], &[flow(0, 1)], 0.02, 1.0), &[10.0]);
}

/// Headroom for limited flows reduces the rates of the other flows.
#[test]
fn oracle_headroom_of_limited_flows_reduces_others() {
    let with_headroom = |capacities: &[f64], flows: &[Flow]| max_min_with_headroom(capacities, flows, 1.5);
    // Capacity 6: a flow with demand 1 reserves 1.5 and leaves 4.5. Capacity 5: a flow with demand 2 would reserve 3,
    // but reserves at most the other flow's share of 2.5.
    close(&with_headroom(&[6.0], &[Flow::limited(&[0], 1.0), Flow::backlogged(&[0])]), &[1.0, 4.5]);
    close(&with_headroom(&[5.0], &[Flow::limited(&[0], 2.0), Flow::backlogged(&[0])]), &[2.0, 2.5]);
    // Link 0 limits the long flow to 2, so link 1 reserves 3 for it.
    let flows = [Flow::backlogged(&[0, 1]), Flow::backlogged(&[0]), Flow::backlogged(&[1])];
    close(&with_headroom(&[4.0, 10.0], &flows), &[2.0, 2.0, 7.0]);
    // With less capacity on link 0, flow 1 leaves more of link 1 to flow 2 (5 instead of 4.5). With headroom, flow 1
    // is even slower, but link 1 reserves 4.5 for it.
    let flows = [Flow::limited(&[0], 2.0), Flow::backlogged(&[0, 1]), Flow::backlogged(&[1])];
    close(&max_min(&[8.0, 9.0], &flows), &[2.0, 4.5, 4.5]);
    close(&max_min(&[6.0, 9.0], &flows), &[2.0, 4.0, 5.0]);
    close(&with_headroom(&[6.0, 9.0], &flows), &[2.0, 3.0, 4.5]);
}

/// Every flow meets its demand or crosses a full link on which no flow has a higher rate.
#[test]
fn oracle_flows_are_satisfied_or_largest_at_a_bottleneck() {
    let ranges = Ranges {
        nodes: (2, 12),
        flows: (1, 40),
        rates: (1.0, 1000.0),
        delays: (1.0, 2.0),
        limited: 0.3,
        one_way: false,
    };
    let (mut satisfied_flows, mut limited) = (0, 0);
    for seed in 0..1000 {
        let network = Network::random(&mut Random::stream(seed, "oracle", 0), &ranges);
        let (capacities, flows) = (network.capacities(), network.flows(1.0));
        let rates = max_min(&capacities, &flows);
        for (link, capacity) in capacities.iter().enumerate() {
            assert!(load(&flows, &rates, link) <= capacity * (1.0 + 1e-6), "seed {seed}: link {link} is overloaded");
        }
        for (f, flow) in flows.iter().enumerate() {
            assert!(rates[f] <= flow.demand * (1.0 + 1e-6), "seed {seed}: flow {f} exceeds its demand");
            let bottleneck = flow.route.iter().any(|&link| {
                let full = load(&flows, &rates, link) >= capacities[link] * (1.0 - 1e-6);
                let crossing = flows.iter().zip(&rates).filter(|(other, _)| other.route.contains(&link));
                full && crossing.map(|(_, rate)| *rate).fold(0.0, f64::max) <= rates[f] * (1.0 + 1e-6)
            });
            let satisfied = rates[f] >= flow.demand * (1.0 - 1e-6);
            assert!(satisfied || bottleneck, "seed {seed}: flow {f} is below its fair rate: {network:?}");
            satisfied_flows += u64::from(satisfied);
            limited += u64::from(bottleneck);
        }
    }
    // Both kinds of flows occur.
    assert!(satisfied_flows > 1000 && limited > 1000, "{satisfied_flows} satisfied, {limited} at a bottleneck");
}
