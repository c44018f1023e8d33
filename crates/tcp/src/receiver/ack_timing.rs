//! Timing of acknowledgements: delayed and quick acknowledgements, SACK compression, GRO.
//!
//! Follows Linux `__tcp_ack_snd_check`, `tcp_event_data_recv`, and the hand-over of aggregated packets by the
//! network interface.

use narrows_cc::Nanos;

use crate::TcpConfig;

/// Number of quick acknowledgements after the first CE mark.
const AFTER_MARK: u32 = 2;
/// Number of acknowledgements of out-of-order data that are sent immediately before compression begins.
const UNCOMPRESSED: u8 = 3;
/// Maximum number of acknowledgements that one compressed acknowledgement replaces (Linux `tcp_comp_sack_nr`).
const COMPRESSED_MAX: u8 = 44;
/// Maximum delay of a compressed acknowledgement (Linux `tcp_comp_sack_delay_ns`).
const COMPRESSION_MAX: Nanos = Nanos::from_millis(1);
/// A compressed acknowledgement is delayed by RTT / 20 (5 %).
const COMPRESSION_DIVISOR: u64 = 20;
/// Largest GRO packet.
const GRO_MAX: u64 = 65_535;

/// Policy and state of acknowledgements.
// Rarely accessed fields come first: see `Receiver`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct AckTiming {
    ack_delay: Nanos,
    /// Acknowledgement number for which `uncompressed` counts.
    uncompressed_at: u64,
    /// In-order payload since the last acknowledgement. Every packet accesses the state from here on.
    pub(super) unacked: u64,
    /// Payload after which an acknowledgement is due.
    ack_bytes: u64,
    /// Arrival time of the last in-order data; [`Nanos::MAX`] before the first.
    last_data_at: Nanos,
    /// Round-trip time of the handshake, measured from the SYN-ACK; [`Nanos::MAX`] while unknown.
    pub(super) rtt: Nanos,
    least_rto: Nanos,
    gro: Nanos,
    ack_at: Nanos,
    compressed_at: Nanos,
    gro_at: Nanos,
    /// Quick acknowledgements left.
    quick: u32,
    quick_acks: u32,
    quick_growth: bool,
    /// Whether data has arrived since the last acknowledgement.
    scheduled: bool,
    compression: bool,
    compressed: u8,
    uncompressed: u8,
}

