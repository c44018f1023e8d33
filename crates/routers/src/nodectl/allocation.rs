//! Algorithms 1 and 2 of the paper as pure functions: the rate that a port allocates to a transmission, and
//! to each of its subflows. All rates are in bytes per second, rounded down.

/// Inputs of Algorithm 1, without the transmission in question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Bz: bandwidth of the port.
    pub(super) total: u64,
    /// Bv: unallocated part.
    pub(super) free: u64,
    /// Qz: number of transmissions served.
    pub(super) served: u64,
    /// Qctl: number of transmissions bottlenecked at this port.
    pub(super) controlled: u64,
    /// Bctl: sum of the rates of these transmissions.
    pub(super) controlled_rate: u64,
}

/// Adjustment of transmissions already served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adjust {
    /// No adjustment.
    None,
    /// The list Lr: transmissions above this rate are reduced to it.
    Above(u64),
    /// The lists Li and Lr: transmissions bottlenecked here move to this rate, up or down.
    Controlled(u64),
    /// The list Li as printed: transmissions bottlenecked here rise to this rate.
    Below(u64),
}

/// Result of Algorithm 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    /// Bc: rate allocated by the port.
    pub(super) rate: u64,
    /// Adjustment of the others.
    pub(super) adjust: Adjust,
}

/// From this number of transmissions on, a newcomer does not cause a message to each other transmission.
pub(super) const MANY: u64 = 128;

fn share(pool: u64, among: f64) -> u64 {
    (pool as f64 / among) as u64
}

/// Algorithm 1 for a transmission that requests at most `requested`. `expected` (QT) counts this transmission and the
/// arrivals expected before its data arrives; `tolerance` (beta) is a fraction of Ba. O(1).
///
/// ```text
/// Bs = Bv / QT        Ba = Bz / (Qz + QT)
/// |Bs - Ba| <= beta Ba   Bc = Bs
/// Ba - Bs > beta Ba      Bc = Ba;                          all above Ba are reduced to it
/// Bs - Ba > beta Ba      Bc = (Bv + Bctl) / (QT + Qctl);   those whose bottleneck is here come to Bc
/// ```
///
/// Two corrections:
/// * The paper's third line raises transmissions below Bc but reduces none above it, so the total may exceed the port's
///   bandwidth. Example: of a bandwidth of 33, one transmission has 20, another has 1, and 12 are free, so Bs = 12 > Ba
///   = 11. A newcomer would get Bc = 11 and the second transmission would rise to 11, 42 in total. Here transmissions
///   above Bc are reduced to Bc.
/// * The paper assumes that every transmission can use its allocation. Here a transmission that requests less than Bc
///   gets its request, and the other transmissions are adjusted to an equal share of the rest. If Bs covers the
///   request, no transmission is adjusted.
///
/// With at least [`MANY`] transmissions, a newcomer would change each other transmission by less than a hundredth. The
/// second line then frees bandwidth for several newcomers at a time, one per [`MANY`] transmissions, and the third line
/// makes no adjustment while the mean rate changes by less than a fraction of 2 / [`MANY`]. [`level`] distributes the
/// remaining bandwidth.
pub(super) fn allocate(load: &Load, expected: f64, tolerance: f64, requested: u64) -> Allocation {
    let expected = expected.max(1.0);
    let spare = load.free as f64 / expected;
    let fair = load.total as f64 / (load.served as f64 + expected);
    let within = tolerance * fair;
    let Load { total, free, served, controlled, controlled_rate } = *load;
    let (pool, among, adjust): (u64, f64, fn(u64) -> Adjust) = if fair - spare > within {
        (total, (served + served / MANY) as f64 + expected, Adjust::Above)
    } else if spare - fair > within && controlled > 0 {
        (free + controlled_rate, controlled as f64 + expected, Adjust::Controlled)
    } else {
        (free, expected, |_| Adjust::None)
    };
    let rate = share(pool, among);
    if served >= MANY && adjust(rate) == Adjust::Controlled(rate) {
        let mean = controlled_rate / controlled;
        if rate.abs_diff(mean) <= 2 * mean / MANY {
            return Allocation { rate: rate.min(spare as u64), adjust: Adjust::None };
        }
    }
    let adjust = if requested as f64 <= spare {
        Adjust::None
    } else if requested < rate {
        adjust(share(pool - requested, among - 1.0))
    } else {
        adjust(rate)
    };
    Allocation { rate, adjust }
}

