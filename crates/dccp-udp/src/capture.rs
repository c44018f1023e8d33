//! Capture file: classic pcap, link type RAW (packets begin with the IP header). The IP and UDP headers come
//! from the addresses and the ECN codepoint; lengths and checksums equal those on the wire.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use narrows_dccp::udp;
use narrows_dccp::wire::Addresses;

use crate::settings::Caller;

/// Magic number of the format with nanosecond timestamps.
const MAGIC: u32 = 0xa1b2_3c4d;
/// `LINKTYPE_RAW`.
const RAW: u32 = 101;
const UDP: u8 = 17;
const HOPS: u8 = 64;

/// The capture of a socket, if any. When a write to the capture fails, the capture ends and the connections continue.
#[derive(Default)]
pub struct Recorder {
    path: PathBuf,
    capture: Option<Capture>,
    failure: Option<io::Error>,
}

impl Recorder {
    /// Creates the capture file, if a path is given.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let capture = Capture::create(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(Self::with(path, capture))
    }

    /// Continues a capture.
    pub fn with(path: &Path, capture: Capture) -> Self {
        Self { path: path.to_owned(), capture: Some(capture), failure: None }
    }

    /// Appends a packet, as [`Capture::write`].
    pub fn write(&mut self, from: SocketAddr, to: SocketAddr, ecn: u8, dccp: &[u8]) {
        if let Some(capture) = &mut self.capture
            && let Err(error) = capture.write(from, to, ecn, dccp)
        {
            self.end(error);
        }
    }

    /// Flushes the file, so that readers find all packets so far.
    pub fn flush(&mut self) {
        if let Some(capture) = &mut self.capture
            && let Err(error) = capture.flush()
        {
            self.end(error);
        }
    }

    fn end(&mut self, error: io::Error) {
        self.failure = Some(error);
        // Discard the buffered bytes, which cannot be written either.
        if let Some(capture) = self.capture.take() {
            let _ = capture.file.into_parts();
        }
    }

    /// Reports a failure, once.
    pub fn warn(&mut self, caller: &dyn Caller) {
        if let Some(error) = self.failure.take() {
            caller
                .warning(&format!("{}: {error}: the capture ends here, the connections continue", self.path.display()));
        }
    }
}

/// An open capture file.
pub struct Capture {
    file: BufWriter<File>,
    packet: Vec<u8>,
}

impl Capture {
    /// Creates a file with its header.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut capture = Self::over(File::create(path)?)?;
        capture.flush()?;
        Ok(capture)
    }

    /// Writes the header to a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn over(file: File) -> io::Result<Self> {
        let mut file = BufWriter::new(file);
        file.write_all(&MAGIC.to_le_bytes())?;
        file.write_all(&[2, 0, 4, 0])?; // version 2.4
        file.write_all(&[0; 8])?;
        file.write_all(&u32::from(u16::MAX).to_le_bytes())?;
        file.write_all(&RAW.to_le_bytes())?;
        Ok(Self { file, packet: Vec::with_capacity(2_048) })
    }

    /// Appends a DCCP packet in UDP.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, from: SocketAddr, to: SocketAddr, ecn: u8, dccp: &[u8]) -> io::Result<()> {
        let length = udp::HEADER + dccp.len();
        let packet = &mut self.packet;
        packet.clear();
        // A packet between an IPv4 peer and an IPv6 socket is an IPv4 packet on the wire.
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (from, to) = (plain(from), plain(to));
        let addresses = match (from, to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                packet.extend_from_slice(&[0x45, ecn]);
                packet.extend_from_slice(&((20 + length) as u16).to_be_bytes());
                packet.extend_from_slice(&[0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
                packet.extend_from_slice(&from.ip().octets());
                packet.extend_from_slice(&to.ip().octets());
                let sum: u32 =
                    packet.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
                let sum = (sum & 0xffff) + (sum >> 16);
                let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
                Addresses { source: from.ip().octets(), destination: to.ip().octets() }
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                packet.extend_from_slice(&[0x60, ecn << 4, 0, 0]);
                packet.extend_from_slice(&(length as u16).to_be_bytes());
                packet.extend_from_slice(&[UDP, HOPS]);
                packet.extend_from_slice(&from.ip().octets());
                packet.extend_from_slice(&to.ip().octets());
                Addresses { source: folded(from.ip().octets()), destination: folded(to.ip().octets()) }
            }
            _ => return Ok(()), // no packet mixes IPv4 and IPv6
        };
        udp::wrap(addresses, from.port(), to.port(), dccp, packet);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let length = packet.len() as u32;
        for field in [now.as_secs() as u32, now.subsec_nanos(), length, length] {
            self.file.write_all(&field.to_le_bytes())?;
        }
        self.file.write_all(packet)
    }

    /// Flushes the file, so that readers find all packets so far.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Four bytes with the same checksum contribution as an IPv6 address: the ones' complement sum of its words.
fn folded(address: [u8; 16]) -> [u8; 4] {
    let words = address.chunks_exact(4).map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]])));
    let sum: u64 = words.sum();
    let once = (sum & 0xffff_ffff) + (sum >> 32);
    ((once & 0xffff_ffff) + (once >> 32)).to_be_bytes()[4..].try_into().unwrap_or_default()
}
