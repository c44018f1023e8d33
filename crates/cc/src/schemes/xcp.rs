//! # XCP: routers adjust the window
//!
//! Every packet carries the sender's RTT and packet spacing, and requests the maximum increase. Each router lowers the
//! request to the router's allotment for this packet. The sender adds the result to cwnd and does nothing else. The
//! router algorithm `xcp` on the links does the work.
//!
//! ## Control law
//! * Advised change D in payload bytes per second, which the receiver sums over the packets that an ACK covers: cwnd +=
//!   D · srtt; cwnd is at least one segment.
//! * No other growth. Loss halves cwnd, to at least two segments. A timeout leaves one segment.
//! * No pacing: ACKs clock packets out.
//!
//! ## States
//! None. The transport repairs losses.
//!
//! ## Life of a flow
//! The SYN has no RTT and requests nothing. The packets of the initial window request the maximum. One round trip later
//! cwnd grows by the granted amount, and within a few control intervals cwnd reaches the flow's share.
//!
//! ## References
//! * Katabi, Handley, Rohrs, 'Congestion control for high bandwidth-delay product networks', SIGCOMM 2002.
//! * Falk, Katabi, draft-falk-xcp-spec: header of 20 bytes between IP and TCP.
//! * ns-2.35, `xcp/xcp-end-sys.cc`.
//!
//! ## Differences
//! 1. Fields travel as 32-bit floats; see the router algorithm.
//! 2. A change of more than `line_rate` is the sender's request unchanged, so no router has answered: such a change is
//!    ignored and counted, as is any value that is not a number.
//! 3. cwnd never exceeds `line_rate` times the RTT, or the initial window if that is larger.
//! 4. XCP starts with the transport's initial window and also halves cwnd on ECN marks.
//!
//! ## Known weaknesses
//! Without XCP routers cwnd never grows again after a loss. Feedback in lost ACKs is lost.
//!
//! XCP is not max-min fair and may leave a link idle. Shuffling takes bandwidth from all flows and offers it to all
//! flows. A flow limited elsewhere does not use its share, so the utilisation of a link with such flows may settle as
//! low as alpha / (alpha + gamma), 80 % with the router algorithm's 0.4 and 0.1 (Low, Andrew, Wydrowski, 'Understanding
//! XCP: equilibrium and fairness', INFOCOM 2005). While the router shuffles, utilisation is slightly lower: 77 to 91 %
//! for one flow of 10 ms beside 2 to 30 flows limited by a second link.
//!
//! XCP does not pace. With data in both directions, ACKs wait behind data and then release a whole window at once.
//! Between such bursts the queue runs empty, so the persistent queue (a minimum over time) is zero. One to five flows
//! each way use 86 to 90 % of a link of 50 Mbit/s, and packets wait about one RTT on average. A paced stream in the
//! reverse direction does not have this effect.

use crate::{
    Ack, Advice, Bytes, CongestionControl, Control, Info, Nanos, Param, Provenance, Rate, RateAdvice, RecoveryEntered,
    RecoveryStyle, Scheme, Setup, SpuriousLoss, Telemetry, Timeout, Value,
};

/// The sender of XCP.
#[derive(Clone, Debug)]
pub struct Xcp {
    /// cwnd in bytes, with fractions, because changes are small.
    cwnd: f64,
    /// cwnd before the last reduction.
    before: f64,
    mss: Bytes,
    initial: f64,
    line_rate: f64,
    srtt: Option<Nanos>,
    ignored: u64,
}

impl Scheme for Xcp {
    const INFO: Info = Info {
        name: "xcp",
        aliases: &[],
        summary: "XCP: adds to cwnd the throughput changes that routers allot to its packets",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Prr,
        params: &[Param::number(
            "line_rate",
            100_000.0,
            (1.0, 1e6),
            "mbit",
            "rate of the sender's own link; advice beyond it is ignored",
        )],
    };
    const RATE_PROTOCOL: Option<&'static str> = Some("xcp");

