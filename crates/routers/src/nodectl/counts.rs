//! Event counters of a port.

use crate::{Reading, TelemetrySink};

/// Event counters of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Messages with invalid fields or in the wrong direction.
    pub(super) refused: u64,
    /// Messages about a transmission other than their flow's.
    pub(super) foreign: u64,
    /// Requests answered with a failure.
    pub(super) failures: u64,
    /// Requests refused because the table was full.
    pub(super) full: u64,
    /// Reductions sent.
    pub(super) reduces: u64,
    /// Increases suggested.
    pub(super) increases: u64,
    /// Reductions repeated because the flow disobeyed.
    pub(super) disobeyed: u64,
    /// Records that timed out.
    pub(super) expired: u64,
}

impl Counts {
    /// Reports the counters as telemetry.
    pub(super) fn report(&self, sink: TelemetrySink<'_>) {
        sink("messages_refused", Reading::count(self.refused));
        sink("messages_foreign", Reading::count(self.foreign));
        sink("failures", Reading::count(self.failures));
        sink("table_full", Reading::count(self.full));
        sink("reduces", Reading::count(self.reduces));
        sink("increases", Reading::count(self.increases));
        sink("disobeyed", Reading::count(self.disobeyed));
        sink("expired", Reading::count(self.expired));
    }
}
