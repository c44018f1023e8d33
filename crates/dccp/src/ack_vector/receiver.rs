//! The receiver's memory of what arrived.

use std::collections::VecDeque;

use super::{MAX_RUN, State, byte, count};
use crate::Seq;
use crate::wire::{MAX_HEADER, MAX_VALUE, Opt};

/// How a packet came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Without a congestion mark.
    Received,
    /// With one.
    Marked,
}

/// What became of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recorded {
    /// The first of its number.
    New,
    /// This number came before.
    Duplicate,
    /// Before everything remembered; whether it came before is not known any more.
    Old,
}

/// A vector that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The number of the packet that carried it.
    packet: Seq,
    /// The newest packet up to which it told all that is known now.
    upto: Seq,
}

/// What arrived and is not yet known to be known: the receiver's half of section 11.4.
///
/// `record` takes constant time for packets in order, and time in proportion to the runs that are newer for those that come
/// late. Memory: at most a byte for each of `limit` packets, and a record for each of `limit` vectors.
#[derive(Clone, Debug)]
pub struct AckVector {
    /// Newest first, in the wire's form.
    runs: VecDeque<u8>,
    /// Packets that `runs` describe.
    covered: u64,
    newest: Seq,
    /// Oldest first; `upto` never goes down.
    sent: VecDeque<Sent>,
    limit: u64,
    dropped: u64,
}

impl AckVector {
    /// Remembers at most `limit` packets, at least one.
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

    /// The greatest number recorded: what a vector's first byte describes.
    pub fn newest(&self) -> Option<Seq> {
        (self.covered > 0).then_some(self.newest)
    }

    /// How many packets a vector would tell of.
    pub const fn covered(&self) -> u64 {
        self.covered
    }

    /// How many bytes of options a whole vector takes.
    pub fn len(&self) -> usize {
        self.runs.len() + 2 * self.runs.len().div_ceil(MAX_VALUE)
    }

    /// Whether nothing has been recorded.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.runs.capacity() + self.sent.capacity() * size_of::<Sent>()
    }

    /// Packets forgotten because there was no room, before the sender is known to have been told of them.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// A packet with this number arrived. Every packet has to be recorded, whatever its type.
    pub fn record(&mut self, seq: Seq, mark: Mark) -> Recorded {
        let state = match mark {
            Mark::Received => State::Received,
            Mark::Marked => State::Marked,
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
            // The gap alone is more than is remembered.
            self.dropped += self.covered + gap + 1 - self.limit;
            self.runs.clear();
            self.covered = 0;
        }
        self.newest = seq;
        self.push_newest(State::Missing, gap.min(self.limit - 1));
        self.push_newest(state, 1);
        let excess = self.covered.saturating_sub(self.limit);
        self.dropped += excess;
        self.drop_oldest(excess);
        Recorded::New
    }

    /// Puts `n` packets in `state` in front.
    fn push_newest(&mut self, state: State, mut n: u64) {
        self.covered += n;
        if let Some(front) = self.runs.front_mut()
            && State::of(*front) == Some(state)
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

    /// A packet `back` before the newest.
    fn record_late(&mut self, seq: Seq, back: u64, state: State) -> Recorded {
        if back >= self.covered {
            return Recorded::Old;
        }
        let (mut index, mut newer) = (0, 0);
        while newer + count(self.runs[index]) <= back {
            newer += count(self.runs[index]);
            index += 1;
        }
        if State::of(self.runs[index]) != Some(State::Missing) {
            return Recorded::Duplicate;
        }
        // Vectors that told it missing do not tell what is known now.
        for sent in self.sent.iter_mut().rev() {
            if seq.after(sent.upto) {
                break;
            }
            sent.upto = seq.add(-1);
        }
        self.split(index, back - newer, state);
        Recorded::New
    }

    /// Gives `state` to the packet that is `offset` behind the newest of the missing run at `index`.
    fn split(&mut self, index: usize, offset: u64, state: State) {
        let run = count(self.runs[index]);
        let (newer, older) = (offset, run - offset - 1);
        let joins =
            |byte: Option<&u8>| byte.is_some_and(|&b| State::of(b) == Some(state) && count(b) < MAX_RUN);
        let joins_newer = newer == 0 && index > 0 && joins(self.runs.get(index - 1));
        let joins_older = older == 0 && joins(self.runs.get(index + 1));
        if joins_newer && joins_older && count(self.runs[index - 1]) + count(self.runs[index + 1]) < MAX_RUN {
            // A single missing packet between two runs of its new state: one run.
            self.runs[index - 1] += count(self.runs[index + 1]) as u8 + 1;
            self.runs.drain(index..index + 2);
            return;
        }
        // What stays missing keeps its place; the packet joins a neighbour or becomes a run of its own.
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
            self.runs.insert(index + 1, byte(State::Missing, older));
        }
        if newer > 0 {
            self.runs.insert(index, byte(State::Missing, newer));
        }
    }

    /// Forgets the oldest `n` packets.
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

    /// Appends the vector as options to `out`; see [`AckVector::write_within`]. Leaves room for no others.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<Seq> {
        self.write_within(MAX_HEADER - crate::Kind::DataAck.header_len(true), out)
    }

    /// Appends the vector to `out` in as many options as it takes, within `room` bytes: what does not fit is left out, the
    /// oldest first. Gives the number that its first byte describes: the acknowledgement number to send. None, and nothing
    /// written, if there is nothing to tell or no room for it.
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

    /// The vector as it is now was sent in packet `seq`; numbers go up from call to call. What did not fit counts as told: it
    /// is the oldest, and the sender will have taken it for lost.
    pub fn sent_in(&mut self, seq: Seq) {
        if self.covered == 0 {
            return;
        }
        if self.sent.len() as u64 >= self.limit {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { packet: seq, upto: self.newest });
    }

    /// The other side has packet `seq`. If it carried a vector, what that told is forgotten, but for the newest packet and what
    /// has changed since.
    pub fn acknowledged(&mut self, seq: Seq) {
        let earlier = self.sent.partition_point(|sent| seq.after(sent.packet));
        let Some(&Sent { packet, upto }) = self.sent.get(earlier) else { return };
        if packet != seq {
            return;
        }
        self.sent.drain(..=earlier);
        let oldest = self.newest.add(1 - self.covered as i64);
        let told = upto.minus(oldest) + 1;
        if told > 0 {
            self.drop_oldest((told as u64).min(self.covered - 1));
        }
    }
}
