//! The receiver's history of arrivals.

use std::collections::VecDeque;

use super::runs::{MAX_RUN, PacketState, byte, count};
use crate::seq::Seq;
use crate::wire::{Kind, MAX_HEADER, MAX_VALUE, Opt};

/// ECN mark of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Not marked.
    Received,
    /// Congestion Experienced.
    Marked,
}

/// Classification of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recorded {
    /// First packet with its number.
    New,
    /// The number arrived before.
    Duplicate,
    /// Older than the history; possibly a duplicate.
    Old,
}

/// A vector that was sent.
#[derive(Clone, Copy, Debug)]
struct SentVector {
    /// Number of the packet that carried it.
    packet: Seq,
    /// Newest packet up to which the vector matches the receiver's current state.
    upto: Seq,
}

/// Arrivals that the sender may not know: the receiver's part of section 11.4.
///
/// `record` takes constant time for packets in order; for late packets, time proportional to the number of
/// newer runs. Memory: at most one byte per packet and one record per vector, for `limit` packets and `limit`
/// vectors.
#[derive(Clone, Debug)]
pub struct AckVector {
    /// Runs in wire format, newest first.
    runs: VecDeque<u8>,
    /// Number of packets in `runs`.
    covered: u64,
    newest: Seq,
    /// Sent vectors, oldest first, with non-decreasing `upto`.
    sent: VecDeque<SentVector>,
    limit: u64,
    dropped: u64,
}

impl AckVector {
    /// Keeps at most `limit` packets, at least one.
    pub fn new(limit: usize) -> Self {
        Self {
            runs: VecDeque::new(),
            covered: 0,
            newest: Seq::default(),
            sent: VecDeque::new(),
            limit: limit.max(1) as u64,
            dropped: 0,
        }
    }

    /// Greatest number recorded, described by the first byte of the vector.
    pub fn newest(&self) -> Option<Seq> {
        (self.covered > 0).then_some(self.newest)
    }

    /// Number of packets in the vector.
    pub const fn covered(&self) -> u64 {
        self.covered
    }

    /// Length of the whole vector as options, in bytes.
    pub fn len(&self) -> usize {
        self.runs.len() + 2 * self.runs.len().div_ceil(MAX_VALUE)
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        self.runs.capacity() + self.sent.capacity() * size_of::<SentVector>()
    }

    /// Packets dropped for lack of space before the sender is known to have received their state.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Records the arrival of a packet. Packets of every type must be recorded.
    pub fn record(&mut self, seq: Seq, mark: Mark) -> Recorded {
        let state = match mark {
            Mark::Received => PacketState::Received,
            Mark::Marked => PacketState::Marked,
        };
        if self.covered == 0 {
            self.newest = seq;
            self.push_newest(state, 1);
            return Recorded::New;
        }
        let ahead = seq.minus(self.newest);
        if ahead <= 0 {
            return self.record_late(seq, ahead.unsigned_abs(), state);
        }
        let gap = ahead as u64 - 1;
        if gap >= self.limit {
            // The gap alone exceeds the history.
            self.dropped += self.covered + gap + 1 - self.limit;
            self.runs.clear();
            self.covered = 0;
        }
        self.newest = seq;
        self.push_newest(PacketState::Missing, gap.min(self.limit - 1));
        self.push_newest(state, 1);
        let excess = self.covered.saturating_sub(self.limit);
        self.dropped += excess;
        self.drop_oldest(excess);
        Recorded::New
    }

    /// Prepends `n` packets in `state`.
    fn push_newest(&mut self, state: PacketState, mut n: u64) {
        self.covered += n;
        if let Some(front) = self.runs.front_mut()
            && PacketState::of(*front) == Some(state)
        {
            let more = n.min(MAX_RUN - count(*front));
            *front += more as u8;
            n -= more;
        }
        while n > 0 {
            let run = n.min(MAX_RUN);
            self.runs.push_front(byte(state, run));
            n -= run;
        }
    }

    /// Records a packet `back` numbers before the newest.
    fn record_late(&mut self, seq: Seq, back: u64, state: PacketState) -> Recorded {
        if back >= self.covered {
            return Recorded::Old;
        }
        let (mut index, mut newer) = (0, 0);
        while newer + count(self.runs[index]) <= back {
            newer += count(self.runs[index]);
            index += 1;
        }
        if PacketState::of(self.runs[index]) != Some(PacketState::Missing) {
            return Recorded::Duplicate;
        }
        // Vectors that reported this packet missing no longer match the current state.
        for sent in self.sent.iter_mut().rev() {
            if seq.after(sent.upto) {
                break;
            }
            sent.upto = seq.add(-1);
        }
        self.split(index, back - newer, state);
        Recorded::New
    }

