//! # DA-BBR (delay-aware BBR)
//!
//! BBR's cwnd of two BDPs lets a flow with a long RTT keep more data in the queue than a flow with a short RTT, and so
//! gives it a larger share of the link. DA-BBR makes cwnd follow the delay: one BDP while the queue is empty, towards
//! two as the queue grows. DA-BBR also yields more in recovery, and keeps sending during ProbeRTT.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | rtt | the newest RTT sample | s |
//! | min_rtt | minimum RTT of the last 10 s | s |
//! | prev | min_rtt at the time it last expired in ProbeBW | s |
//! | W | the value used as one BDP, in cwnd and in every test of inflight | B |
//!
//! ```text
//! W = bw · min_rtt · rtt / (rtt + min_rtt)   in ProbeBW, unless 1.2 · prev < min_rtt
//! W = bw · min_rtt                           otherwise
//! cwnd = h · W + 3q, rounded, as in BBR v1:   h = 2 in ProbeBW, so 1 BDP where rtt = min_rtt, < 2 BDP always
//! ProbeRTT:          cwnd = a third of the cwnd at its start, at least 4 segments
//! recovery begins:   cwnd = inflight, pacing gain 0.75; for one round only losses change cwnd
//! recovery ends:     the previous cwnd is not restored; cwnd grows by the amount acknowledged
//! ```
//!
//! ## States
//!
//! The states of BBR v1, with these differences:
//!
//! ```text
//! Startup, Drain     W = BDP
//! ProbeBW            W = BDP · rtt / (rtt + min_rtt): from BDP / 2 with no queue, up to BDP
//!    up              ends after min_rtt: 1.25 W is in flight already unless the queue is long
//!    down            ends after min_rtt: inflight does not fall to W unless the queue is long
//! ProbeRTT           a third of cwnd instead of 4 segments
//! recovery (any)     gain 0.75 until the state or phase changes
//! ```
//!
//! The gain of 0.75 replaces the gain and the end condition of the current phase: the phase becomes a draining phase
//! and ends when inflight is down to W.
//!
//! ## Life of a flow
//!
//! As BBR v1 until the end of Drain. Then the cwnd of a flow alone hardly exceeds the BDP, which prevents a probe, so
//! the flow finds more bandwidth only within the additional three send quanta. The draining phase lasts a whole min_rtt
//! with nothing to drain, which costs a quarter of one phase in eight: alone on a link, the flow uses 31/32 · 0.99 of
//! the capacity. Beside other flows the queue increases cwnd, and with it the flow's share of the queue, but always by
//! less than one BDP.
//!
//! One loss in Startup ends this state: the gain of 0.75 stays until Drain, the pacing rate cannot grow at this gain,
//! and after three rounds without growth the pipe counts as full. If the loss was random, later probes must find the
//! missing bandwidth.
//!
//! A min_rtt more than 20 % above prev indicates that ProbeRTT met a queue maintained by other traffic (or that a third
//! of the flow's cwnd was too much to empty the queue). The plain BDP then applies until the next ProbeRTT.
//!
//! ## References
//!
//! 1. G.-H. Kim, Y.-Z. Cho, Delay-Aware BBR Congestion Control Algorithm for RTT Fairness Improvement, IEEE Access 8,
//!    2020 (the paper was not read; the authors' code is followed).
//! 2. `tcp_DA-BBR.c` of github.com/ku-asteam/da-bbr, commit 5deecb40fce3 (Linux 4.14.64): read in full, and
//!    followed.
//! 3. BBR v1: see `bbr`.
//!
//! ## Differences
//!
//! From BBR v1 as implemented here: the control law above, and no cwnd term for aggregated ACKs
//! (`extra_acked` is off by default: Linux 4.14 had none). With `delay_scaling = off`, `cautious_recovery = off`,
//! `probe_rtt_divisor = 1e6` and `extra_acked = on` it is BBR v1, event for event.
//!
//! From the authors' code:
//!
//! 1. This scheme follows the core where the core follows a later Linux. The pacing margin is 1 % (4.14 omits link
//!    headers from its pacing, with the same effect). Only the probing phase adds two segments, not all of ProbeBW. A
//!    delayed ACK does not replace an expired min_rtt.
//! 2. The cwnd of ProbeRTT is never below BBR's own four segments. In the code it falls below four segments if cwnd is
//!    below twelve.
//! 3. If an ACK brings no RTT sample, this scheme uses the last sample. The code puts −1, its value for no sample, into
//!    the quotient.
//! 4. prev is unknown, and scaling is on, until min_rtt first expires in ProbeBW. In the code prev begins with the
//!    handshake's RTT. This scheme also stores prev if the ACK at which min_rtt expires brings no sample.
//! 5. The gain of 0.75 lasts until the phase ends, even if a policer is detected meanwhile.
//!
//! ## Known weaknesses
//!
//! * A flow alone, whose cwnd is just the BDP, can hardly probe. It finds released bandwidth slowly: a probe adds at
//!   most the send quanta, not 25 % of the BDP.
//! * A loss in Startup ends Startup at the rate reached so far.
//! * ProbeRTT empties the queue only if all flows reduce inflight enough. In a long standing queue, a third of a cwnd
//!   of two BDPs is most of the inflight that one flow needs to maintain the queue. Then min_rtt drifts upwards.
//! * Loss-based flows leave a DA-BBR flow almost no bandwidth. In a deep buffer their queue persists through ProbeRTT.
//!   The inflated min_rtt enlarges BBR v1's cwnd, while here rtt / (rtt + min_rtt) falls to one half as min_rtt
//!   approaches rtt. In a shallow buffer every recovery leaves cwnd at inflight, and cwnd grows back to at most one
//!   BDP.

