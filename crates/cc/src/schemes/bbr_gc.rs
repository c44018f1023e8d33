//! # BBR-GC
//!
//! BBR v1 whose probing gains follow the RTT instead of being fixed. A flow with a long RTT keeps more data in the
//! queue per probe and so wins over a flow with a short RTT (see BBR's page). BBR-GC uses the RTT, relative to the
//! connection's maximum, as the measure of how full path and buffer are. Gamma correction maps this ratio to both
//! gains: with an RTT near the maximum a flow hardly probes and drains deeply; with an RTT far below the maximum it
//! probes hard and drains little.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | RTT | newest RTT sample | s |
//! | RTT_max | maximum sample of the connection | s |
//! | ω | RTT / RTT_max, in (0, 1] | – |
//! | P_up, P_down | pacing gains of the first and second phase of ProbeBW | – |
//! | BDP | bw × min_rtt, without quanta or rounding | B |
//!
//! ```text
//! P_up   = 1.5 − 0.5 · ω^0.25     in [1, 1.5]
//! P_down = 1 − 0.5 · ω^4          in [0.5, 1]
//! ```
//!
//! P_down is recomputed at every ACK of its phase, P_up at every ACK with less than 1 BDP in flight. From 1 BDP on the
//! probe keeps its gain: the gain at the last ACK below 1 BDP, or the gain 1 of the six cruise phases. With exponents
//! 0.25 and 4 the computation takes two square roots or two multiplications. Other exponents require a call of `pow`.
//!
//! ## States
//!
//! The states of BBR, with different gains and end conditions for two phases of ProbeBW:
//!
//! ```text
//!         inflight > 1.25 BDP, or loss, at once;
//!         else after min_rtt, inflight ≥ P_up · BDP          after min_rtt, or inflight ≤ BDP
//!   up ──────────────────────────────────────────────► down ──────────────────────────────► cruise, 6 × min_rtt
//!   g = P_up                                           g = P_down                           g = 1
//!   ▲                                                                                            │
//!   └────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! ## Life of a flow
//!
//! Startup overshoots and so sets RTT_max. In a deep buffer RTT_max is about three times the propagation delay; with
//! the queue empty, P_up is then 1.12 and P_down 0.994. In a shallow buffer RTT_max is the RTT of the full buffer (with
//! 0.1 BDP of buffer, P_up is 1.01 and P_down 0.66). So a flow alone probes less than BBR, and the queue built by a
//! probe ends the probe.
//!
//! ## References
//!
//! 1. W. Pan, X. Li, H. Tan, J. Xu, X. Li, Improvement of RTT Fairness Problem in BBR Congestion Control
//!    Algorithm by Gamma Correction, Sensors 21(12), 4128, 2021: equations 10, 12, 13 and algorithm 1.
//! 2. BBR v1: see its page.
//!
//! ## Differences
//!
//! The formulas are unambiguous; algorithm 1 is not. Parameters select the interpretation of each open point:
//!
//! 1. The draining phase begins 'when inflight > 1.25 BDP **and** loss' in the prose, '**or**' in the algorithm. This
//!    scheme uses 'or'. The algorithm runs at every ACK, so either condition ends the probe at once. `early_down =
//!    false` waits for a min_rtt first, as BBR does.
//! 2. The algorithm assigns no gain from 1 BDP of inflight on. By default (`between=keep`), as in the printed
//!    algorithm, the gain stays unchanged, and a probe that begins above 1 BDP runs at the gain 1 of the six cruise
//!    phases. A probe at gain 1 ends under BBR's condition: at least one min_rtt has passed, and inflight has reached
//!    gain × BDP, here 1 BDP. `up`, our earlier interpretation, uses P_up also from 1 BDP on. `cruise` uses a gain of 1
//!    from 1 BDP on. `drain` ends the probe at 1 BDP. `probe` continues the probe until 1.25 BDP or loss, as BBR's
//!    probe does with its fixed gain; near ω = 1, where P_up adds nothing, such a probe may never end.
//! 3. 'BDP' is bandwidth × delay, as the paper defines it. BBR's tests add three send quanta and rounding, as this
//!    scheme does with `quanta`. The choice matters where a flow's BDP is a few segments.
//! 4. `rtt` selects the sample: the `newest` (the algorithm updates it 'when an ACK is received'), the `smoothed` one,
//!    or the `least` of the last round trip. RTT_max is the maximum of samples of that kind. In the printed algorithm
//!    RTT_max never ages; `rtt_max_window` limits its age.
//! 5. The draining phase follows every probe, regardless of how the probe ended, and ends as BBR's does: the
//!    algorithm's 'pacing_gain < 1 and inflight < 1 BDP'. In the six cruise phases the gain is 1 regardless of inflight
//!    and loss ('next six cycles').
//! 6. Before any sample ω is 1. An application-limited sender stays in its probe until inflight has reached P_up BDPs,
//!    as in BBR. Equation 1 paces at the gain times the bandwidth; `pacing_margin` is Linux's margin, and `literal`
//!    omits it. Behind a policer (BBR's long-term bandwidth) all gains are 1, as in BBR.
//!
//! The table shows the effect of the choices on two flows of 10 and 50 ms that begin within a tenth of a second on
//! average: throughput in Mbit/s from 6 to 60 s on a link of 100 Mbit/s with a buffer of 5 BDP of the long-RTT flow,
//! means over 20 seeds and, in parentheses, the standard deviation. The paper reports 39.4 and 56.9 for BBR-GC, and
//! 11.7 and 84.3 for BBR.
//!
//! | choice | profile `ns3`: 10 ms | 50 ms | `linux`: 10 ms | 50 ms |
//! |---|---|---|---|---|
//! | none: the printed algorithm, with BBR's margin | 34.4 (11) | 65.2 (11) | 20.1 (5) | 79.1 (5) |
//! | `literal`: without the margin | 16.0 (4) | 82.0 (4) | 10.1 (1) | 87.7 (1) |
//! | `between=up` or `probe` | 19 (1) | 79 (1) | 20 (1) | 78 (1) |
//! | `between=cruise` | 38.2 (1) | 54.7 (2) | 30.5 (3) | 68.0 (3) |
//! | `between=drain` | 38.5 (1) | 52.6 (2) | 31.9 (2) | 66.5 (2) |
//! | `quanta` | 43.7 (3) | 55.1 (3) | 26.1 (2) | 71.9 (2) |
//! | `rtt=smoothed` or `least` | 34 (8) | 65 (8) | 20 (5) | 79 (5) |
//! | `early_down = false`, or `down_at = 4` | 37 (4) | 63 (4) | 23 (3) | 76 (3) |
//! | `rtt_max_window` = 10 | 20.7 (6) | 59.4 (6) | 19.9 (7) | 73.3 (4) |
//! | BBR | 6.3 (0) | 91.6 (0) | 6.7 (0) | 91.2 (0) |
//!
//! In two of the 20 seeds of `ns3` the short-RTT flow starves at 3 to 5 Mbit/s: delayed acknowledgements keep it above
//! 1 BDP, where a probe runs at gain 1. With `rtt_max_window` the rate of a lone flow falls to half of the link's rate,
//! because ω is then 1.
//!
//! ## Known weaknesses
//!
//! * A flow whose queueing delay exceeds a quarter of its RTT has more than 1.25 BDP in flight and never probes: the
//!   first ACK ends each probe. A flow with a short RTT that shares the queue of a flow with a long RTT is in this
//!   position.
//! * In a shallow buffer ω stays near 1, and P_up hardly exceeds 1 (1.012 at 0.1 BDP). BBR's pacing margin takes 1 % of
//!   that: the flow regains bandwidth lost to packet loss or to another flow slowly or not at all. With 1 % of random
//!   loss and 0.1 BDP a flow alone uses 31 % of the link in the profile `ns3`. Of several flows, the winner of Startup
//!   keeps most of the link for tens of seconds.
//! * In a deep buffer P_down is 0.994 and drains nothing: a flow alone keeps its probe's queue, and needs
//!   ProbeRTT to see the propagation delay.
//! * RTT_max may date from any earlier state of the path. One delayed ACK of a lone packet raises RTT_max from 11 to 51
//!   ms, and every later P_up from 1.01 to 1.16. Among runs with 20 flows in a buffer of 0.1 BDP, the runs with such a
//!   delayed ACK fill the link and lose 11 % of their packets; the other runs use 62 % of the link and lose 2 %.

