//! The end: from either side, from both, against losses.

use narrows_cc::Nanos;

use super::net::*;
use crate::connection::*;
use crate::{Header, Kind, ResetCode};

fn open(scheme: &str, request: bool) -> Net {
    let mut server = config(Role::Server, scheme);
    server.close_request = request;
    let mut net = Net::new(&config(Role::Client, scheme), &server, Link::default(), 1);
    net.run(ms(100));
    net.push(CLIENT, &[1; 100]);
    net.push(SERVER, &[2; 100]);
    net.run(ms(1_000));
    net.log.clear();
    net
}

fn of_close(net: &Net, end: usize) -> Vec<Kind> {
    let kinds = [Kind::CloseReq, Kind::Close, Kind::Reset];
    net.sent(end).into_iter().filter(|kind| kinds.contains(kind)).collect()
}

#[test]
fn a_client_closes_and_keeps_timewait() {
    let mut net = open("newreno", true);
    net.close(CLIENT);
    net.run(ms(2_000));
    assert_eq!((of_close(&net, CLIENT), of_close(&net, SERVER)), (vec![Kind::Close], vec![Kind::Reset]));
    assert_eq!(net.states(), (State::TimeWait, State::Closed));
    // Two lives of a packet after the Reset, which arrives at 1.04 s.
    assert_eq!(net.ends[CLIENT].deadline(), ms(241_040));
    net.run(ms(241_041));
    assert_eq!(net.states().0, State::Closed);
}

#[test]
fn a_server_asks_the_client_to_close_or_does_it_itself() {
    let mut net = open("newreno", true);
    net.close(SERVER);
    net.run(ms(2_000));
    assert_eq!(of_close(&net, SERVER), [Kind::CloseReq, Kind::Reset]);
    assert_eq!(of_close(&net, CLIENT), [Kind::Close]);
    assert_eq!(net.states(), (State::TimeWait, State::Closed));
    let mut net = open("newreno", false);
    net.close(SERVER);
    net.run(ms(2_000));
    assert_eq!((of_close(&net, SERVER), of_close(&net, CLIENT)), (vec![Kind::Close], vec![Kind::Reset]));
    assert_eq!(net.states(), (State::Closed, State::TimeWait));
}

#[test]
fn both_may_close_at_once() {
    for request in [true, false] {
        let mut net = open("newreno", request);
        let now = net.now;
        net.ends[SERVER].close(now);
        net.close(CLIENT);
        net.run(ms(500_000));
        assert_eq!(net.states(), (State::Closed, State::Closed));
        for end in [CLIENT, SERVER] {
            assert_eq!(net.events[end].last(), Some(&Event::Closed { code: ResetCode::Closed as u8 }));
            assert!(!net.events[end].contains(&Event::PeerGone));
        }
    }
}

#[test]
fn what_was_pushed_is_sent_before_the_end() {
    let mut net = open("bbr", true);
    for i in 0..100 {
        net.push(CLIENT, &[i; 1_000]);
    }
    net.close(CLIENT);
    let now = net.now;
    assert_eq!(net.ends[CLIENT].push(now, &[0]), Err(PushError::Closed));
    net.run(ms(5_000));
    assert_eq!(net.datagrams(SERVER).len(), 101);
    assert_eq!(net.states(), (State::TimeWait, State::Closed));
}

#[test]
fn any_packet_of_the_end_may_be_lost() {
    for by in [CLIENT, SERVER] {
        for kind in [Kind::CloseReq, Kind::Close, Kind::Reset] {
            let mut net = open("newreno", true);
            let mut lost = false;
            net.lose = Box::new(move |_, header| header.kind == kind && !std::mem::replace(&mut lost, true));
            net.close(by);
            net.run(ms(10_000));
            // What closes is repeated after two round trips of 40 ms.
            let (client, server) = net.states();
            assert!(client.is_over() && server.is_over(), "{by} {kind:?}: {client:?} {server:?}");
            for end in [CLIENT, SERVER] {
                assert!(
                    matches!(net.events[end].last(), Some(Event::Closed { code: 1 | 3 })),
                    "{by} {kind:?}"
                );
            }
            if kind == Kind::Close {
                let closes = net.times(CLIENT, Kind::Close);
                assert_eq!(closes[1] - closes[0], ms(80));
            }
        }
    }
}

#[test]
fn a_close_on_a_short_path_waits_for_the_turn_of_the_other_process() {
    let mut net = open("newreno", false);
    net.link.delay = Nanos::from_micros(15);
    for _ in 0..100 {
        net.push(CLIENT, &[1; 100]);
        net.run_for(ms(1));
    }
    assert!(net.ends[CLIENT].srtt() < ms(1));
    // The answer takes 9 ms: the other process was busy.
    let now = net.now;
    net.ends[CLIENT].close(now);
    let mut close = vec![];
    net.ends[CLIENT].poll_transmit(now, &mut close).expect("a Close");
    net.run_for(ms(9));
    assert_eq!(of_close(&net, CLIENT), [], "not repeated yet");
    net.run_for(ms(2));
    assert_eq!(of_close(&net, CLIENT), [Kind::Close]);
}

#[test]
fn a_close_that_nobody_answers_is_given_up_after_four_lives() {
    for by in [CLIENT, SERVER] {
        let mut net = open("newreno", true);
        net.lose = Box::new(|_, _| true);
        net.close(by);
        net.run(ms(1_000_000));
        assert_eq!(net.times(by, Kind::Reset), [ms(481_000)]);
        assert_eq!(net.ends[by].state(), State::Closed);
        assert!(net.events[by].contains(&Event::PeerGone));
        let kind = if by == CLIENT { Kind::Close } else { Kind::CloseReq };
        let times = net.times(by, kind);
        assert_eq!(times[..4], [ms(1_000), ms(1_080), ms(1_240), ms(1_560)]);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= Nanos::from_secs(64)));
    }
}

#[test]
fn an_abort_tells_its_code() {
    let mut net = open("newreno", true);
    let now = net.now;
    net.ends[SERVER].abort(now, ResetCode::AggressionPenalty);
    net.run(ms(2_000));
    assert_eq!(net.states(), (State::TimeWait, State::Closed));
    assert_eq!(net.events[CLIENT].last(), Some(&Event::Closed { code: ResetCode::AggressionPenalty as u8 }));
}

#[test]
fn after_the_end_packets_are_refused_but_resets_are_not_answered() {
    let mut net = open("newreno", true);
    net.close(CLIENT);
    net.run(ms(2_000));
    net.log.clear();
    for kind in [Kind::Reset, Kind::Data, Kind::Close] {
        let mut header = Header::new(kind);
        (header.source, header.destination, header.seq) = (5001, 5001, 4_242);
        let mut bytes = vec![];
        header.encode(&[], &[], &mut bytes);
        for _ in 0..10 {
            let now = net.now;
            net.inject(now, CLIENT, bytes.clone(), 0);
        }
        net.run_for(ms(130));
    }
    // One for ten Data packets that come at once, one for ten Closes.
    let refusals: Vec<u64> = net.log.iter().map(|(_, _, header)| header.seq).collect();
    assert_eq!(refusals, [0, 1], "zero for packets without acknowledgement number, else one more than that");
    assert_eq!(net.states().0, State::TimeWait);
}
