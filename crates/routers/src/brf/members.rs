//! Class membership: flows join, are established, retire and are removed; the bandwidth of each class follows its
//! number of flows.

use narrows_cc::{Nanos, Rate};

use super::allocate::Departures;
use super::flow::{Class, Flow, Layer};
use super::port_state::State;
use super::shares::Classes;
use super::{BRF, Brf, FIRST_LAYER, HALF_OPEN, OTHERS, PERIOD_MAX, PERIOD_UNKNOWN, UDP, UDP_GONE, UNTRACKED_GONE};
use crate::{FiveTuple, Port};

impl Brf {
    pub(super) fn is_udp(&self, flow: u32) -> bool {
        self.tuples.get(flow as usize).is_some_and(|tuple| tuple.protocol == FiveTuple::UDP)
    }

    /// Equation 9, with the margin of equation 14: without the margin, a flow that begins with exactly the usage of its
    /// kind would count as backlogged.
    pub(super) fn predict(&self, flow: u32) -> Option<f64> {
        let tuple = self.tuples.get(flow as usize).filter(|_| self.prediction)?;
        let margin = if self.literal { 1.0 } else { self.limit.beta };
        Some(self.learned.predict(tuple)? * margin)
    }

    /// Number of credible half-open BRF flows without a share.
    pub(super) fn waiting(&self) -> usize {
        if self.literal {
            return 0; // as printed, equation 10 counts flows, not handshakes
        }
        let half_open = self.half_open[Class::Brf as usize];
        half_open.saturating_sub(self.reserved).min(self.credible_half_open())
    }

    /// Maximum number of half-open flows that count as credible.
    pub(super) fn credible_half_open(&self) -> usize {
        (self.shares.count() - self.reserved).max(HALF_OPEN)
    }

    /// Applies equation 8 after any change of the numbers of flows. `joining` BRF flows are about to join.
    pub(super) fn divide_classes(&mut self, port: &mut Port<'_>, joining: usize) {
        // As printed, (8) leaves nothing for UDP.
        let udp = !self.literal && self.udp_seen.is_some_and(|seen| port.now - seen < UDP_GONE);
        let brf = self.shares.count() + joining;
        // Untracked flows keep a share, whether the table was full or the flows are older than the table.
        self.untracked &= self.untracked_seen.is_some_and(|seen| port.now - seen < UNTRACKED_GONE);
        let others = self.others + usize::from(self.untracked);
        let classes = Classes::divide(self.capacity - self.acks_rate, brf, others, udp, self.udp_share);
        if classes != self.classes {
            self.classes = classes;
            self.shares.set_capacity(classes.brf);
            self.set_classes(port);
        }
    }

    /// Configures the classes of the queue. All but UDP may borrow unused bandwidth.
    pub(super) fn set_classes(&self, port: &mut Port<'_>) {
        let rate = |rate: f64| Rate::from_bytes_per_sec(rate.max(1.0) as u64);
        // Only the link limits the rate.
        let all = Rate::MAX;
        port.set_class(BRF, rate(self.classes.brf + self.acks_rate), all);
        // Every layer has a minimum, so that a new flow need not wait for other layers' tokens.
        let least = 0.05 * self.classes.brf;
        let sum: f64 = self.layers.iter().map(|layer| layer + least).sum();
        for (class, layer) in (FIRST_LAYER..).zip(self.layers) {
            let part = if sum > 0.0 { (layer + least) / sum } else { 0.0 };
            let acks = if class == FIRST_LAYER { self.acks_rate } else { 0.0 };
            port.set_class(class, rate(self.classes.brf * part + acks), all);
        }
        port.set_class(OTHERS, rate(self.classes.others), all);
        port.set_class(UDP, rate(self.classes.udp), rate(self.classes.udp));
    }

    /// Gives a BRF flow its first share (equations 8 to 13) while `waiting` other flows have none yet: N also counts
    /// these credible half-open flows. Returns the flow's base, and whether the prediction is below an equal share.
    pub(super) fn admit(&mut self, port: &mut Port<'_>, prediction: Option<f64>, waiting: usize) -> (f64, bool) {
        let reducing = self.state == State::CongestionReduction;
        if self.state == State::FlowTable {
            self.allocate_at = port.now.saturating_add(self.period);
            self.departures = Departures { since: port.now, bytes: 0, starved: false };
            (self.acks, self.acks_since) = (0, port.now);
        } else if self.literal {
            // 'If no new flows are added' the allocation follows; with a new flow the allocation waits for another
            // period.
            self.allocate_at = port.now.saturating_add(self.period);
        }
        self.state.transition(State::InitialAllocation);
        self.divide_classes(port, 1);
        let before = self.shares.allocated();
        let first = self.shares.initial(prediction, waiting);
        let predicted = first < self.shares.initial(None, waiting);
        let base = self.shares.join(first);
        let initial = self.shares.rate(base);
        let kept = if before > 0.0 { (self.shares.allocated() - initial) / before } else { 0.0 };
        self.layers = self.layers.map(|layer| layer * kept);
        self.layers[Layer::Mice as usize] += initial;
        self.set_classes(port);
        self.state.transition(if reducing { State::CongestionReduction } else { State::Measurement });
        (base, predicted)
    }

