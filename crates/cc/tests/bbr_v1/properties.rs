//! Invariants of BBRv1.

use narrows_cc::bbr_v1::{CYCLE_PHASES, ProbeRtt, State};
use narrows_cc::{Ack, Bytes, CongestionCause, CongestionControl, Nanos, Rate, Value, record};
use proptest::prelude::*;

use crate::bbr_v1::path::{MSS, V1};
use crate::bbr_v1::script::Script;

#[derive(Clone, Debug)]
enum Event {
    Ack { after_us: u64, acked: u64, lost: u64, rtt_us: Option<u64>, rate: Option<u64>, new_round: bool, limited: bool },
    Inflight(u64),
    Enter(bool),
    Leave,
    Timeout(u64),
    Spurious,
    Idle(u64, bool),
}

fn event() -> impl Strategy<Value = Event> {
    let ack = (
        0..2_000_000_u64,
        0..300_u64,
        prop_oneof![3 => Just(0), 1 => 0..50_u64],
        prop::option::weighted(0.9, 1..500_000_u64),
        prop::option::weighted(0.9, 1..2_000_000_000_u64),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(after_us, acked, lost, rtt_us, rate, new_round, limited)| Event::Ack {
            after_us,
            acked,
            lost,
            rtt_us,
            rate,
            new_round,
            limited,
        });
    prop_oneof![
        20 => ack,
        4 => (0..2_000_u64).prop_map(Event::Inflight),
        1 => any::<bool>().prop_map(Event::Enter),
        1 => Just(Event::Leave),
        1 => (0..100_u64).prop_map(Event::Timeout),
        1 => Just(Event::Spurious),
        1 => (0..20_000_u64, any::<bool>()).prop_map(|(ms, limited)| Event::Idle(ms, limited)),
    ]
}

fn apply(script: &mut Script<V1>, event: &Event) {
    match *event {
        Event::Ack { after_us, acked, lost, rtt_us, rate, new_round, limited } => {
            script.app_limited = limited;
            let mut ack = script.next_ack(Nanos::from_micros(after_us), acked, lost);
            ack.rtt = rtt_us.map(Nanos::from_micros);
            ack.rate = ack.rate.zip(rate).map(|(mut sample, rate)| {
                sample.rate = Rate::from_bytes_per_sec(rate);
                if !new_round {
                    sample.prior_delivered = Bytes::ZERO;
                }
                sample
            });
            script.cc.on_ack(&record!(Ack { phase: script.phase, ..ack }));
        }
        Event::Inflight(segments) => script.inflight = MSS * segments,
        Event::Enter(marks) => {
            let cause = if marks { CongestionCause::Ecn } else { CongestionCause::Loss };
            script.report_recovery(cause, script.inflight, Bytes::ZERO);
        }
        Event::Leave => script.report_recovery_left(),
        Event::Timeout(segments) => {
            script.inflight = MSS * segments;
            script.report_timeout(1);
        }
        Event::Spurious => script.report_spurious_loss(),
        Event::Idle(ms, app_limited) => script.restart_from_idle(Nanos::from_millis(ms), app_limited),
    }
}

proptest! {
    /// Random event sequences keep BBRv1's invariants.
    ///
    /// Illegal transitions panic in debug builds; this test asserts the other invariants.
    #[test]
    fn bbr_v1_any_event_sequence_keeps_invariants(seed in any::<u64>(), events in prop::collection::vec(event(), 1..300)) {
        let mut script = Script::<V1>::new(seed, &[]);
        for event in &events {
            apply(&mut script, event);
            let control = script.cc.control();
            let model = script.cc.model();
            prop_assert!(control.cwnd >= MSS, "{control:?}");
            prop_assert!(!control.pacing_rate.unwrap().is_zero());
            prop_assert!(model.send_quantum() >= MSS && model.send_quantum() <= MSS * 127);
            // A send quantum of one segment limits the burst; otherwise the transport's rule decides.
            prop_assert_eq!(control.burst, if model.send_quantum() == MSS { MSS } else { Bytes::MAX });
            match model.state() {
                State::Startup => prop_assert!(!model.full_bw_reached()),
                State::Drain => prop_assert!(model.full_bw_reached()),
                State::ProbeBw { phase, .. } => prop_assert!(model.full_bw_reached() && phase < CYCLE_PHASES),
                State::ProbeRtt(ProbeRtt { until, round_done }) => prop_assert!(until.is_some() || !round_done),
            }
            if let (State::ProbeRtt { .. }, Event::Ack { .. }) = (model.state(), event) {
                prop_assert!(control.cwnd <= MSS * 4);
            }
        }
        let mut names = Vec::new();
        script.cc.telemetry(&mut |name, value| {
            if let Value::Number(number) = value {
                assert!(number.is_finite(), "{name}");
            }
            names.push(name);
        });
        for name in ["state", "bw_estimate", "pacing_gain", "cwnd_gain", "full_bw", "extra_acked", "lt_bw", "round"] {
            prop_assert!(names.contains(&name), "{name} in {names:?}");
        }
    }
}

/// Only the transitions of the state diagram are legal.
#[test]
fn bbr_v1_only_diagram_transitions_are_legal() {
    let states = || {
        let cycle = (0..CYCLE_PHASES).map(|phase| State::ProbeBw { phase, since: Nanos::ZERO });
        let hold = |until, round_done| State::ProbeRtt(ProbeRtt { until, round_done });
        let end = Some(Nanos::from_secs(1));
        let probe_rtt = [hold(None, false), hold(end, false), hold(end, true)];
        [State::Startup, State::Drain].into_iter().chain(cycle).chain(probe_rtt)
    };
    let count = |from: State| states().filter(|to| from.may_become(*to)).count();
    // STARTUP may become DRAIN or PROBE_RTT.
    assert_eq!(count(State::Startup), 2);
    // DRAIN may become any of the seven start phases of PROBE_BW, or PROBE_RTT.
    assert_eq!(count(State::Drain), 8);
    for phase in 0..CYCLE_PHASES {
        // A phase of PROBE_BW may become any of the seven start phases or PROBE_RTT; the probing phase may also become
        // the draining phase.
        assert_eq!(count(State::ProbeBw { phase, since: Nanos::ZERO }), if phase == 0 { 9 } else { 8 });
    }
    // PROBE_RTT may become STARTUP or any of the seven start phases of PROBE_BW, or its clock may advance.
    let end = Some(Nanos::from_secs(1));
    assert_eq!(count(State::ProbeRtt(ProbeRtt::ENTRY)), 9);
    assert_eq!(count(State::ProbeRtt(ProbeRtt { until: end, round_done: false })), 9);
    assert_eq!(count(State::ProbeRtt(ProbeRtt { until: end, round_done: true })), 8);
}

/// Telemetry names the phase of the gain cycle.
#[test]
fn bbr_v1_telemetry_names_the_cycle_phase() {
    let mut script = Script::<V1>::new(1, &[]);
    assert_eq!(script.telemetry("state"), Some(Value::State("startup")));
    script.reach_probe_bw();
    for (phase, expected) in [(0, "probe_bw_up"), (1, "probe_bw_down"), (2, "probe_bw_cruise"), (7, "probe_bw_cruise")]
    {
        script.reach_phase(phase);
        assert_eq!(script.telemetry("state"), Some(Value::State(expected)));
    }
}
