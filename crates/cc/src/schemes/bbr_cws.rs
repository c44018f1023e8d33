//! # BBR-CWS
//!
//! BBR with a scaled cwnd, so that competing loss-based flows get their share. BBR's cwnd is 2 BDP regardless of other
//! traffic. In a buffer below about 1 BDP it overflows the queue and takes nearly all bandwidth from a loss-based flow.
//! In a deep buffer this cwnd limits BBR, and the loss-based flow takes the rest of the bandwidth. In BBR-CWS a second
//! window, the bound, follows the control law of CUBIC: a round trip with congestion cuts the bound, and the bound
//! grows in other round trips. BBR's cwnd is scaled to the bound. Pacing still follows the bandwidth.
//!
//! The published rule could not be obtained. Abstract and highlights [1] give the name (congestion window scaling), the
//! aim (fairness between BBR and loss-based flows in all buffers, fewer retransmissions) and the authors' measurements.
//! Everything below is our reconstruction: a design for that aim, chosen among several rules on a training grid
//! (docs/studies/bbr-cws.md). Do not mistake it for the published algorithm.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | W | the bound, from the first whole round trip in ProbeBW on | B |
//! | V | the cwnd gain times the BDP: BBR v1's cwnd without its additions | B |
//! | s | scale of cwnd in ProbeBW, s_min to s_max | – |
//! | β, C, α | `cut` 0.75; `speed` 0.32 segments/s³; `friendly` · 3(1 − β)/(1 + β) segments per round trip | |
//! | P, L | the peak that the last cut of W set, and W after that cut; both initially V | B |
//! | t, n | seconds and round trips since the last cut, including the coming round trip | s |
//! | R₀, r, R | minimum RTT of the connection; minimum and maximum RTT of the round trip | s |
//! | Q | maximum r of any round trip with at least 8 samples | s |
//!
//! Once per round trip that lies wholly in ProbeBW:
//!
//! ```text
//! congestion: packets were lost, the last round trip did not cut, and
//!             R ≥ R₀ + 0.8 (Q − R₀)  or  more than 1/16 was lost
//! crowded:    r > 2.25 R₀
//!
//! congestion           P ← min(W, inflight);  W, L ← β P;  P ← (P + L)/2 if P is less than the previous P
//! otherwise            W ← max(W, min(P + C (t − K)³, 1.5 W), L + α n),   K = ((P − L)/C)^⅓
//!   crowded, no cut yet   W ← 1.125 W
//!
//! s = W / V, at least 0.25; at most 1 unless crowded, 8 if crowded (if crowded with other losses: no more than before)
//! cwnd in ProbeBW = s · V + extra + 3q,   rounded as in BBR v1
//! ```
//!
//! C and α count segments. While crowded without congestion, the pacing gain is at least 1.25, in all phases
//! of ProbeBW. Drain ends after four round trips, regardless of inflight. The rest is BBR v1.
//!
//! ## States
//!
//! The states of BBR v1.
//!
//! ```text
//! Startup ──► Drain ──► ProbeBW ◄─┐ cwnd s · V; while crowded g ≥ 1.25 in all eight phases
//!               at most   │     ──┘
//!               4 rounds  └──► ProbeRTT as in BBR v1
//! ```
//!
//! ## Life of a flow
//!
//! If the flow is alone on a link with a buffer of 1 BDP or more, nothing is lost and no round is crowded: W stays at
//! V, s at 1, and the flow is BBR v1, packet by packet. Alone on a link with a small buffer, the flow's probe overflows
//! the buffer once. W becomes 0.75 of the inflight at the loss and grows back within seconds to minutes to just below
//! that inflight, where the probe can no longer overflow the buffer. Losses while the queue is short count as random
//! and do not cut W.
//!
//! Beside CUBIC in a small buffer, both flows are cut when the buffer overflows, and W grows as fast as CUBIC's cwnd
//! does. In a deep buffer CUBIC keeps a queue longer than BBR alone could build: round trips take more than 2.25 R₀.
//! This raises the limit of s above 1, and pacing increases inflight up to W. Until the first cut W grows by an eighth
//! per round trip, because CUBIC's own slow start has taken most of the buffer by then.
//!
//! Two rules do not concern cwnd; both are for deep buffers. Without the limit of four rounds, Drain would wait for
//! inflight to fall to a BDP that shrinks as fast as inflight does, until ProbeRTT ended Drain after ten seconds.
//! BBR-CWS raises the pacing gain because a flow that paces at its measured bandwidth can keep its share of a queue but
//! hardly increase it, however large its cwnd.
//!
//! ## References
//!
//! 1. Y.-J. Song, G.-H. Kim, I. Mahmud, W.-K. Seo, Y.-Z. Cho, BBR-CWS: Improving the Inter-Protocol Fairness
//!    of BBR, Electronics 2020, 9(5), 862: abstract and highlights only.
//! 2. RFC 9438 (CUBIC), sections 4.2, 4.3, 4.7: the shape of the growth, the minimum growth, fast convergence.
//! 3. BBR v1: see `bbr`.
//!
//! ## Differences
//!
//! From BBR v1: the control law above, including the limit of Drain and the pacing gain while crowded. From CUBIC's
//! control law:
//!
//! 1. β = 0.75, and C is chosen so that the mean cwnd at a given loss rate is about that of β = 0.7 and C = 0.4: C (3 +
//!    β)/(4 (1 − β)) of both pairs differs by less than 3 %. With a cut to 0.7, a flow alone on the link reached 95 %
//!    of BBR's utilisation on the training grid, below the design's minimum.
//! 2. The law runs once per packet-timed round trip, not per ACK, and packets of the recovery's first round
//!    trip cannot cut again.
//! 3. Losses count only if the queue is near its observed maximum, or if many packets are lost.
//!
//! No threshold comes from a source. The threshold of 2.25 R₀ indicates other traffic: alone, BBR flows with 2 BDPs in
//! flight each hardly exceed this RTT. The minimum of eight samples excludes round trips in which delayed ACKs
//! dominate.
//!
//! ## Known weaknesses
//!
//! * Q and R₀ are extrema over the whole connection. After a change to a longer path every round trip counts as
//!   crowded. After a change to a larger buffer, the first losses do not count as congestion until they exceed 1/16 of
//!   a round trip.
//! * Behind an AQM that drops long before the buffer is full, or where delay varies by more than the queueing delay,
//!   delay cannot distinguish congestion from random loss.
//! * While crowded, BBR-CWS acts as a loss-based scheme: it fills deep buffers as CUBIC does. Several BBR-CWS flows at
//!   times raise the RTT past 2.25 R₀ together: four flows over 100 Mbit/s, 40 ms and 6 BDP have a mean RTT of 110 to
//!   150 ms if they start one after the other (four BBR flows: 86 ms, four CUBIC flows: 247 ms).
//! * Alone in a buffer of 0.1 BDP with 1 % of random loss, BBR-CWS uses 93 % of the link, and BBR uses 97.5 %.

