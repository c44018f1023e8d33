//! Events at fixed times: application stops, end of the warm-up, metrics bins, trace samples.

use narrows_cc::Nanos;

use narrows_scenario::Plan;

/// An event at a fixed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tick {
    /// A flow's application stops writing.
    Stop(u32),
    /// The warm-up ends.
    Warm,
    /// A bin of the metrics ends.
    Bin,
    /// A trace sample is due.
    Sample,
}

/// The clock of a run: the pending events at fixed times.
#[derive(Debug)]
pub struct Clock {
    /// Events that occur once, latest first.
    singles: Vec<(Nanos, Tick)>,
    bin: Nanos,
    next_bin: Nanos,
    sample: Option<Nanos>,
    next_sample: Nanos,
}

/// Length of a metrics bin: 100 ms, or a thousandth of the run if that is longer.
pub fn bin_length(duration: Nanos) -> Nanos {
    Nanos::from_millis(100).max(duration / 1000)
}

impl Clock {
    /// Builds the clock of a run from its plan.
    pub fn new(plan: &Plan) -> Self {
        let mut singles: Vec<_> = plan
            .flows
            .iter()
            .enumerate()
            .filter_map(|(i, flow)| flow.stop.map(|at| (at, Tick::Stop(i as u32))))
            .collect();
        singles.push((plan.warmup, Tick::Warm));
        singles.sort_unstable_by(|a, b| b.cmp(a));
        let bin = bin_length(plan.duration);
        let sample = plan.trace.samples;
        Self { singles, bin, next_bin: bin, sample, next_sample: sample.unwrap_or(Nanos::MAX) }
    }

    /// Time of the next event.
    pub fn next(&self) -> Nanos {
        let single = self.singles.last().map_or(Nanos::MAX, |(at, _)| *at);
        single.min(self.next_bin).min(self.next_sample)
    }

    /// Next event due at `now`, if any.
    pub fn take(&mut self, now: Nanos) -> Option<Tick> {
        if let Some(&(at, tick)) = self.singles.last()
            && at <= now
        {
            self.singles.pop();
            return Some(tick);
        }
        if self.next_bin <= now {
            self.next_bin += self.bin;
            return Some(Tick::Bin);
        }
        if self.next_sample <= now {
            self.next_sample += self.sample?;
            return Some(Tick::Sample);
        }
        None
    }
}
