//! Options (RFC 4340 section 5.8, RFC 4342 section 8): what stands between header and data.

use thiserror::Error;

/// The most bytes that one option's value may have: its length byte counts type and length too.
pub const MAX_VALUE: usize = 253;

/// An option. Types 128 to 255 belong to the CCID in use; those named here are CCID 3's (192 to 194) and ours (195).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// Nothing: fills up to 32 bits.
    Padding,
    /// The next option must be understood, or the connection ends.
    Mandatory,
    /// The receiver has trouble keeping up.
    SlowReceiver,
    /// The feature's location wants this value (section 6.1), or these in order of preference.
    ChangeL {
        /// Number of the feature.
        feature: u8,
        /// As the feature defines it.
        value: &'a [u8],
    },
    /// The feature's location confirms a value.
    ConfirmL {
        /// Number of the feature.
        feature: u8,
        /// The value chosen, then its preferences; empty: not understood.
        value: &'a [u8],
    },
    /// The other side wants a value.
    ChangeR {
        /// Number of the feature.
        feature: u8,
        /// As the feature defines it.
        value: &'a [u8],
    },
    /// The other side confirms a value.
    ConfirmR {
        /// Number of the feature.
        feature: u8,
        /// The value chosen, then its preferences; empty: not understood.
        value: &'a [u8],
    },
    /// The server's state in the client's keeping (section 8.1.4).
    InitCookie(&'a [u8]),
    /// How many packets before this one carried no data, in a row (section 7.7); below 2^48.
    NdpCount(u64),
    /// States of packets from the acknowledgement number back (section 11.4); [`crate::ack_vector`] reads it.
    AckVector {
        /// The sum of ECN nonces.
        nonce: bool,
        /// One byte per run.
        runs: &'a [u8],
    },
    /// What the receiver did with data (section 11.7), one byte per block.
    DataDropped(&'a [u8]),
    /// The sender's clock, 10 µs units (section 13.1).
    Timestamp(u32),
    /// A timestamp returned (section 13.3).
    TimestampEcho {
        /// As it came.
        value: u32,
        /// 10 µs units between its arrival and now; none is as good as zero.
        elapsed: Option<u32>,
    },
    /// 10 µs units between the arrival of the packet acknowledged and now (section 13.2).
    ElapsedTime(u32),
    /// CRC-32c of the data (section 9.3).
    DataChecksum(u32),
    /// CCID 3: the inverse of the loss event rate, rounded up; `u32::MAX` before the first loss (RFC 4342 section 8.5).
    LossEventRate(u32),
    /// CCID 3: skip length, then nine bytes per interval (RFC 4342 section 8.6); [`crate::loss`] reads it.
    LossIntervals(&'a [u8]),
    /// CCID 3: bytes per second received (RFC 4342 section 8.3).
    ReceiveRate(u32),
    /// DCCP-BBR: packets lost in the last 10 s, in parts of 2^32 − 1. The paper names no option number; this one is ours.
    LossRate(u32),
    /// Any other; ignored unless Mandatory came before it.
    Unknown {
        /// Its type.
        kind: u8,
        /// What follows its length byte; empty for the types below 32, which have none.
        value: &'a [u8],
    },
}

/// What is wrong with an option, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum OptionError {
    /// The length byte is missing, less than two or beyond the options' end: this option and all after it are to be ignored
    /// (section 5.8), and nothing follows from the iterator.
    #[error("byte {at} of the options: option {kind} says length {length}, {have} bytes are left")]
    Length {
        /// Where the option starts.
        at: usize,
        /// Its type.
        kind: u8,
        /// What its length byte says, 0 if it is missing.
        length: usize,
        /// Bytes from its start to the options' end.
        have: usize,
    },
    /// An option of a known type has a length that this type cannot have. The options after it can be read.
    #[error("byte {at} of the options: option {kind} cannot have length {length}")]
    Value {
        /// Where the option starts.
        at: usize,
        /// Its type.
        kind: u8,
        /// What its length byte says.
        length: usize,
    },
}

/// The options of a packet in order; see [`options`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The options in the option bytes of a packet, padding included, in order. After [`OptionError::Length`] there are no more.
pub const fn options(bytes: &[u8]) -> Options<'_> {
    Options { bytes, at: 0 }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.bytes.get(at..)?;
        let &kind = rest.first()?;
        if kind < 32 {
            self.at += 1;
            return Some(Ok(match kind {
                0 => Opt::Padding,
                1 => Opt::Mandatory,
                2 => Opt::SlowReceiver,
                kind => Opt::Unknown { kind, value: &[] },
            }));
        }
        let length = rest.get(1).map_or(0, |&length| usize::from(length));
        let Some(value) = rest.get(2..length) else {
            self.at = self.bytes.len();
            return Some(Err(OptionError::Length { at, kind, length, have: rest.len() }));
        };
        self.at += length;
        Some(Opt::read(kind, value).ok_or(OptionError::Value { at, kind, length }))
    }
}

impl std::iter::FusedIterator for Options<'_> {}

