//! BRF's option in real segments: experiment 0x4272 of TCP option 253, with the rate as a 16-bit code.

use narrows_packet::real::{Segment, clear_experiment, set_experiment};
use narrows_packet::{Flags, Packet, Room};

/// The experiment.
const EXID: u16 = 0x4272;
/// The code that receivers write where they have no limit, and senders into the SYN: the largest of all.
pub const NO_LIMIT: u16 = 65_529;
/// The flag of a segment that opens a direction (RFC 9293).
const OPENING: u8 = 2;

/// What the ends of a flow have agreed on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    offered: bool,
    accepted: bool,
}

impl Agreement {
    /// Notes what the first segment of each end says.
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

    /// Room for a rate in a segment. An acknowledgement whose blocks displaced the option has room in place of the last one,
    /// as the simulator's has.
    pub fn room(self, segment: &Segment<'_>, reverse: bool) -> Room {
        match segment.experiment(EXID) {
            Some(NO_LIMIT) => Room::Empty,
            Some(code) => Room::Holds(code),
            None if reverse && self.offered && self.accepted && segment.is_crowded() => Room::Empty,
            None => Room::None,
        }
    }
}

/// What a hostile network does to the options that reach senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// It removes them.
    Strip,
    /// It replaces their rates by these codes in turn.
    Codes(&'static [u16]),
}

/// A hostile network, or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forger {
    forgery: Option<Forgery>,
    count: usize,
}

impl Forger {
    /// A network that forges in this way.
    pub const fn new(forgery: Option<Forgery>) -> Self {
        Self { forgery, count: 0 }
    }
}

/// Writes the rate of a packet into its bytes, and then what the network forges on the way to senders.
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
