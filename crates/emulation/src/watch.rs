//! The caller of a run.

/// Progress of a run, and requests to end it.
pub trait Watch: Sync {
    /// The fraction of the run that is over.
    fn progress(&self, fraction: f64);
    /// Whether the run shall end at once.
    fn is_cancelled(&self) -> bool;
}
