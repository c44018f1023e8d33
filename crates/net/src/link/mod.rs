//! A one-way link: ingress loss, policer, queue, transmission and egress loss, in this order. [`crate::DelayLine`]
//! models propagation.
//!
//! The times passed to a link must never decrease.

mod fifo;
mod scheduled;
#[cfg(test)]
mod scheduled_tests;
#[cfg(test)]
mod tests;
mod transmitter;

use narrows_units::{Bytes, Nanos, Random, Rate};

use self::fifo::Fifo;
use self::scheduled::{Scheduled, Taken};
use crate::Frame;
use crate::config::{Capacity, Limit, LinkConfig, Loss, LossAt, Queue};
use crate::hook::{Port, PortHook};
use crate::loss::LossProcess;
use crate::policer::TokenBucket;
use crate::stats::{ClassStats, LinkStats, Tally};

/// Packet size for the conversion of a byte or time limit to packets.
const FULL_PACKET: u64 = 1500;

/// Fate of an offered frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The frame was dropped.
    Dropped(DropReason),
    /// The transmission of the frame ends at `at`; the caller forwards it unless `lost`.
    Departs {
        /// End of the transmission.
        at: Nanos,
        /// Whether the frame is lost at that time.
        lost: bool,
    },
    /// The link stores the frame; see [`Link::next_service`].
    Queued,
    /// The frame was addressed to the node, and the hook consumed it.
    Consumed,
}

/// Reason for a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The frame did not fit into the queue, or the AQM dropped it.
    Queue,
    /// The frame was lost at random.
    Loss,
    /// The frame exceeded the policer's tokens.
    Policer,
}

#[derive(Clone, Debug)]
enum Service<F: Frame, H> {
    Fifo(Fifo),
    Scheduled(Box<Scheduled<F, H>>),
}

/// A one-way link that carries frames of type `F`, with an optional hook `H` at its port.
#[derive(Clone, Debug)]
pub struct Link<F: Frame, H = ()> {
    service: Service<F, H>,
    ingress_loss: LossProcess,
    egress_loss: LossProcess,
    policer: Option<TokenBucket>,
    stats: Tally<F>,
    since: Nanos,
}

/// Counters of a port, as read by a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStatistics {
    /// Bytes transmitted since the link was created.
    pub sent: Bytes,
    /// Packets in the queue.
    pub waiting: u64,
    /// Queue limit in packets; for a queue with classes, the limit of one class. Traffic of one kind fills only one
    /// class, so a threshold relative to the sum of all limits would exceed the buffer of that class several times.
    pub room: u64,
    /// Number of queues with the limit `room`: the leaves of a queue with classes.
    pub queues: u64,
    /// Rate of the link, or the mean rate of its capacity trace.
    pub capacity: Rate,
}

impl<F: Frame> Link<F> {
    /// Creates an idle link without a hook; `random` is its random stream.
    pub fn new(config: &LinkConfig, random: Random) -> Self {
        Self::with_hook(config, None, random)
    }
}

impl<F: Frame, H: PortHook<F>> Link<F, H> {
    /// Creates an idle link with an optional hook at its port; `random` is its random stream.
    pub fn with_hook(config: &LinkConfig, hook: Option<H>, mut random: Random) -> Self {
        let seed = random.bits();
        let loss = |at, name| {
            let here = config.loss_at == at;
            let model = if here { config.loss } else { Loss::None };
            let process = LossProcess::new(model, Random::stream(seed, name, 0));
            match &config.loss_trace {
                Some(trace) if here => process.following(trace.clone(), Random::stream(seed, "loss trace", 0)),
                _ => process,
            }
        };
        let service = match (&config.capacity, &config.queue, &hook) {
            (Capacity::Constant(rate), Queue::DropTail, None) => Service::Fifo(Fifo::new(*rate, config.limit)),
            _ => Service::Scheduled(Box::new(Scheduled::new(config, hook, Random::stream(seed, "aqm", 0)))),
        };
        Self {
            service,
            ingress_loss: loss(LossAt::Ingress, "ingress loss"),
            egress_loss: loss(LossAt::Egress, "egress loss"),
            policer: config.policer.as_ref().map(TokenBucket::new),
            stats: Tally::default(),
            since: Nanos::ZERO,
        }
    }

