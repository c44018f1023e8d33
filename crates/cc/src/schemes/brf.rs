//! # BRF: the bottleneck switch sets the rate
//!
//! The sender does not probe. Its SYN announces that the sender obeys shares. Switches on its path with the router
//! algorithm `brf` divide the bandwidth of their ports and write each flow's share into its ACKs, once per round trip;
//! the lowest share wins. The sender paces at that share. If shares stop arriving, the sender runs CUBIC, starting at
//! its current rate, until the next share.
//!
//! ## Control law
//! Let R be the last share, in payload bytes per second (the transport subtracts the headers).
//!
//! * pacing rate = R, at least `min_rate` packets per second
//! * cwnd = `window_gain` · R' · srtt, at least four segments: this cwnd only stops a sender whose ACKs have ceased. R'
//!   is the maximum share of the last round trip: after a reduction of the share, data sent at the higher share is
//!   still in flight and must not stop the sender.
//! * Before the first share, cwnd is the initial window, without pacing.
//! * A share of zero, or a share above `line_rate`, is invalid; it is ignored and counted.
//! * If no share arrives for max(`timeout`, `timeout_rtts` · srtt), CUBIC takes over in avoidance, with W = W_max = R ·
//!   srtt. Without any share so far, CUBIC takes over in slow start with the initial window, after max(20 ms,
//!   `timeout_rtts` · srtt): perhaps no switch on the path runs BRF.
//! * A round trip that loses at least ten segments, and more than `overrun` times the delivered segments, shows that
//!   the path cannot carry R: R is forged, or the share of a faster link. Let D be the delivery rate of that round
//!   trip. CUBIC takes over with W = W_max = D · srtt, and from then on a share above twice the highest delivery rate
//!   since the overrun is invalid. Round trips with a retransmission timeout are not judged.
//!
//! Other losses, marks and retransmission timeouts change nothing while shares arrive.
//!
//! ## States
//! ```text
//!   waiting ------ a share ------> advised <----- a share -----+
//!      |  ^                        |     |                     |
//!      |  +-- idle as long as -----+     |                     |
//!      |      the timeout                |                     |
//!      |                                 |                     |
//!      +---------- timeout --------------+- or overrun -> fallback (CUBIC)
//! ```
//! After a long idle period the share is outdated: the sender returns to `waiting`, with the initial window paced at
//! its last rate, until the next share arrives or the timeout expires.
//!
//! ## Life of a flow
//! The SYN-ACK brings the first share, so the first window is already paced. One round trip later the switch has
//! measured the flow, and after another round trip the flow has the same share as the others.
//!
//! ## References
//! * The paper of BRF (bottleneck routing feedback), Sensors 24 (2024), 749, section 3.2.
//!
//! ## Differences
//! 1. The paper has no window. Here a cwnd bounds the loss if the network fails.
//! 2. The paper does not cover a switch that stops answering; the fallback to CUBIC is our addition. This CUBIC is
//!    paced, as under Linux's `fq`, which the pacing of the paper's sender also needs.
//! 3. The timeout is our addition: a second or four round trips, so that single lost ACKs change nothing. Before the
//!    first share the timeout is shorter: with a BRF switch on the path, the SYN-ACK already brings a share.
//! 4. The paper trusts every share, and a sender with a forged share floods its path. The bound after an overrun is our
//!    addition; its loss threshold, a fifth, is that of BBR's policer detection.
//!
//! ## Known weaknesses
//! BRF trusts the network. If the narrowest link of a path does not run `brf` while another link does, the flow
//! overloads the narrowest link permanently while less than a sixth of its packets are lost. A forged share floods the
//! path for up to one round trip at that rate.

use crate::schemes::Cubic;
use crate::{
    Ack, Advice, Bytes, CongestionCause, CongestionControl, Control, IdleRestart, Info, Lost, Nanos, Param, Params,
    Provenance, Random, Rate, RateAdvice, RecoveryEntered, RecoveryLeft, RecoveryStyle, Scheme, Sent, Setup,
    SpuriousLoss, Telemetry, Timeout, Value,
};

