//! Sequence numbers: validity windows, short numbers, wrap.

use narrows_cc::Nanos;

use super::net::*;
use crate::{Header, Kind, Opt, Seq};

/// A connection after transfers in both directions.
fn busy(scheme: &str) -> Net {
    let mut net = Net::with(scheme);
    net.run(ms(100));
    net.push_every(ms(7), &[CLIENT, SERVER], 100, 500);
    net.run_for(ms(1_000));
    net
}

/// State that invalid packets must not change: everything but counters, GSS and pending replies.
pub(super) fn protocol_state(connection: &Connection) -> String {
    let mut copy = connection.clone();
    copy.stats = Stats::default();
    copy.pending = Pending::default();
    format!("{copy:?}")
}

/// A packet whose options would change features and records.
fn packet_with_options(kind: Kind, seq: Seq, ack: Seq) -> Vec<u8> {
    let change = Opt::ChangeL { feature: 3, value: &[0, 0, 0, 0, 1, 0] };
    let vector = Opt::AckVector { nonce: false, runs: &[63, 63, 63] };
    let options: &[Opt] = if kind == Kind::Data { &[] } else { &[change, vector] };
    packet(kind, seq, ack, &encode(options), &[9; 100])
}

/// A packet with numbers outside the windows triggers a Sync, unless it is itself a Sync or SyncAck, and leaves the
/// connection unchanged, for every type that carries numbers.
#[test]
fn packet_outside_windows_gets_sync_and_changes_nothing() {
    for to in [CLIENT, SERVER] {
        let net = busy("newreno");
        let end = &net.ends[to];
        let (swl, swh) = end.sequence_window();
        let (awl, awh) = end.acknowledgement_window();
        // W = W' = 1000. The sequence number window reaches floor(W/4) back and ceil(3W/4) ahead; the acknowledgement
        // number window reaches W' back. Neither window begins before the first packet.
        let (isr, iss) = (end.isr.unwrap(), end.iss.unwrap());
        let back = |to: Seq, by: i64, first: Seq| to.add(1 - by.min(to.add(1).minus(first)));
        assert_eq!((swl, swh), (back(end.gsr, 250, isr), end.gsr.add(750)));
        assert_eq!((awl, awh), (back(end.gss, 1_000, iss), end.gss));
        let good = end.gsr.add(1);
        for &kind in &Kind::ALL[2..] {
            let mut cases =
                vec![(swl.add(-1), awh), (good, awh.add(1)), (good, awl.add(-1)), (good, awl.add(-1 << 40))];
            if !matches!(kind, Kind::Sync | Kind::SyncAck) {
                cases.extend([(swh.add(1), awh), (good.add(1 << 46), awh)]);
            }
            if matches!(kind, Kind::CloseReq | Kind::Close | Kind::Reset) {
                cases.extend([(end.gsr, awh), (good, end.gar.add(-1))]);
            }
            for (seq, ack) in cases {
                if kind == Kind::Data && seq == good {
                    continue; // the type has no acknowledgement number
                }
                let mut end = end.clone();
                let before = protocol_state(&end);
                end.on_packet(net.now, &packet_with_options(kind, seq, ack), 0);
                assert_eq!(protocol_state(&end), before, "{kind:?} {seq:?} {ack:?}");
                assert_eq!(end.stats.out_of_window, 1);
                // The reply is a Sync that acknowledges the packet's number, or GSR for a Reset. Syncs get no
                // reply.
                let reply = next_packet(&mut end, net.now);
                if matches!(kind, Kind::Sync | Kind::SyncAck) {
                    assert_eq!(reply, None);
                } else {
                    let reply = reply.unwrap();
                    let (sync, _) = Header::decode(&reply).unwrap();
                    let expected = if kind == Kind::Reset { end.gsr } else { seq };
                    assert_eq!((sync.kind, sync.ack), (Kind::Sync, Some(expected.get())));
                    assert_eq!(reply.len(), 24);
                }
            }
        }
    }
}

