//! Limits of the kernel backend: plans that need more are refused with a reason.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use narrows_cc::{EcnNeed, IdleRule};
use narrows_emulation::unsent;
use narrows_host::HostError;
use narrows_host::namespace::{self, HostConfig};
use narrows_programs::{Program, offered};
use narrows_routers::protocol::Explicit;
use narrows_scenario::{FlowPlan, LinkPlan, Plan};
use narrows_tcp::TcpConfig;

use crate::options::Options;
use crate::scheme::{Scheme, negotiates};
use crate::{rates, shim};

/// Refuses kinds of links and flows that the kernel lacks.
///
/// # Errors
/// The first unsupported link or flow.
pub(super) fn kinds(plan: &Plan, options: &Options) -> Result<(), HostError> {
    if let Some(connection) = plan.connections.first() {
        return Err(HostError::Unsupported(format!(
            "`{}` has several subflows; accepted on the kernel: flows with one path",
            connection.label
        )));
    }
    let branches = |flow: &&FlowPlan| negotiates(flow) && !flow.alternates.is_empty();
    if let Some(flow) = plan.flows.iter().find(branches) {
        return Err(HostError::Unsupported(format!(
            "`{}` has alternate paths; accepted on the kernel: flows with one path",
            flow.label
        )));
    }
    let is_carried = |link: &LinkPlan| {
        let router = link.router.as_ref().and_then(|router| Explicit::named(router.entry.info.name));
        router.is_none_or(|router| router.negotiates() || rates::advises(router))
    };
    if let Some(link) = plan.links.iter().find(|link| link.router.is_some() && options.shim) {
        return Err(HostError::Unsupported(format!(
            "link `{}` has a router algorithm, which schemes over the shim do not hear; accepted: --on kernel, or \
             links without one",
            link.name
        )));
    }
    if let Some(link) = plan.links.iter().find(|link| !is_carried(link)) {
        return Err(HostError::Unsupported(format!(
            "link `{}` has the router algorithm `{}`, which reads headers that the kernel does not write; accepted on the\
             \x20kernel: algorithms that negotiate by messages, those whose rates fit a TCP option of 16 bits, or none",
            link.name,
            link.router.as_ref().map_or("", |router| router.entry.info.name)
        )));
    }
    match plan.flows.iter().find(|flow| flow.datagrams.is_some()) {
        Some(flow) => Err(HostError::Unsupported(format!(
            "`{}` uses DCCP, which this kernel lacks; accepted on the kernel: TCP",
            flow.label
        ))),
        None => Ok(()),
    }
}

/// Bytes of IP and TCP headers without options.
const PLAIN_HEADER: u16 = 40;
/// Packet size that every IPv4 host accepts (RFC 791).
const LEAST_MTU: u16 = 576;

/// The flows' schemes, in order.
///
/// # Errors
/// The first flow that the kernel cannot run.
pub(super) fn schemes(plan: &Plan, options: &Options) -> Result<Vec<Scheme>, HostError> {
    let offered = offered();
    let found: Vec<_> = plan.flows.iter().map(|flow| scheme(flow, &offered, options)).collect::<Result<_, _>>()?;
    let mut advised = plan.flows.iter().zip(&found).filter(|(_, found)| **found == Scheme::Advised);
    if let Some((first, _)) = advised.next()
        && let Some((other, _)) = advised.find(|(flow, _)| !flow.params.changed().eq(first.params.changed()))
    {
        return Err(HostError::Unsupported(format!(
            "parameters of `{}` differ between `{}` and `{}`; accepted on the kernel: one value for all flows",
            first.scheme.info.name, first.label, other.label
        )));
    }
    let initial = TcpConfig::default().initial_window;
    match plan.flows.iter().zip(&found).find(|(flow, found)| {
        // The program limits a flow to the default initial window until the first decision.
        **found == Scheme::Ours && flow.tcp.initial_window != initial
    }) {
        Some((flow, _)) => Err(HostError::Unsupported(format!(
            "tcp.initial_window = {} of `{}`, whose scheme is ours; accepted over the shim: {initial}",
            flow.tcp.initial_window, flow.label
        ))),
        None => Ok(found),
    }
}

