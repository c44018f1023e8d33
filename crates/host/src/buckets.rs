//! Rate limits per address of untrusted peers.
//!
//! Addresses share [`BUCKETS`] buckets by a hash under a secret key: the table does not grow, and nobody can choose
//! which bucket to exhaust.

use std::fmt;
use std::hash::Hasher as _;
use std::io;
use std::net::IpAddr;

use narrows_units::Nanos;
use siphasher::sip::SipHasher24;

/// Buckets that the addresses share.
pub const BUCKETS: usize = 1 << 12;
/// Bytes of a key.
const KEY: usize = 16;

/// Bytes from the system's random generator.
///
/// # Errors
/// If the system has no random numbers.
pub fn entropy<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// Hashes addresses under a secret key.
#[derive(Clone)]
pub struct Hasher([u8; KEY]);

impl fmt::Debug for Hasher {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

impl Hasher {
    /// A hasher with a new key.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> io::Result<Self> {
        Ok(Self(entropy()?))
    }

    /// The hash of an address with some ports.
    pub fn address(&self, ip: IpAddr, ports: &[u16]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        write_ip(&mut hasher, ip, 128);
        for port in ports {
            hasher.write(&port.to_be_bytes());
        }
        hasher.finish()
    }

    /// A number that cannot be computed without the key.
    pub fn secret(&self, number: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&number.to_be_bytes());
        hasher.finish()
    }

    fn prefix(&self, ip: IpAddr) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        let mapped = ip.to_canonical().is_ipv4();
        write_ip(&mut hasher, ip, if mapped { 128 } else { 64 });
        hasher.finish()
    }
}

fn write_ip(hasher: &mut SipHasher24, ip: IpAddr, bits: usize) {
    let ip = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    hasher.write(&ip.octets()[..bits / 8]);
}

/// Token buckets by address, each stored as the time at which it is full again.
#[derive(Debug)]
pub struct Buckets {
    hasher: Hasher,
    /// Time per token. `most`: time that fills a bucket.
    interval: Nanos,
    most: Nanos,
    full_at: Vec<Nanos>,
}

impl Buckets {
    /// Buckets of `burst` tokens, refilled at `per_second` tokens per second.
    pub fn new(hasher: Hasher, per_second: u64, burst: u64) -> Self {
        let interval = Nanos::from_nanos(1_000_000_000 / per_second.max(1));
        Self { hasher, interval, most: interval * burst, full_at: vec![Nanos::ZERO; BUCKETS] }
    }

    /// Takes a token from the bucket of `ip`. Returns whether the bucket had a token.
    pub fn take(&mut self, now: Nanos, ip: IpAddr) -> bool {
        let bucket = &mut self.full_at[self.hasher.prefix(ip) as usize % BUCKETS];
        let full_at = (*bucket).max(now) + self.interval;
        let allowed = full_at - now <= self.most;
        if allowed {
            *bucket = full_at;
        }
        allowed
    }
}
