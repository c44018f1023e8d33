//! cwnd and ssthresh of RFC 5681, and the common base of schemes that differ from Reno in growth or reduction.

use crate::window_pacing::WindowPacing;
use crate::{
    Ack, Bytes, CongestionControl, Control, EcnNeed, IdleRestart, Info, Paths, RecoveryEntered, RecoveryLeft, Scheme,
    Setup, SpuriousLoss, Telemetry, Timeout, Value,
};

/// Minimum ssthresh in segments (RFC 5681 equation 4).
pub(crate) const LEAST_THRESHOLD: u64 = 2;

/// cwnd, ssthresh and growth of RFC 5681, shared with the schemes that fall back on Reno.
#[derive(Clone, Copy, Debug)]
pub struct Reno {
    /// Segment size.
    pub mss: Bytes,
    /// The congestion window.
    pub cwnd: Bytes,
    /// The slow-start threshold.
    pub ssthresh: Bytes,
    initial_window: Bytes,
    /// cwnd and ssthresh are whole segments, as in Linux; otherwise bytes, as in RFC 5681.
    whole: bool,
    /// Bytes acknowledged towards the next increase in avoidance.
    credit: Bytes,
    /// cwnd and ssthresh before the last reduction, until the reduction is undone.
    prior: Option<(Bytes, Bytes)>,
}

impl Reno {
    /// Starts with the initial window and an infinite ssthresh; counts in whole segments.
    pub fn new(setup: &Setup) -> Self {
        Self::counting(setup, true)
    }

    /// Like [`Reno::new`], counting in whole segments if `whole`, otherwise in bytes.
    pub(crate) fn counting(setup: &Setup, whole: bool) -> Self {
        Self {
            whole,
            mss: setup.mss,
            cwnd: setup.initial_window.max(setup.mss),
            ssthresh: Bytes::MAX,
            initial_window: setup.initial_window.max(setup.mss),
            credit: Bytes::ZERO,
            prior: None,
        }
    }

