//! Settings of real endpoints, derived from a plan.

use narrows_scenario::{FlowPlan, Plan};
use narrows_traffic::AppConfig;

/// Unsent bytes that a sender's socket may hold. The kernel sends these bytes even after the application pauses or
/// stops. So for plans in which an application pauses or stops, the limit is 10 ms of data on the slowest link.
pub fn unsent(plan: &Plan) -> u64 {
    const MOST: u64 = 1 << 20;
    const LEAST: u64 = 16 << 10;
    let pauses = |flow: &FlowPlan| {
        flow.stop.is_some_and(|stop| stop < plan.duration) || matches!(flow.app, AppConfig::OnOff { .. })
    };
    if !plan.flows.iter().any(pauses) {
        return MOST;
    }
    let rates = plan.links.iter().map(|link| link.config.capacity.mean_rate().as_bytes_per_sec());
    rates.min().map_or(MOST, |rate| rate / 100).clamp(LEAST, MOST)
}
