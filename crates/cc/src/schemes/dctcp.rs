//! # DCTCP
//!
//! A switch that marks every packet above a short queue reports the degree of congestion, not only its presence: the
//! share of marked bytes shows how far the load is too high. DCTCP keeps a moving average of that share and cuts cwnd
//! in proportion: by half if everything is marked, by a few per cent if few packets are marked. The queue can stay
//! short without running empty. In all other respects DCTCP is Reno: growth and the response to loss are the same.
//!
//! ## Control law
//! W: cwnd, A: bytes newly delivered, M: the marked bytes among them, S: segment size (all in bytes); alpha:
//! the averaged share, 0 to 1; g: its gain.
//!
//! ```text
//! start                        alpha = 1  (`alpha_init`)
//! once per window of data      alpha = (1 - g) alpha + g  (sum of M) / (sum of A)        both sums over that window
//! mark, once per window        ssthresh = max(W (1 - alpha / 2), 2 S);  W = min(W, ssthresh)
//! growth, loss, timeout, idle  as NewReno
//! ```
//! Consider a path of P packets with a queue that marks above K packets; let W* = P + K. A single flow then oscillates
//! by D = W* alpha / 2 below W* + 1, with a period of D round trips. Here alpha^2 (1 - alpha / 4) = (2 W* + 1) / (W* +
//! 1)^2, so alpha is about sqrt(2 / W*). The flow never drains the queue if K > P / 7. Under independent marks with
//! probability p, cwnd is about 2 / p: the number of marks per round trip does not depend on the rate, which makes the
//! control scalable.
//!
//! ## States
//! ```text
//!                  W reaches ssthresh
//!   slow_start ----------------------------> avoidance
//!     |   ^                                   |     ^
//!     |   | timeout: W = S                    |     |
//!     |   +----------------+------------------+     |
//!     |                    |          loss, mark    |
//!     +------------------> recovery <---------------+
//!          loss, mark         |   all data outstanding at its start acknowledged
//!                             +---------------------> avoidance
//! ```
//! A loss during the reduction after a mark starts a separate fast recovery, with Reno's halving.
//!
//! ## References
//! RFC 8257 (2017): sections 3.2 (receiver), 3.3 (sender), 3.5 (loss). M. Alizadeh et al., Data Center TCP,
//! SIGCOMM 2010: section 3.3 for the saw-tooth. Linux `tcp_dctcp.c` (6.6) for the bytes that count as
//! acknowledged. RFC 5681 for the rest.
//!
//! ## Differences
//! 1. Selectively acknowledged bytes count as delivered at once, as in Linux. The RFC counts cumulative
//!    progress only.
//! 2. A window of data ends when data sent after its start is delivered (a packet-timed round trip). The RFC compares
//!    sequence numbers; the results differ only while losses are repaired.
//! 3. If the ACK that ends a window is also the first to report a mark, the reduction comes first and so uses
//!    the average of the preceding windows.
//! 4. A cut for marks takes effect at once, as in the RFC. Linux spreads the cut over a round trip, whose first packets
//!    are still marked and cause a second cut. Here only the halving after a loss is spread (proportional rate
//!    reduction).
//! 5. If a reduction for loss proves spurious, cwnd and ssthresh are restored, as for NewReno.
//!
//! ## Known weaknesses
//! DCTCP is designed for data centres. Beside Reno or CUBIC in a queue that marks or drops for both, it takes most of
//! the rate, because it yields less. With different RTTs it is as unfair as Reno. It needs the report of every mark,
//! but a lost ACK loses its reports. With one segment per round trip it fills a long fat path as slowly as Reno does.
//! At the first mark in slow start alpha is still large, so the mark costs up to half of cwnd.
//!
//! A retransmitted SYN no longer requests ECN (RFC 3168 section 6.1.1.1). A flow whose first SYN is lost therefore
//! behaves as Reno for its whole lifetime, and its packets, which cannot be marked, are dropped where packets of other
//! flows are marked. On a link of 100 Mbit/s and 10 ms that marks above 20 packets, such a flow gets 0.9 Mbit/s beside
//! a flow with ECN, which gets 96 Mbit/s, and retransmits 15 % of its packets.

use crate::reno::{Policy as RenoPolicy, Reno, RenoScheme};
use crate::window_pacing::PACED;
use crate::{
    Ack, Bytes, CongestionCause, EcnNeed, Info, Param, Phase, Provenance, RecoveryEntered, RecoveryStyle, Setup,
    Telemetry, Value,
};

