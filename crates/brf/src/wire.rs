//! BRF's option in real segments: experiment 0x4272 of TCP option 253, with the rate as a 16-bit code.

use narrows_packet::real::{Segment, clear_experiment, set_experiment};
use narrows_packet::{Flags, Packet, Room};

/// Identifier of the experiment (ExID).
const EXID: u16 = 0x4272;
/// The code of receivers without a limit, and of senders in the SYN: the largest.
pub const NO_LIMIT: u16 = 65_529;
/// SYN: the flag of a segment that opens a direction (RFC 9293).
const OPENING: u8 = 2;

/// Whether both endpoints of a flow agreed on the option.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    offered: bool,
    accepted: bool,
}

impl Agreement {
    /// Notes whether the first segment of an endpoint carries the option.
    pub fn note(&mut self, segment: &Segment<'_>, reverse: bool) {
        if segment.bits & OPENING == 0 {
            return;
        }
        let carries = segment.experiment(EXID).is_some();
        if reverse {
            self.accepted = carries;
        } else {
            *self = Self { offered: carries, accepted: false };
        }
    }

    /// Space for a rate in a segment. As in the simulator, an acknowledgement whose SACK blocks displaced the option
    /// has space in place of the last block.
    pub fn room(self, segment: &Segment<'_>, reverse: bool) -> Room {
        match segment.experiment(EXID) {
            Some(NO_LIMIT) => Room::Empty,
            Some(code) => Room::Holds(code),
            None if reverse && self.offered && self.accepted && segment.is_crowded() => Room::Empty,
            None => Room::None,
        }
    }
}

/// A hostile network's treatment of options towards senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// The network removes the options.
    Strip,
    /// The network replaces the rates of the options by these codes in turn.
    Codes(&'static [u16]),
}

/// A network that forges options, or leaves them unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forger {
    forgery: Option<Forgery>,
    count: usize,
}

impl Forger {
    /// A network with this forgery, if any.
    pub const fn new(forgery: Option<Forgery>) -> Self {
        Self { forgery, count: 0 }
    }
}

/// Writes a packet's rate into its bytes, and then any forgery towards senders.
pub fn write(packet: &Packet, bytes: &mut [u8], forger: &mut Forger) {
    if let Room::Holds(code) = packet.external().room {
        set_experiment(bytes, EXID, code);
    }
    if !packet.flags.has(Flags::REVERSE) {
        return;
    }
    match forger.forgery {
        None | Some(Forgery::Codes([])) => {}
        Some(Forgery::Strip) => clear_experiment(bytes, EXID),
        Some(Forgery::Codes(codes)) => {
            let code = codes[forger.count % codes.len()];
            if Segment::read(bytes).is_some_and(|segment| segment.experiment(EXID).is_some()) {
                set_experiment(bytes, EXID, code);
                forger.count += 1;
            }
        }
    }
}
