//! Event tapes: the shim's reports in a run, and our schemes' decisions.
//!
//! A tape is text up to an empty line, then entries. The first line is `narrows tape 1`; the number is the version of
//! the format. `seed` and `origin_ns` are those of the run; `fields` names the values of a record in order. There is a
//! line per flow: `flow`, port, scheme with its parameters (`bbr:cwnd_gain=3`), number, bytes of a segment, packets of
//! the initial window, then 0 or 1 for selective acknowledgements and for precise marks, and the rule after idle time.
//!
//! ```text
//! narrows tape 1
//! seed 1
//! origin_ns 81273645
//! fields sequence,applied,time_ns,…
//! flow 10000 bbr 0 1448 10 1 0 linux
//!
//! ```
//! An entry is the flow's index among these lines, a bit set of eight bytes, and a number per set bit. Bit `n` is set
//! if value `n` differs from its value in the flow's previous entry; the number is the difference modulo 2^64, in
//! zigzag form. The index and the numbers are written in groups of seven bits, the lowest first (as in Protocol
//! Buffers). The values are those of the record ([`Record::values`]), then those of the decision
//! ([`Decision::values`]). Before the first entry all are zero.

use std::io::{self, Write};

use narrows_cc::schemes::{self, Entry};
use narrows_cc::{Bytes, IdleRule, Params};

use super::flow::{Flow, FlowSettings};
use super::record::{Decision, Record};

const HEAD: &str = "narrows tape 1";
const IDLE: [(&str, IdleRule); 3] =
    [("linux", IdleRule::Linux), ("rfc5681", IdleRule::Rfc5681), ("off", IdleRule::Off)];

/// The reason why a tape cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// The data is not a tape of this version.
    #[error("not a `{HEAD}` of this build: {0}")]
    Format(String),
    /// The tape ends within this entry, or this entry has impossible values.
    #[error("entry {0} is damaged")]
    Entry(usize),
    /// The scheme's decision differs from the recorded decision.
    #[error("entry {entry}: the tape has {recorded:?}, the scheme decides {replayed:?}")]
    Differs {
        /// Index of the entry.
        entry: usize,
        /// The decision in the run.
        recorded: Decision,
        /// The decision now.
        replayed: Decision,
    },
}

/// A recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapeEntry {
    /// Index of the flow in [`Tape::flows`].
    pub flow: usize,
    /// The kernel's report.
    pub record: Record,
    /// The scheme's decision.
    pub decision: Decision,
}

/// A tape that was read.
#[derive(Debug)]
pub struct Tape {
    /// Port and settings of each flow.
    pub flows: Vec<(u16, FlowSettings)>,
    /// All events in the order in which they were processed.
    pub entries: Vec<TapeEntry>,
}

/// Writes a tape.
#[derive(Debug)]
pub struct TapeWriter<W> {
    out: W,
    last: Vec<Vec<u64>>,
}

impl<W: Write> TapeWriter<W> {
    /// A tape of these flows, each with its port.
    ///
    /// # Errors
    /// If its head cannot be written.
    pub fn new(mut out: W, flows: &[(u16, &FlowSettings)]) -> io::Result<Self> {
        let first = flows.first().map(|(_, settings)| *settings);
        writeln!(out, "{HEAD}")?;
        writeln!(out, "seed {}", first.map_or(0, |own| own.seed))?;
        writeln!(out, "origin_ns {}", first.map_or(0, |own| own.origin_ns))?;
        writeln!(out, "fields {}", Record::FIELDS.join(","))?;
        for (port, own) in flows {
            let idle = IDLE.iter().find(|(_, rule)| *rule == own.idle).map_or("linux", |(name, _)| name);
            let params: Vec<String> =
                own.params.changed().map(|(param, value)| format!("{}={value}", param.name)).collect();
            let colon = if params.is_empty() { "" } else { ":" };
            writeln!(
                out,
                "flow {port} {}{colon}{} {} {} {} {} {} {idle}",
                own.scheme.info.name,
                params.join(","),
                own.number,
                own.mss.as_u64(),
                own.initial_window,
                u8::from(own.sack),
                u8::from(own.precise_marks),
            )?;
        }
        writeln!(out)?;
        let values = Record::default().values().len() + Decision::default().values().len();
        Ok(Self { out, last: vec![vec![0; values]; flows.len()] })
    }

