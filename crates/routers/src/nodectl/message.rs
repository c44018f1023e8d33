//! The wire format of Nodectl's messages.
//!
//! The paper shows the fields (figures 2 and 3) and the types, but no sizes. Here numbers are big endian, and
//! rates are in bytes per second on the wire, headers included:
//!
//! ```text
//! negotiation  0..2 Type   2..10 Max   10..18 Min   18..28 ID   28..32 Rtt (microseconds)      32 bytes
//! adjustment   0..2 Type   2..12 ID    12..20 Speed                                            20 bytes
//! ID           4 content   4 destination   2 subflow
//! ```
//!
//! The highest bit of Rtt, unused by round-trip times, is [`ATTENDED`].
//!
//! Messages are untrusted. [`Message::decode`] refuses fields that an honest sender never writes, so its callers
//! receive neither a rate of zero nor a rate that overflows a sum.

use core::fmt;

use narrows_cc::{Nanos, Rate};

/// Maximum rate in a message: 1 Tbit/s. A request for this rate asks for all available bandwidth.
pub const MOST: Rate = Rate::from_bytes_per_sec(125_000_000_000);
/// Maximum RTT in a message: 100 s.
pub const LONGEST_RTT_US: u32 = 100_000_000;
/// The bit in a negotiation's Rtt field that marks a request handled by a node. Answers repeat it.
pub const ATTENDED: u32 = 1 << 31;
/// A requester sends a new request after this time without data. The records of nodes last at least twice as
/// long.
pub const LEASE: Nanos = Nanos::from_secs(5);
/// Bytes of a negotiation message.
pub const NEGOTIATION_BYTES: usize = 32;
/// Bytes of an adjustment message.
pub const ADJUSTMENT_BYTES: usize = 20;

/// Subject of a message. Flows with the same content and destination are one transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Id {
    /// Content ID.
    pub content: u32,
    /// Receiver ID.
    pub destination: u32,
    /// Number of this flow among the subflows of the transmission.
    pub subflow: u16,
}

/// The types of negotiation messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Negotiation {
    /// From requester to responder; nodes lower its Max.
    Request = 0x0011,
    /// From responder to requester.
    Success = 0x0012,
    /// From responder or node to requester.
    Failure = 0x0013,
}

/// The types of adjustment messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Adjustment {
    /// From node to requester: send no faster than this rate.
    Reduce = 0x0021,
    /// From node to requester: request this rate.
    Increase = 0x0022,
    /// From requester to nodes: the flow ends.
    Terminate = 0x0023,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Figure 2.
    Negotiation {
        /// Type.
        kind: Negotiation,
        /// Maximum rate, requested or granted. In a failure the available rate, less than `min` or zero.
        max: Rate,
        /// Minimum useful rate.
        min: Rate,
        /// Subject of the message.
        id: Id,
        /// RTT of the requester and [`ATTENDED`]; an answer repeats the field of its request.
        rtt_us: u32,
    },
    /// Figure 3.
    Adjustment {
        /// Type.
        kind: Adjustment,
        /// Subject of the message.
        id: Id,
        /// New rate; zero in a termination.
        speed: Rate,
    },
}

/// Reason why [`Message::decode`] refuses bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Unknown type.
    Type,
    /// The length does not match the type.
    Length,
    /// A rate is zero where it must not be, or not zero where it must be.
    Zero,
    /// A rate above [`MOST`].
    TooMuch,
    /// Min and Max contradict the type.
    Order,
    /// A round-trip time above [`LONGEST_RTT_US`].
    Rtt,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Type => "unknown type",
            Self::Length => "wrong length",
            Self::Zero => "rate must not be zero, or must be zero in a termination",
            Self::TooMuch => "rate too high",
            Self::Order => "Min and Max contradict the type",
            Self::Rtt => "round-trip time too long",
        })
    }
}

/// Bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    bytes: [u8; NEGOTIATION_BYTES],
    len: usize,
}

impl Encoded {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn read<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

fn read_rate(bytes: &[u8], at: usize) -> Result<Rate, Refused> {
    let rate = Rate::from_bytes_per_sec(u64::from_be_bytes(read(bytes, at)));
    if rate > MOST { Err(Refused::TooMuch) } else { Ok(rate) }
}

impl Id {
    fn write(self, bytes: &mut [u8]) {
        bytes[0..4].copy_from_slice(&self.content.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.destination.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.subflow.to_be_bytes());
    }

    fn read(bytes: &[u8], at: usize) -> Self {
        Self {
            content: u32::from_be_bytes(read(bytes, at)),
            destination: u32::from_be_bytes(read(bytes, at + 4)),
            subflow: u16::from_be_bytes(read(bytes, at + 8)),
        }
    }
}

impl Message {
    /// Subject of the message.
    pub const fn id(&self) -> Id {
        match *self {
            Self::Negotiation { id, .. } | Self::Adjustment { id, .. } => id,
        }
    }

