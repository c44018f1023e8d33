//! # COUPLED: fully coupled multipath TCP
//!
//! The cwnds of all subflows form one window, spread over the paths. The increase depends only on the sum, and a loss
//! takes half of the sum from the path where it occurred. A path more congested than the others therefore loses its
//! whole window above the floor, and all traffic leaves it: in the fluid model, this uses the network optimally.
//!
//! ## Control law
//! w: cwnd in segments, w_T: sum of all cwnds; per segment acknowledged:
//!
//! ```text
//! w += a / w_T,                           a = 1
//! loss, mark    w = max(w - w_T / b, 1),  b = 2
//! ```
//! At a loss, w is the data in flight instead of cwnd, as in RFC 5681.
//!
//! ## States
//! The states of `newreno`.
//!
//! ## Life of a flow
//! After slow start all subflows grow by the same rule, each by w/w_T segments per round trip. The first loss on a path
//! takes all of its cwnd if that is at most half of the total. From then on its cwnd regrows only through its few ACKs.
//! Of two equal paths the first to lose yields, until the other path has a loss: traffic flaps between them.
//!
//! ## References
//! F. Kelly, T. Voice, Stability of end-to-end algorithms for joint routing and rate control, CCR 35(2), 2005; D.
//! Wischik et al., NSDI 2011, section 2.3; `FULLY_COUPLED` of htsim; RFC 6356 section 5 for the flapping.
//!
//! ## Differences
//! 1. The floor of a subflow is one segment, so that it still probes its path. ns-3's `Fully_Coupled` has a floor of
//!    two segments.
//! 2. A comparison table in the Nodectl paper claims that COUPLED halves the cwnd of all subflows and terminates the
//!    congested subflow. Neither the published law nor this scheme does that.
//! 3. Timeouts follow Reno: ssthresh becomes half of the data in flight, and cwnd one segment.
//!
//! ## Known weaknesses
//! COUPLED assumes equal RTTs: the increase per ACK is the same on all paths, so paths with short RTTs win. COUPLED
//! rarely probes an abandoned path, and uses equal paths alternately rather than together.

use crate::coupled::{self, Coupled, Mesh, Policy};
use crate::{Bytes, Info, Param, Setup, merged_params};

/// COUPLED.
pub type MptcpCoupled = Coupled<Full>;

/// Increases and decreases cwnd by the sum of all windows.
#[derive(Clone, Debug)]
pub struct Full {
    a: f64,
    b: f64,
}

impl Policy for Full {
    const INFO: Info = Info {
        name: "mptcp-coupled",
        summary: "multipath: one cwnd over all paths; a loss takes half of the sum from the path that lost",
        params: merged_params![coupled::PARAMS;
            coupled::INCREASE,
            Param::ratio("b", 2.0, (1.0, 16.0), "a loss takes 1/b of the sum of cwnds"),
        ],
        ..coupled::INFO
    };
    const FLOOR: u64 = 1;

    fn new(setup: &Setup) -> Self {
        Self { a: setup.params.number("a"), b: setup.params.number("b") }
    }

    #[inline]
    fn increase(&self, mesh: &Mesh) -> f64 {
        self.a / mesh.total_window()
    }

    fn kept(&self, mesh: &Mesh, flight: Bytes) -> Bytes {
        flight - Bytes::from_f64(mesh.total_window() / self.b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::testing::*;

    /// The increase depends only on the sum of the windows.
    #[test]
    fn mptcp_coupled_increase_depends_on_sum_alone() {
        let paths = [path(10, 40, 0), path(30, 100, 0), path(60, 10, 0)];
        for own in 0..3 {
            assert!(near(growth::<Full>(&[], own, &paths), 0.01));
        }
        assert!(near(growth::<Full>(&[("a", 0.5)], 0, &paths), 0.005));
    }

    /// A loss takes half of the sum from the path that lost, down to one segment.
    #[test]
    fn mptcp_coupled_loss_takes_half_of_sum_from_its_path() {
        // The sum is 100 segments, so a loss takes 50. On the first path 60 - 50 = 10 segments remain; on each of the
        // other paths only the floor of one segment remains.
        let paths = [path(60, 40, 0), path(30, 40, 0), path(10, 40, 0)];
        assert!(near(after_loss::<Full>(0, &paths), 10.0));
        assert!(near(after_loss::<Full>(1, &paths), 1.0));
        assert!(near(after_loss::<Full>(2, &paths), 1.0));
        // On two equal paths, half of the sum is the whole window.
        assert!(near(after_loss::<Full>(0, &[path(40, 40, 0), path(40, 40, 0)]), 1.0));
    }

    /// A window near the floor regrows slowly, because few acknowledgements arrive on its path.
    #[test]
    fn mptcp_coupled_regrows_from_one_segment() {
        // The sum is 50 segments, so each acknowledgement adds 1/50 segment. The subflow's window of two segments needs
        // 50 acknowledgements, at two per round trip, to grow by one segment.
        let mut scheme = avoiding::<Full>(0, &[path(2, 40, 0), path(48, 40, 0)]);
        assert_eq!(acks_to_next_step(&mut scheme), 50);
    }
}
