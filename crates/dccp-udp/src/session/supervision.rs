//! When a session ends: its source, its duration, the caller, and peers that are silent or make no progress.

use narrows_cc::Nanos;
use narrows_dccp::ResetCode;

use super::{Session, nanos};
use crate::settings::Stop;
use crate::source::Source;

/// Longest time for which a sender that has sent all data waits for ACKs before it closes.
const LINGER: Nanos = Nanos::from_secs(1);

/// Time for which a sender waits for reports of late arrivals before it closes: the sum of a fixed time and a number of
/// round trips.
const LATE_ARRIVAL: (Nanos, u64) = (Nanos::from_millis(100), 4);

impl Session<'_> {
    /// Handles everything but packets: duration, stop requests and timeouts.
    pub fn supervise(&mut self, now: Nanos, stop: Stop) {
        if self.connection.state().is_over() {
            return;
        }
        let over = self
            .settings
            .duration
            .zip(self.observed.connected_at)
            .is_some_and(|(duration, at)| self.sender && now >= at.saturating_add(nanos(duration)));
        let written = self.source.as_ref().is_some_and(Source::is_done);
        if stop == Stop::Abort {
            self.connection.abort(now, ResetCode::Aborted);
        } else if stop == Stop::Close {
            self.done_at.get_or_insert(now);
            self.close(now);
        } else if over || written {
            let done = *self.done_at.get_or_insert(now);
            // A datagram that counts as lost may still arrive, or its report may be in flight.
            let settled = self.connection.inflight().is_zero() && now >= self.late_until();
            if settled || now >= done.saturating_add(LINGER) {
                self.close(now);
            }
        } else if self.connection.takes_no_data() && self.connection.state().is_open() {
            // The peer's application reads no more data.
            self.done_at.get_or_insert(now);
            self.close(now);
        }
        // DCCP has no timer for a receiver whose sender is silent.
        if now >= self.silence_deadline() {
            self.observed.gone = true;
            self.connection.abort(now, ResetCode::Aborted);
        }
        self.check_progress(now);
    }

    /// Gives up a peer that keeps the connection open without progress: a peer that never agrees on features,
    /// acknowledges no data, or does not close.
    fn check_progress(&mut self, now: Nanos) {
        if self.observed.connected_at.is_none() || self.connection.state().is_over() {
            return;
        }
        let timeout = nanos(self.settings.timeout);
        let delivered = self.connection.stats().delivered_packets;
        let waiting = self.connection.queued() > 0 || self.connection.data_packets_in_flight() > 0;
        if delivered != self.progress.0 || !waiting {
            self.progress = (delivered, now);
        }
        let since = self.closing_at.unwrap_or(Nanos::MAX).min(self.progress.1);
        if now >= since.saturating_add(timeout) {
            let silent = now >= self.observed.received_at.saturating_add(timeout);
            (self.observed.gone, self.stalled) = (silent, !silent);
            self.connection.abort(now, ResetCode::Aborted);
        }
    }

    /// Time until which reports of late arrivals are expected.
    fn late_until(&self) -> Nanos {
        let (least, round_trips) = LATE_ARRIVAL;
        let wait = least + self.connection.srtt_or_default() * round_trips;
        self.observed.lost_at.map_or(Nanos::ZERO, |at| at.saturating_add(wait))
    }

    /// Time at which a receiver gives up a silent sender.
    pub(super) fn silence_deadline(&self) -> Nanos {
        if self.sender || self.observed.connected_at.is_none() || self.connection.state().is_over() {
            return Nanos::MAX;
        }
        self.observed.received_at.saturating_add(nanos(self.settings.timeout))
    }
}
