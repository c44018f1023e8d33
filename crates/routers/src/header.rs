//! Rate headers: TCP options by which senders and router algorithms exchange rates.

use narrows_packet::RawOption;

/// Rate header of a packet. Rates are in bytes per second on the wire, headers included, as 32-bit IEEE
/// floats. Times are in microseconds. Every field is untrusted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RateHeader {
    /// No rate header.
    #[default]
    None,
    /// RCP, from sender to receiver.
    RcpRequest {
        /// Lowest rate of the routers passed; negative if unset.
        rate: f32,
        /// Round-trip time of the sender, zero if unknown.
        rtt_us: u32,
    },
    /// RCP, from receiver to sender.
    RcpReply {
        /// Rate in the latest packet.
        rate: f32,
    },
    /// XCP, from sender to receiver.
    XcpRequest {
        /// Round-trip time of the sender, zero if unknown.
        rtt_us: u32,
        /// Packet spacing X in seconds.
        spacing: f32,
        /// Change of throughput: requested by the sender, then allotted by the routers passed.
        delta: f32,
    },
    /// XCP, from receiver to sender.
    XcpReply {
        /// Sum of the changes allotted to all packets since the last acknowledgement.
        delta: f32,
    },
    /// BRF, from sender to receiver in the SYN: the sender offers to obey the rates.
    BrfOffer,
    /// BRF, from receiver to sender: written by switches.
    BrfRate {
        /// Rate as decimal mantissa and exponent; see [`crate::RateCode`].
        code: u16,
    },
}

/// Tags of the options.
const RCP_REQUEST: u8 = 1;
const RCP_REPLY: u8 = 2;
const XCP_REQUEST: u8 = 3;
const XCP_REPLY: u8 = 4;
const BRF_OFFER: u8 = 5;
const BRF_RATE: u8 = 6;

/// Bytes that RCP and XCP headers add to a packet, padding included. BRF uses the two padding bytes of the
/// timestamp option.
const RCP_BYTES: u16 = 12;
const XCP_BYTES: u16 = 20;

impl RateHeader {
    /// Encodes the header as a TCP option.
    #[inline]
    pub const fn encode(self) -> Option<RawOption> {
        Some(match self {
            Self::None => return None,
            Self::RcpRequest { rate, rtt_us } => RawOption::new(RCP_REQUEST, RCP_BYTES, &[(rate.to_bits(), rtt_us)]),
            Self::RcpReply { rate } => RawOption::new(RCP_REPLY, RCP_BYTES, &[(rate.to_bits(), 0)]),
            Self::XcpRequest { rtt_us, spacing, delta } => {
                RawOption::new(XCP_REQUEST, XCP_BYTES, &[(spacing.to_bits(), rtt_us), (delta.to_bits(), 0)])
            }
            Self::XcpReply { delta } => RawOption::new(XCP_REPLY, XCP_BYTES, &[(delta.to_bits(), 0)]),
            Self::BrfOffer => RawOption::new(BRF_OFFER, 0, &[]),
            Self::BrfRate { code } => RawOption::new(BRF_RATE, 0, &[(code as u32, 0)]),
        })
    }

    /// Decodes a TCP option; any option that [`RateHeader::encode`] does not produce is [`RateHeader::None`].
    #[inline]
    pub const fn decode(option: RawOption) -> Self {
        let [first, second] = option.slots();
        match option.tag() {
            RCP_REQUEST => Self::RcpRequest { rate: f32::from_bits(first.0), rtt_us: first.1 },
            RCP_REPLY => Self::RcpReply { rate: f32::from_bits(first.0) },
            XCP_REQUEST => {
                Self::XcpRequest { rtt_us: first.1, spacing: f32::from_bits(first.0), delta: f32::from_bits(second.0) }
            }
            XCP_REPLY => Self::XcpReply { delta: f32::from_bits(first.0) },
            BRF_OFFER => Self::BrfOffer,
            BRF_RATE => Self::BrfRate { code: first.0 as u16 },
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_packet::Packet;

    use super::*;
    use crate::RouterFrame;

    const ALL: [RateHeader; 7] = [
        RateHeader::None,
        RateHeader::RcpRequest { rate: -1.0, rtt_us: u32::MAX },
        RateHeader::RcpReply { rate: f32::MAX },
        RateHeader::XcpRequest { rtt_us: 1, spacing: f32::MIN_POSITIVE, delta: 1e24 },
        RateHeader::XcpReply { delta: -0.5 },
        RateHeader::BrfOffer,
        RateHeader::BrfRate { code: 12_005 },
    ];

    /// A packet preserves every rate header beside the SACK blocks that fit, and the packet's header grows by the
    /// option's bytes.
    #[test]
    fn rate_header_survives_a_packet() {
        for header in ALL {
            let mut packet = Packet::new(0);
            *packet.tcp_mut().ack = 1;
            packet.set_rate_header(header);
            (0..3).for_each(|n| packet.push_sack(1000 * n + 1, 1000 * n + 501));
            assert_eq!(packet.rate_header(), header);
            let (bytes, blocks) = match header {
                RateHeader::RcpRequest { .. } | RateHeader::RcpReply { .. } => (12, 2),
                RateHeader::XcpRequest { .. } => (20, 1),
                RateHeader::XcpReply { .. } => (20, 2),
                RateHeader::BrfRate { .. } => (0, 2),
                RateHeader::None | RateHeader::BrfOffer => (0, 3),
            };
            assert_eq!(
                (packet.sack_blocks().count(), packet.header),
                (blocks, 52 + bytes + 12 + 8 * (blocks as u16 - 1))
            );
            packet.set_rate_header(RateHeader::None);
            assert_eq!((packet.rate_header(), packet.has_option()), (RateHeader::None, false));
        }
    }

    /// An option of another protocol decodes to [`RateHeader::None`].
    #[test]
    fn foreign_option_is_no_rate_header() {
        for tag in 7..=RawOption::MAX_TAG {
            let foreign = RawOption::new(tag, 8, &[(1, 1), (1, 1)]);
            assert_eq!(RateHeader::decode(foreign), RateHeader::None);
        }
    }
}
