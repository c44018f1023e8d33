//! # BBR-ACW
//!
//! BBR v1 with an adaptive cwnd gain. BBR's fixed gain of 2 lets every flow keep a second BDP in the queue, and the BDP
//! of a flow with a long RTT is larger. BBR-ACW adapts the gain of ProbeBW by two factors: how far the flow's delivery
//! rate lies below its maximum, and the share of propagation in the RTT.
//!
//! The combination of the two factors and the form of the first are **our reconstruction**. The text of the paper could
//! not be obtained. The known facts:
//!
//! | fact | source |
//! |---|---|
//! | only the cwnd gain of ProbeBW changes; it follows 'delivery rate and queue status' | the paper's abstract |
//! | a factor α from the delivery rate and its extrema, undefined where they coincide | readers of the paper |
//! | a factor β = RTT / (RTT + RTprop) | readers of the paper (its algorithm 1) |
//! | the paper's prose on flows that do not dominate contradicts its equation | readers of the paper |
//! | α = (d_max − d) / (d_max − d_min), and the gain below: our reconstruction | – |
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | d | newest delivery rate | B/s |
//! | d_max, d_min | extrema of d over the bandwidth filter's 10 round trips | B/s |
//! | α | 0 at the flow's highest rate, 1 at its lowest; 1 where the extrema coincide | – |
//! | β | RTT / (RTT + min_rtt): 1/2 with an empty queue, towards 1 as it grows | – |
//! | h | cwnd gain of ProbeBW | – |
//!
//! ```text
//! h = 1 + 2 · α · (1 − β), within 1 … 2
//! ```
//!
//! A flow near its highest rate keeps about one BDP in flight; the longer the queue, the smaller the excess. A flow
//! that has lost bandwidth may keep up to two BDPs.
//!
//! ## States
//!
//! The states of BBR. Only the cwnd gain of ProbeBW differs.
//!
//! ## References
//!
//! 1. W. Pan, H. Tan, X. Li, X. Li, Improved RTT Fairness of BBR Congestion Control Algorithm Based on
//!    Adaptive Congestion Window, Electronics 10(5), 615, 2021: abstract, and reports by readers of the text.
//! 2. W. Pan et al., Sensors 21(12), 4128, 2021 (BBR-GC), by the same authors, which compares BBR-GC with BBR-ACW.
//! 3. BBR v1: see its page.
//!
//! ## Differences
//!
//! 1. The combination is ours: the simplest combination of the two factors that keeps h between 1 and BBR's 2, and sets
//!    h = 2 before any measurement and with an empty queue. `span` is the factor 2 in the formula of h, `cwnd_gain` the
//!    upper bound of h.
//! 2. d is the newest sample of an ACK, and h changes with it.
//! 3. Samples of an application-limited sender and of ProbeRTT affect neither d nor d_min, because they do
//!    not measure the path.
//!
//! Two flows of 10 and 50 ms on 100 Mbit/s with a deep buffer get 21 and 77 Mbit/s on average over 60 s, with mean
//! gains of 1.32 and 1.26. With `span` = 1, 4 and 8 the 10 ms flow gets 21, 23 and 21 Mbit/s; with `span` = 0, a
//! constant gain of 1, it gets 42. The papers report about 40 Mbit/s for this flow, so the published gain must be
//! closer to 1 than ours.
//!
//! ## Known weaknesses
//!
//! * With a steady rate α is noise: α covers 0 to 1 even if the extrema differ by one packet.
//! * Near one BDP a flow cannot probe: cwnd limits the probe at gain 1.25, so bandwidth released by others is
//!   found slowly.
//! * α compares a flow with itself: two flows with unequal but steady rates have the same α.

use crate::bbr_v1::{BbrCore, Model, Policy, State};
use crate::{Ack, Info, Param, Provenance, Rate, RecoveryStyle, Setup, Telemetry, Value, WindowedMin, bbr_params};

/// BBR-ACW.
pub type BbrAcw = BbrCore<AdaptiveWindow>;

/// Sets the cwnd gain from the delivery rate and the queue.
#[derive(Clone, Debug)]
pub struct AdaptiveWindow {
    span: f64,
    rate: Rate,
    least: Option<WindowedMin<Rate>>,
    gain: f64,
}

impl AdaptiveWindow {
    /// α: the position of the newest delivery rate between the minimum (1) and the maximum (0) of the filter.
    #[inline]
    fn alpha(&self, model: &Model) -> f64 {
        let least = self.least.as_ref().map_or(Rate::ZERO, WindowedMin::get).as_bytes_per_sec() as f64;
        let greatest = model.max_bw().as_bytes_per_sec() as f64;
        if greatest <= least {
            return 1.0;
        }
        ((greatest - self.rate.as_bytes_per_sec() as f64) / (greatest - least)).clamp(0.0, 1.0)
    }

    /// β = RTT / (RTT + min_rtt).
    #[inline]
    fn beta(model: &Model) -> f64 {
        match (model.latest_rtt(), model.min_rtt()) {
            (Some(rtt), Some(min_rtt)) if !rtt.is_zero() => {
                let (rtt, min_rtt) = (rtt.as_nanos() as f64, min_rtt.as_nanos() as f64);
                rtt / (rtt + min_rtt)
            }
            _ => 0.5,
        }
    }
}

impl Policy for AdaptiveWindow {
    const INFO: Info = Info {
        name: "bbr-acw",
        aliases: &[],
        summary: "BBR v1 whose cwnd gain follows delivery rate and queue",
        provenance: Provenance::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::ratio("cwnd_gain", 2.0, (1.0, 10.0), "maximum cwnd gain of ProbeBW"),
            Param::ratio("span", 2.0, (0.0, 8.0), "weight of the two factors in the cwnd gain (our reconstruction)"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let span = setup.params.number("span");
        Self { span, rate: Rate::ZERO, least: None, gain: setup.params.number("cwnd_gain") }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        let in_probe_rtt = matches!(model.state(), State::ProbeRtt { .. });
        if let Some(sample) = ack.rate.as_ref().filter(|sample| !in_probe_rtt && !model.is_limited(sample)) {
            self.rate = sample.rate;
            match &mut self.least {
                Some(filter) => {
                    filter.update(model.settings().bw_window, model.round(), sample.rate);
                }
                None => self.least = Some(WindowedMin::new(model.round(), sample.rate)),
            }
        }
        let gain = 1.0 + self.span * self.alpha(model) * (1.0 - Self::beta(model));
        self.gain = gain.clamp(1.0, model.settings().cwnd_gain);
    }

    #[inline]
    fn probe_cwnd_gain(&self, _model: &Model) -> f64 {
        self.gain
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("delivery_rate", Value::Rate(self.rate));
        sink("least_rate", Value::Rate(self.least.as_ref().map_or(self.rate, WindowedMin::get)));
    }
}
