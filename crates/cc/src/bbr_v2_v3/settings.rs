//! Parameters of BBR v3 and v2.

use crate::bbr_common::MIN_WINDOW_SEGMENTS;
use crate::params::with_default;
use crate::{Bytes, Nanos, Param, Setup, merged_params};

/// The send quantum is the data sent in this time …
pub(super) const QUANTUM_TIME: Nanos = Nanos::from_millis(1);
/// … up to 64 kB …
pub(super) const QUANTUM_BYTES: u64 = 65_536;
/// … and at least this many segments.
pub(super) const QUANTUM_SEGMENTS: u64 = 2;

/// The parameters of BBR v3 with the values of the IETF draft. [`merged_params!`](crate::merged_params)
/// derives a variant's list from them.
pub const PARAMS: &[Param] = &[
    Param::ratio("startup_gain", 2.77, (1.0, 10.0), "pacing gain of Startup"),
    Param::ratio("startup_cwnd_gain", 2.0, (1.0, 10.0), "cwnd gain of Startup and Drain"),
    Param::ratio("drain_gain", 0.5, (0.1, 1.0), "pacing gain of Drain"),
    Param::ratio("up_gain", 1.25, (1.0, 4.0), "pacing gain of ProbeBW_UP"),
    Param::ratio("down_gain", 0.9, (0.1, 1.0), "pacing gain of ProbeBW_DOWN"),
    Param::ratio("cwnd_gain", 2.0, (1.0, 10.0), "cwnd gain of ProbeBW except ProbeBW_UP"),
    Param::ratio("up_cwnd_gain", 2.25, (1.0, 10.0), "cwnd gain of ProbeBW_UP"),
    Param::ratio("probe_rtt_gain", 0.5, (0.0, 1.0), "cwnd gain of ProbeRTT"),
    Param::number("pacing_margin", 1.0, (0.0, 50.0), "%", "margin by which pacing stays below gain x bandwidth"),
    Param::number("loss_thresh", 2.0, (0.0, 50.0), "%", "loss of a flight above which a probe counts as too high"),
    Param::ratio("beta", 0.7, (0.1, 1.0), "minimum share of a bound kept after a round with loss"),
    Param::ratio("headroom", 0.15, (0.0, 0.9), "share of inflight_long left to other flows"),
    Param::ratio("full_bw_growth", 1.25, (1.0, 4.0), "growth per round that shows the pipe is not full"),
    Param::count(
        "full_bw_rounds",
        3.0,
        (1.0, 100.0),
        "round",
        "rounds without such growth after which the pipe is full",
    ),
    Param::count(
        "startup_losses",
        6.0,
        (0.0, 1e6),
        "",
        "separate ranges lost in a round that may end Startup; 0: loss never does",
    ),
    Param::count("drain_rounds", 3.0, (0.0, 1e6), "round", "longest Drain; 0: no limit"),
    Param::number("probe_wait", 2.0, (0.0, 1e4), "s", "minimum time between probes"),
    Param::number("probe_wait_random", 1.0, (0.0, 1e4), "s", "random part of the time between probes"),
    Param::count(
        "probe_rounds",
        63.0,
        (1.0, 1e6),
        "round",
        "maximum rounds between probes; fewer if the BDP has fewer packets",
    ),
    Param::count("probe_rounds_random", 1.0, (0.0, 100.0), "round", "random part of the rounds between probes"),
    Param::number("min_rtt_window", 10.0, (0.1, 1e6), "s", "length of the min_rtt filter"),
    Param::number("probe_rtt_interval", 5.0, (0.1, 1e6), "s", "age of the minimum RTT that starts ProbeRTT"),
    Param::number("probe_rtt_duration", 200.0, (0.0, 1e5), "ms", "time spent in ProbeRTT; 0: never entered"),
    Param::flag("extra_acked", true, "cwnd term for aggregated ACKs"),
    Param::count("extra_acked_window", 10.0, (1.0, 1e6), "round", "length of the aggregation filter; 1 in Startup"),
    Param::number("extra_acked_cap", 0.0, (0.0, 1e5), "ms", "aggregation term at most bw x this; 0: no limit"),
    Param::ratio("offload_quanta", 3.0, (0.0, 100.0), "minimum of max_inflight in send quanta"),
    Param::count("quantum", 0.0, (0.0, 127.0), "pkt", "send quantum; 0: data sent in 1 ms"),
    Param::flag("precaution", true, "stop the next probe at inflight_long after a probe that lost too much"),
    Param::flag("undo", true, "undo the response to spurious losses"),
    Param::flag("ecn", false, "respond to congestion-experienced marks"),
    Param::number("ecn_max_rtt", 5.0, (0.0, 1e5), "ms", "marks count if the minimum RTT is at most this"),
    Param::ratio("ecn_alpha_gain", 0.0625, (0.0, 1.0), "weight of one round in the averaged share of marks"),
    Param::ratio("ecn_factor", 1.0 / 3.0, (0.0, 1.0), "cut by a round in which every delivery is marked"),
    Param::ratio("ecn_thresh", 0.5, (0.01, 1.0), "share of marks from which a probe counts as too high"),
    Param::count("ecn_startup_rounds", 2.0, (1.0, 100.0), "round", "rounds with such a share that end Startup"),
    Param::ratio(
        "ecn_reprobe_gain",
        0.5,
        (0.0, 1.0),
        "share of inflight_long by which a probe may grow at once when marks cease; 0: off",
    ),
    Param::flag("ecn_bw", false, "let marks cut the bandwidth bounds too"),
];

