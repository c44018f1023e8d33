//! Untrusted explicit headers: absent, malformed, or of another scheme. None stalls a flow.

use crate::common::{Mangle, Pipe, delay, ms, sender};
use crate::strategies::rate_headers;
use narrows_cc::{Bytes, Nanos, Rate};
use narrows_packet::{Flags, Packet};
use narrows_routers::{RateCode, RateHeader, RouterFrame};
use narrows_tcp::{Sender, TcpConfig};
use narrows_traffic::AppConfig;
use proptest::prelude::*;

const SEGMENTS: u64 = 30;

/// Transfers thirty segments over a pipe of 20 ms each way; returns the completion time.
fn transfer(scheme: &str, mangle: Option<Mangle>) -> Nanos {
    let config = TcpConfig::rfc();
    let file = AppConfig::File(Bytes::new(SEGMENTS * 1448));
    let mut pipe = Pipe::new(sender(scheme, &[], &config, file), &config, delay(ms(20)), delay(ms(20)));
    pipe.mangle = mangle;
    while pipe.sender.completed_at().is_none() {
        assert!(pipe.now < Nanos::from_secs(300), "{scheme} stalls");
        assert!(pipe.step(), "{scheme} has no next event before completion");
    }
    assert_eq!(pipe.delivered, SEGMENTS * 1448);
    pipe.sender.completed_at().expect("completed")
}

/// Packets carry the header of their scheme, with its size.
#[test]
fn packets_carry_header_of_their_scheme() {
    for (scheme, bytes) in [("rcp", 12), ("xcp", 20), ("cubic", 0)] {
        let seen = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = seen.clone();
        transfer(
            scheme,
            Some(Box::new(move |packet| {
                assert_eq!(packet.header, 52 + bytes, "{scheme}");
                assert_eq!(packet.has_option(), bytes > 0, "{scheme}");
                count.set(count.get() + 1);
            })),
        );
        assert!(seen.get() > SEGMENTS, "{scheme}");
    }
}

/// A network without router support stalls no sender.
#[test]
fn silent_network_stalls_no_sender() {
    for scheme in ["rcp", "xcp", "brf"] {
        // The transfer takes the SYN's round trip and three round trips with one initial window each; rates stay unset
        // and no change is allotted.
        let absent = transfer(scheme, Some(Box::new(|packet| packet.set_rate_header(RateHeader::None))));
        assert!(absent <= ms(40 + 3 * 40 + 40), "{scheme}: {absent:?}");
        let untouched = transfer(scheme, None);
        assert!(untouched <= ms(40 + 3 * 40 + 40), "{scheme}: {untouched:?}");
    }
}

/// An advised rate spaces whole packets.
#[test]
fn advised_rate_spaces_whole_packets() {
    // 1512 B on the wire at 151 200 B/s: one packet every 10 ms, so the last of 30 leaves 290 ms after the first. The
    // SYN takes one round trip, the last packet takes another, and its acknowledgement is delayed by up to 40 ms.
    let rate = |packet: &mut Packet| {
        if let RateHeader::RcpRequest { rtt_us, .. } = packet.rate_header() {
            packet.set_rate_header(RateHeader::RcpRequest { rate: 151_200.0, rtt_us });
        }
    };
    let done = transfer("rcp", Some(Box::new(rate)));
    assert!(done >= ms(370) && done <= ms(411), "{done:?}");
}

/// Only the SYN of BRF carries an offer, which occupies no bytes.
#[test]
fn brf_offers_only_in_syn_without_room() {
    let (mut offers, mut others) = (0u32, 0u64);
    let seen = std::rc::Rc::new(std::cell::Cell::new((0u32, 0u64)));
    let count = seen.clone();
    let mangle = move |packet: &mut Packet| {
        if packet.rate_header() == RateHeader::BrfOffer {
            assert!(packet.flags.has(Flags::SYN));
            offers += 1;
        } else {
            assert_eq!(packet.rate_header(), RateHeader::None);
            others += 1;
        }
        assert_eq!(packet.header, 52);
        count.set((offers, others));
    };
    transfer("brf", Some(Box::new(mangle)));
    assert_eq!(seen.get().0, 1);
    assert!(seen.get().1 > SEGMENTS);
}

