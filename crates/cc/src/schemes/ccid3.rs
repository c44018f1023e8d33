//! # CCID 3: TCP-friendly rate control of DCCP
//!
//! CCID 3 controls a rate instead of a window. The rate changes smoothly enough for media and equals TCP's mean rate at
//! the loss event rate that the receiver measures. An equation replaces the halving on loss. This file is the sender;
//! the receiver counts loss events.
//!
//! ## Control law
//! s: segment size in bytes; R: RTT in seconds; p: loss event rate; X: allowed rate in bytes per second;
//! X_recv: receive rate. Steps and names are those of RFC 5348 sections 4.2 to 4.4.
//!
//! ```text
//! before any round-trip sample    X = s per second
//! the first sample                X = X_init = W_init / R,  W_init = min(4 s, max(2 s, 4380 B));
//!                                 X_recv_set = {infinity}
//!
//! report                          R = 0.9 R + 0.1 sample
//!   typical                       add X_recv to the set, drop entries older than 2 R;  limit = 2 max(set)
//!   data-limited, new loss        halve the set, X_recv = 0.85 X_recv;  set = {max of both};  limit = max(set)
//!   data-limited                  set = {max of it and X_recv, infinity not counted};  limit = 2 max(set)
//!   n packets dropped in the receive buffer, or Slow Receiver (n = 0)
//!                                 X_drop = max(X_recv - n s / R, min(X_recv, s / R));  set = {X_drop / 2};
//!                                 limit = X_drop
//!   p > 0                         X = max(min(X_Bps, limit), s / 64)
//!   p = 0, at most once per R     X = max(min(2 X, limit), X_init)
//!
//!                 X_Bps = s / (R (sqrt(2p/3) + 12 sqrt(3p/8) p (1 + 32 p²)))
//!
//! no-feedback timer (X_recv = max(set))
//!   nothing sent since it was set, and p > 0, X_recv < X_init or p = 0, X < 2 X_init: no change; otherwise
//!   p = 0                         X = max(X/2, s/64)
//!   p > 0, X_Bps > 2 X_recv       limit = X_recv;    set = {limit / 2}, X = max(min(X_Bps, limit), s/64)
//!   p > 0, else                   limit = X_Bps/2;   the same
//! ```
//! pacing rate = X; cwnd = X max(`window_gain` R, 100 ms), at least four segments: this cwnd only stops a sender that
//! the no-feedback timer would stop.
//!
//! ## States
//! ```text
//!   initial ── round-trip sample ──► slow_start (p = 0) ── a loss event ──► avoidance (p > 0)
//! ```
//!
//! ## Without reports
//! On a transport without TFRC feedback (TCP), X never exceeds X_init. A loss, a mark or an expired timer halves X, and
//! each round trip without them doubles X, up to X_init: the flow is slow but does not stall. From the first report on,
//! losses that the sender itself detects are ignored.
//!
//! ## Life of a flow
//! The first report brings the RTT and allows up to four packets per R. The rate then doubles per R, limited to twice
//! the receive rate. The first loss event sets p so that the equation yields half of that rate. From then on X follows
//! p, which the receiver computes from the last eight loss intervals. A silent receiver halves X every four round
//! trips.
//!
//! ## References
//! RFC 5348 (2008), TFRC; RFC 4342 (2006), its use in DCCP; S. Floyd, M. Handley, J. Padhye, J. Widmer,
//! Equation-Based Congestion Control for Unicast Applications, SIGCOMM 2000.
//!
//! ## Differences
//! 1. s is the segment size of the transport. RFC 5348 section 4.1 allows a mean of the sizes sent.
//! 2. The transport runs the timer: it calls `on_timeout` after max(4 R, 2 s / X, 100 ms), two seconds before the first
//!    sample. RFC 4342 section 5 says 'at least' four round trips. At an R of a few microseconds hosts process reports
//!    some hundred microseconds late; without the third term such reports would halve the rate repeatedly.
//! 3. The optional reduction of oscillations (section 4.5) is not implemented.
//! 4. X_recv_set holds at most eight values, and only values that may still become its maximum. When the set is full,
//!    the newest value replaces the previous value, which can only lower the limit.
//! 5. X is at most `line_rate`, and R is clamped to between a microsecond and a minute: reports are
//!    untrusted.
//! 6. The age of X_recv_set's first value, infinity, counts from the first report.
//! 7. Unused send times allow a later burst of at most the data of 1 ms, which hosts with millisecond timers need.
//!    Section 4.6 allows the data of a round trip.
//!
//! ## Known weaknesses
//! CCID 3 takes up free bandwidth more slowly than TCP does, and takes a few round trips to react to a sudden shortage.
//! Its share beside TCP depends on the buffer, because both experience different loss rates. At short RTTs the hosts'
//! timers dominate R.