/// The parameters of BBR v2: the parameters of BBR v3, with the values of Linux v2alpha where the two differ.
pub const PARAMS_V2: &[Param] = merged_params![PARAMS;
    with_default(PARAMS, "startup_gain", 2.885),
    with_default(PARAMS, "startup_cwnd_gain", 2.885),
    with_default(PARAMS, "drain_gain", 1.0 / 2.885),
    with_default(PARAMS, "down_gain", 0.75),
    with_default(PARAMS, "up_cwnd_gain", 2.0),
    Param::count(
        "startup_losses",
        8.0,
        (0.0, 1e6),
        "",
        "ACKs that report loss in a round that may end Startup; 0: loss never does",
    ),
    with_default(PARAMS, "drain_rounds", 0.0),
    with_default(PARAMS, "extra_acked_cap", 100.0),
    with_default(PARAMS, "ecn_reprobe_gain", 0.0),
    with_default(PARAMS, "ecn_bw", 1.0),
    Param::ratio("up_inflight_gain", 1.25, (1.0, 4.0), "inflight in BDPs at which ProbeBW_UP ends"),
];

/// Parameter values, ready for use.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the fields are the parameters, described above
pub struct Settings {
    /// Segment size.
    pub mss: Bytes,
    /// Initial window.
    pub initial_window: Bytes,
    /// Minimum cwnd: four segments.
    pub min_window: Bytes,
    /// The transport can detect more than one loss per round trip.
    pub sack: bool,
    pub startup_gain: f64,
    pub startup_cwnd_gain: f64,
    pub drain_gain: f64,
    pub up_gain: f64,
    pub down_gain: f64,
    pub cwnd_gain: f64,
    pub up_cwnd_gain: f64,
    pub probe_rtt_gain: f64,
    /// The share of gain x bandwidth that is used for pacing.
    pub pacing_share: f64,
    /// Loss threshold as a share, not in per cent.
    pub loss_thresh: f64,
    pub beta: f64,
    pub headroom: f64,
    pub full_bw_growth: f64,
    pub full_bw_rounds: u32,
    pub startup_losses: u32,
    /// `None`: no limit.
    pub drain_rounds: Option<u64>,
    pub probe_wait: Nanos,
    pub probe_wait_random: Nanos,
    pub probe_rounds: u64,
    pub probe_rounds_random: u64,
    pub min_rtt_window: Nanos,
    pub probe_rtt_interval: Nanos,
    pub probe_rtt_duration: Nanos,
    pub extra_acked: bool,
    pub extra_acked_window: u64,
    pub extra_acked_cap: Option<Nanos>,
    pub offload_quanta: f64,
    /// Send quantum in segments, if fixed.
    pub quantum: Option<u64>,
    pub precaution: bool,
    pub undo: bool,
    pub ecn: bool,
    pub ecn_max_rtt: Nanos,
    pub ecn_alpha_gain: f64,
    pub ecn_factor: f64,
    pub ecn_thresh: f64,
    pub ecn_startup_rounds: u32,
    pub ecn_reprobe_gain: f64,
    pub ecn_bw: bool,
    /// BBR v2 only.
    pub up_inflight_gain: f64,
}

