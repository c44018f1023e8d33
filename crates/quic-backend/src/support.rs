//! Limits of the QUIC backend. Plans beyond these limits are refused with a reason.

use narrows_host::HostError;
use narrows_quic::noq::{self, Factory};
use narrows_quic::{Scheme, Stack};
use narrows_scenario::{FlowPlan, Plan};
use narrows_tcp::TcpConfig;

/// Maximum number of flows of a run, each with two sockets.
const MAX_FLOWS: usize = 20_000;

/// Options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Run the controllers of the noq library instead of our schemes of the same name.
    pub own: bool,
    /// Run on loopback even if network namespaces can be created.
    pub loopback: bool,
}

/// Refuses links and flows of kinds that this backend does not support.
///
/// # Errors
/// The first problem.
pub(super) fn check(plan: &Plan, options: &Options) -> Result<(), HostError> {
    let refused = |text: String| Err(HostError::Unsupported(text));
    if let Some(connection) = plan.connections.first() {
        return refused(format!("`{}` has several subflows; accepted on quic: flows with one path", connection.label));
    }
    if let Some(link) = plan.links.iter().find(|link| link.router.is_some()) {
        return refused(format!(
            "link `{}` has a router algorithm, and QUIC hides its headers from routers; accepted on quic: links\
             \x20without one",
            link.name
        ));
    }
    if plan.flows.is_empty() || plan.flows.len() > MAX_FLOWS {
        return refused(format!("the scenario has {} flows; accepted on quic: 1 to {MAX_FLOWS}", plan.flows.len()));
    }
    for (number, flow) in plan.flows.iter().enumerate() {
        if flow.datagrams.is_some() {
            return refused(format!("`{}` uses DCCP; accepted on quic: flows of a stream", flow.label));
        }
        controller(flow, number, plan.seed, options)?;
        settings(flow)?;
    }
    Ok(())
}

/// Refuses TCP settings without a counterpart in QUIC.
fn settings(flow: &FlowPlan) -> Result<(), HostError> {
    let (own, plain) = (&flow.tcp, TcpConfig::default());
    let accepted = TcpConfig {
        initial_window: own.initial_window,
        receive_window: own.receive_window,
        receive_autotuning: own.receive_autotuning,
        idle: own.idle,
        ecn: own.ecn,
        ..plain
    };
    match own.difference(&accepted) {
        None => Ok(()),
        Some(key) => Err(HostError::Unsupported(format!(
            "tcp.{key} of `{}` is not a setting of QUIC; accepted on quic: its default of the profile linux, and any\
             \x20tcp.initial_window, receive_window, receive_autotuning, idle_restart and ecn",
            flow.label
        ))),
    }
}

/// The controller of flow `number`, and the name of its scheme.
///
/// # Errors
/// If noq cannot run the scheme.
pub(super) fn controller(
    flow: &FlowPlan,
    number: usize,
    seed: u64,
    options: &Options,
) -> Result<(Factory, String), HostError> {
    let name = flow.scheme.info.name;
    let refused = |text: String| Err(HostError::Unsupported(text));
    if options.own {
        let accepted = noq::OWN.join(", ");
        let Some(own) = noq::own(name) else {
            return refused(format!(
                "`{}`: noq has no controller `{name}` of its own; accepted: {accepted}",
                flow.label
            ));
        };
        if flow.params.changed().next().is_some() {
            return refused(format!(
                "`{}`: noq's own `{name}` has no parameters; accepted: {accepted} without parameters, or --on quic",
                flow.label
            ));
        }
        return Ok((own, format!("noq:{name}")));
    }
    let scheme = Scheme::of(flow.scheme, Stack::Noq)
        .and_then(|scheme| scheme.params(flow.params.clone()))
        .map_err(|reason| HostError::Unsupported(format!("`{}`: {reason}", flow.label)))?
        .seed(seed, number as u64)
        .initial_window(flow.tcp.initial_window)
        .idle(flow.tcp.idle);
    Ok((noq::factory(scheme), format!("narrows:{name}")))
}
