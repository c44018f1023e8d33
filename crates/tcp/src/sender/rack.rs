//! RACK: time-based loss detection (RFC 8985 section 6), and the state of tail-loss probes (section 7).
//!
//! The RFC breaks ties between packets sent at one instant by sequence number; this implementation uses the
//! known order of departure.

use narrows_cc::Nanos;

use super::scoreboard::{Record, Scoreboard};

/// Duplicate acknowledgements, or SACKed packets, that indicate a loss (DupThresh).
pub(crate) const DUP_THRESH: u32 = 3;
/// Recoveries a widened reordering window lasts (RFC 8985 section 6.2, step 4).
const REO_WND_PERSIST: u32 = 16;

/// Upper limit of the distance of reordering (Linux `tcp_max_reordering`).
const MAX_REORDERING: u64 = 300;

/// State of RACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rack {
    /// Transmission number of the newest delivered packet (replaces RACK.xmit_ts and RACK.end_seq).
    order: u64,
    /// RACK.rtt.
    rtt: Nanos,
    /// Segment size, in bytes.
    mss: u64,
    /// Highest sequence number delivered.
    fack: u64,
    /// Packets have arrived out of order.
    pub(super) reordering_seen: bool,
    /// Greatest distance of reordering seen, in segments (Linux `reordering`).
    pub(super) reordering: u32,
    /// Acknowledgements that revealed reordering (Linux `reord_seen`).
    pub(super) reordering_count: u16,
    reo_wnd_mult: u32,
    reo_wnd_persist: u32,
    /// RACK.dsack_round: DSACKs count once until this is acknowledged.
    dsack_round: Option<u64>,
}

/// Connection state used by loss detection.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    pub(crate) srtt: Nanos,
    pub(crate) min_rtt: Nanos,
    pub(crate) recovering: bool,
}

impl Rack {
    pub(crate) fn new(mss: u64) -> Self {
        Self { mss: mss.max(1), reordering: DUP_THRESH, reo_wnd_mult: 1, ..Self::default() }
    }

    /// Step 3: detects reordering. Call for each newly delivered record; returns whether it arrived out of order.
    #[inline]
    pub(crate) fn on_delivered(&mut self, record: &Record) -> bool {
        let end = record.end();
        if end > self.fack {
            self.fack = end;
        } else if end < self.fack && record.retransmissions == 0 {
            self.reordering_seen = true;
            // Linux `tcp_check_sack_reordering`.
            let distance = (self.fack - record.seq).div_ceil(self.mss);
            self.reordering = self.reordering.max(distance.min(MAX_REORDERING) as u32);
            return true;
        }
        false
    }

    /// Whether reordering reaches further than the threshold of duplicates.
    #[inline]
    pub(crate) fn is_reordering_high(&self) -> bool {
        self.reordering > DUP_THRESH
    }

    /// Linux `tcp_enter_loss`: a timeout before recovery despite enough SACKs means that less was reordered than
    /// thought.
    pub(crate) fn on_timeout(&mut self, board: &Scoreboard) {
        if board.sacked_packets() >= DUP_THRESH {
            self.reordering = DUP_THRESH;
        }
    }

    /// Step 2: advances to the newest record of one acknowledgement, excluding spurious ones.
    #[inline]
    pub(crate) fn advance(&mut self, order: u64, rtt: Nanos) {
        self.rtt = rtt;
        self.order = self.order.max(order);
    }

