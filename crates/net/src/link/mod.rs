//! A link in one direction: ingress loss, then the policer, then the queue, then the transmission, then egress loss.
//! Propagation is not part of it; see [`crate::Wire`].
//!
//! Times given to one link never go backwards.

mod fifo;
mod scheduled;
#[cfg(test)]
mod scheduled_tests;
mod stats;
#[cfg(test)]
mod tests;
mod transmitter;

use narrows_units::{Bytes, Nanos, Random};

pub use stats::{ClassStats, LinkStats};

use self::fifo::Fifo;
use self::scheduled::{Scheduled, Taken};
use crate::Packet;
use crate::allocator::{AnyAllocator, Outgoing, Signal};
use crate::config::{Capacity, Limit, LinkConfig, Loss, LossAt, Queue};
use crate::controller::PortStatistics;
use crate::loss::LossProcess;
use crate::policer::TokenBucket;

/// In packets of this size a room stated in bytes or time is counted.
const FULL_PACKET: u64 = 1500;

/// What became of a packet that was offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is gone.
    Dropped(DropReason),
    /// Its transmission ends at `at`; the caller carries it on from there, unless it is then lost.
    Departs {
        /// The end of its transmission.
        at: Nanos,
        /// It is lost at that moment, having used the link.
        lost: bool,
    },
    /// The link keeps it; see [`Link::next_service`].
    Queued,
    /// It was meant for the node before the link, which has it.
    Consumed,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It did not fit into the queue, or queue management dropped it.
    Queue,
    /// Random loss took it.
    Loss,
    /// It exceeded the policer's tokens.
    Policer,
}

#[derive(Clone, Debug)]
enum Service {
    Fifo(Fifo),
    Scheduled(Box<Scheduled>),
}

/// A link in one direction.
#[derive(Clone, Debug)]
pub struct Link {
    service: Service,
    ingress_loss: LossProcess,
    egress_loss: LossProcess,
    policer: Option<TokenBucket>,
    stats: LinkStats,
    since: Nanos,
}

impl Link {
    /// An idle link; `random` is its own stream.
    pub fn new(config: &LinkConfig, mut random: Random) -> Self {
        let seed = random.bits();
        let loss = |at, name| {
            let here = config.loss_at == at;
            let model = if here { config.loss } else { Loss::None };
            let process = LossProcess::new(model, Random::stream(seed, name, 0));
            match &config.loss_trace {
                Some(trace) if here => {
                    process.following(trace.clone(), Random::stream(seed, "loss trace", 0))
                }
                _ => process,
            }
        };
        let service = match (&config.capacity, &config.queue, &config.allocator) {
            (Capacity::Constant(rate), Queue::DropTail, None) => {
                Service::Fifo(Fifo::new(*rate, config.limit))
            }
            _ => Service::Scheduled(Box::new(Scheduled::new(config, Random::stream(seed, "aqm", 0)))),
        };
        Self {
            service,
            ingress_loss: loss(LossAt::Ingress, "ingress loss"),
            egress_loss: loss(LossAt::Egress, "egress loss"),
            policer: config.policer.as_ref().map(TokenBucket::new),
            stats: LinkStats::default(),
            since: Nanos::ZERO,
        }
    }

    /// A packet arrives. Where the link answers [`Offer::Queued`], services due by `now` come first.
    #[inline]
    pub fn offer(&mut self, now: Nanos, packet: &Packet) -> Offer {
        let size = packet.size();
        self.stats.arrived_packets += 1;
        self.stats.arrived_bytes += size.as_u64();
        if self.ingress_loss.takes(now) {
            self.stats.dropped_loss += 1;
            return Offer::Dropped(DropReason::Loss);
        }
        if let Some(policer) = &mut self.policer
            && !policer.passes(now, size)
        {
            self.stats.dropped_policer += 1;
            return Offer::Dropped(DropReason::Policer);
        }
        match &mut self.service {
            Service::Fifo(fifo) => {
                match fifo.offer(now, size.as_u64(), &mut self.egress_loss, &mut self.stats) {
                    Some((at, lost)) => Offer::Departs { at, lost },
                    None => {
                        self.stats.dropped_queue += 1;
                        Offer::Dropped(DropReason::Queue)
                    }
                }
            }
            Service::Scheduled(scheduled) => match scheduled.offer(now, packet, &mut self.stats) {
                Taken::Queued => Offer::Queued,
                Taken::Dropped => Offer::Dropped(DropReason::Queue),
                Taken::Consumed => Offer::Consumed,
            },
        }
    }

    /// When [`Link::serve`] must next be called; [`Nanos::MAX`] if there is nothing to serve, as always for links that
    /// answer [`Offer::Departs`]. A link with an allocator may have something to do before its first packet.
    #[inline]
    pub fn next_service(&self) -> Nanos {
        match &self.service {
            Service::Fifo(_) => Nanos::MAX,
            Service::Scheduled(scheduled) => scheduled.next_service(),
        }
    }

    /// Ends the transmission that is due and starts the next one. Returns the packet that left, possibly marked; `None` if
    /// it was lost or nothing left. To be called while `next_service() <= now`.
    pub fn serve(&mut self, now: Nanos) -> Option<Packet> {
        match &mut self.service {
            Service::Fifo(_) => None,
            Service::Scheduled(scheduled) => scheduled.serve(now, &mut self.egress_loss, &mut self.stats),
        }
    }

