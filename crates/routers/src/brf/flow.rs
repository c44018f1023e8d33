//! What a port remembers of a flow.

use narrows_cc::Nanos;

use super::RateCode;
use super::shares::Limit;

/// The packet in which rates are counted at their finest, in bytes.
pub(super) const PACKET: f64 = 1500.0;

/// A flow is measured until so many packets could have come: fewer say too little.
const LEAST_PACKETS: f64 = 10.0;

/// Which queue of the paper a flow belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// It offered to obey.
    Brf,
    /// CUBIC, and whatever else opens with a SYN.
    Other,
}

/// The layers inside the BRF class, the first one served first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layer {
    /// Flows that have sent little so far.
    Mice,
    /// Those whose application is the limit.
    Limited,
    /// The others.
    Elephants,
}

impl Layer {
    /// How many there are.
    pub(super) const COUNT: usize = 3;
}

/// The record of a flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) class: Class,
    pub(super) layer: Layer,
    /// The sender's first packet after its SYN has been seen.
    pub(super) established: bool,
    /// It has ended; what still comes are repeats.
    pub(super) closed: bool,
    /// It counts among the flows of its class, and if that is BRF it has a share.
    pub(super) active: bool,
    /// When its SYN came, and its last packet.
    pub(super) opened: Nanos,
    pub(super) seen: Nanos,
    /// From its SYN to its first packet after that; zero until then.
    pub(super) rtt: Nanos,
    /// Its share, as [`super::shares::Shares`] keeps it.
    pub(super) base: f64,
    /// What it was found to demand and to use; infinite: whatever it gets.
    pub(super) demand: f64,
    pub(super) used: f64,
    /// Everything it has sent, in bytes.
    pub(super) sent: u64,
    /// Bytes that arrived since `since`.
    pub(super) arrived: u64,
    pub(super) since: Nanos,
    /// What was last measured of it, in bytes per second.
    pub(super) rate: f64,
    /// It has been measured since it joined.
    judged: bool,
    /// The period in which it joined is over.
    begun: bool,
    /// It was found to be limited, or predicted to be.
    small: bool,
    /// Bytes and length of the periods measured.
    measured: (u64, Nanos),
    /// The share that the sender knows of, and the least of those that governed what arrives in this period and in the last
    /// one, all in bytes per second; zero if it knows none.
    advised: f64,
    least: f64,
    least_before: f64,
    /// The share of another switch that an acknowledgement carried, and when that was.
    pub(super) beyond: Option<(f64, Nanos)>,
    /// Not before this time is a share written again.
    pub(super) write_at: Nanos,
    /// The first packet after the last acknowledgement seen, when that was, and when the share was last announced to the other switches.
    pub(super) unanswered: Nanos,
    pub(super) returned: Nanos,
    pub(super) announced: Nanos,
    /// The share that another switch of its way announced last, and when.
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
            judged: false,
            begun: false,
            small: false,
            measured: (0, Nanos::ZERO),
            advised: 0.0,
            least: 0.0,
            least_before: 0.0,
            beyond: None,
            write_at: Nanos::ZERO,
            unanswered: now,
            returned: now,
            announced: Nanos::ZERO,
            remote: None,
        }
    }

    /// It joins, with a base in the shares that comes from a prediction or is an equal one.
    pub(super) fn join(&mut self, now: Nanos, base: f64, predicted: bool) {
        self.active = true;
        (self.judged, self.begun, self.small) = (false, false, predicted);
        self.base = base;
        (self.demand, self.used) = (f64::INFINITY, f64::INFINITY);
        self.restart(now);
        // What it was told before is no measure for what it does now.
        (self.advised, self.least, self.least_before) = (0.0, 0.0, 0.0);
        self.write_at = now;
    }

    /// Measuring begins anew.
    pub(super) fn restart(&mut self, now: Nanos) {
        self.since = now;
        self.arrived = 0;
    }

    /// The sender will know of this share.
    pub(super) fn advise(&mut self, share: f64) {
        if self.advised == 0.0 {
            // Nothing of a flow that is being set up arrives before it knows; one that is back sends by what it knew.
            (self.least, self.least_before) = (share, if self.established { 0.0 } else { share });
        }
        self.advised = share;
        self.least = self.least.min(share);
    }

    /// It used all of its share when it was last measured.
    pub(super) fn is_greedy(&self) -> bool {
        self.judged && !self.small
    }

    /// Whether the sender knows of a share above this one by a tenth.
    pub(super) fn has_fallen_to(&self, share: f64) -> bool {
        share < 0.9 * self.advised
    }

    /// Equation 14 at the end of a period: whether the application is the limit. Between two shares a sender uses the one that
    /// it knows: what arrives now follows a share written up to a round trip ago. So the rate is compared with the least
    /// share that may have governed it, and a flow that has just been given more is not taken for a limited one.
    ///
    /// A rate counted in few packets may be a packet more, and a limited flow whose demand misses that one would seem to use all
    /// of it. So this packet counts as sent, until the flow, found limited, is measured over `packets` packets.
    ///
    /// `share` is what it has now: that is what it counts with until it has been measured.
    pub(super) fn measure(&mut self, now: Nanos, period: Nanos, packets: f64, limit: Limit, share: f64) {
        let elapsed = now - self.since;
        let seconds = elapsed.as_secs_f64();
        let allowed = self.least.min(self.least_before);
        let seen = (allowed * seconds).max(self.arrived as f64);
        let enough = if self.small { packets.max(LEAST_PACKETS) } else { LEAST_PACKETS };
        if !self.established || elapsed < period || seen < enough * PACKET {
            if !self.judged {
                (self.demand, self.used, self.rate) = (share, share, share);
            }
            if self.established && !self.begun && elapsed < period {
                // What had gathered at the sender during the handshake is no rate.
                self.begun = true;
                self.restart(now);
            }
            return;
        }
        self.judged = true;
        self.rate = self.arrived as f64 / seconds;
        let grain = if self.small { 0.0 } else { PACKET / seconds };
        self.demand = limit.demand(self.rate + grain, allowed);
        self.small = self.demand.is_finite();
        self.used = if self.small { self.rate } else { f64::INFINITY };
        self.measured.0 += self.arrived;
        self.measured.1 = self.measured.1.saturating_add(elapsed);
        (self.least_before, self.least) = (self.least, self.advised);
        self.restart(now);
    }

    /// The mean rate over all periods measured, in bytes per second.
    pub(super) fn mean_rate(&self) -> Option<f64> {
        let (bytes, time) = self.measured;
        (!time.is_zero()).then(|| bytes as f64 / time.as_secs_f64())
    }

    /// The same, once: what is measured from now on makes another mean.
    pub(super) fn take_mean(&mut self) -> Option<f64> {
        let mean = self.mean_rate();
        self.measured = (0, Nanos::ZERO);
        mean
    }

    /// Which layer it belongs to, if flows are mice up to so many bytes.
    pub(super) fn place(&mut self, mice: u64) -> Layer {
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

    /// A flow that was told a share at the start, with the period behind it in which it joined.
    fn told(share: f64, predicted: bool) -> Flow {
        let mut flow = Flow::new(Nanos::ZERO, Class::Brf);
        flow.join(Nanos::ZERO, 0.0, predicted);
        flow.advise(share);
        flow.established = true;
        flow.arrived = 1;
        measure(&mut flow, 50, share);
        assert_eq!(flow.arrived, 0, "measured from here on");
        flow
    }

    fn measure(flow: &mut Flow, ms: u64, share: f64) {
        flow.measure(Nanos::from_millis(ms), PERIOD, 50.0, LIMIT, share);
    }

    /// A flow counts with its share until it has been measured for a whole period.
    #[test]
    fn flow_counts_with_share_until_measured() {
        let mut flow = told(1e6, false);
        assert_eq!((flow.demand, flow.used, flow.mean_rate()), (1e6, 1e6, None));
        flow.arrived = 100_000;
        measure(&mut flow, 149, 2e6);
        assert_eq!((flow.demand, flow.used), (2e6, 2e6));
        measure(&mut flow, 150, 2e6);
        assert_eq!((flow.demand, flow.rate, flow.mean_rate()), (f64::INFINITY, 1e6, Some(1e6)));
        assert_eq!((flow.take_mean(), flow.mean_rate()), (Some(1e6), None));
    }

    /// A flow is limited if it uses less than alpha of its share by more than a packet.
    #[test]
    fn flow_is_limited_below_alpha_of_share() {
        // A packet in 100 ms is 15 kB/s: 950 kB/s less that is the edge.
        for (arrived, demand) in [(93_500, f64::INFINITY), (93_499, 949_990.0 * 1.1)] {
            let mut flow = told(1e6, false);
            flow.arrived = arrived;
            measure(&mut flow, 150, 1e6);
            assert!(flow.demand == demand || (flow.demand - demand).abs() < 1e-3, "{}", flow.demand);
        }
        // Ten packets say something, not fewer: 75 kB/s need 200 ms for that.
        let mut flow = told(75_000.0, false);
        flow.arrived = 1_500;
        measure(&mut flow, 249, 75_000.0);
        assert_eq!(flow.demand, 75_000.0, "its share");
        measure(&mut flow, 250, 75_000.0);
        assert!((flow.demand - 15_000.0 * 1.1).abs() < 1e-6, "{}", flow.demand);
    }

    /// Arrivals are compared with the least share that can have governed them.
    #[test]
    fn flow_usage_is_compared_with_least_share() {
        let mut flow = told(1e6, false);
        flow.arrived = 100_000;
        measure(&mut flow, 150, 1e6);
        // Given twice as much just now, it sends at the old rate for this period, at both in the next, at the new one then.
        flow.advise(2e6);
        for (ms, arrived, limited) in
            [(250, 100_000, false), (350, 150_000, false), (450, 200_000, false), (550, 150_000, true)]
        {
            flow.arrived = arrived;
            measure(&mut flow, ms, 2e6);
            assert_eq!(flow.demand.is_finite(), limited, "{ms} ms");
        }
        // Given less, the lesser share counts at once.
        let mut flow = told(2e6, false);
        flow.advise(1e6);
        flow.arrived = 95_000;
        measure(&mut flow, 150, 1e6);
        assert_eq!(flow.demand, f64::INFINITY);
    }

    /// A limited flow is measured over fifty packets, without the doubt of one packet.
    #[test]
    fn limited_flow_is_measured_over_fifty_packets() {
        // 150 kB/s are ten packets in 100 ms, and fifty in half a second.
        let mut flow = told(150_000.0, true);
        flow.arrived = 71_000;
        measure(&mut flow, 549, 150_000.0);
        assert_eq!(flow.demand, 150_000.0, "its share");
        measure(&mut flow, 550, 150_000.0);
        assert!((flow.demand - 142_000.0 * 1.1).abs() < 1e-6, "{}", flow.demand);
        // If fifty packets come, whatever it was told, that is enough; and 95 % are all of its share.
        for (ms, arrived) in [(150, 75_000), (550, 71_250)] {
            let mut flow = told(150_000.0, true);
            flow.arrived = arrived;
            measure(&mut flow, ms, 150_000.0);
            assert_eq!(flow.demand, f64::INFINITY);
        }
    }

    /// A limited flow stays limited wherever its packets fall into periods.
    #[test]
    fn limited_flow_stays_limited_across_periods() {
        for rate in [20_000_u64, 100_000, 160_000, 333_333, 1_118_875, 5_000_000] {
            let (mut flow, mut share, mut last) = (told(1e7, false), 1e7, rate * 50 / 1500 / 1000);
            let mut judged = 0;
            for ms in (150..10_000).step_by(100) {
                let packets = rate * ms / 1500 / 1000;
                flow.arrived += (packets - last) * 1500;
                last = packets;
                measure(&mut flow, ms, share);
                share = if flow.demand.is_finite() { flow.demand } else { 1e7 };
                flow.advise(share);
                if flow.used.is_finite() && flow.used < 1e7 {
                    judged += usize::from(flow.since == Nanos::from_millis(ms));
                    // The first time a packet of a period counts more, then one of fifty more or less.
                    let most = if judged == 1 { rate as f64 + 30_000.0 } else { rate as f64 * 1.03 };
                    assert!(flow.demand < 1.1 * most, "{} at {ms} ms for {rate}", flow.demand);
                } else {
                    assert_eq!(judged, 0, "limited once, unlimited at {ms} ms for {rate}");
                }
            }
            assert!(judged > 0, "{rate} was measured");
        }
    }

    /// A flow is a mouse first, then limited or an elephant.
    #[test]
    fn flow_starts_as_mouse() {
        let mut flow = told(1e6, false);
        flow.sent = 100_000;
        assert_eq!(flow.place(100_000), Layer::Mice);
        flow.sent += 1;
        assert_eq!(flow.place(100_000), Layer::Limited, "with its share as demand");
        flow.demand = f64::INFINITY;
        assert_eq!(flow.place(100_000), Layer::Elephants);
    }
}