impl Settings {
    pub(super) fn new(setup: &Setup, v2: bool) -> Self {
        let number = |name| setup.params.number_or_default(name, if v2 { PARAMS_V2 } else { PARAMS });
        let flag = |name| number(name) != 0.0;
        let seconds = |name| Nanos::from_secs_f64(number(name));
        let millis = |name| Nanos::from_secs_f64(number(name) / 1e3);
        let quantum = number("quantum") as u64;
        let drain_rounds = number("drain_rounds") as u64;
        let cap = millis("extra_acked_cap");
        Self {
            mss: setup.mss,
            initial_window: setup.initial_window,
            min_window: setup.mss * MIN_WINDOW_SEGMENTS,
            sack: setup.sack,
            startup_gain: number("startup_gain"),
            startup_cwnd_gain: number("startup_cwnd_gain"),
            drain_gain: number("drain_gain"),
            up_gain: number("up_gain"),
            down_gain: number("down_gain"),
            cwnd_gain: number("cwnd_gain"),
            up_cwnd_gain: number("up_cwnd_gain"),
            probe_rtt_gain: number("probe_rtt_gain"),
            pacing_share: 1.0 - number("pacing_margin") / 100.0,
            loss_thresh: number("loss_thresh") / 100.0,
            beta: number("beta"),
            headroom: number("headroom"),
            full_bw_growth: number("full_bw_growth"),
            full_bw_rounds: number("full_bw_rounds") as u32,
            startup_losses: number("startup_losses") as u32,
            drain_rounds: (drain_rounds > 0).then_some(drain_rounds),
            probe_wait: seconds("probe_wait"),
            probe_wait_random: seconds("probe_wait_random"),
            probe_rounds: number("probe_rounds") as u64,
            probe_rounds_random: number("probe_rounds_random") as u64,
            min_rtt_window: seconds("min_rtt_window"),
            probe_rtt_interval: seconds("probe_rtt_interval"),
            probe_rtt_duration: millis("probe_rtt_duration"),
            extra_acked: flag("extra_acked"),
            extra_acked_window: number("extra_acked_window") as u64,
            extra_acked_cap: (!cap.is_zero()).then_some(cap),
            offload_quanta: number("offload_quanta"),
            quantum: (quantum > 0).then_some(quantum),
            precaution: flag("precaution"),
            undo: flag("undo"),
            ecn: flag("ecn"),
            ecn_max_rtt: millis("ecn_max_rtt"),
            ecn_alpha_gain: number("ecn_alpha_gain"),
            ecn_factor: number("ecn_factor"),
            ecn_thresh: number("ecn_thresh"),
            ecn_startup_rounds: number("ecn_startup_rounds") as u32,
            ecn_reprobe_gain: number("ecn_reprobe_gain"),
            ecn_bw: flag("ecn_bw"),
            up_inflight_gain: if v2 { number("up_inflight_gain") } else { 1.0 },
        }
    }
}