/// Far from the first packet, the sequence number window has exactly W numbers, of which floor(W/4) are not above GSR,
/// and the acknowledgement number window has W' numbers up to GSS (section 7.5.1). The first and last number of each
/// window are valid, their neighbours outside are not. W is no multiple of four, so that the rounding matters.
#[test]
fn windows_have_their_width_far_from_the_first_packet() {
    for widths in [[1_000, 1_001], [1_002, 1_003]] {
        let (mut client, mut server) = (config(Role::Client, "newreno"), config(Role::Server, "newreno"));
        (client.sequence_window, server.sequence_window) = (widths[CLIENT], widths[SERVER]);
        let mut net = Net::new(&client, &server, Link::default(), 1);
        net.run(ms(100));
        net.push_every(ms(7), &[CLIENT, SERVER], 1_100, 10);
        net.run_for(ms(1_000));
        for to in [CLIENT, SERVER] {
            let end = &net.ends[to];
            // W is the Sequence Window of the peer, W' that of this endpoint.
            let (w, own) = (widths[1 - to] as i64, widths[to] as i64);
            let (gsr, gss) = (end.gsr, end.gss);
            assert!(gsr.minus(end.isr.unwrap()) > w && gss.minus(end.iss.unwrap()) > own, "too few packets");
            let below = w / 4;
            let (swl, swh) = (gsr.add(1 - below), gsr.add(w - below));
            let awl = gss.add(1 - own);
            let good = gsr.add(1);
            for (seq, ack, valid) in [
                (swl, gss, true),
                (swl.add(-1), gss, false),
                (swh, gss, true),
                (swh.add(1), gss, false),
                (good, awl, true),
                (good, awl.add(-1), false),
                (good, gss.add(1), false),
            ] {
                let mut end = end.clone();
                end.on_packet(net.now, &packet(Kind::DataAck, seq, ack, &[], &[1; 10]), 0);
                let found = end.stats.out_of_window == 0;
                assert_eq!(found, valid, "W {w}, W' {own}: {seq:?} {ack:?}, GSR {gsr:?}, GSS {gss:?}");
            }
        }
    }
}

/// A Sync beyond SWH is invalid within three round trips of a valid packet, and valid later (section 7.5.3).
#[test]
fn sync_beyond_window_is_accepted_only_when_idle() {
    // The stricter check holds for three round trips of 40 ms.
    let net = busy("newreno");
    for kind in [Kind::Sync, Kind::SyncAck] {
        let mut end = net.ends[SERVER].clone();
        let (_, swh) = end.sequence_window();
        let far = packet_with_options(kind, swh.add(1), end.gss);
        let last = end.valid_at;
        let before = protocol_state(&end);
        end.on_packet(last + ms(120), &far, 0);
        assert_eq!((protocol_state(&end), end.stats.out_of_window), (before, 1), "{kind:?}");
        end.on_packet(last + ms(121), &far, 0);
        assert_eq!(end.gsr, swh.add(1), "{kind:?}");
        // A Sync within the window is always valid.
        let near = packet_with_options(kind, end.gsr.add(1), end.gss);
        end.on_packet(last + ms(121), &near, 0);
        assert_eq!(end.gsr, swh.add(2));
    }
}

/// An Ack Vector that covers packets before the first packet is ignored (section 11.4).
#[test]
fn ack_vector_beyond_first_packet_is_ignored() {
    // The client has sent few packets. The vector reports as received all of these packets, or also a packet before the
    // first.
    let mut net = Net::with("newreno");
    net.run(ms(100));
    net.push(CLIENT, &[1; 100]);
    net.push(CLIENT, &[2; 100]);
    let end = &net.ends[CLIENT];
    let sent = end.gss.minus(end.iss.unwrap()) as u8 + 1;
    for (count, delivered) in [(sent + 1, 100), (sent, 200)] {
        let mut end = end.clone();
        let ack = packet_for(&end, Kind::Ack, &encode(&[Opt::AckVector { nonce: false, runs: &[count - 1] }]));
        end.on_packet(net.now, &ack, 0);
        // If the vector is ignored, the Ack acknowledges only the packet with its acknowledgement number: 100 bytes.
        assert_eq!(end.stats.bytes_delivered, delivered);
    }
}

/// An endpoint sends at most eight Syncs per second.
#[test]
fn sync_rate_is_at_most_eight_per_second() {
    let mut net = busy("newreno");
    let far = net.ends[SERVER].gsr.add(100_000);
    let bytes = packet_with_options(Kind::Data, far, far);
    let before = net.ends[SERVER].stats().syncs_sent;
    for _ in 0..3_000 {
        net.inject(net.now, SERVER, bytes.clone(), 0);
        net.run_for(ms(1));
    }
    assert_eq!(net.ends[SERVER].stats().syncs_sent - before, 24);
    // The client's replies are valid, so the connection stays open.
    assert_eq!(net.states(), (State::Open, State::Open));
}

