//! Ack Vectors against RFC 4340 section 11.4 and a reference map of all packets.

use std::collections::BTreeMap;

use narrows_dccp::ack_vector::{AckVector, Mark, PacketState, Recorded, Run, runs};
use narrows_dccp::seq::Seq;
use narrows_dccp::wire::{MAX_VALUE, Opt, options};
use proptest::prelude::*;

/// Packet states in the options, newest first.
fn states(ack: Seq, bytes: &[u8]) -> Vec<(Seq, PacketState)> {
    runs(ack, bytes)
        .flat_map(|run| (0..run.count).map(move |back| (run.first.add(-(back as i64)), run.state)))
        .collect()
}

/// A receiver of these packets, in this order.
fn receiver(limit: usize, numbers: impl IntoIterator<Item = u64>) -> AckVector {
    let mut vector = AckVector::new(limit);
    for n in numbers {
        vector.record(Seq::new(n), Mark::Received);
    }
    vector
}

fn written(vector: &AckVector) -> (Option<Seq>, Vec<u8>) {
    let mut bytes = Vec::new();
    let newest = vector.write(&mut bytes);
    (newest, bytes)
}

/// The example of section 11.4, "0,192,3,64,5" with acknowledgement number 100, decodes as described.
#[test]
fn ack_vector_rfc_example_decodes() {
    let read: Vec<Run> = runs(Seq::new(100), &[38, 7, 0, 192, 3, 64, 5]).collect();
    let run = |first, count, state| Run { first: Seq::new(first), count, state };
    let expected = [
        run(100, 1, PacketState::Received),
        run(99, 1, PacketState::Missing),
        run(98, 4, PacketState::Received),
        run(94, 1, PacketState::Marked),
        run(93, 6, PacketState::Received),
    ];
    assert_eq!(read, expected);
    assert_eq!(read[4].last(), Seq::new(88));
}

/// A receiver of the packets in the example of section 11.4 writes its vector.
#[test]
fn ack_vector_rfc_example_encodes() {
    let mut vector = AckVector::new(100);
    for n in (88..=98).chain([100]) {
        vector.record(Seq::new(n), if n == 94 { Mark::Marked } else { Mark::Received });
    }
    assert_eq!(written(&vector), (Some(Seq::new(100)), vec![38, 7, 0, 192, 3, 64, 5]));
    assert_eq!((vector.covered(), vector.len()), (13, 7));
}

/// Consecutive vectors in a packet continue each other across other options.
#[test]
fn ack_vectors_of_one_packet_continue_each_other() {
    let bytes = [38, 4, 0, 193, 2, 43, 4, 0, 9, 39, 3, 66, 0];
    let read = states(Seq::new(1), &bytes);
    let numbers: Vec<i64> = read.iter().map(|(seq, _)| seq.minus(Seq::new(0))).collect();
    assert_eq!(numbers, [1, 0, -1, -2, -3, -4]);
    assert_eq!(read.iter().filter(|(_, state)| *state == PacketState::Marked).count(), 3);
}

/// Packets in the reserved state are skipped.
#[test]
fn ack_vector_reserved_state_is_skipped() {
    let read = states(Seq::new(10), &[38, 5, 0, 0x80 | 2, 0]);
    assert_eq!(read, [(Seq::new(10), PacketState::Received), (Seq::new(6), PacketState::Received)]);
}

/// A received or marked packet keeps its state for any order of vectors.
#[test]
fn packet_state_update_ignores_vector_order() {
    use PacketState::{Marked, Missing, Received};
    for (old, new, known) in [
        (Missing, Received, Received),
        (Missing, Marked, Marked),
        (Received, Missing, Received),
        (Marked, Missing, Marked),
        (Marked, Received, Marked),
        (Received, Marked, Marked),
    ] {
        assert_eq!(old.updated(new), known, "{old:?} then {new:?}");
    }
}

