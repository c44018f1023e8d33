//! Data dropped before the application, and slow receivers.

use narrows_cc::{Nanos, Rate};

use super::net::*;
use crate::connection::*;
use crate::data_dropped::drop_runs;
use crate::{Header, Kind, Opt, Seq, feature, options};

const SCHEMES: [&str; 5] = ["newreno", "bbr", "ccid2", "ccid3", "dccp-bbr"];

/// Two endpoints; the server's receive queue holds eight datagrams.
fn small_receive_queue(scheme: &str, overflow: Overflow) -> Net {
    let mut server = config(Role::Server, scheme);
    (server.queue, server.overflow) = (8, overflow);
    Net::new(&config(Role::Client, scheme), &server, Link::default(), 1)
}

/// Every datagram that exceeds the receive queue is reported once, despite loss.
#[test]
fn receive_drops_are_reported_once() {
    for scheme in SCHEMES {
        for overflow in [Overflow::DropNewest, Overflow::DropOldest] {
            let mut net = small_receive_queue(scheme, overflow);
            net.link.loss = 0.05;
            net.run(ms(1_000));
            for i in 0..400 {
                net.not_reading[SERVER] = (100..200).contains(&i);
                let _ = net.ends[CLIENT].push(net.now, &[1; 200]);
                net.run_for(ms(10));
            }
            net.run_for(ms(1_000));
            let (sender, receiver) = (net.ends[CLIENT].stats(), net.ends[SERVER].stats());
            assert!(receiver.receive_drops > 10, "{scheme} {overflow:?}: {receiver:?}");
            assert_eq!(sender.dropped_by_peer, receiver.receive_drops, "{scheme} {overflow:?}");
            assert_eq!(sender.marked_packets, 0, "it is no mark");
            assert!(net.ends[SERVER].reception.memory() < 4_096);
        }
    }
}

/// A sender whose receiver has no buffer space slows down to about a packet per round trip and recovers afterwards.
///
/// The link has 10 Mbit/s and an RTT of 40 ms: 35 datagrams per round trip.
#[test]
fn receive_drops_reduce_sender_to_packet_per_round_trip() {
    for scheme in SCHEMES {
        let mut net = small_receive_queue(scheme, Overflow::DropNewest);
        net.link.bottleneck = Some((Rate::from_bits_per_sec(10_000_000), 75_000));
        net.ends[CLIENT].set_backlogged(1_400);
        net.run(Nanos::from_secs(3));
        let sent = |net: &Net| net.ends[CLIENT].stats().data_packets_sent;
        net.not_reading[SERVER] = true;
        net.run(Nanos::from_secs(4));
        let (before, timeouts) = (sent(&net), net.ends[CLIENT].stats().timeouts);
        net.run(Nanos::from_secs(5));
        // One second has 25 round trips of 40 ms; a round trip lasts up to 240 ms if a packet is acknowledged alone. A
        // window grows by one or two packets until the next report, and a rate-based scheme probes.
        let few = sent(&net) - before;
        assert!((4..=4 * 25).contains(&few), "{scheme}: {few} packets");
        assert_eq!(net.ends[CLIENT].stats().timeouts, timeouts, "{scheme}");
        net.not_reading[SERVER] = false;
        net.run(Nanos::from_secs(20));
        let before = sent(&net);
        net.run(Nanos::from_secs(25));
        let most = 5.0 * 1_250_000.0 / 1_424.0;
        let share = (sent(&net) - before) as f64 / most;
        assert!(share > 0.5, "{scheme}: back at {share} of the bottleneck");
    }
}

/// Slow Receiver options stop the growth of window and rate.
#[test]
fn slow_receiver_stops_sender_growth() {
    for scheme in ["newreno", "ccid2", "ccid3"] {
        let mut net = Net::with(scheme);
        net.run(ms(100));
        net.ends[SERVER].set_slow_receiver(true);
        net.ends[CLIENT].set_backlogged(1_000);
        net.run(ms(300));
        let room = |net: &Net| {
            let control = net.ends[CLIENT].control();
            control.pacing_rate.map_or(control.cwnd.as_u64(), Rate::as_bytes_per_sec)
        };
        let before = room(&net);
        net.run(ms(1_000));
        // The window of CCID 2 may grow by a packet between reports; the rate of CCID 3 equals the receive rate.
        assert!(room(&net) <= before + 1_400 + before / 10, "{scheme}: {} after {before}", room(&net));
        assert!(net.ends[CLIENT].stats().slow_reports > 5, "{scheme}");
        net.ends[SERVER].set_slow_receiver(false);
        net.run(ms(1_300));
        assert!(room(&net) > 2 * before, "{scheme}: {} after {before}", room(&net));
    }
}

