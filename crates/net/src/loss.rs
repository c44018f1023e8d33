//! Random loss of packets on a link.

use narrows_units::{Nanos, Random};

use crate::config::Loss;
use crate::timeline::LossTrace;

#[derive(Clone, Debug)]
enum Model {
    Steady(Loss),
    Timed(Box<Timed>),
}

/// Steady loss plus loss that changes with time, each with its own random stream.
#[derive(Clone, Debug)]
struct Timed {
    steady: LossProcess,
    trace: LossTrace,
}

/// A loss process; each call of [`LossProcess::takes`] decides on one packet.
#[derive(Clone, Debug)]
pub struct LossProcess {
    model: Model,
    random: Random,
    bad: bool,
    since_loss: u64,
}

impl LossProcess {
    /// Creates a process that starts in the good state; `random` is its random stream.
    pub const fn new(model: Loss, random: Random) -> Self {
        Self { model: Model::Steady(model), random, bad: false, since_loss: 0 }
    }

    /// Adds loss that changes with time; `random` is the stream of that loss.
    #[must_use]
    pub fn following(self, trace: LossTrace, random: Random) -> Self {
        let timed = Timed { steady: self, trace };
        Self { model: Model::Timed(Box::new(timed)), random, bad: false, since_loss: 0 }
    }

    /// Decides whether the next packet, which passes at `at`, is lost.
    #[inline]
    pub fn takes(&mut self, at: Nanos) -> bool {
        !matches!(self.model, Model::Steady(Loss::None)) && self.draw(at)
    }

    #[inline(never)]
    fn draw(&mut self, at: Nanos) -> bool {
        match &mut self.model {
            Model::Steady(Loss::None) => false,
            &mut Model::Steady(Loss::Bernoulli(probability)) => self.random.chance(probability),
            &mut Model::Steady(Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad }) => {
                // First draw the state transition, then the loss of the packet in the new state.
                let leaves = self.random.chance(if self.bad { to_good } else { to_bad });
                self.bad ^= leaves;
                self.random.chance(if self.bad { loss_bad } else { loss_good })
            }
            &mut Model::Steady(Loss::Periodic(n)) => {
                self.since_loss += 1;
                let lost = self.since_loss == n;
                if lost {
                    self.since_loss = 0;
                }
                lost
            }
            Model::Timed(timed) => {
                // Draw from both processes for every packet, so that neither shifts the draws of the other.
                let lost = timed.steady.takes(at);
                self.random.chance(timed.trace.at(at)) | lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(model: Loss, n: usize) -> Vec<bool> {
        let mut process = LossProcess::new(model, Random::stream(3, "loss", 0));
        (0..n).map(|_| process.takes(Nanos::ZERO)).collect()
    }

    fn ratio(lost: &[bool]) -> f64 {
        lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64
    }

    /// Bernoulli loss drops its share of packets, within four standard errors.
    #[test]
    fn bernoulli_loses_its_share() {
        for p in [0.0001, 0.01, 0.3] {
            let n = 400_000;
            let lost = ratio(&losses(Loss::Bernoulli(p), n));
            assert!((lost - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{p}: {lost}");
        }
        assert_eq!(ratio(&losses(Loss::Bernoulli(0.0), 1000)), 0.0);
        assert_eq!(ratio(&losses(Loss::Bernoulli(1.0), 1000)), 1.0);
        assert_eq!(ratio(&losses(Loss::None, 1000)), 0.0);
    }

    /// Gilbert-Elliott loss has the mean of its stationary state distribution.
    #[test]
    fn gilbert_elliott_matches_stationary_mean_loss() {
        // The share of the bad state is 0.01 / (0.01 + 0.2) = 1/21, so the mean loss is 1/21 * 0.5 + 20/21 * 0.001.
        // States persist for several packets, so the variance of the mean is that of independent draws times (2 - r) /
        // r with r = 0.01 + 0.2 = 0.21. The tolerance is four standard deviations.
        let model = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.001, loss_bad: 0.5 };
        let n = 1_000_000;
        let expected = 0.5 / 21.0 + 0.001 * 20.0 / 21.0;
        let sigma = (expected * (1.0 - expected) * (2.0 - 0.21) / 0.21 / n as f64).sqrt();
        let lost = ratio(&losses(model, n));
        assert!((lost - expected).abs() < 4.0 * sigma, "{lost} against {expected}");
    }

    /// Gilbert loss comes in bursts of geometric length.
    #[test]
    fn gilbert_bursts_have_geometric_length() {
        // With loss 1 in the bad state and 0 in the good state, a burst is a stay in the bad state: mean 1 / to_good =
        // 4 packets, variance (1 - g) / g^2 = 12.
        let model = Loss::GilbertElliott { to_bad: 0.02, to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 };
        let lost = losses(model, 1_000_000);
        let bursts: Vec<usize> = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        assert!((mean - 4.0).abs() < 4.0 * (12.0 / bursts.len() as f64).sqrt(), "{mean}");
    }

    /// Loss from a trace adds to the steady loss and leaves the draws of the steady loss unchanged.
    #[test]
    fn loss_trace_adds_to_steady_loss_independently() {
        let steady = Loss::Bernoulli(0.1);
        let trace = LossTrace::parse("100 200 1\n300 400 0.3\n").expect("valid");
        let process = LossProcess::new(steady, Random::stream(3, "loss", 0));
        let mut process = process.following(trace, Random::stream(3, "bursts", 0));
        // A hundred packets pass per millisecond.
        let n = 60_000;
        let lost: Vec<bool> = (0..n).map(|i| process.takes(Nanos::from_micros(10 * i))).collect();
        let alone = losses(steady, n as usize);
        assert_eq!(lost[..10_000], alone[..10_000]);
        assert!(lost[10_000..20_000].iter().all(|&lost| lost));
        assert_eq!(lost[20_000..30_000], alone[20_000..30_000]);
        // The combined loss is 1 - 0.9 * 0.7 = 0.37, within four standard errors.
        let sigma = (0.37 * 0.63 / 10_000f64).sqrt();
        assert!((ratio(&lost[30_000..40_000]) - 0.37).abs() < 4.0 * sigma, "{}", ratio(&lost[30_000..40_000]));
        assert_eq!(lost[40_000..], alone[40_000..]);
    }

    /// Periodic loss drops every n-th packet.
    #[test]
    fn periodic_loss_takes_every_nth() {
        let lost = losses(Loss::Periodic(3), 9);
        assert_eq!(lost, [false, false, true, false, false, true, false, false, true]);
        assert_eq!(ratio(&losses(Loss::Periodic(1), 5)), 1.0);
    }
}
