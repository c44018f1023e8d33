//! Bytes delivered between losses of a subflow, an input of OLIA's path selection (Khalili et al. 2012, section V).

use narrows_cc::Bytes;

/// Positions of losses in the delivered bytes of one subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Losses {
    reductions: u64,
    /// Bytes delivered up to the last loss.
    before: Bytes,
    between: Bytes,
}

impl Losses {
    /// Records a loss if `reductions`, the number of window reductions so far, has grown. Consecutive timeouts without
    /// deliveries in between are one loss: otherwise the interval would be zero bytes.
    pub(super) fn note(&mut self, reductions: u64, delivered: Bytes) {
        if reductions == self.reductions {
            return;
        }
        self.reductions = reductions;
        if delivered > self.before {
            self.between = delivered - self.before;
            self.before = delivered;
        }
    }

    /// Bytes delivered since the last loss.
    pub(super) fn since(&self, delivered: Bytes) -> Bytes {
        delivered - self.before
    }

    /// Bytes delivered between the last two losses, or before the first loss.
    pub(super) fn between(&self) -> Bytes {
        self.between
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consecutive timeouts are one loss.
    #[test]
    fn losses_repeated_timeouts_are_one() {
        let mut losses = Losses::default();
        let kilo = |n: u64| Bytes::new(1_000 * n);
        losses.note(1, kilo(50));
        losses.note(1, kilo(60));
        assert_eq!((losses.between(), losses.since(kilo(60))), (kilo(50), kilo(10)));
        losses.note(2, kilo(80));
        losses.note(3, kilo(80));
        losses.note(4, kilo(80));
        assert_eq!((losses.between(), losses.since(kilo(81))), (kilo(30), kilo(1)));
    }
}
