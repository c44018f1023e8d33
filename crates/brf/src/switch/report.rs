//! How `status` and the log present a switch.

use narrows_cc::{Nanos, Rate};
use serde::Serialize;

use super::flows::News;
use super::maps::Counters;

/// Lateness of decisions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) most: f64,
}

/// Time-weighted mean and maximum of the backlog in bytes. A window ends after [`WINDOW`]; until then,
/// `read` returns the values of the previous window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueMean {
    at: Nanos,
    seconds: f64,
    byte_seconds: f64,
    most: u64,
    last: Option<(f64, u64)>,
}

/// Seconds of a window of [`QueueMean`].
const WINDOW: f64 = 1.0;

impl Lateness {
    pub(super) fn add(&mut self, seconds: f64) {
        self.count += 1;
        self.sum += seconds;
        self.most = self.most.max(seconds);
    }
}

impl QueueMean {
    /// An empty queue at this time.
    pub(super) fn from(at: Nanos) -> Self {
        Self { at, ..Self::default() }
    }

    /// Adds a backlog in bytes, which counts for the time since the last reading.
    pub(super) fn add(&mut self, at: Nanos, backlog: u64) {
        let elapsed = (at - self.at).as_secs_f64();
        self.at = at;
        self.seconds += elapsed;
        self.byte_seconds += backlog as f64 * elapsed;
        self.most = self.most.max(backlog);
        if self.seconds >= WINDOW {
            self.last = Some((self.byte_seconds / self.seconds, self.most));
            (self.seconds, self.byte_seconds, self.most) = (0.0, 0.0, 0);
        }
    }

    /// Mean and maximum in bytes.
    pub(super) fn read(&self) -> (f64, u64) {
        self.last.unwrap_or((self.byte_seconds / self.seconds.max(1e-9), self.most))
    }
}

/// A report for `status`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) time_s: f64,
    pub(super) rate_mbit_s: f64,
    pub(super) state: &'static str,
    pub(super) period_ms: f64,
    pub(super) allocations: u64,
    pub(super) reductions: u64,
    pub(super) late_mean_ms: f64,
    pub(super) late_most_ms: f64,
    pub(super) queue_mean_ms: f64,
    pub(super) queue_most_ms: f64,
    /// Flows for which the router's table had no space; `counters.refused` counts flows for which the kernel's table
    /// had no space.
    pub(super) flows_refused: u64,
    pub(super) control_refused: u64,
    pub(super) counters: Counters,
    pub(super) classes: Vec<ClassReport>,
    pub(super) flows: Vec<FlowReport>,
    pub(super) flows_total: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct ClassReport {
    pub(super) name: String,
    pub(super) rate_mbit_s: f64,
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) waiting: u64,
    pub(super) backlog_bytes: u64,
    pub(super) drops: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct FlowReport {
    pub(super) flow: String,
    pub(super) obeys: bool,
    pub(super) share_mbit_s: Option<f64>,
    pub(super) rtt_ms: f64,
    pub(super) bytes: u64,
    pub(super) written: u32,
}

pub(super) fn mbit(rate: Rate) -> f64 {
    rate.as_bytes_per_sec() as f64 * 8e-6
}

/// A line of the log.
pub(super) fn line(news: &News) -> String {
    match news {
        News::In { name, obeys: true, share } => {
            let share = share.map_or_else(String::new, |share| format!(", first share {:.2} Mbit/s", mbit(share)));
            format!("flow in: {name} obeys{share}")
        }
        News::In { name, .. } => format!("flow in: {name} (other)"),
        News::Stripped { name } => format!("option lost: {name} gets no rates and counts as other"),
        News::Out { name, bytes, seconds } => {
            format!("flow out: {name}, {:.3} MB in {seconds:.3} s", *bytes as f64 * 1e-6)
        }
    }
}
