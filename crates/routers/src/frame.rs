//! The view of a frame that router algorithms need beyond what [`Frame`] says.

use narrows_net::{Direction, Frame};
use narrows_packet::{ControlMessage, Flags, Kind, Packet};

use crate::RateHeader;

/// A frame whose transport header a router can read, and whose rate header it can write.
pub trait RouterFrame: Frame {
    /// It is a control message instead of a segment or datagram.
    fn is_message(&self) -> bool;
    /// It opens its flow, or answers a packet that does (SYN). It may be repeated, or forged.
    fn opens(&self) -> bool;
    /// It ends one direction of its flow (FIN).
    fn closes(&self) -> bool;
    /// It acknowledges something.
    fn acknowledges(&self) -> bool;
    /// Which of its flow's paths it takes.
    fn path(&self) -> u8;
    /// Its rate header.
    fn rate_header(&self) -> RateHeader;
    /// Gives it another rate header, if it has room for one.
    fn set_rate_header(&mut self, header: RateHeader);
    /// The control message in it.
    fn message(&self) -> ControlMessage;
    /// Gives it another control message.
    fn set_message(&mut self, message: &[u8]);

    /// It goes from receiver to sender.
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
