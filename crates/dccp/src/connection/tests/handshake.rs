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

#[test]
fn a_cookie_comes_back_until_the_connection_is_open() {
    let mut client =
        Connection::new(&config(Role::Client, "newreno"), narrows_cc::Random::stream(1, "end", 0), ms(0));
    let mut bytes = vec![];
    client.poll_transmit(ms(0), &mut bytes).unwrap();
    let (request, _) = Header::decode(&bytes).unwrap();
    let mut response = Header::new(Kind::Response);
    (response.source, response.destination, response.seq, response.ack) =
        (5001, 5001, 500, Some(request.seq));
    let mut options = vec![];
    crate::Opt::InitCookie(b"crumbs").write(&mut options);
    let mut packet = vec![];
    response.encode(&options, &[], &mut packet);
    client.on_packet(ms(40), &packet, 0);
    for at in [40, 240] {
        client.on_timer(ms(at));
        bytes.clear();
        client.poll_transmit(ms(at), &mut bytes).unwrap();
        let (ack, body) = Header::decode(&bytes).unwrap();
        assert_eq!(ack.kind, Kind::Ack);
        let cookie = |option| matches!(option, Ok(crate::Opt::InitCookie(b"crumbs")));
        assert!(crate::options(body.options).any(cookie));
    }
}
