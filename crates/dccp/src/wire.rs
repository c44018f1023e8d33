//! Packets as bytes (RFC 4340 sections 5 and 9): headers, options, checksum.
//!
//! ```text
//!  0               1               2               3
//! | source port                   | destination port              |
//! | data offset   | CCVal | CsCov | checksum                      |
//! | Res | Type  |1| reserved      | sequence number (high 16)     |    X = 1: 48 bits
//! | sequence number (low 32)                                      |
//! | Res | Type  |0| sequence number (24)                          |    X = 0 instead of the two lines above
//! | reserved                      | acknowledgement (high 16)     |    all but Request and Data; X = 0: 8 and 24 bits
//! | acknowledgement (low 32)                                      |
//! | service code                                                  |    Request, Response
//! | reset code    | data 1        | data 2        | data 3        |    Reset
//! | options and padding ... application data ...                  |
//! ```
//!
//! Decoding borrows from the packet: it copies nothing, allocates nothing and reads no byte that the packet's length and its
//! data offset do not grant. Reserved bits are sent as zero and ignored.

mod checksum;
mod crc;
mod header;
mod option;

pub(crate) use checksum::internet_checksum;
pub use checksum::{Addresses, checksum, seal, verify};
pub use crc::data_checksum;
pub use header::{Body, DecodeError, MAX_HEADER, MIN_HEADER};
pub use option::{MAX_VALUE, Opt, OptionError, Options, options};

/// Packet types (RFC 4340 section 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Opens a connection.
    Request = 0,
    /// The server's answer to it.
    Response = 1,
    /// Application data.
    Data = 2,
    /// An acknowledgement.
    Ack = 3,
    /// Both.
    DataAck = 4,
    /// The server asks the client to close.
    CloseReq = 5,
    /// Closes the connection.
    Close = 6,
    /// Ends it at once, or confirms its end.
    Reset = 7,
    /// Asks the other side to say which numbers it is at.
    Sync = 8,
    /// The answer to that.
    SyncAck = 9,
}

/// Why a connection ends (RFC 4340 section 5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ResetCode {
    /// Nothing is said.
    Unspecified = 0,
    /// The normal end.
    Closed = 1,
    /// The application gave up.
    Aborted = 2,
    /// There is no such connection.
    NoConnection = 3,
    /// A packet of a type that does not belong there.
    PacketError = 4,
    /// An option that cannot be.
    OptionError = 5,
    /// A mandatory option that is not understood.
    MandatoryError = 6,
    /// Nobody listens.
    ConnectionRefused = 7,
    /// Nobody offers this service.
    BadServiceCode = 8,
    /// Not now.
    TooBusy = 9,
    /// The init cookie is wrong.
    BadInitCookie = 10,
    /// The other side does not heed congestion.
    AggressionPenalty = 11,
}

/// A header without its options. Fields that a type does not have are zero or `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Ports inside DCCP.
    pub source: u16,
    /// The other side's.
    pub destination: u16,
    /// Four bits of the sender's CCID: CCID 3's window counter.
    pub ccval: u8,
    /// Checksum coverage: 0 covers everything, n the header and 4(n − 1) bytes of data.
    pub coverage: u8,
    /// The type.
    pub kind: Kind,
    /// Long sequence numbers (X = 1).
    pub long: bool,
    /// The number of the packet; its low 24 bits if `long` is not set.
    pub seq: u64,
    /// The greatest number received, with the same width; none for Request and Data.
    pub ack: Option<u64>,
    /// Of Request and Response.
    pub service: u32,
    /// Of Reset: the code as it came, and three bytes that explain it.
    pub reset: (u8, [u8; 3]),
}
