//! The predicted arrival rate of transmissions: VQ of Algorithm 1.
//!
//! Arrivals are counted in slots of equal length. The paper takes the current rate as the prediction (section 7.1) and
//! leaves better predictors to future work; this file adds two predictors. With x the rate in the last complete slot:
//!
//! * `Present`: VQ = x.
//! * `Ewma`: s += g (x − s); VQ = s.
//! * `Holt`: a level and a trend, l' = g x + (1 − g)(l + b), b' = h (l' − l) + (1 − h) b; VQ = l + b for the next slot,
//!   never below zero (Holt 1957, double exponential smoothing).
//!
//! Empty slots count. Before the first complete slot the prediction is zero.

use narrows_cc::Nanos;

/// Predictor of the arrival rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Predictor {
    /// The rate of the last slot.
    Present,
    /// An exponentially weighted mean.
    Ewma {
        /// Weight of the last slot.
        gain: f64,
    },
    /// A level and a trend.
    Holt {
        /// Weight of the last slot in the level.
        gain: f64,
        /// Weight of the last change in the trend.
        trend: f64,
    },
}

/// Number of empty slots after which the prediction is zero, to bound the computation after a long silence.
const MAX_EMPTY_SLOTS: u64 = 1_000;

/// Arrivals at a port.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    predictor: Predictor,
    slot: Nanos,
    slot_end: Nanos,
    /// Arrivals in this slot.
    count: u64,
    /// Whether a slot has been completed.
    primed: bool,
    /// Arrivals per second.
    level: f64,
    /// Change of the level, in arrivals per second and slot.
    trend: f64,
}

impl Arrivals {
    /// No arrivals yet. `slot` is longer than zero.
    pub(super) fn new(predictor: Predictor, slot: Nanos) -> Self {
        Self { predictor, slot, slot_end: slot, count: 0, primed: false, level: 0.0, trend: 0.0 }
    }

    /// Counts the arrival of a transmission.
    pub(super) fn on_arrival(&mut self, now: Nanos) {
        self.advance(now);
        self.count += 1;
    }

    /// VQ: expected arrivals per second.
    pub(super) fn rate(&mut self, now: Nanos) -> f64 {
        self.advance(now);
        match self.predictor {
            Predictor::Present | Predictor::Ewma { .. } => self.level,
            Predictor::Holt { .. } => (self.level + self.trend).max(0.0),
        }
    }

    /// Accounts for completed slots.
    fn advance(&mut self, now: Nanos) {
        if now < self.slot_end {
            return;
        }
        let ended = 1 + (now - self.slot_end).as_nanos() / self.slot.as_nanos();
        let first = self.count as f64 / self.slot.as_secs_f64();
        self.count = 0;
        self.slot_end = self.slot_end.saturating_add(Nanos::from_nanos(self.slot.as_nanos().saturating_mul(ended)));
        self.end_slot(first);
        if ended > MAX_EMPTY_SLOTS {
            (self.level, self.trend) = (0.0, 0.0);
            return;
        }
        for _ in 1..ended {
            self.end_slot(0.0);
        }
    }

    fn end_slot(&mut self, rate: f64) {
        let before = self.level;
        match self.predictor {
            _ if !self.primed => self.level = rate,
            Predictor::Present => self.level = rate,
            Predictor::Ewma { gain } => self.level += gain * (rate - self.level),
            Predictor::Holt { gain, trend } => {
                self.level = gain * rate + (1.0 - gain) * (self.level + self.trend);
                self.trend = trend * (self.level - before) + (1.0 - trend) * self.trend;
            }
        }
        self.primed = true;
    }
}

#[cfg(test)]
mod tests {
    use narrows_cc::Random;

    use super::*;

    const SLOT: Nanos = Nanos::from_millis(100);

    const ALL: [(&str, Predictor); 3] = [
        ("present", Predictor::Present),
        ("ewma", Predictor::Ewma { gain: 0.125 }),
        ("holt", Predictor::Holt { gain: 0.25, trend: 0.1 }),
    ];

    fn arrive(arrivals: &mut Arrivals, ms: &[u64]) {
        for &at in ms {
            arrivals.on_arrival(Nanos::from_millis(at));
        }
    }

