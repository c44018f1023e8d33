//! What a node knows of its neighbours: the way back of each flow, the next hop of each destination, and how many
//! messages an address may send and get.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use narrows_cc::Nanos;
use narrows_routers::negotiation::Id;

/// The node to which messages for these destinations are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Network of the destinations.
    pub network: Ipv4Addr,
    /// Bits of the network that count; 0: any destination.
    pub bits: u8,
    /// The node.
    pub address: SocketAddrV4,
}

impl NextHop {
    fn covers(&self, destination: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.bits.min(32))).unwrap_or(0);
        (self.network.to_bits() ^ destination.to_bits()) & mask == 0
    }

    /// The most specific hop for a destination.
    pub(super) fn find(all: &[Self], destination: Ipv4Addr) -> Option<SocketAddrV4> {
        let covering = all.iter().filter(|hop| hop.covers(destination));
        covering.max_by_key(|hop| hop.bits).map(|hop| hop.address)
    }
}

/// Order of IDs in the table.
fn key(id: Id) -> (u32, u32, u16) {
    (id.content, id.destination, id.subflow)
}

/// The neighbours of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Number of the flow for the router algorithm.
    pub(super) flow: u32,
    pub(super) previous: SocketAddrV4,
    pub(super) next: SocketAddrV4,
    seen: Nanos,
    /// The requester has ended the flow; repetitions may follow.
    ended: bool,
}

/// Answer to a look-up for a message from the requester's side.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    Known(Peer),
    New(Peer),
    /// Another neighbour has this ID.
    Foreign,
    /// No room.
    Full,
}

/// The neighbours of all flows, bounded.
#[derive(Debug)]
pub(super) struct Peers {
    by_id: BTreeMap<(u32, u32, u16), Peer>,
    by_flow: BTreeMap<u32, (u32, u32, u16)>,
    limit: usize,
    idle: Nanos,
    next_flow: u32,
    next_sweep: Nanos,
}

impl Peers {
    /// A table of at most `limit` flows, which end after a silence of `idle`.
    pub(super) fn new(limit: usize, idle: Nanos) -> Self {
        Self {
            by_id: BTreeMap::new(),
            by_flow: BTreeMap::new(),
            limit,
            idle,
            next_flow: 0,
            next_sweep: Nanos::ZERO,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The neighbours of the flow with this ID, of which a message arrives from `previous`; a new one gets `next`.
    pub(super) fn towards_responder(
        &mut self,
        now: Nanos,
        id: Id,
        previous: SocketAddrV4,
        next: SocketAddrV4,
    ) -> Found {
        self.sweep(now);
        if let Some(known) = self.by_id.get_mut(&key(id)) {
            // A requester that restarts has another port.
            if known.previous.ip() != previous.ip() && !known.ended {
                return Found::Foreign;
            }
            (known.previous, known.next, known.seen, known.ended) = (previous, next, now, false);
            return Found::Known(*known);
        }
        if self.by_id.len() >= self.limit {
            return Found::Full;
        }
        while self.by_flow.contains_key(&self.next_flow) || self.next_flow == u32::MAX {
            self.next_flow = self.next_flow.wrapping_add(1);
        }
        let peer = Peer { flow: self.next_flow, previous, next, seen: now, ended: false };
        self.next_flow = self.next_flow.wrapping_add(1);
        self.by_id.insert(key(id), peer);
        self.by_flow.insert(peer.flow, key(id));
        Found::New(peer)
    }

    /// The neighbours of a flow of which a message arrives from `next`.
    pub(super) fn towards_requester(&mut self, id: Id, next: SocketAddrV4) -> Option<Peer> {
        self.by_id.get(&key(id)).copied().filter(|peer| peer.next == next)
    }

    /// The neighbours of a numbered flow.
    pub(super) fn of_flow(&self, flow: u32) -> Option<Peer> {
        self.by_id.get(self.by_flow.get(&flow)?).copied()
    }

    /// The neighbours of a flow that its requester ends, and whether it is the first time.
    pub(super) fn end(&mut self, id: Id, previous: SocketAddrV4) -> Option<(Peer, bool)> {
        let peer = self.by_id.get_mut(&key(id)).filter(|peer| peer.previous == previous)?;
        let first = !std::mem::replace(&mut peer.ended, true);
        Some((*peer, first))
    }

    /// Forgets silent flows; a look over all of them, at most once a second.
    fn sweep(&mut self, now: Nanos) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + Nanos::from_secs(1);
        let (idle, by_flow) = (self.idle, &mut self.by_flow);
        self.by_id.retain(|_, peer| {
            let stays = now - peer.seen < idle;
            if !stays {
                by_flow.remove(&peer.flow);
            }
            stays
        });
    }
}

/// Addresses with a limit at a time.
const ADDRESSES: usize = 4096;
/// Seconds of the limit that may come at once.
const BURST_S: f64 = 0.5;

/// A limit of messages per second for each address.
#[derive(Debug)]
pub(super) struct Limiter {
    per_s: f64,
    buckets: BTreeMap<Ipv4Addr, (f64, Nanos)>,
}

impl Limiter {
    pub(super) fn new(per_s: u32) -> Self {
        Self { per_s: f64::from(per_s.max(1)), buckets: BTreeMap::new() }
    }

