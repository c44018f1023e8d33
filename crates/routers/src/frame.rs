//! Frame view for router algorithms, beyond [`Frame`].

use narrows_net::{Direction, Frame};
use narrows_packet::{ControlMessage, Flags, Kind, Packet, Room};

use crate::RateHeader;

/// A frame with a readable transport header and a writable rate header.
pub trait RouterFrame: Frame {
    /// Whether the frame is a control message instead of a segment or datagram.
    fn is_message(&self) -> bool;
    /// Whether this is a SYN or SYN-ACK, possibly retransmitted or forged.
    fn opens(&self) -> bool;
    /// Whether the frame ends one direction of its flow (FIN).
    fn closes(&self) -> bool;
    /// Whether the frame's acknowledgement number is valid (ACK).
    fn acknowledges(&self) -> bool;
    /// Index of the frame's path among the paths of its flow.
    fn path(&self) -> u8;
    /// The frame's rate header.
    fn rate_header(&self) -> RateHeader;
    /// Sets the rate header, if the packet has space for it.
    fn set_rate_header(&mut self, header: RateHeader);
    /// The frame's control message.
    fn message(&self) -> ControlMessage;
    /// Replaces the frame's control message.
    fn set_message(&mut self, message: &[u8]);

    /// Whether the frame travels from receiver to sender.
    #[inline]
    fn is_reverse(&self) -> bool {
        self.direction() == Direction::Reverse
    }
}

/// The rate header of a real host's segment. A SYN with option space for a rate counts as a BRF offer.
fn rate_in(room: Room, flags: Flags) -> RateHeader {
    match (room, flags.has(Flags::REVERSE)) {
        (Room::Empty | Room::Holds(_), false) if flags.has(Flags::SYN) => RateHeader::BrfOffer,
        (Room::Holds(code), true) => RateHeader::BrfRate { code },
        _ => RateHeader::None,
    }
}

impl RouterFrame for Packet {
    #[inline]
    fn is_message(&self) -> bool {
        self.kind() == Kind::Message
    }

    #[inline]
    fn opens(&self) -> bool {
        self.flags.has(Flags::SYN)
    }

    #[inline]
    fn closes(&self) -> bool {
        self.flags.has(Flags::FIN)
    }

    #[inline]
    fn acknowledges(&self) -> bool {
        self.flags.has(Flags::ACK)
    }

    #[inline]
    fn path(&self) -> u8 {
        self.path()
    }

    #[inline]
    fn rate_header(&self) -> RateHeader {
        if self.kind() == Kind::External {
            return rate_in(self.external().room, self.flags);
        }
        self.option().map_or(RateHeader::None, RateHeader::decode)
    }

    fn set_rate_header(&mut self, header: RateHeader) {
        match (self.kind(), header) {
            (Kind::Tcp, _) => self.set_option(header.encode()),
            // Real hosts support only BRF rates, in the option space that they reserve for a rate.
            (Kind::External, RateHeader::BrfRate { code }) if self.external().room != Room::None => {
                self.set_room(Room::Holds(code));
            }
            _ => {}
        }
    }

    fn message(&self) -> ControlMessage {
        self.message()
    }

    fn set_message(&mut self, message: &[u8]) {
        self.set_message(message);
    }
}

#[cfg(test)]
mod tests {
    use narrows_packet::ExternalSegment;

    use super::*;

    fn of_host(flags: Flags, room: Room) -> Packet {
        let mut packet = Packet::of_host(1, ExternalSegment { room, ..ExternalSegment::default() });
        packet.flags = flags;
        packet
    }

    /// A real host's SYN with option space for a rate is a BRF offer, and its acknowledgements carry a rate if they
    /// have that space.
    #[test]
    fn frame_of_host_carries_rates_in_its_room() {
        let (syn, back) = (Flags::SYN, Flags::ACK.with(Flags::REVERSE));
        assert_eq!(of_host(syn, Room::Empty).rate_header(), RateHeader::BrfOffer);
        assert_eq!(of_host(syn, Room::None).rate_header(), RateHeader::None);
        assert_eq!(of_host(Flags::ACK, Room::Empty).rate_header(), RateHeader::None);
        assert_eq!(of_host(back, Room::Empty).rate_header(), RateHeader::None);
        let rate = RateHeader::BrfRate { code: 12_005 };
        for (room, then) in [(Room::None, RateHeader::None), (Room::Empty, rate), (Room::Holds(7), rate)] {
            let mut packet = of_host(back, room);
            packet.set_rate_header(rate);
            assert_eq!(packet.rate_header(), then, "{room:?}");
        }
    }
}