/// A long vector is split into several options and truncated to the space available.
#[test]
fn ack_vector_longer_than_option_is_split() {
    // Every second packet is missing: one byte per packet.
    let vector = receiver(10_000, (0..600).map(|n| 2 * n));
    let (newest, bytes) = written(&vector);
    // The vector has 1199 runs, but the header leaves only 996 bytes: three options with 253 runs and one with 229.
    let lengths: Vec<usize> = options(&bytes)
        .map(|option| match option {
            Ok(Opt::AckVector { runs, .. }) => runs.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lengths, [MAX_VALUE, MAX_VALUE, MAX_VALUE, 996 - 3 * 255 - 2]);
    let read = states(newest.unwrap(), &bytes);
    assert_eq!(read.len(), 3 * MAX_VALUE + 229);
    assert!(read.iter().all(|(seq, state)| (*state == PacketState::Received) == (seq.get() % 2 == 0)));
    let mut some = Vec::new();
    assert_eq!(vector.write_within(2, &mut some), None);
    assert_eq!(vector.write_within(10, &mut some), newest);
    assert_eq!(some.len(), 10);
}

/// A jump in sequence numbers beyond the limit costs no more than the limit.
#[test]
fn ack_vector_jump_beyond_limit_is_bounded() {
    let mut vector = receiver(1000, [5]);
    assert_eq!(vector.record(Seq::new(5 + (1 << 46)), Mark::Received), Recorded::New);
    assert_eq!(vector.covered(), 1000);
    assert_eq!(vector.dropped(), (1 << 46) + 1 - 1000);
    // The 999 missing packets take 16 bytes, the newest packet takes one byte, and the option header takes two bytes.
    assert_eq!(vector.len(), 19);
}

/// A packet that arrives after being reported missing is reported again, even if that vector was
/// acknowledged.
#[test]
fn ack_vector_late_packet_is_reported_again() {
    let mut vector = receiver(100, [1, 2, 4, 5]);
    vector.sent_in(Seq::new(50));
    vector.record(Seq::new(3), Mark::Received);
    vector.record(Seq::new(6), Mark::Received);
    vector.acknowledged(Seq::new(50));
    // The peer knows packets 1 and 2. Packet 3 is new, and packets 4 and 5 stay in the vector with packet 3.
    assert_eq!(written(&vector), (Some(Seq::new(6)), vec![38, 3, 3]));
    assert_eq!(vector.record(Seq::new(2), Mark::Received), Recorded::Old);
    assert_eq!(vector.record(Seq::new(3), Mark::Received), Recorded::Duplicate);
}

/// Acknowledgements of packets without a vector free no state.
#[test]
fn ack_vector_ack_of_other_packet_frees_nothing() {
    let mut vector = receiver(100, [1, 2]);
    vector.sent_in(Seq::new(10));
    vector.acknowledged(Seq::new(9));
    vector.acknowledged(Seq::new(11));
    assert_eq!(vector.covered(), 2);
    vector.acknowledged(Seq::new(10));
    assert_eq!(vector.covered(), 1);
    vector.acknowledged(Seq::new(10));
    assert_eq!(vector.covered(), 1);
}

/// Late packets merge into long runs, in any order.
#[test]
fn ack_vector_late_packets_merge_runs() {
    let ascending: Vec<u64> = (1..=126).collect();
    let descending: Vec<u64> = ascending.iter().rev().copied().collect();
    let odd_first = |then: &[u64]| -> Vec<u64> {
        let (odd, even) = ((1..127).step_by(2), then.iter().filter(|n| *n % 2 == 0).copied());
        odd.chain(even).collect()
    };
    let (then_even, then_back) = (odd_first(&ascending), odd_first(&descending));
    for order in [ascending, descending, then_even, then_back] {
        let mut vector = AckVector::new(1000);
        for n in [0, 127].into_iter().chain(order) {
            assert_eq!(vector.record(Seq::new(n), Mark::Received), Recorded::New);
        }
        // 128 packets form two full runs, or three runs if a run ended before its neighbour was full; the option header
        // has two bytes.
        assert!(vector.len() <= 2 + 3, "{} bytes", vector.len());
        assert_eq!(states(Seq::new(127), &written(&vector).1).len(), 128);
    }
}

/// Reference model: all packets in a map, and sent vectors as copies. Numbers count from the start of the connection
/// and do not wrap.
#[derive(Default)]
struct Model {
    states: BTreeMap<i64, PacketState>,
    sent: Vec<(i64, BTreeMap<i64, PacketState>)>,
    limit: usize,
    dropped: u64,
}

impl Model {
    fn record(&mut self, n: i64, state: PacketState) -> Recorded {
        let Some(newest) = self.newest() else {
            self.states.insert(n, state);
            return Recorded::New;
        };
        if n <= newest {
            return match self.states.get_mut(&n) {
                None => Recorded::Old,
                Some(known @ PacketState::Missing) => {
                    *known = state;
                    Recorded::New
                }
                Some(_) => Recorded::Duplicate,
            };
        }
        self.states.extend((newest + 1..n).map(|missing| (missing, PacketState::Missing)));
        self.states.insert(n, state);
        while self.states.len() > self.limit {
            let (oldest, state) = self.states.pop_first().unwrap();
            self.dropped += 1;
            // A vector with another state for a dropped packet is valid only up to that packet.
            for (_, known) in self.sent.iter_mut().filter(|(_, known)| known.get(&oldest) != Some(&state)) {
                known.retain(|&n, _| n < oldest);
            }
        }
        Recorded::New
    }

    fn newest(&self) -> Option<i64> {
        self.states.last_key_value().map(|(&n, _)| n)
    }

    /// Drops packets that the peer knows in their current state, oldest first; never the newest.
    fn acknowledged(&mut self, packet: i64) {
        let Some(at) = self.sent.iter().position(|(sent, _)| *sent == packet) else { return };
        let (_, known) = self.sent.drain(..=at).next_back().unwrap();
        while self.states.len() > 1
            && let Some((n, state)) = self.states.first_key_value()
            && known.get(n) == Some(state)
        {
            self.states.pop_first();
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A packet at this distance from the newest packet arrives; the flag states whether the packet is ECN marked.
    Arrive(i64, bool),
    Send,
    /// The peer acknowledges the n-th last packet.
    Acknowledge(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (Just(1i64), any::<bool>()).prop_map(|(ahead, marked)| Step::Arrive(ahead, marked)),
        3 => (2i64..6, any::<bool>()).prop_map(|(ahead, marked)| Step::Arrive(ahead, marked)),
        5 => (-12i64..=0, any::<bool>()).prop_map(|(ahead, marked)| Step::Arrive(ahead, marked)),
        1 => (-300i64..300, Just(false)).prop_map(|(ahead, marked)| Step::Arrive(ahead, marked)),
        3 => Just(Step::Send),
        2 => (0usize..6).prop_map(Step::Acknowledge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The receiver matches a reference map of all packets under reordering, duplicates, gaps, acknowledged
    /// vectors and wrap at 2^48.
    #[test]
    fn ack_vector_matches_reference_map(
        steps in prop::collection::vec(step(), 1..300),
        limit in prop_oneof![1usize..4, 60usize..70, Just(200), Just(500)],
        back_from_wrap in prop_oneof![0i64..50, Just(1 << 40)],
    ) {
        let start = Seq::new(0).add(-back_from_wrap);
        let mut vector = AckVector::new(limit);
        let mut model = Model { limit, ..Model::default() };
        let mut packets = 0;
        for step in steps {
            match step {
                Step::Arrive(ahead, marked) => {
                    let n = model.newest().unwrap_or(0) + ahead;
                    let (mark, state) =
                        if marked { (Mark::Marked, PacketState::Marked) } else { (Mark::Received, PacketState::Received) };
                    prop_assert_eq!(vector.record(start.add(n), mark), model.record(n, state));
                }
                Step::Send => {
                    packets += 2; // only every second packet carries a vector
                    vector.sent_in(start.add(packets));
                    if !model.states.is_empty() {
                        let copy = model.states.clone();
                        model.sent.push((packets, copy));
                        if model.sent.len() > limit {
                            model.sent.remove(0);
                        }
                    }
                }
                Step::Acknowledge(back) => {
                    let packet = packets - back as i64;
                    vector.acknowledged(start.add(packet));
                    model.acknowledged(packet);
                }
            }
            let (newest, bytes) = written(&vector);
            prop_assert_eq!(newest, model.newest().map(|n| start.add(n)));
            let expected: Vec<_> = model.states.iter().rev().map(|(&n, &state)| (start.add(n), state)).collect();
            prop_assert_eq!(states(newest.unwrap_or_default(), &bytes), expected);
            prop_assert_eq!(vector.covered(), model.states.len() as u64);
            prop_assert_eq!(vector.dropped(), model.dropped);
            prop_assert_eq!(bytes.len(), vector.len());
            prop_assert!(vector.len() <= limit + 2 * limit.div_ceil(MAX_VALUE));
        }
    }
}
