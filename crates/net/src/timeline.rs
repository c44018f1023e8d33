//! Loss and additional delay as step functions of time. In their text form, times are whole milliseconds since the
//! start, as in capacity traces.

use std::fmt;
use std::sync::Arc;

use narrows_units::Nanos;

const NANOS_PER_MS: u64 = 1_000_000;

/// A step function of time: values and the times from which they apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline<T> {
    steps: Arc<[(Nanos, T)]>,
    period: Option<Nanos>,
}

/// Fraction of packets lost, as a function of time.
pub type LossTrace = Timeline<f64>;

/// Delay in addition to the propagation delay, as a function of time.
pub type DelayTrace = Timeline<Nanos>;

/// A parse error; line numbers start at one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineError {
    /// Line number; zero if the error concerns the whole text.
    pub line: usize,
    /// The message.
    pub message: String,
}

impl fmt::Display for TimelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for TimelineError {}

fn refuse<T>(line: usize, message: impl Into<String>) -> Result<T, TimelineError> {
    Err(TimelineError { line, message: message.into() })
}

/// Returns the lines with content and their numbers; skips blank lines and comments that begin with `#`.
pub(crate) fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the words of a line, or an error unless there are exactly `N` words.
fn words<'a, const N: usize>(line: usize, content: &'a str, expected: &str) -> Result<[&'a str; N], TimelineError> {
    let words: Vec<&str> = content.split_whitespace().collect();
    words.try_into().or_else(|_| refuse(line, format!("found `{content}`; expected {expected}")))
}

fn milliseconds(line: usize, word: &str) -> Result<Nanos, TimelineError> {
    // A time above 115 days is certainly an input error; the bound also prevents overflow of sums.
    match word.parse::<u64>() {
        Ok(ms) if ms <= 10_000_000_000 => Ok(Nanos::from_millis(ms)),
        Ok(_) => refuse(line, format!("found {word}; expected at most 10000000000 ms")),
        Err(_) => refuse(line, format!("found `{word}`; expected a time in whole milliseconds")),
    }
}

impl<T: Copy + Default> Timeline<T> {
    /// Creates a timeline from steps in ascending time order. Each value applies from the time of its step on; before
    /// the first step the value is zero.
    pub fn new(steps: Vec<(Nanos, T)>) -> Self {
        debug_assert!(steps.is_sorted_by(|a, b| a.0 < b.0), "times ascend");
        Self { steps: steps.into(), period: None }
    }

    /// Returns the same timeline, repeated with this `period`; steps at or after `period` are never reached.
    #[must_use]
    pub fn repeating(&self, period: Nanos) -> Self {
        Self { steps: Arc::clone(&self.steps), period: Some(period) }
    }

    /// The steps: each is a time and the value that applies from that time on.
    pub fn steps(&self) -> &[(Nanos, T)] {
        &self.steps
    }

    /// Time of the last step.
    pub fn end(&self) -> Nanos {
        self.steps.last().map_or(Nanos::ZERO, |step| step.0)
    }

    /// The value at `now`.
    #[inline]
    pub fn at(&self, now: Nanos) -> T {
        let offset = match self.period {
            Some(period) if !period.is_zero() => Nanos::from_nanos(now.as_nanos() % period.as_nanos()),
            _ => now,
        };
        match self.steps.partition_point(|step| step.0 <= offset) {
            0 => T::default(),
            passed => self.steps[passed - 1].1,
        }
    }
}

impl LossTrace {
    /// Reads lines of `start_ms end_ms share`: from `start_ms` until just before `end_ms` each packet is lost with
    /// probability `share`, 0 to 1. Intervals are in ascending order and do not overlap; between them no packet is
    /// lost. Blank lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn parse(text: &str) -> Result<Self, TimelineError> {
        let mut steps: Vec<(Nanos, f64)> = Vec::new();
        for (line, content) in content_lines(text) {
            let [start, end, share] = words(line, content, "`start_ms end_ms share`")?;
            let (from, to) = (milliseconds(line, start)?, milliseconds(line, end)?);
            let share = match share.parse::<f64>() {
                Ok(share) if (0.0..=1.0).contains(&share) => share,
                _ => return refuse(line, format!("found `{share}`; expected a share from 0 to 1")),
            };
            if to <= from {
                return refuse(line, format!("the interval ends at {end}; expected an end after {start}"));
            }
            match steps.last() {
                Some(&(before, _)) if from < before => {
                    let before = before.as_nanos() / NANOS_PER_MS;
                    return refuse(
                        line,
                        format!("found {start}; expected a start from {before} on, where the last one ends"),
                    );
                }
                // This interval starts at the end of the previous interval, so the step back to zero is removed.
                Some(&(before, _)) if from == before => _ = steps.pop(),
                _ => {}
            }
            steps.push((from, share));
            steps.push((to, 0.0));
        }
        if steps.is_empty() {
            return refuse(0, "the loss trace is empty; expected lines of `start_ms end_ms share`");
        }
        Ok(Self::new(steps))
    }

    /// Formats the trace as text for [`LossTrace::parse`].
    pub fn to_text(&self) -> String {
        let spans = self.steps.windows(2).filter(|pair| pair[0].1 > 0.0);
        let line = |pair: &[(Nanos, f64)]| {
            let ms = |at: Nanos| at.as_nanos() / NANOS_PER_MS;
            format!("{} {} {}\n", ms(pair[0].0), ms(pair[1].0), pair[0].1)
        };
        let text: String = spans.map(line).collect();
        // `parse` rejects empty text, so a trace without loss becomes an interval with a share of zero.
        if text.is_empty() { "0 1 0\n".to_owned() } else { text }
    }
}

