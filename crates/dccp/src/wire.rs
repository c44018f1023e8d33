//! Wire format (RFC 4340 sections 5 and 9): headers, options, checksum.
//!
//! ```text
//!  0               1               2               3
//! | source port                   | destination port              |
//! | data offset   | CCVal | CsCov | checksum                      |
//! | Res | Type  |1| reserved      | sequence number (high 16)     |    X = 1: 48 bits
//! | sequence number (low 32)                                      |
//! | Res | Type  |0| sequence number (24)                          |    X = 0 instead of the two lines above
//! | reserved                      | acknowledgement (high 16)     |   not Request, Data; X = 0: 8, 24 bits
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
mod kind;
mod option;

pub(crate) use checksum::internet_checksum;
pub use checksum::{Addresses, checksum, seal, verify};
pub use crc::data_checksum;
pub use header::{Body, DecodeError, Header, MAX_HEADER, MIN_HEADER};
pub use kind::{Kind, ResetCode};
pub(crate) use option::TICK_NANOS;
pub use option::{MAX_VALUE, Opt, OptionError, Options, options};
