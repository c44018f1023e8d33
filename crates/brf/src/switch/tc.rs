//! The switch in the kernel's traffic control: filters on ports, and the classes of the bottleneck.

use std::fmt;
use std::io;

use narrows_cc::Rate;
use narrows_host::netlink::{
    CREATE, DELETE_QDISC, NEW_QDISC, Netlink, Request, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, attributes, nested,
    queue_message as message,
};
use narrows_net::config::{Htb, HtbClass};
use rustix::fd::{AsRawFd as _, BorrowedFd};
use serde::{Deserialize, Serialize};

/// Major number of the queue: 'BR' in ASCII.
pub(super) const HANDLE: u32 = 0x4252_0000;
/// Minor numbers of the whole link's class, and of the router's first class.
const LINK_MINOR: u32 = 1;
pub(super) const FIRST_MINOR: u32 = 16;
/// Handle and priority of the filters.
const FILTER: u32 = 0x4252;
const PRIORITY: u32 = 0x4252;
/// Queue limit of a policed class in packets: HTB has no policer.
const POLICED: u32 = 2;
/// Bytes of an Ethernet header: HTB counts it, the router's rates do not.
const ETHERNET: u64 = 14;
const MTU: u64 = 1500;

const NEW_CLASS: u16 = 40;
const GET_CLASS: u16 = 42;
const GET_QDISC: u16 = 38;
const NEW_FILTER: u16 = 44;
const DELETE_FILTER: u16 = 45;
const GET_FILTER: u16 = 46;
const DUMP: u16 = 0x300;
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const TCA_STATS2: u16 = 7;
const STATS_BASIC: u16 = 1;
const STATS_QUEUE: u16 = 3;
const HTB_PARMS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
const BPF_FD: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
const DIRECT_ACTION: u32 = 1;
/// `ETH_P_ALL` in network order.
const ALL_PROTOCOLS: u32 = 0x0300;
/// Nanoseconds per tick of the kernel's packet scheduler.
const TICK_NS: u64 = 64;

/// A direction at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Side {
    Ingress,
    Egress,
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

impl Side {
    const fn parent(self) -> u32 {
        match self {
            Self::Ingress => 0xffff_fff2,
            Self::Egress => 0xffff_fff3,
        }
    }
}

/// The word of 32 bits at this offset; zero if it is cut off.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|own| own.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// Number of an interface of this namespace, and whether it is an Ethernet device.
pub(super) fn interface(name: &str) -> io::Result<(i32, bool)> {
    // Sysfs may show another namespace: `ip netns exec` mounts the sysfs of its namespace, setns does not. A socket
    // belongs to the right namespace.
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    let index = rustix::net::netdevice::name_to_index(&socket, name)? as i32;
    let mut ethernet = false;
    let mut netlink = Netlink::route()?;
    let mut ask = [0; 16];
    ask[4..8].copy_from_slice(&index.to_ne_bytes());
    const GET_LINK: u16 = 18;
    // `struct ifinfomsg`: family, then the type of the hardware; 1 is Ethernet.
    netlink.get(Request::new(GET_LINK, 0, &ask), |body| {
        ethernet = body.get(2..4) == Some(&1_u16.to_ne_bytes());
    })?;
    Ok((index, ethernet))
}

/// Whether a port has a hook for programs.
pub(super) fn has_hook(netlink: &mut Netlink, index: i32) -> io::Result<bool> {
    let mut found = false;
    netlink.get(Request::new(GET_QDISC, DUMP, &message(index, 0, 0, 0)), |body| {
        found |= word(body, 4) == index as u32 && word(body, 12) == CLSACT;
    })?;
    Ok(found)
}

