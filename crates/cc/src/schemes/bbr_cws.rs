//! # BBR-CWS (our reconstruction)
//!
//! BBR whose window in ProbeBW is scaled: down where its own packets are lost, up where a queue stands that
//! others built. The published rule (Song, Kim, Mahmud, Seo, Cho; Electronics 2020) could not be obtained, so this is our
//! reconstruction of its aim.

use crate::bbr::{BbrCore, Model, PHASE_UP, Policy, State};
use crate::{Ack, Bytes, Evidence, Info, Nanos, Param, RecoveryStyle, Setup, Telemetry, Value, bbr_params};

/// BBR-CWS, our reconstruction.
pub type BbrCws = BbrCore<Scaling>;

/// What differs from BBR v1: the scale of the window.
#[derive(Clone, Debug)]
pub struct Scaling {
    cut: f64,
    grow: f64,
    relax: f64,
    queue: f64,
    range: (f64, f64),
    scale: f64,
    lost: Bytes,
    rtt: Option<Nanos>,
    hold: bool,
}

impl Policy for Scaling {
    const INFO: Info = Info {
        name: "bbr-cws",
        aliases: &[],
        summary: "BBR that scales its window by loss and standing queues (our reconstruction)",
        evidence: Evidence::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::number("cut", 0.7, (0.1, 1.0), "", "what a round with loss leaves of the scale"),
            Param::number(
                "grow",
                0.05,
                (0.0, 1.0),
                "",
                "added to the scale by a round with a standing queue"
            ),
            Param::number("relax", 0.125, (0.0, 1.0), "", "share of the way back to 1 in a round without"),
            Param::number(
                "queue",
                1.25,
                (1.0, 10.0),
                "",
                "least RTT of a round over min_rtt: a standing queue"
            ),
            Param::number("scale_min", 0.5, (0.1, 1.0), "", "least scale"),
            Param::number("scale_max", 2.0, (1.0, 16.0), "", "greatest scale"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number(name);
        Self {
            cut: number("cut"),
            grow: number("grow"),
            relax: number("relax"),
            queue: number("queue"),
            range: (number("scale_min"), number("scale_max")),
            scale: 1.0,
            lost: Bytes::ZERO,
            rtt: None,
            hold: false,
        }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        if model.round_start() {
            if model.in_probe_bw() {
                let queued = match (self.rtt, model.min_rtt()) {
                    (Some(rtt), Some(base)) => rtt.as_nanos() as f64 > base.as_nanos() as f64 * self.queue,
                    _ => false,
                };
                if !self.lost.is_zero() {
                    self.scale *= self.cut;
                    self.hold = true;
                } else if queued {
                    self.scale += self.grow;
                } else {
                    self.scale += (1.0 - self.scale) * self.relax;
                }
                self.scale = self.scale.clamp(self.range.0, self.range.1);
            }
            (self.lost, self.rtt) = (Bytes::ZERO, None);
        }
        self.lost += ack.lost;
        if let Some(rtt) = ack.rtt {
            self.rtt = Some(self.rtt.map_or(rtt, |least| least.min(rtt)));
        }
    }

    fn on_transition(&mut self, to: State, _model: &Model) {
        // The next cycle probes again, unless it too finds loss before.
        if let State::ProbeBw { phase: 7, .. } = to {
            self.hold = false;
        }
    }

    fn probe_gain(&self, phase: u8, model: &Model) -> f64 {
        if phase == PHASE_UP && self.hold { 1.0 } else { model.settings().probe_gain(phase) }
    }

    #[inline]
    fn probe_cwnd_gain(&self, model: &Model) -> f64 {
        model.settings().cwnd_gain * self.scale
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("scale", Value::Number(self.scale));
    }
}
