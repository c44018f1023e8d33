//! The relay between the endpoints and the network: its UDP sockets, or the devices of the endpoints' namespaces.
//!
//! The network processes IPv4 packets, as they appear in a capture. A device delivers complete packets;
//! datagrams from a socket get headers with the scenario's addresses.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use narrows_cc::Nanos;
use narrows_emulation::{Late, Wire};
use narrows_host::HostError;
use narrows_host::descriptors::wait_readable;
use narrows_host::socket::Buffers;
use narrows_packet::real::set_ecn;
use narrows_packet::{Ecn, ExternalSegment, Flags, Packet};
use narrows_scenario::FlowPlan;
use tun_rs::SyncDevice;

use super::udp::Udp;

/// Bytes of IP and UDP headers.
pub(super) const HEADERS: usize = 28;
/// First port of the senders, in namespaces and in captures. The port of a flow is this number plus the flow's number.
pub(super) const PORTS: u16 = 10_000;
/// Assumed overhead of a data packet in bytes: a short header with a connection identifier of 8 bytes and a
/// packet number of 2 bytes, the header of a STREAM frame with an offset of 4 bytes, and the authentication
/// tag. The real headers are encrypted.
pub(super) const OVERHEAD: usize = 34;
/// Receive calls per visit to a socket.
const CALLS: usize = 4;
/// Packets read per visit to a device.
const PACKETS: usize = 128;
/// Size of the receive buffer, larger than any packet of a device.
const PACKET: usize = 2048;
const NOBODY: u32 = u32::MAX;

#[derive(Debug)]
struct Arrival {
    packet: Packet,
    bytes: Range<usize>,
}

/// The connection of the endpoints to the relay. Side 0 is the senders, side 1 the receivers.
pub(super) enum Joint {
    /// Two sockets, one that faces the senders and one that faces the receivers.
    Sockets {
        sockets: Box<[Udp; 2]>,
        /// The flow of each port, by side.
        flows: [Vec<u32>; 2],
        /// The addresses of each flow's endpoints.
        ends: Vec<[SocketAddr; 2]>,
        buffers: Box<Buffers>,
    },
    /// The devices of the endpoints' namespaces.
    Devices { devices: Arc<[SyncDevice; 2]>, buffer: Vec<u8> },
}

impl Joint {
    /// Connects the endpoints through these sockets; `ends` has one pair of addresses per flow.
    pub(super) fn sockets(sockets: [Udp; 2], ends: Vec<[SocketAddr; 2]>) -> Self {
        let mut flows = [vec![NOBODY; 1 << 16], vec![NOBODY; 1 << 16]];
        for (flow, pair) in (0..).zip(&ends) {
            for (side, end) in pair.iter().enumerate() {
                flows[side][usize::from(end.port())] = flow;
            }
        }
        Self::Sockets { sockets: Box::new(sockets), flows, ends, buffers: Box::new(Buffers::new()) }
    }

    /// Connects the endpoints through the devices of senders and receivers.
    pub(super) fn devices(devices: Arc<[SyncDevice; 2]>) -> Self {
        Self::Devices { devices, buffer: vec![0; PACKET] }
    }

    /// File descriptors to wait for, by side.
    fn handles(&self) -> [BorrowedFd<'_>; 2] {
        match self {
            Self::Sockets { sockets, .. } => sockets.each_ref().map(AsFd::as_fd),
            Self::Devices { devices, .. } => devices.each_ref().map(AsFd::as_fd),
        }
    }
}

/// The relay.
pub(super) struct Relay {
    joint: Joint,
    headers: Vec<[[u8; HEADERS]; 2]>,
    /// Whether a flow's packets may be marked.
    ecn: Vec<bool>,
    ready: [bool; 2],
    bytes: Vec<u8>,
    read: Vec<Arrival>,
    at: Nanos,
    count: u64,
}