fn scheme(flow: &FlowPlan, offered: &[String], options: &Options) -> Result<Scheme, HostError> {
    marks(flow)?;
    let info = flow.scheme.info;
    let routed = match flow {
        _ if options.shim => None,
        _ if rates::is_advised(flow.scheme) => Some(Scheme::Advised),
        _ => negotiates(flow).then_some(Scheme::Negotiated),
    };
    if let Some(scheme) = routed {
        return match shim::missing() {
            None => Ok(scheme),
            Some(missing) => Err(HostError::Unsupported(format!(
                "`{}`: `{}` needs its program in the kernel, and {missing}; accepted: {}",
                flow.label,
                info.name,
                offered.join(", ")
            ))),
        };
    }
    // A program of ours has the name of its scheme with `_` for `-` (`narrows kernel load`).
    let program = info.name.replace('-', "_");
    let mut names = [info.name].into_iter().chain(info.aliases.iter().copied()).chain([program.as_str()]);
    let own = names.find(|name| offered.iter().any(|own| own == name));
    let name = match (own, shim::missing()) {
        (Some(name), _) if !options.shim => name,
        (_, None) => return Ok(Scheme::Ours),
        (_, Some(missing)) => {
            let lack = if own.is_some() { "our own" } else { "this kernel has no" };
            return Err(HostError::Unsupported(format!(
                "`{}`: {lack} scheme `{}`, and {missing}; accepted: {}",
                flow.label,
                info.name,
                offered.join(", ")
            )));
        }
    };
    if flow.params.changed().next().is_some() {
        return Err(HostError::Unsupported(format!(
            "`{}`: the kernel's own `{name}` has no parameters; accepted: the scheme without parameters (those of a\
             \x20program are set by `narrows kernel load`), or --on shim",
            flow.label
        )));
    }
    Ok(Scheme::Kernel(name.to_owned()))
}

/// Refuses schemes that need every mark, which receivers on this kernel do not report.
fn marks(flow: &FlowPlan) -> Result<(), HostError> {
    if flow.scheme.ecn == EcnNeed::Nothing || !flow.tcp.ecn_precise {
        return Ok(());
    }
    Err(HostError::Unsupported(format!(
        "`{}`: `{}` needs every mark, and receivers on this kernel echo marks once per round trip; accepted on the\
         \x20kernel: schemes without ECN, or tcp.ecn_precise = false",
        flow.label, flow.scheme.info.name
    )))
}

/// The hosts of senders and of receivers.
///
/// # Errors
/// The first setting of the transport that the kernel does not have, or that differs between flows.
pub(super) fn hosts(plan: &Plan) -> Result<(HostConfig, HostConfig), HostError> {
    let Some(first) = plan.flows.first() else {
        return Err(HostError::Unsupported("the scenario has no flows".to_owned()));
    };
    for flow in &plan.flows {
        reachable(flow)?;
        settable(&flow.tcp, flow.scheme.ecn != EcnNeed::Nothing)?;
        if let Some(key) = flow.tcp.difference(&first.tcp) {
            return Err(HostError::Unsupported(format!(
                "tcp.{key} differs between flows; accepted on the kernel: one value for all flows"
            )));
        }
    }
    let tcp = &first.tcp;
    let flag = |on: bool| u8::from(on).to_string();
    // A receive buffer that Linux tunes begins at Linux's default size, and payload may use 5/8 of the maximum size.
    let tuned = tcp.receive_autotuning;
    let largest = tcp.receive_window.as_u64();
    let (first, largest) = if tuned { (131_072, largest * 8 / 5) } else { (largest, largest) };
    let mut sysctls = BTreeMap::from([
        ("ipv4/tcp_no_metrics_save", flag(true)),
        ("ipv4/tcp_sack", flag(tcp.sack)),
        ("ipv4/tcp_timestamps", flag(tcp.timestamps)),
        // tcp_recovery = 1 enables RACK; tcp_early_retrans = 3 enables tail-loss probes.
        ("ipv4/tcp_recovery", flag(tcp.rack)),
        ("ipv4/tcp_early_retrans", if tcp.tlp { "3" } else { "0" }.to_owned()),
        ("ipv4/tcp_ecn", flag(tcp.ecn)),
        ("ipv4/tcp_slow_start_after_idle", flag(tcp.idle == IdleRule::Linux)),
        ("ipv4/tcp_rmem", format!("4096 {} {largest}", first.min(largest))),
        ("ipv4/tcp_moderate_rcvbuf", flag(tuned)),
        ("ipv4/tcp_notsent_lowat", unsent(plan).to_string()),
    ]);
    sysctls.extend(namespace::COMMON.map(|(name, value)| (name, value.to_owned())));
    let host = |address: fn(&FlowPlan) -> u32| {
        let mut addresses: Vec<Ipv4Addr> = plan.flows.iter().map(|flow| Ipv4Addr::from(address(flow))).collect();
        addresses.sort_unstable();
        addresses.dedup();
        // Linux fills packets up to the MTU, so the MTU sets the segment size.
        let mtu = tcp.segment + tcp.header;
        HostConfig { mtu, addresses, initial_window: tcp.initial_window, burst: None, sysctls: sysctls.clone() }
    };
    let (senders, receivers) = (host(|flow| flow.tuple.source), host(|flow| flow.tuple.destination));
    if let Some(both) = senders.addresses.iter().find(|own| receivers.addresses.contains(own)) {
        return Err(HostError::Unsupported(format!(
            "{both} is the address of a sender and of a receiver; accepted on the kernel: different ones"
        )));
    }
    Ok((senders, receivers))
}