    /// Step 4, first half: a DSACK widens the window, once per round trip.
    pub(crate) fn on_dsack(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_some_and(|round| una >= round) {
            self.dsack_round = None;
        }
        if self.dsack_round.is_none() {
            self.dsack_round = Some(nxt);
            self.reo_wnd_mult += 1;
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// A recovery ended: the widened window lasts for one fewer.
    pub(crate) fn on_recovery_left(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// Step 4, second half: RACK_update_reo_wnd.
    fn reo_wnd(&self, board: &Scoreboard, path: Path) -> Nanos {
        if !self.reordering_seen && (path.recovering || board.sacked_packets() >= self.reordering) {
            return Nanos::ZERO;
        }
        (path.min_rtt * u64::from(self.reo_wnd_mult) / 4).min(path.srtt)
    }

    /// Whether step 5 has any candidates.
    #[inline]
    pub(crate) fn may_detect(&self, board: &Scoreboard) -> bool {
        board.has_sent_before(self.order)
    }

    /// Step 5: next lost record, if any.
    pub(crate) fn next_lost(&self, now: Nanos, board: &Scoreboard, path: Path) -> Option<u32> {
        let id = board.oldest()?;
        let record = board.get(id);
        (record.snapshot.order < self.order && self.expires(record.snapshot.sent_at, board, path) <= now).then_some(id)
    }

    /// Time at which a packet sent at `sent_at` counts as lost.
    fn expires(&self, sent_at: Nanos, board: &Scoreboard, path: Path) -> Nanos {
        sent_at + self.rtt + self.reo_wnd(board, path)
    }

    /// Step 5: time of the next check, the latest expiry among the undecided records.
    pub(crate) fn deadline(&self, board: &mut Scoreboard, path: Path) -> Nanos {
        match board.overtaken(self.order) {
            Some(sent_at) => self.expires(sent_at, board, path),
            None => Nanos::MAX,
        }
    }

    /// Section 6.3: whether a record is lost when the retransmission timer expires.
    pub(crate) fn is_lost_on_timeout(&self, now: Nanos, record: &Record, board: &Scoreboard, path: Path) -> bool {
        self.expires(record.snapshot.sent_at, board, path) <= now
    }
}

/// A tail-loss probe with unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// TLP.end_seq: SND.NXT after the probe.
    pub(crate) end_seq: u64,
    /// TLP.is_retrans: the probe repeated the last packet.
    pub(crate) repeated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;
    const PATH: Path = Path { srtt: Nanos::from_millis(50), min_rtt: Nanos::from_millis(40), recovering: false };

    /// The reordering window in milliseconds, with nothing outstanding.
    fn window(rack: &Rack) -> f64 {
        rack.reo_wnd(&Scoreboard::new(MSS as u16), PATH).as_millis_f64()
    }

    /// Step 4 of RFC 8985 section 6.2: a quarter of the minimum RTT per round trip with a DSACK and one more, at most
    /// the smoothed RTT.
    #[test]
    fn rack_window_widens_per_dsack_round_up_to_srtt() {
        let mut rack = Rack::new(MSS);
        assert_eq!(window(&rack), 10.0);
        // Data up to 100 r is acknowledged in round r, the next 100 bytes are outstanding.
        for (round, widened) in [20.0, 30.0, 40.0, 50.0, 50.0].into_iter().enumerate() {
            let una = 100 * round as u64;
            rack.on_dsack(una, una + 100);
            assert_eq!(window(&rack), widened, "round {round}");
            // Another one before the end of the round changes nothing.
            rack.on_dsack(una + 99, una + 199);
            assert_eq!(window(&rack), widened, "round {round}");
        }
    }

    /// A widened window lasts for 16 recoveries after the last DSACK.
    #[test]
    fn rack_widened_window_lasts_16_recoveries() {
        let mut rack = Rack::new(MSS);
        rack.on_dsack(0, 100);
        for dsack_at in [100, 200] {
            for recoveries in 1..16 {
                rack.on_recovery_left();
                assert!(window(&rack) > 10.0, "after {recoveries} recoveries");
            }
            if dsack_at == 100 {
                // A new one before the sixteenth starts the count again.
                rack.on_dsack(dsack_at, dsack_at + 100);
            }
        }
        rack.on_recovery_left();
        assert_eq!(window(&rack), 10.0);
    }
}
