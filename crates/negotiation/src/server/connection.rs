//! One connection of the server: its socket, its requester and its pacing.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use narrows_cc::{Nanos, Rate};
use narrows_host::clock::Clock;
use narrows_host::diagnostics;
use narrows_host::netlink::Netlink;
use narrows_programs::{Grant, Grants};
use narrows_routers::NegotiationConfig;
use narrows_routers::negotiation::MOST;
use narrows_tcp::rates::RateSetup;
use rustix::event::{PollFd, PollFlags};

use super::lobby::Greeted;
use super::{ServerSettings, Transmissions};
use crate::pace::Pacer;
use crate::wire::{self, PIECE};
use crate::{Counts, Flow, Mbit, NegotiationError, Operator, TICK, wait};

/// Longest wait for the last acknowledgement and for the end of the negotiation.
const DRAIN: Nanos = Nanos::from_secs(5);
/// A client counts as gone if, during this time, it accepts less than [`LEAST`] and less than a quarter of its rate.
const SILENCE: Nanos = Nanos::from_secs(30);
const LEAST: u64 = 64 << 10;
/// Pieces written, and datagrams read, per turn of the connection's loop.
const BATCH: usize = 16;
/// Bytes of IPv4 and TCP headers without and with timestamps.
const HEADERS: [u16; 2] = [40, 52];
/// Reason for closing the connection of a client that sends more data: each byte would wake the server.
const TALKS: &str = "the client sent data after its hello; accepted: nothing more";

pub(super) struct Connection<'a> {
    stream: &'a TcpStream,
    client: SocketAddrV4,
    messages: UdpSocket,
    netlink: Netlink,
    flow: Flow,
    pacer: Pacer,
    /// Payload of the whole transmission; 0: no end.
    size: u64,
    next: Arc<AtomicU64>,
    transmissions: &'a Transmissions,
    /// The current piece of the payload, and how many of its bytes are written.
    piece: Vec<u8>,
    place: usize,
    pub(super) written: u64,
    /// Time at which the server had written all data.
    shut_at: Option<Nanos>,
    /// The last check of progress: its time, and the bytes written by then.
    progress: (Nanos, u64),
    /// Whether data still waits for the first answer to a rate request.
    waiting: bool,
    name: String,
    /// The rate in the last log line; its rounding hides small changes.
    reported_rate: String,
    /// Payload bytes per byte on the wire.
    share: f64,
    clock: Clock,
    operator: &'a dyn Operator,
}

/// Payload bytes of a full packet, and bytes of its headers.
fn packet_of(netlink: &mut Netlink, local: SocketAddrV4, remote: SocketAddrV4) -> io::Result<Option<(u16, u16)>> {
    const TIMESTAMPS: u8 = 1;
    let Some((info, _)) = diagnostics::read_info(netlink, local, remote)? else { return Ok(None) };
    let options = info.get(5).copied().unwrap_or(0);
    let mss = info.get(16..20).and_then(|own| own.first_chunk()).map_or(0, |own| u32::from_ne_bytes(*own));
    let header = HEADERS[usize::from(options & TIMESTAMPS)];
    Ok(u16::try_from(mss).ok().filter(|mss| *mss > 0).map(|mss| (mss, header)))
}

impl<'a> Connection<'a> {
    /// Opens the UDP socket for negotiation messages.
    pub(super) fn open(
        settings: &ServerSettings,
        greeted: &'a Greeted,
        transmissions: &'a Transmissions,
        grants: Option<&Arc<Grants>>,
        operator: &'a dyn Operator,
    ) -> Result<Self, NegotiationError> {
        let Greeted { stream, client, hello } = greeted;
        let client = *client;
        let refused = |reason: &str| NegotiationError::Server(client, reason.to_owned());
        let SocketAddr::V4(local) = stream.local_addr()? else {
            return Err(refused("the connection has no IPv4 address"));
        };
        let mut netlink = Netlink::diagnostics()?;
        let (segment, data_header) =
            packet_of(&mut netlink, local, client)?.ok_or_else(|| refused("the connection has ended"))?;
        let id = hello.id(*client.ip());
        let config = NegotiationConfig {
            content: id.content,
            destination: id.destination,
            subflow: id.subflow,
            min: hello.min.min(settings.max),
            max: hello.max.min(settings.max),
            ..NegotiationConfig::default()
        };
        let to = settings.via.unwrap_or_else(|| SocketAddrV4::new(*client.ip(), hello.responder));
        let messages = UdpSocket::bind((*local.ip(), 0))?;
        // After `connect`, the kernel drops datagrams from other addresses.
        messages.connect(to)?;
        messages.set_nonblocking(true)?;
        let name = format!("content {} to {client}, subflow {}", id.content, id.subflow);
        operator.log(&format!("{name}: requests up to {} at {to}", Mbit(config.max)));
        let setup = RateSetup { segment, data_header, line: None };
        Ok(Self {
            stream,
            client,
            messages,
            netlink,
            flow: Flow::new(&config, &setup, (local, client)).between_hosts(),
            pacer: Pacer::new(grants),
            size: hello.size,
            next: transmissions.join(id),
            transmissions,
            piece: Vec::new(),
            place: 0,
            written: 0,
            shut_at: None,
            progress: (Nanos::ZERO, 0),
            waiting: true,
            name,
            reported_rate: String::new(),
            share: f64::from(segment) / f64::from(segment + data_header),
            clock: Clock::from(Instant::now()),
            operator,
        })
    }

