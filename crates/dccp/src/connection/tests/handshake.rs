//! Three ways: Request, Response, Ack.

use super::net::*;
use crate::connection::*;
use crate::{Header, Kind, ResetCode};

#[test]
fn a_handshake_takes_three_packets_and_a_round_trip_and_a_half() {
    let mut net = Net::with("newreno");
    net.run(ms(100));
    assert_eq!(net.sent(CLIENT)[..2], [Kind::Request, Kind::Ack]);
    assert_eq!(net.sent(SERVER), [Kind::Response]);
    assert_eq!(net.times(CLIENT, Kind::Ack)[0], ms(40));
    assert_eq!(net.states(), (State::PartOpen, State::Open));
    assert_eq!(
        (&net.events[CLIENT][..], &net.events[SERVER][..]),
        (&[Event::Connected][..], &[Event::Connected][..])
    );
    // One exact sample each: from Request to Response, from Response to Ack.
    assert_eq!(net.ends.each_ref().map(|end| end.last_rtt()), [Some(ms(40)), Some(ms(40))]);
    assert_eq!(net.ends[0].ccids(), (crate::Ccid::Other, crate::Ccid::Other));
}

#[test]
fn data_flows_one_way_and_the_connection_closes() {
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

#[test]
fn any_one_packet_of_the_handshake_may_be_lost() {
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
                let now = net.now;
                net.ends[CLIENT].push(now, &[i; 100]).unwrap();
            }
            net.run(ms(20_000));
            assert_eq!(net.states(), (State::Open, State::Open), "packet {n} of {side}");
            // Datagrams are not sent twice: at most the one that was lost is missing.
            assert!(net.datagrams(SERVER).len() >= 19, "packet {n} of {side}");
            assert_eq!(net.ends[CLIENT].ccids(), net.ends[SERVER].ccids());
            assert_eq!(
                net.ends[CLIENT]
                    .features()
                    .value(crate::feature::SEND_ACK_VECTOR, crate::feature::Side::Remote),
                1
            );
        }
    }
}

#[test]
fn a_request_is_repeated_with_back_off_and_given_up() {
    let mut net = Net::with("newreno");
    net.lose = Box::new(|_, _| true);
    net.run(Nanos::from_secs(1_000));
    // After 1 s, then 2, 4, 8, 16, 32, 64: the next would come after the limit of 180 s.
    let expected: Vec<Nanos> = [0, 1, 3, 7, 15, 31, 63, 127].map(Nanos::from_secs).to_vec();
    assert_eq!(net.times(CLIENT, Kind::Request), expected);
    assert_eq!(net.times(CLIENT, Kind::Reset), [Nanos::from_secs(180)]);
    let last = net.log.last().unwrap().2;
    assert_eq!(last.reset.0, ResetCode::Aborted as u8);
    let code = ResetCode::Aborted as u8;
    assert_eq!(net.events[CLIENT], [Event::PeerGone, Event::Closed { code }]);
    assert_eq!(net.states().0, State::Closed);
    assert_eq!(net.ends[CLIENT].deadline(), Nanos::MAX);
    // Each has a number of its own.
    let numbers: Vec<u64> = net.log.iter().map(|(_, _, header)| header.seq).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == (pair[0] + 1) % (1 << 48)));
}

#[test]
fn acknowledgements_are_repeated_in_partopen_and_given_up_after_four_lives() {
    let mut net = Net::with("newreno");
    net.lose =
        Box::new(|end, header| header.kind == Kind::Reset || (end == CLIENT && header.kind != Kind::Request));
    net.run(Nanos::from_secs(1_000));
    let acks = net.times(CLIENT, Kind::Ack);
    assert_eq!(acks[..4], [ms(40), ms(240), ms(640), ms(1_440)]);
    assert_eq!(net.times(CLIENT, Kind::Reset), [Nanos::from_secs(480) + ms(40)]);
    assert!(net.events[CLIENT].contains(&Event::PeerGone));
    // The server leaves RESPOND as late.
    assert_eq!(net.times(SERVER, Kind::Reset), [Nanos::from_secs(480) + ms(20)]);
    assert_eq!(net.states(), (State::Closed, State::Closed));
}