use crate::bbr_v1::{BbrCore, Model, PHASE_DOWN, PHASE_UP, Policy, State};
use crate::gamma::{DOWN_AMPLITUDE, DOWN_GAMMA, Gamma, RTT_MAX_WINDOW, UP_AMPLITUDE, UP_GAMMA};
use crate::{
    Ack, Bytes, Info, LITERAL, Nanos, Param, Provenance, RecoveryStyle, RoundMin, Setup, Telemetry, bbr_params,
};

/// BBR-GC.
pub type BbrGc = BbrCore<GammaGains>;

/// The gain of a probe from 1 BDP of inflight on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// The previous gain: the gain at the last ACK below 1 BDP, or the gain 1 of the six cruise phases.
    Keep,
    /// P_up, until inflight has reached P_up BDPs.
    Up,
    /// A gain of 1.
    Cruise,
    /// The probe ends.
    Drain,
    /// P_up, until inflight has reached `down_at` BDPs.
    Probe,
}

/// The kind of RTT sample from which the gains follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RttKind {
    Newest,
    Smoothed,
    /// The minimum sample of the last round trip.
    Least,
}

/// Sets the gains from the RTT.
#[derive(Clone, Debug)]
pub struct GammaGains {
    gamma: Gamma,
    gain: f64,
    rtt: Nanos,
    rounds: RoundMin,
    rtt_kind: RttKind,
    between: Between,
    down_at: f64,
    early_down: bool,
    quanta: bool,
}

