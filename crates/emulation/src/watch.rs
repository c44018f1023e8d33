//! The caller of a run.

/// Progress of a run, and requests to end it.
pub trait Watch: Sync {
    /// The finished fraction of the run.
    fn progress(&self, fraction: f64);
    /// Whether the run shall end immediately.
    fn is_cancelled(&self) -> bool;
}

/// A caller that only waits.
impl Watch for () {
    fn progress(&self, _: f64) {}

    fn is_cancelled(&self) -> bool {
        false
    }
}
