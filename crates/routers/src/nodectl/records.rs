//! The reservation table of a port: a record per flow, a transmission per content and destination, and
//! incremental sums for Algorithm 1.

use narrows_cc::Nanos;

use super::allocation::Load;
use super::message::Id;
use crate::FlowTable;

/// End of a list of subflows.
pub(super) const NONE: u32 = u32::MAX;

/// The record of a flow. Rates are in bytes per second.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) id: Id,
    /// Key of its transmission.
    pub(super) transmission: u32,
    /// Next subflow of the transmission.
    next: u32,
    /// The flow's weight among subflows: the Max of its first request, at most the port's bandwidth.
    pub(super) weight: u64,
    /// The Rtt field of its last request; only an answer that repeats it counts.
    pub(super) token: u32,
    pub(super) rtt: Nanos,
    /// Path on which the flow passes this port.
    pub(super) path: u8,
    /// Rate allocated to its last request; more than `rate` if other nodes or the endpoints allow less.
    pub(super) allocated: u64,
    /// The flow's reservation.
    rate: u64,
    /// During a negotiation, the reservation before it (zero for the first negotiation) and whether the port was the
    /// bottleneck.
    pub(super) before: Option<(u64, bool)>,
    /// Path before the negotiation.
    pub(super) path_before: u8,
    /// Whether this port is the flow's bottleneck.
    bottleneck: bool,
    /// Time of the last notification or change of rate.
    pub(super) notified_at: Nanos,
    /// Bytes received in this control interval.
    pub(super) arrived: u64,
    /// Rate of a suggested increase not requested yet; zero if none.
    pub(super) suggested: u64,
    /// Rate of the last increase voided by a reduction; a request for it may be in flight.
    pub(super) withdrawn: u64,
    /// Max of the last request if it repeats a rate sent by this port; zero otherwise.
    pub(super) echoed: u64,
    /// Number of repetitions of the suggested increase.
    pub(super) repeats: u8,
}

impl Record {
    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    pub(super) fn is_bottleneck(&self) -> bool {
        self.bottleneck
    }
}

/// Flows of the same content and destination.
#[derive(Clone, Debug)]
pub(super) struct Transmission {
    content: u32,
    destination: u32,
    first: u32,
    subflows: u32,
    /// Number of subflows bottlenecked at this port.
    controlled: u32,
    pub(super) rate: u64,
}

impl Transmission {
    pub(super) fn is_controlled(&self) -> bool {
        self.controlled > 0
    }
}

/// The reservation table of a port.
#[derive(Clone, Debug)]
pub(super) struct ReservationTable {
    pub(super) records: FlowTable<Record>,
    transmissions: FlowTable<Transmission>,
    /// Size of the tables, which the first request creates; zero afterwards.
    limit: usize,
    idle: Nanos,
    total: u64,
    given: u64,
    controlled: u64,
    controlled_rate: u64,
}

