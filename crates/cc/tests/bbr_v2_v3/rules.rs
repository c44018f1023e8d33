//! Formulas of BBRv3.

use narrows_cc::bbr_v2_v3::{FullBw, MaxBw, ProbeRtt, State};
use narrows_cc::{Bytes, CongestionControl, Nanos, Rate, Setup, record};

use crate::bbr_v2_v3::script::{BDP, MOMENT, MSS, RTT, Script, V3, assert_rate, paced, segments, setup};

const fn rate(n: u64) -> Rate {
    Rate::from_bytes_per_sec(n)
}

/// The bandwidth filter covers two cycles; a cycle without a sample does not count.
#[test]
fn max_bw_filter_holds_two_cycles_with_samples() {
    let mut filter = MaxBw::default();
    filter.update(rate(100));
    filter.update(rate(80));
    assert_eq!(filter.get(), rate(100));
    filter.advance();
    filter.update(rate(70));
    assert_eq!(filter.get(), rate(100), "the previous cycle counts");
    filter.advance();
    assert_eq!(filter.get(), rate(70), "the one before it does not");
    filter.advance();
    assert_eq!(filter.get(), rate(70), "without a new sample the filter does not advance");
}

/// The pipe is full after three rounds that grow by less than a quarter; growth restarts the count.
#[test]
fn full_bw_needs_three_rounds_without_25_percent_growth() {
    let mut full = FullBw::default();
    full.round(rate(100), 1.25, 3);
    assert_eq!((full.base, full.count), (rate(100), 0));
    full.round(rate(124), 1.25, 3);
    full.round(rate(124), 1.25, 3);
    assert_eq!((full.base, full.count, full.now), (rate(100), 2, false));
    full.round(rate(125), 1.25, 3);
    assert_eq!((full.base, full.count), (rate(125), 0), "exactly a quarter is growth");
    for _ in 0..3 {
        full.round(rate(155), 1.25, 3);
    }
    assert_eq!((full.base, full.count, full.now), (rate(125), 3, true));
}

/// The loss of a flight exceeds the threshold if it is more than 2 %; without SACK, any loss exceeds the threshold.
#[test]
fn loss_threshold_is_2_percent_or_any_loss_without_sack() {
    let script = Script::<V3>::new(&[]);
    let too_high = |lost, flight| script.cc.model().is_too_high(Bytes::new(lost), Bytes::new(flight));
    assert!(!too_high(2_000, 100_000), "exactly 2 % is tolerated");
    assert!(too_high(2_001, 100_000));
    assert!(!too_high(0, 0) && too_high(1, 0));
    let script = Script::<V3>::with(&record!(Setup { sack: false, ..setup::<V3>(1, &[]) }));
    let too_high = |lost, flight| script.cc.model().is_too_high(Bytes::new(lost), Bytes::new(flight));
    assert!(too_high(1, 100_000) && !too_high(0, 100_000));
}

/// The inflight at which losses reach the threshold solves the draft's equation.
#[test]
fn inflight_at_loss_threshold_solves_draft_equation() {
    let script = Script::<V3>::new(&[]);
    let at = |tx, lost, clamped| {
        script.cc.model().inflight_at_loss(MSS, segments(tx), segments(lost), clamped).as_f64() / 1_000.0
    };
    // 10 of 500 segments were lost before this packet, so the 2 % were already reached: (0.02 * 500 - 10) / 0.98 = 0.
    assert!((at(501, 11, false) - 500.0).abs() < 0.01);
    // With 9 segments lost before this packet, the result is 500 + 1 / 0.98 segments. At that inflight the loss is (9 +
    // 1.0204) / 501.0204 = 2 %.
    let expected = 500.0 + 1.0 / 0.98;
    assert!((at(501, 10, false) - expected).abs() < 0.01);
    assert!(((9.0 + expected - 500.0) / expected - 0.02).abs() < 1e-9);
    // If more than 2 % were lost before this packet, the draft subtracts the excess; v2 returns the inflight before the
    // packet.
    assert!((at(501, 51, false) - (500.0 - 40.0 / 0.98)).abs() < 0.01);
    assert!((at(501, 51, true) - 500.0).abs() < 0.01);
    assert_eq!(at(1, 1, false), 0.0, "a lone packet");
    assert!((at(10, 9, false) - (9.0 + (0.18 - 8.0) / 0.98)).abs() < 0.01);
    assert_eq!(at(10, 11, false), 0.0, "never below nothing");
}

