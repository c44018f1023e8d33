//! The packet: one cache line, copied by value, no allocation.

use narrows_units::{Bytes, Nanos};

use crate::extension::{Extension, Slot};

/// Header flags of a packet, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Opens a connection.
    pub const SYN: Self = Self(1);
    /// Ends a direction of a connection; takes one sequence number after the payload.
    pub const FIN: Self = Self(2);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(4);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(8);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(16);
    /// Repeats data sent before. Not on the wire: for traces only.
    pub const RETRANSMISSION: Self = Self(32);
    /// Travels from receiver to sender. Not on the wire: it stands for the address pair.
    pub const REVERSE: Self = Self(64);
    /// A control message instead of data: the packet has a message and no transport header; see [`Packet::control`].
    pub const CONTROL: Self = Self(128);

    /// Whether all of `other` is set.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// With `other` set too.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The ECN codepoint of the IP header (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECN-capable, L4S (RFC 9331).
    Ect1 = 1,
    /// ECN-capable.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

/// The most SACK blocks that fit beside timestamps.
pub const MAX_SACK_BLOCKS: usize = 3;

/// A packet with its transport header. Sequence numbers are kept in 64 bits and never wrap; SACK edges travel as the low
/// 32 bits, as on the wire.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// Sequence number of the first payload byte (data packets), of the packet itself (SYN, FIN).
    pub seq: u64,
    /// Next sequence number expected from the peer.
    pub ack: u64,
    /// SACK blocks from the first slot on, an extension from the last one backwards.
    slots: [Slot; MAX_SACK_BLOCKS],
    /// Timestamp value (RFC 7323), in microseconds modulo 2^32.
    pub ts_val: u32,
    /// Timestamp echo.
    pub ts_ecr: u32,
    /// Receive window in bytes.
    pub window: u32,
    /// The connection it belongs to.
    pub flow: u32,
    /// Payload bytes.
    pub payload: u16,
    /// Header bytes, IP and options included.
    pub header: u16,
    /// Flags.
    pub flags: Flags,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// How many SACK blocks, the tag of the extension above [`TAG_SHIFT`], the path above [`PATH_SHIFT`].
    options: u8,
    /// Steps of its route already taken. Kept by the simulator.
    pub hop: u8,
}

/// The two bits below it count SACK blocks.
const TAG_SHIFT: u32 = 2;
const BLOCKS: u8 = (1 << TAG_SHIFT) - 1;
/// Between the two are four bits for the tag.
const PATH_SHIFT: u32 = 6;
const TAG: u8 = (1 << (PATH_SHIFT - TAG_SHIFT)) - 1;

/// How many ways of its flow a packet can name.
pub const MAX_PATHS: usize = 4;

/// The longest control message in bytes.
pub const MAX_MESSAGE: usize = 40;
/// IP and UDP headers of a control message: 20 + 8.
pub const MESSAGE_HEADER_BYTES: u16 = 28;

/// IP and TCP headers with timestamps: 20 + 20 + 12.
pub const HEADER_BYTES: u16 = 52;

impl Packet {
    /// A packet of `flow` with no payload, no flag and full header.
    pub const fn new(flow: u32) -> Self {
        Self {
            seq: 0,
            ack: 0,
            slots: [(0, 0); MAX_SACK_BLOCKS],
            ts_val: 0,
            ts_ecr: 0,
            window: 0,
            flow,
            payload: 0,
            header: HEADER_BYTES,
            flags: Flags::NONE,
            ecn: Ecn::NotEct,
            options: 0,
            hop: 0,
        }
    }

    /// Bytes on the wire: header and payload.
    #[inline]
    pub const fn size(&self) -> Bytes {
        Bytes::new(self.header as u64 + self.payload as u64)
    }

    /// The sequence number after this packet: payload, and one each for SYN and FIN.
    #[inline]
    pub const fn seq_end(&self) -> u64 {
        self.seq + self.payload as u64 + self.flags.has(Flags::SYN) as u64 + self.flags.has(Flags::FIN) as u64
    }