/// The averaged share of marked bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkShare {
    alpha: f64,
    gain: f64,
    /// Bytes delivered in this window of data.
    delivered: Bytes,
    /// Marked bytes among the delivered bytes.
    marked: Bytes,
}

impl MarkShare {
    pub const GAIN: Param = Param::ratio("gain", 1.0 / 16.0, (0.001, 1.0), "weight of the newest window in alpha (g)");
    pub const ALPHA_INIT: Param = Param::ratio("alpha_init", 1.0, (0.0, 1.0), "initial value of alpha");

    pub fn new(setup: &Setup) -> Self {
        Self {
            alpha: setup.params.number(Self::ALPHA_INIT.name),
            gain: setup.params.number(Self::GAIN.name),
            delivered: Bytes::ZERO,
            marked: Bytes::ZERO,
        }
    }

    #[inline]
    pub fn count(&mut self, event: &Ack) {
        self.delivered += event.acked;
        self.marked += event.ce;
    }

    /// Ends a window of data: updates alpha from the counts of this window (RFC 8257 section 3.3, steps 5 to 8).
    pub fn end_window(&mut self) {
        if !self.delivered.is_zero() {
            let share = (self.marked.as_f64() / self.delivered.as_f64()).min(1.0);
            self.alpha = (1.0 - self.gain) * self.alpha + self.gain * share;
        }
        self.reset();
    }

    /// Discards the counts of this window.
    pub fn reset(&mut self) {
        self.delivered = Bytes::ZERO;
        self.marked = Bytes::ZERO;
    }

    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Returns the size to which a mark reduces `window`.
    pub fn keep(&self, window: Bytes) -> Bytes {
        window.mul_f64(1.0 - self.alpha / 2.0)
    }
}

/// DCTCP congestion control.
pub type Dctcp = RenoScheme<Proportional>;

/// Reduces cwnd in proportion to the share of marks.
#[derive(Clone, Debug)]
pub struct Proportional {
    share: MarkShare,
}

impl RenoPolicy for Proportional {
    const INFO: Info = Info {
        name: "dctcp",
        aliases: &[],
        summary: "Reno that cuts cwnd in proportion to the share of marked bytes (RFC 8257)",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Prr,
        params: &[MarkShare::GAIN, MarkShare::ALPHA_INIT, PACED],
    };
    const ECN: EcnNeed = EcnNeed::Precise;

    fn new(setup: &Setup) -> Self {
        Self { share: MarkShare::new(setup) }
    }

    #[inline]
    fn on_ack(&mut self, reno: &mut Reno, event: &Ack) {
        self.share.count(event);
        if event.round_start {
            self.share.end_window();
        }
        if event.phase != Phase::Recovery && event.cwnd_limited && !event.creditable().is_zero() {
            reno.grow(event.creditable());
        }
    }

    fn on_recovery_entered(&mut self, reno: &mut Reno, event: &RecoveryEntered) {
        reno.reduce(match event.cause {
            CongestionCause::Ecn => self.share.keep(reno.cwnd),
            CongestionCause::Loss => event.flight_size / 2,
        });
    }

    fn telemetry(&self, reno: &Reno, sink: Telemetry<'_>) {
        sink("alpha", Value::Number(self.share.alpha()));
        reno.telemetry(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CongestionControl;
    use crate::testing::{self, Build, MSS, ack, entered, timeout};

    /// An ACK that delivers `n` segments, `marked` of them with a mark; `ends`: the ACK ends a window of data.
    fn delivered(n: u64, marked: u64, ends: bool) -> Ack {
        Ack { ce: Bytes::new(marked * MSS), round_start: ends, cwnd_limited: false, ..ack(n * MSS) }
    }

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} against {expected}");
    }

    /// Alpha starts at one and, once per window, moves a sixteenth of the way to the share of marks.
    #[test]
    fn dctcp_alpha_moves_a_sixteenth_per_window_from_one() {
        let mut scheme = Dctcp::with(&[]);
        close(scheme.policy.share.alpha, 1.0);
        scheme.on_ack(&delivered(6, 0, false));
        close(scheme.policy.share.alpha, 1.0);
        // 2 of the 10 segments are marked: the acknowledgement that ends a window still belongs to that window.
        scheme.on_ack(&delivered(4, 2, true));
        close(scheme.policy.share.alpha, 15.0 / 16.0 + 0.2 / 16.0);
        scheme.on_ack(&delivered(10, 0, true));
        close(scheme.policy.share.alpha, 15.2 / 16.0 * 15.0 / 16.0);
    }

