//! Random loss: which packets a link loses.

use narrows_cc::Random;

use crate::config::Loss;

/// A loss process; each call to [`LossProcess::takes`] is one packet.
#[derive(Clone, Debug)]
pub struct LossProcess {
    model: Loss,
    random: Random,
    bad: bool,
    since_loss: u64,
}

impl LossProcess {
    /// A process that starts in the good state; `random` is its own stream.
    pub const fn new(model: Loss, random: Random) -> Self {
        Self { model, random, bad: false, since_loss: 0 }
    }

    /// Whether the next packet is lost.
    #[inline]
    pub fn takes(&mut self) -> bool {
        match self.model {
            Loss::None => false,
            Loss::Bernoulli(probability) => self.random.chance(probability),
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                // First the transition, then the loss in the state it led to.
                let leaves = self.random.chance(if self.bad { to_good } else { to_bad });
                self.bad ^= leaves;
                self.random.chance(if self.bad { loss_bad } else { loss_good })
            }
            Loss::Periodic(n) => {
                self.since_loss += 1;
                let lost = self.since_loss == n;
                if lost {
                    self.since_loss = 0;
                }
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(model: Loss, n: usize) -> Vec<bool> {
        let mut process = LossProcess::new(model, Random::stream(3, "loss", 0));
        (0..n).map(|_| process.takes()).collect()
    }

    fn ratio(lost: &[bool]) -> f64 {
        lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64
    }

    #[test]
    fn bernoulli_loses_its_share_within_four_standard_errors() {
        for p in [0.0001, 0.01, 0.3] {
            let n = 400_000;
            let lost = ratio(&losses(Loss::Bernoulli(p), n));
            assert!((lost - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{p}: {lost}");
        }
        assert_eq!(ratio(&losses(Loss::Bernoulli(0.0), 1000)), 0.0);
        assert_eq!(ratio(&losses(Loss::Bernoulli(1.0), 1000)), 1.0);
        assert_eq!(ratio(&losses(Loss::None, 1000)), 0.0);
    }

    #[test]
    fn gilbert_elliott_has_the_mean_loss_of_its_stationary_states() {
        // Share of the bad state 0.01 / (0.01 + 0.2) = 1/21; loss = 1/21 * 0.5 + 20/21 * 0.001. States persist for a few
        // packets, so the variance of the mean is that of independent draws times (2 - r) / r with r = 0.21; four sigma.
        let model = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.001, loss_bad: 0.5 };
        let n = 1_000_000;
        let expected = 0.5 / 21.0 + 0.001 * 20.0 / 21.0;
        let sigma = (expected * (1.0 - expected) * (2.0 - 0.21) / 0.21 / n as f64).sqrt();
        let lost = ratio(&losses(model, n));
        assert!((lost - expected).abs() < 4.0 * sigma, "{lost} against {expected}");
    }

    #[test]
    fn gilbert_loses_in_bursts_of_geometric_length() {
        // With loss 1 in the bad state and 0 in the good one a burst is a stay in the bad state: mean 1 / to_good = 4
        // packets, variance (1 - g) / g^2 = 12.
        let model = Loss::GilbertElliott { to_bad: 0.02, to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 };
        let lost = losses(model, 1_000_000);
        let bursts: Vec<usize> =
            lost.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        assert!((mean - 4.0).abs() < 4.0 * (12.0 / bursts.len() as f64).sqrt(), "{mean}");
    }

    #[test]
    fn periodic_loss_takes_every_nth() {
        let lost = losses(Loss::Periodic(3), 9);
        assert_eq!(lost, [false, false, true, false, false, true, false, false, true]);
        assert_eq!(ratio(&losses(Loss::Periodic(1), 5)), 1.0);
    }
}
