//! Capacity traces in mahimahi format. Each line is a delivery opportunity of one MTU (1500 bytes), given as its time
//! in whole milliseconds since the start. The time on the last line is also the period of the trace.

use std::fmt::{self, Write as _};

use narrows_units::{Bytes, Nanos, Rate};

use crate::timeline::content_lines;

/// Bytes per opportunity.
pub const OPPORTUNITY_BYTES: u64 = 1500;

const NANOS_PER_MS: u64 = 1_000_000;

/// A recorded capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityTrace {
    /// Times of the opportunities in milliseconds, ascending; several opportunities may share one millisecond.
    pub opportunities_ms: Vec<u64>,
}

/// A parse error; line numbers start at one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// The trace has no opportunity.
    Empty,
    /// A line is not a whole number of milliseconds.
    NotANumber {
        /// The line number.
        line: usize,
        /// The text found.
        found: String,
    },
    /// A time is earlier than the previous time.
    NotSorted {
        /// The line number.
        line: usize,
        /// The time found, in milliseconds.
        found: u64,
        /// The previous time.
        before: u64,
    },
    /// The last time, which is the period, is zero.
    ZeroPeriod {
        /// The number of the last line.
        line: usize,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                write!(f, "the capacity trace is empty; expected one time in milliseconds per line")
            }
            Self::NotANumber { line, found } => {
                write!(f, "line {line}: found `{found}`; expected a time in whole milliseconds")
            }
            Self::NotSorted { line, found, before } => {
                write!(f, "line {line}: found {found} after {before}; expected times in ascending order")
            }
            Self::ZeroPeriod { line } => {
                write!(f, "line {line}: the last time is 0; expected the period of the trace in milliseconds")
            }
        }
    }
}

impl std::error::Error for TraceError {}

impl CapacityTrace {
    /// Reads the text of a trace. Blank lines and lines that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut opportunities_ms = Vec::new();
        let mut last_line = 0;
        for (line, content) in content_lines(text) {
            let not_a_number = |_| TraceError::NotANumber { line, found: content.to_owned() };
            let found: u64 = content.parse().map_err(not_a_number)?;
            if let Some(&before) = opportunities_ms.last()
                && found < before
            {
                return Err(TraceError::NotSorted { line, found, before });
            }
            opportunities_ms.push(found);
            last_line = line;
        }
        match opportunities_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::ZeroPeriod { line: last_line }),
            Some(_) => Ok(Self { opportunities_ms }),
        }
    }

    /// Formats the trace as text for [`CapacityTrace::parse`] and mahimahi.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(7 * self.opportunities_ms.len());
        for ms in &self.opportunities_ms {
            // Writing to a string cannot fail.
            _ = writeln!(text, "{ms}");
        }
        text
    }

    fn period(&self) -> u64 {
        self.opportunities_ms.last().map_or(0, |&ms| ms * NANOS_PER_MS)
    }

    /// Period of the trace.
    pub fn period_duration(&self) -> Nanos {
        Nanos::from_nanos(self.period())
    }

    /// Mean capacity over one period.
    pub fn mean_rate(&self) -> Rate {
        Bytes::new(self.opportunities_ms.len() as u64 * OPPORTUNITY_BYTES).per(self.period_duration())
    }

    /// Time of opportunity `n`, counted from zero over all repetitions.
    pub(crate) fn time_of(&self, n: u64) -> Nanos {
        let count = self.opportunities_ms.len() as u64;
        let (round, index) = (n / count, (n % count) as usize);
        Nanos::from_nanos(round * self.period() + self.opportunities_ms[index] * NANOS_PER_MS)
    }

    /// Number of opportunities up to and including `now`, which is also the number of the next opportunity.
    pub(crate) fn number_after(&self, now: Nanos) -> u64 {
        // A repetition ends with an opportunity, so at least one opportunity remains in the current repetition.
        let (round, offset) = (now.as_nanos() / self.period(), now.as_nanos() % self.period());
        let passed = self.opportunities_ms.partition_point(|&ms| ms * NANOS_PER_MS <= offset);
        round * self.opportunities_ms.len() as u64 + passed as u64
    }

    /// Capacity in bytes after `from` and up to `to`.
    pub fn bytes_between(&self, from: Nanos, to: Nanos) -> Bytes {
        Bytes::new((self.number_after(to) - self.number_after(from.min(to))) * OPPORTUNITY_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opportunities repeat with a period equal to the last time of the trace.
    #[test]
    fn opportunities_repeat_with_last_time_as_period() {
        let trace = CapacityTrace::parse("# recorded\n0\n2\r\n2\n\n5\n").expect("valid");
        assert_eq!(trace.opportunities_ms, [0, 2, 2, 5]);
        let times: Vec<_> = (0..9).map(|n| trace.time_of(n).as_nanos() / 1_000_000).collect();
        assert_eq!(times, [0, 2, 2, 5, 5, 7, 7, 10, 10]);
        // Four opportunities of 1500 bytes in 5 ms are 1.2 MB/s.
        assert_eq!(trace.mean_rate(), Rate::from_bytes_per_sec(1_200_000));
        let ms = Nanos::from_millis;
        let after: Vec<_> = [0, 1, 2, 4, 5, 6, 7, 10].map(|t| trace.number_after(ms(t))).to_vec();
        assert_eq!(after, [1, 1, 3, 3, 5, 5, 7, 9]);
        assert_eq!(trace.bytes_between(ms(0), ms(5)), Bytes::new(4 * 1500));
        assert_eq!(trace.bytes_between(ms(1), ms(2)), Bytes::new(2 * 1500));
        assert_eq!(trace.bytes_between(ms(7), ms(1)), Bytes::ZERO);
    }

    /// A long recording is read completely and repeats.
    #[test]
    fn long_recording_is_read_whole_and_repeats() {
        // Ten minutes at 96 Mbit/s: eight opportunities per millisecond.
        let text: String = (1..=600_000u64).map(|ms| format!("{ms}\n").repeat(8)).collect();
        let trace = CapacityTrace::parse(&text).expect("valid");
        assert_eq!(trace.opportunities_ms.len(), 4_800_000);
        assert_eq!(trace.mean_rate(), Rate::from_mbit_per_sec(96.0));
        assert_eq!(trace.time_of(4_800_000), Nanos::from_millis(600_001));
        assert_eq!(CapacityTrace::parse(&trace.to_text()), Ok(trace));
    }

    /// Error messages name the line, the text found and the text expected.
    #[test]
    fn errors_name_line_found_and_expected() {
        let message = |text| CapacityTrace::parse(text).expect_err("invalid").to_string();
        assert_eq!(message("\n\n"), "the capacity trace is empty; expected one time in milliseconds per line");
        assert_eq!(message("1\n\n2.5\n"), "line 3: found `2.5`; expected a time in whole milliseconds");
        assert_eq!(message("1\n-2\n"), "line 2: found `-2`; expected a time in whole milliseconds");
        assert_eq!(message("1\n5\n4\n"), "line 3: found 4 after 5; expected times in ascending order");
        assert_eq!(message("0\n0\n\n"), "line 2: the last time is 0; expected the period of the trace in milliseconds");
    }
}
