//! Packet-timed round trips.

use crate::{Bytes, Nanos};

/// Counts round trips by deliveries: a round ends when a packet sent after its start is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundCounter {
    next: Bytes,
    count: u64,
}

impl RoundCounter {
    /// Feeds one acknowledgement: the connection's delivered count when its newest packet was sent, and the delivered
    /// count now. Returns whether a new round begins.
    #[inline]
    pub fn on_ack(&mut self, delivered_at_send: Bytes, delivered: Bytes) -> bool {
        if delivered_at_send < self.next {
            return false;
        }
        self.restart(delivered);
        self.count += 1;
        true
    }

    /// Restarts the current round: it ends when data sent from now on is acknowledged.
    #[inline]
    pub fn restart(&mut self, delivered: Bytes) {
        self.next = delivered;
    }

    /// Rounds begun so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Minimum RTT of the current round and of the last complete round.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundMin {
    current: Option<Nanos>,
    last: Option<Nanos>,
}

impl RoundMin {
    /// Feeds one acknowledgement: whether it begins a round, and its RTT sample.
    #[inline]
    pub fn on_ack(&mut self, round_start: bool, rtt: Option<Nanos>) {
        if round_start {
            self.last = self.current.take();
        }
        if let Some(rtt) = rtt {
            self.current = Some(self.current.map_or(rtt, |least| least.min(rtt)));
        }
    }

    /// The minimum RTT of the last complete round, if that round had a sample.
    #[inline]
    pub fn last(&self) -> Option<Nanos> {
        self.last
    }
}

/// Minimum number of samples to judge a round: with fewer samples, delayed acknowledgements would look like queueing.
const SAMPLES_MIN: u32 = 3;

/// Minimum RTT of the connection and of the current round, for schemes that judge delay once per round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundSamples {
    base: Option<Nanos>,
    least: Option<Nanos>,
    samples: u32,
}

impl RoundSamples {
    /// Starts with a known base RTT, at the start of a round.
    #[cfg(test)]
    pub fn of_base(base: Nanos) -> Self {
        Self { base: Some(base), ..Self::default() }
    }

    /// Adds an RTT sample.
    #[inline]
    pub fn measure(&mut self, rtt: Nanos) {
        let rtt = rtt.max(Nanos::from_nanos(1));
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.least = Some(self.least.map_or(rtt, |min| min.min(rtt)));
        self.samples += 1;
    }

    /// Begins a round; the base stays.
    pub fn begin_round(&mut self) {
        self.least = None;
        self.samples = 0;
    }

    /// Base RTT and minimum RTT of the round, if it has enough samples.
    pub fn of_round(&self) -> Option<(Nanos, Nanos)> {
        self.base.zip(self.least).filter(|_| self.samples >= SAMPLES_MIN)
    }

    /// Minimum RTT of the connection.
    pub fn base(&self) -> Option<Nanos> {
        self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn bytes(n: u64) -> Bytes {
        Bytes::new(n)
    }

    /// A round ends when the first packet sent after its start is acknowledged.
    #[test]
    fn round_ends_with_first_packet_sent_after_its_start() {
        // Packets have 10 bytes, and four are in flight: four packets are sent together, then one packet per delivery.
        let mut rounds = RoundCounter::default();
        let starts = [(0, 10), (0, 20), (0, 30), (0, 40), (10, 50), (20, 60), (30, 70), (40, 80), (50, 90)];
        let expected = [true, false, false, false, true, false, false, false, true];
        for ((at_send, now), start) in starts.into_iter().zip(expected) {
            assert_eq!(rounds.on_ack(bytes(at_send), bytes(now)), start, "{now} bytes delivered");
        }
        assert_eq!(rounds.count(), 3);
    }

    /// A restarted round lasts until data sent from then on is acknowledged.
    #[test]
    fn round_restarted_lasts_until_later_data_is_acked() {
        let mut rounds = RoundCounter::default();
        assert!(rounds.on_ack(bytes(0), bytes(10)));
        rounds.restart(bytes(35));
        assert!(!rounds.on_ack(bytes(10), bytes(40)));
        assert!(!rounds.on_ack(bytes(34), bytes(50)));
        assert!(rounds.on_ack(bytes(35), bytes(60)));
        assert_eq!(rounds.count(), 2);
    }

    /// The minimum of a round is available when the next round begins.
    #[test]
    fn round_min_is_known_when_the_next_round_begins() {
        let ms = |n| Some(Nanos::from_millis(n));
        let mut least = RoundMin::default();
        for (start, sample, expected) in [
            (true, ms(20), None),
            (false, ms(12), None),
            (false, ms(15), None),
            (true, ms(30), ms(12)),
            (false, None, ms(12)),
            (true, None, ms(30)),
            (true, ms(9), None),
        ] {
            least.on_ack(start, sample);
            assert_eq!(least.last(), expected);
        }
    }
}
