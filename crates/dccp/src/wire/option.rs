//! Options (RFC 4340 section 5.8, RFC 4342 section 8), between header and data.

use thiserror::Error;

/// Unit of Timestamp, Timestamp Echo and Elapsed Time in nanoseconds: 10 µs.
pub(crate) const TICK_NANOS: u64 = 10_000;

/// Longest option value; the length byte includes type and length.
pub const MAX_VALUE: usize = 253;

/// An option. Types 128 to 255 belong to the CCID in use: 192 to 194 are options of CCID 3, and 195 is defined by this
/// crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// Pads to a multiple of 32 bits.
    Padding,
    /// Requires the peer to process the next option or reset the connection.
    Mandatory,
    /// The receiver cannot keep up.
    SlowReceiver,
    /// The feature location requests a value (section 6.1), or a preference list.
    ChangeL {
        /// Feature number.
        feature: u8,
        /// Value in the format of the feature.
        value: &'a [u8],
    },
    /// The feature location confirms a value.
    ConfirmL {
        /// Feature number.
        feature: u8,
        /// The agreed value, then the preference list; empty if the feature is unknown.
        value: &'a [u8],
    },
    /// The feature remote requests a value.
    ChangeR {
        /// Feature number.
        feature: u8,
        /// Value in the format of the feature.
        value: &'a [u8],
    },
    /// The feature remote confirms a value.
    ConfirmR {
        /// Feature number.
        feature: u8,
        /// The agreed value, then the preference list; empty if the feature is unknown.
        value: &'a [u8],
    },
    /// Server state stored at the client (section 8.1.4).
    InitCookie(&'a [u8]),
    /// Length of the run of non-data packets before this packet (section 7.7), below 2^48.
    NdpCount(u64),
    /// States of packets from the acknowledgement number backwards (section 11.4), parsed by [`crate::ack_vector`].
    AckVector {
        /// ECN nonce sum.
        nonce: bool,
        /// One byte per run.
        runs: &'a [u8],
    },
    /// Disposition of received data (section 11.7), one byte per block.
    DataDropped(&'a [u8]),
    /// Sender clock in units of 10 µs (section 13.1).
    Timestamp(u32),
    /// Echoed timestamp (section 13.3).
    TimestampEcho {
        /// Timestamp value as received.
        value: u32,
        /// Time since its receipt in units of 10 µs; `None` is equivalent to zero.
        elapsed: Option<u32>,
    },
    /// Time since receipt of the acknowledged packet in units of 10 µs (section 13.2).
    ElapsedTime(u32),
    /// CRC-32c of the data (section 9.3).
    DataChecksum(u32),
    /// CCID 3: inverse loss event rate, rounded up; `u32::MAX` before the first loss (RFC 4342 section 8.5).
    LossEventRate(u32),
    /// CCID 3: skip length, then nine bytes per interval (RFC 4342 section 8.6), parsed by [`crate::loss`].
    LossIntervals(&'a [u8]),
    /// CCID 3: receive rate in bytes per second (RFC 4342 section 8.3).
    ReceiveRate(u32),
    /// DCCP-BBR: share of packets lost in the last 10 s, in units of 1/(2^32 − 1). The paper assigns no option number;
    /// this number is our choice.
    LossRate(u32),
    /// Any other option; ignored unless preceded by Mandatory.
    Unknown {
        /// Option type.
        kind: u8,
        /// Bytes after the length byte; empty for types below 32, which have no length byte.
        value: &'a [u8],
    },
}

/// Defect of an option and its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum OptionError {
    /// The length byte is missing, below two, or beyond the end of the options. Section 5.8: ignore this option and all
    /// following options. The iterator ends.
    #[error("byte {at} of the options: option {kind} has length {length}, but {have} bytes remain")]
    Length {
        /// Offset of the option.
        at: usize,
        /// Option type.
        kind: u8,
        /// Length byte, 0 if missing.
        length: usize,
        /// Bytes from the option to the end of the options.
        have: usize,
    },
    /// A known option with an invalid length. Later options remain readable.
    #[error("byte {at} of the options: option {kind} cannot have length {length}")]
    Value {
        /// Offset of the option.
        at: usize,
        /// Option type.
        kind: u8,
        /// Length byte.
        length: usize,
    },
}

/// Iterator over the options of a packet; see [`options`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Parses the option bytes of a packet in order, padding included. Ends after [`OptionError::Length`].
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
    /// Decodes an option with a length byte; `None` if the length is invalid for its type.
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
            (42, &[a, b, c, d, ref elapsed @ ..]) if matches!(elapsed.len(), 0 | 2 | 4) => Self::TimestampEcho {
                value: u32::from_be_bytes([a, b, c, d]),
                elapsed: (!elapsed.is_empty()).then(|| word(elapsed)),
            },
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

    /// Type number on the wire.
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

    /// Whether the option may appear on a Data packet; others are ignored there (section 5.8, table 3).
    pub const fn allowed_on_data(&self) -> bool {
        matches!(self.kind(), 0 | 2 | 37 | 41 | 42 | 44)
    }

    /// Appends the option to `out`, in the shortest form that holds its value.
    ///
    /// # Panics
    /// If the value exceeds [`MAX_VALUE`] bytes.
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

/// The low two bytes if the high two are zero, otherwise all four.
fn shortest(bytes: &[u8; 4]) -> &[u8] {
    if bytes[..2] == [0, 0] { &bytes[2..] } else { bytes }
}

/// Appends an option with a length byte and a value in parts.
fn put(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    assert!(length <= MAX_VALUE, "{length} bytes in option {kind}; an option holds at most {MAX_VALUE}");
    out.extend_from_slice(&[kind, length as u8 + 2]);
    for part in parts {
        out.extend_from_slice(part);
    }
}
