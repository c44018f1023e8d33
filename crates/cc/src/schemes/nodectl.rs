//! # Nodectl: negotiated rate
//!
//! Before its first data the sender requests a rate from the nodes on the path. It then sends at exactly the granted
//! rate, until a node reduces this rate or another negotiation grants more. The sender neither probes nor reacts to
//! loss. The transport exchanges the messages. The router algorithm `nodectl` on the links does the work.
//!
//! ## Control law
//! Let R be the granted rate, in payload bytes per second (the transport subtracts the headers: on the wire, the
//! interval between packets is their whole size divided by the granted rate).
//!
//! * pacing rate = R, at least `min_rate` packets per second
//! * cwnd = `window_gain` · R · srtt, at least four segments: this cwnd bounds the loss if the network fails.
//! * Without a granted rate, CUBIC sets cwnd and pacing; after a withdrawal CUBIC restarts.
//! * Requests are for at most `line_rate`. A grant above `line_rate` is therefore invalid; it is ignored and counted.
//!
//! Loss and marks change nothing while a rate is granted.
//!
//! ## States
//! ```text
//!   own (CUBIC) -- rate granted --> granted -- rate withdrawn --> own, from the initial window
//! ```
//!
//! ## Life of a flow
//! The transport sends a request after the handshake and sends no data until the answer arrives, one round trip later.
//! The negotiation fails after four requests without an answer, each with twice the timeout of the previous request, or
//! when the answer shows that no node on the path supports the protocol. Data then flows under CUBIC. After a failed
//! negotiation the transport retries from time to time.
//!
//! ## References
//! H. Liu, H. Ni, R. Han, 'A Transmission Rate Control Method for Active Congestion Reduction Based on
//! Network Node Bandwidth Allocation', Future Internet 15(12), 385, 2023: Algorithm 3 and section 6.2.
//!
//! ## Differences
//! 1. The paper does not cover networks where no node answers. Here the flow falls back to CUBIC, but without
//!    proportional rate reduction: the cwnd is enforced unchanged.
//! 2. The paper specifies pacing and no window. Here a cwnd bounds the loss.
//! 3. Invalid rates are ignored and counted, here and in the transport, which rejects a grant above its request. A
//!    `line_rate` of 1 Tbit/s, the default, means no limit. The transport signals a withdrawal as `Advice::Withdrawn`;
//!    a rate of zero is invalid. The minimum rate keeps a flow from stalling when it is granted less than one packet
//!    per second.
//!
//! ## Known weaknesses
//! A flow keeps its granted rate regardless of loss: if the nodes fail, or the route changes to a path without a
//! negotiated rate, the flow overloads the path until the flow ends. Beside traffic that does not negotiate, it takes
//! its full granted rate.

use super::Cubic;
use crate::advised::{Bounds, NO_LINE};
use crate::{
    Ack, Advice, CongestionControl, Control, IdleRestart, Info, Lost, Nanos, Param, Params, Provenance, Rate,
    RateAdvice, RecoveryEntered, RecoveryLeft, RecoveryStyle, Scheme, Sent, Setup, SpuriousLoss, Telemetry, Timeout,
    Value,
};

/// The sender of Nodectl.
#[derive(Clone, Debug)]
pub struct Nodectl {
    /// The control while a rate is granted.
    control: Control,
    granted: bool,
    /// Controls the flow while no rate is granted.
    own: Cubic,
    /// The initial state of `own`.
    fresh: Cubic,
    bounds: Bounds,
    srtt: Option<Nanos>,
    ignored: u64,
}

impl Nodectl {
    /// Sets cwnd for the granted rate. Before the first RTT sample cwnd stays at the initial window.
    #[inline]
    fn set_cwnd(&mut self) {
        if let Some(rate) = self.control.pacing_rate
            && let Some(window) = self.bounds.window(rate, self.srtt)
        {
            self.control.cwnd = window;
        }
    }
}

impl Scheme for Nodectl {
    const INFO: Info = Info {
        name: "nodectl",
        aliases: &[],
        summary: "Nodectl: sends at the rate negotiated with the nodes on the path",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: &[
            Param::number("min_rate", 1.0, (0.1, 1000.0), "pkt/s", "minimum rate; a lower grant counts as this"),
            Param::number(
                "line_rate",
                NO_LINE,
                (1.0, NO_LINE),
                "mbit",
                "maximum requested rate; a higher grant is ignored; 1000000: no limit is stated",
            ),
            Param::ratio("window_gain", 2.0, (1.0, 10.0), "cwnd as a multiple of rate times srtt"),
        ],
    };
    const RATE_PROTOCOL: Option<&'static str> = Some("nodectl");

    fn new(setup: &Setup) -> Self {
        let fresh = Cubic::new(&Setup { params: Params::defaults(Cubic::INFO.params), ..setup.clone() });
        Self {
            control: Control { cwnd: setup.initial_window.max(setup.mss), pacing_rate: None, burst: setup.mss },
            granted: false,
            own: fresh.clone(),
            fresh,
            bounds: Bounds::new(setup),
            srtt: None,
            ignored: 0,
        }
    }
}

