//! Capacity traces in mahimahi format: one delivery opportunity of an MTU (1500 bytes) per line, as a time in whole
//! milliseconds since the start; the last line is also the period after which the trace repeats.

use std::fmt;

use narrows_cc::{Bytes, Nanos, Rate};

/// What one opportunity delivers.
pub const OPPORTUNITY_BYTES: u64 = 1500;

/// A recorded capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityTrace {
    /// Opportunities in milliseconds, ascending; several may share one millisecond.
    pub opportunities_ms: Vec<u64>,
}

/// Why a text is no capacity trace. Lines count from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// It holds no opportunity.
    Empty,
    /// A line is not a whole number of milliseconds.
    NotANumber {
        /// Which line.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// A line names an earlier time than the one before.
    NotSorted {
        /// Which line.
        line: usize,
        /// The time there, in milliseconds.
        found: u64,
        /// The time before.
        before: u64,
    },
    /// The last time, which is the period, is zero.
    ZeroPeriod {
        /// The last line.
        line: usize,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the capacity trace is empty; expected one time in milliseconds per line"),
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
    /// Reads the text of a trace. Blank lines are skipped.
    ///
    /// # Errors
    /// If it is empty, unsorted, no list of whole numbers, or has no period.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut opportunities_ms = Vec::new();
        let mut last_line = 0;
        for (index, content) in text.lines().enumerate() {
            let (line, content) = (index + 1, content.trim());
            if content.is_empty() {
                continue;
            }
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

    /// The mean capacity over one period.
    pub fn mean_rate(&self) -> Rate {
        let period = Nanos::from_millis(self.opportunities_ms.last().copied().unwrap_or(0));
        Bytes::new(self.opportunities_ms.len() as u64 * OPPORTUNITY_BYTES).per(period)
    }
}
