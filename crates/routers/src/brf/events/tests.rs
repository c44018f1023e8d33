//! A switch that reports sums, compared with a switch that processes packets.

use narrows_cc::{Nanos, Params, Rate};
use narrows_packet::{Flags, Packet};

use super::super::Brf;
use crate::{FiveTuple, RateHeader, Router, RouterFrame, RouterSetup, TestPort};

const CAPACITY: f64 = 10e6;
/// Bytes per millisecond of a flow whose application limits it.
const LIMITED: u64 = 1000;
const RTT: u64 = 40;
/// Milliseconds between two readings of the counters.
const READ: u64 = 5;

fn packet(flow: u32, flags: Flags, payload: u16) -> Packet {
    let mut packet = Packet::new(flow);
    (packet.flags, packet.payload) = (flags, payload);
    packet
}

/// A switch with default parameters and these flows.
fn switch(flows: &[FiveTuple]) -> Brf {
    let (capacity, params) = (Rate::from_bytes_per_sec(CAPACITY as u64), Params::defaults(Brf::INFO.params));
    Brf::new(&RouterSetup { capacity, params, flows: flows.into(), learned: None })
}

/// Shares in bytes per second of a backlogged and a limited flow after a second.
fn shares(sums: bool) -> [f64; 2] {
    let tuple =
        |source| FiveTuple { source, destination: 9, source_port: 1, destination_port: 80, protocol: FiveTuple::TCP };
    let mut brf = switch(&[0, 0].map(tuple));
    let mut port = TestPort::default();
    let (mut untold, mut credit) = ([0; 2], 0.0);
    for id in 0..2 {
        let mut at = port.at(Nanos::ZERO, 0);
        if sums {
            brf.assign(id, tuple(id));
            assert!(brf.open_flow(&mut at, id, true));
            brf.offer(&mut at, id);
        } else {
            let mut syn = packet(id, Flags::SYN, 0);
            syn.set_rate_header(RateHeader::BrfOffer);
            brf.on_open(&mut at, &syn);
            brf.on_arrival(&mut at, &mut syn);
            brf.on_return(&mut at, &mut packet(id, Flags::SYN.with(Flags::ACK).with(Flags::REVERSE), 0));
        }
    }
    for ms in RTT..RTT + 1000 {
        let now = Nanos::from_millis(ms);
        while brf.next_wake() <= now {
            let at = brf.next_wake();
            brf.on_wake(&mut port.at(at, 0));
        }
        credit += brf.share(0).map_or(0.0, |share| share.as_bytes_per_sec() as f64 / 1000.0);
        let backlogged = (credit / 1500.0) as u64;
        credit -= backlogged as f64 * 1500.0;
        for (id, (count, payload)) in [(backlogged, 1448), (1, LIMITED as u16 - 52)].into_iter().enumerate() {
            for _ in 0..count {
                let mut data = packet(id as u32, Flags::ACK, payload);
                untold[id] += data.size().as_u64();
                if !sums {
                    brf.on_arrival(&mut port.at(now, 0), &mut data);
                }
            }
        }
        for id in 0..2 {
            let mut at = port.at(now, 0);
            if !sums {
                brf.on_return(&mut at, &mut packet(id, Flags::ACK.with(Flags::REVERSE), 0));
            } else if ms == RTT {
                brf.answer(&mut at, id, Nanos::from_millis(RTT));
            } else if ms % READ == 0 {
                let bytes = std::mem::take(&mut untold[id as usize]);
                brf.add_bytes(&mut at, id, bytes, false);
                let share = brf.share(id).expect("it sends");
                brf.note_written(id, share);
                brf.note_returned(now, id);
            }
        }
    }
    [0, 1].map(|id| brf.share(id).expect("it sends").as_bytes_per_sec() as f64)
}

/// Sums of several milliseconds give the same shares as packets: the limited flow gets a tenth more than it sends, and
/// the other flow gets the rest.
#[test]
fn sums_give_the_shares_of_packets() {
    let (packets, sums) = (shares(false), shares(true));
    for [backlogged, limited] in [packets, sums] {
        let expected = LIMITED as f64 * 1000.0 * 1.1;
        assert!((limited - expected).abs() < 0.05 * expected, "{packets:?} {sums:?}");
        assert!((backlogged + limited - CAPACITY).abs() < 0.01 * CAPACITY, "{packets:?} {sums:?}");
    }
}

/// A flow with a reused number inherits nothing from its predecessor.
#[test]
fn reused_number_begins_a_new_flow() {
    let flow = FiveTuple { source: 0, destination: 0, source_port: 0, destination_port: 0, protocol: 0 };
    let mut brf = switch(&[flow]);
    let mut port = TestPort::default();
    let at = |port: &mut TestPort, ms: u64, brf: &mut Brf| {
        let mut at = port.at(Nanos::from_millis(ms), 0);
        assert!(brf.open_flow(&mut at, 0, true));
        assert_eq!(brf.offer(&mut at, 0).as_bytes_per_sec(), CAPACITY as u64);
        brf.answer(&mut at, 0, Nanos::from_millis(ms));
        assert!(brf.is_tracked(0) && brf.class_of(0).is_some());
        brf.remove_flow(&mut at, 0);
        assert!(!brf.is_tracked(0) && brf.share(0).is_none());
        assert_eq!(brf.add_bytes(&mut at, 0, 1500, false), None);
    };
    at(&mut port, 10, &mut brf);
    at(&mut port, 20, &mut brf);
    assert_eq!(brf.next_offer().as_bytes_per_sec(), CAPACITY as u64);
}
