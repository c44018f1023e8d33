//! # BRF: the bottleneck switch sets the rate
//!
//! The sender does not probe. Its SYN announces that it obeys. The switches with the router algorithm `brf`
//! on its path divide the bandwidth of their ports and write each flow's share into its ACKs, once per round
//! trip; the lowest share wins. The sender paces at that share. If shares stop arriving, it becomes CUBIC at
//! its current rate until the next share.
//!
//! ## Control law
//! Let R be the share last advised, in payload bytes per second (the transport subtracts the headers).
//!
//! * pacing rate = R, at least `min_rate` packets per second
//! * cwnd = `window_gain` · R' · srtt, at least four segments: it only stops a sender whose ACKs have ceased.
//!   R' is the maximum share of the last round trip: data sent at a higher share is still in flight and must
//!   not stop a sender whose share was lowered.
//! * Before the first share: the initial window, not paced.
//! * A share of zero, or one above `line_rate`, is invalid: ignored, and counted.
//! * No share for max(`timeout`, `timeout_rtts` · srtt): CUBIC takes over in avoidance, with W = W_max = R ·
//!   srtt, or in slow start with the initial window if there never was a share.
//!
//! Loss, marks and retransmission timeouts change nothing while shares arrive.
//!
//! ## States
//! ```text
//!   waiting ------ a share ------> advised <----- a share -----+
//!      |  ^                        |     |                     |
//!      |  +-- idle as long as -----+     |                     |
//!      |      the timeout                |                     |
//!      |                                 |                     |
//!      +---------- timeout --------------+------------> fallback (CUBIC)
//! ```
//! After a long idle period the share is outdated: the sender returns to `waiting`, with the initial window
//! paced at its last rate, until the next share or the timeout.
//!
//! ## Life of a flow
//! The SYN-ACK brings the first share, so the first window is already paced. One round trip later the flow
//! has been measured, and after another it has the same share as the others.
//!
//! ## References
//! * The paper of BRF (bottleneck routing feedback), Sensors 24 (2024), 749, section 3.2.
//!
//! ## Differences
//! 1. The paper has no window. Here a cwnd bounds the loss if the network fails.
//! 2. The paper does not cover a switch that stops answering; the fallback to CUBIC is ours. There CUBIC is
//!    paced, as it is under Linux's `fq`, which the pacing of the paper's sender also needs.
//! 3. The timeout is ours: a second or four round trips, so that single lost ACKs change nothing.
//!
//! ## Known weaknesses
//! BRF trusts the network. If the narrowest link of a path does not run `brf` while another does, the flow
//! overruns that link permanently: loss does not slow it down.

use crate::schemes::Cubic;
use crate::{
    Ack, Advice, Bytes, CongestionCause, CongestionControl, Control, IdleRestart, Info, Lost, Nanos, Param,
    Params, Provenance, Rate, RateAdvice, RecoveryEntered, RecoveryLeft, RecoveryStyle, Sent, Setup,
    SpuriousLoss, Telemetry, Timeout, Value,
};

/// Minimum cwnd in segments.
const MIN_CWND: u64 = 4;
/// Share of cwnd that CUBIC keeps on loss, by default.
const CUBIC_BETA: f64 = 0.7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No share has arrived, or the last one is outdated.
    Waiting,
    /// Paced at the share.
    Advised,
    /// CUBIC.
    Fallback,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Advised => "advised",
            Self::Fallback => "fallback",
        }
    }
}

/// The sender's side of BRF.
#[derive(Clone, Debug)]
pub struct Brf {
    state: State,
    /// The last valid share.
    rate: Option<Rate>,
    /// A previous, higher share: data sent at it may be in flight until `prior_rate_until`.
    prior_rate: Rate,
    prior_rate_until: Nanos,
    cwnd: Bytes,
    /// Start of the wait for the next share: the last share, or the end of an idle time. `None` before any
    /// event.
    since: Option<Nanos>,
    srtt: Option<Nanos>,
    /// Inputs to CUBIC's constructor.
    setup: Setup,
    /// In control during the fallback.
    cubic: Cubic,
    least: Rate,
    line_rate: Rate,
    window_gain: f64,
    timeout: Nanos,
    timeout_rtts: f64,
    ignored: u64,
    fallbacks: u64,
}

