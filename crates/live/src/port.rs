//! A socket with what goes with it: the batch that is put together for it, and the capture.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use narrows_cc::Nanos;
use narrows_dccp::{Connection, Sent};
use rustix::io::Errno;

use crate::capture::Capture;
use crate::socket::Socket;

/// The two ends of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Our address.
    pub local: SocketAddr,
    /// The other side's.
    pub remote: SocketAddr,
}

impl Way {
    /// Packets leave from the address that the other side knows. A socket that is bound to all of them would have another chosen.
    fn source(self) -> Option<IpAddr> {
        Some(self.local.ip()).filter(|ip| !ip.is_unspecified())
    }
}

/// A socket in use.
pub struct Port {
    pub socket: Socket,
    pub capture: Option<Capture>,
    /// Packets that leave in one call: their bytes, the size of each, their codepoint.
    batch: Vec<u8>,
    size: usize,
    ecn: u8,
    /// The packet that did not belong to that batch.
    extra: Vec<u8>,
    extra_ecn: u8,
}

impl Port {
    /// With a capture file, if one is named.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(socket: Socket, capture: Option<&Path>) -> io::Result<Self> {
        let named = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let capture =
            capture.map(|path| Capture::create(path).map_err(|error| named(path, error))).transpose()?;
        Ok(Self {
            socket,
            capture,
            batch: Vec::with_capacity(1 << 16),
            size: 0,
            ecn: 0,
            extra: Vec::with_capacity(1 << 11),
            extra_ecn: 0,
        })
    }

    /// Takes packets of one size and codepoint from a connection, as many as one call sends; `told` hears of each.
    ///
    /// # Errors
    /// If the capture cannot be written.
    pub fn collect(
        &mut self,
        at: Nanos,
        way: Way,
        connection: &mut Connection,
        mut told: impl FnMut(&Sent),
    ) -> io::Result<usize> {
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
            if let Some(capture) = &mut self.capture {
                capture.write(way.local, way.remote, sent.ecn, &self.batch[begin..])?;
            }
            told(&sent);
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
        Ok(count)
    }

    /// A packet is left for the next call of [`Port::collect`].
    pub fn has_extra(&self) -> bool {
        !self.extra.is_empty()
    }

    /// Sends what was collected, when the system has room for it. Whatever happens, it is not sent again.
    ///
    /// # Errors
    /// What the system says.
    pub async fn flush(&mut self, way: Way) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let refused = [Errno::IO, Errno::INVAL].map(|errno| Some(errno.raw_os_error()));
        let batched = self.batch.len() > self.size;
        let mut done = self.pass(way, &self.batch).await;
        // What the interface cannot cut into packets goes by one, and so does everything from then on. Datagrams that are too long
        // for it are refused in this way too; then the error of the first tells.
        if let Err(error) = &done
            && batched
            && refused.contains(&error.raw_os_error())
        {
            self.socket.stop_batches();
            for packet in self.batch.chunks(self.size) {
                done = self.pass(way, packet).await;
                if done.is_err() {
                    break;
                }
            }
        }
        self.batch.clear();
        done
    }

    /// As if these packets of `size` bytes had been collected.
    #[cfg(test)]
    pub fn put(&mut self, packets: &[u8], size: usize) {
        self.batch.extend_from_slice(packets);
        self.size = size;
    }

    async fn pass(&self, way: Way, contents: &[u8]) -> io::Result<()> {
        loop {
            match self.socket.send(way.remote, way.source(), self.ecn, contents, self.size) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.writable().await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Sends one packet, if that is possible at once: for answers to strangers.
    ///
    /// # Errors
    /// If the capture cannot be written.
    pub fn answer(&mut self, way: Way, packet: &[u8]) -> io::Result<()> {
        if let Some(capture) = &mut self.capture {
            capture.write(way.local, way.remote, 0, packet)?;
        }
        let _ = self.socket.send(way.remote, way.source(), 0, packet, packet.len());
        Ok(())
    }

    /// Whoever reads the capture now finds all packets so far.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush_capture(&mut self) -> io::Result<()> {
        self.capture.as_mut().map_or(Ok(()), Capture::flush)
    }
}
