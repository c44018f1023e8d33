//! Features: values that both sides of a connection agree on (RFC 4340 section 6).
//!
//! A feature is located at one side and of one kind. Those of server priority (SP) have a list of preferences at each side;
//! the agreed value is the first of the server's list that the client's has too. Those that are non-negotiable (NN) are
//! numbers that their location states.
//!
//! ```text
//!             want, or a list that must be told               Confirm, or empty Confirm
//!   STABLE ------------------------------------> CHANGING -------------------------------> STABLE
//!      ^ Change: reconcile, Confirm                  | repeated with back-off; Change: reconcile, Confirm
//!      +--- (stays)                                  +--- (stays)
//! ```
//!
//! Lists never change while a Change is on its way, so the state UNSTABLE of the RFC does not occur.

#[cfg(test)]
mod tests;

use narrows_cc::Nanos;

use crate::seq::Seq;
use crate::wire::{Opt, ResetCode};

/// Congestion control of the data its location sends (SP, 2).
pub const CCID: u8 = 1;
/// Its location may send short sequence numbers (SP, 0).
pub const SHORT_NUMBERS: u8 = 2;
/// Width of the window of the numbers its location sends (NN, 100).
pub const SEQUENCE_WINDOW: u8 = 3;
/// Its location cannot read ECN marks (SP, 0).
pub const ECN_INCAPABLE: u8 = 4;
/// Data packets of its location per acknowledgement (NN, 2).
pub const ACK_RATIO: u8 = 5;
/// Its location sends Ack Vectors (SP, 0).
pub const SEND_ACK_VECTOR: u8 = 6;
/// Its location sends NDP counts (SP, 0).
pub const SEND_NDP_COUNT: u8 = 7;
/// Least checksum coverage that its location takes (SP, 0).
pub const MIN_COVERAGE: u8 = 8;
/// Its location wants the checksum of the data (SP, 0).
pub const CHECK_DATA: u8 = 9;
/// CCID 3: its location sends loss event rates (SP, 0; RFC 4342 section 8.4).
pub const SEND_LOSS_EVENT_RATE: u8 = 192;

/// The bounds of the sequence window (section 7.5.2).
pub const SEQUENCE_WINDOWS: (u64, u64) = (32, (1 << 46) - 1);

/// The most values a list of preferences has here; what comes beyond is not read.
const MOST: usize = 8;

/// The longest interval between two Changes of one value (as section 8.1.1 bounds that of Requests).
const LONGEST: Nanos = Nanos::from_secs(64);

/// Every feature: number, whether it is non-negotiable, its value at first.
const ALL: [(u8, bool, u64); 10] = [
    (CCID, false, 2),
    (SHORT_NUMBERS, false, 0),
    (SEQUENCE_WINDOW, true, 100),
    (ECN_INCAPABLE, false, 0),
    (ACK_RATIO, true, 2),
    (SEND_ACK_VECTOR, false, 0),
    (SEND_NDP_COUNT, false, 0),
    (MIN_COVERAGE, false, 0),
    (CHECK_DATA, false, 0),
    (SEND_LOSS_EVENT_RATE, false, 0),
];

/// Where a feature is located.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Here.
    Local,
    /// At the other side.
    Remote,
}

/// A short list of values, most wanted first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct List {
    values: [u8; MOST],
    len: u8,
}

impl List {
    fn new(values: &[u8]) -> Self {
        let mut list = Self::default();
        for &value in values.iter().take(MOST) {
            list.values[usize::from(list.len)] = value;
            list.len += 1;
        }
        list
    }

    fn as_slice(&self) -> &[u8] {
        &self.values[..usize::from(self.len)]
    }
}

/// What is to be confirmed with the next packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    None,
    Value,
    /// The value that was asked for cannot be.
    Empty,
}

/// One feature at one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    number: u8,
    side: Side,
    /// Non-negotiable.
    nn: bool,
    value: u64,
    /// What a Change on its way asks for, if it is a number.
    wanted: u64,
    list: List,
    changing: bool,
    /// The Change has been sent at least once.
    told: bool,
    mandatory: bool,
    answer: Answer,
}

