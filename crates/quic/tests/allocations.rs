//! Acknowledgements allocate no memory: a counting allocator observes a connection in steady state.

#![allow(unsafe_code)] // a global allocator
#![allow(clippy::disallowed_methods)] // noq takes times as `Instant`

mod counting;
mod support;
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_cc::schemes;
use narrows_quic::{Scheme, Stack, noq::Controller, refusal};
use noq_proto::congestion::Controller as _;

/// After the first window, sending, acknowledgements and losses allocate no memory, for any scheme.
#[test]
fn steady_state_allocates_nothing() {
    let rtt = support::estimator();
    for entry in schemes::ALL.iter().filter(|entry| refusal(entry, Stack::Noq).is_none()) {
        let scheme = Arc::new(Scheme::of(entry, Stack::Noq).expect("accepted").seed(1, 0));
        let start = Instant::now();
        let mut controller = Controller::new(&scheme, start, 1200);
        let mut counted = 0;
        for round in 0..400_u64 {
            let sent = start + Duration::from_millis(20 * round);
            let acked = sent + Duration::from_millis(20);
            let before = counting::allocations();
            for place in 0..20 {
                controller.on_packet_sent(sent, 1200, round * 20 + place);
            }
            controller.on_cwnd_limited();
            let lossy = round % 16 == 15;
            for place in u64::from(lossy)..20 {
                controller.on_ack(acked, sent, 1200, round * 20 + place, false, &rtt);
            }
            controller.on_end_acks(acked, if lossy { 1200 } else { 0 }, false, Some(round * 20 + 19));
            if lossy {
                controller.on_packet_lost(1200, round * 20, acked);
                controller.on_congestion_event(acked, sent, round % 64 == 63, false, 1200, round * 20);
            }
            std::hint::black_box((controller.window(), controller.metrics().pacing_rate));
            counted = counting::allocations() - before;
            assert!(round < 10 || counted == 0, "{}: round {round} allocates", entry.info.name);
        }
        assert_eq!(counted, 0);
    }
}