use crate::window_pacing::LEAST_RTT;
use crate::{
    Ack, Bytes, CongestionControl, Control, Feedback, Info, Nanos, Param, Phase, Provenance, Rate, ReceiverFeedback,
    RecoveryEntered, RecoveryStyle, Scheme, Sent, Setup, Telemetry, Timeout, Value, tfrc,
};

/// Initial window in bytes, at least two and at most four segments (RFC 5348 section 4.2).
const INITIAL_BYTES: u64 = 4380;
/// t_mbi: maximum time between two packets, in seconds (section 4.3).
const LONGEST_GAP: u64 = 64;
/// Weight of a sample in R (section 4.3 step 2: q = 0.9 is the weight of the old R).
const RTT_GAIN: f64 = 0.1;
/// Factor by which a loss in a data-limited interval reduces X_recv (section 4.3 step 4).
const KEPT_SHORT_OF_DATA: f64 = 0.85;
/// Maximum RTT; longer samples are clamped.
const MOST_RTT: Nanos = Nanos::from_secs(60);
/// t_gran: the granularity of hosts' timers, and the maximum unused send time that a burst may make up for. Section 4.6
/// allows a burst to make up for a whole round trip, but it only needs to cover the delay of a late wake-up (section
/// 8.3).
const TIMER_STEP: Nanos = Nanos::from_millis(1);
/// Minimum cwnd in segments.
const MIN_CWND: u64 = 4;
const SET_SIZE: usize = 8;

/// X_recv_set: the receive rates of the last two round trips, newest last. A new value removes all earlier values that
/// are not higher, so the values fall from first to last.
#[derive(Clone, Copy, Debug)]
struct ReceiveRates {
    items: [(Nanos, Rate); SET_SIZE],
    count: usize,
}

impl ReceiveRates {
    fn of(now: Nanos, rate: Rate) -> Self {
        let mut items = [(Nanos::ZERO, Rate::ZERO); SET_SIZE];
        items[0] = (now, rate);
        Self { items, count: 1 }
    }

    fn all(&self) -> &[(Nanos, Rate)] {
        &self.items[..self.count]
    }

    fn max(&self) -> Rate {
        self.all().iter().map(|item| item.1).max().unwrap_or(Rate::ZERO)
    }

    /// Update_X_recv_set: adds `rate`, and removes rates that are older than `oldest` or not higher than `rate`.
    fn update(&mut self, now: Nanos, rate: Rate, oldest: Nanos) {
        let mut kept = 0;
        for i in 0..self.count {
            let item = self.items[i];
            if item.0 >= oldest && item.1 > rate {
                self.items[kept] = item;
                kept += 1;
            }
        }
        let at = kept.min(SET_SIZE - 1);
        self.items[at] = (now, rate);
        self.count = at + 1;
    }

    /// Maximize_X_recv_set: replaces the set by the maximum of `rate` and the finite rates in the set.
    fn maximize(&mut self, now: Nanos, rate: Rate) {
        let finite = self.all().iter().map(|item| item.1).filter(|rate| *rate < Rate::MAX);
        *self = Self::of(now, finite.fold(rate, Rate::max));
    }

    fn halve(&mut self) {
        for item in &mut self.items[..self.count] {
            if item.1 < Rate::MAX {
                item.1 = item.1.mul_f64(0.5);
            }
        }
    }
}

/// The TFRC sender.
#[derive(Clone, Debug)]
pub struct Ccid3 {
    segment: Bytes,
    least: Rate,
    most: Rate,
    window_gain: f64,
    initial_window: Bytes,
    /// X, the allowed rate.
    rate: Rate,
    /// R, the smoothed RTT.
    rtt: Option<Nanos>,
    loss_event_rate: f64,
    received: ReceiveRates,
    reported: bool,
    /// When X was last doubled (tld).
    doubled: Nanos,
    /// Whether data was sent since the no-feedback timer was set.
    sent: bool,
    /// Whether data was lost in this round trip; used only until the first report.
    lost: bool,
}

impl Ccid3 {
    /// W_init of RFC 5348 section 4.2.
    fn start_window(&self) -> Bytes {
        (self.segment * 2).max(Bytes::new(INITIAL_BYTES)).min(self.segment * 4)
    }

