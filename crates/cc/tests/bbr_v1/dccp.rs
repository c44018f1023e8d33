//! DCCP-BBR: the first two gains of a cycle follow the reported loss rate and are latched when the cycle begins.

use narrows_cc::schemes::DccpBbr;
use narrows_cc::{CongestionControl, Nanos, ReceiverFeedback, record};

use crate::bbr_v1::path::{Core, V1};
use crate::bbr_v1::script::{Script, same};

type Adaptive = <DccpBbr as Core>::Policy;

fn report(script: &mut Script<Adaptive>, loss_rate: Option<f64>) {
    script.cc.on_receiver_feedback(&record!(ReceiverFeedback { loss_rate }));
}

fn gain(script: &Script<Adaptive>) -> f64 {
    script.number("pacing_gain")
}

/// Runs the next gain cycle and returns the pacing gains of its eight phases.
fn cycle(script: &mut Script<Adaptive>) -> [f64; 8] {
    std::array::from_fn(|phase| {
        script.reach_phase(phase as u8);
        gain(script)
    })
}

/// The first two gains of the cycle follow equation 9 of the paper.
#[test]
fn dccp_bbr_first_two_gains_follow_equation_9() {
    let cases = [
        (0.0, 1.25, 0.75),
        (0.1, 1.25, 0.75),
        (0.2, 1.25, 0.75),
        (0.25, 1.0 / 0.75, 0.5 / 0.75),
        (0.3, 1.0 / 0.7, 0.4 / 0.7),
        (0.35, 1.5, 0.5),
        (1.0, 1.5, 0.5),
    ];
    for (loss_rate, up, down) in cases {
        let mut script = Script::<Adaptive>::in_phase(7, &[]);
        report(&mut script, Some(loss_rate));
        let gains = cycle(&mut script);
        assert!(same(gains[0], up) && same(gains[1], down), "{loss_rate}: {gains:?}");
        assert!(gains[2..].iter().all(|gain| same(*gain, 1.0)), "{loss_rate}: {gains:?}");
        // Up to the cap, the gain times the share of packets received is 1, which preserves the bandwidth estimate
        // (equation 8).
        if (0.2..=0.3).contains(&loss_rate) {
            assert!(same(gains[0] * (1.0 - loss_rate), 1.0), "{loss_rate}");
        }
    }
}

/// The gains are latched when the cycle begins.
#[test]
fn dccp_bbr_gains_are_latched_at_cycle_start() {
    let mut script = Script::<Adaptive>::in_phase(7, &[]);
    report(&mut script, Some(0.25));
    script.reach_phase(0);
    report(&mut script, Some(0.35));
    assert!(same(gain(&script), 1.0 / 0.75));
    script.reach_phase(1);
    report(&mut script, Some(0.0));
    assert!(same(gain(&script), 0.5 / 0.75));
    // Reports without a loss rate, or with an invalid one, change nothing.
    report(&mut script, None);
    report(&mut script, Some(f64::NAN));
    report(&mut script, Some(7.0));
    let gains = cycle(&mut script);
    assert!(same(gains[0], 1.25) && same(gains[1], 0.75), "{gains:?}");
}

/// The pacing rate is the bandwidth times the gain.
#[test]
fn dccp_bbr_pacing_rate_applies_the_gain() {
    let mut script = Script::<Adaptive>::in_phase(7, &[("pacing_margin", 0.0)]);
    report(&mut script, Some(0.35));
    script.reach_phase(0);
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(1.5));
    script.reach_phase(1);
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(0.5));
}

/// Without loss reports, or with little loss, DCCP-BBR behaves as BBR without its pacing margin.
#[test]
fn dccp_bbr_without_reports_or_loss_is_bbr() {
    for reported in [None, Some(0.2)] {
        let mut bbr = Script::<V1>::new(7, &[("pacing_margin", 0.0)]);
        let mut dccp = Script::<Adaptive>::new(7, &[]);
        for step in 0..600_u64 {
            report(&mut dccp, reported);
            let lost = u64::from(step % 53 == 0);
            bbr.within_round(Nanos::from_millis(3), 2, lost);
            dccp.within_round(Nanos::from_millis(3), 2, lost);
            assert_eq!(bbr.cc.control(), dccp.cc.control(), "step {step}");
        }
    }
}
