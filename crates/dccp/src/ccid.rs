//! Congestion control identifiers: how data is controlled, and what its receiver reports for it.

use narrows_cc::Feedback;
use narrows_cc::schemes::Entry;

/// The number of all schemes that have none of their own: RFC 4340 section 10 leaves 248 to 254 to experiments.
const EXPERIMENTAL: u8 = 249;

/// What a CCID asks of the receiver of data, and its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ccid {
    /// TCP-like (RFC 4341): Ack Vectors.
    TcpLike,
    /// TCP-friendly rate control (RFC 4342): reports of loss events and of the rate received, once per round trip; Ack Vectors with
    /// them tell which packets were lost.
    Tfrc,
    /// DCCP-BBR: Ack Vectors, and the share of packets lost in the last ten seconds.
    DccpBbr,
    /// Any other scheme: Ack Vectors. RFC 4340 section 10 leaves 248 to 254 to experiments.
    Other,
}

impl Ccid {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::TcpLike, Self::Tfrc, Self::DccpBbr, Self::Other];

    /// The number in the CCID feature.
    pub const fn number(self) -> u8 {
        match self {
            Self::TcpLike => 2,
            Self::Tfrc => 3,
            Self::DccpBbr => 248,
            Self::Other => EXPERIMENTAL,
        }
    }

    /// The one with that number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|ccid| ccid.number() == number)
    }

    /// The one of a scheme, by what it expects of the receiver.
    pub fn of(scheme: &Entry) -> Self {
        match scheme.feedback {
            Feedback::CountedPackets => Self::TcpLike,
            Feedback::LossEvents => Self::Tfrc,
            Feedback::LossShare => Self::DccpBbr,
            Feedback::Packets => Self::Other,
        }
    }
}
