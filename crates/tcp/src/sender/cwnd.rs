//! The cwnd in force: that of the scheme or of proportional rate reduction, plus inflation if SACK is off.

use narrows_cc::{AnyScheme, Bytes, Driver, Prr, PrrBound};

/// Driver of the scheme, and the cwnd derived from it.
// The driver comes last: see `Sender`.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Window {
    prr: Prr,
    /// The cwnd in force, in bytes.
    pub(super) cwnd: u64,
    /// Without SACK: inflation by packets that have left the network (RFC 6582), in bytes.
    pub(super) inflation: i64,
    /// Whether proportional rate reduction controls the cwnd.
    pub(super) reducing: bool,
    pub(super) driver: Driver,
}

impl Window {
    pub(super) fn new(scheme: AnyScheme) -> Self {
        let driver = Driver::new(scheme);
        let cwnd = driver.control().cwnd.as_u64();
        Self { cwnd, inflation: 0, driver, prr: Prr::default(), reducing: false }
    }

    /// Copies the scheme's cwnd, unless proportional rate reduction controls it.
    #[inline]
    pub(super) fn follow(&mut self, mss: Bytes) {
        if !self.reducing {
            self.cwnd = self.driver.control().cwnd.as_u64();
            if self.inflation != 0 {
                self.cwnd = self.cwnd.saturating_add_signed(self.inflation).max(mss.as_u64());
            }
        }
    }

    /// Whether the cwnd allows `len` more bytes in flight. One packet may always be in flight.
    #[inline]
    pub(super) fn has_room(&self, inflight: Bytes, len: u64) -> bool {
        let inflight = inflight.as_u64();
        inflight + len <= self.cwnd || inflight == 0
    }

    /// Accounts for a departing packet with payload.
    #[inline]
    pub(super) fn on_sent(&mut self, bytes: Bytes) {
        if self.reducing {
            self.prr.on_sent(bytes);
        }
    }

    /// Enters recovery with `flight_size` outstanding. If `reducing`, the cwnd approaches the scheme's cwnd over a
    /// round trip; otherwise it is set to the scheme's cwnd immediately.
    pub(super) fn enter_recovery(&mut self, reducing: bool, flight_size: Bytes, bound: PrrBound) {
        self.reducing = reducing;
        self.inflation = 0;
        if reducing {
            self.prr = Prr::begin(self.driver.control().cwnd, flight_size, bound);
        }
    }

    /// Updates the cwnd during a reduction, after an acknowledgement or timer; see [`Prr::on_ack`].
    #[inline]
    pub(super) fn reduce(&mut self, acked: Bytes, pipe: Bytes, good: bool, mss: Bytes) {
        self.cwnd = self.prr.on_ack(acked, pipe, good, mss).max(mss).as_u64();
    }

    /// Returns control to the scheme's cwnd.
    pub(super) fn leave_recovery(&mut self) {
        self.reducing = false;
        self.inflation = 0;
    }

    /// Without SACK: bytes presumed delivered, one segment per duplicate acknowledgement.
    #[inline]
    pub(super) fn presumed_delivered(&self) -> Bytes {
        Bytes::new(self.inflation.max(0) as u64)
    }
}
