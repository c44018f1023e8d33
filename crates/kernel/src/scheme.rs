//! The scheme that controls a flow of the kernel's TCP.

use narrows_routers::protocol::Explicit;
use narrows_scenario::FlowPlan;

/// The scheme of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// A scheme of the kernel, by name.
    Kernel(String),
    /// A scheme of ours, over the shim.
    Ours,
    /// A scheme of ours, as a program that follows the rate negotiated by the hosts.
    Negotiated,
    /// A scheme of ours, as a program that receives rates in TCP options.
    Advised,
}

/// Whether a flow negotiates its rate.
pub(super) fn negotiates(flow: &FlowPlan) -> bool {
    flow.scheme.rate_protocol.and_then(Explicit::named).is_some_and(Explicit::negotiates)
}
