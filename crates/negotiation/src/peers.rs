//! A node's records of its neighbours: the reverse path of each flow, the next hop of each destination, and
//! limits of messages per address.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use narrows_cc::Nanos;
use narrows_host::buckets::{Buckets, Hasher};
use narrows_routers::negotiation::{ATTENDED, Id};

/// A node that receives the messages for these destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Network of the destinations.
    pub network: Ipv4Addr,
    /// Prefix length; 0: any destination.
    pub bits: u8,
    /// The node's address.
    pub address: SocketAddrV4,
}

impl NextHop {
    fn covers(&self, destination: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.bits.min(32))).unwrap_or(0);
        (self.network.to_bits() ^ destination.to_bits()) & mask == 0
    }

    /// The most specific entry for a destination.
    pub(super) fn find(all: &[Self], destination: Ipv4Addr) -> Option<SocketAddrV4> {
        let covering = all.iter().filter(|hop| hop.covers(destination));
        covering.max_by_key(|hop| hop.bits).map(|hop| hop.address)
    }
}

/// Sort key of flow IDs in tables.
pub(super) type Key = (u32, u32, u16);

pub(super) fn key(id: Id) -> Key {
    (id.content, id.destination, id.subflow)
}

/// The neighbours of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// The flow's number in the router algorithm.
    pub(super) flow: u32,
    pub(super) previous: SocketAddrV4,
    pub(super) next: SocketAddrV4,
    seen: Nanos,
    /// Whether the requester has ended the flow; copies of its termination may follow.
    ended: bool,
    /// Rtt field of the node's correction: a request for a lower rate that this node sent to the nodes after
    /// it, towards the responder. This node consumes the answer.
    correction: Option<u32>,
    /// The rate in the flow's last log line, in hundredths of Mbit/s; `None` after a refusal or before the first line.
    reported_rate: Option<u64>,
}

/// Result of looking up the flow of a message from the requester's side.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    Known(Peer),
    /// The flow is new or has ended.
    Unknown,
    /// The ID belongs to another neighbour's flow.
    Foreign,
}

/// The neighbours of all flows whose responder has answered, up to a maximum number of flows.
#[derive(Debug)]
pub(super) struct Peers {
    by_id: BTreeMap<Key, Peer>,
    by_flow: BTreeMap<u32, Key>,
    limit: usize,
    idle: Nanos,
    next_flow: u32,
    next_sweep: Nanos,
}

