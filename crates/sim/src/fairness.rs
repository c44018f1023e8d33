//! Jain's index, and convergence to a fair share, computed during the run from the bytes of each party in the latest
//! window.

use narrows_cc::Nanos;

/// Jain's index from which a window counts as fair.
const FAIR: f64 = 0.9;
/// Length of a fairness window; windows last at least one bin.
const WINDOW: Nanos = Nanos::from_secs(1);
/// Time during which all windows must be fair.
const LASTING: Nanos = Nanos::from_secs(5);

/// Jain's fairness index: 1 for equal shares, 1/n if one party has everything, and 1 if all shares are zero.
pub fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (n, sum, squares) = shares.fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (n * squares) }
}

/// Finds the first five seconds after the last flow start in which all one-second windows are fair.
#[derive(Debug)]
pub struct Fairness {
    bin: Nanos,
    last_start: Nanos,
    /// Number of bins before the first window.
    first: usize,
    /// Bins per window.
    window: usize,
    /// Number of consecutive fair windows required; each begins one bin after the previous one.
    lasting: usize,
    /// Bins ended so far.
    bins: usize,
    /// Bytes received by each party up to the ends of the newest bins: one row per bin of a window, plus one row.
    ends: Vec<u64>,
    /// Party of each flow; all subflows of a connection form one party.
    parties: Vec<usize>,
    /// Number of parties.
    all: usize,
    /// First bin of the current run of fair windows.
    since: Option<usize>,
    /// Whether a sufficiently long run of fair windows was found.
    found: bool,
    /// Whether the result is final.
    settled: bool,
}

impl Fairness {
    /// Starts the search with bins of length `bin`. `flows` gives the start and the party of each flow; parties are
    /// numbered from zero.
    pub fn new(flows: impl Iterator<Item = (Nanos, usize)>, bin: Nanos) -> Self {
        let (starts, parties): (Vec<Nanos>, Vec<usize>) = flows.unzip();
        let last_start = starts.into_iter().max().unwrap_or(Nanos::ZERO);
        let all = parties.iter().max().map_or(0, |last| last + 1);
        let bins_in = |interval: Nanos| (interval.as_nanos().div_ceil(bin.as_nanos())) as usize;
        let window = bins_in(WINDOW);
        Self {
            bin,
            last_start,
            first: bins_in(last_start),
            window,
            lasting: bins_in(LASTING),
            bins: 0,
            // Fairness needs two parties.
            ends: if all < 2 { Vec::new() } else { vec![0; all * (window + 1)] },
            parties,
            all,
            since: None,
            found: false,
            settled: all < 2,
        }
    }

    /// Ends a bin. `received`: bytes received so far per flow. `over`: whether a flow ended before the end of this bin.
    pub fn on_bin(&mut self, received: impl Iterator<Item = u64>, over: bool) {
        self.bins += 1;
        // Once a flow has ended, shares no longer measure fairness.
        self.settled |= over;
        if self.settled {
            return;
        }
        let row = |bin: usize| (bin % (self.window + 1)) * self.all;
        let (now, before) = (row(self.bins), row(self.bins.saturating_sub(self.window)));
        self.ends[now..now + self.all].fill(0);
        self.parties.iter().zip(received).for_each(|(party, bytes)| self.ends[now + party] += bytes);
        if self.bins < self.first + self.window {
            return;
        }
        let shares = (0..self.all).map(|party| (self.ends[now + party] - self.ends[before + party]) as f64);
        let moved = shares.clone().any(|share| share > 0.0);
        if !moved || jain(shares) < FAIR {
            self.since = None;
            return;
        }
        let start = self.bins - self.window;
        let since = *self.since.get_or_insert(start);
        self.found = start - since + 1 >= self.lasting;
        self.settled = self.found;
    }

