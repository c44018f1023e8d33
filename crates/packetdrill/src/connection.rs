//! A full TCP connection made of a [`Sender`] and a [`Receiver`], one per direction.
//!
//! The sender always acts as the active opener. If the peer has opened the connection, the sender's SYN appears as a
//! SYN-ACK, and the last packet of the handshake is passed to the sender as the SYN-ACK that it waits for. Packets of
//! the sender carry the acknowledgement of the receiver. Sequence numbers are those of the script: both directions
//! begin at 0.
//!
//! The connection also implements socket behaviour: Nagle's rule as in Linux (RFC 896, Minshall's variant), `TCP_CORK`
//! and `MSG_MORE`, `MSG_EOR`, the FIN of `close`, and resets after the connection has ended.

mod buffer;
mod input;
mod marks;
mod output;
mod setup;
mod writer;

use std::collections::VecDeque;

use narrows_cc::Nanos;
use narrows_packet::{Ecn, Flags, Packet, timestamp};
use narrows_tcp::{Receiver, Sender};

use crate::script::{Options, Segment, TcpFlags};
use crate::stack::Sent;
use buffer::{SendBuffer, Stream};
pub(crate) use buffer::{receive_space, size_of_option};
pub(crate) use input::reset_for;
pub(crate) use marks::Stamp;
use marks::{Chronograph, Patience, Stamps, Times};
pub(crate) use setup::{Setup, default_scheme, mss_option, scheme_of};
use writer::Writer;

/// Window field of a SYN (Linux: the initial window does not exceed 64 KiB).
const SYN_WINDOW: u32 = 65_535;

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// SYN sent.
    SynSent,
    /// SYN received and SYN-ACK sent.
    SynReceived,
    Established,
    /// Reset, or closed by both endpoints: every packet is answered with a reset.
    Gone,
}

/// Options that both endpoints agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    /// Window scale of the peer and of this endpoint.
    pub(crate) scales: Option<(u8, u8)>,
    /// Payload bytes of a full segment (`TCP_MAXSEG`, `tcpi_snd_mss`).
    pub(crate) segment: u16,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stage: Stage,
    passive: bool,
    pub(crate) setup: Setup,
    pub(crate) agreed: Agreed,
    pub(crate) sender: Sender,
    receiver: Receiver,
    writer: Writer,
    /// Lowest sequence number that was never sent.
    sent_end: u64,
    /// Times at which SYNs were sent, for the sender that replaces the sender of the handshake.
    syns: Vec<Nanos>,
    /// Packets sent and not yet compared with the script.
    pub(crate) sent: VecDeque<Sent>,
    /// Bytes received and not yet read.
    pub(crate) readable: u64,
    /// The peer's FIN and all data before it have arrived.
    pub(crate) peer_finished: bool,
    /// Time of the last data arrival.
    pub(crate) data_at: Nanos,
    /// The application shut the socket for reading.
    pub(crate) shut_for_reading: bool,
    /// The application closed the socket and will not read any more data.
    closed: bool,
    /// Sequence number of the peer's FIN, once a packet with FIN has arrived.
    fin_at: Option<u64>,
    /// The peer's FIN arrived before this endpoint sent its FIN.
    peer_closed_first: bool,
    /// Last timestamp value received from the peer.
    peer_timestamp: u32,
    /// When an invalid segment was answered last.
    challenged_at: Option<Nanos>,
    /// The next bare acknowledgement of the sender belongs to the handshake and is not put on the wire.
    hide_ack: bool,
    stamps: Stamps,
    chronograph: Chronograph,
    patience: Patience,
    /// The connection timed out, and no call has reported it yet.
    pub(crate) timed_out: bool,
    /// End of the peer's window.
    right_edge: u64,
    /// The largest window that the peer offered.
    largest_window: u64,
    /// The send buffer; `None` if unlimited.
    buffer: Option<SendBuffer>,
    /// The write in progress.
    writing: Option<Writing>,
}

