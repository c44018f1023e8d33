//! Data Dropped (RFC 4340 section 11.7): received packets whose data did not reach the application.
//!
//! ```text
//! |0| run length |      Normal Block: length + 1 packets with the state that the acknowledgement reports
//! |1|code|length |      Drop Block: length + 1 packets whose data was dropped
//! ```
//! The first block starts at the acknowledgement number; later blocks describe older packets. With
//! acknowledgement number 100, the bytes 0, 160, 3, 162 mean: 100 normal, 99 dropped in the receive buffer,
//! 98 to 95 normal, 94 to 92 dropped in the receive buffer.
//!
//! As with Ack Vectors, a receiver repeats a report until it is acknowledged.
//!
//! ## Differences
//! 1. The RFC describes the example above with packet 95 in two blocks. This file follows the example's run lengths 0,
//!    0, 3 and 2, which put packet 95 into the third block only.

use std::collections::VecDeque;

use crate::seq::Seq;
use crate::wire::{MAX_VALUE, Opt, options};

/// Drop codes (table 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DropCode {
    /// Protocol Constraints: data on a Request, or before ECN Incapable is confirmed.
    ProtocolConstraints = 0,
    /// Application Not Listening.
    NotListening = 1,
    /// Receive Buffer: no space.
    ReceiveBuffer = 2,
    /// Corrupt: the Data Checksum failed.
    Corrupt = 3,
}

/// Longest Normal Block and Drop Block, in packets.
const MAX_NORMAL: u64 = 128;
const MAX_DROPPED: u64 = 16;

/// Consecutive packets dropped for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropRun {
    /// Newest packet.
    pub first: Seq,
    /// Number of packets, from `first` back; 1 to 16.
    pub count: u64,
    /// Drop code: a [`DropCode`], or 7 for Delivered Corrupt; 4 to 6 are reserved.
    pub code: u8,
}

/// Decodes the Drop Blocks in a packet's options, newest packet first; `ack` is the packet's acknowledgement number.
pub fn drop_runs(ack: Seq, bytes: &[u8]) -> impl Iterator<Item = DropRun> + '_ {
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
            dropped.then_some(DropRun { first, count, code: block >> 4 & 7 })
        })
}

/// A packet whose data was dropped.
#[derive(Clone, Copy, Debug)]
struct DroppedPacket {
    seq: Seq,
    code: DropCode,
    /// First packet that reported the drop.
    reported_in: Option<Seq>,
}

/// Receiver: drops not yet known to the sender.
#[derive(Clone, Debug)]
pub(crate) struct PendingDrops {
    /// Dropped packets, ascending by number.
    items: VecDeque<DroppedPacket>,
    limit: usize,
    /// Packets sent with drop reports, ascending.
    carriers: VecDeque<Seq>,
}

