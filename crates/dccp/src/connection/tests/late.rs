//! Late timers, as in real systems.

use narrows_cc::Nanos;

use super::net::*;

/// One packet in 100 is lost: CCID 3 sends about 430 kB/s, a datagram per 3.3 ms, at a round-trip time of 40
/// ms.
fn paced(timer_delay: Nanos) -> Net {
    let mut net = Net::with("ccid3");
    let mut count = 0;
    net.lose = Box::new(move |end, _| {
        count += u32::from(end == CLIENT);
        end == CLIENT && count % 100 == 0
    });
    net.ends[CLIENT].set_backlogged(1_400);
    net.run(Nanos::from_secs(10));
    net.timer_delay = timer_delay;
    net
}

/// Bytes sent per byte that the pacing rate allowed, over ten seconds.
fn follow(net: &mut Net) -> f64 {
    let (before, mut allowed) = (net.ends[CLIENT].stats().bytes_sent, 0.0);
    // Each call of `run_for` starts by polling for packets, so keep the calls few.
    for _ in 0..20 {
        let rate = net.ends[CLIENT].control().pacing_rate.expect("CCID 3 has one");
        allowed += rate.as_bytes_per_sec() as f64 * 0.5;
        net.run_for(ms(500));
    }
    (net.ends[CLIENT].stats().bytes_sent - before) as f64 / allowed
}

/// The pacing rate holds with timers up to 10 ms late.
#[test]
fn pacing_rate_is_kept_with_late_timers() {
    for timer_delay in [0, 1, 3, 10] {
        let share = follow(&mut paced(ms(timer_delay)));
        assert!((0.96..1.04).contains(&share), "{timer_delay} ms late: {share}");
    }
}

/// After a stall the sender catches up by at most one round trip of data (RFC 5348 section 4.6).
#[test]
fn pacing_after_stall_catches_up_one_round_trip() {
    let mut net = paced(Nanos::ZERO);
    let end = &mut net.ends[CLIENT];
    let rate = end.control().pacing_rate.expect("CCID 3 has one");
    let (mut burst, mut bytes) = (0, vec![]);
    while let Some(sent) = end.poll_transmit(net.now + ms(400), &mut bytes) {
        burst += u64::from(sent.data > 0);
    }
    // The burst is the scheduled packet and the catch-up that RFC 5348 section 4.6 allows; without a bound the burst
    // would have ten times as many packets.
    let allowed = rate.over(end.srtt().unwrap()).as_u64() / 1_400;
    assert!((allowed..=allowed + 1).contains(&burst), "{burst} at once, {allowed} in a round trip");
}
