//! Packets from the hosts, with their departure times.
//!
//! A packet waits in its device until the emulator reads it. If the machine suspends the emulator for milliseconds, the
//! link would idle and then receive a burst, which would stay in the queue of a paced flow. The TCP timestamp contains
//! the departure time in milliseconds (RFC 7323; Linux counts milliseconds), so a packet read late enters the network
//! at that time.

use std::ops::Range;

use narrows_cc::Nanos;
use narrows_emulation::Late;
use narrows_host::HostError;
use narrows_packet::real::{Segment, unfold};
use narrows_packet::{Flags, Packet};
use tun_rs::SyncDevice;

use crate::datagram::read_datagram;
use crate::rates;

/// Maximum number of packets read from one device per call.
const BATCH: usize = 64;
/// Larger than any packet: the MTU of the devices is 1500 bytes.
const PACKET: usize = 2048;
/// Unit of a host's timestamps.
const TICK: Nanos = Nanos::from_millis(1);
/// Packets read within this time of each other belong to a burst.
const BURST: Nanos = Nanos::from_micros(20);

/// Departure times of a host's packets, from their timestamps.
#[derive(Clone, Copy, Debug, Default)]
struct Departures {
    /// The first packet's timestamp, and the latest possible start of its millisecond: the minimum over all packets of
    /// the time of reading minus the milliseconds since the first packet.
    first: Option<(u32, Nanos)>,
    /// Milliseconds from the first timestamp to the newest timestamp.
    newest: u64,
}

impl Departures {
    /// The latest possible departure of a packet with this timestamp, read at `now`. Timestamps that advance faster
    /// than real time are not Linux's and are ignored. `ahead`: the timestamp may be later than the departure, so it
    /// does not change `first`.
    fn sent(&mut self, timestamp: Option<u32>, ahead: bool, now: Nanos) -> Nanos {
        let Some(timestamp) = timestamp else { return now };
        let (first, zero) = *self.first.get_or_insert((timestamp, now));
        let count = unfold(timestamp, first, self.newest);
        if count > now.as_nanos() / TICK.as_nanos() + 1 {
            return now;
        }
        self.newest = self.newest.max(count);
        let since = Nanos::from_nanos(TICK.as_nanos() * count);
        let zero = if ahead { zero } else { zero.min(now - since) };
        self.first = Some((first, zero));
        now.min(zero + since + TICK)
    }
}

/// State of a flow's two endpoints; arrays have the sender's entry first.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    /// Sequence numbers of the SYNs.
    origins: [u32; 2],
    /// Highest sequence numbers seen, from which 32-bit numbers unfold.
    near: [u64; 2],
    departures: [Departures; 2],
    /// Lowest sequence number that the sender has never sent.
    next: u64,
    /// The endpoints' agreement on rates in TCP options.
    agreed: rates::Agreement,
}

impl Ends {
    /// The simulator's packet for a segment from the sender (0) or the receiver (1), and its departure time.
    fn packet(&mut self, flow: u32, host: usize, segment: &Segment<'_>, now: Nanos) -> (Nanos, Packet) {
        let (other, reverse) = (1 - host, host == 1);
        if segment.flags.has(Flags::SYN) {
            self.origins[host] = segment.seq;
            self.near[host] = 0;
        }
        let origins = (self.origins[host], self.origins[other]);
        let mut packet = segment.packet(flow, reverse, origins, (self.near[host], self.near[other]));
        self.agreed.note(segment, reverse);
        packet.set_room(self.agreed.room(segment, reverse));
        let end = packet.external().seq + u64::from(packet.payload);
        self.near[host] = self.near[host].max(end);
        if !reverse && packet.payload > 0 {
            if end <= self.next {
                packet.flags = packet.flags.with(Flags::RETRANSMISSION);
            }
            self.next = self.next.max(end);
        }
        let timestamp = segment.timestamps().map(|(value, _)| value);
        // Linux takes timestamps from the paced departure time (`tcp_wstamp_ns`), but only new data waits for that
        // time.
        let ahead = !reverse && (packet.payload == 0 || packet.flags.has(Flags::RETRANSMISSION));
        (self.departures[host].sent(timestamp, ahead, now), packet)
    }
}

/// A packet that was read.
#[derive(Debug)]
struct Arrival {
    at: Nanos,
    packet: Packet,
    bytes: Range<usize>,
}

/// Reads the packets of both hosts.
#[derive(Debug)]
pub(super) struct Arrivals {
    ends: Vec<Ends>,
    /// Source port of the first flow's sender; those of other flows follow.
    ports: u16,
    read: Vec<Arrival>,
    buffer: Vec<u8>,
    /// The newest departure from each host. No later packet of that host departs earlier, so its packets keep their
    /// order.
    newest: [Nanos; 2],
    /// Time of the last packets from each device.
    last: [Nanos; 2],
    /// Packets read so far.
    pub(super) packets: u64,
}

impl Arrivals {
    pub(super) fn new(flows: usize, ports: u16) -> Self {
        Self {
            ends: vec![Ends::default(); flows],
            ports,
            read: Vec::with_capacity(2 * BATCH),
            buffer: vec![0; 2 * BATCH * PACKET],
            newest: [Nanos::ZERO; 2],
            last: [Nanos::ZERO; 2],
            packets: 0,
        }
    }

