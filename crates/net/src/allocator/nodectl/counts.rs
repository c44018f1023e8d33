//! What a port counts, and reports.

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
    pub(super) fn report(&self, sink: &mut dyn FnMut(&'static str, f64)) {
        sink("messages_refused", self.refused as f64);
        sink("messages_foreign", self.foreign as f64);
        sink("failures", self.failures as f64);
        sink("table_full", self.full as f64);
        sink("reduces", self.reduces as f64);
        sink("increases", self.increases as f64);
        sink("disobeyed", self.disobeyed as f64);
        sink("expired", self.expired as f64);
    }
}
