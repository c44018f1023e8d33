//! Data Dropped (RFC 4340 section 11.7): packets that arrived, but whose data did not reach the application.
//!
//! ```text
//! |0| run length |      Normal Block: these packets, length + 1 of them, are as acknowledgements tell
//! |1|code|length |      Drop Block: the data of these did not reach the application
//! ```
//! The first block begins at the acknowledgement number, the next ones go on to older packets. For acknowledgement 100, the bytes
//! 0, 160, 3, 162 say: 100 is as usual, 99 was dropped in the receive buffer, 98 to 95 are as usual, 94 to 92 were dropped there.
//!
//! A receiver tells until it knows that it was heard, as it does with its vectors.
//!
//! ## Differences
//! 1. The text of that example has packet 95 in two blocks; run lengths of 0, 0, 3 and 2 leave no doubt.

use std::collections::VecDeque;

use crate::seq::Seq;
use crate::wire::{MAX_VALUE, Opt, options};

/// Why data did not reach the application (table 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DropCode {
    /// The protocol forbids it: data on a Request, or for an end whose ECN incapability is not confirmed.
    ProtocolConstraints = 0,
    /// The application listens no longer.
    NotListening = 1,
    /// There was no room for it.
    ReceiveBuffer = 2,
    /// Its checksum is wrong.
    Corrupt = 3,
}

/// The most packets in a Normal Block, and in a Drop Block.
const NORMAL: u64 = 128;
const DROPPED: u64 = 16;

/// Packets with neighbouring numbers whose data was dropped for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drops {
    /// The newest of them.
    pub first: Seq,
    /// How many there are, from `first` back; 1 to 16.
    pub count: u64,
    /// The drop code: those of [`DropCode`], 7 for 'delivered corrupt', 4 to 6 are reserved.
    pub code: u8,
}

/// The Drop Blocks among a packet's options, newest packets first; `ack` is the packet's acknowledgement number.
pub fn drops(ack: Seq, bytes: &[u8]) -> impl Iterator<Item = Drops> + '_ {
    let mut next = ack;
    options(bytes)
        .filter_map(|option| match option {
            Ok(Opt::DataDropped(blocks)) => Some(blocks),
            _ => None,
        })
        .flatten()
        .filter_map(move |&block| {
            let dropped = block & 0x80 != 0;
            let count = u64::from(block & if dropped { 15 } else { 127 }) + 1;
            let first = next;
            next = next.add(-(count as i64));
            dropped.then_some(Drops { first, count, code: block >> 4 & 7 })
        })
}

/// A packet whose data was dropped.
#[derive(Clone, Copy, Debug)]
struct Item {
    seq: Seq,
    code: DropCode,
    /// The first packet of ours that told of it.
    told: Option<Seq>,
}

/// What a receiver has to tell.
#[derive(Clone, Debug)]
pub(crate) struct Unheard {
    /// By number, ascending.
    items: VecDeque<Item>,
    limit: usize,
    /// Our packets that told, ascending.
    carriers: VecDeque<Seq>,
}

impl Unheard {
    /// Nothing was dropped; no more than `limit` packets are remembered.
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: VecDeque::new(), limit: limit.max(1), carriers: VecDeque::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.items.capacity() * size_of::<Item>() + self.carriers.capacity() * size_of::<Seq>()
    }

    /// The data of this packet was dropped.
    pub(crate) fn note(&mut self, seq: Seq, code: DropCode) {
        let place = self.items.partition_point(|item| seq.after(item.seq));
        if self.items.get(place).is_none_or(|item| item.seq != seq) {
            self.items.insert(place, Item { seq, code, told: None });
        }
        if self.items.len() > self.limit {
            self.items.pop_front();
        }
    }

    /// The other side has our packet `carrier`: what it told need not be told again.
    pub(crate) fn acknowledged(&mut self, carrier: Seq) {
        if self.items.is_empty() {
            self.carriers.clear();
        }
        let earlier = self.carriers.partition_point(|&sent| carrier.after(sent));
        if self.carriers.get(earlier) == Some(&carrier) {
            self.carriers.drain(..=earlier);
            self.items.retain(|item| item.told.is_none_or(|told| told.after(carrier)));
        }
    }

    /// Appends what is to be told in our packet `carrier`, which acknowledges `ack`, to `out`, in at most `room` bytes; what does not
    /// fit is left out, the oldest first.
    pub(crate) fn write(&mut self, carrier: Seq, ack: Seq, room: usize, out: &mut Vec<u8>) {
        let mut blocks = Vec::new();
        let most = room - 2 * room.div_ceil(MAX_VALUE + 2).min(room / 2);
        let mut next = ack;
        for item in self.items.iter_mut().rev() {
            let mut gap = next.minus(item.seq);
            if gap < 0 {
                continue; // newer than the acknowledgement
            }
            let same = 0x80 | (item.code as u8) << 4;
            if gap == 0
                && let Some(last) = blocks.last_mut()
                && *last & 0xf0 == same
                && u64::from(*last & 15) + 1 < DROPPED
            {
                *last += 1;
            } else {
                if blocks.len() as u64 + (gap as u64).div_ceil(NORMAL) >= most as u64 {
                    break;
                }
                while gap > 0 {
                    let run = (gap as u64).min(NORMAL);
                    blocks.push((run - 1) as u8);
                    gap -= run as i64;
                }
                blocks.push(same);
            }
            item.told.get_or_insert(carrier);
            next = item.seq.add(-1);
        }
        if blocks.is_empty() {
            return;
        }
        for chunk in blocks.chunks(MAX_VALUE) {
            Opt::DataDropped(chunk).write(out);
        }
        self.carriers.push_back(carrier);
        if self.carriers.len() > self.limit {
            self.carriers.pop_front();
        }
    }
}

