//! # CUBIC
//!
//! The default of Linux, Windows and macOS. After a loss, cwnd follows a cubic function of time back to the size at
//! which the loss occurred: fast at first, flat around the old maximum, then ever faster in search of a new maximum.
//! Growth depends on the time since the last loss, not on the RTT, which makes CUBIC quick on long fat paths. Where
//! Reno would be quicker, CUBIC follows an estimate of Reno's cwnd. HyStart ends slow start when the delay grows or
//! acknowledgements arrive in a train as long as half an RTT. By default growth and HyStart are those of Linux; `growth
//! = rfc9438` and `hystart = rfc9406` select the RFC versions.
//!
//! ## Control law
//! W: cwnd in segments; t: seconds since avoidance began, without application-limited time; C = 0.4
//! segments/s^3; beta = 0.7; alpha = 3 (1 - beta) / (1 + beta), and 1 once W_est has reached cwnd_prior; n:
//! segments acknowledged; F: cwnd when congestion is detected (with `reduction_from = "flight"` the segments
//! outstanding); R: minimum RTT.
//!
//! ```text
//! W_cubic(t) = C (t - K)^3 + W_max,   K = cbrt((W_max - W_epoch) / C),   W_epoch: W when avoidance began
//!
//! slow start (W < ssthresh)     W += n                         (HyStart++: min(n, 8); a quarter when conservative)
//! avoidance in Linux            C (t - K)^3 cut to whole segments;
//!                               W += 1 for every c segments acknowledged,  c = W / (W_cubic(t + R) - W) or 100 W,
//!                               at most W / (W_est - W),  at most 20 while W_max is unknown,  at least 2;
//!                               W_est += alpha n / W
//! avoidance in RFC 9438         W_est += alpha n / W           (W_est = W_epoch at the beginning)
//!   W_cubic(t) < W_est          W = max(W, W_est)
//!   otherwise                   W += n (target - W) / W,   target = W_cubic(t + srtt) within [W, 1.5 W]
//! loss, mark                    W_max = W, or W (1 + beta)/2 if W < W_max (fast convergence);  cwnd_prior = W;
//!                               ssthresh = beta F;  W = max(ssthresh, 2), after a mark max(ssthresh, 1);
//!                               then ssthresh = max(ssthresh, 2)
//! timeout                       the same thresholds;  W = inflight + 1;  the next avoidance begins with K = 0, W_max = W
//! HyStart ends slow start       ssthresh = W;  avoidance begins with K = 0, W_max = W
//! ```
//! Under random loss with probability p, W is about 1.054 (srtt^3 / p^3)^(1/4) outside the Reno-friendly
//! region.
//!
//! ## States
//! ```text
//!   slow_start <--> conservative_slow_start          (HyStart++ only)
//!        |                 |
//!        |  W = ssthresh   |  five rounds
//!        v                 v
//!   reno_friendly  /  concave (W < W_max)  /  convex (W >= W_max)         one of them at each ACK
//!        |
//!        +-- loss, mark --> recovery -- all acknowledged --> concave or reno_friendly
//!        +-- timeout -----> slow_start
//! ```
//!
//! ## References
//! RFC 9438 (2023), read as draft-ietf-tcpm-rfc8312bis; RFC 9406 (2023), HyStart++; RFC 8511 (2018), ABE; S.
//! Ha, I. Rhee, L. Xu, CUBIC, ACM SIGOPS OSR 42(5), 2008; Linux 6.18, `tcp_cubic.c`. The 2008 paper and RFC 8312 have K = cbrt(W_max
//! (1 - beta) / C), which is equal when W_epoch = beta W_max.
//!
//! ## Differences
//! 1. In the Reno-friendly region a cwnd above W_est does not fall to W_est (RFC 9438 sets cwnd to W_est).
//! 2. If W_epoch exceeds W_max, then W_max = W_epoch and K = 0, as in Linux. The RFC leaves this case open.
//! 3. One ACK counts for at most one window of segments, so a delayed ACK of much data cannot overshoot the target.
//! 4. Entering recovery never raises cwnd, although the RFC's minimum is two segments.
//! 5. A spurious reduction also restores HyStart++'s state. A series of timeouts lowers ssthresh once (RFC 5681).
//! 6. With `growth = rfc9438` cwnd has fractions of a segment.
//! 7. Linux computes the curve with integers in units of 1/1024 s; here t and K are exact. W_max, the distance from
//!    W_max, and the number of segments per increase are whole numbers, as in Linux.
//!
//! ## Known weaknesses
//! CUBIC fills a buffer of any size. Random loss counts as congestion. Flows with large windows converge
//! slowly. Without pacing, bursts overflow small buffers.