    /// Alpha converges to a constant share of marks.
    #[test]
    fn dctcp_alpha_converges_to_constant_mark_share() {
        let mut scheme = Dctcp::with(&[]);
        (0..300).for_each(|_| scheme.on_ack(&delivered(8, 3, true)));
        // After 300 windows the difference between the initial alpha and the share, 5/8, still contributes 5/8 *
        // (15/16)^300 = 2.4e-9.
        assert!((scheme.policy.share.alpha - 0.375).abs() < 1e-8, "{}", scheme.policy.share.alpha);
    }

    /// A mark reduces the window by the factor 1 - alpha / 2, but not below two segments.
    #[test]
    fn dctcp_mark_reduces_window_by_half_of_alpha() {
        let mut scheme = Dctcp::with(&[("alpha_init", 0.25)]);
        scheme.reno.cwnd = Bytes::new(40 * MSS);
        scheme.on_recovery_entered(&entered(CongestionCause::Ecn, 10 * MSS));
        // The result is 40 × (1 - 1/8) = 35 segments, computed from cwnd, not from the flight.
        assert_eq!((scheme.reno.cwnd, scheme.reno.ssthresh), (Bytes::new(35 * MSS), Bytes::new(35 * MSS)));
        let mut full = Dctcp::with(&[]);
        full.on_recovery_entered(&entered(CongestionCause::Ecn, 10 * MSS));
        assert_eq!(full.reno.cwnd, Bytes::new(5 * MSS));
        full.reno.cwnd = Bytes::new(3 * MSS);
        full.on_recovery_entered(&entered(CongestionCause::Ecn, 3 * MSS));
        assert_eq!(full.reno.cwnd, Bytes::new(2 * MSS));
    }

    /// A loss reduces cwnd to half of the flight, for any alpha.
    #[test]
    fn dctcp_loss_halves_flight_for_any_alpha() {
        let mut scheme = Dctcp::with(&[("alpha_init", 0.0)]);
        scheme.reno.cwnd = Bytes::new(40 * MSS);
        scheme.on_recovery_entered(&entered(CongestionCause::Ecn, 40 * MSS));
        assert_eq!(scheme.reno.cwnd, Bytes::new(40 * MSS));
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, 36 * MSS));
        assert_eq!(scheme.reno.cwnd, Bytes::new(18 * MSS));
        scheme.on_timeout(&timeout(18 * MSS, 1));
        assert_eq!((scheme.reno.cwnd, scheme.reno.ssthresh), (Bytes::new(MSS), Bytes::new(9 * MSS)));
    }

    /// cwnd grows as Reno's does, and does not grow during a reduction.
    #[test]
    fn dctcp_grows_as_reno_and_pauses_in_reduction() {
        let mut scheme = Dctcp::with(&[]);
        scheme.on_ack(&ack(2 * MSS));
        assert_eq!(scheme.reno.cwnd, Bytes::new(12 * MSS));
        scheme.reno.ssthresh = Bytes::new(12 * MSS);
        (0..5).for_each(|_| scheme.on_ack(&ack(2 * MSS)));
        assert_eq!(scheme.reno.cwnd, Bytes::new(12 * MSS));
        scheme.on_ack(&Ack { phase: Phase::Recovery, ..ack(2 * MSS) });
        assert_eq!(scheme.reno.cwnd, Bytes::new(12 * MSS));
        scheme.on_ack(&ack(2 * MSS));
        assert_eq!(scheme.reno.cwnd, Bytes::new(13 * MSS));
    }

    /// Idle time beyond the RTO restarts from the initial window.
    #[test]
    fn dctcp_idle_beyond_rto_restarts_from_initial_window() {
        let mut scheme = Dctcp::with(&[]);
        scheme.reno.cwnd = Bytes::new(40 * MSS);
        scheme.on_idle_restart(&testing::idle(201, 200));
        assert_eq!(scheme.reno.cwnd, Bytes::new(10 * MSS));
        close(scheme.policy.share.alpha, 1.0);
    }
}
