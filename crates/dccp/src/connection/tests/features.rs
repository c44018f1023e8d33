//! Feature negotiation between connections.

use super::net::*;
use crate::connection::*;
use crate::feature::{self, Side};
use crate::{Ccid, Header, Kind, Opt, ResetCode, options};

fn agreed(net: &Net, number: u8) -> [(u64, u64); 2] {
    net.ends
        .each_ref()
        .map(|end| (end.features().value(number, Side::Local), end.features().value(number, Side::Remote)))
}

/// Non-negotiable features take the value of their location; server-priority features take a common value.
#[test]
fn features_of_both_endpoints_are_negotiated() {
    let (mut client, mut server) = (config(Role::Client, "ccid2"), config(Role::Server, "ccid3"));
    (client.sequence_window, server.sequence_window) = (5_000, 70_000);
    (client.ack_ratio, server.ack_ratio) = (3, 5);
    // The Ack Ratio is at most half the window.
    (client.initial_window, server.initial_window) = (10, 10);
    (client.short, server.short, client.ecn) = (true, true, false);
    let mut net = Net::new(&client, &server, Link::default(), 1);
    net.run(ms(2_000));
    assert_eq!(agreed(&net, feature::SEQUENCE_WINDOW), [(5_000, 70_000), (70_000, 5_000)]);
    assert_eq!(agreed(&net, feature::ACK_RATIO), [(3, 5), (5, 3)]);
    assert_eq!(agreed(&net, feature::CCID), [(2, 3), (3, 2)]);
    assert_eq!(agreed(&net, feature::SHORT_NUMBERS), [(1, 1), (1, 1)]);
    assert_eq!(agreed(&net, feature::ECN_INCAPABLE), [(1, 0), (0, 1)]);
    // Data receivers send Ack Vectors; the receiver of CCID 3 data also sends loss event rates.
    assert_eq!(agreed(&net, feature::SEND_ACK_VECTOR), [(1, 1), (1, 1)]);
    assert_eq!(agreed(&net, feature::SEND_LOSS_EVENT_RATE), [(1, 0), (0, 1)]);
    assert_eq!(agreed(&net, feature::SEND_NDP_COUNT), [(0, 1), (1, 0)]);
}

/// A mandatory CCID that the peer rejects resets the connection.
#[test]
fn ccid_rejected_by_peer_resets_the_connection() {
    // The client's scheme needs a CCID other than 2, and the server accepts only CCID 2.
    let mut server = config(Role::Server, "ccid2");
    server.accept = vec![2];
    let mut net = Net::new(&config(Role::Client, "bbr"), &server, Link::default(), 1);
    net.run(ms(2_000));
    let reset = net.log.iter().find(|packet| packet.2.kind == Kind::Reset).unwrap().2;
    assert_eq!(reset.reset, (ResetCode::MandatoryError as u8, [32, feature::CCID, Ccid::Other.number()]));
    assert_eq!(net.states(), (State::TimeWait, State::Closed));
    assert_eq!(net.events[CLIENT], [Event::Closed { code: ResetCode::MandatoryError as u8 }]);
}

/// The server's preference decides the CCID, and the client switches to its fallback scheme.
#[test]
fn ccid_fallback_is_used_when_server_prefers_it() {
    for (accept, name) in [(vec![2], "ccid2"), (vec![2, 3], "ccid2"), (vec![3, 2], "ccid3"), (vec![248, 3], "ccid3")] {
        let mut client = config(Role::Client, "ccid3");
        client.fallback = narrows_cc::schemes::find("ccid2");
        let mut server = config(Role::Server, "newreno");
        server.accept = accept.clone();
        let mut net = Net::new(&client, &server, Link::default(), 1);
        net.run(ms(200));
        net.push(CLIENT, &[1; 100]);
        net.run(ms(1_000));
        assert_eq!(net.ends[CLIENT].scheme().info.name, name, "{accept:?}");
        assert_eq!(net.ends[SERVER].ccids().1, net.ends[CLIENT].ccids().0);
        assert_eq!(net.datagrams(SERVER).len(), 1);
    }
}