    /// Appends a SACK block `start..end`; what does not fit is left out, as on the wire. The header grows accordingly
    /// (two bytes of padding, two of option header, eight per block). An extension takes the place of the last blocks.
    #[inline]
    pub fn push_sack(&mut self, start: u64, end: u64) {
        let n = self.blocks();
        if n == MAX_SACK_BLOCKS || (self.has_extension() && n + self.extension().slots() >= MAX_SACK_BLOCKS) {
            return;
        }
        self.slots[n] = (start as u32, end as u32);
        self.options += 1;
        self.header = self.header.saturating_add(if n == 0 { 12 } else { 8 });
    }

    #[inline]
    const fn blocks(&self) -> usize {
        (self.options & BLOCKS) as usize
    }

    /// The SACK blocks, widened to 64 bits around the acknowledgement number.
    #[inline]
    pub fn sack_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let widen =
            |low: u32| self.ack.wrapping_add_signed(i64::from(low.wrapping_sub(self.ack as u32) as i32));
        self.slots[..self.blocks()].iter().map(move |&(start, end)| (widen(start), widen(end)))
    }

    /// Whether it carries SACK blocks.
    #[inline]
    pub const fn has_sack(&self) -> bool {
        self.options & BLOCKS > 0
    }

    /// Whether it carries explicit header fields.
    #[inline]
    pub const fn has_extension(&self) -> bool {
        (self.options >> TAG_SHIFT) & TAG != 0
    }

    /// Its explicit header fields.
    #[inline]
    pub const fn extension(&self) -> Extension {
        let [_, before, last] = self.slots;
        Extension::decode((self.options >> TAG_SHIFT) & TAG, [last, before])
    }

    /// Gives it other explicit header fields; the header grows or shrinks accordingly. SACK blocks that stand in their
    /// place are gone.
    pub fn set_extension(&mut self, extension: Extension) {
        let room = MAX_SACK_BLOCKS - extension.slots();
        while self.blocks() > room {
            self.options -= 1;
            self.header -= if self.blocks() == 0 { 12 } else { 8 };
        }
        let bare = self.header - self.extension().wire_bytes().min(self.header);
        self.header = bare.saturating_add(extension.wire_bytes());
        let (tag, [last, before]) = extension.encode();
        if extension.slots() >= 1 {
            self.slots[2] = last;
        }
        if extension.slots() == 2 {
            self.slots[1] = before;
        }
        self.options = (self.options & !(TAG << TAG_SHIFT)) | (tag << TAG_SHIFT);
    }

    /// Which of its flow's ways it takes; 0 is the first.
    #[inline]
    pub const fn path(&self) -> u8 {
        self.options >> PATH_SHIFT
    }

    /// Sends it another way.
    ///
    /// # Panics
    /// If there cannot be so many ways.
    #[inline]
    pub const fn set_path(&mut self, path: u8) {
        assert!((path as usize) < MAX_PATHS, "no such path");
        self.options = (self.options & ((1 << PATH_SHIFT) - 1)) | (path << PATH_SHIFT);
    }

    /// A control message of `flow`, from receiver to sender if `flags` have [`Flags::REVERSE`]. It stands where other
    /// packets have sequence numbers and SACK blocks.
    ///
    /// # Panics
    /// If the message is longer than [`MAX_MESSAGE`].
    pub fn control(flow: u32, flags: Flags, message: &[u8]) -> Self {
        assert!(message.len() <= MAX_MESSAGE, "a message of {} bytes", message.len());
        let mut body = [0; MAX_MESSAGE];
        body[..message.len()].copy_from_slice(message);
        let word = |at: usize| u64::from_be_bytes(body[at..at + 8].try_into().unwrap_or_default());
        let slot = |at: usize| ((word(at) >> 32) as u32, word(at) as u32);
        let mut packet = Self::new(flow);
        packet.flags = flags.with(Flags::CONTROL);
        packet.header = MESSAGE_HEADER_BYTES + message.len() as u16;
        (packet.seq, packet.ack) = (word(0), word(8));
        packet.slots = [slot(16), slot(24), slot(32)];
        packet
    }

    /// Gives a control message other bytes; where it goes and how far it has come remain.
    ///
    /// # Panics
    /// If the message is longer than [`MAX_MESSAGE`].
    pub fn set_message(&mut self, message: &[u8]) {
        let old = *self;
        *self = Self::control(old.flow, old.flags, message);
        (self.ecn, self.hop) = (old.ecn, old.hop);
        self.set_path(old.path());
    }

    /// The bytes of a control message, and how many of them count.
    pub fn message(&self) -> ([u8; MAX_MESSAGE], usize) {
        let mut body = [0; MAX_MESSAGE];
        body[..8].copy_from_slice(&self.seq.to_be_bytes());
        body[8..16].copy_from_slice(&self.ack.to_be_bytes());
        for (place, slot) in body[16..].chunks_exact_mut(8).zip(self.slots) {
            place[..4].copy_from_slice(&slot.0.to_be_bytes());
            place[4..].copy_from_slice(&slot.1.to_be_bytes());
        }
        (body, usize::from(self.header.saturating_sub(MESSAGE_HEADER_BYTES)).min(MAX_MESSAGE))
    }
}

