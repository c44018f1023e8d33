//! # EWTCP: equally weighted TCP
//!
//! Every subflow runs Reno with a weight such that all subflows together take the share of one TCP if they share a
//! bottleneck. The weight depends only on the number of subflows; no traffic moves between paths.
//!
//! ## Control law
//! w: cwnd in segments, n: participating subflows; per segment acknowledged:
//!
//! ```text
//! w += a / w,   a = 1 / n²           (`power`: a = n to the -power)
//! loss, mark    w = w / 2, two segments at least
//! ```
//! At loss probability p, w = sqrt(2 a / p): Reno's cwnd times sqrt(a) = 1/n, so n subflows equal one Reno.
//!
//! ## States
//! The states of `newreno`.
//!
//! ## Life of a flow
//! The life of a Reno flow, with growth n² times slower. When a subflow closes, the others get a larger share.
//!
//! ## References
//! M. Honda, Y. Nishida, L. Eggert, P. Sarolahti, H. Tokuda, Multipath Congestion Control for Shared Bottleneck,
//! PFLDNeT 2009; D. Wischik et al., NSDI 2011, section 2.2; `COUPLED_TCP` of htsim, whose weight is 1/n².
//!
//! ## Differences
//! 1. The weight follows the number of subflows that are established and have an RTT sample. The adaptation of weights
//!    to the throughput, part of Honda's scheme, is left out.
//!
//! ## Known weaknesses
//! EWTCP is fair only if all its subflows share one bottleneck. On n separate paths it takes 1/n of TCP's share on each
//! path: the share of one TCP in total, although n links are available. It does not move traffic off a congested path.

use libm::pow;

use crate::coupled::{self, Coupled, Mesh, Policy};
use crate::{Info, Param, Setup, merged_params};

/// EWTCP.
pub type Ewtcp = Coupled<Weighted>;

/// Multiplies the increase of Reno by a weight.
#[derive(Clone, Debug)]
pub struct Weighted {
    power: f64,
}

impl Policy for Weighted {
    const INFO: Info = Info {
        name: "ewtcp",
        summary: "multipath: every subflow is a Reno of weight 1/n², so n subflows equal one TCP",
        params: merged_params![coupled::PARAMS; Param::ratio("power", 2.0, (0.0, 4.0), "weight of a subflow: n to the -power")],
        ..coupled::INFO
    };

    fn new(setup: &Setup) -> Self {
        Self { power: setup.params.number("power") }
    }

    #[inline]
    fn increase(&self, mesh: &Mesh) -> f64 {
        let n = mesh.peers().len() as f64;
        // The default power avoids `pow` per acknowledgement.
        let weight = if self.power == 2.0 { 1.0 / (n * n) } else { pow(n, -self.power) };
        weight / mesh.own().cwnd
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::testing::*;

    /// The weight is one over the square of the number of subflows.
    #[test]
    fn ewtcp_weight_is_one_over_square_of_subflows() {
        let paths = [path(10, 40, 0), path(20, 100, 0), path(30, 10, 0)];
        assert!(near(growth::<Weighted>(&[], 0, &paths[..2]), 1.0 / 4.0 / 10.0));
        assert!(near(growth::<Weighted>(&[], 1, &paths), 1.0 / 9.0 / 20.0));
        assert!(near(growth::<Weighted>(&[("power", 0.5)], 1, &paths[..2]), libm::sqrt(0.5) / 20.0));
        assert!(near(growth::<Weighted>(&[("power", 0.0)], 1, &paths), 1.0 / 20.0));
    }

    /// The window balances at one n-th of Reno's window.
    #[test]
    fn ewtcp_window_balances_at_one_nth_of_reno() {
        // Each delivered segment adds a/w segments, and each lost segment removes half of the window. In balance a (1 -
        // p) / w = p w / 2, so w = sqrt(2 a (1 - p) / p), which is 1/n of Reno's window: 4.95 segments at p = 0.02 and
        // n = 2.
        let p = 0.02;
        let balance = |n: f64| libm::sqrt(2.0 / (n * n) * (1.0 - p) / p);
        let w = balance(2.0);
        assert!(near(w, balance(1.0) / 2.0));
        let view = path(1, 40, 0);
        let at = |w: f64| crate::PathView { cwnd: crate::Bytes::from_f64(w * MSS as f64), ..view };
        let drift = |w: f64| (1.0 - p) * growth::<Weighted>(&[], 0, &[at(w), at(w)]) - p * w / 2.0;
        assert!(drift(w * 0.99) > 0.0 && drift(w * 1.01) < 0.0);
    }

    /// A loss halves only the subflow's own cwnd.
    #[test]
    fn ewtcp_loss_halves_own_window_only() {
        assert!(near(after_loss::<Weighted>(0, &[path(30, 40, 0), path(50, 40, 0)]), 15.0));
        let mut scheme = avoiding::<Weighted>(0, &[path(10, 40, 0), path(50, 40, 0)]);
        assert_eq!(acks_to_next_step(&mut scheme), 40);
    }
}
