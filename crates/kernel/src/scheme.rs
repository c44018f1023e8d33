//! Which scheme decides for a flow of the kernel's TCP.

use narrows_routers::protocol::Explicit;
use narrows_scenario::FlowPlan;

/// The scheme of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// The kernel's own, by name.
    Kernel(String),
    /// Ours, over the shim.
    Ours,
    /// Ours, as a program, at the rate that the hosts negotiate.
    Negotiated,
    /// Ours, as a program that receives rates in TCP options.
    Advised,
}

/// Whether a flow negotiates its rate.
pub(super) fn negotiates(flow: &FlowPlan) -> bool {
    flow.scheme.rate_protocol.and_then(Explicit::named).is_some_and(Explicit::negotiates)
}