    /// Offers an arriving frame. For links that return [`Offer::Queued`], the caller must first run the services due by
    /// `now`.
    #[inline]
    pub fn offer(&mut self, now: Nanos, frame: &F) -> Offer {
        let size = frame.size();
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
            Service::Fifo(fifo) => match fifo.offer(now, size.as_u64(), &mut self.egress_loss, &mut self.stats) {
                Some((at, lost)) => Offer::Departs { at, lost },
                None => {
                    self.stats.dropped_queue += 1;
                    Offer::Dropped(DropReason::Queue)
                }
            },
            Service::Scheduled(scheduled) => match scheduled.offer(now, frame, &mut self.stats) {
                Taken::Queued => Offer::Queued,
                Taken::Dropped => Offer::Dropped(DropReason::Queue),
                Taken::Consumed => Offer::Consumed,
            },
        }
    }

    /// Time of the next [`Link::serve`]; [`Nanos::MAX`] if there is nothing to serve, and always for links
    /// that return [`Offer::Departs`]. A link with a hook may need service before its first packet.
    #[inline]
    pub fn next_service(&self) -> Nanos {
        match &self.service {
            Service::Fifo(_) => Nanos::MAX,
            Service::Scheduled(scheduled) => scheduled.next_service(),
        }
    }

    /// Ends the due transmission and starts the next one. Returns the departed frame, possibly marked; `None` if the
    /// frame was lost or no frame departed. Callers repeat the call while `next_service() <= now`.
    pub fn serve(&mut self, now: Nanos) -> Option<F> {
        match &mut self.service {
            Service::Fifo(_) => None,
            Service::Scheduled(scheduled) => scheduled.serve(now, &mut self.egress_loss, &mut self.stats),
        }
    }

    /// Removes and returns a frame that was dropped after acceptance. After every offer that returned [`Offer::Queued`]
    /// and after every service, callers repeat this call until it returns `None`.
    #[inline]
    pub fn take_dropped(&mut self) -> Option<F> {
        self.stats.evicted.pop()
    }

    /// Counts departures up to `now` in the statistics. Callers must settle before they read the statistics, because
    /// offers count departures only occasionally.
    #[inline]
    pub fn settle(&mut self, now: Nanos) {
        if let Service::Fifo(fifo) = &mut self.service {
            fifo.settle(now, &mut self.stats);
        }
    }

    /// The hook at the port.
    #[inline]
    pub fn hook(&self) -> Option<&H> {
        match &self.service {
            Service::Fifo(_) => None,
            Service::Scheduled(scheduled) => scheduled.hook(),
        }
    }

    /// The hook at the port, mutable. Calls that change the wake time of the hook or the queue must use
    /// [`Link::call_hook`].
    #[inline]
    pub fn hook_mut(&mut self) -> Option<&mut H> {
        match &mut self.service {
            Service::Fifo(_) => None,
            Service::Scheduled(scheduled) => scheduled.hook_mut(),
        }
    }

    /// Calls the hook, if any, for an event other than an arrival or a departure. The caller must first run the
    /// services due by `now`. [`Link::next_service`] may change.
    pub fn call_hook(&mut self, now: Nanos, event: impl FnOnce(&mut H, &mut Port<'_>)) {
        if let Service::Scheduled(scheduled) = &mut self.service {
            scheduled.with_hook(now, &mut self.stats, event);
        }
    }

    /// Counters of the port; `None` without a hook.
    pub fn port_statistics(&self) -> Option<PortStatistics> {
        let Service::Scheduled(scheduled) = &self.service else { return None };
        scheduled.hook()?;
        let capacity = scheduled.mean_rate();
        let room = match scheduled.limit() {
            Limit::Packets(packets) => packets,
            Limit::Bytes(bytes) => bytes.as_u64() / FULL_PACKET,
            Limit::Time(time) => capacity.over(time).as_u64() / FULL_PACKET,
        };
        let sent = Bytes::new(scheduled.sent());
        let (waiting, queues) = (scheduled.waiting_packets(), scheduled.queues());
        Some(PortStatistics { sent, waiting, room, queues, capacity })
    }

    /// Statistics of the queue's classes, in configured order; empty for queues without classes.
    pub fn classes(&self, now: Nanos) -> Vec<ClassStats> {
        match &self.service {
            Service::Fifo(_) => Vec::new(),
            Service::Scheduled(scheduled) => scheduled.classes(self.since, now),
        }
    }

    /// Number of packets in the queue, without the packet in transmission.
    pub fn backlog_packets(&mut self, now: Nanos) -> u64 {
        self.settle(now);
        match &self.service {
            Service::Fifo(fifo) => fifo.waiting_packets(),
            Service::Scheduled(scheduled) => scheduled.waiting_packets(),
        }
    }

    /// Bytes in the queue, without the packet in transmission.
    pub fn backlog_bytes(&mut self, now: Nanos) -> Bytes {
        self.settle(now);
        match &self.service {
            Service::Fifo(fifo) => Bytes::new(fifo.waiting_bytes()),
            Service::Scheduled(scheduled) => Bytes::new(scheduled.waiting_bytes()),
        }
    }

    /// Waiting time of a packet that arrives now, provided that no packet overtakes it and no packet ahead of it is
    /// dropped.
    pub fn queue_delay(&self, now: Nanos) -> Nanos {
        match &self.service {
            Service::Fifo(fifo) => fifo.queue_delay(now),
            Service::Scheduled(scheduled) => scheduled.queue_delay(now),
        }
    }

    /// Fraction of the capacity used since the start of the statistics, from 0 to 1. Packets lost at egress count as
    /// used capacity. At constant rate this is the fraction of time spent transmitting.
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

    /// Time average of the packets in the queue since the start of the statistics.
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

    /// Capacity in bytes after `from` and up to `to`.
    pub fn capacity_between(&self, from: Nanos, to: Nanos) -> Bytes {
        match &self.service {
            Service::Fifo(fifo) => fifo.capacity_in(to - from),
            Service::Scheduled(scheduled) => scheduled.capacity_between(from, to),
        }
    }

    /// Counters since the creation of the link or the last reset.
    #[inline]
    pub const fn stats(&self) -> &LinkStats {
        self.stats.stats()
    }

    /// Resets the statistics at `now`. Packets queued at that time count as departures but not as arrivals.
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
