//! The allowance for aggregated acknowledgements in cwnd.

use narrows_cc::bbr_v1::Aggregation;
use narrows_cc::{Bytes, Nanos, Rate};

use crate::bbr_v1::path::{Flow, MSS, Path, V1};
use crate::bbr_v1::script::{Script, TICK, quantised};

const BW: Rate = Rate::from_bytes_per_sec(1_000_000); // 1000 B per ms
const NO_LIMIT: Bytes = Bytes::new(1 << 40);

fn sample(aggregation: &mut Aggregation, at_ms: u64, acked: u64) -> u64 {
    aggregation.sample(Nanos::from_millis(at_ms), Bytes::new(acked), BW, NO_LIMIT, NO_LIMIT);
    aggregation.max().as_u64()
}

/// The excess is the data acknowledged in the epoch beyond bandwidth times the epoch's length.
#[test]
fn aggregation_excess_is_acked_beyond_bandwidth() {
    let mut aggregation = Aggregation::default();
    // The epoch begins with this burst.
    assert_eq!(sample(&mut aggregation, 100, 5_000), 5_000);
    // 3 ms later 4000 B are acknowledged: 9000 B in total, of which 3000 B are expected.
    assert_eq!(sample(&mut aggregation, 103, 4_000), 6_000);
    // 20 ms later the 9000 B acknowledged so far are less than the 23 000 B expected: a new epoch begins, and the
    // maximum excess stays.
    assert_eq!(sample(&mut aggregation, 123, 1_000), 6_000);
    assert_eq!(sample(&mut aggregation, 124, 8_000), 8_000);
}

/// cwnd limits the excess, and an epoch ends at the maximum amount of acknowledged data.
#[test]
fn aggregation_excess_is_limited_by_window_and_epoch() {
    let mut aggregation = Aggregation::default();
    aggregation.sample(Nanos::from_millis(100), Bytes::new(5_000), BW, Bytes::new(3_000), NO_LIMIT);
    assert_eq!(aggregation.max(), Bytes::new(3_000));
    // An epoch that would reach its limit ends: 5000 B and 4000 B do not add up.
    let mut aggregation = Aggregation::default();
    for at in [100, 101] {
        aggregation.sample(Nanos::from_millis(at), Bytes::new(5_000), BW, NO_LIMIT, Bytes::new(10_000));
    }
    assert_eq!(aggregation.max(), Bytes::new(5_000));
}

/// The maximum excess expires after five to ten rounds.
#[test]
fn aggregation_maximum_expires_after_five_to_ten_rounds() {
    for rounds_before in 0..5 {
        let mut aggregation = Aggregation::default();
        for _ in 0..rounds_before {
            aggregation.on_round();
        }
        sample(&mut aggregation, 100, 5_000);
        let mut kept = 0;
        while !aggregation.max().is_zero() && kept < 100 {
            aggregation.on_round();
            kept += 1;
        }
        assert_eq!(kept, 10 - rounds_before);
    }
}

/// cwnd includes the excess, up to 100 ms of bandwidth.
#[test]
fn aggregation_widens_window_by_up_to_100_ms() {
    let window = |segments: u64, extra_acked: f64| {
        let mut script = Script::<V1>::in_phase(2, &[("extra_acked", extra_acked)]);
        // The preceding silence ends the old epoch, and the first burst begins a new one.
        let silence = Nanos::from_secs(1);
        for after in [silence, TICK] {
            script.within_round(after, segments, 0);
        }
        // Raise cwnd to its target.
        for _ in 0..4 {
            script.within_round(Nanos::from_secs(1), segments, 0);
        }
        script.reach_phase(3);
        (script.cc.model().extra_acked(), script.cc.model().cwnd())
    };
    // Two bursts of 200 segments arrive one nanosecond apart.
    let (extra, grown) = window(200, 1.0);
    assert_eq!(extra, MSS * 400);
    assert_eq!(grown, quantised(1_000_000.0 + 400.0 * 1448.0, 8, false));
    // 2 x 500 segments exceed the cap of 1 250 000 B, the data that the bandwidth carries in 100 ms.
    let (extra, grown) = window(500, 1.0);
    assert_eq!(extra, Bytes::new(1_250_000));
    assert_eq!(grown, quantised(2_250_000.0, 8, false));
    let (extra, grown) = window(200, 0.0);
    assert_eq!(extra, Bytes::ZERO);
    assert_eq!(grown, quantised(1_000_000.0, 8, false));
}

/// On a path that aggregates acknowledgements, the aggregation term of cwnd raises throughput.
#[test]
fn aggregation_term_raises_throughput_with_ack_bunching() {
    let goodput = |extra_acked: f64| {
        let mut path = Path::new(50.0, 10);
        path.bunch = Nanos::from_millis(60); // a cwnd of two BDPs lasts a third of this time
        let mut flow = Flow::<V1>::new(path, 1, &[("extra_acked", extra_acked), ("probe_rtt_duration", 0.0)]);
        flow.run(Nanos::from_secs(3), |_, _| {});
        let before = flow.delivered;
        flow.run_for(Nanos::from_secs(6));
        (flow.delivered - before).per(Nanos::from_secs(6)).as_mbit_per_sec()
    };
    let (with, without) = (goodput(1.0), goodput(0.0));
    assert!(with > 1.1 * without, "{with} against {without}");
}

/// A restart from idle begins a new epoch.
#[test]
fn aggregation_restart_from_idle_begins_new_epoch() {
    let extra = |idle: bool| {
        let mut script = Script::<V1>::in_phase(2, &[]);
        script.within_round(Nanos::from_secs(1), 300, 0);
        if idle {
            script.restart_from_idle(Nanos::ZERO, true);
        }
        script.within_round(TICK, 200, 0);
        script.cc.model().extra_acked()
    };
    assert_eq!(extra(false), MSS * 500);
    assert_eq!(extra(true), MSS * 300);
}