    fn new(setup: &Setup) -> Self {
        let initial = setup.initial_window.as_f64();
        let line_rate = Rate::from_mbit_per_sec(setup.params.number("line_rate"));
        Self {
            cwnd: initial,
            before: initial,
            mss: setup.mss,
            initial,
            line_rate: line_rate.as_bytes_per_sec() as f64,
            srtt: None,
            ignored: 0,
        }
    }
}

impl CongestionControl for Xcp {
    #[inline]
    fn on_ack(&mut self, event: &Ack) {
        self.srtt = event.srtt;
    }

    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {
        self.before = self.cwnd;
        self.cwnd = (self.cwnd / 2.0).max(2.0 * self.mss.as_f64()).min(self.cwnd);
    }

    fn on_timeout(&mut self, event: &Timeout) {
        if event.consecutive <= 1 {
            self.before = self.cwnd;
        }
        self.cwnd = event.restart_window(self.mss).as_f64();
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        self.cwnd = self.cwnd.max(self.before);
    }

    fn on_rate_advice(&mut self, event: &RateAdvice) {
        match event.advice {
            Advice::Change(change) if change.is_finite() && change <= self.line_rate => {
                let srtt = self.srtt.unwrap_or_default().as_secs_f64();
                let most = (self.line_rate * srtt).max(self.initial);
                self.cwnd = (self.cwnd + change * srtt).min(most).max(self.mss.as_f64());
            }
            _ => self.ignored += 1,
        }
    }

    #[inline]
    fn control(&self) -> Control {
        Control { cwnd: Bytes::from_f64(self.cwnd), pacing_rate: None, burst: self.mss }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("advice_ignored", Value::Number(self.ignored as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, ack, entered, timeout};
    use crate::{CongestionCause, Phase};

    fn advised(xcp: &mut Xcp, change: f64) -> u64 {
        xcp.on_rate_advice(&RateAdvice { now: Nanos::ZERO, advice: Advice::Change(change) });
        xcp.control().cwnd.as_u64()
    }

    /// The window changes by the allotted rate times the round-trip time.
    #[test]
    fn xcp_window_follows_allotted_rate_times_rtt() {
        let mut xcp = Xcp::with(&[("line_rate", 80.0)]);
        assert_eq!(advised(&mut xcp, 1e6), 10_000, "no round-trip time yet");
        xcp.on_ack(&Ack { srtt: Some(Nanos::from_millis(40)), ..ack(0) });
        // A change of 100 kB/s at an RTT of 40 ms adds 4000 bytes; a change of -50 kB/s removes 2000 bytes.
        assert_eq!(advised(&mut xcp, 100_000.0), 14_000);
        assert_eq!(advised(&mut xcp, -50_000.0), 12_000);
        // Fractions of a byte are kept: each change adds half a byte.
        for window in [12_000, 12_001, 12_001, 12_002] {
            assert_eq!(advised(&mut xcp, 12.5), window);
        }
        // Advice above the line rate, or not a finite number, is invalid.
        for absurd in [1.1e7, f64::INFINITY, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(advised(&mut xcp, absurd), 12_002);
        }
        assert_eq!(advised(&mut xcp, -1e9), 1000);
        // cwnd is at most the data of 40 ms at the line rate of 10 MB/s.
        for window in [361_000, 400_000, 400_000] {
            assert_eq!(advised(&mut xcp, 9e6), window);
        }
    }

    /// Loss halves the window; a spurious reduction is undone.
    #[test]
    fn xcp_loss_halves_window_and_spurious_loss_restores_it() {
        let mut xcp = Xcp::with(&[]);
        let window = |xcp: &Xcp| xcp.control().cwnd.as_u64();
        xcp.on_recovery_entered(&entered(CongestionCause::Loss, 10_000));
        assert_eq!(window(&xcp), 5_000);
        xcp.on_spurious_loss(&crate::testing::spurious(Phase::Recovery));
        assert_eq!(window(&xcp), 10_000);
        xcp.on_timeout(&timeout(10_000, 1));
        assert_eq!(window(&xcp), 1_000);
    }
}