use crate::hystart::{HYSTART, HyStart, HyStartState, SlowStartAck};
use crate::window_pacing::{PACED, WindowPacing};
use crate::{
    Ack, Bytes, CongestionCause, CongestionControl, Control, IdleRestart, Info, Nanos, Param, Phase, Provenance,
    RecoveryEntered, RecoveryStyle, Scheme, Setup, SpuriousLoss, Telemetry, Timeout, Value,
};

/// Share of the flight kept on a mark with `abe` (RFC 8511 section 3.1).
const KEPT_ON_MARK_ABE: f64 = 0.85;
/// Upper limit of the target, as a multiple of cwnd (RFC 9438 section 4.2).
const TARGET_MAX: f64 = 1.5;

mod growth;

use growth::{Growth, Inputs};

/// CUBIC congestion control.
// Fields that only reductions access come last.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Cubic {
    cwnd: Bytes,
    mss: Bytes,
    segments_per_byte: f64,
    pacing: WindowPacing,
    min_rtt: Nanos,
    /// Time at which the last acknowledgement arrived or sending resumed, whichever is later.
    last_ack: Nanos,
    /// Whether cwnd grows in avoidance as in Linux; otherwise as in RFC 9438.
    linux: bool,
    fast_convergence: bool,
    region: &'static str,
    curve: Curve,
    /// Linux's growth in avoidance.
    growth: Growth,
    c: f64,
    /// Growth of W_est per round trip in the Reno-friendly region, in segments, until W_est reaches cwnd_prior.
    alpha: f64,
    beta: f64,
    beta_mark: f64,
    initial_window: f64,
    prior: Option<Curve>,
}

/// The state that the undo of a spurious reduction restores (RFC 9438 section 4.9). Windows are in segments.
#[derive(Clone, Copy, Debug)]
struct Curve {
    cwnd: f64,
    ssthresh: f64,
    /// Zero while unknown: before the first loss and after a timeout.
    w_max: f64,
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    hystart: HyStart,
}

/// One stage of congestion avoidance: the time from its start to the next congestion event.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Nanos,
    k: f64,
    w_est: f64,
    /// Whether W_max was known when the epoch began (Linux only).
    known: bool,
}

impl Curve {
    /// Begins avoidance (section 4.2). W_max is at least cwnd, so an unknown W_max, stored as zero, becomes cwnd
    /// (sections 4.8, 4.10).
    fn begin_epoch(&mut self, now: Nanos, c: f64) -> Epoch {
        self.w_max = self.w_max.max(self.cwnd);
        Epoch { start: now, k: libm::cbrt((self.w_max - self.cwnd) / c), w_est: self.cwnd, known: true }
    }

    /// W_cubic at `t` seconds (section 4.2, figure 1).
    #[inline]
    fn w_cubic(&self, c: f64, k: f64, t: f64) -> f64 {
        let d = t - k;
        c * d * d * d + self.w_max
    }

    /// W_cubic with Linux's rounding: the distance from W_max is truncated to whole segments before it is subtracted
    /// or added, so the curve is flat within a segment of W_max on either side (`bictcp_update`: `delta`).
    #[inline]
    fn w_cubic_whole(&self, c: f64, k: f64, t: f64) -> f64 {
        let d = t - k;
        libm::trunc(c * d * d * d) + self.w_max
    }
}

impl Cubic {
    /// With Linux's growth, rounds down to whole segments, but a value that a rounding error puts just below a whole
    /// number is rounded up.
    fn floored(&self, segments: f64) -> f64 {
        if self.linux { libm::floor(segments + 1e-6) } else { segments }
    }

    /// Processes an acknowledgement in slow start; returns whether HyStart ended slow start.
    fn slow_start(&mut self, event: &Ack) -> bool {
        let curve = &mut self.curve;
        self.region = match curve.hystart.state() {
            HyStartState::Conservative { .. } => "conservative_slow_start",
            _ => "slow_start",
        };
        let ack = SlowStartAck {
            now: event.now,
            round_start: event.round_start,
            rtt: event.rtt,
            delivered: event.delivered,
            inflight: event.inflight,
            cwnd: curve.cwnd,
            ack_delay: self.pacing.ack_delay(self.cwnd, event.srtt),
        };
        let grow = curve.hystart.growth(event.creditable(), self.mss).as_f64() * self.segments_per_byte;
        let ends = curve.hystart.on_ack(&ack);
        // Linux runs HyStart on an acknowledgement (`pkts_acked`) before cwnd grows by it (`cong_avoid`).
        if ends && self.linux {
            curve.ssthresh = curve.cwnd;
            curve.cwnd_prior = curve.cwnd;
        }
        if event.cwnd_limited {
            curve.cwnd = (curve.cwnd + grow).min(curve.ssthresh.max(curve.cwnd));
        }
        if ends && !self.linux {
            curve.ssthresh = curve.cwnd;
            curve.cwnd_prior = curve.cwnd;
        }
        ends
    }