/// Data that fails its Data Checksum is not delivered and counts as ECN marked.
#[test]
fn corrupt_data_is_dropped_and_counts_as_marked() {
    for scheme in SCHEMES {
        let configs = [Role::Client, Role::Server].map(|role| Config { data_checksum: true, ..config(role, scheme) });
        let mut net = Net::new(&configs[0], &configs[1], Link::default(), 1);
        net.run(ms(200));
        assert_eq!(net.ends[SERVER].features().value(feature::CHECK_DATA, feature::Side::Local), 1);
        for i in 0..40u8 {
            net.run_for(ms(20));
            let now = net.now;
            net.ends[CLIENT].push(now, &[i; 300]).unwrap();
            while let Some(mut bytes) = next_packet(&mut net.ends[CLIENT], now) {
                if i == 20 && Header::decode(&bytes).unwrap().0.kind.is_data() {
                    *bytes.last_mut().unwrap() ^= 1;
                }
                net.inject(now + ms(20), SERVER, bytes, 0);
            }
        }
        net.run_for(ms(1_000));
        let got: Vec<u8> = net.datagrams(SERVER).iter().map(|data| data[0]).collect();
        assert_eq!(got, (0..40).filter(|&i| i != 20).collect::<Vec<u8>>(), "{scheme}");
        assert_eq!(net.ends[SERVER].stats().corrupt_packets, 1, "{scheme}");
        let stats = net.ends[CLIENT].stats();
        assert_eq!((stats.dropped_by_peer, stats.lost_packets), (1, 0), "{scheme}");
        // The CCID 3 receiver reports corrupt data as a loss event.
        assert_eq!((stats.marked_packets, stats.ecn_reductions), (1, u64::from(scheme != "ccid3")), "{scheme}");
        if scheme == "ccid3" {
            assert!(net.ends[CLIENT].loss_event_rate() > 0.0);
        }
    }
}

/// An open client with two packets in flight, after an Ack with these options.
fn client_after_ack(scheme: &str, options: &[u8]) -> Connection {
    let mut net = Net::with(scheme);
    net.run(ms(200));
    net.push(CLIENT, &[1; 100]);
    net.push(CLIENT, &[2; 100]);
    let end = &mut net.ends[CLIENT];
    let ack = packet_for(end, Kind::Ack, options);
    end.on_packet(ms(240), &ack, 0);
    end.clone()
}

/// After Application Not Listening the endpoint accepts no more data.
#[test]
fn application_not_listening_stops_the_sender() {
    let mut client = client_after_ack("newreno", &encode(&[Opt::DataDropped(&[0x90])]));
    assert_eq!(client.push(ms(240), &[3; 100]), Err(PushError::Closed));
    assert_eq!(client.stats().dropped_by_peer, 1);
}

/// Data Dropped options that contradict the Ack Vector are ignored.
#[test]
fn data_dropped_contradicting_ack_vector_is_ignored() {
    // The newest packet arrived; the packet before it is missing. The option reports both, or only the newest, as
    // dropped.
    for (block, dropped) in [(0xa1, 0), (0xa0, 1)] {
        let options = encode(&[Opt::AckVector { nonce: false, runs: &[0, 0xc0] }, Opt::DataDropped(&[block])]);
        assert_eq!(client_after_ack("newreno", &options).stats().dropped_by_peer, dropped);
    }
}

/// Data on a Request (section 8.1.3), or before ECN Incapable is confirmed (section 12.1), is reported as
/// Protocol Constraints until acknowledged.
#[test]
fn data_forbidden_by_protocol_is_reported() {
    // The client sends data in a Request, then data before ECN Incapable is confirmed.
    let mut config = config(Role::Server, "newreno");
    config.ecn = false;
    let mut server = Connection::new(&config, narrows_cc::Random::stream(1, "end", 0), ms(0));
    let exchange = |server: &mut Connection, kind: Kind, seq: u64| {
        let bytes = packet(kind, Seq::new(seq), server.gss, &[], &[7; 50]);
        server.on_packet(ms(seq), &bytes, 0);
        let (header, found) = next_header(server, ms(seq));
        let drops = drop_runs(Seq::new(header.ack.unwrap()), &found);
        let reported: Vec<_> = drops.map(|drop| (drop.first.get(), drop.count, drop.code)).collect();
        let change = Opt::ChangeL { feature: feature::ECN_INCAPABLE, value: &[1] };
        (header.kind, reported, options(&found).any(|option| option == Ok(change)))
    };
    assert_eq!(exchange(&mut server, Kind::Request, 1), (Kind::Response, vec![(1, 1, 0)], true));
    assert_eq!(exchange(&mut server, Kind::Request, 2), (Kind::Response, vec![(2, 2, 0)], true));
    // An acknowledgement of the Response ends the report that the Response carried. (A gap is acknowledged
    // immediately.)
    let (kind, reported, _) = exchange(&mut server, Kind::DataAck, 5);
    assert_eq!((kind, reported), (Kind::Ack, vec![(5, 1, 0)]));
    assert!(server.poll_event() == Some(Event::Connected) && server.poll_event().is_none());
}
