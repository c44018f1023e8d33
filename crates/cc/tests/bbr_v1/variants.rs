//! The hooks by which variants differ, and the parameters: each must change the output.

use narrows_cc::bbr_v1::{Model, PARAMS, PHASE_UP, Policy, ProbeRtt, RecoveryEntry, State};
use narrows_cc::{
    Ack, Bytes, Info, Nanos, Param, Phase, Provenance, Rate, RecoveryStyle, Sent, Setup, bbr_params, record,
};

use crate::bbr_v1::path::{Flow, MSS, Path, V1};
use crate::bbr_v1::script::{Script, TICK, quantised};

const INFO: Info = record!(Info {
    provenance: Provenance::Tool,
    recovery: RecoveryStyle::Own,
    params: bbr_params![],
    ..Info::new("variant", "a variant for tests")
});

/// A variant with gains latched at the start of the cycle, a probing phase of at most 3 ms and a cwnd of one BDP.
#[derive(Clone, Debug)]
struct Gains {
    latched: f64,
}

impl Policy for Gains {
    const INFO: Info = INFO;

    fn new(_setup: &Setup) -> Self {
        Self { latched: 0.0 }
    }
    fn on_transition(&mut self, to: State, model: &Model) {
        if let State::ProbeBw { phase: PHASE_UP, .. } = to {
            assert_ne!(model.state(), to, "called before the state changes");
            self.latched = 1.5;
        }
    }
    fn probe_gain(&self, phase: u8, _model: &Model) -> f64 {
        [self.latched, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0][usize::from(phase)]
    }
    fn phase_done(&self, phase: u8, since: Nanos, _ack: &Ack, model: &Model) -> bool {
        let limit = if phase == PHASE_UP { Some(Nanos::from_millis(3)) } else { model.min_rtt() };
        limit.is_some_and(|limit| model.delivered_at() - since > limit)
    }
    fn probe_cwnd_gain(&self, _model: &Model) -> f64 {
        1.0
    }
}

/// A variant can override gains, phase ends and cwnd gain.
#[test]
fn variant_overrides_gains_phase_ends_and_window_gain() {
    let mut script = Script::<Gains>::in_phase(7, &[("extra_acked", 0.0)]);
    script.reach_phase(0);
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(1.5 * 0.99));
    script.within_round(Nanos::from_millis(3), 1, 0);
    assert_eq!(script.phase_of_cycle(), 0);
    script.within_round(TICK, 1, 0);
    assert_eq!(script.phase_of_cycle(), 1);
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(0.5 * 0.99));
    script.reach_phase(2);
    script.within_round(TICK, 100, 0);
    assert_eq!(script.cc.model().cwnd(), quantised(500_000.0, 8, false));
}

/// A variant that halves the BDP in PROBE_BW and keeps a third of cwnd in PROBE_RTT. Its recovery neither conserves
/// packets nor restores cwnd, and paces at 0.75 of the bandwidth.
#[derive(Clone, Debug)]
struct Recovery {
    third: Bytes,
    expired: u32,
}

impl Policy for Recovery {
    const INFO: Info = INFO;

    fn new(_setup: &Setup) -> Self {
        Self { third: Bytes::ZERO, expired: 0 }
    }
    fn on_transition(&mut self, to: State, model: &Model) {
        if let State::ProbeRtt(ProbeRtt { until: None, .. }) = to {
            self.third = model.cwnd() / 3;
        }
    }
    fn on_min_rtt_expired(&mut self, model: &Model) {
        assert_eq!(model.min_rtt(), Some(Nanos::from_millis(40)), "the old minimum is still there");
        self.expired += 1;
    }
    fn target_bdp(&self, bw: Rate, min_rtt: Nanos, model: &Model) -> Bytes {
        if model.in_probe_bw() { bw.over(min_rtt) / 2 } else { bw.over(min_rtt) }
    }
    fn probe_rtt_cwnd(&self, _model: &Model) -> Bytes {
        self.third
    }
    fn pacing_gain(&self, model: &Model) -> f64 {
        if model.phase() == Phase::Recovery { 0.75 } else { self.state_gain(model) }
    }
    fn enter_recovery(&mut self, _window: Bytes, ack: &Ack, _model: &Model) -> RecoveryEntry {
        RecoveryEntry { cwnd: ack.inflight, conserve: false }
    }
    fn leave_recovery(&mut self, window: Bytes, _ack: &Ack, _model: &Model) -> Bytes {
        window
    }
}

/// A variant can override the BDP, recovery and PROBE_RTT.
#[test]
fn variant_overrides_bdp_recovery_and_probe_rtt() {
    let mut script = Script::<Recovery>::in_phase(2, &[("extra_acked", 0.0)]);
    script.acks(10, 100);
    let window = quantised(500_000.0, 8, false);
    assert_eq!(script.cc.model().cwnd(), window);
    script.enter_recovery_at(MSS * 200, 2, 3);
    // cwnd becomes inflight and then grows by the acknowledged data, because packets are not conserved.
    assert_eq!(script.cc.model().cwnd(), MSS * 202);
    script.within_round(TICK, 5, 0);
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(0.75 * 0.99));
    assert_eq!(script.cc.model().cwnd(), MSS * 207);
    script.leave_recovery(1);
    assert_eq!(script.cc.model().cwnd(), MSS * 208);
    script.expire_min_rtt(Nanos::from_millis(41), MSS * 70, 0);
    assert_eq!(script.cc.policy().expired, 1);
    assert_eq!(script.cc.model().cwnd(), MSS * 208 / 3);
    assert!(matches!(script.state(), State::ProbeRtt(ProbeRtt { until: None, .. })), "70 are more than 69.3 segments");
    script.inflight = MSS * 69;
    script.round(0, 0);
    assert!(matches!(script.state(), State::ProbeRtt(ProbeRtt { until: Some(_), .. })));
}