impl Brf {
    fn transition(&mut self, to: State) {
        debug_assert!(self.state != to || to == State::Waiting, "{} again", to.name());
        self.state = to;
    }

    /// The time without a share after which CUBIC takes over.
    fn share_timeout(&self) -> Nanos {
        self.timeout.max(self.srtt.unwrap_or_default().mul_f64(self.timeout_rtts))
    }

    fn safety_cwnd(&self, now: Nanos, rate: Rate) -> Bytes {
        let rate = if now < self.prior_rate_until { rate.max(self.prior_rate) } else { rate };
        rate.over(self.srtt.unwrap_or_default()).mul_f64(self.window_gain).max(self.setup.mss * MIN_CWND)
    }

    /// Falls back to CUBIC if no share has arrived within the timeout.
    fn check_share_timeout(&mut self, now: Nanos) {
        let since = *self.since.get_or_insert(now);
        if self.state == State::Fallback || now - since <= self.share_timeout() {
            return;
        }
        self.transition(State::Fallback);
        self.fallbacks += 1;
        self.cubic = Cubic::new(&self.setup);
        if let Some(rate) = self.rate
            && let Some(srtt) = self.srtt
        {
            let mss = self.setup.mss;
            let window = mss * ((rate.over(srtt) + mss / 2).as_u64() / mss.as_u64()).max(MIN_CWND);
            self.cubic = Cubic::new(&Setup { initial_window: window, ..self.setup.clone() });
            // A reduction from W / beta yields cwnd = ssthresh = W_max = W: avoidance begins on the plateau. W
            // is in whole segments, and the quotient is rounded up, because CUBIC rounds ssthresh down.
            let flight_size = window.mul_f64(1.0 / CUBIC_BETA) + Bytes::new(1);
            self.cubic.on_recovery_entered(&RecoveryEntered {
                now,
                cause: CongestionCause::Loss,
                flight_size,
                inflight: flight_size,
                acked: Bytes::ZERO,
                delivered: Bytes::ZERO,
            });
        }
    }
}

impl CongestionControl for Brf {
    const INFO: Info = Info {
        name: "brf",
        aliases: &[],
        summary: "BRF: sends at the rate that the bottleneck switch writes into ACKs",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: &[
            Param::ratio("window_gain", 2.0, (1.0, 10.0), "cwnd as a multiple of rate times srtt"),
            Param::number("timeout", 1.0, (0.01, 60.0), "s", "time without a share until CUBIC takes over"),
            Param::number("timeout_rtts", 4.0, (1.0, 100.0), "rtt", "minimum of that time in round trips"),
            Param::number("min_rate", 1.0, (0.1, 1000.0), "pkt/s", "a lower share counts as this"),
            Param::number("line_rate", 100_000.0, (1.0, 1e6), "mbit", "a higher share is invalid"),
        ],
    };
    const RATE_PROTOCOL: Option<&'static str> = Some("brf");

    fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number(name);
        let least = (setup.mss.as_f64() * number("min_rate")) as u64;
        let mut params = Params::defaults(Cubic::INFO.params);
        let paced = params.set("paced", 1.0);
        debug_assert!(paced.is_ok(), "CUBIC can be paced");
        let inner = Setup { params, ..setup.clone() };
        Self {
            state: State::Waiting,
            rate: None,
            prior_rate: Rate::ZERO,
            prior_rate_until: Nanos::ZERO,
            cwnd: setup.initial_window,
            since: None,
            srtt: None,
            cubic: Cubic::new(&inner),
            setup: inner,
            least: Rate::from_bytes_per_sec(least.max(1)),
            line_rate: Rate::from_mbit_per_sec(number("line_rate")),
            window_gain: number("window_gain"),
            timeout: Nanos::from_secs_f64(number("timeout")),
            timeout_rtts: number("timeout_rtts"),
            ignored: 0,
            fallbacks: 0,
        }
    }

    fn on_sent(&mut self, event: &Sent) {
        if self.state == State::Fallback {
            self.cubic.on_sent(event);
        }
    }

    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.srtt = event.srtt;
        self.check_share_timeout(event.now);
        match (self.state, self.rate) {
            (State::Fallback, _) => self.cubic.on_ack(event),
            (State::Advised, Some(rate)) => self.cwnd = self.safety_cwnd(event.now, rate),
            _ => {}
        }
    }

    fn on_lost(&mut self, event: &Lost) {
        if self.state == State::Fallback {
            self.cubic.on_lost(event);
        }
    }

    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        if self.state == State::Fallback {
            self.cubic.on_recovery_entered(event);
        }
    }

    fn on_recovery_left(&mut self, event: &RecoveryLeft) {
        if self.state == State::Fallback {
            self.cubic.on_recovery_left(event);
        }
    }

    fn on_timeout(&mut self, event: &Timeout) {
        self.check_share_timeout(event.now);
        if self.state == State::Fallback {
            self.cubic.on_timeout(event);
        }
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        if self.state == State::Fallback {
            self.cubic.on_spurious_loss(event);
        }
    }

    fn on_rate_advice(&mut self, event: &RateAdvice) {
        match event.advice {
            Advice::Rate(rate) if !rate.is_zero() && rate <= self.line_rate => {
                let rate = rate.max(self.least);
                if let Some(old) = self.rate.filter(|old| *old > rate) {
                    let pending = event.now < self.prior_rate_until;
                    self.prior_rate = if pending { self.prior_rate.max(old) } else { old };
                    self.prior_rate_until = event.now.saturating_add(self.srtt.unwrap_or_default());
                }
                self.rate = Some(rate);
                self.since = Some(event.now);
                self.cwnd = self.safety_cwnd(event.now, rate);
                if self.state != State::Advised {
                    self.transition(State::Advised);
                }
            }
            _ => self.ignored += 1,
        }
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if self.state == State::Fallback {
            self.cubic.on_idle_restart(event);
            return;
        }
        // Idle time does not count towards the timeout, but the rest of the wait does.
        self.since = self.since.map(|since| since.saturating_add(event.idle).min(event.now));
        if event.idle > self.share_timeout() {
            self.since = Some(event.now);
            self.cwnd = self.setup.initial_window;
            self.transition(State::Waiting);
        }
    }

    #[inline]
    fn control(&self) -> Control {
        match self.state {
            State::Fallback => self.cubic.control(),
            _ => Control { cwnd: self.cwnd, pacing_rate: self.rate, burst: self.setup.mss },
        }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("state", Value::State(self.state.name()));
        if let Some(rate) = self.rate {
            sink("share", Value::Rate(rate));
        }
        sink("advice_ignored", Value::Number(self.ignored as f64));
        sink("fallbacks", Value::Number(self.fallbacks as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, MSS, ack, entered, idle, timeout};

    const MB: Rate = Rate::from_bytes_per_sec(1_000_000);

    fn brf(overrides: &[(&str, f64)]) -> Brf {
        Brf::with(overrides)
    }

    fn acked(brf: &mut Brf, now_ms: u64, srtt_ms: u64) -> Control {
        let (now, srtt) = (Nanos::from_millis(now_ms), Some(Nanos::from_millis(srtt_ms)));
        brf.on_ack(&Ack { now, srtt, ..ack(MSS) });
        brf.control()
    }

    fn advised(brf: &mut Brf, now_ms: u64, rate: Rate) -> Control {
        brf.on_rate_advice(&RateAdvice { now: Nanos::from_millis(now_ms), advice: Advice::Rate(rate) });
        brf.control()
    }

    /// The scheme paces at its share, with a cwnd of two BDPs.
    #[test]
    fn brf_paces_at_share_with_window_of_two_bdp() {
        let mut brf = brf(&[]);
        assert_eq!((brf.control().cwnd, brf.control().pacing_rate), (Bytes::new(10 * MSS), None));
        acked(&mut brf, 40, 40);
        let control = advised(&mut brf, 40, MB);
        // Twice 1 MB/s for 40 ms.
        assert_eq!((control.cwnd, control.pacing_rate), (Bytes::new(80_000), Some(MB)));
        // cwnd follows the RTT and has at least four segments.
        assert_eq!(acked(&mut brf, 60, 60).cwnd, Bytes::new(120_000));
        advised(&mut brf, 70, Rate::from_bytes_per_sec(5));
        let slow = acked(&mut brf, 130, 60);
        assert_eq!((slow.cwnd, slow.pacing_rate.unwrap().as_bytes_per_sec()), (Bytes::new(4 * MSS), MSS));
    }

    /// A smaller share slows the sender without a stall.
    #[test]
    fn brf_smaller_share_slows_without_stall() {
        let mut brf = brf(&[]);
        acked(&mut brf, 40, 40);
        advised(&mut brf, 40, MB);
        // A tenth: 40 kB are in flight, and the cwnd of the new share would be 8 kB.
        let tenth = Rate::from_bytes_per_sec(100_000);
        let control = advised(&mut brf, 100, tenth);
        assert_eq!((control.cwnd, control.pacing_rate), (Bytes::new(80_000), Some(tenth)));
        // Neither a lower nor a higher share shortens that round trip.
        advised(&mut brf, 120, Rate::from_bytes_per_sec(50_000));
        assert_eq!(advised(&mut brf, 130, tenth).cwnd, Bytes::new(80_000));
        assert_eq!(acked(&mut brf, 159, 40).cwnd, Bytes::new(80_000));
        assert_eq!(acked(&mut brf, 160, 40).cwnd, Bytes::new(8_000));
    }

    /// While shares arrive, loss and timeouts change nothing.
    #[test]
    fn brf_loss_and_timeouts_are_ignored_with_share() {
        let mut brf = brf(&[]);
        acked(&mut brf, 40, 40);
        let control = advised(&mut brf, 40, MB);
        brf.on_recovery_entered(&entered(CongestionCause::Loss, 40_000));
        brf.on_recovery_entered(&entered(CongestionCause::Ecn, 40_000));
        brf.on_timeout(&Timeout { now: Nanos::from_millis(900), ..timeout(40_000, 2) });
        assert_eq!((brf.control(), brf.state), (control, State::Advised));
    }

    /// Invalid shares are ignored and counted.
    #[test]
    fn brf_invalid_share_is_ignored_and_counted() {
        let mut brf = brf(&[("line_rate", 80.0)]);
        acked(&mut brf, 40, 40);
        let control = advised(&mut brf, 40, MB);
        advised(&mut brf, 41, Rate::ZERO);
        advised(&mut brf, 42, Rate::from_bytes_per_sec(10_000_001));
        brf.on_rate_advice(&RateAdvice { now: Nanos::from_millis(43), advice: Advice::Change(1e6) });
        assert_eq!((brf.control(), brf.ignored), (control, 3));
        // An invalid share does not restart the timeout.
        acked(&mut brf, 1_041, 40);
        assert_eq!(brf.state, State::Fallback);
        // The line rate itself is valid.
        let most = Rate::from_bytes_per_sec(10_000_000);
        assert_eq!(advised(&mut brf, 1_050, most).pacing_rate, Some(most));
    }

    /// A second without a share falls back to CUBIC at the current rate; the next share ends that.
    #[test]
    fn brf_second_without_share_falls_back_to_cubic() {
        let mut brf = brf(&[]);
        acked(&mut brf, 40, 40);
        advised(&mut brf, 40, MB);
        acked(&mut brf, 1_040, 40);
        assert_eq!(brf.state, State::Advised);
        let control = acked(&mut brf, 1_041, 40);
        assert_eq!(brf.state, State::Fallback);
        // 1 MB/s for 40 ms. Then it grows along the curve: C · t^3 after t seconds.
        assert_eq!(control.cwnd.as_u64(), 40_000);
        assert!(control.pacing_rate.is_some());
        for now in (1_042..4_041).step_by(10) {
            acked(&mut brf, now, 40);
        }
        let grown = brf.control().cwnd.as_f64() / MSS as f64;
        assert!((46.0..=40.0 + 0.4 * 3.04f64.powi(3)).contains(&grown), "{grown}");
        brf.on_recovery_entered(&entered(CongestionCause::Loss, (grown * MSS as f64) as u64));
        let cut = brf.control().cwnd.as_f64() / MSS as f64;
        assert_eq!(cut, (grown * 0.7).floor(), "whole segments");
        let again = advised(&mut brf, 5_000, MB);
        assert_eq!((again.cwnd, again.pacing_rate), (Bytes::new(80_000), Some(MB)));
        assert_eq!((brf.state, brf.fallbacks), (State::Advised, 1));
    }

    /// The fallback timeout is four round trips if that is longer.
    #[test]
    fn brf_fallback_timeout_is_four_long_round_trips() {
        let mut brf = brf(&[]);
        acked(&mut brf, 500, 500);
        advised(&mut brf, 500, MB);
        acked(&mut brf, 2_500, 500);
        assert_eq!(brf.state, State::Advised);
        acked(&mut brf, 2_501, 500);
        assert_eq!(brf.state, State::Fallback);
    }

    /// Without any share the scheme starts as CUBIC.
    #[test]
    fn brf_without_any_share_starts_as_cubic() {
        let mut brf = brf(&[]);
        acked(&mut brf, 40, 40);
        let control = acked(&mut brf, 1_041, 40);
        // The first acknowledgement in slow start adds a segment.
        assert_eq!((brf.state, control.cwnd), (State::Fallback, Bytes::new(11 * MSS)));
        // Timeouts are CUBIC's now.
        brf.on_timeout(&timeout(10 * MSS, 1));
        assert_eq!(brf.control().cwnd, Bytes::new(MSS));
    }

    /// The retransmission timer detects a dead network.
    #[test]
    fn brf_retransmission_timeout_triggers_fallback() {
        let mut brf = brf(&[]);
        acked(&mut brf, 40, 40);
        advised(&mut brf, 40, MB);
        brf.on_timeout(&Timeout { now: Nanos::from_millis(1_200), ..timeout(40_000, 3) });
        assert_eq!((brf.state, brf.control().cwnd), (State::Fallback, Bytes::new(MSS)));
    }

    /// An application that pauses again and again still falls back when it has sent for the timeout.
    #[test]
    fn brf_frequent_pauses_do_not_prevent_fallback() {
        let mut brf = brf(&[]);
        acked(&mut brf, 40, 40);
        // 100 ms of idle time every 200 ms: a second of sending is over after two.
        for now in (240..=2_240).step_by(200) {
            brf.on_idle_restart(&IdleRestart { now: Nanos::from_millis(now), ..idle(100, 200) });
            acked(&mut brf, now + 40, 40);
        }
        assert_eq!((brf.state, brf.fallbacks), (State::Fallback, 1));
    }

    /// Idle time of the application does not count towards the fallback timeout.
    #[test]
    fn brf_idle_application_triggers_no_fallback() {
        let mut brf = brf(&[]);
        acked(&mut brf, 40, 40);
        advised(&mut brf, 40, MB);
        brf.on_idle_restart(&IdleRestart { now: Nanos::from_millis(900), ..idle(800, 200) });
        assert_eq!(acked(&mut brf, 1_100, 40).cwnd, Bytes::new(80_000));
        // Idle for longer than the timeout: the initial window, at the old rate.
        brf.on_idle_restart(&IdleRestart { now: Nanos::from_millis(9_000), ..idle(7_000, 200) });
        let control = acked(&mut brf, 9_040, 40);
        assert_eq!((control.cwnd, control.pacing_rate), (Bytes::new(10 * MSS), Some(MB)));
        assert_eq!(advised(&mut brf, 9_040, MB).cwnd, Bytes::new(80_000));
    }
}