/// All features of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Features {
    server: bool,
    slots: [Slot; 2 * ALL.len()],
    /// The greatest number of a packet received with such options (FGSR); of one sent with a new Change (FGSS).
    received: Option<Seq>,
    sent: Option<Seq>,
    /// Features or options that are not known here: their empty Confirms, kind and number.
    unknown: [(u8, u8); 4],
    unknowns: u8,
    /// Something is to be confirmed.
    answers: bool,
    repeat_at: Nanos,
    interval: Nanos,
}

/// What became of the options of a packet.
pub(crate) type Outcome = Result<(), ResetCode>;

impl Features {
    /// All features at their first values, no preferences but these.
    pub fn new(server: bool) -> Self {
        let slot = |i: usize| {
            let (number, nn, value) = ALL[i / 2];
            Slot {
                number,
                side: if i.is_multiple_of(2) { Side::Local } else { Side::Remote },
                nn,
                value,
                wanted: value,
                list: if nn { List::default() } else { List::new(&[value as u8]) },
                changing: false,
                told: false,
                mandatory: false,
                answer: Answer::None,
            }
        };
        Self {
            server,
            slots: std::array::from_fn(slot),
            received: None,
            sent: None,
            unknown: [(0, 0); 4],
            unknowns: 0,
            answers: false,
            repeat_at: Nanos::MAX,
            interval: Nanos::ZERO,
        }
    }

    fn index(number: u8, side: Side) -> Option<usize> {
        let i = ALL.iter().position(|&(known, ..)| known == number)?;
        Some(2 * i + usize::from(side == Side::Remote))
    }

    /// The agreed value.
    ///
    /// # Panics
    /// If there is no such feature: a slip of the caller.
    pub fn value(&self, number: u8, side: Side) -> u64 {
        self.slots[Self::index(number, side).expect("a feature of the table")].value
    }

    /// Whether a Change of it is still to be confirmed.
    pub fn is_changing(&self, number: u8, side: Side) -> bool {
        Self::index(number, side).is_some_and(|i| self.slots[i].changing)
    }

    /// The values that are acceptable here, without asking for any.
    pub fn accept(&mut self, number: u8, side: Side, values: &[u8]) {
        if let Some(i) = Self::index(number, side)
            && !self.slots[i].changing
        {
            self.slots[i].list = List::new(values);
        }
    }

    /// Asks for the first of these values, or one of the next if that cannot be. With `mandatory` the other side ends the
    /// connection if it can have none of them. Ignored while an earlier wish is under way.
    pub fn want(&mut self, now: Nanos, number: u8, side: Side, values: &[u8], mandatory: bool) {
        let Some(i) = Self::index(number, side) else { return };
        if self.slots[i].changing || self.slots[i].nn {
            return;
        }
        let slot = &mut self.slots[i];
        slot.list = List::new(values);
        if values.first().is_some_and(|&first| u64::from(first) == slot.value) {
            return;
        }
        (slot.changing, slot.told, slot.mandatory) = (true, false, mandatory);
        self.repeat_at = now;
        self.interval = Nanos::ZERO;
    }

    /// States a number of ours.
    pub fn state(&mut self, now: Nanos, number: u8, value: u64) {
        let Some(i) = Self::index(number, Side::Local) else { return };
        let slot = &mut self.slots[i];
        if !slot.nn || slot.wanted == value {
            return;
        }
        slot.wanted = value;
        (slot.changing, slot.told) = (slot.value != value, false);
        self.repeat_at = now;
        self.interval = Nanos::ZERO;
    }

    /// Whether options wait for a packet to carry them at `now`.
    pub fn has_news(&self, now: Nanos) -> bool {
        self.answers || now >= self.repeat_at
    }

    /// When a Change is to be repeated.
    pub fn deadline(&self) -> Nanos {
        self.repeat_at
    }

