//! The simulator's frame: one cache line, copied by value, without allocation.
//!
//! A [`Packet`] has common fields (flow, path, lengths, flags, ECN) and a body, accessed through the view of its
//! [`Kind`]: a TCP segment, a DCCP datagram or a control message. TCP options and control messages are opaque here; the
//! crate that writes them defines their meaning.

mod flags;
mod raw;
pub mod real;
mod room;
#[cfg(test)]
mod tests;

use std::num::NonZeroU8;

use narrows_net::{Direction, Frame};
use narrows_units::{Bytes, Nanos};

pub use flags::Flags;
pub use narrows_net::Ecn;
pub use raw::{ControlMessage, RawOption, Slot};
pub use room::Room;

/// Maximum number of SACK blocks in a header with timestamps.
pub const MAX_SACK_BLOCKS: usize = 3;
/// Maximum number of paths per flow.
pub const MAX_PATHS: usize = 4;
/// Bytes of the IP and TCP headers with timestamps: 20 + 20 + 12.
pub const HEADER_BYTES: u16 = 52;
/// Bytes of the IP and UDP headers of a control message: 20 + 8.
pub const MESSAGE_HEADER_BYTES: u16 = 28;

/// Type of a packet's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A TCP segment; see [`Packet::tcp`].
    Tcp,
    /// A DCCP datagram; see [`Packet::dccp`].
    Dccp,
    /// A control message between endpoints and nodes; see [`Packet::message`].
    Message,
    /// A TCP segment of a real host. Its bytes are stored outside the packet; see [`Packet::external`].
    External,
}

/// A packet: the fields common to all kinds, and a body of 52 bytes whose meaning depends on the kind. The
/// packet fills one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// TCP: sequence and acknowledgement number. DCCP: sequence number. Message: bytes 0 to 16.
    longs: [u64; 2],
    /// TCP: SACK blocks from the front, slots of the option from word 5 backwards, timestamps, window. DCCP:
    /// handle of the payload. Message: bytes 16 to 40.
    words: [u32; 9],
    /// Flow number.
    pub flow: u32,
    /// Payload bytes.
    pub payload: u16,
    /// Header bytes, including the IP header and options.
    pub header: u16,
    /// Flags.
    pub flags: Flags,
    /// Number of hops of the route that the packet has already taken; maintained by the simulator.
    pub hop: u8,
    /// From the lowest bit: 2 bits ECN, 2 bits path, 4 bits content tag.
    mark: u8,
    /// Layout of the TCP options.
    layout: Layout,
}

/// Layout of a segment's options, from the lowest bit: 2 bits for the number of SACK blocks, 2 bits for the
/// number of option slots, 3 bits for the option length in units of 4 bytes. The highest bit is set, so that
/// `Option<Packet>` is no larger than `Packet`.
#[derive(Clone, Copy, Debug)]
struct Layout(NonZeroU8);

impl Layout {
    const NOTHING: Self = Self(NonZeroU8::new(1 << 7).unwrap());

    #[inline]
    const fn new(blocks: u8, slots: u8, bytes: u8) -> Self {
        let bits = blocks | slots << 2 | (bytes / 4) << 4;
        match NonZeroU8::new(bits | Self::NOTHING.0.get()) {
            Some(bits) => Self(bits),
            None => Self::NOTHING,
        }
    }

    /// Number of SACK blocks.
    #[inline]
    const fn blocks(self) -> u8 {
        self.0.get() & 3
    }

    /// Number of slots of the option.
    #[inline]
    const fn slots(self) -> u8 {
        self.0.get() >> 2 & 3
    }

    /// Length of the option in the header, in bytes.
    #[inline]
    const fn bytes(self) -> u8 {
        (self.0.get() >> 4 & 7) * 4
    }

    /// The layout with another number of SACK blocks.
    #[inline]
    const fn with_blocks(self, blocks: u8) -> Self {
        Self::new(blocks, self.slots(), self.bytes())
    }
}

const PATH_SHIFT: u32 = 2;
const CONTENT_SHIFT: u32 = 4;
/// Content tags. A segment has the tag of its option, 1 to [`RawOption::MAX_TAG`], or 0 without an option.
const EXTERNAL: u8 = 13;
const DCCP: u8 = 14;
const MESSAGE: u8 = 15;