    /// Grows cwnd as Linux `bictcp_cong_avoid` does, in whole segments.
    fn avoid_linux(&mut self, event: &Ack) {
        let curve = &mut self.curve;
        let epoch = match curve.epoch {
            Some(epoch) => epoch,
            None => {
                self.growth.reset();
                let known = curve.w_max > 0.0;
                Epoch { known, ..curve.begin_epoch(event.now, self.c) }
            }
        };
        curve.epoch = Some(epoch);
        let t = (event.now - epoch.start + self.min_rtt).as_secs_f64();
        let target = curve.w_cubic_whole(self.c, epoch.k, t).max(0.0);
        let acked = event.creditable().as_u64().div_ceil(self.mss.as_u64());
        let (grown, friendly) = self.growth.on_ack(&Inputs {
            now: event.now,
            cwnd: curve.cwnd as u64,
            acked,
            target: target as u64,
            known: epoch.known,
            reno_share: 1.0 / self.alpha,
        });
        curve.cwnd += grown as f64;
        self.region = match (friendly, curve.cwnd < curve.w_max) {
            (true, _) => "reno_friendly",
            (false, true) => "concave",
            (false, false) => "convex",
        };
    }

    fn avoid(&mut self, event: &Ack) {
        if self.linux {
            self.avoid_linux(event);
            return;
        }
        let curve = &mut self.curve;
        let mut epoch = match curve.epoch {
            Some(epoch) => epoch,
            None => curve.begin_epoch(event.now, self.c),
        };
        let share = (event.creditable().as_f64() * self.segments_per_byte / curve.cwnd).min(1.0);
        // Section 4.3: once W_est has reached the cwnd before the last reduction, W_est grows as Reno's cwnd does.
        let alpha = if epoch.w_est < curve.cwnd_prior { self.alpha } else { 1.0 };
        epoch.w_est += alpha * share;
        let t = (event.now - epoch.start).as_secs_f64();
        if curve.w_cubic(self.c, epoch.k, t) < epoch.w_est {
            self.region = "reno_friendly";
            curve.cwnd = curve.cwnd.max(epoch.w_est);
        } else {
            self.region = if curve.cwnd < curve.w_max { "concave" } else { "convex" };
            let ahead = curve.w_cubic(self.c, epoch.k, t + event.srtt.unwrap_or_default().as_secs_f64());
            let target = ahead.clamp(curve.cwnd, curve.cwnd * TARGET_MAX);
            curve.cwnd += (target - curve.cwnd) * share;
        }
        curve.epoch = Some(epoch);
    }

    /// Processes a congestion event (sections 4.6 and 4.7): ssthresh becomes the share `kept` of the flight, at least
    /// two segments. Returns the value before this minimum applies.
    fn reduce(&mut self, flight: Bytes, kept: f64) -> f64 {
        self.prior = Some(self.curve);
        let w_max = self.floored(self.curve.cwnd * (1.0 + self.beta) / 2.0);
        let ssthresh = self.floored(flight.as_f64() * self.segments_per_byte * kept);
        let curve = &mut self.curve;
        let shrinking = self.fast_convergence && curve.cwnd < curve.w_max;
        curve.w_max = if shrinking { w_max } else { curve.cwnd };
        curve.cwnd_prior = curve.cwnd;
        curve.epoch = None;
        curve.hystart.finish();
        curve.ssthresh = ssthresh.max(2.0);
        ssthresh
    }

    /// Converts segments to bytes, rounded to the nearest.
    #[inline]
    fn bytes(&self, segments: f64) -> Bytes {
        Bytes::from_f64(segments * self.mss.as_f64() + 0.5)
    }

    /// Updates cwnd in bytes; must run whenever cwnd in segments may have changed.
    #[inline]
    fn publish(&mut self) {
        self.cwnd = self.bytes(self.curve.cwnd).max(self.mss);
    }
}

impl Scheme for Cubic {
    const INFO: Info = Info {
        name: "cubic",
        aliases: &[],
        summary: "cubic growth in the time since the last loss (RFC 9438), with Linux's HyStart",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Prr,
        params: &[
            Param::number("c", 0.4, (0.001, 100.0), "pkt/s^3", "steepness of the curve"),
            Param::ratio("beta", 0.7, (0.1, 0.95), "share of cwnd kept on loss"),
            Param::flag("fast_convergence", true, "yield further when the maximum shrinks (RFC 9438 section 4.7)"),
            Param::choice("growth", &["linux", "rfc9438"], "growth in avoidance: Linux's, or RFC 9438's"),
            HYSTART,
            Param::flag("abe", false, "keep 0.85 of cwnd on an ECN mark (RFC 8511)"),
            PACED,
        ],
    };