#[test]
fn the_wrong_service_and_strange_packets_are_refused() {
    let mut server = config(Role::Server, "newreno");
    server.service = 7;
    let mut net = Net::new(&config(Role::Client, "newreno"), &server, Link::default(), 1);
    net.run(ms(500));
    assert_eq!(net.states(), (State::TimeWait, State::Listen));
    assert_eq!(net.events[CLIENT], [Event::Closed { code: ResetCode::BadServiceCode as u8 }]);
    // Section 8.3.1: the Reset answers with the numbers that the packet gives.
    let mut ack = Header::new(Kind::Ack);
    (ack.source, ack.destination, ack.seq, ack.ack) = (5001, 5001, 1000, Some(77));
    let mut bytes = vec![];
    ack.encode(&[], &[], &mut bytes);
    net.inject(ms(600), SERVER, bytes, 0);
    net.run(ms(700));
    let reset = net.log.last().unwrap().2;
    assert_eq!((reset.kind, reset.seq, reset.ack), (Kind::Reset, 78, Some(1000)));
    assert_eq!(reset.reset.0, ResetCode::NoConnection as u8);
}

/// A client that has asked, and what a Response with these options to its last Request looks like.
fn asked(options: &[u8]) -> (Connection, Vec<u8>) {
    let random = narrows_cc::Random::stream(1, "end", 0);
    let mut client = Connection::new(&config(Role::Client, "newreno"), random, ms(0));
    let mut bytes = vec![];
    client.poll_transmit(ms(0), &mut bytes).unwrap();
    (client, response(500, &bytes, options))
}

fn response(seq: u64, request: &[u8], options: &[u8]) -> Vec<u8> {
    let (request, _) = Header::decode(request).unwrap();
    let mut response = Header::new(Kind::Response);
    (response.source, response.destination) = (5001, 5001);
    (response.seq, response.ack) = (seq, Some(request.seq));
    let mut packet = vec![];
    response.encode(options, &[], &mut packet);
    packet
}

fn cookies(values: &[&[u8]]) -> Vec<u8> {
    let mut options = vec![];
    for value in values {
        crate::Opt::InitCookie(value).write(&mut options);
    }
    options
}

/// The next packet: its header, and the options in it that are Init Cookies.
fn next(end: &mut Connection, at: Nanos) -> (Header, Vec<Vec<u8>>) {
    let mut bytes = vec![];
    end.poll_transmit(at, &mut bytes).unwrap();
    let (header, body) = Header::decode(&bytes).unwrap();
    let found = crate::options(body.options).filter_map(|option| match option {
        Ok(crate::Opt::InitCookie(value)) => Some(value.to_vec()),
        _ => None,
    });
    (header, found.collect())
}

#[test]
fn cookies_come_back_in_every_packet_until_the_connection_is_open() {
    // Section 8.1.4: all of them, in their order; those of the Response that is acknowledged.
    let (mut client, packet) = asked(&cookies(&[b"first", b"second"]));
    client.on_packet(ms(40), &packet, 0);
    let returned = [b"first".to_vec(), b"second".to_vec()];
    for at in [40, 240] {
        client.on_timer(ms(at));
        let (ack, found) = next(&mut client, ms(at));
        assert_eq!((ack.kind, &found[..]), (Kind::Ack, &returned[..]));
    }
    // A Sync gets them too, also one that answers a packet from nowhere.
    let mut stray = Header::new(Kind::Data);
    (stray.source, stray.destination, stray.seq) = (5001, 5001, 1 << 40);
    let mut bytes = vec![];
    stray.encode(&[], &[1], &mut bytes);
    client.on_packet(ms(250), &bytes, 0);
    let (sync, found) = next(&mut client, ms(250));
    assert_eq!((sync.kind, &found[..]), (Kind::Sync, &returned[..]));
    // Another Response: another cookie, and none of the old ones.
    let mut request = Header::new(Kind::Request);
    request.seq = client.iss.unwrap().get();
    let mut bytes = vec![];
    request.encode(&[], &[], &mut bytes);
    client.on_packet(ms(260), &response(501, &bytes, &cookies(&[b"third"])), 0);
    let (ack, found) = next(&mut client, ms(260));
    assert_eq!((ack.kind, ack.ack, &found[..]), (Kind::Ack, Some(501), &[b"third".to_vec()][..]));
    client.on_packet(ms(280), &from_server(&client, Kind::Ack, 502), 0);
    assert_eq!(client.state(), State::Open);
    client.on_packet(ms(290), &from_server(&client, Kind::Sync, 503), 0);
    assert_eq!(next(&mut client, ms(290)).1, Vec::<Vec<u8>>::new());
    // More than an answer may hold ends it.
    let (mut client, packet) = asked(&cookies(&[&[1; 250], &[2; 250]]));
    client.on_packet(ms(40), &packet, 0);
    assert_eq!(next(&mut client, ms(40)).0.reset, (ResetCode::OptionError as u8, [36, 0, 0]));
}