impl<'a> Opt<'a> {
    /// An option with a length byte; none if its type cannot have this length.
    fn read(kind: u8, value: &'a [u8]) -> Option<Self> {
        let word = |bytes: &[u8]| bytes.iter().fold(0, |sum: u32, &byte| sum << 8 | u32::from(byte));
        Some(match (kind, value) {
            (32, &[feature, ref value @ ..]) => Self::ChangeL { feature, value },
            (33, &[feature, ref value @ ..]) => Self::ConfirmL { feature, value },
            (34, &[feature, ref value @ ..]) => Self::ChangeR { feature, value },
            (35, &[feature, ref value @ ..]) => Self::ConfirmR { feature, value },
            (36, value) => Self::InitCookie(value),
            (37, count) if (1..=6).contains(&count.len()) => {
                Self::NdpCount(count.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
            }
            (38 | 39, runs) => Self::AckVector { nonce: kind == 39, runs },
            (40, value) => Self::DataDropped(value),
            (41, &[_, _, _, _]) => Self::Timestamp(word(value)),
            (42, &[a, b, c, d, ref elapsed @ ..]) if matches!(elapsed.len(), 0 | 2 | 4) => {
                Self::TimestampEcho {
                    value: u32::from_be_bytes([a, b, c, d]),
                    elapsed: (!elapsed.is_empty()).then(|| word(elapsed)),
                }
            }
            (43, value) if matches!(value.len(), 2 | 4) => Self::ElapsedTime(word(value)),
            (44, &[_, _, _, _]) => Self::DataChecksum(word(value)),
            (192, &[_, _, _, _]) => Self::LossEventRate(word(value)),
            (193, &[_, ref entries @ ..]) if entries.len() % 9 == 0 => Self::LossIntervals(value),
            (194, &[_, _, _, _]) => Self::ReceiveRate(word(value)),
            (195, &[_, _, _, _]) => Self::LossRate(word(value)),
            (32..=35 | 37 | 41..=44 | 192..=195, _) => return None,
            (kind, value) => Self::Unknown { kind, value },
        })
    }

    /// Its type on the wire.
    pub const fn kind(&self) -> u8 {
        match *self {
            Self::Padding => 0,
            Self::Mandatory => 1,
            Self::SlowReceiver => 2,
            Self::ChangeL { .. } => 32,
            Self::ConfirmL { .. } => 33,
            Self::ChangeR { .. } => 34,
            Self::ConfirmR { .. } => 35,
            Self::InitCookie(_) => 36,
            Self::NdpCount(_) => 37,
            Self::AckVector { nonce, .. } => 38 + nonce as u8,
            Self::DataDropped(_) => 40,
            Self::Timestamp(_) => 41,
            Self::TimestampEcho { .. } => 42,
            Self::ElapsedTime(_) => 43,
            Self::DataChecksum(_) => 44,
            Self::LossEventRate(_) => 192,
            Self::LossIntervals(_) => 193,
            Self::ReceiveRate(_) => 194,
            Self::LossRate(_) => 195,
            Self::Unknown { kind, .. } => kind,
        }
    }

    /// Whether it may stand in a Data packet; there, the others are ignored (section 5.8, table 3).
    pub const fn allowed_on_data(&self) -> bool {
        matches!(self.kind(), 0 | 2 | 37 | 41 | 42 | 44)
    }

    /// Appends it to `out`, in the shortest form that holds its value.
    ///
    /// # Panics
    /// If its value takes more than [`MAX_VALUE`] bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let kind = self.kind();
        match *self {
            Self::Padding | Self::Mandatory | Self::SlowReceiver => out.push(kind),
            Self::Unknown { kind: 0..32, .. } => out.push(kind),
            Self::ChangeL { feature, value }
            | Self::ConfirmL { feature, value }
            | Self::ChangeR { feature, value }
            | Self::ConfirmR { feature, value } => put(kind, &[&[feature], value], out),
            Self::NdpCount(count) => {
                let bytes = count.to_be_bytes();
                let first = bytes.iter().position(|&byte| byte != 0).unwrap_or(7).max(2);
                put(kind, &[&bytes[first..]], out);
            }
            Self::AckVector { runs: value, .. }
            | Self::InitCookie(value)
            | Self::DataDropped(value)
            | Self::LossIntervals(value)
            | Self::Unknown { value, .. } => put(kind, &[value], out),
            Self::TimestampEcho { value, elapsed: None } => put(kind, &[&value.to_be_bytes()], out),
            Self::TimestampEcho { value, elapsed: Some(elapsed) } => {
                put(kind, &[&value.to_be_bytes(), shortest(&elapsed.to_be_bytes())], out);
            }
            Self::ElapsedTime(elapsed) => put(kind, &[shortest(&elapsed.to_be_bytes())], out),
            Self::Timestamp(n)
            | Self::DataChecksum(n)
            | Self::LossEventRate(n)
            | Self::ReceiveRate(n)
            | Self::LossRate(n) => put(kind, &[&n.to_be_bytes()], out),
        }
    }
}

/// Two bytes instead of four if the number fits.
fn shortest(bytes: &[u8; 4]) -> &[u8] {
    if bytes[..2] == [0, 0] { &bytes[2..] } else { bytes }
}

/// An option with a length byte, its value in parts.
fn put(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    assert!(length <= MAX_VALUE, "{length} bytes in option {kind}; one holds {MAX_VALUE}");
    out.extend_from_slice(&[kind, length as u8 + 2]);
    for part in parts {
        out.extend_from_slice(part);
    }
}
