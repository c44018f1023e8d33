//! # LIA: linked increases
//!
//! The standard coupling of multipath TCP. A loss halves only the cwnd of its subflow; the increase is coupled. The
//! factor alpha is chosen so that the subflows together take the share of one TCP on the best of their paths. The limit
//! to Reno's increase protects other flows on the path of each subflow. The subflow on the more congested path halves
//! its cwnd more often and regains less of it, so traffic moves off this path, but some traffic always remains to probe
//! the path.
//!
//! ## Control law
//! w: cwnd of this subflow, R: its smoothed RTT, w_T: sum of all cwnds; per segment acknowledged, in
//! segments:
//!
//! ```text
//! w += min(alpha / w_T, 1 / w)
//!
//!               max_i(w_i / R_i²)
//! alpha = w_T · ------------------
//!               (sum_i w_i / R_i)²
//!
//! loss, mark    w_r = w_r / 2, two segments at least
//! ```
//! With equal RTTs R cancels: alpha = max(w) / w_T.
//!
//! ## States
//! The states of `newreno`.
//!
//! ## Life of a flow
//! Each subflow begins in slow start. Two equal paths then have alpha = 1/2, and each grows at a quarter of Reno's
//! increase. If one of them becomes congested, its subflow halves more often, and with the smaller cwnd also gets less
//! of the increase.
//!
//! ## References
//! RFC 6356 (2011), sections 2 to 4; D. Wischik et al., Design, Implementation and Evaluation of Congestion
//! Control for Multipath TCP, NSDI 2011; Linux `mptcp_coupled.c` (multipath-tcp/mptcp).
//!
//! ## Differences
//! 1. alpha is computed from the current windows at every ACK. RFC 6356 section 4.1 allows computing alpha once per
//!    window, to save time.
//! 2. cwnd grows in whole segments, like all of Reno here. In RFC 6356 cwnd grows at every ACK, by at least one byte.
//! 3. An application-limited sibling counts with its cwnd. RFC 6356 section 4 counts the inflight of such a subflow,
//!    but inflight at one moment does not show which subflow is application-limited.
//!
//! ## Known weaknesses
//! alpha follows the largest of several cwnds that oscillate independently: with independent losses at the same rate,
//! two or three subflows take 9 to 19 % more than one TCP (`tests/coupled.rs`). On paths with equal loss LIA is not
//! Pareto-optimal: it takes capacity from other flows without any gain for itself (the motivation for `olia`). When a
//! bad path recovers, its small cwnd grows slowly.

use crate::coupled::{self, Coupled, Mesh, Peer, Policy};
use crate::{Info, Setup, Telemetry, Value};

/// LIA.
pub type Lia = Coupled<Linked>;

/// The increase of cwnd that RFC 6356 specifies.
#[derive(Clone, Debug)]
pub struct Linked;

impl Linked {
    fn alpha(mesh: &Mesh) -> f64 {
        let best = mesh.greatest(|peer: &Peer| peer.rate() / peer.rtt);
        let rate = mesh.total_rate();
        mesh.total_window() * best / (rate * rate)
    }
}

impl Policy for Linked {
    const INFO: Info = Info {
        name: "lia",
        summary: "multipath: all subflows together take the share of one TCP on the best path (RFC 6356)",
        ..coupled::INFO
    };

    fn new(_setup: &Setup) -> Self {
        Self
    }

    #[inline]
    fn increase(&self, mesh: &Mesh) -> f64 {
        (Self::alpha(mesh) / mesh.total_window()).min(1.0 / mesh.own().cwnd)
    }

    fn telemetry(&self, mesh: &Mesh, sink: Telemetry<'_>) {
        sink("alpha", Value::Number(Self::alpha(mesh)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::testing::*;

    /// Alpha matches the formula of RFC 6356 for two and three paths.
    #[test]
    fn lia_alpha_matches_rfc_6356_for_two_and_three_paths() {
        // Two paths: 10 segments at 40 ms, 20 segments at 100 ms. In segments and seconds:
        //   w_T = 30, max(10 / 0.0016, 20 / 0.01) = 6 250, sum = 250 + 200 = 450.
        let two = [path(10, 40, 0), path(20, 100, 0)];
        let alpha = 30.0 * 6_250.0 / (450.0 * 450.0);
        for own in 0..2 {
            assert!(near(Linked::alpha(&mesh(own, &two)), alpha));
        }
        // alpha / w_T = 0.0309 is less than Reno's increases, 1/10 and 1/20.
        assert!(near(growth::<Linked>(&[], 0, &two), alpha / 30.0));
        assert!(near(growth::<Linked>(&[], 1, &two), alpha / 30.0));
        // With a third path of 30 segments at 10 ms: w_T = 60, max = 300 000, sum = 450 + 3 000.
        let three = [path(10, 40, 0), path(20, 100, 0), path(30, 10, 0)];
        let alpha = 60.0 * 300_000.0 / (3_450.0 * 3_450.0);
        assert!(near(Linked::alpha(&mesh(2, &three)), alpha));
        // alpha = 1.512, so alpha / w_T = 0.0252: still below Reno's 1/30 on the path with the largest window.
        assert!(near(growth::<Linked>(&[], 0, &three), alpha / 60.0));
        assert!(near(growth::<Linked>(&[], 2, &three), alpha / 60.0));
    }

    /// No subflow grows faster than Reno.
    #[test]
    fn lia_grows_at_most_as_reno() {
        // A path of 1 ms with 2 segments and a path of 1 s with 100 segments: alpha / w_T = max(w/R²) / (sum w/R)² is
        // (2 / 1e-6) / (2 000 + 100)² = 0.4535 for both paths. Reno's increase is 1/2 on the first path and 1/100 on
        // the second.
        let paths = [path(2, 1, 0), path(100, 1_000, 0)];
        assert!(near(growth::<Linked>(&[], 0, &paths), 2e6 / (2_100.0 * 2_100.0)));
        assert!(near(growth::<Linked>(&[], 1, &paths), 0.01));
    }

    /// Equal subflows share the growth of one flow.
    #[test]
    fn lia_equal_subflows_share_growth_of_one() {
        // With equal round-trip times and windows, alpha = w / 2w = 1/2, so each subflow must acknowledge 4 windows to
        // grow by one segment.
        let paths = [path(10, 40, 0), path(10, 40, 0)];
        assert!(near(Linked::alpha(&mesh(0, &paths)), 0.5));
        let mut scheme = avoiding::<Linked>(0, &paths);
        assert_eq!(acks_to_next_step(&mut scheme), 40);
    }

    /// A loss halves the subflow's own window, down to two segments.
    #[test]
    fn lia_loss_halves_own_window_to_at_least_two_segments() {
        assert!(near(after_loss::<Linked>(0, &[path(30, 40, 0), path(50, 40, 0)]), 15.0));
        assert!(near(after_loss::<Linked>(0, &[path(3, 40, 0), path(50, 40, 0)]), 2.0));
    }
}
