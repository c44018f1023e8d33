//! The min_rtt filters and ProbeRTT (section 5.3.4 of the draft), and the restart from idle (section 5.4).

use super::core::BbrCore;
use super::policy::Policy;
use super::state::{AckPhase, State};
use crate::bbr_common::ProbeRtt;
use crate::{Ack, IdleRestart, Nanos};

impl<P: Policy> BbrCore<P> {
    /// UpdateMinRTT: updates two minimum filters. The filter with the shorter window schedules ProbeRTT; the filter
    /// with the longer window keeps the result of the last ProbeRTT.
    #[inline]
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) {
        let model = &mut self.model;
        let aged = |stamp: Option<(Nanos, Nanos)>, by| stamp.is_some_and(|(_, at)| ack.now > at + by);
        model.probe_rtt_expired = aged(model.probe_rtt_min, model.settings.probe_rtt_interval);
        if let Some(rtt) = ack.rtt {
            // The draft accepts only a lower sample; v2 also accepts an equal one.
            let better = |(least, _)| if Self::V2 { rtt <= least } else { rtt < least };
            if model.probe_rtt_expired || model.probe_rtt_min.is_none_or(better) {
                model.probe_rtt_min = Some((rtt, ack.now));
            }
        }
        let Some((least, _)) = model.probe_rtt_min else { return };
        let better = |(rtt, _)| if Self::V2 { least <= rtt } else { least < rtt };
        if model.min_rtt.is_none_or(better) || aged(model.min_rtt, model.settings.min_rtt_window) {
            model.min_rtt = model.probe_rtt_min;
        }
    }

    /// Implements CheckProbeRTT of the draft.
    #[inline]
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack) {
        let model = &mut self.model;
        let probing = matches!(model.state, State::ProbeRtt { .. });
        let allowed = !model.settings.probe_rtt_duration.is_zero() && !model.idle_restart;
        if model.probe_rtt_expired && allowed && !probing {
            self.transition(State::ProbeRtt(ProbeRtt::ENTRY));
            let model = &mut self.model;
            // The transition precedes the save, as in the draft: in ProbeRTT a larger cwnd that was saved before is
            // kept.
            model.save_cwnd();
            model.ack_phase = AckPhase::Stopping;
            model.round.restart(ack.delivered);
            model.probe_rtt_limited = Some((ack.delivered, ack.delivered));
        }
        if let State::ProbeRtt(clock) = self.model.state {
            let window = self.model.probe_rtt_cwnd();
            self.continue_probe_rtt(ack, clock, window);
        }
        if !ack.acked.is_zero() {
            self.model.idle_restart = false;
        }
    }

    /// Implements CheckProbeRTTDone and ExitProbeRTT of the draft.
    pub(super) fn leave_probe_rtt(&mut self, now: Nanos, end: Nanos) {
        if now <= end {
            return;
        }
        let model = &mut self.model;
        if let Some((_, at)) = &mut model.probe_rtt_min {
            *at = now;
        }
        model.restore_window();
        model.reset_short_term();
        if model.full_bw_reached {
            // Inflight is already low after ProbeRTT, so ProbeBW_DOWN ends immediately.
            self.start_down(now);
            self.start_cruise();
        } else {
            self.transition(State::Startup);
        }
    }

    /// Implements HandleRestartFromIdle of the draft.
    pub(super) fn restart_from_idle(&mut self, event: &IdleRestart) {
        let model = &mut self.model;
        if !event.app_limited && !model.is_probe_rtt_limited(event.delivered) {
            return;
        }
        model.idle_restart = true;
        model.epoch.restart(event.now);
        match model.state {
            // The pipe is empty: pacing at the estimated bandwidth fills it, and a higher rate would only build a
            // queue.
            state if state.in_probe_bw() => model.pace(1.0),
            State::ProbeRtt(ProbeRtt { until: Some(end), .. }) => self.leave_probe_rtt(event.now, end),
            _ => {}
        }
    }
}