    pub(super) fn changes(&self) -> u64 {
        self.flow.counts.changes
    }

    /// Sends until all data is written and acknowledged, the client is gone, or the operator stops the server.
    pub(super) fn run(&mut self) -> Result<(), NegotiationError> {
        let mut talks = false;
        loop {
            let now = self.clock.now();
            self.negotiate(now)?;
            if self.shut_at.is_none() {
                let heard = self.heard();
                talks = heard.is_some_and(|bytes| bytes > 0);
                if heard.is_some() || self.operator.is_stopped() {
                    self.give_up(now);
                }
            }
            let full = self.shut_at.is_none() && !self.flow.blocks_data() && self.write(now)?;
            if self.flow.is_finished() || self.shut_at.is_some_and(|at| now > at + DRAIN) {
                break;
            }
            if self.shut_at.is_none() && !self.takes_data(now) {
                self.shut(now);
                self.log("the client takes no data: gives up");
            }
            let writable = if full { PollFlags::OUT } else { PollFlags::empty() };
            let mut fds =
                [PollFd::new(&self.messages, PollFlags::IN), PollFd::new(self.stream, writable | PollFlags::IN)];
            // A closed stream is always readable, so poll only the message socket.
            let fds = if self.shut_at.is_some() { &mut fds[..1] } else { &mut fds[..] };
            wait(fds, self.clock.until(self.flow.deadline().min(self.pacer.deadline())).min(TICK))?;
        }
        let Counts { sent, received, refused, changes } = self.flow.counts;
        self.log(&format!(
            "ended after {} bytes; messages: {sent} sent, {received} received, {refused} refused; {changes} changes",
            self.written
        ));
        if talks {
            return Err(NegotiationError::Server(self.client, TALKS.to_owned()));
        }
        Ok(())
    }

    fn log(&self, text: &str) {
        self.operator.log(&format!("{}: {text}", self.name));
    }

    /// Number of bytes read from the client, 0 if the client is gone; `None` if nothing has arrived.
    fn heard(&self) -> Option<usize> {
        let mut rest = [0; 64];
        let mut reading = self.stream;
        match reading.read(&mut rest) {
            Ok(bytes) => Some(bytes),
            Err(error) if narrows_host::is_transient(&error) => None,
            Err(_) => Some(0),
        }
    }

    /// Whether the client accepts enough of the data that its rate allows.
    fn takes_data(&mut self, now: Nanos) -> bool {
        let (since, before) = self.progress;
        let grant = self.flow.grant();
        let allowed = grant.rate.or(grant.limit).map_or(u64::MAX, |rate| rate.over(SILENCE).as_u64() / 4);
        if self.flow.blocks_data() || self.written - before >= LEAST.min(allowed) {
            self.progress = (now, self.written);
            return true;
        }
        now <= since + SILENCE
    }

    /// Ends the connection early, because the client is gone.
    fn give_up(&mut self, now: Nanos) {
        self.transmissions.close(&self.next);
        self.shut(now);
    }

    fn shut(&mut self, now: Nanos) {
        self.shut_at = Some(now);
        // A client that is gone needs no FIN.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn unwritten(&self) -> u64 {
        match (self.shut_at, self.size) {
            (Some(_), _) => 0,
            (None, 0) => u64::MAX / 2,
            (None, size) => size.saturating_sub(self.next.load(Ordering::Relaxed)),
        }
    }

