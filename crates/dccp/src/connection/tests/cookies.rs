//! Init Cookies of a server: connections without state, forged and stale cookies.

use narrows_cc::{Nanos, Random};
use proptest::prelude::*;

use super::net::*;
use crate::connection::*;
use crate::feature::{ACK_RATIO, CCID, SEND_ACK_VECTOR, SEQUENCE_WINDOW, SHORT_NUMBERS, Side};
use crate::{Header, Kind, Opt, ResetCode};

const SECOND: Nanos = Nanos::from_secs(1);

fn ends() -> Ends {
    Ends { remote: "192.0.2.7:40000".parse().unwrap(), local: "198.51.100.1:6511".parse().unwrap() }
}

fn keys(now: Nanos) -> CookieKeys {
    let mut keys = CookieKeys::default();
    refresh(&mut keys, now);
    keys
}

/// The key of an interval is derived from the interval's number, so that tests are reproducible.
fn refresh(keys: &mut CookieKeys, now: Nanos) {
    let number = now.as_nanos() / CookieKeys::INTERVAL.as_nanos();
    keys.refresh(now, || Ok::<_, ()>([number as u8 + 1; KEY])).unwrap();
}

fn client(scheme: &str, change: impl FnOnce(&mut Config)) -> Connection {
    let mut config = config(Role::Client, scheme);
    change(&mut config);
    Connection::new(&config, Random::stream(3, "client", 0), Nanos::ZERO)
}

fn poll(end: &mut Connection, now: Nanos) -> Vec<u8> {
    next_packet(end, now).expect("a packet")
}

/// Exchanges packets until both endpoints are silent.
fn exchange(a: &mut Connection, b: &mut Connection, now: Nanos) {
    for _ in 0..4 {
        for packet in super::fuzz::drain(a, now, 8) {
            b.on_packet(now, &packet, 0);
        }
        for packet in super::fuzz::drain(b, now, 8) {
            a.on_packet(now, &packet, 0);
        }
    }
}

fn answer(keys: &CookieKeys, server: &Config, now: Nanos, request: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = Header::decode(request).unwrap();
    keys.answer(server, now, ends(), &header, &body, request.len())
}

fn open(keys: &CookieKeys, server: &Config, now: Nanos, ends: Ends, packet: &[u8]) -> Returned {
    let (header, body) = Header::decode(packet).unwrap();
    keys.open(server, Random::stream(4, "server", 0), now, ends, &header, &body)
}

/// A client in PARTOPEN and its first Ack, after an answer without state.
fn part_open(keys: &CookieKeys, server: &Config, now: Nanos) -> (Connection, Vec<u8>) {
    let mut client = client("newreno", |_| ());
    let request = poll(&mut client, now);
    let response = answer(keys, server, now, &request).expect("a Response");
    client.on_packet(now, &response, 0);
    assert_eq!(client.state(), State::PartOpen);
    let ack = poll(&mut client, now);
    (client, ack)
}

