//! # NewReno
//!
//! The Internet's standard for decades, and the reference for fairness. cwnd grows by one segment per round trip until
//! a packet is lost, then halves. The windows of all flows add up to about the capacity of the path. Of two flows, the
//! flow with the larger cwnd gives up more at each halving, so their cwnds converge. The transport detects and repairs
//! losses (NewReno's partial ACKs, SACK, RACK). This scheme sets cwnd only.
//!
//! ## Control law
//! W: cwnd; A: bytes newly acknowledged; S: segment size; F: data outstanding when congestion is detected (with
//! `reduction_from = "cwnd"`, as in Linux, cwnd); all in bytes.
//!
//! ```text
//! slow start   W < ssthresh     W += A                            per ACK (`abc` off: min(A, S))
//! avoidance    W >= ssthresh    W += S  for every W bytes acknowledged
//!                                       (`abc` off: for every W/S ACKs)
//! loss, mark                    ssthresh = max(F/2, 2 S);  W = min(W, ssthresh)
//! timeout                       same ssthresh, once per run of timeouts;  W = S
//! mark, `abe` on                0.8 F instead of F/2
//! idle for longer than the RTO  W = min(W, initial window)
//! ```
//! With `units = segments` (Linux) W, ssthresh, and A are whole segments: F/2 is rounded down, and a short packet
//! counts as a segment. With `units = bytes` (RFC 5681) all three are in bytes, and a halving keeps fractions of a
//! segment, so cwnd is larger by up to half a segment per loss. cwnd grows only while it limits the sender, and not
//! during fast recovery. Under random loss with probability p, W is about S sqrt(3 / (2 b p)), where b is the number of
//! segments per counted ACK (1 with `abc`).
//!
//! ## States
//! ```text
//!                   W reaches ssthresh
//!    slow_start ----------------------------> avoidance
//!      |   ^                                   |     ^
//!      |   | timeout: W = S                    |     |
//!      |   +----------------+------------------+     |
//!      |                    |          loss, mark    |
//!      +------------------> recovery <---------------+
//!           loss, mark         |   all data outstanding at its start acknowledged
//!                              +---------------------> avoidance
//! ```
//!
//! ## References
//! RFC 5681 (2009), congestion control; RFC 6582 (2012), NewReno recovery; RFC 3465 (2003), byte counting;
//! RFC 3168 (2001), ECN; RFC 8511 (2018), ABE; RFC 6928 (2013), the initial window; Linux `tcp_cong.c` for
//! byte counting as deployed.
//!
//! ## Differences
//! 1. Slow start counts every acknowledged byte, as Linux does. RFC 5681 and RFC 3465 limit one ACK to one or
//!    two segments.
//! 2. With `abc` off, one ACK counts as one segment in avoidance, regardless of how much it acknowledges (the
//!    form most analyses use), and as at most one segment in slow start. With delayed ACKs cwnd then grows
//!    half as fast.
//! 3. Entering recovery never raises cwnd: a cwnd below two segments stays unchanged, although ssthresh is two.
//! 4. The transport counts what is in flight, so cwnd is not deflated on partial ACKs (RFC 6582).
//! 5. A spurious reduction is undone in full, as in Linux. RFC 5681 defines no undo.
//!
//! ## Known weaknesses
//! On long fat paths, one segment per round trip takes minutes to recover from a single loss. Random loss
//! counts as congestion. Throughput falls as the RTT grows. Drop-tail buffers stay full.

use crate::reno::{Policy as RenoPolicy, Reno, RenoScheme};
use crate::window_pacing::PACED;
use crate::{Ack, CongestionCause, Info, Param, Phase, Provenance, RecoveryEntered, RecoveryStyle, Setup};

/// Share of the flight kept on a mark with `abe` (RFC 8511 section 3.1).
const KEPT_ON_MARK_ABE: f64 = 0.8;

/// Units of cwnd and ssthresh.
const UNITS: Param = Param::choice(
    "units",
    &["segments", "bytes"],
    "cwnd and ssthresh in whole segments (Linux), or in bytes (RFC 5681)",
);

/// NewReno congestion control.
pub type NewReno = RenoScheme<Standard>;

/// The rules of RFC 5681, with appropriate byte counting and alternative backoff.
#[derive(Clone, Debug)]
pub struct Standard {
    abc: bool,
    abe: bool,
}

impl RenoPolicy for Standard {
    const INFO: Info = Info {
        name: "newreno",
        aliases: &["reno"],
        summary: "additive increase of one segment per round trip, half of cwnd on loss (RFC 5681)",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Prr,
        params: &[
            Param::flag("abc", true, "count acknowledged bytes (RFC 3465); off: count ACKs"),
            Param::flag("abe", false, "keep 0.8 instead of half on an ECN mark (RFC 8511)"),
            UNITS,
            PACED,
        ],
    };

