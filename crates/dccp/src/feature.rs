//! Feature negotiation (RFC 4340 section 6).
//!
//! A feature is located at one endpoint. Server-priority (SP) features have a preference list at each
//! endpoint; the agreed value is the first entry of the server's list that the client's list contains.
//! Non-negotiable (NN) features are numbers that the feature location sets.
//!
//! ```text
//!              request, or set a number                      Confirm, or empty Confirm
//!   STABLE ------------------------------------> CHANGING -------------------------------> STABLE
//!      ^ Change: reconcile, Confirm                  | retransmitted with back-off
//!      +--- (stays)                                  +--- Change: reconcile, Confirm (stays)
//! ```
//!
//! Preference lists never change while a Change is outstanding, so the RFC's state UNSTABLE does not occur.

#[cfg(test)]
mod tests;

use narrows_cc::Nanos;

use crate::seq::Seq;
use crate::wire::{Opt, ResetCode};

/// Congestion control of the data that the location sends (SP, 2).
pub const CCID: u8 = 1;
/// The location may send short sequence numbers (SP, 0).
pub const SHORT_NUMBERS: u8 = 2;
/// Sequence Window: width of the window for the location's sequence numbers (NN, 100).
pub const SEQUENCE_WINDOW: u8 = 3;
/// The location cannot read ECN marks (SP, 0).
pub const ECN_INCAPABLE: u8 = 4;
/// Ack Ratio: data packets of the location per acknowledgement (NN, 2).
pub const ACK_RATIO: u8 = 5;
/// The location sends Ack Vectors (SP, 0).
pub const SEND_ACK_VECTOR: u8 = 6;
/// The location sends NDP counts (SP, 0).
pub const SEND_NDP_COUNT: u8 = 7;
/// Minimum checksum coverage that the location accepts (SP, 0).
pub const MIN_COVERAGE: u8 = 8;
/// The location requires Data Checksums (SP, 0).
pub const CHECK_DATA: u8 = 9;
/// CCID 3: the location sends Loss Event Rate options (SP, 0; RFC 4342 section 8.4).
pub const SEND_LOSS_EVENT_RATE: u8 = 192;

/// Bounds of the Sequence Window (section 7.5.2).
pub const SEQUENCE_WINDOWS: (u64, u64) = (32, (1 << 46) - 1);

/// Longest preference list; further entries are ignored.
const MAX_PREFERENCES: usize = 8;

/// Longest retransmission interval of a Change, equal to that of a Request (section 8.1.1).
const MAX_INTERVAL: Nanos = Nanos::from_secs(64);

/// Known features: number, whether non-negotiable, initial value.
const KNOWN: [(u8, bool, u64); 10] = [
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

/// Location of a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// This endpoint.
    Local,
    /// The peer.
    Remote,
}

/// A short preference list, most preferred value first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct List {
    values: [u8; MAX_PREFERENCES],
    len: u8,
}

impl List {
    fn new(values: &[u8]) -> Self {
        let mut list = Self::default();
        for &value in values.iter().take(MAX_PREFERENCES) {
            list.values[usize::from(list.len)] = value;
            list.len += 1;
        }
        list
    }

    fn as_slice(&self) -> &[u8] {
        &self.values[..usize::from(self.len)]
    }
}

/// Confirm to send in the next packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PendingConfirm {
    None,
    Value,
    /// The requested value is invalid.
    Empty,
}

/// One feature at one location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Feature {
    number: u8,
    side: Side,
    /// Whether the feature is non-negotiable.
    nn: bool,
    value: u64,
    /// Number in the outstanding Change of an NN feature.
    requested: u64,
    list: List,
    changing: bool,
    /// Whether the Change was sent at least once.
    sent: bool,
    mandatory: bool,
    confirm: PendingConfirm,
}