/// A packet of the server that acknowledges all.
fn from_server(client: &Connection, kind: Kind, seq: u64) -> Vec<u8> {
    let mut header = Header::new(kind);
    (header.source, header.destination) = (5001, 5001);
    (header.seq, header.ack) = (seq, Some(client.gss.get()));
    let mut bytes = vec![];
    header.encode(&[], &[], &mut bytes);
    bytes
}

#[test]
fn a_half_open_connection_is_cleaned_up() {
    // The third example of section 7.5.6: the client has crashed and asks again from number 400; the server, at 10, is open.
    let mut config = config(Role::Client, "newreno");
    config.first_number = Some(400);
    let mut client = Connection::new(&config, narrows_cc::Random::stream(1, "end", 0), ms(0));
    assert_eq!(next(&mut client, ms(0)).0.seq, 400);
    let mut sync = Header::new(Kind::Sync);
    (sync.source, sync.destination, sync.seq, sync.ack) = (5001, 5001, 11, Some(400));
    let mut bytes = vec![];
    sync.encode(&[], &[], &mut bytes);
    client.on_packet(ms(40), &bytes, 0);
    let reset = next(&mut client, ms(40)).0;
    assert_eq!((reset.kind, reset.seq, reset.ack), (Kind::Reset, 401, Some(11)));
    assert_eq!(reset.reset.0, ResetCode::PacketError as u8);
    assert_eq!(client.state(), State::Request);
    client.on_timer(ms(1_000));
    assert_eq!(next(&mut client, ms(1_000)).0.seq, 402);
    // A packet without acknowledgement number gets a Reset with the next number too, not with 0.
    let mut data = Header::new(Kind::Data);
    (data.source, data.destination, data.seq) = (5001, 5001, 12);
    let mut bytes = vec![];
    data.encode(&[], &[1], &mut bytes);
    client.on_packet(ms(1_100), &bytes, 0);
    let reset = next(&mut client, ms(1_100)).0;
    assert_eq!((reset.kind, reset.seq, reset.ack), (Kind::Reset, 403, Some(12)));
}

#[test]
fn a_refusal_of_short_numbers_has_short_numbers() {
    // Section 8.3.1: the upper halves are zero, also where P.ackno + 1 goes round.
    let mut server =
        Connection::new(&config(Role::Server, "newreno"), narrows_cc::Random::stream(1, "end", 0), ms(0));
    let mut ack = Header::new(Kind::Ack);
    (ack.source, ack.destination, ack.long, ack.seq, ack.ack) = (5001, 5001, false, 9, Some(0xff_ffff));
    let mut bytes = vec![];
    ack.encode(&[], &[], &mut bytes);
    server.on_packet(ms(0), &bytes, 0);
    let reset = next(&mut server, ms(0)).0;
    assert_eq!((reset.kind, reset.seq, reset.ack), (Kind::Reset, 0, Some(9)));
}

#[test]
fn the_service_of_all_ones_is_refused() {
    // Section 8.1.2: by a server that was given it, too.
    let (mut client, mut server) = (config(Role::Client, "newreno"), config(Role::Server, "newreno"));
    (client.service, server.service) = (u32::MAX, u32::MAX);
    let mut net = Net::new(&client, &server, Link::default(), 1);
    net.run(ms(500));
    assert_eq!(net.events[CLIENT], [Event::Closed { code: ResetCode::BadServiceCode as u8 }]);
}

#[test]
fn data_waits_for_the_vectors_that_ccid_2_needs() {
    // RFC 4341 section 4: Change R(Send Ack Vector, 1) is to be confirmed first. The first Response, which does that, is lost as
    // far as that option goes: its successor is the answer to the client's Ack.
    let mut net = Net::with("ccid2");
    net.run(ms(19));
    net.push(CLIENT, &[1; 100]);
    net.run(ms(39));
    assert_eq!(net.ends[CLIENT].stats().data_packets_sent, 0);
    net.run(ms(45));
    assert!(
        !net.ends[CLIENT]
            .features()
            .is_changing(crate::feature::SEND_ACK_VECTOR, crate::feature::Side::Remote)
    );
    assert_eq!(net.ends[CLIENT].stats().data_packets_sent, 1);
    let mut silent = Net::with("ccid2");
    silent.run(ms(45));
    let end = &mut silent.ends[CLIENT];
    end.features.set_preferences(crate::feature::SEND_ACK_VECTOR, crate::feature::Side::Remote, &[0]);
    end.features.request(ms(45), crate::feature::SEND_ACK_VECTOR, crate::feature::Side::Remote, &[0], false);
    silent.push(CLIENT, &[1; 100]);
    assert_eq!(silent.ends[CLIENT].stats().data_packets_sent, 0, "a change is under way");
    silent.run(ms(200));
    assert_eq!(silent.ends[CLIENT].stats().data_packets_sent, 1);
}