    /// Takes one message of this address from its allowance; returns whether there was one.
    pub(super) fn take(&mut self, now: Nanos, address: Ipv4Addr) -> bool {
        let most = (self.per_s * BURST_S).max(1.0);
        if self.buckets.len() >= ADDRESSES && !self.buckets.contains_key(&address) {
            let per_s = self.per_s;
            // Full buckets carry nothing to remember.
            self.buckets.retain(|_, (left, at)| *left + (now - *at).as_secs_f64() * per_s < most);
            if self.buckets.len() >= ADDRESSES {
                return false;
            }
        }
        let (left, at) = self.buckets.entry(address).or_insert((most, now));
        *left = (*left + (now - *at).as_secs_f64() * self.per_s).min(most);
        *at = now;
        let granted = *left >= 1.0;
        *left -= f64::from(u8::from(granted));
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port)
    }

    fn id(content: u32) -> Id {
        Id { content, destination: 1, subflow: 0 }
    }

    /// The longest prefix decides, and a hop without a prefix takes the rest.
    #[test]
    fn next_hop_is_the_most_specific() {
        let hop =
            |network: [u8; 4], bits, last| NextHop { network: network.into(), bits, address: at(last, 1) };
        let all = [hop([0, 0, 0, 0], 0, 1), hop([10, 1, 0, 0], 16, 2), hop([10, 1, 2, 3], 32, 3)];
        let find = |address: [u8; 4]| NextHop::find(&all, address.into()).map(|hop| hop.ip().octets()[3]);
        assert_eq!(find([192, 0, 2, 1]), Some(1));
        assert_eq!(find([10, 1, 9, 9]), Some(2));
        assert_eq!(find([10, 1, 2, 3]), Some(3));
        assert_eq!(NextHop::find(&all[1..], [10, 2, 0, 1].into()), None);
    }

    /// A flow belongs to the neighbour that opened it until it is silent for long.
    #[test]
    fn peers_belong_to_the_first_neighbour() {
        let mut peers = Peers::new(2, Nanos::from_secs(20));
        let now = Nanos::from_secs(1);
        assert!(matches!(peers.towards_responder(now, id(1), at(1, 5), at(2, 5)), Found::New(_)));
        assert!(matches!(peers.towards_responder(now, id(1), at(1, 5), at(2, 5)), Found::Known(_)));
        assert!(matches!(peers.towards_responder(now, id(1), at(3, 5), at(2, 5)), Found::Foreign));
        assert!(peers.towards_requester(id(1), at(2, 5)).is_some());
        assert!(peers.towards_requester(id(1), at(3, 5)).is_none());
        assert!(matches!(peers.towards_responder(now, id(2), at(1, 5), at(2, 5)), Found::New(_)));
        assert!(matches!(peers.towards_responder(now, id(3), at(1, 5), at(2, 5)), Found::Full));
        assert!(peers.end(id(1), at(3, 5)).is_none());
        assert_eq!(peers.end(id(1), at(1, 5)).map(|ended| ended.1), Some(true));
        assert_eq!(peers.end(id(1), at(1, 5)).map(|ended| ended.1), Some(false));
        assert!(matches!(peers.towards_responder(now, id(1), at(3, 5), at(2, 5)), Found::Known(_)));
        let later = Nanos::from_secs(30);
        assert!(matches!(peers.towards_responder(later, id(1), at(1, 6), at(2, 5)), Found::New(_)));
        assert_eq!(peers.len(), 1);
    }

    /// An address has its rate and a burst, and others have theirs; the table stays bounded.
    #[test]
    fn limiter_bounds_each_address() {
        let mut limiter = Limiter::new(100);
        let taken =
            |limiter: &mut Limiter, now| (0..1000).filter(|_| limiter.take(now, Ipv4Addr::LOCALHOST)).count();
        assert_eq!(taken(&mut limiter, Nanos::ZERO), 50);
        assert_eq!(taken(&mut limiter, Nanos::from_millis(100)), 10);
        for n in 0..10_000 {
            limiter.take(Nanos::from_millis(100), Ipv4Addr::from_bits(n));
        }
        assert!(limiter.buckets.len() <= ADDRESSES);
    }
}
