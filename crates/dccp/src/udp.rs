//! DCCP in UDP (RFC 6773): how packets travel where only UDP does.
//!
//! ```text
//! IP | UDP header (8) | DCCP packet, unchanged, its checksum zero
//! ```
//!
//! ## Control law
//! * The DCCP checksum is sent as zero and not looked at: UDP's covers everything. So there is no partial coverage: what CsCov
//!   says has no effect, however large.
//! * A UDP checksum of zero ('none') is not allowed; such a datagram is dropped, and so is one whose checksum is wrong.
//! * A datagram is dropped if its UDP length is less than 20 (8 and the shortest DCCP header), more than what arrived, or too
//!   short for the DCCP header in it.
//! * A connection is known by addresses and UDP ports and the DCCP ports inside, which have nothing to do with those of UDP.
//! * The server's UDP port is 6511 unless something else was agreed on.
//!
//! [`open`] is for whoever reads from a socket, where the system has looked at the UDP header. [`receive`] and [`wrap`] have the
//! header too: for captures and for networks that are simulated.

use core::net::SocketAddr;

use thiserror::Error;

use crate::wire::{Addresses, Body, DecodeError, Header, MIN_HEADER, internet_checksum};

/// The UDP port that is registered for DCCP.
pub const PORT: u16 = 6511;

/// Bytes of a UDP header.
pub const HEADER: usize = 8;

/// UDP's number among the protocols of IP.
const PROTOCOL: u8 = 17;

/// The longest DCCP packet that fits: UDP's length field counts its header.
pub const MAX_PACKET: usize = u16::MAX as usize - HEADER;

/// Which connection a packet belongs to: what has to agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Flow {
    /// The other side's address and UDP port.
    pub remote: SocketAddr,
    /// The other side's DCCP port.
    pub remote_port: u16,
    /// Our DCCP port. Our address and UDP port are the socket's.
    pub local_port: u16,
}

impl Flow {
    /// The connection of a packet that came from `remote`.
    pub const fn of(remote: SocketAddr, header: &Header) -> Self {
        Self { remote, remote_port: header.source, local_port: header.destination }
    }
}

/// Why a datagram is dropped, without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Dropped {
    /// Less than a UDP header.
    #[error("a datagram of {have} bytes; a UDP header takes {HEADER}")]
    NoHeader {
        /// Bytes that are there.
        have: usize,
    },
    /// The UDP length leaves no room for a DCCP header.
    #[error("bytes 4 and 5: UDP length {length}; a header of DCCP takes {} at least", HEADER + MIN_HEADER)]
    Short {
        /// What the field says.
        length: usize,
    },
    /// The UDP length is more than there is.
    #[error("bytes 4 and 5: UDP length {length}, {have} bytes are there")]
    Cut {
        /// What the field says.
        length: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// The sender computed no UDP checksum.
    #[error("bytes 6 and 7: the UDP checksum is zero")]
    NoChecksum,
    /// The UDP checksum is not that of the datagram.
    #[error("bytes 6 and 7: the UDP checksum is wrong")]
    Checksum,
    /// What UDP carries is not a DCCP packet.
    #[error("the packet in UDP: {0}")]
    Packet(#[from] DecodeError),
}

/// The packet in what a UDP socket received.
///
/// # Errors
/// If it is none.
pub fn open(payload: &[u8]) -> Result<(Header, Body<'_>), Dropped> {
    if payload.len() < MIN_HEADER {
        return Err(Dropped::Short { length: HEADER + payload.len() });
    }
    Ok(Header::decode_any_coverage(payload)?)
}

/// The UDP ports (source, destination) and the packet of a datagram that begins with its UDP header. Without addresses, whether
/// the UDP checksum is right is not looked at, but it has to be there.
///
/// # Errors
/// If the datagram is to be dropped.
pub fn receive(
    addresses: Option<Addresses>,
    datagram: &[u8],
) -> Result<(u16, u16, Header, Body<'_>), Dropped> {
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
    // With the field included, the sum is all ones, whose complement is zero.
    if addresses
        .is_some_and(|addresses| internet_checksum(Some((addresses, PROTOCOL, length)), &[datagram]) != 0)
    {
        return Err(Dropped::Checksum);
    }
    let (packet, body) = open(&datagram[HEADER..])?;
    Ok((field(0), field(2), packet, body))
}

/// Appends `packet` in UDP to `out`, with the checksum for `addresses`.
///
/// # Panics
/// If the packet is longer than [`MAX_PACKET`].
pub fn wrap(addresses: Addresses, source: u16, destination: u16, packet: &[u8], out: &mut Vec<u8>) {
    assert!(packet.len() <= MAX_PACKET, "{} bytes in UDP; it carries {MAX_PACKET}", packet.len());
    let length = HEADER + packet.len();
    let mut header = [0; HEADER];
    header[0..2].copy_from_slice(&source.to_be_bytes());
    header[2..4].copy_from_slice(&destination.to_be_bytes());
    header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    // A sum whose complement is zero is sent as all ones: zero means that there is none.
    let checksum = match internet_checksum(Some((addresses, PROTOCOL, length)), &[&header, packet]) {
        0 => u16::MAX,
        sum => sum,
    };
    header[6..8].copy_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(packet);
}