    /// Reads waiting packets at `now` from the `ready` devices of senders and receivers. Clears the flag of a device
    /// that is empty or whose packets come one by one; the next wait checks that device again.
    pub(super) fn read(
        &mut self,
        devices: &[SyncDevice; 2],
        ready: &mut [bool; 2],
        now: Nanos,
        late: &mut Late,
    ) -> Result<(), HostError> {
        let mut place = 0;
        self.read.clear();
        for (host, (device, ready)) in devices.iter().zip(ready).enumerate() {
            // A packet soon after another one belongs to a burst, so more packets are likely. Otherwise another read
            // would probably find no packet, and the next wait costs no more than such a read.
            let bursts = now - self.last[host] < BURST;
            let mut count = 0;
            while *ready && count < BATCH {
                match device.recv(&mut self.buffer[place..place + PACKET]) {
                    Ok(length) => {
                        self.keep(host, place..place + length, now, late);
                        place += PACKET;
                        count += 1;
                        *ready = bursts;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => *ready = false,
                    Err(error) => return Err(HostError::step("read from a TUN device", error)),
                }
            }
            if count > 0 {
                self.last[host] = now;
            }
        }
        // Positions in the buffer break ties, so that each host's packets keep their order.
        self.read.sort_unstable_by_key(|arrival| (arrival.at, arrival.bytes.start));
        Ok(())
    }

    fn keep(&mut self, host: usize, bytes: Range<usize>, now: Nanos, late: &mut Late) {
        let Some(segment) = Segment::read(&self.buffer[bytes.clone()]) else {
            self.keep_message(host, bytes, now);
            return;
        };
        let port = if host == 0 { segment.ports.0 } else { segment.ports.1 };
        let flow = port.wrapping_sub(self.ports);
        let Some(ends) = self.ends.get_mut(usize::from(flow)) else { return };
        let (at, packet) = ends.packet(flow.into(), host, &segment, now);
        late.read(at, now);
        self.newest[host] = self.newest[host].max(at);
        self.packets += 1;
        self.read.push(Arrival { at: self.newest[host], packet, bytes });
    }

    /// Keeps a datagram with a flow's control message; its departure time is the time of reading.
    fn keep_message(&mut self, host: usize, bytes: Range<usize>, now: Nanos) {
        let Some((ports, payload)) = read_datagram(&self.buffer[bytes.clone()]) else { return };
        let port = if host == 0 { ports.0 } else { ports.1 };
        let flow = port.wrapping_sub(self.ports);
        if usize::from(flow) >= self.ends.len() {
            return;
        }
        let flags = if host == 0 { Flags::NONE } else { Flags::REVERSE };
        let payload = bytes.start + payload.start..bytes.start + payload.end;
        let packet = Packet::control(flow.into(), flags, &self.buffer[payload]);
        self.newest[host] = self.newest[host].max(now);
        self.packets += 1;
        self.read.push(Arrival { at: self.newest[host], packet, bytes });
    }

    /// The packets that were read, in the order of their departures.
    pub(super) fn packets(&self) -> impl Iterator<Item = (Nanos, Packet, &[u8])> {
        self.read.iter().map(|arrival| (arrival.at, arrival.packet, &self.buffer[arrival.bytes.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(time: u64) -> Nanos {
        Nanos::from_micros(time)
    }

    /// A packet read in time enters the network at the time of reading; a packet read late enters at the end of its
    /// millisecond.
    #[test]
    fn late_readings_do_not_move_departures() {
        let mut departures = Departures::default();
        let start = u32::MAX - 5; // the count wraps
        for count in 0..20_u32 {
            let now = us(10_000 + 1000 * u64::from(count) + 300);
            assert_eq!(departures.sent(Some(start.wrapping_add(count)), false, now), now);
        }
        // Three packets, sent in the milliseconds that begin 20, 23 and 26 ms after the first packet; all are read 30
        // ms after it.
        for count in [20_u32, 23, 26] {
            let found = departures.sent(Some(start.wrapping_add(count)), false, us(40_300));
            assert_eq!(found, us(10_000 + 1000 * u64::from(count) + 300 + 1000));
        }
    }

    /// If the first packet is read late, the next reading corrects the time of that packet.
    #[test]
    fn a_late_first_reading_is_corrected() {
        let mut departures = Departures::default();
        assert_eq!(departures.sent(Some(7), false, us(9_000)), us(9_000));
        assert_eq!(departures.sent(Some(8), false, us(9_000)), us(9_000));
        assert_eq!(departures.sent(Some(20), false, us(14_000)), us(14_000)); // the first was sent at 1 ms
        assert_eq!(departures.sent(Some(21), false, us(19_000)), us(16_000));
    }

    /// Without timestamps, or with timestamps of another clock, a packet's departure time is the time of reading.
    #[test]
    fn other_clocks_are_not_believed() {
        let mut departures = Departures::default();
        assert_eq!(departures.sent(None, false, us(500)), us(500));
        assert_eq!(departures.sent(Some(1000), false, us(600)), us(600));
        assert_eq!(departures.sent(Some(999), false, us(700)), us(700)); // an earlier timestamp than the first packet's
        assert_eq!(departures.sent(Some(2_000_000), false, us(800)), us(800));
        assert_eq!(departures.sent(Some(1001), false, us(1_700)), us(1_700));
    }

    /// A timestamp ahead of its packet does not shift the departure times of later packets.
    #[test]
    fn stamps_ahead_of_time_do_not_count() {
        let mut departures = Departures::default();
        assert_eq!(departures.sent(Some(7), false, us(9_500)), us(9_500));
        assert_eq!(departures.sent(Some(9), true, us(10_600)), us(10_600));
        assert_eq!(departures.sent(Some(9), false, us(12_400)), us(12_400));
    }
}
