//! Max-min fair rates on any graph, by progressive filling: the oracle that allocations are compared with.
//!
//! A vector of rates is max-min fair if no rate can grow without taking from one that is not larger (Bertsekas and
//! Gallager, Data Networks, 2nd edition, section 6.5.2). Filling finds it: all rates rise together from zero; where a link
//! is full, the rates of its flows stay, and a flow that wants no more than it has stays too; the others rise on.
//!
//! Acknowledgements are traffic as well. They take from the links of the way back, a fixed share of the flow's rate, but
//! nobody shares those out: what they take is not there for data.
#![allow(dead_code)] // every file of laws uses a part of it

mod network;
mod tests;

pub use network::{Network, Ranges, advised, wire};

/// One flow as the oracle sees it.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The links of its data.
    pub route: Vec<usize>,
    /// The links of its acknowledgements.
    pub back: Vec<usize>,
    /// The most it can use; infinite if its application always has data.
    pub demand: f64,
}

impl Flow {
    /// A flow whose application always has data, and whose acknowledgements take nothing.
    pub fn greedy(route: &[usize]) -> Self {
        Self { route: route.to_vec(), back: Vec::new(), demand: f64::INFINITY }
    }

    /// The same with a limit.
    pub fn limited(route: &[usize], demand: f64) -> Self {
        Self { demand, ..Self::greedy(route) }
    }
}

/// Loads and capacities are equal when they differ by less than this part of the capacity.
const CLOSE: f64 = 1e-9;

/// The max-min fair rates of the flows, in the unit of the capacities.
pub fn max_min(capacities: &[f64], flows: &[Flow]) -> Vec<f64> {
    max_min_with_headroom(capacities, flows, 1.0)
}

/// The same where every link sets aside `headroom` times the rate of a flow that is limited elsewhere, as far as that is no
/// more than the others have there.
pub fn max_min_with_headroom(capacities: &[f64], flows: &[Flow], headroom: f64) -> Vec<f64> {
    // All begin at zero and rise together. A flow whose rate stays keeps taking from its links, up to its headroom.
    let mut level = 0.0_f64;
    let mut rates: Vec<Option<f64>> = flows.iter().map(|flow| (flow.demand <= 0.0).then_some(0.0)).collect();
    let mut full = vec![false; capacities.len()];
    let mut taken = vec![0.0; capacities.len()];
    let most = |rate: Option<f64>| rate.map_or(f64::INFINITY, |rate| rate * headroom);
    while rates.contains(&None) {
        let takes: Vec<bool> = rates.iter().map(|&rate| level < most(rate)).collect();
        let crossing =
            |link| flows.iter().zip(&takes).filter(|(f, takes)| **takes && f.route.contains(&link)).count();
        // By how much the level can rise until something happens.
        let mut room = f64::INFINITY;
        for link in (0..capacities.len()).filter(|&link| !full[link] && crossing(link) > 0) {
            room = room.min((capacities[link] - taken[link]) / crossing(link) as f64);
        }
        for (flow, &rate) in flows.iter().zip(&rates) {
            let next = if rate.is_none() { flow.demand } else { most(rate) };
            room = room.min(if next > level { next - level } else { f64::INFINITY });
        }
        assert!(room.is_finite(), "a flow without limit and without links has no fair rate");
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

/// The max-min fair rates where each flow's acknowledgements take `share` of its rate from the links of its way back: the
/// fixed point of filling what they leave.
///
/// With `headroom`, links set aside that much for limited flows and for acknowledgements.
pub fn max_min_beside_acks(capacities: &[f64], flows: &[Flow], share: f64, headroom: f64) -> Vec<f64> {
    let mut rates = vec![0.0; flows.len()];
    // A change of rates moves what is left by `share` of it on as many links, so a few rounds bring it to rest.
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
    panic!("acknowledgements and rates find no rest: {rates:?}");
}

/// What a link carries.
pub fn load(flows: &[Flow], rates: &[f64], link: usize) -> f64 {
    flows.iter().zip(rates).filter(|(flow, _)| flow.route.contains(&link)).map(|(_, rate)| rate).sum()
}

/// The rates of those whose acknowledgements cross a link.
fn acks(flows: &[Flow], rates: &[f64], link: usize) -> f64 {
    flows.iter().zip(rates).filter(|(flow, _)| flow.back.contains(&link)).map(|(_, rate)| rate).sum()
}
