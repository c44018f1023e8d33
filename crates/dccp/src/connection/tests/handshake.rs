//! Tests of the three-way handshake: Request, Response, Ack.

use super::net::*;
use crate::connection::*;
use crate::feature::{SEND_ACK_VECTOR, Side};
use crate::{Ccid, Header, Kind, Opt, ResetCode, Seq};

/// The handshake takes three packets and yields one round-trip sample at each endpoint.
#[test]
fn handshake_takes_three_packets() {
    let mut net = Net::with("newreno");
    net.run(ms(100));
    assert_eq!(net.sent(CLIENT)[..2], [Kind::Request, Kind::Ack]);
    assert_eq!(net.sent(SERVER), [Kind::Response]);
    assert_eq!(net.times(CLIENT, Kind::Ack)[0], ms(40));
    assert_eq!(net.states(), (State::PartOpen, State::Open));
    assert_eq!((&net.events[CLIENT][..], &net.events[SERVER][..]), (&[Event::Connected][..], &[Event::Connected][..]));
    // Each endpoint has one exact sample: from Request to Response, and from Response to Ack.
    assert_eq!(net.ends.each_ref().map(|end| end.last_rtt()), [Some(ms(40)), Some(ms(40))]);
    assert_eq!(net.ends[0].ccids(), (Ccid::Other, Ccid::Other));
}

/// A client transfers data to the server and closes the connection.
#[test]
fn connection_transfers_data_and_closes() {
    for scheme in ["newreno", "cubic", "bbr", "bbr3"] {
        let mut net = Net::with(scheme);
        net.run(ms(100));
        for i in 0..200u8 {
            net.push(CLIENT, &[i; 1000]);
        }
        net.run(ms(2_000));
        let expected: Vec<Vec<u8>> = (0..200).map(|i| vec![i; 1000]).collect();
        assert_eq!(net.datagrams(SERVER), expected, "{scheme}");
        let stats = *net.ends[CLIENT].stats();
        assert_eq!((stats.bytes_delivered, stats.lost_packets, stats.timeouts), (200_000, 0, 0), "{scheme}");
        net.close(CLIENT);
        net.run_for(ms(300));
        assert_eq!(net.states(), (State::TimeWait, State::Closed));
        let code = ResetCode::Closed as u8;
        assert_eq!(net.events[CLIENT].last(), Some(&Event::Closed { code }));
        assert_eq!(net.events[SERVER].last(), Some(&Event::Closed { code }));
    }
}

/// The handshake succeeds if any one of its packets is lost.
#[test]
fn handshake_survives_loss_of_any_packet() {
    for side in [CLIENT, SERVER] {
        for n in 0..4 {
            let mut net = Net::with("newreno");
            let mut seen = 0;
            net.lose = Box::new(move |end, _| {
                seen += usize::from(end == side);
                end == side && seen == n + 1
            });
            net.run(ms(100));
            for i in 0..20 {
                net.ends[CLIENT].push(net.now, &[i; 100]).unwrap();
            }
            net.run(ms(20_000));
            assert_eq!(net.states(), (State::Open, State::Open), "packet {n} of {side}");
            // Datagrams are not retransmitted, so the lost datagram, but no other, may be missing.
            assert!(net.datagrams(SERVER).len() >= 19, "packet {n} of {side}");
            assert_eq!(net.ends[CLIENT].ccids(), net.ends[SERVER].ccids());
            assert_eq!(net.ends[CLIENT].features().value(SEND_ACK_VECTOR, Side::Remote), 1);
        }
    }
}

/// An unanswered Request is retransmitted with back-off, under new sequence numbers, and aborted after the
/// limit.
#[test]
fn request_unanswered_backs_off_and_aborts() {
    let mut net = Net::with("newreno");
    net.lose = Box::new(|_, _| true);
    net.run(Nanos::from_secs(1_000));
    // The Request is retransmitted after 1 s, then after 2, 4, 8, 16, 32 and 64 s; the next time would exceed the limit
    // of 180 s.
    let expected: Vec<Nanos> = [0, 1, 3, 7, 15, 31, 63, 127].map(Nanos::from_secs).to_vec();
    assert_eq!(net.times(CLIENT, Kind::Request), expected);
    assert_eq!(net.times(CLIENT, Kind::Reset), [Nanos::from_secs(180)]);
    let last = net.log.last().unwrap().2;
    assert_eq!(last.reset.0, ResetCode::Aborted as u8);
    let code = ResetCode::Aborted as u8;
    assert_eq!(net.events[CLIENT], [Event::PeerGone, Event::Closed { code }]);
    assert_eq!(net.states().0, State::Closed);
    assert_eq!(net.ends[CLIENT].deadline(), Nanos::MAX);
    // Each retransmission has a new sequence number.
    let numbers: Vec<u64> = net.log.iter().map(|(_, _, header)| header.seq).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == (pair[0] + 1) % (1 << 48)));
}