    /// Whether cwnd is below ssthresh.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The state's name in traces.
    pub fn state(&self, recovering: bool) -> &'static str {
        match (recovering, self.in_slow_start()) {
            (true, _) => "recovery",
            (false, true) => "slow_start",
            (false, false) => "avoidance",
        }
    }

    /// Grows cwnd in slow start, up to ssthresh. Returns the rest of `acked`, which counts for avoidance.
    #[inline]
    pub fn slow_start(&mut self, acked: Bytes) -> Bytes {
        let grow = acked.min(self.ssthresh - self.cwnd);
        self.cwnd += grow;
        acked - grow
    }

    /// Grows cwnd in avoidance, by one segment per cwnd acknowledged.
    #[inline]
    pub fn avoid(&mut self, acked: Bytes) {
        self.credit += acked;
        if self.credit >= self.cwnd {
            // At most one segment per ACK (RFC 3465 section 2.1), so at most one cwnd of credit is kept.
            self.credit = (self.credit - self.cwnd).min(self.cwnd);
            self.cwnd += self.mss;
        }
    }

    /// Rounds `bytes` down to whole segments if `whole` is set (Linux `tcp_reno_ssthresh`: `cwnd >> 1`).
    fn floored(&self, bytes: Bytes) -> Bytes {
        if self.whole { self.mss * (bytes.as_u64() / self.mss.as_u64()) } else { bytes }
    }

    /// Rounds `acked` up to whole segments if `whole` is set: Linux counts a short packet as a full segment
    /// (`tcp_skb_pcount`).
    #[inline]
    pub(crate) fn counted(&self, acked: Bytes) -> Bytes {
        if !self.whole || acked == self.mss { acked } else { self.mss * acked.as_u64().div_ceil(self.mss.as_u64()) }
    }

    /// Grows cwnd by `acked` bytes, in slow start or avoidance.
    #[inline]
    pub fn grow(&mut self, acked: Bytes) {
        let acked = self.counted(acked);
        let acked = if self.in_slow_start() { self.slow_start(acked) } else { acked };
        if !acked.is_zero() {
            self.avoid(acked);
        }
    }

    /// Sets ssthresh to `kept` bytes (RFC 5681 equation 4) and saves the previous state for an undo.
    fn lower_threshold(&mut self, kept: Bytes, least_segments: u64) {
        self.prior = Some((self.cwnd, self.ssthresh));
        self.ssthresh = self.floored(kept).max(self.mss * least_segments);
        self.credit = Bytes::ZERO;
    }

    /// Reduces cwnd and ssthresh to `kept` bytes after a loss or mark.
    pub fn reduce(&mut self, kept: Bytes) {
        self.reduce_not_below(kept, LEAST_THRESHOLD);
    }

    /// Like [`Reno::reduce`], with a minimum ssthresh other than two segments.
    pub fn reduce_not_below(&mut self, kept: Bytes, least_segments: u64) {
        self.lower_threshold(kept, least_segments);
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    /// The retransmission timer expired. Consecutive expiries after the first leave ssthresh unchanged (RFC 5681
    /// section 3.1).
    pub fn collapse(&mut self, event: &Timeout) {
        if event.consecutive <= 1 {
            self.lower_threshold(event.flight_size / 2, LEAST_THRESHOLD);
        }
        self.cwnd = self.floored(event.restart_window(self.mss));
        self.credit = Bytes::ZERO;
    }

    /// Undoes the last reduction, which was unnecessary.
    pub fn undo(&mut self) {
        if let Some((window, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(window);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    /// The control: this cwnd, and a pacing rate if pacing is enabled.
    #[inline]
    pub(crate) fn control(&self, pacing: &WindowPacing) -> Control {
        Control { cwnd: self.cwnd, pacing_rate: pacing.rate(self.cwnd, self.ssthresh), burst: Bytes::MAX }
    }

    /// Reports ssthresh once it is set.
    pub fn telemetry(&self, sink: Telemetry<'_>) {
        if self.ssthresh < Bytes::MAX {
            sink("ssthresh", Value::Bytes(self.ssthresh));
        }
    }

    /// Shrinks cwnd after an idle time longer than the RTO, because the state of the path is unknown (RFC 2861, RFC
    /// 5681 section 4.1).
    pub fn restart(&mut self, event: &IdleRestart) {
        self.ssthresh = event.threshold(self.cwnd, self.ssthresh);
        if self.ssthresh < Bytes::MAX {
            self.ssthresh = self.floored(self.ssthresh);
        }
        self.cwnd = self.floored(event.window(self.cwnd, self.initial_window)).max(self.mss);
    }
}

/// Growth and reduction policy of a scheme that is otherwise Reno; [`RenoScheme`] calls the policy.
pub trait Policy: Clone + core::fmt::Debug + Send + Sync + 'static {
    /// Static description of the scheme.
    const INFO: Info;
    /// The congestion notification that the scheme needs.
    const ECN: EcnNeed = EcnNeed::Nothing;
    /// Whether the policy reads the windows of sibling subflows.
    const COUPLED: bool = false;

    /// Builds the policy from the parameters.
    fn new(setup: &Setup) -> Self;

    /// Whether cwnd and ssthresh are whole segments; otherwise bytes.
    fn is_whole(_setup: &Setup) -> bool {
        true
    }

    /// Receives all subflows of the connection.
    #[inline]
    fn on_paths(&mut self, _paths: &Paths) {}

    /// An acknowledgement arrived.
    fn on_ack(&mut self, reno: &mut Reno, event: &Ack);

    /// Recovery begins.
    fn on_recovery_entered(&mut self, reno: &mut Reno, event: &RecoveryEntered);

    /// The retransmission timer expired. [`Reno::collapse`] follows this call.
    #[inline]
    fn on_timeout(&mut self) {}

    /// Reports the telemetry that follows the state.
    fn telemetry(&self, reno: &Reno, sink: Telemetry<'_>) {
        reno.telemetry(sink);
    }
}

/// Reno under the policy `R`.
#[derive(Clone, Debug)]
pub struct RenoScheme<R> {
    pub(crate) reno: Reno,
    pub(crate) policy: R,
    recovering: bool,
    pacing: WindowPacing,
}

impl<R: Policy> Scheme for RenoScheme<R> {
    const INFO: Info = R::INFO;
    const ECN: EcnNeed = R::ECN;
    const COUPLED: bool = R::COUPLED;

    fn new(setup: &Setup) -> Self {
        Self {
            reno: Reno::counting(setup, R::is_whole(setup)),
            policy: R::new(setup),
            recovering: false,
            pacing: WindowPacing::new(setup),
        }
    }
}

impl<R: Policy> CongestionControl for RenoScheme<R> {
    #[inline]
    fn on_paths(&mut self, paths: &Paths) {
        self.policy.on_paths(paths);
    }

    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.pacing.on_ack(event.srtt);
        self.policy.on_ack(&mut self.reno, event);
    }

    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        self.recovering = true;
        self.policy.on_recovery_entered(&mut self.reno, event);
    }

    fn on_recovery_left(&mut self, _event: &RecoveryLeft) {
        self.recovering = false;
    }

    fn on_timeout(&mut self, event: &Timeout) {
        self.recovering = false;
        self.policy.on_timeout();
        self.reno.collapse(event);
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        self.recovering = false;
        self.reno.undo();
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.reno.restart(event);
    }

    #[inline]
    fn control(&self) -> Control {
        self.reno.control(&self.pacing)
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("state", Value::State(self.reno.state(self.recovering)));
        self.policy.telemetry(&self.reno, sink);
    }
}
