//! A socket with its outgoing batch and its capture.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use narrows_cc::Nanos;
use narrows_dccp::{Connection, Sent};
use narrows_host::socket::Socket;
use rustix::io::Errno;

use crate::capture::Recorder;

/// Addresses of the two endpoints of a packet.
#[derive(Clone, Copy, Debug)]
pub struct AddressPair {
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
}

impl AddressPair {
    /// Source address of outgoing packets: the address that the peer knows. On a wildcard socket the system would
    /// otherwise choose the address.
    fn source(self) -> Option<IpAddr> {
        Some(self.local.ip()).filter(|ip| !ip.is_unspecified())
    }
}

/// A socket in use.
pub struct Port {
    pub socket: Socket,
    pub recorder: Recorder,
    /// Packets that leave in one call: their bytes, the size of each packet, and their ECN codepoint.
    batch: Vec<u8>,
    size: usize,
    ecn: u8,
    /// A packet that did not fit the batch.
    extra: Vec<u8>,
    extra_ecn: u8,
}

impl Port {
    /// Opens the capture file, if any.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(socket: Socket, capture: Option<&Path>) -> io::Result<Self> {
        Ok(Self {
            socket,
            recorder: Recorder::new(capture)?,
            batch: Vec::with_capacity(1 << 16),
            size: 0,
            ecn: 0,
            extra: Vec::with_capacity(1 << 11),
            extra_ecn: 0,
        })
    }

    /// Takes packets of one size and codepoint from a connection, as many as one call sends, and reports each
    /// to `on_sent` with its size. Packets beyond `room` bytes are dropped.
    pub fn collect(
        &mut self,
        at: Nanos,
        addresses: AddressPair,
        connection: &mut Connection,
        mut room: usize,
        mut on_sent: impl FnMut(&Sent, usize),
    ) -> usize {
        let mut count = 0;
        if !self.extra.is_empty() {
            std::mem::swap(&mut self.batch, &mut self.extra);
            (self.size, self.ecn) = (self.batch.len(), self.extra_ecn);
            count = 1;
        }
        while self.extra.is_empty() {
            if count > 0 && count >= self.socket.segments(self.size) {
                break;
            }
            let begin = self.batch.len();
            let Some(sent) = connection.poll_transmit(at, &mut self.batch) else { break };
            let size = self.batch.len() - begin;
            if size > room {
                self.batch.truncate(begin);
                continue;
            }
            room -= size;
            self.recorder.write(addresses.local, addresses.remote, sent.ecn, &self.batch[begin..]);
            on_sent(&sent, size);
            if count == 0 {
                (self.size, self.ecn) = (size, sent.ecn);
            } else if size > self.size || sent.ecn != self.ecn {
                self.extra.extend_from_slice(&self.batch[begin..]);
                self.extra_ecn = sent.ecn;
                self.batch.truncate(begin);
                break;
            }
            count += 1;
            if size < self.size {
                break; // only the last may be shorter
            }
        }
        count
    }

    /// Whether a packet is left for the next call of [`Port::collect`].
    pub fn has_extra(&self) -> bool {
        !self.extra.is_empty()
    }

    /// Sends the batch, and waits until the system accepts it. Discards the batch even on an error.
    ///
    /// # Errors
    /// The system's error.
    pub async fn flush(&mut self, addresses: AddressPair) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let refused = [Errno::IO, Errno::INVAL].map(|errno| Some(errno.raw_os_error()));
        let batched = self.batch.len() > self.size;
        let mut done = self.send_batch(addresses, &self.batch).await;
        // If the interface cannot segment a batch, send single packets from now on. Datagrams that are too long for the
        // interface cause the same error; then sending the first single packet fails too and returns the error.
        if let Err(error) = &done
            && batched
            && refused.contains(&error.raw_os_error())
        {
            self.socket.stop_batches();
            for packet in self.batch.chunks(self.size) {
                done = self.send_batch(addresses, packet).await;
                if done.is_err() {
                    break;
                }
            }
        }
        self.batch.clear();
        done
    }

    /// Fills the batch with packets of `size` bytes.
    #[cfg(test)]
    pub fn put(&mut self, packets: &[u8], size: usize) {
        self.batch.extend_from_slice(packets);
        self.size = size;
    }

    async fn send_batch(&self, addresses: AddressPair, contents: &[u8]) -> io::Result<()> {
        loop {
            match self.socket.send(addresses.remote, addresses.source(), self.ecn, contents, self.size) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.writable().await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Sends one packet, an answer without a connection, if the socket accepts the packet without waiting.
    pub fn answer(&mut self, addresses: AddressPair, packet: &[u8]) {
        self.recorder.write(addresses.local, addresses.remote, 0, packet);
        let _ = self.socket.send(addresses.remote, addresses.source(), 0, packet, packet.len());
    }
}
