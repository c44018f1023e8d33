//! What a connection is made of, as plain data.

use narrows_cc::{Nanos, Params, schemes, schemes::Entry};

use crate::ccid::Ccid;

/// Which side of the handshake an end is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It asks for the connection.
    Client,
    /// It waits to be asked.
    Server,
}

/// What happens to a datagram for which a queue has no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// The oldest of the queue makes room: what is new matters most.
    DropOldest,
    /// It is refused.
    DropNewest,
}

/// Settings of one end.
#[derive(Clone, Debug)]
pub struct Config {
    /// Client or server.
    pub role: Role,
    /// Port here, inside DCCP.
    pub local_port: u16,
    /// Port of the other side; a server with 0 learns it from the Request.
    pub remote_port: u16,
    /// Which service is asked for, or offered.
    pub service: u32,
    /// Controls the data sent here.
    pub scheme: &'static Entry,
    /// Its parameters.
    pub params: Params,
    /// Another scheme that will do if the other side refuses the CCID of the first; it runs with its defaults.
    pub fallback: Option<&'static Entry>,
    /// Numbers of the CCIDs that the other side may use for its data, most wanted first.
    pub accept: Vec<u8>,
    /// Packets in the window of valid sequence numbers at first. It grows to five times the packets of a round trip.
    pub sequence_window: u64,
    /// Data packets per acknowledgement that the other side is asked for.
    pub ack_ratio: u16,
    /// 24-bit numbers in Data, Ack and DataAck where both agree.
    pub short: bool,
    /// Marks are read, and packets with data are sent as ECN-capable.
    pub ecn: bool,
    /// The most payload of one datagram.
    pub datagram: u16,
    /// Datagrams that wait to be sent, and as many that wait to be read.
    pub queue: usize,
    /// What happens when such a queue is full.
    pub overflow: Overflow,
    /// Whether datagrams received are kept for the application; otherwise they are only counted.
    pub deliver: bool,
    /// Data carries a checksum of its own (RFC 4340 section 9.3), which the other side has to check.
    pub data_checksum: bool,
    /// Packets that an Ack Vector covers at most.
    pub ack_vector_limit: usize,
    /// Packets sent that are remembered at most.
    pub outstanding: usize,
    /// The longest an acknowledgement waits (RFC 4340 section 11.3: 0.2 s).
    pub ack_delay: Nanos,
    /// A packet's longest life in the network (RFC 4340 section 3: 2 min). Handshake, close and an answer that does not come are
    /// given up after four of it, TIMEWAIT lasts two.
    pub msl: Nanos,
    /// Requests are given up after this (RFC 4340 section 8.1.1 suggests 3 min).
    pub request_limit: Nanos,
    /// A server that closes asks the client to (CloseReq), so that the client keeps TIMEWAIT; otherwise it sends Close.
    pub close_request: bool,
    /// The number of the first packet; drawn at random where nothing is said.
    pub first_number: Option<u64>,
    /// Packets of the initial window, in datagrams of full size (RFC 4341 section 5: RFC 3390, at most 4).
    pub initial_window: u32,
}

impl Default for Config {
    fn default() -> Self {
        // RFC 4340 section 10: CCID 2 is what a new connection has.
        let standard = |entry: &&schemes::Entry| entry.ccid == Ccid::TcpLike.number();
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
