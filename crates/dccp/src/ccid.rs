//! Congestion control identifiers (CCIDs) and the feedback that each CCID uses.

use narrows_cc::Feedback;
use narrows_cc::schemes::Entry;

/// CCID of schemes without a specific CCID; RFC 4340 section 10 reserves 248 to 254 for experiments.
const EXPERIMENTAL: u8 = 249;

/// The CCID of a half-connection: its number on the wire and the feedback that the data receiver sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ccid {
    /// TCP-like (RFC 4341): Ack Vectors.
    TcpLike,
    /// TCP-friendly rate control (RFC 4342): loss event and receive rate reports once per round trip; Ack
    /// Vectors identify the lost packets.
    Tfrc,
    /// DCCP-BBR: Ack Vectors and the loss rate over the last ten seconds.
    LossShare,
    /// Any other scheme: Ack Vectors. RFC 4340 section 10 reserves 248 to 254 for experiments.
    Other,
}

impl Ccid {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::TcpLike, Self::Tfrc, Self::LossShare, Self::Other];

    /// The number in the CCID feature.
    pub const fn number(self) -> u8 {
        match self {
            Self::TcpLike => 2,
            Self::Tfrc => 3,
            Self::LossShare => 248,
            Self::Other => EXPERIMENTAL,
        }
    }

    /// The CCID with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|ccid| ccid.number() == number)
    }

    /// The CCID of a registered scheme, by the feedback that the scheme expects of the receiver.
    pub fn of(scheme: &Entry) -> Self {
        match scheme.feedback {
            Feedback::CountedPackets => Self::TcpLike,
            Feedback::LossEvents => Self::Tfrc,
            Feedback::LossShare => Self::LossShare,
            _ => Self::Other,
        }
    }
}
