//! Numbering of event sources. Events at equal times are processed in the order of these numbers.

use crate::event_queue::SourceId;

/// Kind and index of an event source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The head of a delay line arrives at the far end.
    Propagation(u32),
    /// A link ends a transmission, or the timer of the link's router algorithm expires.
    Service(u32),
    /// The timer of a flow's sender.
    SenderTimer(u32),
    /// The timer of a flow's receiver.
    ReceiverTimer(u32),
    /// The clock of the run.
    Clock,
    /// The control plane.
    Control,
    /// The timer of a multipath connection.
    Connection(u32),
}

/// First number of each kind of source. Order: propagation hops, links, senders, receivers, clock, control plane,
/// multipath connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sources {
    links: SourceId,
    senders: SourceId,
    receivers: SourceId,
    clock: SourceId,
    end: SourceId,
}

impl Sources {
    /// Assigns the numbers for a run with these counts of hops, links, flows and connections.
    pub(super) fn new(hops: usize, links: usize, flows: usize, connections: usize) -> Self {
        let senders = hops + links;
        Self {
            links: hops as SourceId,
            senders: senders as SourceId,
            receivers: (senders + flows) as SourceId,
            clock: (senders + 2 * flows) as SourceId,
            end: (senders + 2 * flows + 2 + connections) as SourceId,
        }
    }

    /// Number of sources.
    pub(super) fn count(&self) -> usize {
        self.end as usize
    }

    /// The source of a link's service.
    #[inline]
    pub(super) fn service(&self, link: u32) -> SourceId {
        self.links + link
    }

    /// The source of a sender's timer.
    #[inline]
    pub(super) fn sender(&self, flow: u32) -> SourceId {
        self.senders + flow
    }

    /// The source of a receiver's timer.
    #[inline]
    pub(super) fn receiver(&self, flow: u32) -> SourceId {
        self.receivers + flow
    }

    /// The clock of the run.
    #[inline]
    pub(super) fn clock(&self) -> SourceId {
        self.clock
    }

    /// The control plane.
    #[inline]
    pub(super) fn control(&self) -> SourceId {
        self.clock + 1
    }

    /// The source of a connection's timer.
    #[inline]
    pub(super) fn connection(&self, connection: u32) -> SourceId {
        self.clock + 2 + connection
    }

    /// Kind and index of a source. Propagation hops are tested first, because most events belong to them.
    #[inline(always)]
    pub(super) fn decode(&self, source: SourceId) -> Event {
        if source < self.links {
            Event::Propagation(source)
        } else if source < self.senders {
            Event::Service(source - self.links)
        } else if source < self.receivers {
            Event::SenderTimer(source - self.senders)
        } else if source < self.clock {
            Event::ReceiverTimer(source - self.receivers)
        } else {
            match source - self.clock {
                0 => Event::Clock,
                1 => Event::Control,
                connection => Event::Connection(connection - 2),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every source number decodes to its kind and index, and the kinds are numbered without gaps.
    #[test]
    fn sources_decode_to_kind_and_index_without_gaps() {
        let sources = Sources::new(3, 2, 2, 2);
        let events: Vec<Event> = (0..sources.count() as SourceId).map(|source| sources.decode(source)).collect();
        use Event::*;
        let expected = [
            Propagation(0),
            Propagation(1),
            Propagation(2),
            Service(0),
            Service(1),
            SenderTimer(0),
            SenderTimer(1),
            ReceiverTimer(0),
            ReceiverTimer(1),
            Clock,
            Control,
            Connection(0),
            Connection(1),
        ];
        assert_eq!(events, expected);
        for (source, event) in (0..).zip(events) {
            let made = match event {
                Propagation(hop) => hop,
                Service(link) => sources.service(link),
                SenderTimer(flow) => sources.sender(flow),
                ReceiverTimer(flow) => sources.receiver(flow),
                Clock => sources.clock(),
                Control => sources.control(),
                Connection(connection) => sources.connection(connection),
            };
            assert_eq!(made, source, "{event:?}");
        }
    }
}