impl AckTiming {
    pub(super) fn new(config: &TcpConfig) -> Self {
        let full = u64::from(config.ack_every.max(1) - 1) * u64::from(config.segment);
        Self {
            // Linux acknowledges data of more than one segment immediately, even if it is less than two full segments.
            ack_bytes: full + 1,
            ack_delay: config.ack_delay,
            quick_acks: config.quick_acks,
            compression: config.sack_compression && config.sack,
            gro: config.gro,
            least_rto: config.min_rto,
            quick_growth: config.quick_growth,
            last_data_at: Nanos::MAX,
            rtt: Nanos::MAX,
            ack_at: Nanos::MAX,
            compressed_at: Nanos::MAX,
            gro_at: Nanos::MAX,
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn deadline(&self) -> Nanos {
        self.ack_at.min(self.compressed_at).min(self.gro_at)
    }

    #[inline]
    pub(super) fn has_unacked(&self) -> bool {
        self.unacked > 0
    }

    /// Handles `bytes` of in-order data when no out-of-order data is stored. `opened`: the data let the window grow.
    /// Returns whether to acknowledge now.
    #[inline]
    pub(super) fn on_in_order(&mut self, now: Nanos, bytes: u64, opened: bool) -> bool {
        self.unacked += bytes;
        self.scheduled = true;
        if self.quick_acks > 0 {
            self.update_quick(now);
        }
        self.on_window(opened);
        if !self.gro.is_zero() {
            if self.gro_at == Nanos::MAX {
                self.gro_at = now.saturating_add(self.gro);
            }
            if self.unacked + bytes <= GRO_MAX {
                return false;
            }
            self.gro_at = Nanos::MAX;
        }
        self.is_due(now)
    }

    /// Whether the data received so far must be acknowledged now; otherwise starts the delay.
    #[inline]
    fn is_due(&mut self, now: Nanos) -> bool {
        if self.unacked >= self.ack_bytes || self.quick > 0 {
            return true;
        }
        if self.ack_at == Nanos::MAX {
            self.ack_at = now.saturating_add(self.ack_delay);
        }
        false
    }

    /// Linux `tcp_event_data_recv`: quick acknowledgements at the start, and after an idle time longer than
    /// the RTO, because the sender restarts from a small window.
    #[inline]
    fn update_quick(&mut self, now: Nanos) {
        if self.last_data_at == Nanos::MAX || now - self.last_data_at > self.rto() {
            self.quick = self.quick.max(self.quick_acks);
        }
        self.last_data_at = now;
    }

    /// Handles new data. As in Linux `tcp_grow_window`, data that let the window grow is acknowledged immediately, even
    /// if it is out of order.
    #[inline]
    pub(super) fn on_window(&mut self, opened: bool) {
        if opened && self.quick_growth {
            self.quick |= 1;
        }
    }

    /// Handles duplicate data: the sender has timed out, or taken a delayed packet for lost (Linux `tcp_data_queue`).
    pub(super) fn on_duplicate(&mut self) {
        self.quick = self.quick.max(self.quick_acks);
    }

    /// Handles the first CE mark since the sender's last reduction (Linux `__tcp_ecn_check_ce`).
    pub(super) fn on_congestion(&mut self) {
        self.quick = self.quick.max(self.quick_acks.min(AFTER_MARK));
    }

    /// Whether changes of the CE state are acknowledged immediately, as in Linux.
    pub(super) fn hurries(&self) -> bool {
        self.quick_acks > 0
    }

    /// Whether acknowledgements of out-of-order data are being compressed.
    pub(super) fn is_compressing(&self) -> bool {
        self.compressed_at != Nanos::MAX
    }

    /// The receiver's retransmission timeout, computed from the RTT of the handshake (Linux: srtt + max(2 srtt,
    /// minimum)).
    fn rto(&self) -> Nanos {
        if self.rtt == Nanos::MAX { Nanos::from_secs(1) } else { self.rtt + (self.rtt * 2).max(self.least_rto) }
    }

    /// Handles data when out-of-order data is stored: `bytes` have become in-order, up to `next`. `urgent`: the data
    /// must be acknowledged immediately. Returns whether to acknowledge now.
    pub(super) fn on_other(&mut self, now: Nanos, bytes: u64, next: u64, urgent: bool, holes: bool) -> bool {
        self.unacked += bytes;
        self.scheduled = true;
        self.gro_at = Nanos::MAX;
        if bytes > 0 && self.quick_acks > 0 {
            self.update_quick(now);
        }
        if urgent || !holes {
            return urgent || self.is_due(now);
        }
        if !self.compression || self.quick > 0 || self.unacked >= self.ack_bytes {
            return true;
        }
        if self.uncompressed_at != next {
            self.uncompressed_at = next;
            self.uncompressed = 0;
        }
        if self.uncompressed < UNCOMPRESSED || self.compressed >= COMPRESSED_MAX {
            self.uncompressed = self.uncompressed.saturating_add(1);
            return true;
        }
        self.compressed += 1;
        if self.compressed_at == Nanos::MAX {
            self.compressed_at = now.saturating_add((self.rtt / COMPRESSION_DIVISOR).min(COMPRESSION_MAX));
        }
        false
    }

    /// Handles deadlines that have passed. Returns whether to acknowledge now, and whether the delay of an
    /// acknowledgement has ended.
    pub(super) fn on_timer(&mut self, now: Nanos) -> (bool, bool) {
        let delayed = now >= self.ack_at;
        let mut due = delayed || now >= self.compressed_at;
        if now >= self.gro_at {
            self.gro_at = Nanos::MAX;
            due |= self.is_due(now);
        }
        (due, delayed)
    }

    /// Resets the state when an acknowledgement of all data is sent.
    #[inline]
    pub(super) fn on_ack_sent(&mut self) {
        // Linux `tcp_dec_quickack_mode`: acknowledgements of out-of-order data count too.
        self.quick = self.quick.saturating_sub(u32::from(self.scheduled));
        self.scheduled = false;
        self.unacked = 0;
        self.compressed = 0;
        self.ack_at = Nanos::MAX;
        self.compressed_at = Nanos::MAX;
        self.gro_at = Nanos::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);
    const MSS: u64 = 1448;

    fn timing(config: TcpConfig) -> AckTiming {
        let mut timing = AckTiming::new(&config);
        timing.rtt = MS * 100;
        timing
    }

    /// Feeds full segments 1 ms apart; returns which of them were acknowledged.
    fn acknowledged(timing: &mut AckTiming, start: Nanos, n: u64) -> Vec<u64> {
        let mut acked = Vec::new();
        for i in 1..=n {
            if timing.on_in_order(start + MS * i, MSS, false) {
                timing.on_ack_sent();
                acked.push(i);
            }
        }
        acked
    }

    /// The first 16 packets are acknowledged one by one, then every second packet.
    #[test]
    fn quick_acks_cover_the_first_16_packets() {
        let mut timing = timing(TcpConfig::default());
        let acked = acknowledged(&mut timing, Nanos::ZERO, 20);
        assert_eq!(acked, (1..=16).chain([18, 20]).collect::<Vec<_>>());
    }

    /// Quick acknowledgements begin again after an idle time longer than the RTO.
    #[test]
    fn quick_acks_begin_again_after_idle() {
        let mut timing = timing(TcpConfig::default());
        acknowledged(&mut timing, Nanos::ZERO, 20);
        // RTO = 100 + max(200, 200) ms.
        assert_eq!(acknowledged(&mut timing, MS * 310, 3), [2], "290 ms of silence");
        timing.on_ack_sent();
        assert_eq!(acknowledged(&mut timing, MS * 700, 18), (1..=16).chain([18]).collect::<Vec<_>>());
    }

    /// The RTO that an idle time must exceed is the RTT of the handshake plus twice this RTT, or plus 200 ms if that is
    /// more.
    #[test]
    fn quick_acks_after_idle_depend_on_handshake_rtt() {
        for (rtt, rto) in [(20, 20 + 200), (200, 200 + 400)] {
            for (silence, quick) in [(rto, false), (rto + 1, true)] {
                let mut timing = timing(TcpConfig::default());
                timing.rtt = MS * rtt;
                // The last of these packets arrives at 20 ms and is acknowledged as the second of a pair.
                acknowledged(&mut timing, Nanos::ZERO, 20);
                let first = acknowledged(&mut timing, MS * (20 + silence - 1), 1);
                assert_eq!(!first.is_empty(), quick, "{silence} ms of silence, RTT {rtt} ms");
            }
        }
    }

    /// A duplicate starts quick acknowledgements again. Acknowledgements of out-of-order data count as quick
    /// acknowledgements, and are not compressed until the quick acknowledgements are used up.
    #[test]
    fn quick_acks_follow_a_duplicate_and_count_out_of_order_data() {
        let mut timing = timing(TcpConfig::default());
        acknowledged(&mut timing, Nanos::ZERO, 16);
        assert_eq!(acknowledged(&mut timing, MS * 20, 2), [2]);
        timing.on_duplicate();
        let held = (0..30).find(|_| {
            let due = timing.on_other(MS * 30, 0, 1000, false, true);
            if due {
                timing.on_ack_sent();
            }
            !due
        });
        // 16 quick acknowledgements, then three that are never compressed.
        assert_eq!(held, Some(16 + 3));
    }

    /// While the window grows, every packet is acknowledged.
    #[test]
    fn quick_acks_last_while_the_window_grows() {
        let mut timing = timing(TcpConfig { quick_acks: 0, ..TcpConfig::default() });
        let mut arrive = |opened| {
            let due = timing.on_in_order(MS, MSS, opened);
            if due {
                timing.on_ack_sent();
            }
            due
        };
        assert_eq!([true, true, true].map(&mut arrive), [true; 3]);
        assert_eq!([false; 4].map(&mut arrive), [false, true, false, true]);
    }

    /// Without quick acknowledgements every second packet is acknowledged from the start.
    #[test]
    fn quick_acks_can_be_off() {
        let mut timing = timing(TcpConfig { quick_acks: 0, ..TcpConfig::default() });
        assert_eq!(acknowledged(&mut timing, Nanos::ZERO, 6), [2, 4, 6]);
    }

    /// Data of more than one segment is acknowledged immediately, even if it is less than two segments.
    #[test]
    fn more_than_one_segment_is_acknowledged_at_once() {
        let mut timing = timing(TcpConfig { quick_acks: 0, ..TcpConfig::default() });
        assert!(!timing.on_in_order(MS, MSS, false));
        assert!(timing.on_in_order(MS, 1, false));
    }

    /// The first three acknowledgements of data after a hole are sent immediately; further acknowledgements are delayed
    /// by 5 % of the RTT, at most 1 ms.
    #[test]
    fn sack_compression_begins_with_the_fourth() {
        let mut timing = timing(TcpConfig { quick_acks: 0, ..TcpConfig::default() });
        for i in 0..5 {
            assert_eq!(timing.on_other(MS, 0, 1000, false, true), i < 3, "packet {i}");
        }
        assert_eq!(timing.deadline(), MS * 2);
        assert_eq!(timing.on_timer(MS * 2), (true, false));
        timing.on_ack_sent();
        assert_eq!(timing.deadline(), Nanos::MAX);
        // Another hole starts a new count.
        assert!(timing.on_other(MS * 3, 0, 2000, false, true));
        timing.rtt = MS * 10;
        timing.uncompressed = UNCOMPRESSED;
        assert!(!timing.on_other(MS * 4, 0, 2000, false, true));
        assert_eq!(timing.deadline(), MS * 4 + MS / 2);
    }

    /// GRO hands over all packets that arrive within its interval as one packet, which causes one acknowledgement.
    #[test]
    fn gro_gives_one_acknowledgement_per_hand_over() {
        let gro = Nanos::from_micros(500);
        let mut timing = timing(TcpConfig { quick_acks: 0, gro, ..TcpConfig::default() });
        for i in 0..8 {
            assert!(!timing.on_in_order(MS + Nanos::from_micros(i * 10), MSS, false));
        }
        assert_eq!(timing.deadline(), MS + gro);
        assert_eq!(timing.on_timer(MS + gro), (true, false));
    }

    /// A GRO packet never exceeds 64 KiB.
    #[test]
    fn gro_hand_over_is_limited_to_64_kib() {
        let mut timing = timing(TcpConfig { quick_acks: 0, gro: MS, ..TcpConfig::default() });
        let first = (1..).find(|_| timing.on_in_order(MS, MSS, false));
        assert_eq!(first, Some(45));
    }
}
