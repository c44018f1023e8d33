//! The relay: UDP sockets between the ends and the network.
//!
//! The network sees IPv4 packets, as a capture shows them: the datagram of an end behind headers with the addresses of
//! the scenario.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use narrows_cc::Nanos;
use narrows_packet::{Ecn, Flags, Foreign, Packet};
use narrows_scenario::FlowPlan;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::udp::{Buffers, Udp};
use crate::emulation::Wire;
use crate::kernel::KernelError;
use crate::kernel::lateness::Late;

/// Bytes of IP and UDP headers.
pub(super) const HEADERS: usize = 28;
/// First port of senders in captures. Flow numbers follow.
const PORTS: u16 = 10_000;
/// Bytes of a data packet that are no payload: a short header with a connection identifier of 8 bytes and a packet number
/// of 2, the header of a STREAM frame with an offset of 4, and the tag. The real ones are encrypted.
const OVERHEAD: usize = 34;
/// Calls per look at a socket.
const CALLS: usize = 4;
const NOBODY: u32 = u32::MAX;

#[derive(Debug)]
struct Arrival {
    packet: Packet,
    bytes: Range<usize>,
}

/// The two sockets of the relay: 0 faces the senders, 1 the receivers.
pub(super) struct Relay {
    sockets: [Udp; 2],
    /// The flow of each port, by side.
    flows: [Vec<u32>; 2],
    /// The ends of each flow.
    ends: Vec<[SocketAddr; 2]>,
    headers: Vec<[[u8; HEADERS]; 2]>,
    /// Whether a flow's packets may be marked.
    ecn: Vec<bool>,
    ready: [bool; 2],
    buffers: Buffers,
    bytes: Vec<u8>,
    read: Vec<Arrival>,
    at: Nanos,
    count: u64,
}

impl Relay {
    /// A relay between `ends`, one pair per flow.
    pub(super) fn new(sockets: [Udp; 2], flows: &[FlowPlan], ends: Vec<[SocketAddr; 2]>) -> Self {
        let mut of_port = [vec![NOBODY; 1 << 16], vec![NOBODY; 1 << 16]];
        for (flow, pair) in (0..).zip(&ends) {
            for (side, end) in pair.iter().enumerate() {
                of_port[side][usize::from(end.port())] = flow;
            }
        }
        let headers = |(number, flow): (usize, &FlowPlan)| {
            let tuple = &flow.tuple;
            let (from, to) = (PORTS.wrapping_add(number as u16), tuple.destination_port);
            [
                header((tuple.source, from), (tuple.destination, to)),
                header((tuple.destination, to), (tuple.source, from)),
            ]
        };
        Self {
            sockets,
            flows: of_port,
            headers: flows.iter().enumerate().map(headers).collect(),
            ecn: flows.iter().map(|flow| flow.tcp.ecn).collect(),
            ends,
            ready: [true; 2],
            buffers: Buffers::new(),
            bytes: Vec::new(),
            read: Vec::new(),
            at: Nanos::ZERO,
            count: 0,
        }
    }
}

impl Wire for Relay {
    fn read(&mut self, now: Nanos, _: &mut Late) -> Result<(), KernelError> {
        let Self { sockets, flows, headers, ecn, ready, buffers, bytes, read, count, .. } = self;
        self.at = now;
        read.clear();
        bytes.clear();
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
                    .map_err(|error| KernelError::step("read from a UDP socket", error))?;
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
        let datagram = &bytes[HEADERS..];
        self.sockets[side].send(
            self.ends[packet.flow as usize][side],
            packet.ecn() as u8,
            datagram,
            datagram.len(),
        )
    }

    fn wait(&mut self, most: Duration) -> Result<(), KernelError> {
        if self.ready.contains(&true) {
            return Ok(());
        }
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        let mut asked = self.sockets.each_ref().map(|socket| PollFd::new(socket, PollFlags::IN));
        match poll(&mut asked, Some(&timeout)) {
            Ok(_) => {
                self.ready = asked.each_ref().map(|socket| !socket.revents().is_empty());
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(KernelError::step("wait for packets", error.into())),
        }
    }
}

/// The packet that stands for a datagram of a sender (`side` 0) or receiver.
fn described(flow: u32, side: usize, ecn: Ecn, datagram: &[u8]) -> Packet {
    let mut packet = Packet::of_host(flow, Foreign::default());
    // The form bit: long headers belong to the handshake.
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

/// Appends a whole packet to `out`. UDP over IPv4 may go without a checksum.
fn complete(header: &[u8; HEADERS], ecn: Ecn, datagram: &[u8], out: &mut Vec<u8>) {
    let mut own = *header;
    own[1] = ecn as u8;
    own[2..4].copy_from_slice(&((HEADERS + datagram.len()) as u16).to_be_bytes());
    own[24..26].copy_from_slice(&((8 + datagram.len()) as u16).to_be_bytes());
    let mut sum: u32 =
        own[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
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

    /// A datagram becomes an IPv4 packet whose header checksum is right, and whose size is that on the wire.
    #[test]
    fn datagram_becomes_a_whole_packet() {
        let header = header((0x0a00_0001, 10_000), (0x0a00_0101, 443));
        let mut bytes = Vec::new();
        complete(&header, Ecn::Ect0, &[0x40; 100], &mut bytes);
        assert_eq!((bytes.len(), bytes[1], bytes[3], bytes[25]), (128, 2, 128, 108));
        let sum: u32 =
            bytes[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        let packet = described(3, 0, Ecn::Ect0, &bytes[HEADERS..]);
        assert_eq!((packet.size().as_u64(), packet.payload, packet.flow), (128, 66, 3));
    }

    /// Data are short packets of the sender; the handshake and answers carry none.
    #[test]
    fn only_short_packets_of_the_sender_are_data() {
        assert_eq!(described(0, 0, Ecn::NotEct, &[0xc0; 1200]).payload, 0);
        assert_eq!(described(0, 1, Ecn::NotEct, &[0x40; 1200]).payload, 0);
        assert_eq!(described(0, 0, Ecn::NotEct, &[0x40; 1200]).payload, 1166);
    }
}
