//! What a port counts, and reports.

use crate::{Reading, TelemetrySink};

/// What a port counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Messages with impossible fields, or going where their type does not go.
    pub(super) refused: u64,
    /// Messages that speak of another transmission than their flow's.
    pub(super) foreign: u64,
    /// Requests that were answered with a failure.
    pub(super) failures: u64,
    /// Requests that found no room in the table.
    pub(super) full: u64,
    /// Reductions told.
    pub(super) reduces: u64,
    /// Increases suggested.
    pub(super) increases: u64,
    /// Reduces that had to be repeated.
    pub(super) disobeyed: u64,
    /// Records that timed out.
    pub(super) expired: u64,
}

impl Counts {
    /// As named numbers.
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