/// An acknowledgement of a BRF flow with a rate, sent at microsecond `us` of the receiver's clock and echoing
/// `echo`.
fn rate_ack(ack: u64, us: u32, echo: u32, bytes_per_sec: u64) -> Packet {
    let mut packet = Packet::new(0);
    packet.flags = Flags::ACK.with(Flags::REVERSE);
    let tcp = packet.tcp_mut();
    (*tcp.seq, *tcp.ack, *tcp.ts_val, *tcp.ts_ecr) = (1, ack, us, echo);
    *tcp.window = 1 << 20;
    let code = RateCode::encode(Rate::from_bytes_per_sec(bytes_per_sec)).0;
    packet.set_rate_header(RateHeader::BrfRate { code });
    packet
}

/// A rate in a stale or forged acknowledgement is ignored and counted.
#[test]
fn stale_rate_is_ignored_and_counted() {
    let config = TcpConfig::rfc();
    let mut sender = sender("brf", &[], &config, AppConfig::Bulk);
    let receive = |sender: &mut Sender, at: u64, packet: &Packet| {
        sender.on_packet(ms(at), packet);
        while sender.poll_transmit(ms(at)).is_some() {}
        let rate = sender.pacing_rate().map_or(0, |rate| rate.as_bytes_per_sec());
        // Convert to the wire rate, rounded to the nearest hundred: the payload fraction is 1448 / 1500.
        ((rate as f64 * 1500.0 / 1448.0 / 100.0).round() as u64 * 100, sender.stats().stale_advice)
    };
    sender.on_timer(ms(0));
    while sender.poll_transmit(ms(0)).is_some() {}
    let mut syn_ack = rate_ack(1, 20_000, 0, 5_000_000);
    syn_ack.flags = syn_ack.flags.with(Flags::SYN);
    *syn_ack.tcp_mut().seq = 0;
    assert_eq!(receive(&mut sender, 40, &syn_ack), (5_000_000, 0));
    for at in 41..60 {
        sender.on_timer(ms(at));
        while sender.poll_transmit(ms(at)).is_some() {}
    }
    let news = rate_ack(2_897, 60_000, 40_000, 3_000_000);
    assert_eq!(receive(&mut sender, 80, &news), (3_000_000, 0));
    // Four stale acknowledgements: one overtaken; two replayed with the newest number but an old timestamp or an old
    // echo; one for data never sent.
    let old = [
        rate_ack(1_449, 59_000, 40_000, 9_000_000),
        rate_ack(2_897, 59_999, 40_000, 9_000_000),
        rate_ack(2_897, 60_000, 39_999, 9_000_000),
        rate_ack(1 << 40, 70_000, 41_000, 9_000_000),
    ];
    for (n, packet) in old.iter().enumerate() {
        assert_eq!(receive(&mut sender, 81, packet), (3_000_000, n as u64 + 1), "{packet:?}");
    }
    // A repetition of the newest acknowledgement is not stale, and the rate of a newer acknowledgement is used.
    assert_eq!(receive(&mut sender, 82, &news), (3_000_000, 4));
    assert_eq!(receive(&mut sender, 83, &rate_ack(2_897, 61_000, 40_000, 4_000_000)), (4_000_000, 4));
}

proptest! {
    /// Every flow completes under any headers.
    #[test]
    fn any_headers_let_flows_complete(headers in prop::collection::vec(rate_headers(), 1..40)) {
        for scheme in ["rcp", "xcp", "brf", "cubic"] {
            let headers = headers.clone();
            let mut n = 0;
            transfer(scheme, Some(Box::new(move |packet| {
                packet.set_rate_header(headers[n % headers.len()]);
                n += 1;
            })));
        }
    }
}
