//! Acknowledgements allocate no memory in quinn's adapter: a counting allocator observes a path in steady state.

#![allow(unsafe_code)] // a global allocator
#![allow(clippy::disallowed_methods)] // quinn takes times as `Instant`

mod counting;
mod quinn_support;
mod tls;

use std::time::{Duration, Instant};

use narrows_cc::schemes;
use narrows_quic::{Scheme, Stack, quinn::Controller, refusal};
use quinn_proto::congestion::Controller as _;

/// After the first rounds, sending, acknowledgements and losses allocate no memory, for any scheme.
#[test]
fn steady_state_of_quinn_allocates_nothing() {
    let rtt = quinn_support::estimator();
    let accepted = || schemes::ALL.iter().filter(|entry| refusal(entry, Stack::Quinn).is_none());
    assert!(accepted().count() > 3, "window-based schemes are accepted");
    for entry in accepted() {
        let scheme = Scheme::of(entry, Stack::Quinn).expect("accepted").seed(1, 0);
        let start = Instant::now();
        let mut controller = Controller::new(&scheme, start, 1200);
        for round in 0..400_u64 {
            let sent = |place: u64| start + Duration::from_millis(20 * round + place / 2);
            let acked = start + Duration::from_millis(20 * round + 20);
            let before = counting::allocations();
            for place in 0..20 {
                controller.on_sent(sent(place), 1200, round * 20 + place);
            }
            let lossy = round % 16 == 15;
            for place in u64::from(lossy)..20 {
                controller.on_ack(acked, sent(place), 1200, false, &rtt);
            }
            controller.on_end_acks(acked, if lossy { 1200 } else { 0 }, false, Some(round * 20 + 19));
            if lossy {
                controller.on_congestion_event(acked, sent(0), round % 64 == 63, 1200);
            }
            std::hint::black_box(controller.window());
            let counted = counting::allocations() - before;
            assert!(round < 10 || counted == 0, "{}: round {round} allocates {counted}", entry.info.name);
        }
        assert!(controller.driver().delivered().as_u64() > 399 * 19 * 1200, "{}", entry.info.name);
    }
}
