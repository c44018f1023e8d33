//! Requests of flows whose responder has not answered yet. The node gives such a request no record and no rate;
//! it only forwards the request, with a secret in the lowest bits of Rtt. The responder's answer, which repeats
//! Rtt, proves the flow.
//!
//! An attacker that invents requesters or responders can at most displace other unproven requests, because
//! these have a separate allowance for each next node or responder.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use narrows_cc::{Nanos, Rate};
use narrows_host::buckets::Hasher;
use narrows_packet::ControlMessage;
use narrows_routers::negotiation::{ATTENDED, Id, LONGEST_RTT_US, Message, Negotiation};

use super::peers::{Key, Limiter, key};

/// Maximum number of waiting requests; a further one displaces the oldest.
pub(super) const MOST: usize = 8192;
/// Maximum number of waiting requests from one address.
pub(super) const PER_ADDRESS: usize = MOST / 8;
/// Time after which the node forgets an unanswered request.
const PATIENCE: Nanos = Nanos::from_secs(5);
/// The bits of Rtt that carry the secret. They change Rtt by at most 4 ms, which hardly matters to predictions
/// of arrivals.
const SECRET: u32 = 0xfff;

/// Unproven requests get this fraction, 1/`SHARE`, of the node's limit of messages to an address.
const SHARE: u32 = 4;

/// A waiting request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) id: Id,
    pub(super) max: Rate,
    pub(super) min: Rate,
    pub(super) rtt_us: u32,
    pub(super) previous: SocketAddrV4,
    pub(super) next: SocketAddrV4,
}

/// The waiting requests, bounded.
#[derive(Debug)]
pub(super) struct Unproven {
    /// Requests by ID and forwarded Rtt. The number distinguishes requests that use the same key one after the other.
    by_answer: BTreeMap<(Key, u32), (u64, Asked)>,
    by_age: VecDeque<(Nanos, (Key, u32), u64)>,
    per_address: BTreeMap<Ipv4Addr, usize>,
    secrets: Hasher,
    /// Limits requests by the address to which they are forwarded.
    limiter: Limiter,
    number: u64,
}