use crate::bbr_v1::{BbrCore, Model, Policy, State};
use crate::{Ack, Bytes, Info, Nanos, Param, Provenance, RecoveryStyle, Setup, Telemetry, Value, bbr_params};

/// BBR-CWS, our reconstruction.
pub type BbrCws = BbrCore<Scaling>;

/// Minimum number of RTT samples for a round trip to count in Q: with fewer samples, delayed ACKs may dominate.
const FEW: u32 = 8;
/// Loss of more than this share of a round trip is congestion, regardless of the queue.
const HEAVY: f64 = 1.0 / 16.0;

/// Measurements of one round trip.
#[derive(Clone, Copy, Debug, Default)]
struct RoundStats {
    lost: Bytes,
    delivered: Bytes,
    inflight: Bytes,
    least: Option<Nanos>,
    most: Nanos,
    samples: u32,
    /// Whether the round trip began in ProbeBW. The round in which Drain ends is excluded, because its RTTs still
    /// include the queue of Startup.
    probing: bool,
}

/// The growth curve of the bound: from its value after the cut back to its peak, and beyond.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    peak: f64,
    low: f64,
    since: Nanos,
    rounds: f64,
}

/// The scale of ProbeBW's cwnd.
#[derive(Clone, Debug)]
pub struct Scaling {
    cut: f64,
    speed: f64,
    friendly: f64,
    first: f64,
    converge: bool,
    range: (f64, f64),
    queue: f64,
    congested: f64,
    push: f64,
    drain_rounds: u64,
    /// W: the bound in bytes, once ProbeBW has begun.
    bound: Option<f64>,
    /// s: the ratio of the bound to V, BBR v1's cwnd without its additions.
    scale: f64,
    curve: Curve,
    /// Whether the bound has ever been cut.
    cut_before: bool,
    /// Whether the last round trip cut the bound.
    just_cut: bool,
    /// Whether other flows maintain a queue while this flow sees no congestion.
    crowded: bool,
    /// Q: the maximum over round trips of their minimum RTT.
    fullest: Nanos,
    drained: u64,
    round: RoundStats,
}