/// The headroom is 15 % of the bound, but at least one segment; the bound less the headroom is at least four segments.
#[test]
fn headroom_is_15_percent_at_least_one_segment() {
    // The bound is the inflight at which a probe lost too much. The bound's minimum of beta times cwnd does not apply:
    // after the timeout cwnd is one segment.
    for bound in [1_000u64, 100, 10, 7, 6, 5, 4, 3] {
        let mut script = Script::<V3>::in_up(&[("beta", 0.1)]);
        script.inflight = Bytes::ZERO;
        script.report_timeout(1);
        let since = bound / 50 + 1;
        script.lose(1, segments(bound + 1), since);
        let long = bound as f64 + (0.02 * bound as f64 - (since as f64 - 1.0)) / 0.98;
        let model = script.cc.model();
        let told = model.inflight_long().unwrap().as_f64() / 1_000.0;
        assert!((told - long).abs() < 0.01, "{told} {long}");
        let headroom = model.inflight_with_headroom().as_f64() / 1_000.0;
        let expected = (long - (0.15 * long).max(1.0)).max(4.0);
        assert!((headroom - expected).abs() < 0.01, "{headroom} {expected}");
    }
    let script = Script::<V3>::new(&[]);
    assert_eq!(script.cc.model().inflight_with_headroom(), Bytes::MAX, "no bound, no headroom");
}

/// max_inflight is gain times BDP, at least three quanta and four segments, plus two segments in PROBE_UP.
#[test]
fn max_inflight_is_gain_times_bdp_with_minimum() {
    let script = Script::<V3>::in_up(&[("extra_acked", 0.0)]);
    let model = script.cc.model();
    assert_eq!(model.inflight_at(model.max_bw(), 1.0), BDP + MSS * 2);
    // PROBE_UP paces at 1.25 x 0.99 x 100 Mbit/s, that is 15 468 B in 1 ms: a quantum of 15 segments.
    assert_eq!(model.inflight_at(Rate::ZERO, 1.0), MSS * (3 * 15 + 2));
    assert_eq!(script.telemetry("max_inflight"), Some(narrows_cc::Value::Bytes(segments(1_127))), "2.25 BDP and two");
    let script = Script::<V3>::in_cruise(&[("quantum", 10.0)]);
    assert_eq!(script.cc.model().inflight_at(Rate::ZERO, 1.0), MSS * 30);
}

/// The send quantum is the data paced in 1 ms, at least two segments and at most 64 kB.
#[test]
fn send_quantum_is_one_ms_of_pacing_within_limits() {
    for (mbit, expected) in [(100.0, 12), (1.0, 2), (10_000.0, 65)] {
        let mut script = Script::<V3>::new(&[]);
        script.rate = Rate::from_mbit_per_sec(mbit);
        script.reach_cruise();
        assert_eq!(script.cc.model().send_quantum(), MSS * expected, "{mbit} Mbit/s");
    }
}

/// The pacing rate starts at 2.77 initial windows per RTT and never falls before the pipe is full.
#[test]
fn pacing_starts_at_2_77_initial_windows_per_rtt() {
    let mut script = Script::<V3>::new(&[]);
    assert_rate(script.cc.control().pacing_rate.unwrap(), 2.77 * 10_000.0 / 0.04);
    script.rate = Rate::from_bytes_per_sec(1_000);
    script.round(10);
    assert_rate(script.cc.control().pacing_rate.unwrap(), 2.77 * 10_000.0 / 0.04);
    script.rate = Rate::from_mbit_per_sec(100.0);
    script.round(10);
    assert_rate(script.cc.control().pacing_rate.unwrap(), paced(2.77));
}