    /// Encodes the message. Senders should send only messages that [`Message::decode`] accepts.
    pub fn encode(&self) -> Encoded {
        let mut bytes = [0; NEGOTIATION_BYTES];
        let len = match *self {
            Self::Negotiation { kind, max, min, id, rtt_us } => {
                bytes[0..2].copy_from_slice(&(kind as u16).to_be_bytes());
                bytes[2..10].copy_from_slice(&max.as_bytes_per_sec().to_be_bytes());
                bytes[10..18].copy_from_slice(&min.as_bytes_per_sec().to_be_bytes());
                id.write(&mut bytes[18..28]);
                bytes[28..32].copy_from_slice(&rtt_us.to_be_bytes());
                NEGOTIATION_BYTES
            }
            Self::Adjustment { kind, id, speed } => {
                bytes[0..2].copy_from_slice(&(kind as u16).to_be_bytes());
                id.write(&mut bytes[2..12]);
                bytes[12..20].copy_from_slice(&speed.as_bytes_per_sec().to_be_bytes());
                ADJUSTMENT_BYTES
            }
        };
        Encoded { bytes, len }
    }

    /// Decodes bytes.
    ///
    /// # Errors
    /// The first rule that the bytes violate.
    pub fn decode(bytes: &[u8]) -> Result<Self, Refused> {
        if bytes.len() < 2 {
            return Err(Refused::Length);
        }
        let negotiation = match u16::from_be_bytes(read(bytes, 0)) {
            0x0011 => Negotiation::Request,
            0x0012 => Negotiation::Success,
            0x0013 => Negotiation::Failure,
            0x0021 => return Self::adjustment(Adjustment::Reduce, bytes),
            0x0022 => return Self::adjustment(Adjustment::Increase, bytes),
            0x0023 => return Self::adjustment(Adjustment::Terminate, bytes),
            _ => return Err(Refused::Type),
        };
        Self::negotiation(negotiation, bytes)
    }

    fn negotiation(kind: Negotiation, bytes: &[u8]) -> Result<Self, Refused> {
        if bytes.len() != NEGOTIATION_BYTES {
            return Err(Refused::Length);
        }
        let (max, min) = (read_rate(bytes, 2)?, read_rate(bytes, 10)?);
        let failed = kind == Negotiation::Failure;
        if max.is_zero() && !failed {
            return Err(Refused::Zero);
        }
        // A failure carries the available rate, less than Min, or zero if the table is full.
        let in_order = if failed { max < min || max.is_zero() } else { min <= max };
        if !in_order {
            return Err(Refused::Order);
        }
        let rtt_us = u32::from_be_bytes(read(bytes, 28));
        if rtt_us & !ATTENDED > LONGEST_RTT_US {
            return Err(Refused::Rtt);
        }
        Ok(Self::Negotiation { kind, max, min, id: Id::read(bytes, 18), rtt_us })
    }

