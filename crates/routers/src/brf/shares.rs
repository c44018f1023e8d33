//! The division of bandwidth: between the classes (equation 8), to a new flow (9 to 13), among all (14), and the cuts
//! (16 to 18). Rates are bytes per second on the wire.
//!
//! Equations 13, 17 and 18 multiply the shares of all flows by one factor. So a share is kept as `floor + scale · base`, of
//! which only `base` belongs to the flow: a flow that joins or leaves and a cut take constant time, whatever the number of
//! flows, and only equation 14 visits them all. What is scaled is the part above the floor, so that no flow falls below it.

use narrows_cc::Rate;

/// The least factor of a cut: one to nothing leaves the floor and a trace, so that the scale stays usable.
const FACTOR_MIN: f64 = 1e-12;
/// The floor is no more than this part of an equal share: what is cut of the rest empties a queue.
const FLOOR_MOST: f64 = 0.5;
/// The least scale.
const SCALE_MIN: f64 = 1e-200;

/// What each class of the port is given, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Classes {
    /// Flows that obey.
    pub brf: f64,
    /// CUBIC and all others.
    pub others: f64,
    /// What is policed.
    pub udp: f64,
}

impl Classes {
    /// Equation 8: in proportion to the numbers of flows. As printed it leaves nothing to UDP, which section 3.2 gives 'a small
    /// bandwidth': that share is taken off before, while there are UDP flows.
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

/// The test of equation 14, with its two constants.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Less than this part of what it was allowed: the application is the limit.
    pub alpha: f64,
    /// Such a flow is allowed its measured rate times this.
    pub beta: f64,
}

impl Limit {
    /// What a flow is to be given that was measured while it was allowed `allowed`; no bound if it used that.
    pub fn demand(&self, measured: f64, allowed: f64) -> f64 {
        if measured < self.alpha * allowed { measured * self.beta } else { f64::INFINITY }
    }
}

/// The shares of the flows of the BRF class.
#[derive(Clone, Debug)]
pub struct Shares {
    /// C_BRF.
    capacity: f64,
    /// The stated floor, and the one in force: no more than half of an equal share, and rising only when all is divided anew.
    least: f64,
    floor: f64,
    scale: f64,
    count: usize,
    /// Sum of all bases.
    bases: f64,
    /// Sum of what the flows use of their shares: measured where the application is the limit, else the share itself.
    used: f64,
    /// In a full allocation: what a flow gets that could use more, and what each gets beyond its demand.
    level: f64,
    headroom: f64,
}

