//! Explicit headers that nobody vouches for: absent, malformed, meant for another scheme. Nothing of it stalls a flow.

mod common;

use common::{Mangle, Pipe, delay, ms, sender};
use narrows_cc::{Bytes, Nanos};
use narrows_endpoint::{AppConfig, TcpConfig};
use narrows_net::{Extension, Packet};
use proptest::prelude::*;

const SEGMENTS: u64 = 30;

/// A file of thirty segments over a pipe of 20 ms each way; when it was complete.
fn transfer(scheme: &str, mangle: Option<Mangle>) -> Nanos {
    let config = TcpConfig::default();
    let file = AppConfig::File(Bytes::new(SEGMENTS * 1448));
    let mut pipe = Pipe::new(sender(scheme, &[], &config, file), &config, delay(ms(20)), delay(ms(20)));
    pipe.mangle = mangle;
    while pipe.sender.completed_at().is_none() {
        assert!(pipe.now < Nanos::from_secs(300), "{scheme} stalls");
        assert!(pipe.step(), "{scheme} is at an end before its time");
    }
    assert_eq!(pipe.delivered, SEGMENTS * 1448);
    pipe.sender.completed_at().expect("just seen")
}

#[test]
fn packets_carry_the_header_of_their_scheme_and_its_size() {
    for (scheme, bytes) in [("rcp", 12), ("xcp", 20), ("cubic", 0)] {
        let seen = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = seen.clone();
        transfer(
            scheme,
            Some(Box::new(move |packet| {
                assert_eq!(packet.header, 52 + bytes, "{scheme}");
                assert_eq!(packet.has_extension(), bytes > 0, "{scheme}");
                count.set(count.get() + 1);
            })),
        );
        assert!(seen.get() > SEGMENTS, "{scheme}");
    }
}

#[test]
fn a_network_that_does_not_take_part_stalls_nobody() {
    for scheme in ["rcp", "xcp"] {
        // SYN, then three initial windows, one after the other; a rate is never set, a change never allotted.
        let absent = transfer(scheme, Some(Box::new(|packet| packet.set_extension(Extension::None))));
        assert!(absent <= ms(40 + 3 * 40 + 40), "{scheme}: {absent:?}");
        let untouched = transfer(scheme, None);
        assert!(untouched <= ms(40 + 3 * 40 + 40), "{scheme}: {untouched:?}");
    }
}

#[test]
fn an_advised_rate_spaces_whole_packets() {
    // 1512 B on the wire at 151 200 B/s: one packet every 10 ms, the last of 30 leaves 290 ms after the first; the SYN takes
    // one round trip, the last packet another, its acknowledgement no longer than the delay of 40 ms.
    let rate = |packet: &mut Packet| {
        if let Extension::RcpRequest { rtt_us, .. } = packet.extension() {
            packet.set_extension(Extension::RcpRequest { rate: 151_200.0, rtt_us });
        }
    };
    let done = transfer("rcp", Some(Box::new(rate)));
    assert!(done >= ms(370) && done <= ms(411), "{done:?}");
}

fn extensions() -> impl Strategy<Value = Extension> {
    let field =
        || prop_oneof![any::<u32>().prop_map(f32::from_bits), Just(0.0f32), Just(-0.0f32), -1e9..1e9f32];
    prop_oneof![
        Just(Extension::None),
        (field(), any::<u32>()).prop_map(|(rate, rtt_us)| Extension::RcpRequest { rate, rtt_us }),
        field().prop_map(|rate| Extension::RcpReply { rate }),
        (any::<u32>(), field(), field()).prop_map(|(rtt_us, spacing, delta)| Extension::XcpRequest {
            rtt_us,
            spacing,
            delta
        }),
        field().prop_map(|delta| Extension::XcpReply { delta }),
    ]
}

proptest! {
    #[test]
    fn whatever_headers_say_every_flow_gets_through(said in prop::collection::vec(extensions(), 1..40)) {
        for scheme in ["rcp", "xcp", "cubic"] {
            let said = said.clone();
            let mut n = 0;
            transfer(scheme, Some(Box::new(move |packet| {
                packet.set_extension(said[n % said.len()]);
                n += 1;
            })));
        }
    }
}
