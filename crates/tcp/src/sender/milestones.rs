//! Milestones of a connection, for results.

use narrows_cc::Nanos;

/// Milestones of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Milestones {
    pub(super) established_at: Option<Nanos>,
    pub(super) first_data_at: Option<Nanos>,
    /// Time at which all data of a finite application was acknowledged.
    pub(super) completed_at: Option<Nanos>,
    /// Bytes of memory freed when the connection closed.
    pub(super) released: usize,
}
