//! Proportional rate reduction (RFC 6937; the choice of the bound and the rule for the first retransmission are from
//! its successor, RFC 9937).

use crate::Bytes;

/// The units of proportional rate reduction, and its bound on sending below the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrrBound {
    /// Linux: as RFC 9937, but above the target the amount that may be sent is rounded up to whole segments
    /// (`tcp_cwnd_reduction` counts packets).
    #[default]
    Linux,
    /// RFC 9937: at least the data that this acknowledgement delivered.
    Rfc9937,
    /// RFC 6937: at most the data delivered less the data sent, unless the acknowledgement shows progress.
    Rfc6937,
}

/// State of one proportional rate reduction (RFC 6937, RFC 9937).
#[derive(Clone, Copy, Debug, Default)]
pub struct Prr {
    /// The target of the reduction, in bytes.
    ssthresh: Bytes,
    /// Data outstanding when the reduction began (RecoverFS).
    flight_size: Bytes,
    delivered: Bytes,
    out: Bytes,
    bound: PrrBound,
}

impl Prr {
    /// Begins a reduction to `ssthresh` with `flight_size` outstanding.
    pub fn begin(ssthresh: Bytes, flight_size: Bytes, bound: PrrBound) -> Self {
        Self { ssthresh, flight_size: flight_size.max(Bytes::new(1)), bound, ..Self::default() }
    }

    /// cwnd after an acknowledgement that newly delivered `acked` bytes and left `pipe` in flight. Below the target,
    /// one more segment may be sent if the acknowledgement is `good`, i.e. it advanced SND.UNA and revealed no new
    /// loss.
    pub fn on_ack(&mut self, acked: Bytes, pipe: Bytes, good: bool, mss: Bytes) -> Bytes {
        self.delivered += acked;
        let mut allowed = if pipe > self.ssthresh {
            let target = self.delivered.as_u64() as u128 * self.ssthresh.as_u64() as u128;
            let mut target = target.div_ceil(u128::from(self.flight_size.as_u64())) as u64;
            if self.bound == PrrBound::Linux {
                target = target.div_ceil(mss.as_u64()) * mss.as_u64();
            }
            Bytes::new(target) - self.out
        } else {
            let conserved = self.delivered - self.out;
            // Linux `tcp_cwnd_reduction` and RFC 9937: max(prr_delivered - prr_out, DeliveredData).
            let limit = match (good, self.bound) {
                (true, _) => conserved.max(acked) + mss,
                (false, PrrBound::Linux | PrrBound::Rfc9937) => conserved.max(acked),
                (false, PrrBound::Rfc6937) => conserved,
            };
            limit.min(self.ssthresh - pipe)
        };
        // The first retransmission is sent immediately.
        if self.out.is_zero() {
            allowed = allowed.max(mss);
        }
        pipe + allowed
    }

    /// A packet of `bytes` was sent.
    #[inline]
    pub fn on_sent(&mut self, bytes: Bytes) {
        self.out += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes::new(1000);

    /// The first retransmission is always sent immediately.
    #[test]
    fn prr_first_retransmission_is_always_allowed() {
        let mut prr = Prr::begin(MSS * 5, MSS * 10, PrrBound::Rfc6937);
        // One segment delivered: ceil(1000 x 5 / 10) = 500 B, less than a segment.
        assert_eq!(prr.on_ack(MSS, MSS * 8, false, MSS), MSS * 9);
        prr.on_sent(MSS);
        // Two delivered segments allow 1000 B to be sent; this segment is already sent.
        assert_eq!(prr.on_ack(MSS, MSS * 8, false, MSS), MSS * 8);
    }

    /// Below the target, packet conservation or slow start bounds the window.
    #[test]
    fn prr_below_target_is_bounded_by_crb_or_ssrb() {
        let mut prr = Prr::begin(MSS * 5, MSS * 10, PrrBound::Rfc6937);
        prr.on_ack(MSS, MSS * 8, false, MSS);
        prr.on_sent(MSS);
        // In segments: pipe 2, target 5, delivered 3, sent 1. The conservative bound allows 2 more.
        let mut conservative = prr;
        assert_eq!(conservative.on_ack(MSS * 2, MSS * 2, false, MSS), MSS * 4);
        // The slow-start bound allows max(2, 2) + 1 = 3 segments, and so does the target: 5 - 2 = 3.
        assert_eq!(prr.on_ack(MSS * 2, MSS * 2, true, MSS), MSS * 5);
    }

    /// Above the target, the data sent equals the target times the delivered share of the flight, rounded up (RFC
    /// 9937).
    #[test]
    fn prr_above_target_sends_share_rounded_up() {
        let (target, flight) = (7, 10);
        let mut prr = Prr::begin(Bytes::new(target), Bytes::new(flight), PrrBound::Rfc9937);
        let mut out = 0;
        // Pipe stays above the target for all ten deliveries.
        for delivered in 1..=flight {
            let (pipe, share) = (Bytes::new(100), (delivered * target).div_ceil(flight));
            let allowed = prr.on_ack(Bytes::new(1), pipe, true, Bytes::new(1)) - pipe;
            assert_eq!(allowed, Bytes::new(share - out), "{delivered} delivered, {out} out");
            prr.on_sent(allowed);
            out = share;
        }
        assert_eq!(out, target);
    }

    /// Linux counts packets: a fraction of a packet allows a whole packet.
    #[test]
    fn prr_linux_rounds_share_up_to_segments() {
        for (bound, out) in [(PrrBound::Linux, [1, 2, 3, 3]), (PrrBound::Rfc9937, [1, 1, 2, 2])] {
            // After k deliveries, Linux allows ceil(0.7 k) segments; RFC 9937 allows 0.7 k, of which only whole
            // segments are sent.
            let mut prr = Prr::begin(MSS * 7, MSS * 10, bound);
            let mut left = 0;
            for expected in out {
                let pipe = MSS * 50;
                let allowed = (prr.on_ack(MSS, pipe, true, MSS) - pipe).as_u64() / MSS.as_u64();
                prr.on_sent(MSS * allowed);
                left += allowed;
                assert_eq!(left, expected, "{bound:?}");
            }
        }
    }

    /// RFC 9937: below the target, at least as much may be sent as this acknowledgement delivered.
    #[test]
    fn prr_rfc9937_lets_out_what_was_just_delivered() {
        for (bound, window) in [(PrrBound::Rfc6937, 2), (PrrBound::Rfc9937, 4)] {
            let mut prr = Prr::begin(MSS * 5, MSS * 10, bound);
            prr.on_sent(MSS * 10);
            // In segments: pipe 2, target 5; ten segments were sent before, and this acknowledgement delivers two.
            assert_eq!(prr.on_ack(MSS * 2, MSS * 2, false, MSS), MSS * window, "{bound:?}");
        }
    }
}
