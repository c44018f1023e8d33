//! The record of a flow at a port.

use narrows_cc::Nanos;

use super::shares::Limit;
use super::{FIRST_LAYER, OTHERS, RateCode};

/// Packet size in bytes, which limits the resolution of measured rates.
pub(super) const PACKET: f64 = 1500.0;

/// Minimum number of packets per measurement: packets that arrived, or that the flow's share would have allowed.
const LEAST_PACKETS: f64 = 10.0;

/// The class of a flow: the paper's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Offered to obey.
    Brf,
    /// CUBIC, and any other flow opened by a SYN.
    Other,
}

/// The layers of the BRF class, in order of priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layer {
    /// Flows that have sent few bytes so far.
    Mice,
    /// Application-limited flows.
    Limited,
    /// All other flows.
    Elephants,
}

impl Layer {
    /// Number of layers.
    pub(super) const COUNT: usize = 3;
}

/// The record of a flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) class: Class,
    pub(super) layer: Layer,
    /// Whether a packet followed the sender's SYN.
    pub(super) established: bool,
    /// Whether the flow has ended; further packets are retransmissions.
    pub(super) closed: bool,
    /// Whether the flow counts as a member of its class; an active BRF flow has a share.
    pub(super) active: bool,
    /// Arrival time of the flow's SYN, and of its last packet.
    pub(super) opened: Nanos,
    pub(super) seen: Nanos,
    /// Time from the flow's SYN to the next packet; zero until that packet arrives.
    pub(super) rtt: Nanos,
    /// The flow's share, as a base of [`super::shares::Shares`].
    pub(super) base: f64,
    /// The flow's measured demand and usage; an infinite value means that the flow could use any share.
    pub(super) demand: f64,
    pub(super) used: f64,
    /// Bytes sent in total.
    pub(super) sent: u64,
    /// Bytes that arrived since `since`.
    pub(super) arrived: u64,
    pub(super) since: Nanos,
    /// The latest measured rate, in bytes per second.
    pub(super) rate: f64,
    /// Whether the flow has been measured since it joined.
    measured_once: bool,
    /// Whether the period in which the flow joined is over.
    begun: bool,
    /// Whether the flow was measured, or predicted, to be application-limited.
    limited: bool,
    /// Bytes and total length of the measured periods.
    measured: (u64, Nanos),
    /// The share last written to the sender, and the lowest shares that governed arrivals in this period and
    /// in the previous one, in bytes per second; zero before the first.
    advised: f64,
    least: f64,
    least_before: f64,
    /// Another switch's share, carried by the last ACK or announcement, and the arrival time of that packet.
    pub(super) other_share: Option<(f64, Nanos)>,
    /// Earliest time of the next written share.
    pub(super) write_at: Nanos,
    /// Times of the first packet after the last ACK, of that ACK, and of the last announcement to other
    /// switches.
    pub(super) unanswered: Nanos,
    pub(super) returned: Nanos,
    pub(super) announced: Nanos,
    /// Latest announcement of another switch on the path, and the arrival time of that announcement.
    pub(super) remote: Option<(RateCode, Nanos)>,
}

impl Flow {
    pub(super) fn new(now: Nanos, class: Class) -> Self {
        Self {
            class,
            layer: Layer::Mice,
            established: false,
            closed: false,
            active: false,
            opened: now,
            seen: now,
            rtt: Nanos::ZERO,
            base: 0.0,
            demand: f64::INFINITY,
            used: f64::INFINITY,
            sent: 0,
            arrived: 0,
            since: now,
            rate: 0.0,
            measured_once: false,
            begun: false,
            limited: false,
            measured: (0, Nanos::ZERO),
            advised: 0.0,
            least: 0.0,
            least_before: 0.0,
            other_share: None,
            write_at: Nanos::ZERO,
            unanswered: now,
            returned: now,
            announced: Nanos::ZERO,
            remote: None,
        }
    }

