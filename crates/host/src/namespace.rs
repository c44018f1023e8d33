//! A host: an unnamed network namespace with one TUN device as its exit.
//!
//! Nothing has to be cleaned up: the kernel removes a namespace and its devices with the last thread, socket or device
//! handle in it, even if the process is killed.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::OnceLock;

use rustix::thread::UnshareFlags;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::netlink::{CREATE, NEW_QDISC, Netlink, REPLACE, Request, TCA_KIND, nested, root_queue};
use crate::{HostError, rights};

/// Name of the device, unique in its namespace.
const DEVICE: &str = "narrows";
/// Packets that may wait in the device: no burst must be lost there.
const QUEUE: u32 = 100_000;
const LOOPBACK: i32 = 1;
/// Queue discipline of the device.
const QUEUE_KIND: &[u8] = b"pfifo_fast\0";

const NEW_LINK: u16 = 16;
const NEW_ROUTE: u16 = 24;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const UP: u32 = 1;
const IPV4: u8 = 2;
const RT_TABLE_LOCAL: u8 = 255;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_METRICS: u16 = 8;
/// The metric of a route for the initial window.
pub const RTAX_INITCWND: u16 = 11;

/// Settings of every host; their defaults differ between machines.
pub const COMMON: [(&str, &str); 5] = [
    // Every kernel has Reno; flows set their schemes on their sockets.
    ("ipv4/tcp_congestion_control", "reno"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
];

/// Settings of a host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Largest packet.
    pub mtu: u16,
    /// The host's addresses.
    pub addresses: Vec<Ipv4Addr>,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Largest burst of its device, in segments; `None`: the kernel's limit.
    pub burst: Option<u32>,
    /// Network settings by name below `net`, with `/`.
    pub sysctls: BTreeMap<&'static str, String>,
}

/// Whether this process can create hosts for `user`, the command or option that needs them. Tries to create a host only
/// once per process.
///
/// # Errors
/// If it cannot; the message names the missing right or device.
pub fn available(user: &str) -> Result<(), HostError> {
    static LACKS: OnceLock<Option<String>> = OnceLock::new();
    let creates = "it creates network namespaces and devices in them";
    if !rustix::process::geteuid().is_root() {
        return Err(HostError::Unavailable(format!("{user} needs root: {creates}")));
    }
    // A confined process can create a namespace, but not a whole host.
    if rights::is_confined() {
        return Err(HostError::Unavailable(format!(
            "{user} needs root outside of a user namespace: {creates} (accepted: sudo on the machine, not in a rootless \
             container)"
        )));
    }
    // The attempt runs in a separate thread, so that the namespace ends with this thread.
    let lacks = LACKS.get_or_init(|| {
        std::thread::spawn(|| try_host().err()).join().unwrap_or_else(|_| Some("a thread ended early".to_owned()))
    });
    lacks.clone().map_or(Ok(()), |lacks| Err(HostError::Unavailable(lacks)))
}

/// Creates a namespace and a device in it.
fn try_host() -> Result<(), String> {
    unshare().map_err(|error| {
        format!(
            "no right to create network namespaces ({error}); accepted on the kernel: root with CAP_SYS_ADMIN and\
             \x20CAP_NET_ADMIN"
        )
    })?;
    // If the file were missing, opening the device would create it and leave it behind.
    let opened = std::fs::metadata("/dev/net/tun").and_then(|_| DeviceBuilder::new().name(DEVICE).build_sync());
    opened.map(drop).map_err(|error| {
        format!("no TUN devices ({error}); accepted on the kernel: a /dev/net/tun that this process may open")
    })
}

/// Moves the calling thread into a new network namespace.
///
/// # Errors
/// If the process lacks the right.
pub fn unshare() -> io::Result<()> {
    // The deprecated function is unsafe only with the flag FILES, which can invalidate other handles.
    #[allow(deprecated)]
    Ok(rustix::thread::unshare(UnshareFlags::NEWNET)?)
}