impl CongestionControl for Nodectl {
    #[inline]
    fn on_sent(&mut self, event: &Sent) {
        if !self.granted {
            self.own.on_sent(event);
        }
    }
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.srtt = event.srtt;
        if self.granted {
            self.set_cwnd();
        } else {
            self.own.on_ack(event);
        }
    }
    fn on_lost(&mut self, event: &Lost) {
        if !self.granted {
            self.own.on_lost(event);
        }
    }
    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        if !self.granted {
            self.own.on_recovery_entered(event);
        }
    }
    fn on_recovery_left(&mut self, event: &RecoveryLeft) {
        if !self.granted {
            self.own.on_recovery_left(event);
        }
    }
    fn on_timeout(&mut self, event: &Timeout) {
        if !self.granted {
            self.own.on_timeout(event);
        }
    }
    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        if !self.granted {
            self.own.on_spurious_loss(event);
        }
    }
    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if !self.granted {
            self.own.on_idle_restart(event);
        }
    }

    fn on_rate_advice(&mut self, event: &RateAdvice) {
        let rate = match event.advice {
            Advice::Withdrawn if self.granted => {
                self.granted = false;
                self.own = self.fresh.clone();
                return;
            }
            Advice::Rate(rate) => self.bounds.rate(rate),
            Advice::Withdrawn | Advice::Change(_) => None,
        };
        if rate.is_none() {
            self.ignored += 1;
            return;
        }
        self.granted = true;
        self.control.pacing_rate = rate;
        self.set_cwnd();
    }

    fn line_rate(&self) -> Option<Rate> {
        self.bounds.line_rate()
    }

    #[inline]
    fn control(&self) -> Control {
        if self.granted { self.control } else { self.own.control() }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("state", Value::State(if self.granted { "granted" } else { "own" }));
        sink("advice_ignored", Value::Number(self.ignored as f64));
        if !self.granted {
            self.own.telemetry(&mut |name, value| {
                if name != "state" {
                    sink(name, value);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, ack, entered, timeout};
    use crate::{Bytes, CongestionCause};

    fn advised(scheme: &mut Nodectl, advice: Advice) -> Control {
        scheme.on_rate_advice(&RateAdvice { now: Nanos::ZERO, advice });
        scheme.control()
    }

    fn rate(n: u64) -> Advice {
        Advice::Rate(Rate::from_bytes_per_sec(n))
    }

    /// The scheme sends at the granted rate despite loss.
    #[test]
    fn nodectl_sends_at_granted_rate_despite_loss() {
        let mut scheme = Nodectl::with(&[]);
        scheme.on_ack(&Ack { srtt: Some(Nanos::from_millis(40)), ..ack(0) });
        // cwnd is twice the data of 40 ms at 1 MB/s.
        let granted = advised(&mut scheme, rate(1_000_000));
        let expected = (Bytes::new(80_000), Some(Rate::from_bytes_per_sec(1_000_000)), Bytes::new(1000));
        assert_eq!((granted.cwnd, granted.pacing_rate, granted.burst), expected);
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, 40_000));
        scheme.on_timeout(&timeout(40_000, 1));
        assert_eq!(scheme.control(), granted);
        // cwnd follows the RTT, and the rate follows a new grant.
        scheme.on_ack(&Ack { srtt: Some(Nanos::from_millis(60)), ..ack(1000) });
        assert_eq!(scheme.control().cwnd, Bytes::new(120_000));
        let lower = advised(&mut scheme, rate(500_000));
        assert_eq!(lower.cwnd, Bytes::new(60_000));
    }

    /// Invalid grants are counted and ignored; the last valid grant remains in force.
    #[test]
    fn nodectl_invalid_grant_is_counted_and_last_one_kept() {
        let mut scheme = Nodectl::with(&[("line_rate", 80.0)]);
        let start = scheme.control();
        for nothing in [rate(0), rate(10_000_001), Advice::Withdrawn, Advice::Change(5.0), Advice::Change(f64::NAN)] {
            assert_eq!(advised(&mut scheme, nothing), start);
        }
        assert_eq!(scheme.ignored, 5);
        // Before the first RTT sample cwnd is the initial window.
        let least = advised(&mut scheme, rate(1));
        assert_eq!((least.cwnd, least.pacing_rate), (Bytes::new(10_000), Some(Rate::from_bytes_per_sec(1000))));
        scheme.on_ack(&Ack { srtt: Some(Nanos::from_millis(40)), ..ack(0) });
        assert_eq!(scheme.control().cwnd, Bytes::new(4_000));
        let most = advised(&mut scheme, rate(10_000_000));
        assert_eq!(most.pacing_rate, Some(Rate::from_bytes_per_sec(10_000_000)));
        for more in [10_000_001, u64::MAX] {
            assert_eq!(advised(&mut scheme, rate(more)), most);
        }
        assert_eq!(scheme.ignored, 7);
        assert_eq!(scheme.line_rate(), Some(Rate::from_bytes_per_sec(10_000_000)));
        assert_eq!(Nodectl::with(&[]).line_rate(), None);
    }

    /// Without a grant the scheme is CUBIC from the initial window.
    #[test]
    fn nodectl_without_grant_is_cubic() {
        let mut cubic = Cubic::with(&[]);
        let mut scheme = Nodectl::with(&[]);
        let script = |on_ack: &mut dyn FnMut(&Ack)| {
            for n in 1..20 {
                on_ack(&Ack { now: Nanos::from_millis(n), srtt: Some(Nanos::from_millis(40)), ..ack(1000) });
            }
        };
        script(&mut |event| cubic.on_ack(event));
        script(&mut |event| scheme.on_ack(event));
        assert_eq!(scheme.control(), cubic.control());
        advised(&mut scheme, rate(1_000_000));
        script(&mut |event| scheme.on_ack(event));
        let withdrawn = advised(&mut scheme, Advice::Withdrawn);
        assert_eq!(withdrawn, Cubic::with(&[]).control());
        script(&mut |event| scheme.on_ack(event));
        assert_eq!(scheme.control(), cubic.control());
        cubic.on_timeout(&timeout(5_000, 1));
        scheme.on_timeout(&timeout(5_000, 1));
        assert_eq!(scheme.control(), cubic.control());
    }
}
