//! The allocation of bandwidth: to classes (equation 8), to a new flow (9 to 13), to all flows (14), and the
//! cuts (16 to 18). Rates are in bytes per second on the wire.
//!
//! Equations 13, 17 and 18 multiply all shares by one factor. A share is therefore `floor + scale · base`,
//! with only `base` stored per flow. Joins, leaves and cuts take constant time; only equation 14 visits all
//! flows. The scale applies to the part above the floor, so no flow falls below the floor.

use narrows_cc::Rate;

/// The minimum factor of a cut, which keeps the scale above zero.
const FACTOR_MIN: f64 = 1e-12;
/// Maximum floor as a fraction of an equal share: cuts above the floor must be able to drain a queue.
const FLOOR_MOST: f64 = 0.5;
/// The minimum scale.
const SCALE_MIN: f64 = 1e-200;

/// The bandwidth of each class, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Classes {
    /// Flows that offered to obey.
    pub brf: f64,
    /// CUBIC and all other flows.
    pub others: f64,
    /// UDP, which is policed.
    pub udp: f64,
}

impl Classes {
    /// Applies equation 8: divides in proportion to the numbers of flows. As printed, the equation leaves nothing for
    /// UDP, for which section 3.2 states 'a small bandwidth'; that share is deducted first while there are UDP flows.
    pub fn divide(capacity: f64, brf: usize, others: usize, udp: bool, udp_share: f64) -> Self {
        let policed = if udp { capacity * udp_share } else { 0.0 };
        let rest = capacity - policed;
        if brf + others == 0 {
            return Self { brf: 0.0, others: rest, udp: policed };
        }
        let obeying = rest * brf as f64 / (brf + others) as f64;
        Self { brf: obeying, others: rest - obeying, udp: policed }
    }
}

/// Test for application-limited flows (equation 14).
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// A flow below this fraction of its share is application-limited.
    pub alpha: f64,
    /// Share of such a flow, as a multiple of its measured rate.
    pub beta: f64,
}

impl Limit {
    /// Demand of a flow whose rate was measured under a share of `allowed`; infinite if the flow used at least `alpha`
    /// of this share.
    pub fn demand(&self, measured: f64, allowed: f64) -> f64 {
        if measured < self.alpha * allowed { measured * self.beta } else { f64::INFINITY }
    }
}

/// Shares of the BRF flows.
#[derive(Clone, Debug)]
pub struct Shares {
    /// Whether to follow the equations as printed.
    printed: bool,
    /// C_BRF.
    capacity: f64,
    /// The configured floor, and the floor in force: at most half of an equal share, and raised only by a full
    /// allocation.
    least: f64,
    floor: f64,
    scale: f64,
    count: usize,
    /// Sum of all bases.
    bases: f64,
    /// Sum of the used parts of all shares: for an application-limited flow its measured rate, for any other flow its
    /// share.
    used: f64,
    /// In a full allocation: the share of backlogged flows, and each flow's surplus beyond its demand.
    level: f64,
    headroom: f64,
}

impl Shares {
    /// Shares without flows and capacity. The floor of a share is `least`, or half of an equal share if that is less.
    /// With `printed` the equations are those of the paper; shares keep the floor, because a rate must be above zero.
    pub const fn new(least: f64, printed: bool) -> Self {
        Self {
            printed,
            capacity: 0.0,
            least,
            floor: least,
            scale: 1.0,
            count: 0,
            bases: 0.0,
            used: 0.0,
            level: 0.0,
            headroom: 0.0,
        }
    }

    /// Upper bound of `used`: the sum of all shares; the printed equations have no bound.
    fn used_most(&self) -> f64 {
        if self.printed { f64::INFINITY } else { self.allocated() }
    }

    fn floor_most(&self) -> f64 {
        FLOOR_MOST * self.capacity / self.count.max(1) as f64
    }

    /// Number of flows with a share.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Share of a flow with this base.
    #[inline]
    pub fn rate(&self, base: f64) -> f64 {
        self.floor + self.scale * base
    }

    /// Share of a flow with this base as a [`Rate`], at least 1 B/s.
    pub fn advice(&self, base: f64) -> Rate {
        Rate::from_bytes_per_sec((self.rate(base) as u64).max(1))
    }

    /// Sum of all shares.
    pub fn allocated(&self) -> f64 {
        self.count as f64 * self.floor + self.scale * self.bases
    }

    /// Sum of the used parts of all shares, as far as measured.
    pub const fn used(&self) -> f64 {
        self.used
    }

    /// Equations 9 and 10: first share of a flow while `waiting` other flows have no share yet.
    pub fn initial(&self, prediction: Option<f64>, waiting: usize) -> f64 {
        let average = self.capacity / (self.count + waiting + 1) as f64;
        let least = self.least.min(average);
        prediction.map_or(average, |prediction| prediction.max(least).min(average))
    }

    /// Adds a flow with a share of `initial`, or an equal share if that is less (equations 10 to 13). Returns
    /// its base.
    pub fn join(&mut self, initial: f64) -> f64 {
        let initial = initial.min(self.capacity / (self.count + 1) as f64);
        // Equation 11 gives the residual. If it suffices (12), the other flows keep their shares; otherwise (13) their
        // shares shrink in proportion.
        if self.capacity - self.used < initial && self.used > 0.0 {
            self.shrink_to(self.allocated() * (self.capacity - initial) / self.used);
        }
        self.count += 1;
        self.floor = self.floor.min(self.floor_most());
        let base = (initial - self.floor).max(0.0) / self.scale;
        self.bases += base;
        // As printed, (11) sums measured rates, and this flow has none yet.
        if !self.printed {
            self.used += self.rate(base);
        }
        base
    }

