//! # BALIA: balanced linked adaptation
//!
//! A multipath control law derived from conditions on the fluid model: a unique stable equilibrium, TCP-friendliness,
//! and a compromise between responsiveness and cwnd oscillation. Increase and decrease both depend on the ratio of the
//! best subflow's rate to this subflow's rate.
//!
//! ## Control law
//! w: cwnd in segments, R: smoothed RTT, x = w / R, a = max_k x_k / x; per segment acknowledged:
//!
//! ```text
//!             x         1 + a   4 + a
//! w += --------------- · ----- · -----
//!      R (sum_k x_k)²      2       5
//!
//! loss, mark    w = max(w - w/2 · min(a, 3/2), 1)
//! ```
//! For the best path a = 1: its increase is the first term of `olia`'s increase, and a loss halves its cwnd.
//!
//! ## States
//! The states of `newreno`.
//!
//! ## Life of a flow
//! On two equal paths a = 1, and each cwnd grows at a quarter of Reno's increase. A subflow with a third of the best
//! rate has a = 3: its cwnd grows 2.8 times as fast as by the first term of `olia`, and a loss takes three quarters of
//! this cwnd.
//!
//! ## References
//! Q. Peng, A. Walid, J. Hwang, S. H. Low, Multipath TCP: Analysis, Design, and Implementation, IEEE/ACM
//! Transactions on Networking 24(1), 2016; Linux `mptcp_balia.c` (multipath-tcp/mptcp), whose counter is the
//! inverse of the increase above: one segment per 10 w (sum x)² / ((x + max) (4 x + max)) acknowledgements.
//!
//! ## Differences
//! 1. The law uses floats. Linux rounds a down to a whole number for the decrease, so a subflow at 0.6 of the best rate
//!    halves its cwnd. Here a loss takes 0.75 of this subflow's cwnd, as in the paper.
//! 2. The law is evaluated at every ACK. Linux evaluates it when a cwnd changes.
//! 3. A subflow in recovery counts with its ssthresh, as in the other coupled schemes. Linux uses its current cwnd.
//!
//! ## Known weaknesses
//! On a loss a slow subflow loses up to three quarters of its cwnd. BALIA quickly leaves a path that is worse only
//! temporarily. A buffer of one bandwidth-delay product then does not keep the link busy, even if no other flow uses
//! the link.

use crate::coupled::{self, Coupled, Mesh, Peer, Policy};
use crate::{Bytes, Info, Setup, Telemetry, Value};

/// Upper limit of a in the decrease.
const MOST_DECREASE: f64 = 1.5;

/// BALIA.
pub type Balia = Coupled<Balanced>;

/// Scales increase and decrease by the ratio of the best subflow's rate to the rate of this subflow.
#[derive(Clone, Debug)]
pub struct Balanced;

impl Balanced {
    fn ratio(mesh: &Mesh) -> f64 {
        mesh.greatest(Peer::rate) / mesh.own().rate()
    }
}

impl Policy for Balanced {
    const INFO: Info = Info {
        name: "balia",
        summary: "multipath: increase and decrease follow the ratio of the best subflow's rate to this one's",
        ..coupled::INFO
    };
    const FLOOR: u64 = 1;

    fn new(_setup: &Setup) -> Self {
        Self
    }

    #[inline]
    fn increase(&self, mesh: &Mesh) -> f64 {
        let (own, a, sum) = (mesh.own(), Self::ratio(mesh), mesh.total_rate());
        own.rate() / (own.rtt * sum * sum) * ((1.0 + a) / 2.0) * ((4.0 + a) / 5.0)
    }

    fn kept(&self, mesh: &Mesh, flight: Bytes) -> Bytes {
        flight - (flight / 2).mul_f64(Self::ratio(mesh).min(MOST_DECREASE))
    }

    fn telemetry(&self, mesh: &Mesh, sink: Telemetry<'_>) {
        sink("rate_ratio", Value::Number(Self::ratio(mesh)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::testing::*;

    /// The increase matches the paper and the inverse of Linux's counter.
    #[test]
    fn balia_increase_matches_paper_and_linux_counter() {
        // Rates in segments per second: 10 / 0.04 = 250, 20 / 0.1 = 200, 6 / 0.01 = 600.
        let paths = [path(10, 40, 0), path(20, 100, 0), path(6, 10, 0)];
        let (rates, sum, best) = ([250.0, 200.0, 600.0], 1_050.0, 600.0);
        for (own, (x, (w, r))) in rates.into_iter().zip([(10.0, 0.04), (20.0, 0.1), (6.0, 0.01)]).enumerate() {
            let a: f64 = best / x;
            let paper = x / (r * sum * sum) * (1.0 + a) / 2.0 * (4.0 + a) / 5.0;
            let linux = 10.0 * w * sum * sum / ((x + best) * (4.0 * x + best));
            let found = growth::<Balanced>(&[], own, &paths);
            assert!(near(found, paper) && near(found, 1.0 / linux), "subflow {own}: {found}");
        }
    }

    /// The decrease is half of the window on the best path and up to three quarters of the window on other paths.
    #[test]
    fn balia_decrease_is_half_to_three_quarters_of_window() {
        // Rates of 1 000, 800 and 250 segments per second give a = 1, 1.25 and 4; the decrease limits a to 1.5. Windows
        // are whole segments, so 2.5 becomes 2.
        let paths = [path(40, 40, 0), path(32, 40, 0), path(10, 40, 0)];
        assert!(near(after_loss::<Balanced>(0, &paths), 20.0));
        assert!(near(after_loss::<Balanced>(1, &paths), 12.0));
        assert!(near(after_loss::<Balanced>(2, &paths), 2.0));
        // Three segments minus three quarters of them are less than one segment, so the floor of one segment applies.
        assert!(near(after_loss::<Balanced>(0, &[path(3, 40, 0), path(60, 40, 0)]), 1.0));
    }

    /// Equal subflows grow at a quarter of Reno's increase.
    #[test]
    fn balia_equal_subflows_grow_by_quarter_of_reno() {
        // x / (R (2x)²) = 1 / (4 w).
        let mut scheme = avoiding::<Balanced>(0, &[path(10, 40, 0), path(10, 40, 0)]);
        assert_eq!(acks_to_next_step(&mut scheme), 40);
    }
}
