//! A coupled scheme's view of its connection: one record per subflow.

use crate::{Bytes, Nanos};

/// Maximum number of subflows in a view.
pub const MAX_PATHS_VIEW: usize = 8;

/// One subflow, as its siblings see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathView {
    /// Its cwnd; in fast recovery its ssthresh, to which cwnd returns.
    pub cwnd: Bytes,
    /// Its smoothed RTT; `None` before the first sample.
    pub srtt: Option<Nanos>,
    /// Bytes delivered since its last loss.
    pub since_loss: Bytes,
    /// Bytes delivered between the last two losses; before the second loss, the bytes delivered before the first.
    pub between_losses: Bytes,
    /// Its handshake is complete, and the connection has not abandoned it.
    pub established: bool,
}

/// All subflows of a connection, as seen by subflow `own`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// The index of the scheme's subflow.
    pub own: usize,
    /// The subflows, in the order of the connection: the first `count` are valid.
    pub paths: [PathView; MAX_PATHS_VIEW],
    /// The number of valid subflows.
    pub count: usize,
}

impl Paths {
    /// A view of these subflows (at most [`MAX_PATHS_VIEW`]) for subflow `own`.
    ///
    /// # Panics
    /// If there are more than [`MAX_PATHS_VIEW`] views, or `own` is out of range.
    pub fn new(own: usize, views: &[PathView]) -> Self {
        assert!(own < views.len(), "the own subflow is one of them");
        let mut paths = [PathView::default(); MAX_PATHS_VIEW];
        paths[..views.len()].copy_from_slice(views);
        Self { own, paths, count: views.len() }
    }

    /// All subflows.
    #[inline]
    pub fn all(&self) -> &[PathView] {
        &self.paths[..self.count]
    }

    /// The active subflows with their indices: all established ones, and always the scheme's subflow.
    #[inline]
    pub fn active(&self) -> impl Iterator<Item = (usize, &PathView)> {
        let own = self.own;
        self.all().iter().enumerate().filter(move |(i, path)| *i == own || path.established)
    }

    /// The scheme's subflow.
    #[inline]
    pub fn own(&self) -> &PathView {
        &self.paths[self.own]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The active subflows are the established ones and the scheme's subflow.
    #[test]
    fn paths_active_are_established_ones_and_the_own() {
        let path = |window, established| PathView { cwnd: Bytes::new(window), established, ..PathView::default() };
        let paths = Paths::new(1, &[path(1, true), path(2, false), path(3, false), path(4, true)]);
        let active: [Option<usize>; 4] = {
            let mut found = paths.active().map(|(i, _)| i);
            core::array::from_fn(|_| found.next())
        };
        assert_eq!(active, [Some(0), Some(1), Some(3), None]);
        assert_eq!((paths.all().len(), paths.own().cwnd), (4, Bytes::new(2)));
    }
}