    /// Time from the last flow start to the start of the window found; `None` if none was found.
    pub fn convergence(&self) -> Option<Nanos> {
        self.since.filter(|_| self.found).map(|bin| self.bin * bin as u64 - self.last_start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIN: Nanos = Nanos::from_millis(100);

    /// Convergence of two flows that start at time zero, with their bytes per bin; `None` means that a flow has ended.
    fn judged(bin: Nanos, rates: impl Iterator<Item = Option<[u64; 2]>>) -> Option<Nanos> {
        let mut fairness = Fairness::new([(Nanos::ZERO, 0), (Nanos::ZERO, 1)].into_iter(), bin);
        let mut received = [0; 2];
        for rate in rates {
            let over = rate.is_none();
            received.iter_mut().zip(rate.unwrap_or([0, 0])).for_each(|(sum, rate)| *sum += rate);
            fairness.on_bin(received.into_iter(), over);
        }
        fairness.convergence()
    }

    /// Flows converge at the start of the first five seconds in which all windows are fair.
    #[test]
    fn convergence_is_first_window_of_five_fair_seconds() {
        // The shares are 1 : 9 for 3 s, 1 : 1 for 4 s, 0 : 1 for 1 s, then 1 : 1. Jain's index of two flows is 0.9 at 2
        // : 1.
        let rates = |bin: usize| match bin {
            0..30 => [1, 9],
            70..80 => [0, 10],
            _ => [5, 5],
        };
        // In a window of x unequal and 10 - x equal bins, one flow receives 50 - 5x of 100 bytes and the other 50 + 5x.
        // Jain's index 1 / (1 + x^2/100) is therefore at least 0.9 up to x = 3.
        let found = judged(BIN, (0..200).map(|bin| Some(rates(bin))));
        assert_eq!(found, Some(BIN * 77));
    }

    /// Fewer than five fair seconds are not enough, and windows without traffic are not fair.
    #[test]
    fn convergence_needs_five_seconds_and_traffic() {
        // 59 bins contain fifty windows of ten bins, each of which begins one bin after the previous window.
        assert_eq!(judged(BIN, (0..59).map(|_| Some([5, 5]))), Some(Nanos::ZERO));
        assert_eq!(judged(BIN, (0..58).map(|_| Some([5, 5]))), None);
        assert_eq!(judged(BIN, (0..100).map(|_| Some([0, 0]))), None);
    }

    /// Only the time in which all flows are active counts.
    #[test]
    fn convergence_counts_only_time_with_all_flows() {
        let equal_until = |last| move |bin| (bin < last).then_some([5, 5]);
        assert_eq!(judged(BIN, (0..200).map(equal_until(58))), None);
        assert_eq!(judged(BIN, (0..200).map(equal_until(59))), Some(Nanos::ZERO));
    }

    /// Jain's index matches its closed forms.
    #[test]
    fn jain_index_matches_closed_forms() {
        assert_eq!(jain([5.0, 5.0, 5.0].into_iter()), 1.0);
        assert!((jain([1.0, 0.0, 0.0, 0.0].into_iter()) - 0.25).abs() < 1e-12);
        assert!((jain([4.0, 1.0].into_iter()) - 25.0 / 34.0).abs() < 1e-12);
    }

    /// The subflows of a connection are one party: two subflows with a rate of 3 each are fair beside a flow with 6. As
    /// three parties they would have a Jain's index of 0.889.
    #[test]
    fn convergence_counts_subflows_as_one_party() {
        let converged = |parties: [usize; 3]| {
            let mut fairness = Fairness::new(parties.map(|party| (Nanos::ZERO, party)).into_iter(), BIN);
            for bin in 1..=100 {
                fairness.on_bin([3, 3, 6].map(|rate| rate * bin).into_iter(), false);
            }
            fairness.convergence()
        };
        assert_eq!(converged([0, 0, 1]), Some(Nanos::ZERO));
        assert_eq!(converged([0, 1, 2]), None);
        assert_eq!(converged([0, 0, 0]), None, "a single party");
    }

    /// With bins longer than five seconds, each bin is a window, and one fair window suffices.
    #[test]
    fn convergence_judges_long_bins_one_by_one() {
        let bin = Nanos::from_secs(100);
        assert_eq!(judged(bin, (0..100).map(|_| Some([1, 9]))), None);
        assert_eq!(judged(bin, (0..100).map(|n| Some(if n < 4 { [1, 9] } else { [5, 5] }))), Some(bin * 4));
    }
}