    /// A packet that was dropped after it had been accepted, each once; `None` when there is none left. To be asked after
    /// every offer that was queued and every service, so that its flow can be told.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<Packet> {
        self.stats.evicted.pop()
    }

    /// Counts in the statistics what has left by `now`. Every offer does this too; before a final look at the statistics
    /// it is for the caller.
    #[inline]
    pub fn settle(&mut self, now: Nanos) {
        if let Service::Fifo(fifo) = &mut self.service {
            fifo.settle(now, &mut self.stats);
        }
    }

    /// The allocator at its port.
    pub fn allocator(&self) -> Option<&AnyAllocator> {
        match &self.service {
            Service::Fifo(_) => None,
            Service::Scheduled(scheduled) => scheduled.allocator(),
        }
    }

    /// What its allocator has sent, each once, oldest first; `None` when there is nothing left. To be asked after every
    /// offer that was not answered by a departure, every service, and the two calls below.
    #[inline]
    pub fn take_outgoing(&mut self) -> Option<Outgoing> {
        match &mut self.service {
            Service::Fifo(_) => None,
            Service::Scheduled(scheduled) => scheduled.take_outgoing(),
        }
    }

    /// A packet on its way back to a sender passes the node before the link. Services due by `now` come first.
    pub fn on_return(&mut self, now: Nanos, packet: &mut Packet) {
        if let Service::Scheduled(scheduled) = &mut self.service {
            scheduled.on_return(now, packet, &mut self.stats);
        }
    }

    /// A message for its allocator. Services due by `now` come first.
    pub fn on_signal(&mut self, now: Nanos, signal: &Signal) {
        if let Service::Scheduled(scheduled) = &mut self.service {
            scheduled.on_signal(now, signal, &mut self.stats);
        }
    }

    /// What a controller reads at its port; only ports of allocators can be asked.
    pub fn port_statistics(&self) -> Option<PortStatistics> {
        let Service::Scheduled(scheduled) = &self.service else { return None };
        scheduled.allocator()?;
        let capacity = scheduled.mean_rate();
        let room = match scheduled.limit() {
            Limit::Packets(packets) => packets,
            Limit::Bytes(bytes) => bytes.as_u64() / FULL_PACKET,
            Limit::Time(time) => capacity.over(time).as_u64() / FULL_PACKET,
        };
        let sent = Bytes::new(scheduled.sent());
        Some(PortStatistics { sent, waiting: scheduled.waiting_packets(), room, capacity })
    }

    /// The classes of its queue, in their order; none where the queue has none.
    pub fn classes(&self, now: Nanos) -> Vec<ClassStats> {
        match &self.service {
            Service::Fifo(_) => Vec::new(),
            Service::Scheduled(scheduled) => scheduled.classes(self.since, now),
        }
    }

    /// Packets that wait; the one in transmission does not count.
    pub fn backlog_packets(&mut self, now: Nanos) -> u64 {
        self.settle(now);
        match &self.service {
            Service::Fifo(fifo) => fifo.waiting_packets(),
            Service::Scheduled(scheduled) => scheduled.waiting_packets(),
        }
    }

    /// Bytes that wait; the packet in transmission does not count.
    pub fn backlog_bytes(&mut self, now: Nanos) -> Bytes {
        self.settle(now);
        match &self.service {
            Service::Fifo(fifo) => Bytes::new(fifo.waiting_bytes()),
            Service::Scheduled(scheduled) => Bytes::new(scheduled.waiting_bytes()),
        }
    }

    /// How long a packet that arrives now would wait if nothing overtook it and nothing before it were dropped.
    pub fn queue_delay(&self, now: Nanos) -> Nanos {
        match &self.service {
            Service::Fifo(fifo) => fifo.queue_delay(now),
            Service::Scheduled(scheduled) => scheduled.queue_delay(now),
        }
    }

    /// The share of its capacity that was used since the statistics began, between zero and one. Packets lost at egress
    /// have used it. At constant rate this is the share of time spent transmitting.
    pub fn utilization(&self, now: Nanos) -> f64 {
        let elapsed = now - self.since;
        if elapsed.is_zero() {
            return 0.0;
        }
        match &self.service {
            Service::Fifo(fifo) => 1.0 - fifo.idle(now).as_nanos() as f64 / elapsed.as_nanos() as f64,
            Service::Scheduled(scheduled) => scheduled.utilization(self.since, now),
        }
    }

    /// Packets waiting, averaged over the time since the statistics began.
    pub fn mean_queue(&self, now: Nanos) -> f64 {
        let elapsed = now - self.since;
        if elapsed.is_zero() {
            return 0.0;
        }
        let waited = match &self.service {
            Service::Fifo(fifo) => fifo.waited(now, &self.stats),
            Service::Scheduled(scheduled) => scheduled.waited(now),
        };
        waited as f64 / elapsed.as_nanos() as f64
    }

    /// What it could have carried after `from` and up to `to`.
    pub fn capacity_between(&self, from: Nanos, to: Nanos) -> Bytes {
        match &self.service {
            Service::Fifo(fifo) => fifo.carries(to - from),
            Service::Scheduled(scheduled) => scheduled.capacity_between(from, to),
        }
    }

    /// Its counters since it was made or they were last reset.
    #[inline]
    pub const fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Starts the statistics anew at `now`. What waits then departs in the new statistics without having arrived in them.
    pub fn reset_stats(&mut self, now: Nanos) {
        self.settle(now);
        self.stats.clear();
        self.since = now;
        match &mut self.service {
            Service::Fifo(fifo) => fifo.reset(now),
            Service::Scheduled(scheduled) => scheduled.reset(now),
        }
    }
}