/// Refuses addresses that cannot belong to a host.
fn reachable(flow: &FlowPlan) -> Result<(), HostError> {
    for (key, address) in [("source", flow.tuple.source), ("destination", flow.tuple.destination)] {
        let address = Ipv4Addr::from(address);
        let [first, ..] = address.octets();
        if first == 0 || address.is_loopback() || address.is_multicast() || address.is_broadcast() {
            return Err(HostError::Unsupported(format!(
                "flows.{key} = {address} of `{}`; accepted on the kernel: an address of a host, such as 10.0.0.1",
                flow.label
            )));
        }
    }
    if flow.tuple.destination_port == 0 {
        return Err(HostError::Unsupported(format!(
            "flows.port = 0 of `{}`; accepted on the kernel: 1 to 65535",
            flow.label
        )));
    }
    Ok(())
}

/// Upper bound in segments on the bursts of flows whose schemes are BPF programs; `None` without such flows.
///
/// A kernel may skip a program: while it protects a process, it skips programs in softirqs that interrupt the process.
/// In place of the program's number of segments it then uses an arbitrary number, and the next burst would be all of
/// cwnd. The bound is the largest burst that Linux itself chooses (`tcp_tso_autosize`: about a millisecond of data, and
/// more at the shortest round-trip times), at a pacing rate of the fastest link's mean rate times the highest gain of a
/// scheme.
pub(super) fn largest_burst(plan: &Plan, schemes: &[Scheme]) -> Option<u32> {
    const MOST: u64 = 1 << 16;
    const LEAST: u64 = 2;
    // Highest gain in quarters. Schemes that follow rates of the network pace at most at these rates; their fallback,
    // the kernel's CUBIC, paces with a gain of 1.2; BBR's Startup paces with a gain of 2.9.
    let gain = |scheme: &Scheme| match scheme {
        Scheme::Kernel(name) if !Program::is_named(name) => None,
        Scheme::Negotiated | Scheme::Advised => Some(5),
        Scheme::Kernel(_) | Scheme::Ours => Some(12),
    };
    let quarters = schemes.iter().filter_map(gain).max()?;
    let rates = plan.links.iter().map(|link| link.config.capacity.mean_rate().as_bytes_per_sec());
    let paced = rates.max().map_or(MOST, |rate| (rate.saturating_mul(quarters) / 4) >> 10);
    let shortest = plan.flows.iter().map(|flow| flow.base_rtt.as_nanos() / 1000).min().unwrap_or(0);
    let near = MOST.checked_shr((shortest >> 9).min(63) as u32).unwrap_or(0);
    let segment = plan.flows.iter().map(|flow| u64::from(flow.tcp.segment)).min().unwrap_or(1).max(1);
    Some((paced + near).min(MOST).div_ceil(segment).max(LEAST) as u32)
}

/// Refuses settings that no sysctl of a namespace expresses.
fn settable(tcp: &TcpConfig, marks: bool) -> Result<(), HostError> {
    let linux = TcpConfig::default();
    // Linux fills packets up to the device's MTU, and the options determine the header size.
    let header = if tcp.timestamps { linux.header } else { PLAIN_HEADER };
    let (least, most) = (LEAST_MTU - header, linux.segment + linux.header - header);
    if !(least..=most).contains(&tcp.segment) || tcp.header != header {
        return Err(HostError::Unsupported(format!(
            "{} bytes of payload and {} of headers are not what Linux sends; accepted on the kernel with\
             \x20tcp.timestamps = {}: tcp.segment_bytes = {least} to {most}, tcp.header_bytes = {header}",
            tcp.segment, tcp.header, tcp.timestamps
        )));
    }
    // Linux's rule for cwnd after idle times can only be switched on or off, and receivers report every mark only for
    // some schemes.
    let idle = if tcp.idle == IdleRule::Off { IdleRule::Off } else { linux.idle };
    let chosen = TcpConfig { idle, ecn_precise: marks && tcp.ecn_precise, ..tcp.on_linux() };
    tcp.difference(&chosen).map_or(Ok(()), |key| {
        Err(HostError::Unsupported(format!(
            "tcp.{key} is not what this kernel does, and it has no setting for it; accepted on the kernel: the\
             \x20default of the profile linux"
        )))
    })
}