    fn new(setup: &Setup) -> Self {
        let params = &setup.params;
        let beta = params.number("beta");
        let pacing = WindowPacing::new(setup);
        let initial_window = setup.initial_window.in_segments(setup.mss).max(1.0);
        let mut scheme = Self {
            mss: setup.mss,
            segments_per_byte: 1.0 / setup.mss.as_f64(),
            initial_window,
            c: params.number("c"),
            beta,
            beta_mark: if params.flag("abe") { KEPT_ON_MARK_ABE } else { beta },
            alpha: 3.0 * (1.0 - beta) / (1.0 + beta),
            fast_convergence: params.flag("fast_convergence"),
            linux: params.word("growth") == "linux",
            min_rtt: Nanos::ZERO,
            growth: Growth::default(),
            curve: Curve {
                cwnd: initial_window,
                ssthresh: f64::INFINITY,
                w_max: 0.0,
                cwnd_prior: 0.0,
                epoch: None,
                hystart: HyStart::new(params.word("hystart"), pacing.is_on()),
            },
            prior: None,
            last_ack: Nanos::ZERO,
            region: "slow_start",
            pacing,
            cwnd: Bytes::ZERO,
        };
        scheme.publish();
        scheme
    }
}

impl CongestionControl for Cubic {
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.pacing.on_ack(event.srtt);
        self.min_rtt = event.min_rtt.unwrap_or_default();
        let gap = event.now - self.last_ack;
        self.last_ack = event.now;
        if !event.cwnd_limited && !self.linux {
            // Section 4.2: t excludes application-limited time.
            if let Some(epoch) = &mut self.curve.epoch {
                epoch.start += gap;
            }
        }
        if event.phase == Phase::Recovery {
            return;
        }
        self.curve.hystart.on_rtt(event.rtt);
        // In Linux, the acknowledgement that ends slow start also grows cwnd by the rule of avoidance.
        let starting = self.curve.cwnd < self.curve.ssthresh;
        let avoids = if starting { self.slow_start(event) && self.linux } else { true };
        if avoids && event.cwnd_limited && !event.creditable().is_zero() {
            self.avoid(event);
        } else if !starting {
            return;
        }
        self.publish();
    }

    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        let (kept, floor) = match event.cause {
            CongestionCause::Loss => (self.beta, 2.0),
            CongestionCause::Ecn => (self.beta_mark, 1.0),
        };
        let ssthresh = self.reduce(event.flight_size, kept);
        self.curve.cwnd = self.curve.cwnd.min(ssthresh.max(floor));
        self.region = "recovery";
        self.publish();
    }

    fn on_timeout(&mut self, event: &Timeout) {
        if event.consecutive <= 1 {
            self.reduce(event.flight_size, self.beta);
        }
        self.curve.w_max = 0.0;
        self.curve.hystart.on_timeout();
        self.curve.cwnd = self.floored(event.restart_window(self.mss).as_f64() * self.segments_per_byte);
        self.region = "slow_start";
        self.publish();
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        if let Some(prior) = self.prior.take()
            && self.curve.cwnd < prior.cwnd
        {
            self.curve = prior;
            self.publish();
        }
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if let Some(epoch) = &mut self.curve.epoch {
            epoch.start += event.now - self.last_ack;
        }
        self.last_ack = event.now;
        // A new curve begins when slow start has reached ssthresh again.
        let cwnd = event.window(self.cwnd, self.bytes(self.initial_window));
        if cwnd < self.cwnd {
            if self.curve.ssthresh.is_finite() {
                let ssthresh = event.threshold(self.cwnd, self.bytes(self.curve.ssthresh));
                self.curve.ssthresh = self.floored(ssthresh.as_f64() * self.segments_per_byte);
            }
            self.curve.cwnd = self.floored(cwnd.as_f64() * self.segments_per_byte).max(1.0);
            self.curve.epoch = None;
            self.publish();
        }
    }

    #[inline]
    fn control(&self) -> Control {
        let ssthresh = self.bytes(self.curve.ssthresh);
        Control { cwnd: self.cwnd, pacing_rate: self.pacing.rate(self.cwnd, ssthresh), burst: Bytes::MAX }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let curve = &self.curve;
        sink("state", Value::State(self.region));
        if curve.ssthresh.is_finite() {
            sink("ssthresh", Value::Bytes(self.bytes(curve.ssthresh)));
        }
        if curve.w_max > 0.0 {
            sink("w_max", Value::Bytes(self.bytes(curve.w_max)));
        }
        if let Some(epoch) = &curve.epoch {
            sink("k", Value::Time(Nanos::from_secs_f64(epoch.k)));
            sink("w_est", Value::Bytes(self.bytes(epoch.w_est)));
        }
    }
}

#[cfg(test)]
mod tests;