/// An endpoint in PARTOPEN retransmits its Ack and aborts after 4 MSL; the server leaves RESPOND after the same time.
#[test]
fn partopen_unanswered_aborts_after_four_msl() {
    let mut net = Net::with("newreno");
    net.lose = Box::new(|end, header| header.kind == Kind::Reset || (end == CLIENT && header.kind != Kind::Request));
    net.run(Nanos::from_secs(1_000));
    let acks = net.times(CLIENT, Kind::Ack);
    assert_eq!(acks[..4], [ms(40), ms(240), ms(640), ms(1_440)]);
    assert_eq!(net.times(CLIENT, Kind::Reset), [Nanos::from_secs(480) + ms(40)]);
    assert!(net.events[CLIENT].contains(&Event::PeerGone));
    // The server leaves RESPOND after the same time.
    assert_eq!(net.times(SERVER, Kind::Reset), [Nanos::from_secs(480) + ms(20)]);
    assert_eq!(net.states(), (State::Closed, State::Closed));
}

/// A listening server resets Requests for another service code and all other packets.
#[test]
fn listen_wrong_service_or_type_gets_reset() {
    let mut server = config(Role::Server, "newreno");
    server.service = 7;
    let mut net = Net::new(&config(Role::Client, "newreno"), &server, Link::default(), 1);
    net.run(ms(500));
    assert_eq!(net.states(), (State::TimeWait, State::Listen));
    assert_eq!(net.events[CLIENT], [Event::Closed { code: ResetCode::BadServiceCode as u8 }]);
    // Section 8.3.1: the Reset derives its numbers from the packet.
    let ack = packet(Kind::Ack, Seq::new(1000), Seq::new(77), &[], &[]);
    net.inject(ms(600), SERVER, ack, 0);
    net.run(ms(700));
    let reset = net.log.last().unwrap().2;
    assert_eq!((reset.kind, reset.seq, reset.ack), (Kind::Reset, 78, Some(1000)));
    assert_eq!(reset.reset.0, ResetCode::NoConnection as u8);
}

/// A client that sent its Request, and the Response with these options.
fn requested(options: &[u8]) -> (Connection, Vec<u8>) {
    let random = narrows_cc::Random::stream(1, "end", 0);
    let mut client = Connection::new(&config(Role::Client, "newreno"), random, ms(0));
    let (request, _) = next_header(&mut client, ms(0));
    (client, packet(Kind::Response, Seq::new(500), Seq::new(request.seq), options, &[]))
}

fn cookies(values: &[&[u8]]) -> Vec<u8> {
    values.iter().flat_map(|value| encode(&[Opt::InitCookie(value)])).collect()
}

/// The next packet: header and Init Cookies.
fn next(end: &mut Connection, at: Nanos) -> (Header, Vec<Vec<u8>>) {
    let (header, options) = next_header(end, at);
    (header, init_cookies(&options))
}

/// A client returns the cookies of the acknowledged Response in every packet until OPEN, in order (section
/// 8.1.4).
#[test]
fn init_cookies_are_returned_until_open() {
    // All cookies of the acknowledged Response, in order.
    let (mut client, response) = requested(&cookies(&[b"first", b"second"]));
    client.on_packet(ms(40), &response, 0);
    let returned = [b"first".to_vec(), b"second".to_vec()];
    for at in [40, 240] {
        client.on_timer(ms(at));
        let (ack, found) = next(&mut client, ms(at));
        assert_eq!((ack.kind, &found[..]), (Kind::Ack, &returned[..]));
    }
    // Syncs return the cookies too, even in reply to an invalid packet.
    client.on_packet(ms(250), &packet(Kind::Data, Seq::new(1 << 40), Seq::new(0), &[], &[1]), 0);
    let (sync, found) = next(&mut client, ms(250));
    assert_eq!((sync.kind, &found[..]), (Kind::Sync, &returned[..]));
    // Another Response replaces the cookies.
    let iss = client.iss.unwrap();
    let response = packet(Kind::Response, Seq::new(501), iss, &cookies(&[b"third"]), &[]);
    client.on_packet(ms(260), &response, 0);
    let (ack, found) = next(&mut client, ms(260));
    assert_eq!((ack.kind, ack.ack, &found[..]), (Kind::Ack, Some(501), &[b"third".to_vec()][..]));
    client.on_packet(ms(280), &from_server(&client, Kind::Ack, 502), 0);
    assert_eq!(client.state(), State::Open);
    client.on_packet(ms(290), &from_server(&client, Kind::Sync, 503), 0);
    assert_eq!(next(&mut client, ms(290)).1, Vec::<Vec<u8>>::new());
    // Cookies that exceed the reply limit end the connection.
    let (mut client, response) = requested(&cookies(&[&[1; 250], &[2; 250]]));
    client.on_packet(ms(40), &response, 0);
    assert_eq!(next(&mut client, ms(40)).0.reset, (ResetCode::OptionError as u8, [36, 0, 0]));
}

