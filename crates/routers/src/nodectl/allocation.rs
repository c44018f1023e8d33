//! Algorithms 1 and 2 of the paper: what a port gives to a transmission, and to each of its subflows. Numbers in, numbers
//! out; all rates in bytes per second, rounded down.

/// What Algorithm 1 knows of a port. The transmission in question is in none of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Bz: the bandwidth of the port.
    pub(super) total: u64,
    /// Bv: what of it is given to nobody.
    pub(super) free: u64,
    /// Qz: transmissions served.
    pub(super) served: u64,
    /// Qctl: those of them whose bottleneck is this port.
    pub(super) controlled: u64,
    /// Bctl: what these have.
    pub(super) controlled_rate: u64,
}

/// What follows for transmissions that are served already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adjust {
    /// Nothing.
    Nobody,
    /// The list Lr: whoever has more comes down to this.
    Above(u64),
    /// The lists Li and Lr: those whose bottleneck is this port come to this, up or down.
    Controlled(u64),
}

/// The result of Algorithm 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    /// Bc: what the port gives.
    pub(super) rate: u64,
    /// What others must do for it.
    pub(super) adjust: Adjust,
}

/// With so many transmissions on a port, one more is not worth a message to each.
pub(super) const MANY: u64 = 128;

fn share(pool: u64, among: f64) -> u64 {
    (pool as f64 / among) as u64
}

/// Algorithm 1 for a transmission that asks for `asked` at the most. `expected` (QT) counts it and those that will arrive
/// before its data does, `tolerance` (beta) is a share of Ba. O(1).
///
/// ```text
/// Bs = Bv / QT        Ba = Bz / (Qz + QT)
/// |Bs - Ba| <= beta Ba   Bc = Bs
/// Ba - Bs > beta Ba      Bc = Ba;                          all above Ba are reduced to it
/// Bs - Ba > beta Ba      Bc = (Bv + Bctl) / (QT + Qctl);   those whose bottleneck is here come to Bc
/// ```
///
/// Two corrections:
/// * The third line of the paper only raises those below Bc. If some have more, the mean Bc gives away more than there is:
///   of 32 with 20, 2 and 10 free, a third would get 10.67 and the second rise to it, 41.3 in all. Here those above Bc are
///   reduced to it.
/// * The paper pretends that every transmission can use what it gets. One that asks for less than Bc takes what it asks
///   for, and the others are adjusted to an equal share of the rest. If Bs covers it nobody is adjusted.
///
/// And a relief for ports with [`MANY`] transmissions, where every one that comes would move each of the others by less than
/// a hundredth: the second line makes room for as many hundredths more at once, and the third adjusts nobody while the mean
/// moves by less than that. [`level`] hands out the rest.
pub(super) fn allocate(load: &Load, expected: f64, tolerance: f64, asked: u64) -> Allocation {
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
        (free, expected, |_| Adjust::Nobody)
    };
    let rate = share(pool, among);
    if served >= MANY && adjust(rate) == Adjust::Controlled(rate) {
        let mean = controlled_rate / controlled;
        if rate.abs_diff(mean) <= 2 * mean / MANY {
            return Allocation { rate: rate.min(spare as u64), adjust: Adjust::Nobody };
        }
    }
    let adjust = if asked as f64 <= spare {
        Adjust::Nobody
    } else if asked < rate {
        adjust(share(pool - asked, among - 1.0))
    } else {
        adjust(rate)
    };
    Allocation { rate, adjust }
}

/// The third line of Algorithm 1 when bandwidth is left and nobody asks: what the transmissions whose bottleneck is this
/// port come to. `expected` are those that will arrive. `None` if there are none to adjust.
pub(super) fn level(load: &Load, expected: f64) -> Option<u64> {
    let among = load.controlled as f64 + expected.max(0.0);
    (load.controlled > 0).then(|| share(load.free + load.controlled_rate, among))
}

/// One subflow of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its negotiated Max, above zero.
    pub(super) weight: u64,
    /// What it can use.
    pub(super) most: u64,
    /// What it gets.
    pub(super) rate: u64,
}

/// The rounds after which [`split`] leaves what some cannot use to nobody.
const ROUNDS: usize = 8;