/// Moves the calling thread into a new host and returns its device.
///
/// # Errors
/// If the kernel refuses a step; the error names it.
pub fn enter(config: &HostConfig) -> Result<SyncDevice, HostError> {
    unshare().map_err(|error| HostError::step("create a network namespace", error))?;
    let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
    for (name, value) in &config.sysctls {
        if name.starts_with("ipv6/") && !has_ipv6 {
            continue;
        }
        set(name, value).map_err(|error| HostError::step(&format!("set {}", dotted(name)), error))?;
    }
    let opened = DeviceBuilder::new().name(DEVICE).mtu(config.mtu).build_sync();
    let device = opened.map_err(|error| HostError::step("create a TUN device", error))?;
    let prepared = prepare(&device, config);
    prepared.map_err(|error| HostError::step("configure a TUN device", error))?;
    Ok(device)
}

fn prepare(device: &SyncDevice, config: &HostConfig) -> io::Result<()> {
    device.set_tx_queue_len(QUEUE)?;
    device.set_nonblocking(true)?;
    let index = device.if_index()? as i32;
    let mut netlink = Netlink::route()?;
    // The machine's default may be fq, with which the queue paces instead of TCP.
    match netlink.change(Request::new(NEW_QDISC, REPLACE, &root_queue(index)).attribute(TCA_KIND, QUEUE_KIND)) {
        // A kernel without queue disciplines has no default queue to replace.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        done => done?,
    }
    if let Some(burst) = config.burst {
        let request = Request::new(NEW_LINK, 0, &link(index, false));
        netlink.change(request.attribute(IFLA_GSO_MAX_SEGS, &burst.to_ne_bytes()))?;
    }
    device.enabled(true)?;
    netlink.change(Request::new(NEW_LINK, 0, &link(LOOPBACK, true)))?;
    for address in &config.addresses {
        let route = route(RT_TABLE_LOCAL, RT_SCOPE_HOST, RTN_LOCAL, 32);
        let request = Request::new(NEW_ROUTE, CREATE, &route)
            .attribute(RTA_DST, &address.octets())
            .attribute(RTA_OIF, &LOOPBACK.to_ne_bytes());
        netlink.change(request)?;
    }
    netlink.change(way_out(index, CREATE, &[(RTAX_INITCWND, config.initial_window)]))
}

/// The request for the default route through device `index`, with metrics `RTAX_*`.
pub fn way_out(index: i32, flags: u16, metrics: &[(u16, u32)]) -> Request {
    let list = nested(metrics.iter().map(|(kind, value)| (*kind, value.to_ne_bytes())));
    Request::new(NEW_ROUTE, flags, &route(RT_TABLE_MAIN, RT_SCOPE_LINK, RTN_UNICAST, 0))
        .attribute(RTA_OIF, &index.to_ne_bytes())
        .attribute(RTA_METRICS, &list)
}

/// `struct ifinfomsg` of an interface; `up` enables it.
fn link(index: i32, up: bool) -> [u8; 16] {
    let mut out = [0; 16];
    out[4..8].copy_from_slice(&index.to_ne_bytes());
    if up {
        out[8..12].copy_from_slice(&UP.to_ne_bytes());
        out[12..].copy_from_slice(&UP.to_ne_bytes());
    }
    out
}

/// `struct rtmsg`.
fn route(table: u8, scope: u8, kind: u8, bits: u8) -> [u8; 12] {
    [IPV4, bits, 0, 0, table, RTPROT_STATIC, scope, kind, 0, 0, 0, 0]
}

/// The name of a setting as sysctl writes it.
pub fn dotted(name: &str) -> String {
    format!("net.{}", name.replace('/', "."))
}

/// Writes a setting below `net` of the calling thread's namespace.
pub fn set(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(Path::new("/proc/sys/net").join(name), value)
}
