//! Shares against the equations of the paper.

use proptest::prelude::*;

use super::*;

const MB: f64 = 1e6;
const LIMIT: Limit = Limit { alpha: 0.95, beta: 1.1 };

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{value} is not {expected}");
}

/// Shares of `capacity`, with no floor.
fn shares(capacity: f64) -> Shares {
    let mut shares = Shares::new(0.0, false);
    shares.set_capacity(capacity);
    shares
}

/// A full allocation to flows with these demands and usages.
fn divide(shares: &mut Shares, flows: &[(f64, f64)]) -> Vec<f64> {
    let mut demands: Vec<f64> = flows.iter().map(|flow| flow.0).collect();
    shares.begin(&mut demands);
    flows.iter().map(|&(demand, used)| shares.grant(demand, used)).collect()
}

/// Equation 8 divides by numbers of flows, after the share of UDP.
#[test]
fn equation_8_divides_by_flow_counts_after_udp() {
    let classes = Classes::divide(100.0, 3, 1, false, 0.05);
    assert_eq!(classes, Classes { brf: 75.0, others: 25.0, udp: 0.0 });
    let classes = Classes::divide(100.0, 3, 1, true, 0.05);
    assert_eq!(classes, Classes { brf: 71.25, others: 23.75, udp: 5.0 });
    assert_eq!(Classes::divide(100.0, 0, 0, true, 0.05), Classes { brf: 0.0, others: 95.0, udp: 5.0 });
    assert_eq!(Classes::divide(100.0, 0, 2, false, 0.05).others, 100.0);
    assert_eq!(Classes::divide(100.0, 2, 0, false, 0.05).brf, 100.0);
}

/// Equation 10 caps the prediction at an equal share.
#[test]
fn equation_10_caps_prediction_at_an_equal_share() {
    let mut shares = shares(12.0);
    near(shares.initial(None, 0), 12.0);
    near(shares.initial(Some(5.0), 0), 5.0);
    near(shares.initial(Some(50.0), 0), 12.0);
    near(shares.initial(None, 2), 4.0);
    shares.join(12.0);
    near(shares.initial(None, 0), 6.0);
    near(shares.initial(Some(50.0), 1), 4.0);
}

/// A joining flow takes the residual if it suffices.
#[test]
fn joining_flow_takes_a_sufficient_residual() {
    let mut shares = shares(100.0);
    // One flow with a share of 100 that uses 30: 70 are unused.
    let base = divide(&mut shares, &[(f64::INFINITY, 30.0)])[0];
    let joined = shares.join(shares.initial(Some(50.0), 0));
    near(shares.rate(base), 100.0);
    near(shares.rate(joined), 50.0);
    near(shares.allocated(), 150.0);
}

/// A joining flow scales the others if the residual is too small.
#[test]
fn joining_flow_scales_others_if_residual_is_small() {
    let mut shares = shares(100.0);
    // Two flows have shares of 60 and 40 and use 60 and 30. R = 10 is less than the new flow's 30, so the two flows
    // keep (100 − 30)/90 of their shares.
    let bases = divide(&mut shares, &[(f64::INFINITY, 60.0), (40.0, 30.0)]);
    near(shares.rate(bases[1]), 40.0);
    let joined = shares.join(30.0);
    near(shares.rate(joined), 30.0);
    near(shares.rate(bases[0]), 60.0 * 70.0 / 90.0);
    near(shares.rate(bases[1]), 40.0 * 70.0 / 90.0);
    // A second joining flow finds only the rest of R unused.
    shares.join(shares.initial(None, 0));
    assert!(shares.allocated() <= 110.0);
}

/// Flows that join a full link one by one get equal shares.
#[test]
fn flows_joining_a_full_link_get_equal_shares() {
    let mut shares = shares(100.0);
    let bases: Vec<f64> = (0..5).map(|_| shares.join(shares.initial(None, 0))).collect();
    for base in bases {
        near(shares.rate(base), 20.0);
    }
    near(shares.allocated(), 100.0);
}

/// Equation 14 gives limited flows beta times their usage and divides the rest among the others.
#[test]
fn equation_14_gives_limited_flows_usage_others_rest() {
    // The threshold is 95 %: a flow that uses 94 of 100 is limited, a flow that uses 96 is not.
    near(LIMIT.demand(94.0, 100.0), 94.0 * 1.1);
    assert_eq!(LIMIT.demand(96.0, 100.0), f64::INFINITY);
    let mut shares = shares(100.0);
    let flows = [(10.0 * 1.1, 10.0), (f64::INFINITY, 50.0), (20.0 * 1.1, 20.0), (f64::INFINITY, 50.0)];
    let rates: Vec<f64> = divide(&mut shares, &flows).iter().map(|base| shares.rate(*base)).collect();
    for (rate, expected) in rates.iter().zip([11.0, 33.5, 22.0, 33.5]) {
        near(*rate, expected);
    }
    near(shares.allocated(), 100.0);
}