    /// The present rate is that of the last complete slot.
    #[test]
    fn present_rate_is_that_of_the_last_complete_slot() {
        let mut arrivals = Arrivals::new(Predictor::Present, SLOT);
        arrive(&mut arrivals, &[10, 20, 99]);
        assert_eq!(arrivals.rate(Nanos::from_millis(99)), 0.0);
        assert_eq!(arrivals.rate(Nanos::from_millis(100)), 30.0);
        arrive(&mut arrivals, &[150]);
        assert_eq!(arrivals.rate(Nanos::from_millis(199)), 30.0);
        assert_eq!(arrivals.rate(Nanos::from_millis(200)), 10.0);
        assert_eq!(arrivals.rate(Nanos::from_millis(300)), 0.0);
    }

    /// EWMA and Holt follow their formulas.
    #[test]
    fn ewma_and_holt_follow_their_formulas() {
        let mut ewma = Arrivals::new(Predictor::Ewma { gain: 0.25 }, SLOT);
        let mut holt = Arrivals::new(Predictor::Holt { gain: 0.5, trend: 0.5 }, SLOT);
        for arrivals in [&mut ewma, &mut holt] {
            // The three slots have 20, 40 and 0 arrivals per second.
            arrive(arrivals, &[10, 20, 110, 120, 130, 140]);
        }
        let at = Nanos::from_millis(300);
        // s = 20; s = 20 + 20/4 = 25; s = 25 - 25/4 = 18.75.
        assert_eq!(ewma.rate(at), 18.75);
        // l = 20, b = 0; l = 20 + 10 = 30, b = 5; l = (30 + 5)/2 = 17.5, b = (-12.5 + 5)/2 = -3.75: 13.75.
        assert_eq!(holt.rate(at), 13.75);
    }

    /// After a long silence no arrivals are expected.
    #[test]
    fn long_silence_ends_every_expectation() {
        for (name, predictor) in ALL {
            let mut arrivals = Arrivals::new(predictor, SLOT);
            arrive(&mut arrivals, &[1, 2, 3]);
            assert_eq!(arrivals.rate(Nanos::MAX), 0.0, "{name}");
            arrivals.on_arrival(Nanos::MAX);
        }
    }

    /// Mean squared error of the prediction of the next slot, in arrivals per slot squared; `per_second` is
    /// the true rate as a function of the time in seconds.
    fn error(predictor: Predictor, per_second: impl Fn(f64) -> f64) -> f64 {
        let mut random = Random::stream(7, "arrivals", 0);
        let mut arrivals = Arrivals::new(predictor, SLOT);
        let (mut now, mut slot, mut count) = (0.0, 0u64, 0.0);
        let (mut sum, mut slots) = (0.0, 0.0);
        let length = SLOT.as_secs_f64();
        let mut forecast = 0.0;
        while slot < 3_000 {
            now += random.exponential(1.0 / per_second(now));
            while now >= (slot + 1) as f64 * length {
                slot += 1;
                if slot > 100 {
                    sum += (forecast - count) * (forecast - count);
                    slots += 1.0;
                }
                forecast = arrivals.rate(SLOT * slot) * length;
                count = 0.0;
            }
            count += 1.0;
            arrivals.on_arrival(Nanos::from_secs_f64(now).max(SLOT * slot));
        }
        sum / slots
    }

    /// Smoothing halves the error for steady arrivals, and a trend helps for oscillating ones.
    #[test]
    fn smoothing_helps_steady_and_trend_swinging_arrivals() {
        // Poisson arrivals, 20 per slot: their variance, 20, is the minimum error. The present rate has an error of 40,
        // because it adds the variance of the last slot. An EWMA of gain g = 1/8 adds g/(2 - g) = 1/15 of the variance.
        let steady = ALL.map(|(name, predictor)| {
            let error = error(predictor, |_| 200.0);
            println!("steady, {name}: {error:.1}");
            error
        });
        let near = |measured: f64, expected: f64| (measured / expected - 1.0).abs() < 0.1;
        assert!(near(steady[0], 40.0), "{steady:?}");
        assert!(near(steady[1], 20.0 * 16.0 / 15.0), "{steady:?}");
        assert!(steady[2] < 0.75 * steady[0], "{steady:?}");
        // The rate follows a triangle wave between 40 and 360 arrivals per second with a period of 10 s: it changes by
        // 6.4 per second in each slot, so an EWMA lags 7/8 / (1/8) = 7 slots behind.
        let triangle = |t: f64| {
            let phase = (t / 10.0) % 1.0;
            40.0 + 640.0 * phase.min(1.0 - phase)
        };
        let swinging = ALL.map(|(name, predictor)| {
            let error = error(predictor, triangle);
            println!("swinging, {name}: {error:.1}");
            error
        });
        assert!(swinging[2] < swinging[1] && swinging[2] < swinging[0], "{swinging:?}");
    }
}