/// Algorithm 2: splits what a transmission has among its subflows by weight. What a subflow cannot use, because its
/// bottleneck is elsewhere, goes to the others (the paper leaves this open). O(M) for M subflows.
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
        let due = |part: &Part| (u128::from(rest) * u128::from(part.weight) / weights) as u64;
        let sated = |part: &Part| part.most < due(part);
        let last = round == ROUNDS || !parts.iter().any(|part| part.rate == OPEN && sated(part));
        for part in parts.iter_mut().filter(|part| part.rate == OPEN) {
            if last || sated(part) {
                part.rate = due(part).min(part.most);
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

    fn given(load: &Load, expected: f64, asked: u64) -> (u64, Adjust) {
        let Allocation { rate, adjust } = allocate(load, expected, 0.0, asked);
        (rate, adjust)
    }

    /// The first transmission gets everything, and each that joins an equal share.
    #[test]
    fn joining_transmission_gets_equal_share() {
        // Bs = Ba = 36; then Bs = 0 < Ba = 18; then Ba = 12.
        assert_eq!(given(&load(36, &[]), 1.0, ALL), (36, Adjust::Nobody));
        assert_eq!(given(&load(36, &[(36, true)]), 1.0, ALL), (18, Adjust::Above(18)));
        assert_eq!(given(&load(36, &[(18, true); 2]), 1.0, ALL), (12, Adjust::Above(12)));
    }

    /// Free bandwidth goes alike to the new transmission and to those bottlenecked here.
    #[test]
    fn free_rate_goes_to_new_and_local_bottlenecks() {
        // Bs = 12 > Ba = 12 does not hold: equal. With 13 free Bs = 13 > 12.33, Bc = (13 + 12)/2, rounded down.
        assert_eq!(given(&load(36, &[(12, true), (12, true)]), 1.0, ALL), (12, Adjust::Nobody));
        assert_eq!(given(&load(37, &[(12, false), (12, true)]), 1.0, ALL), (12, Adjust::Controlled(12)));
        // Qctl = 0: Bc = Bs, nobody is adjusted.
        assert_eq!(given(&load(36, &[(2, false)]), 1.0, ALL), (34, Adjust::Nobody));
        // Bs = 24 > Ba = 9: Bc = (24 + 4)/(1 + 2) = 9.33.
        let bottlenecked = load(36, &[(8, false), (2, true), (2, true)]);
        assert_eq!(given(&bottlenecked, 1.0, ALL), (9, Adjust::Controlled(9)));
    }

    /// Room is kept for expected arrivals.
    #[test]
    fn expected_arrivals_keep_room() {
        // QT = 3: Bs = Ba = 12.
        assert_eq!(given(&load(36, &[]), 3.0, ALL), (12, Adjust::Nobody));
        // QT = 2.5 beside one with 12: Bs = 9.6 < Ba = 36/3.5 = 10.28.
        assert_eq!(given(&load(36, &[(12, true)]), 2.5, ALL), (10, Adjust::Above(10)));
        // QT below one counts as one: the present transmission.
        assert_eq!(given(&load(36, &[]), 0.1, ALL), (36, Adjust::Nobody));
    }

    /// Within the tolerance no transmission is adjusted.
    #[test]
    fn within_tolerance_nobody_is_adjusted() {
        let load = load(36, &[(13, true), (12, true)]);
        // Bs = 11, Ba = 12: a twelfth apart.
        let kept = Allocation { rate: 11, adjust: Adjust::Nobody };
        assert_eq!(allocate(&load, 1.0, 0.1, ALL), kept);
        assert_eq!(allocate(&load, 1.0, 0.08, ALL), Allocation { rate: 12, adjust: Adjust::Above(12) });
    }

    /// A request for little costs the others no more than that.
    #[test]
    fn small_request_costs_no_more_than_itself() {
        let busy = load(36, &[(36, true)]);
        assert_eq!(given(&busy, 1.0, 4), (18, Adjust::Above(32)));
        assert_eq!(given(&busy, 1.0, 18), (18, Adjust::Above(18)));
        // What is asked is free.
        assert_eq!(given(&load(36, &[(30, true)]), 1.0, 6), (18, Adjust::Nobody));
        // Third line: 24 free, 2 for the new one, 26 between two.
        let half = load(36, &[(8, false), (2, true), (2, true)]);
        assert_eq!(given(&half, 1.0, 24).1, Adjust::Nobody);
        assert_eq!(given(&load(36, &[(8, false), (2, true)]), 2.0, 14).1, Adjust::Controlled(9));
    }

    /// Freed bandwidth is levelled among transmissions bottlenecked here.
    #[test]
    fn freed_bandwidth_levels_local_bottlenecks() {
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

    /// Subflows share by weight, and bandwidth that one cannot use goes to the others.
    #[test]
    fn subflows_share_by_weight() {
        assert_eq!(rates(30, &[(5, ALL)]), [30]);
        assert_eq!(rates(30, &[(1, ALL), (2, ALL)]), [10, 20]);
        assert_eq!(rates(30, &[(1, ALL), (1, 4), (1, ALL)]), [13, 4, 13]);
        // Everybody can use its share by weight: 7.5, 15, 7.5.
        assert_eq!(rates(30, &[(1, ALL), (2, 15), (1, 12)]), [7, 15, 7]);
        assert_eq!(rates(30, &[(1, 4), (1, 5)]), [4, 5]);
        assert_eq!(rates(0, &[(1, ALL), (1, 5)]), [0, 0]);
    }

    /// The last round of a split gives away no more than is left.
    #[test]
    fn last_round_gives_no_more_than_left() {
        // Each round but the last sates one of these: 1, 3, 7, ... of 2^k, with many that are never sated.
        let mut all: Vec<_> = (1..40).map(|k| (1, (1u64 << k) - 1)).collect();
        all.push((1, ALL));
        let sum: u64 = rates(1 << 36, &all).iter().sum();
        assert!(sum <= 1 << 36, "{sum}");
    }

    /// Among many transmissions a newcomer seldom moves the others.
    #[test]
    fn newcomer_among_many_seldom_moves_others() {
        // 256 with everything: room for two more is made besides that for the newcomer.
        let (total, rate) = (256_000, 1_000);
        let newcomer = given(&load(total, &[(rate, true); 256]), 1.0, ALL);
        assert_eq!(newcomer, (988, Adjust::Above(988)));
        // Then 256 000 - 257 * 988 = 2084 are free: the mean of all 258 is 992, less than 2/128 above 988.
        let next = given(&load(total, &[(988, true); 257]), 1.0, ALL);
        assert_eq!(next, (992, Adjust::Nobody));
        let last = given(&load(total, &[(988, true); 258]), 1.0, ALL);
        assert_eq!(last, (988, Adjust::Nobody));
        assert_eq!(given(&load(total, &[(988, true); 259]), 1.0, ALL), (977, Adjust::Above(977)));
        // Of 128 whose mean moves by more than a hundredth each is told.
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
        /// No allocation gives away more than there is.
        #[test]
        fn allocation_never_exceeds_bandwidth(
            served in rates_of(),
            spare in 0u64..10_000_000,
            expected in 0.0f64..6.0,
            asked in prop_oneof![1u64..3_000_000, Just(ALL)],
        ) {
            let total = served.iter().map(|rate| rate.0).sum::<u64>() + spare;
            let load = load(total, &served);
            let Allocation { rate, adjust } = allocate(&load, expected, 0.0, asked);
            let others: u64 = served
                .iter()
                .map(|&(has, here)| match adjust {
                    Adjust::Above(level) => has.min(level),
                    Adjust::Controlled(level) if here => level,
                    _ => has,
                })
                .sum();
            // Doubles carry these numbers exactly; only quotients are rounded.
            prop_assert!(rate.min(asked) + others <= total, "{rate} + {others} of {total}: {adjust:?}");
        }

        /// Levelling gives away all the bandwidth and no more.
        #[test]
        fn levelling_gives_away_exactly_all(served in rates_of(), spare in 0u64..10_000_000) {
            let total = served.iter().map(|rate| rate.0).sum::<u64>() + spare;
            let load = load(total, &served);
            if let Some(level) = level(&load, 0.0) {
                let fixed: u64 = served.iter().filter(|rate| !rate.1).map(|rate| rate.0).sum();
                let sum = fixed + level * load.controlled;
                prop_assert!(sum <= total && sum + load.controlled > total);
            }
        }

        /// Subflows never get more than their transmission, and equal weights share max-min fairly.
        #[test]
        fn equal_weight_subflows_share_max_min(
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
                // Whoever has less than another could not use more.
                prop_assert!(part.rate <= part.most);
                prop_assert!(part.rate + 1 >= highest.min(part.most), "{parts:?}");
            }
        }
    }
}
