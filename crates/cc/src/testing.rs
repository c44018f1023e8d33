//! Events with default values for unit tests; tests change fields with struct update syntax.

use crate::{
    Ack, Bytes, CongestionCause, CongestionControl, IdleRestart, IdleRule, Info, Lost, Nanos, Params, Phase, Random,
    RecoveryEntered, Scheme, Setup, SpuriousLoss, Timeout, Value,
};

pub const fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// The segment size of most tests, in bytes.
pub const MSS: u64 = 1000;

/// Construction of any scheme in a test.
pub trait Build: Scheme {
    /// The scheme at the start of a connection with segments of [`MSS`].
    fn with(overrides: &[(&str, f64)]) -> Self
    where
        Self: Sized,
    {
        Self::new(&setup(&Self::INFO, MSS, overrides))
    }
}

impl<S: Scheme> Build for S {}

/// A connection with segments of `mss` bytes and an initial window of ten segments.
pub fn setup(info: &'static Info, mss: u64, overrides: &[(&str, f64)]) -> Setup {
    let mut params = Params::defaults(info.params);
    for (name, value) in overrides {
        params.set(name, *value).expect("a parameter of the scheme, within its range");
    }
    Setup {
        mss: Bytes::new(mss),
        initial_window: Bytes::new(10 * mss),
        sack: true,
        random: Random::stream(1, "scheme", 0),
        params,
    }
}

/// `acked` bytes are acknowledged at time zero, in the open phase; cwnd limited the data in flight.
pub fn ack(acked: u64) -> Ack {
    let acked = Bytes::new(acked);
    Ack {
        acked,
        acked_cumulative: Some(acked),
        inflight_before: acked,
        delivered: acked,
        cwnd_limited: true,
        cwnd_full: true,
        ..Ack::default()
    }
}

/// A segment is acknowledged with an RTT sample.
pub fn sample(micros: u64) -> Ack {
    Ack { rtt: Some(Nanos::from_micros(micros)), ..ack(MSS) }
}

/// A round of three RTT samples with the minimum `micros`; the last sample ends the round.
pub fn round(scheme: &mut impl CongestionControl, micros: u64) {
    scheme.on_ack(&sample(micros + 5_000));
    scheme.on_ack(&sample(micros));
    scheme.on_ack(&Ack { round_start: true, ..sample(micros + 9_000) });
}

/// Recovery begins with `flight` bytes outstanding.
pub fn entered(cause: CongestionCause, flight: u64) -> RecoveryEntered {
    let (flight_size, inflight) = (Bytes::new(flight), Bytes::new(flight));
    RecoveryEntered { cause, flight_size, inflight, ..RecoveryEntered::default() }
}

/// A packet is declared lost; with it, `total` bytes have been lost.
pub fn lost(now: Nanos, total: Bytes) -> Lost {
    let bytes = Bytes::new(MSS);
    Lost { now, bytes, sent_at: now, tx_in_flight: bytes, lost_total: total, ..Lost::default() }
}

/// The timer expires for the `consecutive`-th time in a row with `flight` bytes outstanding.
pub fn timeout(flight: u64, consecutive: u32) -> Timeout {
    Timeout { flight_size: Bytes::new(flight), consecutive, ..Timeout::default() }
}

/// The reduction of `phase` was unnecessary.
pub fn spurious(phase: Phase) -> SpuriousLoss {
    SpuriousLoss { phase, ..SpuriousLoss::default() }
}

/// The name of the state in the telemetry.
pub fn state(scheme: &impl CongestionControl) -> &'static str {
    let mut state = "";
    scheme.telemetry(&mut |name, value| {
        if let ("state", Value::State(value)) = (name, value) {
            state = value;
        }
    });
    state
}

/// Sending resumes after `idle_ms`, with a retransmission timeout of `rto_ms`.
pub fn idle(idle_ms: u64, rto_ms: u64) -> IdleRestart {
    let (idle, rto) = (Nanos::from_millis(idle_ms), Some(Nanos::from_millis(rto_ms)));
    IdleRestart { now: idle, idle, rto, app_limited: true, rule: IdleRule::Rfc5681, ..IdleRestart::default() }
}