/// Algorithm 1 as printed, without the corrections of [`allocate`]: a request for less than its share still gets a full
/// share allocated, and the third line raises rates but never reduces them.
pub(super) fn allocate_as_printed(load: &Load, expected: f64, tolerance: f64) -> Allocation {
    let expected = expected.max(1.0);
    let spare = load.free as f64 / expected;
    let fair = load.total as f64 / (load.served as f64 + expected);
    let within = tolerance * fair;
    if fair - spare > within {
        let rate = fair as u64;
        Allocation { rate, adjust: Adjust::Above(rate) }
    } else if spare - fair > within {
        let rate = share(load.free + load.controlled_rate, load.controlled as f64 + expected);
        Allocation { rate, adjust: Adjust::Below(rate) }
    } else {
        Allocation { rate: spare as u64, adjust: Adjust::None }
    }
}

/// The third line of Algorithm 1 for free bandwidth without a request: the new rate of transmissions bottlenecked here,
/// with `expected` further arrivals. `None` if there is no transmission to adjust.
pub(super) fn level(load: &Load, expected: f64) -> Option<u64> {
    let among = load.controlled as f64 + expected.max(0.0);
    (load.controlled > 0).then(|| share(load.free + load.controlled_rate, among))
}

/// One subflow of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The Max of the subflow's first request, above zero.
    pub(super) weight: u64,
    /// Maximum rate that the subflow can use.
    pub(super) most: u64,
    /// Allocated rate.
    pub(super) rate: u64,
}

/// Rounds after which [`split`] leaves unusable parts unallocated.
const ROUNDS: usize = 8;