/// A variant that uses four fifths of the bandwidth. In the first round of recovery every acknowledgement halves cwnd.
#[derive(Clone, Debug)]
struct Halving {
    acks: u32,
    sent: Bytes,
}

impl Policy for Halving {
    const INFO: Info = INFO;

    fn new(_setup: &Setup) -> Self {
        Self { acks: 0, sent: Bytes::ZERO }
    }
    fn observe(&mut self, ack: &Ack, model: &Model) {
        assert_eq!(model.latest_rtt(), ack.rtt);
        self.acks += 1;
    }
    fn on_sent(&mut self, sent: &Sent, _model: &Model) {
        self.sent += sent.bytes;
    }
    fn bandwidth(&self, estimate: Rate, _model: &Model) -> Rate {
        estimate.mul_f64(0.8)
    }
    fn conserve(&mut self, window: Bytes, _ack: &Ack, model: &Model) -> Bytes {
        (window / 2).min(model.inflight_at(self, 1.0)).max(model.settings().min_window)
    }
}

/// A variant can override the bandwidth and the first round of recovery.
#[test]
fn variant_overrides_bandwidth_and_first_recovery_round() {
    let mut script = Script::<Halving>::in_phase(2, &[]);
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(0.8).mul_f64(0.99));
    script.enter_recovery_at(MSS * 198, 2, 3);
    assert_eq!(script.cc.model().cwnd(), MSS * 100);
    for expected in [50, 25] {
        script.within_round(TICK, 1, 0);
        assert_eq!(script.cc.model().cwnd(), MSS * expected);
    }
    script.acks(5, 1);
    assert_eq!(script.cc.model().cwnd(), MSS * 4);
    let before = script.cc.policy().acks;
    script.round(1, 0);
    assert_eq!(script.cc.policy().acks, before + 1);

    let mut flow = Flow::<Halving>::new(Path::new(20.0, 40), 1, &[]);
    flow.run_for(Nanos::from_secs(1));
    assert_eq!(flow.cc.policy().sent, MSS * flow.sent);
}

/// A variant's parameters follow BBR's parameters in the list and replace those with the same name.
#[test]
fn variant_parameters_extend_and_replace_those_of_bbr() {
    const MERGED: &[Param] = bbr_params![
        Param::number("own", 3.0, (1.0, 4.0), "pkt", "a number of its own"),
        Param::flag("extra_acked", false, "off"),
    ];
    assert_eq!(MERGED.len(), PARAMS.len() + 1);
    assert_eq!(MERGED[PARAMS.len()].name, "own");
    for (merged, standard) in MERGED.iter().zip(PARAMS) {
        assert_eq!(merged.name, standard.name);
        let default = if merged.name == "extra_acked" { 0.0 } else { standard.default };
        assert_eq!(merged.default, default, "{}", merged.name);
    }
    for (i, param) in PARAMS.iter().enumerate() {
        assert!(param.min <= param.default && param.default <= param.max, "{}", param.name);
        assert!(PARAMS[..i].iter().all(|other| other.name != param.name), "{}", param.name);
    }
}

/// A hash of the time, acknowledged data and inflight of all acknowledgements on three paths (clean, aggregated,
/// policed).
fn fingerprint(values: &[(&str, f64)]) -> u64 {
    let clean = Path::new(20.0, 40);
    let mut bunched = Path::new(50.0, 10);
    bunched.bunch = Nanos::from_millis(30);
    let mut policed = Path::new(100.0, 40);
    policed.policer = Some((Rate::from_mbit_per_sec(10.0), Bytes::new(200_000)));
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (path, seconds) in [(clean, 12), (bunched, 2), (policed, 4)] {
        let mut flow = Flow::<V1>::new(path, 1, values);
        flow.run(Nanos::from_secs(seconds), |_, ack| {
            for word in [ack.now.as_nanos(), ack.acked.as_u64(), ack.inflight.as_u64()] {
                hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            }
        });
    }
    hash
}

/// Every parameter of BBRv1 changes the packets sent.
#[test]
fn variant_parameters_all_change_the_output() {
    let standard = fingerprint(&[]);
    assert_eq!(fingerprint(&[]), standard, "runs repeat");
    for param in PARAMS {
        // Each parameter is set to half its default or to its minimum; defaults of 0 become 1, and flags that are on
        // become 0.
        let value = if param.default == 0.0 { 1.0 } else { (param.default / 2.0).max(param.min) };
        let value = if param.unit.is_empty() && param.default == 1.0 { 0.0 } else { value };
        assert_ne!(fingerprint(&[(param.name, value)]), standard, "{} = {value}", param.name);
    }
}