/// All features of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Features {
    server: bool,
    features: [Feature; 2 * KNOWN.len()],
    /// FGSR: greatest sequence number of a received packet with feature options. FGSS: sequence number of the sent
    /// packet that carried the last new Change.
    fgsr: Option<Seq>,
    fgss: Option<Seq>,
    /// Empty Confirms for unknown features: option type, feature number.
    unknown: [(u8, u8); 4],
    unknowns: u8,
    /// Whether a Confirm is pending.
    confirms: bool,
    retransmit_at: Nanos,
    interval: Nanos,
}

/// Result of a feature option; an error is a reset code.
pub(crate) type Outcome = Result<(), ResetCode>;

impl Features {
    /// All features at their initial values, each with that value as its only preference.
    pub fn new(server: bool) -> Self {
        let slot = |i: usize| {
            let (number, nn, value) = KNOWN[i / 2];
            Feature {
                number,
                side: if i.is_multiple_of(2) { Side::Local } else { Side::Remote },
                nn,
                value,
                requested: value,
                list: if nn { List::default() } else { List::new(&[value as u8]) },
                changing: false,
                sent: false,
                mandatory: false,
                confirm: PendingConfirm::None,
            }
        };
        Self {
            server,
            features: std::array::from_fn(slot),
            fgsr: None,
            fgss: None,
            unknown: [(0, 0); 4],
            unknowns: 0,
            confirms: false,
            retransmit_at: Nanos::MAX,
            interval: Nanos::ZERO,
        }
    }

    fn index(number: u8, side: Side) -> Option<usize> {
        let i = KNOWN.iter().position(|&(known, ..)| known == number)?;
        Some(2 * i + usize::from(side == Side::Remote))
    }

    /// Agreed value of a feature.
    ///
    /// # Panics
    /// If the feature is unknown.
    pub fn value(&self, number: u8, side: Side) -> u64 {
        self.features[Self::index(number, side).expect("a feature of the table")].value
    }

    /// Whether a Change of the feature is outstanding.
    pub fn is_changing(&self, number: u8, side: Side) -> bool {
        Self::index(number, side).is_some_and(|i| self.features[i].changing)
    }

    /// Sets the acceptable values without opening a negotiation.
    pub fn set_preferences(&mut self, number: u8, side: Side, values: &[u8]) {
        if let Some(i) = Self::index(number, side)
            && !self.features[i].changing
        {
            self.features[i].list = List::new(values);
        }
    }

    /// Opens a negotiation with a preference list. With `mandatory`, a peer that accepts none of the values
    /// resets the connection. Ignored while an earlier Change is outstanding.
    pub fn request(&mut self, now: Nanos, number: u8, side: Side, values: &[u8], mandatory: bool) {
        let Some(i) = Self::index(number, side) else { return };
        if self.features[i].changing || self.features[i].nn {
            return;
        }
        let slot = &mut self.features[i];
        slot.list = List::new(values);
        if values.first().is_some_and(|&first| u64::from(first) == slot.value) {
            return;
        }
        (slot.changing, slot.sent, slot.mandatory) = (true, false, mandatory);
        self.retransmit_at = now;
        self.interval = Nanos::ZERO;
    }

    /// Sets a non-negotiable feature of this endpoint.
    pub fn set_local(&mut self, now: Nanos, number: u8, value: u64) {
        let Some(i) = Self::index(number, Side::Local) else { return };
        let slot = &mut self.features[i];
        if !slot.nn || slot.requested == value {
            return;
        }
        slot.requested = value;
        (slot.changing, slot.sent) = (slot.value != value, false);
        self.retransmit_at = now;
        self.interval = Nanos::ZERO;
    }

    /// Whether feature options are pending at `now`.
    pub fn has_news(&self, now: Nanos) -> bool {
        self.confirms || now >= self.retransmit_at
    }

    /// Time of the next retransmission of a Change.
    pub fn deadline(&self) -> Nanos {
        self.retransmit_at
    }

