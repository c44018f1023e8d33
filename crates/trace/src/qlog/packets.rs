//! Sequence numbers that packets occupy and acknowledge, by transport protocol.

use narrows_dccp::ack_vector::{PacketState, runs};
use narrows_dccp::{Header, Seq};
use narrows_packet::real::{Segment, unfold};
use narrows_packet::{Flags, Kind, Packet};

use super::acks::Outstanding;

/// Offset of the protocol field in an IPv4 header, and the protocol number of UDP.
const PROTOCOL: usize = 9;
const UDP: u8 = 17;

/// Whether a host's packet is an encrypted QUIC datagram. Its sender reports the fate of such a packet.
pub(super) fn is_encrypted(packet: &Packet, bytes: &[u8]) -> bool {
    packet.kind() == Kind::External && bytes.get(PROTOCOL) == Some(&UDP)
}

/// Sequence numbers that a packet occupies.
pub(super) fn occupied(packet: &Packet) -> u64 {
    let marks = packet.flags.has(Flags::SYN) || packet.flags.has(Flags::FIN);
    match packet.kind() {
        // Every datagram has its own number.
        Kind::Dccp => 1,
        _ => u64::from(packet.payload) + u64::from(marks),
    }
}

/// Removes from `own` the packets in flight that `packet` acknowledges; `bytes` are the packet's bytes.
pub(super) fn acknowledge(own: &mut Outstanding, packet: &Packet, bytes: &[u8]) {
    match packet.kind() {
        Kind::Tcp => {
            own.acknowledge(packet.tcp().ack);
            packet.sack_blocks().for_each(|(start, end)| own.acknowledge_range(start, end));
        }
        Kind::External => {
            // Without a TCP segment, a real host's packet shows no acknowledgement.
            let Some(segment) = Segment::read(bytes) else { return };
            let ack = packet.external().ack;
            let wide = |wire: u32| unfold(wire, segment.ack.wrapping_sub(ack as u32), ack);
            own.acknowledge(ack);
            segment.sack().for_each(|(start, end)| own.acknowledge_range(wide(start), wide(end)));
        }
        Kind::Dccp => {
            let Ok((header, body)) = Header::decode(bytes) else { return };
            let Some(ack) = header.ack.filter(|_| header.long) else { return };
            let mut oldest = None;
            for run in runs(Seq::new(ack), body.options) {
                let (first, last) = (run.first.get(), run.last().get());
                if last > first {
                    return; // the sequence numbers wrap
                }
                if run.state != PacketState::Missing {
                    own.acknowledge_range(last, first + 1);
                }
                oldest = Some(last);
            }
            if let Some(oldest) = oldest {
                own.forget_before(oldest);
            }
        }
        Kind::Message => {}
    }
}
