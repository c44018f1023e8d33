//! Configuration of a connection.

use narrows_cc::{Nanos, Params, schemes, schemes::Entry};

use crate::ccid::Ccid;

/// Role in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Sends the Request.
    Client,
    /// Waits for a Request.
    Server,
}

/// Overflow policy of a datagram queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// Drops the oldest datagram: new data matters most.
    DropOldest,
    /// Rejects the new datagram.
    DropNewest,
}

/// Configuration of one endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// Client or server.
    pub role: Role,
    /// Local DCCP port.
    pub local_port: u16,
    /// Peer DCCP port; a server with port 0 takes the port from the Request.
    pub remote_port: u16,
    /// Service code requested or offered.
    pub service: u32,
    /// Scheme that controls sent data.
    pub scheme: &'static Entry,
    /// Scheme parameters.
    pub params: Params,
    /// Scheme to use, with default parameters, if the peer rejects the CCID of `scheme`.
    pub fallback: Option<&'static Entry>,
    /// CCIDs acceptable for received data, in order of preference.
    pub accept: Vec<u8>,
    /// Initial Sequence Window in packets. The window grows to five times the number of packets per round trip.
    pub sequence_window: u64,
    /// Ack Ratio requested: data packets per acknowledgement.
    pub ack_ratio: u16,
    /// Negotiates short (24-bit) sequence numbers for Data, Ack and DataAck.
    pub short: bool,
    /// Reads ECN marks and sends data as ECN-capable.
    pub ecn: bool,
    /// Greatest payload of a datagram in bytes.
    pub datagram: u16,
    /// Capacity of the send queue and of the receive queue in datagrams.
    pub queue: usize,
    /// Overflow policy of both queues.
    pub overflow: Overflow,
    /// Keeps received datagrams for the application; otherwise only counts them.
    pub deliver: bool,
    /// Adds a Data Checksum to data and requires the peer to check it (RFC 4340 section 9.3).
    pub data_checksum: bool,
    /// Maximum number of packets in an Ack Vector.
    pub ack_vector_limit: usize,
    /// Maximum number of sent packets remembered.
    pub outstanding: usize,
    /// Longest acknowledgement delay (RFC 4340 section 11.3: 0.2 s).
    pub ack_delay: Nanos,
    /// Maximum segment lifetime (RFC 4340 section 3.4: 2 min). Handshake, close and unanswered data time out
    /// after 4 MSL; TIMEWAIT lasts 2 MSL.
    pub msl: Nanos,
    /// Time limit of the Request (RFC 4340 section 8.1.1 suggests 3 min).
    pub request_limit: Nanos,
    /// Whether a server closes with CloseReq instead of Close, so that the client holds TIMEWAIT.
    pub close_request: bool,
    /// Initial sequence number; random if `None`.
    pub first_number: Option<u64>,
    /// Initial window in full datagrams (RFC 4341 section 5 refers to RFC 3390: at most 4).
    pub initial_window: u32,
}

impl Default for Config {
    fn default() -> Self {
        // RFC 4340 section 10: new connections use CCID 2.
        let standard = |entry: &&schemes::Entry| Ccid::of(entry) == Ccid::TcpLike;
        let scheme = schemes::ALL.iter().find(standard).expect("CCID 2 is in the registry");
        Self {
            role: Role::Client,
            local_port: 5001,
            remote_port: 5001,
            service: 0,
            scheme,
            params: Params::defaults(scheme.info.params),
            fallback: None,
            accept: Ccid::ALL.map(Ccid::number).to_vec(),
            sequence_window: 1_000,
            ack_ratio: 2,
            short: false,
            ecn: true,
            datagram: 1_400,
            queue: 256,
            overflow: Overflow::DropNewest,
            deliver: true,
            data_checksum: false,
            ack_vector_limit: 1 << 16,
            outstanding: 1 << 18,
            ack_delay: Nanos::from_millis(200),
            msl: Nanos::from_secs(120),
            request_limit: Nanos::from_secs(180),
            close_request: true,
            first_number: None,
            initial_window: 3,
        }
    }
}
