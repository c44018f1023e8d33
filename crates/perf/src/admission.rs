//! Admission of clients to a test server: bounds on handshakes and tests.
//!
//! * At most one pending handshake from an unproven address. While it is pending, other addresses must answer a
//!   Retry packet (RFC 9000 section 8.1.2). A Retry costs the server no state and is shorter than the packet
//!   that it answers.
//! * At most [`PENDING`] connections that have not requested a test.
//! * A limit on tests, and on connections per address (for IPv6, per 64-bit prefix).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of connections that have not requested a test.
pub(super) const PENDING: usize = 64;

#[derive(Debug, Default)]
struct Occupied {
    /// Whether a handshake of an unproven address is pending.
    unproven: bool,
    /// Number of proven connections without a test.
    pending: usize,
    tests: usize,
    /// Number of proven connections by address, including those with a test.
    by_address: BTreeMap<IpAddr, usize>,
}

/// The limited slots of a server.
#[derive(Debug)]
pub(super) struct Admission {
    occupied: Mutex<Occupied>,
    tests: usize,
    per_address: usize,
}

/// The decision about the first packet of a connection.
#[derive(Debug)]
pub(super) enum Arrival {
    /// The server accepts the handshake.
    Accepted(Place),
    /// The client must prove its address first.
    Retry,
    /// No slot is free, for this reason.
    Refused(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unproven,
    Pending,
    Test,
}

/// The slot of a connection; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Place {
    admission: Arc<Admission>,
    address: IpAddr,
    stage: Stage,
}

impl Admission {
    /// Creates slots for this many tests, and for this many connections from one address.
    pub(super) fn new(tests: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self { occupied: Mutex::default(), tests, per_address })
    }

    fn occupied(&self) -> MutexGuard<'_, Occupied> {
        self.occupied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about the first packet of a connection. `proven`: a token proves the client's address.
    pub(super) fn arrival(self: &Arc<Self>, address: IpAddr, proven: bool) -> Arrival {
        let address = prefix(address);
        let stage = if proven { Stage::Pending } else { Stage::Unproven };
        let mut occupied = self.occupied();
        if proven {
            if let Some(reason) = self.crowded(&occupied, address) {
                return Arrival::Refused(reason);
            }
            occupied.pending += 1;
            *occupied.by_address.entry(address).or_default() += 1;
        } else if occupied.unproven {
            return Arrival::Retry;
        } else {
            occupied.unproven = true;
        }
        Arrival::Accepted(Place { admission: Arc::clone(self), address, stage })
    }

    /// The reason why no slot is free for another connection of this address.
    fn crowded(&self, occupied: &Occupied, address: IpAddr) -> Option<String> {
        if occupied.by_address.get(&address).is_some_and(|count| *count >= self.per_address) {
            return Some(format!("this address has as many connections as it may, {}", self.per_address));
        }
        (occupied.pending >= PENDING).then(|| "too many connections wait for a test".to_owned())
    }
}

impl Place {
    pub(super) fn is_unproven(&self) -> bool {
        self.stage == Stage::Unproven
    }

    /// Records that the handshake is complete, which proves the address.
    ///
    /// # Errors
    /// The reason why no slot is free.
    pub(super) fn prove(&mut self) -> Result<(), String> {
        if self.stage == Stage::Unproven {
            let mut occupied = self.admission.occupied();
            if let Some(reason) = self.admission.crowded(&occupied, self.address) {
                return Err(reason);
            }
            occupied.unproven = false;
            occupied.pending += 1;
            *occupied.by_address.entry(self.address).or_default() += 1;
            self.stage = Stage::Pending;
        }
        Ok(())
    }

    /// Records that the connection has requested a test.
    ///
    /// # Errors
    /// The reason why no slot is free.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        let mut occupied = self.admission.occupied();
        if occupied.tests >= self.admission.tests {
            let most = self.admission.tests;
            return Err(format!("the server is busy: {most} test{} at a time", if most == 1 { "" } else { "s" }));
        }
        occupied.pending -= 1;
        occupied.tests += 1;
        self.stage = Stage::Test;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut occupied = self.admission.occupied();
        match self.stage {
            Stage::Unproven => return occupied.unproven = false,
            Stage::Pending => occupied.pending -= 1,
            Stage::Test => occupied.tests -= 1,
        }
        let left = occupied.by_address.get_mut(&self.address).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            occupied.by_address.remove(&self.address);
        }
    }
}

/// The address itself, or for IPv6 its 64-bit prefix, because one host may own the whole prefix.
fn prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(whole) => IpAddr::V6((u128::from(whole) >> 64 << 64).into()),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(arrival: Arrival) -> Place {
        match arrival {
            Arrival::Accepted(place) => place,
            other => panic!("{other:?}"),
        }
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    /// Only one handshake of an unproven address is pending at a time: other clients get a Retry, and a slot
    /// once their address is proven.
    #[test]
    fn unproven_handshakes_cost_one_place() {
        let admission = Admission::new(8, 4);
        let first = taken(admission.arrival(address(1), false));
        for last in 2..100 {
            assert!(matches!(admission.arrival(address(last), false), Arrival::Retry));
        }
        let mut proven = taken(admission.arrival(address(200), true));
        assert_eq!(proven.begin(), Ok(()));
        drop(first);
        assert!(taken(admission.arrival(address(2), false)).is_unproven());
        assert!(taken(admission.arrival(address(3), false)).is_unproven(), "the place is free again");
    }

    /// The numbers of connections without a test, of connections per address and of tests are bounded, and
    /// every slot becomes free again.
    #[test]
    fn places_are_bounded_and_free_again() {
        let admission = Admission::new(2, 3);
        let mut own: Vec<Place> = (0..3).map(|_| taken(admission.arrival(address(1), true))).collect();
        assert!(matches!(admission.arrival(address(1), true), Arrival::Refused(_)));
        let mut unproven = taken(admission.arrival(address(1), false));
        assert!(unproven.prove().is_err_and(|reason| reason.contains("may, 3")));
        drop(unproven);
        assert!(own[0].begin().is_ok() && own[1].begin().is_ok());
        assert!(own[2].begin().is_err_and(|reason| reason.contains("2 tests at a time")));
        drop(own);
        let many: Vec<Place> = (0..PENDING as u8).map(|last| taken(admission.arrival(address(last), true))).collect();
        assert!(matches!(admission.arrival(address(250), true), Arrival::Refused(_)));
        drop(many);
        let occupied = admission.occupied();
        assert!((occupied.pending, occupied.tests, occupied.unproven) == (0, 0, false), "{occupied:?}");
        assert!(occupied.by_address.is_empty(), "{occupied:?}");
    }

    /// IPv6 addresses with a common prefix count as one address, and an IPv4-mapped IPv6 address counts as its
    /// IPv4 address.
    #[test]
    fn prefixes_of_ipv6_count_as_one_address() {
        let parsed = |text: &str| prefix(text.parse().expect("an address"));
        assert_eq!(parsed("2001:db8::1"), parsed("2001:db8::ffff:1"));
        assert_ne!(parsed("2001:db8::1"), parsed("2001:db8:0:1::1"));
        assert_eq!(parsed("::ffff:192.0.2.1"), address(1));
        assert_ne!(parsed("::ffff:192.0.2.1"), parsed("::ffff:192.0.2.2"));
    }
}
