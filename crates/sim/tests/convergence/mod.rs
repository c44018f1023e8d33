//! When rates have settled: what flows deliver, sampled ten times per round-trip time, against their fair rates.

use narrows_cc::Nanos;
use narrows_scenario::Plan;
use narrows_sim::{Engine, Recorder, RunResult};

/// Samples per round-trip time.
const SAMPLES: u64 = 10;
/// How far from its fair rate a flow may be.
pub const TOLERANCE: f64 = 0.1;

/// What each flow had delivered in order, at every sample.
pub struct Deliveries {
    rtt: Nanos,
    samples: Vec<Vec<u64>>,
}

impl Deliveries {
    /// Runs a scenario, taking samples by a stated round-trip time.
    pub fn of(spec: Plan, rtt: Nanos) -> (Self, RunResult) {
        let (flows, duration) = (spec.flows.len(), spec.duration);
        let mut engine = Engine::new(spec, Recorder::off());
        let mut samples = vec![vec![0; flows]];
        loop {
            let at = rtt * samples.len() as u64 / SAMPLES;
            if at > duration {
                break;
            }
            engine.run_until(at).expect("nothing is written");
            samples.push((0..flows).map(|flow| engine.delivered(flow).as_u64()).collect());
        }
        (Self { rtt, samples }, engine.finish().expect("nothing is written"))
    }

    /// Megabits per second of payload at a sample: the mean of as many rates as there are samples in a round-trip time, each
    /// over the round-trip time before its sample. One such rate would not do: of a sender whose packets come in clumps, one
    /// per round trip, with a little queue on the way, it misses a clump now and then.
    fn rate(&self, flow: usize, sample: usize) -> f64 {
        let bytes = |end: usize| {
            let start = end.saturating_sub(SAMPLES as usize);
            (self.samples[end][flow] - self.samples[start][flow]) as f64
        };
        let sum: f64 = (0..SAMPLES as usize).map(|ago| bytes(sample.saturating_sub(ago))).sum();
        8.0 * sum / SAMPLES as f64 / self.rtt.as_secs_f64() / 1e6
    }

    /// Round-trip times from `from` to the last sample before `until` at which one of the flows was not within
    /// [`TOLERANCE`] of its fair rate, in Mbit/s of payload; a fair rate of none: the flow does not count. None if they were
    /// still not there when it ended.
    ///
    /// For rates look back, a flow that is at its fair rate at once is found to be so 1.6 round-trip times later.
    pub fn settled_after(&self, from: Nanos, until: Nanos, fair: &[Option<f64>]) -> Option<f64> {
        let number = |at: Nanos| (at.as_nanos() * SAMPLES / self.rtt.as_nanos()) as usize;
        let (first, last) = (number(from), number(until).min(self.samples.len() - 1));
        let off = |sample: usize| {
            let flows = fair.iter().enumerate().filter_map(|(flow, fair)| fair.map(|fair| (flow, fair)));
            flows.into_iter().any(|(flow, fair)| (self.rate(flow, sample) / fair - 1.0).abs() > TOLERANCE)
        };
        match (first..=last).rev().find(|&sample| off(sample)) {
            Some(sample) if sample == last => None,
            Some(sample) => Some((sample + 1 - first) as f64 / SAMPLES as f64),
            None => Some(0.0),
        }
    }
}

#[test]
fn rates_are_settled_when_the_last_flow_is_within_a_tenth_for_good() {
    // Samples every 10 ms. Flow 0 sends 1 MB/s throughout, flow 1 from 200 ms on. 140 ms later ten rates look back to that
    // start, 0.5, 0.6, 0.7, 0.8, 0.9 and five times 1.0 MB/s: 6.8 Mbit/s on the mean; 150 ms later it is 7.2 Mbit/s.
    let at = |sample: u64, start: u64| 10_000 * sample.saturating_sub(start);
    let rtt = Nanos::from_millis(100);
    let deliveries = Deliveries { rtt, samples: (0..=100).map(|n| vec![at(n, 0), at(n, 20)]).collect() };
    let (from, until) = (Nanos::from_millis(200), Nanos::from_millis(1000));
    assert_eq!(deliveries.settled_after(from, until, &[Some(7.9), Some(7.9)]), Some(1.5));
    assert_eq!(deliveries.settled_after(from, until, &[Some(7.9), None]), Some(0.0));
    assert_eq!(deliveries.settled_after(from, until, &[Some(7.9), Some(9.0)]), None);
    assert_eq!(deliveries.settled_after(from, Nanos::from_millis(340), &[Some(7.9), Some(7.9)]), None);
}