    /// Appends an event.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn push(&mut self, entry: &TapeEntry) -> io::Result<()> {
        let mut values = entry.record.values();
        values.extend(entry.decision.values());
        let last = &mut self.last[entry.flow];
        let mut bytes = Vec::with_capacity(64);
        put(&mut bytes, entry.flow as u64);
        let changed = |place: usize| values[place] != last[place];
        let set = (0..values.len()).filter(|place| changed(*place)).fold(0u64, |set, place| set | 1 << place);
        bytes.extend_from_slice(&set.to_le_bytes());
        for (value, last) in values.iter().zip(last.iter()).filter(|(value, last)| value != last) {
            let difference = value.wrapping_sub(*last) as i64;
            put(&mut bytes, (difference << 1 ^ difference >> 63) as u64);
        }
        *last = values;
        self.out.write_all(&bytes)
    }

    /// Ends the tape.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

impl Tape {
    /// Reads a tape.
    ///
    /// # Errors
    /// If `bytes` is no tape, has fields or schemes that this build does not know, or is damaged.
    pub fn read(bytes: &[u8]) -> Result<Self, TapeError> {
        let format = |what: &str| TapeError::Format(what.to_owned());
        let end = bytes.windows(2).position(|two| two == b"\n\n").ok_or_else(|| format("it has no head"))?;
        let head = std::str::from_utf8(&bytes[..end]).map_err(|_| format("its head is not text"))?;
        let mut lines = head.lines();
        if lines.next() != Some(HEAD) {
            return Err(format("its first line differs"));
        }
        let (mut seed, mut origin_ns) = (0, 0);
        let mut flows = Vec::new();
        for line in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let number = || value.parse().map_err(|_| format(line));
            match key {
                "seed" => seed = number()?,
                "origin_ns" => origin_ns = number()?,
                "fields" if value == Record::FIELDS.join(",") => {}
                "flow" => flows.push(flow(value, seed, origin_ns).ok_or_else(|| format(line))?),
                _ => return Err(format(line)),
            }
        }
        let entries = entries(&bytes[end + 2..], flows.len())?;
        Ok(Self { flows, entries })
    }

    /// Runs the schemes on the tape and compares their decisions with the recorded ones.
    ///
    /// # Errors
    /// The first decision that differs from the recorded decision.
    pub fn replay(&self) -> Result<(), TapeError> {
        let mut flows: Vec<Flow> = self.flows.iter().map(|(_, own)| Flow::new(own.clone())).collect();
        for (number, entry) in self.entries.iter().enumerate() {
            let flow = &mut flows[entry.flow];
            flow.on_record(&entry.record);
            let (recorded, replayed) = (entry.decision, flow.decision());
            if recorded != replayed {
                return Err(TapeError::Differs { entry: number, recorded, replayed });
            }
        }
        Ok(())
    }
}

fn flow(line: &str, seed: u64, origin_ns: u64) -> Option<(u16, FlowSettings)> {
    let words: Vec<&str> = line.split(' ').collect();
    let &[port, scheme, number, mss, initial_window, sack, precise, idle] = words.as_slice() else {
        return None;
    };
    let (name, changed) = scheme.split_once(':').unwrap_or((scheme, ""));
    let scheme: &'static Entry = schemes::find(name)?;
    let mut params = Params::defaults(scheme.info.params);
    for pair in changed.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        params.set(name, value.parse().ok()?).ok()?;
    }
    let settings = FlowSettings {
        scheme,
        params,
        seed,
        number: number.parse().ok()?,
        mss: Bytes::new(mss.parse().ok().filter(|mss| *mss > 0)?),
        initial_window: initial_window.parse().ok()?,
        sack: sack == "1",
        precise_marks: precise == "1",
        idle: IDLE.iter().find(|(name, _)| *name == idle)?.1,
        origin_ns,
    };
    Some((port.parse().ok()?, settings))
}

fn entries(mut bytes: &[u8], flows: usize) -> Result<Vec<TapeEntry>, TapeError> {
    let fields = Record::FIELDS.len();
    let count = fields + Decision::default().values().len();
    let mut last = vec![vec![0u64; count]; flows];
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let damaged = || TapeError::Entry(entries.len());
        let flow = take(&mut bytes).ok_or_else(damaged)? as usize;
        let values = last.get_mut(flow).ok_or_else(damaged)?;
        let (set, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        bytes = rest;
        let set = u64::from_le_bytes(*set);
        if set >> count != 0 {
            return Err(damaged());
        }
        for (place, value) in values.iter_mut().enumerate() {
            if set >> place & 1 == 1 {
                let folded = take(&mut bytes).ok_or_else(damaged)?;
                *value = value.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg());
            }
        }
        let record = Record::of_values(&values[..fields]).ok_or_else(damaged)?;
        let decision = Decision::of_values(&values[fields..]).ok_or_else(damaged)?;
        entries.push(TapeEntry { flow, record, decision });
    }
    Ok(entries)
}

/// Appends a number in groups of seven bits.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number in groups of seven bits.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 127) << (7 * place);
        if byte & 128 == 0 {
            return Some(number);
        }
    }
    None
}