/// Creates the hook for programs. Returns whether the hook is new: another process may have created it first.
pub(super) fn create_hook(netlink: &mut Netlink, index: i32) -> io::Result<bool> {
    let hook = Request::new(NEW_QDISC, CREATE, &message(index, CLSACT_HANDLE, CLSACT, 0));
    match netlink.change(hook.attribute(TCA_KIND, b"clsact\0")) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Attaches a program to a side of a port that has a hook.
pub(super) fn attach(
    netlink: &mut Netlink,
    index: i32,
    side: Side,
    program: BorrowedFd<'_>,
    name: &str,
) -> io::Result<()> {
    let fd = program.as_raw_fd() as u32;
    let options = nested([
        (BPF_FD, &fd.to_ne_bytes()[..]),
        (BPF_NAME, format!("{name}\0").as_bytes()),
        (BPF_FLAGS, &DIRECT_ACTION.to_ne_bytes()),
    ]);
    let filter = message(index, FILTER, side.parent(), PRIORITY << 16 | ALL_PROTOCOLS);
    let request = Request::new(NEW_FILTER, CREATE, &filter).attribute(TCA_KIND, b"bpf\0");
    netlink.change(request.attribute(TCA_OPTIONS, &options))
}

/// Removes our filters from a port, and the hook if we created it and no other filter uses it.
pub(super) fn detach(netlink: &mut Netlink, index: i32, created: bool) {
    let mut left = 0;
    for side in [Side::Ingress, Side::Egress] {
        let filter = message(index, FILTER, side.parent(), PRIORITY << 16 | ALL_PROTOCOLS);
        let _ = netlink.change(Request::new(DELETE_FILTER, 0, &filter).attribute(TCA_KIND, b"bpf\0"));
        let all = message(index, 0, side.parent(), 0);
        let _ = netlink.get(Request::new(GET_FILTER, DUMP, &all), |body| left += usize::from(word(body, 8) != 0));
    }
    if created && left == 0 {
        let hook = message(index, CLSACT_HANDLE, CLSACT, 0);
        let _ = netlink.change(Request::new(DELETE_QDISC, 0, &hook));
    }
}

/// Kind and handle of the root queue of an interface; `None` if there is none.
pub(super) fn root(netlink: &mut Netlink, index: i32) -> io::Result<Option<(String, u32)>> {
    let mut found = None;
    netlink.get(Request::new(GET_QDISC, DUMP, &message(index, 0, 0, 0)), |body| {
        if word(body, 4) == index as u32 && word(body, 12) == TC_H_ROOT {
            let mut list = attributes(body.get(20..).unwrap_or_default());
            let kind = list.find(|(kind, _)| *kind == TCA_KIND).map_or(&[][..], |(_, value)| value);
            let kind = String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned();
            found = Some((kind, word(body, 8)));
        }
    })?;
    Ok(found)
}

/// Counters of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClassStats {
    /// Bytes sent, with Ethernet headers.
    pub(super) sent: u64,
    /// Waiting packets.
    pub(super) waiting: u64,
    /// Waiting bytes.
    pub(super) backlog: u64,
    pub(super) drops: u64,
}

/// An HTB queue of the kernel with the classes of a router.
#[derive(Debug)]
pub(super) struct Tree {
    index: i32,
    classes: Vec<HtbClass>,
    leaves: Vec<bool>,
    link: Rate,
    /// Rate and ceiling in force per class.
    applied: Vec<(u64, u64)>,
    /// Rate and ceiling that the router wants.
    pub(super) wanted: Vec<(Rate, Rate)>,
    /// The latest counters per class. `total`: those of the link.
    pub(super) stats: Vec<ClassStats>,
    pub(super) total: ClassStats,
    room: u32,
}

impl Tree {
    /// The classes of `htb` on a link of this rate, with a queue of `room` packets in each class that is not policed.
    pub(super) fn new(index: i32, htb: &Htb, link: Rate, room: u32) -> Self {
        let classes = htb.classes().to_vec();
        let leaf = |i: usize| !classes.iter().any(|class| class.parent == Some(i as u8));
        let leaves = (0..classes.len()).map(leaf).collect();
        let wanted = classes.iter().map(|class| (class.rate, class.ceil.unwrap_or(link))).collect();
        let stats = vec![ClassStats::default(); classes.len()];
        Self {
            index,
            applied: vec![(0, 0); classes.len()],
            classes,
            leaves,
            link,
            wanted,
            stats,
            total: ClassStats::default(),
            room,
        }
    }

