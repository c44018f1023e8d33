//! Gamma correction of pacing gains by the RTT (BBR-GC, equations 10, 12 and 13): [`Gamma`] for any BBR core, and
//! [`Corrected`] for BBR v2 and v3.

use core::marker::PhantomData;

use crate::bbr_v2_v3::{Generation, Model, Policy, State};
use crate::{Ack, Info, Nanos, Param, Params, Setup, Telemetry, Value, WindowedMax};

/// Exponent of the probing gain.
pub const UP_GAMMA: Param =
    Param::ratio("up_gamma", 0.25, (0.0, 16.0), "exponent of RTT / RTT_max in the probing gain");
/// Exponent of the draining gain.
pub const DOWN_GAMMA: Param =
    Param::ratio("down_gamma", 4.0, (0.0, 16.0), "exponent of RTT / RTT_max in the draining gain");
/// Amplitude of the probing gain.
pub const UP_AMPLITUDE: Param = Param::ratio("up_amplitude", 0.5, (0.0, 3.0), "maximum of the probing gain above 1");
/// Amplitude of the draining gain.
pub const DOWN_AMPLITUDE: Param =
    Param::ratio("down_amplitude", 0.5, (0.0, 0.9), "maximum of the draining gain below 1");
/// Age at which RTT_max expires.
pub const RTT_MAX_WINDOW: Param =
    Param::number("rtt_max_window", 0.0, (0.0, 1e6), "s", "length of the RTT_max filter; 0: the whole connection");

/// The gain of a probe once 1 BDP is in flight.
pub const BETWEEN: Param = Param::choice(
    "between",
    &["keep", "up"],
    "from 1 BDP on: the gain it had (algorithm 1), or P_up until the probe ends",
);

/// amplitude · ω^exponent, recomputed only when ω changes.
#[derive(Clone, Copy, Debug)]
struct Curve {
    amplitude: f64,
    exponent: f64,
    omega: f64,
    value: f64,
}

impl Curve {
    fn new(amplitude: f64, exponent: f64) -> Self {
        Self { amplitude, exponent, omega: 1.0, value: amplitude }
    }

    #[inline]
    fn at(&mut self, omega: f64) -> f64 {
        if omega != self.omega {
            self.omega = omega;
            self.value = self.amplitude * power(omega, self.exponent);
        }
        self.value
    }
}

/// ω^exponent. The paper's exponents, and 0.5, 1 and 2, avoid `pow`.
#[inline]
fn power(omega: f64, exponent: f64) -> f64 {
    if exponent == 0.25 {
        libm::sqrt(libm::sqrt(omega))
    } else if exponent == 0.5 {
        libm::sqrt(omega)
    } else if exponent == 1.0 {
        omega
    } else if exponent == 2.0 {
        omega * omega
    } else if exponent == 4.0 {
        let square = omega * omega;
        square * square
    } else {
        libm::pow(omega, exponent)
    }
}

/// The two gains, and the RTT_max that they depend on.
///
/// ω = RTT / RTT_max lies in (0, 1]; the gains are P_up = 1 + a · (1 − ω^γ) and P_down = 1 − b · ω^δ, with
/// a = b = 0.5, γ = 0.25 and δ = 4 in the paper. Before any sample ω is 1.
#[derive(Clone, Debug)]
pub struct Gamma {
    up: Curve,
    down: Curve,
    /// Length of the RTT_max filter; `None`: the whole connection.
    window: Option<Nanos>,
    rtt_max: Option<WindowedMax<Nanos>>,
}

impl Gamma {
    /// Reads the five parameters of this module, which the scheme declares.
    pub fn new(params: &Params) -> Self {
        let window = params.number(RTT_MAX_WINDOW.name);
        Self {
            up: Curve::new(params.number(UP_AMPLITUDE.name), params.number(UP_GAMMA.name)),
            down: Curve::new(params.number(DOWN_AMPLITUDE.name), params.number(DOWN_GAMMA.name)),
            window: (window > 0.0).then(|| Nanos::from_secs_f64(window)),
            rtt_max: None,
        }
    }

