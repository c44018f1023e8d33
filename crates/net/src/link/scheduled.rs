//! The general case: the link stores its packets, because their order or their departure times are unknown on arrival.

use std::sync::Arc;

use narrows_units::{Bytes, Nanos, Random, Rate};

use super::transmitter::Transmitter;
use crate::Frame;
use crate::config::{Capacity, Limit, LinkConfig};
use crate::hook::{Admission, Port, PortHook};
use crate::loss::LossProcess;
use crate::queue::{Discipline, Queueing, Room};
use crate::stats::{ClassStats, Tally};
use crate::trace::{CapacityTrace, OPPORTUNITY_BYTES};

/// The clock of transmissions.
#[derive(Clone, Debug)]
enum Clock {
    Constant(Transmitter),
    Trace {
        trace: Arc<CapacityTrace>,
        /// Number of the delivery opportunity whose time is `next_service`.
        number: u64,
        /// Unused bytes of the current opportunity, which expire with the opportunity.
        credit: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Scheduled<F: Frame, H> {
    clock: Clock,
    queue: Discipline<F>,
    limit: Limit,
    /// Packet in transmission, with the number of its bytes not yet transmitted.
    current: Option<(F, u64)>,
    next_service: Nanos,
    /// Whether the link is idle although packets are queued, because no queued packet may leave before about
    /// `next_service`.
    held: bool,
    /// Start of the current idle time (constant rate only).
    idle_since: Nanos,
    /// Idle time since the start of the statistics, up to `idle_since`.
    idle: Nanos,
    /// Bytes transmitted since the start of the statistics.
    carried: u64,
    /// Sum of the waiting times of all packets since the start of the statistics, up to `waited_at`, in nanoseconds.
    waited: u128,
    waited_at: Nanos,
    hook: Option<Box<H>>,
    /// Bytes transmitted since the link was created.
    sent: u64,
}

/// Fate of an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Queued,
    Dropped,
    /// The hook consumed the packet.
    Consumed,
}

fn port<F: Frame>(now: Nanos, queue: &mut Discipline<F>) -> Port<'_> {
    Port { now, backlog: Bytes::new(queue.bytes()), classes: queue, class: None }
}

impl<F: Frame, H: PortHook<F>> Scheduled<F, H> {
    pub(crate) fn new(config: &LinkConfig, hook: Option<H>, random: Random) -> Self {
        let (clock, rate) = match &config.capacity {
            Capacity::Constant(rate) => (Clock::Constant(Transmitter::new(*rate)), *rate),
            Capacity::Trace(trace) => {
                (Clock::Trace { trace: Arc::clone(trace), number: 0, credit: 0 }, trace.mean_rate())
            }
        };
        Self {
            clock,
            queue: Discipline::new(&config.queue, rate, config.limit, random),
            limit: config.limit,
            current: None,
            next_service: Nanos::MAX,
            held: false,
            idle_since: Nanos::ZERO,
            idle: Nanos::ZERO,
            carried: 0,
            waited: 0,
            waited_at: Nanos::ZERO,
            hook: hook.map(Box::new),
            sent: 0,
        }
    }

