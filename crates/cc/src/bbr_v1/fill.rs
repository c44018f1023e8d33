//! The fill level of the bottleneck's buffer, estimated from RTTs.

use crate::Nanos;

/// The share of the buffer in use: the queueing delay over the maximum queueing delay of the connection. If the flow
/// has never filled the buffer, the longest queue so far counts as a full buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferFill {
    max_rtt: Nanos,
}

impl BufferFill {
    /// Feeds an RTT sample.
    #[inline]
    pub fn observe(&mut self, rtt: Nanos) {
        self.max_rtt = self.max_rtt.max(rtt);
    }

    /// The maximum RTT sample.
    #[inline]
    pub fn max_rtt(&self) -> Nanos {
        self.max_rtt
    }

    /// (rtt − min_rtt) / (max_rtt − min_rtt) in [0, 1]; 0 until a queue has been seen.
    #[inline]
    pub fn share(&self, rtt: Nanos, min_rtt: Nanos) -> f64 {
        let (queued, most) = (rtt - min_rtt, self.max_rtt - min_rtt);
        if most.is_zero() {
            return 0.0;
        }
        (queued.as_nanos() as f64 / most.as_nanos() as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share is 0 without a queue and 1 at the longest queue so far.
    #[test]
    fn buffer_fill_share_spans_empty_to_longest_queue() {
        let ms = Nanos::from_millis;
        let mut fill = BufferFill::default();
        assert_eq!(fill.share(ms(50), ms(40)), 0.0, "nothing is known");
        fill.observe(ms(40));
        assert_eq!(fill.share(ms(40), ms(40)), 0.0, "no queue was ever seen");
        fill.observe(ms(80));
        fill.observe(ms(60));
        assert_eq!(fill.max_rtt(), ms(80));
        for (rtt, share) in [(40, 0.0), (50, 0.25), (80, 1.0), (30, 0.0), (90, 1.0)] {
            assert_eq!(fill.share(ms(rtt), ms(40)), share, "{rtt} ms");
        }
        assert_eq!(fill.share(ms(90), ms(80)), 0.0, "min_rtt has risen to max_rtt");
    }
}