/// Minimum cwnd in segments.
const MIN_CWND: u64 = 4;
/// Maximum wait for the first share on short paths: four times the shortest allocation interval Δt of switches on real
/// ports.
const FIRST_SHARE: Nanos = Nanos::from_millis(20);
/// Minimum number of lost segments in a round trip that indicate an overrun.
const OVERRUN_LOSSES: u64 = 10;
/// After an overrun, a share may exceed the highest delivery rate since the overrun by this factor.
const OVERRUN_HEADROOM: u64 = 2;
/// Share of cwnd that CUBIC keeps on loss, by default.
const CUBIC_BETA: f64 = 0.7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No share has arrived, or the last share is outdated.
    Waiting,
    /// The sender paces at its share.
    Advised,
    /// CUBIC controls the sender.
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

/// Parameters of the CUBIC instance that controls the sender during the fallback.
fn paced() -> Params {
    let mut params = Params::defaults(Cubic::INFO.params);
    let paced = params.set("paced", 1.0);
    debug_assert!(paced.is_ok(), "CUBIC can be paced");
    params
}

/// A round trip over which the losses are compared with the deliveries.
#[derive(Clone, Copy, Debug)]
struct Round {
    since: Nanos,
    /// Bytes delivered and bytes lost by the start of the round trip, since the connection began.
    delivered: Bytes,
    lost: Bytes,
    /// Whether a retransmission timeout declared everything lost.
    timed_out: bool,
}

/// The sender of BRF.
#[derive(Clone, Debug)]
pub struct Brf {
    state: State,
    /// The last valid share.
    rate: Option<Rate>,
    /// A previous, higher share. Data sent at that share may be in flight until `prior_rate_until`.
    prior_rate: Rate,
    prior_rate_until: Nanos,
    cwnd: Bytes,
    /// Start of the wait for the next share: the arrival of the last share, later by any idle time since. `None` before
    /// any event.
    since: Option<Nanos>,
    srtt: Option<Nanos>,
    mss: Bytes,
    initial_window: Bytes,
    sack: bool,
    random: Random,
    /// Controls the sender during the fallback.
    cubic: Cubic,
    /// The round trip in progress; `None` before any event.
    round: Option<Round>,
    /// Bytes declared lost so far.
    lost: Bytes,
    /// The highest delivery rate since the last overrun; `None` without an overrun.
    path_rate: Option<Rate>,
    least: Rate,
    line_rate: Rate,
    window_gain: f64,
    overrun: f64,
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
        let least = if self.rate.is_some() { self.timeout } else { self.timeout.min(FIRST_SHARE) };
        least.max(self.srtt.unwrap_or_default().mul_f64(self.timeout_rtts))
    }

    /// The idle time after which a share is outdated.
    fn outdated_after(&self) -> Nanos {
        self.timeout.max(self.srtt.unwrap_or_default().mul_f64(self.timeout_rtts))
    }

    fn is_valid(&self, share: Rate) -> bool {
        let carried = |most: Rate| share.as_bytes_per_sec() / OVERRUN_HEADROOM <= most.as_bytes_per_sec();
        !share.is_zero() && share <= self.line_rate && self.path_rate.is_none_or(carried)
    }

    fn safety_cwnd(&self, now: Nanos, rate: Rate) -> Bytes {
        let rate = if now < self.prior_rate_until { rate.max(self.prior_rate) } else { rate };
        rate.over(self.srtt.unwrap_or_default()).mul_f64(self.window_gain).max(self.mss * MIN_CWND)
    }

    /// Falls back to CUBIC if no share has arrived within the timeout.
    fn check_share_timeout(&mut self, now: Nanos) {
        let since = *self.since.get_or_insert(now);
        if self.state != State::Fallback && now - since > self.share_timeout() {
            self.fall_back(now);
        }
    }

    /// At the end of a round trip, falls back to CUBIC if the losses show that the path cannot carry the share.
    fn judge_round(&mut self, event: &Ack) {
        let begun = Round { since: event.now, delivered: event.delivered, lost: self.lost, timed_out: false };
        let Some(srtt) = event.srtt else { return };
        let round = *self.round.get_or_insert(begun);
        let elapsed = event.now - round.since;
        if elapsed < srtt || elapsed.is_zero() {
            return;
        }
        self.round = Some(begun);
        if round.timed_out {
            return;
        }
        let (delivered, lost) = (event.delivered - round.delivered, self.lost - round.lost);
        let rate = delivered.per(elapsed).max(self.least);
        self.path_rate = self.path_rate.map(|most| most.max(rate));
        let judged = self.state == State::Advised && self.overrun > 0.0;
        if judged && lost >= self.mss * OVERRUN_LOSSES && lost.as_f64() > delivered.as_f64() * self.overrun {
            (self.rate, self.path_rate) = (Some(rate), Some(rate));
            self.fall_back(event.now);
        }
    }

    /// Creates a CUBIC with this initial window.
    fn paced_cubic(&self, initial_window: Bytes) -> Cubic {
        let Self { mss, sack, ref random, .. } = *self;
        Cubic::new(&Setup { mss, initial_window, sack, random: random.clone(), params: paced() })
    }

    /// Hands control of the sender to CUBIC, which starts at the current rate.
    fn fall_back(&mut self, now: Nanos) {
        self.transition(State::Fallback);
        self.fallbacks += 1;
        self.cubic = self.paced_cubic(self.initial_window);
        if let Some(rate) = self.rate
            && let Some(srtt) = self.srtt
        {
            let mss = self.mss;
            let window = mss * ((rate.over(srtt) + mss / 2).as_u64() / mss.as_u64()).max(MIN_CWND);
            self.cubic = self.paced_cubic(window);
            // A reduction from W / beta yields cwnd = ssthresh = W_max = W: avoidance begins on the plateau of the
            // curve. W is in whole segments, and W / beta is rounded up, because CUBIC rounds ssthresh down.
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

impl Scheme for Brf {
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
            Param::ratio(
                "overrun",
                0.2,
                (0.0, 10.0),
                "losses per delivery in a round trip that end obedience; 0: never",
            ),
        ],
    };
    const RATE_PROTOCOL: Option<&'static str> = Some("brf");

    fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number(name);
        let least = (setup.mss.as_f64() * number("min_rate")) as u64;
        Self {
            state: State::Waiting,
            rate: None,
            prior_rate: Rate::ZERO,
            prior_rate_until: Nanos::ZERO,
            cwnd: setup.initial_window,
            since: None,
            srtt: None,
            cubic: Cubic::new(&Setup { params: paced(), ..setup.clone() }),
            mss: setup.mss,
            initial_window: setup.initial_window,
            sack: setup.sack,
            random: setup.random.clone(),
            least: Rate::from_bytes_per_sec(least.max(1)),
            line_rate: Rate::from_mbit_per_sec(number("line_rate")),
            round: None,
            lost: Bytes::ZERO,
            path_rate: None,
            overrun: number("overrun"),
            window_gain: number("window_gain"),
            timeout: Nanos::from_secs_f64(number("timeout")),
            timeout_rtts: number("timeout_rtts"),
            ignored: 0,
            fallbacks: 0,
        }
    }
}