impl Shares {
    /// Nobody's share of nothing; no flow is to have less than `least`, or than half of an equal share if that is smaller.
    pub const fn new(least: f64) -> Self {
        Self {
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

    fn floor_most(&self) -> f64 {
        FLOOR_MOST * self.capacity / self.count.max(1) as f64
    }

    /// The flows that hold a share.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The share that belongs to `base`.
    #[inline]
    pub fn rate(&self, base: f64) -> f64 {
        self.floor + self.scale * base
    }

    /// The same as a quantity.
    pub fn advice(&self, base: f64) -> Rate {
        Rate::from_bytes_per_sec((self.rate(base) as u64).max(1))
    }

    /// The sum of all shares.
    pub fn allocated(&self) -> f64 {
        self.count as f64 * self.floor + self.scale * self.bases
    }

    /// What the flows use of them, as far as it has been measured.
    pub const fn used(&self) -> f64 {
        self.used
    }

    /// Equations 9 and 10: the first share of a flow while `waiting` more are about to have theirs.
    pub fn initial(&self, prediction: Option<f64>, waiting: usize) -> f64 {
        let average = self.capacity / (self.count + waiting + 1) as f64;
        let least = self.least.min(average);
        prediction.map_or(average, |prediction| prediction.max(least).min(average))
    }

    /// A flow joins with a share of `initial`, or an equal one if that is less (equations 10 to 13). Returns its base.
    pub fn join(&mut self, initial: f64) -> f64 {
        let initial = initial.min(self.capacity / (self.count + 1) as f64);
        // Equation 11: the residual; 12: if it is enough, the others keep what they have; 13: else they give way, in proportion.
        if self.capacity - self.used < initial && self.used > 0.0 {
            self.shrink_to(self.allocated() * (self.capacity - initial) / self.used);
        }
        self.count += 1;
        self.floor = self.floor.min(self.floor_most());
        let base = (initial - self.floor).max(0.0) / self.scale;
        self.bases += base;
        self.used += self.rate(base);
        base
    }

    /// A flow leaves that used `used` of its share.
    pub fn leave(&mut self, base: f64, used: f64) {
        self.count -= 1;
        if self.count == 0 {
            *self = Self { capacity: self.capacity, ..Self::new(self.least) };
            return;
        }
        self.bases = (self.bases - base).max(0.0);
        self.used = (self.used - used.min(self.rate(base))).clamp(0.0, self.allocated());
    }

    /// C_BRF changes. If it falls below what is used, all give way in proportion: equation 13 for a flow outside the class.
    pub fn set_capacity(&mut self, capacity: f64) {
        self.capacity = capacity;
        if self.count > 0 {
            self.floor = self.floor.min(self.floor_most());
            if self.used > capacity {
                self.shrink_to(self.allocated() * capacity / self.used);
            }
        }
    }

    /// Equations 16 and 17: a queue of `bytes` is to drain within `gamma` seconds. As printed (17) adds a rate to a number; here
    /// each share is multiplied by `1 − q·MSS / (γ · Σ BW)`, which is what (16) asks for, and stays above zero.
    pub fn drain(&mut self, bytes: f64, gamma: f64) {
        self.shrink_to(self.allocated() - bytes / gamma);
    }

    /// Equation 18: all of `measured` together is to fall to `alpha` of the capacity. The ratio is printed upside down, which
    /// would raise the rates.
    pub fn unload(&mut self, alpha: f64, measured: f64) {
        if measured > 0.0 {
            self.shrink_to(self.allocated() * alpha * self.capacity / measured);
        }
    }

    /// Scales what is above the floor, so that all shares together are `target`; never upwards.
    fn shrink_to(&mut self, target: f64) {
        let floors = self.count as f64 * self.floor;
        let above = self.allocated() - floors;
        if above > 0.0 && target < floors + above {
            let factor = ((target - floors) / above).max(FACTOR_MIN);
            self.scale = (self.scale * factor).max(SCALE_MIN);
            self.used = self.used.min(self.allocated());
        }
    }

    /// A full allocation begins (equation 14) for flows that demand this much. The list is put into another order. Then each
    /// flow's base is to be asked for with [`Shares::grant`].
    ///
    /// Equation 14 gives every application-limited flow its demand, even where that is more than the others are left. Here
    /// a flow whose demand is above the equal share of the rest has that equal share as the others, so that the result is
    /// max-min fair; where no demand is, this is equation 14 to the letter.
    ///
    /// If no flow wants what is left, equation 14 gives it to nobody. Here all have equal parts of it: a flow that another port
    /// holds back looks limited by its application, and two ports that allow it little more than it sends would hold it there.
    pub fn begin(&mut self, demands: &mut [f64]) {
        self.count = demands.len();
        self.floor = self.least.min(self.floor_most());
        for demand in &mut *demands {
            *demand = demand.max(self.floor);
        }
        let wanted: f64 = demands.iter().sum();
        self.headroom = ((self.capacity - wanted) / self.count.max(1) as f64).max(0.0);
        self.level = level(self.capacity, demands);
        (self.scale, self.bases, self.used) = (1.0, 0.0, 0.0);
    }

    /// The base of a flow with this demand, of which it uses `used`.
    pub fn grant(&mut self, demand: f64, used: f64) -> f64 {
        let share = demand.min(self.level).max(self.floor) + self.headroom;
        let base = share - self.floor;
        self.bases += base;
        self.used += used.min(share);
        base
    }
}

/// The level up to which water rises that is poured into vessels of these sizes: exact, in linear time, for each step halves
/// what is undecided. Infinite if all are filled.
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