/// First key tried for a transmission.
fn key(content: u32, destination: u32) -> u32 {
    let mixed = (u64::from(content) << 32 | u64::from(destination)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

/// Number of keys tried on collisions.
const PROBES: u32 = 4;

impl ReservationTable {
    /// An empty table for a port of bandwidth `total` and `limit` flows, which expire after a silence of
    /// `idle`.
    pub(super) fn new(total: u64, limit: usize, idle: Nanos) -> Self {
        Self {
            // Most ports never receive a request: the first request creates the tables.
            records: FlowTable::new(1, idle),
            transmissions: FlowTable::new(1, Nanos::MAX),
            limit,
            idle,
            total,
            given: 0,
            controlled: 0,
            controlled_rate: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn served(&self) -> usize {
        self.transmissions.len()
    }

    pub(super) fn given(&self) -> u64 {
        self.given
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Sets the port's bandwidth.
    pub(super) fn set_total(&mut self, total: u64) {
        self.total = total;
    }

    /// Bytes of memory owned.
    pub(super) fn memory(&self) -> usize {
        self.records.memory() + self.transmissions.memory()
    }

    /// Key of a transmission, if it is served.
    pub(super) fn find(&mut self, id: &Id) -> Option<u32> {
        let first = key(id.content, id.destination);
        (0..PROBES).map(|probe| first.wrapping_add(probe)).find(|&at| {
            self.transmissions
                .peek_mut(at)
                .is_some_and(|known| known.content == id.content && known.destination == id.destination)
        })
    }

    /// Inputs of Algorithm 1; leaves out the transmission `without`.
    pub(super) fn load(&mut self, without: Option<u32>) -> Load {
        let mut load = Load {
            total: self.total,
            free: self.total.saturating_sub(self.given),
            served: self.transmissions.len() as u64,
            controlled: self.controlled,
            controlled_rate: self.controlled_rate,
        };
        if let Some(own) = without.and_then(|at| self.transmissions.peek_mut(at)) {
            load.free = self.total.saturating_sub(self.given - own.rate);
            load.served -= 1;
            if own.is_controlled() {
                load.controlled -= 1;
                load.controlled_rate -= own.rate;
            }
        }
        load
    }

    /// Removes expired flows and adds a flow without a rate. `None` if the table is full or all keys of the
    /// transmission are taken.
    pub(super) fn open(&mut self, now: Nanos, flow: u32, id: Id, weight: u64) -> Option<()> {
        if self.limit > 0 {
            self.records = FlowTable::new(self.limit, self.idle);
            // This table never has more entries than `records`, so it evicts none.
            self.transmissions = FlowTable::new(self.limit, Nanos::MAX);
            self.limit = 0;
        }
        while self.expire(now) {}
        let known = self.find(&id);
        let first = key(id.content, id.destination);
        let at = known.or_else(|| {
            (0..PROBES).map(|probe| first.wrapping_add(probe)).find(|&at| self.transmissions.peek_mut(at).is_none())
        })?;
        let next = match known {
            Some(at) => self.transmissions.peek_mut(at)?.first,
            None => NONE,
        };
        self.records.insert(
            now,
            flow,
            Record {
                id,
                transmission: at,
                next,
                weight: weight.max(1),
                token: 0,
                rtt: Nanos::ZERO,
                path: 0,
                allocated: 0,
                rate: 0,
                before: None,
                path_before: 0,
                bottleneck: false,
                notified_at: now,
                arrived: 0,
                suggested: 0,
                withdrawn: 0,
                echoed: 0,
                repeats: 0,
            },
        )?;
        match self.transmissions.peek_mut(at) {
            Some(transmission) => {
                transmission.first = flow;
                transmission.subflows += 1;
            }
            None => {
                let fresh = Transmission {
                    content: id.content,
                    destination: id.destination,
                    first: flow,
                    subflows: 1,
                    controlled: 0,
                    rate: 0,
                };
                self.transmissions.insert(now, at, fresh)?;
            }
        }
        Some(())
    }

    /// Sets the rate of a flow and whether this port is its bottleneck.
    pub(super) fn set(&mut self, flow: u32, rate: u64, bottleneck: bool) {
        let Some(record) = self.records.peek_mut(flow) else { return };
        let Some(transmission) = self.transmissions.peek_mut(record.transmission) else { return };
        if transmission.is_controlled() {
            self.controlled -= 1;
            self.controlled_rate -= transmission.rate;
        }
        self.given = self.given - record.rate + rate;
        transmission.rate = transmission.rate - record.rate + rate;
        transmission.controlled = transmission.controlled - u32::from(record.bottleneck) + u32::from(bottleneck);
        record.rate = rate;
        record.bottleneck = bottleneck;
        if transmission.is_controlled() {
            self.controlled += 1;
            self.controlled_rate += transmission.rate;
        }
    }

    /// Removes a flow and frees its reservation.
    pub(super) fn close(&mut self, flow: u32) {
        self.set(flow, 0, false);
        let Some(record) = self.records.remove(flow) else { return };
        let at = record.transmission;
        let Some(transmission) = self.transmissions.peek_mut(at) else { return };
        transmission.subflows -= 1;
        if transmission.subflows == 0 {
            self.transmissions.remove(at);
            return;
        }
        if transmission.first == flow {
            transmission.first = record.next;
            return;
        }
        let mut before = transmission.first;
        while let Some(subflow) = self.records.peek_mut(before) {
            if subflow.next == flow {
                subflow.next = record.next;
                return;
            }
            before = subflow.next;
        }
    }

    /// Removes the flow that has been silent for longest if it has expired; returns whether it removed a flow.
    pub(super) fn expire(&mut self, now: Nanos) -> bool {
        match self.records.oldest() {
            Some((flow, seen)) if now - seen >= self.idle => {
                self.close(flow);
                true
            }
            _ => false,
        }
    }

    /// Replaces the contents of `flows` by the subflows of a transmission.
    pub(super) fn subflows(&mut self, at: u32, flows: &mut Vec<u32>) {
        flows.clear();
        let mut flow = self.transmissions.peek_mut(at).map_or(NONE, |transmission| transmission.first);
        while let Some(record) = self.records.peek_mut(flow) {
            flows.push(flow);
            flow = record.next;
        }
    }

    /// All transmissions with their keys, in an order that depends only on the call history.
    pub(super) fn transmissions(&mut self) -> impl Iterator<Item = (u32, &mut Transmission)> {
        self.transmissions.iter_mut()
    }

    /// Recomputes all incrementally maintained sums and compares them.
    #[cfg(test)]
    pub(super) fn check(&mut self) {
        let flows: Vec<_> = self
            .records
            .iter_mut()
            .map(|(flow, record)| (flow, record.transmission, record.rate, record.bottleneck))
            .collect();
        assert_eq!(flows.iter().map(|flow| flow.2).sum::<u64>(), self.given);
        let places: Vec<u32> = self.transmissions.iter_mut().map(|(at, _)| at).collect();
        let (mut controlled, mut controlled_rate, mut seen) = (0, 0, 0);
        for at in places {
            let mut chain = Vec::new();
            self.subflows(at, &mut chain);
            let known = self.transmissions.peek_mut(at).expect("it was listed").clone();
            let own: Vec<_> = flows.iter().filter(|flow| flow.1 == at).collect();
            assert_eq!((chain.len(), own.len()), (known.subflows as usize, known.subflows as usize));
            assert!(own.iter().all(|flow| chain.contains(&flow.0)));
            assert_eq!(known.rate, own.iter().map(|flow| flow.2).sum::<u64>());
            assert_eq!(known.controlled as usize, own.iter().filter(|flow| flow.3).count());
            controlled += u64::from(known.is_controlled());
            controlled_rate += if known.is_controlled() { known.rate } else { 0 };
            seen += chain.len();
        }
        assert_eq!(seen, flows.len());
        assert_eq!((controlled, controlled_rate), (self.controlled, self.controlled_rate));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDLE: Nanos = Nanos::from_secs(10);

    fn id(content: u32, subflow: u16) -> Id {
        Id { content, destination: 9, subflow }
    }

    /// Subflows form one transmission until the last of them ends.
    #[test]
    fn subflows_form_one_transmission_until_the_last_ends() {
        let mut table = ReservationTable::new(100, 8, IDLE);
        let now = Nanos::ZERO;
        for (flow, id) in [(1, id(7, 0)), (2, id(7, 1)), (3, id(8, 0))] {
            table.open(now, flow, id, 5).unwrap();
            table.set(flow, 10, flow != 2);
        }
        assert_eq!((table.records.len(), table.served(), table.given()), (3, 2, 30));
        let all = table.load(None);
        assert_eq!((all.free, all.served, all.controlled, all.controlled_rate), (70, 2, 2, 30));
        let seven = table.find(&id(7, 5));
        let others = table.load(seven);
        assert_eq!((others.free, others.served, others.controlled, others.controlled_rate), (90, 1, 1, 10));
        table.close(1);
        let all = table.load(None);
        assert_eq!((all.served, all.controlled, all.controlled_rate), (2, 1, 10));
        table.close(2);
        assert_eq!((table.served(), table.find(&id(7, 0))), (1, None));
        table.check();
    }

    /// A full table refuses new flows, and a silent record expires.
    #[test]
    fn full_table_refuses_and_silent_record_expires() {
        let mut table = ReservationTable::new(100, 2, IDLE);
        table.open(Nanos::ZERO, 1, id(1, 0), 1).unwrap();
        table.open(Nanos::from_secs(1), 2, id(2, 0), 1).unwrap();
        assert!(table.open(Nanos::from_secs(9), 3, id(3, 0), 1).is_none());
        assert!(!table.expire(Nanos::from_secs(9)));
        table.set(1, 50, true);
        assert!(table.expire(Nanos::from_secs(10)));
        assert!(!table.expire(Nanos::from_secs(10)));
        assert_eq!((table.given(), table.records.len()), (0, 1));
        table.open(Nanos::from_secs(10), 3, id(3, 0), 1).unwrap();
        table.check();
    }

    proptest! {
        /// The incremental sums equal the sums over all records.
        #[test]
        fn incremental_sums_match_the_records(
            calls in prop::collection::vec((0u8..5, 0u32..12, 0u32..5, 0u64..1000, any::<bool>()), 1..300),
        ) {
            let mut table = ReservationTable::new(10_000, 8, IDLE);
            let mut now = Nanos::ZERO;
            for (call, flow, content, rate, flag) in calls {
                now += Nanos::from_millis(500);
                match call {
                    0 | 1 => {
                        if table.records.peek_mut(flow).is_none() {
                            table.open(now, flow, id(content, flow as u16), rate);
                        }
                    }
                    2 => table.set(flow, rate, flag),
                    3 => table.close(flow),
                    _ => while table.expire(now) {},
                }
                table.check();
            }
        }
    }
}