    fn adjustment(kind: Adjustment, bytes: &[u8]) -> Result<Self, Refused> {
        if bytes.len() != ADJUSTMENT_BYTES {
            return Err(Refused::Length);
        }
        let speed = read_rate(bytes, 12)?;
        if speed.is_zero() != (kind == Adjustment::Terminate) {
            return Err(Refused::Zero);
        }
        Ok(Self::Adjustment { kind, id: Id::read(bytes, 2), speed })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: Id = Id { content: 0x0102_0304, destination: 0x0506_0708, subflow: 0x090a };

    fn rate(n: u64) -> Rate {
        Rate::from_bytes_per_sec(n)
    }

    fn negotiation(kind: Negotiation, max: u64, min: u64) -> Message {
        Message::Negotiation { kind, max: rate(max), min: rate(min), id: ID, rtt_us: 20_000 }
    }

    fn adjustment(kind: Adjustment, speed: u64) -> Message {
        Message::Adjustment { kind, id: ID, speed: rate(speed) }
    }

    /// The bytes on the wire are those of the layout.
    #[test]
    fn wire_bytes_match_the_layout() {
        let request = negotiation(Negotiation::Request, 0x0011_2233_4455, 0x66).encode();
        let expected = [
            0x00, 0x11, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0, 0, 0, 0, 0, 0, 0, 0x66, 1, 2, 3, 4, 5, 6, 7, 8, 9,
            10, 0, 0, 0x4e, 0x20,
        ];
        assert_eq!(request.as_bytes(), expected);
        let reduce = adjustment(Adjustment::Reduce, 0x0102).encode();
        let expected = [0x00, 0x21, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0, 1, 2];
        assert_eq!(reduce.as_bytes(), expected);
    }

    /// Every message type survives encoding and decoding.
    #[test]
    fn every_type_round_trips() {
        let all = [
            negotiation(Negotiation::Request, 125_000_000_000, 0),
            negotiation(Negotiation::Success, 7, 7),
            negotiation(Negotiation::Failure, 6, 7),
            negotiation(Negotiation::Failure, 0, 0),
            adjustment(Adjustment::Reduce, 1),
            adjustment(Adjustment::Increase, 125_000_000_000),
            adjustment(Adjustment::Terminate, 0),
        ];
        for message in all {
            assert_eq!(Message::decode(message.encode().as_bytes()), Ok(message));
            assert_eq!(message.id(), ID);
        }
    }

    /// Invalid fields are refused.
    #[test]
    fn impossible_fields_are_refused() {
        let refused = |message: Message| Message::decode(message.encode().as_bytes()).unwrap_err();
        assert_eq!(refused(negotiation(Negotiation::Request, 0, 0)), Refused::Zero);
        assert_eq!(refused(negotiation(Negotiation::Success, 0, 0)), Refused::Zero);
        assert_eq!(refused(negotiation(Negotiation::Request, 5, 6)), Refused::Order);
        assert_eq!(refused(negotiation(Negotiation::Success, 5, 6)), Refused::Order);
        assert_eq!(refused(negotiation(Negotiation::Failure, 6, 6)), Refused::Order);
        let most = MOST.as_bytes_per_sec();
        assert_eq!(refused(negotiation(Negotiation::Request, most + 1, 0)), Refused::TooMuch);
        assert_eq!(refused(negotiation(Negotiation::Failure, 0, u64::MAX)), Refused::TooMuch);
        assert_eq!(refused(adjustment(Adjustment::Reduce, 0)), Refused::Zero);
        assert_eq!(refused(adjustment(Adjustment::Increase, 0)), Refused::Zero);
        assert_eq!(refused(adjustment(Adjustment::Terminate, 1)), Refused::Zero);
        assert_eq!(refused(adjustment(Adjustment::Increase, most + 1)), Refused::TooMuch);
        let late = Message::Negotiation {
            kind: Negotiation::Request,
            max: rate(2),
            min: rate(1),
            id: ID,
            rtt_us: LONGEST_RTT_US + 1,
        };
        assert_eq!(refused(late), Refused::Rtt);
    }

    /// Only the specified types and lengths are decoded.
    #[test]
    fn only_stated_types_and_lengths_are_read() {
        let request = negotiation(Negotiation::Request, 2, 1).encode();
        let reduce = adjustment(Adjustment::Reduce, 1).encode();
        for (encoded, len) in [(request, NEGOTIATION_BYTES), (reduce, ADJUSTMENT_BYTES)] {
            let mut padded = encoded.as_bytes().to_vec();
            padded.resize(40, 0);
            for cut in (0..=40).filter(|&cut| cut != len) {
                assert_eq!(Message::decode(&padded[..cut]), Err(Refused::Length), "{cut} bytes");
            }
        }
        let known = [0x11, 0x12, 0x13, 0x21, 0x22, 0x23];
        for kind in (0..=u16::MAX).filter(|kind| !known.contains(kind)) {
            let mut bytes = request.as_bytes().to_vec();
            bytes[0..2].copy_from_slice(&kind.to_be_bytes());
            assert_eq!(Message::decode(&bytes), Err(Refused::Type), "{kind:#06x}");
        }
    }

    fn anything() -> impl Strategy<Value = Vec<u8>> {
        let typed = (prop::sample::select(vec![0x11u8, 0x12, 0x13, 0x21, 0x22, 0x23]), any::<bool>());
        // With small rates some messages are accepted.
        let plausible = (typed, prop::collection::vec(any::<u8>(), 40), any::<bool>()).prop_map(
            |((kind, whole), mut bytes, small)| {
                bytes[0..2].copy_from_slice(&u16::from(kind).to_be_bytes());
                if small {
                    bytes[2..6].fill(0);
                    bytes[10..16].fill(0);
                    bytes[28] &= 0x80;
                    bytes[29] = 0;
                }
                let len = if kind < 0x20 { NEGOTIATION_BYTES } else { ADJUSTMENT_BYTES };
                bytes.truncate(if whole { len } else { 40 });
                bytes
            },
        );
        prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..=40), 4 => plausible]
    }

    proptest! {
        /// Any bytes are refused or round-trip.
        #[test]
        fn any_bytes_are_refused_or_round_trip(bytes in anything()) {
            if let Ok(message) = Message::decode(&bytes) {
                let encoded = message.encode();
                prop_assert_eq!(encoded.as_bytes(), &bytes[..]);
                match message {
                    Message::Negotiation { max, min, rtt_us, .. } => {
                        prop_assert!(max <= MOST && min <= MOST && rtt_us & !ATTENDED <= LONGEST_RTT_US);
                    }
                    Message::Adjustment { speed, .. } => prop_assert!(speed <= MOST),
                }
            }
        }
    }
}
