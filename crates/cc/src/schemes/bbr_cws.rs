//! # BBR-CWS (our reconstruction)
//!
//! BBR whose window in ProbeBW is scaled: down where its own packets are lost, up where a queue stands that
//! others built. The published rule (Song, Kim, Mahmud, Seo, Cho; Electronics 2020) could not be obtained, so this is our
//! reconstruction of its aim.

use crate::bbr::{BbrCore, Model, PHASE_UP, Policy, State};
use crate::{
    Ack, Bytes, Evidence, Info, Nanos, Param, RecoveryStyle, Setup, Telemetry, Value, bbr_params,
};

/// BBR-CWS, our reconstruction.
pub type BbrCws = BbrCore<Scaling>;

/// What differs from BBR v1: the scale of the window.
#[derive(Clone, Debug)]
pub struct Scaling {
    rule: u8,
    cut: f64,
    grow: f64,
    relax: f64,
    queue: f64,
    range: (f64, f64),
    hold_mode: u8,
    phi: f64,
    cool: u64,
    base: u8,
    speed: f64,
    prompt: bool,
    kick: f64,
    life: f64,
    push: f64,
    fresh: bool,
    queued: bool,
    drain: u32,
    drained: u32,
    scale: f64,
    w: f64,
    w_max: f64,
    w_cut: f64,
    epoch: Nanos,
    rounds: f64,
    step: f64,
    cool_left: u64,
    lost: Bytes,
    delivered: Bytes,
    inflight: Bytes,
    rtt: Option<Nanos>,
    rtt_high: Nanos,
    rtt_max: Nanos,
    hold: bool,
    samples: u32,
}

