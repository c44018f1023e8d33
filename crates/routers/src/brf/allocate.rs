//! The full allocation every Δt (one pass to measure, one to divide by equation 14, removal of expired flows,
//! announcement of shares), and the cuts between allocations on a controller report.

use narrows_cc::Nanos;

use super::flow::{Class, Layer};
use super::port_state::State;
use super::returns::ack_timeout;
use super::{BRF, Brf, HANDSHAKE, HANDSHAKE_ENTRY, OTHERS, PERIOD_MAX, UDP, flow};
use crate::brf::RateCode;
use crate::{Congestion, Outgoing, Port, Signal};

/// A flow is silent after the longest of three times without a packet: this many periods, `SILENT`, and the time for
/// this many packets at its share.
const SILENT_PERIODS: u64 = 2;
const SILENT_PACKETS: f64 = 2.0;
/// Time for which an ended flow's entry stays for retransmissions.
const CLOSED: Nanos = Nanos::from_secs(1);

/// With `follow`: bounds of the estimated capacity as multiples of the configured capacity; growth factor of the
/// estimate per period while no packet waits; and the utilisation required for growth.
const FOLLOW_RANGE: (f64, f64) = (0.02, 20.0);
const FOLLOW_GAIN: f64 = 1.25;
const FOLLOW_USED: f64 = 0.7;

/// Departures since a point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departures {
    pub(super) since: Nanos,
    pub(super) bytes: u64,
    /// Whether the queue was empty after some departure.
    pub(super) starved: bool,
}

impl Brf {
    /// Runs a full allocation.
    pub(super) fn allocate(&mut self, port: &mut Port<'_>) {
        self.sweep(port);
        if self.state == State::FlowTable {
            return;
        }
        self.state.transition(State::Allocation);
        self.counts.allocations += 1;
        if self.follow {
            self.follow_capacity(port);
        }
        self.measure(port.now);
        let elapsed = (port.now - self.acks_since).as_secs_f64();
        if elapsed > 0.0 {
            let rate = self.acks as f64 / elapsed * self.limit.beta;
            // The ACK rate is smoothed and limited to half of the link.
            if !self.literal {
                self.acks_rate = ((self.acks_rate + rate) / 2.0).min(self.capacity / 2.0);
            }
            (self.acks, self.acks_since) = (0, port.now);
        }
        // Divide again: the numbers of flows are now known, and UDP may have ended.
        self.divide_classes(port, 0);
        self.shares.begin(&mut self.demands);
        self.layers = [0.0; Layer::COUNT];
        for (_, flow) in self.table.iter_mut() {
            if flow.active && flow.class == Class::Brf {
                flow.base = self.shares.grant(flow.demand, flow.used);
                let layer = flow.update_layer(self.mice);
                self.layers[layer as usize] += self.shares.rate(flow.base);
            }
        }
        if self.drain || self.follow {
            let gamma = self.period.mul_f64(self.gamma).max(self.period_min);
            self.shares.drain(Self::backlog(port), gamma.as_secs_f64());
        }
        self.set_classes(port);
        self.announce(port);
        self.state.transition(State::Measurement);
        self.allocate_at = port.now.saturating_add(self.period);
    }

    /// Estimates the capacity from the last period: the departure rate, if packets waited during the whole period. If
    /// the queue was sometimes empty although the shares were used, the departure rate is only a lower bound, so the
    /// estimate probes upwards.
    fn follow_capacity(&mut self, port: &Port<'_>) {
        let elapsed = (port.now - self.departures.since).as_secs_f64();
        let rate = self.departures.bytes as f64 / elapsed;
        let (least, most) = (self.nominal * FOLLOW_RANGE.0, self.nominal * FOLLOW_RANGE.1);
        if self.departures.starved || (self.departures.bytes == 0 && port.backlog.is_zero()) {
            if rate > FOLLOW_USED * self.capacity {
                self.capacity = (self.capacity * FOLLOW_GAIN).min(most);
            }
        } else {
            self.capacity = rate.clamp(least, most);
        }
        self.departures = Departures { since: port.now, bytes: 0, starved: false };
    }

