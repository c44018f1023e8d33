//! # CCID 2: TCP-like congestion control of DCCP
//!
//! TCP's cwnd for datagrams, which are never retransmitted: cwnd is halved on loss and grows by one packet per window
//! without loss. The Ack Vector reports losses. The transport counts the packets in flight (`pipe`).
//!
//! ## Control law
//! All quantities are in packets. W = cwnd; A: packets newly acknowledged as received and not marked (Ack Vector state
//! 0).
//!
//! ```text
//! start           W = min(4, max(2, floor(4380 / S)))      RFC 3390, S: bytes of a packet
//! slow start      W < ssthresh    W += 1 per two of A, where A counts for R per acknowledgement at most
//! avoidance       W >= ssthresh   W += 1 per W of A without loss or mark
//! loss, mark      W = max(floor(W / 2), 1);  ssthresh = max(W, 2);  once per window of data
//! timeout         ssthresh = max(floor(W / 2), 2);  W = 1
//! receive buffer  W = max(W - n, 1) for n packets newly reported as dropped there (Drop Code 2);  slow start ends
//! Slow Receiver   slow start ends
//! ```
//! R: Ack Ratio, two by default, so slow start grows by half per round trip where TCP with byte counting doubles. At
//! loss probability p, W is about sqrt(3 / (2 p)).
//!
//! ## States
//! ```text
//!                  W reaches ssthresh
//!   slow_start ----------------------------> avoidance
//!     |   ^ timeout                           |     ^
//!     |   +-----------------+-----------------+     |
//!     +------------------> recovery <---------------+
//!          loss, mark         |   what was in flight is acknowledged or lost
//!                             +---------------------> avoidance
//! ```
//!
//! ## References
//! RFC 4341 (2006), sections 5 and 6; RFC 3390 (2002), the initial window; RFC 3465 (2003), byte counting;
//! RFC 5681 (2009), section 4.1, idle times; Linux `net/dccp/ccids/ccid2.c`.
//!
//! ## Differences
//! 1. cwnd of W packets is reported as W segments. DCCP counts each of its packets as one, regardless of its size. Over
//!    TCP, this scheme counts bytes.
//! 2. The transport controls the Ack Ratio. `ack_ratio` is the maximum number of packets counted per acknowledgement in
//!    slow start.
//! 3. Acknowledgements during recovery do not count: they belong to the window of the loss.
//! 4. After an idle time longer than the RTO, cwnd is at most the initial window. cwnd grows only while it limits the
//!    sender. These two rules are the window validation of section 5.1, in the form of RFC 5681.
//! 5. Over TCP, CCID 2 is a NewReno that counts in segments, has no undo, and sets cwnd in recovery itself (RFC 6675).
//!
//! ## Known weaknesses
//! The weaknesses of `newreno`: random loss above one per cent nearly stops the flow, and buffers stay full. Slow start
//! takes 1.7 times as many round trips as that of `newreno`.

use crate::{
    Ack, Bytes, CongestionControl, Control, Feedback, IdleRestart, Info, Param, Phase, Provenance, ReceiverFeedback,
    RecoveryEntered, RecoveryLeft, RecoveryStyle, Scheme, Setup, Telemetry, Timeout, Value,
};

/// Initial window in bytes, at least two and at most four packets (RFC 3390).
const INITIAL_BYTES: u64 = 4380;

/// CCID 2.
#[derive(Clone, Debug)]
pub struct Ccid2 {
    packet: Bytes,
    /// W, in packets.
    cwnd: u64,
    initial: u64,
    ssthresh: u64,
    /// Maximum number of bytes counted per acknowledgement in slow start.
    most_per_ack: Bytes,
    /// Bytes acknowledged towards the next increase.
    credit: Bytes,
    recovering: bool,
}

