//! Cap on the data in flight of a subflow that blocked the connection's window (penalisation, Raiciu et al. 2012,
//! section 4.2).
//!
//! The scheme owns the congestion window, and some schemes have no window to halve. The connection therefore caps the
//! data that it assigns, as Linux reduces the window: it halves the cap at most once per round trip, then raises it
//! until the scheme's window is the limit. The cap grows by a segment per round trip as in congestion avoidance, or by
//! an eighth if that is more. A large cap thus recovers after six round trips; growth by single segments would take a
//! round trip per segment.

use narrows_cc::Nanos;

/// Growth per round trip as a fraction of the cap, if this is more than a segment.
const GROWTH: f64 = 1.0 / 8.0;

/// The cap, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PenalisationCap {
    most: Option<f64>,
    halved_at: Nanos,
}

impl PenalisationCap {
    /// Whether `len` more bytes may be in flight.
    pub(super) fn admits(&self, inflight: u64, len: u64) -> bool {
        inflight == 0 || self.most.is_none_or(|most| (inflight + len) as f64 <= most)
    }

    /// Halves the cap because the subflow blocked the window; returns whether the cap changed.
    pub(super) fn halve(&mut self, now: Nanos, srtt: Nanos, inflight: u64, segment: u64) -> bool {
        if self.most.is_some() && now < self.halved_at + srtt {
            return false;
        }
        self.halved_at = now;
        self.most = Some((self.most.unwrap_or(inflight as f64) / 2.0).max(segment as f64));
        true
    }

    /// Grows the cap after `acked` bytes were acknowledged and `inflight` bytes remain in flight. `window` is the
    /// scheme's cwnd.
    pub(super) fn grow(&mut self, acked: u64, inflight: u64, segment: u64, window: u64) {
        let Some(most) = self.most else { return };
        // An unused cap does not grow.
        if (inflight + acked + segment) as f64 > most {
            let most = most + acked as f64 * GROWTH.max(segment as f64 / most);
            self.most = Some(most).filter(|&most| most < window as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;

    /// The cap is halved at most once per round trip, down to a segment.
    #[test]
    fn penalty_cap_halves_once_per_round_trip_to_a_segment() {
        let (ms, mut own) = (Nanos::from_millis, PenalisationCap::default());
        assert!(own.admits(1 << 40, MSS));
        assert!(own.halve(ms(5), ms(100), 9 * MSS, MSS));
        assert!(own.admits(3_500, MSS) && !own.admits(3_501, MSS));
        assert!(!own.halve(ms(104), ms(100), 9 * MSS, MSS));
        for (at, most) in [(105, 2_250), (205, 1_125), (305, MSS), (405, MSS)] {
            assert!(own.halve(ms(at), ms(100), 9 * MSS, MSS));
            assert!(own.admits(most - 1, 1) && !own.admits(most, 1), "{most} after {at} ms");
        }
        // A packet larger than the cap may still be sent if nothing is in flight.
        assert!(own.admits(0, 2 * MSS));
    }

    /// The cap grows by a segment or an eighth per round trip while it limits, and is removed at the scheme's window.
    #[test]
    fn penalty_cap_grows_while_used_and_ends_at_cwnd() {
        let mut own = PenalisationCap::default();
        own.halve(Nanos::ZERO, Nanos::ZERO, 8 * MSS, MSS);
        own.grow(MSS, MSS, MSS, 100 * MSS);
        assert!(!own.admits(4 * MSS, 1), "not used");
        // Four acknowledgements of a segment cover a whole window: the cap becomes 4 + 1/4 + 1/4.25 + ... = 4.92
        // segments.
        (0..4).for_each(|_| own.grow(MSS, 3 * MSS, MSS, 100 * MSS));
        assert!(own.admits(4 * MSS, 900) && !own.admits(4 * MSS, 940));
        let mut large = PenalisationCap::default();
        large.halve(Nanos::ZERO, Nanos::ZERO, 800 * MSS, MSS);
        // 400 acknowledged segments raise the cap by an eighth, that is by 50 segments.
        (0..400).for_each(|_| large.grow(MSS, 449 * MSS, MSS, 1_000 * MSS));
        assert!(large.admits(450 * MSS - 1, 1) && !large.admits(450 * MSS, 1));
        large.grow(MSS, 449 * MSS, MSS, 450 * MSS);
        assert_eq!(large.most, None);
    }
}