    /// Retires silent flows, and removes expired flows: those that ended, were never established or have been idle for
    /// long.
    pub(super) fn sweep(&mut self, port: &mut Port<'_>) {
        let now = port.now;
        self.swept_at = now;
        let silent = (self.period * SILENT_PERIODS).max(self.silence_min);
        let mut gone = std::mem::take(&mut self.gone);
        for (id, flow) in self.table.iter_mut() {
            let (quiet, age) = (now - flow.seen, now - flow.opened);
            let expired = if flow.closed {
                quiet > CLOSED
            } else if flow.established {
                quiet > self.idle
            } else {
                age > HANDSHAKE_ENTRY
            };
            // A flow with a small share pauses between packets without being silent.
            let between = || Nanos::from_secs_f64(SILENT_PACKETS * flow::PACKET / self.shares.rate(flow.base));
            // With the equations as printed, an entry stays until its connection closes.
            let passive = flow.active
                && if flow.established {
                    !self.literal && quiet > silent && quiet > between()
                } else {
                    age > HANDSHAKE
                };
            if expired || passive {
                gone.push(id);
            }
            if expired {
                // Mark the flow for the loop below.
                flow.seen = Nanos::ZERO;
                flow.closed = true;
            }
        }
        for id in gone.drain(..) {
            if let Some(mut flow) = self.table.remove(id) {
                let expired = flow.closed && flow.seen.is_zero();
                self.retire(port, id, &mut flow);
                if expired {
                    self.half_open[flow.class as usize] -= usize::from(!flow.established);
                    self.counts.expired += 1;
                } else {
                    self.table.insert(now, id, flow);
                }
            }
        }
        self.gone = gone;
    }

    /// Measures every flow with a share, and lists the demands.
    fn measure(&mut self, now: Nanos) {
        let mut longest = Nanos::ZERO;
        self.demands.clear();
        self.load = 0.0;
        for (_, flow) in self.table.iter_mut() {
            if !flow.active || flow.class != Class::Brf {
                continue;
            }
            let share = self.shares.rate(flow.base);
            if self.literal {
                flow.measure_as_printed(now, self.limit, share);
            } else {
                flow.measure(now, self.period, self.packets, self.limit, share);
            }
            self.load += flow.rate;
            self.demands.push(flow.demand);
            longest = longest.max(flow.rtt);
        }
        if !longest.is_zero() {
            self.period = longest.clamp(self.period_min, PERIOD_MAX);
        }
    }

    /// Announces to the other switches the shares of flows whose ACKs do not pass here.
    fn announce(&mut self, port: &mut Port<'_>) {
        let now = port.now;
        for (id, flow) in self.table.iter_mut() {
            let sends = flow.active && flow.established && flow.class == Class::Brf;
            let unanswered = flow.unanswered > flow.returned && now - flow.unanswered > ack_timeout(flow.rtt);
            if sends && unanswered && now - flow.announced >= flow.rtt {
                flow.announced = now;
                let share = self.shares.rate(flow.base);
                flow.advise(share);
                let advice = self.shares.advice(flow.base);
                // Of several switches on the path, only the switch with the lowest share announces (equation 7);
                // otherwise the sender would receive all shares in turn. The other switches take over when that switch
                // stops announcing.
                let fresh = ack_timeout(flow.rtt).max(self.period * 2);
                let lower = |(code, at): (RateCode, _)| code.decode() < advice && now - at < fresh;
                if !flow.remote.is_some_and(lower) {
                    let code = RateCode::encode(advice).0;
                    port.send(Outgoing::Broadcast(Signal::Insert { flow: id, code }));
                    self.counts.announced += 1;
                }
            }
        }
    }
}

impl Brf {
    /// Backlog of the BRF flows in bytes; of all flows if the queue has no classes.
    pub(super) fn backlog(port: &Port<'_>) -> f64 {
        let [brf, others, udp] = [BRF, OTHERS, UDP].map(|class| port.class_backlog(class));
        if (brf + others + udp).is_zero() { port.backlog.as_f64() } else { brf.as_f64() }
    }

    /// Cuts shares for γ on a report of the controller (equations 16 to 18).
    pub(super) fn reduce(&mut self, port: &mut Port<'_>, congestion: Congestion) {
        if self.state != State::Measurement {
            return;
        }
        // The cut lasts long enough for an ACK to every flow, at one ACK per two packets.
        let two_packets = 2.0 * flow::PACKET * self.shares.count() as f64 / self.shares.allocated().max(1.0);
        let gamma = self.period.mul_f64(self.gamma).max(Nanos::from_secs_f64(two_packets)).max(self.period_min);
        match congestion {
            Congestion::Queue { packets } => {
                let counted = packets as f64 * flow::PACKET;
                let waiting = if self.literal { counted } else { Self::backlog(port).min(counted) };
                if waiting == 0.0 {
                    return;
                }
                self.shares.drain(waiting, gamma.as_secs_f64());
            }
            Congestion::Load => self.shares.unload(self.utilization, self.load),
        }
        self.state.transition(State::CongestionReduction);
        self.counts.reductions += 1;
        self.allocate_at = port.now.saturating_add(gamma);
    }
}