impl Policy for Scaling {
    const INFO: Info = Info {
        name: "bbr-cws",
        aliases: &[],
        summary: "BBR whose cwnd follows loss-based flows while they share the link (our reconstruction)",
        provenance: Provenance::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::ratio("cut", 0.75, (0.1, 1.0), "share of the bound kept after a round trip with congestion"),
            Param::number("speed", 0.32, (0.001, 100.0), "pkt/s³", "growth of the bound about its last peak"),
            Param::ratio("friendly", 1.0, (0.0, 10.0), "minimum growth, relative to Reno-fair growth"),
            Param::ratio("first", 0.125, (0.0, 1.0), "growth per crowded round trip before the first cut"),
            Param::flag("converge", true, "treat a peak below the last one as too high (fast convergence)"),
            Param::ratio("scale_min", 0.25, (0.05, 1.0), "minimum scale"),
            Param::ratio("scale_max", 8.0, (1.0, 64.0), "maximum scale"),
            Param::ratio("queue", 2.25, (1.0, 10.0), "RTT of a crowded round trip, in minimum RTTs"),
            Param::ratio("congested", 0.8, (0.0, 1.0), "queue level where loss is congestion"),
            Param::ratio("push", 1.25, (0.0, 4.0), "minimum pacing gain while crowded; 0: none"),
            Param::count("drain_rounds", 4.0, (0.0, 1e6), "round", "longest Drain; 0: as BBR"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number(name);
        Self {
            cut: number("cut"),
            speed: number("speed"),
            friendly: number("friendly"),
            first: number("first"),
            converge: setup.params.flag("converge"),
            range: (number("scale_min"), number("scale_max")),
            queue: number("queue"),
            congested: number("congested"),
            push: number("push"),
            drain_rounds: number("drain_rounds") as u64,
            bound: None,
            scale: 1.0,
            curve: Curve::default(),
            cut_before: false,
            just_cut: false,
            crowded: false,
            fullest: Nanos::ZERO,
            drained: 0,
            round: RoundStats::default(),
        }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        if model.round_start() {
            self.end_round(ack, model);
            self.round = RoundStats { probing: model.in_probe_bw(), ..RoundStats::default() };
        }
        let round = &mut self.round;
        round.lost += ack.lost;
        round.delivered += ack.acked;
        round.inflight = round.inflight.max(ack.inflight_before);
        if let Some(rtt) = ack.rtt {
            round.least = Some(round.least.map_or(rtt, |least| least.min(rtt)));
            round.most = round.most.max(rtt);
            round.samples += 1;
        }
    }

    fn probe_gain(&self, phase: u8, model: &Model) -> f64 {
        let gain = model.settings().probe_gain(phase);
        if self.crowded { gain.max(self.push) } else { gain }
    }

    #[inline]
    fn drain_done(&self, model: &Model) -> bool {
        let over = self.drain_rounds > 0 && self.drained >= self.drain_rounds;
        over || model.inflight() <= model.inflight_at(self, 1.0)
    }

    #[inline]
    fn probe_cwnd_gain(&self, model: &Model) -> f64 {
        model.settings().cwnd_gain * self.scale
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("scale", Value::Number(self.scale));
        sink("crowded", Value::Number(f64::from(u8::from(self.crowded))));
    }
}

impl Scaling {
    /// Updates the bound and the scale, once per round trip.
    fn end_round(&mut self, ack: &Ack, model: &Model) {
        let round = self.round;
        let Some(least) = round.least else { return };
        if round.samples >= FEW {
            self.fullest = self.fullest.max(least);
        }
        self.drained += u64::from(model.state() == State::Drain);
        let Some(bdp) = model.bdp().filter(|_| round.probing && model.in_probe_bw()) else { return };
        let mss = model.settings().mss.as_f64();
        let standard = (bdp.as_f64() * model.settings().cwnd_gain).max(mss);
        let lossless = round.lost.is_zero();
        let min_rtt = ack.min_rtt.unwrap_or(least);
        let queued = least.as_secs_f64() > self.queue * min_rtt.as_secs_f64();
        let congestion = !self.just_cut && !lossless && self.congestion(&round, min_rtt);
        self.just_cut = congestion;
        self.crowded = queued && !congestion;
        let mut bound = *self.bound.get_or_insert_with(|| {
            self.curve = Curve { peak: standard, low: standard, since: ack.now, rounds: 0.0 };
            standard
        });
        if congestion {
            let peak = bound.min(round.inflight.as_f64());
            bound = peak * self.cut;
            let peak = if self.converge && peak < self.curve.peak { (peak + bound) / 2.0 } else { peak };
            self.curve = Curve { peak, low: bound, since: ack.now, rounds: 0.0 };
            self.cut_before = true;
        } else {
            bound = self.grown(bound, (ack.now - self.curve.since + least).as_secs_f64(), mss);
            if queued && !self.cut_before && self.first > 0.0 {
                bound *= 1.0 + self.first;
                self.curve = Curve { peak: bound, low: bound, since: ack.now, rounds: 0.0 };
            }
        }
        // cwnd may exceed BBR's cwnd only while crowded, and does not grow further under random loss.
        let most = match (queued, lossless) {
            (false, _) => 1.0,
            (true, true) => self.range.1,
            (true, false) => self.scale.max(1.0),
        };
        let limited = bound.clamp(standard * self.range.0, standard * most);
        if limited < bound && !congestion {
            self.curve = Curve { peak: limited, low: limited, since: ack.now, rounds: 0.0 };
        }
        self.bound = Some(limited);
        self.scale = limited / standard;
    }

    /// Whether the loss in a round trip was congestion: the queue was near its maximum, or the loss was heavy.
    fn congestion(&self, round: &RoundStats, base: Nanos) -> bool {
        let base = base.as_secs_f64();
        round.lost.as_f64() > HEAVY * (round.lost + round.delivered).as_f64()
            || round.most.as_secs_f64() >= base + self.congested * (self.fullest.as_secs_f64() - base)
    }

    /// Returns the bound after one more round trip, `t` seconds after the last cut, by CUBIC's control law.
    fn grown(&mut self, bound: f64, t: f64, mss: f64) -> f64 {
        let curve = &mut self.curve;
        curve.rounds += 1.0;
        let back = libm::cbrt((curve.peak - curve.low).max(0.0) / mss / self.speed);
        let beyond = t - back;
        let cubic = curve.peak + self.speed * beyond * beyond * beyond * mss;
        // RFC 9438 section 4.3: the increase at which Reno with this cut equals Reno with a cut to 0.5.
        let alpha = self.friendly * 3.0 * (1.0 - self.cut) / (1.0 + self.cut);
        let reno = curve.low + alpha * curve.rounds * mss;
        bound.max(cubic.min(1.5 * bound)).max(reno)
    }
}