    fn initial_rate(&self, rtt: Nanos) -> Rate {
        self.bounded(self.start_window().per(rtt))
    }

    fn bounded(&self, rate: Rate) -> Rate {
        rate.max(self.least).min(self.most)
    }

    /// X_Bps: the rate of the throughput equation at the current p.
    fn equation(&self) -> Option<Rate> {
        let rtt = self.rtt?;
        (self.loss_event_rate > 0.0).then(|| tfrc::throughput(self.segment, rtt, self.loss_event_rate))
    }

    fn halve(&mut self) {
        self.rate = self.bounded(self.rate.mul_f64(0.5));
    }

    /// Feeds an RTT sample; the first one ends the initial phase.
    fn sample_rtt(&mut self, now: Nanos, sample: Nanos) {
        let sample = sample.max(LEAST_RTT).min(MOST_RTT);
        if let Some(rtt) = &mut self.rtt {
            // In this form of the update, a sample equal to R leaves R exactly unchanged.
            let (old, new) = (rtt.as_nanos() as f64, sample.as_nanos() as f64);
            *rtt = Nanos::from_nanos((old + RTT_GAIN * (new - old)) as u64);
            return;
        }
        self.rtt = Some(sample);
        self.rate = self.initial_rate(sample);
        self.doubled = now;
        self.received = ReceiveRates::of(now, Rate::MAX);
    }

    /// X_recv of a receiver that drops packets or is slow (RFC 4342 section 5.2): half of X_drop, the rate that the
    /// sender may use for one round trip.
    fn restrained(&self, received: Rate, event: &ReceiverFeedback, rtt: Nanos) -> Rate {
        let packet = self.segment.per(rtt);
        let taken = Rate::from_bytes_per_sec(packet.as_bytes_per_sec().saturating_mul(event.dropped));
        let allowed = (received - taken).max(received.min(packet));
        received.min(allowed.mul_f64(0.5))
    }

    /// Updates the receive rates and returns the maximum X that they allow (section 4.3 step 4).
    fn limit(&mut self, event: &ReceiverFeedback, more_loss: bool, rtt: Nanos) -> Rate {
        let doubled = |rate: Rate| if rate == Rate::MAX { rate } else { rate.mul_f64(2.0) };
        let Some(received) = event.receive_rate.map(|rate| rate.min(self.most)) else {
            return doubled(self.received.max());
        };
        if (event.dropped > 0 || event.slow) && !received.is_zero() {
            // The set must not contain earlier receive rates, which would raise the limit of the next round trip.
            self.received = ReceiveRates::of(event.now, self.restrained(received, event, rtt));
        } else if !event.data_limited {
            self.received.update(event.now, received, event.now - rtt * 2);
        } else if more_loss {
            self.received.halve();
            self.received.maximize(event.now, received.mul_f64(KEPT_SHORT_OF_DATA));
            return self.received.max();
        } else {
            self.received.maximize(event.now, received);
        }
        doubled(self.received.max())
    }

    /// Applies Update_Limits of section 4.4.
    fn limit_by_timer(&mut self, now: Nanos, limit: Rate, equation: Rate) {
        let limit = limit.max(self.least);
        self.received = ReceiveRates::of(now, limit.mul_f64(0.5));
        self.rate = self.bounded(equation.min(limit));
    }
}

impl Scheme for Ccid3 {
    const INFO: Info = Info {
        name: "ccid3",
        aliases: &["tfrc"],
        summary: "TFRC, DCCP's smooth rate control: TCP's mean rate at the reported loss event rate (RFC 5348)",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: &[
            Param::number("line_rate", 100_000.0, (1.0, 1e6), "mbit", "maximum rate"),
            Param::ratio("window_gain", 4.0, (1.0, 10.0), "cwnd as a multiple of rate times RTT"),
        ],
    };
    const FEEDBACK: Feedback = Feedback::LossEvents;

    fn new(setup: &Setup) -> Self {
        let least = Rate::from_bytes_per_sec((setup.mss.as_u64() / LONGEST_GAP).max(1));
        Self {
            segment: setup.mss,
            least,
            most: Rate::from_mbit_per_sec(setup.params.number("line_rate")).max(least),
            window_gain: setup.params.number("window_gain"),
            initial_window: setup.initial_window,
            rate: setup.mss.per(Nanos::from_secs(1)),
            rtt: None,
            loss_event_rate: 0.0,
            received: ReceiveRates::of(Nanos::ZERO, Rate::MAX),
            reported: false,
            doubled: Nanos::ZERO,
            sent: false,
            lost: false,
        }
    }
}