/// An endpoint that cannot receive CCID 2 sends a mandatory Change R(CCID) in its first packet (section 10).
#[test]
fn ccid_2_unacceptable_is_announced_in_request() {
    // The client sends with CCID 249 and accepts only CCID 249.
    for (scheme, agreed) in [("newreno", true), ("ccid2", false), ("ccid3", false)] {
        let mut client = config(Role::Client, "newreno");
        client.accept = vec![249];
        let mut net = Net::new(&client, &config(Role::Server, scheme), Link::default(), 1);
        let (_, found) = next_header(&mut net.ends[CLIENT].clone(), ms(0));
        let all: Vec<_> = options(&found).map(Result::unwrap).collect();
        let change = Opt::ChangeR { feature: feature::CCID, value: &[249] };
        assert!(all.windows(2).any(|pair| pair == [Opt::Mandatory, change]), "{all:?}");
        net.run(ms(200));
        if agreed {
            net.push(SERVER, &[1; 100]);
            net.run(ms(400));
            assert_eq!(net.datagrams(CLIENT).len(), 1);
            assert_eq!(net.ends[CLIENT].ccids().1.number(), 249);
        } else {
            let code = ResetCode::MandatoryError as u8;
            assert_eq!(net.events[CLIENT].last(), Some(&Event::Closed { code }), "{scheme}");
        }
    }
}

/// The sender's Sequence Window grows with the packets in flight, and can be set at any time.
#[test]
fn sequence_window_grows_with_packets_in_flight() {
    let mut client = config(Role::Client, "newreno");
    client.sequence_window = 100;
    let mut net = Net::new(&client, &config(Role::Server, "newreno"), Link::default(), 1);
    let rate = narrows_cc::Rate::from_bits_per_sec(100_000_000);
    net.link.bottleneck = Some((rate, 500_000));
    net.ends[CLIENT].set_backlogged(1_000);
    net.run(ms(20_000));
    // The link carries 12.2 packets per ms and has an RTT of 40 ms: 488 packets are in flight, plus the queue.
    let width = net.ends[SERVER].features().value(feature::SEQUENCE_WINDOW, Side::Remote);
    assert!((2_048..=16_384).contains(&width), "{width}");
    let stats = net.ends.each_ref().map(|end| *end.stats());
    assert_eq!((stats[0].out_of_window, stats[1].out_of_window), (0, 0));
    let share = stats[1].bytes_received as f64 / (20.0 * 12_500_000.0);
    assert!(share > 0.85, "{share}");
    // The application may set the window at any time.
    net.ends[CLIENT].set_sequence_window(net.now, 100_000);
    net.run_for(ms(500));
    assert_eq!(agreed(&net, feature::SEQUENCE_WINDOW).map(|(a, b)| a.max(b)), [100_000; 2]);
}

/// The data receiver's Sequence Window grows with its acknowledgements in flight.
#[test]
fn sequence_window_of_receiver_grows_with_acks_in_flight() {
    let configs = [Role::Client, Role::Server].map(|role| {
        let mut config = config(role, "newreno");
        config.sequence_window = 100;
        config
    });
    let mut net = Net::new(&configs[0], &configs[1], Link::default(), 1);
    net.link.bottleneck = Some((narrows_cc::Rate::from_bits_per_sec(100_000_000), 500_000));
    net.ends[CLIENT].set_backlogged(1_000);
    net.run(ms(20_000));
    // The receiver sends one Ack per two of 12.2 packets per ms, and its Acks are acknowledged once per round trip of
    // at least 40 ms: at least 244 Acks are in flight.
    let width = net.ends[CLIENT].features().value(feature::SEQUENCE_WINDOW, Side::Remote);
    assert!(width >= 5 * 244, "{width}");
    let stats = net.ends.each_ref().map(|end| *end.stats());
    assert_eq!((stats[0].out_of_window, stats[1].out_of_window), (0, 0));
}

/// A lost Change is retransmitted until confirmed.
#[test]
fn features_change_is_retransmitted_until_confirmed() {
    let mut net = Net::with("newreno");
    net.run(ms(1_000));
    net.lose = Box::new(|end, _| end == CLIENT);
    net.ends[CLIENT].set_sequence_window(ms(1_000), 9_999);
    net.run(ms(1_500));
    net.lose = Box::new(|_, _| false);
    net.run(ms(3_000));
    assert_eq!(net.ends[SERVER].features().value(feature::SEQUENCE_WINDOW, Side::Remote), 9_999);
    assert!(!net.ends[CLIENT].features().is_changing(feature::SEQUENCE_WINDOW, Side::Local));
}

/// Sends an Ack with these options to an open server; returns the network and the reply: header, options.
fn reply_to(options: &[u8]) -> (Net, Option<Header>, Vec<u8>) {
    let mut net = Net::with("newreno");
    net.run(ms(1_000));
    let end = &mut net.ends[SERVER];
    let ack = packet_for(end, Kind::Ack, options);
    end.on_packet(ms(1_000), &ack, 0);
    let mut out = vec![];
    end.poll_transmit(ms(1_000), &mut out);
    match Header::decode(&out) {
        Ok((header, body)) => (net, Some(header), body.options.to_vec()),
        Err(_) => (net, None, vec![]),
    }
}

