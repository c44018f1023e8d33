//! Packet types and reset codes.

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
    /// The server requests the client to close.
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

impl Kind {
    /// All packet types, by number.
    pub const ALL: [Self; 10] = [
        Self::Request,
        Self::Response,
        Self::Data,
        Self::Ack,
        Self::DataAck,
        Self::CloseReq,
        Self::Close,
        Self::Reset,
        Self::Sync,
        Self::SyncAck,
    ];

    /// The packet type with this number; `None` if the number is reserved.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the type carries an acknowledgement number.
    pub const fn acknowledges(self) -> bool {
        !matches!(self, Self::Request | Self::Data)
    }

    /// Whether the type allows short sequence numbers (X = 0).
    pub const fn may_be_short(self) -> bool {
        matches!(self, Self::Data | Self::Ack | Self::DataAck)
    }

    /// Whether RFC 4340 counts the type as a data packet, for data loss and the NDP count.
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Request | Self::Response | Self::Data | Self::DataAck)
    }

    /// Header length in bytes without options, for long or short sequence numbers.
    pub const fn header_len(self, long: bool) -> usize {
        let generic = if long { 16 } else { 12 };
        let acknowledgement = match (self.acknowledges(), long) {
            (false, _) => 0,
            (true, true) => 8,
            (true, false) => 4,
        };
        let own = if matches!(self, Self::Request | Self::Response | Self::Reset) { 4 } else { 0 };
        generic + acknowledgement + own
    }
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

impl ResetCode {
    /// All reset codes, by number.
    pub const ALL: [Self; 12] = [
        Self::Unspecified,
        Self::Closed,
        Self::Aborted,
        Self::NoConnection,
        Self::PacketError,
        Self::OptionError,
        Self::MandatoryError,
        Self::ConnectionRefused,
        Self::BadServiceCode,
        Self::TooBusy,
        Self::BadInitCookie,
        Self::AggressionPenalty,
    ];

    /// The code with this number; `None` for reserved and CCID-specific numbers (128 and above).
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Lower-case name from RFC 4340 section 5.6.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Closed => "closed",
            Self::Aborted => "aborted",
            Self::NoConnection => "no connection",
            Self::PacketError => "packet error",
            Self::OptionError => "option error",
            Self::MandatoryError => "mandatory error",
            Self::ConnectionRefused => "connection refused",
            Self::BadServiceCode => "bad service code",
            Self::TooBusy => "too busy",
            Self::BadInitCookie => "bad init cookie",
            Self::AggressionPenalty => "aggression penalty",
        }
    }
}