    /// Sets the state of the packet `offset` numbers before the newest packet of the missing run at `index`.
    fn split(&mut self, index: usize, offset: u64, state: PacketState) {
        let run = count(self.runs[index]);
        let (newer, older) = (offset, run - offset - 1);
        let joins = |byte: Option<&u8>| byte.is_some_and(|&b| PacketState::of(b) == Some(state) && count(b) < MAX_RUN);
        let joins_newer = newer == 0 && index > 0 && joins(self.runs.get(index - 1));
        let joins_older = older == 0 && joins(self.runs.get(index + 1));
        if joins_newer && joins_older && count(self.runs[index - 1]) + count(self.runs[index + 1]) < MAX_RUN {
            // The packet was the only missing packet between two runs of its new state: merge all three runs.
            self.runs[index - 1] += count(self.runs[index + 1]) as u8 + 1;
            self.runs.drain(index..index + 2);
            return;
        }
        // The packet joins a neighbouring run or becomes a new run.
        if joins_newer || joins_older {
            let neighbour = if joins_newer { index - 1 } else { index + 1 };
            self.runs[neighbour] += 1;
            if run > 1 {
                self.runs[index] -= 1;
            } else {
                self.runs.remove(index);
            }
            return;
        }
        self.runs[index] = byte(state, 1);
        if older > 0 {
            self.runs.insert(index + 1, byte(PacketState::Missing, older));
        }
        if newer > 0 {
            self.runs.insert(index, byte(PacketState::Missing, newer));
        }
    }

    /// Drops the oldest `n` packets.
    fn drop_oldest(&mut self, mut n: u64) {
        self.covered -= n;
        while n > 0
            && let Some(back) = self.runs.back_mut()
        {
            let run = count(*back);
            if run > n {
                *back -= n as u8;
                return;
            }
            n -= run;
            self.runs.pop_back();
        }
    }

    /// Appends the vector as options to `out` ([`AckVector::write_within`]), using all the space of the
    /// header.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<Seq> {
        self.write_within(MAX_HEADER - Kind::DataAck.header_len(true), out)
    }

    /// Appends the vector to `out`, split into as many options as necessary, within `room` bytes. The oldest
    /// packets that do not fit are omitted. Returns the acknowledgement number to send, which the first byte
    /// describes. Returns `None` and writes nothing if the vector is empty or `room` is too small.
    pub fn write_within(&self, room: usize, out: &mut Vec<u8>) -> Option<Seq> {
        let newest = self.newest()?;
        if room < 3 {
            return None;
        }
        let (full, rest) = (room / (MAX_VALUE + 2), room % (MAX_VALUE + 2));
        let fits = self.runs.len().min(full * MAX_VALUE + rest.saturating_sub(2));
        let mut chunk = [0; MAX_VALUE];
        let mut runs = self.runs.iter().take(fits);
        loop {
            let mut filled = 0;
            for (to, from) in chunk.iter_mut().zip(runs.by_ref()) {
                *to = *from;
                filled += 1;
            }
            if filled == 0 {
                return Some(newest);
            }
            Opt::AckVector { nonce: false, runs: &chunk[..filled] }.write(out);
        }
    }

    /// Notes that packet `seq` carried the current vector; numbers must increase between calls. Omitted packets count
    /// as reported: they are the oldest packets, and the sender has declared them lost.
    pub fn sent_in(&mut self, seq: Seq) {
        if self.covered == 0 {
            return;
        }
        if self.sent.len() as u64 >= self.limit {
            self.sent.pop_front();
        }
        self.sent.push_back(SentVector { packet: seq, upto: self.newest });
    }

    /// Notes that the peer acknowledged packet `seq`. Drops the state that the vector of packet `seq` reported, except
    /// for the newest packet and for packets whose state changed afterwards.
    pub fn acknowledged(&mut self, seq: Seq) {
        let earlier = self.sent.partition_point(|sent| seq.after(sent.packet));
        let Some(&SentVector { packet, upto }) = self.sent.get(earlier) else { return };
        if packet != seq {
            return;
        }
        self.sent.drain(..=earlier);
        let oldest = self.newest.add(1 - self.covered as i64);
        let reported = upto.minus(oldest) + 1;
        if reported > 0 {
            self.drop_oldest((reported as u64).min(self.covered - 1));
        }
    }
}
