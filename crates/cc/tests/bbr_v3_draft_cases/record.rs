//! A scheme that records its input and output.

use narrows_cc::schemes::Bbr3;
use narrows_cc::{
    Ack, Bytes, CongestionControl, Control, IdleRestart, Lost, Nanos, Rate, RecoveryEntered, RecoveryLeft, Scheme,
    Sent, SpuriousLoss, Telemetry, Timeout, Value,
};

use crate::flow::{self, MSS, Path, setup};

/// An event that the scheme receives.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Ack(Ack),
    Lost(Lost),
    RecoveryEntered,
    RecoveryLeft,
    Timeout,
    Spurious,
    Restart,
}

/// Telemetry in the draft's terms.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub state: &'static str,
    pub bw: Rate,
    pub max_bw: Rate,
    /// BBR.bw_shortterm; `None` if infinite, as for the next two fields.
    pub bw_short: Option<Rate>,
    pub inflight_short: Option<Bytes>,
    pub inflight_long: Option<Bytes>,
    pub min_rtt: Nanos,
    pub extra_acked: Bytes,
    pub pacing_gain: f64,
    pub cwnd_gain: f64,
    pub full_bw_count: f64,
    pub full_bw_now: bool,
    pub full_bw_reached: bool,
    pub idle_restart: bool,
    pub probe_too_high: bool,
    pub round: f64,
    pub probe_wait: Nanos,
}

impl Figures {
    pub fn of(scheme: &Bbr3) -> Self {
        let mut figures = Self { min_rtt: Nanos::MAX, ..Self::default() };
        scheme.telemetry(&mut |name, value| match (name, value) {
            ("state", Value::State(state)) => figures.state = state,
            ("bw_estimate", Value::Rate(rate)) => figures.bw = rate,
            ("max_bw", Value::Rate(rate)) => figures.max_bw = rate,
            ("bw_short", Value::Rate(rate)) => figures.bw_short = Some(rate),
            ("inflight_short", Value::Bytes(bytes)) => figures.inflight_short = Some(bytes),
            ("inflight_long", Value::Bytes(bytes)) => figures.inflight_long = Some(bytes),
            ("min_rtt", Value::Time(time)) => figures.min_rtt = time,
            ("extra_acked", Value::Bytes(bytes)) => figures.extra_acked = bytes,
            ("pacing_gain", Value::Number(gain)) => figures.pacing_gain = gain,
            ("cwnd_gain", Value::Number(gain)) => figures.cwnd_gain = gain,
            ("full_bw_count", Value::Number(count)) => figures.full_bw_count = count,
            ("full_bw_now", Value::Number(flag)) => figures.full_bw_now = flag != 0.0,
            ("full_bw_reached", Value::Number(flag)) => figures.full_bw_reached = flag != 0.0,
            ("idle_restart", Value::Number(flag)) => figures.idle_restart = flag != 0.0,
            ("probe_too_high", Value::Number(flag)) => figures.probe_too_high = flag != 0.0,
            ("round", Value::Number(round)) => figures.round = round,
            ("probe_wait", Value::Time(wait)) => figures.probe_wait = wait,
            _ => {}
        });
        figures
    }

    /// The estimated BDP, BBR.bdp.
    pub fn bdp(&self) -> Bytes {
        self.bw.over(self.min_rtt)
    }

    /// BBRInflight(1.0) outside PROBE_UP: the BDP, but at least the offload budget of three quanta and at least four
    /// segments.
    pub fn inflight_at_one(&self, control: &Control) -> Bytes {
        self.bdp().max(send_quantum(control) * 3).max(MSS * 4)
    }

    /// BBRInflightWithHeadroom(), `None` while inflight_longterm is infinite.
    pub fn inflight_with_headroom(&self) -> Option<Bytes> {
        self.inflight_long.map(|long| (long - long.mul_f64(0.15).max(MSS)).max(MSS * 4))
    }
}

/// BBR.send_quantum (section 5.6.3): the data of 1 ms at the pacing rate, in whole segments, at least two segments and
/// at most 64 kB.
pub fn send_quantum(control: &Control) -> Bytes {
    let bytes = control.pacing_rate.map_or(0, |rate| rate.over(Nanos::from_millis(1)).as_u64());
    MSS * (bytes.min(64 * 1024) / MSS.as_u64()).max(2)
}

/// An event, and the scheme's control and telemetry after the event.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub at: Nanos,
    pub event: Event,
    pub figures: Figures,
    pub control: Control,
}

impl Point {
    pub fn ack(&self) -> Option<&Ack> {
        if let Event::Ack(ack) = &self.event { Some(ack) } else { None }
    }

    pub fn lost(&self) -> Option<&Lost> {
        if let Event::Lost(lost) = &self.event { Some(lost) } else { None }
    }

    pub fn state(&self) -> &'static str {
        self.figures.state
    }
}

/// A scheme and its record.
#[derive(Clone, Debug)]
pub struct Recorder {
    scheme: Bbr3,
    pub trace: Vec<Point>,
}

impl Recorder {
    fn note(&mut self, at: Nanos, event: Event) {
        let (figures, control) = (Figures::of(&self.scheme), self.scheme.control());
        self.trace.push(Point { at, event, figures, control });
    }
}

