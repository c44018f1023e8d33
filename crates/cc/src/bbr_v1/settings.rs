//! Parameters and constants of BBR.

use super::state::{PHASE_DOWN, PHASE_UP};
use crate::bbr_common::MIN_WINDOW_SEGMENTS;
use crate::{Bytes, Nanos, Param, Setup};

/// Growth ratio of the rate below which the pipe may be full.
pub(super) const FULL_BW_GROWTH: f64 = 1.25;
/// Round trips without such growth after which the pipe is full.
pub(super) const FULL_BW_ROUNDS: u8 = 3;

/// The parameters of BBR v1. [`bbr_params!`](crate::bbr_params) derives a variant's list from them.
pub const PARAMS: &[Param] = &[
    Param::ratio("high_gain", 2.885, (1.0, 10.0), "pacing and cwnd gain of Startup; Drain paces at its inverse"),
    Param::ratio("cwnd_gain", 2.0, (1.0, 10.0), "cwnd gain of ProbeBW"),
    Param::ratio("probe_up", 1.25, (1.0, 4.0), "pacing gain of the probing phase"),
    Param::ratio("probe_down", 0.75, (0.1, 1.0), "pacing gain of the draining phase"),
    Param::count("bw_window", 10.0, (1.0, 1e6), "round", "length of the bandwidth filter"),
    Param::number(
        "min_rtt_window",
        10.0,
        (0.1, 1e6),
        "s",
        "length of the min_rtt filter, and so time between ProbeRTTs",
    ),
    Param::number("probe_rtt_duration", 200.0, (0.0, 1e5), "ms", "time spent in ProbeRTT; 0: never entered"),
    Param::number("pacing_margin", 1.0, (0.0, 50.0), "%", "margin by which pacing stays below gain x bandwidth"),
    Param::flag("lt_bw", true, "detect policers (long-term bandwidth)"),
    Param::flag("extra_acked", true, "cwnd term for aggregated ACKs"),
    Param::count("quantum", 0.0, (0.0, 127.0), "pkt", "send quantum; 0: Linux's rule by rate"),
];

/// Parameter values, ready for use.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Segment size.
    pub mss: Bytes,
    /// Initial window.
    pub initial_window: Bytes,
    /// Minimum cwnd: four segments.
    pub min_window: Bytes,
    /// Gain of Startup.
    pub high_gain: f64,
    /// Pacing gain of Drain.
    pub drain_gain: f64,
    /// cwnd gain of ProbeBW.
    pub cwnd_gain: f64,
    /// Pacing gain of the probing phase.
    pub probe_up: f64,
    /// Pacing gain of the draining phase.
    pub probe_down: f64,
    /// Length of the bandwidth filter in round trips.
    pub bw_window: u64,
    /// Length of the min_rtt filter.
    pub min_rtt_window: Nanos,
    /// Minimum time in ProbeRTT.
    pub probe_rtt_duration: Nanos,
    /// The share of gain x bandwidth that is used for pacing.
    pub pacing_share: f64,
    /// Detect policers.
    pub lt_bw: bool,
    /// Add the term for aggregated ACKs to cwnd.
    pub extra_acked: bool,
    /// Send quantum in segments, if fixed.
    pub quantum: Option<u64>,
}

impl Settings {
    pub(super) fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number_or_default(name, PARAMS);
        let flag = |name| number(name) != 0.0;
        let quantum = number("quantum") as u64;
        Self {
            mss: setup.mss,
            initial_window: setup.initial_window,
            min_window: setup.mss * MIN_WINDOW_SEGMENTS,
            high_gain: number("high_gain"),
            drain_gain: 1.0 / number("high_gain"),
            cwnd_gain: number("cwnd_gain"),
            probe_up: number("probe_up"),
            probe_down: number("probe_down"),
            bw_window: number("bw_window") as u64,
            min_rtt_window: Nanos::from_secs_f64(number("min_rtt_window")),
            probe_rtt_duration: Nanos::from_secs_f64(number("probe_rtt_duration") / 1e3),
            pacing_share: 1.0 - number("pacing_margin") / 100.0,
            lt_bw: flag("lt_bw"),
            extra_acked: flag("extra_acked"),
            quantum: (quantum > 0).then_some(quantum),
        }
    }

    /// The pacing gain of a phase of ProbeBW in BBR v1.
    #[inline]
    pub fn probe_gain(&self, phase: u8) -> f64 {
        match phase {
            PHASE_UP => self.probe_up,
            PHASE_DOWN => self.probe_down,
            _ => 1.0,
        }
    }
}

/// The parameter list of a BBR variant: BBR v1's list, except for the names after `without`, plus the variant's
/// parameters, which replace those of BBR v1 with the same name.
#[macro_export]
macro_rules! bbr_params {
    (without $($gone:literal),+; $($param:expr),* $(,)?) => {
        $crate::merged_params!($crate::bbr_v1::PARAMS, without $($gone),+; $($param),*)
    };
    ($($param:expr),* $(,)?) => {
        $crate::merged_params!($crate::bbr_v1::PARAMS; $($param),*)
    };
}