/// Bandwidth that no flow demands is shared out: with all flows limited the shares still sum to the capacity, and each
/// exceeds its demand by the same amount.
#[test]
fn all_flows_limited_share_the_remainder_equally() {
    let mut shares = shares(100.0);
    let bases = divide(&mut shares, &[(10.0, 9.0), (20.0, 18.0), (40.0, 36.0)]);
    // The remainder of 100 - (10 + 20 + 40) = 30 gives ten to each flow.
    for (base, expected) in bases.into_iter().zip([20.0, 30.0, 50.0]) {
        near(shares.rate(base), expected);
    }
    near(shares.allocated(), 100.0);
}

/// A limited flow gets no more than the equal share of the others.
#[test]
fn limited_flow_gets_at_most_the_equal_share() {
    let mut shares = shares(100.0);
    let rates: Vec<f64> = divide(&mut shares, &[(99.0, 90.0), (f64::INFINITY, 10.0)]);
    near(shares.rate(rates[0]), 50.0);
    near(shares.rate(rates[1]), 50.0);
}

/// Cuts follow equations 16 to 18 and end at the floor.
#[test]
fn cuts_follow_equations_16_to_18_down_to_the_floor() {
    let mut shares = shares(100.0);
    let bases = divide(&mut shares, &[(f64::INFINITY, 100.0), (25.0, 25.0)]);
    // Draining 4 bytes within 0.2 s takes 20 B/s of 100 B/s, so every flow keeps 80 %.
    shares.drain(4.0, 0.2);
    near(shares.rate(bases[0]), 60.0);
    near(shares.rate(bases[1]), 20.0);
    // A load of 160 B/s is measured and 95 of 100 B/s are allowed: every flow keeps 95/160.
    shares.unload(0.95, 160.0);
    near(shares.rate(bases[0]), 60.0 * 95.0 / 160.0);
    // A lower load raises no share.
    let before = shares.allocated();
    shares.unload(0.95, 50.0);
    near(shares.allocated(), before);
    let mut floored = Shares::new(1.0, false);
    floored.set_capacity(100.0);
    let base = floored.join(100.0);
    floored.drain(1e9, 0.1);
    assert!((floored.rate(base) - 1.0).abs() < 1e-6, "{}", floored.rate(base));
    // The next full allocation starts from scratch.
    let base = divide(&mut floored, &[(f64::INFINITY, 1.0)])[0];
    near(floored.rate(base), 100.0);
}

/// A smaller class scales its flows, and the floor never exceeds half of an equal share.
#[test]
fn smaller_class_scales_flows_and_caps_the_floor() {
    let mut shares = shares(100.0);
    let base = shares.join(100.0);
    shares.set_capacity(50.0);
    near(shares.rate(base), 50.0);
    let mut floored = Shares::new(30.0, false);
    floored.set_capacity(100.0);
    for _ in 0..5 {
        floored.join(floored.initial(Some(1.0), 0));
    }
    // A flow with a base of zero gets exactly the floor.
    near(floored.rate(0.0), 10.0);
    assert!(floored.allocated() <= 100.0 && floored.allocated() >= 50.0, "{}", floored.allocated());
    // When the last flow leaves, all sums are reset.
    for _ in 0..5 {
        floored.leave(0.0, 20.0);
    }
    assert_eq!((floored.count(), floored.allocated(), floored.rate(0.0)), (0, 0.0, 30.0));
}