    /// Processes messages and timers, and applies the resulting grants.
    fn negotiate(&mut self, now: Nanos) -> Result<(), NegotiationError> {
        let (unwritten, state) = (self.unwritten(), (true, self.shut_at.is_some()));
        let mut changed = self.flow.step(now, &mut self.netlink, unwritten, state)?;
        let mut bytes = [0; 64];
        for _ in 0..BATCH {
            match self.messages.recv(&mut bytes) {
                Ok(length) => {
                    let read = self.flow.on_datagram(now, &mut self.netlink, unwritten, &bytes[..length])?;
                    changed = read.or(changed);
                }
                // No message is waiting, or the node is unreachable.
                Err(_) => break,
            }
        }
        if let Some(grant) = changed {
            self.pacer.set(now, self.stream, grant)?;
            if !self.waiting || grant.rate.is_some() {
                self.log_grant(grant);
            }
        }
        if self.waiting && !self.flow.blocks_data() {
            self.waiting = false;
            if self.flow.grant().rate.is_none() {
                self.log("no node takes part: sends as its scheme does without a rate");
            }
        }
        while let Some(message) = self.flow.poll_message(now) {
            // The requester repeats this message if it is lost.
            let _ = self.messages.send(message.as_bytes());
        }
        Ok(())
    }

    fn log_grant(&mut self, grant: Grant) {
        let text = match grant.rate {
            Some(rate) => allowance(rate, self.share),
            None => "the nodes are silent: sends as its scheme does without a rate".to_owned(),
        };
        if self.reported_rate != text {
            self.log(&text);
            self.reported_rate = text;
        }
    }

    /// Writes as much as the socket and the rate allow. Returns whether the socket is full.
    fn write(&mut self, now: Nanos) -> Result<bool, NegotiationError> {
        if let Some(grant) = self.flow.on_write(now) {
            self.pacer.set(now, self.stream, grant)?;
        }
        for _ in 0..BATCH {
            if self.place == self.piece.len() && !self.take_piece() {
                self.shut(now);
                return Ok(false);
            }
            let allowed = self.pacer.allowance(now);
            if allowed == 0 {
                return Ok(false);
            }
            let rest = &self.piece[self.place..];
            let mut writing = self.stream;
            match writing.write(&rest[..rest.len().min(allowed)]) {
                Ok(count) => {
                    self.place += count;
                    self.written += count as u64;
                    self.pacer.spend(count);
                }
                Err(error) if narrows_host::is_transient(&error) => return Ok(true),
                // The client is gone.
                Err(_) => {
                    self.give_up(now);
                    return Ok(false);
                }
            }
        }
        // More data remains: the next turn begins immediately.
        Ok(true)
    }

    /// Takes the next piece of the transmission; returns whether a piece remained.
    fn take_piece(&mut self) -> bool {
        let offset = self.next.fetch_add(PIECE as u64, Ordering::Relaxed);
        let length = match self.size {
            0 => PIECE,
            size => size.saturating_sub(offset).min(PIECE as u64) as usize,
        };
        if length == 0 {
            return false;
        }
        self.piece.clear();
        self.piece.extend_from_slice(&wire::head(offset, length));
        self.piece.resize(wire::HEAD + length, 0);
        self.place = 0;
        true
    }
}

/// A granted payload rate as a string, with its wire rate; `share` is payload bytes per wire byte.
fn allowance(rate: Rate, share: f64) -> String {
    // The requester rounds the payload rate of the largest rate down.
    if rate.as_bytes_per_sec() >= (MOST.as_bytes_per_sec() as f64 * share) as u64 {
        return "may send without a limit".to_owned();
    }
    let wire = Rate::from_bytes_per_sec((rate.as_bytes_per_sec() as f64 / share).round() as u64);
    format!("may send {} ({} of payload)", Mbit(wire), Mbit(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log states a rate with its payload rate, and the largest rate as no limit.
    #[test]
    fn largest_rate_is_no_limit() {
        let share = 1448.0 / 1500.0;
        let granted = |wire: Rate| Rate::from_bytes_per_sec((wire.as_bytes_per_sec() as f64 * share) as u64);
        assert_eq!(allowance(granted(MOST), share), "may send without a limit");
        let said = allowance(granted(Rate::from_bytes_per_sec(1_250_000)), share);
        assert_eq!(said, "may send 10.00 Mbit/s (9.65 Mbit/s of payload)");
    }
}