/// A packet of the server that acknowledges GSS.
fn from_server(client: &Connection, kind: Kind, seq: u64) -> Vec<u8> {
    packet(kind, Seq::new(seq), client.gss, &[], &[])
}

/// A client that restarted resets the half-open connection of its peer (third example of section 7.5.6).
#[test]
fn handshake_with_half_open_peer_resets_it() {
    // The client has restarted with sequence number 400; the server is OPEN at 10.
    let mut config = config(Role::Client, "newreno");
    config.first_number = Some(400);
    let mut client = Connection::new(&config, narrows_cc::Random::stream(1, "end", 0), ms(0));
    assert_eq!(next(&mut client, ms(0)).0.seq, 400);
    client.on_packet(ms(40), &packet(Kind::Sync, Seq::new(11), Seq::new(400), &[], &[]), 0);
    let reset = next(&mut client, ms(40)).0;
    assert_eq!((reset.kind, reset.seq, reset.ack), (Kind::Reset, 401, Some(11)));
    assert_eq!(reset.reset.0, ResetCode::PacketError as u8);
    assert_eq!(client.state(), State::Request);
    client.on_timer(ms(1_000));
    assert_eq!(next(&mut client, ms(1_000)).0.seq, 402);
    // A Reset for a packet without acknowledgement number also uses the next number, not 0.
    client.on_packet(ms(1_100), &packet(Kind::Data, Seq::new(12), Seq::new(0), &[], &[1]), 0);
    let reset = next(&mut client, ms(1_100)).0;
    assert_eq!((reset.kind, reset.seq, reset.ack), (Kind::Reset, 403, Some(12)));
}

/// A Reset for a packet with short numbers has zero upper bits (section 8.3.1), even if P.ackno + 1 wraps.
#[test]
fn reset_of_short_number_packet_has_upper_bits_zero() {
    // The acknowledgement number is the greatest 24-bit number, so P.ackno + 1 wraps.
    let mut server = Connection::new(&config(Role::Server, "newreno"), narrows_cc::Random::stream(1, "end", 0), ms(0));
    let mut ack = Header::new(Kind::Ack);
    (ack.source, ack.destination, ack.long, ack.seq, ack.ack) = (5001, 5001, false, 9, Some(0xff_ffff));
    let mut bytes = vec![];
    ack.encode(&[], &[], &mut bytes);
    server.on_packet(ms(0), &bytes, 0);
    let reset = next(&mut server, ms(0)).0;
    assert_eq!((reset.kind, reset.seq, reset.ack), (Kind::Reset, 0, Some(9)));
}

/// Service code 4294967295 is invalid (section 8.1.2), even for a server configured with it.
#[test]
fn listen_service_of_all_ones_is_rejected() {
    // Client and server are configured with this code.
    let (mut client, mut server) = (config(Role::Client, "newreno"), config(Role::Server, "newreno"));
    (client.service, server.service) = (u32::MAX, u32::MAX);
    let mut net = Net::new(&client, &server, Link::default(), 1);
    net.run(ms(500));
    assert_eq!(net.events[CLIENT], [Event::Closed { code: ResetCode::BadServiceCode as u8 }]);
}

/// CCID 2 sends no data before the peer confirms Send Ack Vector (RFC 4341 section 4).
#[test]
fn ccid2_data_waits_for_send_ack_vector() {
    // The Response confirms Change R(Send Ack Vector, 1); it arrives at 40 ms.
    let mut net = Net::with("ccid2");
    net.run(ms(19));
    net.push(CLIENT, &[1; 100]);
    net.run(ms(39));
    assert_eq!(net.ends[CLIENT].stats().data_packets_sent, 0);
    net.run(ms(45));
    assert!(!net.ends[CLIENT].features().is_changing(SEND_ACK_VECTOR, Side::Remote));
    assert_eq!(net.ends[CLIENT].stats().data_packets_sent, 1);
    let mut silent = Net::with("ccid2");
    silent.run(ms(45));
    let end = &mut silent.ends[CLIENT];
    end.features.set_preferences(SEND_ACK_VECTOR, Side::Remote, &[0]);
    end.features.request(ms(45), SEND_ACK_VECTOR, Side::Remote, &[0], false);
    silent.push(CLIENT, &[1; 100]);
    assert_eq!(silent.ends[CLIENT].stats().data_packets_sent, 0, "a Change is outstanding");
    silent.run(ms(200));
    assert_eq!(silent.ends[CLIENT].stats().data_packets_sent, 1);
}
