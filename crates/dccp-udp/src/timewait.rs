//! Ended connections whose addresses must not open another connection yet, in compact records.
//!
//! A record is a hash of the connection's addresses under a secret key, and an expiry: 16 bytes in each of two
//! ordered sets. A collision refuses one Request in 2^64 / n.

use std::collections::{BTreeMap, BTreeSet};

use narrows_cc::Nanos;
use narrows_dccp::udp::Flow;
use narrows_host::buckets::Hasher;

/// Maximum number of ended connections remembered; beyond this number, the records that expire first are dropped.
pub const LIMIT: usize = 1 << 16;

/// The table.
pub struct TimeWait {
    hasher: Hasher,
    until: BTreeMap<u64, Nanos>,
    expiries: BTreeSet<(Nanos, u64)>,
}

impl TimeWait {
    pub fn new(hasher: Hasher) -> Self {
        Self { hasher, until: BTreeMap::new(), expiries: BTreeSet::new() }
    }

    /// Refuses the addresses until a time.
    pub fn insert(&mut self, flow: &Flow, until: Nanos) {
        let hash = hash(&self.hasher, flow);
        if let Some(before) = self.until.insert(hash, until) {
            self.expiries.remove(&(before, hash));
        }
        self.expiries.insert((until, hash));
        if self.expiries.len() > LIMIT {
            self.drop_first();
        }
    }

    /// Forgets expired records.
    pub fn expire(&mut self, now: Nanos) {
        while self.expiries.first().is_some_and(|(until, _)| *until <= now) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, hash)) = self.expiries.pop_first() {
            self.until.remove(&hash);
        }
    }

    pub fn contains(&self, flow: &Flow) -> bool {
        !self.until.is_empty() && self.until.contains_key(&hash(&self.hasher, flow))
    }

    /// The next expiry.
    pub fn deadline(&self) -> Nanos {
        self.expiries.first().map_or(Nanos::MAX, |(until, _)| *until)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.expiries.len()
    }
}

fn hash(hasher: &Hasher, flow: &Flow) -> u64 {
    hasher.address(flow.remote.ip(), &[flow.remote.port(), flow.remote_port, flow.local_port])
}
