//! Schemes in the simulator that record their events.

use std::cell::RefCell;
use std::fmt::Debug;

use narrows_cc::schemes::Entry;
use narrows_cc::{
    Ack, Bytes, CongestionControl, Control, IdleRestart, Info, Lost, Nanos, Params, Random, Rate, RateAdvice,
    RecoveryEntered, RecoveryLeft, Scheme, Setup, SpuriousLoss, Telemetry, Timeout, record,
};
use narrows_scenario::{NoFiles, Source, expand, resolve};

/// Segment size of drawn tapes.
pub const MSS: Bytes = Bytes::new(1_448);

/// An event of the contract.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Ack(Ack),
    Advice(RateAdvice),
    Lost(Lost),
    Entered(RecoveryEntered),
    Left(RecoveryLeft),
    Timeout(Timeout),
    Spurious(SpuriousLoss),
    Idle(IdleRestart),
}

impl Event {
    pub fn now(&self) -> Nanos {
        match self {
            Self::Ack(e) => e.now,
            Self::Advice(e) => e.now,
            Self::Lost(e) => e.now,
            Self::Entered(e) => e.now,
            Self::Left(e) => e.now,
            Self::Timeout(e) => e.now,
            Self::Spurious(e) => e.now,
            Self::Idle(e) => e.now,
        }
    }
}

/// The events of one connection.
#[derive(Clone, Debug)]
pub struct Tape {
    pub setup: Setup,
    pub events: Vec<Event>,
    /// Parameters of the program, if they are not the twin's.
    pub program_params: Option<Params>,
}

thread_local! {
    static TAPES: RefCell<Vec<Tape>> = const { RefCell::new(Vec::new()) };
}

/// A scheme that records its events.
#[derive(Clone, Debug)]
pub struct Recording<S> {
    inner: S,
    number: usize,
}

impl<S> Recording<S> {
    fn note(&self, event: Event) {
        TAPES.with_borrow_mut(|tapes| tapes[self.number].events.push(event));
    }
}

impl<S: Scheme> Scheme for Recording<S> {
    const INFO: Info = S::INFO;
    const RATE_PROTOCOL: Option<&'static str> = S::RATE_PROTOCOL;

    fn new(setup: &Setup) -> Self {
        let number = TAPES.with_borrow_mut(|tapes| {
            tapes.push(Tape { setup: setup.clone(), events: Vec::new(), program_params: None });
            tapes.len() - 1
        });
        Self { inner: S::new(setup), number }
    }
}

impl<S: Scheme> CongestionControl for Recording<S> {
    fn on_ack(&mut self, event: &Ack) {
        self.note(Event::Ack(*event));
        self.inner.on_ack(event);
    }
    fn on_rate_advice(&mut self, event: &RateAdvice) {
        self.note(Event::Advice(*event));
        self.inner.on_rate_advice(event);
    }
    fn on_lost(&mut self, event: &Lost) {
        self.note(Event::Lost(*event));
        self.inner.on_lost(event);
    }
    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        self.note(Event::Entered(*event));
        self.inner.on_recovery_entered(event);
    }
    fn on_recovery_left(&mut self, event: &RecoveryLeft) {
        self.note(Event::Left(*event));
        self.inner.on_recovery_left(event);
    }
    fn on_timeout(&mut self, event: &Timeout) {
        self.note(Event::Timeout(*event));
        self.inner.on_timeout(event);
    }
    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        self.note(Event::Spurious(*event));
        self.inner.on_spurious_loss(event);
    }
    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.note(Event::Idle(*event));
        self.inner.on_idle_restart(event);
    }
    fn line_rate(&self) -> Option<Rate> {
        self.inner.line_rate()
    }
    fn control(&self) -> Control {
        self.inner.control()
    }
    fn telemetry(&self, sink: Telemetry<'_>) {
        self.inner.telemetry(sink);
    }
}

/// The default parameters of a scheme, changed by those of `values` that the scheme has.
pub fn params(info: &Info, values: &[(&str, f64)]) -> Params {
    let mut params = Params::defaults(info.params);
    for (name, value) in values.iter().filter(|(name, _)| info.params.iter().any(|own| own.name == *name)) {
        params.set(name, *value).expect("in range");
    }
    params
}

/// Runs a scenario in which flows of the scheme record their events, with these parameters. Omits tapes of fewer than
/// two events.
pub fn recorded(entry: &'static Entry, scenario: &str, values: &[(&str, f64)]) -> Vec<Tape> {
    let planned = expand(&Source { name: "test", text: scenario, files: &NoFiles }, &[]).expect("valid");
    let mut plan = resolve(&planned[0].scenario, planned[0].seed, &NoFiles).expect("resolves");
    for flow in plan.flows.iter_mut().filter(|flow| flow.scheme.info.name == entry.info.name) {
        (flow.scheme, flow.params) = (entry, params(entry.info, values));
    }
    TAPES.take();
    narrows_sim::run(plan);
    TAPES.take().into_iter().filter(|tape| tape.events.len() > 1).collect()
}

/// A random number of fewer than `bits` bits; all lengths are equally likely.
pub fn size(draw: &mut Random, bits: u64) -> u64 {
    let length = draw.below(bits);
    draw.below(1 << length)
}

/// A loss with placeholders in all fields but the time, the total of losses and the data in flight.
pub fn lost(now: Nanos, lost_total: u64, inflight: Bytes) -> Event {
    Event::Lost(record!(Lost {
        now,
        bytes: MSS,
        packet: 0,
        sent_at: now,
        tx_in_flight: MSS,
        lost_at_send: Bytes::ZERO,
        delivered_at_send: Bytes::ZERO,
        app_limited: false,
        lost_total: MSS * lost_total,
        inflight,
    }))
}