impl CongestionControl for Recorder {
    fn on_sent(&mut self, event: &Sent) {
        self.scheme.on_sent(event);
    }
    fn on_ack(&mut self, event: &Ack) {
        self.scheme.on_ack(event);
        self.note(event.now, Event::Ack(*event));
    }
    fn on_lost(&mut self, event: &Lost) {
        self.scheme.on_lost(event);
        self.note(event.now, Event::Lost(*event));
    }
    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        self.scheme.on_recovery_entered(event);
        self.note(event.now, Event::RecoveryEntered);
    }
    fn on_recovery_left(&mut self, event: &RecoveryLeft) {
        self.scheme.on_recovery_left(event);
        self.note(event.now, Event::RecoveryLeft);
    }
    fn on_timeout(&mut self, event: &Timeout) {
        self.scheme.on_timeout(event);
        self.note(event.now, Event::Timeout);
    }
    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        self.scheme.on_spurious_loss(event);
        self.note(event.now, Event::Spurious);
    }
    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.scheme.on_idle_restart(event);
        self.note(event.now, Event::Restart);
    }
    fn control(&self) -> Control {
        self.scheme.control()
    }
    fn telemetry(&self, sink: Telemetry<'_>) {
        self.scheme.telemetry(sink);
    }
}

/// A recorded flow.
pub type Flow = flow::Flow<Recorder>;

/// A flow after its handshake.
pub fn start(path: Path, values: &[(&str, f64)]) -> Flow {
    Flow::over(
        Path { repairs: true, ..path },
        Recorder { scheme: Bbr3::new(&setup(&Bbr3::INFO, 1, values)), trace: Vec::new() },
    )
}

/// Parameter values that keep PROBE_RTT out of a test.
pub const NO_PROBE_RTT: &[(&str, f64)] = &[("probe_rtt_interval", 60.0)];

/// A flow in PROBE_CRUISE over a path of 40 ms, with an inflight_longterm that results from a buffer of half a BDP.
/// After that, the path's buffer is set to `buffer`.
pub fn bounded(mbit_per_sec: f64, buffer: Bytes) -> Flow {
    let mut path = Path::new(mbit_per_sec, 40);
    path.buffer = path.rate.over(path.rtt) / 2;
    let mut flow = start(path, NO_PROBE_RTT);
    assert!(flow.run_until(PATIENCE, |flow| {
        let figures = flow.last().figures;
        figures.inflight_long.is_some() && figures.state == "probe_bw_cruise"
    }));
    flow.path.buffer = buffer;
    flow
}

/// Longest time that any case needs to reach a state.
const PATIENCE: Nanos = Nanos::from_secs(60);

impl Flow {
    pub fn trace(&self) -> &[Point] {
        &self.cc.trace
    }

    /// The last point of the record.
    pub fn last(&self) -> &Point {
        self.cc.trace.last().expect("the handshake is recorded")
    }

    /// Runs until the state's name begins with `state`; returns the position of the first event in that state.
    #[track_caller]
    pub fn reach(&mut self, state: &str) -> usize {
        if !self.last().state().starts_with(state) {
            let found = self.run_until(self.now + PATIENCE, |flow| flow.last().state().starts_with(state));
            assert!(found, "{state} is never reached: {:?}", self.states());
        }
        self.trace().len() - 1
    }

    /// Runs until the state changes; returns the position of the first event in the new state.
    #[track_caller]
    pub fn leave(&mut self) -> usize {
        let state = self.last().state();
        let found = self.run_until(self.now + PATIENCE, |flow| flow.last().state() != state);
        assert!(found, "{state} is never left");
        // Several events may coincide; the change is at the first event with the new state.
        let back = self.trace().iter().rev().take_while(|point| point.state() != state).count();
        self.trace().len() - back
    }

    /// All states of the flow so far, each with the time of entry.
    pub fn states(&self) -> Vec<(&'static str, Nanos)> {
        let mut states: Vec<(&'static str, Nanos)> = Vec::new();
        for point in self.trace() {
            if states.last().is_none_or(|(state, _)| *state != point.state()) {
                states.push((point.state(), point.at));
            }
        }
        states
    }

    /// The names of the states since position `place`.
    pub fn states_since(&self, place: usize) -> Vec<&'static str> {
        let mut states: Vec<_> = self.trace()[place..].iter().map(Point::state).collect();
        states.dedup();
        states
    }

    /// Whether a loss occurred since position `place`.
    pub fn lost_since(&self, place: usize) -> bool {
        self.trace()[place..].iter().any(|point| point.lost().is_some())
    }
}

/// The draft's plateau detector (section 5.3.1.2): it counts rounds without growth by a quarter, each begun by an
/// acknowledgement that is not application-limited, and finds a plateau at three such rounds.
#[derive(Default)]
pub struct Plateau {
    baseline: f64,
    count: u32,
}

impl Plateau {
    pub fn from(baseline: Rate) -> Self {
        Self { baseline: baseline.as_bytes_per_sec() as f64, count: 0 }
    }

    /// Processes the first acknowledgement of a round; returns whether the plateau is found.
    pub fn round(&mut self, ack: &Ack) -> bool {
        let Some(sample) = ack.rate.filter(|sample| !sample.app_limited) else { return false };
        let rate = sample.rate.as_bytes_per_sec() as f64;
        if rate >= self.baseline * 1.25 {
            *self = Self { baseline: rate, count: 0 };
        } else {
            self.count += 1;
        }
        self.count >= 3
    }
}

/// Whether `measured` differs from `expected` by at most `tolerance` times `expected`.
pub fn near(measured: f64, expected: f64, tolerance: f64) -> bool {
    (measured / expected - 1.0).abs() <= tolerance
}

pub fn rate_near(measured: Rate, expected: Rate, tolerance: f64) -> bool {
    near(measured.as_mbit_per_sec(), expected.as_mbit_per_sec(), tolerance)
}