/// A time as a timestamp-option value: microseconds modulo 2^32.
#[inline]
pub const fn timestamp(now: Nanos) -> u32 {
    (now.as_nanos() / 1_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_one_cache_line() {
        assert_eq!(size_of::<Packet>(), 64);
    }

    #[test]
    fn sack_blocks_survive_the_32_bit_wire_format_on_both_sides_of_the_acknowledgement() {
        let mut packet = Packet::new(0);
        packet.ack = (1 << 32) - 10;
        packet.push_sack((1 << 32) - 2000, (1 << 32) - 552); // a DSACK below it
        packet.push_sack((1 << 32) + 1448, (1 << 32) + 2896);
        let blocks: Vec<_> = packet.sack_blocks().collect();
        assert_eq!(blocks, [((1 << 32) - 2000, (1 << 32) - 552), ((1 << 32) + 1448, (1 << 32) + 2896)]);
        assert_eq!(packet.size(), Bytes::new(52 + 12 + 8));
    }

    #[test]
    fn an_extension_counts_with_its_wire_size_and_takes_the_place_of_the_last_sack_blocks() {
        let mut packet = Packet::new(0);
        let request = Extension::XcpRequest { rtt_us: 40_000, spacing: 0.25, delta: -1e6 };
        packet.set_extension(request);
        assert_eq!((packet.extension(), packet.size()), (request, Bytes::new(52 + 20)));
        assert!(packet.has_extension() && !packet.has_sack());
        packet.ack = 1;
        packet.set_extension(Extension::RcpReply { rate: 1.25e6 });
        for n in 0..3 {
            packet.push_sack(1000 * n + 1, 1000 * n + 501);
        }
        // Two blocks fit beside the reply.
        assert_eq!(packet.sack_blocks().collect::<Vec<_>>(), [(1, 501), (1001, 1501)]);
        assert_eq!(packet.extension(), Extension::RcpReply { rate: 1.25e6 });
        assert_eq!(packet.size(), Bytes::new(52 + 12 + 20));
        packet.set_extension(request);
        assert_eq!((packet.sack_blocks().count(), packet.extension()), (1, request));
        assert_eq!(packet.size(), Bytes::new(52 + 20 + 12));
        packet.set_extension(Extension::None);
        assert_eq!((packet.extension(), packet.size()), (Extension::None, Bytes::new(52 + 12)));
        assert!(!packet.has_extension());
    }

    #[test]
    fn the_options_of_multipath_tcp_have_their_size_on_the_wire_and_leave_room_for_two_sack_blocks() {
        // RFC 8684: figures 4, 5, 6, 7 and 9. Timestamps take 12 of the 40 bytes that TCP has for options.
        let size = |extension| {
            let mut packet = Packet::new(0);
            packet.set_extension(extension);
            packet.header - HEADER_BYTES
        };
        assert_eq!([false, true].map(|answer| size(Extension::Capable { answer })), [4, 12]);
        assert_eq!([false, true].map(|answer| size(Extension::Join { address: 1, answer })), [12, 16]);
        assert_eq!(size(Extension::Mapping { data: 5, subflow: 1, len: 1428, fin: false }), 18 + 2);
        let mut packet = Packet::new(0);
        packet.set_extension(Extension::DataAck { ack: 9 });
        packet.ack = 1;
        (0..3).for_each(|n| packet.push_sack(1000 * n + 1001, 1000 * n + 1501));
        assert_eq!(packet.sack_blocks().count(), 2);
        assert_eq!(packet.header - HEADER_BYTES, 40 - 12);
        assert_eq!(packet.extension(), Extension::DataAck { ack: 9 });
    }

    #[test]
    fn a_control_message_keeps_its_bytes_and_any_packet_its_path() {
        let bytes: Vec<u8> = (1..=MAX_MESSAGE as u8).collect();
        for len in 0..=MAX_MESSAGE {
            let mut packet = Packet::control(7, Flags::REVERSE, &bytes[..len]);
            packet.set_path(3);
            let (body, n) = packet.message();
            assert_eq!((&body[..n], packet.path(), packet.flow), (&bytes[..len], 3, 7));
            assert_eq!(packet.size(), Bytes::new(28 + len as u64));
            assert!(packet.flags.has(Flags::CONTROL) && packet.flags.has(Flags::REVERSE));
            packet.hop = 2;
            packet.set_message(&bytes[..5]);
            let (body, n) = packet.message();
            assert_eq!((&body[..n], packet.path(), packet.hop, packet.flow), (&bytes[..5], 3, 2, 7));
            assert_eq!(packet.size(), Bytes::new(33));
        }
        let mut packet = Packet::new(0);
        packet.set_path(2);
        packet.push_sack(5, 6);
        packet.set_extension(Extension::BrfRate { code: 65_535 });
        assert_eq!((packet.path(), packet.extension()), (2, Extension::BrfRate { code: 65_535 }));
        assert_eq!(packet.sack_blocks().count(), 1);
        packet.set_path(0);
        assert!(packet.path() == 0 && packet.has_extension() && packet.has_sack());
    }

    #[test]
    fn every_extension_survives_encoding_and_an_unknown_tag_is_none() {
        let all = [
            Extension::None,
            Extension::RcpRequest { rate: -1.0, rtt_us: u32::MAX },
            Extension::RcpReply { rate: f32::MAX },
            Extension::XcpRequest { rtt_us: 1, spacing: f32::MIN_POSITIVE, delta: 1e24 },
            Extension::XcpReply { delta: -0.5 },
            Extension::BrfOffer,
            Extension::BrfRate { code: 12_005 },
            Extension::Capable { answer: false },
            Extension::Capable { answer: true },
            Extension::Join { address: 7, answer: false },
            Extension::Join { address: u8::MAX, answer: true },
            Extension::Mapping { data: u64::MAX - 9, subflow: u32::MAX, len: u16::MAX, fin: false },
            Extension::Mapping { data: 1 << 40, subflow: 1, len: 0, fin: true },
            Extension::DataAck { ack: u32::MAX },
        ];
        for extension in all {
            let (tag, slots) = extension.encode();
            assert_eq!(Extension::decode(tag, slots), extension);
        }
        for tag in 11..=u8::MAX {
            assert_eq!(Extension::decode(tag, [(1, 1); 2]), Extension::None);
        }
    }
}