/// Algorithm 2: splits the rate of a transmission among its subflows by weight. Parts that a subflow cannot
/// use, because its bottleneck is elsewhere, go to the others (the paper leaves this open). O(M) for M
/// subflows.
pub(super) fn split(total: u64, parts: &mut [Part]) {
    const OPEN: u64 = u64::MAX;
    for part in parts.iter_mut() {
        part.rate = OPEN;
    }
    for round in 0..=ROUNDS {
        let (mut rest, mut weights) = (total, 0u128);
        for part in parts.iter() {
            if part.rate == OPEN {
                weights += u128::from(part.weight);
            } else {
                rest = rest.saturating_sub(part.rate);
            }
        }
        if weights == 0 {
            return;
        }
        let fair_share = |part: &Part| (u128::from(rest) * u128::from(part.weight) / weights) as u64;
        let satisfied = |part: &Part| part.most < fair_share(part);
        let last = round == ROUNDS || !parts.iter().any(|part| part.rate == OPEN && satisfied(part));
        for part in parts.iter_mut().filter(|part| part.rate == OPEN) {
            if last || satisfied(part) {
                part.rate = fair_share(part).min(part.most);
            }
        }
        if last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: u64 = u64::MAX;

    fn load(total: u64, rates: &[(u64, bool)]) -> Load {
        let here = || rates.iter().filter(|rate| rate.1);
        Load {
            total,
            free: total - rates.iter().map(|rate| rate.0).sum::<u64>(),
            served: rates.len() as u64,
            controlled: here().count() as u64,
            controlled_rate: here().map(|rate| rate.0).sum(),
        }
    }

    fn given(load: &Load, expected: f64, requested: u64) -> (u64, Adjust) {
        let Allocation { rate, adjust } = allocate(load, expected, 0.0, requested);
        (rate, adjust)
    }

    /// The first transmission gets everything, each newcomer an equal share.
    #[test]
    fn first_gets_everything_and_newcomers_an_equal_share() {
        // First transmission: Bs = Ba = 36. Second: Bs = 0 < Ba = 18. Third: Bs = 0 < Ba = 12.
        assert_eq!(given(&load(36, &[]), 1.0, ALL), (36, Adjust::None));
        assert_eq!(given(&load(36, &[(36, true)]), 1.0, ALL), (18, Adjust::Above(18)));
        assert_eq!(given(&load(36, &[(18, true); 2]), 1.0, ALL), (12, Adjust::Above(12)));
    }

    /// Free bandwidth is shared between the newcomer and those bottlenecked here.
    #[test]
    fn free_rate_is_shared_with_those_bottlenecked_here() {
        // Bandwidth 36: Bs = Ba = 12. Bandwidth 37: Bs = 13 > Ba = 12.33, so Bc = (13 + 12)/2 = 12.5.
        assert_eq!(given(&load(36, &[(12, true), (12, true)]), 1.0, ALL), (12, Adjust::None));
        assert_eq!(given(&load(37, &[(12, false), (12, true)]), 1.0, ALL), (12, Adjust::Controlled(12)));
        // Qctl = 0: Bc = Bs, and no transmission is adjusted.
        assert_eq!(given(&load(36, &[(2, false)]), 1.0, ALL), (34, Adjust::None));
        // Bs = 24 > Ba = 9: Bc = (24 + 4)/(1 + 2) = 9.33.
        let bottlenecked = load(36, &[(8, false), (2, true), (2, true)]);
        assert_eq!(given(&bottlenecked, 1.0, ALL), (9, Adjust::Controlled(9)));
    }

    /// Bandwidth is reserved for expected arrivals.
    #[test]
    fn expected_arrivals_get_a_reserve() {
        // QT = 3: Bs = Ba = 12.
        assert_eq!(given(&load(36, &[]), 3.0, ALL), (12, Adjust::None));
        // QT = 2.5, and one other transmission has 12: Bs = 24/2.5 = 9.6 < Ba = 36/3.5 = 10.28.
        assert_eq!(given(&load(36, &[(12, true)]), 2.5, ALL), (10, Adjust::Above(10)));
        // QT below one counts as one: the present transmission.
        assert_eq!(given(&load(36, &[]), 0.1, ALL), (36, Adjust::None));
    }

    /// Within the tolerance no transmission is adjusted.
    #[test]
    fn within_tolerance_none_is_adjusted() {
        let load = load(36, &[(13, true), (12, true)]);
        // Bs = 11 and Ba = 12 differ by a twelfth of Ba: within a tolerance of 0.1, beyond a tolerance of 0.08.
        let kept = Allocation { rate: 11, adjust: Adjust::None };
        assert_eq!(allocate(&load, 1.0, 0.1, ALL), kept);
        assert_eq!(allocate(&load, 1.0, 0.08, ALL), Allocation { rate: 12, adjust: Adjust::Above(12) });
    }

    /// A request for less than its share costs the others no more than the request.
    #[test]
    fn small_request_costs_others_only_its_size() {
        let busy = load(36, &[(36, true)]);
        assert_eq!(given(&busy, 1.0, 4), (18, Adjust::Above(32)));
        assert_eq!(given(&busy, 1.0, 18), (18, Adjust::Above(18)));
        // The request for 6 fits the free bandwidth of 6, so no transmission is adjusted.
        assert_eq!(given(&load(36, &[(30, true)]), 1.0, 6), (18, Adjust::None));
        // The third line: Bs = 24 covers the first request, so no transmission is adjusted. In the second case Bs = 13
        // is less than the request for 14, so Bc = (26 + 2)/(2 + 1) = 9.33.
        let half = load(36, &[(8, false), (2, true), (2, true)]);
        assert_eq!(given(&half, 1.0, 24).1, Adjust::None);
        assert_eq!(given(&load(36, &[(8, false), (2, true)]), 2.0, 14).1, Adjust::Controlled(9));
    }

    /// As printed, the third line only raises, and allocates more than the port has.
    #[test]
    fn printed_third_line_only_raises() {
        // Bandwidth 32; two transmissions have 20 and 2.
        let load = load(32, &[(20, true), (2, true)]);
        let expected = Allocation { rate: 10, adjust: Adjust::None };
        // The first line: Bs = 10 is within a tenth of Ba = 10.67.
        assert_eq!(allocate_as_printed(&load, 1.0, 0.1), expected);
        let load = self::load(33, &[(20, true), (1, true)]);
        assert_eq!(allocate_as_printed(&load, 1.0, 0.0), Allocation { rate: 11, adjust: Adjust::Below(11) });
        // A small request reduces the other transmissions as much as a large request does.
        let busy = self::load(36, &[(36, true)]);
        assert_eq!(allocate_as_printed(&busy, 1.0, 0.0), Allocation { rate: 18, adjust: Adjust::Above(18) });
    }

    /// Freed bandwidth is divided among the transmissions bottlenecked here, so that their rates become equal.
    #[test]
    fn freed_bandwidth_is_levelled_among_bottlenecked() {
        assert_eq!(level(&load(36, &[(12, true), (12, true)]), 0.0), Some(18));
        assert_eq!(level(&load(36, &[(12, true), (12, true)]), 1.0), Some(12));
        assert_eq!(level(&load(36, &[(2, false), (20, true), (4, true)]), 0.0), Some(17));
        assert_eq!(level(&load(36, &[(2, false)]), 0.0), None);
    }

    fn parts(weights: &[(u64, u64)]) -> Vec<Part> {
        weights.iter().map(|&(weight, most)| Part { weight, most, rate: 0 }).collect()
    }

    fn rates(total: u64, weights: &[(u64, u64)]) -> Vec<u64> {
        let mut parts = parts(weights);
        split(total, &mut parts);
        parts.iter().map(|part| part.rate).collect()
    }

    /// Subflows share by weight; bandwidth that one cannot use goes to the others.
    #[test]
    fn subflows_share_by_weight_and_pass_on_unused() {
        assert_eq!(rates(30, &[(5, ALL)]), [30]);
        assert_eq!(rates(30, &[(1, ALL), (2, ALL)]), [10, 20]);
        assert_eq!(rates(30, &[(1, ALL), (1, 4), (1, ALL)]), [13, 4, 13]);
        // Every subflow can use its share by weight: 7.5, 15, 7.5.
        assert_eq!(rates(30, &[(1, ALL), (2, 15), (1, 12)]), [7, 15, 7]);
        assert_eq!(rates(30, &[(1, 4), (1, 5)]), [4, 5]);
        assert_eq!(rates(0, &[(1, ALL), (1, 5)]), [0, 0]);
    }

    /// The last round allocates no more than is left.
    #[test]
    fn last_round_allocates_no_more_than_is_left() {
        // The limits of the subflows are 2^k - 1, so that several rounds are needed to satisfy those below their share.
        let mut all: Vec<_> = (1..40).map(|k| (1, (1u64 << k) - 1)).collect();
        all.push((1, ALL));
        let sum: u64 = rates(1 << 36, &all).iter().sum();
        assert!(sum <= 1 << 36, "{sum}");
    }

    /// With many transmissions a newcomer rarely moves the others.
    #[test]
    fn with_many_transmissions_newcomers_seldom_move_others() {
        // 256 transmissions share the bandwidth; the newcomer reduces them so far that two more newcomers fit.
        let (total, rate) = (256_000, 1_000);
        let newcomer = given(&load(total, &[(rate, true); 256]), 1.0, ALL);
        assert_eq!(newcomer, (988, Adjust::Above(988)));
        // Then 256 000 - 257 * 988 = 2084 B/s are free: the mean rate of all 258 transmissions is 992 B/s, less than a
        // fraction of 2/128 above 988 B/s.
        let next = given(&load(total, &[(988, true); 257]), 1.0, ALL);
        assert_eq!(next, (992, Adjust::None));
        let last = given(&load(total, &[(988, true); 258]), 1.0, ALL);
        assert_eq!(last, (988, Adjust::None));
        assert_eq!(given(&load(total, &[(988, true); 259]), 1.0, ALL), (977, Adjust::Above(977)));
        // If the mean rate of 128 transmissions changes by more than a fraction of 2/128, each transmission is
        // adjusted.
        let (rate, adjust) = given(&load(total, &[(988, true); 128]), 1.0, ALL);
        assert_eq!((rate, adjust), (1984, Adjust::Controlled(1984)));
    }

    fn rates_of() -> impl Strategy<Value = Vec<(u64, bool)>> {
        prop_oneof![
            prop::collection::vec((0u64..2_000_000, any::<bool>()), 0..20),
            prop::collection::vec((990_000u64..1_000_000, any::<bool>()), 120..300),
        ]
    }

    proptest! {
        /// No allocation exceeds the port's bandwidth.
        #[test]
        fn allocation_never_exceeds_the_total(
            served in rates_of(),
            spare in 0u64..10_000_000,
            expected in 0.0f64..6.0,
            requested in prop_oneof![1u64..3_000_000, Just(ALL)],
        ) {
            let total = served.iter().map(|rate| rate.0).sum::<u64>() + spare;
            let load = load(total, &served);
            let Allocation { rate, adjust } = allocate(&load, expected, 0.0, requested);
            let others: u64 = served
                .iter()
                .map(|&(has, here)| match adjust {
                    Adjust::Above(level) => has.min(level),
                    Adjust::Controlled(level) if here => level,
                    _ => has,
                })
                .sum();
            // Doubles represent these numbers exactly; only quotients are rounded.
            prop_assert!(rate.min(requested) + others <= total, "{rate} + {others} of {total}: {adjust:?}");
        }

        /// Levelling allocates exactly all of the bandwidth, up to rounding.
        #[test]
        fn levelling_allocates_exactly_the_total(served in rates_of(), spare in 0u64..10_000_000) {
            let total = served.iter().map(|rate| rate.0).sum::<u64>() + spare;
            let load = load(total, &served);
            if let Some(level) = level(&load, 0.0) {
                let fixed: u64 = served.iter().filter(|rate| !rate.1).map(|rate| rate.0).sum();
                let sum = fixed + level * load.controlled;
                prop_assert!(sum <= total && sum + load.controlled > total);
            }
        }

        /// Together the subflows never get more than the transmission, and subflows of equal weight share max-min
        /// fairly.
        #[test]
        fn subflow_split_is_bounded_and_max_min_fair(
            total in 0u64..1_000_000_000_000,
            most in prop::collection::vec(prop_oneof![0u64..1_000_000_000_000, Just(ALL)], 1..8),
            weight in 1u64..1_000_000_000_000,
        ) {
            let mut parts: Vec<_> = most.iter().map(|&most| Part { weight, most, rate: 0 }).collect();
            split(total, &mut parts);
            let sum: u64 = parts.iter().map(|part| part.rate).sum();
            prop_assert!(sum <= total);
            let highest = parts.iter().map(|part| part.rate).max().unwrap_or(0);
            for part in &parts {
                // A subflow with less than another could not use more.
                prop_assert!(part.rate <= part.most);
                prop_assert!(part.rate + 1 >= highest.min(part.most), "{parts:?}");
            }
        }
    }
}