impl GammaGains {
    /// Whether inflight before the ACK had reached this many BDPs. BBR's conditions for the end of a phase also use
    /// inflight before the ACK.
    #[inline]
    fn reached(&self, bdps: f64, ack: &Ack, model: &Model) -> bool {
        self.reaches(ack.inflight_before, bdps, model)
    }

    #[inline]
    fn reaches(&self, inflight: Bytes, bdps: f64, model: &Model) -> bool {
        if self.quanta {
            return inflight >= model.inflight_at(self, bdps);
        }
        model.bdp().is_some_and(|bdp| inflight >= bdp.mul_f64(bdps))
    }

    /// Sets the gain for a phase: P_up, P_down, or 1.
    #[inline]
    fn set_gain(&mut self, phase: u8) {
        self.gain = match phase {
            PHASE_UP => self.gamma.up(self.rtt),
            PHASE_DOWN => self.gamma.down(self.rtt),
            _ => 1.0,
        };
    }
}

impl Policy for GammaGains {
    const INFO: Info = Info {
        name: "bbr-gc",
        aliases: &[],
        summary: "BBR v1 whose probing gains follow RTT / RTT_max by gamma correction",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: bbr_params![without "probe_up", "probe_down";
            UP_GAMMA, DOWN_GAMMA, UP_AMPLITUDE, DOWN_AMPLITUDE, RTT_MAX_WINDOW,
            Param::number("down_at", 1.25, (1.0, 4.0), "BDP", "inflight at which draining begins"),
            Param::choice(
                "between",
                &["keep", "up", "cruise", "drain", "probe"],
                "from 1 BDP on: the gain it had, P_up until inflight reaches it, gain 1, drain, P_up to down_at",
            ),
            Param::flag("early_down", true, "drain at once, not only after one min_rtt"),
            Param::flag("quanta", false, "add BBR's send quanta and rounding to BDPs of inflight"),
            Param::choice(
                "rtt",
                &["newest", "smoothed", "least"],
                "newest sample, smoothed RTT, least of the last round trip",
            ),
            LITERAL,
        ],
    };
    /// Equations 1, 12 and 13 and algorithm 1. Equation 1 has no pacing margin; everything else is the default.
    const PRINTED: &'static [(&'static str, f64)] = &[
        ("pacing_margin", 0.0),
        ("up_gamma", 0.25),
        ("down_gamma", 4.0),
        ("up_amplitude", 0.5),
        ("down_amplitude", 0.5),
        ("rtt_max_window", 0.0),
        ("down_at", 1.25),
        ("between", 0.0),
        ("early_down", 1.0),
        ("quanta", 0.0),
        ("rtt", 0.0),
    ];

    fn new(setup: &Setup) -> Self {
        let params = &setup.params;
        Self {
            gamma: Gamma::new(params),
            gain: 1.0,
            rtt: Nanos::ZERO,
            rounds: RoundMin::default(),
            rtt_kind: match params.word("rtt") {
                "smoothed" => RttKind::Smoothed,
                "least" => RttKind::Least,
                _ => RttKind::Newest,
            },
            between: match params.word("between") {
                "cruise" => Between::Cruise,
                "drain" => Between::Drain,
                "probe" => Between::Probe,
                "up" => Between::Up,
                _ => Between::Keep,
            },
            down_at: params.number("down_at"),
            early_down: params.flag("early_down"),
            quanta: params.flag("quanta"),
        }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        let rtt = match self.rtt_kind {
            RttKind::Newest => ack.rtt,
            RttKind::Smoothed => ack.srtt,
            RttKind::Least => {
                self.rounds.on_ack(model.round_start(), ack.rtt);
                self.rounds.last()
            }
        };
        if let Some(rtt) = rtt {
            self.rtt = rtt;
            self.gamma.observe(ack.now, rtt);
        }
        if let State::ProbeBw { phase, .. } = model.state() {
            match self.between {
                // Algorithm 1, phase 1, lines 4 and 5: P_up is assigned only below 1 BDP.
                Between::Keep if phase == PHASE_UP && self.reaches(ack.inflight, 1.0, model) => {}
                Between::Cruise if phase == PHASE_UP && self.reached(1.0, ack, model) => self.gain = 1.0,
                _ => self.set_gain(phase),
            }
        }
    }

    #[inline]
    fn on_transition(&mut self, to: State, _model: &Model) {
        if let State::ProbeBw { phase, .. } = to {
            match self.between {
                // No line of algorithm 1 assigns a gain at the start of a probe, so the probe begins with the gain 1 of
                // the six cruise phases.
                Between::Keep if phase == PHASE_UP => self.gain = 1.0,
                _ => self.set_gain(phase),
            }
        }
    }

    #[inline]
    fn probe_gain(&self, _phase: u8, _model: &Model) -> f64 {
        self.gain
    }

    #[inline]
    fn phase_done(&self, phase: u8, since: Nanos, ack: &Ack, model: &Model) -> bool {
        let full_length = model.lasted_min_rtt(since);
        match phase {
            PHASE_UP if model.policed().is_none() => {
                if !ack.lost.is_zero() || self.reached(self.down_at, ack, model) {
                    return full_length || self.early_down;
                }
                match self.between {
                    Between::Drain => (full_length || self.early_down) && self.reached(1.0, ack, model),
                    Between::Probe => false,
                    Between::Keep | Between::Up | Between::Cruise => full_length && self.reached(self.gain, ack, model),
                }
            }
            PHASE_DOWN if model.policed().is_none() => full_length || !self.reached(1.0, ack, model),
            _ => full_length,
        }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        self.gamma.telemetry(self.rtt, sink);
    }
}
