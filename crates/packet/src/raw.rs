//! Opaque contents of packets: TCP options and control messages.

use std::fmt;

/// Eight bytes of a TCP option.
pub type Slot = (u32, u32);

/// A TCP option as stored in the packet: a tag, up to two slots of eight bytes, and its length on the wire.
/// Only the option's writer and reader interpret the slots. All options share one number space of tags, like
/// TCP option kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawOption {
    pub(crate) tag: u8,
    pub(crate) used: u8,
    pub(crate) length: u8,
    pub(crate) slots: [Slot; 2],
}

impl RawOption {
    /// Highest tag; the lowest is 1.
    pub const MAX_TAG: u8 = 12;
    /// Maximum length of an option in bytes.
    pub const MAX_BYTES: u16 = 28;

    /// Creates an option that occupies `wire_bytes` bytes on the wire.
    ///
    /// # Panics
    /// If the tag is out of range, the length is not a multiple of four or above [`RawOption::MAX_BYTES`], or
    /// there are more than two slots.
    #[inline]
    pub const fn new(tag: u8, wire_bytes: u16, slots: &[Slot]) -> Self {
        assert!(tag > 0 && tag <= Self::MAX_TAG, "no such tag");
        assert!(wire_bytes <= Self::MAX_BYTES && wire_bytes.is_multiple_of(4), "no such length");
        let (used, slots) = match *slots {
            [] => (0, [(0, 0); 2]),
            [first] => (1, [first, (0, 0)]),
            [first, second] => (2, [first, second]),
            _ => panic!("an option has two slots"),
        };
        Self { tag, used, length: wire_bytes as u8, slots }
    }

    /// Tag of the option.
    #[inline]
    pub const fn tag(&self) -> u8 {
        self.tag
    }

    /// The option's slots; unused slots have arbitrary contents.
    #[inline]
    pub const fn slots(&self) -> [Slot; 2] {
        self.slots
    }

    /// Length of the option on the wire, in bytes.
    #[inline]
    pub const fn wire_bytes(&self) -> u16 {
        self.length as u16
    }
}

/// Bytes of a control message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ControlMessage {
    pub(crate) bytes: [u8; Self::MAX_BYTES],
    len: u8,
}

impl ControlMessage {
    /// Maximum length of a message in bytes.
    pub const MAX_BYTES: usize = 40;

    /// Creates a message with these bytes.
    ///
    /// # Panics
    /// If there are more than [`ControlMessage::MAX_BYTES`].
    pub fn new(message: &[u8]) -> Self {
        assert!(message.len() <= Self::MAX_BYTES, "a message of {} bytes", message.len());
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[..message.len()].copy_from_slice(message);
        Self { bytes, len: message.len() as u8 }
    }

    /// The message's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Length of the message in bytes.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the message is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for ControlMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControlMessage({:02x?})", self.as_bytes())
    }
}