    /// Class of the flow's packets in the port's queue.
    pub(super) const fn queue(&self) -> u8 {
        match self.class {
            Class::Brf => FIRST_LAYER + self.layer as u8,
            Class::Other => OTHERS,
        }
    }

    /// Gives the flow a share with this base, from the prediction (`predicted`) or an equal share.
    pub(super) fn join(&mut self, now: Nanos, base: f64, predicted: bool) {
        self.active = true;
        (self.measured_once, self.begun, self.limited) = (false, false, predicted);
        self.base = base;
        (self.demand, self.used) = (f64::INFINITY, f64::INFINITY);
        self.restart(now);
        // Earlier shares no longer govern its rate.
        (self.advised, self.least, self.least_before) = (0.0, 0.0, 0.0);
        self.write_at = now;
    }

    /// Restarts the measurement.
    pub(super) fn restart(&mut self, now: Nanos) {
        self.since = now;
        self.arrived = 0;
    }

    /// Records that `share` is written to the sender.
    pub(super) fn advise(&mut self, share: f64) {
        if self.advised == 0.0 {
            // A new flow sends no data before it receives its share; a returning flow starts at the rate that it had
            // before.
            (self.least, self.least_before) = (share, if self.established { 0.0 } else { share });
        }
        self.advised = share;
        self.least = self.least.min(share);
    }

    /// The flow's measured rate in bytes per second; 0 before the first measurement.
    pub(super) fn measured_rate(&self) -> f64 {
        if self.measured_once { self.rate } else { 0.0 }
    }

    /// Whether the flow used all of its share in the last measurement.
    pub(super) fn is_backlogged(&self) -> bool {
        self.measured_once && !self.limited
    }

    /// Whether `share` is below nine tenths of the share last written.
    pub(super) fn has_fallen_to(&self, share: f64) -> bool {
        share < 0.9 * self.advised
    }

    /// Equation 14 at the end of a period: decides whether the flow is application-limited. Arriving data follows a
    /// share written up to a round trip ago, so the rate is compared with the lowest share that may have governed the
    /// arrivals. Otherwise a flow whose share has just risen would count as limited.
    ///
    /// A period may miss one packet. Without correction, the demand of a limited flow would be too low by that packet,
    /// and the flow would then appear to use its whole share. One more packet therefore counts as sent until the flow
    /// is found limited and measured over `packets` packets.
    ///
    /// An unmeasured flow counts with `share`, its current share.
    pub(super) fn measure(&mut self, now: Nanos, period: Nanos, packets: f64, limit: Limit, share: f64) {
        let elapsed = now - self.since;
        let seconds = elapsed.as_secs_f64();
        let allowed = self.least.min(self.least_before);
        let seen = (allowed * seconds).max(self.arrived as f64);
        let enough = if self.limited { packets.max(LEAST_PACKETS) } else { LEAST_PACKETS };
        if !self.established || elapsed < period || seen < enough * PACKET {
            if !self.measured_once {
                (self.demand, self.used, self.rate) = (share, share, share);
            }
            if self.established && !self.begun && elapsed < period {
                // Data queued at the sender during the handshake is no measure of its rate.
                self.begun = true;
                self.restart(now);
            }
            return;
        }
        self.measured_once = true;
        self.rate = self.arrived as f64 / seconds;
        let grain = if self.limited { 0.0 } else { PACKET / seconds };
        self.demand = limit.demand(self.rate + grain, allowed);
        self.limited = self.demand.is_finite();
        self.used = if self.limited { self.rate } else { f64::INFINITY };
        self.measured.0 += self.arrived;
        self.measured.1 = self.measured.1.saturating_add(elapsed);
        (self.least_before, self.least) = (self.least, self.advised);
        self.restart(now);
    }