/// A mandatory option, feature or value that the endpoint cannot process resets the connection, with the
/// option in the Reset data.
#[test]
fn options_mandatory_and_unknown_reset_the_connection() {
    let cases: [(&[u8], [u8; 3], ResetCode); 6] = [
        // Mandatory, unknown option.
        (&[1, 77, 4, 5, 6], [77, 5, 6], ResetCode::MandatoryError),
        // Mandatory, unknown feature.
        (&[1, 32, 4, 120, 9], [32, 120, 9], ResetCode::MandatoryError),
        // Mandatory, invalid value: a Sequence Window of 31 packets.
        (&[1, 32, 4, 3, 31], [32, 3, 31], ResetCode::MandatoryError),
        // Mandatory, no common value.
        (&[1, 32, 4, 1, 99], [32, 1, 99], ResetCode::MandatoryError),
        // Mandatory twice, or at the end.
        (&[1, 1, 0, 0], [1, 0, 0], ResetCode::OptionError),
        (&[0, 0, 0, 1], [1, 0, 0], ResetCode::OptionError),
    ];
    for (options, data, code) in cases {
        let (net, reset, _) = reply_to(options);
        assert_eq!(reset.map(|header| header.reset), Some((code as u8, data)), "{options:?}");
        assert_eq!(net.ends[SERVER].state(), State::Closed);
    }
}

/// Unknown features get an empty Confirm, invalid values change nothing, and unknown options are skipped.
#[test]
fn options_unknown_feature_gets_empty_confirm() {
    let cases: [(&[u8], &[u8]); 9] = [
        // Mandatory before Padding is padding (section 5.8.2), even before an unknown option.
        (&[1, 0, 0, 0], &[]),
        (&[1, 0, 77, 4, 5, 6], &[]),
        // An Ack Ratio in one byte (section 6.6.8).
        (&[32, 4, 5, 7], &[35, 3, 5]),
        // Unknown features at either endpoint.
        (&[32, 4, 120, 9], &[35, 3, 120]),
        (&[34, 4, 120, 9], &[33, 3, 120]),
        // A Sequence Window below 32; an Ack Ratio of 7.
        (&[32, 4, 3, 31], &[35, 3, 3]),
        (&[32, 5, 5, 0, 7], &[35, 5, 5, 0, 7]),
        // No common value: the Confirm holds the current value and the preference list.
        (&[32, 4, 1, 99], &[35, 8, 1, 249, 2, 3, 248, 249]),
        // Unknown options are skipped.
        (&[77, 4, 5, 6], &[]),
    ];
    for (options, expected) in cases {
        let (net, _, confirm) = reply_to(options);
        assert_eq!(confirm[..expected.len()], *expected, "{options:?}");
        assert_eq!(net.ends[SERVER].state(), State::Open);
        assert_eq!(net.ends[SERVER].features().value(feature::SEQUENCE_WINDOW, Side::Remote), 1_000);
    }
}

/// A reordered older Change does not undo a newer Change.
#[test]
fn features_reordered_older_change_is_ignored() {
    let mut net = Net::with("newreno");
    net.run(ms(1_000));
    let end = &mut net.ends[SERVER];
    let base = end.gsr;
    for (ahead, width) in [(5, 700u16), (3, 600)] {
        let [high, low] = width.to_be_bytes();
        let options = [32, 9, 3, 0, 0, 0, 0, high, low];
        let bytes = packet(Kind::Ack, base.add(ahead), end.gss, &options, &[]);
        end.on_packet(ms(1_000), &bytes, 0);
    }
    assert_eq!(end.features().value(feature::SEQUENCE_WINDOW, Side::Remote), 700);
}

/// CCID 2 raises the Ack Ratio while acknowledgements are lost and lowers it afterwards.
#[test]
fn ack_ratio_rises_and_falls_with_lost_acks() {
    let rate = narrows_cc::Rate::from_bits_per_sec(50_000_000);
    let mut net = Net::with("ccid2");
    net.link.bottleneck = Some((rate, 400_000));
    net.ends[CLIENT].set_backlogged(1_400);
    net.run(ms(3_000));
    assert_eq!(agreed(&net, feature::ACK_RATIO)[SERVER].1, 2);
    // Every tenth packet of the server is lost for a second: ten windows of more than ten packets each.
    let mut n = 0;
    net.lose = Box::new(move |end, _| {
        n += u64::from(end == SERVER);
        end == SERVER && n.is_multiple_of(10)
    });
    net.run(ms(4_000));
    let high = agreed(&net, feature::ACK_RATIO)[SERVER].1;
    assert!(high >= 8, "{high}");
    net.lose = Box::new(|_, _| false);
    net.run(ms(60_000));
    assert!(agreed(&net, feature::ACK_RATIO)[SERVER].1 < high);
}
