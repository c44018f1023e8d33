//! # DCCP-BBR
//!
//! BBR v1 for datagrams on lossy paths. BBR keeps its bandwidth estimate only if its probe delivers at least the
//! estimated rate. With a gain of 1.25, the probe no longer delivers that rate above 20 % packet loss. In DCCP-BBR the
//! receiver measures the loss rate of the last ten seconds and reports it. Above 20 %, the probing gain rises just
//! enough to balance the loss.
//!
//! ## Control law
//! LR: the loss rate last reported, sampled when a gain cycle begins (with `literal`, at every report); g₀, g₁: pacing
//! gains of ProbeBW's first two phases.
//!
//! ```text
//! LR ≤ 0.2          g₀ = 1.25          g₁ = 0.75                       (paper, eq. 9)
//! 0.2 < LR ≤ 0.3    g₀ = 1 / (1 − LR)  g₁ = (1 − 2 LR) / (1 − LR) = 2 − g₀
//! LR > 0.3          g₀ = 1.5           g₁ = 0.5
//! ```
//! The middle line satisfies g₀ · bw · (1 − LR) ≥ bw (eq. 8) with equality. The other six phases have a gain of 1;
//! everything else is `bbr`. Without reports (TCP has no option for them), with `conserve` and with bbr's
//! `pacing_margin` DCCP-BBR is `bbr`, event for event.
//!
//! ## States
//! The states of `bbr`.
//!
//! ## Life of a flow
//! Startup and Drain as in `bbr`. The receiver's first reports come with the first acknowledgements, and the next cycle
//! uses gains that follow from them. When the loss rate rises beyond 0.3 the gain stays at 1.5, which maintains the
//! estimate up to a loss rate of a third.
//!
//! ## References
//! 1. M. Liu, A Datagram Congestion Control Protocol Based on Improved BBR, Computer Systems & Applications
//!    30(4), 2021, pp. 193-198 (in Chinese): read in full.
//! 2. `bbr`: the rules that this scheme modifies.
//!
//! ## Differences
//! 1. Linux paces 1 % below the estimate (`pacing_margin`). The paper does not mention this margin, and eq. 8 is an
//!    equality only without the margin: with the margin, the balance is 0.99. The margin is 0 here, unlike in `bbr`.
//! 2. The paper suggests a smaller gain for Startup but gives no number. `high_gain` keeps BBR's value.
//! 3. The gains of the first line are BBR's parameters `probe_up` and `probe_down`.
//! 4. Linux conserves packets in the first round of a TCP recovery, and so does `bbr`. DCCP retransmits nothing and has
//!    no such recovery, and the paper specifies no such rule, so losses do not limit cwnd in this scheme. With
//!    `conserve` and heavy loss, one round trip of conservation follows another: cwnd equals the amount delivered, and
//!    the probe cannot send more.
//! 5. The paper does not say when a report takes effect. Here a cycle keeps the gains with which it began, so that its
//!    draining phase removes what its probe added; with `literal` a report takes effect at once.
//! 6. The cycle begins with its probing phase. A flow that enters ProbeBW at a later phase cruises until the next
//!    cycle, and samples LR then.
//!
//! ## Known weaknesses
//! DCCP-BBR does not distinguish random loss from losses that it causes: if it overflows a buffer, it probes harder.
//! False reports can only set the gains to 1.5 and 0.5. The reported loss rate lags by five seconds on average, because
//! its window is ten seconds. The weaknesses of `bbr` apply too. With `conserve`, losses above a tenth undo the effect
//! of the gains: see difference 4. `lt_bw`, BBR's policer detection, mistakes a loss rate of a fifth for a policer.

use crate::bbr_v1::{BbrCore, Model, PHASE_DOWN, PHASE_UP, Policy, RecoveryEntry, State};
use crate::{
    Ack, Bytes, Feedback, Info, LITERAL, Param, Provenance, ReceiverFeedback, RecoveryStyle, Setup, Telemetry, Value,
    bbr_params,
};

/// DCCP-BBR.
pub type DccpBbr = BbrCore<LossAdaptive>;

