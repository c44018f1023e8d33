//! Milestones of a connection, for reports.

use narrows_cc::Nanos;

/// Times of a connection's life.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Milestones {
    pub(super) established_at: Option<Nanos>,
    pub(super) first_data_at: Option<Nanos>,
    /// When all data of a finite application was acknowledged.
    pub(super) completed_at: Option<Nanos>,
    /// Bytes of memory given back when the connection was over.
    pub(super) released: usize,
}
