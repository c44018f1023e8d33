//! Max-min fair rates on any graph by progressive filling: the oracle for allocations.
//!
//! A vector of rates is max-min fair if no rate can grow without reducing another rate that is not larger (Bertsekas
//! and Gallager, Data Networks, 2nd edition, section 6.5.2). Progressive filling finds this vector: all rates rise
//! together from zero. When a link is full, the rates of its flows are final; when a flow reaches its demand, its rate
//! is final. The other rates continue to rise.
//!
//! ACKs are traffic too. On the links of the reverse path they use a fixed fraction of their flow's rate. They are not
//! subject to fair sharing, and reduce the capacity for data.
#![allow(dead_code)] // every file of laws uses a part of it

mod random;
mod tests;

pub use random::{Network, Ranges, explicit_rate_schemes, wire};

/// One flow of the oracle.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Links that the flow's data crosses.
    pub route: Vec<usize>,
    /// Links that the flow's ACKs cross.
    pub back: Vec<usize>,
    /// Demand of the flow; infinite if the flow is backlogged.
    pub demand: f64,
}

impl Flow {
    /// A backlogged flow whose ACKs use no capacity.
    pub fn backlogged(route: &[usize]) -> Self {
        Self { route: route.to_vec(), back: Vec::new(), demand: f64::INFINITY }
    }

    /// A flow with a limited demand.
    pub fn limited(route: &[usize], demand: f64) -> Self {
        Self { demand, ..Self::backlogged(route) }
    }
}

/// Loads and capacities count as equal within this fraction of the capacity.
const CLOSE: f64 = 1e-9;

/// Max-min fair rates of the flows, in the unit of the capacities.
pub fn max_min(capacities: &[f64], flows: &[Flow]) -> Vec<f64> {
    max_min_with_headroom(capacities, flows, 1.0)
}

/// Max-min fair rates if every link reserves `headroom` times the rate of a flow that is limited elsewhere, but at most
/// the share that the link's other flows get.
pub fn max_min_with_headroom(capacities: &[f64], flows: &[Flow], headroom: f64) -> Vec<f64> {
    // All rates rise together from zero. While others rise, the reservation of a flow with a final rate rises up to its
    // headroom.
    let mut level = 0.0_f64;
    let mut rates: Vec<Option<f64>> = flows.iter().map(|flow| (flow.demand <= 0.0).then_some(0.0)).collect();
    let mut full = vec![false; capacities.len()];
    let mut taken = vec![0.0; capacities.len()];
    let most = |rate: Option<f64>| rate.map_or(f64::INFINITY, |rate| rate * headroom);
    while rates.contains(&None) {
        let takes: Vec<bool> = rates.iter().map(|&rate| level < most(rate)).collect();
        let crossing = |link| flows.iter().zip(&takes).filter(|(f, takes)| **takes && f.route.contains(&link)).count();
        // Rise of the level until a link is full or a flow reaches its limit.
        let mut room = f64::INFINITY;
        for link in (0..capacities.len()).filter(|&link| !full[link] && crossing(link) > 0) {
            room = room.min((capacities[link] - taken[link]) / crossing(link) as f64);
        }
        for (flow, &rate) in flows.iter().zip(&rates) {
            let next = if rate.is_none() { flow.demand } else { most(rate) };
            room = room.min(if next > level { next - level } else { f64::INFINITY });
        }
        assert!(room.is_finite(), "a backlogged flow without links has no fair rate");
        let room = room.max(0.0);
        for link in (0..capacities.len()).filter(|&link| !full[link]) {
            taken[link] += room * crossing(link) as f64;
        }
        level += room;
        for (full, (taken, capacity)) in full.iter_mut().zip(taken.iter().zip(capacities)) {
            *full |= *taken >= capacity * (1.0 - CLOSE);
        }
        for (flow, rate) in flows.iter().zip(&mut rates).filter(|(_, rate)| rate.is_none()) {
            let sated = level >= flow.demand * (1.0 - CLOSE);
            if sated || flow.route.iter().any(|&link| full[link]) {
                *rate = Some(level);
            }
        }
    }
    rates.into_iter().flatten().collect()
}

/// Max-min fair rates if each flow's ACKs use `share` times its rate on the links of its reverse path: the
/// fixed point of filling the remaining capacity.
///
/// Links reserve `headroom` times the usage of limited flows and of ACKs.
pub fn max_min_beside_acks(capacities: &[f64], flows: &[Flow], share: f64, headroom: f64) -> Vec<f64> {
    let mut rates = vec![0.0; flows.len()];
    // A change of the rates changes the remaining capacity by the fraction `share` of the change, so the iteration
    // converges quickly.
    for _ in 0..100 {
        let acks = |link| headroom * share * acks(flows, &rates, link);
        let left: Vec<f64> = capacities.iter().enumerate().map(|(link, c)| c - acks(link)).collect();
        let next = max_min_with_headroom(&left, flows, headroom);
        let moved = rates.iter().zip(&next).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        rates = next;
        if moved < 1e-6 * capacities.iter().copied().fold(0.0, f64::max) {
            return rates;
        }
    }
    panic!("no fixed point in 100 iterations: {rates:?}");
}

/// Load of a link by data.
pub fn load(flows: &[Flow], rates: &[f64], link: usize) -> f64 {
    flows.iter().zip(rates).filter(|(flow, _)| flow.route.contains(&link)).map(|(_, rate)| rate).sum()
}

/// Sum of the rates of the flows whose ACKs cross a link.
fn acks(flows: &[Flow], rates: &[f64], link: usize) -> f64 {
    flows.iter().zip(rates).filter(|(flow, _)| flow.back.contains(&link)).map(|(_, rate)| rate).sum()
}
