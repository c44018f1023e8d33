//! Burst sizes, as Linux sizes TSO packets, and the deferral of unpaced senders until a whole burst fits.

use narrows_cc::{Bytes, Nanos, Phase, Rate};

use super::Sender;

/// A burst contains the data of 2^-10 s at the pacing rate (Linux `sk_pacing_shift`).
const SHIFT: u64 = 1 << 10;
/// Minimum number of segments in a burst (Linux `tcp_min_tso_segs`).
const LEAST_SEGMENTS: u64 = 2;
/// At short RTTs bursts are larger by 64 KiB / 2^(min RTT / 512 us) (Linux `tcp_tso_rtt_log`).
const RTT_STEP_MICROS: u64 = 512;
const LARGEST_TSO: u64 = 65_536;
/// Data is not deferred if at least a third of the window is free (Linux `tcp_tso_win_divisor`).
const WINDOW_DIVISOR: u64 = 3;
/// Linux defers only within 1 ms of the last departure, and for an acknowledgement expected within 1 ms.
const DEFERRAL: Nanos = Nanos::from_millis(1);
/// Number of the first data packet that Linux paces: `tcp_update_skb_after_send` compares `data_segs_out`, which
/// includes the departing packet, with 10.
const FIRST_PACED: u64 = 10;

impl Sender {
    /// Bytes that may leave back to back at `rate` (Linux `tcp_tso_autosize`).
    fn tso_bytes(&self, rate: Rate) -> Bytes {
        let shift = self.rtt.least().map_or(u64::MAX, |rtt| rtt.as_nanos() / 1_000 / RTT_STEP_MICROS);
        let extra = if shift < 32 { LARGEST_TSO >> shift } else { 0 };
        let bytes = (rate.as_bytes_per_sec() / SHIFT).saturating_add(extra);
        let mss = self.mss();
        let segments = (bytes.min(self.config.max_burst.as_u64()) / mss.as_u64()).max(LEAST_SEGMENTS);
        (mss * segments).min(self.config.max_burst.max(mss))
    }

    /// Bytes of the next burst: at most half of cwnd (Linux `tcp_cwnd_test`).
    fn burst(&self) -> Bytes {
        let control = self.window.driver.control();
        if !self.config.tso {
            return control.burst.min(self.config.max_burst);
        }
        let mss = self.mss();
        if self.window.cwnd < 4 * mss.as_u64() && mss <= self.config.max_burst {
            return mss; // half of cwnd is one segment
        }
        let half = mss * (self.window.cwnd / mss.as_u64() / 2).max(1);
        let mut most = control.burst.max(mss).min(half);
        // Linux `tcp_bound_to_half_wnd`: at most half of the largest window that the peer offered, in whole segments.
        // The exact bound is computed only if half of the window, less a segment, is below the burst.
        let window = self.stream.largest_window;
        if window / 2 < (most + mss).as_u64() {
            most = most.min(Bytes::new(self.stream.half_window(mss.as_u64())));
        }
        // No TSO burst is smaller than this limit, so the rate does not matter.
        if most <= (mss * LEAST_SEGMENTS).min(self.config.max_burst) {
            return most;
        }
        let rate = control.pacing_rate.or_else(|| self.unpaced_rate());
        rate.map_or(self.config.max_burst, |rate| self.tso_bytes(rate)).min(most)
    }

    /// The rate by which Linux sizes the bursts of an unpaced sender (`tcp_update_pacing_rate`).
    fn unpaced_rate(&self) -> Option<Rate> {
        let srtt = self.rtt.smoothed()?;
        let cwnd = self.window.driver.control().cwnd;
        let slow_start = cwnd < self.window.driver.ssthresh() / 2;
        Some(cwnd.mul_f64(if slow_start { 2.0 } else { 1.2 }).per(srtt.max(Nanos::from_micros(1))))
    }

    /// Accounts for a departing packet in the pacer.
    #[inline]
    pub(super) fn pace(&mut self, now: Nanos, bytes: Bytes) {
        let rate = self.window.driver.control().pacing_rate;
        // If the scheme states a burst size, pacing is exact and begins with the first packet.
        let own = self.window.driver.control().burst < Bytes::MAX;
        let initial = self.config.tso && !own && self.stats.data_packets_sent < FIRST_PACED;
        let rate = rate.filter(|_| !initial);
        // Without pacing the size of a burst only matters if the cwnd allows another packet.
        let ends = rate.is_none() && !self.has_room(u64::from(self.config.segment));
        let mut pacing = self.pacing;
        pacing.on_sent(now, bytes, rate, !own, || if ends { bytes } else { self.burst() });
        self.pacing = pacing;
    }

    /// Whether new data waits for a larger burst although the cwnd allows a segment (Linux `tcp_tso_should_defer`).
    /// An acknowledgement ends the wait.
    #[inline]
    pub(super) fn defers(&self, now: Nanos) -> bool {
        if !self.config.tso || self.pacing.is_in_burst(now) {
            return false;
        }
        let inflight = self.board.inflight().as_u64();
        let cwnd = self.window.cwnd;
        let room = (self.stream.right_edge - self.stream.nxt).min(cwnd.saturating_sub(inflight));
        let unsent = self.stream.app_end - self.stream.nxt;
        // Linux computes the third from the peer's window if that window is smaller.
        let window = cwnd.min(self.stream.right_edge - self.stream.una);
        if unsent <= room || room >= window / WINDOW_DIVISOR {
            return false;
        }
        // Linux does not defer a buffer that fits completely and gets no more data: `tcp_grow_skb` has filled it from
        // the next buffer, up to the size of a burst.
        if self.stream.head_fits(room) {
            return false;
        }
        if self.recovery.phase != Phase::Open && !self.recovery.marked {
            return false;
        }
        let paced = self.window.driver.control().pacing_rate.is_some();
        let last = if paced { self.pacing.next() } else { self.timers.last_sent_at };
        if now - last >= DEFERRAL {
            return false;
        }
        let Some((_, head)) = self.board.first() else { return false };
        let srtt = self.rtt.srtt;
        // The size of the burst comes last, because it costs the most.
        (head.snapshot.sent_at + srtt) - now <= DEFERRAL.min(srtt / 2) && room < self.burst().as_u64()
    }
}