    fn is_whole(setup: &Setup) -> bool {
        setup.params.word(UNITS.name) == "segments"
    }

    fn new(setup: &Setup) -> Self {
        Self { abc: setup.params.flag("abc"), abe: setup.params.flag("abe") }
    }

    #[inline]
    fn on_ack(&mut self, reno: &mut Reno, event: &Ack) {
        if event.phase == Phase::Recovery || !event.cwnd_limited || event.creditable().is_zero() {
            return;
        }
        if self.abc {
            reno.grow(event.creditable());
        } else if reno.in_slow_start() {
            reno.slow_start(reno.counted(event.creditable()).min(reno.mss));
        } else {
            reno.avoid(reno.mss);
        }
    }

    fn on_recovery_entered(&mut self, reno: &mut Reno, event: &RecoveryEntered) {
        reno.reduce(match event.cause {
            CongestionCause::Ecn if self.abe => event.flight_size.mul_f64(KEPT_ON_MARK_ABE),
            _ => event.flight_size / 2,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Build, MSS, ack, entered, timeout};
    use crate::{Bytes, CongestionControl, IdleRestart, IdleRule};

    fn window(scheme: &NewReno) -> u64 {
        scheme.control().cwnd.as_u64()
    }

    /// A scheme in avoidance with a window of `segments`.
    fn avoiding(segments: u64, overrides: &[(&str, f64)]) -> NewReno {
        let mut scheme = NewReno::with(overrides);
        scheme.reno.cwnd = Bytes::new(segments * MSS);
        scheme.reno.ssthresh = scheme.reno.cwnd;
        scheme
    }

    /// Slow start counts acknowledged bytes or, with `abc` off, at most one segment per acknowledgement.
    #[test]
    fn newreno_slow_start_counts_bytes_or_segment_per_ack() {
        let mut bytes = NewReno::with(&[]);
        bytes.on_ack(&ack(2 * MSS));
        assert_eq!(window(&bytes), 12 * MSS);
        let mut acks = NewReno::with(&[("abc", 0.0)]);
        acks.on_ack(&ack(2 * MSS));
        acks.on_ack(&ack(300));
        assert_eq!(window(&acks), 12 * MSS);
    }

    /// Windows are whole segments, as in Linux: half of an odd window is rounded down, and a short packet counts as a
    /// segment.
    #[test]
    fn newreno_counts_whole_segments_or_bytes() {
        for (units, half, grown) in [(0.0, 20 * MSS, 11 * MSS), (1.0, 41 * MSS / 2, 10 * MSS + 300)] {
            let mut scheme = avoiding(41, &[("units", units)]);
            scheme.on_recovery_entered(&entered(CongestionCause::Loss, 41 * MSS));
            assert_eq!((window(&scheme), scheme.reno.ssthresh), (half, Bytes::new(half)));
            let mut short = NewReno::with(&[("units", units)]);
            short.on_ack(&ack(300));
            assert_eq!(window(&short), grown);
            // Three RTOs of idle time leave an eighth of the 90 segments, 11.25 segments.
            let mut idle = avoiding(90, &[("units", units)]);
            idle.on_idle_restart(&IdleRestart { rule: IdleRule::Linux, ..testing::idle(601, 200) });
            assert_eq!(window(&idle), if units == 0.0 { 11 * MSS } else { 45 * MSS / 4 });
        }
    }

    /// Congestion avoidance adds one segment per window of acknowledged bytes or, with `abc` off, per window of
    /// acknowledgements.
    #[test]
    fn newreno_avoidance_adds_one_segment_per_window() {
        // cwnd is ten segments: five ACKs of two segments each are one window in bytes but half a window in ACKs.
        let mut bytes = avoiding(10, &[]);
        let mut acks = avoiding(10, &[("abc", 0.0)]);
        for n in 1..=10 {
            bytes.on_ack(&ack(2 * MSS));
            acks.on_ack(&ack(2 * MSS));
            match n {
                4 => assert_eq!((window(&bytes), window(&acks)), (10 * MSS, 10 * MSS)),
                5 => assert_eq!((window(&bytes), window(&acks)), (11 * MSS, 10 * MSS)),
                9 => assert_eq!(window(&acks), 10 * MSS),
                10 => assert_eq!(window(&acks), 11 * MSS),
                _ => {}
            }
        }
        // 20 segments have been acknowledged. The first step used 10 of them; the other 10 count towards the next step,
        // which requires 11.
        assert_eq!(window(&bytes), 11 * MSS);
        bytes.on_ack(&ack(MSS));
        assert_eq!(window(&bytes), 12 * MSS);
    }

    /// Acknowledged bytes beyond ssthresh count in congestion avoidance.
    #[test]
    fn newreno_bytes_beyond_ssthresh_count_in_avoidance() {
        let mut scheme = NewReno::with(&[]);
        scheme.reno.ssthresh = Bytes::new(11 * MSS);
        scheme.on_ack(&ack(4 * MSS)); // 1 segment of growth up to ssthresh, and 3 segments of credit
        assert_eq!(window(&scheme), 11 * MSS);
        scheme.on_ack(&ack(8 * MSS)); // credit of 3 + 8 = 11 segments, one window
        assert_eq!(window(&scheme), 12 * MSS);
    }

    /// The window grows in loss repair, but not in recovery or while application-limited.
    #[test]
    fn newreno_grows_in_loss_repair_not_recovery_or_app_limited() {
        let mut scheme = NewReno::with(&[]);
        scheme.on_ack(&Ack { phase: Phase::Recovery, ..ack(MSS) });
        scheme.on_ack(&Ack { cwnd_limited: false, ..ack(MSS) });
        assert_eq!(window(&scheme), 10 * MSS);
        scheme.on_ack(&Ack { phase: Phase::Loss, ..ack(MSS) });
        assert_eq!(window(&scheme), 11 * MSS);
    }

    /// A loss reduces cwnd to half of the flight; with ABE a mark reduces cwnd to four fifths of the flight.
    #[test]
    fn newreno_loss_halves_flight_and_abe_keeps_four_fifths() {
        let mut scheme = avoiding(40, &[("abe", 1.0)]);
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, 36 * MSS));
        assert_eq!((window(&scheme), scheme.reno.ssthresh), (18 * MSS, Bytes::new(18 * MSS)));
        scheme.on_recovery_entered(&entered(CongestionCause::Ecn, 15 * MSS));
        assert_eq!(window(&scheme), 12 * MSS);
        let mut classic = avoiding(40, &[]);
        classic.on_recovery_entered(&entered(CongestionCause::Ecn, 36 * MSS));
        assert_eq!(window(&classic), 18 * MSS);
    }

