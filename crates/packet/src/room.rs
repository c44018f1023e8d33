//! Space for a rate in a real host's segment. Router algorithms access the space like any rate header;
//! `narrows-brf` copies the rate into the bytes of TCP option 253.

/// Space for a rate from the network in the header of a real host's segment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Room {
    /// No space.
    #[default]
    None,
    /// Space without a rate.
    Empty,
    /// An encoded rate.
    Holds(u16),
}

impl Room {
    pub(crate) const fn word(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Empty => 1,
            Self::Holds(code) => 2 | (code as u32) << 16,
        }
    }

    pub(crate) const fn from_word(word: u32) -> Self {
        match word & 3 {
            0 => Self::None,
            1 => Self::Empty,
            _ => Self::Holds((word >> 16) as u16),
        }
    }
}