impl Relay {
    /// Creates a relay for these flows.
    pub(super) fn new(joint: Joint, flows: &[FlowPlan]) -> Self {
        let headers = |(number, flow): (usize, &FlowPlan)| {
            let tuple = &flow.tuple;
            let (from, to) = (PORTS.wrapping_add(number as u16), tuple.destination_port);
            [
                header((tuple.source, from), (tuple.destination, to)),
                header((tuple.destination, to), (tuple.source, from)),
            ]
        };
        Self {
            joint,
            headers: flows.iter().enumerate().map(headers).collect(),
            ecn: flows.iter().map(|flow| flow.tcp.ecn).collect(),
            ready: [true; 2],
            bytes: Vec::new(),
            read: Vec::new(),
            at: Nanos::ZERO,
            count: 0,
        }
    }
}

impl Wire for Relay {
    fn read(&mut self, now: Nanos, _: &mut Late) -> Result<(), HostError> {
        let Self { joint, headers, ecn, ready, bytes, read, count, .. } = self;
        self.at = now;
        read.clear();
        bytes.clear();
        match joint {
            Joint::Sockets { sockets, flows, buffers, .. } => {
                for side in 0..2 {
                    for _ in 0..CALLS {
                        if !ready[side] {
                            break;
                        }
                        let keep = |port: u16, field: u8, datagram: &[u8]| {
                            let flow = flows[side][usize::from(port)];
                            let Some(headers) = headers.get(flow as usize) else { return };
                            let field = if ecn[flow as usize] { Ecn::from_bits(field) } else { Ecn::NotEct };
                            let start = bytes.len();
                            complete(&headers[side], field, datagram, bytes);
                            read.push(Arrival {
                                packet: described(flow, side, field, datagram),
                                bytes: start..bytes.len(),
                            });
                            *count += 1;
                        };
                        ready[side] = sockets[side]
                            .receive(buffers, keep)
                            .map_err(|error| HostError::step("read from a UDP socket", error))?;
                    }
                }
            }
            Joint::Devices { devices, buffer } => {
                for side in 0..2 {
                    let mut left = PACKETS;
                    while ready[side] && left > 0 {
                        left -= 1;
                        let length = match devices[side].recv(buffer) {
                            Ok(length) => length,
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                                ready[side] = false;
                                break;
                            }
                            Err(error) => return Err(HostError::step("read from a TUN device", error)),
                        };
                        let whole = &mut buffer[..length];
                        let Some(flow) = flow_of(side, whole).filter(|flow| (*flow as usize) < ecn.len()) else {
                            continue;
                        };
                        if !ecn[flow as usize] {
                            set_ecn(whole, Ecn::NotEct);
                        }
                        let field = Ecn::from_bits(whole[1]);
                        let start = bytes.len();
                        bytes.extend_from_slice(whole);
                        read.push(Arrival {
                            packet: described(flow, side, field, &whole[HEADERS..]),
                            bytes: start..bytes.len(),
                        });
                        *count += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn packets(&self) -> impl Iterator<Item = (Nanos, Packet, &[u8])> {
        self.read.iter().map(|arrival| (self.at, arrival.packet, &self.bytes[arrival.bytes.clone()]))
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn deliver(&mut self, packet: &Packet, bytes: &mut [u8]) -> io::Result<()> {
        let side = usize::from(!packet.flags.has(Flags::REVERSE));
        match &self.joint {
            Joint::Sockets { sockets, ends, .. } => {
                let datagram = &bytes[HEADERS..];
                let to = ends[packet.flow as usize][side];
                sockets[side].send(to, packet.ecn() as u8, datagram, datagram.len())
            }
            Joint::Devices { devices, .. } => {
                set_ecn(bytes, packet.ecn());
                devices[side].send(bytes).map(|_| ())
            }
        }
    }

    fn wait(&mut self, most: Duration) -> Result<(), HostError> {
        if !self.ready.contains(&true) {
            let handles = self.joint.handles();
            self.ready = wait_readable(handles.each_ref(), most)?;
        }
        Ok(())
    }
}

/// The flow to which a host's UDP datagram belongs; `None` for other packets.
fn flow_of(side: usize, whole: &[u8]) -> Option<u32> {
    const UDP: u8 = 17;
    // The fragment offset and the flag for more fragments.
    const FRAGMENT: u16 = 0x3fff;
    let header = whole.first_chunk::<HEADERS>()?;
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if header[0] != 0x45 || header[9] != UDP || field(6) & FRAGMENT != 0 {
        return None;
    }
    let port = if side == 0 { field(20) } else { field(22) };
    port.checked_sub(PORTS).map(u32::from)
}

/// The simulator's packet that represents a datagram of a sender (`side` 0) or a receiver.
fn described(flow: u32, side: usize, ecn: Ecn, datagram: &[u8]) -> Packet {
    let mut packet = Packet::of_host(flow, ExternalSegment::default());
    // The header form bit is clear in short headers; long headers belong to the handshake.
    let short = datagram.first().is_some_and(|first| first & 0x80 == 0);
    let payload = if side == 0 && short { datagram.len().saturating_sub(OVERHEAD) } else { 0 };
    packet.payload = payload as u16;
    packet.header = (HEADERS + datagram.len() - payload) as u16;
    packet.flags = if side == 0 { Flags::NONE } else { Flags::NONE.with(Flags::REVERSE) };
    packet.set_ecn(ecn);
    packet
}

/// IPv4 and UDP headers without the fields that differ from packet to packet.
fn header(from: (u32, u16), to: (u32, u16)) -> [u8; HEADERS] {
    let mut header = [0; HEADERS];
    header[0] = 0x45;
    header[6] = 0x40; // do not fragment
    header[8] = 64;
    header[9] = 17;
    header[12..16].copy_from_slice(&from.0.to_be_bytes());
    header[16..20].copy_from_slice(&to.0.to_be_bytes());
    header[20..22].copy_from_slice(&from.1.to_be_bytes());
    header[22..24].copy_from_slice(&to.1.to_be_bytes());
    header
}

/// Appends a complete IPv4 packet to `out`. UDP over IPv4 may omit the checksum.
fn complete(header: &[u8; HEADERS], ecn: Ecn, datagram: &[u8], out: &mut Vec<u8>) {
    let mut own = *header;
    own[1] = ecn as u8;
    own[2..4].copy_from_slice(&((HEADERS + datagram.len()) as u16).to_be_bytes());
    own[24..26].copy_from_slice(&((8 + datagram.len()) as u16).to_be_bytes());
    let mut sum: u32 = own[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    own[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    out.extend_from_slice(&own);
    out.extend_from_slice(datagram);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram becomes an IPv4 packet with a correct header checksum and the size of the packet on the wire.
    #[test]
    fn datagram_becomes_a_whole_packet() {
        let header = header((0x0a00_0001, 10_000), (0x0a00_0101, 443));
        let mut bytes = Vec::new();
        complete(&header, Ecn::Ect0, &[0x40; 100], &mut bytes);
        assert_eq!((bytes.len(), bytes[1], bytes[3], bytes[25]), (128, 2, 128, 108));
        let sum: u32 = bytes[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        let packet = described(3, 0, Ecn::Ect0, &bytes[HEADERS..]);
        assert_eq!((packet.size().as_u64(), packet.payload, packet.flow), (128, 66, 3));
    }

    /// A datagram from a device belongs to the flow of its sender's port. Fragments and packets of other
    /// protocols belong to no flow.
    #[test]
    fn datagram_of_a_device_belongs_to_a_flow() {
        let header = header((0x0a00_0001, PORTS + 7), (0x0a00_0101, 443));
        let mut bytes = Vec::new();
        complete(&header, Ecn::NotEct, &[0x40; 50], &mut bytes);
        assert_eq!(flow_of(0, &bytes), Some(7));
        assert_eq!(flow_of(1, &bytes), None);
        for (place, value) in [(9, 6), (0, 0x46), (6, 0x20)] {
            let mut other = bytes.clone();
            other[place] = value;
            assert_eq!(flow_of(0, &other), None, "{place}");
        }
        assert_eq!(flow_of(0, &bytes[..HEADERS - 1]), None);
    }

    /// Only the sender's packets with short headers carry data; its handshake packets and the receiver's
    /// packets carry none.
    #[test]
    fn only_short_packets_of_the_sender_are_data() {
        assert_eq!(described(0, 0, Ecn::NotEct, &[0xc0; 1200]).payload, 0);
        assert_eq!(described(0, 1, Ecn::NotEct, &[0x40; 1200]).payload, 0);
        assert_eq!(described(0, 0, Ecn::NotEct, &[0x40; 1200]).payload, 1166);
    }
}