impl Ccid2 {
    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Up to ssthresh, adds one packet per two packets of credit; beyond ssthresh, one packet per window of credit.
    fn grow(&mut self, acked: Bytes) {
        if self.in_slow_start() {
            self.credit += acked.min(self.most_per_ack);
            let pair = self.packet * 2;
            while self.credit >= pair && self.in_slow_start() {
                self.credit -= pair;
                self.cwnd += 1;
            }
        } else {
            self.credit += acked;
            let window = self.packet * self.cwnd;
            if self.credit >= window {
                self.credit = (self.credit - window).min(window);
                self.cwnd += 1;
            }
        }
    }
}

impl Scheme for Ccid2 {
    const INFO: Info = Info {
        name: "ccid2",
        aliases: &[],
        summary: "TCP-like congestion control of DCCP: cwnd counted in packets (RFC 4341)",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: &[Param::number(
            "ack_ratio",
            2.0,
            (1.0, 256.0),
            "pkt",
            "maximum packets that one acknowledgement counts for in slow start",
        )],
    };
    const FEEDBACK: Feedback = Feedback::CountedPackets;

    fn new(setup: &Setup) -> Self {
        let packet = setup.mss;
        let rfc3390 = (INITIAL_BYTES / packet.as_u64()).clamp(2, 4);
        let initial = rfc3390.min(setup.initial_window.as_u64() / packet.as_u64()).max(1);
        Self {
            packet,
            cwnd: initial,
            initial,
            ssthresh: u64::MAX,
            most_per_ack: packet * setup.params.number("ack_ratio") as u64,
            credit: Bytes::ZERO,
            recovering: false,
        }
    }
}