/// A write of which the send buffer has not accepted all bytes, or whose call has not returned.
#[derive(Clone, Copy, Debug)]
struct Writing {
    bytes: u64,
    left: u64,
    more: bool,
    record: bool,
}

impl Connection {
    /// Opens a connection: sends a SYN.
    pub(crate) fn connect(now: Nanos, setup: Setup) -> Self {
        let agreed = setup.agree(None);
        let mut own = Self::new(now, setup, agreed, false);
        own.flush(now);
        own
    }

    /// Answers a SYN: sends a SYN-ACK.
    pub(crate) fn accept(now: Nanos, setup: Setup, syn: &Segment) -> Self {
        let agreed = setup.agree(Some(syn));
        let mut own = Self::new(now, setup, agreed, true);
        own.peer_timestamp = value_of(syn).unwrap_or(0);
        own.receiver.on_packet(now, &own.forward(now, syn));
        while own.receiver.poll_transmit(now).is_some() {}
        own.flush(now);
        own
    }

    fn new(now: Nanos, setup: Setup, agreed: Agreed, passive: bool) -> Self {
        let mut own = Self {
            stage: if passive { Stage::SynReceived } else { Stage::SynSent },
            passive,
            sender: setup.sender(now, &agreed),
            receiver: setup.receiver(&agreed),
            writer: Writer::new(&setup),
            setup,
            agreed,
            sent_end: 1,
            syns: Vec::new(),
            sent: VecDeque::new(),
            readable: 0,
            peer_finished: false,
            data_at: now,
            shut_for_reading: false,
            closed: false,
            fin_at: None,
            peer_closed_first: false,
            peer_timestamp: 0,
            challenged_at: None,
            hide_ack: false,
            stamps: Stamps::default(),
            chronograph: Chronograph::default(),
            patience: Patience::ENDLESS,
            timed_out: false,
            right_edge: 1,
            largest_window: 0,
            buffer: None,
            writing: None,
        };
        if let Some(bytes) = own.setup.send_buffer {
            own.set_send_buffer(bytes);
        }
        own.sender.on_timer(now);
        own
    }

    /// Time of the next [`Connection::on_timer`]; [`Nanos::MAX`] for never.
    pub(crate) fn deadline(&self) -> Nanos {
        if self.stage == Stage::Gone {
            return Nanos::MAX;
        }
        self.sender.deadline().min(self.receiver.deadline()).min(self.writer.deadline).min(self.patience.deadline())
    }

    /// Handles the timers that have expired.
    pub(crate) fn on_timer(&mut self, now: Nanos) {
        if self.patience.deadline() <= now {
            self.stage = Stage::Gone;
            self.timed_out = true;
            return;
        }
        if self.sender.deadline() <= now {
            self.sender.on_timer(now);
        }
        if self.receiver.deadline() <= now {
            self.receiver.on_timer(now);
        }
        if self.writer.deadline <= now {
            self.writer.push_once();
        }
        self.flush(now);
    }

    /// Writes `bytes`, as far as the send buffer accepts them. `more`: the caller announces more data (`MSG_MORE`).
    /// `record`: later data is not added to the last segment (`MSG_EOR`). [`Connection::end_write`] ends the call.
    pub(crate) fn write(&mut self, now: Nanos, bytes: u64, more: bool, record: bool) {
        // Linux checks whether the sender is application-limited before it accepts new data (`tcp_sendmsg_locked`).
        self.sender.on_timer(now);
        self.writing = Some(Writing { bytes, left: bytes, more, record });
        self.flush(now);
    }

    /// Ends the write in progress if the buffer has accepted all of its data or if `wait` is false. Returns the number
    /// of bytes accepted, or `None` if the call blocks.
    pub(crate) fn end_write(&mut self, wait: bool) -> Option<u64> {
        let blocks = |own: &mut Writing| !wait || own.left == 0 || self.stage == Stage::Gone;
        let own = self.writing.take_if(blocks)?;
        let taken = own.bytes - own.left;
        if own.left > 0 && taken > 0 {
            self.stamps.on_write(self.writer.written + 1);
        }
        Some(taken)
    }

