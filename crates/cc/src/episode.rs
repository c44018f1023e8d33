//! Loss recovery around a [`Driver`]: phase, proportional rate reduction, undo and timeout.
//!
//! The transport detects losses, marks and spurious losses, and decides when recovery begins and ends.

use crate::{Bytes, CongestionCause, Driver, Flight, Nanos, Phase, Prr, RecoveryStyle};

/// Recovery state of one connection, and the information to undo its last reduction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Episode {
    phase: Phase,
    /// Phase of the last reduction and ssthresh before it, if it can be undone.
    reduced: Option<(Phase, Bytes)>,
    /// The proportional rate reduction in progress and the cwnd that it sets.
    prr: Option<(Prr, Bytes)>,
}

impl Episode {
    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// cwnd of the proportional rate reduction; `None`: the scheme's cwnd is in force.
    pub fn window(&self) -> Option<Bytes> {
        self.prr.map(|(_, window)| window)
    }

    /// Recovery begins, on an acknowledgement that delivered `acked` bytes. Returns whether the scheme leaves cwnd to
    /// the transport, which then calls [`Episode::reduce_by`]. A later undo restores ssthresh from before the first
    /// reduction for losses; the response to marks stays.
    pub fn enter(
        &mut self,
        driver: &mut Driver,
        now: Nanos,
        cause: CongestionCause,
        flight: Flight,
        acked: Bytes,
    ) -> bool {
        match cause {
            CongestionCause::Ecn => self.reduced = None,
            CongestionCause::Loss if self.phase == Phase::Open || self.reduced.is_none() => {
                self.reduced = Some((Phase::Recovery, driver.ssthresh()));
            }
            CongestionCause::Loss => {}
        }
        self.phase = Phase::Recovery;
        self.prr = None;
        driver.recovery_entered(now, cause, flight, acked);
        driver.scheme().info().recovery == RecoveryStyle::Prr
    }

    /// Begins the proportional reduction `prr` of cwnd, starting from `window`.
    pub fn reduce_by(&mut self, prr: Prr, window: Bytes) {
        self.prr = Some((prr, window));
    }

    /// A packet of `bytes` was sent.
    #[inline]
    pub fn on_sent(&mut self, bytes: Bytes) {
        if let Some((prr, _)) = &mut self.prr {
            prr.on_sent(bytes);
        }
    }

    /// Updates the cwnd of the reduction in progress after an acknowledgement or timer; see [`Prr::on_ack`].
    #[inline]
    pub fn on_ack(&mut self, acked: Bytes, pipe: Bytes, good: bool, mss: Bytes) {
        if let Some((prr, window)) = &mut self.prr {
            *window = prr.on_ack(acked, pipe, good, mss);
        }
    }

    /// Recovery ends.
    pub fn leave(&mut self, driver: &mut Driver, now: Nanos, inflight: Bytes) {
        self.close();
        driver.recovery_left(now, inflight);
    }

    /// Undoes the last reduction because its losses were spurious, unless it is already undone or confirmed.
    pub fn undo(&mut self, driver: &mut Driver, now: Nanos, inflight: Bytes) {
        if let Some((phase, ssthresh)) = self.reduced.take() {
            self.close();
            driver.restore_ssthresh(ssthresh);
            driver.spurious_loss(now, inflight, phase);
        }
    }

    /// The retransmission timer expired, for the `consecutive`-th time in a row; the resulting losses are already
    /// reported.
    pub fn time_out(&mut self, driver: &mut Driver, now: Nanos, flight: Flight, consecutive: u32) {
        let before = if self.phase == Phase::Open { Some(driver.ssthresh()) } else { self.reduced.map(|(_, at)| at) };
        self.reduced = before.map(|ssthresh| (Phase::Loss, ssthresh));
        self.phase = Phase::Loss;
        self.prr = None;
        driver.timeout(now, flight, consecutive);
    }