impl CongestionControl for Brf {
    fn on_sent(&mut self, event: &Sent) {
        if self.state == State::Fallback {
            self.cubic.on_sent(event);
        }
    }

    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.srtt = event.srtt;
        self.check_share_timeout(event.now);
        self.judge_round(event);
        match (self.state, self.rate) {
            (State::Fallback, _) => self.cubic.on_ack(event),
            (State::Advised, Some(rate)) => self.cwnd = self.safety_cwnd(event.now, rate),
            _ => {}
        }
    }

    fn on_lost(&mut self, event: &Lost) {
        self.lost = event.lost_total;
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
        if let Some(round) = &mut self.round {
            (round.since, round.timed_out) = (event.now, true);
        }
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
            Advice::Rate(rate) if self.is_valid(rate) => {
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
        // Idle time does not count towards the timeout; all other time without a share does.
        self.since = self.since.map(|since| since.saturating_add(event.idle).min(event.now));
        if event.idle > self.outdated_after() {
            self.since = Some(event.now);
            self.cwnd = self.initial_window;
            self.transition(State::Waiting);
        }
    }

    #[inline]
    fn control(&self) -> Control {
        match self.state {
            State::Fallback => self.cubic.control(),
            _ => Control { cwnd: self.cwnd, pacing_rate: self.rate, burst: self.mss },
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
mod tests;
