//! Wire format (RFC 4340 sections 5 and 9): headers, options, checksum.
//!
//! ```text
//!  0               1               2               3
//! | source port                   | destination port              |
//! | data offset   | CCVal | CsCov | checksum                      |
//! | Res | Type  |1| reserved      | sequence number (high 16)     |    X = 1: 48 bits
//! | sequence number (low 32)                                      |
//! | Res | Type  |0| sequence number (24)                          |    X = 0 instead of the two lines above
//! | reserved                      | acknowledgement (high 16)     |    absent in Request, Data; X = 0: 8 and 24 bits
//! | acknowledgement (low 32)                                      |
//! | service code                                                  |    Request, Response
//! | reset code    | data 1        | data 2        | data 3        |    Reset
//! | options and padding ... application data ...                  |
//! ```
//!
//! Decoding borrows from the packet. It copies nothing, allocates nothing, and reads no byte outside the
//! packet length and the data offset. Reserved bits are sent as zero and ignored on receipt.

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
    /// Server's reply to a Request.
    Response = 1,
    /// Application data.
    Data = 2,
    /// Acknowledgement without data.
    Ack = 3,
    /// Acknowledgement with data.
    DataAck = 4,
    /// The server asks the client to close.
    CloseReq = 5,
    /// Closes the connection.
    Close = 6,
    /// Terminates the connection, or confirms its close.
    Reset = 7,
    /// Requests the peer's sequence numbers.
    Sync = 8,
    /// Reply to a Sync.
    SyncAck = 9,
}

/// Reset codes (RFC 4340 section 5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ResetCode {
    /// No reason given.
    Unspecified = 0,
    /// Normal close.
    Closed = 1,
    /// Aborted by an application or a timeout.
    Aborted = 2,
    /// No connection exists for the packet.
    NoConnection = 3,
    /// Unexpected packet type.
    PacketError = 4,
    /// Invalid option.
    OptionError = 5,
    /// Mandatory option that the receiver cannot process.
    MandatoryError = 6,
    /// No server listens on the port.
    ConnectionRefused = 7,
    /// No server offers the service code.
    BadServiceCode = 8,
    /// The server accepts no connection now.
    TooBusy = 9,
    /// Wrong Init Cookie.
    BadInitCookie = 10,
    /// The peer ignores congestion feedback.
    AggressionPenalty = 11,
}

/// A header without options. Fields that the type lacks are zero or `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// DCCP source port.
    pub source: u16,
    /// DCCP destination port.
    pub destination: u16,
    /// CCVal: four bits of the sender's CCID; CCID 3's window counter.
    pub ccval: u8,
    /// Checksum coverage (CsCov): 0 covers everything, n covers the header and 4(n − 1) bytes of data.
    pub coverage: u8,
    /// Packet type.
    pub kind: Kind,
    /// Long sequence numbers (X = 1).
    pub long: bool,
    /// Sequence number; the low 24 bits if `long` is not set.
    pub seq: u64,
    /// Acknowledgement number, of the same width; `None` for Request and Data.
    pub ack: Option<u64>,
    /// Service code of Request and Response.
    pub service: u32,
    /// Reset: code as received and three bytes of data.
    pub reset: (u8, [u8; 3]),
}
