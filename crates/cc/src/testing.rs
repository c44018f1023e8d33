//! Plain events for unit tests, varied with struct update syntax.

use crate::{
    Ack, Bytes, CongestionCause, CongestionControl, IdleRestart, IdleRule, Info, Lost, Nanos, Params, Phase, Random,
    RecoveryEntered, Scheme, Setup, SpuriousLoss, Timeout,
};

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

/// A connection with segments of `mss` bytes and an initial window of ten of them.
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

/// `acked` bytes are acknowledged at time zero, in the open phase, with the window as the limit.
pub fn ack(acked: u64) -> Ack {
    Ack {
        now: Nanos::ZERO,
        acked: Bytes::new(acked),
        acked_cumulative: Some(Bytes::new(acked)),
        lost: Bytes::ZERO,
        rtt: None,
        rate: None,
        inflight_before: Bytes::new(acked),
        inflight: Bytes::ZERO,
        ce: Bytes::ZERO,
        delivered: Bytes::new(acked),
        cwnd_limited: true,
        cwnd_full: true,
        phase: Phase::Open,
        round_start: false,
        round: 0,
        srtt: None,
        min_rtt: None,
    }
}

/// A segment is acknowledged with an RTT sample.
pub fn sample(micros: u64) -> Ack {
    Ack { rtt: Some(Nanos::from_micros(micros)), ..ack(MSS) }
}

/// A round of three samples with the minimum `micros`; the last sample ends it.
pub fn round(scheme: &mut impl CongestionControl, micros: u64) {
    scheme.on_ack(&sample(micros + 5_000));
    scheme.on_ack(&sample(micros));
    scheme.on_ack(&Ack { round_start: true, ..sample(micros + 9_000) });
}

/// Recovery begins with `flight` bytes outstanding.
pub fn entered(cause: CongestionCause, flight: u64) -> RecoveryEntered {
    RecoveryEntered {
        now: Nanos::ZERO,
        cause,
        flight_size: Bytes::new(flight),
        inflight: Bytes::new(flight),
        acked: Bytes::ZERO,
        delivered: Bytes::ZERO,
    }
}

/// A packet is declared lost, the last one of so many bytes.
pub fn lost(now: Nanos, total: Bytes) -> Lost {
    Lost {
        now,
        bytes: Bytes::new(MSS),
        packet: 0,
        sent_at: now,
        tx_in_flight: Bytes::new(MSS),
        lost_at_send: Bytes::ZERO,
        delivered_at_send: Bytes::ZERO,
        app_limited: false,
        lost_total: total,
        inflight: Bytes::ZERO,
    }
}

/// The timer expires for the `consecutive`-th time in a row with `flight` bytes outstanding.
pub fn timeout(flight: u64, consecutive: u32) -> Timeout {
    Timeout {
        now: Nanos::ZERO,
        flight_size: Bytes::new(flight),
        inflight: Bytes::ZERO,
        delivered: Bytes::ZERO,
        consecutive,
    }
}

/// The reduction of `phase` was unnecessary.
pub fn spurious(phase: Phase) -> SpuriousLoss {
    SpuriousLoss { now: Nanos::ZERO, inflight: Bytes::ZERO, delivered: Bytes::ZERO, phase }
}

/// Sending resumes after `idle_ms`, with a retransmission timeout of `rto_ms`.
pub fn idle(idle_ms: u64, rto_ms: u64) -> IdleRestart {
    IdleRestart {
        now: Nanos::from_millis(idle_ms),
        idle: Nanos::from_millis(idle_ms),
        rto: Some(Nanos::from_millis(rto_ms)),
        delivered: Bytes::ZERO,
        app_limited: true,
        rule: IdleRule::Rfc5681,
    }
}