    /// Processes a feature option of packet `seq` with acknowledgement number `ack`; `None` for other options. An error
    /// holds the code of the Reset and its data: the option type, the feature number and the first byte of the value
    /// (section 5.6).
    pub(crate) fn on_option(
        &mut self,
        seq: Seq,
        ack: Option<Seq>,
        option: &Opt<'_>,
        mandatory: bool,
    ) -> Option<Result<(), (ResetCode, [u8; 3])>> {
        let (change, left, feature, value) = match *option {
            Opt::ChangeL { feature, value } => (true, true, feature, value),
            Opt::ChangeR { feature, value } => (true, false, feature, value),
            Opt::ConfirmL { feature, value } => (false, true, feature, value),
            Opt::ConfirmR { feature, value } => (false, false, feature, value),
            _ => return None,
        };
        let outcome = if change {
            self.on_change(seq, left, feature, value, mandatory)
        } else {
            self.on_confirm(seq, ack, left, feature, value)
        };
        let first = value.first().copied().unwrap_or(0);
        Some(outcome.map_err(|code| (code, [option.kind(), feature, first])))
    }

    /// Processes a Change in packet `seq`, unless a later packet carried feature options. After all options
    /// of a packet, call [`Features::end_options`].
    pub(crate) fn on_change(&mut self, seq: Seq, left: bool, number: u8, value: &[u8], mandatory: bool) -> Outcome {
        if self.fgsr.is_some_and(|last| !seq.after(last)) {
            return Ok(());
        }
        // Change L is for a feature located at the option's sender; Change R is for a feature located at the option's
        // receiver.
        let side = if left { Side::Remote } else { Side::Local };
        self.confirms = true;
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
        let slot = &mut self.features[i];
        if slot.nn {
            // Section 6.3.2: non-negotiable features use only Change L and Confirm R.
            return match decode_number(number, value).filter(|&value| left && is_valid(number, value)) {
                Some(value) => {
                    slot.value = value;
                    slot.confirm = PendingConfirm::Value;
                    Ok(())
                }
                None => {
                    slot.confirm = if left { PendingConfirm::Empty } else { slot.confirm };
                    refused
                }
            };
        }
        let theirs = &value[..value.len().min(MAX_PREFERENCES)];
        let (first, second) = if server { (slot.list.as_slice(), theirs) } else { (theirs, slot.list.as_slice()) };
        match first.iter().find(|value| second.contains(value)) {
            Some(&agreed) => {
                slot.value = u64::from(agreed);
                slot.confirm = PendingConfirm::Value;
                Ok(())
            }
            // Section 6.3.1: without a common value the feature keeps its value.
            None if value.is_empty() => {
                slot.confirm = PendingConfirm::Empty;
                refused
            }
            None => {
                slot.confirm = PendingConfirm::Value;
                refused
            }
        }
    }