/// Word indices in the body.
const ROOM: usize = 1;
const SLOT_WORDS: usize = 2;
const TS_VAL: usize = 6;
const TS_ECR: usize = 7;
const WINDOW: usize = 8;

/// Header of a TCP segment. Sequence numbers have 64 bits and never wrap.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tcp {
    /// Sequence number of the first payload byte, or of the SYN or FIN itself.
    pub seq: u64,
    /// Next sequence number expected from the peer.
    pub ack: u64,
    /// Timestamp value (RFC 7323), in microseconds modulo 2^32.
    pub ts_val: u32,
    /// Timestamp echo.
    pub ts_ecr: u32,
    /// Receive window in bytes.
    pub window: u32,
}

/// Mutable references to the fields of [`Tcp`].
#[derive(Debug)]
pub struct TcpMut<'a> {
    /// See [`Tcp::seq`].
    pub seq: &'a mut u64,
    /// See [`Tcp::ack`].
    pub ack: &'a mut u64,
    /// See [`Tcp::ts_val`].
    pub ts_val: &'a mut u32,
    /// See [`Tcp::ts_ecr`].
    pub ts_ecr: &'a mut u32,
    /// See [`Tcp::window`].
    pub window: &'a mut u32,
}

/// A DCCP datagram. Its payload is stored outside the packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dccp {
    /// Sequence number.
    pub seq: u64,
    /// Handle of the payload, assigned by its owner.
    pub handle: u32,
}

/// A TCP segment of a real host. Its bytes are stored outside the packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ExternalSegment {
    /// Sequence number of the first payload byte, counted from the SYN at 0.
    pub seq: u64,
    /// Next sequence number expected from the peer, counted from its SYN at 0.
    pub ack: u64,
    /// Handle of the bytes, assigned by their owner.
    pub handle: u32,
    /// Space for a rate in the segment's header.
    pub room: Room,
}

impl Packet {
    /// A TCP segment of `flow` with no payload, no flag, and a header of [`HEADER_BYTES`].
    #[inline]
    pub const fn new(flow: u32) -> Self {
        Self {
            longs: [0; 2],
            words: [0; 9],
            flow,
            payload: 0,
            header: HEADER_BYTES,
            flags: Flags::NONE,
            hop: 0,
            mark: 0,
            layout: Layout::NOTHING,
        }
    }

    /// A DCCP datagram of `flow` with no payload, no flag and a header length of zero.
    #[inline]
    pub const fn datagram(flow: u32, dccp: Dccp) -> Self {
        let mut packet = Self::new(flow);
        packet.header = 0;
        packet.mark = DCCP << CONTENT_SHIFT;
        packet.longs[0] = dccp.seq;
        packet.words[0] = dccp.handle;
        packet
    }

    /// A TCP segment of a real host with no payload, no flag and a header length of zero.
    #[inline]
    pub const fn of_host(flow: u32, segment: ExternalSegment) -> Self {
        let mut packet = Self::new(flow);
        packet.header = 0;
        packet.mark = EXTERNAL << CONTENT_SHIFT;
        packet.longs = [segment.seq, segment.ack];
        packet.words[0] = segment.handle;
        packet.words[ROOM] = segment.room.word();
        packet
    }

    /// A control message of `flow`; it goes from receiver to sender if `flags` include [`Flags::REVERSE`].
    ///
    /// # Panics
    /// If the message is longer than [`ControlMessage::MAX_BYTES`].
    pub fn control(flow: u32, flags: Flags, message: &[u8]) -> Self {
        let mut packet = Self::new(flow);
        packet.mark = MESSAGE << CONTENT_SHIFT;
        packet.flags = flags;
        packet.set_message(message);
        packet
    }

    /// Type of the packet's body.
    #[inline]
    pub const fn kind(&self) -> Kind {
        match self.mark >> CONTENT_SHIFT {
            EXTERNAL => Kind::External,
            DCCP => Kind::Dccp,
            MESSAGE => Kind::Message,
            _ => Kind::Tcp,
        }
    }

    /// Bytes on the wire: header and payload.
    #[inline]
    pub const fn size(&self) -> Bytes {
        Bytes::new(self.header as u64 + self.payload as u64)
    }