impl DelayTrace {
    /// Reads lines of `at_ms delay_ms`: from `at_ms` on the delay is `delay_ms` longer than the propagation delay.
    /// `delay_ms` may have decimals. Times are in ascending order. Blank lines and lines that begin with `#` are
    /// skipped.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn parse(text: &str) -> Result<Self, TimelineError> {
        let mut steps: Vec<(Nanos, Nanos)> = Vec::new();
        for (line, content) in content_lines(text) {
            let [at, delay] = words(line, content, "`at_ms delay_ms`")?;
            let from = milliseconds(line, at)?;
            let delay = match delay.parse::<f64>() {
                Ok(ms) if (0.0..=60_000.0).contains(&ms) => Nanos::from_nanos((ms * NANOS_PER_MS as f64 + 0.5) as u64),
                _ => return refuse(line, format!("found `{delay}`; expected a delay from 0 to 60000 ms")),
            };
            if let Some(&(before, _)) = steps.last()
                && from <= before
            {
                let before = before.as_nanos() / NANOS_PER_MS;
                return refuse(line, format!("found {at} after {before}; expected times in ascending order"));
            }
            steps.push((from, delay));
        }
        if steps.is_empty() {
            return refuse(0, "the delay trace is empty; expected lines of `at_ms delay_ms`");
        }
        Ok(Self::new(steps))
    }

    /// Formats the trace as text for [`DelayTrace::parse`].
    pub fn to_text(&self) -> String {
        let line = |&(at, delay): &(Nanos, Nanos)| {
            format!("{} {}\n", at.as_nanos() / NANOS_PER_MS, delay.as_nanos() as f64 / NANOS_PER_MS as f64)
        };
        self.steps.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Loss lasts from the start of an interval until just before its end.
    #[test]
    fn loss_interval_includes_start_and_excludes_end() {
        let trace = LossTrace::parse("# bursts\n10 20 0.5\n\n20 25 1\n40 50 0.25\n").expect("valid");
        let shares = [0, 9, 10, 19, 20, 24, 25, 39, 40, 49, 50, 1000].map(|at| trace.at(ms(at)));
        assert_eq!(shares, [0.0, 0.0, 0.5, 0.5, 1.0, 1.0, 0.0, 0.0, 0.25, 0.25, 0.0, 0.0]);
        assert_eq!(trace.at(ms(10) - Nanos::from_nanos(1)), 0.0);
        assert_eq!(LossTrace::parse(&trace.to_text()), Ok(trace.clone()));
        let again = trace.repeating(ms(45));
        assert_eq!([55, 65, 85, 90, 100].map(|at| again.at(ms(at))), [0.5, 1.0, 0.25, 0.0, 0.5]);
    }

    /// An additional delay applies until the next step.
    #[test]
    fn delay_holds_until_the_next_step() {
        let trace = DelayTrace::parse("5 2.5\n30 0\n60 10\n").expect("valid");
        let delays = [0, 4, 5, 29, 30, 60, 9000].map(|at| trace.at(ms(at)).as_nanos() / 1000);
        assert_eq!(delays, [0, 0, 2_500, 2_500, 0, 10_000, 10_000]);
        assert_eq!(DelayTrace::parse(&trace.to_text()), Ok(trace.clone()));
        assert_eq!(trace.repeating(ms(60)).at(ms(64)), Nanos::ZERO);
        assert_eq!(trace.repeating(ms(60)).at(ms(66)), Nanos::from_micros(2_500));
    }

    /// Error messages name the line, the text found and the text expected.
    #[test]
    fn errors_name_line_found_and_expected() {
        let loss = |text| LossTrace::parse(text).expect_err("invalid").to_string();
        assert_eq!(loss("#\n"), "the loss trace is empty; expected lines of `start_ms end_ms share`");
        assert_eq!(loss("1 2 0\n3 4\n"), "line 2: found `3 4`; expected `start_ms end_ms share`");
        assert_eq!(loss("1 2.5 0\n"), "line 1: found `2.5`; expected a time in whole milliseconds");
        assert_eq!(loss("1 2 1.5\n"), "line 1: found `1.5`; expected a share from 0 to 1");
        assert_eq!(loss("1 2 nan\n"), "line 1: found `nan`; expected a share from 0 to 1");
        assert_eq!(loss("\n5 5 1\n"), "line 2: the interval ends at 5; expected an end after 5");
        let overlap = "line 2: found 8; expected a start from 9 on, where the last one ends";
        assert_eq!(loss("5 9 1\n8 12 1\n"), overlap);
        let delay = |text| DelayTrace::parse(text).expect_err("invalid").to_string();
        assert_eq!(delay(""), "the delay trace is empty; expected lines of `at_ms delay_ms`");
        assert_eq!(delay("0 1\n4 -1\n"), "line 2: found `-1`; expected a delay from 0 to 60000 ms");
        assert_eq!(delay("4 1\n4 2\n"), "line 2: found 4 after 4; expected times in ascending order");
        assert_eq!(delay("4\n"), "line 1: found `4`; expected `at_ms delay_ms`");
        assert_eq!(delay("99999999999 1\n"), "line 1: found 99999999999; expected at most 10000000000 ms");
    }
}