/// A packet type that the state does not permit triggers a Sync and changes nothing.
#[test]
fn packet_of_unexpected_type_gets_sync() {
    let net = busy("newreno");
    for (to, kind) in [(SERVER, Kind::CloseReq), (SERVER, Kind::Response), (CLIENT, Kind::Request)] {
        let mut end = net.ends[to].clone();
        let before = protocol_state(&end);
        let good = end.gsr.add(1);
        let ack = end.gss;
        end.on_packet(net.now, &packet_with_options(kind, good, ack), 0);
        assert_eq!(protocol_state(&end), before, "{kind:?}");
        assert_eq!(next_header(&mut end, net.now).0.kind, Kind::Sync);
    }
}

/// Endpoints resynchronise after losing more packets than the Sequence Window.
#[test]
fn connection_resynchronises_after_long_loss_burst() {
    // After more losses than the window, packets are invalid until a Sync resynchronises the endpoints.
    let (mut client, server) = (config(Role::Client, "newreno"), config(Role::Server, "newreno"));
    client.sequence_window = 32;
    let mut net = Net::new(&client, &server, Link::default(), 1);
    net.run(ms(1_000));
    net.lose = Box::new(|end, _| end == CLIENT);
    for _ in 0..40 {
        let _ = net.ends[CLIENT].push(net.now, &[1; 10]);
        net.run_for(Nanos::from_secs(1));
    }
    net.lose = Box::new(|_, _| false);
    net.run_for(Nanos::from_secs(70));
    let before = net.ends[SERVER].stats().data_packets_received;
    net.push_every(ms(500), &[CLIENT], 40, 10);
    assert_eq!(net.ends[SERVER].stats().data_packets_received - before, 40);
}

/// Data packets use short sequence numbers if both endpoints agree; otherwise received short numbers are
/// invalid.
#[test]
fn short_numbers_are_used_only_when_agreed() {
    let (mut client, mut server) = (config(Role::Client, "newreno"), config(Role::Server, "newreno"));
    (client.short, server.short) = (true, true);
    // The low 24 bits wrap during the transfer.
    client.first_number = Some((7 << 24) + (1 << 24) - 50);
    let mut net = Net::new(&client, &server, Link { loss: 0.05, ..Link::default() }, 1);
    for _ in 0..400 {
        let _ = net.ends[CLIENT].push(net.now, &[1; 100]);
        net.run_for(ms(10));
    }
    let data = |packet: &&(Nanos, usize, Header)| packet.2.kind == Kind::Data;
    assert!(net.log.iter().filter(data).count() > 200);
    assert!(net.log.iter().filter(data).all(|packet| !packet.2.long && packet.2.len() == 12));
    let stats = net.ends[SERVER].stats();
    assert!(stats.data_packets_received > 300 && stats.out_of_window == 0, "{stats:?}");
    assert!(net.ends[SERVER].gsr.get() > 8 << 24);
    // Short numbers without agreement are invalid.
    let mut net = Net::with("newreno");
    net.run(ms(1_000));
    let mut header = Header::new(Kind::Data);
    (header.source, header.destination, header.long) = (5001, 5001, false);
    header.seq = net.ends[SERVER].gsr.add(1).get() & 0xff_ffff;
    let mut bytes = vec![];
    header.encode(&[], &[1], &mut bytes);
    let before = protocol_state(&net.ends[SERVER]);
    net.ends[SERVER].on_packet(ms(1_000), &bytes, 0);
    assert_eq!(protocol_state(&net.ends[SERVER]), before);
}

/// Transfer, feedback and close work across the wrap of the sequence numbers.
#[test]
fn connection_survives_sequence_wrap_at_2_48() {
    for scheme in ["newreno", "ccid3", "dccp-bbr"] {
        let (mut client, mut server) = (config(Role::Client, scheme), config(Role::Server, scheme));
        client.first_number = Some((1 << 48) - 60);
        server.first_number = Some((1 << 48) - 30);
        let mut net = Net::new(&client, &server, Link::default(), 1);
        net.run(ms(200));
        net.push_every(ms(20), &[CLIENT, SERVER], 200, 500);
        net.run_for(ms(4_000));
        for end in [CLIENT, SERVER] {
            assert!(net.ends[end].gss.get() < 1_000, "{scheme}: {:?}", net.ends[end].gss);
            assert_eq!(net.datagrams(end).len(), 200, "{scheme}");
            let stats = net.ends[end].stats();
            assert_eq!((stats.out_of_window, stats.lost_packets), (0, 0), "{scheme}");
        }
        net.close(SERVER);
        net.run_for(ms(1_000));
        assert_eq!(net.states(), (State::TimeWait, State::Closed));
    }
}