impl CongestionControl for Ccid2 {
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        if event.phase == Phase::Recovery || !event.cwnd_limited {
            return;
        }
        let acked = event.creditable() - event.ce;
        if !acked.is_zero() {
            self.grow(acked);
        }
    }

    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {
        self.recovering = true;
        self.cwnd = (self.cwnd / 2).max(1);
        self.ssthresh = self.cwnd.max(2);
        self.credit = Bytes::ZERO;
    }

    fn on_recovery_left(&mut self, _event: &RecoveryLeft) {
        self.recovering = false;
    }

    fn on_receiver_feedback(&mut self, event: &ReceiverFeedback) {
        if event.dropped == 0 && !event.slow {
            return;
        }
        self.cwnd = self.cwnd.saturating_sub(event.dropped).max(1);
        if self.in_slow_start() {
            self.ssthresh = self.cwnd.max(2);
        }
    }

    fn on_timeout(&mut self, event: &Timeout) {
        self.recovering = false;
        // Further expiries of the same series leave ssthresh unchanged (RFC 5681 section 3.1).
        if event.consecutive <= 1 {
            self.ssthresh = (self.cwnd / 2).max(2);
        }
        self.cwnd = 1;
        self.credit = Bytes::ZERO;
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if event.outlasts_rto() {
            self.cwnd = self.cwnd.min(self.initial);
        }
    }

    #[inline]
    fn control(&self) -> Control {
        Control { cwnd: self.packet * self.cwnd, pacing_rate: None, burst: self.packet * 2 }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let state = match (self.recovering, self.in_slow_start()) {
            (true, _) => "recovery",
            (false, true) => "slow_start",
            (false, false) => "avoidance",
        };
        sink("state", Value::State(state));
        if self.ssthresh < u64::MAX {
            sink("ssthresh", Value::Bytes(self.packet * self.ssthresh));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CongestionCause;
    use crate::testing::{ack, entered, idle, setup, timeout};

    const PACKET: u64 = 1400;

    fn ccid2(overrides: &[(&str, f64)]) -> Ccid2 {
        Ccid2::new(&setup(&Ccid2::INFO, PACKET, overrides))
    }

    fn window(scheme: &Ccid2) -> u64 {
        let window = scheme.control().cwnd.as_u64();
        assert_eq!(window % PACKET, 0, "whole packets");
        window / PACKET
    }

    /// Feeds `n` acknowledgements of two packets each and returns cwnd in packets.
    fn acks(scheme: &mut Ccid2, n: u64) -> u64 {
        for _ in 0..n {
            scheme.on_ack(&ack(2 * PACKET));
        }
        window(scheme)
    }

    fn lose(scheme: &mut Ccid2) -> u64 {
        let flight = scheme.control().cwnd.as_u64();
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, flight));
        window(scheme)
    }

    /// The initial window follows RFC 3390.
    #[test]
    fn ccid2_initial_window_follows_rfc_3390() {
        // Number of packets in 4380 bytes, before the limits of two and four packets apply: 4380 / 1400 = 3.1, 4380 /
        // 536 = 8.2, 4380 / 1095 = 4, 4380 / 2190 = 2, 4380 / 9000 = 0.5.
        for (size, packets) in [(1400, 3), (536, 4), (1095, 4), (2190, 2), (9000, 2)] {
            let scheme = Ccid2::new(&setup(&Ccid2::INFO, size, &[]));
            assert_eq!(scheme.control().cwnd, Bytes::new(packets * size), "{size}");
        }
    }

    /// The window follows a scripted pattern of losses.
    #[test]
    fn ccid2_window_follows_scripted_losses() {
        let mut scheme = ccid2(&[]);
        assert_eq!(window(&scheme), 3);
        // Slow start: every acknowledgement of two packets adds one packet.
        assert_eq!(acks(&mut scheme, 17), 20);
        // A loss halves cwnd; the transport reports no further loss of the same window. Acknowledgements during
        // recovery do not count towards growth.
        assert_eq!(lose(&mut scheme), 10);
        for _ in 0..9 {
            scheme.on_ack(&Ack { phase: Phase::Recovery, ..ack(2 * PACKET) });
        }
        scheme.on_recovery_left(&RecoveryLeft::default());
        // In avoidance, five acknowledgements of two packets cover the window of ten packets. Six acknowledgements then
        // cover twelve packets, one more than the window of eleven.
        assert_eq!(acks(&mut scheme, 4), 10);
        assert_eq!(acks(&mut scheme, 1), 11);
        assert_eq!(acks(&mut scheme, 5), 11);
        assert_eq!(acks(&mut scheme, 1), 12);
        // The next loss discards the remaining credit of one packet. Half of the odd window of 13 packets is rounded
        // down to 6.
        assert_eq!(acks(&mut scheme, 6), 13);
        assert_eq!(lose(&mut scheme), 6);
        scheme.on_recovery_left(&RecoveryLeft::default());
        assert_eq!(acks(&mut scheme, 2), 6);
        assert_eq!(acks(&mut scheme, 1), 7);
        // After a timeout cwnd is one packet and ssthresh is floor(7 / 2) = 3 packets; a second expiry leaves ssthresh
        // unchanged.
        scheme.on_timeout(&timeout(7 * PACKET, 1));
        assert_eq!((window(&scheme), scheme.ssthresh), (1, 3));
        scheme.on_timeout(&timeout(PACKET, 2));
        assert_eq!((window(&scheme), scheme.ssthresh), (1, 3));
        assert_eq!([acks(&mut scheme, 1), acks(&mut scheme, 1)], [2, 3]);
        // cwnd grows in avoidance again; then three losses reduce cwnd to one packet and ssthresh to two packets.
        assert_eq!([acks(&mut scheme, 1), acks(&mut scheme, 1)], [3, 4]);
        assert_eq!([lose(&mut scheme), lose(&mut scheme), lose(&mut scheme)], [2, 1, 1]);
        assert_eq!(scheme.ssthresh, 2);
    }

    /// Receive Buffer drops reduce the window by the number of dropped packets and end slow start.
    #[test]
    fn ccid2_receive_drops_shrink_window_and_end_slow_start() {
        // RFC 4341 section 5.2.
        let none = ReceiverFeedback::default();
        let mut scheme = ccid2(&[]);
        assert_eq!(acks(&mut scheme, 17), 20);
        scheme.on_receiver_feedback(&none);
        assert_eq!(acks(&mut scheme, 1), 21);
        scheme.on_receiver_feedback(&ReceiverFeedback { dropped: 3, ..none });
        assert_eq!(window(&scheme), 18);
        // In avoidance, nine acknowledgements of two packets cover the window of eighteen packets.
        assert_eq!([acks(&mut scheme, 8), acks(&mut scheme, 1)], [18, 19]);
        scheme.on_receiver_feedback(&ReceiverFeedback { dropped: 1_000, ..none });
        assert_eq!(window(&scheme), 1, "never below one");
        let mut scheme = ccid2(&[]);
        scheme.on_receiver_feedback(&ReceiverFeedback { slow: true, ..none });
        assert_eq!([window(&scheme), acks(&mut scheme, 1), acks(&mut scheme, 1)], [3, 3, 4]);
    }

    /// Slow start grows the window by half the Ack Ratio per acknowledgement.
    #[test]
    fn ccid2_slow_start_grows_by_half_the_ack_ratio_per_ack() {
        for (ratio, grown) in [(1.0, 5), (2.0, 10), (4.0, 20), (8.0, 30)] {
            let mut scheme = ccid2(&[("ack_ratio", ratio)]);
            // Each of ten acknowledgements of six packets adds min(6, R) / 2 packets.
            for _ in 0..10 {
                scheme.on_ack(&ack(6 * PACKET));
            }
            assert_eq!(window(&scheme), 3 + grown, "Ack Ratio {ratio}");
        }
    }

    /// Marked packets do not count towards growth, and a mark reduces the window as a loss does.
    #[test]
    fn ccid2_ecn_mark_counts_as_loss_not_as_growth() {
        let mut scheme = ccid2(&[]);
        scheme.on_ack(&Ack { ce: Bytes::new(2 * PACKET), ..ack(2 * PACKET) });
        assert_eq!(window(&scheme), 3);
        acks(&mut scheme, 5);
        scheme.on_recovery_entered(&entered(CongestionCause::Ecn, 8 * PACKET));
        assert_eq!(window(&scheme), 4);
    }

    /// An idle or application-limited sender does not keep a large window.
    #[test]
    fn ccid2_idle_or_app_limited_sender_loses_unused_window() {
        let mut scheme = ccid2(&[]);
        assert_eq!(acks(&mut scheme, 17), 20);
        scheme.on_ack(&Ack { cwnd_limited: false, ..ack(40 * PACKET) });
        scheme.on_idle_restart(&idle(199, 200));
        assert_eq!(window(&scheme), 20);
        scheme.on_idle_restart(&idle(201, 200));
        assert_eq!(window(&scheme), 3);
    }

    /// The mean window follows the square-root law.
    #[test]
    fn ccid2_mean_window_follows_square_root_law() {
        // Every 1/p-th packet is lost, and the loss is detected a window later. One sawtooth from W/2 to W sends 3/8 W²
        // = 1/p packets in W/2 round trips, so the mean window is sqrt(3 / (2 p)). The tolerance is 10 %, because half
        // a round trip of each sawtooth is recovery without growth, and windows are whole packets.
        for p in [0.01, 0.001, 0.0001] {
            let mut scheme = ccid2(&[]);
            let every = (1.0 / p) as u64;
            let (mut packets, mut rounds, mut until_loss) = (0_u64, 0_u64, every);
            scheme.ssthresh = 2;
            let goal = 100 * every;
            while packets < goal {
                let flight = window(&scheme);
                assert!((1..goal).contains(&flight), "a window of {flight} packets");
                let lost = until_loss <= flight;
                if lost {
                    until_loss += every;
                    lose(&mut scheme);
                    scheme.on_recovery_left(&RecoveryLeft::default());
                } else {
                    for _ in 0..flight {
                        scheme.on_ack(&ack(PACKET));
                    }
                }
                until_loss -= flight;
                packets += flight;
                rounds += 1;
            }
            let (mean, law) = (packets as f64 / rounds as f64, libm::sqrt(1.5 / p));
            assert!((mean / law - 1.0).abs() < 0.1, "p {p}: mean window {mean}, square-root law {law}");
        }
    }
}