    /// Feeds an RTT sample.
    #[inline]
    pub fn observe(&mut self, now: Nanos, rtt: Nanos) {
        let window = self.window.unwrap_or(Nanos::MAX).as_nanos();
        match &mut self.rtt_max {
            // If samples never expire, a sample below the maximum cannot matter.
            Some(filter) if self.window.is_none() && rtt < filter.get() => {}
            Some(filter) => {
                filter.update(window, now.as_nanos(), rtt);
            }
            None => self.rtt_max = Some(WindowedMax::new(now.as_nanos(), rtt)),
        }
    }

    /// The maximum RTT so far, or within the window.
    #[inline]
    pub fn rtt_max(&self) -> Option<Nanos> {
        self.rtt_max.as_ref().map(WindowedMax::get)
    }

    /// ω = RTT / RTT_max (equation 10).
    #[inline]
    pub fn omega(&self, rtt: Nanos) -> f64 {
        match self.rtt_max() {
            Some(rtt_max) if rtt < rtt_max => rtt.as_nanos() as f64 / rtt_max.as_nanos() as f64,
            _ => 1.0,
        }
    }

    /// The probing gain (equation 12): from 1 + a at ω = 0 down to 1 at ω = 1.
    #[inline]
    pub fn up(&mut self, rtt: Nanos) -> f64 {
        let omega = self.omega(rtt);
        1.0 + self.up.amplitude - self.up.at(omega)
    }

    /// ω and RTT_max for traces.
    pub fn telemetry(&self, rtt: Nanos, sink: Telemetry<'_>) {
        sink("omega", Value::Number(self.omega(rtt)));
        sink("rtt_max", Value::Time(self.rtt_max().unwrap_or(Nanos::ZERO)));
    }

    /// The draining gain (equation 13): from 1 at ω = 0 down to 1 − b at ω = 1.
    #[inline]
    pub fn down(&mut self, rtt: Nanos) -> f64 {
        let omega = self.omega(rtt);
        1.0 - self.down.at(omega)
    }
}

/// A scheme that [`Corrected`] corrects.
pub trait GammaBase: Clone + core::fmt::Debug + Send + Sync + 'static {
    /// Static description of the corrected scheme. Its parameters are those of the generation without
    /// `up_gain` and `down_gain`, plus the five of this module.
    const INFO: Info;
    /// The BBR generation that the scheme is based on.
    const GENERATION: Generation;
}

/// The correction for BBR v2 and v3: it recomputes the gains of ProbeBW_UP and ProbeBW_DOWN at every ACK.
#[derive(Clone, Debug)]
pub struct Corrected<B> {
    gamma: Gamma,
    rtt: Nanos,
    gain: f64,
    /// Whether P_up is assigned only below 1 BDP.
    keep: bool,
    base: PhantomData<B>,
}

impl<B: GammaBase> Corrected<B> {
    /// Sets the gain for a state that begins or continues: P_up in ProbeBW_UP, P_down in ProbeBW_DOWN, otherwise 1.
    #[inline]
    fn enter(&mut self, state: State) {
        self.gain = match state {
            State::Up => self.gamma.up(self.rtt),
            State::Down => self.gamma.down(self.rtt),
            _ => 1.0,
        };
    }
}

impl<B: GammaBase> Policy for Corrected<B> {
    const INFO: Info = B::INFO;
    const GENERATION: Generation = B::GENERATION;

    fn new(setup: &Setup) -> Self {
        let keep = setup.params.word(BETWEEN.name) == "keep";
        Self { gamma: Gamma::new(&setup.params), rtt: Nanos::ZERO, gain: 1.0, keep, base: PhantomData }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        if let Some(rtt) = ack.rtt {
            self.rtt = rtt;
            self.gamma.observe(ack.now, rtt);
        }
        // Algorithm 1, phase 1, lines 4 and 5: P_up is assigned only below 1 BDP.
        if !(self.keep && model.state() == State::Up && ack.inflight >= model.bdp()) {
            self.enter(model.state());
        }
    }

    #[inline]
    fn on_transition(&mut self, to: State, _model: &Model) {
        if self.keep && to == State::Up {
            self.gain = 1.0; // no line of algorithm 1 assigns a gain here
        } else {
            self.enter(to);
        }
    }

    #[inline]
    fn up_gain(&self, _model: &Model) -> f64 {
        self.gain
    }

    #[inline]
    fn down_gain(&self, _model: &Model) -> f64 {
        self.gain
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        self.gamma.telemetry(self.rtt, sink);
    }
}