    /// Names of the classes.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(|class| class.name.as_str())
    }

    /// Class id of the kernel.
    pub(super) const fn id(class: usize) -> u32 {
        HANDLE | (FIRST_MINOR + class as u32)
    }

    fn parent(&self, class: usize) -> u32 {
        self.classes[class].parent.map_or(HANDLE | LINK_MINOR, |parent| Self::id(usize::from(parent)))
    }

    /// Creates the queue and its classes as the root of the interface.
    pub(super) fn create(&mut self, netlink: &mut Netlink, default: u8) -> io::Result<()> {
        // version, rate2quantum, default class, debug, direct packets
        let mut init = Vec::new();
        for value in [3, 10, FIRST_MINOR + u32::from(default), 0, 0] {
            init.extend_from_slice(&value.to_ne_bytes());
        }
        let root = Request::new(NEW_QDISC, CREATE, &message(self.index, HANDLE, TC_H_ROOT, 0));
        let root = root.attribute(TCA_KIND, b"htb\0");
        netlink.change(root.attribute(TCA_OPTIONS, &nested([(HTB_INIT, &init)])))?;
        let all = framed(self.link);
        netlink.change(self.class(HANDLE | LINK_MINOR, HANDLE, (all, all), 0, CREATE))?;
        for class in 0..self.classes.len() {
            self.change(netlink, class, CREATE)?;
            if self.leaves[class] {
                let room = if self.classes[class].policed { POLICED } else { self.room };
                // The major number of a leaf queue follows from the number of its class.
                let handle = (0x4300 + class as u32) << 16;
                let leaf = Request::new(NEW_QDISC, CREATE, &message(self.index, handle, Self::id(class), 0));
                netlink.change(leaf.attribute(TCA_KIND, b"pfifo\0").attribute(TCA_OPTIONS, &room.to_ne_bytes()))?;
            }
        }
        Ok(())
    }

    /// Sets rates that have changed by more than 1 %.
    pub(super) fn apply(&mut self, netlink: &mut Netlink) -> io::Result<()> {
        for class in 0..self.classes.len() {
            let (rate, ceil) = self.rates(class);
            let (old_rate, old_ceil) = self.applied[class];
            let differs = |new: u64, old: u64| new.abs_diff(old) * 100 > old;
            if differs(rate, old_rate) || differs(ceil, old_ceil) {
                self.change(netlink, class, 0)?;
            }
        }
        Ok(())
    }

    /// Rate and ceiling of a class on the link, with Ethernet headers.
    fn rates(&self, class: usize) -> (u64, u64) {
        let (rate, ceil) = self.wanted[class];
        if self.classes[class].policed {
            // A policed class keeps its share while idle: otherwise the first packets of a burst would be lost before
            // the router sees them.
            let least = self.classes[class].ceil.unwrap_or(rate);
            let rate = framed(rate.max(least));
            return (rate, rate);
        }
        let all = framed(self.link);
        // A class without flows keeps 1 % of the link for packets that belong to no flow: other protocols, and the
        // first packets of new flows.
        (framed(rate).clamp(all / 100, all), framed(ceil).clamp(all / 100, all))
    }

    fn change(&mut self, netlink: &mut Netlink, class: usize, flags: u16) -> io::Result<()> {
        let rates = self.rates(class);
        let priority = u32::from(self.classes[class].priority);
        netlink.change(self.class(Self::id(class), self.parent(class), rates, priority, flags))?;
        self.applied[class] = rates;
        Ok(())
    }

    /// The request for a class.
    fn class(&self, id: u32, parent: u32, (rate, ceil): (u64, u64), priority: u32, flags: u16) -> Request {
        let quantum = (rate / 10).clamp(MTU, 200_000) as u32;
        // A burst is a packet plus a millisecond at this rate: the kernel's timers are at most a millisecond late.
        let burst = |rate: u64| {
            let bytes = MTU + ETHERNET + framed(self.link).min(rate) / 1000;
            (bytes * 1_000_000_000 / rate.max(1) / TICK_NS).min(u64::from(u32::MAX)) as u32
        };
        let spec = |rate: u64| {
            // cell_log, link layer Ethernet, overhead, cell_align, mpu; then the rate.
            let mut out = vec![0, 1, 0, 0, 0, 0, 0, 0];
            out.extend_from_slice(&(rate.min(u64::from(u32::MAX)) as u32).to_ne_bytes());
            out
        };
        let mut parms = [spec(rate), spec(ceil)].concat();
        for value in [burst(rate), burst(ceil), quantum, 0, priority] {
            parms.extend_from_slice(&value.to_ne_bytes());
        }
        let options =
            nested([(HTB_PARMS, &parms[..]), (HTB_RATE64, &rate.to_ne_bytes()), (HTB_CEIL64, &ceil.to_ne_bytes())]);
        let request = Request::new(NEW_CLASS, flags, &message(self.index, id, parent, 0));
        request.attribute(TCA_KIND, b"htb\0").attribute(TCA_OPTIONS, &options)
    }

    /// Reads the counters of all classes.
    pub(super) fn read(&mut self, netlink: &mut Netlink) -> io::Result<()> {
        let (stats, total) = (&mut self.stats, &mut self.total);
        netlink.get(Request::new(GET_CLASS, DUMP, &message(self.index, 0, 0, 0)), |body| {
            let id = word(body, 8);
            let slot = match id.wrapping_sub(HANDLE) {
                LINK_MINOR => Some(&mut *total),
                minor => stats.get_mut(minor.wrapping_sub(FIRST_MINOR) as usize),
            };
            if let Some(slot) = slot {
                *slot = class_stats(body.get(20..).unwrap_or_default());
            }
        })?;
        // The kernel counts the backlog in leaves only.
        for class in 0..self.classes.len() {
            if !self.leaves[class] {
                let children: Vec<usize> =
                    (0..self.classes.len()).filter(|&child| self.classes[child].parent == Some(class as u8)).collect();
                let sum = |field: fn(&ClassStats) -> u64| children.iter().map(|&i| field(&self.stats[i])).sum();
                let (waiting, backlog, drops) = (sum(|own| own.waiting), sum(|own| own.backlog), sum(|own| own.drops));
                self.stats[class] = ClassStats { waiting, backlog, drops, ..self.stats[class] };
            }
        }
        Ok(())
    }

    /// Packets that may wait in a class.
    pub(super) const fn room(&self) -> u32 {
        self.room
    }

    /// Backlog of all leaves, in bytes.
    pub(super) fn backlog(&self) -> u64 {
        self.stats.iter().zip(&self.leaves).filter(|(_, leaf)| **leaf).map(|(own, _)| own.backlog).sum()
    }
}