    /// A packet number `seq` brings a Change. It is new if no later packet brought such options before; `after` all options of
    /// a packet comes [`Features::received`].
    pub(crate) fn on_change(
        &mut self,
        seq: Seq,
        left: bool,
        number: u8,
        value: &[u8],
        mandatory: bool,
    ) -> Outcome {
        if self.received.is_some_and(|last| !seq.after(last)) {
            return Ok(());
        }
        // Change L speaks of a feature at its sender, Change R of one here.
        let side = if left { Side::Remote } else { Side::Local };
        self.answers = true;
        let refused = if mandatory { Err(ResetCode::MandatoryError) } else { Ok(()) };
        let Some(i) = Self::index(number, side) else {
            let confirm = if left { 35 } else { 33 };
            if usize::from(self.unknowns) < self.unknown.len() {
                self.unknown[usize::from(self.unknowns)] = (confirm, number);
                self.unknowns += 1;
            }
            return refused;
        };
        let server = self.server;
        let slot = &mut self.slots[i];
        if slot.nn {
            // Section 6.3.2: Change R and Confirm L are not for these.
            return match number_of(number, value).filter(|&value| left && is_valid(number, value)) {
                Some(value) => {
                    slot.value = value;
                    slot.answer = Answer::Value;
                    Ok(())
                }
                None => {
                    slot.answer = if left { Answer::Empty } else { slot.answer };
                    refused
                }
            };
        }
        let theirs = &value[..value.len().min(MOST)];
        let (first, second) =
            if server { (slot.list.as_slice(), theirs) } else { (theirs, slot.list.as_slice()) };
        match first.iter().find(|value| second.contains(value)) {
            Some(&agreed) => {
                slot.value = u64::from(agreed);
                slot.answer = Answer::Value;
                Ok(())
            }
            // Section 6.3.1: without a common value the feature keeps its own.
            None if value.is_empty() => {
                slot.answer = Answer::Empty;
                refused
            }
            None => {
                slot.answer = Answer::Value;
                refused
            }
        }
    }

    /// A packet number `seq` that acknowledges `ack` brings a Confirm. An error says that the other side claims what it
    /// cannot.
    pub(crate) fn on_confirm(
        &mut self,
        seq: Seq,
        ack: Option<Seq>,
        left: bool,
        number: u8,
        value: &[u8],
    ) -> Outcome {
        let old = self.received.is_some_and(|last| !seq.after(last));
        let answers = match (ack, self.sent) {
            (Some(ack), Some(sent)) => !sent.after(ack),
            _ => false,
        };
        let side = if left { Side::Remote } else { Side::Local };
        let Some(i) = Self::index(number, side) else { return Ok(()) };
        let slot = &mut self.slots[i];
        if old || !answers || !slot.changing || !slot.told {
            return Ok(());
        }
        if value.is_empty() {
            // Every DCCP has to know these (table 4, section 6.6.7).
            if matches!(number, CCID | SHORT_NUMBERS | SEQUENCE_WINDOW) {
                return Err(ResetCode::OptionError);
            }
            slot.changing = false;
            slot.wanted = slot.value;
        } else if slot.nn {
            // Another number may answer an older Change of ours: this one is repeated until its answer comes.
            if number_of(number, value) == Some(slot.wanted) {
                slot.value = slot.wanted;
                slot.changing = false;
            }
        } else {
            let agreed = value[0];
            if slot.list.as_slice().contains(&agreed) {
                slot.value = u64::from(agreed);
            } else if u64::from(agreed) != slot.value {
                return Err(ResetCode::OptionError);
            }
            slot.changing = false;
        }
        Ok(())
    }

    /// All options of packet `seq` are read, some of them of this kind.
    pub(crate) fn received(&mut self, seq: Seq) {
        if self.received.is_none_or(|last| seq.after(last)) {
            self.received = Some(seq);
        }
        if !self.slots.iter().any(|slot| slot.changing) {
            self.repeat_at = Nanos::MAX;
        }
    }

