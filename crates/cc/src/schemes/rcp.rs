//! # RCP: the routers name the rate
//!
//! The sender does not probe: its SYN already asks the network for a rate, every packet asks again, and it sends at the
//! lowest rate that the routers on the way wrote into the header. The work is done by the allocator `rcp` at the links.
//!
//! ## Control law
//! Let R be the rate advised, in payload bytes per second (the transport takes the headers off: a packet on the wire is
//! followed by a gap of its whole size divided by the router's rate).
//!
//! * pacing rate = R, `min_rate` packets per second at least
//! * window = `window_gain` · R · srtt, four segments at least: it only stops a sender whose acknowledgements have ceased.
//! * Before the first advice: the initial window, not paced.
//! * Every packet asks for `line_rate`, the desired rate of the papers; routers only lower it. Advice of zero or above
//!   `line_rate` is therefore no router's: ignored, and counted; the last rate stands.
//!
//! Loss and marks change nothing.
//!
//! ## States
//! None.
//!
//! ## Life of a flow
//! The SYN brings the first rate back. The first window is already sent at that rate, and a round trip later the flow has
//! the rate of all others. Short flows end before the queue of a slow start would have formed.
//!
//! ## References
//! * Dukkipati, Kobayashi, Zhang-Shen, McKeown, 'Processor sharing flows in the Internet', IWQoS 2005.
//! * The authors' agents for ns-2 (`rcp-host.cc`), as kept in `victorkp/rcp-ns2-result-reproduction`.
//!
//! ## Differences
//! 1. It rides on TCP: handshake, repair of losses and acknowledgements are TCP's, and RCP's fields add 12 bytes to TCP's
//!    header (two rates, round-trip time, type and spare bits), where the ns-2 agents count 40 bytes for everything.
//! 2. The ns-2 agents send extra packets to ask for a rate when data is sparser than one packet per round trip. Here a flow
//!    that resumes sends at the rate it had, and has a new one a round trip later.
//! 3. The ns-2 agents have no window. Here one bounds what is lost if the network dies.
//! 4. What is ignored is counted; the least rate keeps a flow from stalling when a router asks for less than a packet per
//!    second.
//! 5. The desired rate travels as a 32-bit float, rounded down, so that an echo of it is not above `line_rate`.
//! 6. A `line_rate` of 1 Tbit/s, the default, stands for none: packets ask without naming a rate, and one that comes back
//!    unnamed shows that no router took part.
//!
//! ## Known weaknesses
//! It believes whatever comes back within its line rate, and keeps the last rate when routers stop answering. On a path whose
//! narrowest link does not take part it overruns that link for ever. Where a line rate is stated and no router takes part, the
//! rate asked for comes back as it was, and the flow sends at it whatever it meets.

use crate::advised::{Bounds, NO_LINE};
use crate::{
    Ack, Advice, CongestionControl, Control, Evidence, Explicit, Info, Nanos, Param, Rate, RateAdvice,
    RecoveryEntered, RecoveryStyle, Setup, Telemetry, Timeout, Value,
};

/// The sender's side of RCP.
#[derive(Clone, Debug)]
pub struct Rcp {
    control: Control,
    bounds: Bounds,
    srtt: Nanos,
    ignored: u64,
}

impl CongestionControl for Rcp {
    const INFO: Info = Info {
        name: "rcp",
        aliases: &[],
        summary: "RCP: sends at the rate that routers write into headers",
        evidence: Evidence::Verified,
        recovery: RecoveryStyle::Own,
        params: &[
            Param::number("min_rate", 1.0, (0.1, 1000.0), "pkt/s", "advice below this counts as this"),
            Param::number(
                "line_rate",
                NO_LINE,
                (1.0, NO_LINE),
                "mbit",
                "what is asked for: advice above this is ignored; 1000000: no limit is stated",
            ),
            Param::number("window_gain", 2.0, (1.0, 10.0), "", "the window in products of rate and srtt"),
        ],
    };
    const EXPLICIT: Option<Explicit> = Some(Explicit::Rcp);

