//! The programs on single packets, run by the kernel without a port.

use std::cell::RefCell;
use std::net::Ipv4Addr;

use libbpf_rs::{MapCore as _, ProgramInput};
use narrows_cc::{Nanos, Rate};
use narrows_routers::RateCode;

use super::super::agent::now;
use super::super::maps::{self, ANSWERED, Control, Decision, ENDED, FlowState, GONE, Key, OBEYS, Programs, STRIPPED};
use super::super::tc;
use super::may;
use super::packets::{ACK, FIN, NO_LIMIT, Packet, RST, SYN};

const CLASSES: [u8; 3] = [1, 4, 5];
/// `TC_ACT_UNSPEC`: other filters decide.
const CONTINUE: u32 = u32::MAX;

struct Bench(RefCell<Programs>);

impl Bench {
    /// The programs, with the heartbeat of an agent that has just decided; `None` if this process may not load them.
    fn new() -> Option<Self> {
        let programs = may().then(|| Programs::load(64).expect("the verifier accepts the programs"))?;
        let bench = Self(RefCell::new(programs));
        bench.beat(now());
        Some(bench)
    }

    /// As [`Bench::new`], after a SYN that offers to obey. Also returns the SYN.
    fn opened() -> Option<(Self, Packet)> {
        let (bench, syn) = (Self::new()?, syn(Some(0), 0));
        bench.forth(&syn);
        Some((bench, syn))
    }

    fn beat(&self, heartbeat: Nanos) {
        let control = Control {
            heartbeat: heartbeat.as_nanos(),
            patience: 500_000_000,
            offer: Rate::from_bytes_per_sec(3_000_000),
            handle: tc::HANDLE,
            classes: CLASSES,
        };
        self.0.borrow().control(control).expect("an array");
    }

    /// Runs a program on a frame. Returns the frame that leaves the program, and its priority.
    fn run(&self, name: &str, frame: &[u8]) -> (Vec<u8>, u32) {
        let mut out = vec![0; frame.len()];
        let mut context = vec![0; 192];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            context_out: Some(&mut context),
            ..ProgramInput::default()
        };
        assert_eq!(self.0.borrow_mut().run(name, input), CONTINUE);
        (out, u32::from_ne_bytes([context[32], context[33], context[34], context[35]]))
    }

    /// Passes a packet towards the receiver; returns its class.
    fn forth(&self, packet: &Packet) -> u32 {
        let (frame, priority) = self.run(maps::DATA, &packet.frame());
        assert_eq!(frame, packet.frame(), "data is not changed");
        priority.wrapping_sub(tc::HANDLE | tc::FIRST_MINOR)
    }

    /// Passes a packet towards the sender; returns the code that it carries after the switch.
    fn back(&self, packet: &Packet) -> Option<u16> {
        let (frame, _) = self.run(maps::ACK, &packet.frame());
        let (read, right) = Packet::read(&frame).expect("TCP");
        assert!(right, "the checksum is right after {packet:?}");
        read.code
    }

    fn decide(&self, share: u64, class: u8) {
        let share = Some(Rate::from_bytes_per_sec(share));
        self.0.borrow().decide(&key(), Decision { share, class }).expect("room");
    }

    fn state(&self) -> FlowState {
        self.0.borrow().flow(&key()).expect("an entry")
    }
}

fn syn(code: Option<u16>, padding: usize) -> Packet {
    Packet {
        from: (Ipv4Addr::new(10, 0, 0, 1), 5000),
        to: (Ipv4Addr::new(10, 0, 1, 1), 80),
        flags: SYN,
        payload: 0,
        code,
        padding,
    }
}

fn key() -> Key {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&[10, 0, 0, 1]);
    key[4..8].copy_from_slice(&[10, 0, 1, 1]);
    key[8..10].copy_from_slice(&5000_u16.to_be_bytes());
    key[10..12].copy_from_slice(&80_u16.to_be_bytes());
    key[12..].copy_from_slice(&6_u32.to_ne_bytes());
    Key(key)
}

fn code(rate: u64) -> u16 {
    RateCode::encode(Rate::from_bytes_per_sec(rate)).0
}