impl Unproven {
    /// Creates an empty table for a node that sends at most `messages_per_s` to an address.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new(messages_per_s: u32) -> io::Result<Self> {
        Ok(Self {
            by_answer: BTreeMap::new(),
            by_age: VecDeque::new(),
            per_address: BTreeMap::new(),
            secrets: Hasher::new()?,
            limiter: Limiter::new(messages_per_s / SHARE)?,
            number: 0,
        })
    }

    /// Stores a request and returns the message to forward; `None` if the request exceeds the limit of the
    /// requester's address or of the next hop.
    pub(super) fn add(&mut self, now: Nanos, asked: Asked) -> Option<ControlMessage> {
        while self.by_age.front().is_some_and(|(at, ..)| now - *at >= PATIENCE) {
            self.forget_oldest();
        }
        if self.per_address.get(asked.previous.ip()).is_some_and(|count| *count >= PER_ADDRESS)
            || !self.limiter.take(now, *asked.next.ip())
        {
            return None;
        }
        if self.by_age.len() >= MOST {
            self.forget_oldest();
        }
        self.number += 1;
        let rtt = (asked.rtt_us & !ATTENDED).min(LONGEST_RTT_US - SECRET) & !SECRET;
        let rtt = rtt | self.secrets.secret(self.number) as u32 & SECRET;
        let place = (key(asked.id), rtt);
        self.remove(place);
        self.by_answer.insert(place, (self.number, asked));
        self.by_age.push_back((now, place, self.number));
        *self.per_address.entry(*asked.previous.ip()).or_default() += 1;
        let Asked { id, max, min, rtt_us, .. } = asked;
        let rtt_us = rtt | rtt_us & ATTENDED;
        let probe = Message::Negotiation { kind: Negotiation::Request, max, min, id, rtt_us };
        Some(ControlMessage::new(probe.encode().as_bytes()))
    }

    /// Removes and returns the request that an answer from `next` with this Rtt proves.
    pub(super) fn take(&mut self, id: Id, next: SocketAddrV4, rtt_us: u32) -> Option<Asked> {
        let place = (key(id), rtt_us & !ATTENDED);
        self.by_answer.get(&place).filter(|(_, own)| own.next == next)?;
        self.remove(place)
    }

    fn forget_oldest(&mut self) {
        if let Some((_, place, number)) = self.by_age.pop_front()
            && self.by_answer.get(&place).is_some_and(|own| own.0 == number)
        {
            self.remove(place);
        }
    }

    fn remove(&mut self, place: (Key, u32)) -> Option<Asked> {
        let (_, asked) = self.by_answer.remove(&place)?;
        let address = *asked.previous.ip();
        if let Some(count) = self.per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&address);
            }
        }
        Some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(content: u32, from: u32) -> Asked {
        let rate = Rate::from_bytes_per_sec;
        Asked {
            id: Id { content, destination: 9, subflow: 0 },
            max: rate(1_000),
            min: rate(10),
            rtt_us: 20_003,
            previous: SocketAddrV4::new(Ipv4Addr::from_bits(from), 5),
            next: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 6),
        }
    }

    fn rtt(forwarded: &ControlMessage) -> u32 {
        match Message::decode(forwarded.as_bytes()) {
            Ok(Message::Negotiation { kind: Negotiation::Request, rtt_us, .. }) => rtt_us,
            other => panic!("{other:?}"),
        }
    }

    /// Only the responder's answer with the secret proves a flow, and only once.
    #[test]
    fn unproven_needs_the_secret_of_its_request() {
        let mut all = Unproven::new(1_000_000).unwrap();
        let own = asked(1, 1);
        let sent = rtt(&all.add(Nanos::ZERO, own).unwrap());
        assert!(sent.abs_diff(own.rtt_us) <= SECRET);
        let other = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7);
        assert!(all.take(own.id, other, sent).is_none());
        assert!(all.take(own.id, own.next, sent ^ 1).is_none());
        assert_eq!(all.take(own.id, own.next, sent | ATTENDED).map(|own| own.rtt_us), Some(20_003));
        assert!(all.take(own.id, own.next, sent).is_none());
        assert!(all.per_address.is_empty());
        let longest = Asked { rtt_us: LONGEST_RTT_US | ATTENDED, ..own };
        assert!(rtt(&all.add(Nanos::ZERO, longest).unwrap()) & !ATTENDED <= LONGEST_RTT_US);
        // The secrets of requests differ.
        let secrets: std::collections::BTreeSet<u32> =
            (0..100).map(|n| rtt(&all.add(Nanos::ZERO, asked(n, n)).unwrap()) & SECRET).collect();
        assert!(secrets.len() > 80, "{}", secrets.len());
    }

    /// Memory is bounded: each address has a share, a new request displaces the oldest, and requests time out.
    #[test]
    fn unproven_requests_are_bounded() {
        let mut all = Unproven::new(1_000_000).unwrap();
        let added = (0..2 * MOST as u32).filter(|n| all.add(Nanos::ZERO, asked(*n, 1)).is_some()).count();
        assert_eq!((added, all.by_answer.len()), (PER_ADDRESS, PER_ADDRESS));
        let last = (0..2 * MOST as u32)
            .map(|n| all.add(Nanos::from_secs(1), asked(n, n + 2)).expect("another address"))
            .last()
            .expect("many");
        assert!(all.by_answer.len() <= MOST && all.by_age.len() <= MOST && all.per_address.len() <= MOST);
        let newest = asked(2 * MOST as u32 - 1, 0);
        assert!(all.take(newest.id, newest.next, rtt(&last)).is_some());
        assert!(all.add(Nanos::from_secs(6), asked(1, 1)).is_some(), "its share is free again");
        assert_eq!(all.by_answer.len(), 1);
    }
}
