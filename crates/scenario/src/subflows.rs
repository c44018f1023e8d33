//! Connections of several subflows.

use narrows_cc::{MAX_PATHS_VIEW, schemes};
use narrows_routers::protocol::Explicit;

use crate::diagnostic::{Diagnostic, refuse};
use crate::schema::Flow;
use crate::schema::subflows::{Subflow, Subflows};

/// The subflows of entry `index`, each as a flow with the name of the table that states it. A plain flow has
/// one subflow.
pub(crate) fn each(flow: &Flow, index: usize, scheme: &schemes::Entry) -> Result<Vec<(Flow, String)>, Diagnostic> {
    let table = format!("flows.{index}");
    let key = |name: &str| format!("{table}.{name}");
    let Some(subflows) = &flow.subflows else {
        return match flow.scheduler {
            Some(_) => refuse(
                key("scheduler"),
                "without subflows there is nothing to schedule",
                "this key together with subflows",
            ),
            None => Ok(vec![(flow.clone(), table)]),
        };
    };
    let count = match subflows {
        Subflows::Count(count) => usize::try_from(*count).unwrap_or(usize::MAX),
        Subflows::Each(list) => list.len(),
    };
    if !(1..=MAX_PATHS_VIEW).contains(&count) {
        return refuse(key("subflows"), format!("`{count}` is out of range"), format!("1 to {MAX_PATHS_VIEW}"));
    }
    if flow.alternatives.is_some() {
        return refuse(
            key("alternatives"),
            "a multipath connection uses all its paths at once",
            "either alternatives or subflows",
        );
    }
    if scheme.rate_protocol.and_then(Explicit::named).is_some_and(|explicit| !explicit.negotiates()) {
        let message = format!("the header of `{}` leaves no room for subflows", scheme.info.name);
        let negotiating = Explicit::ALL.into_iter().filter(|explicit| explicit.negotiates());
        let names = negotiating.map(Explicit::router).collect::<Vec<_>>().join(", ");
        return refuse(key("scheme"), message, format!("a scheme without a header of its own, or {names}"));
    }
    Ok(match subflows {
        Subflows::Count(_) => vec![(flow.clone(), table); count],
        Subflows::Each(list) => {
            let each = |(nth, own): (usize, &Subflow)| {
                let route = own.route.clone().or_else(|| flow.route.clone());
                // The flow's reverse route does not match a subflow that states its own route.
                let reverse = match (&own.route, &own.reverse_route) {
                    (_, Some(reverse)) => Some(reverse.clone()),
                    (Some(_), None) => None,
                    (None, None) => flow.reverse_route.clone(),
                };
                let rtt = own.rtt.clone().or_else(|| flow.rtt.clone());
                let each = Flow { route, reverse_route: reverse, rtt, ..flow.clone() };
                (each, format!("{table}.subflows.{nth}"))
            };
            list.iter().enumerate().map(each).collect()
        }
    })
}
