//! DCCP-UDP encapsulation (RFC 6773), for paths that pass only UDP.
//!
//! ```text
//! IP | UDP header (8) | DCCP packet, unchanged, its checksum zero
//! ```
//!
//! ## Control law
//! * The sender sets the DCCP checksum to zero and the receiver ignores it: the UDP checksum covers the whole
//!   packet. Partial coverage does not exist, so any CsCov value has no effect.
//! * A zero UDP checksum ('none') is invalid. Such datagrams are dropped, and so are those with a wrong
//!   checksum.
//! * A datagram is dropped if its UDP length is below 20 (8 bytes and the shortest DCCP header), exceeds the
//!   received length, or is too short for the DCCP header inside.
//! * Addresses, UDP ports and DCCP ports together identify a connection. The DCCP ports are independent of
//!   the UDP ports.
//! * The server's default UDP port is 6511.
//!
//! [`open`] serves callers that read from a socket, where the kernel has verified the UDP header. [`receive`]
//! and [`wrap`] include the UDP header, for captures and simulated networks.

use core::net::SocketAddr;

use thiserror::Error;

use crate::wire::{Addresses, Body, DecodeError, Header, MIN_HEADER, internet_checksum};

/// The registered UDP port of DCCP.
pub const PORT: u16 = 6511;

/// Bytes of a UDP header.
pub const HEADER: usize = 8;

/// UDP's IP protocol number.
const PROTOCOL: u8 = 17;

/// Longest DCCP packet in UDP; the UDP length field includes the UDP header.
pub const MAX_PACKET: usize = u16::MAX as usize - HEADER;

/// Identifies the connection of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Flow {
    /// Peer address and UDP port.
    pub remote: SocketAddr,
    /// Peer DCCP port.
    pub remote_port: u16,
    /// Local DCCP port. The socket holds the local address and UDP port.
    pub local_port: u16,
}

impl Flow {
    /// The flow of a packet received from `remote`.
    pub const fn of(remote: SocketAddr, header: &Header) -> Self {
        Self { remote, remote_port: header.source, local_port: header.destination }
    }
}

/// Reason for dropping a datagram without a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Dropped {
    /// Shorter than a UDP header.
    #[error("datagram of {have} bytes; a UDP header has {HEADER}")]
    NoHeader {
        /// Bytes present.
        have: usize,
    },
    /// The UDP length leaves no space for a DCCP header.
    #[error("bytes 4 and 5: UDP length {length}; the least with a DCCP header is {}", HEADER + MIN_HEADER)]
    Short {
        /// UDP length field.
        length: usize,
    },
    /// The UDP length exceeds the datagram.
    #[error("bytes 4 and 5: UDP length {length}, but the datagram has {have} bytes")]
    Cut {
        /// UDP length field.
        length: usize,
        /// Bytes present.
        have: usize,
    },
    /// The UDP checksum is zero: the sender computed none.
    #[error("bytes 6 and 7: the UDP checksum is zero")]
    NoChecksum,
    /// The UDP checksum does not match the datagram.
    #[error("bytes 6 and 7: the UDP checksum is wrong")]
    Checksum,
    /// The UDP payload is not a DCCP packet.
    #[error("DCCP packet in UDP: {0}")]
    Packet(#[from] DecodeError),
}

/// Decodes the DCCP packet in a UDP payload.
///
/// # Errors
/// If the payload is not a DCCP packet.
pub fn open(payload: &[u8]) -> Result<(Header, Body<'_>), Dropped> {
    if payload.len() < MIN_HEADER {
        return Err(Dropped::Short { length: HEADER + payload.len() });
    }
    Ok(Header::decode_any_coverage(payload)?)
}

/// Decodes a datagram with its UDP header: UDP ports (source, destination), DCCP header and body. Without
/// addresses the UDP checksum must be non-zero but is not verified.
///
/// # Errors
/// If the datagram must be dropped.
pub fn receive(addresses: Option<Addresses>, datagram: &[u8]) -> Result<(u16, u16, Header, Body<'_>), Dropped> {
    let have = datagram.len();
    let Some(header) = datagram.first_chunk::<HEADER>() else { return Err(Dropped::NoHeader { have }) };
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let length = usize::from(field(4));
    if length < HEADER + MIN_HEADER {
        return Err(Dropped::Short { length });
    }
    let Some(datagram) = datagram.get(..length) else { return Err(Dropped::Cut { length, have }) };
    if field(6) == 0 {
        return Err(Dropped::NoChecksum);
    }
    // For a valid datagram the sum, including the checksum field, is all ones, so the checksum over all bytes is zero.
    if addresses.is_some_and(|addresses| internet_checksum(Some((addresses, PROTOCOL, length)), &[datagram]) != 0) {
        return Err(Dropped::Checksum);
    }
    let (packet, body) = open(&datagram[HEADER..])?;
    Ok((field(0), field(2), packet, body))
}

/// Appends `packet` in a UDP datagram to `out`, with the checksum for `addresses`.
///
/// # Panics
/// If the packet is longer than [`MAX_PACKET`].
pub fn wrap(addresses: Addresses, source: u16, destination: u16, packet: &[u8], out: &mut Vec<u8>) {
    assert!(packet.len() <= MAX_PACKET, "packet of {} bytes; UDP carries at most {MAX_PACKET}", packet.len());
    let length = HEADER + packet.len();
    let mut header = [0; HEADER];
    header[0..2].copy_from_slice(&source.to_be_bytes());
    header[2..4].copy_from_slice(&destination.to_be_bytes());
    header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    // A computed checksum of zero is sent as all ones, because zero means 'no checksum'.
    let checksum = match internet_checksum(Some((addresses, PROTOCOL, length)), &[&header, packet]) {
        0 => u16::MAX,
        sum => sum,
    };
    header[6..8].copy_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(packet);
}