/// A connection rebuilt from a cookie agrees on the same features as a connection with state, and carries data.
#[test]
fn cookie_rebuilds_the_negotiated_connection() {
    for scheme in ["newreno", "bbr", "ccid2", "ccid3", "dccp-bbr"] {
        let mut server = config(Role::Server, scheme);
        server.ack_ratio = 4;
        let change = |config: &mut Config| (config.sequence_window, config.short) = (777, true);
        let mut usual = client(scheme, change);
        let mut kept = Connection::new(&server, Random::stream(5, "server", 0), Nanos::ZERO);
        exchange(&mut usual, &mut kept, SECOND);
        let keys = keys(SECOND);
        let mut client = client(scheme, change);
        let request = poll(&mut client, SECOND);
        let response = answer(&keys, &server, SECOND, &request).expect("a Response");
        client.on_packet(SECOND, &response, 0);
        let ack = poll(&mut client, SECOND);
        let Returned::Connection(mut rebuilt) = open(&keys, &server, SECOND * 2, ends(), &ack) else {
            panic!("{scheme}: no connection");
        };
        assert_eq!(rebuilt.state(), State::Respond);
        rebuilt.on_packet(SECOND * 2, &ack, 0);
        assert_eq!(rebuilt.poll_event(), Some(Event::Connected));
        assert_eq!(rebuilt.state(), State::Open);
        for number in [CCID, SEQUENCE_WINDOW, SHORT_NUMBERS, SEND_ACK_VECTOR, ACK_RATIO] {
            for side in [Side::Local, Side::Remote] {
                let [found, expected] = [&rebuilt, &kept].map(|end| end.features().value(number, side));
                assert_eq!(found, expected, "{scheme}: feature {number}, {side:?}");
            }
        }
        assert_eq!(rebuilt.ccids(), kept.ccids());
        assert_eq!(rebuilt.srtt(), None, "the server has not seen its Response leave");
        client.push(SECOND * 2, &[9; 100]).unwrap();
        exchange(&mut rebuilt, &mut client, SECOND * 2);
        assert_eq!(rebuilt.poll_event(), Some(Event::Datagram(vec![9; 100])), "{scheme}");
    }
}

/// A cookie opens a connection only if it is unchanged and comes with the addresses, ports, numbers and service code
/// for which it was issued.
#[test]
fn cookie_of_other_connection_is_bad() {
    let server = config(Role::Server, "newreno");
    let keys = keys(SECOND);
    let (_, ack) = part_open(&keys, &server, SECOND);
    assert!(matches!(open(&keys, &server, SECOND, ends(), &ack), Returned::Connection(_)));
    let other = |text: &str| text.parse().unwrap();
    let wrong = [
        Ends { remote: other("192.0.2.8:40000"), ..ends() },
        Ends { remote: other("192.0.2.7:40001"), ..ends() },
        Ends { local: other("198.51.100.2:6511"), ..ends() },
        Ends { local: other("198.51.100.1:6512"), ..ends() },
    ];
    for wrong in wrong {
        assert!(matches!(open(&keys, &server, SECOND, wrong, &ack), Returned::Bad), "{wrong:?}");
    }
    let service = Config { service: 9, ..server.clone() };
    assert!(matches!(open(&keys, &service, SECOND, ends(), &ack), Returned::Bad));
    let (header, body) = Header::decode(&ack).unwrap();
    let with = |change: &dyn Fn(&mut Header)| {
        let (mut header, mut bytes) = (header, vec![]);
        change(&mut header);
        header.encode(body.options, &[], &mut bytes);
        open(&keys, &server, SECOND, ends(), &bytes)
    };
    assert!(matches!(with(&|header| header.source += 1), Returned::Bad));
    assert!(matches!(with(&|header| header.destination += 1), Returned::Bad));
    // Another acknowledgement number shows that the peer did not read the Response.
    assert!(matches!(with(&|header| header.ack = header.ack.map(|ack| ack ^ 1)), Returned::Bad));
    // Packets of other types open nothing.
    for kind in [Kind::Close, Kind::Sync, Kind::Reset, Kind::Response] {
        assert!(matches!(with(&|header| header.kind = kind), Returned::Nothing), "{kind:?}");
    }
    // A change of any bit makes the cookie invalid.
    let cookie = &init_cookies(body.options)[0];
    for bit in 0..cookie.len() * 8 {
        let (mut forged, mut bytes) = (cookie.clone(), vec![]);
        forged[bit / 8] ^= 1 << (bit % 8);
        header.encode(&encode(&[Opt::InitCookie(&forged)]), &[], &mut bytes);
        assert!(matches!(open(&keys, &server, SECOND, ends(), &bytes), Returned::Bad), "bit {bit}");
    }
}

