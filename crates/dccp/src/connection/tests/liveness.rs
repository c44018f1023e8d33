//! Peers and networks that disappear.

use narrows_cc::Nanos;

use super::data::{bottleneck, received};
use super::net::*;
use crate::connection::*;
use crate::wire::{Header, Kind};

/// An endpoint with unanswered data aborts 4 MSL after the peer disappears.
#[test]
fn connection_to_dead_peer_aborts_after_four_msl() {
    for scheme in ["newreno", "bbr", "ccid3"] {
        for backlogged in [false, true] {
            let mut net = Net::with(scheme);
            net.run(ms(1_000));
            net.push(CLIENT, &[1; 100]);
            net.run(ms(2_000));
            net.lose = Box::new(|_, _| true);
            if backlogged {
                net.ends[CLIENT].set_backlogged(1_000);
            }
            net.push(CLIENT, &[1; 100]);
            net.run(Nanos::from_secs(1_000));
            assert_eq!(net.times(CLIENT, Kind::Reset), [ms(482_000)], "{scheme}");
            assert!(net.events[CLIENT].contains(&Event::PeerGone));
            assert_eq!(net.states(), (State::Closed, State::Open), "an endpoint that sends nothing detects nothing");
            assert_eq!(net.ends[SERVER].deadline(), Nanos::MAX);
            // In the last two minutes the timeouts have reached their longest interval.
            let late = |packet: &&(Nanos, usize, Header)| packet.0 > ms(360_000) && packet.1 == CLIENT;
            let packets = net.log.iter().filter(late).count();
            assert!(packets < 20, "{scheme}: {packets} packets to a dead peer");
        }
    }
}

/// An endpoint aborts 4 MSL after the last feedback if the peer acknowledged only part of the data.
#[test]
fn connection_to_peer_dead_mid_flight_aborts() {
    for scheme in ["newreno", "ccid3"] {
        let mut net = Net::with(scheme);
        net.run(ms(1_000));
        net.push(CLIENT, &[1; 100]);
        net.push(CLIENT, &[2; 100]);
        net.run(ms(2_000));
        // The first packet is acknowledged, later packets are not.
        net.push(CLIENT, &[3; 100]);
        net.run(ms(2_010));
        net.lose = Box::new(|end, _| end == CLIENT);
        net.push(CLIENT, &[4; 100]);
        net.run(ms(2_300));
        net.lose = Box::new(|_, _| true);
        net.run(Nanos::from_secs(1_000));
        let answered = net.times(SERVER, Kind::Ack).last().copied().expect("an answer") + ms(20);
        let gone = net.times(CLIENT, Kind::Reset);
        assert!(net.events[CLIENT].contains(&Event::PeerGone), "{scheme}");
        assert_eq!(gone.len(), 1, "{scheme}");
        // The wait counts from the last feedback, or from the slightly older data in flight.
        let waited = gone[0] - answered;
        assert!(waited <= Nanos::from_secs(480) && waited > Nanos::from_secs(479), "{scheme}: {waited:?}");
    }
}

/// Transfers resume after a network outage of a minute.
#[test]
fn connection_survives_network_pause() {
    for scheme in ["newreno", "bbr", "ccid2", "ccid3", "dccp-bbr"] {
        let mut net = bottleneck(scheme);
        net.run(Nanos::from_secs(5));
        net.lose = Box::new(|_, _| true);
        net.run(Nanos::from_secs(65));
        net.lose = Box::new(|_, _| false);
        // Times until the transfer has resumed: the timeout has backed off to at most 64 s. CCID 3 has slowed to a
        // packet per 64 s and doubles its rate with each report (RFC 5348 sections 4.3 and 4.4).
        let back = Nanos::from_secs(if scheme == "ccid3" { 400 } else { 135 });
        net.run(back);
        let before = received(&net, SERVER);
        net.run_for(Nanos::from_secs(10));
        let share = (received(&net, SERVER) - before) as f64 / (10.0 * 1_250_000.0);
        assert!(share > 0.4, "{scheme}: {share} of the bottleneck after a pause; {:?}", net.ends[CLIENT].stats());
    }
}
