//! Settling time of rates: deliveries are sampled ten times per round-trip time and compared with fair rates.

use narrows_cc::Nanos;
use narrows_scenario::Plan;
use narrows_sim::{Engine, RunResult};

/// Samples per round-trip time.
const SAMPLES: u64 = 10;
/// Accepted deviation of a flow from its fair rate.
pub const TOLERANCE: f64 = 0.1;

/// In-order bytes of each flow at every sample.
pub struct Deliveries {
    rtt: Nanos,
    samples: Vec<Vec<u64>>,
}

impl Deliveries {
    /// Runs a scenario and samples it [`SAMPLES`] times per `rtt`.
    pub fn of(spec: Plan, rtt: Nanos) -> (Self, RunResult) {
        let (flows, duration) = (spec.flows.len(), spec.duration);
        let mut engine = Engine::new(spec);
        let mut samples = vec![vec![0; flows]];
        loop {
            let at = rtt * samples.len() as u64 / SAMPLES;
            if at > duration {
                break;
            }
            engine.run_until(at);
            samples.push((0..flows).map(|flow| engine.flow(flow).receiver().bytes_in_order).collect());
        }
        (Self { rtt, samples }, engine.finish())
    }

    /// Goodput at a sample in Mbit/s: the mean of [`SAMPLES`] rates, each measured over the round-trip time before
    /// one of the latest [`SAMPLES`] samples. A single rate is too coarse: if packets arrive in one burst per round
    /// trip and a small queue shifts the bursts, the interval of a single rate sometimes misses a burst.
    fn rate(&self, flow: usize, sample: usize) -> f64 {
        let bytes = |end: usize| {
            let start = end.saturating_sub(SAMPLES as usize);
            (self.samples[end][flow] - self.samples[start][flow]) as f64
        };
        let sum: f64 = (0..SAMPLES as usize).map(|ago| bytes(sample.saturating_sub(ago))).sum();
        8.0 * sum / SAMPLES as f64 / self.rtt.as_secs_f64() / 1e6
    }

    /// Round-trip times from `from` to the last sample before `until` at which a flow deviated from its fair
    /// rate in Mbit/s of payload by more than [`TOLERANCE`]. Flows without a fair rate do not count. `None`
    /// if rates did not settle.
    ///
    /// Rates cover past deliveries, so a flow that changes to its fair rate immediately settles 1.6 round-trip times
    /// later.
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

/// Rates settle when the last flow stays within a tenth of its fair rate.
#[test]
fn settling_time_ends_when_last_flow_stays_within_a_tenth() {
    // Samples every 10 ms. Flow 0 sends 1 MB/s throughout, flow 1 sends 1 MB/s from 200 ms on. 140 ms after that start,
    // the latest ten rates of flow 1 are 0.5, 0.6, 0.7, 0.8, 0.9 and five times 1.0 MB/s: their mean is 6.8 Mbit/s.
    // 150 ms after the start the mean is 7.2 Mbit/s.
    let at = |sample: u64, start: u64| 10_000 * sample.saturating_sub(start);
    let rtt = Nanos::from_millis(100);
    let deliveries = Deliveries { rtt, samples: (0..=100).map(|n| vec![at(n, 0), at(n, 20)]).collect() };
    let (from, until) = (Nanos::from_millis(200), Nanos::from_millis(1000));
    assert_eq!(deliveries.settled_after(from, until, &[Some(7.9), Some(7.9)]), Some(1.5));
    assert_eq!(deliveries.settled_after(from, until, &[Some(7.9), None]), Some(0.0));
    assert_eq!(deliveries.settled_after(from, until, &[Some(7.9), Some(9.0)]), None);
    assert_eq!(deliveries.settled_after(from, Nanos::from_millis(340), &[Some(7.9), Some(7.9)]), None);
}