    /// Removes a flow from its class: it ended, fell silent or was never established.
    pub(super) fn retire(&mut self, port: &mut Port<'_>, id: u32, flow: &mut Flow) {
        if let (Class::Brf, Some(tuple), Some(rate)) = (flow.class, self.tuples.get(id as usize), flow.take_mean()) {
            self.learned.teach(tuple, rate);
        }
        if !flow.active {
            return;
        }
        flow.active = false;
        match flow.class {
            Class::Brf => {
                self.reserved -= usize::from(!flow.established);
                let share = self.shares.rate(flow.base);
                let layer = &mut self.layers[flow.layer as usize];
                *layer = (*layer - share).max(0.0);
                let used = if self.literal { flow.measured_rate() } else { flow.used.min(share) };
                self.shares.leave(flow.base, used);
                if self.shares.count() == 0 {
                    self.state.transition(State::FlowTable);
                    self.allocate_at = Nanos::MAX;
                    (self.period, self.period_known) = (PERIOD_UNKNOWN, false);
                    self.layers = [0.0; Layer::COUNT];
                }
            }
            Class::Other => self.others -= 1,
        }
        self.divide_classes(port, 0);
    }

    /// Removes a flow from the table.
    pub(super) fn forget(&mut self, port: &mut Port<'_>, id: u32) {
        if let Some(mut flow) = self.table.remove(id) {
            self.half_open[flow.class as usize] -= usize::from(!flow.established);
            self.retire(port, id, &mut flow);
        }
    }

    /// Marks a flow as established: its sender has answered, `rtt` after its SYN.
    pub(super) fn establish(&mut self, port: &mut Port<'_>, id: u32, rtt: Nanos) {
        let Some(flow) = self.table.get(port.now, id) else { return };
        flow.established = true;
        flow.rtt = rtt;
        flow.restart(port.now);
        self.half_open[flow.class as usize] -= 1;
        if flow.class == Class::Brf {
            self.reserved -= usize::from(flow.active);
            if !self.period_known || rtt > self.period {
                // The first known RTT starts the schedule of allocations now; a later, longer RTT keeps the schedule.
                if !self.period_known && self.allocate_at != Nanos::MAX {
                    self.allocate_at = port.now.saturating_add(rtt.clamp(self.period_min, PERIOD_MAX));
                }
                self.period_known = true;
                self.period = rtt.clamp(self.period_min, PERIOD_MAX);
            }
        }
        self.activate(port, id);
    }

    /// Counts a sending flow as a member of its class.
    pub(super) fn activate(&mut self, port: &mut Port<'_>, id: u32) {
        let Some(flow) = self.table.get(port.now, id) else { return };
        if flow.active || flow.closed {
            return;
        }
        match flow.class {
            Class::Other => {
                flow.active = true;
                self.others += 1;
                self.divide_classes(port, 0);
            }
            Class::Brf => {
                // A returning flow that used all of its share needs no prediction.
                let backlogged = flow.is_backlogged();
                let prediction = if backlogged { None } else { self.predict(id) };
                let (base, predicted) = self.admit(port, prediction, self.waiting());
                if let Some(flow) = self.table.get(port.now, id) {
                    flow.join(port.now, base, predicted);
                }
            }
        }
    }

    /// Recomputes all incrementally maintained counts and compares them.
    #[cfg(test)]
    pub(super) fn check(&mut self) {
        let (mut holders, mut others, mut reserved, mut half_open, mut sum) = (0, 0, 0, [0; 2], 0.0);
        let (shares, nominal) = (self.shares.clone(), self.nominal);
        for (_, flow) in self.table.iter_mut() {
            half_open[flow.class as usize] += usize::from(!flow.established);
            if flow.active && flow.class == Class::Brf {
                holders += 1;
                reserved += usize::from(!flow.established);
                sum += shares.rate(flow.base);
                assert!(shares.rate(flow.base) > 0.0);
            }
            others += usize::from(flow.active && flow.class == Class::Other);
        }
        assert_eq!((holders, others), (shares.count(), self.others));
        assert_eq!((reserved, half_open), (self.reserved, self.half_open));
        assert!((sum - shares.allocated()).abs() <= 1e-6 * nominal, "{sum} {}", shares.allocated());
        let asleep = self.allocate_at == Nanos::MAX;
        assert_eq!(asleep, holders == 0, "it sleeps without flows, and only then");
        let classes = self.classes.brf + self.classes.others + self.classes.udp;
        assert!(classes <= nominal * (1.0 + 1e-9));
    }
}
