//! Packets as bytes: Ethernet, IPv4, then TCP, DCCP or, for control messages, UDP.

use narrows_dccp::udp;
use narrows_dccp::wire::{Addresses, seal};
use narrows_packet::real::kinds::{MSS, NOP, SACK, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE};
use narrows_packet::{Flags, Kind, Packet};

use crate::hosts::{End, Flow};

/// The Ethernet type of IPv4.
const ETHERNET_IPV4: [u8; 2] = [8, 0];
/// First two bytes of hardware addresses, which are locally administered; the IPv4 address follows.
const HARDWARE: [u8; 2] = [2, 0];
const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
const MAX_OPTIONS: usize = 40;
const TTL: u8 = 64;
/// Protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
/// Flags field of the IP header: do not fragment.
const DONT_FRAGMENT: u8 = 0x40;

/// Option kinds (RFC 9293, RFC 7323, RFC 2018, RFC 6994).
const EXPERIMENT: u8 = 253;
/// The experiment identifier of this project, 'NW'.
const EXPERIMENT_ID: [u8; 2] = *b"NW";

/// Appends the packet to `out`, without its payload if the payload is zero. Returns the number of zero bytes
/// that must follow.
pub(crate) fn encode(out: &mut Vec<u8>, flow: &Flow, packet: &Packet, bytes: &[u8]) -> usize {
    let (from, to) =
        if packet.flags.has(Flags::REVERSE) { (&flow.receiver, &flow.sender) } else { (&flow.sender, &flow.receiver) };
    for address in [to.address, from.address] {
        out.extend_from_slice(&HARDWARE);
        out.extend_from_slice(&address);
    }
    out.extend_from_slice(&ETHERNET_IPV4);
    let start = out.len();
    if packet.kind() == Kind::External {
        out.extend_from_slice(bytes);
        narrows_packet::real::set_ecn(&mut out[start..], packet.ecn());
        return 0;
    }
    let addresses = Addresses { source: from.address, destination: to.address };
    out.extend_from_slice(&[0; IP_HEADER]);
    let (protocol, zeros) = match packet.kind() {
        Kind::Tcp => (TCP, segment(out, flow, packet, from, to)),
        Kind::Dccp => {
            out.extend_from_slice(bytes);
            let own = &mut out[start + IP_HEADER..];
            if let Some(ports) = own.first_chunk_mut::<4>() {
                let [[a, b], [c, d]] = [from.port, to.port].map(u16::to_be_bytes);
                *ports = [a, b, c, d];
            }
            seal(Some(addresses), own);
            (DCCP, 0)
        }
        Kind::Message => {
            udp::wrap(addresses, from.port, to.port, packet.message().as_bytes(), out);
            (UDP, 0)
        }
        Kind::External => (TCP, 0),
    };
    let length = (out.len() - start + zeros) as u16;
    let [high, low] = length.to_be_bytes();
    let header = &mut out[start..start + IP_HEADER];
    // A packet that must not be fragmented needs no identification (RFC 6864 section 4.1).
    header[..10].copy_from_slice(&[0x45, packet.ecn() as u8, high, low, 0, 0, DONT_FRAGMENT, 0, TTL, protocol]);
    header[12..16].copy_from_slice(&from.address);
    header[16..].copy_from_slice(&to.address);
    let sum = checksum(sum(header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    zeros
}

/// Appends the header and options of a TCP segment; returns the length of its payload.
fn segment(out: &mut Vec<u8>, flow: &Flow, packet: &Packet, from: &End, to: &End) -> usize {
    let start = out.len();
    let tcp = packet.tcp();
    let has = |flag| packet.flags.has(flag);
    let (syn, ack) = (has(Flags::SYN), has(Flags::ACK));
    out.extend_from_slice(&from.port.to_be_bytes());
    out.extend_from_slice(&to.port.to_be_bytes());
    out.extend_from_slice(&from.isn.wrapping_add(tcp.seq as u32).to_be_bytes());
    let next = if ack { to.isn.wrapping_add(tcp.ack as u32) } else { 0 };
    out.extend_from_slice(&next.to_be_bytes());
    let bits = [(Flags::FIN, 1), (Flags::SYN, 2), (Flags::ACK, 16), (Flags::ECE, 64), (Flags::CWR, 128)];
    let bits: u8 = bits.iter().filter(|(flag, _)| has(*flag)).map(|(_, bit)| bit).sum();
    // Round the window up, as Linux does; the window of a SYN is not scaled.
    let window = if syn { tcp.window } else { tcp.window.div_ceil(1 << flow.scale) };
    let [high, low] = (window.min(u32::from(u16::MAX)) as u16).to_be_bytes();
    out.extend_from_slice(&[0, bits, high, low, 0, 0, 0, 0]);
    if syn {
        opening(out, flow, packet);
    } else {
        if flow.timestamps {
            out.extend_from_slice(&[NOP, NOP]);
            timestamps(out, packet);
        }
        let blocks = packet.sack_blocks().count();
        if blocks > 0 {
            out.extend_from_slice(&[NOP, NOP, SACK, (2 + 8 * blocks) as u8]);
            // SACK blocks refer to data of the other endpoint.
            for edge in packet.sack_blocks().flat_map(|(left, right)| [left, right]) {
                out.extend_from_slice(&to.isn.wrapping_add(edge as u32).to_be_bytes());
            }
        }
    }
    experiment(out, out.len() - start - TCP_HEADER, packet);
    let header = out.len() - start;
    out[start + 12] = (header as u8 / 4) << 4;
    let most = usize::from(u16::MAX) - IP_HEADER - header;
    let payload = usize::from(packet.payload).min(most);
    let pseudo = sum(&from.address) + sum(&to.address) + u64::from(TCP) + (header + payload) as u64;
    let sum = checksum(pseudo + sum(&out[start..]));
    out[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    payload
}

/// Options of a SYN or SYN-ACK, in Linux's order.
fn opening(out: &mut Vec<u8>, flow: &Flow, packet: &Packet) {
    let [high, low] = flow.mss.to_be_bytes();
    out.extend_from_slice(&[MSS, 4, high, low]);
    match (flow.sack, flow.timestamps) {
        (true, _) => out.extend_from_slice(&[SACK_PERMITTED, 2]),
        (false, true) => out.extend_from_slice(&[NOP, NOP]),
        (false, false) => {}
    }
    if flow.timestamps {
        timestamps(out, packet);
    } else if flow.sack {
        out.extend_from_slice(&[NOP, NOP]);
    }
    out.extend_from_slice(&[NOP, WINDOW_SCALE, 3, flow.scale]);
}

fn timestamps(out: &mut Vec<u8>, packet: &Packet) {
    let tcp = packet.tcp();
    out.extend_from_slice(&[TIMESTAMPS, 10]);
    out.extend_from_slice(&tcp.ts_val.to_be_bytes());
    out.extend_from_slice(&tcp.ts_ecr.to_be_bytes());
}

/// Encodes an option of another kind as an experimental option of the same length: the option's tag, then as
/// many fields as fit. `used` bytes of options precede it.
fn experiment(out: &mut Vec<u8>, used: usize, packet: &Packet) {
    let Some(option) = packet.option() else { return };
    let length = usize::from(option.wire_bytes());
    if length == 0 || used + length > MAX_OPTIONS {
        return;
    }
    let start = out.len();
    out.extend_from_slice(&[EXPERIMENT, length as u8]);
    out.extend_from_slice(&EXPERIMENT_ID);
    if length > 4 {
        out.push(option.tag());
        let fields = option.slots().into_iter().flat_map(|(first, second)| [first, second]);
        fields.for_each(|field| out.extend_from_slice(&field.to_be_bytes()));
    }
    out.resize(start + length, 0);
}

/// Sum of the 16-bit words of an even number of bytes.
fn sum(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<2>().0.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum()
}

/// The Internet checksum (RFC 1071) of words whose sum is `sum`.
fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