/// A cookie is accepted while its key is the current or the previous key, and never longer than its lifetime.
#[test]
fn cookie_expires_with_its_key() {
    let server = config(Role::Server, "newreno");
    // Cookies issued at the end and at the beginning of an interval.
    for (at, last) in
        [(CookieKeys::INTERVAL - ms(1), CookieKeys::INTERVAL * 2 - ms(1)), (ms(1), CookieKeys::LIFETIME - ms(1))]
    {
        let mut keys = keys(at);
        let (_, ack) = part_open(&keys, &server, at);
        refresh(&mut keys, last);
        assert!(matches!(open(&keys, &server, last, ends(), &ack), Returned::Connection(_)), "{at:?}");
        let stale = last + ms(2);
        // The cookie is invalid even before the keys are refreshed.
        assert!(matches!(open(&keys, &server, stale, ends(), &ack), Returned::Bad), "{at:?}");
        refresh(&mut keys, stale);
        assert!(matches!(open(&keys, &server, stale, ends(), &ack), Returned::Bad), "{at:?}");
    }
    // One byte identifies the epoch, but no key lives for 256 intervals.
    let mut keys = keys(ms(1));
    let (_, ack) = part_open(&keys, &server, ms(1));
    let later = CookieKeys::INTERVAL * 256 + ms(1);
    keys.refresh(later, || Ok::<_, ()>([77; KEY])).unwrap();
    assert!(matches!(open(&keys, &server, later, ends(), &ack), Returned::Bad));
}

/// Answers without state never exceed three times the Request, and errors get their Reset.
#[test]
fn cookie_answers_are_at_most_three_times_the_request() {
    let mut server = config(Role::Server, "ccid2");
    let keys = keys(SECOND);
    // Even the shortest Request gets an answer.
    let bare = packet(Kind::Request, crate::Seq::new(5), crate::Seq::new(0), &[], &[]);
    let response = answer(&keys, &server, SECOND, &bare).expect("a Response");
    assert_eq!(Header::decode(&response).unwrap().0.kind, Kind::Response);
    assert!(response.len() <= 3 * bare.len());
    server.service = 9;
    let reset = answer(&keys, &server, SECOND, &bare).expect("a Reset");
    let header = Header::decode(&reset).unwrap().0;
    assert_eq!((header.kind, header.reset.0), (Kind::Reset, ResetCode::BadServiceCode as u8));
    assert!(answer(&CookieKeys::default(), &server, SECOND, &bare).is_none(), "an answer without a key");
}

proptest! {
    /// Any Request gets at most three times its bytes, whatever its options.
    #[test]
    fn cookie_answers_random_requests_within_limit(seq in any::<u64>(), options in super::fuzz::options(), data in 0..40usize) {
        let server = config(Role::Server, "bbr");
        let mut request = Header::new(Kind::Request);
        (request.source, request.destination, request.seq) = (5001, 5001, seq & ((1 << 48) - 1));
        let mut bytes = vec![];
        request.encode(&options, &vec![1; data], &mut bytes);
        if let Some(response) = answer(&keys(SECOND), &server, SECOND, &bytes) {
            prop_assert!(response.len() <= AMPLIFICATION * bytes.len(), "{} for {}", response.len(), bytes.len());
        }
    }
}

/// Every interval has a different key, and a fresh cookie opens a connection at any time, also beyond the 256 intervals
/// that one byte can identify.
#[test]
fn cookie_keys_change_every_interval() {
    let server = config(Role::Server, "newreno");
    let (mut keys, mut drawn) = (CookieKeys::default(), 0_u64);
    for interval in 0..300 {
        let now = CookieKeys::INTERVAL * interval + ms(1);
        let mut refresh = |now| {
            keys.refresh(now, || {
                drawn += 1;
                let mut key = [0; KEY];
                key[..8].copy_from_slice(&u64::to_le_bytes(drawn));
                Ok::<_, ()>(key)
            })
        };
        refresh(now).unwrap();
        refresh(now + ms(1)).unwrap();
        assert_eq!(drawn, interval + 1, "one key per interval");
        let (_, ack) = part_open(&keys, &server, now);
        assert!(matches!(open(&keys, &server, now, ends(), &ack), Returned::Connection(_)), "interval {interval}");
    }
}