    fn close(&mut self) {
        self.phase = Phase::Open;
        self.prr = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrrBound;
    use crate::schemes::find;
    use crate::testing::{MSS, setup};

    const SEGMENT: Bytes = Bytes::new(MSS);

    fn newreno() -> Driver {
        let entry = find("newreno").expect("registered");
        Driver::new(entry.build(&setup(entry.info, MSS, &[])))
    }

    /// Enters recovery because of a loss, with one full cwnd outstanding.
    fn enter(episode: &mut Episode, driver: &mut Driver) {
        let flight = Flight::of_cwnd(driver, SEGMENT, SEGMENT * 9);
        let reduces = episode.enter(driver, Nanos::ZERO, CongestionCause::Loss, flight, SEGMENT);
        assert!(reduces, "NewReno leaves cwnd to the transport");
        let prr = Prr::begin(driver.control().cwnd, flight.size, PrrBound::Rfc9937);
        episode.reduce_by(prr, flight.inflight + SEGMENT);
    }

    /// cwnd falls from the flight size to the scheme's cwnd while acknowledgements arrive; after recovery the scheme's
    /// cwnd is in force.
    #[test]
    fn episode_reduces_in_proportion_until_it_ends() {
        let (mut driver, mut episode) = (newreno(), Episode::default());
        enter(&mut episode, &mut driver);
        assert_eq!((episode.phase(), episode.window()), (Phase::Recovery, Some(SEGMENT * 10)));
        episode.on_sent(SEGMENT);
        for left in [8, 7, 7, 6] {
            episode.on_ack(SEGMENT, SEGMENT * left, false, SEGMENT);
        }
        // Four of ten segments are delivered, so two may be sent; one of these has been sent.
        assert_eq!(episode.window(), Some(SEGMENT * 7));
        episode.leave(&mut driver, Nanos::ZERO, SEGMENT * 5);
        assert_eq!((episode.phase(), episode.window()), (Phase::Open, None));
        assert_eq!(driver.control().cwnd, SEGMENT * 5);
    }

    /// An undo restores ssthresh and cwnd from before the first reduction, also after a timeout; a second undo does
    /// nothing.
    #[test]
    fn episode_undo_restores_once() {
        let (mut driver, mut episode) = (newreno(), Episode::default());
        enter(&mut episode, &mut driver);
        assert_eq!(driver.ssthresh(), SEGMENT * 5);
        let flight = Flight::of_cwnd(&driver, SEGMENT, Bytes::ZERO);
        episode.time_out(&mut driver, Nanos::ZERO, flight, 2);
        assert_eq!((episode.phase(), episode.window()), (Phase::Loss, None));
        episode.undo(&mut driver, Nanos::ZERO, Bytes::ZERO);
        driver.refresh();
        assert_eq!((episode.phase(), driver.ssthresh()), (Phase::Open, Bytes::MAX));
        assert_eq!(driver.control().cwnd, SEGMENT * 10);
        driver.restore_ssthresh(SEGMENT);
        episode.undo(&mut driver, Nanos::ZERO, Bytes::ZERO);
        assert_eq!(driver.ssthresh(), SEGMENT);
    }

    /// The response to a mark is not undone: if a loss follows the mark, the undo of the loss restores the values that
    /// the response to the mark has set.
    #[test]
    fn episode_response_to_marks_is_not_undone() {
        let (mut driver, mut episode) = (newreno(), Episode::default());
        let flight = Flight::of_cwnd(&driver, SEGMENT, SEGMENT * 9);
        episode.enter(&mut driver, Nanos::ZERO, CongestionCause::Ecn, flight, SEGMENT);
        episode.undo(&mut driver, Nanos::ZERO, Bytes::ZERO);
        assert_eq!((episode.phase(), driver.ssthresh()), (Phase::Recovery, SEGMENT * 5));
        enter(&mut episode, &mut driver);
        assert_eq!(driver.ssthresh(), SEGMENT * 2);
        episode.undo(&mut driver, Nanos::ZERO, Bytes::ZERO);
        assert_eq!((episode.phase(), driver.ssthresh()), (Phase::Open, SEGMENT * 5));
    }
}