    /// Equation 14 as printed: a flow is application-limited if the data that arrived since the last allocation is less
    /// than alpha of its current share. A flow whose sender has not answered counts with its share.
    pub(super) fn measure_as_printed(&mut self, now: Nanos, limit: Limit, share: f64) {
        let elapsed = now - self.since;
        if !self.established || elapsed.is_zero() {
            (self.demand, self.used, self.rate) = (share, 0.0, 0.0);
            return;
        }
        self.measured_once = true;
        self.rate = self.arrived as f64 / elapsed.as_secs_f64();
        self.demand = limit.demand(self.rate, share);
        self.limited = self.demand.is_finite();
        self.used = self.rate;
        self.measured.0 += self.arrived;
        self.measured.1 = self.measured.1.saturating_add(elapsed);
        self.restart(now);
    }

    /// Mean rate over all measured periods, in bytes per second.
    pub(super) fn mean_rate(&self) -> Option<f64> {
        let (bytes, time) = self.measured;
        (!time.is_zero()).then(|| bytes as f64 / time.as_secs_f64())
    }

    /// Returns the mean rate; later periods form a new mean.
    pub(super) fn take_mean(&mut self) -> Option<f64> {
        let mean = self.mean_rate();
        self.measured = (0, Nanos::ZERO);
        mean
    }

