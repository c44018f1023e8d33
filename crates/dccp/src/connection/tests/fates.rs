//! Every datagram has one fate, by the counters of both endpoints.

use narrows_cc::{Nanos, Rate};
use proptest::prelude::*;

use super::net::*;
use crate::connection::*;

/// Sends `count` datagrams at a constant rate, waits for the last reports, and returns both endpoints' counters.
fn transfer(net: &mut Net, count: u64, every: Nanos) -> (Stats, Stats) {
    net.run(ms(500));
    for _ in 0..count {
        let _ = net.ends[CLIENT].push(net.now, &[7; 1_000]);
        net.run_for(every);
    }
    // 10 s exceed both the longest delay of a packet and the timeout after the last packet.
    net.run_for(Nanos::from_secs(10));
    (*net.ends[CLIENT].stats(), *net.ends[SERVER].stats())
}

/// Losses on which both endpoints agree: declared, reported, and not arrived late.
fn lost(sender: &Connection) -> u64 {
    let stats = sender.stats();
    stats.lost_packets - stats.late_packets - sender.unreported_losses()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Law: with loss, reordering and duplication, received + lost never exceeds sent, and every other packet is
    /// unreported or in flight. Acknowledgements are delayed and duplicated, but not lost: a report that never arrives
    /// cannot be counted.
    #[test]
    fn law_received_and_lost_never_exceed_sent(
        seed in 0..1_000u64,
        scheme in prop_oneof![Just("newreno"), Just("bbr"), Just("ccid2"), Just("ccid3"), Just("dccp-bbr")],
        delay in prop_oneof![Just(1u64), Just(20)],
        loss in prop_oneof![Just(0u64), Just(7), Just(29)],
        duplicate in prop_oneof![Just(0.0), Just(0.1), Just(0.5)],
        chance in prop_oneof![Just(0.02), Just(0.3)],
        late in prop_oneof![Just(5u64), Just(60), Just(400)],
        every in 1..6u64,
    ) {
        let link = Link { delay: ms(delay), duplicate, reorder: (chance, ms(late)), ..Link::default() };
        let mut net = Net::new(&config(Role::Client, scheme), &config(Role::Server, scheme), link, seed);
        let mut sent = 0u64;
        net.lose = Box::new(move |end, _| {
            sent += u64::from(end == CLIENT);
            // The packet's number decides whether it is lost; the handshake packets pass.
            end == CLIENT && loss > 0 && sent > 4 && (sent.wrapping_mul(2_654_435_761) ^ seed).is_multiple_of(loss)
        });
        let (sender, receiver) = transfer(&mut net, 300, ms(every));
        let end = &net.ends[CLIENT];
        let all = sender.data_packets_sent;
        prop_assert!(all > 20, "{all} sent");
        prop_assert!(receiver.data_packets_received + lost(end) <= all, "{} received, {} lost of {all}", receiver.data_packets_received, lost(end));
        // Each packet has one fate.
        let rest = end.unreported_losses() + sender.unanswered_packets + end.data_packets_in_flight();
        prop_assert_eq!(sender.delivered_packets + lost(end) + rest, all);
        prop_assert!(sender.delivered_packets <= receiver.data_packets_received);
        prop_assert_eq!(net.datagrams(SERVER).len() as u64, receiver.data_packets_received);
        prop_assert_eq!(sender.bytes_delivered, sender.delivered_packets * 1_000);
    }
}

/// A packet that arrives many round trips late is not counted as lost, although its record was dropped long before. A
/// packet that is too late for the receiver counts as lost, not as a duplicate.
#[test]
fn fates_packet_many_round_trips_late_is_not_lost() {
    let link = Link { delay: ms(1), reorder: (0.1, ms(300)), ..Link::default() };
    let mut net = Net::new(&config(Role::Client, "newreno"), &config(Role::Server, "newreno"), link, 1);
    let (sender, receiver) = transfer(&mut net, 1_000, ms(2));
    let end = &net.ends[CLIENT];
    assert!(sender.lost_packets > 40 && sender.late_packets > 3, "the network reorders too little: {sender:?}");
    assert_eq!(receiver.data_packets_received + lost(end), sender.data_packets_sent, "{sender:?}");
    assert_eq!(receiver.too_late, lost(end));
    assert_eq!(receiver.duplicates, 0);
    assert_eq!(sender.bytes_delivered, receiver.bytes_received);
}

/// Packets without a report count neither as received nor as lost.
#[test]
fn fates_without_reports_are_unknown() {
    let mut net = Net::with("newreno");
    net.ends[CLIENT].set_backlogged(1_000);
    net.link.bottleneck = Some((Rate::from_mbit_per_sec(8.0), 20_000));
    net.run(Nanos::from_secs(2));
    net.ends[CLIENT].set_backlogged(0);
    net.lose = Box::new(|end, _| end == SERVER);
    net.run(Nanos::from_secs(20));
    let end = &net.ends[CLIENT];
    assert!(end.stats().timeouts > 0 && end.unreported_losses() > 0);
    let received = net.ends[SERVER].stats().data_packets_received;
    assert!(received + lost(end) <= end.stats().data_packets_sent);
    // The count survives the end of the connection.
    let before = end.unreported_losses();
    net.ends[CLIENT].abort(net.now, crate::ResetCode::Aborted);
    assert_eq!(net.ends[CLIENT].unreported_losses(), before);
}