    /// Whether a write is in progress.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Limits the send buffer.
    pub(crate) fn set_send_buffer(&mut self, bytes: u64) {
        self.buffer = Some(SendBuffer::new(bytes, self.stream()));
    }

    fn stream(&self) -> Stream {
        Stream { una: self.sender.acknowledged(), next: self.sent_end, end: self.writer.written + 1 }
    }

    /// Requests transmit timestamps with these flags.
    pub(crate) fn begin_stamps(&mut self, flags: &[String]) {
        self.stamps.begin(self.sender.acknowledged(), flags);
    }

    /// Takes the oldest transmit timestamp that was not read yet.
    pub(crate) fn take_stamp(&mut self) -> Option<Stamp> {
        self.stamps.queue.pop_front()
    }

    /// Limits the time that data may stay unacknowledged after its first retransmission.
    pub(crate) fn set_patience(&mut self, limit: Nanos) {
        self.patience.limit = limit;
    }

    /// Sets whether the queue of the device drops every packet from now on.
    pub(crate) fn set_congested(&mut self, congested: bool) {
        self.setup.settings.drops = congested;
        self.sender.set_local_congestion(congested);
    }

    /// Drops the packets that have left the connection, as a full queue of the device does.
    pub(crate) fn drop_sent(&mut self, now: Nanos) {
        if !self.sent.is_empty() {
            self.sent.clear();
            self.sender.on_local_drop(now);
        }
    }

    /// `tcpi_busy_time`, `tcpi_rwnd_limited` and `tcpi_sndbuf_limited`.
    pub(crate) fn activities(&self, now: Nanos) -> Times {
        self.chronograph.read(now)
    }

    /// Sets `TCP_NODELAY` or `TCP_CORK`.
    pub(crate) fn set_delay(&mut self, now: Nanos, nodelay: Option<bool>, cork: Option<bool>) {
        self.writer.set_delay(nodelay, cork);
        self.flush(now);
    }

    /// Ends the data stream to the peer (`shutdown`, `close`): a FIN follows the data.
    pub(crate) fn finish(&mut self, now: Nanos) {
        self.writer.finished = true;
        self.flush(now);
    }

    /// Whether the application has ended the data stream to the peer.
    pub(crate) fn is_finished(&self) -> bool {
        self.writer.finished
    }

    /// Closes the socket. If unread data remains, a reset is sent (RFC 2525 section 2.17).
    pub(crate) fn close(&mut self, now: Nanos) {
        self.closed = true;
        match self.stage {
            Stage::SynSent | Stage::SynReceived => self.stage = Stage::Gone,
            Stage::Established if self.readable > 0 => {
                let mut reset = self.bare(now, self.sent_end);
                reset.flags.rst = true;
                self.emit(now, reset);
                self.stage = Stage::Gone;
            }
            Stage::Established => self.finish(now),
            Stage::Gone => {}
        }
    }

    /// Bytes written and not yet acknowledged.
    pub(crate) fn queued(&self) -> u64 {
        (self.writer.written + 1).saturating_sub(self.sender.acknowledged())
    }

    /// End of the data received in order.
    fn received_end(&self) -> u64 {
        self.receiver.stats().bytes_in_order + 1
    }

    /// Converts a segment of the peer to the packet that the receiver processes.
    fn forward(&self, now: Nanos, segment: &Segment) -> Packet {
        let mut packet = Packet::new(0);
        packet.payload = segment.len as u16;
        let mut flags = Flags::NONE;
        for (set, flag) in [
            (segment.flags.syn, Flags::SYN),
            (segment.flags.fin, Flags::FIN),
            (segment.flags.ack, Flags::ACK),
            (segment.flags.ece && segment.flags.syn, Flags::ECE),
            (segment.flags.cwr, Flags::CWR),
        ] {
            if set {
                flags = flags.with(flag);
            }
        }
        packet.flags = flags;
        packet.set_ecn(segment.ecn.unwrap_or(Ecn::NotEct));
        let tcp = packet.tcp_mut();
        *tcp.seq = segment.seq;
        // Linux keeps the last timestamp when a packet has none.
        let last = if self.agreed.timestamps { self.peer_timestamp } else { timestamp(now) };
        *tcp.ts_val = value_of(segment).unwrap_or(last);
        packet
    }