impl Policy for Scaling {
    const INFO: Info = Info {
        name: "bbr-cws",
        aliases: &[],
        summary: "BBR that scales its window by loss and standing queues (our reconstruction)",
        evidence: Evidence::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::number("rule", 0.0, (0.0, 9.0), "", "rule"),
            Param::number("cut", 0.7, (0.0, 100.0), "", "what a round with loss leaves of the scale"),
            Param::number("grow", 0.05, (0.0, 100.0), "", "added to the scale by a round with a standing queue"),
            Param::number("relax", 0.125, (0.0, 2.0), "", "share of the way back to 1 in a round without"),
            Param::number("queue", 1.25, (0.0, 10.0), "", "least RTT of a round over min_rtt: a standing queue"),
            Param::number("scale_min", 0.5, (0.05, 1.0), "", "least scale"),
            Param::number("scale_max", 2.0, (1.0, 64.0), "", "greatest scale"),
            Param::number("hold", 2.0, (0.0, 2.0), "", "suppression of UP"),
            Param::number("phi", 0.0, (0.0, 1.0), "", "congestive loss"),
            Param::number("cool", 0.0, (0.0, 10.0), "", "rounds after a cut that do not cut"),
            Param::number("base", 0.0, (0.0, 3.0), "", "base of the queue test"),
            Param::number("drain", 0.0, (0.0, 100.0), "round", "longest Drain"),
            Param::number("push", 0.0, (0.0, 4.0), "", "pacing gain while above 1"),
            Param::flag("prompt", false, "cut on entry"),
            Param::number("kick", 0.0, (0.0, 1.0), "", "W gain per round while fresh"),
            Param::number("life", 0.0, (0.0, 2.0), "", "floor in BDP of the least min_rtt"),
            Param::number("speed", 0.4, (0.0, 100.0), "", "cubic C"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number(name);
        Self {
            rule: number("rule") as u8,
            cut: number("cut"),
            grow: number("grow"),
            relax: number("relax"),
            queue: number("queue"),
            range: (number("scale_min"), number("scale_max")),
            hold_mode: number("hold") as u8,
            phi: number("phi"),
            cool: number("cool") as u64,
            base: number("base") as u8,
            speed: number("speed"),
            prompt: setup.params.flag("prompt"),
            kick: number("kick"),
            life: number("life"),
            push: number("push"),
            fresh: true,
            queued: false,
            drain: number("drain") as u32,
            drained: 0,
            scale: 1.0,
            w: 0.0,
            w_max: 0.0,
            w_cut: 0.0,
            epoch: Nanos::ZERO,
            rounds: 0.0,
            step: 1.0,
            cool_left: 0,
            lost: Bytes::ZERO,
            delivered: Bytes::ZERO,
            inflight: Bytes::ZERO,
            rtt: None,
            rtt_high: Nanos::ZERO,
            rtt_max: Nanos::ZERO,
            hold: false,
            samples: 0,
        }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        if model.round_start() {
            if self.samples >= 8 {
                self.rtt_max = self.rtt_max.max(self.rtt.unwrap_or(Nanos::ZERO));
            }
            self.samples = 0;
            if model.in_probe_bw() {
                self.round(ack, model);
            }
            if model.state() == State::Drain { self.drained += 1; }
            (self.lost, self.rtt, self.rtt_high) = (Bytes::ZERO, None, Nanos::ZERO);
            (self.delivered, self.inflight) = (Bytes::ZERO, Bytes::ZERO);
        }
        self.lost += ack.lost;
        self.delivered += ack.acked;
        self.inflight = self.inflight.max(ack.inflight_before);
        if let Some(rtt) = ack.rtt {
            self.rtt = Some(self.rtt.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
            self.rtt_high = self.rtt_high.max(rtt);
        }
    }

    fn enter_recovery(&mut self, _window: Bytes, ack: &Ack, model: &Model) -> crate::bbr::RecoveryEntry {
        let full = ack.inflight + ack.acked;
        if self.prompt && model.in_probe_bw() && self.w > 0.0 {
            let w = Bytes::new((self.w * self.cut) as u64).max(model.settings().min_window);
            return crate::bbr::RecoveryEntry { window: full.min(w), conserve: true };
        }
        crate::bbr::RecoveryEntry { window: full, conserve: true }
    }

    fn conserve(&mut self, window: Bytes, ack: &Ack, model: &Model) -> Bytes {
        let full = ack.inflight + ack.acked;
        if self.prompt && model.in_probe_bw() && self.w > 0.0 {
            let w = Bytes::new((self.w * self.cut) as u64).max(model.settings().min_window);
            return full.min(w);
        }
        window.max(full)
    }

    fn on_transition(&mut self, to: State, _model: &Model) {
        // The next cycle probes again, unless it too finds loss before.
        match to {
            State::ProbeBw { phase: 7, .. } if self.hold_mode == 2 => self.hold = false,
            State::ProbeBw { phase: 0, .. } if self.hold_mode == 1 => self.hold = false,
            _ => {}
        }
    }

    fn probe_gain(&self, phase: u8, model: &Model) -> f64 {
        if self.push > 0.0 && self.queued { return self.push.max(model.settings().probe_gain(phase)); }
        if phase == PHASE_UP && self.hold && self.hold_mode > 0 { 1.0 } else { model.settings().probe_gain(phase) }
    }

    fn target_bdp(&self, bw: crate::Rate, min_rtt: Nanos, model: &Model) -> Bytes {
        if self.drain > 0 && self.drained >= self.drain && model.state() == State::Drain { return Bytes::new(1 << 40); }
        bw.over(min_rtt)
    }

    #[inline]
    fn probe_cwnd_gain(&self, model: &Model) -> f64 {
        model.settings().cwnd_gain * self.scale
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("scale", Value::Number(self.scale));
    }
}

impl Scaling {
    fn round(&mut self, ack: &Ack, model: &Model) {
        let f = |t: Nanos| t.as_nanos() as f64;
        let (Some(min_rtt), Some(bdp)) = (model.min_rtt(), model.bdp()) else { return };
        let Some(rtt) = self.rtt else { return };
        let life = f(ack.min_rtt);
        let queued = match self.base {
            0 => f(rtt) > f(min_rtt) * self.queue,
            1 => f(rtt) > life * self.queue,
            2 => f(min_rtt) > life * self.queue,
            _ => f(min_rtt) > life * self.queue || f(rtt) > life * 2.25,
        };
        let congested = f(self.rtt_high) >= life + self.phi * (f(self.rtt_max) - life);
        let heavy = self.lost.as_f64() > 0.0625 * (self.lost + self.delivered).as_f64();
        let mut loss = !self.lost.is_zero() && (self.phi == 0.0 || congested || heavy);
        if loss { self.hold = true; }
        if self.cool_left > 0 { self.cool_left -= 1; loss = false; }
        if loss { self.cool_left = self.cool; }
        self.queued = queued && !loss;
        let cap = bdp.as_f64() * model.settings().cwnd_gain;
        let mss = model.settings().mss.as_f64();
        match self.rule {
            0 | 1 => {
                if loss {
                    self.scale *= if self.rule == 0 { self.cut } else {
                        let l = self.lost.as_f64();
                        (1.0 - self.cut * l / (l + self.delivered.as_f64())).max(0.3)
                    };
                } else if queued {
                    self.scale += self.grow;
                } else {
                    self.scale += (1.0 - self.scale) * self.relax;
                }
                self.scale = self.scale.clamp(self.range.0, self.range.1);
            }
            2 | 3 | 4 | 5 | 6 => {
                if self.w == 0.0 { self.w = cap; self.w_max = cap; self.w_cut = cap; self.epoch = ack.now; self.rounds = 0.0; }
                if loss {
                    self.fresh = false;
                    let at = self.w.min(self.inflight.as_f64());
                    self.w_max = if self.rule >= 5 && at < self.w_max { at * (1.0 + self.cut) / 2.0 } else { at };
                    self.w = at * self.cut;
                    self.w_cut = self.w;
                    self.epoch = ack.now;
                    self.rounds = 0.0;
                    self.step = 1.0;
                } else {
                    self.rounds += 1.0;
                    match self.rule {
                        2 => { self.w += self.step * self.grow * mss; self.step = (self.step * 2.0).min(1e6); }
                        3 => self.w += self.grow * mss,
                        _ => {
                            let t = f(ack.now - self.epoch) / 1e9 + f(rtt) / 1e9;
                            let k = libm::cbrt((self.w_max - self.w_cut).max(0.0) / mss / self.speed);
                            let d = t - k;
                            let cubic = self.w_max + self.speed * d * d * d * mss;
                            let alpha = self.grow * 3.0 * (1.0 - self.cut) / (1.0 + self.cut);
                            let reno = self.w_cut + alpha * self.rounds * mss;
                            self.w = self.w.max(cubic.min(self.w * 1.5)).max(reno);
                            if self.kick > 0.0 && self.fresh && queued { self.w *= 1.0 + self.kick; self.w_max = self.w; self.w_cut = self.w; self.epoch = ack.now; self.rounds = 0.0; }
                        }
                    }
                }
                let high = if !queued { 1.0 } else if self.lost.is_zero() { self.range.1 } else { self.scale.max(1.0) };
                let before = self.w;
                let floor = (model.max_bw().as_bytes_per_sec() as f64 * life / 1e9 * self.life).max(cap * self.range.0).min(cap);
                self.w = self.w.clamp(floor, cap * high);
                if self.w < before && !loss { self.w_max = self.w; self.w_cut = self.w; self.epoch = ack.now; self.rounds = 0.0; }
                self.scale = self.w / cap;
            }
            _ => {
                // Holds the share: k x RTT / min_rtt.
                if loss { self.w_max = self.cut; } else { self.w_max = (self.w_max + self.grow).min(1.0 + self.speed); }
                self.scale = (self.w_max * f(rtt) / f(min_rtt) / model.settings().cwnd_gain).clamp(self.range.0, self.range.1);
            }
        }
    }
}