    fn new(setup: &Setup) -> Self {
        Self {
            control: Control { cwnd: setup.initial_window, pacing_rate: None, burst: setup.mss },
            bounds: Bounds::new(setup),
            srtt: Nanos::ZERO,
            ignored: 0,
        }
    }

    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.srtt = event.srtt;
    }
    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {}
    fn on_timeout(&mut self, _event: &Timeout) {}

    fn on_rate_advice(&mut self, event: &RateAdvice) {
        let rate = match event.advice {
            Advice::Rate(rate) => self.bounds.rate(rate),
            Advice::Change(_) => None,
        };
        let Some(rate) = rate else {
            self.ignored += 1;
            return;
        };
        self.control.pacing_rate = Some(rate);
        if let Some(window) = self.bounds.window(rate, self.srtt) {
            self.control.cwnd = window;
        }
    }

    fn line_rate(&self) -> Option<Rate> {
        self.bounds.line_rate()
    }

    #[inline]
    fn control(&self) -> Control {
        self.control
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("advice_ignored", Value::Number(self.ignored as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;
    use crate::testing::{ack, setup};

    fn advised(rcp: &mut Rcp, advice: Advice) -> Control {
        rcp.on_rate_advice(&RateAdvice { now: Nanos::ZERO, advice });
        rcp.control()
    }

    /// The scheme sends at the advised rate within its bounds and ignores invalid advice.
    #[test]
    fn rcp_follows_advised_rate_and_ignores_invalid_advice() {
        let mut rcp = Rcp::new(&setup(&Rcp::INFO, 1000, &[("line_rate", 80.0)]));
        let start = rcp.control();
        assert_eq!((start.cwnd, start.pacing_rate), (Bytes::new(10_000), None));
        for nothing in [Advice::Rate(Rate::ZERO), Advice::Change(5.0), Advice::Change(f64::NAN)] {
            assert_eq!(advised(&mut rcp, nothing), start);
        }
        rcp.on_ack(&Ack { srtt: Nanos::from_millis(40), ..ack(0) });
        // Twice 1 MB/s for 40 ms.
        let rate = Rate::from_bytes_per_sec(1_000_000);
        let control = advised(&mut rcp, Advice::Rate(rate));
        assert_eq!((control.cwnd, control.pacing_rate), (Bytes::new(80_000), Some(rate)));
        // More than the line carries is nobody's advice; 80 Mbit/s themselves are one.
        for more in [10_000_001, u64::MAX] {
            assert_eq!(advised(&mut rcp, Advice::Rate(Rate::from_bytes_per_sec(more))), control);
        }
        assert_eq!(rcp.ignored, 5);
        let most = advised(&mut rcp, Advice::Rate(Rate::from_bytes_per_sec(10_000_000)));
        assert_eq!(most.pacing_rate, Some(Rate::from_bytes_per_sec(10_000_000)));
        // One packet per second and four segments at least.
        let least = advised(&mut rcp, Advice::Rate(Rate::from_bytes_per_sec(1)));
        assert_eq!(least.pacing_rate, Some(Rate::from_bytes_per_sec(1000)));
        assert_eq!(least.cwnd, Bytes::new(4_000));
        assert_eq!(rcp.ignored, 5);
    }

    /// The scheme requests its line rate if configured, and at least its minimum rate.
    #[test]
    fn rcp_requests_line_rate_and_at_least_its_minimum() {
        let asks = |values: &[(&str, f64)]| Rcp::new(&setup(&Rcp::INFO, 1000, values)).line_rate();
        assert_eq!(asks(&[]), None);
        assert_eq!(asks(&[("line_rate", 80.0)]), Some(Rate::from_bytes_per_sec(10_000_000)));
        // A thousand packets of 1000 B are more than 1 Mbit/s.
        let least = asks(&[("line_rate", 1.0), ("min_rate", 1000.0)]);
        assert_eq!(least, Some(Rate::from_bytes_per_sec(1_000_000)));
    }
}
