//! The event sequence of the scheme benchmark.

use narrows_bench::acks::{ACKS, Event, GAP, LOSS_EVERY, MSS, WINDOW, events, replay};
use narrows_cc::schemes::ALL;

/// The sequence has a full window and a loss per thousand ACKs.
#[test]
fn bench_acks_have_full_window_and_stated_losses() {
    let events = events();
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Ack(_))), ACKS);
    let losses = ACKS / LOSS_EVERY;
    assert_eq!(count(|event| matches!(event, Event::Lost(_))), losses);
    assert_eq!(count(|event| matches!(event, Event::Entered(_))), losses);
    // The last recovery does not end within the sequence: its end needs packets that are never sent.
    assert_eq!(count(|event| matches!(event, Event::Left(_))), losses - 1);
    // Packets sent: the first window, two per ACK except the last, and one per loss except the last.
    assert_eq!(count(|event| matches!(event, Event::Sent(_))), WINDOW + 2 * (ACKS - 1) + losses - 1);
    let acks = events.iter().filter_map(|event| if let Event::Ack(ack) = event { Some(ack) } else { None });
    for ack in acks.skip(WINDOW) {
        assert!(ack.inflight <= MSS * WINDOW as u64);
        let rate = ack.rate.expect("a rate sample").rate;
        let fair = 2.0 * MSS.as_u64() as f64 / GAP.as_secs_f64();
        // An ACK is at most 20 us late in an interval of 240 us, and one packet in two thousand is lost.
        assert!((0.9 * fair..=1.01 * fair).contains(&(rate.as_bytes_per_sec() as f64)), "{rate:?}");
    }
}

/// Every scheme processes the sequence repeatedly with the same result.
#[test]
fn bench_acks_every_scheme_repeats_its_result() {
    let events = events();
    for entry in ALL {
        let once = replay(entry, 1, &events);
        assert!(once > 0, "{}", entry.info.name);
        assert_eq!(replay(entry, 2, &events), once.wrapping_mul(2), "{}", entry.info.name);
    }
}