    /// Removes a flow that used `used` of its share.
    pub fn leave(&mut self, base: f64, used: f64) {
        self.count -= 1;
        if self.count == 0 {
            *self = Self { capacity: self.capacity, ..Self::new(self.least, self.printed) };
            return;
        }
        self.bases = (self.bases - base).max(0.0);
        let used = if self.printed { used } else { used.min(self.rate(base)) };
        self.used = (self.used - used).clamp(0.0, self.used_most());
    }

    /// Sets C_BRF. If C_BRF falls below the usage, all shares shrink in proportion, as in equation 13 for a flow
    /// outside the class.
    pub fn set_capacity(&mut self, capacity: f64) {
        self.capacity = capacity;
        if self.count > 0 {
            self.floor = self.floor.min(self.floor_most());
            if self.used > capacity {
                self.shrink_to(self.allocated() * capacity / self.used);
            }
        }
    }

    /// Equations 16 and 17: drains a queue of `bytes` within `gamma` seconds. As printed, (17) adds a time to a rate:
    /// about −γ bytes per second, which has almost no effect. Here each share is multiplied by `1 − q·MSS / (γ · Σ
    /// BW)`, as (16) requires, and stays above zero.
    pub fn drain(&mut self, bytes: f64, gamma: f64) {
        if self.printed {
            let sum = self.allocated();
            if sum > 0.0 {
                self.floor = (self.floor + gamma * (bytes - sum) / sum).max(1.0);
            }
            return;
        }
        self.shrink_to(self.allocated() - bytes / gamma);
    }

    /// Equation 18: reduces a total of `measured` to `alpha` of the capacity. The printed ratio is inverted
    /// and would raise the rates.
    pub fn unload(&mut self, alpha: f64, measured: f64) {
        if measured <= 0.0 {
            return;
        }
        if self.printed {
            let factor = measured / (alpha * self.capacity).max(1.0);
            self.floor = (self.floor * factor).max(1.0);
            self.scale *= factor;
        } else {
            self.shrink_to(self.allocated() * alpha * self.capacity / measured);
        }
    }

    /// Scales the parts above the floor down so that all shares sum to `target`; never scales up.
    fn shrink_to(&mut self, target: f64) {
        let floors = self.count as f64 * self.floor;
        let above = self.allocated() - floors;
        if above > 0.0 && target < floors + above {
            let factor = ((target - floors) / above).max(FACTOR_MIN);
            self.scale = (self.scale * factor).max(SCALE_MIN);
            self.used = self.used.min(self.used_most());
        }
    }

    /// Begins a full allocation (equation 14) for flows with these demands; reorders the list. Afterwards
    /// [`Shares::grant`] gives the base of each flow.
    ///
    /// Equation 14 gives every application-limited flow its demand, even beyond the shares that remain for
    /// the others. Here a flow whose demand exceeds the equal share of the rest gets that equal share, so the
    /// result is max-min fair. If no demand exceeds it, this is equation 14 unchanged.
    ///
    /// Equation 14 leaves bandwidth that no flow demands unallocated. Here all flows get equal parts of it: a flow
    /// limited by another port looks application-limited, and two such ports, each granting only slightly more than the
    /// flow's rate, would keep the flow at that rate.
    pub fn begin(&mut self, demands: &mut [f64]) {
        self.count = demands.len();
        self.floor = self.least.min(self.floor_most());
        for demand in &mut *demands {
            *demand = demand.max(self.floor);
        }
        (self.scale, self.bases, self.used) = (1.0, 0.0, 0.0);
        if self.printed {
            let limited = demands.iter().filter(|demand| demand.is_finite());
            let rest = self.capacity - limited.clone().sum::<f64>();
            self.level = rest / (self.count - limited.count()).max(1) as f64;
            self.headroom = 0.0;
            return;
        }
        let wanted: f64 = demands.iter().sum();
        self.headroom = ((self.capacity - wanted) / self.count.max(1) as f64).max(0.0);
        self.level = level(self.capacity, demands);
    }

    /// Base of a flow with this demand and usage.
    pub fn grant(&mut self, demand: f64, used: f64) -> f64 {
        let granted = if self.printed && demand.is_finite() { demand } else { demand.min(self.level) };
        let share = granted.max(self.floor) + self.headroom;
        let base = share - self.floor;
        self.bases += base;
        self.used += if self.printed { used } else { used.min(share) };
        base
    }
}

/// Water-filling level for vessels of these sizes; infinite if all vessels are full. Exact and in linear time: each
/// step halves the number of undecided vessels.
fn level(mut water: f64, mut undecided: &mut [f64]) -> f64 {
    let mut above = 0;
    while !undecided.is_empty() {
        let middle = undecided.len() / 2;
        let (below, pivot, _) = undecided.select_nth_unstable_by(middle, f64::total_cmp);
        let (sum, pivot) = (below.iter().sum::<f64>(), *pivot);
        let rest = undecided.len() - middle;
        if (water - sum) / (above + rest) as f64 > pivot {
            water -= sum + pivot;
            undecided = &mut undecided[middle + 1..];
        } else {
            above += rest;
            undecided = &mut undecided[..middle];
        }
    }
    if above == 0 { f64::INFINITY } else { water / above as f64 }
}

#[cfg(test)]
mod tests;