    /// ssthresh is at least two segments, and recovery never raises the window.
    #[test]
    fn newreno_ssthresh_is_at_least_two_segments() {
        let mut scheme = avoiding(1, &[]);
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, MSS));
        assert_eq!((window(&scheme), scheme.reno.ssthresh), (MSS, Bytes::new(2 * MSS)));
    }

    /// A series of timeouts lowers ssthresh once.
    #[test]
    fn newreno_series_of_timeouts_lowers_ssthresh_once() {
        let mut scheme = avoiding(40, &[]);
        scheme.on_timeout(&timeout(40 * MSS, 1));
        scheme.on_timeout(&timeout(MSS, 2));
        assert_eq!((window(&scheme), scheme.reno.ssthresh), (MSS, Bytes::new(20 * MSS)));
    }

    /// A spurious reduction is undone once.
    #[test]
    fn newreno_spurious_reduction_is_undone_once() {
        let mut scheme = avoiding(40, &[]);
        scheme.on_timeout(&timeout(40 * MSS, 1));
        scheme.on_spurious_loss(&testing::spurious(Phase::Loss));
        assert_eq!((window(&scheme), scheme.reno.ssthresh), (40 * MSS, Bytes::new(40 * MSS)));
        scheme.reno.cwnd = Bytes::new(5 * MSS);
        scheme.on_spurious_loss(&testing::spurious(Phase::Loss));
        assert_eq!(window(&scheme), 5 * MSS);
    }

    /// Idle time beyond the RTO restarts from the initial window.
    #[test]
    fn newreno_idle_beyond_rto_restarts_from_initial_window() {
        let mut scheme = avoiding(40, &[]);
        scheme.on_idle_restart(&testing::idle(199, 200));
        assert_eq!(window(&scheme), 40 * MSS);
        scheme.on_idle_restart(&testing::idle(201, 200));
        assert_eq!(window(&scheme), 10 * MSS);
    }

    /// With `paced` on, the pacing rate in avoidance is 1.2 windows per round trip.
    #[test]
    fn newreno_paced_uses_1_2_windows_per_round_trip() {
        let mut scheme = avoiding(10, &[("paced", 1.0)]);
        assert_eq!(scheme.control().pacing_rate, None);
        scheme.on_ack(&Ack { srtt: Some(crate::Nanos::from_millis(100)), ..ack(MSS) });
        assert_eq!(scheme.control().pacing_rate, Some(crate::Rate::from_bytes_per_sec(120_000)));
    }
}