impl CongestionControl for Ccid3 {
    #[inline]
    fn on_sent(&mut self, _event: &Sent) {
        self.sent = true;
    }

    fn on_receiver_feedback(&mut self, event: &ReceiverFeedback) {
        let first = !core::mem::replace(&mut self.reported, true);
        self.sent = false;
        if let Some(sample) = event.rtt {
            if first {
                // The first sample replaces the RTT of the handshake (section 4.3 step 2), and X starts from this
                // sample.
                self.rtt = None;
            }
            self.sample_rtt(event.now, sample);
        }
        let p = event.loss_event_rate.filter(|p| (0.0..=1.0).contains(p));
        let more_loss = event.new_loss_event || p.is_some_and(|p| p > self.loss_event_rate);
        self.loss_event_rate = p.unwrap_or(self.loss_event_rate);
        let Some(rtt) = self.rtt else {
            return;
        };
        let limit = self.limit(event, more_loss, rtt);
        let restrained = event.dropped > 0 || event.slow;
        if let Some(equation) = self.equation() {
            self.rate = self.bounded(equation.min(limit));
        } else if restrained {
            // Receive-buffer drops do not lower X below one packet per round trip.
            self.rate = self.bounded(self.rate.min(limit.max(self.segment.per(rtt))));
        } else if !first && event.now - self.doubled >= rtt {
            // This step does not apply to the first report, which sets X to the initial rate of section 4.2.
            let doubled = self.rate.mul_f64(2.0).min(limit);
            self.rate = self.bounded(doubled.max(self.initial_rate(rtt)));
            self.doubled = event.now;
        }
    }

    fn on_ack(&mut self, event: &Ack) {
        if self.reported {
            return;
        }
        self.sent = false;
        if let Some(sample) = event.rtt {
            self.sample_rtt(event.now, sample);
        }
        if event.round_start {
            if let (Some(rtt), false, Phase::Open) = (self.rtt, self.lost, event.phase) {
                self.rate = self.bounded(self.rate.mul_f64(2.0).min(self.initial_rate(rtt)));
            }
            self.lost = false;
        }
    }

    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {
        if !self.reported {
            self.lost = true;
            self.halve();
        }
    }

    fn on_timeout(&mut self, event: &Timeout) {
        let idle = !core::mem::take(&mut self.sent);
        self.lost = true;
        let Some(rtt) = self.rtt else {
            if !idle {
                self.halve();
            }
            return;
        };
        let (recover, received) = (self.initial_rate(rtt), self.received.max());
        let equation = self.equation();
        let moderate = if equation.is_some() { received < recover } else { self.rate < recover.mul_f64(2.0) };
        match equation {
            _ if idle && moderate => {}
            None => self.halve(),
            Some(equation) if equation > received.min(self.most).mul_f64(2.0) => {
                self.limit_by_timer(event.now, received, equation);
            }
            Some(equation) => self.limit_by_timer(event.now, equation.mul_f64(0.5), equation),
        }
    }

    #[inline]
    fn control(&self) -> Control {
        let window = match self.rtt {
            Some(rtt) => {
                let time = Nanos::from_nanos((rtt.as_nanos() as f64 * self.window_gain) as u64);
                self.rate.over(time.max(tfrc::LEAST_NO_FEEDBACK)).max(self.segment * MIN_CWND)
            }
            None => self.initial_window.max(self.segment),
        };
        let credit = self.rate.over(self.rtt.unwrap_or_default().min(TIMER_STEP));
        Control { cwnd: window, pacing_rate: Some(self.rate), burst: credit.max(self.segment) }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let state = match (self.rtt, self.loss_event_rate > 0.0) {
            (None, _) => "initial",
            (Some(_), false) => "slow_start",
            (Some(_), true) => "avoidance",
        };
        sink("state", Value::State(state));
        sink("loss_event_rate", Value::Number(self.loss_event_rate));
        if let Some(rtt) = self.rtt {
            sink("rtt_estimate", Value::Time(rtt));
        }
        if let Some(rate) = self.equation() {
            sink("equation_rate", Value::Rate(rate));
        }
        if self.received.max() < Rate::MAX {
            sink("receive_rate", Value::Rate(self.received.max()));
        }
    }
}

#[cfg(test)]
mod tests;