    /// The packet's ECN codepoint.
    #[inline]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.mark)
    }

    /// Sets the ECN codepoint.
    #[inline]
    pub const fn set_ecn(&mut self, ecn: Ecn) {
        self.mark = (self.mark & !3) | ecn as u8;
    }

    /// Index of the packet's path among the paths of its flow; 0 is the first.
    #[inline]
    pub const fn path(&self) -> u8 {
        (self.mark >> PATH_SHIFT) & 3
    }

    /// Sets the index of the packet's path.
    ///
    /// # Panics
    /// If `path` is not below [`MAX_PATHS`].
    #[inline]
    pub const fn set_path(&mut self, path: u8) {
        assert!((path as usize) < MAX_PATHS, "no such path");
        self.mark = (self.mark & !(3 << PATH_SHIFT)) | (path << PATH_SHIFT);
    }

    /// Sequence and acknowledgement number for traces. A datagram has no acknowledgement number; a message
    /// yields its first 16 bytes.
    #[inline]
    pub const fn numbers(&self) -> (u64, u64) {
        (self.longs[0], self.longs[1])
    }

    /// One word that represents the packet in the event hash of a run.
    #[inline]
    pub const fn digest(&self) -> u64 {
        self.longs[0] ^ self.longs[1].rotate_left(32)
    }

    /// Header of a TCP segment.
    #[inline]
    pub const fn tcp(&self) -> Tcp {
        debug_assert!(matches!(self.kind(), Kind::Tcp));
        Tcp {
            seq: self.longs[0],
            ack: self.longs[1],
            ts_val: self.words[TS_VAL],
            ts_ecr: self.words[TS_ECR],
            window: self.words[WINDOW],
        }
    }

    /// Mutable access to the header of a TCP segment.
    #[inline]
    pub const fn tcp_mut(&mut self) -> TcpMut<'_> {
        debug_assert!(matches!(self.kind(), Kind::Tcp));
        let [seq, ack] = &mut self.longs;
        let [.., ts_val, ts_ecr, window] = &mut self.words;
        TcpMut { seq, ack, ts_val, ts_ecr, window }
    }

    /// The fields of a DCCP datagram.
    #[inline]
    pub const fn dccp(&self) -> Dccp {
        debug_assert!(matches!(self.kind(), Kind::Dccp));
        Dccp { seq: self.longs[0], handle: self.words[0] }
    }

    /// The fields of a real host's TCP segment.
    #[inline]
    pub const fn external(&self) -> ExternalSegment {
        debug_assert!(matches!(self.kind(), Kind::External));
        let room = Room::from_word(self.words[ROOM]);
        ExternalSegment { seq: self.longs[0], ack: self.longs[1], handle: self.words[0], room }
    }

    /// Sets the space for a rate in a real host's segment.
    #[inline]
    pub const fn set_room(&mut self, room: Room) {
        debug_assert!(matches!(self.kind(), Kind::External));
        self.words[ROOM] = room.word();
    }

    /// Sets the handle of a real host's segment.
    #[inline]
    pub const fn set_handle(&mut self, handle: u32) {
        debug_assert!(matches!(self.kind(), Kind::External));
        self.words[0] = handle;
    }

    /// The bytes of a control message.
    pub fn message(&self) -> ControlMessage {
        debug_assert_eq!(self.kind(), Kind::Message);
        let mut bytes = [0; ControlMessage::MAX_BYTES];
        for (place, long) in bytes.chunks_exact_mut(8).zip(self.longs) {
            place.copy_from_slice(&long.to_be_bytes());
        }
        for (place, word) in bytes[16..].chunks_exact_mut(4).zip(self.words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let len = usize::from(self.header.saturating_sub(MESSAGE_HEADER_BYTES));
        ControlMessage::new(&bytes[..len.min(ControlMessage::MAX_BYTES)])
    }

    /// Replaces the bytes of a control message.
    ///
    /// # Panics
    /// If there are more than [`ControlMessage::MAX_BYTES`].
    pub fn set_message(&mut self, message: &[u8]) {
        debug_assert_eq!(self.kind(), Kind::Message);
        let message = ControlMessage::new(message);
        self.header = MESSAGE_HEADER_BYTES + message.len() as u16;
        for (long, place) in self.longs.iter_mut().zip(message.bytes.chunks_exact(8)) {
            *long = place.iter().fold(0, |long, byte| long << 8 | u64::from(*byte));
        }
        for (word, place) in self.words.iter_mut().zip(message.bytes[16..].chunks_exact(4)) {
            *word = place.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
    }

    /// The sequence number that follows this segment: payload bytes count one each, and so do SYN and FIN.
    #[inline]
    pub const fn seq_end(&self) -> u64 {
        let marks = self.flags.has(Flags::SYN) as u64 + self.flags.has(Flags::FIN) as u64;
        self.tcp().seq + self.payload as u64 + marks
    }

    /// Appends the SACK block `start..end` unless the option space is full, as on the wire. The header grows by
    /// eight bytes per block; the first block adds two bytes of padding and two bytes of option header. An
    /// option occupies the space of the last blocks.
    #[inline]
    pub fn push_sack(&mut self, start: u64, end: u64) {
        let n = usize::from(self.layout.blocks());
        if n + usize::from(self.layout.slots()) >= MAX_SACK_BLOCKS {
            return;
        }
        // Keep only the low 32 bits, as on the wire.
        (self.words[SLOT_WORDS * n], self.words[SLOT_WORDS * n + 1]) = (start as u32, end as u32);
        self.layout = self.layout.with_blocks(n as u8 + 1);
        self.header = self.header.saturating_add(if n == 0 { 12 } else { 8 });
    }

    /// SACK blocks, widened to 64 bits around the acknowledgement number.
    #[inline]
    pub fn sack_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let ack = self.longs[1];
        let widen = move |low: u32| ack.wrapping_add_signed(i64::from(low.wrapping_sub(ack as u32) as i32));
        let slots = self.words.chunks_exact(SLOT_WORDS).take(usize::from(self.layout.blocks()));
        slots.map(move |slot| (widen(slot[0]), widen(slot[1])))
    }

    /// Whether the segment carries SACK blocks.
    #[inline]
    pub const fn has_sack(&self) -> bool {
        self.layout.blocks() > 0
    }

    /// Whether the packet is a segment with an option.
    #[inline]
    pub const fn has_option(&self) -> bool {
        matches!(self.mark >> CONTENT_SHIFT, 1..=RawOption::MAX_TAG)
    }

    /// The option, if the packet is a segment with an option.
    #[inline]
    pub const fn option(&self) -> Option<RawOption> {
        if !self.has_option() {
            return None;
        }
        let [.., c, d, a, b, _, _, _] = self.words;
        Some(RawOption {
            tag: self.mark >> CONTENT_SHIFT,
            used: self.layout.slots(),
            length: self.layout.bytes(),
            slots: [(a, b), (c, d)],
        })
    }

    /// Sets or removes the segment's option and adjusts the header length. If the space is too small, the
    /// option displaces SACK blocks.
    pub fn set_option(&mut self, option: Option<RawOption>) {
        debug_assert_eq!(self.kind(), Kind::Tcp);
        let (tag, used, length) = option.map_or((0, 0, 0), |option| (option.tag, option.used, option.length));
        let mut blocks = self.layout.blocks();
        while blocks + used > MAX_SACK_BLOCKS as u8 {
            blocks -= 1;
            self.header -= if blocks == 0 { 12 } else { 8 };
        }
        let bare = self.header - u16::from(self.layout.bytes()).min(self.header);
        self.header = bare.saturating_add(u16::from(length));
        let slots = option.map_or([(0, 0); 2], |option| option.slots);
        let last = MAX_SACK_BLOCKS * SLOT_WORDS;
        for (n, slot) in slots.iter().enumerate().take(usize::from(used)) {
            let at = last - SLOT_WORDS * (n + 1);
            (self.words[at], self.words[at + 1]) = *slot;
        }
        self.mark = (self.mark & ((1 << CONTENT_SHIFT) - 1)) | (tag << CONTENT_SHIFT);
        self.layout = Layout::new(blocks, used, length);
    }
}

/// The time as a timestamp option value: microseconds modulo 2^32.
#[inline]
pub const fn timestamp(now: Nanos) -> u32 {
    (now.as_nanos() / 1_000) as u32
}

impl Frame for Packet {
    #[inline]
    fn size(&self) -> Bytes {
        self.size()
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        self.ecn()
    }

    #[inline]
    fn set_ecn(&mut self, ecn: Ecn) {
        self.set_ecn(ecn);
    }

    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }

    #[inline]
    fn direction(&self) -> Direction {
        if self.flags.has(Flags::REVERSE) { Direction::Reverse } else { Direction::Forward }
    }
}