    /// Processes a Confirm in packet `seq` with acknowledgement number `ack`. An error means that the peer must not
    /// confirm this value.
    pub(crate) fn on_confirm(&mut self, seq: Seq, ack: Option<Seq>, left: bool, number: u8, value: &[u8]) -> Outcome {
        let old = self.fgsr.is_some_and(|last| !seq.after(last));
        let confirms_current = match (ack, self.fgss) {
            (Some(ack), Some(sent)) => !sent.after(ack),
            _ => false,
        };
        let side = if left { Side::Remote } else { Side::Local };
        let Some(i) = Self::index(number, side) else { return Ok(()) };
        let slot = &mut self.features[i];
        if old || !confirms_current || !slot.changing || !slot.sent {
            return Ok(());
        }
        if value.is_empty() {
            // Every DCCP must implement these features (table 4, section 6.6.7).
            if matches!(number, CCID | SHORT_NUMBERS | SEQUENCE_WINDOW) {
                return Err(ResetCode::OptionError);
            }
            slot.changing = false;
            slot.requested = slot.value;
        } else if slot.nn {
            // A different number confirms an older Change; the current Change is retransmitted until confirmed.
            if decode_number(number, value) == Some(slot.requested) {
                slot.value = slot.requested;
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

    /// Ends the feature options of packet `seq`.
    pub(crate) fn end_options(&mut self, seq: Seq) {
        if self.fgsr.is_none_or(|last| seq.after(last)) {
            self.fgsr = Some(seq);
        }
        if !self.features.iter().any(|slot| slot.changing) {
            self.retransmit_at = Nanos::MAX;
        }
    }

    /// Verified erratum on section 6.6.4: FGSR and FGSS must not fall behind the newest numbers by half the number
    /// space.
    pub(crate) fn limit_lag(&mut self, greatest_received: Seq, greatest_sent: Seq) {
        let widest = -(SEQUENCE_WINDOWS.1 as i64);
        if self.fgsr.is_some_and(|seq| seq.after(greatest_received)) {
            self.fgsr = Some(greatest_received.add(widest));
        }
        if self.fgss.is_some_and(|seq| seq.after(greatest_sent)) {
            self.fgss = Some(greatest_sent.add(widest));
        }
    }

    /// Writes pending Confirms, new Changes, and Changes due for retransmission to packet `seq`. `interval`
    /// is the first retransmission interval.
    pub(crate) fn write(&mut self, now: Nanos, seq: Seq, interval: Nanos, all: bool, out: &mut Vec<u8>) {
        let due = all || now >= self.retransmit_at;
        let mut new_change = false;
        let mut sent_change = false;
        for (confirm, feature) in &self.unknown[..usize::from(self.unknowns)] {
            let value = &[];
            let feature = *feature;
            let option =
                if *confirm == 33 { Opt::ConfirmL { feature, value } } else { Opt::ConfirmR { feature, value } };
            option.write(out);
        }
        (self.unknowns, self.confirms) = (0, false);
        for slot in &mut self.features {
            if slot.confirm != PendingConfirm::None {
                let mut bytes = [0; MAX_PREFERENCES + 1];
                let len = if slot.confirm == PendingConfirm::Empty { 0 } else { slot.confirm_value(&mut bytes) };
                let (feature, value) = (slot.number, &bytes[..len]);
                match slot.side {
                    Side::Local => Opt::ConfirmL { feature, value }.write(out),
                    Side::Remote => Opt::ConfirmR { feature, value }.write(out),
                }
                slot.confirm = PendingConfirm::None;
            }
            if slot.changing && due {
                if slot.mandatory {
                    Opt::Mandatory.write(out);
                }
                let number = slot.requested.to_be_bytes();
                let value = if slot.nn { &number[8 - width(slot.number)..] } else { slot.list.as_slice() };
                let feature = slot.number;
                match slot.side {
                    Side::Local => Opt::ChangeL { feature, value }.write(out),
                    Side::Remote => Opt::ChangeR { feature, value }.write(out),
                }
                new_change |= !slot.sent;
                slot.sent = true;
                sent_change = true;
            }
        }
        if new_change {
            self.fgss = Some(seq);
        }
        if sent_change {
            self.interval = if new_change { interval } else { (self.interval * 2).min(MAX_INTERVAL).max(interval) };
            self.retransmit_at = now.saturating_add(self.interval);
        } else if due {
            self.retransmit_at = Nanos::MAX;
        }
    }
}

impl Feature {
    /// Value of a Confirm: the agreed value; for server-priority features also the preference list. Returns
    /// its length.
    fn confirm_value(&self, out: &mut [u8; MAX_PREFERENCES + 1]) -> usize {
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

/// Bytes of a number: six for the Sequence Window, two for the Ack Ratio.
const fn width(number: u8) -> usize {
    if number == SEQUENCE_WINDOW { 6 } else { 2 }
}

/// Decodes a number of exactly the feature's width (section 6.6.8).
fn decode_number(number: u8, value: &[u8]) -> Option<u64> {
    (value.len() == width(number)).then(|| value.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Whether the number is valid. Only the Sequence Window has invalid values: by a verified erratum, section 6.6.8 means
/// the Sequence Window where it says Ack Ratio.
fn is_valid(number: u8, value: u64) -> bool {
    match number {
        SEQUENCE_WINDOW => (SEQUENCE_WINDOWS.0..=SEQUENCE_WINDOWS.1).contains(&value),
        _ => value <= 0xffff,
    }
}
