//! Close by the client, by the server and by both, with losses.

use narrows_cc::Nanos;

use super::net::*;
use crate::connection::*;
use crate::{Kind, ResetCode, Seq};

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

/// A closing client receives the Reset and holds TIMEWAIT for 2 MSL.
#[test]
fn close_by_client_holds_timewait_for_two_msl() {
    let mut net = open("newreno", true);
    net.close(CLIENT);
    net.run(ms(2_000));
    assert_eq!((of_close(&net, CLIENT), of_close(&net, SERVER)), (vec![Kind::Close], vec![Kind::Reset]));
    assert_eq!(net.states(), (State::TimeWait, State::Closed));
    // TIMEWAIT ends 2 MSL after the arrival of the Reset at 1.04 s.
    assert_eq!(net.ends[CLIENT].deadline(), ms(241_040));
    net.run(ms(241_041));
    assert_eq!(net.states().0, State::Closed);
}

/// A closing server sends CloseReq, or Close if configured.
#[test]
fn close_by_server_sends_close_req_or_close() {
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

/// The close succeeds if both endpoints close at the same time.
#[test]
fn close_by_both_endpoints_succeeds() {
    for request in [true, false] {
        let mut net = open("newreno", request);
        net.ends[SERVER].close(net.now);
        net.close(CLIENT);
        net.run(ms(500_000));
        assert_eq!(net.states(), (State::Closed, State::Closed));
        for end in [CLIENT, SERVER] {
            assert_eq!(net.events[end].last(), Some(&Event::Closed { code: ResetCode::Closed as u8 }));
            assert!(!net.events[end].contains(&Event::PeerGone));
        }
    }
}

/// A closing endpoint sends its queue first and accepts no more data.
#[test]
fn close_sends_queued_data_first() {
    let mut net = open("bbr", true);
    for i in 0..100 {
        net.push(CLIENT, &[i; 1_000]);
    }
    net.close(CLIENT);
    assert_eq!(net.ends[CLIENT].push(net.now, &[0]), Err(PushError::Closed));
    net.run(ms(5_000));
    assert_eq!(net.datagrams(SERVER).len(), 101);
    assert_eq!(net.states(), (State::TimeWait, State::Closed));
}

/// The close succeeds if any one of its packets is lost.
#[test]
fn close_survives_loss_of_any_packet() {
    for by in [CLIENT, SERVER] {
        for kind in [Kind::CloseReq, Kind::Close, Kind::Reset] {
            let mut net = open("newreno", true);
            let mut lost = false;
            net.lose = Box::new(move |_, header| header.kind == kind && !std::mem::replace(&mut lost, true));
            net.close(by);
            net.run(ms(10_000));
            let (client, server) = net.states();
            assert!(client.is_over() && server.is_over(), "{by} {kind:?}: {client:?} {server:?}");
            for end in [CLIENT, SERVER] {
                assert!(matches!(net.events[end].last(), Some(Event::Closed { code: 1 | 3 })), "{by} {kind:?}");
            }
            // A lost Close is retransmitted after two round trips of 40 ms.
            if kind == Kind::Close {
                let closes = net.times(CLIENT, Kind::Close);
                assert_eq!(closes[1] - closes[0], ms(80));
            }
        }
    }
}

/// On a path of microseconds a Close is retransmitted only after 10 ms, because the peer's process may have
/// to wait for the CPU.
#[test]
fn close_on_short_path_waits_for_scheduling_delay() {
    let mut net = open("newreno", false);
    net.link.delay = Nanos::from_micros(15);
    net.push_every(ms(1), &[CLIENT], 100, 100);
    assert!(net.ends[CLIENT].srtt().unwrap() < ms(1));
    // The reply takes 9 ms, because the peer's process waits for the CPU.
    net.ends[CLIENT].close(net.now);
    next_packet(&mut net.ends[CLIENT], net.now).expect("a Close");
    net.run_for(ms(9));
    assert_eq!(of_close(&net, CLIENT), [], "not repeated yet");
    net.run_for(ms(2));
    assert_eq!(of_close(&net, CLIENT), [Kind::Close]);
}

/// An unanswered close is retransmitted with back-off and aborted after 4 MSL.
#[test]
fn close_unanswered_aborts_after_four_msl() {
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

/// An abort sends its reset code to the peer.
#[test]
fn abort_sends_its_reset_code() {
    let mut net = open("newreno", true);
    net.ends[SERVER].abort(net.now, ResetCode::AggressionPenalty);
    net.run(ms(2_000));
    assert_eq!(net.states(), (State::TimeWait, State::Closed));
    assert_eq!(net.events[CLIENT].last(), Some(&Event::Closed { code: ResetCode::AggressionPenalty as u8 }));
}

/// An endpoint in TIMEWAIT replies to packets with a Reset, within the reply limit, but not to Resets.
#[test]
fn timewait_resets_packets_but_not_resets() {
    let mut net = open("newreno", true);
    net.close(CLIENT);
    net.run(ms(2_000));
    net.log.clear();
    for kind in [Kind::Reset, Kind::Data, Kind::Close] {
        let bytes = packet(kind, Seq::new(4_242), Seq::new(0), &[], &[]);
        for _ in 0..10 {
            net.inject(net.now, CLIENT, bytes.clone(), 0);
        }
        net.run_for(ms(130));
    }
    // Ten simultaneous Data packets get one reply, and so do ten Closes.
    let refusals: Vec<u64> = net.log.iter().map(|(_, _, header)| header.seq).collect();
    assert_eq!(refusals, [0, 1], "zero for packets without acknowledgement number, else one more than that");
    assert_eq!(net.states().0, State::TimeWait);
}