/// The share is written over 'no limit' at any offset of the option, and the checksum stays right.
#[test]
fn program_writes_share_and_keeps_checksum() {
    for padding in 0..8 {
        let Some(bench) = Bench::new() else { return };
        let syn = syn(Some(0), padding);
        assert_eq!(bench.forth(&syn), u32::from(CLASSES[0]), "a flow that offers to obey");
        assert_eq!(bench.state().flags, OBEYS);
        bench.decide(5_000_000, 2);
        assert_eq!(bench.back(&syn.back(SYN | ACK, Some(NO_LIMIT))), Some(code(5_000_000)));
        assert_eq!(bench.state().advised, 5_000_000);
        let data = Packet { flags: ACK, payload: 1000, code: None, ..syn.clone() };
        assert_eq!(bench.forth(&data), 2, "the class that was decided");
        let state = bench.state();
        assert!(state.has(ANSWERED) && state.rtt > 0 && state.bytes > 1000, "{state:?}");
    }
}

/// A SYN-ACK that arrives before the flow's decision carries the rate offered to the next flow.
#[test]
fn early_syn_ack_carries_the_offer() {
    let Some(bench) = Bench::new() else { return };
    let syn = syn(Some(0), 2);
    bench.forth(&syn);
    assert_eq!(bench.back(&syn.back(SYN | ACK, Some(NO_LIMIT))), Some(code(3_000_000)));
}

/// A lower rate of another switch stays; a forged zero or garbage does not keep the switch from writing.
#[test]
fn minimum_rule_keeps_lower_and_replaces_invalid() {
    let Some((bench, syn)) = Bench::opened() else { return };
    bench.decide(5_000_000, 1);
    let lower = code(4_000_000);
    for (carried, behind) in
        [(lower, lower), (code(6_000_000), code(5_000_000)), (u16::MAX, code(5_000_000)), (65_530, 65_530)]
    {
        assert_eq!(bench.back(&syn.back(ACK, Some(carried))), Some(behind), "{carried}");
    }
    // Zero is not a rate: the switch overwrites it when the next rate is due.
    let Some((fresh, syn)) = Bench::opened() else { return };
    fresh.decide(5_000_000, 1);
    assert_eq!(fresh.back(&syn.back(SYN | ACK, Some(0))), Some(code(5_000_000)));
}

/// The switch writes one rate per round trip, but writes a share that has fallen by more than a tenth immediately.
#[test]
fn rate_is_written_once_per_round_trip() {
    let Some((bench, syn)) = Bench::opened() else { return };
    bench.decide(5_000_000, 1);
    let ack = syn.back(ACK, Some(NO_LIMIT));
    std::thread::sleep(std::time::Duration::from_millis(200));
    bench.forth(&Packet { flags: ACK, code: None, ..syn.clone() });
    bench.beat(now());
    assert_eq!(bench.back(&ack), Some(code(5_000_000)));
    // The round trip is the 200 ms above.
    assert_eq!(bench.back(&ack), Some(NO_LIMIT), "not due");
    bench.decide(4_600_000, 1);
    assert_eq!(bench.back(&ack), Some(NO_LIMIT), "less than a tenth");
    bench.decide(4_000_000, 1);
    assert_eq!(bench.back(&ack), Some(code(4_000_000)), "urgent");
}

/// If the agent's heartbeat is older than `patience`, programs write no rates, and all flows share a class.
#[test]
fn dead_agent_leaves_acks_alone() {
    let Some((bench, syn)) = Bench::opened() else { return };
    bench.decide(5_000_000, 3);
    bench.beat(now() - Nanos::from_secs(1));
    assert_eq!(bench.back(&syn.back(ACK, Some(NO_LIMIT))), Some(NO_LIMIT));
    let data = Packet { flags: ACK, code: None, ..syn.clone() };
    assert_eq!(bench.forth(&data), u32::from(CLASSES[1]), "one class for all flows");
    assert_eq!(bench.0.borrow().counters().unwrap().silent, 1);
    let other = Packet { from: (Ipv4Addr::new(10, 0, 0, 9), 1), ..syn };
    assert_eq!(bench.forth(&other), u32::from(CLASSES[1]), "no entry for new flows");
}