/// Drops that a sender has heard of: each counts once, however often it is told.
#[derive(Clone, Default, Debug)]
pub(crate) struct Heard {
    items: Vec<(Seq, u8)>,
    spare: Vec<(Seq, u8)>,
}

/// Drops that a sender remembers at most.
const REMEMBERED: usize = 1 << 10;

impl Heard {
    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        (self.items.capacity() + self.spare.capacity()) * size_of::<(Seq, u8)>()
    }

    /// Takes what a packet that acknowledges `ack` tells; `new` is called for each packet of which nothing was told before. Where one
    /// of the numbers cannot be, nothing is taken.
    pub(crate) fn take(
        &mut self,
        ack: Seq,
        options: &[u8],
        cannot_be: impl Fn(Seq) -> bool,
        mut new: impl FnMut(Seq, u8),
    ) {
        self.spare.clear();
        for Drops { first, count, code } in drops(ack, options) {
            for back in 0..count {
                let seq = first.add(-(back as i64));
                if cannot_be(seq) {
                    return;
                }
                if self.spare.len() < REMEMBERED {
                    self.spare.push((seq, code));
                }
            }
        }
        if self.spare.is_empty() {
            return;
        }
        // Both lists descend. What is told no more stays remembered while there is room, for acknowledgements are reordered.
        let old = std::mem::take(&mut self.items);
        let mut old = old.into_iter().peekable();
        let mut all = Vec::with_capacity(self.spare.len());
        for &(seq, code) in &self.spare {
            while let Some(item) = old.next_if(|item| item.0.after(seq)) {
                all.push(item);
            }
            if old.next_if(|item| item.0 == seq).is_none() {
                new(seq, code);
            }
            all.push((seq, code));
        }
        all.extend(old);
        all.truncate(REMEMBERED);
        self.items = all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ack: Seq, bytes: &[u8]) -> Vec<(u64, u8)> {
        drops(ack, bytes)
            .flat_map(|d| (0..d.count).map(move |back| (d.first.add(-(back as i64)).get(), d.code)))
            .collect()
    }

    /// The example of section 11.7.
    #[test]
    fn the_example_of_the_rfc() {
        let ack = Seq::new(100);
        let mut bytes = vec![];
        Opt::DataDropped(&[0, 160, 3, 162]).write(&mut bytes);
        assert_eq!(told(ack, &bytes), [(99, 2), (94, 2), (93, 2), (92, 2)]);
        let mut unheard = Unheard::new(100);
        for n in [92, 99, 93, 94, 93] {
            unheard.note(Seq::new(n), DropCode::ReceiveBuffer);
        }
        let mut again = vec![];
        unheard.write(Seq::new(1), ack, 100, &mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn any_drops_are_told_and_heard_once() {
        let mut random = narrows_cc::Random::stream(1, "drops", 0);
        for _ in 0..200 {
            // Around the end of the circle.
            let base = Seq::new(random.below(600)).add(-300);
            let (mut unheard, mut heard) = (Unheard::new(1_000), Heard::default());
            let mut expected = std::collections::BTreeMap::new();
            let mut counted = std::collections::BTreeMap::new();
            for n in 0..1_500u64 {
                if random.chance(0.1) {
                    for more in 0..random.below(40) {
                        let code = [DropCode::ReceiveBuffer, DropCode::Corrupt][random.below(2) as usize];
                        unheard.note(base.add((n + more) as i64), code);
                        expected.entry(n + more).or_insert(code as u8);
                    }
                }
                if n % 100 == 99 {
                    let ack = base.add(n as i64 + 40);
                    let mut bytes = vec![];
                    unheard.write(Seq::new(n), ack, 2_000, &mut bytes);
                    // Now and then one of these packets, and its acknowledgement, arrives.
                    if random.chance(0.3) {
                        unheard.acknowledged(Seq::new(n));
                        unheard.acknowledged(Seq::new(n - 1));
                    }
                    heard.take(
                        ack,
                        &bytes,
                        |_| false,
                        |seq, code| {
                            let old = counted.insert(seq.minus(base) as u64, code);
                            assert_eq!(old, None, "once");
                        },
                    );
                }
            }
            let upto = 1_500u64;
            expected.retain(|n, _| *n < upto);
            counted.retain(|n, _| *n < upto);
            assert_eq!(counted, expected);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut unheard = Unheard::new(10);
        for n in 0..1_000 {
            unheard.note(Seq::new(n * 2), DropCode::Corrupt);
        }
        assert_eq!((unheard.items.len(), unheard.items[0].seq), (10, Seq::new(1_980)));
        for room in 0..30 {
            let mut bytes = vec![];
            unheard.write(Seq::new(room), Seq::new(2_000), room as usize, &mut bytes);
            assert!(bytes.len() <= room as usize, "what fits");
        }
        assert!(unheard.carriers.len() <= 10);
        let mut heard = Heard::default();
        let mut blocks = vec![];
        for _ in 0..200 {
            Opt::DataDropped(&[0xff; 253]).write(&mut blocks);
        }
        heard.take(Seq::new(0), &blocks, |_| false, |_, _| {});
        assert_eq!(heard.items.len(), REMEMBERED);
    }

    #[test]
    fn what_cannot_be_is_not_taken() {
        let mut bytes = vec![];
        Opt::DataDropped(&[160, 162]).write(&mut bytes);
        let mut heard = Heard::default();
        heard.take(Seq::new(5), &bytes, |seq| seq == Seq::new(3), |_, _| panic!("all or nothing"));
        assert!(heard.items.is_empty());
    }
}
