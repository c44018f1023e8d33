//! Multipath TCP options (RFC 8684) in packets.

use narrows_packet::{Packet, RawOption};

/// A multipath TCP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MptcpOption {
    /// MP_CAPABLE, in SYNs of the first subflow of a connection (RFC 8684 section 3.1). Keys have no function here.
    Capable {
        /// Whether the packet is a SYN-ACK, which has a key.
        answer: bool,
    },
    /// MP_JOIN, in SYNs of an additional subflow of a connection (RFC 8684 section 3.2).
    Join {
        /// Number of the subflow, instead of an address.
        address: u8,
        /// Whether the packet is a SYN-ACK, which has an authenticator.
        answer: bool,
    },
    /// Data sequence mapping: position of the packet's payload in the connection's data (RFC 8684 section 3.3,
    /// eight-byte numbers, no checksum).
    Mapping {
        /// Data sequence number of the first payload byte.
        data: u64,
        /// Sequence number of the same byte on the subflow.
        subflow: u32,
        /// Payload bytes.
        len: u16,
        /// Whether the connection's data ends with this packet (DATA_FIN).
        fin: bool,
    },
    /// From receiver to sender: next data sequence number expected (RFC 8684 section 3.3.2).
    DataAck {
        /// Low 32 bits of the number: the short form leaves space for two SACK blocks.
        ack: u32,
    },
}

/// Bytes that a mapping adds to a packet with data, padding included.
pub const MAPPING_BYTES: u16 = 20;

/// Tags of the options, below [`RawOption::MAX_TAG`].
const CAPABLE: u8 = 7;
const JOIN: u8 = 8;
const MAPPING: u8 = 9;
const DATA_ACK: u8 = 10;

impl MptcpOption {
    /// The multipath option of a packet, if any.
    #[inline]
    pub fn of(packet: &Packet) -> Option<Self> {
        let option = packet.option()?;
        let [first, second] = option.slots();
        Some(match option.tag() {
            CAPABLE => Self::Capable { answer: first.0 != 0 },
            JOIN => Self::Join { address: first.1 as u8, answer: first.0 != 0 },
            MAPPING => Self::Mapping {
                data: u64::from(first.0) << 32 | u64::from(first.1),
                subflow: second.0,
                len: second.1 as u16,
                fin: second.1 >> 16 & 1 != 0,
            },
            DATA_ACK => Self::DataAck { ack: first.0 },
            _ => return None,
        })
    }

    /// Writes the option into a packet, replacing any other option.
    #[inline]
    pub fn write(self, packet: &mut Packet) {
        // Sizes in RFC 8684: MP_CAPABLE has 4 bytes in a SYN and 12 in a SYN-ACK, MP_JOIN 12 and 16, a mapping 4 + 8 +
        // 4 + 2 and two bytes of padding, DATA_ACK 4 + 4.
        packet.set_option(Some(match self {
            Self::Capable { answer } => RawOption::new(CAPABLE, if answer { 12 } else { 4 }, &[(u32::from(answer), 0)]),
            Self::Join { address, answer } => {
                RawOption::new(JOIN, if answer { 16 } else { 12 }, &[(u32::from(answer), u32::from(address))])
            }
            Self::Mapping { data, subflow, len, fin } => RawOption::new(
                MAPPING,
                MAPPING_BYTES,
                &[((data >> 32) as u32, data as u32), (subflow, u32::from(fin) << 16 | u32::from(len))],
            ),
            Self::DataAck { ack } => RawOption::new(DATA_ACK, 8, &[(ack, 0)]),
        }));
    }
}

#[cfg(test)]
mod tests {
    use narrows_packet::HEADER_BYTES;

    use super::*;

    /// Option sizes match RFC 8684 (figures 4, 5, 6, 7 and 9) and leave space for two SACK blocks. Timestamps
    /// take 12 of TCP's 40 option bytes.
    #[test]
    fn option_sizes_leave_room_for_two_sack_blocks() {
        let size = |option: MptcpOption| {
            let mut packet = Packet::new(0);
            option.write(&mut packet);
            packet.header - HEADER_BYTES
        };
        assert_eq!([false, true].map(|answer| size(MptcpOption::Capable { answer })), [4, 12]);
        assert_eq!([false, true].map(|answer| size(MptcpOption::Join { address: 1, answer })), [12, 16]);
        assert_eq!(size(MptcpOption::Mapping { data: 5, subflow: 1, len: 1428, fin: false }), 18 + 2);
        let mut packet = Packet::new(0);
        MptcpOption::DataAck { ack: 9 }.write(&mut packet);
        *packet.tcp_mut().ack = 1;
        (0..3).for_each(|n| packet.push_sack(1000 * n + 1001, 1000 * n + 1501));
        assert_eq!(packet.sack_blocks().count(), 2);
        assert_eq!(packet.header - HEADER_BYTES, 40 - 12);
        assert_eq!(MptcpOption::of(&packet), Some(MptcpOption::DataAck { ack: 9 }));
    }

    /// Every option is decoded as it was written, and options of other protocols decode to `None`.
    #[test]
    fn option_survives_a_packet() {
        for option in [
            MptcpOption::Capable { answer: false },
            MptcpOption::Capable { answer: true },
            MptcpOption::Join { address: 7, answer: false },
            MptcpOption::Join { address: u8::MAX, answer: true },
            MptcpOption::Mapping { data: u64::MAX - 9, subflow: u32::MAX, len: u16::MAX, fin: false },
            MptcpOption::Mapping { data: 1 << 40, subflow: 1, len: 0, fin: true },
            MptcpOption::DataAck { ack: u32::MAX },
        ] {
            let mut packet = Packet::new(0);
            option.write(&mut packet);
            assert_eq!(MptcpOption::of(&packet), Some(option));
        }
        for tag in (1..CAPABLE).chain(DATA_ACK + 1..=RawOption::MAX_TAG) {
            let mut packet = Packet::new(0);
            packet.set_option(Some(RawOption::new(tag, 8, &[(1, 1), (1, 1)])));
            assert_eq!(MptcpOption::of(&packet), None);
        }
    }
}