    /// Updates and returns its layer; flows are mice up to `mice` bytes.
    pub(super) fn update_layer(&mut self, mice: u64) -> Layer {
        self.layer = if self.sent <= mice {
            Layer::Mice
        } else if self.demand.is_finite() {
            Layer::Limited
        } else {
            Layer::Elephants
        };
        self.layer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { alpha: 0.95, beta: 1.1 };
    const PERIOD: Nanos = Nanos::from_millis(100);

    /// A flow after the period in which it joined, with its share written at the start.
    fn advised(share: f64, predicted: bool) -> Flow {
        let mut flow = Flow::new(Nanos::ZERO, Class::Brf);
        flow.join(Nanos::ZERO, 0.0, predicted);
        flow.advise(share);
        flow.established = true;
        flow.arrived = 1;
        measure(&mut flow, 50, share);
        assert_eq!(flow.arrived, 0, "measured from now on");
        flow
    }

    fn measure(flow: &mut Flow, ms: u64, share: f64) {
        flow.measure(Nanos::from_millis(ms), PERIOD, 50.0, LIMIT, share);
    }

    /// A flow counts with its share until it has been measured for a whole period.
    #[test]
    fn new_flow_counts_with_its_share_until_measured() {
        let mut flow = advised(1e6, false);
        assert_eq!((flow.demand, flow.used, flow.mean_rate()), (1e6, 1e6, None));
        flow.arrived = 100_000;
        measure(&mut flow, 149, 2e6);
        assert_eq!((flow.demand, flow.used), (2e6, 2e6));
        measure(&mut flow, 150, 2e6);
        assert_eq!((flow.demand, flow.rate, flow.mean_rate()), (f64::INFINITY, 1e6, Some(1e6)));
        assert_eq!((flow.take_mean(), flow.mean_rate()), (Some(1e6), None));
    }

    /// A flow is limited if it is below alpha of its share by more than a packet.
    #[test]
    fn flow_below_alpha_by_over_a_packet_is_limited() {
        // One packet per 100 ms is 15 kB/s: the threshold is 950 kB/s minus 15 kB/s.
        for (arrived, demand) in [(93_500, f64::INFINITY), (93_499, 949_990.0 * 1.1)] {
            let mut flow = advised(1e6, false);
            flow.arrived = arrived;
            measure(&mut flow, 150, 1e6);
            assert!(flow.demand == demand || (flow.demand - demand).abs() < 1e-3, "{}", flow.demand);
        }
        // A measurement needs ten packets: at 75 kB/s these take 200 ms.
        let mut flow = advised(75_000.0, false);
        flow.arrived = 1_500;
        measure(&mut flow, 249, 75_000.0);
        assert_eq!(flow.demand, 75_000.0, "its share");
        measure(&mut flow, 250, 75_000.0);
        assert!((flow.demand - 15_000.0 * 1.1).abs() < 1e-6, "{}", flow.demand);
    }

    /// A measured rate is compared with the lowest share that may have governed it.
    #[test]
    fn rate_is_compared_with_lowest_governing_share() {
        let mut flow = advised(1e6, false);
        flow.arrived = 100_000;
        measure(&mut flow, 150, 1e6);
        // The share has just doubled: the flow sends at the old rate in this period, at both rates in the next, then at
        // the new rate.
        flow.advise(2e6);
        for (ms, arrived, limited) in
            [(250, 100_000, false), (350, 150_000, false), (450, 200_000, false), (550, 150_000, true)]
        {
            flow.arrived = arrived;
            measure(&mut flow, ms, 2e6);
            assert_eq!(flow.demand.is_finite(), limited, "{ms} ms");
        }
        // A share that has just fallen governs the rate immediately.
        let mut flow = advised(2e6, false);
        flow.advise(1e6);
        flow.arrived = 95_000;
        measure(&mut flow, 150, 1e6);
        assert_eq!(flow.demand, f64::INFINITY);
    }

    /// A limited flow is measured over fifty packets, without the margin of one packet.
    #[test]
    fn limited_flow_is_measured_over_fifty_packets() {
        // 150 kB/s are ten packets of 1500 B in 100 ms, and fifty in half a second.
        let mut flow = advised(150_000.0, true);
        flow.arrived = 71_000;
        measure(&mut flow, 549, 150_000.0);
        assert_eq!(flow.demand, 150_000.0, "its share");
        measure(&mut flow, 550, 150_000.0);
        assert!((flow.demand - 142_000.0 * 1.1).abs() < 1e-6, "{}", flow.demand);
        // A measurement of fifty packets suffices at any share; a usage of 95 % counts as the whole share.
        for (ms, arrived) in [(150, 75_000), (550, 71_250)] {
            let mut flow = advised(150_000.0, true);
            flow.arrived = arrived;
            measure(&mut flow, ms, 150_000.0);
            assert_eq!(flow.demand, f64::INFINITY);
        }
    }

    /// A limited flow stays limited wherever packets fall into periods.
    #[test]
    fn limited_flow_stays_limited_at_any_packet_phase() {
        for rate in [20_000_u64, 100_000, 160_000, 333_333, 1_118_875, 5_000_000] {
            let (mut flow, mut share, mut last) = (advised(1e7, false), 1e7, rate * 50 / 1500 / 1000);
            let mut measured = 0;
            for ms in (150..10_000).step_by(100) {
                let packets = rate * ms / 1500 / 1000;
                flow.arrived += (packets - last) * 1500;
                last = packets;
                measure(&mut flow, ms, share);
                share = if flow.demand.is_finite() { flow.demand } else { 1e7 };
                flow.advise(share);
                if flow.used.is_finite() && flow.used < 1e7 {
                    measured += usize::from(flow.since == Nanos::from_millis(ms));
                    // The first measurement counts one packet more per period; later measurements err by one packet in
                    // fifty.
                    let most = if measured == 1 { rate as f64 + 30_000.0 } else { rate as f64 * 1.03 };
                    assert!(flow.demand < 1.1 * most, "{} at {ms} ms for {rate}", flow.demand);
                } else {
                    assert_eq!(measured, 0, "limited once, unlimited at {ms} ms for {rate}");
                }
            }
            assert!(measured > 0, "{rate} was measured");
        }
    }

    /// A flow is a mouse first, then limited or an elephant.
    #[test]
    fn flow_is_mouse_then_limited_or_elephant() {
        let mut flow = advised(1e6, false);
        flow.sent = 100_000;
        assert_eq!(flow.update_layer(100_000), Layer::Mice);
        flow.sent += 1;
        assert_eq!(flow.update_layer(100_000), Layer::Limited, "with its share as demand");
        flow.demand = f64::INFINITY;
        assert_eq!(flow.update_layer(100_000), Layer::Elephants);
    }
}
