//! # RCP: routers set the rate
//!
//! The sender does not probe. Its SYN already requests a rate, every packet repeats the request, and the sender uses
//! the lowest rate that the routers on the path wrote into the header. The router algorithm `rcp` on the links does the
//! work.
//!
//! ## Control law
//! Let R be the advised rate, in payload bytes per second (the transport subtracts the headers: on the wire, the
//! interval between packets is their whole size divided by the router's rate).
//!
//! * pacing rate = R, at least `min_rate` packets per second
//! * cwnd = `window_gain` · R · srtt, at least four segments: this cwnd only stops a sender whose ACKs have ceased.
//! * Before the first advice, cwnd is the initial window, without pacing.
//! * Every packet requests `line_rate`, the desired rate of the papers; routers only lower it. Advice of zero or above
//!   `line_rate` therefore cannot come from a router: such advice is ignored and counted, and the last rate remains in
//!   force.
//!
//! Loss and marks change nothing.
//!
//! ## States
//! None.
//!
//! ## Life of a flow
//! The SYN brings back the first rate. The flow sends its first window at that rate, and one round trip later the flow
//! has the same rate as all others. Short flows end before slow start would build a queue.
//!
//! ## References
//! * Dukkipati, Kobayashi, Zhang-Shen, McKeown, 'Processor sharing flows in the Internet', IWQoS 2005.
//! * The authors' agents for ns-2 (`rcp-host.cc`), as preserved in `victorkp/rcp-ns2-result-reproduction`.
//!
//! ## Differences
//! 1. RCP runs on TCP: handshake, loss repair and ACKs are TCP's. RCP's fields add 12 bytes to TCP's header (two rates,
//!    round-trip time, type and spare bits). The ns-2 agents count 40 bytes for all headers together.
//! 2. The ns-2 agents send extra packets to request a rate when a flow sends less than one data packet per round trip.
//!    Here a flow that resumes sends at its previous rate and gets a new rate after a round trip.
//! 3. The ns-2 agents have no cwnd. Here a cwnd bounds the loss if the network fails.
//! 4. Ignored advice is counted. The minimum rate keeps a flow from stalling when a router advises less than
//!    one packet per second.
//! 5. The desired rate travels as a 32-bit float, rounded down, so that its echo does not exceed `line_rate`.
//! 6. A `line_rate` of 1 Tbit/s, the default, means no limit: packets carry a request without a rate, and an echo
//!    without a rate shows that no router on the path runs `rcp`.
//!
//! ## Known weaknesses
//! RCP trusts any advice within its line rate, and keeps the last rate when routers stop answering. If the narrowest
//! link of a path does not run `rcp`, the flow overloads that link permanently. If `line_rate` is set and no router
//! runs `rcp`, the requested rate returns unchanged, and the flow sends at this rate regardless of congestion.

use crate::advised::{Bounds, NO_LINE};
use crate::{
    Ack, Advice, CongestionControl, Control, Info, Nanos, Param, Provenance, Rate, RateAdvice, RecoveryEntered,
    RecoveryStyle, Scheme, Setup, Telemetry, Timeout, Value,
};

/// The sender of RCP.
#[derive(Clone, Debug)]
pub struct Rcp {
    control: Control,
    bounds: Bounds,
    srtt: Option<Nanos>,
    ignored: u64,
}

impl Scheme for Rcp {
    const INFO: Info = Info {
        name: "rcp",
        aliases: &[],
        summary: "RCP: sends at the rate that routers write into headers",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: &[
            Param::number("min_rate", 1.0, (0.1, 1000.0), "pkt/s", "lower advice counts as this"),
            Param::number(
                "line_rate",
                NO_LINE,
                (1.0, NO_LINE),
                "mbit",
                "requested rate; higher advice is ignored; 1000000: no limit is stated",
            ),
            Param::ratio("window_gain", 2.0, (1.0, 10.0), "cwnd as a multiple of rate times srtt"),
        ],
    };
    const RATE_PROTOCOL: Option<&'static str> = Some("rcp");

    fn new(setup: &Setup) -> Self {
        Self {
            control: Control { cwnd: setup.initial_window, pacing_rate: None, burst: setup.mss },
            bounds: Bounds::new(setup),
            srtt: None,
            ignored: 0,
        }
    }
}

impl CongestionControl for Rcp {
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.srtt = event.srtt;
    }
    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {}
    fn on_timeout(&mut self, _event: &Timeout) {}

    fn on_rate_advice(&mut self, event: &RateAdvice) {
        let rate = match event.advice {
            Advice::Rate(rate) => self.bounds.rate(rate),
            Advice::Withdrawn | Advice::Change(_) => None,
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
    use crate::testing::{Build, ack};

    fn advised(rcp: &mut Rcp, advice: Advice) -> Control {
        rcp.on_rate_advice(&RateAdvice { now: Nanos::ZERO, advice });
        rcp.control()
    }

    /// The scheme sends at the advised rate within its bounds and ignores invalid advice.
    #[test]
    fn rcp_follows_advised_rate_and_ignores_invalid_advice() {
        let mut rcp = Rcp::with(&[("line_rate", 80.0)]);
        let start = rcp.control();
        assert_eq!((start.cwnd, start.pacing_rate), (Bytes::new(10_000), None));
        for nothing in [Advice::Rate(Rate::ZERO), Advice::Change(5.0), Advice::Change(f64::NAN)] {
            assert_eq!(advised(&mut rcp, nothing), start);
        }
        rcp.on_ack(&Ack { srtt: Some(Nanos::from_millis(40)), ..ack(0) });
        // cwnd is twice the data of 40 ms at 1 MB/s.
        let rate = Rate::from_bytes_per_sec(1_000_000);
        let control = advised(&mut rcp, Advice::Rate(rate));
        assert_eq!((control.cwnd, control.pacing_rate), (Bytes::new(80_000), Some(rate)));
        // Advice above the line rate is invalid; the line rate of 80 Mbit/s is valid.
        for more in [10_000_001, u64::MAX] {
            assert_eq!(advised(&mut rcp, Advice::Rate(Rate::from_bytes_per_sec(more))), control);
        }
        assert_eq!(rcp.ignored, 5);
        let most = advised(&mut rcp, Advice::Rate(Rate::from_bytes_per_sec(10_000_000)));
        assert_eq!(most.pacing_rate, Some(Rate::from_bytes_per_sec(10_000_000)));
        // The minimum is one packet per second and a cwnd of four segments.
        let least = advised(&mut rcp, Advice::Rate(Rate::from_bytes_per_sec(1)));
        assert_eq!(least.pacing_rate, Some(Rate::from_bytes_per_sec(1000)));
        assert_eq!(least.cwnd, Bytes::new(4_000));
        assert_eq!(rcp.ignored, 5);
    }

    /// The scheme requests its line rate if configured, and at least its minimum rate.
    #[test]
    fn rcp_requests_line_rate_and_at_least_its_minimum() {
        let requested = |values: &[(&str, f64)]| Rcp::with(values).line_rate();
        assert_eq!(requested(&[]), None);
        assert_eq!(requested(&[("line_rate", 80.0)]), Some(Rate::from_bytes_per_sec(10_000_000)));
        // The minimum rate, a thousand packets of 1000 B per second, is above the line rate of 1 Mbit/s, so it is
        // requested.
        let least = requested(&[("line_rate", 1.0), ("min_rate", 1000.0)]);
        assert_eq!(least, Some(Rate::from_bytes_per_sec(1_000_000)));
    }
}
