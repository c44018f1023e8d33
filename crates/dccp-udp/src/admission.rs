//! Answers to packets without a connection, and their limits.
//!
//! * An address gets [`ANSWERS_PER_SECOND`] answers, after a burst of [`ANSWER_BURST`] ([`Buckets`]).
//! * All addresses together get at most one Reset per [`REFUSAL_INTERVAL`].
//! * While [`HALF_OPEN`] handshakes are incomplete, further Requests get an Init Cookie and leave no state.

use std::io;

use narrows_cc::Nanos;
use narrows_dccp::{Config, CookieKeys, Ends, Header, Kind, ResetCode, wire::Body};
use narrows_host::buckets::{Buckets, Hasher, entropy};

use crate::port::{AddressPair, Port};

/// Maximum number of incomplete handshakes with state.
pub const HALF_OPEN: usize = 16;

/// Answers per second and address, or 64-bit prefix of IPv6.
pub const ANSWERS_PER_SECOND: u64 = 20;

/// Maximum number of answers in a burst to an address that was silent before.
pub const ANSWER_BURST: u64 = 40;

/// Least time between two Resets without a connection; such a Reset has at most eight bytes more than the packet that
/// it answers.
pub const REFUSAL_INTERVAL: Nanos = Nanos::from_millis(10);

/// Answers that wait for the end of a receive call.
const MAX_WAITING: usize = 1 << 10;

/// Rate-limited answers to packets without a connection.
pub struct Answers {
    pub cookies: CookieKeys,
    buckets: Buckets,
    next_refusal: Nanos,
    waiting: Vec<(AddressPair, Vec<u8>)>,
}

impl Answers {
    pub fn new(hasher: Hasher) -> Self {
        Self {
            cookies: CookieKeys::default(),
            buckets: Buckets::new(hasher, ANSWERS_PER_SECOND, ANSWER_BURST),
            next_refusal: Nanos::ZERO,
            waiting: Vec::new(),
        }
    }

    /// Whether the address may get an answer; if so, counts it.
    pub fn admit(&mut self, now: Nanos, addresses: AddressPair) -> bool {
        self.buckets.take(now, addresses.remote.ip())
    }

    /// Answers `header` with a Reset, unless it is a Reset or the limits are reached.
    pub fn refuse(&mut self, now: Nanos, addresses: AddressPair, header: &Header, code: ResetCode) {
        if header.kind == Kind::Reset || now < self.next_refusal || !self.admit(now, addresses) {
            return;
        }
        self.next_refusal = now.saturating_add(REFUSAL_INTERVAL);
        let mut packet = Vec::new();
        header.refusal(code).encode(&[], &[], &mut packet);
        self.push(addresses, packet);
    }

    /// Answers a Request of `length` bytes without keeping state.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn send_cookie(
        &mut self,
        config: &Config,
        now: Nanos,
        addresses: AddressPair,
        header: &Header,
        body: &Body<'_>,
        length: usize,
    ) -> io::Result<()> {
        self.cookies.refresh(now, entropy)?;
        if let Some(packet) = self.cookies.answer(config, now, ends(addresses), header, body, length) {
            self.push(addresses, packet);
        }
        Ok(())
    }

    fn push(&mut self, addresses: AddressPair, packet: Vec<u8>) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push((addresses, packet));
        }
    }

    /// Sends the answers.
    pub fn flush(&mut self, port: &mut Port) {
        for (addresses, packet) in self.waiting.drain(..) {
            port.answer(addresses, &packet);
        }
    }
}

/// The addresses to which a cookie is bound.
pub fn ends(addresses: AddressPair) -> Ends {
    Ends { remote: addresses.remote, local: addresses.local }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waiting answers are limited, however many addresses send packets within one receive call.
    #[test]
    fn answers_waiting_beyond_limit_are_dropped() {
        let mut answers = Answers::new(Hasher::new().unwrap());
        let addresses = |number: usize| AddressPair {
            remote: format!("[2001:db8:{number:x}::1]:9").parse().unwrap(),
            local: "[::1]:6511".parse().unwrap(),
        };
        for number in 0..2 * MAX_WAITING {
            answers.push(addresses(number), vec![0; 24]);
        }
        assert_eq!(answers.waiting.len(), MAX_WAITING);
        assert_eq!(answers.waiting[0].0.remote, addresses(0).remote);
    }
}