    /// Calls the hook for an event other than an arrival or a departure.
    pub(crate) fn with_hook(&mut self, now: Nanos, stats: &mut Tally<F>, event: impl FnOnce(&mut H, &mut Port<'_>)) {
        if let Some(hook) = &mut self.hook {
            event(hook, &mut port(now, &mut self.queue));
            self.wake_held(now, stats);
        }
    }

    /// Restarts service if queued packets wait for tokens: the hook may have raised the rate of their class.
    fn wake_held(&mut self, now: Nanos, stats: &mut Tally<F>) {
        if self.held && self.next_service > now {
            self.wake(now, stats);
        }
    }

    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn mean_rate(&self) -> Rate {
        match &self.clock {
            Clock::Constant(transmitter) => transmitter.rate(),
            Clock::Trace { trace, .. } => trace.mean_rate(),
        }
    }

    pub(crate) const fn limit(&self) -> Limit {
        self.limit
    }

    pub(crate) fn hook(&self) -> Option<&H> {
        self.hook.as_deref()
    }

    pub(crate) fn hook_mut(&mut self) -> Option<&mut H> {
        self.hook.as_deref_mut()
    }

    /// Accepts a frame or drops it, and counts drops.
    pub(crate) fn offer(&mut self, now: Nanos, frame: &F, stats: &mut Tally<F>) -> Taken {
        self.account(now);
        let (mut seen, mut class) = (*frame, None);
        let frame = match &mut self.hook {
            Some(hook) => {
                let mut port = port(now, &mut self.queue);
                if hook.on_arrival(&mut port, &mut seen) == Admission::Consume {
                    stats.consumed += 1;
                    self.wake_held(now, stats);
                    return Taken::Consumed;
                }
                class = port.class;
                &seen
            }
            None => frame,
        };
        let room = if self.current.is_none() && self.queue.packets() == 0 {
            Room::Idle
        } else {
            match self.limit {
                Limit::Packets(packets) => Room::Packets(packets),
                Limit::Bytes(bytes) => Room::Bytes(bytes.as_u64()),
                Limit::Time(wait) if self.queue_delay(now) <= wait => Room::Packets(u64::MAX),
                Limit::Time(_) => Room::Packets(self.queue.packets()),
            }
        };
        let taken = self.queue.enqueue(now, frame, class, room, stats);
        if self.held || (taken && self.current.is_none() && self.next_service == Nanos::MAX) {
            self.wake(now, stats);
        }
        if taken { Taken::Queued } else { Taken::Dropped }
    }

    /// Accounts for waiting time; must be called before the number of waiting packets changes.
    #[inline]
    fn account(&mut self, now: Nanos) {
        self.waited = self.waited(now);
        self.waited_at = self.waited_at.max(now);
    }

    /// Sum of the waiting times of all packets since the start of the statistics, in nanoseconds.
    #[inline]
    pub(crate) fn waited(&self, now: Nanos) -> u128 {
        self.waited + u128::from(self.queue.packets()) * u128::from((now - self.waited_at).as_nanos())
    }

    #[inline]
    pub(crate) fn next_service(&self) -> Nanos {
        match &self.hook {
            Some(hook) => self.next_service.min(hook.next_wake()),
            None => self.next_service,
        }
    }

    /// Removes the next frame to transmit and calls the hook for its departure.
    fn dequeue(&mut self, now: Nanos, stats: &mut Tally<F>) -> Option<(Nanos, F)> {
        let mut next = self.queue.dequeue(now, stats);
        if let (Some(hook), Some((_, frame))) = (&mut self.hook, &mut next) {
            hook.on_departure(&mut port(now, &mut self.queue), frame);
        }
        next
    }

    /// Starts service for the first packet after an idle time, or for queued packets that may be ready earlier than
    /// `next_service`.
    fn wake(&mut self, now: Nanos, stats: &mut Tally<F>) {
        match &mut self.clock {
            Clock::Constant(_) => self.start(now, stats),
            Clock::Trace { trace, number, credit } => {
                // An opportunity at exactly `now` has passed, as in mahimahi.
                *number = trace.number_after(now);
                *credit = 0;
                self.next_service = trace.time_of(*number);
                self.hold(now);
            }
        }
    }

    /// Postpones the next service if no queued packet may leave at `now`.
    fn hold(&mut self, now: Nanos) {
        let ready = self.queue.ready_at(now);
        self.held = ready > now && self.queue.packets() > 0;
        if !self.held {
            return;
        }
        self.next_service = match &mut self.clock {
            Clock::Constant(_) => ready,
            Clock::Trace { .. } if ready == Nanos::MAX => ready,
            Clock::Trace { trace, number, credit } => {
                // The first opportunity at or after `ready`.
                *number = trace.number_after(ready - Nanos::from_nanos(1));
                *credit = 0;
                trace.time_of(*number)
            }
        };
    }

    /// Begins the next transmission at constant rate.
    fn start(&mut self, now: Nanos, stats: &mut Tally<F>) {
        self.account(now);
        let next = self.dequeue(now, stats);
        let Clock::Constant(transmitter) = &mut self.clock else { return };
        match next {
            Some((arrived, packet)) => {
                stats.waited((now - arrived).as_nanos());
                let size = packet.size().as_u64();
                self.idle += now - self.idle_since;
                self.current = Some((packet, size));
                self.held = false;
                self.next_service = transmitter.end(now, size);
                self.idle_since = self.next_service;
            }
            None => {
                self.next_service = Nanos::MAX;
                self.queue.idle(now);
                self.hold(now);
            }
        }
    }

    /// See [`super::Link::serve`].
    pub(crate) fn serve(&mut self, now: Nanos, egress_loss: &mut LossProcess, stats: &mut Tally<F>) -> Option<F> {
        if let Some(hook) = &mut self.hook {
            if hook.next_wake() <= now {
                hook.on_wake(&mut port(now, &mut self.queue));
            }
            self.wake_held(now, stats);
        }
        if self.next_service > now {
            return None;
        }
        let at = self.next_service;
        let done = match self.clock {
            Clock::Constant(_) => {
                let Some((packet, size)) = self.current.take() else {
                    self.start(at, stats);
                    return None;
                };
                self.carried += size;
                // In real time this call may be late. The next transmission still begins at the end of this
                // transmission, not now.
                self.start(self.next_service, stats);
                packet
            }
            Clock::Trace { .. } => self.use_opportunity(stats)?,
        };
        self.sent += done.size().as_u64();
        let lost = egress_loss.takes(at);
        stats.left(done.size().as_u64(), lost);
        if lost {
            stats.evicted.push(done);
            return None;
        }
        Some(done)
    }

    /// Spends the current opportunity on the packet in transmission and its successors, until one packet is
    /// complete or the opportunity is used up.
    fn use_opportunity(&mut self, stats: &mut Tally<F>) -> Option<F> {
        let at = self.next_service;
        self.account(at);
        self.held = false;
        let Clock::Trace { credit, .. } = &mut self.clock else { return None };
        if *credit == 0 {
            *credit = OPPORTUNITY_BYTES;
        }
        let mut rest = *credit;
        let mut done = None;
        while rest > 0 && done.is_none() {
            if self.current.is_none() {
                let Some((arrived, packet)) = self.dequeue(at, stats) else { break };
                stats.waited((at - arrived).as_nanos());
                self.current = Some((packet, packet.size().as_u64()));
            }
            if let Some((packet, left)) = &mut self.current {
                let part = (*left).min(rest);
                *left -= part;
                rest -= part;
                self.carried += part;
                if *left == 0 {
                    done = Some(*packet);
                    self.current = None;
                }
            }
        }
        let Clock::Trace { trace, number, credit } = &mut self.clock else { return done };
        *credit = rest;
        if self.current.is_none() && self.queue.packets() == 0 {
            // The rest of the opportunity is wasted.
            *credit = 0;
            self.queue.idle(at);
            self.next_service = Nanos::MAX;
        } else if *credit == 0 {
            *number += 1;
            self.next_service = trace.time_of(*number);
        }
        if self.current.is_none() {
            self.hold(at);
        }
        done
    }

    pub(crate) fn classes(&self, since: Nanos, now: Nanos) -> Vec<ClassStats> {
        self.queue.class_stats(since, now)
    }

    pub(crate) fn waiting_packets(&self) -> u64 {
        self.queue.packets()
    }

    /// Number of queues: the leaves of a queue with classes.
    pub(crate) fn queues(&self) -> u64 {
        self.queue.leaves()
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    pub(crate) fn queue_delay(&self, now: Nanos) -> Nanos {
        match &self.clock {
            Clock::Constant(transmitter) => {
                let rest = if self.current.is_some() { self.next_service - now } else { Nanos::ZERO };
                rest.saturating_add(transmitter.rate().time_for(Bytes::new(self.queue.bytes())))
            }
            Clock::Trace { trace, number, credit } => {
                // The first byte of the arriving packet leaves in the opportunity that remains after all bytes ahead of
                // the packet.
                let before = self.queue.bytes() + self.current.map_or(0, |(_, left)| left);
                let next = if self.next_service == Nanos::MAX { trace.number_after(now) } else { *number };
                let used = if *credit > 0 { OPPORTUNITY_BYTES - credit } else { 0 };
                trace.time_of(next + (used + before) / OPPORTUNITY_BYTES) - now
            }
        }
    }

    pub(crate) fn utilization(&self, since: Nanos, now: Nanos) -> f64 {
        match &self.clock {
            Clock::Constant(_) => {
                let idle = self.idle + (now - self.idle_since);
                1.0 - idle.as_nanos() as f64 / (now - since).as_nanos() as f64
            }
            Clock::Trace { trace, .. } => {
                let offered = trace.bytes_between(since, now);
                if offered.is_zero() { 0.0 } else { self.carried as f64 / offered.as_f64() }
            }
        }
    }

    pub(crate) fn capacity_between(&self, from: Nanos, to: Nanos) -> Bytes {
        match &self.clock {
            Clock::Constant(transmitter) => transmitter.rate().over(to - from),
            Clock::Trace { trace, .. } => trace.bytes_between(from, to),
        }
    }

    pub(crate) fn reset(&mut self, now: Nanos) {
        self.waited = 0;
        self.waited_at = now;
        self.idle = Nanos::ZERO;
        self.idle_since = self.idle_since.max(now);
        self.carried = 0;
        self.queue.reset_stats(now);
    }
}
