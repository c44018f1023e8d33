//! Frame view for router algorithms, beyond [`Frame`].

use narrows_net::{Direction, Frame};
use narrows_packet::{ControlMessage, Flags, Kind, Packet};

use crate::RateHeader;

/// A frame with a readable transport header and a writable rate header.
pub trait RouterFrame: Frame {
    /// Whether it is a control message instead of a segment or datagram.
    fn is_message(&self) -> bool;
    /// Whether it is a SYN or SYN-ACK. It may be repeated or forged.
    fn opens(&self) -> bool;
    /// Whether it ends one direction of its flow (FIN).
    fn closes(&self) -> bool;
    /// Whether its acknowledgement number is valid (ACK).
    fn acknowledges(&self) -> bool;
    /// Index of its path among the paths of its flow.
    fn path(&self) -> u8;
    /// Its rate header.
    fn rate_header(&self) -> RateHeader;
    /// Sets its rate header, if it has room for one.
    fn set_rate_header(&mut self, header: RateHeader);
    /// Its control message.
    fn message(&self) -> ControlMessage;
    /// Replaces its control message.
    fn set_message(&mut self, message: &[u8]);

    /// Whether it goes from receiver to sender.
    #[inline]
    fn is_reverse(&self) -> bool {
        self.direction() == Direction::Reverse
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
        self.option().map_or(RateHeader::None, RateHeader::decode)
    }

    fn set_rate_header(&mut self, header: RateHeader) {
        if self.kind() == Kind::Tcp {
            self.set_option(header.encode());
        }
    }

    fn message(&self) -> ControlMessage {
        self.message()
    }

    fn set_message(&mut self, message: &[u8]) {
        self.set_message(message);
    }
}