    /// A verified erratum of section 6.6.4: these numbers must not be overtaken by half a circle.
    pub(crate) fn keep_up(&mut self, greatest_received: Seq, greatest_sent: Seq) {
        let widest = -(SEQUENCE_WINDOWS.1 as i64);
        if self.received.is_some_and(|seq| seq.after(greatest_received)) {
            self.received = Some(greatest_received.add(widest));
        }
        if self.sent.is_some_and(|seq| seq.after(greatest_sent)) {
            self.sent = Some(greatest_sent.add(widest));
        }
    }

    /// Writes what packet `seq` shall carry: what waits to be confirmed, and Changes that were not told or whose time it is.
    /// `interval` is the time to the first repetition.
    pub(crate) fn write(&mut self, now: Nanos, seq: Seq, interval: Nanos, all: bool, out: &mut Vec<u8>) {
        let due = all || now >= self.repeat_at;
        let mut news = false;
        let mut any = false;
        for (confirm, feature) in &self.unknown[..usize::from(self.unknowns)] {
            let value = &[];
            let feature = *feature;
            let option = if *confirm == 33 {
                Opt::ConfirmL { feature, value }
            } else {
                Opt::ConfirmR { feature, value }
            };
            option.write(out);
        }
        (self.unknowns, self.answers) = (0, false);
        for slot in &mut self.slots {
            if slot.answer != Answer::None {
                let mut bytes = [0; MOST + 1];
                let len = if slot.answer == Answer::Empty { 0 } else { slot.confirmed(&mut bytes) };
                let (feature, value) = (slot.number, &bytes[..len]);
                match slot.side {
                    Side::Local => Opt::ConfirmL { feature, value }.write(out),
                    Side::Remote => Opt::ConfirmR { feature, value }.write(out),
                }
                slot.answer = Answer::None;
            }
            if slot.changing && due {
                if slot.mandatory {
                    Opt::Mandatory.write(out);
                }
                let number = slot.wanted.to_be_bytes();
                let value = if slot.nn { &number[8 - width(slot.number)..] } else { slot.list.as_slice() };
                let feature = slot.number;
                match slot.side {
                    Side::Local => Opt::ChangeL { feature, value }.write(out),
                    Side::Remote => Opt::ChangeR { feature, value }.write(out),
                }
                news |= !slot.told;
                slot.told = true;
                any = true;
            }
        }
        if news {
            self.sent = Some(seq);
        }
        if any {
            self.interval = if news { interval } else { (self.interval * 2).min(LONGEST).max(interval) };
            self.repeat_at = now.saturating_add(self.interval);
        } else if due {
            self.repeat_at = Nanos::MAX;
        }
    }
}

impl Slot {
    /// The value of a Confirm: what is agreed, then our preferences if it has any.
    fn confirmed(&self, out: &mut [u8; MOST + 1]) -> usize {
        if self.nn {
            let width = width(self.number);
            out[..width].copy_from_slice(&self.value.to_be_bytes()[8 - width..]);
            return width;
        }
        let list = self.list.as_slice();
        out[0] = self.value as u8;
        out[1..=list.len()].copy_from_slice(list);
        1 + list.len()
    }
}

/// Bytes of a number: six for the sequence window, two for the ack ratio.
const fn width(number: u8) -> usize {
    if number == SEQUENCE_WINDOW { 6 } else { 2 }
}

/// A number in as many bytes as its feature has (section 6.6.8).
fn number_of(number: u8, value: &[u8]) -> Option<u64> {
    (value.len() == width(number)).then(|| value.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Whether a feature can have that number. Of the two only the window has values that are never valid: the RFC's section 6.6.8
/// means it where it says Ack Ratio, by a verified erratum.
fn is_valid(number: u8, value: u64) -> bool {
    match number {
        SEQUENCE_WINDOW => (SEQUENCE_WINDOWS.0..=SEQUENCE_WINDOWS.1).contains(&value),
        _ => value <= 0xffff,
    }
}
