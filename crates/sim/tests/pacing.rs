//! The most common bug of pacing is a rate that is computed but never applied. For every registered scheme, the
//! departure times of packets are compared with the pacing rate.
//!
//!     sender ──[ 1 BDP │ 20 Mbit/s ]── 20 ms ── receiver
//!        └──────────── 20 ms ─────────────────────┘

use narrows_cc::schemes::{ALL, Entry};
use narrows_cc::{Bytes, Nanos, Params, Random, Rate, Setup};
use narrows_net::config::{Limit, LinkConfig};
use narrows_net::{DelayLine, Link, Offer};
use narrows_packet::Packet;
use narrows_routers::{NegotiationConfig, endpoint};
use narrows_tcp::{Receiver, Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};

/// Time and payload of a departure, and the pacing rate right after it.
struct Departure {
    at: Nanos,
    payload: Bytes,
    rate: Option<Rate>,
}

/// Runs one flow for ten seconds and records every departure of payload.
fn departures(entry: &Entry, params: Params) -> Vec<Departure> {
    // The RFC profile sends packets one by one: bursts would hide their spacing.
    let tcp = TcpConfig::rfc();
    let mss = Bytes::new(u64::from(tcp.segment));
    let setup = Setup::new(mss, params, Random::stream(1, "scheme", 0)).with_sack(tcp.sack);
    let app = App::new(AppConfig::Bulk, Random::stream(1, "app", 0), Nanos::ZERO);
    let mut sender = Sender::new(0, tcp.clone(), entry.build(&setup), app, Nanos::ZERO);
    let mut receiver = Receiver::new(0, &tcp);
    endpoint::attach_sender(&mut sender, &NegotiationConfig::default());
    endpoint::attach_receiver(&mut receiver, &NegotiationConfig::default());
    let rate = Rate::from_mbit_per_sec(20.0);
    let config = LinkConfig::drop_tail(rate, Limit::Bytes(rate.over(Nanos::from_millis(40))));
    let mut link = Link::new(&config, Random::stream(1, "link", 0));
    let wire = || DelayLine::new(Nanos::from_millis(20), None, None, Random::stream(1, "wire", 0));
    let (mut forward, mut back) = (wire(), wire());
    let mut out = Vec::new();
    let mut send = |now: Nanos, sender: &mut Sender, forward: &mut DelayLine<Packet>| {
        while let Some(packet) = sender.poll_transmit(now) {
            if packet.payload > 0 {
                let payload = Bytes::new(u64::from(packet.payload));
                out.push(Departure { at: now, payload, rate: sender.pacing_rate() });
            }
            if let Offer::Departs { at, lost: false } = link.offer(now, &packet) {
                forward.push(at, &packet);
            }
        }
    };
    loop {
        let now = sender.deadline().min(receiver.deadline()).min(forward.next()).min(back.next());
        if now > Nanos::from_secs(10) {
            return out;
        }
        if forward.next() == now {
            let packet: Packet = forward.pop().unwrap().1;
            receiver.on_packet(now, &packet);
        } else if back.next() == now {
            let packet = back.pop().unwrap().1;
            sender.on_packet(now, &packet);
        } else if receiver.deadline() == now {
            receiver.on_timer(now);
        } else {
            sender.on_timer(now);
        }
        while let Some(packet) = receiver.poll_transmit(now) {
            back.push(now, &packet);
        }
        send(now, &mut sender, &mut forward);
    }
}

/// Gaps between a scheme's packets are at least those of the pacing rate, and often exactly those.
#[test]
fn every_scheme_spaces_packets_at_its_pacing_rate() {
    let mut paced_schemes = 0;
    for entry in ALL {
        let name = entry.info.name;
        let mut params = Params::defaults(entry.info.params);
        // Enable pacing where it is optional.
        let on_request = params.set("paced", 1.0).is_ok();
        if name == "fixed" {
            params.set("rate", 5.0).unwrap();
            params.set("window", 1000.0).unwrap();
        }
        let sent = departures(entry, params);
        assert!(sent.len() > 500, "{name}: only {} packets in ten seconds", sent.len());
        let mut exact = 0;
        let mut paced = 0;
        for pair in sent.windows(2) {
            let Some(rate) = pair[0].rate else { continue };
            paced += 1;
            let (gap, paced_gap) = (pair[1].at - pair[0].at, rate.time_for(pair[0].payload));
            assert!(
                gap + Nanos::from_nanos(2) >= paced_gap,
                "{name}: {gap:?} between packets at {:?} at {rate:?}, expected {paced_gap:?}",
                pair[0].at
            );
            exact += usize::from(gap <= paced_gap + Nanos::from_micros(1));
        }
        assert!(paced > 0 || !on_request, "{name}: pacing enabled but no packet paced");
        if paced > 0 {
            paced_schemes += 1;
            // Other gaps are longer because the sender waits for ACKs.
            assert!(exact * 10 >= paced, "{name}: only {exact} of {paced} gaps match the pacing rate");
        }
    }
    assert!(paced_schemes >= 2, "fewer than two schemes pace");
}
