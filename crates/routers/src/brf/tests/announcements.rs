//! ACKs on another path, and the shares that switches announce for them.

use narrows_cc::Rate;
use narrows_packet::{Flags, Packet};

use super::{RateCode, Switch, code};
use crate::{Outgoing, RateHeader, Router, RouterFrame, Signal};

/// The share of a flow whose ACKs take another path is announced once per round trip.
#[test]
fn shares_with_acks_elsewhere_are_announced_each_rtt() {
    let mut switch = Switch::new(&[]);
    switch.syn(1).at(41).data(1);
    // None of this flow's ACKs passes here. The first announcement comes with the first allocation after three round
    // trips; further announcements follow every 40 ms.
    let mut announced = Vec::new();
    for ms in 42..400 {
        switch.at(ms).flood(1);
        for sent in switch.port.outbox.drain(..) {
            let Outgoing::Broadcast(Signal::Insert { flow, code }) = sent else { panic!("{sent:?}") };
            assert_eq!((flow, RateCode(code).decode()), (1, Rate::from_bytes_per_sec(10_000_000)));
            announced.push(ms);
        }
    }
    assert_eq!(announced, [201, 241, 281, 321, 361]);
    // The first ACK of the flow that passes here ends the announcements.
    switch.ack(1);
    for ms in 400..500 {
        switch.at(ms).flood(1);
        switch.ack(1);
    }
    assert!(switch.port.outbox.is_empty());
}

/// Equation 7 with several announcing switches on a path: only the one with the lowest share announces.
#[test]
fn switch_is_silent_while_another_announces_less() {
    let mut switch = Switch::new(&[]);
    switch.syn(1).at(41).data(1);
    let mut announced = Vec::new();
    for ms in 42..900 {
        switch.at(ms).flood(1);
        // Until 300 ms another switch announces 9 MB/s every 50 ms, then more than the 10 MB/s here.
        if ms % 50 == 0 {
            let other = RateCode::encode(Rate::from_bytes_per_sec(if ms <= 300 { 9_000_000 } else { 11_000_000 }));
            switch.signal(Signal::Insert { flow: 1, code: other.0 });
        }
        announced.extend(switch.port.outbox.drain(..).map(|_| ms));
    }
    // Announcements begin with the first allocation after the other switch's announcement of 11 MB/s at 350 ms.
    assert_eq!(announced[..2], [361, 401]);
    // The last announcement of another switch blocks announcements here for three round trips, as an ACK would.
    switch.signal(Signal::Insert { flow: 1, code: RateCode::encode(Rate::from_bytes_per_sec(9_000_000)).0 });
    announced.clear();
    for ms in 900..1200 {
        switch.at(ms).flood(1);
        announced.extend(switch.port.outbox.drain(..).map(|_| ms));
    }
    assert!((1019..1061).contains(&announced[0]), "{announced:?}");
}

/// A switch on the path of the ACKs writes an announced share once.
#[test]
fn switch_with_the_acks_writes_an_announced_share_once() {
    let mut switch = Switch::new(&[]);
    switch.signal(Signal::Insert { flow: 7, code: 12_005 });
    assert_eq!(switch.back_with(7, Flags::NONE, code(3.0)), code(3.0));
    switch.signal(Signal::Insert { flow: 7, code: 12_005 });
    assert_eq!([switch.ack(7), switch.ack(7)], [120.0, 0.0]);
    // The announced share is also written into ACKs that leave through the port itself.
    switch.signal(Signal::Insert { flow: 7, code: 12_005 });
    let mut ack = Packet::new(7);
    ack.flags = Flags::ACK.with(Flags::REVERSE);
    switch.brf.on_arrival(&mut switch.port.at(switch.now, 0), &mut ack);
    assert_eq!(ack.rate_header(), RateHeader::BrfRate { code: 12_005 });
}
