//! Location of a run's endpoints: loopback, or two network namespaces if this process may create them.
//!
//! ```text
//! loopback                                   namespaces
//! ends ─ sockets ─ relay ─ sockets ─ ends    ends ─ sockets ─ device ─ relay ─ device ─ sockets ─ ends
//! ```
//! In namespaces, packets have the addresses and checksums of the scenario's hosts, and no other process on the
//! machine can reach the endpoints.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;

use narrows_host::HostError;
use narrows_host::namespace::{self, COMMON, HostConfig, dotted};
use narrows_scenario::{FlowPlan, Plan};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tun_rs::SyncDevice;

use super::relay::{Joint, PORTS, Relay};
use super::udp::{self, Udp};

/// Size of a device's largest packet.
const MTU: u16 = 1500;
/// Maximum number of flows in namespaces, because each flow needs a port at the sender.
const MOST: usize = 20_000;

/// The sockets of all flows, and the relay between them.
pub(super) struct Place {
    /// The sockets of senders and of receivers, by flow.
    pub(super) sockets: [Vec<Udp>; 2],
    /// The addresses that senders and receivers send to, by flow.
    pub(super) remotes: [Vec<SocketAddr>; 2],
    pub(super) relay: Relay,
    pub(super) spaces: Spaces,
}

/// The namespaces of the endpoints.
pub(super) struct Spaces {
    /// Namespaces of senders and receivers; empty on loopback.
    own: Vec<File>,
    /// The namespaces' devices, which must outlive the endpoints.
    _devices: Option<Arc<[SyncDevice; 2]>>,
    /// Ports of all sockets, sorted.
    ports: Vec<u16>,
    /// The system settings (sysctl) of the hosts.
    pub(super) sysctls: BTreeMap<String, String>,
}

impl Spaces {
    /// The location's name in results.
    pub(super) fn name(&self) -> &'static str {
        if self.own.is_empty() { "loopback" } else { "namespaces" }
    }

    /// Number of datagrams that the open sockets dropped because their buffers were full.
    pub(super) fn dropped(&self) -> u64 {
        if self.own.is_empty() {
            return udp::dropped(&self.ports);
        }
        let within = |space: &File| {
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
            Some(udp::dropped(&self.ports))
        };
        // Use separate threads, because a thread stays in a namespace that it has entered.
        let of = |space| thread::scope(|scope| scope.spawn(move || within(space)).join().ok().flatten());
        self.own.iter().filter_map(of).sum()
    }
}

/// Opens the sockets of a plan in namespaces, or on loopback if `loopback` or if namespaces are not available.
///
/// # Errors
/// If the system refuses a step.
pub(super) fn open(plan: &Plan, loopback: bool) -> Result<Place, HostError> {
    match hosts(plan).filter(|_| !loopback && namespace::available("--on quic").is_ok()) {
        Some(hosts) => in_namespaces(plan, hosts),
        None => on_loopback(plan),
    }
}

fn on_loopback(plan: &Plan) -> Result<Place, HostError> {
    let facing = [Udp::open()?, Udp::open()?];
    let remotes = facing.each_ref().map(|socket| vec![socket.address(); plan.flows.len()]);
    let open = |_: &FlowPlan| Udp::open();
    let near: Vec<Udp> = plan.flows.iter().map(open).collect::<Result<_, _>>()?;
    let far: Vec<Udp> = plan.flows.iter().map(open).collect::<Result<_, _>>()?;
    let ends = near.iter().zip(&far).map(|(near, far)| [near.address(), far.address()]).collect();
    let sockets = near.iter().chain(&far).chain(&facing);
    let mut ports: Vec<u16> = sockets.map(|socket| socket.address().port()).collect();
    ports.sort_unstable();
    let spaces = Spaces { own: Vec::new(), _devices: None, ports, sysctls: BTreeMap::new() };
    let relay = Relay::new(Joint::sockets(facing, ends), &plan.flows);
    Ok(Place { sockets: [near, far], remotes, relay, spaces })
}

/// The hosts of senders and receivers; `None` if the addresses are not those of two hosts.
fn hosts(plan: &Plan) -> Option<[HostConfig; 2]> {
    let usable = |address: &Ipv4Addr| {
        !(address.octets()[0] == 0 || address.is_loopback() || address.is_multicast() || address.is_broadcast())
    };
    let host = |of: fn(&FlowPlan) -> u32| {
        let mut addresses: Vec<_> = plan.flows.iter().map(|flow| Ipv4Addr::from(of(flow))).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let sysctls = COMMON.map(|(name, value)| (name, value.to_owned())).into();
        HostConfig { mtu: MTU, addresses, initial_window: 10, burst: None, sysctls }
    };
    let hosts = [host(|flow| flow.tuple.source), host(|flow| flow.tuple.destination)];
    let [senders, receivers] = &hosts;
    let apart = senders.addresses.iter().all(|address| !receivers.addresses.contains(address));
    let valid = hosts.iter().flat_map(|host| &host.addresses).all(usable);
    let ports = plan.flows.iter().all(|flow| flow.tuple.destination_port != 0);
    (apart && valid && ports && plan.flows.len() <= MOST).then_some(hosts)
}

/// A host: its device, the sockets in it, and its namespace.
type Opened = (SyncDevice, Vec<Udp>, File);

/// Creates a host and opens sockets between these pairs of addresses in it.
fn host(config: HostConfig, pairs: Vec<(SocketAddrV4, SocketAddrV4)>) -> Result<Opened, HostError> {
    // Use a separate thread, because it stays in the new namespace with its sockets and device.
    let opened = thread::spawn(move || {
        let device = namespace::enter(&config)?;
        let space = File::open("/proc/thread-self/ns/net")
            .map_err(|error| HostError::step("open a network namespace", error))?;
        let sockets = pairs.iter().map(|(local, remote)| Udp::between(*local, *remote));
        Ok((device, sockets.collect::<Result<_, _>>()?, space))
    });
    opened.join().unwrap_or_else(|_| Err(HostError::crashed("a host")))
}

fn in_namespaces(plan: &Plan, [senders, receivers]: [HostConfig; 2]) -> Result<Place, HostError> {
    let pair = |(number, flow): (u16, &FlowPlan)| {
        let tuple = &flow.tuple;
        let near = SocketAddrV4::new(Ipv4Addr::from(tuple.source), PORTS + number);
        (near, SocketAddrV4::new(Ipv4Addr::from(tuple.destination), tuple.destination_port))
    };
    let pairs: Vec<_> = (0..).zip(&plan.flows).map(pair).collect();
    let back = pairs.iter().map(|(near, far)| (*far, *near)).collect();
    let mut ports: Vec<u16> = pairs.iter().flat_map(|(near, far)| [near.port(), far.port()]).collect();
    ports.sort_unstable();
    ports.dedup();
    let remotes = [
        pairs.iter().map(|(_, far)| SocketAddr::V4(*far)).collect(),
        pairs.iter().map(|(near, _)| SocketAddr::V4(*near)).collect(),
    ];
    let settings = senders.sysctls.iter().map(|(name, value)| (dotted(name), value.clone()));
    let sysctls = settings.collect();
    let (left, near, first) = host(senders, pairs)?;
    let (right, far, second) = host(receivers, back)?;
    let devices = Arc::new([left, right]);
    let spaces = Spaces { own: vec![first, second], _devices: Some(Arc::clone(&devices)), ports, sysctls };
    let relay = Relay::new(Joint::devices(devices), &plan.flows);
    Ok(Place { sockets: [near, far], remotes, relay, spaces })
}
