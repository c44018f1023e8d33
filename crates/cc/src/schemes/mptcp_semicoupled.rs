//! # SEMI-COUPLED: coupled increase, separate decrease
//!
//! A compromise between `mptcp-coupled` and independent subflows. The increase depends on the sum of all cwnds, so it
//! is stronger on paths that deliver more, but each subflow halves only its own cwnd. A congested path keeps a moderate
//! amount of traffic, enough to detect its recovery, and equal paths are used equally.
//!
//! ## Control law
//! w: cwnd in segments, w_T: sum of all cwnds; per segment acknowledged:
//!
//! ```text
//! w += a / w_T,  a = 1
//! loss, mark     w = w / 2, two segments at least
//! ```
//! At loss probabilities p_r, w_r w_T = 2 a (1 - p_r) / p_r: cwnd is proportional to 1 / p_r, and w_T =
//! sqrt(2 a sum 1/p_r).
//!
//! ## States
//! The states of `newreno`.
//!
//! ## Life of a flow
//! The life of a `lia` flow, with the constant a in place of alpha.
//!
//! ## References
//! D. Wischik et al., Design, Implementation and Evaluation of Congestion Control for Multipath TCP, NSDI
//! 2011, section 2.4; `COUPLED_INC` of htsim.
//!
//! ## Differences
//! None in the control law. htsim's code was matched to the law by the paper's description.
//!
//! ## Known weaknesses
//! a is fixed. With a = 1, n subflows over one bottleneck take sqrt(n) times the share of one TCP (a = 1/n
//! would be fair). With unequal RTTs no single a is fair; `lia` therefore recomputes it continuously.

use crate::coupled::{self, Coupled, Mesh, Policy};
use crate::{Info, Setup, merged_params};

/// SEMI-COUPLED.
pub type MptcpSemicoupled = Coupled<Half>;

/// Increases cwnd by the sum of all windows.
#[derive(Clone, Debug)]
pub struct Half {
    a: f64,
}

impl Policy for Half {
    const INFO: Info = Info {
        name: "mptcp-semicoupled",
        summary: "multipath: increase by the sum of cwnds, a loss halves only the subflow's own",
        params: merged_params![coupled::PARAMS; coupled::INCREASE],
        ..coupled::INFO
    };

    fn new(setup: &Setup) -> Self {
        Self { a: setup.params.number("a") }
    }

    #[inline]
    fn increase(&self, mesh: &Mesh) -> f64 {
        self.a / mesh.total_window()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::testing::*;

    /// The increase depends on the sum of the windows, the decrease only on the subflow's window.
    #[test]
    fn mptcp_semicoupled_couples_increase_but_not_decrease() {
        let paths = [path(10, 40, 0), path(30, 100, 0)];
        assert!(near(growth::<Half>(&[], 0, &paths), 1.0 / 40.0));
        assert!(near(growth::<Half>(&[("a", 0.5)], 1, &paths), 0.5 / 40.0));
        assert!(near(after_loss::<Half>(1, &paths), 15.0));
    }

    /// No subflow grows faster than Reno, for any a.
    #[test]
    fn mptcp_semicoupled_grows_at_most_as_reno() {
        // With a = 10 and a sum of 40 segments the law gives an increase of 1/4 segment per acknowledged segment.
        // Reno's increase, the limit, is 1/10 at a window of ten segments.
        let mut scheme = avoiding::<Half>(0, &[path(10, 40, 0), path(30, 40, 0)]);
        scheme.set_policy(Half { a: 10.0 });
        assert_eq!(acks_to_next_step(&mut scheme), 10);
    }

    /// In balance, windows are inversely proportional to the loss rates.
    #[test]
    fn mptcp_semicoupled_windows_balance_as_inverse_loss() {
        // Loss rates p = 1 % and 4 % give (1 - p) / p = 99 and 24: w_T = sqrt(2 (99 + 24)) = 15.68 segments, and the
        // windows are 2 x 99 / w_T and 2 x 24 / w_T.
        let losses = [0.01, 0.04];
        let odds = losses.map(|p| (1.0 - p) / p);
        let total = libm::sqrt(2.0 * (odds[0] + odds[1]));
        let windows = odds.map(|odds| 2.0 * odds / total);
        assert!(near(windows[0] + windows[1], total));
        for own in 0..2 {
            let drift = |scale: f64| {
                let mut paths =
                    windows.map(|w| crate::PathView { cwnd: crate::Bytes::from_f64(w * MSS as f64), ..path(1, 40, 0) });
                let w = windows[own] * scale;
                paths[own].cwnd = crate::Bytes::from_f64(w * MSS as f64);
                (1.0 - losses[own]) * growth::<Half>(&[], own, &paths) - losses[own] * w / 2.0
            };
            assert!(drift(0.99) > 0.0 && drift(1.01) < 0.0, "subflow {own}");
        }
    }
}
