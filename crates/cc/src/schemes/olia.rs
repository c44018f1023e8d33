//! # OLIA: opportunistic linked increases
//!
//! `lia` shares the load in proportion to the quality of paths and so takes capacity on bad paths that others could use
//! better. OLIA's first term alone would be optimal, but traffic would flap between equal paths. Its second term moves
//! cwnd from the subflows with the largest windows to subflows with smaller windows on the best paths, and so keeps
//! traffic on all of the best paths.
//!
//! ## Control law
//! w: cwnd in segments, R: smoothed RTT, n: participating subflows; per segment acknowledged:
//!
//! ```text
//!          w / R²          a
//! w += --------------  +  ---                               at most 1/w, as Reno
//!      (sum_p w_p/R_p)²    w
//!
//! l = max(bytes between the last two losses, bytes since the last loss)
//! B = the paths of the maximum l / R²   (1/l estimates the loss rate: sqrt(l)/R is the rate of a TCP)
//! M = the paths of the largest cwnd
//!
//! B \ M empty:  a = 0 for all
//! otherwise:    a =  1 / (n |B \ M|)   on the paths of B \ M
//!               a = -1 / (n |M|)       on the paths of M
//!               a =  0                 on others
//!
//! loss, mark    w = w / 2, two segments at least
//! ```
//! Where a is negative, cwnd may shrink in avoidance, by one segment at a time and down to one.
//!
//! ## States
//! The states of `newreno`.
//!
//! ## Life of a flow
//! On equal paths a is zero whenever all best paths have the same cwnd; otherwise a raises the smaller cwnds of the
//! best paths. On a bad path only the first term remains, and this term falls with the square of the path's share:
//! little more than a probe is left.
//!
//! ## References
//! R. Khalili, N. Gast, M. Popovic, J.-Y. Le Boudec, MPTCP is not Pareto-Optimal: Performance Issues and a
//! Possible Solution, CoNEXT 2012 and IEEE/ACM Transactions on Networking 21(5), 2013; Linux `mptcp_olia.c`
//! (multipath-tcp/mptcp).
//!
//! ## Differences
//! 1. M compares windows in whole segments, as Linux counts them. Exact windows would never be equal.
//! 2. The increase never exceeds Reno's increase, although on a path of B \ M the sum of both terms may be larger.
//! 3. Growth credit left after a step is kept. Linux discards it.
//! 4. n counts established subflows with an RTT sample. Linux counts all established subflows.
//!
//! ## Known weaknesses
//! The set B compares measured values for equality, so of two similar paths usually only one is in B, and each loss may
//! put the other path into B instead. OLIA leaves congested paths nearly empty, and is slow to detect that such a path
//! has recovered.

use crate::coupled::{self, Coupled, Mesh, Peer, Policy};
use crate::{Info, Setup, Telemetry, Value};

/// OLIA.
pub type Olia = Coupled<Opportunistic>;

/// Increases cwnd by the sum of OLIA's two terms.
#[derive(Clone, Debug)]
pub struct Opportunistic;

/// The criteria for membership in B and M.
struct Sets {
    /// The maximum l / R² of all paths.
    best: f64,
    /// The largest window of all paths, in whole segments.
    largest: u64,
    mss: f64,
}

impl Sets {
    fn new(mesh: &Mesh) -> Self {
        let largest = mesh.greatest(|peer| peer.cwnd);
        Self { best: mesh.greatest(quality), largest: (largest / mesh.mss()) as u64, mss: mesh.mss() }
    }

    fn in_m(&self, peer: &Peer) -> bool {
        (peer.cwnd / self.mss) as u64 == self.largest
    }

    fn in_b_without_m(&self, peer: &Peer) -> bool {
        quality(peer) >= self.best && !self.in_m(peer)
    }
}

/// l / R².
fn quality(peer: &Peer) -> f64 {
    peer.loss_interval / (peer.rtt * peer.rtt)
}

impl Opportunistic {
    /// The numerator a of the second term, for this path.
    fn shift(mesh: &Mesh) -> f64 {
        let sets = Sets::new(mesh);
        let n = mesh.peers().len() as f64;
        let small = mesh.peers().iter().filter(|peer| sets.in_b_without_m(peer)).count() as f64;
        if small == 0.0 {
            0.0
        } else if sets.in_b_without_m(mesh.own()) {
            1.0 / (n * small)
        } else if sets.in_m(mesh.own()) {
            let large = mesh.peers().iter().filter(|peer| sets.in_m(peer)).count() as f64;
            -1.0 / (n * large)
        } else {
            0.0
        }
    }
}

impl Policy for Opportunistic {
    const INFO: Info = Info {
        name: "olia",
        summary: "multipath: linked increases that move cwnd to the best paths (OLIA)",
        ..coupled::INFO
    };