use super::bbr::Standard;
use crate::bbr_v1::{BbrCore, Model, Policy, ProbeRtt, RecoveryEntry, State};
use crate::{Ack, Bytes, Info, Nanos, Param, Provenance, Rate, RecoveryStyle, Setup, bbr_params};

/// DA-BBR.
pub type DaBbr = BbrCore<DelayAware>;

/// Makes cwnd follow the delay.
#[derive(Clone, Debug)]
pub struct DelayAware {
    scaling: bool,
    cautious: bool,
    recovery_gain: f64,
    divisor: f64,
    /// min_rtt at the time it last expired in ProbeBW.
    previous_min_rtt: Option<Nanos>,
    probe_rtt_cwnd: Bytes,
    /// Whether recovery has begun in the current state, so that the flow paces at `recovery_gain`.
    slow: bool,
}

impl Policy for DelayAware {
    const INFO: Info = Info {
        name: "da-bbr",
        aliases: &[],
        summary: "BBR whose cwnd grows with the queue, from one BDP to two",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::flag("delay_scaling", true, "scale cwnd and inflight tests by the delay; off: plain BDP"),
            Param::flag("cautious_recovery", true, "pace slower and do not restore cwnd; off: as BBR"),
            Param::ratio("recovery_gain", 0.75, (0.1, 1.0), "pacing gain from the start of recovery"),
            Param::ratio("probe_rtt_divisor", 3.0, (1.0, 1e6), "divisor of cwnd in ProbeRTT"),
            Param::flag("extra_acked", false, "cwnd term for aggregated ACKs"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        Self {
            scaling: setup.params.flag("delay_scaling"),
            cautious: setup.params.flag("cautious_recovery"),
            recovery_gain: setup.params.number("recovery_gain"),
            divisor: setup.params.number("probe_rtt_divisor"),
            previous_min_rtt: None,
            probe_rtt_cwnd: Bytes::ZERO,
            slow: false,
        }
    }

    #[inline]
    fn target_bdp(&self, bw: Rate, min_rtt: Nanos, model: &Model) -> Bytes {
        let risen = self.previous_min_rtt.is_some_and(|previous| previous * 12 / 10 < min_rtt);
        match model.latest_rtt() {
            Some(rtt) if self.scaling && model.in_probe_bw() && !risen => {
                let (rtt, least) = (rtt.as_nanos() as f64, min_rtt.as_nanos() as f64);
                bw.over(min_rtt).mul_f64(rtt / (rtt + least))
            }
            _ => bw.over(min_rtt),
        }
    }

    fn on_min_rtt_expired(&mut self, model: &Model) {
        if model.in_probe_bw() {
            self.previous_min_rtt = model.min_rtt();
        }
    }

    fn on_transition(&mut self, to: State, model: &Model) {
        // Steps within ProbeRTT do not change the state.
        self.slow &= matches!(to, State::ProbeRtt(ProbeRtt { until: Some(_), .. }));
        if let State::ProbeRtt(ProbeRtt { until: None, .. }) = to {
            let window = model.cwnd().mul_f64(1.0 / self.divisor);
            self.probe_rtt_cwnd = window.max(model.settings().min_window);
        }
    }

    #[inline]
    fn probe_rtt_cwnd(&self, _model: &Model) -> Bytes {
        self.probe_rtt_cwnd
    }

    #[inline]
    fn pacing_gain(&self, model: &Model) -> f64 {
        if self.slow { self.recovery_gain } else { self.state_gain(model) }
    }

    fn enter_recovery(&mut self, window: Bytes, ack: &Ack, model: &Model) -> RecoveryEntry {
        if !self.cautious {
            return Standard.enter_recovery(window, ack, model);
        }
        self.slow = true;
        RecoveryEntry { cwnd: ack.inflight.max(model.settings().mss), conserve: true }
    }

    fn conserve(&mut self, window: Bytes, ack: &Ack, model: &Model) -> Bytes {
        if self.cautious { window } else { Standard.conserve(window, ack, model) }
    }

    fn leave_recovery(&mut self, window: Bytes, ack: &Ack, model: &Model) -> Bytes {
        if self.cautious { window } else { Standard.leave_recovery(window, ack, model) }
    }
}