impl Peers {
    /// Creates a table of at most `limit` flows. A flow is removed after `idle` without a message.
    pub(super) fn new(limit: usize, idle: Nanos) -> Self {
        Self { by_id: BTreeMap::new(), by_flow: BTreeMap::new(), limit, idle, next_flow: 0, next_sweep: Nanos::ZERO }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The neighbours of the flow with this ID, whose request arrived from `previous` and goes to `next`.
    pub(super) fn towards_responder(
        &mut self,
        now: Nanos,
        id: Id,
        previous: SocketAddrV4,
        next: SocketAddrV4,
    ) -> Found {
        self.sweep(now);
        if let Some(known) = self.by_id.get_mut(&key(id)) {
            if known.ended {
                return Found::Unknown;
            }
            // Ignore the port, because a restarted requester has another port.
            if known.previous.ip() != previous.ip() {
                return Found::Foreign;
            }
            (known.previous, known.next, known.seen) = (previous, next, now);
            return Found::Known(*known);
        }
        Found::Unknown
    }

    /// Adds a flow whose responder has answered. `None` if the table is full or the ID belongs to another neighbour.
    pub(super) fn insert(&mut self, now: Nanos, id: Id, previous: SocketAddrV4, next: SocketAddrV4) -> Option<Peer> {
        let known = self.by_id.get(&key(id)).copied();
        let flow = match known {
            Some(known) if known.ended => known.flow,
            Some(_) => return None,
            None if self.by_id.len() >= self.limit => return None,
            None => {
                while self.by_flow.contains_key(&self.next_flow) || self.next_flow == u32::MAX {
                    self.next_flow = self.next_flow.wrapping_add(1);
                }
                self.next_flow
            }
        };
        let peer = Peer { flow, previous, next, seen: now, ended: false, correction: None, reported_rate: None };
        self.by_id.insert(key(id), peer);
        self.by_flow.insert(flow, key(id));
        Some(peer)
    }

    /// Records that this node sends the later nodes a request with this Rtt.
    pub(super) fn expect_correction(&mut self, id: Id, rtt_us: u32) {
        if let Some(peer) = self.by_id.get_mut(&key(id)) {
            peer.correction = Some(rtt_us & !ATTENDED);
        }
    }

    /// Whether an answer with this Rtt acknowledges this node's correction; true once per correction.
    pub(super) fn take_correction(&mut self, id: Id, rtt_us: u32) -> bool {
        let Some(peer) = self.by_id.get_mut(&key(id)) else { return false };
        peer.correction.take_if(|own| *own == rtt_us & !ATTENDED).is_some()
    }

    /// The neighbours of a flow whose message came from `next`. `None` for an ended flow, because the answer
    /// then belongs to a new flow with the same ID.
    pub(super) fn towards_requester(&mut self, id: Id, next: SocketAddrV4) -> Option<Peer> {
        self.by_id.get(&key(id)).copied().filter(|peer| peer.next == next && !peer.ended)
    }

    /// Records the rate of a flow's next log line, in hundredths of Mbit/s, or `None` for a refusal. Returns
    /// whether the value differs from the last line's.
    pub(super) fn report_rate(&mut self, id: Id, hundredths: Option<u64>) -> bool {
        let Some(peer) = self.by_id.get_mut(&key(id)) else { return true };
        std::mem::replace(&mut peer.reported_rate, hundredths) != hundredths
    }

    /// The neighbours of the flow with this number.
    pub(super) fn of_flow(&self, flow: u32) -> Option<Peer> {
        self.by_id.get(self.by_flow.get(&flow)?).copied()
    }

    /// Ends a flow because its requester sent a termination. Returns the flow's neighbours, and whether this is
    /// the first termination.
    pub(super) fn end(&mut self, id: Id, previous: SocketAddrV4) -> Option<(Peer, bool)> {
        let peer = self.by_id.get_mut(&key(id)).filter(|peer| peer.previous == previous)?;
        let first = !std::mem::replace(&mut peer.ended, true);
        Some((*peer, first))
    }

    /// Removes silent flows; checks all flows at most once a second.
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

/// Limits the messages per second of each address. Addresses share buckets by a keyed hash, so invented
/// addresses can neither fill a table nor block other addresses.
#[derive(Debug)]
pub(super) struct Limiter(Buckets);

impl Limiter {
    /// Creates a limit of `per_s` messages per second, with a burst of half a second.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new(per_s: u32) -> io::Result<Self> {
        let per_s = u64::from(per_s.max(1));
        Ok(Self(Buckets::new(Hasher::new()?, per_s, (per_s / 2).max(1))))
    }

    /// Takes one message from this address's allowance; returns whether the allowance had one left.
    pub(super) fn take(&mut self, now: Nanos, address: Ipv4Addr) -> bool {
        self.0.take(now, address.into())
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

    /// The next hop with the longest matching prefix is chosen; prefix length 0 matches all other destinations.
    #[test]
    fn next_hop_is_the_most_specific() {
        let hop = |network: [u8; 4], bits, last| NextHop { network: network.into(), bits, address: at(last, 1) };
        let all = [hop([0, 0, 0, 0], 0, 1), hop([10, 1, 0, 0], 16, 2), hop([10, 1, 2, 3], 32, 3)];
        let find = |address: [u8; 4]| NextHop::find(&all, address.into()).map(|hop| hop.ip().octets()[3]);
        assert_eq!(find([192, 0, 2, 1]), Some(1));
        assert_eq!(find([10, 1, 9, 9]), Some(2));
        assert_eq!(find([10, 1, 2, 3]), Some(3));
        assert_eq!(NextHop::find(&all[1..], [10, 2, 0, 1].into()), None);
    }

    /// A flow's ID belongs to the neighbour that opened the flow until the flow ends or is silent for too long.
    #[test]
    fn peers_belong_to_the_first_neighbour() {
        let mut peers = Peers::new(2, Nanos::from_secs(20));
        let now = Nanos::from_secs(1);
        assert!(matches!(peers.towards_responder(now, id(1), at(1, 5), at(2, 5)), Found::Unknown));
        assert!(peers.insert(now, id(1), at(1, 5), at(2, 5)).is_some());
        assert!(matches!(peers.towards_responder(now, id(1), at(1, 5), at(2, 5)), Found::Known(_)));
        assert!(matches!(peers.towards_responder(now, id(1), at(3, 5), at(2, 5)), Found::Foreign));
        assert!(peers.insert(now, id(1), at(3, 5), at(2, 5)).is_none(), "another has it");
        assert!(peers.towards_requester(id(1), at(2, 5)).is_some());
        assert!(peers.towards_requester(id(1), at(3, 5)).is_none());
        assert!(peers.insert(now, id(2), at(1, 5), at(2, 5)).is_some());
        assert!(peers.insert(now, id(3), at(1, 5), at(2, 5)).is_none(), "full");
        assert!(peers.end(id(1), at(3, 5)).is_none());
        assert_eq!(peers.end(id(1), at(1, 5)).map(|ended| ended.1), Some(true));
        assert_eq!(peers.end(id(1), at(1, 5)).map(|ended| ended.1), Some(false));
        assert!(peers.towards_requester(id(1), at(2, 5)).is_none(), "answers are those of the next flow");
        assert!(matches!(peers.towards_responder(now, id(1), at(3, 5), at(2, 5)), Found::Unknown));
        assert!(peers.insert(now, id(1), at(3, 5), at(2, 5)).is_some(), "it had ended");
        let later = Nanos::from_secs(30);
        assert!(matches!(peers.towards_responder(later, id(1), at(3, 5), at(2, 5)), Found::Unknown));
        assert_eq!(peers.len(), 0);
    }

    /// The log reports a rate again only after another rate or a refusal.
    #[test]
    fn peers_rate_is_reported_when_it_changes() {
        let mut peers = Peers::new(2, Nanos::from_secs(20));
        assert!(peers.insert(Nanos::ZERO, id(1), at(1, 5), at(2, 5)).is_some());
        let rates = [Some(800), Some(800), Some(400), Some(800), None, Some(800), Some(800)];
        let reported = rates.map(|rate| peers.report_rate(id(1), rate));
        assert_eq!(reported, [true, false, true, true, true, true, false]);
    }

    /// The answer to the node's own request is recognised exactly once.
    #[test]
    fn peers_correction_is_taken_once() {
        let mut peers = Peers::new(2, Nanos::from_secs(20));
        assert!(peers.insert(Nanos::ZERO, id(1), at(1, 5), at(2, 5)).is_some());
        assert!(!peers.take_correction(id(1), 7));
        peers.expect_correction(id(1), 7 | ATTENDED);
        assert!(!peers.take_correction(id(1), 8) && !peers.take_correction(id(2), 7));
        assert!(peers.take_correction(id(1), 7));
        assert!(!peers.take_correction(id(1), 7));
    }

    /// Each address has a rate and a burst; messages from thousands of invented addresses do not block another address.
    #[test]
    fn limiter_bounds_each_address() {
        let mut limiter = Limiter::new(100).unwrap();
        let taken = |limiter: &mut Limiter, now| (0..1000).filter(|_| limiter.take(now, Ipv4Addr::LOCALHOST)).count();
        assert_eq!(taken(&mut limiter, Nanos::ZERO), 50);
        assert_eq!(taken(&mut limiter, Nanos::from_millis(100)), 10);
        for n in 0..10_000 {
            limiter.take(Nanos::from_secs(1), Ipv4Addr::from_bits(n));
        }
        let others = (10_000..11_000).map(Ipv4Addr::from_bits);
        assert_eq!(others.filter(|own| limiter.take(Nanos::from_secs(1), *own)).count(), 1000);
    }
}
