//! Packet captures: a run's packets as a pcapng file, for tshark, Wireshark and tcptrace.
//!
//! ```text
//! host of the sender                                        host of the receiver
//!   interface 0  --data-->  links and queues  --data-->  interface 1
//!                <--acks--                    <--acks--
//! ```
//!
//! * Each host, that is each IPv4 address of the plan, has an interface. A packet is recorded when it leaves its host
//!   and when it reaches the other host, with the virtual time in nanoseconds.
//! * By default only the hosts of data senders record, like tcpdump on these hosts. With [`Ends::Both`], a
//!   packet that arrives appears twice; readers that do not distinguish interfaces then report each packet as a
//!   retransmission.
//! * Packets are IPv4 in Ethernet frames, whose 14 bytes of header do not exist on simulated links. Sequence
//!   numbers start at a random number for each direction of a flow and wrap at 32 bits. All checksums are valid; the payload of TCP is zero.
//! * A SYN carries the options that the connection uses (maximum segment size, SACK permitted, window scale,
//!   timestamps). These take up to eight bytes more than the simulated SYN takes on a link.
//! * TCP options of other kinds (multipath, rates) appear as the experimental kind 253 (RFC 6994), with their
//!   size and their raw fields. They are omitted if TCP's 40 bytes of options are full, or if they take no
//!   bytes on a link.
//! * A control message is a UDP datagram between the ports of its flow. A message from a node has the flow's
//!   receiver as source address.
//!
//! Captures lack packets that the simulator does not model: the acknowledgement of the receiver's FIN, and resets.

mod hosts;
mod pcapng;
mod wire;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use narrows_cc::Nanos;
use narrows_packet::{Flags, Packet};
use narrows_scenario::Plan;
use narrows_sim::PayloadArena;
use narrows_sim::observer::{Observer, Passage};

use hosts::Hosts;

/// Bytes collected before a write to the file.
const BUFFER: usize = 256 << 10;

/// The hosts that record their packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ends {
    /// Senders and receivers: packets that arrive appear twice.
    Both,
    /// The senders of data.
    #[default]
    Senders,
    /// The receivers of data.
    Receivers,
}

impl Ends {
    const fn include(self, sender: bool) -> bool {
        match self {
            Self::Both => true,
            Self::Senders => sender,
            Self::Receivers => !sender,
        }
    }
}

/// Contents of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The hosts that record their packets.
    pub ends: Ends,
    /// Number of bytes kept of each packet; `None` keeps all bytes. Lengths in headers and the recorded
    /// original length remain those of the complete packet.
    pub snap: Option<u32>,
}

/// Writes a run to a pcapng file. Buffers [`BUFFER`] bytes, and stores the first write error until the end.
#[derive(Debug)]
pub struct Capture {
    file: File,
    hosts: Hosts,
    contents: Contents,
    buffer: Vec<u8>,
    packet: Vec<u8>,
    /// Bytes of complete blocks in the file.
    written: u64,
    failed: Option<io::Error>,
}

impl Capture {
    /// Creates a file, or replaces it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(plan: &Plan, path: &Path, contents: Contents) -> io::Result<Self> {
        let mut file = File::create(path)?;
        let hosts = Hosts::new(plan);
        let mut buffer = Vec::with_capacity(BUFFER);
        pcapng::section(&mut buffer);
        for host in hosts.interfaces() {
            pcapng::interface(&mut buffer, &host, contents.snap);
        }
        file.write_all(&buffer)?;
        let written = buffer.len() as u64;
        buffer.clear();
        Ok(Self { file, hosts, contents, buffer, packet: Vec::with_capacity(2_048), written, failed: None })
    }

    /// Whether a write has failed, so that the run may end early.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes the remaining packets. An unfinished capture lacks its last packets.
    ///
    /// # Errors
    /// The first write error; the file then ends with the last complete packet before the error.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush();
        self.failed.map_or(Ok(()), Err)
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            match self.file.write_all(&self.buffer) {
                Ok(()) => self.written += self.buffer.len() as u64,
                Err(error) => {
                    // Truncate the file, because readers report an error if it ends within a block. A pipe
                    // cannot be truncated.
                    let _ = self.file.set_len(self.written);
                    self.failed = Some(error);
                }
            }
        }
        self.buffer.clear();
    }
}

impl Observer for Capture {
    fn passage(&mut self, now: Nanos, passage: Passage, packet: &Packet, arena: &PayloadArena) {
        let arrives = passage == Passage::Arrives;
        let at_sender = packet.flags.has(Flags::REVERSE) == arrives;
        if !self.contents.ends.include(at_sender) || self.failed.is_some() {
            return;
        }
        let flow = self.hosts.flow(packet.flow);
        self.packet.clear();
        let payload = wire::encode(&mut self.packet, flow, packet, arena.bytes(packet));
        let host = if at_sender { flow.sender.host } else { flow.receiver.host };
        let block = pcapng::Block { interface: host, at: now.as_nanos(), arrives, snap: self.contents.snap };
        pcapng::packet(&mut self.buffer, &block, &self.packet, payload);
        if self.buffer.len() + usize::from(u16::MAX) > BUFFER {
            self.flush();
        }
    }
}
