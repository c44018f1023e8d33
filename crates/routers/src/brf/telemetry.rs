//! The telemetry of BRF.

use super::Brf;
use crate::{Reading, TelemetrySink};

impl Brf {
    /// Reports state, rates and counters.
    pub(super) fn report(&self, sink: TelemetrySink<'_>) {
        sink("state", Reading::State(self.state.name()));
        sink("capacity", Reading::Rate(self.capacity));
        sink("c_brf", Reading::Rate(self.classes.brf));
        sink("allocated", Reading::Rate(self.shares.allocated()));
        sink("used", Reading::Rate(self.shares.used()));
        sink("brf_flows", Reading::count(self.shares.count() as u64));
        sink("other_flows", Reading::count(self.others as u64));
        sink("half_open", Reading::count(self.half_open.iter().sum::<usize>() as u64));
        sink("table", Reading::count(self.table.len() as u64));
        sink("table_memory", Reading::Bytes(self.table.memory() as f64));
        sink("period", Reading::Time(self.period.as_secs_f64()));
        sink("learned", Reading::count(self.learned.taught()));
        sink("refused", Reading::count(self.counts.refused));
        sink("expired", Reading::count(self.counts.expired));
        sink("allocations", Reading::count(self.counts.allocations));
        sink("reductions", Reading::count(self.counts.reductions));
        sink("announced", Reading::count(self.counts.announced));
        sink("written", Reading::count(self.counts.written));
    }
}