/// A flow whose option does not come back is flagged as stripped, and its end is flagged too.
#[test]
fn stripped_option_and_ends_are_flagged() {
    let Some((bench, syn)) = Bench::opened() else { return };
    assert_eq!(bench.back(&syn.back(SYN | ACK, None)), None);
    assert!(bench.state().has(STRIPPED));
    bench.forth(&Packet { flags: ACK | FIN, code: None, ..syn.clone() });
    assert!(bench.state().has(ENDED) && !bench.state().has(GONE));
    bench.back(&syn.back(ACK | FIN, None));
    assert!(bench.state().has(GONE));
    // A new SYN begins a new flow; a reset ends that flow.
    bench.forth(&syn);
    assert_eq!(bench.state().flags, OBEYS);
    bench.back(&syn.back(RST, None));
    assert!(bench.state().has(GONE));
    // In the middle of a flow, the sixteenth ACK in a row without the option sets the flag.
    bench.forth(&syn);
    for n in 1..=16 {
        assert_eq!(bench.state().has(STRIPPED), n > 16, "{n}");
        bench.back(&syn.back(ACK, None));
    }
    assert!(bench.state().has(STRIPPED));
}

/// Other flows, UDP, ACKs of the other direction and garbage get the classes reserved for them.
#[test]
fn packets_without_offer_get_their_classes() {
    let Some(bench) = Bench::new() else { return };
    let [acks, others, udp] = CLASSES.map(u32::from);
    assert_eq!(bench.forth(&syn(None, 0)), others, "a flow that does not offer to obey");
    assert_eq!(bench.state().flags, 0);
    let foreign = Packet { from: (Ipv4Addr::new(10, 0, 0, 7), 7), ..syn(None, 0) };
    assert_eq!(bench.forth(&Packet { flags: ACK, ..foreign.clone() }), acks, "an ACK");
    assert_eq!(bench.forth(&Packet { flags: ACK, payload: 100, ..foreign.clone() }), others, "data before the switch");
    let mut frame = foreign.frame();
    frame[23] = 17;
    let class = |frame: &[u8]| bench.run(maps::DATA, frame).1.wrapping_sub(tc::HANDLE | tc::FIRST_MINOR);
    assert_eq!(class(&frame), udp);
    // Options that extend beyond the header, and truncated headers.
    let mut frame = syn(Some(0), 3).frame();
    frame[58] = 200;
    assert_eq!(class(&frame), others);
    let mut frame = Packet { flags: SYN, ..foreign.clone() }.frame();
    frame[46] = 0x10;
    assert_eq!(class(&frame), others);
    frame[14] = 0x41;
    assert_eq!(class(&frame), others);
    let counters = bench.0.borrow().counters().unwrap();
    assert_eq!(counters.udp, 1);
    assert!(counters.untracked >= 2 && counters.acks > 0, "{counters:?}");
    assert_eq!(bench.0.borrow().map("flows").keys().count(), 1);
}

/// An ACK that three SACK blocks fill gets the option in place of the last block, and its checksum stays right.
#[test]
fn third_sack_block_gives_way_to_the_share() {
    let Some((bench, syn)) = Bench::opened() else { return };
    bench.decide(5_000_000, 1);
    // Timestamps and three blocks, each after two no-operations, as Linux writes them.
    let mut options = vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 5, 26];
    options.extend(20..44);
    let frame = syn.back(ACK, None).frame_with(&options);
    let (out, _) = bench.run(maps::ACK, &frame);
    let (read, right) = Packet::read(&out).expect("TCP");
    assert!(right);
    assert_eq!(read.code, Some(code(5_000_000)));
    options[15] = 18;
    assert_eq!(out[54..86], options[..32], "two blocks stay");
    // The share is not written again within the round trip, and a full acknowledgement does not count as one without
    // the option.
    std::thread::sleep(std::time::Duration::from_millis(200));
    bench.forth(&Packet { flags: ACK, code: None, ..syn });
    bench.beat(now());
    assert_ne!(bench.run(maps::ACK, &frame).0, frame, "due after the round trip of 200 ms became known");
    for _ in 0..20 {
        bench.beat(now());
        assert_eq!(bench.run(maps::ACK, &frame).0, frame, "not due: all three blocks stay");
    }
    let state = bench.state();
    assert!(!state.has(STRIPPED) && state.written == 2, "{state:?}");
    assert_eq!(bench.0.borrow().counters().unwrap().bare, 0);
}