fn class_stats(list: &[u8]) -> ClassStats {
    let mut own = ClassStats::default();
    let Some((_, stats)) = attributes(list).find(|(kind, _)| *kind == TCA_STATS2) else { return own };
    for (kind, value) in attributes(stats) {
        match kind {
            STATS_BASIC => {
                own.sent = value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            }
            STATS_QUEUE => {
                own.waiting = word(value, 0).into();
                own.backlog = word(value, 4).into();
                own.drops = word(value, 8).into();
            }
            _ => {}
        }
    }
    own
}

/// Removes our queue from an interface, if it is there.
pub(super) fn remove(netlink: &mut Netlink, index: i32) {
    if matches!(root(netlink, index), Ok(Some((_, HANDLE)))) {
        let _ = netlink.change(Request::new(DELETE_QDISC, 0, &message(index, HANDLE, TC_H_ROOT, 0)));
    }
}

/// A rate of full IP packets as bytes per second with Ethernet headers.
fn framed(rate: Rate) -> u64 {
    let rate = u128::from(rate.as_bytes_per_sec());
    u64::try_from(rate * u128::from(MTU + ETHERNET) / u128::from(MTU)).unwrap_or(u64::MAX)
}

/// Bytes of full packets without Ethernet headers.
pub(super) const fn unframed(bytes: u64) -> u64 {
    bytes / (MTU + ETHERNET) * MTU + bytes % (MTU + ETHERNET)
}