/// Sets the probing gains by the loss rate.
#[derive(Clone, Debug)]
pub struct LossAdaptive {
    low: f64,
    high: f64,
    high_gains: [f64; 2],
    conserve: bool,
    literal: bool,
    /// The loss rate last reported; `None` before the first report.
    loss_rate: Option<f64>,
    /// The gains of the first two phases, set from the loss rate at the start of this cycle; `None`: BBR's gains.
    gains: Option<[f64; 2]>,
}

impl LossAdaptive {
    /// The gains of equation 9; `None`: BBR's gains.
    fn gains(&self, loss_rate: f64) -> Option<[f64; 2]> {
        if loss_rate <= self.low {
            None
        } else if loss_rate <= self.high {
            let arriving = 1.0 - loss_rate;
            Some([1.0 / arriving, (1.0 - 2.0 * loss_rate) / arriving])
        } else {
            Some(self.high_gains)
        }
    }
}

impl Policy for LossAdaptive {
    const INFO: Info = Info {
        name: "dccp-bbr",
        aliases: &[],
        summary: "BBR whose probing gain balances the loss rate that the receiver reports",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::ratio("loss_low", 0.2, (0.0, 0.45), "loss rate up to which the gains are BBR's"),
            Param::ratio("loss_high", 0.3, (0.0, 0.45), "loss rate above which the gains are loss_up and loss_down"),
            Param::ratio("loss_up", 1.5, (1.0, 4.0), "pacing gain of the probing phase above loss_high"),
            Param::ratio("loss_down", 0.5, (0.1, 1.0), "pacing gain of the draining phase above loss_high"),
            Param::flag("conserve", false, "conserve packets in the first round of a recovery, as bbr does over TCP"),
            Param::number(
                "pacing_margin",
                0.0,
                (0.0, 50.0),
                "%",
                "margin by which pacing stays below gain x bandwidth",
            ),
            LITERAL,
        ],
    };
    /// Equation 9.
    const PRINTED: &'static [(&'static str, f64)] = &[
        ("pacing_margin", 0.0),
        ("probe_up", 1.25),
        ("probe_down", 0.75),
        ("loss_low", 0.2),
        ("loss_high", 0.3),
        ("loss_up", 1.5),
        ("loss_down", 0.5),
        ("conserve", 0.0),
    ];
    /// The kind of report is our choice: the paper does not specify it.
    const FEEDBACK: Feedback = Feedback::LossShare;

    fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number(name);
        Self {
            low: number("loss_low"),
            high: number("loss_high"),
            high_gains: [number("loss_up"), number("loss_down")],
            conserve: setup.params.flag("conserve"),
            literal: setup.params.flag(LITERAL.name),
            loss_rate: None,
            gains: None,
        }
    }

    fn on_receiver_feedback(&mut self, report: &ReceiverFeedback, _model: &Model) {
        if let Some(rate) = report.loss_rate.filter(|rate| (0.0..=1.0).contains(rate)) {
            self.loss_rate = Some(rate);
            if self.literal {
                self.gains = self.gains(rate);
            }
        }
    }

    fn on_transition(&mut self, to: State, _model: &Model) {
        if let State::ProbeBw { phase: PHASE_UP, .. } = to {
            self.gains = self.loss_rate.and_then(|rate| self.gains(rate));
        }
    }

    #[inline]
    fn probe_gain(&self, phase: u8, model: &Model) -> f64 {
        match (phase, self.gains) {
            (PHASE_UP, Some([up, _])) => up,
            (PHASE_DOWN, Some([_, down])) => down,
            _ => model.settings().probe_gain(phase),
        }
    }

    fn enter_recovery(&mut self, window: Bytes, ack: &Ack, _model: &Model) -> RecoveryEntry {
        if self.conserve {
            RecoveryEntry { cwnd: ack.inflight + ack.acked, conserve: true }
        } else {
            RecoveryEntry { cwnd: window, conserve: false }
        }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        if let Some(rate) = self.loss_rate {
            sink("loss_rate", Value::Number(rate));
        }
    }
}
