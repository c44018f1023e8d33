//! Timers that ring late, as those of real systems do.

use narrows_cc::Nanos;

use super::net::*;

/// Of 100 packets one is lost: CCID 3 sends about 430 kB/s, a datagram in 3.3 ms, at a round trip of 40 ms.
fn paced(tardy: Nanos) -> Net {
    let mut net = Net::with("ccid3");
    let mut count = 0;
    net.lose = Box::new(move |end, _| {
        count += u32::from(end == CLIENT);
        end == CLIENT && count % 100 == 0
    });
    net.ends[CLIENT].set_backlogged(1_400);
    net.run(Nanos::from_secs(10));
    net.tardy = tardy;
    net
}

/// What was sent for each byte that the pace allowed, in ten seconds.
fn follow(net: &mut Net) -> f64 {
    let (before, mut allowed) = (net.ends[CLIENT].stats().bytes_sent, 0.0);
    // Each call of `run_for` begins with a look at what may leave: not too often.
    for _ in 0..20 {
        let rate = net.ends[CLIENT].control().pacing_rate.expect("CCID 3 has one");
        allowed += rate.as_bytes_per_sec() as f64 * 0.5;
        net.run_for(ms(500));
    }
    (net.ends[CLIENT].stats().bytes_sent - before) as f64 / allowed
}

#[test]
fn a_pace_is_kept_where_timers_are_late() {
    for tardy in [0, 1, 3, 10] {
        let share = follow(&mut paced(ms(tardy)));
        assert!((0.96..1.04).contains(&share), "{tardy} ms late: {share}");
    }
}

#[test]
fn what_a_stall_cost_is_made_up_for_up_to_a_round_trip() {
    let mut net = paced(Nanos::ZERO);
    let end = &mut net.ends[CLIENT];
    let rate = end.control().pacing_rate.expect("CCID 3 has one");
    let (mut burst, mut bytes) = (0, vec![]);
    while let Some(sent) = end.poll_transmit(net.now + ms(400), &mut bytes) {
        burst += u64::from(sent.data > 0);
    }
    // The packet that was due, and what RFC 5348 section 4.6 allows; without a bound there would be ten times as many.
    let allowed = rate.over(end.srtt()).as_u64() / 1_400;
    assert!((allowed..=allowed + 1).contains(&burst), "{burst} at once, {allowed} in a round trip");
}
