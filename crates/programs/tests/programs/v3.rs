//! BBR v3 as a twin.

use narrows_cc::bbr_v2_v3::{AckPhase, BbrCore, Policy, State};
use narrows_cc::{Bytes, CongestionControl, Rate, Value};

use super::tape::{Decisions, Twin};

/// A 32-bit random number from which the program draws `value` out of `range`.
fn drawn(value: u64, range: u64) -> u32 {
    if range == 0 { 0 } else { (u128::from(value) << 32).div_ceil(range.into()) as u32 }
}

impl<P: Policy> Twin for BbrCore<P> {
    const DEFERS: bool = true;

    fn decisions(&self) -> Decisions {
        let (model, settings) = (self.model(), self.model().settings());
        let (mode, phase) = match model.state() {
            State::Startup => (0, 0),
            State::Drain => (1, 0),
            State::Down => (2, 0),
            State::Cruise => (2, 1),
            State::Refill => (2, 2),
            State::Up => (2, 3),
            State::ProbeRtt(_) => (3, 0),
        };
        let ack_phase = match model.ack_phase() {
            AckPhase::Init => 0,
            AckPhase::Refilling => 1,
            AckPhase::Starting => 2,
            AckPhase::Feedback => 3,
            AckPhase::Stopping => 4,
        };
        let (mut signals, mut rounds, mut wait) = (ack_phase, 0, 0);
        self.telemetry(&mut |name, value| match (name, value) {
            ("probe_too_high", Value::Number(on)) => signals |= (on as u32) << 3,
            ("probe_precautionary", Value::Number(on)) => signals |= (on as u32) << 4,
            ("full_bw_now", Value::Number(on)) => signals |= (on as u32) << 5,
            ("full_bw_reached", Value::Number(on)) => signals |= (on as u32) << 6,
            ("idle_restart", Value::Number(on)) => signals |= (on as u32) << 7,
            ("undo_state", Value::State(name)) => signals |= if name == State::Up.name() { 2 << 8 } else { 1 << 8 },
            ("rounds_since_probe_up", Value::Number(n)) => rounds = n as u32,
            ("probe_wait", Value::Time(time)) => wait = time.as_nanos() / 1_000,
            _ => {}
        });
        let least = settings.probe_wait.as_nanos() / 1_000;
        let random = settings.probe_wait_random.as_nanos() / 1_000;
        let bytes = |bound: Option<Bytes>| bound.map_or(u64::MAX, Bytes::as_u64);
        Decisions {
            mode,
            phase,
            since_us: 0,
            gain: self.policy().pacing_gain(model),
            bandwidth: model.max_bw().as_bytes_per_sec(),
            min_rtt_us: model.min_rtt().map_or(u32::MAX, |rtt| (rtt.as_nanos() / 1_000) as u32),
            rate: model.pacing_rate().as_bytes_per_sec(),
            cwnd: model.cwnd().as_u64() / settings.mss.as_u64(),
            cwnd_gain: model.cwnd_gain(),
            drawn: [rounds, drawn(wait.saturating_sub(least), random)],
            bytes: model.cwnd().as_u64(),
            bounds: [
                model.bw_short().map_or(u64::MAX, Rate::as_bytes_per_sec),
                bytes(model.inflight_short()),
                bytes(model.inflight_long()),
            ],
            signals,
        }
    }
}
