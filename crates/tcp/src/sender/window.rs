//! The congestion window in force: the scheme's, or that of proportional rate reduction, and the inflation
//! without SACK.

use narrows_cc::{AnyScheme, Bytes, Driver};

use super::prr::Prr;

/// The driver of the scheme, and the window that the sender derives from it.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The window in force, in bytes.
    pub(super) cwnd: u64,
    /// Without SACK: by how much departed packets inflate the window (RFC 6582), in bytes.
    inflation: i64,
    pub(super) driver: Driver,
    prr: Prr,
    /// Proportional rate reduction shapes the window.
    reducing: bool,
}

impl Window {
    pub(super) fn new(scheme: AnyScheme) -> Self {
        let driver = Driver::new(scheme);
        let cwnd = driver.control().cwnd.as_u64();
        Self { cwnd, inflation: 0, driver, prr: Prr::default(), reducing: false }
    }

    /// Follows the window of the control in force, unless proportional rate reduction shapes it.
    #[inline]
    pub(super) fn follow(&mut self, mss: Bytes) {
        if !self.reducing {
            self.cwnd = self.driver.control().cwnd.as_u64();
            if self.inflation != 0 {
                self.cwnd = self.cwnd.saturating_add_signed(self.inflation).max(mss.as_u64());
            }
        }
    }

    /// Whether the window has room for `len` bytes beside those in flight. One packet always may be in
    /// flight.
    #[inline]
    pub(super) fn has_room(&self, inflight: Bytes, len: u64) -> bool {
        let inflight = inflight.as_u64();
        inflight + len <= self.cwnd || inflight == 0
    }

    /// A packet with payload leaves.
    #[inline]
    pub(super) fn on_sent(&mut self, bytes: Bytes) {
        if self.reducing {
            self.prr.on_sent(bytes);
        }
    }

    #[inline]
    pub(super) fn is_reducing(&self) -> bool {
        self.reducing
    }

    /// Recovery begins with `flight_size` outstanding: the window approaches the scheme's over a round trip,
    /// or takes it at once.
    pub(super) fn enter_recovery(&mut self, reducing: bool, flight_size: Bytes) {
        self.reducing = reducing;
        self.inflation = 0;
        if reducing {
            self.prr = Prr::begin(self.driver.control().cwnd, flight_size);
        }
    }

    /// An acknowledgement, or the time, during a reduction: see [`Prr::on_ack`].
    #[inline]
    pub(super) fn reduce(&mut self, acked: Bytes, pipe: Bytes, good: bool, mss: Bytes) {
        self.cwnd = self.prr.on_ack(acked, pipe, good, mss).max(mss).as_u64();
    }

    /// The scheme's window holds again, as it is.
    pub(super) fn leave_recovery(&mut self) {
        self.reducing = false;
        self.inflation = 0;
    }

    /// Without SACK the window is inflated by a segment for each packet that a duplicate acknowledgement
    /// reports.
    #[inline]
    pub(super) fn presumed_delivered(&self) -> Bytes {
        Bytes::new(self.inflation.max(0) as u64)
    }

    /// Without SACK: inflates the window by so much and no more.
    #[inline]
    pub(super) fn set_inflation(&mut self, bytes: i64) {
        self.inflation = bytes;
    }

    /// Without SACK: inflates the window by so much more, or less.
    #[inline]
    pub(super) fn inflate(&mut self, bytes: i64) {
        self.inflation += bytes;
    }
}
