//! Unanswered requests.

use narrows_cc::{Nanos, Rate};

use super::state::{Requester, Update};
use crate::endpoint::NegotiationConfig;
use crate::negotiation::{ATTENDED, Message, Negotiation};

const ROUND_TRIP: Nanos = Nanos::from_millis(40);

fn requester() -> Requester {
    let mut state = Requester::new(&NegotiationConfig::default(), None, 1.0);
    state.request(0, state.max);
    state
}

/// Returns the requests that are sent from `now` up to `end` without an answer, and their times.
fn requests(state: &mut Requester, mut now: Nanos, end: Nanos) -> Vec<(u64, Message)> {
    let mut sent = Vec::new();
    loop {
        while let Some((message, _)) = state.next_message(now, ROUND_TRIP, ROUND_TRIP * 2) {
            sent.push((now.as_nanos() / 1_000_000, message));
        }
        now = state.deadline();
        if now > end {
            return sent;
        }
        let _ = state.on_timer(now);
    }
}

fn times(sent: &[(u64, Message)]) -> Vec<u64> {
    sent.iter().map(|(at, _)| *at).collect()
}

/// Between hosts, the next request follows a second after the requester has given up, further requests at growing
/// delays; an answer resets the delays.
#[test]
fn unanswered_requests_between_hosts_back_off_to_ten_seconds() {
    let mut state = requester();
    state.set_refresh(Nanos::from_secs(4));
    let sent = requests(&mut state, Nanos::ZERO, Nanos::from_secs(40));
    // The requester gives up at 1200 ms.
    assert_eq!(times(&sent), [0, 80, 240, 560, 2_200, 4_200, 8_200, 16_200, 26_200, 36_200]);

    let Some((_, Message::Negotiation { id, rtt_us, .. })) = sent.last() else { panic!("a request") };
    let max = Rate::from_bytes_per_sec(1_000_000);
    let answer =
        Message::Negotiation { kind: Negotiation::Success, max, min: Rate::ZERO, id: *id, rtt_us: rtt_us | ATTENDED };
    let now = Nanos::from_millis(36_240);
    assert_eq!(state.on_message(now, ROUND_TRIP * 2, &answer, 0), Some(Update::Rate(max)));
    // The granted rate is requested again 4 s after the last request; the requester gives up at 41 400 ms.
    let sent = requests(&mut state, now, Nanos::from_secs(45));
    assert_eq!(times(&sent), [40_200, 40_280, 40_440, 40_760, 42_400, 44_400]);
}

/// Without refreshed requests, a request follows every ten seconds after the requester has given up.
#[test]
fn unanswered_requests_follow_every_ten_seconds() {
    let sent = requests(&mut requester(), Nanos::ZERO, Nanos::from_secs(25));
    assert_eq!(times(&sent), [0, 80, 240, 560, 11_200, 21_200]);
}