proptest! {
    /// The water level equals that of vessels filled one by one.
    #[test]
    fn water_level_matches_sequential_filling(
        sizes in prop::collection::vec(prop_oneof![3 => 0.0f64..100.0, 1 => Just(f64::INFINITY), 1 => Just(10.0)], 1..40),
        water in 0.0f64..2000.0,
    ) {
        let found = level(water, &mut sizes.clone());
        let mut sorted = sizes.clone();
        sorted.sort_by(f64::total_cmp);
        let (mut rest, mut expected) = (water, f64::INFINITY);
        for (i, size) in sorted.iter().enumerate() {
            let share = rest / (sorted.len() - i) as f64;
            if *size >= share {
                expected = share;
                break;
            }
            rest -= size;
        }
        prop_assert!(found == expected || (found - expected).abs() <= 1e-9 * expected.max(1.0), "{found} {expected}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Join(Option<f64>),
    Leave(usize),
    Capacity(f64),
    Drain(f64),
    Unload(f64),
    /// A full allocation with measured rates up to 1.2 times the shares, from a random stream with this seed.
    Allocate(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => prop::option::of(0.0..100.0 * MB).prop_map(Op::Join),
        2 => (0usize..64).prop_map(Op::Leave),
        1 => (MB..100.0 * MB).prop_map(Op::Capacity),
        1 => (0.0..10.0 * MB).prop_map(Op::Drain),
        1 => (0.0..200.0 * MB).prop_map(Op::Unload),
        2 => any::<u64>().prop_map(Op::Allocate),
    ];
    prop::collection::vec(op, 1..80)
}

proptest! {
    /// All shares together are at most the capacity plus the bandwidth measured as unused.
    #[test]
    fn share_sum_is_at_most_capacity_plus_unused(ops in ops(), least in 0.0..MB) {
        let mut shares = Shares::new(least, false);
        let mut capacity = 12.5 * MB;
        shares.set_capacity(capacity);
        // Base and latest measured usage of each flow.
        let mut flows: Vec<(f64, f64)> = Vec::new();
        let mut unused = 0.0;
        // The floor in force: the configured floor, or half of the smallest equal share since the last full allocation
        // if that is less.
        let mut floor = least;
        for op in ops {
            match op {
                Op::Join(prediction) => {
                    let initial = shares.initial(prediction, 0);
                    let base = shares.join(initial);
                    flows.push((base, f64::INFINITY));
                    // The flow gets its initial share, which is at most an equal share.
                    prop_assert!((shares.rate(base) - initial).abs() <= 1e-6 * initial);
                    prop_assert!(initial <= capacity / flows.len() as f64 * (1.0 + 1e-9));
                }
                Op::Leave(which) if !flows.is_empty() => {
                    let (base, used) = flows.swap_remove(which % flows.len());
                    shares.leave(base, used);
                }
                Op::Leave(_) => {}
                Op::Capacity(new) => {
                    // A larger class leaves bandwidth unallocated until the next full allocation.
                    capacity = new;
                    shares.set_capacity(capacity);
                }
                Op::Drain(bytes) => shares.drain(bytes, 0.04),
                Op::Unload(measured) => shares.unload(0.98, measured),
                Op::Allocate(seed) if !flows.is_empty() => {
                    let mut random = narrows_cc::Random::stream(seed, "measured", 0);
                    let measured: Vec<(f64, f64)> = flows
                        .iter()
                        .map(|(base, _)| {
                            let allowed = shares.rate(*base);
                            let measured = allowed * 1.2 * random.unit();
                            let demand = LIMIT.demand(measured, allowed);
                            (demand, if demand.is_finite() { measured } else { f64::INFINITY })
                        })
                        .collect();
                    let bases = divide(&mut shares, &measured);
                    flows = bases.iter().zip(&measured).map(|(base, (_, used))| (*base, *used)).collect();
                    let sum: f64 = flows.iter().map(|(base, _)| shares.rate(*base)).sum();
                    // The shares sum exactly to the capacity: the remainder is distributed too.
                    let whole = (sum - capacity).abs() <= 1e-9 * capacity;
                    prop_assert!(whole, "{sum} of {capacity} after a full allocation");
                    floor = least;
                    unused = flows.iter().map(|(base, used)| (shares.rate(*base) - used).max(0.0)).sum();
                }
                Op::Allocate(_) => {}
            }
            let sum: f64 = flows.iter().map(|(base, _)| shares.rate(*base)).sum();
            prop_assert!((sum - shares.allocated()).abs() <= 1e-6 * capacity, "{sum}, {}", shares.allocated());
            prop_assert!(sum <= (capacity + unused) * (1.0 + 1e-8), "{sum} > {capacity} + {unused} unused");
            floor = if flows.is_empty() { least } else { floor.min(0.5 * capacity / flows.len() as f64) };
            for (base, _) in &flows {
                prop_assert!(shares.rate(*base) >= floor * (1.0 - 1e-9), "{} < {floor}", shares.rate(*base));
            }
        }
    }
}

/// With `printed` the equations are those of the paper: equation 11 sums measured rates, 14 neither caps demands nor
/// distributes leftovers, 17 hardly changes a share and 18 raises it.
#[test]
fn printed_equations_are_those_of_the_print() {
    let mut shares = Shares::new(0.0, true);
    shares.set_capacity(100.0);
    let bases = [100.0, 50.0].map(|initial| shares.join(initial));
    // Nothing is measured, so the residual is the whole class and no share shrinks.
    assert_eq!(bases.map(|base| shares.rate(base)), [100.0, 50.0]);
    // One limited flow demands more than half of the class; the other flow gets the rest. With the correction each
    // would get half.
    let demands = [80.0, f64::INFINITY];
    shares.begin(&mut demands.clone());
    let bases = demands.map(|demand| shares.grant(demand, 70.0));
    assert_eq!(bases.map(|base| shares.rate(base)), [80.0, 20.0]);
    // With two limited flows, the bandwidth beyond their demands stays unallocated.
    let demands = [10.0, 30.0];
    shares.begin(&mut demands.clone());
    let bases = demands.map(|demand| shares.grant(demand, demand));
    assert_eq!((bases.map(|base| shares.rate(base)), shares.allocated()), ([10.0, 30.0], 40.0));
    // Equation 17 adds gamma · (80 - 40) / 40 bytes per second to each share, regardless of the queue.
    shares.drain(80.0, 2.0);
    assert_eq!(bases.map(|base| shares.rate(base)), [12.0, 32.0]);
    // Equation 18 multiplies each share by 99 / (0.9 · 100).
    shares.unload(0.9, 99.0);
    let raised = bases.map(|base| shares.rate(base));
    assert!((raised[0] - 13.2).abs() < 1e-9 && (raised[1] - 35.2).abs() < 1e-9, "{raised:?}");
}