    fn new(_setup: &Setup) -> Self {
        Self
    }

    #[inline]
    fn increase(&self, mesh: &Mesh) -> f64 {
        let (own, sum) = (mesh.own(), mesh.total_rate());
        own.rate() / (own.rtt * sum * sum) + Self::shift(mesh) / own.cwnd
    }

    fn telemetry(&self, mesh: &Mesh, sink: Telemetry<'_>) {
        sink("shift", Value::Number(Self::shift(mesh)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::testing::*;
    use crate::{Bytes, PathView};

    fn shifts<const N: usize>(paths: [PathView; N]) -> [f64; N] {
        core::array::from_fn(|own| Opportunistic::shift(&mesh(own, &paths)))
    }

    /// cwnd moves from the path with the largest cwnd to the best path.
    #[test]
    fn olia_moves_window_from_largest_to_best_path() {
        // l / R² is 400 / 40², 900 / 40² and 100 / 40². The second path has the maximum and is in B, the first path has
        // the largest cwnd and is in M, and the third path is in neither.
        assert_eq!(shifts([path(20, 40, 400), path(10, 40, 900), path(5, 40, 100)]), [-1.0 / 3.0, 1.0 / 3.0, 0.0]);
        // Two paths are best, with 900 / 40² = 3 600 / 80²: each has a = 1/2 · 1/n. Two paths have the largest cwnd:
        // each has a = -1/2 · 1/n.
        let four = [path(20, 40, 400), path(10, 40, 900), path(10, 80, 3_600), path(20, 100, 50)];
        assert_eq!(shifts(four), [-1.0 / 8.0, 1.0 / 8.0, 1.0 / 8.0, -1.0 / 8.0]);
    }

    /// a is zero on all paths if the best paths have the largest windows.
    #[test]
    fn olia_moves_nothing_if_best_paths_are_largest() {
        assert_eq!(shifts([path(20, 40, 900), path(10, 40, 400)]), [0.0, 0.0]);
        assert_eq!(shifts([path(20, 40, 900), path(20, 40, 900)]), [0.0, 0.0]);
        // Fractions of segments do not count: a window of 20.5 segments equals a window of 20 segments.
        let uneven = PathView { cwnd: Bytes::new(20_500), ..path(20, 40, 900) };
        assert_eq!(shifts([uneven, path(20, 40, 900)]), [0.0, 0.0]);
    }

    /// l is the larger of the last two inter-loss intervals.
    #[test]
    fn olia_rates_paths_by_better_of_last_two_intervals() {
        let recovered = PathView { between_losses: Bytes::new(1_000 * MSS), ..path(10, 40, 3) };
        assert_eq!(shifts([path(20, 40, 900), recovered]), [-0.5, 0.5]);
    }

    /// The increase is the sum of both terms, limited to Reno's increase.
    #[test]
    fn olia_increase_has_both_terms_and_at_most_renos() {
        // 20 segments at 40 ms and 10 segments at 100 ms are rates of 500 and 100 segments per second. The second path
        // is in B, the first in M.
        let paths = [path(20, 40, 100), path(10, 100, 5_000)];
        let sum = 600.0 * 600.0;
        assert!(near(growth::<Opportunistic>(&[], 0, &paths), 20.0 / 0.0016 / sum - 0.5 / 20.0));
        assert!(near(growth::<Opportunistic>(&[], 1, &paths), 10.0 / 0.01 / sum + 0.5 / 10.0));
        // 10 segments at 10 ms beside 20 segments at 400 ms: (1 000 / 1 050)² + 1/2 exceeds 1, so the increase is
        // limited to Reno's 1/10.
        let short = [path(10, 10, 500), path(20, 400, 500)];
        assert!(growth::<Opportunistic>(&[], 0, &short) > 0.1);
        assert_eq!(acks_to_next_step(&mut avoiding::<Opportunistic>(0, &short)), 10);
    }

    /// The second term may shrink the largest window. A loss halves a window, rounded down to whole segments.
    #[test]
    fn olia_largest_window_may_shrink_and_loss_halves_it() {
        // 20 and 19 segments at equal round-trip times: the first term is about 1/4 of 1/w and a = -1/2, so the sum is
        // about minus a quarter of 1/w.
        let mut paths = [path(20, 40, 100), path(19, 40, 5_000)];
        let growth = 400.0 / (39.0 * 39.0) - 0.5;
        let mut scheme = avoiding::<Opportunistic>(0, &paths);
        let expected = libm::ceil(20.0 / -growth) as u64;
        assert_eq!((acks_to_next_step(&mut scheme), segments(&scheme) as u64), (expected, 19));
        paths[0] = path(21, 40, 100);
        assert!(near(after_loss::<Opportunistic>(0, &paths), 10.0));
    }
}
