//! Selection of the transport that carries a scheme.

use narrows_cc::schemes;
use narrows_dccp::Ccid;

use crate::schema::Flow;
use crate::schema::value::Protocol;

/// The transport of a flow: the stated transport, or by default the transport for which the flow's scheme is designed.
pub(crate) fn protocol(flow: &Flow, scheme: &schemes::Entry) -> Protocol {
    stated_or_made_for(flow.protocol, scheme)
}

/// The stated transport, or by default the transport for which the scheme is designed.
pub(crate) fn stated_or_made_for(stated: Option<Protocol>, scheme: &schemes::Entry) -> Protocol {
    let made_for_datagrams = Ccid::of(scheme) != Ccid::Other;
    stated.unwrap_or(if made_for_datagrams { Protocol::Dccp } else { Protocol::Tcp })
}

/// Reason why DCCP cannot carry flows of this scheme, if any.
pub(crate) fn unable(scheme: &schemes::Entry) -> Option<&'static str> {
    if scheme.rate_protocol.is_some() {
        Some("its header exists for TCP only")
    } else {
        scheme.coupled.then_some("it couples subflows, which DCCP does not have")
    }
}

/// Names of the schemes that DCCP can carry.
pub(crate) fn carried() -> impl Iterator<Item = &'static str> + Clone {
    schemes::ALL
        .iter()
        .filter(|entry| unable(entry).is_none())
        .flat_map(|entry| [entry.info.name].into_iter().chain(entry.info.aliases.iter().copied()))
}