    /// Converts a segment of the peer to the packet that the sender processes. Without timestamps the echo is the time
    /// of arrival, which identifies no transmission.
    fn reverse(&self, now: Nanos, segment: &Segment, syn: bool) -> Packet {
        let mut packet = Packet::new(0);
        packet.flags = Flags::ACK.with(Flags::REVERSE);
        if syn {
            packet.flags = packet.flags.with(Flags::SYN);
        }
        // A SYN-ACK agrees to ECN with its ECE flag. For a passive opener, the peer's SYN has already requested ECN.
        let echo = if syn { self.setup.ecn } else { segment.flags.ece };
        if echo {
            packet.flags = packet.flags.with(Flags::ECE);
        }
        let scale = if segment.flags.syn { 0 } else { self.agreed.scales.map_or(0, |(peer, _)| peer) };
        let tcp = packet.tcp_mut();
        *tcp.ack = segment.ack;
        *tcp.window = segment.window.unwrap_or(SYN_WINDOW) << scale;
        *tcp.ts_val = value_of(segment).unwrap_or(timestamp(now));
        *tcp.ts_ecr = match &segment.options {
            Some(Options { timestamps: Some((_, echo)), .. }) if self.agreed.timestamps => *echo,
            _ => timestamp(now),
        };
        for &(start, end) in segment.options.iter().flat_map(|options| &options.sack) {
            packet.push_sack(start, end);
        }
        packet
    }

    /// Builds an acknowledgement with the receiver's current state: acknowledgement number, window, timestamp echo and
    /// SACK blocks.
    fn bare(&mut self, now: Nanos, seq: u64) -> Segment {
        self.receiver.acknowledge_now();
        let mut last = None;
        while let Some(packet) = self.receiver.poll_transmit(now) {
            if let Some(earlier) = last.replace(packet) {
                // An earlier acknowledgement was pending, such as one that reports the previous CE state.
                let segment = self.acknowledgement(&earlier);
                self.emit(now, segment);
            }
        }
        let Some(packet) = last else {
            return Segment {
                flags: TcpFlags::default(),
                seq,
                len: 0,
                ack: 0,
                window: Some(self.setup.syn_window()),
                ecn: Some(Ecn::NotEct),
                options: Some(Options::default()),
            };
        };
        Segment { seq, ..self.acknowledgement(&packet) }
    }

    /// Converts an acknowledgement of the receiver to the segment on the wire.
    fn acknowledgement(&self, packet: &Packet) -> Segment {
        let tcp = packet.tcp();
        let scale = self.agreed.scales.map_or(0, |(_, own)| own);
        let options = Options {
            timestamps: self.agreed.timestamps.then_some((tcp.ts_val, tcp.ts_ecr)),
            sack: packet.sack_blocks().collect(),
            ..Options::default()
        };
        Segment {
            flags: TcpFlags { ack: true, ece: packet.flags.has(Flags::ECE), ..TcpFlags::default() },
            seq: self.sent_end,
            len: 0,
            ack: tcp.ack,
            window: Some((tcp.window >> scale).min(u32::from(u16::MAX))),
            ecn: Some(Ecn::NotEct),
            options: Some(options),
        }
    }

    fn emit(&mut self, at: Nanos, segment: Segment) {
        self.sent.push_back(Sent { at, segment });
    }
}

/// The timestamp value of a packet.
fn value_of(segment: &Segment) -> Option<u32> {
    segment.options.as_ref().and_then(|options| options.timestamps).map(|(value, _)| value)
}
