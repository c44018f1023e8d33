//! The oracle itself: examples solved by hand, and the property that makes a vector of rates max-min fair.

use narrows_cc::Random;

use super::{Flow, Network, Ranges, load, max_min, max_min_beside_acks, max_min_with_headroom};

#[track_caller]
fn close(rates: &[f64], expected: &[f64]) {
    assert_eq!(rates.len(), expected.len());
    for (rate, expected) in rates.iter().zip(expected) {
        assert!((rate - expected).abs() < 1e-6, "{rates:?}, not {expected:?}");
    }
}

#[test]
fn one_link_is_shared_equally_and_what_a_flow_does_not_want_goes_to_the_others() {
    close(&max_min(&[12.0], &[Flow::greedy(&[0]), Flow::greedy(&[0]), Flow::greedy(&[0])]), &[4.0; 3]);
    // 1 and 3 are wanted: 12 - 1 = 11 for three, more than 3 each; 8 for two.
    let flows = [Flow::limited(&[0], 1.0), Flow::limited(&[0], 3.0), Flow::greedy(&[0]), Flow::greedy(&[0])];
    close(&max_min(&[12.0], &flows), &[1.0, 3.0, 4.0, 4.0]);
    // All are content, and the link is not full.
    close(&max_min(&[12.0], &[Flow::limited(&[0], 1.0), Flow::limited(&[0], 0.0)]), &[1.0, 0.0]);
}

//    flow 0 ───────────────────────────────
//            link 0 (10)    link 1 (4)   link 2 (9)
//            flow 1         flow 2       flow 3
#[test]
fn a_long_flow_gets_what_its_narrowest_share_leaves_and_the_others_take_the_rest() {
    let flows = [Flow::greedy(&[0, 1, 2]), Flow::greedy(&[0]), Flow::greedy(&[1]), Flow::greedy(&[2])];
    close(&max_min(&[10.0, 4.0, 9.0], &flows), &[2.0, 8.0, 2.0, 7.0]);
}

#[test]
fn a_bottleneck_found_later_is_shared_by_those_that_are_left() {
    // Link 0 (3): flows 0, 1, 2, 1 each. Link 1 (9): flows 2, 3, 4; flow 2 stays at 1, so 4 each. Link 2 (5): flows 4, 5;
    // it fills first at 2.5, so flow 3 has 9 - 1 - 2.5.
    let flows = [
        Flow::greedy(&[0]),
        Flow::greedy(&[0]),
        Flow::greedy(&[0, 1]),
        Flow::greedy(&[1]),
        Flow::greedy(&[1, 2]),
        Flow::greedy(&[2]),
    ];
    close(&max_min(&[3.0, 9.0, 5.0], &flows), &[1.0, 1.0, 1.0, 5.5, 2.5, 2.5]);
}

#[test]
fn acknowledgements_take_from_the_way_back() {
    // Two flows against each other on a duplex link of 10: x + 0.02 y = 10 = y + 0.02 x.
    let flow = |there, back| Flow { back: vec![back], ..Flow::greedy(&[there]) };
    let rates = max_min_beside_acks(&[10.0, 10.0], &[flow(0, 1), flow(1, 0)], 0.02, 1.0);
    close(&rates, &[10.0 / 1.02; 2]);
    // One only: nothing is lost.
    close(&max_min_beside_acks(&[10.0, 10.0], &[flow(0, 1)], 0.02, 1.0), &[10.0]);
}

#[test]
fn what_is_set_aside_for_limited_flows_the_others_lack() {
    let with_headroom = |capacities: &[f64], flows: &[Flow]| max_min_with_headroom(capacities, flows, 1.5);
    // 1 takes 1.5, so that 4.5 are left; a demand of 2 takes no more than the other has.
    close(&with_headroom(&[6.0], &[Flow::limited(&[0], 1.0), Flow::greedy(&[0])]), &[1.0, 4.5]);
    close(&with_headroom(&[5.0], &[Flow::limited(&[0], 2.0), Flow::greedy(&[0])]), &[2.0, 2.5]);
    // Link 0 limits the long flow to 2, for which link 1 sets 3 aside.
    let flows = [Flow::greedy(&[0, 1]), Flow::greedy(&[0]), Flow::greedy(&[1])];
    close(&with_headroom(&[4.0, 10.0], &flows), &[2.0, 2.0, 7.0]);
    // It may free something elsewhere: the flow that lacks it lets another have more.
    let flows = [Flow::limited(&[0], 2.0), Flow::greedy(&[0, 1]), Flow::greedy(&[1])];
    close(&max_min(&[8.0, 9.0], &flows), &[2.0, 4.5, 4.5]);
    close(&max_min(&[6.0, 9.0], &flows), &[2.0, 4.0, 5.0]);
    close(&with_headroom(&[6.0, 9.0], &flows), &[2.0, 3.0, 4.5]);
}

#[test]
fn every_flow_is_content_or_has_a_bottleneck_where_nobody_has_more() {
    let ranges = Ranges {
        nodes: (2, 12),
        flows: (1, 40),
        rates: (1.0, 1000.0),
        delays: (1.0, 2.0),
        limited: 0.3,
        one_way: false,
    };
    let (mut content, mut limited) = (0, 0);
    for seed in 0..1000 {
        let network = Network::random(&mut Random::stream(seed, "oracle", 0), &ranges);
        let (capacities, flows) = (network.capacities(), network.flows(1.0));
        let rates = max_min(&capacities, &flows);
        for (link, capacity) in capacities.iter().enumerate() {
            assert!(
                load(&flows, &rates, link) <= capacity * (1.0 + 1e-6),
                "seed {seed}: link {link} overflows"
            );
        }
        for (f, flow) in flows.iter().enumerate() {
            assert!(rates[f] <= flow.demand * (1.0 + 1e-6), "seed {seed}: flow {f} gets more than it wants");
            let bottleneck = flow.route.iter().any(|&link| {
                let full = load(&flows, &rates, link) >= capacities[link] * (1.0 - 1e-6);
                let crossing = flows.iter().zip(&rates).filter(|(other, _)| other.route.contains(&link));
                full && crossing.map(|(_, rate)| *rate).fold(0.0, f64::max) <= rates[f] * (1.0 + 1e-6)
            });
            let sated = rates[f] >= flow.demand * (1.0 - 1e-6);
            assert!(sated || bottleneck, "seed {seed}: flow {f} could have more: {network:?}");
            content += u64::from(sated);
            limited += u64::from(bottleneck);
        }
    }
    // Both kinds were there.
    assert!(content > 1000 && limited > 1000, "{content} content, {limited} at a bottleneck");
}