/// The pacing gain and the cwnd gain depend on the state.
#[test]
fn gains_follow_the_state() {
    let mut script = Script::<V3>::new(&[]);
    script.round(10);
    script.assert_gains(State::Startup, 2.77, 2.0);
    script.reach_drain();
    script.assert_gains(State::Drain, 0.5, 2.0);
    script.within_at(BDP);
    script.assert_gains(State::Cruise, 1.0, 2.0);
    script.refill_from_cruise();
    script.assert_gains(State::Refill, 1.0, 2.0);
    script.up_from_refill();
    script.assert_gains(State::Up, 1.25, 2.25);
    script.inflight = BDP * 2;
    script.lose_too_much(BDP);
    script.within(MOMENT, 1);
    script.assert_gains(State::Down, 0.9, 2.0);
}

/// cwnd grows by the delivered data up to max_inflight, within the inflight bounds of the state.
#[test]
fn cwnd_grows_by_delivered_data_within_state_bounds() {
    let mut script = Script::<V3>::new(&[("extra_acked", 0.0), ("probe_rtt_duration", 0.0)]);
    script.round(10);
    assert_eq!(script.cwnd(), MSS * 20);
    script.reach_cruise();
    assert_eq!(script.cwnd(), BDP * 2, "grown to the target and cut there");
    script.refill_from_cruise();
    script.up_from_refill();
    script.lose_too_much(segments(600));
    script.within_at(segments(550));
    let model = script.cc.model();
    let long = model.inflight_long().unwrap();
    assert_eq!(script.state(), State::Down);
    assert_eq!(script.cwnd(), long, "DOWN: the long-term bound");
    script.within_at(segments(400));
    assert_eq!(script.state(), State::Cruise);
    assert_eq!(script.cwnd(), script.cc.model().inflight_with_headroom(), "CRUISE: less headroom");
    script.tx_in_flight = segments(400);
    script.refill_from_cruise();
    script.within(MOMENT, 500);
    assert_eq!(script.cwnd(), long, "REFILL: the long-term bound");
}

/// The aggregation term of cwnd is the maximum excess of the last ten rounds; in STARTUP, of one round.
#[test]
fn extra_acked_is_maximum_of_ten_rounds_or_one_in_startup() {
    let mut script = Script::<V3>::in_cruise(&[]);
    // The epoch begins with an acknowledgement; all data acknowledged at the time of its beginning counts as excess.
    script.rounds(30, 500);
    let base = script.cc.model().extra_acked();
    script.within(Nanos::ZERO, 700);
    let grown = script.cc.model().extra_acked();
    assert!(grown >= base + segments(700) - MSS, "{base:?} {grown:?}");
    assert!(grown <= script.cc.model().cwnd());
    // A long pause ends the epoch. The maximum stays for ten rounds; then only the excess of an ordinary round remains.
    for n in 0..12 {
        script.now += RTT * 3;
        script.round(1);
        let extra = script.cc.model().extra_acked();
        if n < 10 {
            assert_eq!(extra, grown, "round {n}");
        } else {
            assert!(extra < grown, "round {n}");
        }
    }
}

/// States allow only the transitions of the draft and those of an undo.
#[test]
fn states_allow_draft_and_undo_transitions_only() {
    let rtt = State::ProbeRtt(ProbeRtt::ENTRY);
    let held = State::ProbeRtt(ProbeRtt { until: Some(RTT), round_done: false });
    let all = [State::Startup, State::Drain, State::Down, State::Cruise, State::Refill, State::Up, rtt, held];
    // Rows: source state; columns: target state, in the same order.
    let allowed = [
        [0, 1, 0, 0, 0, 0, 1, 0],
        [1, 0, 1, 0, 0, 0, 1, 0],
        [1, 0, 0, 1, 1, 0, 1, 0],
        [1, 0, 0, 0, 1, 0, 1, 0],
        [1, 0, 0, 0, 1, 1, 1, 0],
        [1, 0, 1, 0, 0, 0, 1, 0],
        [1, 0, 1, 0, 0, 0, 0, 1],
        [1, 0, 1, 0, 0, 0, 0, 0],
    ];
    for (from, row) in all.into_iter().zip(allowed) {
        for (to, edge) in all.into_iter().zip(row) {
            assert_eq!(from.may_become(to), edge == 1, "{from:?} -> {to:?}");
        }
    }
}