impl PendingDrops {
    /// Remembers at most `limit` packets.
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: VecDeque::new(), limit: limit.max(1), carriers: VecDeque::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Heap memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.items.capacity() * size_of::<DroppedPacket>() + self.carriers.capacity() * size_of::<Seq>()
    }

    /// Records that the data of packet `seq` was dropped.
    pub(crate) fn record(&mut self, seq: Seq, code: DropCode) {
        let place = self.items.partition_point(|item| seq.after(item.seq));
        if self.items.get(place).is_none_or(|item| item.seq != seq) {
            self.items.insert(place, DroppedPacket { seq, code, reported_in: None });
        }
        if self.items.len() > self.limit {
            self.items.pop_front();
        }
    }

    /// The peer acknowledged packet `carrier`: forgets the drops that `carrier` reported.
    pub(crate) fn acknowledged(&mut self, carrier: Seq) {
        if self.items.is_empty() {
            self.carriers.clear();
        }
        let earlier = self.carriers.partition_point(|&sent| carrier.after(sent));
        if self.carriers.get(earlier) == Some(&carrier) {
            self.carriers.drain(..=earlier);
            self.items.retain(|item| item.reported_in.is_none_or(|first| first.after(carrier)));
        }
    }

    /// Appends the report of packet `carrier`, with acknowledgement number `ack`, to `out`, in at most `room`
    /// bytes. The oldest drops that do not fit are omitted.
    pub(crate) fn write(&mut self, carrier: Seq, ack: Seq, room: usize, out: &mut Vec<u8>) {
        let mut blocks = Vec::new();
        let most = room - 2 * room.div_ceil(MAX_VALUE + 2).min(room / 2);
        let mut next = ack;
        for item in self.items.iter_mut().rev() {
            let mut gap = next.minus(item.seq);
            if gap < 0 {
                continue; // the packet is newer than the acknowledgement number
            }
            let same = 0x80 | (item.code as u8) << 4;
            if gap == 0
                && let Some(last) = blocks.last_mut()
                && *last & 0xf0 == same
                && u64::from(*last & 15) + 1 < MAX_DROPPED
            {
                *last += 1;
            } else {
                if blocks.len() as u64 + (gap as u64).div_ceil(MAX_NORMAL) >= most as u64 {
                    break;
                }
                while gap > 0 {
                    let run = (gap as u64).min(MAX_NORMAL);
                    blocks.push((run - 1) as u8);
                    gap -= run as i64;
                }
                blocks.push(same);
            }
            item.reported_in.get_or_insert(carrier);
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

/// Sender: drops that the receiver has already reported, so that each drop counts once.
#[derive(Clone, Default, Debug)]
pub(crate) struct ReportedDrops {
    items: Vec<(Seq, u8)>,
    spare: Vec<(Seq, u8)>,
}

/// Maximum number of drops remembered.
const MAX_REPORTED: usize = 1 << 10;

impl ReportedDrops {
    /// Heap memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        (self.items.capacity() + self.spare.capacity()) * size_of::<(Seq, u8)>()
    }

    /// Records the drops in the options of a packet with acknowledgement number `ack` and calls `new` for
    /// each drop not reported before. If any number is `invalid`, records nothing.
    pub(crate) fn record(
        &mut self,
        ack: Seq,
        options: &[u8],
        invalid: impl Fn(Seq) -> bool,
        mut new: impl FnMut(Seq, u8),
    ) {
        self.spare.clear();
        for DropRun { first, count, code } in drop_runs(ack, options) {
            for back in 0..count {
                let seq = first.add(-(back as i64));
                if invalid(seq) {
                    return;
                }
                if self.spare.len() < MAX_REPORTED {
                    self.spare.push((seq, code));
                }
            }
        }
        if self.spare.is_empty() {
            return;
        }
        // Both lists descend. Drops no longer reported stay while there is space, because acknowledgements may be
        // reordered.
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
        all.truncate(MAX_REPORTED);
        self.items = all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(ack: Seq, bytes: &[u8]) -> Vec<(u64, u8)> {
        drop_runs(ack, bytes)
            .flat_map(|d| (0..d.count).map(move |back| (d.first.add(-(back as i64)).get(), d.code)))
            .collect()
    }

    /// Drops encode to the example of section 11.7 and decode from it.
    #[test]
    fn data_dropped_rfc_example_encodes_and_decodes() {
        let ack = Seq::new(100);
        let mut bytes = vec![];
        Opt::DataDropped(&[0, 160, 3, 162]).write(&mut bytes);
        assert_eq!(decode(ack, &bytes), [(99, 2), (94, 2), (93, 2), (92, 2)]);
        let mut pending = PendingDrops::new(100);
        for n in [92, 99, 93, 94, 93] {
            pending.record(Seq::new(n), DropCode::ReceiveBuffer);
        }
        let mut again = vec![];
        pending.write(Seq::new(1), ack, 100, &mut again);
        assert_eq!(again, bytes);
    }

    /// The sender counts every drop once, for any drops and lost reports.
    #[test]
    fn data_dropped_random_drops_are_counted_once() {
        let mut random = narrows_cc::Random::stream(1, "drops", 0);
        for _ in 0..200 {
            // Numbers around the wrap at 2^48.
            let base = Seq::new(random.below(600)).add(-300);
            let (mut pending, mut reported) = (PendingDrops::new(1_000), ReportedDrops::default());
            let mut expected = std::collections::BTreeMap::new();
            let mut counted = std::collections::BTreeMap::new();
            for n in 0..1_500u64 {
                if random.chance(0.1) {
                    for more in 0..random.below(40) {
                        let code = [DropCode::ReceiveBuffer, DropCode::Corrupt][random.below(2) as usize];
                        pending.record(base.add((n + more) as i64), code);
                        expected.entry(n + more).or_insert(code as u8);
                    }
                }
                if n % 100 == 99 {
                    let ack = base.add(n as i64 + 40);
                    let mut bytes = vec![];
                    pending.write(Seq::new(n), ack, 2_000, &mut bytes);
                    // The sender acknowledges some of the packets that carry reports.
                    if random.chance(0.3) {
                        pending.acknowledged(Seq::new(n));
                        pending.acknowledged(Seq::new(n - 1));
                    }
                    reported.record(
                        ack,
                        &bytes,
                        |_| false,
                        |seq, code| {
                            let old = counted.insert(seq.minus(base) as u64, code);
                            assert_eq!(old, None, "counted twice");
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

    /// Receiver and sender remember a bounded number of drops, and reports fit the space given.
    #[test]
    fn data_dropped_memory_is_bounded() {
        let mut pending = PendingDrops::new(10);
        for n in 0..1_000 {
            pending.record(Seq::new(n * 2), DropCode::Corrupt);
        }
        assert_eq!((pending.items.len(), pending.items[0].seq), (10, Seq::new(1_980)));
        for room in 0..30 {
            let mut bytes = vec![];
            pending.write(Seq::new(room), Seq::new(2_000), room as usize, &mut bytes);
            assert!(bytes.len() <= room as usize, "{} bytes in {room}", bytes.len());
        }
        assert!(pending.carriers.len() <= 10);
        let mut reported = ReportedDrops::default();
        let mut blocks = vec![];
        for _ in 0..200 {
            Opt::DataDropped(&[0xff; 253]).write(&mut blocks);
        }
        reported.record(Seq::new(0), &blocks, |_| false, |_, _| {});
        assert_eq!(reported.items.len(), MAX_REPORTED);
    }

    /// A report with one invalid number records no drop.
    #[test]
    fn data_dropped_with_invalid_number_records_nothing() {
        let mut bytes = vec![];
        Opt::DataDropped(&[160, 162]).write(&mut bytes);
        let mut reported = ReportedDrops::default();
        reported.record(Seq::new(5), &bytes, |seq| seq == Seq::new(3), |_, _| panic!("all or nothing"));
        assert!(reported.items.is_empty());
    }
}
